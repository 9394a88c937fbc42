"""`ghapp jobs` and `ghapp why`, as text and as JSON."""

from __future__ import annotations

import re

import pytest

from ghapp.cli.api_client import JobReference
from ghapp.cli.context import NO_ORGANIZATION
from ghapp.deaths.cause import LESS_MEMORY, Cause
from ghapp.deaths.death import DeadJob, Death
from ghapp.deaths.job_outcome import RUNS_AGAIN
from ghapp.deaths.job_story import HELD
from ghapp.deaths.post_mortem_store import PostedMortem, PostMortems, Reruns
from ghapp.deaths.rerun import Rerun, RerunState
from ghapp.deaths.store import Deaths
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.notifications.event_ids import death_id
from ghapp.workflow_jobs.commands import SHOWN
from ghapp.workflow_jobs.job import Job, PullReference
from ghapp.workflow_jobs.job_steps import JobSteps
from ghapp.workflow_jobs.store import Demand
from ghapp.workflow_jobs.texts import KNOWN_JOBS
from tests.cli.conftest import ACME
from tests.cli.test_cli import one_line
from tests.rules.builders import online
from tests.rules.deaths.test_post_mortem import death

PAGE = "https://github.com/acme/api/actions/runs/41/job/"


def job(known, number, status="queued", waited=600.0, **changes):
    waiting = Job(
        number, status, ("self-hosted", "linux-4vcpu"), "acme/api", known.now - waited, run_id=41, name="test"
    )
    return waiting._replace(html_url=f"{PAGE}{number}", **changes)


async def three_jobs(known):
    started = {"runner_id": 1, "runner_name": "linux-1", "started_at": known.now - 300}
    await known.add_runner(online(1, first_seen=known.now - 60, busy=True))
    jobs = [
        job(known, 1, labels=("linux-4vpcu",), waited=90, repository="acme/web", run_id=40),
        job(known, 2),
        job(known, 3, "running", 900.0, **started),
        job(known, 4, "over", 900.0, ended_at=known.now - 5, conclusion="success", **started),
    ]
    of_web = {"head_sha": "e" * 40, "repository": "acme/web", "head_branch": "cache"}
    jobs[0], jobs[3] = (each._replace(**of_web) for each in (jobs[0], jobs[3]))
    jobs[0] = jobs[0]._replace(actor="lisa")
    await Demand(known.redis).record(ACME, jobs)
    await Demand(known.redis).note_pull(ACME, PullReference("acme/web", 8), "e" * 40, known.now)


@pytest.mark.parametrize(
    ("options", "listed"),
    [
        ([], [1, 2, 3]),
        (["--sort", "age"], [3, 2, 1]),
        (["--queued"], [1, 2]),
        (["--running"], [3]),
        (["--unserved"], [1]),
        (["--pool", "linux-4vcpu"], [2, 3]),
        (["--sort", "repository"], [3, 2, 1]),
        (["--sort", "pool", "--limit", "2"], [3, 2]),
        (["--org", "acme"], [1, 2, 3]),
        (["--over"], [4]),
        (["--failed"], []),
        (["--runner", "linux-1"], [3, 4]),
        (["--runner", "linux-1", "--running"], [3]),
        (["--sha", "abcdef0"], []),
        (["--pull", "acme/api#7"], []),
        (["--pull", "https://github.com/acme/web/pull/8"], [1, 4]),
        (["--branch", "cache"], [1, 4]),
        (["--branch", "cache", "--queued"], [1]),
        (["--branch", "cach"], []),
        (["--actor", "Lisa"], [1]),
        (["--actor", "lisa", "--over"], []),
    ],
    ids=str,
)
async def test_jobs_are_selected_and_sorted(known, options, listed):
    await three_jobs(known)
    found = await known.json("jobs", *options)
    assert [each["job_id"] for each in found["jobs"]] == listed
    assert found["total"] == (3 if "--limit" in options else len(listed))


