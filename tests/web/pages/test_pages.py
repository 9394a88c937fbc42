"""The pages over HTTP: the content of each, escaping, rules for all pages, and Redis outages."""

from __future__ import annotations

import re
from html import unescape

import pytest

from ghapp.deaths.cause import Cause
from ghapp.deaths.cluster_summary import ClusterSummary
from ghapp.deaths.death import DeadJob, Death
from ghapp.deaths.post_mortem_store import ClusterSummaries
from ghapp.deaths.store import Deaths
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.leaks.orphan import Orphan
from ghapp.leaks.store import Leaks
from ghapp.pods.phantom_kinds import ADVICE, Phantom, PhantomKind, PhantomReason, key
from ghapp.remediation.pause import Pause
from ghapp.remediation.store import Fuses
from ghapp.runners.evidence import Registration, Survey
from ghapp.runners.observations import SeenBy, registration_seen
from ghapp.runners.store import Runners
from ghapp.runners.verdict import Reason
from ghapp.web.pages.views.paging import PAGE_SIZE
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.store import Demand
from tests.store.rows.samples import filled
from tests.web.conftest import NOW, healthy

INCIDENT = f"/orgs/acme/incidents/{int(NOW) - 100}-3"
PAGES = ["/", "/orgs/acme", "/orgs/acme/runners", "/orgs/acme/runners/3", "/orgs/acme/github", "/system"]
PAGES += ["/orgs/acme/incidents", INCIDENT, "/orgs/acme/gate"]


async def with_job(redis, installation, repository):
    """Runner 1 runs a job of this repository, and died in it."""
    runners = Runners(redis)
    await runners.revise(installation, {1: lambda each: each._replace(job_id=70, job_started_at=NOW - 30)})
    await Demand(redis).record(installation, [Job(70, "running", (), repository, NOW - 40, 1, "a", NOW - 30)])
    job = DeadJob(70, repository, "build", "a" * 40)
    death = Death("a", "pod-a", "node-1", NOW - 5, 137, 9, "OOMKilled", Cause.HOST_OOM, "Add memory.", runner_id=1)
    death = death._replace(job=job, runner_log=("a secret line",))
    await Deaths(redis, lambda: NOW).record(installation, death)


async def test_the_pages_of_a_clean_exit_have_its_jobs_conclusion_and_no_death(key_holder, redis, fleet):
    clean = Death("a", "pod-a", "node-1", NOW - 5, 0, None, "Completed", Cause.CLEAN_EXIT, "Nothing.", runner_id=1)
    await Deaths(redis, lambda: NOW).record(fleet["acme"], clean._replace(job=DeadJob(70, "acme/api")))
    over = Job(70, "over", (), "acme/api", NOW - 40, 1, "a", NOW - 30, conclusion="success", ended_at=NOW - 4)
    await Demand(redis).record(fleet["acme"], [over])
    runner = await key_holder.get("/orgs/acme/runners/1")
    assert "<h2>Its end</h2>" in runner.text
    assert "&#34;conclusion&#34;: &#34;success&#34;" in runner.text
    end = (await key_holder.get("/orgs/acme/deaths/a")).text
    assert "(success)" in end
    assert "<h1>End of a</h1>" in end
    assert "Death of" not in end


async def test_the_list_of_runners_begins_with_the_headline_of_the_overview(key_holder):
    banners = [
        re.search(r'<p class="lead">(.*)</p>', (await key_holder.get(f"/orgs/acme{path}")).text)[1]
        for path in ("", "/runners")
    ]
    assert banners[0] == banners[1] != ""


@pytest.mark.parametrize("path", [*PAGES, "/orgs/acme/history"])
async def test_every_page_is_complete_has_a_strict_policy_and_is_not_cached(key_holder, path):
    answer = await key_holder.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"] == (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script>|https?://(?!127\.0\.0\.1|www\.w3\.org)", answer.text)
    assert len(re.findall("<h1>", answer.text)) == 1
    assert '<html lang="en">' in answer.text


@pytest.mark.parametrize("path", PAGES)
async def test_the_live_part_is_the_page_without_its_frame(key_holder, path):
    whole = await key_holder.get(path)
    part = await key_holder.get(path, headers={"hx-request": "true"})
    assert part.status_code == 200
    assert "<html" not in part.text
    assert part.text.strip() in whole.text
    assert (whole.headers["vary"], part.headers["vary"]) == ("HX-Request", "HX-Request")


async def test_the_overview_has_no_cluster_where_none_was_checked(key_holder):
    assert 'id="cluster"' not in (await key_holder.get("/orgs/acme")).text


