"""What keeps a view from being seen: said once, until it is over or something else is in the way."""

from __future__ import annotations

from ghapp.log import logger

log = logger(__name__)


class Trouble:
    """Of one view of a namespace."""

    def __init__(self, namespace: str) -> None:
        self._namespace, self._why = namespace, ""

    def say(self, what: str, why: str) -> None:
        """Something is in the way."""
        if self._why != why:
            log.warning(what, namespace=self._namespace, why=why)
        self._why = why

    def over(self) -> None:
        """Nothing is, any more."""
        self._why = ""