ENDED = "jobs that ended are listed for an hour; --runner, --sha and --pull find those of 30 days"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], f"no queued or running job is known: {KNOWN_JOBS}"),
        (["--org", "acme", "--queued"], f"no queued job of acme is known: {KNOWN_JOBS}"),
        (["--unserved"], f"no unserved job is known: {KNOWN_JOBS}"),
        (["--pool", "linux-4vcpu", "--failed"], f"no failed job of pool linux-4vcpu is known: {ENDED}"),
        (["--pull", "https://github.com/acme/api/pull/3"], f"no job of acme/api#3 is known: {KNOWN_JOBS}"),
        (["--sha", "abcdef0", "--over"], f"no ended job of commit abcdef0 is known: {KNOWN_JOBS}"),
        (["--branch", "cache", "--actor", "lisa"], f"no job of branch cache of lisa is known: {ENDED}"),
        (["--runner", "linux-1", "--running"], f"no running job of runner linux-1 is known: {KNOWN_JOBS}"),
    ],
    ids=str,
)
async def test_an_empty_list_is_a_sentence_without_a_table(known, options, sentence):
    await known.add_runner(online(1, first_seen=known.now - 60))
    assert " ".join((await known.ask("jobs", *options)).stdout.split()) == sentence


async def test_a_failed_job_has_what_it_failed_by_in_its_row(known):
    started = {"runner_id": 1, "runner_name": "linux-1", "started_at": known.now - 800}
    by_step = job(
        known, 5, "over", ended_at=known.now - 5, conclusion="failure", steps=JobSteps(failed=True), **started
    )
    await Demand(known.redis).record(ACME, [by_step])
    assert " failure: a step failed " in (await known.ask("jobs", "--failed")).stdout


async def test_a_job_that_ended_without_a_runner_has_what_it_waited_for(known):
    waited = {"waited_for": "NoRunnerWithLabels", "lacked_labels": ("linux-4vpcu",)}
    ended = job(known, 5, "over", 2100.0, ended_at=known.now - 60, conclusion="cancelled", **waited)
    await Demand(known.redis).record(ACME, [ended])
    assert " cancelled: waited for NoRunnerWithLabels\n" in (await known.ask("jobs", "--failed")).stdout
    shown = " ".join((await known.ask("why", "acme", "5")).stdout.split())
    assert shown.startswith("acme/api test (5): waited 34 min: no runner had the label linux-4vpcu; cancelled")
    (found,) = (await known.json("why", "acme", "5"))["jobs"]
    assert found["waited_for"] == "NoRunnerWithLabels"


async def test_the_text_has_the_reason_and_the_number_of_jobs_not_shown(known):
    await three_jobs(known)
    shown = (await known.ask("jobs", "--sort", "age", "--limit", "2")).stdout
    assert " AllBusy (1 job): the only online runner of linux-4vcpu is busy → wait\n" in shown
    assert "linux-1" in shown
    assert shown.startswith(" 2 of 3 jobs; 2 queued, 1 running\n")
    assert shown.endswith(" 1 more; --limit 3 shows all\n")
    assert re.search(r" 3 .* running +5 min( \d+ s)? ago ", shown)
    assert re.search(r" 2 .* queued +10 min ago ", shown)
    shown = (await known.ask("jobs", "--limit", "1")).stdout
    assert " AllBusy (1 job): " in shown, "also of jobs that are not shown"


@pytest.mark.parametrize(("options", "shown"), [([], SHOWN), (["--limit", "30"], 30)], ids=str)
async def test_a_table_has_the_first_rows_unless_a_limit_is_given(known, options, shown):
    many = [job(known, number, "running", started_at=known.now - number, runner_id=1) for number in range(1, 61)]
    await Demand(known.redis).record(ACME, many)
    text = (await known.ask("jobs", *options)).stdout
    assert text.startswith(f" {shown} of 60 jobs; 60 running\n")
    assert text.endswith(f" {60 - shown} more; --limit 60 shows all\n")
    found = await known.json("jobs", *options)
    assert (len(found["jobs"]), found["total"]) == (30 if options else 60, 60)


async def test_jobs_that_ended_are_listed_from_the_latest_on_and_those_that_failed_alone(known):
    ended = [(5, 300, "success"), (6, 20, "failure"), (7, 60, "success"), (8, 90, "cancelled")]
    await Demand(known.redis).record(
        ACME, [job(known, number, "over", ended_at=known.now - ago, conclusion=how) for number, ago, how in ended]
    )
    for option, listed in (("--over", [6, 7, 8, 5]), ("--failed", [6, 8])):
        assert [each["job_id"] for each in (await known.json("jobs", option))["jobs"]] == listed
    shown = (await known.ask("jobs", "--over")).stdout
    assert "1 min 30 s ago" in shown


