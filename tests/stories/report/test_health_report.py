"""The health report: the orgs that have one, and failures, which are logged once."""

import pytest
from rq import Queue
from rq.serializers import JSONSerializer
from structlog.testing import capture_logs

from ghapp.errors import StoreUnavailableError
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.installations.store import Installations
from ghapp.queue.jobs import JobName
from ghapp.remediation.pause import Pause
from ghapp.report.check_run_state import wants_report
from ghapp.settings import PoolSettings, Settings
from ghapp.store.connect import connect_sync
from jobs.checks.publisher import CheckRunOutcome
from jobs.reports import health_report
from jobs.reports.health_report import report_installation
from jobs.scheduler import Scheduler

CONFIG = '[report]\nrepository = "acme/.github"\n'


@pytest.mark.parametrize(
    ("installation", "asked"),
    [
        (Installation(7, "Acme", 70), ["report-7"]),
        (Installation(7, "acme", 70, suspended=True), []),
        (Installation(7, "globex", 70), []),
        (Installation(7, "initech", 70), ["report-7"]),
    ],
)
async def test_the_scheduler_enqueues_reports_of_orgs_with_their_own_report_repository(
    redis, redis_url, tmp_path, installation, asked
):
    policy = tmp_path / "ghapp.toml"
    policy.write_text(CONFIG + '[orgs.initech.report]\nrepository = "Initech/fleet"\n')
    await Installations(redis).put(installation)
    clock = Scheduler(Settings.read({"GHAPP_CONFIG": str(policy), "GHAPP_REDIS_URL": redis_url}))
    await clock.tick()
    await clock.close()
    with connect_sync(redis_url) as queue_redis:
        waiting = Queue("report", connection=queue_redis, serializer=JSONSerializer).jobs
        assert [job.id for job in waiting if job.func_name == JobName.REPORT] == asked


@pytest.mark.parametrize(
    ("configured", "org", "is_due"),
    [("acme/.github", "Acme", True), (None, "acme", False), (None, "pods", True), ("other/.github", "acme", False)],
)
def test_a_report_is_due_where_it_is_posted_or_where_pods_may_be_phantoms(configured, org, is_due):
    rules = [PoolSettings(org, "linux", namespace="runners" if org == "pods" else None)]
    assert wants_report(configured, org, rules) is is_due


async def test_a_failure_to_post_is_logged_once_and_counted_each_time(story):
    async with story(config=CONFIG) as app:
        app.clock.pass_(60)
        app.sandbox.control.fault(match="/repos/", status=502)
        with capture_logs() as lines:
            for _ in range(3):
                assert await report_installation(app.context, app.installation) is CheckRunOutcome.UNAVAILABLE
            app.sandbox.control.no_faults()
            app.sandbox.control.fault(match="/repos/", status=403)
            assert await report_installation(app.context, app.installation) is CheckRunOutcome.PERMISSION_MISSING
            assert await report_installation(app.context, app.installation) is CheckRunOutcome.NOTHING_TO_DO
        counted = await app.context.counters.all()
    text = [line["reason"] for line in lines if line["event"] == "not reported"]
    assert text == ["unavailable", "permission-missing"]
    assert counted['ghapp_reports_total{org="acme",outcome="unavailable"}'] == 3
    assert counted['ghapp_reports_total{org="acme",outcome="permission-missing"}'] == 1


async def test_a_failure_is_over_once_what_is_posted_is_true_again(story):
    async with story(config=CONFIG) as app:
        app.clock.pass_(60)
        await report_installation(app.context, app.installation)
        await app.context.fuses.pause(app.installation, ALL_POOLS, Pause("mona", "maintenance", app.clock()))
        app.sandbox.control.fault(match="/repos/", status=502)
        assert await report_installation(app.context, app.installation) is CheckRunOutcome.UNAVAILABLE
        assert (await app.context.reports.check_run_state(app.installation)).setback.since == app.clock()
        app.sandbox.control.no_faults()
        await app.context.fuses.unpause(app.installation, ALL_POOLS)
        assert await report_installation(app.context, app.installation) is CheckRunOutcome.NOTHING_TO_DO
        assert (await app.context.reports.check_run_state(app.installation)).setback is None


@pytest.mark.parametrize("error", [ValueError("unexpected"), RuntimeError(), ExceptionGroup("two", [KeyError("a")])])
async def test_an_error_of_ghapp_itself_puts_the_report_off_and_is_logged_once(story, monkeypatch, error):
    async with story(config=CONFIG) as app:
        app.clock.pass_(60)

        async def fail(*_args):
            raise error

        with monkeypatch.context() as broken, capture_logs() as lines:
            broken.setattr(health_report, "publish", fail)
            assert await report_installation(app.context, app.installation) is CheckRunOutcome.FAILED
            assert await report_installation(app.context, app.installation) is CheckRunOutcome.NOTHING_TO_DO
            app.clock.pass_(300)
            assert await report_installation(app.context, app.installation) is CheckRunOutcome.FAILED
        assert [line["exc_info"] for line in lines if line["event"] == "not reported"] == [error]
        app.clock.pass_(300)
        assert await report_installation(app.context, app.installation) is CheckRunOutcome.CREATED


async def test_a_report_that_redis_cannot_record_fails(story, monkeypatch):
    async with story(config=CONFIG) as app:
        app.clock.pass_(60)

        async def fail(*_args):
            raise StoreUnavailableError("no answer")

        monkeypatch.setattr(health_report, "publish", fail)
        with pytest.raises(StoreUnavailableError, match="no answer"):
            await report_installation(app.context, app.installation)


async def test_an_unknown_or_suspended_org_has_no_report(story):
    async with story(config=CONFIG) as app:
        assert await report_installation(app.context, app.installation + 1) is CheckRunOutcome.NOTHING_TO_DO
        app.listen()
        app.sandbox.control.suspend("acme")
        await app.receive()
        assert await report_installation(app.context, app.installation) is CheckRunOutcome.NOTHING_TO_DO
        assert await app.context.counters.all() == {'ghapp_deliveries_total{action="suspend",event="installation"}': 1}


async def test_a_commit_that_github_rejects_is_queried_again(story):
    async with story(config=CONFIG) as app:
        app.clock.pass_(60)
        app.sandbox.control.fault(match="check-runs", method="POST", status=422, times=1)
        assert await report_installation(app.context, app.installation) is CheckRunOutcome.REFUSED
        app.clock.pass_(300)
        assert await report_installation(app.context, app.installation) is CheckRunOutcome.CREATED
