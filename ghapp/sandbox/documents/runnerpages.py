"""Pages of the runner list as bytes, kept until the fleet changes: a bench asks for a hundred of them at once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ghapp.sandbox.documents.accounts import Document
from ghapp.sandbox.documents.work import runner_document
from ghapp.sandbox.fleet.roster import Roster
from ghapp.sandbox.fleet.runners import Runner


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