@pytest.mark.parametrize(
    ("options", "address"),
    [
        (["--queued"], "/orgs/acme/jobs?state=queued"),
        (["--unserved"], "/orgs/acme/jobs?state=unserved"),
        (["--failed", "--pool", "gpu"], "/orgs/acme/jobs?pool=gpu&state=failed"),
        (["--actor", "lisa"], "/orgs/acme/jobs?actor=lisa"),
        ([], "/orgs/acme/jobs"),
    ],
    ids=str,
)
async def test_the_page_of_jobs_opens_as_they_are_selected(known, options, address):
    opened = await known.ask("jobs", "--web", *options, GHAPP_PUBLIC_URL="https://ghapp.example.com")
    assert opened.stdout == f"https://ghapp.example.com{address}\n"


@pytest.mark.parametrize(
    ("words", "address"),
    [
        (["runners", "--state", "lost"], "/orgs/acme/runners?state=invalidated"),
        (["deaths", "--pool", "gpu"], "/orgs/acme/deaths?pool=gpu"),
        (["versions"], "/orgs/acme/versions"),
    ],
    ids=str,
)
async def test_the_page_of_a_list_needs_no_org_where_one_is_known(known, words, address):
    opened = await known.ask(*words, "--web", GHAPP_PUBLIC_URL="https://ghapp.example.com")
    assert opened.stdout == f"https://ghapp.example.com{address}\n"


async def test_runners_are_listed_with_the_queue_of_each_pool(known):
    await three_jobs(known)
    pools = {each["pool"]: each for each in (await known.json("runners"))["pools"]}
    linux, typo = pools["linux-4vcpu"], pools[""]
    assert (linux["queued"], linux["running"], linux["idle"], linux["unserved"]) == (1, 1, 0, 0)
    assert (typo["queued"], typo["running"], typo["idle"], typo["unserved"]) == (1, 0, 0, 1)
    assert linux["oldest_queued_at"] == (await known.json("why", "acme", "2"))["jobs"][0]["queued_at"]
    shown = (await known.ask("runners")).stdout
    assert "linux-4vpcu" not in shown
    assert re.search(r"no pool +0 +1 +0 ", shown)
    assert "oldest queued" in shown


async def test_labels_that_no_pool_has_are_no_pool(known):
    await three_jobs(known)
    for command in ("runners", "jobs"):
        message = one_line(await known.ask(command, "--pool", "linux-4vpcu"), 2)
        assert "--pool linux-4vpcu: no organization has such a pool; did you mean linux-4vcpu?" in message
    shown = (await known.ask("jobs", "--queued")).stdout
    assert re.search(r" label linux-4vpcu +1 ", shown)
    (found,) = (await known.json("why", "acme", "1"))["jobs"]
    assert (found["pool"], found["story"][0]["text"]) == ("", "queued for a runner with the label linux-4vpcu")


async def test_without_a_queued_job_no_queue_is_shown(known):
    assert "oldest queued" not in (await known.ask("runners")).stdout


async def test_why_prints_the_reason_and_the_fix(known):
    await three_jobs(known)
    shown = (await known.ask("why", "acme", "1")).stdout
    assert re.search(r"acme/web test \(1\) is queued since .* UTC: no runner has the label linux-4vpcu;", shown)
    assert shown.count("no runner has the label") == 1
    assert f"1. change linux-4vpcu to linux-4vcpu in runs-on: {PAGE.removesuffix('/job/')}/workflow" in shown
    assert re.search(r"^  GitHub fails the job at .* UTC, 24 hours after it was queued$", shown, re.MULTILINE)
    assert f"{PAGE}1" in shown
    assert "\n  cache at eeeeeee, by lisa\n" in shown
    (found,) = (await known.json("why", "acme", f"{PAGE}2"))["jobs"]
    assert (found["org"], found["job_id"], found["why"]["reason"], found["why"]["ahead"]) == ("acme", 2, "AllBusy", 0)


