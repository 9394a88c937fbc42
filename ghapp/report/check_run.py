"""The structure of a check run: texts, conclusion and buttons."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import NamedTuple

NAME = "Runner health"
"""The check run's name."""

PRESS = "press"
"""The kind, in `Report.urgent`, of the outcome of a button that a person pressed."""

LONGEST = 65_535
"""Maximum characters that GitHub accepts in a summary, and in a text."""


class Conclusion(StrEnum):
    """The conclusion of a check run, as GitHub names it."""

    SUCCESS = "success"
    NEUTRAL = "neutral"
    ACTION_REQUIRED = "action_required"
    FAILURE = "failure"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


class CheckRunAction(NamedTuple):
    """A button. GitHub's limits: 20 characters (label), 40 (description), 20 (identifier); three buttons."""

    label: str
    description: str
    identifier: str


SWEEP = CheckRunAction("Sweep now", "List all runners now", "sweep")
RESUME = CheckRunAction("Resume", "Restart stopped fuses", "resume")


MOST_DIGITS = 12
"""Of a time in a button's identifier."""


def resume_of(stopped_at: float) -> CheckRunAction:
    """Returns a Resume button that restarts only fuses that stopped by `stopped_at` (epoch seconds).

    GitHub may deliver a click days late; it must not undo a stop that came after the button was shown.
    """
    return RESUME._replace(identifier=f"{RESUME.identifier}-{ceil(stopped_at)}")


def resumes_until(identifier: str) -> int | None:
    """Returns the time (epoch seconds) up to which a clicked button undoes stops; None for other buttons."""
    name, _, until = identifier.partition("-")
    is_ours = name == RESUME.identifier and until.isascii() and until.isdigit() and len(until) <= MOST_DIGITS
    return int(until) if is_ours else None


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a check run. `summary` and `text` are Markdown of at most `LONGEST` characters.

    Attributes:
        conclusion: None while the check run is in progress; GitHub shows buttons only once there is a conclusion.
        as_of: the beginning of `summary` with the time of rendering; the digest leaves it out.
        title_as_of: the end of `title` with the time of its numbers; the digest leaves it out, too.
        volatile: the end of `summary` with numbers that change all the time; the digest leaves it out, too.
        urgent: hashes of what is to be posted at once when it changes, by kind; empty: everything is.
        is_incident: True if it is to be posted at once however often it changes.
        page: the page of the worst that it reports, below the organization's own, for "Details"; empty: the overview.
    """

    title: str
    summary: str
    text: str
    conclusion: Conclusion | None
    actions: tuple[CheckRunAction, ...]
    as_of: str = ""
    title_as_of: str = ""
    volatile: str = ""
    urgent: tuple[tuple[str, str], ...] = ()
    is_incident: bool = True
    page: str = ""

    @property
    def digest(self) -> str:
        """A hash of everything except `as_of`, `title_as_of` and `volatile`."""
        summary = self.summary.removeprefix(self.as_of).removesuffix(self.volatile)
        return digest_of(self.title.removesuffix(self.title_as_of), summary, self.text, self.conclusion, self.actions)


def digest_of(*content: object) -> str:
    """Returns a hash of JSON values."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]
