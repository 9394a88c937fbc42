"""What the fleet's check run says. Pure: the same fleet at the same time gives the same report.

It tells times and no ages, so that it changes only when something happens: whoever posts it compares digests, and
asks GitHub for nothing while they are equal.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol
from urllib.parse import quote

from ghapp.health.document import timestamp
from ghapp.health.evidence import Evidence, Survey
from ghapp.health.fuse import Fuse, Position
from ghapp.health.markdown import NOTHING, code, cut, heading, row
from ghapp.health.plan import Mode
from ghapp.health.pools import PoolRule, pool_of
from ghapp.health.verdict import Limits, State, Verdict, judge

NAME = "Runner health"
"""The check run's name."""

LONGEST = 65_535
"""Characters that GitHub takes in a summary, and in a text."""

MOST_LABELS = 20
LONGEST_WHY = 200

COUNTED = (State.HEALTHY, State.STARTING, State.OFFLINE, State.SUSPECT, State.INVALIDATED, State.UNKNOWN)
TOLD = (State.INVALIDATED, State.SUSPECT, State.OFFLINE)
"""Whoever is in one of these states has a row of its own; the worst first."""


class Conclusion(StrEnum):
    """What GitHub shows beside the check run's name."""

    SUCCESS = "success"
    NEUTRAL = "neutral"
    ACTION_REQUIRED = "action_required"


class Action(NamedTuple):
    """A button: GitHub takes 20, 40 and 20 characters, and three buttons."""

    label: str
    description: str
    identifier: str


SWEEP = Action("Sweep now", "Look at every runner now", "sweep")
RESUME = Action("Resume", "End pauses; stopped fuses prove anew", "resume")


