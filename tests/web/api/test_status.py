"""Liveness, readiness and metrics."""

from __future__ import annotations

from contextlib import contextmanager

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families

from ghapp.deaths.cause import Cause
from ghapp.deaths.cluster_summary import ClusterSummary
from ghapp.deaths.metrics import DEATHS
from ghapp.deaths.post_mortem_store import ClusterSummaries
from ghapp.deliveries.log_store import DeliveryStatus
from ghapp.deliveries.metrics import DELIVERIES, REDELIVERIES
from ghapp.deliveries.store import Inbox
from ghapp.installations.installation import NEEDED, Installation
from ghapp.installations.store import Installations
from ghapp.metric import Counter
from ghapp.pods.phantom_kinds import Phantom, PhantomKind, PhantomReason
from ghapp.pods.store import DegradedSources, Pods
from ghapp.remediation.fuse import Fuse, Position
from ghapp.remediation.pause import Pause
from ghapp.remediation.store import Fuses
from ghapp.report.metrics import SWEEPS
from ghapp.runners.delivery_lag import DeliveryLog, MissingDeliveries
from ghapp.runners.evidence import Survey
from ghapp.runners.observations import SeenBy, granted, registration_seen, replaced, succeeded_by
from ghapp.runners.store import Runners
from ghapp.runners.verdict import Reason
from ghapp.settings import PoolSettings
from ghapp.store import keys
from ghapp.store.budget import Budget
from ghapp.store.connect import connect_sync
from ghapp.store.metric_counters import MOST_SHARDS, OTHER_SHARD, MetricCounters
from ghapp.store.schedule import Schedule
from ghapp.web.api import expositions
from ghapp.web.api.gauges import by_shard
from ghapp.web.api.metrics import METRICS
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.metrics import QUEUE_SECONDS
from ghapp.workflow_jobs.store import Demand
from tests.support.snapshots import record_snapshot
from tests.web.conftest import INSTALLATION, NOW, healthy, runner, served


async def test_ready_shows_the_state_of_each_installation(http, redis):
    await Schedule(redis).add(INSTALLATION, NOW + 30)
    await Runners(redis).save_survey(INSTALLATION, Survey(NOW - 400, 2, NOW - 300, "RateLimited"))
    limit = {"x-ratelimit-limit": "5000", "x-ratelimit-used": "2000", "x-ratelimit-reset": str(int(NOW + 60))}
    await Budget(redis).leave(INSTALLATION, "", limit)
    answer = await http.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {
        "ready": True,
        "app": "ok",
        "redis": "ok",
        "installations": [
            {
                "org": "acme",
                "lacks": [f"{name}: {level}" for name, level in NEEDED.items()],
                "calls_left": 500,
                "next_sweep_at": "2027-01-15T08:00:30Z",
                "prevented_by": "PermissionMissing",
                "failing_since": "2027-01-15T07:55:00Z",
                "failure": "RateLimited",
            }
        ],
        "degraded": ["acme: runners cannot be read since 2027-01-15 07:53:20 UTC: RateLimited"],
    }


async def test_deliveries_that_are_behind_degrade_an_installation_that_stays_ready(http, redis):
    await Installations(redis).put(Installation(INSTALLATION, "acme", 1, NEEDED))
    await Installations(redis).put(Installation(INSTALLATION + 1, "globex", 2, NEEDED))
    missing = MissingDeliveries(INSTALLATION, NOW - 600, NOW - 300, 12)
    await DeliveryStatus(redis).save_log(DeliveryLog(NOW - 10, (missing,)))
    answer = await http.get("/readyz")
    assert (answer.status_code, answer.json()["ready"]) == (200, True)
    assert answer.json()["degraded"] == ["acme: 12 failed and have not come since"]


