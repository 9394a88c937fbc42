"""Records the fate of each lost runner, and the mistakes of the client.

The fleet is the truth, whatever GitHub answered. All times are epoch seconds with fractions, by the sandbox's clock
and not by GitHub's, so that they can be subtracted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ghapp.sandbox.fleet.runners import Runner
from ghapp.sandbox.ledger.calls import CallCounts, Pressure


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