async def test_all_known_jobs_of_a_run_are_shown(known):
    await three_jobs(known)
    found = (await known.json("why", "acme", "https://github.com/acme/api/actions/runs/41"))["jobs"]
    assert [(each["job_id"], each["state"]) for each in found] == [(2, "queued"), (3, "running"), (4, "over")]
    shown = (await known.ask("why", "acme", "https://github.com/acme/api/actions/runs/41")).stdout
    assert "(3) is running on linux-1 since " in shown
    assert re.search(r"\(4\) ended on linux-1 at \S+ UTC: success", shown)


async def test_a_number_of_no_known_job_is_that_of_a_run(known):
    await three_jobs(known)
    of_url = await known.json("why", "acme", "https://github.com/acme/api/actions/runs/41")
    assert await known.json("why", "acme", "41") == of_url


@pytest.mark.parametrize(
    "url",
    [
        "https://ghapp.example.com/orgs/acme/jobs/3",
        "http://127.0.0.1:8000/ci/v1/orgs/acme/jobs/3?x=1",
        "https://github.com/acme/api/runs/3",
        "https://api.github.com/repos/acme/api/check-runs/3",
        "https://www.github.com/acme/api/actions/runs/41/job/3",
    ],
)
async def test_a_page_of_ours_and_a_check_run_name_their_job(known, url):
    await three_jobs(known)
    (found,) = (await known.json("why", url))["jobs"]
    assert (found["org"], found["job_id"]) == ("acme", 3)


async def test_the_page_of_a_death_names_the_job_that_its_runner_ran(known):
    await three_jobs(known)
    died = Death("linux-1", "", "", known.now, None, None, "", Cause.VANISHED, "")
    deaths = Deaths(known.redis, lambda: known.now)
    await deaths.record(ACME, died._replace(job=DeadJob(3, "acme/api", "build")))
    (found,) = (await known.json("why", "https://ghapp.example.com/orgs/acme/deaths/linux-1?end=7"))["jobs"]
    assert (found["org"], found["job_id"]) == ("acme", 3)
    await deaths.record(ACME, died._replace(runner_name="linux-2", pod="linux-2"))
    line = one_line(await known.ask("why", "https://ghapp.example.com/orgs/acme/deaths/linux-2"), 2)
    assert "acme linux-2: no job is known that it ran when it died; see `ghapp explain acme linux-2`" in line


@pytest.mark.parametrize(
    "url", ["https://ghes.example:8443/api/v3/repos/acme/api/check-runs/3", "https://ghes.example:8443/acme/api/runs/3"]
)
async def test_a_url_of_the_servers_github_names_its_job(known, url):
    await three_jobs(known)
    known.set_github("https://ghes.example:8443")
    (found,) = (await known.json("why", url))["jobs"]
    assert found["job_id"] == 3


@pytest.mark.parametrize(
    "words",
    [
        ["why", "https://ghes.example/acme/api/actions/runs/41/job/3"],
        ["why", "acme", "https://ghes.example/acme/api/actions/runs/41"],
        ["why", "https://ghes.example/acme/api/runs/3"],
        ["jobs", "--pull", "https://ghes.example/acme/web/pull/8"],
    ],
    ids=str,
)
async def test_a_url_of_another_github_is_wrong_usage_and_names_both_hosts(known, words):
    await three_jobs(known)
    message = "the URL is of ghes.example, and the GitHub of this server is github.com"
    assert message in one_line(await known.ask(*words), 2)


async def test_a_pull_request_of_a_repository_without_jobs_names_those_that_have_some(known):
    await three_jobs(known)
    others = "did you mean acme/api? repositories with jobs of the last hour are acme/api, acme/web"
    assert others in (await known.ask("jobs", "--pull", "acme/apo#7")).stdout.replace("\n", " ")
    assert "repositories" not in (await known.ask("jobs", "--pull", "ACME/api#7")).stdout


@pytest.mark.parametrize(
    ("number", "meant"), [("4000000001", "40000000001"), ("40000000901", "40000000001"), ("40000000991", ""), ("7", "")]
)
async def test_an_id_that_is_not_known_has_the_job_whose_id_differs_in_one_digit(known, number, meant):
    await Demand(known.redis).record(ACME, [job(known, 40_000_000_001), job(known, 40_000_055_555)])
    message = one_line(await known.ask("why", "acme", number), 2)
    assert f"not known{f' (did you mean {meant}?)' if meant else ''}; {KNOWN_JOBS}" in message


