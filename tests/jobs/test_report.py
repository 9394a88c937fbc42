"""Who has a report, and what keeps us from it is said once."""

from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from ghapp.health.installation import Installation
from ghapp.settings import Policy, ReportSettings
from ghapp.store.installations import Installations
from jobs.report import Outcome, report_installation
from jobs.schedule import reporting
from tests.stories.conftest import story  # noqa: F401 - a fixture

CONFIG = '[report]\nrepository = "acme/.github"\n'


def settings(**repositories):
    policies = {org: Policy(report=ReportSettings(repository)) for org, repository in repositories.items()}
    return SimpleNamespace(of=lambda org: policies.get(org.lower(), Policy()))


@pytest.mark.parametrize(
    ("installation", "asked"),
    [
        (Installation(7, "Acme", 70), [7]),
        (Installation(7, "acme", 70, suspended=True), []),
        (Installation(7, "globex", 70), []),
        (Installation(7, "initech", 70), []),
    ],
)
async def test_the_clock_asks_for_those_that_report_to_a_repository_of_their_own(redis, installation, asked):
    installations = Installations(redis)
    await installations.put(installation)
    config = settings(acme="acme/.github", globex="acme/.github", initech=None)
    assert await reporting(config, installations) == asked


async def test_what_keeps_us_from_posting_is_logged_once_and_counted_each_time(story):  # noqa: F811
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


async def test_an_org_that_is_not_known_or_suspended_has_no_report(story):  # noqa: F811
    async with story(config=CONFIG) as it:
        assert await report_installation(it.house, it.installation + 1) is Outcome.NOTHING_TO_DO
        it.listen()
        it.sandbox.control.suspend("acme")
        await it.receive()
        assert await report_installation(it.house, it.installation) is Outcome.NOTHING_TO_DO
        assert await it.house.counters.all() == {'ghapp_deliveries_total{action="suspend",event="installation"}': 1}


async def test_a_commit_that_github_forgot_is_asked_for_anew(story):  # noqa: F811
    async with story(config=CONFIG) as it:
        it.clock.pass_(60)
        it.sandbox.control.fault(match="check-runs", method="POST", status=422, times=1)
        assert await report_installation(it.house, it.installation) is Outcome.REFUSED
        it.clock.pass_(300)
        assert await report_installation(it.house, it.installation) is Outcome.CREATED
