"""Passing must hold, in the time of what was seen.

Two looks at the same list are one look. What counts, therefore, is the time between the first list on which the gate
passed and the last, and not how long somebody waited between two questions.
"""

from __future__ import annotations

from typing import NamedTuple

from ghapp.health.gate.judgement import Gate


class Stability(NamedTuple):
    """Passing without a gap, from one list to another (epoch seconds); None before the first."""

    since: float | None = None
    until: float | None = None

    @property
    def held(self) -> float:
        """For how many seconds."""
        return 0.0 if self.since is None or self.until is None else self.until - self.since


def stability_after(settling: Stability, gate: Gate) -> Stability:
    """After one more look. Whatever does not pass begins anew, and so does a clock that went back."""
    at = gate.observed_at
    if not gate.passed or at is None:
        return Stability()
    if settling.since is None or settling.until is None or at < settling.until:
        return Stability(at, at)
    return Stability(settling.since, at)
