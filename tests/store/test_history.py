"""The history in Redis: counted exactly once, bounded, and readable with unreadable rows."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio.connection import AbstractConnection

from ghapp.deaths.store import Deaths
from ghapp.incidents.history import HOUR_SECONDS, MOST_POOLS, STEP_SECONDS, HistorySample, bucket_of, counted, step_of
from ghapp.incidents.store import FORGOTTEN_SECONDS, JOINED_AFTER_SECONDS, HistoryStore
from ghapp.installations.pool_matching import ALL_POOLS, OTHER_POOL
from ghapp.remediation.pause import PauseSpan
from ghapp.store import keys, metric_counters
from ghapp.store.budget import Budget
from ghapp.store.quarantine import Quarantine
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.store import Demand
from tests.store.rows import next_version, samples

ORG, POOL = 7, "linux"
NOW = 1_790_000_000.0
STEP = step_of(NOW)
JOB = Job(5, "running", ("linux",), "acme/api", NOW - 42.4, runner_id=1, started_at=NOW)


def seen(at=NOW, counts=None, **gauges):
    return HistorySample(at, {POOL: gauges or {"healthy": 3}, ALL_POOLS: gauges or {"healthy": 3}}, counts or {})


async def five_minutes(redis, pool=POOL, begin=STEP - HOUR_SECONDS, end=STEP + HOUR_SECONDS):
    return await HistoryStore(redis).steps(ORG, pool, begin, end, STEP_SECONDS)


async def hours(redis, pool=POOL):
    return await HistoryStore(redis).steps(ORG, pool, STEP - 86_400, STEP + 86_400, HOUR_SECONDS)


async def test_samples_of_one_step_are_joined_and_the_hour_joins_its_steps(redis):
    history = HistoryStore(redis)
    for at, healthy in ((STEP, 3), (STEP + 299.9, 5), (STEP + 300, 7)):
        await history.record(ORG, seen(at, healthy=healthy), at)
    found = await five_minutes(redis)
    assert [(each, step.samples, step.last, step.highest("healthy")) for each, step in found.items()] == [
        (STEP, 2, (5,), 5),
        (STEP + 300, 1, (7,), 7),
    ]
    (hour,) = (await hours(redis)).values()
    assert (hour.samples, hour.mean("healthy"), hour.highest("healthy"), hour.last) == (3, 5.0, 7, (7,))


@pytest.mark.parametrize("later", [STEP + 240, STEP + 300, STEP + HOUR_SECONDS], ids=["step", "next step", "next hour"])
async def test_samples_that_sweeps_repeated_are_added_by_the_next_one_that_samples(redis, later):
    history = HistoryStore(redis)
    await history.record(ORG, seen(STEP, healthy=3), STEP)
    await history.record(ORG, seen(later, healthy=8)._replace(repeats=3, repeated_at=STEP + 180), later)
    found = await five_minutes(redis, end=STEP + 2 * HOUR_SECONDS)
    assert sum(step.samples for step in found.values()) == 5
    assert sum(sum(step.total) for step in found.values()) == 4 * 3 + 8
    assert sum(sum(hour.total) for hour in (await hours(redis)).values()) == 4 * 3 + 8
    assert found[STEP].highest("healthy") == (8 if later < STEP + 300 else 3)


async def test_a_step_without_a_complete_sweep_is_a_gap(redis):
    history = HistoryStore(redis)
    await history.record(ORG, seen(STEP), STEP)
    await history.record(ORG, None, STEP + 300)
    await history.record(ORG, seen(STEP + 600), STEP + 600)
    assert list(await five_minutes(redis)) == [STEP, STEP + 600]


async def test_counts_in_a_gap_are_kept_and_the_step_stays_a_gap(redis):
    await Demand(redis).record(ORG, [JOB], {JOB.id: POOL}, NOW)
    await HistoryStore(redis).record(ORG, None, NOW)
    (step,) = (await five_minutes(redis, ALL_POOLS)).values()
    assert (step.samples, step.count("jobs")) == (0, 1)


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "in separate batches"])
@pytest.mark.parametrize(
    "deliveries",
    [
        [JOB],
        [JOB, JOB],
        [JOB._replace(status="queued", started_at=None, runner_id=None), JOB],
        [JOB, JOB._replace(status="over", ended_at=NOW)],
        [JOB._replace(status="over", ended_at=NOW), JOB],
        [JOB._replace(status="over", ended_at=NOW), JOB._replace(status="over", ended_at=NOW)],
    ],
    ids=["a start", "a start twice", "queued, then a start", "a start and an end", "an end, then a start", "ends"],
)
async def test_a_job_is_counted_once_for_any_order_of_its_deliveries(redis, deliveries, together):
    for batch in [deliveries] if together else [[each] for each in deliveries]:
        await Demand(redis).record(ORG, batch, {JOB.id: POOL}, NOW)
    history = HistoryStore(redis)
    for _ in range(2):
        await history.record(ORG, seen(), NOW)
    for pool in (POOL, ALL_POOLS):
        step = (await five_minutes(redis, pool))[STEP]
        assert (step.count("jobs"), step.count("waited_seconds")) == (1, 42)
        assert step.waits == counted({f"wait:{bucket_of(42)}": 1}).waits


async def test_the_longest_wait_is_that_of_all_jobs_of_a_step_and_of_all_pools(redis):
    waits = {POOL: (30, 42, 5), "made-up": (44,), "also-made-up": (43, 1)}
    for pool, seconds in waits.items():
        jobs = [JOB._replace(id=int(f"{len(pool)}{each}"), queued_at=NOW - each) for each in seconds]
        await Demand(redis).record(ORG, jobs, {job.id: pool for job in jobs}, NOW)
    for _ in range(2):
        await HistoryStore(redis).record(ORG, seen(), NOW)
    found = [(await five_minutes(redis, pool))[STEP].wait_times for pool in (POOL, OTHER_POOL, ALL_POOLS)]
    assert [(each.most, each.total) for each in found] == [(42, 77), (44, 88), (44, 165)]
    assert {hour.wait_times.most for hour in (await hours(redis)).values()} == {42}


async def test_time_without_a_complete_list_is_in_the_steps_of_all_pools_once(redis):
    history = HistoryStore(redis)
    await history.record(ORG, seen(STEP), STEP)
    for at, seconds in ((STEP + 60, 60), (STEP + 120, 120), (STEP + 120, 120)):
        await history.record(ORG, HistorySample(at, {}, {}, blind={STEP: seconds}), at)
    await history.record(ORG, seen(STEP + 180)._replace(blind={STEP: 180}), STEP + 180)
    for pool in (POOL, ALL_POOLS):
        step = (await five_minutes(redis, pool))[STEP]
        assert (step.samples, step.count("blind_seconds")) == (2, 180)
    assert sum(hour.count("blind_seconds") for hour in (await hours(redis)).values()) == 180


async def test_paused_time_is_in_the_steps_of_its_pool_and_of_all_pools(redis):
    history = HistoryStore(redis)
    both = {pool: {"healthy": 3} for pool in (POOL, "gpu", ALL_POOLS)}
    for end in (STEP + 60, STEP + 100):
        pauses = (PauseSpan("gpu", STEP + 20, end), PauseSpan("without-a-history", STEP, STEP + 30))
        await history.record(ORG, HistorySample(STEP + 120, both, {}, pauses=pauses), STEP + 120)
    found = {pool: await five_minutes(redis, pool) for pool in (POOL, "gpu", OTHER_POOL, ALL_POOLS)}
    paused = {pool: steps[STEP].count("paused_seconds") for pool, steps in found.items()}
    assert paused == {POOL: 0, "gpu": 80, OTHER_POOL: 30, ALL_POOLS: 100}
    assert (await hours(redis, "gpu"))[step_of(STEP, HOUR_SECONDS)].count("paused_seconds") == 80


async def test_a_job_whose_record_is_unreadable_is_counted_and_recorded(redis):
    await redis.hset(keys.jobs(ORG), str(JOB.id), b"\xc1")
    await Demand(redis).record(ORG, [JOB], {JOB.id: POOL}, NOW)
    assert await Demand(redis).all(ORG) == [JOB]
    assert await redis.hvals(keys.history_counts(ORG)) == [b"1", b"42", b"1", b"42"]


async def test_a_death_is_counted_once_by_its_cause(redis):
    death = samples.filled(samples.Death)._replace(at=NOW, pool=POOL)
    deaths = Deaths(redis, lambda: NOW)
    assert await deaths.record(ORG, death)
    assert not await deaths.record(ORG, death)
    await HistoryStore(redis).record(ORG, seen(), NOW)
    assert (await five_minutes(redis))[STEP].deaths == counted({f"death:{death.cause.value}": 1}).deaths
    assert (await hours(redis, ALL_POOLS))[step_of(NOW, HOUR_SECONDS)].deaths == counted(
        {f"death:{death.cause.value}": 1}
    ).deaths


def answer(used, reset=NOW + 600):
    return {"x-ratelimit-limit": "5000", "x-ratelimit-used": str(used), "x-ratelimit-reset": str(int(reset))}


@pytest.mark.parametrize(
    ("answers", "calls"),
    [
        ([(900,)], 1),
        ([(900,), (903,)], 4),
        ([(900,), (903,), (902,)], 4),
        ([(900,), (903, NOW + 601)], 4),
        ([(900,), (2, NOW + 4200)], 3),
        ([(900,), (900,)], 1),
    ],
    ids=["first", "difference", "out of order", "a reset that jitters", "a new hour", "unchanged"],
)
async def test_calls_are_counted_as_charged_by_github(redis, answers, calls):
    budget = Budget(redis, lambda: NOW)
    for each in answers:
        await budget.leave(ORG, "", answer(*each))
    await HistoryStore(redis).record(ORG, seen(), NOW)
    assert (await five_minutes(redis, ALL_POOLS))[STEP].count("calls") == calls
    assert (await five_minutes(redis))[STEP].count("calls") == 0


async def test_losses_of_earlier_steps_are_counted_once_although_seen_repeatedly(redis):
    counts = {(POOL, STEP - 600): {"lost": 2}, (ALL_POOLS, STEP - 600): {"lost": 2}}
    for at in (NOW, NOW + 60, NOW + 400):
        await HistoryStore(redis).record(ORG, seen(at, counts), at)
    assert (await five_minutes(redis))[STEP - 600].count("lost") == 2
    assert sum(each.count("lost") for each in (await hours(redis, ALL_POOLS)).values()) == 2


async def test_counts_are_deleted_after_they_were_joined_and_not_before(redis):
    await Demand(redis).record(ORG, [JOB], {JOB.id: POOL}, NOW)
    history, over = HistoryStore(redis), STEP + STEP_SECONDS + JOINED_AFTER_SECONDS
    await history.record(ORG, seen(over), over)
    assert await redis.hlen(keys.history_counts(ORG)) == 4
    await history.record(ORG, seen(over + 1), over + 1)
    assert await redis.exists(keys.history_counts(ORG)) == 0
    await history.record(ORG, seen(over + 2), over + 2)
    assert (await five_minutes(redis))[STEP].count("jobs") == 1


async def test_concurrent_joins_count_nothing_twice(redis):
    jobs = [JOB._replace(id=number) for number in range(1, 41)]
    demand, history = Demand(redis), HistoryStore(redis)
    recorded = [demand.record(ORG, [job], {job.id: POOL}, NOW) for job in jobs for _ in range(2)]
    await asyncio.gather(*recorded, *(history.record(ORG, seen(), NOW) for _ in range(6)))
    await history.record(ORG, seen(), NOW)
    assert (await five_minutes(redis))[STEP].count("jobs") == len(jobs)


async def test_a_join_repeated_after_a_crash_loses_nothing_and_counts_nothing_twice(redis, monkeypatch):
    await Demand(redis).record(ORG, [JOB], {JOB.id: POOL}, NOW)
    crashed = HistoryStore(redis)

    async def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(crashed, "_rows", crash)
    with pytest.raises(KeyboardInterrupt):
        await crashed.record(ORG, seen(), NOW)
    assert await five_minutes(redis) == {}
    for _ in range(2):
        await HistoryStore(redis).record(ORG, seen(), NOW)
    assert (await five_minutes(redis))[STEP].count("jobs") == 1


async def test_each_of_the_largest_pools_has_its_own_history_and_the_others_share_one(redis):
    gauges = {f"pool-{number:03}": {"healthy": number} for number in range(1, MOST_POOLS + 3)}
    history = HistoryStore(redis)
    await history.record(ORG, HistorySample(NOW, gauges, {("pool-001", STEP): {"lost": 1}}), NOW)
    assert await history.pools(ORG) == [f"pool-{number:03}" for number in range(3, MOST_POOLS + 3)]
    other = (await five_minutes(redis, OTHER_POOL))[STEP]
    assert (other.last_of("healthy"), other.samples, other.count("lost")) == (3, 1, 1)
    assert await five_minutes(redis, "pool-001") == {}


async def test_a_pool_that_is_absent_for_long_is_replaced_by_another(redis):
    history = HistoryStore(redis)
    await history.record(ORG, seen(), NOW)
    later = NOW + FORGOTTEN_SECONDS + 1
    await history.record(ORG, HistorySample(later, {"new": {"healthy": 1}}, {}), later)
    assert await history.pools(ORG) == ["new"]


async def test_a_pool_that_no_sweep_saw_is_counted_as_other(redis):
    await Demand(redis).record(ORG, [JOB], {JOB.id: "made-up"}, NOW)
    await HistoryStore(redis).record(ORG, seen(), NOW)
    assert (await five_minutes(redis, OTHER_POOL))[STEP].count("jobs") == 1
    assert (await five_minutes(redis, ALL_POOLS))[STEP].count("jobs") == 1
    assert await five_minutes(redis, "made-up") == {}


async def test_the_number_of_counts_is_bounded_and_further_pools_count_as_other(redis, monkeypatch):
    full = {
        metric_counters.history_field(NOW, "jobs", f"p{number}"): 1 for number in range(metric_counters.MOST_COUNTS)
    }
    await redis.hset(keys.history_counts(ORG), mapping=full)
    await Demand(redis).record(ORG, [JOB], {JOB.id: "one-more"}, NOW)
    assert await redis.hget(keys.history_counts(ORG), metric_counters.history_field(NOW, "jobs", OTHER_POOL)) == b"1"
    assert not await redis.hexists(keys.history_counts(ORG), metric_counters.history_field(NOW, "jobs", "one-more"))


async def test_every_key_expires_also_for_an_uninstalled_organization(redis):
    await Demand(redis).record(ORG, [JOB], {JOB.id: POOL}, NOW)
    await HistoryStore(redis).record(ORG, seen(), NOW)
    days = {}
    for key in await redis.keys(f"ghapp:{ORG}:history:*"):
        days[key.decode().removeprefix(f"ghapp:{ORG}:history:")] = await redis.ttl(key) / 86_400
    day, decade = int(NOW // 86_400), int(NOW // 864_000)
    assert days == {
        "counts": pytest.approx(7, abs=0.01),
        "pools": pytest.approx(91, abs=0.01),
        **{f"300:{day}:{pool}": pytest.approx(8, abs=0.01) for pool in (POOL, ALL_POOLS)},
        **{f"3600:{decade}:{pool}": pytest.approx(100, abs=0.01) for pool in (POOL, ALL_POOLS)},
    }


async def test_after_the_clock_was_set_back_counts_stay_and_later_steps_are_recorded(redis):
    history = HistoryStore(redis)
    await Demand(redis).record(ORG, [JOB, JOB._replace(id=6)], {5: POOL, 6: POOL}, NOW)
    await history.record(ORG, seen(NOW + 7200), NOW + 7200)
    assert await redis.exists(keys.history_counts(ORG)) == 0
    await Demand(redis).record(ORG, [JOB._replace(id=8)], {8: POOL}, NOW)
    await history.record(ORG, seen(NOW), NOW)
    assert (await five_minutes(redis))[STEP].count("jobs") == 2
    assert (await five_minutes(redis))[STEP].samples == 1


async def test_a_row_of_the_next_version_is_joined_with_its_counts(redis):
    with next_version.writing():
        await HistoryStore(redis).record(ORG, seen(counts={(POOL, STEP): {"lost": 2}}), NOW)
    await HistoryStore(redis).record(ORG, seen(), NOW)
    step = (await five_minutes(redis))[STEP]
    assert (step.samples, step.count("lost")) == (2, 2)
    assert await Quarantine(redis).all() == []


async def test_an_unreadable_step_affects_no_other_step(redis):
    history = HistoryStore(redis)
    await history.record(ORG, seen(STEP), STEP)
    await history.record(ORG, seen(STEP + 300), STEP + 300)
    key = keys.history_steps(ORG, STEP_SECONDS, STEP // 86_400, POOL)
    await redis.hset(key, str(STEP), b"\xc1")
    assert list(await five_minutes(redis)) == [STEP + 300]
    assert [each.key for each in await Quarantine(redis).all()] == [key]


async def test_steps_of_several_days_are_read_in_order_from_the_first_to_before_the_last(redis):
    history = HistoryStore(redis)
    for day in range(3):
        await history.record(ORG, seen(STEP + day * 86_400), STEP + day * 86_400)
    found = await history.steps(ORG, POOL, STEP, STEP + 2 * 86_400, STEP_SECONDS)
    assert list(found) == [STEP, STEP + 86_400]


@pytest.mark.parametrize(("pools", "trips"), [(1, 3), (MOST_POOLS, 3)])
async def test_a_sweep_records_any_number_of_pools_in_three_round_trips(redis, monkeypatch, pools, trips):
    gauges = {f"pool-{number}": {"healthy": 1} for number in range(pools)}
    history, sent = HistoryStore(redis), []
    await history.record(ORG, HistorySample(NOW, gauges, {}), NOW)
    send = AbstractConnection.send_packed_command

    async def counted_send(self, *args, **options):
        sent.append(args)
        return await send(self, *args, **options)

    monkeypatch.setattr(AbstractConnection, "send_packed_command", counted_send)
    await history.record(ORG, HistorySample(NOW, gauges, {}), NOW)
    assert len(sent) == trips