class TestSourcesThatAreNotSeen:
    @pytest.fixture
    def pools(self):
        return tuple(
            PoolSettings(org="acme", name=name, labels=(name,), namespace=name) for name in ("linux", "gpu", "arm")
        )

    async def test_each_is_named_without_its_reason_which_names_accounts(self, http, redis):
        for namespace in ("linux", "gpu"):
            await record_snapshot(Pods(redis), namespace, [], [], NOW)
        await DegradedSources(redis).record(
            "deaths in gpu between two lists", "RBAC lacks watch on pods: … bound to secret-account"
        )
        answer = await http.get("/readyz")
        assert (answer.status_code, answer.json()["ready"]) == (200, True)
        assert answer.json()["degraded"] == [
            "not seen: namespace arm; `ghapp doctor` says why",
            "not seen: deaths in gpu between two lists; `ghapp doctor` says why",
        ]


async def test_a_suspended_installation_is_reported_as_suspended(http, redis):
    await Installations(redis).put(Installation(INSTALLATION, "acme", 1, NEEDED, suspended=True))
    (row,) = (await http.get("/readyz")).json()["installations"]
    assert row["lacks"] == ["suspended"]


async def test_a_refusal_for_want_of_a_permission_that_was_granted_says_that_what_lacks_is_unknown(http, redis):
    """The list of granted permissions is as old as the last discovery."""
    await Installations(redis).put(Installation(INSTALLATION, "acme", 1, NEEDED))
    (row,) = (await http.get("/readyz")).json()["installations"]
    assert row["lacks"] == []
    survey = Survey(NOW - 60, 2, failing_since=NOW - 9, failure=Reason.PERMISSION_MISSING)
    await Runners(redis).save_survey(INSTALLATION, survey)
    (row,) = (await http.get("/readyz")).json()["installations"]
    assert (row["failure"], row["lacks"]) == ("PermissionMissing", None)


async def test_an_installation_that_is_not_swept_has_the_reason_and_the_time_of_the_next_attempt(http, redis):
    await Installations(redis).put(Installation(INSTALLATION, "acme", 1, NEEDED, suspended=True))
    await Schedule(redis).discover_at(NOW + 45)
    (row,) = (await http.get("/readyz")).json()["installations"]
    assert (row["prevented_by"], row["next_sweep_at"]) == ("InstallationSuspended", "2027-01-15T08:00:45Z")
    _, values = await metrics(http)
    assert values[("ghapp_next_sweep_timestamp_seconds", ("org", "acme"))] == NOW + 45


async def test_sweeps_of_a_healthy_installation_are_not_prevented(http, redis):
    await Installations(redis).put(Installation(INSTALLATION, "acme", 1, NEEDED))
    await Schedule(redis).add(INSTALLATION, NOW + 30)
    (row,) = (await http.get("/readyz")).json()["installations"]
    assert (row["prevented_by"], row["next_sweep_at"]) == (None, "2027-01-15T08:00:30Z")


async def test_without_redis_the_role_is_alive_and_not_ready(http, away):
    away.away = True
    assert (await http.get("/livez")).status_code == 200
    answer = await http.get("/readyz")
    assert (answer.status_code, answer.json()["redis"]) == (503, "away")
    assert (await http.get("/metrics")).status_code == 503


@contextmanager
def as_a_replica(redis):
    redis.replicaof("127.0.0.1", "1")
    yield
    redis.replicaof("NO", "ONE")


@contextmanager
def full(redis):
    redis.config_set("maxmemory", 1)
    yield
    redis.config_set("maxmemory", 0)


@contextmanager
def without_the_right_to_write(redis):
    redis.acl_setuser("default", enabled=True, commands=["-set"])
    yield
    redis.acl_setuser("default", enabled=True, commands=["+set"])


@pytest.mark.parametrize(
    ("refusing", "state"), [(as_a_replica, "replica"), (full, "memory"), (without_the_right_to_write, "refused")]
)
async def test_a_redis_that_answers_and_rejects_writes_is_named_and_the_role_is_not_ready(
    http, redis, redis_url, refusing, state
):
    with connect_sync(redis_url) as server:
        with refusing(server):
            answer = await http.get("/readyz")
            assert (answer.status_code, answer.json()["ready"], answer.json()["redis"]) == (503, False, state)
            assert (await http.get("/livez")).status_code == 200
        assert (await http.get("/readyz")).json()["redis"] == "ok"


