"""Stored installations and their names."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import msgspec
import pytest

from ghapp.installations import store as module
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.store import keys
from ghapp.store.connect import connect

ACME = Installation(7, "acme", 70)
RENAMED = Installation(7, "acme-two", 70)
BY_ACME = {"acme": 1}
TAKER = Installation(9, "acme", 90)


@pytest.mark.parametrize("of_a_list", [False, True], ids=["put", "replace_all"])
async def test_a_former_name_is_kept_and_still_finds_the_installation(redis, of_a_list):
    installations = Installations(redis, BY_ACME)
    await installations.put(ACME)
    if of_a_list:
        (known,) = await installations.replace_all([RENAMED])
    else:
        known = await installations.put(RENAMED)
    assert (known.org, known.called) == ("acme", "acme-two")
    assert known == await installations.one(7) == await installations.of("Acme") == await installations.of("ACME-two")


async def test_each_reader_uses_the_name_of_its_configuration_or_else_the_recorded_name(redis):
    await Installations(redis, BY_ACME).put(ACME)
    await Installations(redis, BY_ACME).put(RENAMED)
    for named, org in [({"acme-two": 1}, "acme-two"), (BY_ACME, "acme"), (None, "acme")]:
        assert (await Installations(redis, named).one(7)).org == org
        assert [each.org for each in await Installations(redis, named).all()] == [org]


async def test_an_org_that_takes_a_former_name_is_not_found_by_that_name(redis):
    installations = Installations(redis, BY_ACME)
    await installations.put(ACME)
    known = await installations.replace_all([TAKER, RENAMED])
    assert [(each.org, each.called) for each in known] == [("acme.9", "acme"), ("acme", "acme-two")]
    assert (await installations.of("acme")).id == 7
    assert (await installations.of("acme.9")).id == 9


async def test_the_name_of_an_installation_missing_from_a_list_stays_reserved(redis):
    installations = Installations(redis, BY_ACME)
    await installations.put(ACME)
    (known,) = await installations.replace_all([TAKER])
    assert known.org == "acme.9"


async def test_a_record_of_an_earlier_version_is_read(redis):
    old = {"id": 7, "org": "acme", "account_id": 70, "permissions": {}, "suspended": False}
    await redis.hset(keys.INSTALLATIONS, "7", msgspec.msgpack.encode(old))
    installations = Installations(redis, BY_ACME)
    assert await installations.all() == [ACME]
    assert (await installations.put(RENAMED)).org == "acme"


async def test_concurrent_installations_with_one_name_are_all_kept_and_one_gets_the_name(redis, redis_url):
    many = [Installation(each, "acme", each * 10) for each in range(1, 13)]
    theirs = [connect(redis_url) for _ in many]
    known = await asyncio.gather(
        *(Installations(app, BY_ACME).put(each) for app, each in zip(theirs, many, strict=True))
    )
    assert sorted(each.org for each in known).count("acme") == 1
    assert [each.id for each in await Installations(redis).all()] == [each.id for each in many]
    for app in theirs:
        await app.aclose()


async def test_an_installation_that_is_read_and_written_back_keeps_its_names(redis):
    installations = Installations(redis, BY_ACME)
    await installations.put(ACME)
    known = await installations.put(RENAMED)
    await installations.put(replace(known, suspended=True))
    assert await installations.one(7) == replace(known, suspended=True)


@pytest.mark.parametrize("leave", ["removed", "missing from a list"])
async def test_a_name_stays_with_the_account_that_first_had_it_after_the_app_is_uninstalled_there(redis, leave):
    installations = Installations(redis, {"acme": 1})
    await installations.put(Installation(7, "Acme", 70))
    if leave == "removed":
        await installations.remove(7)
    else:
        await installations.replace_all([])
    other = await installations.put(Installation(8, "acme", 71))
    assert (other.org, other.called) == ("acme.8", "acme")
    assert await installations.of("acme") is None, "tables, pools and tokens of that name are not for it"
    again = await installations.put(Installation(9, "acme", 70))
    assert (again.org, (await installations.of("ACME")).id) == ("acme", 9), "installed again by its owner"


async def test_past_the_bound_no_name_loses_its_account(redis, monkeypatch):
    monkeypatch.setattr(module, "MOST_OWNERS", 2)
    installations = Installations(redis)
    for number, name in enumerate(["a", "b", "c"], 1):
        await installations.put(Installation(number, name, number * 10))
    assert await installations.owners() == {"a": 10, "b": 20}
