"""Records what the client did, for assertions: its calls, the fate of each lost runner, and mistakes.

The fleet is the truth, whatever GitHub answered. All times are epoch seconds with fractions, by the sandbox's clock
and not by GitHub's, so that they can be subtracted.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import msgspec

from ghapp.sandbox.deliveries import Deliveries
from ghapp.sandbox.fleet.runners import Runner

#: Points of calls in GitHub's secondary limit of points a minute.
READ_POINTS = 1
WRITE_POINTS = 5
MINUTE_SECONDS = 60


@dataclass(slots=True)
class CallCounts:
    """Calls of one kind.

    Attributes:
        counted: of them, against the rate limit.
        not_modified: answered 304.
        refused: answered with an error, injected ones too.
        unanswered: calls without a complete answer.
    """

    total: int = 0
    counted: int = 0
    not_modified: int = 0
    refused: int = 0
    unanswered: int = 0

    def add(self, status: int | None, *, counted: bool) -> None:
        """Counts one call by the status of its answer; None without an answer."""
        self.total += 1
        self.counted += counted
        if status is None:
            self.unanswered += 1
        elif status == HTTPStatus.NOT_MODIFIED:
            self.not_modified += 1
        elif status >= HTTPStatus.BAD_REQUEST:
            self.refused += 1


@dataclass(slots=True)
class Pressure:
    """The load that GitHub's secondary limits measure; they allow 100 in flight, and 900 points a minute.

    Attributes:
        most_in_flight: calls at the same time.
        most_points_a_minute: a read is 1 and a write 5.
    """

    most_in_flight: int = 0
    most_points_a_minute: int = 0
    _in_flight: int = 0
    _points: int = 0
    _minute: deque[tuple[float, int]] = field(default_factory=deque)

    def begin(self, method: str, now: float) -> None:
        """Counts the start of a call."""
        points = READ_POINTS if method in {"GET", "HEAD", "OPTIONS"} else WRITE_POINTS
        self._minute.append((now, points))
        self._points += points
        while self._minute[0][0] <= now - MINUTE_SECONDS:
            self._points -= self._minute.popleft()[1]
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        self.most_points_a_minute = max(self.most_points_a_minute, self._points)

    def end(self) -> None:
        """Counts its end."""
        self._in_flight -= 1


@dataclass(slots=True)
class Loss:
    """A lost registration, and what was done about it.

    Attributes:
        delete_asked_at: first DELETE of it.
        replace_event_at: first replace event that the controller accepted.
        replacement_id: the runner that replaced it, once that is online.
        ended_at: its process ended by itself, after its job.
    """

    org: str
    runner_id: int
    name: str
    pool: str
    lost_at: float
    delete_asked_at: float | None = None
    replace_event_at: float | None = None
    replacement_id: int | None = None
    replacement_online_at: float | None = None
    restored_at: float | None = None
    ended_at: float | None = None

    @property
    def unnoticed(self) -> bool:
        """True if nothing was done about it, and the runner has neither returned nor ended."""
        return not any((self.delete_asked_at, self.replace_event_at, self.restored_at, self.ended_at))

    @property
    def seconds_to_replace(self) -> float | None:
        """Returns the seconds from the loss to the replace event."""
        return None if self.replace_event_at is None else self.replace_event_at - self.lost_at


@dataclass(frozen=True, slots=True)
class WrongfulRemoval:
    """A working registered runner was removed: by `delete` on GitHub or by a `replace` event."""

    org: str
    runner_id: int
    name: str
    pool: str
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class WrongfulReplacement:
    """A replacement was requested while the runner was registered, whether it worked or not."""

    org: str
    runner_id: int
    at: float


@dataclass(slots=True)
class Ledger:
    """All records since `since`.

    Attributes:
        asked: distinct replace events that the controller accepted, by runner id.
        repeated: events it had already accepted with the same id.
        rejected: events it refused or could not verify.
    """

    since: float
    calls: dict[str, CallCounts] = field(default_factory=dict)
    by_org: dict[str, CallCounts] = field(default_factory=dict)
    pressure: dict[str, Pressure] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    wrongful_removals: list[WrongfulRemoval] = field(default_factory=list)
    wrongful_replacements: list[WrongfulReplacement] = field(default_factory=list)
    asked: Counter[int] = field(default_factory=Counter)
    repeated: int = 0
    rejected: int = 0
    _org_of: dict[int, str] = field(default_factory=dict)
    _latest: dict[int, Loss] = field(default_factory=dict)

    def called(self, operation: str, org: str | None, status: int | None, *, counted: bool) -> None:
        """Records a call; `operation` is its method and path template."""
        self.calls.setdefault(operation, CallCounts()).add(status, counted=counted)
        if org is not None:
            self.by_org.setdefault(org, CallCounts()).add(status, counted=counted)

    def pressed_by(self, org: str) -> Pressure:
        """Returns the load on one organization's installation."""
        return self.pressure.setdefault(org, Pressure())

    def lost(self, org: str, runner: Runner, now: float) -> None:
        """Records a lost registration."""
        loss = Loss(org, runner.id, runner.name, runner.pool, now)
        self.losses.append(loss)
        self._latest[runner.id] = loss

    def restored(self, runner_id: int, now: float) -> None:
        """Records that it returned."""
        if loss := self._open_loss(runner_id):
            loss.restored_at = now

    def ended(self, runner_id: int, now: float) -> None:
        """Records that a runner ended after its job."""
        if loss := self._open_loss(runner_id):
            loss.ended_at = now

    def delete_asked(self, runner_id: int, now: float) -> None:
        """Records a DELETE of this runner."""
        loss = self._open_loss(runner_id)
        if loss and loss.delete_asked_at is None:
            loss.delete_asked_at = now

    def replace_asked(self, org: str, runner_id: int, now: float, *, registered: bool) -> None:
        """Records an accepted event that requests to replace this runner, whether or not it is `registered`."""
        self.asked[runner_id] += 1
        self._org_of.setdefault(runner_id, org)
        if registered:
            self.wrongful_replacements.append(WrongfulReplacement(org, runner_id, now))
        loss = self._open_loss(runner_id)
        if loss and loss.replace_event_at is None:
            loss.replace_event_at = now

    def replacement_online(self, replaced_id: int, runner: Runner, now: float) -> None:
        """Records that the runner that replaces another is ready for work."""
        loss = self._open_loss(replaced_id)
        if loss and loss.replacement_id is None:
            loss.replacement_id, loss.replacement_online_at = runner.id, now

    def wrongly_removed(self, org: str, runner: Runner, by: str, now: float) -> None:
        """Records that a working runner was removed."""
        self.wrongful_removals.append(WrongfulRemoval(org, runner.id, runner.name, runner.pool, by, now))

    def doubled(self) -> dict[str, int]:
        """Returns runners with more than one replace event, as `org/id`, and their number."""
        return {f"{self._org_of[runner]}/{runner}": count for runner, count in self.asked.items() if count > 1}

    def _open_loss(self, runner_id: int) -> Loss | None:
        """Returns the latest loss of this runner, unless it was restored."""
        loss = self._latest.get(runner_id)
        return loss if loss is not None and loss.restored_at is None else None


