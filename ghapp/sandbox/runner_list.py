"""The runners of a place as GitHub shows them: the pages of their list, and false answers about them.

A false list is built in three steps, each by all active faults: which runners are listed, how they are shown, and the
stated total. The fleet itself is not affected.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from ghapp.sandbox.documents import Document, runner_document
from ghapp.sandbox.faults import Fault, Faults
from ghapp.sandbox.fleet.life import FleetLife
from ghapp.sandbox.fleet.runners import Roster, Runner


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """A page as JSON with its digest, and the number of runners on all pages."""

    body: bytes
    digest: str
    total: int

    @classmethod
    def of(cls, runners: Sequence[Document], total: int, stated_total: int) -> DocumentPage:
        """Returns the page with these of `total` runners, and with `stated_total` as the total."""
        body = msgspec.json.encode({"total_count": stated_total, "runners": runners})
        return cls(body, hashlib.sha256(body).hexdigest(), total)


class RunnerListPages:
    """Renders a roster's list, in the order of ids."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._version = -1
        self._ordered: list[Runner] = []
        self._pages: dict[tuple[str, int, int], DocumentPage] = {}
        self._documents: list[Document] = []

    def page(self, name: str, number: int, size: int) -> DocumentPage:
        """Returns a page; `name` filters exactly."""
        self._keep_up()
        key = (name, number, size)
        if key not in self._pages:
            self._pages[key] = self._render(name, number, size)
        return self._pages[key]

    def documents(self) -> list[Document]:
        """Returns all runners."""
        self._keep_up()
        if not self._documents:
            self._documents = [runner_document(runner) for runner in self._ordered]
        return self._documents

    def _keep_up(self) -> None:
        if self._version != self._roster.version:
            self._version = self._roster.version
            self._ordered = [runner for _, runner in sorted(self._roster.registered.items())]
            self._pages.clear()
            self._documents = []

    def _render(self, name: str, number: int, size: int) -> DocumentPage:
        found = [r for r in self._ordered if r.name == name] if name else self._ordered
        shown = [runner_document(runner) for runner in found[(number - 1) * size : number * size]]
        return DocumentPage.of(shown, len(found), len(found))


Shown = Mapping[int, Document]


class History:
    """A roster as it was shown in the last `horizon` seconds, and as it is; starts when it is created.

    Runners that have not changed share their document between moments.
    """

    def __init__(self, roster: Roster, horizon: float, now: float) -> None:
        self._roster = roster
        self._horizon = horizon
        self._version = -1
        self._moments: deque[tuple[float, Shown]] = deque()
        self._documents: dict[int, tuple[tuple[bool, bool], Document]] = {}
        self.note(now)

    def note(self, now: float) -> None:
        """Records what is shown now, and drops what is too old."""
        if self._version != self._roster.version:
            self._version = self._roster.version
            registered = self._roster.registered
            self._documents = {i: self._document(runner) for i, runner in sorted(registered.items())}
            self._moments.append((now, {i: document for i, (_, document) in self._documents.items()}))
        while len(self._moments) > 1 and self._moments[1][0] <= now - self._horizon:
            self._moments.popleft()

    def as_of(self, when: float) -> Shown:
        """Returns what was shown at that time, or the oldest record."""
        earlier = [shown for at, shown in self._moments if at <= when]
        return earlier[-1] if earlier else self._moments[0][1]

    def last_shown(self, runner_id: int, since: float) -> Document | None:
        """Returns how a runner was last shown, if that was later than `since`."""
        until = float("inf")
        for at, shown in reversed(self._moments):
            if runner_id in shown:
                return shown[runner_id] if until > since else None
            until = at
        return None

    def _document(self, runner: Runner) -> tuple[tuple[bool, bool], Document]:
        state = runner.online, runner.busy
        known = self._documents.get(runner.id)
        return known if known is not None and known[0] == state else (state, runner_document(runner))


class RunnerFaults(Fault):
    """A false answer about runners; what a subclass does not change stays true."""

    def recalled(self, now: float) -> Sequence[Document] | None:
        """Returns another list in place of the present one; None: no change."""
        del now
        return None

    def listed(self, runners: Sequence[Document]) -> Sequence[Document]:
        """Returns the list with fewer runners, in another order, or with other values."""
        return runners

    def counted(self, total: int) -> int:
        """Returns the `total_count` of a list of that length."""
        return total

    def found(self, runner_id: int, runner: Document | None, now: float) -> Document | None:
        """Returns the GET of one runner; None is 404."""
        del runner_id, now
        return runner

    def served(self, page: int, size: int) -> None:
        """Called after a page of the list, of so many runners at most, was sent."""


@dataclass(slots=True)
class Unlisted(RunnerFaults):
    """Runners that the list omits although they exist.

    Attributes:
        hides: true for the ids of these runners.
        counted_all: `total_count` counts them all the same.
        everywhere: GET and DELETE do not find them either.
    """

    hides: Callable[[int], bool]
    counted_all: bool
    everywhere: bool
    _left_out: int = 0

    def listed(self, runners: Sequence[Document]) -> Sequence[Document]:
        """Returns the list without them."""
        shown = [runner for runner in runners if not self.hides(runner["id"])]
        self._left_out = len(runners) - len(shown)
        return shown

    def counted(self, total: int) -> int:
        """Returns the total with or without them."""
        return total + self._left_out if self.counted_all else total

    def found(self, runner_id: int, runner: Document | None, now: float) -> Document | None:
        """Returns the true answer, unless they are hidden everywhere."""
        del now
        return None if self.everywhere and self.hides(runner_id) else runner


