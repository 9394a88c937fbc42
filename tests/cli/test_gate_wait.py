"""Waiting for a gate: the timeouts, and Redis outages."""

from __future__ import annotations

import pytest

from ghapp.errors import StoreUnavailableError
from ghapp.gate.active_shard import Role
from ghapp.gate.commands import POLL_SECONDS, GateTimeouts, watch
from ghapp.gate.judgement import Gate
from ghapp.gate.shard_checks import Check

NOW = 1_790_000_000.0


def gate(passed, at):
    return Gate("linux", "pink", Role.INACTIVE, (Check("online", passed, ""),), (), at)


class Time:
    """One query a second; each returns the script's next result, based on a list of that second."""

    def __init__(self, script):
        self.script, self.now, self.reports = script, 0.0, []

    async def query(self):
        now = self.script[min(int(self.now), len(self.script) - 1)]
        if now == "away":
            raise StoreUnavailableError("away")
        return gate(now == "pass", NOW + self.now)

    async def pause(self, seconds):
        self.now += seconds

    def report(self, answer, waited):
        self.reports.append((None if answer is None else answer.passed, waited))

    async def watch(self, *patience):
        return await watch(self.query, GateTimeouts(*patience), lambda: self.now, self.pause, self.report)


FAIL, PASS, AWAY = ["fail"], ["pass"], ["away"]


@pytest.mark.parametrize(
    ("script", "patience", "passed", "waited"),
    [
        (PASS, (0, 0, 0), True, 0),
        (FAIL, (0, 0, 0), False, 0),
        (FAIL, (0, 60, 5), False, 0),
        (FAIL * 3 + PASS, (10, 10, 0), True, 3),
        (FAIL, (10, 10, 0), False, 10),
        (PASS, (0, 60, 5), True, 5),
        (PASS * 3 + FAIL + PASS, (0, 60, 5), False, 3),
        (PASS * 3 + FAIL + PASS, (60, 60, 5), True, 9),
        (FAIL + PASS, (5, 5, 5), False, 5),
        ((PASS * 2 + FAIL) * 9, (20, 20, 5), False, 20),
        (AWAY * 2 + PASS, (10, 10, 0), True, 2),
        (PASS * 3 + AWAY + PASS, (60, 60, 5), True, 9),
    ],
    ids=[
        "passes at once",
        "fails at once",
        "fails, with time only to settle",
        "passes later",
        "never passes",
        "settles",
        "a gap, without time left",
        "a gap, with time left",
        "no time left to settle",
        "flaps",
        "Redis comes back",
        "an outage while it settles",
    ],
)
async def test_the_gate_is_queried_until_it_settles_or_times_out(script, patience, passed, waited):
    time = Time(script)
    answer = await time.watch(*patience)
    assert answer.passed is passed
    assert time.reports[-1] == (passed, waited)
    assert len(time.reports) == waited / POLL_SECONDS + 1


async def test_a_lasting_redis_outage_ends_the_wait():
    time = Time(AWAY)
    with pytest.raises(StoreUnavailableError):
        await time.watch(3, 3, 0)
    assert time.reports == [(None, 0.0), (None, 1.0), (None, 2.0)]
