"""The text's second part: what nobody sees, what is counted as a runner and is none, leaks, and how runners died.

Counted and named, each with what to do; a name that comes or goes is news, an age that grows is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ghapp.health.cluster_summary import MOST_DEATHS, DeathSummary, StaleNamespace
from ghapp.health.deaths.cause import Cause, advice_for
from ghapp.health.leaks.reaper_status import ReaperStatus
from ghapp.health.leaks.tick import Guard
from ghapp.health.pods.degraded_sources import DegradedSource
from ghapp.health.pods.phantom_kinds import ADVICE, Phantom, PhantomReason
from ghapp.health.remediation.plan import Mode
from ghapp.health.runner.evidence import Evidence
from ghapp.health.runner.verdict import is_absent
from ghapp.report.check_run import time_of
from ghapp.report.fleet import FleetView
from ghapp.report.markdown import code, cut, heading, row

MOST_NAMES = 10
"""Named in one row; of the others it is said how many there are."""

EXACT_BELOW = 10
"""Pods; from then on a count is rough."""

FUSE_GUARDS = (Guard.MASS_LEAK, Guard.FUSE_NOT_CLOSED)

MOST_CHARACTERS = 12_000
"""Of each table: runners in trouble keep more than half of a report's room."""


def cluster_text(fleet: FleetView) -> str:
    """Everything of the cluster side; empty where there is nothing to say."""
    blind = "\n".join(each for each in (_unseen(fleet.unseen), _hindrances(fleet.hindrances)) if each)
    parts = (blind, _phantoms(fleet), _leaks(fleet.leaks), _deaths(fleet.deaths))
    return "\n\n".join(part for part in parts if part)


def _unseen(namespaces: Sequence[StaleNamespace]) -> str:
    said = [
        f"- Namespace {code(each.namespace)} of the cluster was "
        + ("never seen" if each.seen_at is None else f"last seen at {time_of(each.seen_at)}")
        + ": see that `ghapp watch` runs, and what `ghapp doctor` says."
        for each in namespaces
    ]
    return cut(said[0], said[1:], len(said) - 1, MOST_CHARACTERS, "namespaces") if said else ""


def _hindrances(found: Sequence[DegradedSource]) -> str:
    said = [f"- Not seen: {each.place}. {code(each.why)}" for each in found]
    return cut(said[0], said[1:], len(said) - 1, MOST_CHARACTERS, "places") if said else ""


def _phantoms(fleet: FleetView) -> str:
    found = fleet.phantoms
    if not found:
        return ""
    reasons = [reason for reason in PhantomReason if any(each.reason is reason for each in found)]
    absent = {each.name: each for each in fleet.runners if is_absent(each)}
    head = "### Phantoms: counted as runners, and none\n\n"
    head += heading("Kind", "Reason", "How many", "Which", "Replacement", "What to do", numbers=("How many",))
    rows = (_phantom_row([each for each in found if each.reason is reason], absent, fleet.mode) for reason in reasons)
    return cut(head, rows, len(reasons), MOST_CHARACTERS, "kinds")


def _phantom_row(alike: Sequence[Phantom], absent: Mapping[str, Evidence], mode: Mode) -> str:
    kind, reason = alike[0].kind, alike[0].reason
    places = sorted({f"{each.namespace}/{each.subject}" if each.namespace else each.subject for each in alike})
    done = Counter(_replacement_of(absent.get(each.subject), mode) for each in alike)
    replacement = next(iter(done)) if len(done) == 1 else ", ".join(f"{done[each]} {each}" for each in sorted(done))
    return row(kind, reason, str(len(alike)), _named(places), replacement, ADVICE[reason])


def _replacement_of(lost: Evidence | None, mode: Mode) -> str:
    """How far ghapp is with the replacement of the runner that a phantom was; None: ghapp knows no lost runner."""
    if lost is None:
        return "none"
    if lost.replaced_at is not None:
        return "accepted"
    if lost.confirmed_at is None:
        return "not confirmed as lost"
    if mode != "act":
        return f"none: remediation is {mode}"
    if lost.deletion is not None and lost.deletion.waits_for:
        return f"waits ({code(lost.deletion.waits_for)})"
    return "asked for" if lost.granted_at is not None else "next"


def _leaks(standing: ReaperStatus) -> str:
    said = [f"- {each}" for each in _said_of_leaks(standing)]
    return "\n".join(["### Leaks: stamped pods that are nobody's", "", *said]) if said else ""


