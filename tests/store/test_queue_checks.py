"""The check runs of the queue, and the repositories that opted out."""

from __future__ import annotations

import pytest

from ghapp.store import keys
from ghapp.workflow_jobs.queue_check import FollowedJob, QueueCheck
from ghapp.workflow_jobs.store import CHECKS_KEPT_SECONDS, POSTS_AN_HOUR, QUIET_SECONDS, QueueChecks

NOW = 1_790_000_000.0
CHECK = QueueCheck("acme/api", "f" * 40, (FollowedJob(1, NOW, "test"),), 9, "digest", "summary", NOW)


async def test_a_check_is_kept_until_it_is_deleted(redis):
    checks = QueueChecks(redis)
    assert not await checks.any(7)
    await checks.keep(7, "one", CHECK)
    await checks.keep(7, "two", CHECK._replace(over=True))
    assert await checks.all(7) == {"one": CHECK, "two": CHECK._replace(over=True)}
    assert await redis.ttl(keys.queue_checks(7)) == CHECKS_KEPT_SECONDS
    await checks.forget(7)
    await checks.forget(7, "one", "two")
    assert (await checks.all(7), await checks.any(7)) == ({}, False)


@pytest.mark.parametrize("quiet", [True, False])
async def test_the_opt_out_of_a_repository_is_cached_for_an_hour_regardless_of_case(redis, quiet):
    checks = QueueChecks(redis)
    assert await checks.is_quiet(7, "acme/api") is None
    await checks.remember_quiet(7, "acme/API", quiet=quiet)
    assert await checks.is_quiet(7, "Acme/api") is quiet
    assert await checks.is_quiet(8, "acme/api") is None
    assert await redis.ttl(keys.quiet(7, "acme/api")) == QUIET_SECONDS


async def test_posts_are_limited_by_hour_and_installation(redis):
    checks = QueueChecks(redis)
    allowed = [await checks.may_post(7, NOW) for _ in range(POSTS_AN_HOUR + 2)]
    assert allowed == [True] * POSTS_AN_HOUR + [False] * 2
    assert await checks.may_post(8, NOW)
    assert await checks.may_post(7, NOW + 3600)