async def metrics(http):
    answer = await http.get("/metrics")
    assert answer.status_code == 200
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    return families, {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families.values()
        for sample in family.samples
    }


async def test_metrics_have_the_fleet_its_fuses_and_its_pauses(http, redis):
    await Fuses(redis).save(INSTALLATION, "linux-4vcpu", None, Fuse(Position.STOPPED, since=NOW))
    await Fuses(redis).pause(INSTALLATION, "*", Pause("mona", "a move", NOW))
    await Inbox(redis).keep("a", "ping", b"{}")
    families, values = await metrics(http)
    acme, pool = ("org", "acme"), ("pool", "linux-4vcpu")
    assert values[("ghapp_runners", acme, pool, ("state", "healthy"))] == 2
    assert values[("ghapp_runners", acme, pool, ("state", "invalidated"))] == 1
    assert values[("ghapp_fuse", acme, pool, ("position", "stopped"))] == 1
    assert values[("ghapp_paused", acme, ("pool", "*"))] == 1
    assert values[("ghapp_inbox_lag",)] == 1
    assert values[("ghapp_last_sweep_runners", acme)] == 2
    assert values[("ghapp_budget_left_calls", acme)] == 2500
    assert {family.type for family in families.values()} == {"gauge"}


@pytest.mark.parametrize(("waited", "is_late"), [(300, False), (301, True)])
async def test_a_request_without_a_successor_is_a_loss_and_counted_once_it_is_late(http, redis, waited, is_late):
    accepted = {3: lambda known: replaced(granted(known, NOW - 400, "e"), NOW - waited)}
    await Runners(redis).revise(INSTALLATION, accepted)
    _, values = await metrics(http)
    acme, pool = ("org", "acme"), ("pool", "linux-4vcpu")
    assert values[("ghapp_runners", acme, pool, ("state", "invalidated"))] == 1
    assert values.get(("ghapp_replacements_unanswered", acme, pool), 0) == is_late
    assert ("ghapp_runners_healed", acme, pool) not in values


async def test_runners_that_were_never_registered_are_not_counted(http, redis):
    await Runners(redis).revise(INSTALLATION, {3: lambda known: known._replace(registered=False)})
    _, values = await metrics(http)
    assert sum(value for (name, *_), value in values.items() if name == "ghapp_runners") == 2


async def test_healed_losses_are_counted_apart_from_open_ones(http, redis):
    accepted = {3: lambda known: replaced(granted(known, NOW - 20, "e"), NOW - 10)}
    await Runners(redis).revise(INSTALLATION, accepted)
    await Runners(redis).revise(INSTALLATION, {3: succeeded_by(9, NOW - 1)})
    _, values = await metrics(http)
    acme, pool = ("org", "acme"), ("pool", "linux-4vcpu")
    assert values[("ghapp_runners_healed", acme, pool)] == 1
    assert ("ghapp_runners", acme, pool, ("state", "invalidated")) not in values
    assert sum(value for (name, *_), value in values.items() if name == "ghapp_runners") == 2


async def test_the_fuse_of_the_installation_has_a_series_of_its_own(http, redis):
    await Fuses(redis).save(INSTALLATION, "*", None, Fuse(Position.PROVING, since=NOW))
    _, values = await metrics(http)
    assert values[("ghapp_fuse", ("org", "acme"), ("pool", "*"), ("position", "proving"))] == 1