@dataclass(frozen=True, slots=True)
class Miscounted(RunnerFaults):
    """A `total_count` that is wrong `by` so many; never below 0."""

    by: int

    def counted(self, total: int) -> int:
        """Returns the wrong total."""
        return max(0, total + self.by)


@dataclass(frozen=True, slots=True)
class Misreported(RunnerFaults):
    """Runners shown with other values than theirs, such as `busy`, or without some; `ids` None is all of them."""

    ids: Collection[int] | None
    values: dict[str, Any]
    omitted: Collection[str] = ()

    def listed(self, runners: Sequence[Document]) -> Sequence[Document]:
        """Returns the list, with those values."""
        return [self._with_values(runner) for runner in runners]

    def found(self, runner_id: int, runner: Document | None, now: float) -> Document | None:
        """Returns the runner, with those values."""
        del runner_id, now
        return None if runner is None else self._with_values(runner)

    def _with_values(self, runner: Document) -> Document:
        if self.ids is not None and runner["id"] not in self.ids:
            return runner
        return {name: value for name, value in (runner | self.values).items() if name not in self.omitted}


@dataclass(frozen=True, slots=True)
class Stale(RunnerFaults):
    """A list that shows the fleet as it was `age` seconds ago; GET shows the present."""

    history: History
    age: float

    def note(self, now: float) -> None:
        """Records the present list."""
        self.history.note(now)

    def recalled(self, now: float) -> Sequence[Document] | None:
        """Returns the earlier list."""
        self.history.note(now)
        return list(self.history.as_of(now - self.age).values())


@dataclass(frozen=True, slots=True)
class Lingering(RunnerFaults):
    """Registrations that GET still finds for `lag` seconds after their deletion, as they were last."""

    history: History
    lag: float

    def note(self, now: float) -> None:
        """Records the present list."""
        self.history.note(now)

    def found(self, runner_id: int, runner: Document | None, now: float) -> Document | None:
        """Returns the runner, or its last record."""
        self.history.note(now)
        return runner or self.history.last_shown(runner_id, now - self.lag)


@dataclass(slots=True)
class Slipping(RunnerFaults):
    """A fleet that changes each time that a certain page of its list was served.

    Attributes:
        change: gets the number of runners on the pages up to this one; returns the ids that are listed first from then
            on.
        times: how often; None: no limit.
    """

    page: int
    change: Callable[[int], Sequence[int]]
    times: int | None
    _first: list[int] = field(default_factory=list)

    def listed(self, runners: Sequence[Document]) -> Sequence[Document]:
        """Returns the list, new runners first."""
        ahead = set(self._first)
        return sorted(runners, key=lambda runner: runner["id"] not in ahead) if ahead else runners

    def served(self, page: int, size: int) -> None:
        """Changes the fleet after the page."""
        if page == self.page and (self.times is None or self.times > 0):
            self._first += self.change(page * size)
            self.times = None if self.times is None else self.times - 1


class RunnerPlace(Protocol):
    """Where runners are registered: an organization, a repository or an enterprise."""

    @property
    def id(self) -> int:
        """GitHub's id of it."""

    @property
    def login(self) -> str:
        """The organization's login, `owner/repository` or `enterprises/slug`."""

    @property
    def fleet(self) -> FleetLife:
        """Its runners."""

    @property
    def pages(self) -> RunnerListPages:
        """The pages of their list."""


@dataclass(frozen=True, slots=True)
class ShownRunners:
    """The runners of a place as an answer at `now` (epoch seconds) shows them."""

    org: RunnerPlace
    faults: Faults
    now: float

    def page(self, name: str, number: int, size: int) -> DocumentPage:
        """Returns a page of the list, of the runner of that `name` or, when it is empty, of all."""
        views = self._views()
        if not views:
            return self.org.pages.page(name, number, size)
        runners = self._base(views)
        if name:
            runners = [runner for runner in runners if runner["name"] == name]
        for view in views:
            runners = view.listed(runners)
        stated = len(runners)
        for view in views:
            stated = view.counted(stated)
        return DocumentPage.of(runners[(number - 1) * size : number * size], len(runners), stated)

    def served(self, number: int, size: int) -> None:
        """Records that a page was sent."""
        for view in self._views():
            view.served(number, size)

    def find(self, runner_id: int) -> Document | None:
        """Returns one runner; None for 404."""
        runner = self.org.fleet.roster.registered.get(runner_id)
        shown = None if runner is None else runner_document(runner)
        for view in self._views():
            shown = view.found(runner_id, shown, self.now)
        return shown

    def _base(self, views: list[RunnerFaults]) -> Sequence[Document]:
        for view in views:
            recalled = view.recalled(self.now)
            if recalled is not None:
                return recalled
        return self.org.pages.documents()

    def _views(self) -> list[RunnerFaults]:
        return self.faults.active(RunnerFaults, self.org.id, self.now)
