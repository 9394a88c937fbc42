"""Doctor's check that the pods of each pool are in the configured namespace."""

from __future__ import annotations

import pytest

from ghapp.doctor import pod_locations
from ghapp.doctor.finding import FindingStatus
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.pods.store import PodLocations
from ghapp.runners.evidence import Registration
from ghapp.runners.observations import SeenBy, registration_seen
from ghapp.runners.store import Runners
from ghapp.settings import Settings

NOW = 1_790_000_000.0


@pytest.fixture
async def findings(redis, redis_url, tmp_path):
    """Runs the check for a pool `linux` in the namespace `runners`, with one runner or without runners."""

    async def run_check(*seen, runners=1, replacer="pods"):
        await Installations(redis).put(Installation(7, "acme", 1))
        shown = Registration(1, "linux-1", "linux", True, False, ("linux",), ("linux",))
        folds = {number: lambda _: registration_seen(None, shown, NOW, by=SeenBy.LIST) for number in range(runners)}
        await Runners(redis).revise(7, folds)
        await PodLocations(redis).seen(7, seen, NOW)
        policy = tmp_path / "ghapp.toml"
        policy.write_text(
            f'[[pools]]\norg = "acme"\nname = "linux"\nlabels = ["linux"]\nreplacer = "{replacer}"\nnamespace = "runners"\n'
            '[[pools]]\norg = "other"\nname = "mac"\nlabels = ["mac"]\nreplacer = "pods"\nnamespace = "runners"\n'
        )
        settings = Settings.read({"GHAPP_CONFIG": str(policy), "GHAPP_STATE_DIR": str(tmp_path)})
        return await pod_locations.check(settings, redis_url)

    return run_check


async def test_a_pool_with_pods_in_its_namespace_is_ok(findings):
    (found,) = await findings(("linux", "runners"))
    assert (found.status, found.name, found.org) == (FindingStatus.OK, "place of linux", "acme")


@pytest.mark.parametrize("seen", [(), (("linux", "elsewhere"),), (("mac", "runners"),)])
async def test_a_pool_whose_pods_were_never_seen_in_its_namespace_is_reported(findings, seen):
    (found,) = await findings(*seen)
    assert (found.status, found.text) == (
        FindingStatus.WARNING,
        "no pod in runners has the name of one of its runners, so its lost runners are not replaced there",
    )


async def test_nothing_is_reported_for_a_pool_without_runners_or_without_cluster_replacement(findings):
    assert await findings(runners=0) == []
    assert await findings(runners=1, replacer="none") == []


async def test_without_redis_nothing_is_reported():
    assert await pod_locations.check(Settings.read({}), None) == []