async def test_a_check_run_of_ours_names_the_jobs_that_it_is_about(known):
    await three_jobs(known)
    await Demand(known.redis).note_check_run(ACME, 9000, [3, 2, 77])
    found = (await known.json("why", "https://github.com/acme/api/runs/9000"))["jobs"]
    assert [each["job_id"] for each in found] == [2, 3]
    opened = await known.ask(
        *("why", "acme", "https://github.com/acme/api/runs/9000", "--web"), GHAPP_PUBLIC_URL="https://ghapp.example.com"
    )
    assert opened.stdout.startswith("https://ghapp.example.com/orgs/acme/jobs")
    message = one_line(await known.ask("why", "https://github.com/acme/api/runs/9001"), 2)
    assert f"acme check run 9001: not known; {KNOWN_JOBS}" in message


@pytest.mark.parametrize(
    ("text", "see"),
    [
        ("https://github.com/acme/api/pull/4", "; its jobs: `ghapp jobs --pull https://github.com/acme/api/pull/4`"),
        ("e" * 40, f"; its jobs: `ghapp jobs --sha {'e' * 40}`"),
        ("main/x", "a job or of a run; see `ghapp why --help`"),
    ],
    ids=["a pull request", "a commit", "neither"],
)
async def test_what_names_many_jobs_is_refused_with_the_command_that_lists_them(known, text, see):
    assert see in one_line(await known.ask("why", text), 2)


@pytest.mark.parametrize(
    ("named", "page"),
    [
        ("3", "jobs/3"),
        ("40", f"jobs?text={'e' * 40}"),
        ("42", "jobs/5"),
        (f"{PAGE}3", "jobs/3"),
        (PAGE.removesuffix("/job/"), "jobs"),
    ],
)
async def test_the_page_of_a_number_is_that_of_the_job_or_of_its_run(known, named, page):
    """A number alone may be of a run; of several jobs the list of their commit is opened."""
    await three_jobs(known)
    commit = {"repository": "acme/web", "head_sha": "e" * 40}
    more = [job(known, 5)._replace(run_id=42, **commit), job(known, 6)._replace(run_id=40, **commit)]
    await Demand(known.redis).record(ACME, more)
    opened = await known.ask("why", "acme", named, "--web", GHAPP_PUBLIC_URL="https://ghapp.example.com")
    assert opened.stdout == f"https://ghapp.example.com/orgs/acme/{page}\n"


async def test_a_job_whose_runner_died_has_its_whole_story_and_its_url_names_the_org(known):
    started = {"runner_id": 1, "runner_name": "linux-1", "started_at": known.now - 800}
    lost = job(known, 5, "over", 900.0, ended_at=known.now - 60, conclusion="failure", **started)
    again = job(known, 6, "running", 30.0, attempt=2, runner_id=2, runner_name="linux-2", started_at=known.now - 20)
    await Demand(known.redis).record(ACME, [lost, again])
    log = ("Running job: test", "heap 7.4 GiB of \x1b[31m8 GiB")
    oom = death(runner_name="linux-1", runner_id=1, at=known.now - 660, job=None, memory_limit="8Gi", runner_log=log)
    await Deaths(known.redis).record(ACME, oom)
    rerun = Rerun(5, 41, 1, "mona", known.now - 50, RerunState.ACCEPTED)
    await Reruns(known.redis).keep(ACME, rerun)
    (found,) = (await known.json("why", f"{PAGE}5"))["jobs"]
    assert [each["step"] for each in found["story"]] == ["queued", "taken", "died", "ended", "rerun", "next-attempt"]
    assert (found["org"], found["death"]["cause"], found["rerun"]["by"], found["rerun"]["job_id"]) == (
        *("acme", "host-oom", "mona"),
        6,
    )
    shown = (await known.ask("why", f"{PAGE}5")).stdout
    times = re.findall(r"^  (?:\S+ )?(\d\S+ UTC)  ", shown, re.MULTILINE)
    assert {len(each) for each in times} == {len("08:42:06 UTC")}
    assert "its container ended with exit code 137, signal 9 (OOMKilled)" in shown
    assert "attempt 2 of the run is job 6: running on runner linux-2" in shown
    assert " ".join(shown.split()).startswith(f"acme/api test (5): {found['summary']} ")
    limit, line, *_ = shown.partition("linux-2\n")[2].splitlines()
    assert limit == "  memory: limit 8Gi, reached"
    assert line.startswith("  last line of the runner's log: heap 7.4 GiB of ")
    assert "\x1b" not in shown
    assert (found["death"]["memory_limit"], found["death"]["last_line"]) == ("8Gi", log[-1])
    assert found["summary"].endswith("its memory limit; attempt 2 of the run: running on runner linux-2")
    assert f"advice for the platform team: {found['death']['advice']}" in shown