def _said_of_leaks(standing: ReaperStatus) -> Iterator[str]:
    """A sentence for each thing that is not zero."""
    if standing.reaped:
        yield f"{_pods(standing.reaped, 'was', 'were')} reaped in the last 24 hours."
    if standing.deferred:
        yield f"{_pods(standing.deferred, 'waits', 'wait')}: no more than `per_tick` of `[leaks]` go in a minute."
    if standing.held:
        many = _pods(standing.held, "is a leak and is", "are leaks and are")
        yield f"{many} kept by the fuse: so many at once may be a mistake.{_examples(standing, FUSE_GUARDS)}"
    if unnamed := standing.kept.get(Guard.UNNAMED, 0):
        many = _pods(
            unnamed,
            "runs and is claimed by nobody; the name of its runner is",
            "run and are claimed by nobody; the names of their runners are",
        )
        yield f"{many} not known, so that nothing is reaped.{_examples(standing, (Guard.UNNAMED,))}"
    if waiting := standing.kept.get(Guard.NEVER_STARTED, 0):
        many = _pods(waiting, "waits to be started", "wait to be started")
        yield f"{many}: for a node, a volume or an image.{_examples(standing, (Guard.NEVER_STARTED,))}"
    if busy := standing.kept.get(Guard.BUSY_WHEN_LAST_SEEN, 0):
        many = _pods(
            busy,
            "runs a runner that was busy when GitHub last showed it",
            "run runners that were busy when GitHub last showed them",
        )
        yield f"{many}; the end of its job is not known.{_examples(standing, (Guard.BUSY_WHEN_LAST_SEEN,))}"
    if standing.told:
        yield f"{_pods(standing.told, 'is', 'are')} kept, for `[leaks]` is in dry-run, or a person paused the org."
    if standing.strangers:
        said = _pods(standing.strangers, "bears the owner label and was", "bear the owner label and were")
        yield f"{said} never a runner's: they are kept. `owner_label` of `[leaks]` means something else there."
    if standing.held_up_since is not None:
        yield f"Since {time_of(standing.held_up_since)} none could be reaped: `ghapp doctor` says why."


def _examples(standing: ReaperStatus, guards: Sequence[Guard]) -> str:
    """The oldest of them, and since when it is there: a time that stands still."""
    oldest = sorted((each for guard in guards for each in standing.examples.get(guard, ())), key=lambda each: each[1])
    return f" The oldest: {code(oldest[0][0])}, created at {time_of(oldest[0][1])}." if oldest else ""


def _pods(count: int, one: str, several: str) -> str:
    return f"{rough(count)} {f'pod {one}' if count == 1 else f'pods {several}'}"


def rough(count: int) -> str:
    """Exact as long as it is small, and then the last of 10, 20, 50, 100, … that it has reached: so it stands still."""
    if count < EXACT_BELOW:
        return str(count)
    power = 10 ** (len(str(count)) - 1)
    return f"At least {next(step * power for step in (5, 2, 1) if step * power <= count):,}"


def _deaths(deaths: Sequence[DeathSummary]) -> str:
    if not deaths:
        return ""
    by_cause: dict[Cause, list[DeathSummary]] = {}
    for each in deaths:
        by_cause.setdefault(each.cause, []).append(each)
    most_first = sorted(by_cause.values(), key=lambda alike: (-len(alike), alike[0].cause))
    head = "### Deaths of the last 24 hours\n\n"
    if len(deaths) >= MOST_DEATHS:
        head += f"The last {MOST_DEATHS:,} of them.\n\n"
    head += heading("Cause", "How many", "The latest", "What to do", numbers=("How many",))
    return cut(head, map(_death_row, most_first), len(most_first), MOST_CHARACTERS, "causes")


def _death_row(alike: Sequence[DeathSummary]) -> str:
    """Of one cause, the latest first. What to do may depend on why: it is that of the latest."""
    latest = alike[0]
    names = list(dict.fromkeys(each.runner_name for each in alike))
    return row(code(latest.cause), str(len(alike)), _named(names), advice_for(latest.cause, latest.reason))


def _named(names: Sequence[str]) -> str:
    return ", ".join([*map(code, names[:MOST_NAMES]), *_others(names)])


def _others(names: Sequence[str]) -> Iterable[str]:
    if len(names) > MOST_NAMES:
        yield f"and {len(names) - MOST_NAMES} more"
