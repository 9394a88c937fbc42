"""Records of runners with concurrent writers."""

import asyncio

import msgspec
import pytest

from ghapp.errors import StoreUnavailableError
from ghapp.runners.evidence import Evidence, Survey
from ghapp.runners.store import MOST_NAMES, Runners
from ghapp.store import keys
from ghapp.store.compare_and_set import ATTEMPTS, CHUNK
from ghapp.store.connect import connect, connect_sync

ORG = 7
NOW = 1_790_000_000.25
MOST_BYTES_OF_A_NAME = 45
RUNNER = Evidence(1, "linux-1", NOW)


def first(evidence):
    return lambda _: evidence


def counted(evidence):
    return (evidence or RUNNER)._replace(job_id=((evidence.job_id if evidence else None) or 0) + 1)


async def test_concurrent_writers_lose_no_change(redis, redis_url):
    other = connect(redis_url)
    calls = 0

    def counting(evidence):
        nonlocal calls
        calls += 1
        return counted(evidence)

    one, two = Runners(redis), Runners(other)
    for _ in range(100):
        await asyncio.gather(one.revise(ORG, {1: counting}), two.revise(ORG, {1: counting}))
    await other.aclose()
    assert (await Runners(redis).all(ORG))[1].job_id == 200
    assert calls > 200, "no conflict occurred, so the test proved nothing"


async def test_a_record_changed_by_a_concurrent_write_is_read_and_folded_again(redis):
    runners = Runners(redis)
    known = await runners.revise(ORG, {1: first(RUNNER)})
    await runners.revise(ORG, {1: lambda app: app._replace(online=True)})
    seen = []

    def fold(evidence):
        seen.append(evidence)
        return evidence._replace(busy=True)

    revised = await runners.revise(ORG, {1: fold}, known)
    both = RUNNER._replace(online=True, busy=True)
    assert revised == await runners.all(ORG) == {1: both}
    assert seen == [RUNNER, RUNNER._replace(online=True)]


async def test_a_record_deleted_by_another_process_is_folded_again(redis):
    runners = Runners(redis)
    known = await runners.revise(ORG, {1: first(RUNNER)})
    await runners.revise(ORG, {1: first(None)})
    assert await runners.revise(ORG, {1: counted}, known) == {1: RUNNER._replace(job_id=1)}


async def test_only_records_that_changed_are_folded_again(redis):
    runners = Runners(redis)
    known = await runners.revise(ORG, {each: first(RUNNER._replace(id=each, name=f"linux-{each}")) for each in (1, 2)})
    await runners.revise(ORG, {1: counted})
    await runners.revise(ORG, {1: counted, 2: counted}, known)
    assert {each: app.job_id for each, app in (await runners.all(ORG)).items()} == {1: 2, 2: 1}


async def test_a_record_that_changes_on_each_attempt_is_given_up(redis, redis_url):
    calls = 0
    with connect_sync(redis_url) as rival:

        def outrun(_):
            nonlocal calls
            calls += 1
            rival.hset(keys.runners(ORG), "1", msgspec.msgpack.encode(RUNNER._replace(job_id=calls)))
            return RUNNER

        with pytest.raises(StoreUnavailableError):
            await Runners(redis).revise(ORG, {1: outrun})
    assert calls == ATTEMPTS


@pytest.mark.parametrize("fields", [3, 10, len(Evidence._fields) - 1])
async def test_a_record_from_before_fields_were_appended_can_be_revised(redis, fields):
    runners = Runners(redis)
    await redis.hset(keys.runners(ORG), "1", msgspec.msgpack.encode(tuple(RUNNER)[:fields]))
    assert await runners.all(ORG) == {1: RUNNER}
    assert await runners.revise(ORG, {1: lambda app: app._replace(busy=True)}) == {1: RUNNER._replace(busy=True)}
    assert await runners.all(ORG) == {1: RUNNER._replace(busy=True)}


async def test_a_fold_that_changes_nothing_writes_nothing(redis):
    runners = Runners(redis)
    await runners.revise(ORG, {1: first(RUNNER)})
    await redis.config_resetstat()
    assert await runners.revise(ORG, {1: lambda app: app}) == {1: RUNNER}
    assert "cmdstat_hset" not in await redis.info("commandstats")


async def test_an_unobserved_runner_leaves_no_record(redis):
    assert await Runners(redis).revise(ORG, {1: lambda app: app}) == {}
    assert await redis.keys() == []


async def test_more_records_than_one_script_call_takes_are_all_written(redis):
    many = {each: RUNNER._replace(id=each, name=f"linux-{each}") for each in range(1, 2 * CHUNK + 2)}
    runners = Runners(redis)
    await runners.revise(ORG, {each: first(evidence) for each, evidence in many.items()})
    assert await runners.all(ORG) == many


@pytest.mark.parametrize("order", [(9, 10), (10, 9)])
async def test_a_name_refers_to_the_latest_id_for_any_order_of_writes(redis, order):
    runners = Runners(redis)
    for each in order:
        await runners.revise(ORG, {each: first(RUNNER._replace(id=each))})
    assert await runners.ids_of(ORG, ["linux-1", "unknown"]) == {"linux-1": 10}


