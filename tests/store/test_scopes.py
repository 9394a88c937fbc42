"""Scopes of repositories and enterprises are recorded with the installations, and go with theirs."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from ghapp.installations.installation import Installation, enterprise_scope, repository_scope
from ghapp.installations.store import KEPT_SECONDS, Installations, UninstalledData
from ghapp.store import keys

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
