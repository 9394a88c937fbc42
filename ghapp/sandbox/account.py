"""What the sandbox saw its client do: the calls it made, what became of each lost runner, and what it did wrong.

All times are epoch seconds with fractions, so that a bench can subtract them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus

from ghapp.sandbox.fleet.runners import Runner


@dataclass(slots=True)
class Calls:
    """Calls of one kind.

    Attributes:
        counted: of them, against the rate limit.
        not_modified: answered 304.
        refused: answered with an error, injected ones too.
        unanswered: hung up on by a fault.
    """

    total: int = 0
    counted: int = 0
    not_modified: int = 0
    refused: int = 0
    unanswered: int = 0

    def add(self, status: int | None, *, counted: bool) -> None:
        """Counts one call by the status it was answered with."""
        self.total += 1
        self.counted += counted
        if status is None:
            self.unanswered += 1
        elif status == HTTPStatus.NOT_MODIFIED:
            self.not_modified += 1
        elif status >= HTTPStatus.BAD_REQUEST:
            self.refused += 1


@dataclass(slots=True)
class Loss:
    """A registration that was lost, and what was done about it.

    Attributes:
        delete_asked_at: first DELETE of it.
        replace_event_at: first replace event that the controller accepted.
        replacement_id: the runner that took its place, once that is online.
        ended_at: its process ended by itself, after the job it had.
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


@dataclass(frozen=True, slots=True)
class WrongfulRemoval:
    """A registered runner whose process worked was taken away: by `delete` on GitHub or by a `replace` event."""

    org: str
    runner_id: int
    name: str
    pool: str
    by: str
    at: float


@dataclass(slots=True)
class Account:
    """Everything since `since`.

    Attributes:
        asked: distinct replace events that the controller accepted, by `org/runner id`.
        repeated: events it had already accepted under the same id.
        rejected: events it refused or could not verify.
    """

    since: float
    calls: dict[str, Calls] = field(default_factory=dict)
    by_org: dict[str, Calls] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    wrongful_removals: list[WrongfulRemoval] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    rejected: int = 0
    _latest: dict[tuple[str, int], Loss] = field(default_factory=dict)

    def called(self, operation: str, org: str | None, status: int | None, *, counted: bool) -> None:
        """A call was made; `operation` is its method and path template."""
        self.calls.setdefault(operation, Calls()).add(status, counted=counted)
        if org is not None:
            self.by_org.setdefault(org, Calls()).add(status, counted=counted)

    def lost(self, org: str, runner: Runner, now: float) -> None:
        """A registration vanished."""
        loss = Loss(org, runner.id, runner.name, runner.pool, now)
        self.losses.append(loss)
        self._latest[org, runner.id] = loss

    def restored(self, org: str, runner: Runner, now: float) -> None:
        """It came back."""
        if loss := self._open_loss(org, runner.id):
            loss.restored_at = now

    def ended(self, org: str, runner: Runner, now: float) -> None:
        """A runner left after its job."""
        if loss := self._open_loss(org, runner.id):
            loss.ended_at = now

    def delete_asked(self, org: str, runner_id: int, now: float) -> None:
        """A DELETE came for this runner."""
        loss = self._open_loss(org, runner_id)
        if loss and loss.delete_asked_at is None:
            loss.delete_asked_at = now

    def replace_asked(self, org: str, runner_id: int, now: float) -> None:
        """The controller accepted an event that asks to replace this runner."""
        self.asked[f"{org}/{runner_id}"] += 1
        loss = self._open_loss(org, runner_id)
        if loss and loss.replace_event_at is None:
            loss.replace_event_at = now

    def replacement_online(self, org: str, replaced_id: int, runner: Runner, now: float) -> None:
        """The runner that replaces another is ready for work."""
        loss = self._open_loss(org, replaced_id)
        if loss and loss.replacement_id is None:
            loss.replacement_id, loss.replacement_online_at = runner.id, now

    def wrongly_removed(self, org: str, runner: Runner, by: str, now: float) -> None:
        """A runner that worked was taken away."""
        self.wrongful_removals.append(WrongfulRemoval(org, runner.id, runner.name, runner.pool, by, now))

    def _open_loss(self, org: str, runner_id: int) -> Loss | None:
        """The latest loss of this runner, unless it was undone."""
        loss = self._latest.get((org, runner_id))
        return loss if loss is not None and loss.restored_at is None else None