async def test_the_overview_shows_phantoms_leaks_and_deaths_of_the_cluster(key_holder, redis, fleet):
    reason = PhantomReason.POD_LOST
    phantom = Phantom(PhantomKind.OBJECT_WITHOUT_POD, "arc-1", reason, ADVICE[reason], namespace="runners")
    summary = ClusterSummary(NOW, {key(phantom): NOW - 180}, (phantom,))
    await ClusterSummaries(redis).keep(fleet["acme"], summary)
    await Leaks(redis).reaped(fleet["acme"], filled(Orphan)._replace(namespace="runners", pod="k8s-x"), NOW - 60)
    text = (await key_holder.get("/orgs/acme")).text
    assert "1 phantom; 1 leaked pod deleted within a day; 0 runners died within a week." in text
    section = text.partition('id="cluster"')[2].partition('id="audit"')[0]
    command = "kubectl -n runners delete ephemeralrunner arc-1"
    leak = ("Leaked pods", "runners/k8s-x", "no claim and no job for ", '">1 min ago</time>')
    for expected in ("arc-1", "PodLost", "object-without-pod", ADVICE[PhantomReason.POD_LOST], command, *leak):
        assert expected in section


async def test_a_runners_page_shows_the_phantom_of_its_name_with_the_command(key_holder, redis, fleet):
    reason = PhantomReason.POD_LOST
    titles = [(await key_holder.get(f"/orgs/acme/runners/{runner}")).text for runner in (1, 3)]
    first, other = (re.findall(r"<h1[^>]*>([^<]+)<", each)[0].strip() for each in titles)
    ghosts = [
        Phantom(PhantomKind.OBJECT_WITHOUT_POD, name, reason, ADVICE[reason], namespace="runners")
        for name in (first, "elsewhere")
    ]
    await ClusterSummaries(redis).keep(fleet["acme"], ClusterSummary(NOW, {}, tuple(ghosts)))
    text = (await key_holder.get("/orgs/acme/runners/1")).text
    assert re.findall("kubectl [^<]+", text) == [f"kubectl -n runners delete ephemeralrunner {first}"]
    assert first != other
    assert "<h2>Phantom</h2>" not in (await key_holder.get("/orgs/acme/runners/3")).text


async def test_the_list_of_runners_calls_a_phantom_so_with_its_time_and_the_command(key_holder, redis, fleet):
    ghost = Phantom(PhantomKind.OBJECT_WITHOUT_POD, "a", PhantomReason.POD_LOST, "x", namespace="runners")
    await ClusterSummaries(redis).keep(fleet["acme"], ClusterSummary(NOW, {key(ghost): NOW - 180}, (ghost,)))
    rows = re.findall("<tr>.*</tr>", (await key_holder.get("/orgs/acme/runners")).text)
    (row,) = [each for each in rows if "phantom" in each]
    assert re.search(
        r"phantom \(PodLost\), found <time [^>]*>3 min ago</time>: <code>kubectl -n runners delete ephem", row
    )
    assert ">a</a>" in row


async def test_the_page_of_an_offline_runner_says_that_it_may_be_a_phantom(key_holder, redis, fleet):
    offline = healthy(1, "a")._replace(online=False, offline_since=NOW - 500)
    await Runners(redis).revise(fleet["acme"], {1: lambda _: offline})
    since = {key(Phantom(PhantomKind.OBJECT_WITHOUT_POD, name, PhantomReason.POD_LOST, "x")): NOW for name in "ab"}
    await ClusterSummaries(redis).keep(fleet["acme"], ClusterSummary(NOW, since, ()))
    words = "It has no working pod in the cluster, and may be a phantom; wait: within two minutes of reading GitHub"
    assert words in (await key_holder.get("/orgs/acme/runners/1")).text
    assert "phantom" not in (await key_holder.get("/orgs/acme/runners/2")).text


async def test_the_page_of_a_runner_that_died_names_its_death_beside_its_state(key_holder, redis, fleet):
    killed = Death("a", "a", "node-1", NOW - 5, 137, 9, "OOMKilled", Cause.HOST_OOM, "Raise it.", runner_id=1)
    await Deaths(redis, lambda: NOW).record(fleet["acme"], killed)
    assert "; it died: host-oom</small>" in (await key_holder.get("/orgs/acme/runners/1")).text


WORST = (
    "1 of 3 runners of linux-4vcpu is lost (no job waits for this pool, 2 runners are idle): nothing is replaced: "
    "remediation is in dry-run; 1 of 2 successors online."
)


