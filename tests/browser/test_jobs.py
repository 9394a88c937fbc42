"""Jobs and deaths in a real browser: the pages, the re-run with its effect, and the check runs as developers see them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from ghapp.sandbox.people import author_of
from tests.browser.axe import violations
from tests.browser.jobs_site import jobs_site
from tests.browser.site import POOL
from tests.browser.test_pages import open_page, sign_in  # noqa: F401 - a fixture
from tests.support.waiting import wait_for

PAGES = [
    "jobs",
    "jobs?state=all",
    "jobs/{waiting}",
    "jobs/{dead}",
    "deaths?by=node",
    "deaths/{runner}",
    "deaths/{runner}/rerun",
]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, chromium):
    """Two jobs that no runner can take, one of a repository that few people read, and one whose runner died."""
    with jobs_site(tmp_path_factory.mktemp("jobs")) as site:
        (site.waiting, _) = site.queued(["gpu-a100"], count=2)
        (site.secret,) = site.queued(["project-x"], repository="infra")
        site.dead, site.runner = site.died()
        yield site


def address(fleet, path):
    return f"{fleet.base}/orgs/acme/{path.format(waiting=fleet.waiting, dead=fleet.dead, runner=fleet.runner)}"


@pytest.mark.xdist_group("browser-jobs")
def test_a_page_has_no_flaw_that_axe_finds_and_fits_a_narrow_screen(open_page, fleet):  # noqa: F811
    page = open_page(viewport={"width": 360, "height": 800}, bypass_csp=True)
    for path in PAGES:
        assert page.goto(address(fleet, path)).status == 200, path
        assert violations(page) == [], path


@pytest.mark.xdist_group("browser-jobs")
def test_a_wide_page_runs_under_its_policy(open_page, fleet):  # noqa: F811
    page = open_page(viewport={"width": 1600, "height": 900})
    for path in PAGES:
        page.goto(address(fleet, path))
        expect(page.get_by_role("heading", level=1)).to_be_visible()


@pytest.mark.xdist_group("browser-jobs")
@pytest.mark.parametrize("script", [True, False], ids=["with JavaScript", "without"])
def test_a_developer_finds_why_a_job_waits(open_page, fleet, script):  # noqa: F811
    page = open_page(has_key=False, java_script_enabled=script)
    sign_in(page, fleet, "olga", "/orgs/acme/jobs")
    expect(page.get_by_text("1 more is queued or running in repositories that you may not read.")).to_be_visible()
    page.get_by_label("State").select_option("queued")
    page.get_by_role("button", name="Filter").click()
    jobs = page.get_by_role("region", name="Jobs", exact=True)

    def is_explained():  # only while the last list is fresh, which a loaded machine may delay
        if not script:
            page.reload()
        return jobs.get_by_text("No runner has the label gpu-a100.").first.is_visible()

    assert wait_for(is_explained, 30), fleet.app.log()
    jobs.get_by_role("link", name="test").first.click()
    expect(page.get_by_text("Register a runner with the label gpu-a100.")).to_be_visible()
    assert page.goto(f"{fleet.base}/orgs/acme/jobs/{fleet.secret}").status == 404
    assert page.get_by_text("project-x").count() == 0


@pytest.mark.xdist_group("browser-jobs")
def test_a_page_that_is_open_shows_a_new_job_without_a_reload(open_page, fleet):  # noqa: F811
    page = open_page()
    page.goto(f"{fleet.base}/orgs/acme/jobs?text=linux-9")
    page.evaluate("window.untouched = true")
    expect(page.get_by_text("No job matches.")).to_be_visible()
    fleet.github.control.queue("acme", labels=["linux-9"], repository="web")
    page.get_by_text("No runner has the label linux-9").wait_for()
    assert page.evaluate("window.untouched") is True


@pytest.mark.xdist_group("browser-jobs")
@pytest.mark.parametrize("script", [True, False], ids=["with JavaScript", "without"])
def test_an_owner_runs_a_job_again_and_sees_what_became_of_it(open_page, fleet, script):  # noqa: F811
    job_id, name = fleet.died("web")
    page = open_page(has_key=False, java_script_enabled=script)
    sign_in(page, fleet, "mona", "/orgs/acme/deaths")
    page.get_by_role("link", name=name).click()
    expect(page.get_by_text("The runner was stopped from outside.")).to_be_visible()
    page.get_by_role("link", name="Re-run this job").click()
    expect(page.get_by_role("heading", name="Run this job again?")).to_be_visible()
    page.get_by_role("button", name="Re-run this job").click()
    expect(page.get_by_text("The re-run is requested.")).to_be_visible()
    assert wait_for(lambda: fleet.attempts(job_id) == [1, 2], 30), fleet.app.log()
    shown = re.compile(r"A re-run was requested .+ by mona\.")

    def is_shown():
        if not script:
            page.goto(address(fleet, f"deaths/{name}"))
        return page.get_by_text(shown).count() == page.get_by_text("It is attempt 2 of the run.").count() == 1

    assert wait_for(is_shown, 30), fleet.app.log()
    assert page.get_by_role("link", name="Re-run this job", exact=True).count() == 0
    page.goto(f"{fleet.base}/orgs/acme")
    audited = page.get_by_role("region", name="Audit log")
    expect(audited.get_by_role("row").filter(has_text=f"re-run the job of {name}")).to_be_visible()


@pytest.mark.xdist_group("browser-jobs")
def test_the_chart_of_deaths_stays_as_it_is_until_there_is_a_new_death(open_page, fleet):  # noqa: F811
    page = open_page()
    page.goto(f"{fleet.base}/orgs/acme/deaths?by=node")
    page.get_by_text("Numbers").click()
    numbers = page.get_by_role("region", name="Numbers of Deaths by node")
    with page.expect_response("**/deaths?by=node") as refreshed:  # the response has other ages of the deaths
        pass
    assert "<html" not in refreshed.value.text()
    page.wait_for_timeout(100)
    expect(numbers).to_be_visible()
    counted = page.locator("#chart-deaths figcaption p")
    before = int(counted.inner_text().split()[0])
    fleet.died("web")
    page.get_by_text(f"{before + 1} deaths in steps of").wait_for()
    expect(page.locator("#chart-deaths canvas")).to_be_visible()
    expect(numbers).not_to_be_visible()


@pytest.mark.xdist_group("browser-jobs")
@pytest.mark.parametrize("person", ["lisa", "olga"])
def test_a_member_and_a_collaborator_read_a_post_mortem_without_the_button(open_page, fleet, person):  # noqa: F811
    page = open_page(has_key=False)
    sign_in(page, fleet, person, f"/orgs/acme/deaths/{fleet.runner}")
    expect(page.get_by_text("It was not your code")).to_be_visible()
    assert page.get_by_role("link", name="Re-run this job", exact=True).count() == 0
    expect(page.get_by_role("link", name="in the check run")).to_be_visible()
    assert page.goto(address(fleet, "deaths/{runner}/rerun")).status == 403


def check_run(fleet, name, repository):
    assert wait_for(lambda: fleet.check_runs(name, repository), 90), fleet.app.log()
    return f"{fleet.github.url}/acme/{repository}/runs/{fleet.check_runs(name, repository)[0]}"


@pytest.mark.xdist_group("browser-jobs")
@pytest.mark.parametrize("width", [360, 1280])
def test_the_check_runs_of_jobs_read_well_in_a_browser(open_page, fleet, width):  # noqa: F811
    page = open_page(viewport={"width": width, "height": 800})
    page.goto(check_run(fleet, "Runner queue", "api"))
    expect(page.get_by_role("heading", name="Runner queue: No runner has the labels of 2 jobs")).to_be_visible()
    expect(page.get_by_text("Status: in progress")).to_be_visible()
    expect(page.get_by_text("No runner has the label gpu-a100. (NoRunnerWithLabels)")).to_be_visible()
    assert page.get_by_text(
        "Register a runner with the label gpu-a100. GitHub assigns the job to such a runner; the platform team can do that."
    ).is_visible()
    expect(
        page.get_by_text(re.compile("GitHub fails the first of them at .*, 24 hours after it was queued"))
    ).to_be_visible()
    page.goto(check_run(fleet, "Runner post-mortem", "api"))
    expect(page.get_by_role("heading", name="Runner post-mortem: The runner was stopped from outside")).to_be_visible()
    expect(
        page.get_by_text("It was not your code: the job was interrupted and can be re-run unchanged.")
    ).to_be_visible()
    expect(page.get_by_text(re.compile("UTC: taken by runner "))).to_be_visible()
    facts = page.get_by_role("table").filter(has_text="Fact")
    expect(facts.get_by_role("row").filter(has_text="Pool").get_by_text(POOL)).to_be_visible()
    assert page.get_by_text("`").count() == 0, "all code is shown as code"


@pytest.mark.xdist_group("browser-jobs")
def test_the_button_of_the_post_mortem_runs_the_job_again(open_page, fleet):  # noqa: F811
    job_id, _ = fleet.died("infra")
    page = open_page()
    page.goto(check_run(fleet, "Runner post-mortem", "infra"))
    page.get_by_role("button", name="Re-run this job").click()
    assert wait_for(lambda: fleet.attempts(job_id) == [1, 2], 30), fleet.app.log()

    def is_shown():
        page.reload()
        return page.get_by_text("it is attempt 2 of the run").count() == 1

    assert wait_for(is_shown, 30), fleet.app.log()
    assert page.get_by_role("button", name="Re-run this job").count() == 0


@pytest.mark.xdist_group("browser-jobs")
def test_a_developer_finds_their_own_jobs_by_their_branches(open_page, fleet):  # noqa: F811
    fleet.queued(["gpu-b200"], count=3)  # one after the other is of each person who reads the repository
    jobs = [each for each in fleet.github.world.orgs["acme"].fleet.jobs.values() if each.repository.name == "api"]
    mine = [each for each in jobs if author_of("api", each.run_id).login == "olga"]
    page = open_page(has_key=False)
    sign_in(page, fleet, "olga", "/orgs/acme/jobs")
    page.get_by_role("link", name="Mine").click()
    rows = page.get_by_role("region", name="Jobs", exact=True).locator("tbody tr")
    expect(rows).to_have_count(len(mine))
    rows.get_by_role("link", name=mine[0].branch).click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("by olga")
    expect(page.get_by_label("Branch")).to_have_value(mine[0].branch)
    expect(page.get_by_text("in repositories that you may not read")).to_have_count(0)
