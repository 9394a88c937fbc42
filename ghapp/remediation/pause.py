"""A pause of remediation: who holds back the replacements of a pool or of all pools, why, and until when. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import NamedTuple

from ghapp.wording import time_of

SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 60.0, 30 * 86_400.0
"""Of a pause with an end."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of remediation.

    Attributes:
        who: the person, or the token.
        why: the reason.
        at: its begin (epoch seconds).
        until: its end; None: until a person resumes.
    """

    who: str
    why: str
    at: float
    until: float | None = None

    def is_over(self, now: float) -> bool:
        """True if its end has come."""
        return self.until is not None and self.until <= now

    def changed_by(self, asked: Pause) -> Pause:
        """Returns this pause as changed by a later request; who started it, and when, stays.

        Who started it sets the reason, if one is given, and the end. Anybody else can only put off the end: a
        pause ends before the end that its starter chose only by a resume. An end that differs by less than the shortest
        pause is a repeated request, and no change.
        """
        is_starters = asked.who == self.who
        takes_end = asked.ends_after(self) or (is_starters and self.ends_after(asked))
        return replace(
            self,
            why=(asked.why or self.why) if is_starters else self.why,
            until=asked.until if takes_end else self.until,
        )

    def ends_after(self, other: Pause) -> bool:
        """True if it ends later than another one, by as much as the shortest pause."""
        end, other_end = (inf if each.until is None else each.until for each in (self, other))
        return end > other_end and end - other_end >= SHORTEST_PAUSE_SECONDS


class PauseSpan(NamedTuple):
    """A time in which a pool was paused, or all pools (`*`): from `begin` to `end` (epoch seconds)."""

    pool: str
    begin: float
    end: float


class PauseResult(StrEnum):
    """What a request for a pause did."""

    PAUSED = "paused"
    EXTENDED = "extended"
    """The running pause ends later."""
    CHANGED = "changed"
    """The running pause ends earlier, or has another reason."""
    ALREADY_PAUSED = "already-paused"
    """The running pause stays as it is."""
    NEEDS_REASON = "needs-reason"
    """No pause is running, and the request has no reason."""


class PauseOutcome(NamedTuple):
    """The pause that is in effect after a request (the request's own if none is), and what the request did.

    `before`: the pause that the request changed; None if it changed none.
    """

    pause: Pause
    result: PauseResult
    before: Pause | None = None

    @property
    def has_effect(self) -> bool:
        """True if a pause began or was changed."""
        return self.result in (PauseResult.PAUSED, PauseResult.EXTENDED, PauseResult.CHANGED)

    @property
    def in_words(self) -> str:
        """The end that the changed pause had, and its reason; empty if no pause was changed."""
        if self.before is None:
            return ""
        end = "without an end" if self.before.until is None else f"until {time_of(self.before.until)}"
        return f"before {end}, for: {self.before.why}"
