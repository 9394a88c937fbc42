"""What answers about runners say instead of the truth.

The list is made in three steps, each of all views that are at work: what is listed at all, how it is shown, and how
many there are said to be. The fleet itself knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from ghapp.sandbox.documents.accounts import Document
from ghapp.sandbox.faults.faults import Fault
from ghapp.sandbox.faults.history import History


class RunnerFaults(Fault):
    """An untruth about runners; what a subclass leaves alone stays true."""

    def recalled(self, now: float) -> Sequence[Document] | None:
        """A whole list in place of the present one; None leaves that."""
        del now
        return None

    def listed(self, runners: Sequence[Document]) -> Sequence[Document]:
        """The list, with fewer runners, in another order, or with other words about them."""
        return runners

    def counted(self, total: int) -> int:
        """What `total_count` says of a list that is so long."""
        return total

    def found(self, runner_id: int, runner: Document | None, now: float) -> Document | None:
        """What the GET of one runner answers; None is 404."""
        del runner_id, now
        return runner

    def served(self, page: int, size: int) -> None:
        """A page of the list, of so many runners at most, was sent."""


@dataclass(slots=True)
class Unlisted(RunnerFaults):
    """Runners that the list leaves out while they are there.

    Attributes:
        hides: tells by the id which.
        counted_all: `total_count` counts them all the same.
        everywhere: GET and DELETE do not find them either.
    """

    hides: Callable[[int], bool]
    counted_all: bool
    everywhere: bool
    _left_out: int = 0

    def listed(self, runners: Sequence[Document]) -> Sequence[Document]:
        """The list without them."""
        shown = [runner for runner in runners if not self.hides(runner["id"])]
        self._left_out = len(runners) - len(shown)
        return shown

    def counted(self, total: int) -> int:
        """With or without them."""
        return total + self._left_out if self.counted_all else total

    def found(self, runner_id: int, runner: Document | None, now: float) -> Document | None:
        """The truth, unless they are hidden everywhere."""
        del now
        return None if self.everywhere and self.hides(runner_id) else runner


@dataclass(frozen=True, slots=True)
class Miscounted(RunnerFaults):
    """A `total_count` that is off `by` so many; never below 0."""

    by: int

    def counted(self, total: int) -> int:
        """Off."""
        return max(0, total + self.by)


@dataclass(frozen=True, slots=True)
class Misreported(RunnerFaults):
    """Runners shown with other values than theirs, such as `busy`; `ids` None is all of them."""

    ids: Collection[int] | None
    values: dict[str, Any]

    def listed(self, runners: Sequence[Document]) -> Sequence[Document]:
        """The list, with those values."""
        return [self._told(runner) for runner in runners]

    def found(self, runner_id: int, runner: Document | None, now: float) -> Document | None:
        """The runner, with those values."""
        del runner_id, now
        return None if runner is None else self._told(runner)

    def _told(self, runner: Document) -> Document:
        return runner | self.values if self.ids is None or runner["id"] in self.ids else runner


@dataclass(frozen=True, slots=True)
class Stale(RunnerFaults):
    """A list that shows the fleet as it was `age` seconds ago; GET tells the truth."""

    history: History
    age: float

    def note(self, now: float) -> None:
        """Remembers."""
        self.history.note(now)

    def recalled(self, now: float) -> Sequence[Document] | None:
        """The list of then."""
        self.history.note(now)
        return list(self.history.as_of(now - self.age).values())


@dataclass(frozen=True, slots=True)
class Lingering(RunnerFaults):
    """Registrations that GET still finds for `lag` seconds after they are gone, as they were last."""

    history: History
    lag: float

    def note(self, now: float) -> None:
        """Remembers."""
        self.history.note(now)

    def found(self, runner_id: int, runner: Document | None, now: float) -> Document | None:
        """The runner, or what is remembered of it."""
        self.history.note(now)
        return runner or self.history.last_shown(runner_id, now - self.lag)


@dataclass(slots=True)
class Slipping(RunnerFaults):
    """A fleet that changes, in truth, each time that a certain page of its list was served.

    Attributes:
        change: gets how many runners the pages up to this one hold; answers the ids that are listed first from then on.
        times: how often; None is always.
    """

    page: int
    change: Callable[[int], Sequence[int]]
    times: int | None
    _first: list[int] = field(default_factory=list)

    def listed(self, runners: Sequence[Document]) -> Sequence[Document]:
        """The list, the newcomers first."""
        ahead = set(self._first)
        return sorted(runners, key=lambda runner: runner["id"] not in ahead) if ahead else runners

    def served(self, page: int, size: int) -> None:
        """Makes the change after its page."""
        if page == self.page and (self.times is None or self.times > 0):
            self._first += self.change(page * size)
            self.times = None if self.times is None else self.times - 1
