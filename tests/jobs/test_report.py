"""Who has a report, and what keeps us from it is said once."""

import pytest
from rq import Queue
from rq.serializers import JSONSerializer
from structlog.testing import capture_logs

from ghapp.health.installation import Installation
from ghapp.settings import Settings
from ghapp.store.connect import connect_sync
from ghapp.store.installations import Installations
from ghapp.work import Work
from jobs.report import Outcome, report_installation
from jobs.schedule import Clock

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
async def test_the_clock_asks_for_those_that_report_to_a_repository_of_their_own(
    redis, redis_url, tmp_path, installation, asked
):
    policy = tmp_path / "ghapp.toml"
    policy.write_text(CONFIG + '[orgs.initech.report]\nrepository = "Initech/fleet"\n')
    await Installations(redis).put(installation)
    clock = Clock(Settings.read({"GHAPP_CONFIG": str(policy), "GHAPP_REDIS_URL": redis_url}))
    await clock.tick()
    await clock.close()
    with connect_sync(redis_url) as desk:
        waiting = Queue("report", connection=desk, serializer=JSONSerializer).jobs
        assert [job.id for job in waiting if job.func_name == Work.REPORT] == asked


async def test_what_keeps_us_from_posting_is_logged_once_and_counted_each_time(story):
    async with story(config=CONFIG) as it:
        it.clock.pass_(60)
        it.sandbox.control.fault(match="/repos/", status=502)
        with capture_logs() as lines:
            for _ in range(3):
                assert await report_installation(it.house, it.installation) is Outcome.UNAVAILABLE
            it.sandbox.control.no_faults()
            it.sandbox.control.fault(match="/repos/", status=403)
            assert await report_installation(it.house, it.installation) is Outcome.PERMISSION_MISSING
            assert await report_installation(it.house, it.installation) is Outcome.NOTHING_TO_DO
        counted = await it.house.counters.all()
    said = [line["reason"] for line in lines if line["event"] == "not reported"]
    assert said == ["unavailable", "permission-missing"]
    assert counted['ghapp_reports_total{org="acme",outcome="unavailable"}'] == 3
    assert counted['ghapp_reports_total{org="acme",outcome="permission-missing"}'] == 1


async def test_an_org_that_is_not_known_or_suspended_has_no_report(story):
    async with story(config=CONFIG) as it:
        assert await report_installation(it.house, it.installation + 1) is Outcome.NOTHING_TO_DO
        it.listen()
        it.sandbox.control.suspend("acme")
        await it.receive()
        assert await report_installation(it.house, it.installation) is Outcome.NOTHING_TO_DO
        assert await it.house.counters.all() == {'ghapp_deliveries_total{action="suspend",event="installation"}': 1}


async def test_a_commit_that_github_forgot_is_asked_for_anew(story):
    async with story(config=CONFIG) as it:
        it.clock.pass_(60)
        it.sandbox.control.fault(match="check-runs", method="POST", status=422, times=1)
        assert await report_installation(it.house, it.installation) is Outcome.REFUSED
        it.clock.pass_(300)
        assert await report_installation(it.house, it.installation) is Outcome.CREATED
