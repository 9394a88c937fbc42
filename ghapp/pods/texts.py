"""Renders the cluster part of the text: stale namespaces, unreadable sources, phantoms, leaks and deaths.

Items are counted and named, each with what to do. A report changes when a name comes or goes, not when an age grows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ghapp.deaths.cause import Cause
from ghapp.deaths.cluster_summary import MOST_DEATHS, StaleNamespace
from ghapp.deaths.patterns import DeathPattern, DeathSummary, PatternKind
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.leaks.reaper_status import ReaperStatus
from ghapp.leaks.tick import Guard
from ghapp.pods.degraded_sources import DegradedSource
from ghapp.pods.phantom_kinds import ADVICE, Phantom, PhantomReason, command_of
from ghapp.remediation.status import ReplacementStage
from ghapp.report.fleet import FleetView
from ghapp.report.links import PageLinks
from ghapp.report.markdown import code, cut, heading, linked, row
from ghapp.runners.evidence import Evidence, is_absent
from ghapp.wording import time_of

MOST_NAMES = 10
"""Maximum names in one row; the others are counted."""

EXACT_BELOW = 10
"""Pods; from this number on, counts are rounded."""

FUSE_GUARDS = (Guard.MASS_LEAK, Guard.FUSE_NOT_CLOSED, Guard.REAPER_STOPPED)

MOST_CHARACTERS = 12_000
"""Maximum characters of each table: unhealthy runners keep more than half of the report's space."""

LEAKS_HEADING = "### Leaks: pods with the owner label that no runner uses and no controller claims"


def cluster_text(fleet: FleetView, now: float) -> str:
    """Renders the whole cluster part; empty if there is nothing to report."""
    stale = "\n".join(each for each in (_stale(fleet.unseen, now), _degraded(fleet.degraded_sources)) if each)
    parts = (
        stale,
        _phantoms(fleet, now),
        _leaks(fleet, now),
        _deaths(fleet.deaths, fleet.links),
        _patterns(fleet),
    )
    return "\n\n".join(part for part in parts if part)


def _stale(namespaces: Sequence[StaleNamespace], now: float) -> str:
    lines = [
        f"- Namespace {code(each.namespace)} of the cluster was "
        + ("never read" if each.seen_at is None else f"last read at {time_of(each.seen_at, now)}")
        + ": check that `ghapp watch` runs, and run `ghapp doctor`."
        for each in namespaces
    ]
    return cut(lines[0], lines[1:], len(lines) - 1, MOST_CHARACTERS, "namespaces") if lines else ""


def _degraded(sources: Sequence[DegradedSource]) -> str:
    lines = [f"- Not seen: {each.place}. {code(each.why)}" for each in sources]
    return cut(lines[0], lines[1:], len(lines) - 1, MOST_CHARACTERS, "places") if lines else ""


def _phantoms(fleet: FleetView, now: float) -> str:
    found = fleet.phantoms
    if not found:
        return ""
    reasons = [reason for reason in PhantomReason if any(each.reason is reason for each in found)]
    absent = {each.name: each for each in fleet.runners if is_absent(each)}
    head = "### Phantoms: counted as runners, but unable to run jobs\n\n"
    head += heading("Kind", "Reason", "Count", "Names", "Replacement", "What to do", numbers=("Count",))
    rows = (_phantom_row([each for each in found if each.reason is reason], absent, fleet, now) for reason in reasons)
    return cut(head, rows, len(reasons), MOST_CHARACTERS, "kinds")


def _phantom_row(alike: Sequence[Phantom], absent: Mapping[str, Evidence], fleet: FleetView, now: float) -> str:
    kind, reason = alike[0].kind, alike[0].reason
    subjects = {each.subject for each in alike}
    runners = {each.name: each.id for each in fleet.runners if each.name in subjects}
    places = {
        f"{each.namespace}/{each.subject}" if each.namespace else each.subject: (
            fleet.links.runner(runners[each.subject]) if each.subject in runners else None
        )
        for each in sorted(alike, key=lambda each: (each.namespace, each.subject))
    }
    done = Counter(_replacement_of(absent.get(each.subject), fleet, now) for each in alike)
    replacement = next(iter(done)) if len(done) == 1 else ", ".join(f"{done[each]} {each}" for each in sorted(done))
    detail = next((each.detail for each in sorted(alike) if each.detail), "")
    shown = f"{reason}: {code(detail)}" if detail else reason
    command = command_of(min(alike, key=lambda each: (each.namespace, each.subject)))
    step = f"{ADVICE[reason]} {code(command)}" if command else ADVICE[reason]
    return row(kind, shown, str(len(alike)), _named(places), replacement, step)


def _replacement_of(evidence: Evidence | None, fleet: FleetView, now: float) -> str:
    """Returns how far the replacement of the runner behind a phantom is; "none" if no lost runner has its name."""
    if evidence is None:
        return ReplacementStage.NONE
    return fleet.view.replacement(evidence, now).short


def _leaks(fleet: FleetView, now: float) -> str:
    lines = [f"- {each}" for each in _leak_sentences(fleet.leaks, fleet.org_pause is not None, now)]
    return "\n".join([LEAKS_HEADING, "", *lines]) if lines else ""