@pytest.mark.parametrize(
    ("rerun", "steps"),
    [
        (
            None,
            [
                "1. change the job so that it needs less memory, or runs in a pool with more",
                f"2. run it again at GitHub (Re-run jobs): {PAGE}5",
            ],
        ),
        (
            Rerun(5, 41, 1, "mona", 0.0, RerunState.ACCEPTED),
            ["1. change the job so that it needs less memory, or runs in a pool with more"],
        ),
    ],
    ids=["not run again", "run again"],
)
async def test_the_developer_of_a_job_whose_runner_died_has_the_next_step_and_its_address(known, rerun, steps):
    started = {"runner_id": 1, "runner_name": "linux-1", "started_at": known.now - 800}
    lost = job(known, 5, "over", 900.0, ended_at=known.now - 60, conclusion="failure", **started)
    await Demand(known.redis).record(ACME, [lost])
    await Deaths(known.redis).record(ACME, death(runner_name="linux-1", runner_id=1, at=known.now - 660, job=None))
    if rerun is not None:
        await Reruns(known.redis).keep(ACME, rerun)
    shown = (await known.ask("why", "acme", "5")).stdout
    assert re.findall(r"^  (\d\. .*)$", shown, re.MULTILINE) == steps
    assert shown.count(f"{PAGE}5") == 1
    (found,) = (await known.json("why", "acme", "5"))["jobs"]
    assert [each["url"] for each in found["next"]] == [None, f"{PAGE}5"][: len(steps)]
    if steps:
        assert "    no line of your code failed, but" in shown
        assert shown.index("1. change the job so that it needs less") < shown.index("advice for the platform team")


async def test_the_steps_name_the_check_run_that_has_the_button_and_the_pool_that_has_more_memory(known):
    started = {"runner_id": 1, "runner_name": "linux-1", "started_at": known.now - 800}
    lost = job(known, 5, "over", 900.0, ended_at=known.now - 60, conclusion="failure", **started)
    oom = death(runner_name="linux-1", runner_id=1, at=known.now - 660, job=None, memory_limit="8Gi")
    exited = oom._replace(runner_name="big-1", pod_uid="big", pool="big", memory_limit="16Gi", cause=Cause.CLEAN_EXIT)
    known.write_config(CONFIGURED.replace('"linux"', '"big"').replace("linux-4vcpu", "linux-16gb"))
    await Demand(known.redis).record(ACME, [lost])
    await Deaths(known.redis).record(ACME, oom)
    await Deaths(known.redis).record(ACME, exited)
    subject = death_id(await Installations(known.redis).one(ACME), oom)
    await PostMortems(known.redis).post(subject, PostedMortem(9, "a digest", has_button=True))
    shown = (await known.ask("why", "acme", "5")).stdout
    check_run = f"{PAGE.partition('/actions/')[0]}/runs/9"
    assert re.findall(r"^  (\d\. .*)$", shown, re.MULTILINE) == [
        f"1. {LESS_MEMORY}: runs-on: linux-16gb (pool big, 16Gi)",
        f'2. press "Re-run anyway" in the check run "Runner post-mortem": {check_run}',
    ]
    assert RUNS_AGAIN in " ".join(shown.split())


