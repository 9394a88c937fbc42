"""The JSON documents of the API and of events: a runner's health, a death, an orphaned pod. Pure.

A health document has a runner's state, its evidence, and whether a controller should act. The same document is the
API's response and the `data` of every event about a runner. Times are RFC 3339 in UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ghapp.health.deaths.death import Death
from ghapp.health.leaks.orphan import Orphan
from ghapp.health.pods.blockers import SENTENCES
from ghapp.health.pods.pod_claim import PodClaim
from ghapp.health.pool_matching import rule_named, runner_pool
from ghapp.health.remediation.fuse import Position
from ghapp.health.runner.deletion_progress import Deletion, outcome
from ghapp.health.runner.evidence import Evidence, Survey, observed_at
from ghapp.health.runner.verdict import State, Verdict
from ghapp.health.shards import ShardRule, shard_of

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PoolBrakes:
    """The position of a pool's fuse, and whether the pool is paused."""

    fuse: Position = Position.CLOSED
    paused: bool = False


def timestamp(at: float) -> str:
    """Formats epoch seconds as RFC 3339 in UTC, to the millisecond; whole seconds have no fraction."""
    text = datetime.fromtimestamp(round(at, 3), UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z").replace(".000Z", "Z")


def health_document(
    org: str,
    evidence: Evidence,
    verdict: Verdict,
    survey: Survey,
    brakes: PoolBrakes,
    rules: Sequence[ShardRule],
    now: float,
    claim: PodClaim | None = None,
) -> Document:
    """Returns the document of a known runner as of `now`; `claim` is its live pod claim, if there is one."""
    pool = runner_pool(evidence, rules)
    rule = rule_named(pool, rules)
    observed = verdict.observed_at
    return {
        "org": org,
        "runner_id": evidence.id,
        "name": evidence.name,
        "pool": pool,
        "shard": shard_of(evidence, rule),
        "state": verdict.state.value,
        "reason": verdict.reason.value,
        "since": None if verdict.since is None else timestamp(verdict.since),
        "replace": should_replace(evidence, verdict, brakes, claim),
        "healed": is_healed(evidence, verdict),
        "observed_at": None if observed is None else timestamp(observed),
        "age_seconds": None if observed is None else round(max(0.0, now - observed), 1),
        "stale": verdict.stale,
        "fuse": brakes.fuse.value,
        "paused": brakes.paused,
        "evidence": [
            {"at": timestamp(at), "source": source, "said": said}
            for at, source, said in history(evidence, survey, claim)
        ],
    }


def never_seen(org: str, runner_id: int | None, name: str | None) -> Document:
    """Returns the document of an unknown runner."""
    return {
        "org": org,
        "runner_id": runner_id,
        "name": name,
        "pool": None,
        "shard": None,
        "state": "unknown",
        "reason": "NeverObserved",
        "since": None,
        "replace": False,
        "healed": False,
        "observed_at": None,
        "age_seconds": None,
        "stale": True,
        "fuse": "closed",
        "paused": False,
        "evidence": [],
    }


def death_document(death: Death) -> dict[str, Any]:
    """Returns a death as the contract has it. The conclusion of a job that has not concluded is null."""
    job = None if death.job is None else {**death.job._asdict(), "conclusion": death.job.conclusion or None}
    return {
        "runner_name": death.runner_name,
        "pod": death.pod,
        "node": death.node,
        "at": timestamp(death.at),
        "exit_code": death.exit_code,
        "signal": death.signal,
        "reason": death.reason,
        "cause": death.cause.value,
        "advice": death.advice,
        "job": job,
        "runner_log": list(death.runner_log),
        "host_log": list(death.host_log),
    }


def orphan_document(org: str, found: Orphan) -> dict[str, Any]:
    """Returns the data of `ghapp.pod.orphaned.v1`. Times are RFC 3339 in UTC."""
    return {
        "org": org,
        "namespace": found.namespace,
        "pod": found.pod,
        "pod_uid": found.uid,
        "node": found.node or None,
        "runner_name": found.runner_name,
        "pool": found.pool or None,
        "at": timestamp(found.found_at),
        "unclaimed_since": timestamp(found.unclaimed_since),
        "evidence": [{"at": timestamp(at), "source": source, "said": said} for at, source, said in found.evidence],
    }


def is_healed(evidence: Evidence, verdict: Verdict) -> bool:
    """True if the runner was lost and the request for its replacement was accepted."""
    return verdict.state is State.INVALIDATED and evidence.replaced_at is not None


def should_replace(evidence: Evidence, verdict: Verdict, brakes: PoolBrakes, claim: PodClaim | None = None) -> bool:
    """True if a controller should act now.

    The runner is lost, its replacement is granted and not accepted yet, the verdict is fresh, and neither a pause, a
    stopped fuse nor a pod claim prevents the replacement.
    """
    lost = verdict.state is State.INVALIDATED or evidence.removed_at is not None
    open_grant = evidence.granted_at is not None and evidence.replaced_at is None
    blocked = brakes.paused or brakes.fuse is Position.STOPPED or claim is not None
    return lost and open_grant and not verdict.stale and not blocked


def history(evidence: Evidence, survey: Survey, claim: PodClaim | None = None) -> list[tuple[float, str, str]]:
    """Returns the evidence in order of time: (epoch seconds, source, statement)."""
    facts: list[tuple[float | None, str, str]] = [
        (evidence.first_seen, "list" if evidence.registered else "delivery", "first seen"),
        (evidence.job_started_at, "delivery", f"took job {evidence.job_id}"),
        (evidence.job_ended_at, "delivery", f"ended job {evidence.job_id}"),
        (evidence.offline_since, "list", "offline"),
        (evidence.absent_since, "list", f"absent from a complete list of {evidence.absent_of}"),
        (evidence.missing_at, "get", "404"),
        (evidence.confirmed_at, "get", "404 again, and a complete control list without it"),
        (evidence.back_at, "list", "registered again after an absence"),
        (evidence.retired_at, "claim", "removed on purpose by its controller"),
        (evidence.granted_at, "claim", "remediation granted"),
        (None if _is_left_to_arc(evidence) else evidence.removed_at, "claim", "registration removed"),
        (evidence.replaced_at, "claim", "replacement accepted"),
    ]
    facts += _in_cluster(evidence.deletion or Deletion())
    if evidence.listed:
        state = "busy" if evidence.busy else "online" if evidence.online else "offline"
        facts.append((observed_at(evidence, survey), "list", f"{state} in a complete list of {survey.total}"))
    if claim is not None:
        facts.append((claim.claimed_at, "claim", _claimed(claim)))
    return sorted((at, source, said) for at, source, said in facts if at is not None)


def _is_left_to_arc(evidence: Evidence) -> bool:
    return evidence.deletion is not None and evidence.deletion.left_to_arc


def _in_cluster(deletion: Deletion) -> list[tuple[float | None, str, str]]:
    """Returns what was found in the cluster, and what was done there."""
    deleted = "ARC's object" if deletion.left_to_arc else "the pod"
    waits = SENTENCES.get(deletion.waits_for, "")
    return [
        (deletion.found_at, "pod", f"found {deletion.found}"),
        (deletion.accepted_at, "pod", outcome(deletion)),
        (deletion.freed_at, "pod", "its finalizer was removed: it was stuck waiting for GitHub"),
        (deletion.over_at if deletion.over_at != deletion.accepted_at else None, "pod", f"{deleted} is deleted"),
        (deletion.waiting_since, "pod", f"waits ({deletion.waits_for}): {waits}"),
    ]


def _claimed(claim: PodClaim) -> str:
    job = "" if claim.job_id is None else f" with job {claim.job_id}"
    return f"its controller claims that pod {claim.pod} is busy{job} until {timestamp(claim.expires_at)}"
