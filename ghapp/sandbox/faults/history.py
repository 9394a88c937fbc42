"""Earlier states of a fleet's list."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from ghapp.sandbox.documents.accounts import Document
from ghapp.sandbox.documents.work import runner_document
from ghapp.sandbox.fleet.roster import Roster
from ghapp.sandbox.fleet.runners import Runner

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