def statement(ledger: Ledger, deliveries: Deliveries) -> dict[str, Any]:
    """Returns everything since the last reset; times in epoch seconds, by the sandbox's clock.

    `since`
        When it began.
    `calls`, by method and path template, and `by_org`
        Each `{"total", "counted", "not_modified", "refused", "unanswered"}`.
    `pressure`, by organization
        `{"most_in_flight", "most_points_a_minute"}`, which GitHub's secondary limits measure.
    `losses`
        Each lost registration and what was done about it, with `seconds_to_replace` from the loss to its replace event.
    `unnoticed`
        `org/id` of losses about which nothing was done, and whose runners have neither returned nor ended.
    `wrongful_removals`
        Working runners that were removed, by DELETE or by a replace event.
    `wrongful_replacements`
        Replace events for runners whose registration existed.
    `replacements`
        `{"asked", "repeated", "rejected", "doubled": {"org/id": how often}}`.
    `deliveries`
        `{"sent", "failed", "waiting", "dropped", "undelivered", "by_event"}`: attempts that succeeded or failed; not
        yet made; deliveries discarded without a log entry; GUIDs in the log without a successful attempt.
    """
    sent, failed = deliveries.sent, deliveries.failed
    return {
        "since": ledger.since,
        "calls": {operation: msgspec.to_builtins(calls) for operation, calls in ledger.calls.items()},
        "by_org": {org: msgspec.to_builtins(calls) for org, calls in ledger.by_org.items()},
        "pressure": {
            org: {"most_in_flight": each.most_in_flight, "most_points_a_minute": each.most_points_a_minute}
            for org, each in ledger.pressure.items()
        },
        "losses": [_loss(loss) for loss in ledger.losses],
        "unnoticed": [f"{loss.org}/{loss.runner_id}" for loss in ledger.losses if loss.unnoticed],
        "wrongful_removals": msgspec.to_builtins(ledger.wrongful_removals),
        "wrongful_replacements": msgspec.to_builtins(ledger.wrongful_replacements),
        "replacements": {
            "asked": ledger.asked.total(),
            "repeated": ledger.repeated,
            "rejected": ledger.rejected,
            "doubled": ledger.doubled(),
        },
        "deliveries": {
            "sent": sent.total(),
            "failed": failed.total(),
            "waiting": deliveries.waiting,
            "dropped": deliveries.dropped,
            "undelivered": deliveries.undelivered(),
            "by_event": {event: {"sent": sent[event], "failed": failed[event]} for event in sent | failed},
        },
    }


def _loss(loss: Loss) -> dict[str, Any]:
    return {**msgspec.to_builtins(loss), "seconds_to_replace": loss.seconds_to_replace}