class Pause(Protocol):
    """A person stopped remediation."""

    @property
    def who(self) -> str:
        """The person."""

    @property
    def why(self) -> str:
        """In the person's own words."""

    @property
    def at(self) -> float:
        """Since when, in epoch seconds."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """An org, as far as it is known.

    Attributes:
        org: its login.
        web_url: of GitHub's pages, for links; without a slash at its end.
        runners: everyone's evidence. Those that were never registered with the org are not of the fleet.
        survey: how the last looks went.
        fuses: by pool; a pool that is not there has a closed one.
        pauses: by pool.
        org_pause: the whole org's.
        rules: the configured pools.
        mode: of `[remediation]`.
        limits: the `[evidence]` table.
    """

    org: str
    web_url: str
    runners: Iterable[Evidence]
    survey: Survey
    fuses: Mapping[str, Fuse] = field(default_factory=dict)
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    org_pause: Pause | None = None
    rules: Sequence[PoolRule] = ()
    mode: Mode = "act"
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Report:
    """What a check run says. `summary` and `text` are Markdown of at most `LONGEST` characters."""

    title: str
    summary: str
    text: str
    conclusion: Conclusion
    actions: tuple[Action, ...]

    @property
    def digest(self) -> str:
        """Differs when anything of it does."""
        said = json.dumps([self.title, self.summary, self.text, self.conclusion, self.actions])
        return hashlib.sha256(said.encode()).hexdigest()[:32]


class _Member(NamedTuple):
    evidence: Evidence
    verdict: Verdict

    @property
    def lost(self) -> bool:
        """Gone, and its replacement not accepted yet."""
        return self.verdict.state is State.INVALIDATED and self.evidence.replaced_at is None


@dataclass(frozen=True, slots=True)
class _Pool:
    name: str
    members: Sequence[_Member]
    fuse: Fuse
    pause: Pause | None
    mode: Mode
    count: Counter[State]

    @property
    def waits_for_a_person(self) -> bool:
        """Its fuse stopped; or somebody is lost, and a pause or the configuration holds the replacement back."""
        held = self.pause is not None or self.mode != "act"
        return self.fuse.position is Position.STOPPED or (held and any(each.lost for each in self.members))

    @property
    def is_well(self) -> bool:
        """Everyone works or is replaced, and nothing is held back."""
        fine = (State.HEALTHY, State.STARTING)
        everyone = all(each.verdict.state in fine or each.evidence.replaced_at is not None for each in self.members)
        return everyone and self.fuse.position is Position.CLOSED and self.pause is None


def report_on(fleet: Fleet, now: float) -> Report:
    """What is to be said of a fleet at `now` (epoch seconds)."""
    pools = _by_pool(fleet, now)
    stoppable = fleet.org_pause is not None or any(
        pool.pause is not None or pool.fuse.position is Position.STOPPED for pool in pools
    )
    return Report(
        title=_title(fleet, pools),
        summary=_summary(fleet, pools),
        text=_text(fleet, pools),
        conclusion=_conclusion(fleet, pools, now),
        actions=(SWEEP, RESUME) if stoppable else (SWEEP,),
    )


def _by_pool(fleet: Fleet, now: float) -> list[_Pool]:
    members: dict[str, list[_Member]] = {rule.name: [] for rule in fleet.rules}
    for pool in (*fleet.pauses, *(name for name, fuse in fleet.fuses.items() if fuse.position is not Position.CLOSED)):
        members.setdefault(pool, [])
    for evidence in fleet.runners:
        if not evidence.registered:
            continue
        verdict = judge(evidence, fleet.survey, now, fleet.limits)
        if verdict.state is not State.RETIRED:
            pool = pool_of(evidence.labels, evidence.custom_labels, fleet.rules)
            members.setdefault(pool, []).append(_Member(evidence, verdict))
    return [
        _Pool(
            name=name,
            members=members[name],
            fuse=fleet.fuses.get(name, Fuse()),
            pause=fleet.pauses.get(name, fleet.org_pause),
            mode=fleet.mode,
            count=Counter(each.verdict.state for each in members[name]),
        )
        for name in sorted(members)
    ]


def _conclusion(fleet: Fleet, pools: Sequence[_Pool], now: float) -> Conclusion:
    swept_at = fleet.survey.swept_at
    stale = swept_at is None or now - swept_at > fleet.limits.stale_seconds
    blind = stale and fleet.survey.failing_since is not None
    if blind or any(pool.waits_for_a_person for pool in pools):
        return Conclusion.ACTION_REQUIRED
    well = not stale and fleet.org_pause is None and all(pool.is_well for pool in pools)
    return Conclusion.SUCCESS if well else Conclusion.NEUTRAL


def _title(fleet: Fleet, pools: Sequence[_Pool]) -> str:
    if fleet.survey.swept_at is None:
        return "Not looked at yet" if fleet.survey.failing_since is None else "Nothing can be seen"
    count = sum((pool.count for pool in pools), Counter[State]())
    total = count.total()
    replaced = count[State.INVALIDATED] - sum(each.lost for pool in pools for each in pool.members)
    said = [f"{count[state]} {state}" for state in (*TOLD, State.UNKNOWN) if count[state]]
    if replaced:
        said[0] += f" ({replaced} replaced)"
    if not said and total:
        said = [f"{count[State.HEALTHY]} healthy"]
        said += [f"{count[State.STARTING]} starting"] if count[State.STARTING] else []
    runners = "runner" if total == 1 else "runners"
    first = said[0].replace(" ", f" of {total} {runners} ", 1) if said else "No runners"
    positions = {pool.fuse.position for pool in pools}
    turned = [f"fuse {each}" for each in (Position.STOPPED, Position.PROVING) if each in positions]
    paused = ["paused"] if any(pool.pause is not None for pool in pools) else []
    return ", ".join((first, *said[1:], *turned, *paused))


def _summary(fleet: Fleet, pools: Sequence[_Pool]) -> str:
    names = [state.capitalize() for state in COUNTED]
    head = heading("Pool", "Runners", *names, "Fuse", "Paused", numbers=("Runners", *names))
    rows = (
        row(
            code(pool.name),
            str(len(pool.members)),
            *(str(pool.count[state]) for state in COUNTED),
            _fuse_cell(pool.fuse),
            NOTHING if pool.pause is None else _paused_by(pool.pause),
        )
        for pool in pools
    )
    return cut(_what_keeps_us(fleet.survey) + head, rows, len(pools), LONGEST, "pools")


def _what_keeps_us(survey: Survey) -> str:
    """Why what follows may be old; empty while all is well."""
    if survey.failing_since is None:
        return ""
    seen = "Nothing was seen yet" if survey.swept_at is None else f"What follows was seen at {_time(survey.swept_at)}"
    return f"**No complete list of runners since {_time(survey.failing_since)}**: {code(survey.failure)}. {seen}.\n\n"


def _fuse_cell(fuse: Fuse) -> str:
    if fuse.position is Position.CLOSED:
        return fuse.position
    return f"**{fuse.position}** ({code(fuse.reason)}{_since(fuse)})"


def _since(fuse: Fuse) -> str:
    begun = "" if fuse.since is None else f" {_time(fuse.since)}"
    return f", resumed by {code(fuse.by)}{begun}" if fuse.by else f", tripped{begun}"


def _paused_by(pause: Pause) -> str:
    return f"by {code(pause.who)} {_time(pause.at)}: {code(pause.why, LONGEST_WHY)}"


def _text(fleet: Fleet, pools: Sequence[_Pool]) -> str:
    stops = [_stop(pool) for pool in pools if pool.fuse.position is not Position.CLOSED]
    if fleet.org_pause is not None:
        stops.insert(0, f"- The whole organization is paused {_paused_by(fleet.org_pause)}")
    before = cut(stops[0], stops[1:], len(stops) - 1, LONGEST // 2, "pools") + "\n\n" if stops else ""
    told = sorted(
        ((each, pool) for pool in pools for each in pool.members if each.verdict.state in TOLD),
        key=lambda found: _by_urgency(found[0]),
    )
    if not told:
        return before + "No runner is offline, suspect or invalidated."
    head = heading("Runner", "State", "Since", "Reason", "Pool", "Labels", "Replacement")
    rows = (_runner(each, pool, fleet) for each, pool in told)
    return before + cut(head, rows, len(told), LONGEST - len(before), "runners")


def _stop(pool: _Pool) -> str:
    fuse = pool.fuse
    follows = {
        Position.PROVING: f"{fuse.batch} at a time are replaced, and twice as many once those are online",
        Position.STOPPED: "nothing more is replaced there until somebody resumes it",
    }[fuse.position]
    return f"- The fuse of {code(pool.name)} is **{fuse.position}** ({code(fuse.reason)}{_since(fuse)}): {follows}."


def _by_urgency(member: _Member) -> tuple[int, int, float, int]:
    """What is open first, then the worst, then the oldest."""
    evidence, verdict = member
    replaced = evidence.replaced_at is not None
    return (replaced, TOLD.index(verdict.state), verdict.since or 0.0, evidence.id)


def _runner(member: _Member, pool: _Pool, fleet: Fleet) -> str:
    evidence, verdict = member
    page = f"{fleet.web_url}/organizations/{quote(fleet.org, safe='')}/settings/actions/runners/{evidence.id}"
    labels = evidence.custom_labels or evidence.labels
    more = [f"and {len(labels) - MOST_LABELS} more"] if len(labels) > MOST_LABELS else []
    return row(
        f"[{code(evidence.name)}]({page})",
        verdict.state,
        NOTHING if verdict.since is None else _time(verdict.since),
        verdict.reason,
        code(pool.name),
        " ".join([*map(code, labels[:MOST_LABELS]), *more]) or NOTHING,
        _replacement(member, pool),
    )


def _replacement(member: _Member, pool: _Pool) -> str:
    """How far its replacement is, or what it waits for."""
    evidence, verdict = member
    if evidence.replaced_at is not None:
        return f"accepted {_time(evidence.replaced_at)}"
    if verdict.state is not State.INVALIDATED and evidence.granted_at is None:
        return NOTHING
    if pool.mode != "act":
        return f"none: remediation is {pool.mode}"
    if pool.pause is not None:
        return "waits: paused"
    if pool.fuse.position is Position.STOPPED:
        return "waits: fuse stopped"
    if evidence.granted_at is not None:
        return f"asked for {_time(evidence.granted_at)}"
    return f"waits: fuse {pool.fuse.position}" if pool.fuse.position is Position.PROVING else "next"


def _time(at: float) -> str:
    return timestamp(float(int(at)))
