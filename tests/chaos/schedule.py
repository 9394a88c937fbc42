"""What goes wrong when: decided by the seed alone, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from tests.chaos.faults import LANES, Lane


class Strike(NamedTuple):
    """One fault: `at` seconds from the beginning, for `seconds`; `draw` seeds whatever else it leaves to chance."""

    at: float
    lane: str
    name: str
    seconds: float
    draw: str

    def __str__(self) -> str:
        return f"{self.at:6.1f} s  {self.lane:<10}  {self.name.replace('_', ' ')} ({self.seconds:.1f} s)"


def schedule(seed: int, seconds: float) -> list[Strike]:
    """All faults of a soak, in their order; each is over by the end."""
    strikes = [strike for name, lane in LANES.items() for strike in _strikes(seed, seconds, name, lane)]
    return sorted(strikes)


def _strikes(seed: int, seconds: float, name: str, lane: Lane) -> Iterator[Strike]:
    """Of one lane, one after the other."""
    rng = Random(f"{seed}/{name}")
    at = rng.uniform(*lane.pause)
    while True:
        fault = rng.choices(list(lane.faults), [each.weight for each in lane.faults.values()])[0]
        lasting = rng.uniform(*lane.faults[fault].seconds)
        if at + lasting > seconds:
            return
        yield Strike(at, name, fault, lasting, f"{seed}/{name}/{at}")
        at += lasting + rng.uniform(*lane.pause)
