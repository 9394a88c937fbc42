"""Scopes of repositories and enterprises are recorded with the installations, and go with theirs."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from ghapp.installations.installation import Installation, enterprise_scope, repository_scope
from ghapp.installations.store import KEPT_SECONDS, Installations, UninstalledData
from ghapp.remediation.fuse import Fuse, FuseLimits, Position
from ghapp.remediation.store import FAMILY_PLAN_SECONDS, UNREADABLE_FUSE, Fuses
from ghapp.store import keys

PROVING, STOPPED = Fuse(Position.PROVING, since=1.0), Fuse(Position.STOPPED, since=1.0, stopped_at=1.0)
ACME = Installation(7, "acme", 70, {"administration": "read"})
OTHER = Installation(8, "other", 80)
API, WEB = (repository_scope(ACME, number, name, f"acme/{name}") for number, name in ((3, "api"), (4, "web")))
CORP = enterprise_scope("corp")


@pytest.fixture
async def installations(redis):
    found = Installations(redis, {})
    await found.replace_all([ACME, OTHER])
    await found.put_scopes(7, [API, WEB])
    return found


async def ids(installations):
    return {each.id for each in await installations.all()}


async def test_a_list_keeps_the_scopes_of_its_installations_with_their_permissions_and_no_others(installations):
    granted = replace(ACME, permissions={"administration": "write"}, suspended=True)
    found = await installations.replace_all([granted, CORP])
    assert [each.id for each in found[:2]] == [7, CORP.id]
    assert {each.id for each in found[2:]} == {-3, -4}
    assert [(each.permissions, each.suspended) for each in found[2:]] == [(granted.permissions, True)] * 2
    assert [each.id for each in await installations.scopes_of(7)] == [-4, -3]
    await installations.replace_all([OTHER])
    assert await ids(installations) == {8}


async def test_the_fuse_of_all_pools_is_that_of_the_installation_and_fuses_of_pools_are_each_scope_s_own(
    installations, redis
):
    fuses = Fuses(redis)
    assert await fuses.save(API.id, "*", None, STOPPED) is True
    for each in (ACME, API):
        assert await fuses.save(each.id, "linux", None, PROVING) is True
    assert await fuses.all(ACME.id) == await fuses.all(API.id) == {"*": STOPPED, "linux": PROVING}
    assert await fuses.all(WEB.id) == {"*": STOPPED}
    assert await fuses.all(CORP.id) == await fuses.all(OTHER.id) == {}
    assert await fuses.save(WEB.id, "*", None, PROVING) is False
    assert not await fuses.resume(WEB, "*", "eve", 2.0, FuseLimits()), "a repository's people do not restart it"
    await fuses.resume(ACME, "*", "mona", 2.0, FuseLimits())
    whole = (await fuses.all(ACME.id))["*"]
    assert (whole.position, whole.by) == (Position.PROVING, "mona")
    await fuses.forget(WEB.id, {"*": whole, "linux": PROVING})
    assert await fuses.all(ACME.id) == await fuses.all(API.id) == {"linux": PROVING}


async def test_an_unreadable_fuse_of_all_pools_is_stopped_in_each_scope(installations, redis):
    await redis.hset(keys.fuses(ACME.id), "*", b"garbage")
    assert await Fuses(redis).all(API.id) == await Fuses(redis).all(ACME.id) == {"*": UNREADABLE_FUSE}


async def test_the_scopes_of_an_installation_are_planned_together_once_in_a_while(redis):
    fuses = Fuses(redis)
    assert await fuses.is_family_plan_due(ACME.id, 100.0)
    await fuses.family_planned(ACME.id, 100.0)
    times = (99.0, 100.0, 100.0 + FAMILY_PLAN_SECONDS - 0.1, 100.0 + FAMILY_PLAN_SECONDS)
    assert [await fuses.is_family_plan_due(ACME.id, each) for each in times] == [True, False, False, True]
    assert await fuses.is_family_plan_due(OTHER.id, 100.0)


async def test_a_changed_installation_changes_its_scopes(installations):
    await installations.put(replace(ACME, suspended=True))
    assert [each.suspended for each in await installations.scopes_of(7)] == [True] * 2
    assert not (await installations.one(8)).suspended


async def test_a_search_replaces_the_scopes_of_its_installation_alone(installations):
    await installations.put_scopes(8, [repository_scope(OTHER, 5, "x", "other/x")])
    await installations.put_scopes(7, [WEB])
    assert await ids(installations) == {7, 8, -4, -5}
    await installations.put_scopes(8, [])
    assert await ids(installations) == {7, 8, -4}


async def test_a_search_that_ends_after_its_installation_was_removed_records_nothing(installations):
    await installations.remove(7, -3, -4)
    await installations.put_scopes(7, [API])
    assert await ids(installations) == {8}


async def test_a_repository_that_moved_to_another_account_is_not_removed_by_the_search_of_the_first(installations):
    moved = repository_scope(OTHER, 3, "api", "other/api")
    await installations.put_scopes(8, [moved])
    await installations.put_scopes(7, [WEB])
    assert await installations.one(-3) == moved


async def test_scopes_are_found_by_name_in_any_case_and_reserve_none(installations, redis):
    assert await installations.of("ACME/API") == API
    assert [*await installations.owners()] == ["acme", "other"]
    assert await installations.unknown([7, -3, -9]) == {-9}


async def test_data_of_a_scope_expires_and_returns_as_an_installation_s(redis):
    data, now = UninstalledData(redis), time.time()
    for scope in (-3, 3, CORP.id):
        await redis.set(keys.survey(scope), b"x")
    await data.removed([-3, CORP.id], now)
    await data.expire(now)
    assert [0 < await redis.ttl(keys.survey(each)) <= KEPT_SECONDS for each in (-3, CORP.id)] == [True, True]
    assert await redis.ttl(keys.survey(3)) == -1
    await data.returned([-3])
    assert await redis.ttl(keys.survey(-3)) == -1
    assert await redis.ttl(keys.survey(CORP.id)) > 0