async def test_a_job_names_its_page_and_what_has_no_time_has_none(known):
    known.set_public_url("https://ghapp.example.com")
    await Demand(known.redis).record(ACME, [job(known, 8, waiting=True)])
    shown = (await known.ask("why", "acme", "8")).stdout
    assert re.search(r"^  page: http\S+/orgs/acme/jobs/8$", shown, re.MULTILINE)
    assert re.search(rf"^ {{12,}}waits: {HELD}$", shown, re.MULTILINE)


async def test_a_job_that_github_holds_back_lacks_no_reason(known):
    await Demand(known.redis).record(ACME, [job(known, 8, waiting=True)])
    head, *story = (await known.ask("why", "acme", "8")).stdout.splitlines()
    assert head.endswith(f"is queued: {HELD}")
    assert f"waits: {HELD}" in "\n".join(story)


async def test_each_later_attempt_has_who_requested_it(known):
    over = {"status": "over", "conclusion": "failure", "runner_id": 1, "runner_name": "linux-1"}
    first = job(known, 5, ended_at=known.now - 400, started_at=known.now - 500, **over)
    second = job(known, 6, ended_at=known.now - 200, started_at=known.now - 300, attempt=2, waited=350.0, **over)
    await Demand(known.redis).record(ACME, [first, second, job(known, 7, waited=100.0, attempt=3)])
    for number, attempt, who in ((5, 1, "mona"), (6, 2, "lisa")):
        await Reruns(known.redis).keep(ACME, Rerun(number, 41, attempt, who, known.now - 390, RerunState.ACCEPTED))
    (found,) = (await known.json("why", "acme", "5"))["jobs"]
    assert "attempt 3 of the run is job 7, requested by lisa: queued" in [each["text"] for each in found["story"]]
    assert found["later_attempt"].pop("at")[-1] == "Z"
    assert found["later_attempt"] == {"attempt": 3, "job_id": 7, "text": "queued"}
    assert (await known.ask("jobs", "--failed")).stdout.count("; run again as attempt 3 (job 7)") == 2


async def test_control_characters_in_a_name_are_not_printed(known):
    await Demand(known.redis).record(ACME, [job(known, 7, name="\x1b[31mred", labels=("\x1b[2J",))])
    for words in (("why", "acme", "7"), ("jobs",)):
        assert "\x1b" not in (await known.ask(*words)).stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("why", "acme", "99"), 2, "acme job or run 99: not known; jobs are known from deliveries, until 30 days"),
        (("why", "acme", "https://github.com/acme/api/actions/runs/98"), 2, "run 98: not known"),
        (("why", "globex", "1"), 2, "not installed"),
        (("why", "1"), 2, "acme job or run 1: not known"),
        (("why", "acme", "1", "2"), 2, "not 3 arguments"),
        (("why", "https://github.com/globex/api/actions/runs/41/job/42"), 2, "not installed"),
        (("why", "acme", "linux-1"), 2, "of a job or of a run; a runner of that name: `ghapp explain acme linux-1`"),
        (("why", "linux-1"), 2, "a runner of that name: `ghapp explain ORG linux-1`"),
        (("why", "https://example.com/x"), 2, "neither the id nor the URL of a job or of a run; see `ghapp why"),
        (("jobs", "--org", "globex"), 2, "not installed"),
        (("jobs", "--sort", "colour"), 2, "--sort"),
        (("jobs", "--sort", "repo"), 2, "did you mean repository?"),
        (("jobs", "--runner", "nosuch"), 2, "--runner nosuch: unknown runner; see `ghapp runners`"),
        (("jobs", "--sha", "main"), 2, "not the id of a commit"),
        (("jobs", "--pull", "8"), 2, "neither OWNER/REPO#NUMBER"),
    ],
)
async def test_an_unknown_or_invalid_value_is_reported_in_one_line(known, words, code, message):
    assert message in one_line(await known.ask(*words), code)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("42", JobReference(42)),
        (f"{PAGE}42", JobReference(42, repository="acme/api", host="github.com")),
        (f"{PAGE}42?pr=7#step:3:1", JobReference(42, repository="acme/api", host="github.com")),
        (
            "https://ghe.example.com/acme/api/actions/runs/41/job/42",
            JobReference(42, repository="acme/api", host="ghe.example.com"),
        ),
        (
            "https://ghe.example.com/api/v3/repos/acme/api/actions/jobs/42",
            JobReference(42, repository="acme/api", host="ghe.example.com"),
        ),
        (
            "https://api.github.com/repos/acme/api/actions/jobs/42",
            JobReference(42, repository="acme/api", host="api.github.com"),
        ),
        (
            "https://github.com/acme/api/actions/runs/41",
            JobReference(run_id=41, repository="acme/api", host="github.com"),
        ),
        (
            "https://github.com/acme/api/actions/runs/41/attempts/2",
            JobReference(run_id=41, repository="acme/api", host="github.com"),
        ),
        (
            "https://api.github.com/repos/acme/api/actions/runs/41/jobs",
            JobReference(run_id=41, repository="acme/api", host="api.github.com"),
        ),
        ("0", None),
        ("-1", None),
        ("9" * 19, None),
        ("https://github.com/acme/api", None),
        ("runs/41", None),
    ],
)
def test_a_job_is_named_by_its_id_or_by_a_url(text, reference):
    assert JobReference.parse(text) == reference