async def test_a_deleted_runner_releases_its_name(redis):
    runners = Runners(redis)
    await runners.revise(ORG, {1: first(RUNNER)})
    assert await runners.revise(ORG, {1: first(None)}) == {}
    assert await redis.keys() == [], "without a reader there is no feed of changes"


async def test_the_name_of_a_deleted_runner_stays_with_its_successor(redis):
    runners = Runners(redis)
    await runners.revise(ORG, {1: first(RUNNER), 2: first(RUNNER._replace(id=2))})
    await runners.revise(ORG, {1: first(None)})
    assert await runners.ids_of(ORG, ["linux-1"]) == {"linux-1": 2}
    assert list(await runners.all(ORG)) == [2]


def fleet(first_id, count):
    return {each: first(RUNNER._replace(id=each, name=f"linux-{each}")) for each in range(first_id, first_id + count)}


@pytest.mark.parametrize("count", [MOST_NAMES, MOST_NAMES + 1, 3_000])
async def test_each_name_refers_to_its_runner_whichever_hash_has_it(redis, count):
    runners = Runners(redis)
    await runners.revise(ORG, fleet(1, count))
    names = {f"linux-{each}": each for each in range(1, count + 1)}
    assert await runners.ids_of(ORG, [*names, "unknown"]) == names
    assert len(await redis.keys(f"{keys.names(ORG)}:*")) == min(256, count - MOST_NAMES)
    await runners.revise(ORG, dict.fromkeys(range(1, count + 1), lambda _: None))
    assert await redis.keys() == []


@pytest.mark.parametrize("order", [(9_001, 9_002), (9_002, 9_001)])
async def test_a_name_that_is_in_two_hashes_refers_to_the_latest_id(redis, order):
    runners = Runners(redis)
    await runners.revise(ORG, fleet(1, MOST_NAMES))
    earlier, later = order
    await runners.revise(ORG, {earlier: first(RUNNER._replace(id=earlier, name="moved"))})
    await runners.revise(ORG, {1: lambda _: None, 2: lambda _: None})
    await runners.revise(ORG, {later: first(RUNNER._replace(id=later, name="moved"))})
    assert await runners.ids_of(ORG, ["moved"]) == {"moved": 9_002}
    await runners.revise(ORG, {9_002: lambda _: None})
    assert await runners.ids_of(ORG, ["moved"]) == {"moved": 9_001}


async def test_ten_thousand_names_take_few_bytes_each(redis):
    await Runners(redis).revise(ORG, fleet(1, 10_000))
    found = await redis.keys(f"{keys.names(ORG)}*")
    assert sum([await redis.memory_usage(key, samples=0) for key in found]) / 10_000 < MOST_BYTES_OF_A_NAME


async def test_some_returns_only_known_runners(redis):
    runners = Runners(redis)
    await runners.revise(ORG, {1: first(RUNNER)})
    assert await runners.some(ORG, [1, 2]) == {1: RUNNER}
    assert await runners.some(ORG, []) == {}
    assert await runners.ids_of(ORG, []) == {}


async def test_installations_are_separate(redis):
    runners = Runners(redis)
    await runners.revise(ORG, {1: first(RUNNER)})
    assert await runners.all(ORG + 1) == {}
    assert await runners.ids_of(ORG + 1, ["linux-1"]) == {}


async def test_a_survey_is_kept_and_empty_before_the_first(redis):
    runners = Runners(redis)
    assert await runners.survey(ORG) == Survey()
    survey = Survey(swept_at=NOW, total=412, failing_since=NOW - 1, failure="Forbidden")
    await runners.save_survey(ORG, survey)
    assert await runners.survey(ORG) == survey


async def test_ten_thousand_runners_use_at_most_seven_hundred_bytes_each(redis):
    runners = Runners(redis)
    typical = {
        each: Evidence(
            id=each,
            name=f"linux-4vcpu-blue-x7k2p-runner-{each}",
            first_seen=NOW,
            labels=("self-hosted", "Linux", "X64", "linux-4vcpu", "blue"),
            custom_labels=("linux-4vcpu", "blue"),
            os="linux",
            ephemeral=True,
            group_id=3,
            version="2.330.0",
            registered=True,
            listed=True,
            observed_at=NOW,
            online=True,
            busy=True,
            was_online=True,
            job_id=48_000_000_000 + each,
            job_started_at=NOW,
            last_delivery_at=NOW,
            state="healthy",
            state_since=NOW,
        )
        for each in range(2_000_000, 2_010_000)
    }
    before = (await redis.info("memory"))["used_memory"]
    await runners.revise(ORG, {each: first(evidence) for each, evidence in typical.items()}, known={})
    await runners.save_survey(ORG, Survey(swept_at=NOW, total=10_000))
    each = ((await redis.info("memory"))["used_memory"] - before) / 10_000
    assert await redis.hlen(keys.runners(ORG)) == 10_000
    assert 100 < each <= 700
