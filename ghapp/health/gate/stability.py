"""Measures how long the gate has passed without a gap, in the time of the lists.

Two evaluations of the same list count once. The time counts from the first list on which the gate passed to the last,
not between two requests.
"""

from __future__ import annotations

from typing import NamedTuple

from ghapp.health.gate.judgement import Gate


class Stability(NamedTuple):
    """The first and the last list of an uninterrupted pass (epoch seconds); None before the first pass."""

    since: float | None = None
    until: float | None = None

    @property
    def held(self) -> float:
        """The length of the pass in seconds."""
        return 0.0 if self.since is None or self.until is None else self.until - self.since


def stability_after(before: Stability, gate: Gate) -> Stability:
    """Adds one evaluation. A failure restarts the time, and so does a clock that went back."""
    at = gate.observed_at
    if not gate.passed or at is None:
        return Stability()
    if before.since is None or before.until is None or at < before.until:
        return Stability(at, at)
    return Stability(before.since, at)
