"""Waits that double, for what is asked or sent again and again. Pure."""

from __future__ import annotations


def doubled(bounds: tuple[float, float], times: int) -> float:
    """Returns the first bound, doubled so many times; at most the second bound."""
    first, most = bounds
    return min(most, first * 2.0 ** min(max(times, 0), 30))