async def test_counters_of_all_processes_are_counters_with_help(http, redis):
    await MetricCounters(redis).add(SWEEPS, 3, org="acme", outcome="complete")
    await MetricCounters(redis).add(SWEEPS, 1, org='we"ird\\', outcome="RateLimited")
    families, values = await metrics(http)
    assert families["ghapp_sweeps"].type == "counter"
    assert families["ghapp_sweeps"].documentation == SWEEPS.help
    assert values[("ghapp_sweeps_total", ("org", "acme"), ("outcome", "complete"))] == 3
    assert values[("ghapp_sweeps_total", ("org", 'we"ird\\'), ("outcome", "RateLimited"))] == 1


PLACED = (PoolSettings("acme", "linux-4vcpu", ("linux-4vcpu",), replacer="arc", namespace="runners"),)


@pytest.mark.parametrize("pools", [PLACED])
@pytest.mark.parametrize(("seen_at", "age"), [(NOW - 90, 90), (NOW + 5, 0)], ids=["past", "a clock ahead"])
async def test_the_age_of_each_namespaces_view_is_a_metric(http, redis, seen_at, age):
    await record_snapshot(Pods(redis), "runners", [], [], seen_at)
    _, values = await metrics(http)
    assert values[("ghapp_watch_view_age_seconds", ("namespace", "runners"))] == age


@pytest.mark.parametrize("pools", [PLACED])
async def test_a_namespace_that_was_never_listed_has_no_age_and_no_phantom_count(http):
    families, _ = await metrics(http)
    assert not {"ghapp_watch_view_age_seconds", "ghapp_phantoms"} & families.keys()


async def test_phantoms_are_counted_by_kind(http, redis):
    ghosts = [Phantom(PhantomKind.FAILED_OBJECT, name, PhantomReason.FAILED_COUNTS_AS_CAPACITY, "") for name in "ab"]
    await ClusterSummaries(redis).keep(INSTALLATION, ClusterSummary(NOW, {}, tuple(ghosts)))
    _, values = await metrics(http)
    counts = {kind: values[("ghapp_phantoms", ("kind", kind), ("org", "acme"))] for kind in PhantomKind}
    assert counts == {kind: 2 if kind is PhantomKind.FAILED_OBJECT else 0 for kind in PhantomKind}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_status_endpoints_refuse_other_methods_than_get(http, method):
    assert (await http.request(method, "/readyz")).status_code == 405


async def test_a_counter_of_a_newer_version_is_shown_without_a_help_text(http, redis):
    await MetricCounters(redis).add(Counter("ghapp_of_the_next_version_total", "", ("kind",)), kind="a")
    answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert 'ghapp_of_the_next_version_total{kind="a"} 1.0' in answer.text


FORMATS = {
    "nothing asked for": (None, "text/plain; version=0.0.4; charset=utf-8"),
    "the text format": ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", "text/plain; version=0.0.4; charset=utf-8"),
    "OpenMetrics": ("application/openmetrics-text;version=1.0.0,*/*;q=0.1", "application/openmetrics-text; version=1."),
}


@pytest.mark.parametrize(("accept", "media_type"), FORMATS.values(), ids=FORMATS)
async def test_the_format_is_negotiated_and_has_the_same_values(http, redis, accept, media_type):
    await MetricCounters(redis).add(SWEEPS, 3, org="acme", outcome="complete")
    answer = await http.get("/metrics", headers={} if accept is None else {"accept": accept})
    assert answer.headers["content-type"].startswith(media_type)
    is_open = media_type.startswith("application/")
    parse = parse_open_metrics if is_open else text_string_to_metric_families
    samples = {
        (each.name, *sorted(each.labels.items())): each.value
        for family in parse(answer.text)
        for each in family.samples
    }
    assert samples[("ghapp_sweeps_total", ("org", "acme"), ("outcome", "complete"))] == 3
    assert samples[("ghapp_last_sweep_runners", ("org", "acme"))] == 2
    assert answer.text.endswith("# EOF\n") is is_open


async def test_no_metrics_of_this_process_alone_are_exposed(http):
    families, _ = await metrics(http)
    assert families.keys() <= METRICS.keys()