@pytest.mark.parametrize("paused", [0, 2])
async def test_the_overview_shows_the_worst_headline_once_and_counts_the_others(key_holder, redis, fleet, paused):
    for pool in ("linux-4vcpu", "gpu")[:paused]:
        await Fuses(redis).pause(fleet["acme"], pool, Pause("mona", f"maintenance of {pool}", NOW - 60))
    text = unescape((await key_holder.get("/orgs/acme")).text)
    banner, _, rest = text.partition('aria-label="Current state"')[2].partition("</section>")
    assert WORST.partition(":")[0] in banner
    assert text.count(WORST.partition(":")[0]) == 1
    assert "Began" in banner
    listed = re.findall(r"<li><b", rest.partition('id="pools"')[0])
    assert len(listed) == paused
    assert re.findall(r"Also open: (\d+)", rest) == ([str(paused)] if paused else [])
    assert "None. Every fuse is closed" not in text


async def test_the_overview_shows_the_state_and_what_to_do(key_holder):
    text = unescape((await key_holder.get("/orgs/acme")).text)
    assert WORST.replace(": ", '<span class="progress">: ', 1) in text
    assert 'Set [remediation] mode = "act"' in text


async def test_the_list_filters(key_holder):
    def names(page):
        return re.findall(r'<th scope="row"><a href="[^"]+">([^<]+)</a>', page.text)

    assert names(await key_holder.get("/orgs/acme/runners")) == ["c", "a", "b"]
    assert names(await key_holder.get("/orgs/acme/runners?state=healed")) == ["d"]
    assert names(await key_holder.get("/orgs/acme/runners?state=healthy&text=B")) == ["b"]
    assert names(await key_holder.get("/orgs/acme/runners?pool=nothing")) == []
    assert names(await key_holder.get("/orgs/acme/runners?page=-1")) == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("runners?state=offlne", "This page has no state=offlne; did you mean offline?"),
        ("jobs?state=queud", "This page has no state=queud; did you mean queued?"),
        ("deaths?cause=vanishd", "This page has no cause=vanishd; did you mean vanished?"),
        ("history?pool=linux-4vcp", "This page has no pool=linux-4vcp; did you mean linux-4vcpu?"),
        ("history?span=weak", "This page has no span=weak; did you mean week?"),
    ],
)
async def test_an_unknown_filter_is_400_and_one_line_names_the_nearest(key_holder, address, line):
    answer = await key_holder.get(f"/orgs/acme/{address}")
    assert (answer.status_code, line in unescape(answer.text)) == (400, True)


@pytest.mark.parametrize("page", ["runners", "jobs", "deaths"])
async def test_a_list_of_an_unknown_pool_is_empty_and_names_those_that_it_has(key_holder, page):
    answer = await key_holder.get(f"/orgs/acme/{page}?pool=nothing")
    assert (answer.status_code, "This page has no pool=nothing; " in answer.text) == (200, True)


@pytest.mark.parametrize(("more", "pages"), [(PAGE_SIZE - 3, 0), (PAGE_SIZE - 2, 2)], ids=["full page", "one more"])
async def test_a_list_longer_than_a_page_says_which_page_is_shown(key_holder, redis, fleet, more, pages):
    many = {100 + each: healthy(100 + each, f"r{each}") for each in range(more)}
    await Runners(redis).revise(fleet["acme"], {each: lambda _, each=each: many[each] for each in many})
    page = await key_holder.get("/orgs/acme/runners")
    assert page.status_code == 200
    assert re.findall(r"Page 1 of (\d+)", page.text) == ([str(pages)] if pages else [])


async def test_a_runner_shows_its_evidence_its_replacement_and_its_document(key_holder):
    lost, healed = (
        (await key_holder.get("/orgs/acme/runners/3")).text,
        (await key_holder.get("/orgs/acme/runners/4")).text,
    )
    assert "404 again, and a complete control list without it" in lost
    assert "&#34;state&#34;: &#34;invalidated&#34;" in lost
    assert "Replaced: runner 2 is online." in healed


