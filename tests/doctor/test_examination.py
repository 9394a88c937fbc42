"""`ghapp doctor`, against a real Redis and the sandbox GitHub."""

from __future__ import annotations

import pytest

from ghapp.doctor.examination import examine
from ghapp.settings import Settings
from jobs.sweep import sweep_installation
from tests.keys import private_key
from tests.stories.conftest import story  # noqa: F401 - a fixture


async def looked(it, **changes):
    environ = {**it.environ, **changes}
    return {(each.group, each.name): each for each in await examine(Settings.read(environ), environ)}


async def test_where_all_is_well_only_what_does_not_run_is_wrong(story):  # noqa: F811
    async with story() as it:
        await sweep_installation(it.house, it.installation)
        found = await looked(it)
        wrong = {where for where, each in found.items() if each.status == "wrong"}
        assert wrong == {("roles", "workers"), ("roles", "clocks")}
        assert found["github", "app"].said.startswith("ghapp")
        assert found["installations", "sweeps"].said.startswith("12 runners")
        assert found["controllers", "controller of linux-4vcpu"].status == "ok"


async def test_without_redis_it_goes_on_and_finds_the_rest(story):  # noqa: F811
    async with story() as it:
        found = await looked(it, GHAPP_REDIS_URL="redis://127.0.0.1:1/0")
        assert found["redis", "answers"].status == "wrong"
        assert found["github", "app"].status == "ok"


async def test_a_key_of_another_app_is_said_in_those_words(story):  # noqa: F811
    async with story() as it:
        found = await looked(it, GHAPP_PRIVATE_KEY=private_key())
        assert found["github", "app"].status == "wrong"
        assert "of the same App" in found["github", "app"].fix


async def test_a_github_that_is_away_is_said_so(story):  # noqa: F811
    async with story() as it:
        found = await looked(it, GHAPP_GITHUB_API_URL="http://127.0.0.1:1")
        assert found["github", "app"].status == "wrong"
        assert "GHAPP_GITHUB_API_URL" in found["github", "app"].fix


@pytest.mark.parametrize("ahead", [-90, 90])
async def test_a_clock_that_is_off_is_found(story, ahead):  # noqa: F811
    async with story() as it:
        it.sandbox.control.skew_clock(ahead=ahead)
        found = await looked(it)
        assert "wrong" in {found[where].status for where in found if where[0] == "github"}


async def test_what_is_suspended_or_not_permitted_is_found(story):  # noqa: F811
    async with story() as it:
        it.sandbox.control.withhold_permission("acme")
        await sweep_installation(it.house, it.installation)
        found = await looked(it)
        assert "PermissionMissing" in found["installations", "sweeps"].said


async def test_without_an_app_it_says_how_to_get_one(redis_url, tmp_path):
    environ = {"GHAPP_REDIS_URL": redis_url, "GHAPP_STATE_DIR": str(tmp_path)}
    found = await examine(Settings.read(environ), environ)
    (credentials,) = [each for each in found if each.name == "credentials"]
    assert credentials.status == "wrong"
    assert "/setup" in credentials.fix
