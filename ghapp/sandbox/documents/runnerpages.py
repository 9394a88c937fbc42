"""Pages of the runner list as bytes, kept until the fleet changes: a bench asks for a hundred of them at once."""

from __future__ import annotations

import hashlib

import msgspec

from ghapp.sandbox.documents.work import runner_document
from ghapp.sandbox.fleet.roster import Roster
from ghapp.sandbox.fleet.runners import Runner

Page = tuple[bytes, str, int]


class RunnerPages:
    """Renders a roster's list, in the order of ids."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._version = -1
        self._ordered: list[Runner] = []
        self._pages: dict[tuple[str, int, int], Page] = {}

    def page(self, name: str, number: int, size: int) -> Page:
        """The page's JSON, a digest of it, and how many runners there are on all pages; `name` filters exactly."""
        if self._version != self._roster.version:
            self._version = self._roster.version
            self._ordered = [runner for _, runner in sorted(self._roster.registered.items())]
            self._pages.clear()
        key = (name, number, size)
        if key not in self._pages:
            self._pages[key] = self._render(name, number, size)
        return self._pages[key]

    def _render(self, name: str, number: int, size: int) -> Page:
        found = [r for r in self._ordered if r.name == name] if name else self._ordered
        shown = [runner_document(runner) for runner in found[(number - 1) * size : number * size]]
        body = msgspec.json.encode({"total_count": len(found), "runners": shown})
        return body, hashlib.sha256(body).hexdigest(), len(found)
