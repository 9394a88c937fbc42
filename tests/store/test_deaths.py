"""Post-mortems: recorded once, kept for a month, bounded in number."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.deaths import store as module
from ghapp.deaths.cause import Cause
from ghapp.deaths.death import DeadJob, Death
from ghapp.deaths.patterns import RecentDeaths, death_summary
from ghapp.deaths.store import KEPT_SECONDS, MOST_CHARACTERS, MOST_LINES, Deaths
from ghapp.errors import StoreUnavailableError
from ghapp.store import keys
from ghapp.store.compare_and_set import ATTEMPTS

ORG = 7
NOW = 1_790_000_000.0
JOB = DeadJob(42, "acme/api", "build", "c0ffee", "", "https://github.com/acme/api/actions/runs/1/job/42")


def death(number=1, **changes):
    """A runner that was just killed, without details yet."""
    worst = Death(
        f"linux-{number}", f"linux-{number}", "node-1", NOW, 137, 9, "Error", Cause.GUEST_OOM_OR_KILL, "more memory"
    )
    return worst._replace(namespace="runners", pod_uid=f"uid-{number}")._replace(**changes)


@pytest.fixture
def times():
    return [NOW]


@pytest.fixture
def deaths(redis, times):
    return Deaths(redis, lambda: times[0])


async def sizes(redis):
    """The number of rows of each of the three keys."""
    return (
        await redis.hlen(keys.deaths(ORG)),
        await redis.zcard(keys.death_times(ORG)),
        await redis.hlen(keys.death_names(ORG)),
    )


async def test_a_death_is_read_as_it_was_recorded(deaths):
    found = death(runner_id=3, pool="linux", job=JOB, runner_log=("one", "two"), host_log=("oom-kill: ä",))
    assert await deaths.record(ORG, found) is True
    assert await deaths.of(ORG, "linux-1") == found
    assert await deaths.recent(ORG, NOW, 10) == [found]
    assert await deaths.of(ORG + 1, "linux-1") is None
    assert await deaths.of(ORG, "linux-2") is None


async def test_the_last_hour_has_its_number_of_deaths_and_the_last_one(deaths, times):
    await deaths.record(ORG, death(1, cause=Cause.CLEAN_EXIT, exit_code=0))
    assert await deaths.within_hour(ORG) is None
    await deaths.record(ORG, death(2, at=NOW - 20))
    await deaths.record(ORG, death(3, at=NOW - 10))
    await deaths.record(ORG, death(4, cause=Cause.CLEAN_EXIT, exit_code=0))
    times[0] = NOW + 3_580
    assert await deaths.within_hour(ORG) == RecentDeaths(2, death_summary(death(3, at=NOW - 10)))
    times[0] = NOW + 3_591
    assert await deaths.within_hour(ORG) is None


async def test_clean_exits_do_not_displace_other_deaths(deaths):
    for number in range(5):
        await deaths.record(ORG, death(number, cause=Cause.CLEAN_EXIT, exit_code=0, at=NOW - number / 10))
        await deaths.record(ORG, death(10 + number, at=NOW - 10 * number))
    assert [each.runner_name for each in await deaths.unclean(ORG, NOW - 30, 10)] == [
        f"linux-{n}" for n in range(10, 14)
    ]
    assert [each.runner_name for each in await deaths.unclean(ORG, NOW - 30, 2)] == ["linux-10", "linux-11"]
    assert await deaths.unclean(ORG, NOW - 30, 0) == []
    assert await deaths.unclean(ORG + 1, NOW - 30, 10) == []


@pytest.mark.parametrize(
    ("again", "fresh"),
    [
        (death(), False),
        (death(advice="better", job=JOB, runner_log=("x",), cause=Cause.CRASH), False),
        (death(runner_name="other"), False),
        (death(at=NOW - 1), True),
        (death(exit_code=1), True),
        (death(pod_uid="uid-2"), True),
        (death(exit_code=None), True),
    ],
    ids=["the same", "richer", "another name", "another end", "another exit", "another pod", "and then vanished"],
)
async def test_the_same_end_of_the_same_pod_is_recorded_once_and_changes_nothing(redis, deaths, again, fresh):
    await deaths.record(ORG, death())
    assert await deaths.record(ORG, again) is fresh
    assert death() in await deaths.recent(ORG, 0, 10)
    assert (await sizes(redis))[:2] == (1 + fresh, 1 + fresh)


async def test_a_pod_vanishes_once_whenever_that_is_noticed(deaths, times):
    vanished = death(exit_code=None, signal=None, cause=Cause.VANISHED)
    times[0] = NOW + 60
    recorded = [await deaths.record(ORG, vanished._replace(at=NOW + after)) for after in (0, 1, 60)]
    assert recorded == [True, False, False]


async def test_pods_without_a_uid_are_distinguished_by_namespace_and_name(deaths):
    found = [death(pod_uid="", namespace=namespace, pod=pod) for namespace in ("a", "b") for pod in ("c", "d")]
    assert [await deaths.record(ORG, each) for each in [*found, *found]] == [True] * 4 + [False] * 4


async def test_of_many_concurrent_equal_reports_one_is_recorded(redis):
    found = await asyncio.gather(*(Deaths(redis, lambda: NOW).record(ORG, death()) for _ in range(20)))
    assert sorted(found) == [False] * 19 + [True]


async def test_the_latest_death_of_a_name_is_shown_for_any_order_of_arrival(deaths):
    first, last = death(pod_uid="b", at=NOW - 10), death(pod_uid="a", at=NOW - 5)
    for each in (last, first):
        await deaths.record(ORG, each)
    assert await deaths.of(ORG, "linux-1") == last


async def test_recent_deaths_are_latest_first_and_limited_to_the_requested_number(deaths):
    for number in range(5):
        await deaths.record(ORG, death(number, at=NOW - number))
    assert [each.at for each in await deaths.recent(ORG, NOW - 3, 10)] == [NOW, NOW - 1, NOW - 2, NOW - 3]
    assert [each.at for each in await deaths.recent(ORG, 0, 2)] == [NOW, NOW - 1]
    assert await deaths.recent(ORG, 0, 0) == []
    assert await deaths.recent(ORG, NOW + 1, 10) == []


@pytest.mark.parametrize(("age", "kept"), [(KEPT_SECONDS, 2), (KEPT_SECONDS + 0.001, 1)], ids=["a month", "longer"])
async def test_a_death_is_kept_for_a_month_and_then_deleted_from_every_key(redis, deaths, age, kept):
    await deaths.record(ORG, death(1, at=NOW - age))
    await deaths.record(ORG, death(2, at=NOW))
    assert await sizes(redis) == (kept, kept, kept)
    assert (await deaths.of(ORG, "linux-1") is not None) is (kept == 2)


async def test_a_death_older_than_a_month_is_not_recorded_again_and_again(redis, deaths):
    await deaths.record(ORG, death(2, at=NOW))
    assert [await deaths.record(ORG, death(1, at=NOW - KEPT_SECONDS - 1)) for _ in range(2)] == [False, False]
    assert await sizes(redis) == (1, 1, 1)


async def test_after_a_month_a_death_is_not_shown_even_without_a_later_death(deaths, times):
    await deaths.record(ORG, death())
    times[0] = NOW + KEPT_SECONDS
    assert await deaths.of(ORG, "linux-1") is not None
    times[0] += 1
    assert await deaths.of(ORG, "linux-1") is None
    assert await deaths.recent(ORG, 0, 10) == []


async def test_a_jump_ahead_of_our_clock_deletes_nothing(redis, deaths, times):
    await deaths.record(ORG, death(1))
    times[0] = NOW + 365 * 86_400
    await deaths.record(ORG, death(2))
    times[0] = NOW
    assert await deaths.of(ORG, "linux-1") == death(1)
    assert await sizes(redis) == (2, 2, 2)


async def test_a_kubelets_clock_that_is_ahead_deletes_nothing_and_extends_no_retention(redis, deaths):
    await deaths.record(ORG, death(1))
    await deaths.record(ORG, death(2, at=NOW + 365 * 86_400))
    assert await sizes(redis) == (2, 2, 2)
    assert await redis.zrange(keys.death_times(ORG), 0, -1, withscores=True) == [
        (b"uid-1 1790000000.000 137", NOW),
        (b"uid-2 1821536000.000 137", NOW),
    ]


async def test_the_number_of_deaths_is_bounded_and_the_oldest_are_deleted_first(redis, deaths, monkeypatch):
    monkeypatch.setattr(module, "MOST", 3)
    for number in (4, 1, 3, 2):
        await deaths.record(ORG, death(number, at=NOW + number - 10))
    assert [each.runner_name for each in await deaths.recent(ORG, 0, 10)] == ["linux-4", "linux-3", "linux-2"]
    assert await deaths.record(ORG, death(1, at=NOW - 9)) is False, "older than every stored death"
    assert await sizes(redis) == (3, 3, 3)


def clean(number, **changes):
    return death(number, cause=Cause.CLEAN_EXIT, reason="Completed", exit_code=0, signal=None, **changes)


async def test_beyond_the_limit_clean_exits_are_deleted_before_other_deaths(redis, deaths, monkeypatch):
    monkeypatch.setattr(module, "MOST", 3)
    await deaths.record(ORG, death(1, at=NOW - 100))
    for number in range(2, 20):
        await deaths.record(ORG, clean(number, at=NOW + number - 50))
    assert [each.runner_name for each in await deaths.recent(ORG, 0, 9)] == ["linux-19", "linux-18", "linux-1"]
    for number in (20, 21):
        await deaths.record(ORG, death(number, at=NOW - 99))
    assert await deaths.record(ORG, clean(22)) is False, "no clean exit fits"
    assert {each.runner_name for each in await deaths.recent(ORG, 0, 9)} == {"linux-1", "linux-20", "linux-21"}
    assert await sizes(redis) == (3, 3, 3)
    assert await redis.zcard(keys.death_clean(ORG)) == 0


async def test_a_clean_exit_that_is_reclassified_stays(deaths, monkeypatch):
    monkeypatch.setattr(module, "MOST", 2)
    silent = clean(1)
    await deaths.record(ORG, silent)
    await deaths.enrich(ORG, silent._replace(cause=Cause.CRASH, runner_log=("bye",)))
    for number in (2, 3, 4):
        await deaths.record(ORG, clean(number, at=NOW - 5 + number))
    assert {each.runner_name for each in await deaths.recent(ORG, 0, 9)} == {"linux-1", "linux-4"}


async def test_an_unpublished_death_is_listed_until_its_event_is_published(redis, deaths, times):
    for number in (1, 2, 3):
        await deaths.record(ORG, death(number, at=NOW - number))
    await deaths.mark_published(ORG, death(2, at=NOW - 2))
    assert [each.runner_name for each in await deaths.unpublished(ORG, 9)] == ["linux-1", "linux-3"]
    assert [each.runner_name for each in await deaths.unpublished(ORG, 1)] == ["linux-1"]
    times[0] = NOW + KEPT_SECONDS
    await deaths.record(ORG, death(4, at=NOW + KEPT_SECONDS))
    assert await redis.zcard(keys.deaths_unpublished(ORG)) == 1, "deleted deaths are not published"


async def test_cause_reason_and_advice_come_from_the_same_writer(deaths):
    """The writer without the log writes last, and must not overwrite the cause found in the log."""
    await deaths.record(ORG, death())
    wise = death(runner_log=("bye",), cause=Cause.CRASH, reason="SessionConflict", advice="one registration each")
    await deaths.enrich(ORG, wise)
    await deaths.enrich(ORG, death(job=JOB))
    known = await deaths.of(ORG, "linux-1")
    assert (known.cause, known.reason, known.advice) == (wise.cause, wise.reason, wise.advice)


async def test_each_death_is_found_by_its_identity(deaths):
    ends = [death(exit_code=1), death(exit_code=2), death(exit_code=None)]
    for each in ends:
        await deaths.record(ORG, each)
    assert [await deaths.one(ORG, module.identity(each)) for each in ends] == ends
    assert await deaths.one(ORG, "unknown") is None


async def test_ten_thousand_deaths_are_kept(redis, deaths):
    for start in range(0, 10_050, 50):
        await asyncio.gather(*(deaths.record(ORG, death(start + each)) for each in range(50)))
    assert await sizes(redis) == (10_000, 10_000, 10_000)


async def test_without_new_deaths_the_keys_expire(redis, deaths):
    await deaths.record(ORG, death())
    for key in (keys.deaths(ORG), keys.death_times(ORG), keys.death_names(ORG)):
        assert 0 < await redis.ttl(key) <= KEPT_SECONDS


async def test_later_findings_are_added(deaths):
    await deaths.record(ORG, death())
    richer = death(runner_id=3, pool="linux", job=JOB, runner_log=("gone",), host_log=("oom",), cause=Cause.HOST_OOM)
    assert await deaths.enrich(ORG, richer) is True
    assert await deaths.of(ORG, "linux-1") == richer
    assert await deaths.record(ORG, death()) is False
    assert await deaths.of(ORG, "linux-1") == richer


async def test_an_unrecorded_death_is_not_enriched(redis, deaths):
    assert await deaths.enrich(ORG, death(job=JOB)) is False
    assert await sizes(redis) == (0, 0, 0)


async def test_concurrent_enrichments_lose_nothing(redis, deaths):
    for number in range(30):
        await deaths.record(ORG, death(number))
        await asyncio.gather(
            deaths.enrich(ORG, death(number, job=JOB)),
            Deaths(redis).enrich(ORG, death(number, host_log=("kernel",))),
            Deaths(redis).enrich(ORG, death(number, runner_log=("bye",), cause=Cause.DELETED_REGISTRATION, advice="b")),
        )
        known = await deaths.of(ORG, f"linux-{number}")
        assert (known.job, known.host_log, known.runner_log) == (JOB, ("kernel",), ("bye",))
        assert (known.cause, known.advice) == (Cause.DELETED_REGISTRATION, "b"), (
            "the cause is from the writer that had the log"
        )


async def test_a_job_s_conclusion_is_not_overwritten_by_a_record_without_one(deaths):
    await deaths.record(ORG, death())
    done = JOB._replace(conclusion="failure")
    for job in (JOB, done, JOB, None):
        await deaths.enrich(ORG, death(job=job))
    assert (await deaths.of(ORG, "linux-1")).job == done
    other = JOB._replace(id=43)
    await deaths.enrich(ORG, death(job=other))
    assert (await deaths.of(ORG, "linux-1")).job == other


async def test_an_enriched_death_of_a_vanished_pod_keeps_its_time_and_node(redis, deaths):
    vanished = death(exit_code=None, node="node-1")
    await deaths.record(ORG, vanished)
    await deaths.enrich(ORG, vanished._replace(at=NOW - 30, node="", job=JOB))
    assert await deaths.of(ORG, "linux-1") == vanished._replace(job=JOB)


async def test_a_record_that_changes_on_each_attempt_is_an_error(deaths):
    await deaths.record(ORG, death())
    tries = []

    async def overtaken(args, **_):
        tries.append(1)
        return [args[1].encode()]

    deaths._revise._script = overtaken
    with pytest.raises(StoreUnavailableError):
        await deaths.enrich(ORG, death(job=JOB))
    assert len(tries) == ATTEMPTS


async def test_the_last_lines_of_a_long_log_are_kept(redis, deaths):
    many = tuple(f"line {number}" for number in range(MOST_LINES + 1))
    long = ("first", "x" * 1_000_000, *("y" * 2_000 for _ in range(16)))
    await deaths.record(ORG, death(runner_log=many, host_log=long))
    kept = await deaths.of(ORG, "linux-1")
    assert kept.runner_log == many[1:]
    assert sum(map(len, kept.host_log)) <= MOST_CHARACTERS
    assert kept.host_log == ("y" * 2_000,) * 16
    await deaths.record(ORG, death(2, host_log=("x" * 2_001,)))
    assert (await deaths.of(ORG, "linux-2")).host_log == ("x" * 2_000,)
    assert await redis.hstrlen(keys.deaths(ORG), "uid-1 1790000000.000 137") < 20_000
