"""A pause of remediation."""

from __future__ import annotations

from typing import Protocol


class PauseView(Protocol):
    """A pause of remediation, made by an admin."""

    @property
    def who(self) -> str:
        """The admin who paused."""

    @property
    def why(self) -> str:
        """The reason that the admin gave."""

    @property
    def at(self) -> float:
        """Start of the pause, in epoch seconds."""

    @property
    def until(self) -> float | None:
        """Its end, in epoch seconds; None: until a person resumes."""
