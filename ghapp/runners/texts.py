"""Renders the runners of "Runner health": the state, each pool, fuses, pauses, and each unhealthy runner. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from ghapp.installations.scope import runners_settings
from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.remediation.pause import Pause
from ghapp.remediation.plan import Mode
from ghapp.remediation.status import ReplacementBlocker, ReplacementStage, ReplacementStatus
from ghapp.report.check_run import LONGEST
from ghapp.report.check_run_state import REFRESH_SECONDS
from ghapp.report.documents import HEALED
from ghapp.report.fleet import FleetView, PoolView, RunnerView
from ghapp.report.headline import runners_page
from ghapp.report.loss_headlines import blocker_text
from ghapp.report.markdown import NOTHING, code, cut, heading, linked, prose, row
from ghapp.runners.evidence import Evidence, is_absent
from ghapp.runners.next_attempt import OVERDUE
from ghapp.runners.verdict import Reason, State
from ghapp.wording import are, counted, time_of

COUNTED = (State.HEALTHY, State.STARTING, State.OFFLINE, State.SUSPECT, State.INVALIDATED, State.UNKNOWN)
ALWAYS_COUNTED = (State.HEALTHY, State.INVALIDATED)
"""The others have a column while a runner is in that state, as on the page."""

LOST, HEALED_OF_DAY = "Lost", "Healed, 24 h"

MEANINGS = {
    State.STARTING: "Starting: registered moments ago, and not online yet.",
    State.OFFLINE: "Offline: registered, and listed by GitHub as offline for longer than `offline_seconds`; reported, "
    "and replaced only where the pool says so.",
    State.SUSPECT: "Suspect: missing from GitHub's list, and not confirmed as lost; not counted among the runners.",
    State.INVALIDATED: "Lost (`invalidated`): GitHub deleted the registration, a second 404 confirmed it, and no "
    "replacement runner is online yet.",
    State.UNKNOWN: "Unknown: no recent observation is reliable; nothing is done about it.",
}
"""What a column counts."""

HEALED_MEANING = "Healed: lost within 24 hours, and a replacement runner is online; no other column counts it."
FUSE_MEANING = (
    "Fuse: when too many runners of a pool are lost at once, it allows a few replacements, then more if those come "
    "online (proving), or none (stopped). Closed is normal."
)


def as_of(fleet: FleetView, now: float) -> str:
    """Renders the time, the list that the report is based on, and whether another attempt follows if there is none.

    The report is read later than it is written, when the time of an attempt that is due soon has passed.
    """
    swept_at, attempt = fleet.view.survey.swept_at, fleet.attempt
    source = "no complete list yet" if swept_at is None else f"complete list of {time_of(swept_at, now)}"
    due = ""
    if attempt.prevented_by and attempt.prevented_by != OVERDUE:
        due = " No next attempt is planned."
        if attempt.at is not None:
            not_before = f", not before {time_of(attempt.at, now)}" if attempt.at - now > REFRESH_SECONDS else ""
            due = f" GitHub is asked again until a list is complete{not_before}."
    unchanged = "This report is posted at once when something is wrong or right again; numbers every 10 minutes."
    return f"**As of {time_of(now)}** ({source}).{due} {unchanged}\n\n"


def summary_of(pools: Sequence[PoolView], now: float, before: str = "", room: int = LONGEST) -> str:
    """Renders a row for each pool as of `now`, below `before`, in at most `room` characters."""
    states = [each for each in COUNTED if each in ALWAYS_COUNTED or any(pool.count[each] for pool in pools)]
    has_healed, has_pauses = any(pool.healed for pool in pools), any(pool.pause is not None for pool in pools)
    names = [LOST if state is State.INVALIDATED else state.capitalize() for state in states]
    numbers = ["Runners", *names, *([HEALED_OF_DAY] if has_healed else [])]
    head = heading("Pool", *numbers, "Fuse", *(["Paused"] if has_pauses else []), numbers=numbers)
    rows = (
        row(
            code(pool.name),
            str(pool.total),
            *(str(pool.count[state]) for state in states),
            *([str(len(pool.healed))] if has_healed else []),
            _fuse_cell(pool, now),
            *([NOTHING if pool.pause is None else paused_by(pool.pause, now)] if has_pauses else []),
        )
        for pool in pools
    )
    meanings = [meaning for state in states if (meaning := MEANINGS.get(state))]
    legend = " ".join([*meanings, *([HEALED_MEANING] if has_healed else []), FUSE_MEANING])
    return cut(f"{before}{legend}\n\n{head}", rows, len(pools), room, "pools")


def _fuse_cell(pool: PoolView, now: float) -> str:
    fuse = pool.fuse
    if fuse.position is Position.CLOSED:
        return fuse.position
    return f"**{fuse.position}** ({'all pools' if pool.is_whole_fuse else fuse_history(fuse, now=now)})"


def fuse_history(fuse: Fuse, quote: Callable[[str], str] = code, now: float | None = None) -> str:
    """Renders when and why a fuse left `closed` or who resumed it, and the reason of its last change."""
    if fuse.reason is FuseReason.UNREADABLE:
        return f"{quote(fuse.reason)}: its record in Redis cannot be read"
    begun = "" if fuse.since is None else f" {time_of(fuse.since, now)}"
    first = fuse.tripped_for
    if not first and fuse.reason in (FuseReason.MASS_LOSS, FuseReason.LOSS_ON_WATCH):
        first = fuse.reason
    if fuse.by:
        first, history = FuseReason.RESUMED, f"resumed by {quote(fuse.by)}{begun}"
    else:
        history = f"tripped{begun}" + (f" for {quote(first)}" if first else "")
    return history if fuse.reason in (first, FuseReason.NONE) else f"{history}, then {quote(fuse.reason)}"


def paused_by(pause: Pause, now: float) -> str:
    """Renders who paused, since when, and until when. A headline has the reason."""
    until = "" if pause.until is None else f" until {time_of(pause.until, now)}"
    return f"by {code(pause.who)} {time_of(pause.at, now)}{until}"


MOST_LABELS = 20

LISTED_STATES = (State.INVALIDATED, State.SUSPECT, State.OFFLINE)
"""Runners in one of these states are listed; worst state first."""

MOST_ALIKE = 2
"""Rows that repeat one sentence about their replacement; of more, the sentence stands once above the table."""

MOST_OF_A_KIND, MOST_NAMED = 5, 3
"""Runners of one pool with the same state and status that have a row each; of more, the first ones that are named."""

MOST_SHARED = 5
"""Sentences above the table."""

MOST_HEALED = 20
"""Maximum rows of healed runners; the latest are shown."""

HEALED_CHARACTERS = 8_000
"""Maximum characters of those rows: the space is kept for open losses."""

NOTES = {Reason.HANGS_AFTER_JOB: "its registration is deleted and its job is over, but its container still runs"}
"""Explanations of reasons that a code alone does not explain."""


def runners_text(fleet: FleetView, pools: Sequence[PoolView], now: float, room: int) -> str:
    """Renders all unhealthy runners in at most `room` characters, below the fuses that hold back replacements."""
    fuses = [(pool, fleet.view.fuses.get(pool.name, Fuse())) for pool in pools]
    stops = [
        _stop(f"The fuse of {code(pool.name)}", fuse, fleet.view.mode, pool.pause, now)
        for pool, fuse in fuses
        if fuse.position is not Position.CLOSED
    ]
    if fleet.whole_fuse.position is not Position.CLOSED:
        stops.insert(0, _stop("The fuse of all pools", fleet.whole_fuse, fleet.view.mode, fleet.org_pause, now))
    before = cut(stops[0], stops[1:], len(stops) - 1, room // 2, "pools") + "\n\n" if stops else ""
    listed = sorted(
        ((each, pool) for pool in pools for each in pool.members if _is_listed(each, fleet, now)),
        key=lambda found: _by_urgency(found[0]),
    )
    if not listed:
        unknown = sum(pool.count[State.UNKNOWN] for pool in pools)
        if unknown:
            return f"{before}No runner is known to be offline or invalidated; {unknown:,} {are(unknown)} unknown."
        when = " in the last complete list" if fleet.view.survey.failing_since is not None else ""
        return f"{before}No runner is offline or invalidated{when}."
    groups = _alike(listed)
    shared = _shared_texts(each[0][0].replacement for each in groups if len(each) == 1)
    before += "".join(f"- {status.short}: {prose(status.text)}\n" for status in shared) + ("\n" if shared else "")
    head = heading("Runner", "State", "Since", "Reason", "Pool", "Labels", "Replacement")
    rows = (
        _runner(*each[0], fleet, shared, now)
        if len(each) == 1
        else _runners([member for member, _ in each], each[0][1], fleet, now)
        for each in groups
    )
    return before + cut(head, rows, len(groups), room - len(before), "rows of runners", fleet.links.below("runners"))


ListedRunner = tuple[RunnerView, PoolView]


def _alike(listed: Iterable[ListedRunner]) -> list[list[ListedRunner]]:
    """Returns the rows: the runners of a pool with the same state and status together if they are many, else alone."""
    kinds: dict[tuple[str, State, str], list[ListedRunner]] = {}
    for each, pool in listed:
        kinds.setdefault((pool.name, each.state, each.replacement.short), []).append((each, pool))
    rows: list[list[ListedRunner]] = []
    for several in kinds.values():
        rows += [several] if len(several) > MOST_OF_A_KIND else [[each] for each in several]
    return sorted(rows, key=lambda row: _by_urgency(row[0][0]))


def _shared_texts(statuses: Iterable[ReplacementStatus]) -> list[ReplacementStatus]:
    """Returns the statuses whose sentence many rows would repeat, the commonest first, without their times."""
    counts = Counter(each._replace(since=None) for each in statuses if _has_text(each))
    return [status for status, count in counts.most_common(MOST_SHARED) if count > MOST_ALIKE]


def _has_text(status: ReplacementStatus) -> bool:
    """True if the sentence of a status is shown with its runner: who paused, and why, is in a headline."""
    return status.stage is not ReplacementStage.NONE and status.blocked_by is not ReplacementBlocker.PAUSE


def _is_listed(member: RunnerView, fleet: FleetView, now: float) -> bool:
    """True if the runner has a row."""
    is_lasting = member.state in (State.INVALIDATED, State.OFFLINE)
    return is_lasting or member.is_lasting_suspect(now, fleet.view.limits)


def healed_text(fleet: FleetView, pools: Sequence[PoolView], now: float) -> str:
    """Renders the latest healed runners, and how many were written off, as of `now`; empty if there are none."""
    healed = [(each, pool) for pool in pools for each in pool.healed]
    parts = []
    if healed:
        healed.sort(key=lambda found: (-(found[0].evidence.healed_at or 0.0), found[0].evidence.id))
        runners = "runner was" if len(healed) == 1 else "runners were"
        head = f"### Healed: {len(healed)} {runners} lost within 24 hours, and a successor is online\n\n"
        head += heading("Runner", "Pool", "Reason", "Lost", "Successor online")
        page = fleet.links.below(f"runners?state={HEALED}")
        latest, earlier = healed[:MOST_HEALED], len(healed[MOST_HEALED:])
        table = cut(head, _healed_rows(latest, fleet, now), len(latest), HEALED_CHARACTERS, "runners", page)
        if earlier:
            healed_before = f"{counted(earlier, 'more runner')} healed before these"
            table += f"\n\n{linked(healed_before, page)}."
        parts.append(table)
    for pool in pools:
        if pool.unanswered:
            runners = "1 runner" if len(pool.unanswered) == 1 else f"{len(pool.unanswered)} runners"
            parts.append(
                f"- The replacement of {runners} of {code(pool.name)} was requested within 24 hours, and no successor "
                "came online within an hour."
            )
        if pool.written_off:
            count = len(pool.written_off)
            last = max(each.verdict.since or 0.0 for each in pool.written_off)
            lost, were = ("1 lost runner", "was") if count == 1 else (f"{count} lost runners", "were")
            parts.append(
                f"- {lost} of {code(pool.name)} {were} written off within 24 hours, the last {time_of(last, now)} "
                f"({code(Reason.NOT_NEEDED)}): the pool was stable without them, and no job waited for them."
            )
    return "\n\n".join(parts)


def _healed_rows(healed: Sequence[ListedRunner], fleet: FleetView, now: float) -> Iterator[str]:
    for (evidence, verdict, _), pool in healed:
        yield row(
            linked(code(evidence.name), fleet.links.runner(evidence.id)),
            code(pool.name),
            verdict.reason,
            NOTHING if verdict.since is None else time_of(verdict.since, now),
            NOTHING if evidence.healed_at is None else time_of(evidence.healed_at, now),
        )


def _stop(what: str, fuse: Fuse, mode: Mode, pause: Pause | None, now: float) -> str:
    if mode != "act":
        effect = f"nothing is replaced: remediation is {mode}"
    elif pause is not None:
        effect = "nothing is replaced while remediation is paused"
    elif fuse.position is Position.PROVING:
        effect = f"a batch of {fuse.batch} is replaced; the next one is twice as large as its successors online"
    elif fuse.reason is FuseReason.REQUEST_NOT_ACCEPTED:
        effect = "its requests are repeated, and it goes on when one is accepted"
    else:
        effect = "nothing more is replaced there until an admin resumes it"
        if fuse.reason is not FuseReason.UNREADABLE:
            effect += ", or until the pool is stable and no job waits for the lost runners"
    return f"- {what} is **{fuse.position}** ({fuse_history(fuse, now=now)}): {effect}."


def _by_urgency(member: RunnerView) -> tuple[int, int, float, int]:
    """Sort key: losses that wait first, then the worst state, then the oldest."""
    evidence, verdict, replacement = member
    is_requested = replacement.stage is ReplacementStage.REQUESTED
    return (is_requested, LISTED_STATES.index(member.state), verdict.since or 0.0, evidence.id)


def _name(member: RunnerView, fleet: FleetView) -> str:
    """Renders the runner's name, linked to its page; where that is not known, to GitHub's while it is registered."""
    evidence = member.evidence
    page = fleet.links.runner(evidence.id)
    if page is None and not is_absent(evidence) and evidence.removed_at is None:
        page = f"{fleet.web_url}/{runners_settings(fleet.login or fleet.org)}/{evidence.id}"
    return linked(code(evidence.name), page)


def _runner(
    member: RunnerView, pool: PoolView, fleet: FleetView, shared: Collection[ReplacementStatus], now: float
) -> str:
    verdict = member.verdict
    return row(
        _name(member, fleet),
        member.state,
        NOTHING if verdict.since is None else time_of(verdict.since, now),
        _reason(verdict.reason),
        code(pool.name),
        _labels(member.evidence),
        _replacement(member.replacement, shared, now),
    )


def _runners(alike: Sequence[RunnerView], pool: PoolView, fleet: FleetView, now: float) -> str:
    """Renders the row of many runners: how many, the first names, and where all of them are listed."""
    names = ", ".join(_name(each, fleet) for each in alike[:MOST_NAMED])
    everyone = linked(f"{len(alike):,} in all", fleet.links.below(runners_page(pool.name, alike[0].state)))
    statuses = [each.replacement for each in alike]
    since = _span([each.since for each in statuses], now)
    waits = NOTHING
    if statuses[0].stage is not ReplacementStage.NONE:
        text = blocker_text(statuses)
        of_each = ", each" if text.startswith("its ") else ""
        waits = f"{statuses[0].short}{since and f' since {since}'}"
        waits += f"{of_each}: {prose(text)}" if _has_text(statuses[0]) else ""
    return row(
        f"{names}, …; {everyone}",
        alike[0].state,
        _span([each.verdict.since for each in alike], now) or NOTHING,
        "; ".join(sorted({_reason(each.verdict.reason) for each in alike})),
        code(pool.name),
        _only({_labels(each.evidence) for each in alike}),
        waits,
    )


def _reason(reason: Reason) -> str:
    note = NOTES.get(reason)
    return reason if note is None else f"{reason}: {note}"


def _labels(evidence: Evidence) -> str:
    labels = evidence.custom_labels or evidence.labels
    more = [f"and {len(labels) - MOST_LABELS} more"] if len(labels) > MOST_LABELS else []
    return " ".join([*map(code, labels[:MOST_LABELS]), *more]) or NOTHING


def _only(texts: Collection[str]) -> str:
    """Returns what several runners share; where they differ, that they do."""
    return next(iter(texts)) if len(texts) == 1 else "different ones"


def _span(times: Iterable[float | None], now: float) -> str:
    """Returns from when to when something began for several runners; empty if that is not known."""
    known = [at for at in times if at is not None]
    ends = dict.fromkeys(time_of(at, now) for at in (min(known), max(known))) if known else ()
    return " to ".join(ends)


def _replacement(status: ReplacementStatus, shared: Collection[ReplacementStatus], now: float) -> str:
    """Renders how far the replacement of the runner is, and what it waits for, unless that stands above the table."""
    if status.stage is ReplacementStage.NONE:
        return NOTHING
    since = "" if status.since is None else f" since {time_of(status.since, now)}"
    if status._replace(since=None) in shared or not _has_text(status):
        return f"{status.short}{since}"
    return f"{status.stage}{since}: {prose(status.text)}"
