"""Garbage bytes in any Redis value affect only that record: nothing fails, and the record is quarantined, counted and reported."""

from __future__ import annotations

import pytest

from ghapp.deliveries.metrics import REDELIVERIES
from ghapp.deliveries.store import Entry, Inbox, RedeliveryCursor
from ghapp.incidents.history import WIDTHS
from ghapp.incidents.store import HistoryStore
from ghapp.installations.pacing import CallLimits
from ghapp.installations.pool_matching import ALL_POOLS, OTHER_POOL
from ghapp.installations.store import Installations
from ghapp.leaks.orphan import Orphan
from ghapp.leaks.store import Leaks
from ghapp.notifications.event_store import Events
from ghapp.pods.claim_store import PodClaims
from ghapp.pods.store import DegradedSources, PodLocations, Pods
from ghapp.remediation.steps import REPLACE
from ghapp.runners.store import Runners
from ghapp.store import keys
from ghapp.store.budget import Budget
from ghapp.store.heartbeats import Heartbeats
from ghapp.store.metric_counters import MetricCounters
from ghapp.store.quarantine import Quarantine
from ghapp.store.schedule import Schedule
from ghapp.store.sessions import digest_of
from ghapp.workflow_jobs.store import Demand
from tests.store.rows import samples
from tests.store.rows.samples import JOB, NAMESPACE, NOW, ORG

GARBAGE = b"\xc1\xff\xfe garbage"
HEADERS = {"x-ratelimit-limit": "5000", "x-ratelimit-used": "7", "x-ratelimit-reset": str(int(NOW) + 600)}
NO_RECORDS = {
    keys.OUTBOX_ADDED: "whatever is in it wakes up",
    keys.INBOX_ASKED: "only whether it exists is asked",
    keys.SIGN_INS: "the key of a sign-in: garbage is none's",
    keys.event_ids(ORG, REPLACE): "the id of an event: garbage is none's",
    keys.outbox_news(ORG, samples.POOL): "the id of an event: garbage is none's",
    keys.COUNTERS: "a counter restarts, is counted and logged",
    keys.places(ORG): "only its fields are read",
    keys.credential(ORG): "never set aside: opened, it may be a token; another one is minted",
    keys.session(digest_of(samples.TEXT)): "never set aside: opened, it has a token; the person signs in again",
    keys.sign_in(digest_of(samples.TEXT)): "never set aside: opened, it has a verifier; the person signs in again",
    f"{keys.budget(ORG)} s{int(NOW) % 61}": "the points of one second: they count as none until they are written again",
    keys.death_names(ORG): "the field of a death: garbage is none's",
    keys.death_times(ORG): "the field of a death: garbage is none's",
    keys.deaths_unpublished(ORG): "the field of a death: garbage is none's",
    keys.pod_claim_expiries(ORG): "the field of a claim: garbage is none's",
    f"{keys.runner_changes(ORG)} i": "who follows the changes reads all runners",
    f"{keys.INBOX} f": "goes to the dead letters when it has no effect three times",
    f"{keys.DEAD_LETTERS} f": "is in the dead letters already",
}
"""Values for which garbage has no effect, and why they are not quarantined."""


def budget(redis):
    return Budget(redis, lambda: NOW)


async def write(redis):
    """Writes a value of every kind that the stores keep."""
    await samples.write(redis)
    inbox, leaks = Inbox(redis), Leaks(redis)
    await MetricCounters(redis).add(REDELIVERIES, 3)
    await budget(redis).leave(ORG, await budget(redis).enter(ORG, CallLimits(1.0), 1), HEADERS)
    await budget(redis).hold(ORG, 0.001)
    await Heartbeats(redis).beat("watch", "watch-0", NOW)
    await Schedule(redis).add(ORG, NOW)
    await Schedule(redis).discover_at(NOW)
    await DegradedSources(redis).record("runners", "no answer")
    await PodLocations(redis).seen(ORG, [("linux", NAMESPACE)], NOW)
    await leaks.reaped(ORG, samples.filled(Orphan), NOW)
    taken = samples.filled(samples.Job)._replace(id=JOB + 1, status="running", started_at=NOW)
    await Demand(redis).record(ORG, [taken])
    await inbox.mark_complete_until(NOW)
    await inbox.save_cursor(RedeliveryCursor("cursor", NOW))
    await inbox.plan_redeliveries([1])
    entry = Entry((await inbox.take(1))[0].id, "guid", "ping", b"{}")
    for _ in range(3):
        await inbox.failed(entry, "no effect", NOW)
    await inbox.keep("guid-2", "ping", b"{}")
    await inbox.failed((await inbox.take(1))[0], "no effect", NOW)
    await redis.set(keys.INBOX_ASKED, "1")


