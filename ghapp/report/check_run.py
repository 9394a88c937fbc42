"""The shape of a check run: its words, its colour, and its buttons."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, inf
from typing import NamedTuple

from ghapp.report.documents import timestamp

NAME = "Runner health"
"""The check run's name."""

LONGEST = 65_535
"""Characters that GitHub takes in a summary, and in a text."""


class Conclusion(StrEnum):
    """What GitHub shows beside the check run's name."""

    SUCCESS = "success"
    NEUTRAL = "neutral"
    ACTION_REQUIRED = "action_required"
    FAILURE = "failure"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


class CheckRunAction(NamedTuple):
    """A button: GitHub takes 20, 40 and 20 characters, and three buttons."""

    label: str
    description: str
    identifier: str


SWEEP = CheckRunAction("Sweep now", "Look at every runner now", "sweep")
RESUME = CheckRunAction("Resume", "Clear pauses, restart stopped fuses", "resume")


def resume_of(stopped_at: float) -> CheckRunAction:
    """The button that ends what was paused or stopped by that time (epoch seconds), and nothing that came later.

    GitHub may bring a press days late; by then the people who stopped something else have not been asked.
    """
    return RESUME._replace(identifier=f"{RESUME.identifier}-{ceil(stopped_at)}")


def resumes_until(identifier: str) -> float | None:
    """Up to when a pressed button ends pauses and stops; None for another button.

    The version before posted it without a time: such a press ends all of them.
    """
    name, _, until = identifier.partition("-")
    if name != RESUME.identifier:
        return None
    return float(until) if until.isdigit() else inf


@dataclass(frozen=True, slots=True)
class Report:
    """What a check run says. `summary` and `text` are Markdown of at most `LONGEST` characters.

    Attributes:
        conclusion: None while it is in progress; buttons are shown on those alone that have one.
        as_of: the beginning of `summary` that tells the time of the look; a later look that finds the same is no news.
    """

    title: str
    summary: str
    text: str
    conclusion: Conclusion | None
    actions: tuple[CheckRunAction, ...]
    as_of: str = ""

    @property
    def digest(self) -> str:
        """Differs when anything of it does but `as_of`."""
        summary = self.summary.removeprefix(self.as_of)
        said = json.dumps([self.title, summary, self.text, self.conclusion, self.actions])
        return hashlib.sha256(said.encode()).hexdigest()[:32]


def time_of(at: float) -> str:
    """Epoch seconds, for people: to the second."""
    return timestamp(float(int(at)))
