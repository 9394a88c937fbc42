"""Whether pools have their pods where the configuration says."""

from __future__ import annotations

import pytest

from ghapp.doctor import pod_locations
from ghapp.doctor.finding import FindingStatus
from ghapp.health.installation import Installation
from ghapp.health.runner.evidence import Registration
from ghapp.health.runner.observations import registration_seen
from ghapp.settings import Settings
from ghapp.store.installations import Installations
from ghapp.store.pod_locations import PodLocations
from ghapp.store.runners import Runners

NOW = 1_790_000_000.0


@pytest.fixture
async def looked(redis, redis_url, tmp_path):
    """Looks at a pool `linux` in `runners`, which has one runner or none."""

    async def look(*seen, runners=1, replacer="pods"):
        await Installations(redis).put(Installation(7, "acme", 1))
        shown = Registration(1, "linux-1", "linux", True, False, ("linux",), ("linux",))
        folds = {number: lambda _: registration_seen(None, shown, NOW, listed=True) for number in range(runners)}
        await Runners(redis).revise(7, folds)
        await PodLocations(redis).seen(7, seen, NOW)
        policy = tmp_path / "ghapp.toml"
        policy.write_text(
            f'[[pools]]\norg = "acme"\nname = "linux"\nlabels = ["linux"]\nreplacer = "{replacer}"\nnamespace = "runners"\n'
            '[[pools]]\norg = "other"\nname = "mac"\nlabels = ["mac"]\nreplacer = "pods"\nnamespace = "runners"\n'
        )
        settings = Settings.read({"GHAPP_CONFIG": str(policy), "GHAPP_STATE_DIR": str(tmp_path)})
        return await pod_locations.check(settings, redis_url)

    return look


async def test_a_pool_that_was_seen_where_it_says_is_well(looked):
    (found,) = await looked(("linux", "runners"))
    assert (found.status, found.name, found.org) == (FindingStatus.OK, "place of linux", "acme")


@pytest.mark.parametrize("seen", [(), (("linux", "elsewhere"),), (("mac", "runners"),)])
async def test_a_pool_whose_pods_were_never_seen_there_is_named(looked, seen):
    (found,) = await looked(*seen)
    assert (found.status, found.said) == (
        FindingStatus.WARNING,
        "no pod in runners has the name of one of its runners, so its lost runners are not replaced there",
    )


async def test_nothing_is_reported_for_a_pool_without_runners_or_without_cluster_replacement(looked):
    assert await looked(runners=0) == []
    assert await looked(runners=1, replacer="none") == []


async def test_without_redis_nothing_is_reported():
    assert await pod_locations.check(Settings.read({}), None) == []
