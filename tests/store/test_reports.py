"""What was last posted, where it belongs, and what keeps us from it."""

import asyncio

import pytest

from ghapp.report.check_run_state import CheckRunState, Head, Posted, PostFailure
from ghapp.store import keys
from ghapp.store.reports import Reports

ORG = 7
NOW = 1_790_000_000.25
POSTED = Posted("acme/.github", "aaa", 60_000_000_001, "digest")
HEAD = Head("acme/.github", "main", "aaa", NOW, NOW)
SETBACK = PostFailure("acme/.github", "permission-missing", NOW + 300)


async def test_nothing_is_known_at_first(redis):
    assert await Reports(redis).check_run_state(ORG) == CheckRunState()


async def test_what_was_recorded_is_known_of_that_installation_alone(redis):
    reports = Reports(redis)
    await reports.posted(ORG, POSTED)
    await reports.record_head(ORG, HEAD)
    await reports.put_off(ORG, SETBACK)
    assert await reports.check_run_state(ORG) == CheckRunState(POSTED, HEAD, SETBACK)
    assert await reports.check_run_state(ORG + 1) == CheckRunState()
    assert await redis.keys() == [keys.report(ORG).encode()]


async def test_what_was_posted_ends_what_kept_us_from_it(redis):
    reports = Reports(redis)
    await reports.put_off(ORG, SETBACK)
    await reports.posted(ORG, POSTED)
    assert await reports.check_run_state(ORG) == CheckRunState(POSTED)


async def test_a_requested_repost_forgets_the_text_and_not_the_place(redis):
    reports = Reports(redis)
    await reports.request_repost(ORG)
    assert await reports.check_run_state(ORG) == CheckRunState()
    await reports.posted(ORG, POSTED)
    await reports.request_repost(ORG)
    assert (await reports.check_run_state(ORG)).posted == POSTED._replace(digest="")


async def test_of_many_concurrent_heads_the_newest_stays(redis):
    for _ in range(10):
        await redis.delete(keys.report(ORG))
        found = [HEAD._replace(sha=str(number), at=NOW + number) for number in range(10)]
        await asyncio.gather(*(Reports(redis).record_head(ORG, each) for each in found))
        assert (await Reports(redis).check_run_state(ORG)).head == found[-1]


async def test_a_head_that_is_forgotten_is_not_known_and_the_rest_is(redis):
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
async def test_a_setback_is_news_when_it_is_another(redis, setback, is_new):
    reports = Reports(redis)
    assert await reports.put_off(ORG, SETBACK) is True
    assert await reports.put_off(ORG, setback) is is_new
    assert (await reports.check_run_state(ORG)).setback == setback


async def test_a_setback_that_may_be_over_is_forgotten(redis):
    reports = Reports(redis)
    await reports.put_off(ORG, SETBACK)
    await reports.try_again(ORG)
    assert await reports.check_run_state(ORG) == CheckRunState()
