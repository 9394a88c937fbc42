"""The state of the health report: the last posted report, its head commit, and the reason why it is not posted."""

import asyncio

import pytest

from ghapp.report.check_run_state import CheckRunState, Head, Posted, PostFailure
from ghapp.report.store import Reports
from ghapp.store import keys

ORG = 7
NOW = 1_790_000_000.25
POSTED = Posted("acme/.github", "aaa", 60_000_000_001, "digest")
HEAD = Head("acme/.github", "main", "aaa", NOW, NOW)
SETBACK = PostFailure("acme/.github", "permission-missing", NOW + 300)


async def test_the_initial_state_is_empty(redis):
    assert await Reports(redis).check_run_state(ORG) == CheckRunState()


async def test_a_recorded_state_belongs_to_its_installation(redis):
    reports = Reports(redis)
    await reports.posted(ORG, POSTED)
    await reports.record_head(ORG, HEAD)
    await reports.put_off(ORG, SETBACK)
    assert await reports.check_run_state(ORG) == CheckRunState(POSTED, HEAD, SETBACK)
    assert await reports.check_run_state(ORG + 1) == CheckRunState()
    assert await redis.keys() == [keys.report(ORG).encode()]


async def test_a_posted_report_clears_the_failure(redis):
    reports = Reports(redis)
    await reports.put_off(ORG, SETBACK)
    await reports.posted(ORG, POSTED)
    assert await reports.check_run_state(ORG) == CheckRunState(POSTED)


async def test_a_requested_repost_clears_the_digest_and_keeps_the_check_run(redis):
    reports = Reports(redis)
    await reports.request_repost(ORG)
    assert await reports.check_run_state(ORG) == CheckRunState()
    await reports.posted(ORG, POSTED)
    await reports.request_repost(ORG)
    assert (await reports.check_run_state(ORG)).posted == POSTED._replace(digest="")


async def test_the_newest_of_many_concurrent_heads_is_kept(redis):
    for _ in range(10):
        await redis.delete(keys.report(ORG))
        found = [HEAD._replace(sha=str(number), at=NOW + number) for number in range(10)]
        await asyncio.gather(*(Reports(redis).record_head(ORG, each) for each in found))
        assert (await Reports(redis).check_run_state(ORG)).head == found[-1]


async def test_deleting_the_head_keeps_the_rest_of_the_state(redis):
    reports = Reports(redis)
    await reports.posted(ORG, POSTED)
    await reports.record_head(ORG, HEAD)
    await reports.forget_head(ORG)
    assert await reports.check_run_state(ORG) == CheckRunState(POSTED)


@pytest.mark.parametrize(
    ("setback", "is_new"),
    [
        (SETBACK, False),
        (SETBACK._replace(until=NOW + 600), False),
        (SETBACK._replace(reason="head-unknown"), True),
        (SETBACK._replace(repository="acme/fleet"), True),
    ],
)
async def test_a_failure_is_new_if_its_reason_or_repository_changed(redis, setback, is_new):
    reports = Reports(redis)
    assert await reports.put_off(ORG, SETBACK) is True
    assert await reports.put_off(ORG, setback) is is_new
    assert (await reports.check_run_state(ORG)).setback == setback


async def test_a_failure_lasts_since_the_first_one_of_its_reason(redis):
    reports = Reports(redis)
    for at, reason in ((NOW, "unavailable"), (NOW + 10, "unavailable"), (NOW + 20, "refused")):
        await reports.put_off(ORG, SETBACK._replace(reason=reason, since=at))
        assert (await reports.check_run_state(ORG)).setback.since == (NOW if reason == "unavailable" else at)


async def test_a_retry_clears_the_failure(redis):
    reports = Reports(redis)
    await reports.put_off(ORG, SETBACK)
    await reports.try_again(ORG)
    assert await reports.check_run_state(ORG) == CheckRunState()