def _leak_sentences(status: ReaperStatus, is_paused: bool, now: float) -> Iterator[str]:
    """Yields a sentence for each count that is not zero."""
    if status.reaped:
        yield f"{_pods(status.reaped, 'was', 'were')} reaped in the last 24 hours."
    if status.deferred:
        yield f"{_pods(status.deferred, 'is', 'are')} deferred: `[leaks] per_tick` limits deletions per minute."
    if status.held:
        many = _pods(status.held, "is a leak and is", "are leaks and are")
        yield f"{many} kept by the fuse: so many at once may be a mistake.{_oldest(status, now, FUSE_GUARDS)}"
    for pool, (reason, pod) in status.stops.items():
        where = "" if pool == ALL_POOLS else f" in {code(pool)}" if pool else " in an unknown pool"
        deleted = f" ({code(pod)} was in use when it was deleted)" if pod else ""
        yield f"The reaper is stopped{where}: {code(reason)}{deleted}. Find out why, then `ghapp resume`."
    if unnamed := status.kept.get(Guard.UNNAMED, 0):
        many = _pods(unnamed, "runs without a claim and is", "run without a claim and are")
        why = "GitHub never listed a runner of that name, so it may work under another"
        yield f"{many} kept: {why}.{_oldest(status, now, (Guard.UNNAMED,))}"
    if waiting := status.kept.get(Guard.NEVER_STARTED, 0):
        many = _pods(waiting, "has not started: it waits", "have not started: they wait")
        yield f"{many} for a node, a volume or an image.{_oldest(status, now, (Guard.NEVER_STARTED,))}"
    if busy := status.kept.get(Guard.BUSY_WHEN_LAST_SEEN, 0):
        many = _pods(busy, "is kept: its runner was", "are kept: their runners were")
        oldest = _oldest(status, now, (Guard.BUSY_WHEN_LAST_SEEN,))
        yield f"{many} busy when last listed, and the end of the job is unknown.{oldest}"
    if hanging := status.kept.get(Guard.SESSION_AFTER_JOB, 0):
        many = _pods(hanging, "is kept: its runner's", "are kept: their runners'")
        oldest = _oldest(status, now, (Guard.SESSION_AFTER_JOB,))
        yield f"{many} only job is over, and GitHub lists the runner online or busy.{oldest}"
    if status.would_reap:
        many = _pods(status.would_reap, "is", "are")
        yield f"{many} kept, because {'remediation is paused' if is_paused else '`[leaks]` is in dry-run'}."
    if status.never_runners:
        many = _pods(status.never_runners, "has the owner label and was", "have the owner label and were")
        yield f"{many} never a runner's, so kept: another program seems to use `owner_label` of `[leaks]`."
    if status.held_up_since is not None:
        yield f"Since {time_of(status.held_up_since, now)} no pod could be reaped: for the cause run `ghapp doctor`."


def _oldest(status: ReaperStatus, now: float, guards: Sequence[Guard]) -> str:
    """Names the oldest pod and its creation time, which stays constant while an age would change the report."""
    found = sorted((each for guard in guards for each in status.examples.get(guard, ())), key=lambda each: each[1])
    return f" The oldest: {code(found[0][0])}, created at {time_of(found[0][1], now)}." if found else ""


def _pods(count: int, one: str, several: str) -> str:
    return f"{rough(count)} {f'pod {one}' if count == 1 else f'pods {several}'}"


def rough(count: int) -> str:
    """Formats a count: exact below 10, then rounded down to 10, 20, 50, 100, … so that small changes do not show."""
    if count < EXACT_BELOW:
        return str(count)
    power = 10 ** (len(str(count)) - 1)
    return f"At least {next(step * power for step in (5, 2, 1) if step * power <= count):,}"


def _deaths(deaths: Sequence[DeathSummary], links: PageLinks) -> str:
    if not deaths:
        return ""
    alike: dict[tuple[Cause, str], list[DeathSummary]] = {}
    for each in deaths:
        alike.setdefault((each.cause, each.advice_now), []).append(each)
    most_first = sorted(alike.items(), key=lambda item: (-len(item[1]), item[0]))
    head = "### Deaths of the last 24 hours\n\n"
    if len(deaths) >= MOST_DEATHS:
        head += f"The last {MOST_DEATHS:,} of them.\n\n"
    head += heading("Cause", "Count", "Latest", "What to do", numbers=("Count",))
    rows = (_death_row(advice, found, links) for (_, advice), found in most_first)
    return cut(head, rows, len(most_first), MOST_CHARACTERS, "rows")


def _patterns(fleet: FleetView) -> str:
    """Renders what deaths have in common, a line each, without ages: a report changes when a number does."""
    lines = [f"- {pattern_text(each, code(each.value))}" for each in fleet.death_patterns]
    return "\n".join(["### What deaths have in common", "", *lines]) if lines else ""


def pattern_text(pattern: DeathPattern, value: str) -> str:
    """Returns a pattern as a sentence; `value`: its node, pool or image as it is to be shown."""
    when, which = {
        PatternKind.NODE: ("within seven days", f"on node {value}"),
        PatternKind.POOL: (f"since {time_of(pattern.since)}", f"of pool {value}"),
        PatternKind.IMAGE: ("within 24 hours", f"with the image {value}"),
    }[pattern.kind]
    if pattern.alone:
        return f"All {pattern.deaths} deaths {when} are {which}."
    return f"{pattern.deaths} deaths {which} {when}."


def _death_row(advice: str, alike: Sequence[DeathSummary], links: PageLinks) -> str:
    """Renders the deaths of one cause and one advice, the latest first."""
    names = {each.runner_name: links.death(each.runner_name) for each in alike}
    return row(code(alike[0].cause), str(len(alike)), _named(names), advice)


def _named(pages: Mapping[str, str | None]) -> str:
    """Renders the first names, each linked to its page where that is known, and how many others there are."""
    names = [linked(code(name), page) for name, page in pages.items()]
    return ", ".join(names[:MOST_NAMES] + ([f"and {len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []))
