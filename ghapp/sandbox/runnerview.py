"""The runners of a place as GitHub shows them: the truth, or a false answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ghapp.sandbox.documents.accounts import Document
from ghapp.sandbox.documents.runnerpages import DocumentPage
from ghapp.sandbox.documents.work import runner_document
from ghapp.sandbox.faults.faults import Faults
from ghapp.sandbox.organizations import RunnerPlace
from ghapp.sandbox.runner_list import RunnerFaults


@dataclass(frozen=True, slots=True)
class ShownRunner:
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
        return self.faults.at_work(RunnerFaults, self.org.id, self.now)
