"""The text's first part: what stands still, and a row for each runner that is in trouble."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from ghapp.health.cluster.deletion import Deletion
from ghapp.health.cluster.obstacle import SENTENCES
from ghapp.health.fuse import Position
from ghapp.health.markdown import NOTHING, code, cut, heading, row
from ghapp.health.report.fleet import Fleet, Member, Pool
from ghapp.health.report.pools import paused_by, since
from ghapp.health.report.said import time_of
from ghapp.health.verdict import State

MOST_LABELS = 20

TOLD = (State.INVALIDATED, State.SUSPECT, State.OFFLINE)
"""Whoever is in one of these states has a row of its own; the worst first."""


def runners_text(fleet: Fleet, pools: Sequence[Pool], room: int) -> str:
    """Everyone in trouble, in at most `room` characters; below the fuses and pauses that hold something back."""
    stops = [_stop(pool) for pool in pools if pool.fuse.position is not Position.CLOSED]
    if fleet.org_pause is not None:
        stops.insert(0, f"- The whole organization is paused {paused_by(fleet.org_pause)}")
    before = cut(stops[0], stops[1:], len(stops) - 1, room // 2, "pools") + "\n\n" if stops else ""
    told = sorted(
        ((each, pool) for pool in pools for each in pool.members if each.verdict.state in TOLD),
        key=lambda found: _by_urgency(found[0]),
    )
    if not told:
        return before + "No runner is offline, suspect or invalidated."
    head = heading("Runner", "State", "Since", "Reason", "Pool", "Labels", "Replacement")
    rows = (_runner(each, pool, fleet) for each, pool in told)
    return before + cut(head, rows, len(told), room - len(before), "runners")


def _stop(pool: Pool) -> str:
    fuse = pool.fuse
    follows = {
        Position.PROVING: f"{fuse.batch} at a time are replaced, and twice as many once those are online",
        Position.STOPPED: "nothing more is replaced there until somebody resumes it",
    }[fuse.position]
    return f"- The fuse of {code(pool.name)} is **{fuse.position}** ({code(fuse.reason)}{since(fuse)}): {follows}."


def _by_urgency(member: Member) -> tuple[int, int, float, int]:
    """What is open first, then the worst, then the oldest."""
    evidence, verdict = member
    replaced = evidence.replaced_at is not None
    return (replaced, TOLD.index(verdict.state), verdict.since or 0.0, evidence.id)


def _runner(member: Member, pool: Pool, fleet: Fleet) -> str:
    evidence, verdict = member
    page = f"{fleet.web_url}/organizations/{quote(fleet.org, safe='')}/settings/actions/runners/{evidence.id}"
    labels = evidence.custom_labels or evidence.labels
    more = [f"and {len(labels) - MOST_LABELS} more"] if len(labels) > MOST_LABELS else []
    return row(
        f"[{code(evidence.name)}]({page})",
        verdict.state,
        NOTHING if verdict.since is None else time_of(verdict.since),
        verdict.reason,
        code(pool.name),
        " ".join([*map(code, labels[:MOST_LABELS]), *more]) or NOTHING,
        _replacement(member, pool),
    )


def _replacement(member: Member, pool: Pool) -> str:
    """How far its replacement is, or what it waits for."""
    evidence, verdict = member
    if evidence.replaced_at is not None:
        return f"accepted {time_of(evidence.replaced_at)}"
    if verdict.state is not State.INVALIDATED and evidence.granted_at is None:
        return NOTHING
    if pool.mode != "act":
        return f"none: remediation is {pool.mode}"
    if pool.pause is not None:
        return "waits: paused"
    if pool.fuse.position is Position.STOPPED:
        return "waits: fuse stopped"
    if evidence.deletion is not None and evidence.deletion.waits_for:
        return _waits(evidence.deletion)
    if evidence.granted_at is not None:
        return f"asked for {time_of(evidence.granted_at)}"
    return f"waits: fuse {pool.fuse.position}" if pool.fuse.position is Position.PROVING else "next"


def _waits(deletion: Deletion) -> str:
    """What is in the way in the cluster, and since when."""
    began = "" if deletion.waiting_since is None else f" since {time_of(deletion.waiting_since)}"
    said = SENTENCES.get(deletion.waits_for, "`ghapp explain` says more")
    return f"waits{began} ({code(deletion.waits_for)}): {said}"