async def test_a_runner_of_a_list_a_job_or_a_death_is_known_and_the_nearest_to_another_is_named(known):
    await known.add_runner(online(1, name="linux-8vcpu-2zl2r", first_seen=known.now - 60))
    started = {"runner_id": 2, "runner_name": "linux-2", "started_at": known.now - 800}
    ended = job(known, 5, "over", 900.0, ended_at=known.now - 60, conclusion="success", **started)
    await Demand(known.redis).record(ACME, [ended])
    await Deaths(known.redis).record(ACME, death(runner_name="linux-3", runner_id=3, at=known.now - 660, job=None))
    for name in ("linux-8vcpu-2zl2r", "LINUX-2", "linux-3"):
        assert (await known.json("jobs", "--queued", "--runner", name))["jobs"] == []
    message = one_line(await known.ask("jobs", "--org", "acme", "--runner", "linux-8vcpu-2z12r"), 2)
    assert "did you mean linux-8vcpu-2zl2r? see `ghapp runners --org acme`" in message


CONFIGURED = '[[pools]]\norg = "acme"\nname = "linux"\nlabels = ["linux-4vcpu"]\nreplacer = "none"\n'


@pytest.mark.parametrize(
    ("since", "first", "text", "step"),
    [
        (5.0, "its cause is being looked for", "whether its runner died is known by ", False),
        (300.0, "its runner did not die", "its runner exited normally", True),
    ],
    ids=["at once", "later"],
)
async def test_why_of_a_job_that_ended_badly_says_whether_its_runner_is_the_cause(known, since, first, text, step):
    known.write_config(CONFIGURED)
    started = {"runner_id": 1, "runner_name": "linux-1", "started_at": known.now - 800}
    ended_at = known.now - since
    ended = job(known, 5, "over", 900.0, ended_at=ended_at, conclusion="failure", steps=JobSteps(), **started)
    await Demand(known.redis).record(ACME, [ended])
    clean = {"cause": Cause.CLEAN_EXIT, "exit_code": 0, "signal": None, "reason": "Completed", "job": None}
    await Deaths(known.redis).record(ACME, death(runner_name="linux-1", runner_id=1, at=ended_at + 1, **clean))
    shown = (await known.ask("why", "acme", "5")).stdout
    assert (shown.count(first), shown.count(text)) == (1, 1)
    assert " ".join(shown.split()).startswith(f"acme/api test (5): the job ended: failure; {first} ")
    assert (f"1. see the job's log at GitHub: {PAGE}5" in shown) is step
    (found,) = (await known.json("why", "acme", "5"))["jobs"]
    assert ([each["step"] for each in found["story"]][-1], found["death"]) == ("cause", None)


async def test_the_id_of_a_job_needs_its_organization_where_several_are_known(known):
    await Demand(known.redis).record(ACME, [job(known, 7)])
    assert "acme/api" in (await known.ask("why", "7")).stdout
    await Installations(known.redis).put(Installation(8, "globex", 70))
    assert "the id of a job needs its ORG" in (await known.ask("why", "7")).stderr


async def test_an_id_before_any_organization_is_known_says_that(known):
    await Installations(known.redis).remove(ACME)
    assert NO_ORGANIZATION in one_line(await known.ask("why", "1"), 2)