DAMAGED = [
    "",
    "{",
    'ghapp_sweeps_total{org="acme',
    "two words",
    "# HELP ghapp_sweeps_total",
    "a\nb",
    "ghapp_é_total",
    'x{a="1",a="2"}',
    '{","\r\r,\t=#',
]


@pytest.mark.parametrize("series", DAMAGED)
async def test_a_damaged_series_is_skipped_and_the_others_are_shown(http, redis, series):
    await MetricCounters(redis).add(REDELIVERIES, 2)
    _, before = await metrics(http)
    await redis.hset(keys.COUNTERS, series, 1)
    _, values = await metrics(http)
    assert values == before
    assert values[("ghapp_redeliveries_total",)] == 2


POOL_ONLY = (PoolSettings("acme", "linux-4vcpu", ("linux-4vcpu",)),)


@pytest.mark.parametrize("pools", [POOL_ONLY])
async def test_jobs_are_counted_by_pool_and_jobs_of_unknown_labels_together(http, redis):
    jobs = [
        Job(1, "queued", ("linux-4vcpu",), "acme/api", NOW - 90),
        Job(2, "running", ("linux-4vcpu",), "acme/api", NOW - 90, 1, "a", NOW - 80),
        Job(3, "queued", ("gpu",), "acme/api", NOW - 600),
        Job(4, "queued", ("tpu",), "acme/api", NOW - 300),
    ]
    await Demand(redis).record(INSTALLATION, jobs)
    _, values = await metrics(http)

    def value(name, pool, **labels):
        return values.get((name, *sorted({"org": "acme", "pool": pool, **labels}.items())))

    for pool, queued, running, oldest in (("linux-4vcpu", 1, 1, 90), ("other", 2, 0, 600)):
        assert value("ghapp_jobs", pool, state="queued") == queued
        assert value("ghapp_jobs", pool, state="running") == running
        assert value("ghapp_jobs_oldest_queued_seconds", pool) == oldest
    assert value("ghapp_runners_idle", "linux-4vcpu") == 2
    assert value("ghapp_jobs_unserved", "other", reason="NoRunnerWithLabels") == 2
    assert value("ghapp_jobs_unserved", "linux-4vcpu", reason="RunnersOffline") is None
    assert not {pool for key in values for name, pool in key[1:] if name == "pool"} & {"gpu", "tpu"}


@pytest.mark.parametrize("pools", [(PoolSettings("acme", "linux-4vcpu", ("linux-4vcpu",), shard_label="shard"),)])
async def test_running_jobs_and_idle_runners_of_a_shard_have_its_label_and_are_counted_once(http, redis):
    def of_shard(shard):
        return lambda known: known._replace(labels=(*known.labels, f"shard:{shard}"))

    await Runners(redis).revise(INSTALLATION, {1: of_shard("Pink"), 2: of_shard("blue")})
    new = registration_seen(None, runner(5, "e"), NOW - 600, by=SeenBy.LIST)
    await Runners(redis).revise(INSTALLATION, {5: lambda _: new})
    await Runners(redis).revise(INSTALLATION, {1: lambda known: known._replace(busy=True)})
    jobs = [
        Job(1, "running", ("linux-4vcpu",), "acme/api", NOW - 90, 1, "a", NOW - 80),
        Job(2, "running", ("linux-4vcpu",), "acme/api", NOW - 90, 77, "unknown", NOW - 80),
        Job(3, "queued", ("linux-4vcpu",), "acme/api", NOW - 90),
    ]
    await Demand(redis).record(INSTALLATION, jobs)
    _, values = await metrics(http)

    def by_shard(name, **labels):
        wanted = {"org": "acme", "pool": "linux-4vcpu", **labels}
        found = {
            key: value for key, value in values.items() if key[0] == name and wanted.items() <= dict(key[1:]).items()
        }
        return {dict(key[1:]).get("shard"): value for key, value in found.items()}

    assert by_shard("ghapp_jobs", state="running") == {None: 1, "pink": 1, "blue": 0}
    assert by_shard("ghapp_jobs", state="queued") == {None: 1}
    assert by_shard("ghapp_runners_idle") == {None: 1, "pink": 0, "blue": 1}