async def test_an_address_that_nothing_has_is_a_page_for_a_browser_and_a_problem_for_programs(key_holder):
    browser = await key_holder.get("/foo/bar", headers={"Accept": "text/html,*/*"})
    assert (browser.status_code, browser.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "Page not found" in browser.text
    program = await key_holder.get("/foo/bar", headers={"Accept": "application/json"})
    assert (program.status_code, program.headers["content-type"]) == (404, "application/problem+json")


async def test_the_page_of_a_misspelt_organization_names_the_one_that_was_meant(key_holder):
    answer = await key_holder.get("/orgs/acm")
    assert answer.status_code == 404
    assert "Did you mean acme?" in answer.text


@pytest.mark.parametrize("runner", ["99", "x", "9", "1" * 30])
async def test_a_runner_that_is_unknown_or_of_another_organization_is_404(key_holder, runner):
    assert (await key_holder.get(f"/orgs/acme/runners/{runner}")).status_code == 404


@pytest.mark.parametrize(
    ("login", "repository", "shown"),
    [("mona", "acme/infra", True), ("lisa", "acme/api", True), ("lisa", "acme/infra", False)],
    ids=["an owner", "a member who may read it", "a member who may not"],
)
async def test_a_job_and_its_log_are_shown_only_to_readers_of_its_repository(
    signed_in, redis, fleet, login, repository, shown
):
    await with_job(redis, fleet["acme"], repository)
    page = (await (await signed_in(login)).get("/orgs/acme/runners/1")).text
    assert "host-oom" in page
    assert ("a secret line" in page) is shown
    assert (repository in page) is shown
    assert ("in a repository that you may not read" in page) is not shown


async def test_texts_from_outside_are_escaped(key_holder, redis, fleet):
    labels = ("self-hosted", "<script>alert(1)</script>")
    seen = Registration(5, "<b onx=1>", "<i>", True, False, labels, labels[1:])
    evidence = registration_seen(None, seen, NOW - 600, by=SeenBy.LIST)
    await Runners(redis).revise(fleet["acme"], {5: lambda _: evidence})
    for path in (
        "/orgs/acme",
        "/orgs/acme/runners",
        "/orgs/acme/runners/5",
        "/orgs/acme/runners?text=<script>alert(2)",
    ):
        page = (await key_holder.get(path)).text
        assert "<script>alert" not in page
        assert "<b onx" not in page
        assert "<i>" not in page


async def test_github_shows_the_budget_and_the_next_sweep(key_holder):
    text = (await key_holder.get("/orgs/acme/github")).text
    assert (
        "The next sweep waits. The App may not read the organization&#39;s runners. <code>PermissionMissing</code>"
        in text
    )
    assert "once an owner grants the App <code>organization_self_hosted_runners: write</code>" in text
    assert "Missing: organization_self_hosted_runners: write" in text
    assert "/organizations/acme/settings/installations/" in text
    assert "of 2,500, 50 % of the limit" in text


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        ("", "The App has all permissions that it needs."),
        (Reason.PERMISSION_MISSING, "<b>Missing: organization_self_hosted_runners: write</b><p>GitHub refuses to list"),
    ],
    ids=["sweeps work", "before GitHub reports which"],
)
async def test_permissions_are_called_complete_only_while_github_refuses_none(key_holder, redis, fleet, failure, text):
    granted = dict.fromkeys(("organization_self_hosted_runners", "checks", "actions", "metadata"), "write")
    await Installations(redis).put(Installation(fleet["acme"], "acme", 1, granted))
    failing_since = NOW - 3 if failure else None
    await Runners(redis).save_survey(fleet["acme"], Survey(NOW - 3.2, 2, failing_since=failing_since, failure=failure))
    page = (await key_holder.get("/orgs/acme/github")).text
    assert text in page
    assert ("The App has all permissions" in page) is (not failure)
    assert ("/organizations/acme/settings/installations/" in page) is bool(failure)


async def test_a_healed_runner_s_page_links_its_replacement_runner_alone(key_holder):
    text = (await key_holder.get("/orgs/acme/runners/4")).text
    assert re.search(r"Its replacement runner:</p>\s*<ul><li><a href=\"[^\"]*/runners/2\">b</a>", text)
    assert "one of them may be" not in text


async def test_system_shows_roles_queues_and_the_inbox(key_holder):
    text = re.sub(r"\s+", " ", (await key_holder.get("/system")).text)
    assert "No clock is alive." in text
    assert "<dt>worker</dt><dd>2<small>alive</small>" in text
    assert "<dt>inbox</dt><dd>3<small>waiting jobs of ghapp</small>" in text
    assert "<dt>Inbox</dt><dd>0<small>waiting deliveries</small>" in text
    assert "<dt>failed</dt><dd>1<small>in the last hour</small>" in text


@pytest.mark.parametrize("path", PAGES)
async def test_without_redis_a_page_reports_the_outage(start, away, path):
    browser = start(client=False, has_key=True, database=away)
    away.away = True
    answer = await browser.get(path)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.headers["content-type"].startswith("text/html")
    assert "Redis does not answer" in answer.text


async def test_an_organization_is_found_by_its_name_in_any_case(key_holder):
    assert (await key_holder.get("/orgs/ACME")).status_code == 200
