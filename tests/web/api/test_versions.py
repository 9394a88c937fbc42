"""The versions of the runner over HTTP: the document, and the metric."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ghapp.runners.observations import SeenBy, registration_seen
from ghapp.runners.store import Runners
from ghapp.settings import PoolSettings
from ghapp.versions.api import MOST_METRIC_VERSIONS, version_samples
from ghapp.versions.counts import PoolVersion
from ghapp.versions.lifetime import DAY, EndDates, VersionLimits, judge_versions
from ghapp.versions.store import RunnerVersions
from tests.web.conftest import INSTALLATION, NOW, runner

PATH = "/v1/orgs/acme/versions"


async def have(redis, *versions):
    known = {
        number: registration_seen(
            None, runner(number, f"r{number}")._replace(version=version), NOW - 600, by=SeenBy.LIST
        )
        for number, version in enumerate(versions, 10)
    }
    await Runners(redis).revise(INSTALLATION, {number: lambda _, each=each: each for number, each in known.items()})


async def test_each_version_has_its_dates_its_pools_and_what_to_do(http, redis):
    await have(redis, "2.335.1", "2.335.1")
    await RunnerVersions(redis).put(INSTALLATION, {"2.335.1": EndDates(NOW, NOW - DAY, True, NOW + DAY)})
    document = (await http.get(PATH)).json()
    assert (document["org"], document["observed_at"]) == ("acme", "2027-01-15T07:59:56.800Z")
    ended, unlisted = document["versions"]
    (step,) = ended.pop("next")
    assert step["step"].startswith("install the newest release, 2.336.0 or newer in the image")
    assert ended == {
        "version": "2.335.1",
        "runners": 2,
        "registration_ends_at": "2027-01-16T08:00:00Z",
        "jobs_end_at": "2027-01-14T08:00:00Z",
        "state": "ended",
        "text": "2 runners of linux-4vcpu have version 2.335.1, which gets no jobs since 2027-01-14",
        "pools": [{"pool": "linux-4vcpu", "runners": 2, "online": 2, "ended_without_job": 0}],
    }
    assert (unlisted["version"], unlisted["state"], unlisted["runners"], unlisted["next"]) == (None, "unknown", 2, [])


async def test_without_dates_nothing_is_claimed(http, redis):
    await have(redis, "2.100.0")
    states = {each["version"]: each["state"] for each in (await http.get(PATH)).json()["versions"]}
    assert states == {"2.100.0": "unknown", None: "unknown"}


@pytest.mark.parametrize(("path", "status"), [("/v1/orgs/globex/versions", 403), (PATH, 200)])
async def test_a_token_of_another_organization_sees_none(http, path, status):
    assert (await http.get(path)).status_code == status


@pytest.mark.parametrize("pools", [(PoolSettings("acme", "linux-4vcpu", ("linux-4vcpu",)),)])
async def test_the_metric_counts_runners_by_pool_version_and_state(http, redis, pools):
    await have(redis, "2.335.1", "odd")
    await RunnerVersions(redis).put(INSTALLATION, {"2.335.1": EndDates(NOW, NOW - DAY, is_known=True)})
    text = (await http.get("/metrics")).text
    (family,) = [each for each in text_string_to_metric_families(text) if each.name == "ghapp_runners_by_version"]
    names = ("org", "pool", "version", "state")
    assert {tuple(each.labels[name] for name in names): each.value for each in family.samples} == {
        ("acme", "linux-4vcpu", "2.335.1", "ended"): 1,
        ("acme", "linux-4vcpu", "unknown", "unknown"): 3,
    }


def test_the_metric_has_a_bounded_number_of_versions_and_the_ended_ones_are_among_them():
    counts = [PoolVersion(f"label-{number}", f"2.{number}.0", number + 2) for number in range(200)]
    counts.append(PoolVersion("gpu", "<script>", 1))
    statuses = judge_versions(counts, {"2.7.0": EndDates(NOW, NOW, is_known=True)}, VersionLimits(), NOW)
    samples = version_samples("acme", statuses, ())
    versions = {each.labels["version"] for each in samples}
    assert len(versions) == MOST_METRIC_VERSIONS + 2
    assert {"2.7.0", "2.199.0", "other", "unknown"} < versions
    assert {each.labels["pool"] for each in samples} == {"other"}
    assert sum(each.value for each in samples) == sum(each.runners for each in counts)