def test_a_pool_with_very_many_shards_has_a_bounded_number_of_series():
    pool = PoolSettings("acme", "linux-4vcpu", ("linux-4vcpu",), shard_name="^(?P<shard>[a-z0-9]+)-")
    many = [healthy(number, f"s{number:03}-x") for number in range(MOST_SHARDS + 5)]
    found = by_shard(many, (pool,))
    assert len(found) == MOST_SHARDS + 1
    assert (found["linux-4vcpu", "s000"].idle, found["linux-4vcpu", OTHER_SHARD].idle) == (1, 5)
    assert by_shard(many, POOL_ONLY) == {}


@pytest.mark.parametrize("pools", [POOL_ONLY])
async def test_a_pool_without_jobs_is_counted_as_zero(http):
    _, values = await metrics(http)
    assert values["ghapp_jobs", ("org", "acme"), ("pool", "linux-4vcpu"), ("state", "queued")] == 0
    assert values["ghapp_jobs_oldest_queued_seconds", ("org", "acme"), ("pool", "linux-4vcpu")] == 0


@pytest.mark.parametrize("pools", [POOL_ONLY, ()], ids=["a pool", "no pool"])
async def test_deaths_of_configured_pools_start_at_zero_so_that_an_increase_shows_the_first(http, redis, pools):
    await MetricCounters(redis).add(DEATHS, org="acme", pool="linux-4vcpu", cause="crash")
    _, values = await metrics(http)
    found = {dict(key[1:])["pool"]: {} for key in values if key[0] == "ghapp_deaths_total"}
    for key, value in values.items():
        if key[0] == "ghapp_deaths_total":
            found[dict(key[1:])["pool"]][dict(key[1:])["cause"]] = value
    zeros = {each.value: 0 for each in Cause if each is not Cause.CLEAN_EXIT}
    with_one = {"linux-4vcpu": {**zeros, "crash": 1}, "other": zeros}
    assert found == (with_one if pools else {"linux-4vcpu": {"crash": 1}})


async def test_histograms_have_the_type_histogram_and_a_help_text(http, redis):
    labels = {"org": "acme", "pool": "linux"}
    await MetricCounters(redis).observe(QUEUE_SECONDS, [5.0, 7.5], **labels)
    families, values = await metrics(http)
    family = families["ghapp_job_queue_seconds"]
    assert (family.type, family.documentation) == ("histogram", QUEUE_SECONDS.help)
    buckets = {dict(key[1:])["le"]: value for key, value in values.items() if key[0].endswith("seconds_bucket")}
    assert buckets == {"5": 1, **{f"{bound:g}": 2 for bound in QUEUE_SECONDS.buckets[1:]}, "+Inf": 2}
    assert values["ghapp_job_queue_seconds_sum", ("org", "acme"), ("pool", "linux")] == 12.5
    assert values["ghapp_job_queue_seconds_count", ("org", "acme"), ("pool", "linux")] == 2


async def test_the_first_exposition_is_made_before_web_listens(http, redis, monkeypatch):
    monkeypatch.setattr(expositions, "LONG_SECONDS", -1.0)  # as with many installations
    async with served(http._transport.app) as address, httpx.AsyncClient(base_url=address) as client:
        await MetricCounters(redis).add(DELIVERIES, event="ping", action="")
        first = await client.get("/metrics")
        assert "ghapp_runners{" in first.text
        assert "ghapp_deliveries_total" not in first.text, "which came later"
        assert int(first.headers["age"]) >= 0


async def test_web_listens_though_redis_is_away(http, away):
    away.away = True
    async with served(http._transport.app) as address, httpx.AsyncClient(base_url=address) as client:
        assert (await client.get("/livez")).status_code == 200
