"""Incidents in Redis: bounded, and safe against concurrent writers."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.errors import StoreUnavailableError
from ghapp.incidents import store as module
from ghapp.incidents.fold import INCIDENT_KEPT_SECONDS, MOST_INCIDENTS, with_losses
from ghapp.incidents.incident import LossEnd, LossIncident, RunnerLoss, incident_of
from ghapp.incidents.store import MOST_BYTES, Incidents
from ghapp.store import keys

ORG = 7
NOW = 1_790_000_000.0


def loss(runner, ended_at=None, first_at=NOW - 100.0):
    end = LossEnd.OPEN if ended_at is None else LossEnd.SUCCESSOR_ONLINE
    return RunnerLoss(runner, f"linux-{runner}", "linux", first_at, end=end, ended_at=ended_at)


def adding(*losses):
    return lambda known: with_losses(known, losses)


@pytest.fixture
def incidents(redis):
    return Incidents(redis)


async def test_incidents_are_read_as_they_were_written_and_expire_a_month_later(redis, incidents):
    written = await incidents.revise(ORG, adding(loss(1), loss(2, NOW)), NOW)
    assert await incidents.all(ORG) == written
    assert len(written) == 1
    assert await incidents.all(ORG + 1) == {}
    assert 0 < await redis.ttl(keys.incidents(ORG)) - INCIDENT_KEPT_SECONDS <= 86_400


async def test_an_unchanged_set_of_losses_writes_nothing(redis, incidents):
    await incidents.revise(ORG, adding(loss(1)), NOW)
    await redis.persist(keys.incidents(ORG))
    await incidents.revise(ORG, adding(loss(1)), NOW)
    assert await redis.ttl(keys.incidents(ORG)) == -1


async def test_concurrent_writers_lose_no_loss(incidents):
    await asyncio.gather(*(incidents.revise(ORG, adding(loss(runner)), NOW) for runner in range(8)))
    (found,) = [each for each in (await incidents.all(ORG)).values() if not each.merged_into]
    assert {each.runner_id for each in found.losses} == set(range(8))


async def test_a_change_that_conflicts_on_each_attempt_is_given_up(redis, incidents, monkeypatch):
    monkeypatch.setattr(module, "ATTEMPTS", 2)
    others = Incidents(redis)

    class Overtaken:
        async def revise(self, where, folds, known):
            await others.revise(ORG, lambda stored: {**stored, "x": incident_of("x", [loss(len(stored))], ())}, NOW)
            return {}

    monkeypatch.setattr(incidents, "_write", Overtaken())
    with pytest.raises(StoreUnavailableError):
        await incidents.revise(ORG, adding(loss(1)), NOW)


@pytest.mark.parametrize(("age", "is_kept"), [(INCIDENT_KEPT_SECONDS, True), (INCIDENT_KEPT_SECONDS + 1, False)])
async def test_an_incident_is_deleted_a_month_after_its_end(incidents, age, is_kept):
    await incidents.revise(ORG, adding(loss(1, NOW)), NOW)
    after = await incidents.revise(ORG, lambda known: known, NOW + age)
    assert (len(after), len(await incidents.all(ORG))) == (is_kept, is_kept)


async def test_the_oldest_is_deleted_beyond_the_limit(incidents):
    many = [loss(each, NOW + each * 10 + 5, NOW + each * 10) for each in range(MOST_INCIDENTS + 1)]
    kept = await incidents.revise(ORG, adding(*many), NOW + 9_000)
    assert len(kept) == MOST_INCIDENTS
    assert f"{int(NOW)}-0" not in await incidents.all(ORG)


async def test_the_bytes_are_bounded_and_an_open_incident_stays(redis, incidents):
    def long(at, ended):
        losses = [
            loss(each, ended, NOW + at)._replace(name="n" * 300) for each in range(at * 10_000, at * 10_000 + 5_000)
        ]
        return incident_of(f"{at}", losses, ())

    written = {each.id: each for each in (long(1, NOW + 2), long(3, NOW + 4), long(5, None))}
    await incidents.revise(ORG, lambda _: written, NOW + 9)
    assert set(await incidents.all(ORG)) == {"3", "5"}
    assert sum(map(len, (await redis.hgetall(keys.incidents(ORG))).values())) <= MOST_BYTES


async def test_an_unreadable_incident_is_omitted_and_can_be_replaced(redis, incidents):
    await redis.hset(keys.incidents(ORG), f"{int(NOW) - 100}-1", b"\xc1")
    assert await incidents.all(ORG) == {}
    await incidents.revise(ORG, adding(loss(1)), NOW)
    assert [each.id for each in (await incidents.all(ORG)).values()] == [f"{int(NOW) - 100}-1"]


async def test_an_end_recorded_by_a_later_version_is_shown_as_unknown(redis, incidents):
    written = await incidents.revise(ORG, adding(loss(1, NOW)), NOW)
    (identifier,) = written
    row = await redis.hget(keys.incidents(ORG), identifier)
    await redis.hset(keys.incidents(ORG), identifier, row.replace(b"SuccessorOnline", b"SuccessorOnlinX"))
    (found,) = (await incidents.all(ORG)).values()
    assert isinstance(found, LossIncident)
    assert found.losses[0].end is LossEnd.UNKNOWN
