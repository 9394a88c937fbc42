"""The pages of jobs and deaths over HTTP: their content, and that no page shows data of a repository that the visitor may not read."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape

import pytest

from ghapp.deaths.cause import NO_JOB, Cause, needed_change
from ghapp.deaths.death import DeadJob, Death
from ghapp.deaths.post_mortem_store import PostedMortem, PostMortems, Reruns
from ghapp.deaths.rerun import Rerun, RerunNote, RerunState
from ghapp.deaths.store import Deaths, identity
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.notifications.event_ids import death_id
from ghapp.queue.jobs import JobName
from ghapp.runners.store import Runners
from ghapp.store import keys
from ghapp.store.audit import AuditEntry, AuditLog, Channel, Trail
from ghapp.store.presses import Presses, rerun_topic
from ghapp.web import prepared
from ghapp.web.pages.access import ASK_SECONDS
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.job_steps import JobSteps
from ghapp.workflow_jobs.store import Demand
from tests.web.conftest import NOW

SECRETS = ("acme/infra", "launch", "Rocket", "a secret line", "project-x", "7002", "7012")
"""All texts that belong to a job of `acme/infra`."""

PAGES = ["/orgs/acme/jobs", "/orgs/acme/jobs?state=all", "/orgs/acme/deaths", "/orgs/acme/deaths?days=30"]
HERE = [*PAGES, "/orgs/acme/jobs/7001", "/orgs/acme/deaths/a", "/orgs/acme", "/orgs/acme/runners"]
RUNNERS = ["/orgs/acme/runners/1", "/orgs/acme/runners/2"]
OF_INFRA = ["/orgs/acme/jobs/7002", "/orgs/acme/jobs/7012", "/orgs/acme/deaths/b", "/orgs/acme/deaths/b?end=job+7012"]


OF_7011 = "https://github.example/acme/api/actions/runs/1/job/7011"


def job(job_id, repository, status="queued", **changes):
    known = Job(job_id, status, ("linux-4vcpu",), repository, NOW - 600, name="build", workflow="CI", run_id=1)
    return known._replace(**changes)


def died(name, job_id, repository, runner_id, **changes):
    dead = DeadJob(
        job_id,
        repository,
        "build",
        "a" * 40,
        "failure",
        f"https://github.example/{repository}/actions/runs/1/job/{job_id}",
    )
    worst = Death(
        name, "", "", NOW - 5, None, None, "ShutdownSignal", Cause.TERMINATED, "Look at `it`.", id=f"job {job_id}"
    )
    return worst._replace(pool="linux-4vcpu", runner_id=runner_id, job=dead, runner_log=("a line",))._replace(**changes)


@pytest.fixture
async def at_work(redis, fleet):
    """Jobs and deaths of acme/api, which every visitor here may read, and of acme/infra, which only the owner may read."""
    acme = fleet["acme"]
    secret = {"name": "launch", "workflow": "Rocket"}
    ended = {"status": "over", "started_at": NOW - 60, "ended_at": NOW - 5, "conclusion": "failure"}
    await Demand(redis).record(
        acme,
        [
            job(7001, "acme/api"),
            job(7002, "acme/infra", labels=("project-x",), **secret),
            job(7011, "acme/api", runner_id=1, runner_name="a", html_url=OF_7011, **ended),
            job(7012, "acme/infra", runner_id=2, runner_name="b", **ended, **secret),
        ],
    )
    took = {1: 7011, 2: 7012}
    folds = {
        each: lambda known, job_id=job_id: known._replace(
            job_id=job_id, job_started_at=NOW - 60, job_ended_at=NOW - 5, registered=True
        )
        for each, job_id in took.items()
    }
    await Runners(redis).revise(acme, folds)
    deaths = Deaths(redis, lambda: NOW)
    infra = died("b", 7012, "acme/infra", 2, runner_log=("a secret line",), host_log=("oom",))
    for each in (
        died("a", 7011, "acme/api", 1, host_log=("oom",)),
        infra._replace(job=infra.job._replace(name="launch")),
    ):
        await deaths.record(acme, each)
    return acme


async def grant(redis, installation):
    known = await Installations(redis).one(installation)
    await Installations(redis).put(replace(known, permissions={"checks": "write", "actions": "write"}))


# What is shown.


@pytest.mark.parametrize("path", [*HERE, "/orgs/acme/deaths/a/rerun"])
async def test_every_page_is_a_whole_page_under_a_strict_policy(key_holder, redis, at_work, path):
    await grant(redis, at_work)
    answer = await key_holder.get(path)
    assert answer.status_code == 200
    assert "object-src 'none'; base-uri 'none'; form-action 'self'" in answer.headers["content-security-policy"]
    elsewhere = r"https?://(?!127\.0\.0\.1|www\.w3\.org|github\.example)"
    assert not re.search(rf"<style|\sstyle=|\son\w+=|<script>|{elsewhere}", answer.text)
    assert len(re.findall("<h1>", answer.text)) == 1


@pytest.mark.parametrize("path", [*PAGES, "/orgs/acme/jobs/7001", "/orgs/acme/deaths/a"])
async def test_the_live_part_is_the_page_without_its_frame(key_holder, at_work, path):
    whole, part = await key_holder.get(path), await key_holder.get(path, headers={"hx-request": "true"})
    assert "<html" not in part.text
    assert part.text.strip() in whole.text


@pytest.mark.parametrize(
    ("query", "shown", "series"),
    [
        ("?days=1", "Deaths by cause", {"terminated": 2}),
        ("?days=7&by=pool", "Deaths by pool", {"linux-4vcpu": 2}),
        ("?days=30&by=node", "Deaths by node", {"node unknown": 2}),
        ("?by=node&text=infra", "Deaths by node", {"node unknown": 1}),
    ],
)
async def test_the_deaths_of_the_list_are_drawn_over_time(key_holder, at_work, query, shown, series):
    text = unescape((await key_holder.get(f"/orgs/acme/deaths{query}")).text)
    (drawn,) = re.findall(r'data-chart="(.*?)" data-library', text)
    assert f"<h2>{shown}</h2>" in text
    assert {each["name"]: sum(each["values"]) for each in json.loads(drawn)["series"]} == series


async def test_no_chart_is_drawn_of_an_empty_list(key_holder, at_work):
    assert "data-chart" not in (await key_holder.get("/orgs/acme/deaths?text=absent")).text


def listed(page):
    return re.findall(r'<th scope="row"><a href="[^"]+/(?:jobs|deaths)/([^"]+)">', page.text)


async def test_the_list_of_jobs_filters(key_holder, at_work):
    assert listed(await key_holder.get("/orgs/acme/jobs")) == ["7001", "7002"]
    assert sorted(listed(await key_holder.get("/orgs/acme/jobs?state=over"))) == ["7011", "7012"]
    assert listed(await key_holder.get("/orgs/acme/jobs?text=LAUNCH")) == ["7002"]
    assert listed(await key_holder.get("/orgs/acme/jobs?pool=linux-4vcpu&state=queued")) == ["7001"]
    assert listed(await key_holder.get("/orgs/acme/jobs?pool=nothing&page=x")) == []


async def test_a_job_shows_why_it_waits_and_links_to_its_runners_death(key_holder, at_work):
    waits = unescape((await key_holder.get("/orgs/acme/jobs/7002")).text)
    assert "No runner has the label project-x." in waits
    assert "NoRunnerWithLabels" in waits
    ended = unescape((await key_holder.get("/orgs/acme/jobs/7011")).text)
    assert re.search(r'/orgs/acme/deaths/a\?end=[^"]+">Read why', ended)
    assert "The runner was stopped from outside: " in ended
    assert "<b>Run it again at GitHub (Re-run jobs).</b>" in ended
    assert '<p class="lead">Its runner died (terminated): the runner was stopped from outside. ' in ended
    assert "<p>It was not run again.</p>" in ended
    assert "<h1>acme/api CI / build</h1>" in ended
    assert re.search(r">\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC</time> · ", ended)
    assert '/orgs/acme/deaths/a">read why' in (await key_holder.get("/orgs/acme/jobs?state=over")).text


async def test_the_last_minutes_of_a_runner_have_the_time_of_day(key_holder, at_work):
    page = (await key_holder.get("/orgs/acme/deaths/a")).text
    lost = r'<p>It was lost, as its job shows</p><p class="soft"><time datetime="[^"]+">'
    assert re.search(lost + r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC</time> · 5 s ago", page)


async def test_the_page_of_a_job_has_the_last_line_of_its_runners_log_below_the_first_line(signed_in, redis, at_work):
    oom = died("d", 7014, "acme/api", 4, cause=Cause.HOST_OOM, reason="OOMKilled", memory_limit="8Gi")
    ended = {"status": "over", "started_at": NOW - 60, "ended_at": NOW - 5, "conclusion": "failure"}
    await Demand(redis).record(
        at_work,
        [job(each, "acme/api", runner_id=each, runner_name=name, **ended) for each, name in ((7014, "d"), (7015, "e"))],
    )
    of_unknown_job = oom._replace(runner_name="e", runner_id=7015, job=None, id="", pod="e", at=NOW - 30)
    for death in (oom, of_unknown_job):
        await Deaths(redis, lambda: NOW).record(at_work, death)
    line = '<p class="soft">Last line of the runner&#39;s log: a line</p>'
    for person in ("lisa", "mona"):
        browser = await signed_in(person)
        first, _, rest = (await browser.get("/orgs/acme/jobs/7014")).text.partition("</section>")
        assert first.endswith(f'<p class="soft">Memory: limit 8Gi, reached</p>{line}<p>It was not run again.</p>')
        assert "a line" not in rest
        unknown = (await browser.get("/orgs/acme/jobs/7015")).text
        assert "Memory: limit 8Gi, reached" in unknown
        assert (line in unknown) is (person == "mona"), "a log is shown as on the death's page"


async def test_a_job_that_failed_by_its_own_step_begins_with_that(key_holder, redis, at_work):
    ended = {"status": "over", "started_at": NOW - 160, "ended_at": NOW - 105, "conclusion": "failure"}
    failed = job(7015, "acme/api", runner_id=9, runner_name="z", steps=JobSteps(failed=True), **ended)
    await Demand(redis).record(at_work, [failed])
    page = unescape((await key_holder.get("/orgs/acme/jobs/7015")).text)
    assert '<p class="lead">A step of the job failed; no death of its runner is known.</p>' in page
    assert "<p></p>" not in page


async def test_the_end_of_a_later_attempt_has_the_same_words_on_the_page_of_the_job_and_on_that_of_the_death(
    key_holder, redis, at_work
):
    again = {"status": "over", "started_at": NOW - 3, "ended_at": NOW - 1, "conclusion": "success"}
    known = [each for each in await Demand(redis).over(at_work) if each.id == 7011]
    later = job(7013, "acme/api", runner_id=2, runner_name="b", **again)._replace(run_id=41, attempt=2)
    await Demand(redis).record(at_work, [known[0]._replace(run_id=41), later])
    words = "Attempt 2 of the run is job 7013, started at GitHub, it is not known by whom: ended on b: success."
    for path in ("jobs/7011", "deaths/a"):
        page = unescape((await key_holder.get(f"/orgs/acme/{path}")).text)
        assert f'/orgs/acme/jobs/7013">{words}</a>' in page
        assert "Re-run this job" not in page
    ended = unescape((await key_holder.get("/orgs/acme/jobs/7011")).text)
    assert '/orgs/acme/jobs/7013">Attempt 2 of the run: ended on b: success.</a>' in ended
    assert "not run again" not in ended
    queued = "Queued for pool linux-4vcpu as attempt 2 of its run, after job 7011 (failure)."
    assert f'/orgs/acme/jobs/7011">{queued}</a>' in (await key_holder.get("/orgs/acme/jobs/7013")).text


async def test_the_lists_of_jobs_and_of_deaths_have_where_a_job_was_run_again(key_holder, redis, at_work):
    known = [each for each in await Demand(redis).over(at_work) if each.id == 7011]
    origin = {"run_id": 41, "head_branch": "cache", "actor": "lisa"}
    later = job(7013, "acme/api", attempt=2)._replace(queued_at=NOW - 3, **origin)
    await Demand(redis).record(at_work, [known[0]._replace(**origin), later])
    again = r'Run again <time [^>]+>just now</time> as <a href="[^"]*/orgs/acme/jobs/7013">attempt 2</a>: queued'
    for path in ("jobs?state=failed", "deaths"):
        page = (await key_holder.get(f"/orgs/acme/{path}")).text
        assert re.search(again, page), path
        assert re.search(r'acme/api <a href="[^"]*/orgs/acme/jobs\?state=all&amp;branch=cache">cache</a> by lisa', page)
        assert page.count("Run again") == 1, "the other job was not"
    assert '/orgs/acme/jobs/7011">build</a>' in (await key_holder.get("/orgs/acme/deaths")).text


async def test_a_death_page_addresses_the_developer_and_the_platform_team(key_holder, at_work):
    page = unescape((await key_holder.get("/orgs/acme/deaths/a")).text)
    for words in (
        "The runner was stopped from outside.",
        "It was not your code",
        "Look at <code>it</code>.",
        "a line",
        "oom",
        "jobs/7011",
    ):
        assert words in page


async def test_the_death_of_an_idle_runner_has_the_evidence_of_its_runner_and_speaks_of_no_job(
    key_holder, redis, at_work
):
    await Runners(redis).revise(
        at_work, {3: lambda known: known._replace(job_id=7012, job_started_at=NOW - 600, job_ended_at=NOW - 300)}
    )
    idle = Death("c", "c", "node-1", NOW - 5, None, None, "PodGone", Cause.VANISHED, "Its pod went: wait for the job.")
    await Deaths(redis, lambda: NOW).record(at_work, idle._replace(runner_id=3))
    page = unescape((await key_holder.get("/orgs/acme/deaths/c")).text)
    assert NO_JOB in page
    assert "Its pod went, while no job is known to have run" in page
    assert "Its pod was found missing" in page
    assert "First seen" in page
    assert ("Took a job" in page, "7012" in page) == (True, False)
    assert "Nothing was recorded" not in page


async def test_an_earlier_death_of_a_runner_name_has_its_own_page(key_holder, redis, at_work):
    earlier = died("a", 7000, "acme/api", 9, at=NOW - 900, cause=Cause.DELETED_REGISTRATION)
    await Deaths(redis, lambda: NOW).record(at_work, earlier)
    assert "The registration" not in (await key_holder.get("/orgs/acme/deaths/a")).text
    page = await key_holder.get("/orgs/acme/deaths/a", params={"end": identity(earlier)})
    assert "The runner's registration at GitHub was deleted" in unescape(page.text)
    for end in ("nothing", "x" * 9999, "job 7012"):
        assert (await key_holder.get("/orgs/acme/deaths/a", params={"end": end})).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/orgs/acme/jobs/1",
        "/orgs/acme/jobs/x",
        f"/orgs/acme/jobs/{'1' * 30}",
        "/orgs/acme/deaths/unknown",
        "/orgs/no/jobs",
    ],
)
async def test_an_unknown_job_or_death_is_404(key_holder, at_work, path):
    assert (await key_holder.get(path)).status_code == 404


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (
            "jobs/999",
            (
                "This job is not known in acme: jobs are known from deliveries, until 30 days after their end. It may be of "
                "another organization, or of a repository that GitHub does not show to you."
            ),
        ),
        (
            "deaths/unknown",
            (
                "No death of a runner unknown is known in acme: deaths are known for 30 days. It may be of another "
                "organization, or its job of a repository that GitHub does not show to you."
            ),
        ),
        ("runners/999", "Runner 999 is not known: "),
    ],
)
async def test_an_unknown_job_or_runner_is_explained_and_the_navigation_leads_to_the_list(
    key_holder, at_work, path, words
):
    answer = await key_holder.get(f"/orgs/acme/{path}")
    assert words in unescape(answer.text)
    assert 'href="../../../orgs/acme/jobs"' in answer.text


async def test_texts_from_outside_are_escaped(key_holder, redis, at_work):
    evil = "<script>alert(1)</script>"
    await Demand(redis).record(at_work, [job(7003, "acme/api", name=evil, workflow=evil, labels=(evil,))])
    dead = died("<b onx=1>", 7003, "acme/api", None, node=evil, image=evil, reason=evil, runner_log=(evil,))
    await Deaths(redis, lambda: NOW).record(at_work, dead._replace(job=dead.job._replace(name=evil, html_url=evil)))
    paths = [*PAGES, "/orgs/acme/jobs/7003", "/orgs/acme/deaths/%3Cb%20onx=1%3E", f"/orgs/acme/jobs?text={evil}"]
    for path in paths:
        page = await key_holder.get(path)
        assert page.status_code == 200, path
        assert "<script>alert" not in page.text
        assert "<b onx" not in page.text


async def test_a_job_address_that_is_not_a_web_address_is_not_a_link(key_holder, redis, at_work):
    await Demand(redis).record(at_work, [job(7003, "acme/api", html_url="javascript:alert(1)")])
    dead = died("c", 7003, "acme/api", None)
    await Deaths(redis, lambda: NOW).record(
        at_work, dead._replace(job=dead.job._replace(html_url="javascript:alert(1)"))
    )
    for path in ("/orgs/acme/jobs/7003", "/orgs/acme/deaths/c"):
        assert "javascript:" not in (await key_holder.get(path)).text


async def test_deaths_older_than_an_hour_are_read_once(start, redis, fleet, clock, monkeypatch):
    deaths, read = Deaths(redis, lambda: NOW), []
    for number, ago in enumerate((0.0, 3599.0, 3600.0, 3700.0)):
        await deaths.record(fleet["acme"], died(f"vm-{number}", 7100 + number, "acme/api", None, at=NOW - ago))
    each_of = Deaths.each_of

    async def counting(self, installation, ids):
        read.append(len(ids))
        async for each in each_of(self, installation, ids):
            yield each

    monkeypatch.setattr(Deaths, "each_of", counting)
    monkeypatch.setattr(prepared, "FRESH_SECONDS", -1.0)
    browser = start(client=False, has_key=True)
    for _ in range(2):
        assert listed(await browser.get("/orgs/acme/deaths")) == [f"vm-{number}" for number in range(4)]
    await deaths.record(fleet["acme"], died("vm-2", 7200, "acme/api", None, at=NOW - 10, reason="LostCommunication"))
    page = await browser.get("/orgs/acme/deaths")
    assert listed(page) == ["vm-0", "vm-2", "vm-1", "vm-2?end=job+7102", "vm-3"]
    assert read == [4, 2, 3]


# Permissions of visitors.


@pytest.mark.parametrize("login", ["lisa", "olga"], ids=["a member", "an outside collaborator"])
async def test_no_page_shows_data_of_a_repository_that_the_visitor_may_not_read(signed_in, redis, at_work, login):
    await grant(redis, at_work)
    owner, hidden = await signed_in("mona"), "/orgs/acme/deaths/b/rerun"
    answer = await owner.post(hidden, data={"form_token": await token_of(owner, hidden)})
    assert answer.status_code == 303, "every visitor sees the audit log"
    browser = await signed_in(login)
    for path in [*HERE, *RUNNERS, "/orgs/acme/github", "/system"]:
        answer = await browser.get(path)
        assert answer.status_code == 200, path
        text = re.sub(r'name="form_token" value="\w+"', "", answer.text)  # random, and may contain any number
        for secret in SECRETS:
            assert secret not in text, (path, secret)
    for path in OF_INFRA:
        answer = await browser.get(path)
        assert answer.status_code == 404
        assert all(secret not in answer.text for secret in SECRETS)


async def test_jobs_and_deaths_of_hidden_repositories_are_only_counted(signed_in, at_work):
    browser = await signed_in("olga")
    jobs, deaths = await browser.get("/orgs/acme/jobs"), await browser.get("/orgs/acme/deaths")
    assert listed(jobs) == ["7001"]
    assert "1 more is queued or running in repositories that you may not read." in jobs.text
    assert re.search(r'<th scope="row">no pool</th>\s*<td class="number">1</td>', jobs.text)
    assert listed(deaths) == ["a"]
    assert "1 more is of jobs in repositories that you may not read." in deaths.text


async def test_an_owner_and_this_machines_own_browser_see_all_repositories(signed_in, key_holder, at_work):
    for browser in (await signed_in("mona"), key_holder):
        assert listed(await browser.get("/orgs/acme/jobs")) == ["7001", "7002"]
        assert "a secret line" in (await browser.get("/orgs/acme/deaths/b")).text
        assert (await browser.get("/orgs/acme/jobs/7012")).status_code == 200


async def test_the_log_of_a_node_is_shown_only_to_managers_of_the_runners(signed_in, at_work):
    member, owner = [await (await signed_in(login)).get("/orgs/acme/deaths/a") for login in ("lisa", "mona")]
    assert ("a line" in member.text, "Log of its node" in member.text) == (True, False)
    assert "Log of its node" in owner.text
    assert "oom" not in (await (await signed_in("lisa")).get("/orgs/acme/runners/1")).text


async def test_a_job_without_a_known_repository_is_shown_only_to_this_machine(signed_in, key_holder, redis, at_work):
    await Demand(redis).record(at_work, [job(7004, "")])
    for login in ("mona", "lisa"):
        assert (await (await signed_in(login)).get("/orgs/acme/jobs/7004")).status_code == 404
    assert (await key_holder.get("/orgs/acme/jobs/7004")).status_code == 200


@pytest.mark.parametrize("path", [*HERE, "/orgs/acme/deaths/a/rerun"])
async def test_a_stranger_gets_404_and_a_visitor_without_a_session_is_redirected_to_the_sign_in(
    start, signed_in, at_work, path
):
    assert (await (await signed_in("sam")).get(path)).status_code == 404
    answer = await start().get(path)
    assert (answer.status_code, "sign-in?to=" in answer.headers["location"]) == (303, True)


async def test_a_job_of_one_organization_is_not_shown_in_another(signed_in, at_work):
    browser = await signed_in("mona")
    for path in ("/orgs/globex/jobs/7001", "/orgs/globex/deaths/a", "/orgs/globex/deaths/a/rerun"):
        assert (await browser.get(path)).status_code == 404
    assert listed(await browser.get("/orgs/globex/jobs?state=all")) == []


async def test_the_visitors_repositories_are_read_again_after_ten_minutes(signed_in, github, clock, redis, at_work):
    browser = await signed_in("lisa")
    path = "/user/installations/"
    assert (await browser.get("/orgs/acme/jobs/7001")).status_code == 200
    github.control.fault(match=rf"{path}\d+/repositories", status=200, body={"total_count": 0, "repositories": []})
    clock.now = NOW + ASK_SECONDS
    assert (await browser.get("/orgs/acme/jobs/7001")).status_code == 200
    clock.now = NOW + ASK_SECONDS + 1
    assert (await browser.get("/orgs/acme/jobs/7001")).status_code == 404
    assert listed(await browser.get("/orgs/acme/jobs?state=all")) == []


async def test_at_most_two_thousand_repositories_are_read_and_the_page_reports_the_limit(signed_in, github, at_work):
    page = {
        "total_count": 5000,
        "repositories": [{"id": number + 1, "full_name": f"acme/r{number}"} for number in range(100)],
    }
    github.control.fault(match=r"/repositories$", status=200, body=page)
    browser = await signed_in("lisa")
    page = (await browser.get("/orgs/acme/jobs")).text
    assert "GitHub lists more repositories to you than are read here; jobs of the others are not shown." in page
    assert listed(await browser.get("/orgs/acme/jobs?state=all")) == []


async def test_the_former_name_of_an_organization_has_the_same_restrictions(signed_in, redis, fleet, at_work):
    await Demand(redis).record(at_work, [job(7005, "former/api"), job(7006, "former/infra")])
    for login in ("former", "acme"):
        known = await Installations(redis).one(at_work)
        await Installations(redis).put(Installation(at_work, login, known.account_id, {"checks": "write"}))
    browser = await signed_in("lisa")
    for org in ("acme", "former"):
        assert (await browser.get(f"/orgs/{org}/jobs/7005")).status_code == 200
        assert (await browser.get(f"/orgs/{org}/jobs/7006")).status_code == 404


# The button.

RERUN = "/orgs/acme/deaths/a/rerun"


async def token_of(browser, path=RERUN):
    return re.search(r'name="form_token" value="([^"]+)"', (await browser.get(path)).text)[1]


async def test_the_button_requests_the_re_run_once_after_a_confirmation_and_is_audited(
    signed_in, redis, asked, at_work
):
    await grant(redis, at_work)
    browser = await signed_in("mona")
    assert 'href="../../../orgs/acme/deaths/a/rerun">Re-run this job' in (await browser.get("/orgs/acme/deaths/a")).text
    of_job = re.search(r'href="([^"]+)">Re-run this job', (await browser.get("/orgs/acme/jobs/7011")).text)[1]
    assert re.fullmatch(r"(\.\./)+orgs/acme/deaths/a/rerun\?end=\S+", of_job)
    for address in (f"/{of_job.replace('../', '')}", RERUN):
        assert "GitHub runs build of acme/api again" in (await browser.get(address)).text
    answer = await browser.post(RERUN, data={"form_token": await token_of(browser)})
    address = answer.headers["location"].partition("&press=")[0]
    assert (answer.status_code, address) == (303, "../../../../orgs/acme/deaths/a?done=rerun")
    assert asked == [(JobName.RERUN, (at_work, "job 7011", "mona"), f"rerun-{at_work}-7011")]
    (entry,) = await AuditLog(redis).latest(at_work, 9)
    assert (entry.who, entry.action, entry.subject, entry.result) == ("mona", "re-run", "the job of a", "queued")
    assert (
        "The re-run is requested."
        in (await browser.get(answer.headers["location"].replace("../", "/", 1).replace("../", ""))).text
    )


async def test_a_second_press_of_the_button_while_one_waits_shows_that_one_and_is_no_change(
    signed_in, redis, asked, at_work
):
    await grant(redis, at_work)
    browser, presses = await signed_in("mona"), Presses(redis)
    first = AuditEntry(NOW, "lisa", Channel.CHECK_RUN, "re-run", "the job of a", "", "")
    press_id = await presses.begin(at_work, rerun_topic("job 7011"), first)
    answer = await browser.post(RERUN, data={"form_token": await token_of(browser)})
    assert answer.headers["location"].endswith(f"&press={press_id}")
    assert asked == [(JobName.RERUN, (at_work, "job 7011", "lisa"), f"rerun-{at_work}-7011")]
    assert [each.who for each in await AuditLog(redis).latest(at_work, 9)] == ["lisa"]
    (joined,) = await AuditLog(redis).latest(at_work, 9, Trail.ATTEMPTS)
    assert (joined.who, joined.result) == ("mona", "already requested by lisa")


async def test_the_advice_to_change_a_job_comes_before_the_button_on_each_page(signed_in, redis, at_work):
    await grant(redis, at_work)
    oom = died("d", 7014, "acme/api", 4, cause=Cause.HOST_OOM, reason="OOMKilled")
    ended = {"status": "over", "started_at": NOW - 60, "ended_at": NOW - 5, "conclusion": "failure"}
    ended["html_url"] = oom.job.html_url
    await Demand(redis).record(at_work, [job(7014, "acme/api", runner_id=4, runner_name="d", **ended)])
    await Deaths(redis, lambda: NOW).record(at_work, oom)
    browser, advice = await signed_in("mona"), needed_change(oom.cause, oom.reason)[1:]
    for path in ("jobs/7014", "deaths/d"):
        page = (await browser.get(f"/orgs/acme/{path}")).text
        assert 0 < page.index(advice) < page.index(">Re-run anyway</a>")
        assert "Re-run this job" not in page
        assert f"{advice}.</b>" in page, "the change is no link: GitHub's page of the job changes nothing"
        assert page.count("Re-run failed jobs") == 1, "what the button does"
        assert "Run it again at GitHub" not in page, "the page has one way to run it again"
    question = (await browser.get("/orgs/acme/deaths/d/rerun")).text
    assert "Unchanged, it may end in the same way: change the job" in question
    assert ">Re-run anyway</button>" in question


async def test_a_member_is_led_to_the_check_run_whose_button_runs_the_job_again(signed_in, redis, at_work):
    await grant(redis, at_work)
    known = await Installations(redis).one(at_work)
    subject = death_id(known, died("a", 7011, "acme/api", 1))
    browser = await signed_in("lisa")
    for has_button in (True, False):
        await PostMortems(redis).post(subject, PostedMortem(9000, "a digest", has_button=has_button))
        address = "https://github.example/acme/api/runs/9000" if has_button else OF_7011
        press = "Press &#34;Re-run this job&#34; in the check run &#34;Runner post-mortem&#34;."
        step = press if has_button else "Run it again at GitHub (Re-run jobs)."
        for path in ("jobs/7011", "deaths/a"):
            page = (await browser.get(f"/orgs/acme/{path}")).text
            assert f'<a href="{address}" rel="noreferrer"><b>{step}</b></a>' in page
            assert ">Re-run this job</a>" not in page


async def test_a_job_that_was_run_again_shows_the_person_and_has_no_button(signed_in, redis, asked, at_work):
    await grant(redis, at_work)
    browser = await signed_in("mona")
    token = await token_of(browser)
    await Reruns(redis).begin(at_work, Rerun(7011, 1, 1, "lisa", NOW - 60, RerunState.ACCEPTED))
    page = (await browser.get("/orgs/acme/deaths/a")).text
    assert "A re-run was requested 1 min ago by lisa." in page
    assert "Re-run this job</a>" not in page
    for answer in (await browser.get(RERUN), await browser.post(RERUN, data={"form_token": token})):
        assert answer.status_code == 409
        assert "The job has its one re-run." in answer.text
    assert asked == []


async def test_the_reason_why_the_last_request_was_not_sent_is_shown(signed_in, redis, at_work):
    await grant(redis, at_work)
    await Reruns(redis).note(at_work, 7011, RerunNote("RunNotOver", "mona", NOW - 60, NOW + 60))
    page = (await (await signed_in("mona")).get("/orgs/acme/deaths/a")).text
    assert "A re-run was requested 1 min ago by mona: other jobs of the run go on" in page


async def test_without_the_permission_there_is_no_button(signed_in, asked, at_work):
    browser = await signed_in("mona")
    assert "has not granted actions: write" in (await browser.get("/orgs/acme/deaths/a")).text
    assert (await browser.get(RERUN)).status_code == 409


@pytest.mark.parametrize(
    ("login", "path", "status"),
    [
        ("lisa", RERUN, 403),
        ("olga", RERUN, 403),
        ("sam", RERUN, 404),
        ("lisa", "/orgs/acme/deaths/b/rerun", 403),
        ("mona", "/orgs/acme/deaths/unknown/rerun", 404),
        ("mona", "/orgs/globex/deaths/a/rerun", 404),
    ],
)
async def test_a_visitor_without_the_permission_is_refused(signed_in, redis, asked, at_work, login, path, status):
    await grant(redis, at_work)
    browser = await signed_in(login)
    token = re.search(r'name="form_token" value="([^"]+)"', (await browser.get("/orgs/acme")).text)
    fields = {"form_token": token[1] if token else "x"}
    assert (await browser.get(path)).status_code == status
    assert (await browser.post(path, data=fields)).status_code == status
    assert (asked, await redis.exists(keys.audit(at_work))) == ([], 0)


async def test_a_death_is_404_for_a_manager_who_may_not_read_its_repository(signed_in, github, redis, asked, at_work):
    await grant(redis, at_work)
    few = {"total_count": 1, "repositories": [{"full_name": "acme/api"}]}
    github.control.fault(match=r"/repositories$", status=200, body=few)
    browser = await signed_in("mona")
    fields = {"form_token": await token_of(browser)}
    for answer in (
        await browser.get("/orgs/acme/deaths/b/rerun"),
        await browser.post("/orgs/acme/deaths/b/rerun", data=fields),
    ):
        assert answer.status_code == 404
    assert asked == []


async def test_a_form_of_another_page_is_refused(signed_in, redis, asked, at_work):
    await grant(redis, at_work)
    browser = await signed_in("mona")
    assert (await browser.post(RERUN, data={"form_token": "x"})).status_code == 403
    elsewhere = {"origin": "https://evil.example"}
    fields = {"form_token": await token_of(browser)}
    assert (await browser.post(RERUN, data=fields, headers=elsewhere)).status_code == 403
    assert asked == []


async def test_while_redis_is_away_the_pages_report_the_outage(start, away, at_work):
    browser = start(client=False, has_key=True, database=away)
    away.away = True
    for path in ("/orgs/acme/jobs", "/orgs/acme/deaths/a"):
        assert (await browser.get(path)).status_code == 503
