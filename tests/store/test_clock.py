"""Processes on machines with different times share one clock, Redis' own."""

import time

import pytest

from ghapp import redis_clock
from ghapp.redis_clock import TOLERATED_SECONDS, SharedClock
from ghapp.store.heartbeats import OFF_SECONDS, Heartbeats

OFF = [45.0, 300.0, 3600.0, 365 * 86_400.0, -45.0, -3600.0]


class Machine:
    """A module `time` whose wall clock is off, and may jump."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self, ahead):
        self.ahead = ahead

    def time(self):
        return time.time() + self.ahead


@pytest.fixture
def machine(monkeypatch):
    def of(ahead):
        found = Machine(ahead)
        monkeypatch.setattr(redis_clock, "time", found)
        return found

    return of


@pytest.mark.parametrize("ahead", OFF)
async def test_a_machine_with_another_time_dates_by_redis(redis, machine, ahead):
    machine(ahead)
    clock = SharedClock()
    await clock.measure(redis)
    assert abs(clock() - time.time()) < 1.0
    assert abs(clock.ahead - ahead) < 1.0


async def test_a_time_that_jumps_in_the_midst_changes_nothing(redis, machine):
    here = machine(0.0)
    clock = SharedClock()
    await clock.measure(redis)
    for here.ahead in OFF:
        assert abs(clock() - time.time()) < 1.0


async def test_until_the_first_measurement_it_is_the_machines_own(machine):
    machine(45.0)
    assert abs(SharedClock()() - time.time() - 45.0) < 1.0


@pytest.mark.parametrize(
    ("ahead", "named"), [(TOLERATED_SECONDS - 1, False), (TOLERATED_SECONDS + 1, True), (-3600.0, True)]
)
async def test_a_machine_whose_time_is_off_is_named_for_a_while(redis, machine, ahead, named):
    machine(ahead)
    heartbeats, clock = Heartbeats(redis), SharedClock()
    await heartbeats.measure_clock(clock, "worker on a")
    off = await heartbeats.clocks_off(clock())
    assert {who: round(each) for who, each in off.items()} == ({"worker on a": round(ahead)} if named else {})
    assert await heartbeats.clocks_off(clock() + OFF_SECONDS + 1) == {}
