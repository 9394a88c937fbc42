"""The API after an organization was renamed: the accepted names and tokens."""

from __future__ import annotations

import pytest

from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.runners.store import Runners
from ghapp.settings.tables import PoolSettings
from ghapp.store.tokens import Tokens
from tests.web.conftest import INSTALLATION, NOW, healthy

STRANGER = Installation(9, "acme", 90)


@pytest.fixture
def pools():
    return (PoolSettings("acme", "linux", ("linux-4vcpu",)),)


async def asked(http, redis, org, path_org, runner_id=1):
    """Requests a runner of `path_org` with a token created for `org`."""
    secret, _ = await Tokens(redis).create("t", (org,), ("read",), NOW)
    path = f"/v1/orgs/{path_org}/runners/{runner_id}/health"
    return await http.get(path, headers={"authorization": f"Bearer {secret}"})


async def rename(redis):
    installations = Installations(redis, {"acme": 1})
    known = await installations.one(INSTALLATION)
    await installations.put(Installation(INSTALLATION, "acme-two", known.account_id))
    await installations.put(STRANGER)
    await Runners(redis).revise(STRANGER.id, {77: lambda _: healthy(77, "theirs")})


@pytest.mark.parametrize("name", ["acme", "acme-two", "ACME-two"])
async def test_both_names_are_accepted_and_the_configured_pools_apply(http, redis, name):
    await rename(redis)
    document = (await asked(http, redis, name, name)).json()
    assert (document["org"], document["pool"], document["state"]) == ("acme", "linux", "healthy")


async def test_a_token_of_the_old_name_does_not_open_a_new_org_of_that_name(http, redis):
    await rename(redis)
    assert (await asked(http, redis, "acme", "acme", 77)).json()["reason"] == "NeverObserved"
    assert (await asked(http, redis, "acme", "acme.9", 77)).status_code == 403
    assert (await asked(http, redis, "acme.9", "acme.9", 77)).json()["name"] == "theirs"
