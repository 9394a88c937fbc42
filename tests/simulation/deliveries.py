"""GitHub's delivery log, and what is known of late and missing deliveries: `jobs.delivery_gaps`, `…delivery_log`.

It has its own random numbers, so that the days without failed deliveries are as they were.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from ghapp.runners.delivery_lag import (
    DeliveryArrivals,
    DeliveryFacts,
    DeliveryGap,
    DeliveryLog,
    LogReading,
    MissingDeliveries,
    arrivals_after,
    completeness,
    expected_at,
    log_after,
    log_after_failure,
)
from ghapp.runners.evidence import Evidence
from tests.simulation.github import INSTALLATION
from tests.simulation.lies import Lie
from tests.simulation.scenario import DAY

if TYPE_CHECKING:
    from tests.simulation.engine import Engine
    from tests.simulation.fleet import Delivery

FAILS = 0.5
"""The share of late deliveries that failed and are redelivered; the others were late at GitHub."""


class Failed(NamedTuple):
    """A delivery that failed and has not come since; `at` is true time."""

    delivery: Delivery
    at: float


class Deliveries:
    """What GitHub's log has, and what we know of it."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._random = engine, Random(f"deliveries of {engine.seed}")
        self._arrivals, self._log = DeliveryArrivals(), DeliveryLog()
        self._expected_at: float | None = None
        self._failed: dict[int, Failed] = {}
        self._redelivered: set[int] = set()

    # ---- what happens

    def draw_failure(self) -> bool:
        """Whether a late delivery is one that failed."""
        return self._random.random() < FAILS

    def fail(self, delivery: Delivery) -> None:
        """Its first attempt has failed: GitHub's log has it until it is redelivered."""
        self._failed[delivery.guid] = Failed(delivery, self._engine.now)

    def arrive(self, delivery: Delivery, now: float) -> None:
        """It has come; `now` is by our clock."""
        if self._failed.pop(delivery.guid, None) is not None:
            self._redelivered.add(delivery.guid)
        new = [] if delivery.guid in self._redelivered else [(now, delivery.at)]
        self._arrivals = arrivals_after(self._arrivals, new, now)

    def missing_of(self, runner_id: int, *, over: bool) -> Failed | None:
        """The latest end, or start, of a job of this runner that GitHub's log has as failed."""
        failed = (each for each in self._failed.values() if each.delivery.over is over)
        of_runner = (each for each in failed if each.delivery.runner_id == runner_id)
        return max(of_runner, key=lambda each: each.at, default=None)

    # ---- what is known

    @property
    def is_log_plain(self) -> bool:
        """True if reading the log changes nothing: no delivery failed, and GitHub answers."""
        return not (self._failed or self._log.missing or {Lie.UNAVAILABLE, Lie.BROKEN} & {*self._engine.github.lies})

    def read_log(self, now: float) -> None:
        """GitHub's log, whose dates are by GitHub's clock, was read from its newest end to its oldest failure."""
        dates = [each.at + self._engine.fleet.clock_offset for each in self._failed.values()]
        missing = (MissingDeliveries(INSTALLATION, min(dates), max(dates), len(dates)),) if dates else ()
        self._log = log_after(self._log, LogReading(now, missing, now - DAY, None, is_newest=True, begins=True))

    def expect(self, records: Iterable[Evidence], now: float) -> None:
        """A list was recorded: it may show that a delivery must have come."""
        busy = [each for each in records if each.busy and each.listed and each.running_job is None]
        if busy:
            self._expected_at = expected_at(busy, self._arrivals, self._expected_at, now)

    def gaps(self, now: float, failure: str = "") -> tuple[DeliveryGap, ...]:
        """What is missing or late; `failure`: why the log cannot be read at this moment."""
        log = log_after_failure(self._log, failure, now) if failure else self._log
        return completeness(DeliveryFacts(INSTALLATION, self._arrivals, log, 0.0, self._expected_at), now)