async def read(redis):
    """Reads all values by the public methods of the stores, as the jobs do."""
    inbox, pods = Inbox(redis), Pods(redis)
    await samples.read(redis, samples.mint)
    await Installations(redis).owners()
    await MetricCounters(redis).all()
    await MetricCounters(redis).add(REDELIVERIES)
    await budget(redis).left(ORG, NOW)
    await budget(redis).hold(ORG, 0.001)
    await Heartbeats(redis).alive("watch", NOW)
    schedule = Schedule(redis)
    await schedule.next_discovery()
    await schedule.all()
    await schedule.take_due(NOW + 60, 1, 8)
    await DegradedSources(redis).of(["runners"])
    await PodLocations(redis).all(ORG)
    await Leaks(redis).reaped_by_pool(ORG, 0)
    await Demand(redis).taken(ORG, 0)
    await Demand(redis).one(ORG, JOB)
    await inbox.complete_until()
    await inbox.take_cursor()
    await inbox.dead()
    await inbox.known({"guid"}, NOW)
    for entry in await inbox.take(5):
        await inbox.failed(entry, "no effect", NOW)
    await inbox.take_redeliveries(5)
    events = Events(redis)
    await events.latest(ORG, 10)
    await events.since(ORG, "0-0")
    await Runners(redis).ids_of(ORG, [samples.EVIDENCE.name])
    await Runners(redis).changes(ORG, (await Runners(redis).changes(ORG)).position)
    await pods.seen_at(NAMESPACE)
    await pods.some(NAMESPACE, [samples.POD_NAME])
    await pods.objects_of_runner(NAMESPACE, samples.TEXT)
    await PodClaims(redis, lambda: NOW).stored(ORG)
    for pool in (samples.POOL, OTHER_POOL, ALL_POOLS):
        for width in WIDTHS:
            await HistoryStore(redis).steps(ORG, pool, NOW - 7200, NOW + 300, width)
    await HistoryStore(redis).record(ORG, None, NOW)


async def places(redis):
    """Each value in turn: its key, the key's type, and its field; the values of a set or list are one place."""
    found = []
    for key in sorted(await redis.keys("ghapp:*")):
        kind = (await redis.type(key)).decode()
        fields = [b""]
        if kind == "hash":
            fields = sorted(await redis.hkeys(key))
        if kind == "stream":
            fields = sorted((await redis.xrange(key))[0][1])
        found += [(key.decode(), kind, field) for field in fields]
    return found


async def spoil(redis, key, kind, field):
    """Writes garbage to the place, and returns its description."""
    match kind:
        case "string":
            await redis.set(key, GARBAGE)
        case "hash":
            await redis.hset(key, field, GARBAGE)
        case "zset":
            await redis.zadd(key, {GARBAGE: NOW})
        case "list":
            await redis.rpush(key, GARBAGE)
        case "stream":
            await redis.xadd(key, {**(await redis.xrange(key))[0][1], field: GARBAGE})
        case "set":
            await redis.sadd(key, GARBAGE)
    return f"{kind} {key} {field.decode()}"


async def test_garbage_in_any_value_affects_only_that_record(redis):
    await write(redis)
    values = await places(redis)
    assert len({key for key, *_ in values}) >= 45
    for at, (key, _, field) in enumerate(values):
        await redis.flushdb()
        await write(redis)
        where = await spoil(redis, *(await places(redis))[at])
        try:
            for _ in range(2):
                await read(redis)
        except Exception as error:
            raise AssertionError(where) from error
        aside = await Quarantine(redis).all()
        if key in NO_RECORDS or f"{key} {field.decode()}" in NO_RECORDS:
            assert aside == [], where
            continue
        assert [each.key for each in aside] == [key], where
        total = f'ghapp_unreadable_records_total{{kind="{aside[0].kind}"}}'
        assert (await MetricCounters(redis).all())[total] == 1, where


@pytest.mark.parametrize(
    ("key", "kind", "field"),
    [
        (keys.COMPLETE_UNTIL, "string", b""),
        (keys.budget(ORG), "hash", b"used"),
        (keys.heartbeats("watch"), "zset", b""),
        (keys.events(ORG), "stream", b"e"),
    ],
)
async def test_each_type_of_key_is_named_by_doctor(redis, key, kind, field):
    await write(redis)
    await spoil(redis, key, kind, field)
    await read(redis)
    assert [each.key for each in await Quarantine(redis).unresolved()] == [key]


async def test_an_unreadable_count_is_reset_and_reported(redis):
    await redis.hset(keys.COUNTERS, "ghapp_redeliveries_total", GARBAGE)
    await MetricCounters(redis).add(REDELIVERIES, 3)
    counted = await MetricCounters(redis).all()
    assert counted["ghapp_redeliveries_total"] == 3
    assert counted['ghapp_unreadable_records_total{kind="counter"}'] == 1


async def test_an_unreadable_budget_admits_calls_and_is_restored_by_the_next_answer(redis):
    await write(redis)
    await redis.hdel(keys.budget(ORG), "held")
    for field in (b"used", b"reset", b"limit"):
        await spoil(redis, keys.budget(ORG), "hash", field)
        flight = await budget(redis).enter(ORG, CallLimits(0.5), 1)
        await budget(redis).leave(ORG, flight, HEADERS)
        assert (await budget(redis).left(ORG, NOW)).used == 7
