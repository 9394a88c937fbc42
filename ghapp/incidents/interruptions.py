"""What held up the replacements of an incident from outside: pauses, and time without a complete list. Pure.

Losses and fuses are recorded with their incident; these are taken from the audit log and from the survey of the lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ghapp.incidents.incident import LossIncident
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.pause import Pause, PauseSpan
from ghapp.runners.evidence import Survey
from ghapp.wording import duration, time_of

PAUSE, RESUME = "pause", "resume"
"""Actions of the audit log."""


class PauseChange(NamedTuple):
    """A pause or a resumption of a pool, or of the whole organization (`*`), by a person or a token.

    `until`: when the pause ends by itself; None: never, or not known. `result`: as in the audit log, which has
    `extended` and `changed` for a pause that was there already. `before`: the end and the reason that this pause had.
    """

    at: float
    who: str
    action: str
    pool: str
    why: str = ""
    until: float | None = None
    result: str = ""
    before: str = ""


class _EndedPause(NamedTuple):
    """A pause that is over: the change that began it, and when it ended."""

    begun: PauseChange
    end: float
    ended_by_itself: bool


class Interruption(NamedTuple):
    """One entry of the time line. `kind` is `pause`, `resume`, `blind`, `sight` or `late`; `code` may be empty."""

    at: float
    kind: str
    text: str
    code: str = ""


def interruptions_of(
    incident: LossIncident,
    changes: Sequence[PauseChange],
    pauses: Mapping[str, Pause],
    survey: Survey,
    now: float,
) -> list[Interruption]:
    """Returns what held up the pools of an incident while it lasted, the oldest first.

    Args:
        incident: the incident.
        changes: from the audit log, in any order.
        pauses: those in effect now, by pool; `*` for the whole organization.
        survey: of the last lists.
        now: epoch seconds.
    """
    pools = {ALL_POOLS, *(each.pool for each in incident.losses)}
    began, until = incident.began, now if incident.ended is None else incident.ended
    found = [
        *(_change(each) for each in changes if each.pool in pools and began <= each.at <= until),
        *(_earlier(pool, each, began) for pool, each in pauses.items() if pool in pools and _held(incident, each)),
        *_over(changes, pools, began, until),
        *_blind(survey, began, until),
    ]
    return sorted(found)


def pause_spans(
    changes: Sequence[PauseChange], pauses: Mapping[str, Pause], since: float, now: float
) -> tuple[PauseSpan, ...]:
    """Returns the times in which remediation was paused, of those from `since` to `now`.

    Args:
        changes: from the audit log, in any order.
        pauses: those in effect now, by pool; `*` for the whole organization.
        since: epoch seconds.
        now: epoch seconds.
    """
    ended = [PauseSpan(each.begun.pool, each.begun.at, each.end) for each in _ended_pauses(changes, now)]
    lasting = [PauseSpan(pool, each.at, now) for pool, each in pauses.items()]
    return tuple(each._replace(begin=max(each.begin, since)) for each in (*ended, *lasting) if each.end > since)


def _held(incident: LossIncident, pause: Pause) -> bool:
    """True if a pause that is in effect began before an incident that is open: no change within it shows it."""
    return incident.ended is None and pause.at < incident.began


_OF_A_PAUSE = {  # by the result in the audit log
    "extended": "extended the pause of remediation",
    "changed": "changed the pause of remediation",
}


def _change(change: PauseChange) -> Interruption:
    where = _where(change.pool)
    if change.action != PAUSE:
        return Interruption(change.at, RESUME, f"{change.who} resumed remediation{where}")
    did = _OF_A_PAUSE.get(change.result, "paused remediation")
    until = "" if change.until is None else f" until {time_of(change.until, change.at)}"
    before = f" ({change.before})" if change.before else ""
    return Interruption(
        change.at, PAUSE, f"{change.who} {did}{where}{until}{_why(change)}{before}; nothing is replaced"
    )


def _why(pause: Pause | PauseChange) -> str:
    return f": {pause.why}" if pause.why else ""


def _over(changes: Sequence[PauseChange], pools: Collection[str], began: float, until: float) -> Iterator[Interruption]:
    """Yields what no change within the incident shows: that a pause was there already, and that it ended by itself."""
    for begun, end, ended_by_itself in _ended_pauses(changes, until):
        if begun.pool not in pools or not began <= end:
            continue
        if begun.at < began:
            yield _earlier(begun.pool, begun, began)
        if ended_by_itself:
            yield Interruption(end, RESUME, f"The pause of remediation{_where(begun.pool)} ended by itself")


def _ended_pauses(changes: Iterable[PauseChange], until: float) -> Iterator[_EndedPause]:
    """Yields the pauses that were over at `until`, in the order of their ends."""
    running = dict[str, tuple[PauseChange, float | None]]()  # by pool: what began it, and when it ends by itself
    for change in sorted(changes, key=lambda each: each.at):
        yield from _ended_by_themselves(running, min(change.at, until))
        if change.at > until:
            return
        if change.action == PAUSE:
            begun, _ = running.get(change.pool, (change, None))
            running[change.pool] = begun, change.until
        else:
            ended = [*running] if change.pool == ALL_POOLS else [change.pool]
            for pool in ended:
                if pool in running:
                    yield _EndedPause(running.pop(pool)[0], change.at, ended_by_itself=False)
    yield from _ended_by_themselves(running, until)


def _ended_by_themselves(running: dict[str, tuple[PauseChange, float | None]], until: float) -> Iterator[_EndedPause]:
    """Removes the pauses whose end came by then, and yields them, the earliest end first."""
    ends = sorted((end, pool) for pool, (_, end) in running.items() if end is not None and end <= until)
    for end, pool in ends:
        yield _EndedPause(running.pop(pool)[0], end, ended_by_itself=True)


def _earlier(pool: str, pause: Pause | PauseChange, began: float) -> Interruption:
    text = f"Remediation{_where(pool)} was paused already, by {pause.who}{_why(pause)}; nothing is replaced"
    return Interruption(began, PAUSE, text)


def _where(pool: str) -> str:
    return " of all pools" if pool == ALL_POOLS else f" of {pool}"


def _blind(survey: Survey, began: float, until: float) -> Iterator[Interruption]:
    """Yields the beginning and the end of each time without a complete list; the present one has no end.

    One that the incident found there has begun before it.
    """
    waits = "no complete list of runners could be read; nothing is confirmed, removed or replaced on old knowledge"
    for begin, end in survey.blind:
        if begin > until or end < began:
            continue
        yield Interruption(begin, "blind", f"From here {waits}")
        if end <= until:
            yield Interruption(end, "sight", "A complete list of runners was read again")
    for begin, end in survey.gaps:
        if begin <= until and end >= began:
            span = f"from {time_of(begin, end)} to {time_of(end, end)}, {duration(end - begin)}"
            yield Interruption(begin, "late", f"No complete list of runners {span}: the next sweep was late")
    if survey.blind_since is not None and survey.blind_since <= until:
        yield Interruption(survey.blind_since, "blind", f"Since then {waits}", survey.failure)
