"""The processes of ghapp itself: roles, queues, the inbox, and deliveries that were given up. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ghapp.deliveries.store import DeadLetter
from ghapp.queue.jobs import SILENT_SECONDS, Load
from ghapp.store.audit import AuditEntry
from ghapp.store.presses import FAILED, JOINED
from ghapp.web.pages.views.wording import Moment, moment
from ghapp.wording import counted, time_of

MOST_LETTERS = 50
LONG_INBOX = 10_000


class RoleLine(NamedTuple):
    """A role: how many processes are alive, whether that is enough, and what to do if not."""

    name: str
    alive: int
    good: bool
    note: str


class QueueLine(NamedTuple):
    """A queue of jobs, and how many wait there."""

    name: str
    waiting: int


class LetterLine(NamedTuple):
    """A delivery that was given up. `id` is the stream's."""

    id: str
    guid: str
    event: str
    why: str
    at: Moment | None


class AuditLine(NamedTuple):
    """One change. `address` is empty for a visitor who does not manage the organization.

    `clock`: its time of day, with the date on another day. `more`: the rest of a long result; else empty. `has_failed`:
    the result is why its work failed.
    """

    at: Moment | None
    who: str
    channel: str
    text: str
    why: str
    result: str
    address: str
    clock: str
    more: str = ""
    has_failed: bool = False

    @property
    def key(self) -> str:
        """Identifies what a visitor unfolded, when the page is refreshed."""
        return f"result-{self.at.iso if self.at else ''}"


class SystemPageView(NamedTuple):
    """The page's content. `letters` are None for a visitor who does not manage all organizations."""

    good: bool
    sentence: str
    roles: tuple[RoleLine, ...]
    queues: tuple[QueueLine, ...]
    failed: int
    lag: int
    dead: int
    letters: tuple[LetterLine, ...] | None
    more_letters: int
    entries: tuple[AuditLine, ...]


def system_page(
    load: Load,
    clocks: int,
    watches: int | None,
    lag: int,
    dead: int,
    letters: Sequence[DeadLetter] | None,
    entries: Sequence[AuditEntry],
    now: float,
) -> SystemPageView:
    """Returns the page.

    Args:
        load: live workers, and jobs by queue.
        clocks: number of live schedulers.
        watches: number of live pod watches; None without a cluster.
        lag: deliveries that wait in the inbox.
        dead: number of deliveries that were given up.
        letters: these, oldest first; None if the visitor may not see them.
        entries: the audit log of what concerns all organizations, latest first.
        now: epoch seconds.
    """
    roles = [
        _workers(load),
        _role("clock", clocks, "No clock is alive, so no sweep starts: start `ghapp clock`."),
    ]
    if watches is not None:
        roles.append(_role("watch", watches, "No watch is alive: start `ghapp watch`."))
    shown = None if letters is None else [*reversed(letters)][:MOST_LETTERS]
    missing = [role.name for role in roles if not role.good]
    return SystemPageView(
        good=not missing and lag <= LONG_INBOX and not dead,
        sentence=_sentence(missing, lag, dead),
        roles=tuple(roles),
        queues=tuple(QueueLine(name, count) for name, count in load.waiting.items()),
        failed=load.failed,
        lag=lag,
        dead=dead,
        letters=None if shown is None else tuple(_letter(each, now) for each in shown),
        more_letters=0 if letters is None else max(0, len(letters) - MOST_LETTERS),
        entries=audit_lines(entries, now, has_addresses=True),
    )


def audit_lines(entries: Sequence[AuditEntry], now: float, *, has_addresses: bool) -> tuple[AuditLine, ...]:
    """Returns entries of an audit log, for pages; the clients' addresses are for managers alone."""
    lines = []
    for each in entries:
        joined = JOINED if each.result.startswith(JOINED) else ""
        has_failed = each.result.removeprefix(joined).startswith(FAILED)
        result, more = _result(each._replace(result=each.result.replace(FAILED, "", 1)) if has_failed else each)
        address = each.address if has_addresses else ""
        at, clock = moment(each.at, now), time_of(each.at, now)
        lines.append(
            AuditLine(at, each.who, each.channel, each.change, each.why, result, address, clock, more, has_failed)
        )
    return tuple(lines)


_LOSSES = re.compile(r"(?P<result>.*\b[0-9,]+ runners? remains? lost): (?P<more>.+)")
"""The result of a sweep: with how many runners remain lost, and what happens next (`RemainingLosses.in_words`)."""

LONGEST_RESULT = 120
"""Characters of a result that is shown as a whole: of a longer one its first part is, and the first one of its detail:
what a resume ended, with the reason of the pause."""


def _result(entry: AuditEntry) -> tuple[str, str]:
    """Returns the result in words, and what is folded away."""
    whole = entry.outcome
    if not entry.detail and (losses := _LOSSES.fullmatch(whole)) is not None:
        return losses["result"], losses["more"]
    if len(whole) <= LONGEST_RESULT:
        return whole, ""
    end = whole.find("; ", len(whole) - len(entry.detail) if entry.detail else 0)
    return (whole, "") if end < 0 else (whole[:end], whole[end + len("; ") :])


def _workers(load: Load) -> RoleLine:
    """Returns the line of the workers. One that hangs is no reason to worry while another one is alive."""
    silent = f"{counted(load.silent, 'worker')} sent no heartbeat for {SILENT_SECONDS} s: hung or killed."
    if load.workers:
        return RoleLine("worker", load.workers, True, silent if load.silent else "")
    return _role("worker", 0, f"No worker is alive: start `ghapp worker`.{f' {silent}' if load.silent else ''}")


def _role(name: str, alive: int, note: str) -> RoleLine:
    return RoleLine(name, alive, alive > 0, "" if alive else note)


def _sentence(missing: Sequence[str], lag: int, dead: int) -> str:
    if missing:
        return f"No {' and no '.join(missing)} is alive."
    if lag > LONG_INBOX:
        return f"{counted(lag, 'delivery', 'deliveries')} wait in the inbox."
    if dead:
        return f"All roles are alive; {counted(dead, 'delivery was', 'deliveries were')} given up."
    return "All roles are alive."


def _letter(letter: DeadLetter, now: float) -> LetterLine:
    return LetterLine(letter.id, letter.guid, letter.event, letter.why, moment(letter.at, now))
