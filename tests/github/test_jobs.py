"""A workflow job on GitHub: what became of it, and what was noted beside it."""

from __future__ import annotations

import msgspec
import pytest

from ghapp.deaths.github_words import JobAnnotation
from ghapp.deaths.post_mortem import JobFacts
from ghapp.deaths.texts import NAME
from ghapp.errors import GitHubUnavailableError, NotFoundError
from ghapp.github.checks import Checks, external_id
from ghapp.github.jobs import Jobs
from ghapp.github.response import GitHubResponse
from ghapp.report.check_run import Conclusion, Report
from ghapp.workflow_jobs.job import Job
from tests.github.one_answer import OneAnswer

HERE = "acme/api"
REPORT = Report("title", "summary", "text", Conclusion.NEUTRAL, ())


def document(**changes):
    """A job that lost its runner: the step that it was at never ended."""
    worst = {
        "id": 42,
        "name": "test",
        "head_sha": "a" * 40,
        "status": "completed",
        "conclusion": "failure",
        "html_url": "https://github.com/acme/api/actions/runs/1/job/42",
        "completed_at": "2026-11-20T12:00:03Z",
        "steps": [step("success"), step(None, "Set up runner")],
    }
    return worst | changes


def step(conclusion, name="Set up job"):
    return {
        "name": name,
        "status": "completed" if conclusion else "in_progress",
        "conclusion": conclusion,
        "number": 1,
    }


async def facts(body):
    return await Jobs(OneAnswer(200, body), HERE).facts(42)


async def test_a_job_s_facts_are_asked_for_once():
    installation_client = OneAnswer(200, document())
    assert await Jobs(installation_client, HERE).facts(42) == JobFacts(
        id=42,
        name="test",
        head_sha="a" * 40,
        html_url="https://github.com/acme/api/actions/runs/1/job/42",
        over=True,
        conclusion="failure",
        completed_at=1_795_176_003.0,
        step_failed=False,
        begun=False,
    )
    assert installation_client.sent == [("GET", "/repos/acme/api/actions/jobs/42", {})]


@pytest.mark.parametrize("status", ["queued", "in_progress", "waiting", "requested", "pending"])
async def test_a_job_that_is_not_over_has_no_conclusion_whatever_is_reported(status):
    found = await facts(document(status=status, conclusion="failure", completed_at=None, html_url=None))
    assert (found.over, found.conclusion, found.completed_at, found.html_url) == (False, "", None, "")


@pytest.mark.parametrize(
    ("conclusion", "failed"),
    [("failure", True), ("timed_out", True), ("cancelled", False), ("skipped", False), ("success", False)],
)
async def test_a_step_failed_when_it_came_to_a_bad_end_of_its_own(conclusion, failed):
    assert (await facts(document(steps=[step("success"), step(conclusion)]))).step_failed is failed


async def test_steps_that_cannot_be_read_are_no_answer_because_one_of_them_may_have_failed():
    with pytest.raises(GitHubUnavailableError):
        await facts(document(steps=[step("success"), None]))


async def test_a_job_may_have_no_steps():
    body = document()
    del body["steps"]
    assert (await facts(body)).step_failed is False


async def test_what_was_noted_beside_a_job_is_under_its_own_id():
    lost = {"message": "lost", "annotation_level": "failure", "path": ".github", "title": ""}
    installation_client = OneAnswer(200, [lost, dict.fromkeys(lost), {}])
    nothing = JobAnnotation("", "", "", "")
    found = await Jobs(installation_client, HERE).annotations(42)
    assert found == (JobAnnotation("lost", "failure", ".github", ""), nothing, nothing)
    assert installation_client.sent == [("GET", "/repos/acme/api/check-runs/42/annotations", {"per_page": 100})]


@pytest.mark.parametrize("ask", [lambda jobs: jobs.facts(42), lambda jobs: jobs.annotations(42)])
@pytest.mark.parametrize(("status", "error"), [(404, NotFoundError), (200, GitHubUnavailableError)])
async def test_a_job_that_is_not_there_and_an_answer_that_is_none_are_errors(ask, status, error):
    with pytest.raises(error):
        await ask(Jobs(OneAnswer(status, {"message": "hello"}), HERE))


async def test_a_post_mortem_is_found_among_others_of_its_name_on_one_commit():
    runs = [{"id": 9, "external_id": "ghapp-7-other"}, {"id": 8, "external_id": "ghapp-7-death"}, {"id": 7}]
    installation_client = OneAnswer(200, {"check_runs": runs})
    assert external_id(7, "death") == "ghapp-7-death"
    assert await Checks(installation_client, HERE, name=NAME, subject="death").find("abc") == 8
    expected = {"check_name": "Runner post-mortem", "filter": "all", "per_page": 100}
    assert installation_client.sent == [("GET", "/repos/acme/api/commits/abc/check-runs", expected)]


async def test_a_post_mortem_is_posted_under_its_own_name():
    installation_client = OneAnswer(201, {"id": 8})
    assert await Checks(installation_client, HERE, name=NAME, subject="death").create("abc", REPORT) == 8
    (sent,) = installation_client.bodies
    assert (sent["name"], sent["external_id"], sent["head_sha"]) == ("Runner post-mortem", "ghapp-7-death", "abc")
    assert (sent["conclusion"], "details_url" in sent) == ("neutral", False)


@pytest.mark.parametrize(
    ("status", "body", "private"),
    [
        (200, {"default_branch": "main", "private": True}, True),
        (200, {"default_branch": "main", "private": False}, False),
        (200, {"default_branch": "main"}, False),
        (404, {"message": "Not Found"}, None),
    ],
)
async def test_a_repository_that_is_not_known_to_be_private_is_public(status, body, private):
    assert await Checks(OneAnswer(status, body), HERE).is_private() is private


class Pages(OneAnswer):
    """A tenant whose GitHub has these jobs of a run, a hundred on each page."""

    def __init__(self, jobs, total=None):
        super().__init__(200, {})
        self.jobs, self.total = jobs, len(jobs) if total is None else total

    async def send(self, method, path, *, headers=None, json=None, **params):
        await super().send(method, path, headers=headers, json=json, **params)
        first = (params["page"] - 1) * params["per_page"]
        page = self.jobs[first : first + params["per_page"]]
        return GitHubResponse(200, {}, msgspec.json.encode({"total_count": self.total, "jobs": page}))


def job_of_run(number, **changes):
    result = {"id": number, "labels": ["linux"], "runner_id": 3, "runner_name": "linux-3", "status": "in_progress"}
    return result | {"created_at": "2026-11-20T12:00:00Z", "started_at": "2026-11-20T12:00:03Z"} | changes


async def test_all_jobs_of_a_run_are_read_of_every_attempt():
    installation_client = Pages([job_of_run(number) for number in range(1, 251)])
    found = await Jobs(installation_client, HERE).of_run(9)
    assert [each.job.id for each in found] == list(range(1, 251))
    path = "/repos/acme/api/actions/runs/9/jobs"
    query = {"filter": "all", "per_page": 100}
    assert installation_client.sent == [("GET", path, {**query, "page": page}) for page in (1, 2, 3)]


async def test_a_job_of_a_run_says_who_took_it_when_and_until_when():
    ended = job_of_run(2, status="completed", completed_at="2026-11-20T12:01:00Z")
    waits = job_of_run(3, status="queued", runner_id=None, runner_name=None)
    running, over, queued = await Jobs(Pages([job_of_run(1), ended, waits]), HERE).of_run(9)
    at = 1_795_176_000.0
    assert running == (Job(1, "running", ("linux",), HERE, at, 3, "linux-3", at + 3), None)
    assert (over.job.status, over.completed_at) == ("over", at + 60)
    assert (queued.job.status, queued.job.runner_name) == ("queued", None)


async def test_a_job_that_was_cancelled_before_a_runner_took_it_has_neither_runner_nor_start():
    cancelled = job_of_run(1, status="completed", conclusion="cancelled", runner_id=0, runner_name="")
    ((job, _),) = await Jobs(Pages([cancelled]), HERE).of_run(9)
    assert (job.runner_id, job.runner_name, job.started_at) == (None, None, None)


@pytest.mark.parametrize("jobs", [[], [job_of_run(1)]], ids=["none", "too few"])
async def test_a_list_that_is_not_complete_proves_nothing(jobs):
    with pytest.raises(GitHubUnavailableError):
        await Jobs(Pages(jobs, total=2), HERE).of_run(9)


def run(run_id, started_at="2026-11-20T12:00:00Z", status="completed", workflow=5):
    """A run of the workflow 5 on the branch main."""
    common = {"run_attempt": 1, "event": "push", "head_branch": "main", "conclusion": "failure"}
    return common | {"id": run_id, "status": status, "workflow_id": workflow, "run_started_at": started_at}


LATER = "2026-11-20T12:00:01Z"


async def run_facts_among(runs):
    """The facts of run 10, where GitHub lists these runs."""
    listed = {"total_count": 9, "workflow_runs": runs[:100]}

    class Answers(OneAnswer):
        async def send(self, method, path, **query):
            return await OneAnswer(200, run(10) if path.endswith("/10") else listed).send(method, path, **query)

    return await Jobs(Answers(200, {}), HERE).run_facts(10)


@pytest.mark.parametrize(
    ("others", "goes_on"),
    [
        ([], False),
        ([run(11, LATER, "in_progress")], True),
        ([run(11, None, "queued")], True),
        ([run(11, LATER)], False),
        ([run(11, LATER, "in_progress", workflow=6)], False),
        ([run(9, status="in_progress")], False),
        ([run(9, LATER, "in_progress")], True),
        ([run(9, LATER)], False),
        ([run(9, None, "in_progress")], False),
        ([run(9, LATER, "waiting", workflow=6)], False),
        ([run(11 + each) for each in range(100)], True),
    ],
    ids=[
        "no other",
        "a newer one",
        "a newer one that has not begun",
        "a newer one is over",
        "of another workflow",
        "an older one that goes on since before",
        "an older one that was run again",
        "an older one whose re-run is over",
        "an older one without a date",
        "a re-run of another workflow",
        "a page without this run",
    ],
)
async def test_a_newer_run_goes_on_if_it_would_meet_a_re_run_in_a_concurrency_group(others, goes_on):
    found = await run_facts_among([*others, run(10)])
    assert (found.attempt, found.over, found.newer_goes_on) == (1, True, goes_on)


@pytest.mark.parametrize("others", [[], [run(9)], [run(11)]], ids=["an empty list", "an older one", "a newer one"])
async def test_a_list_of_runs_without_the_run_itself_leaves_open_whether_a_newer_one_goes_on(others):
    assert (await run_facts_among(others)).newer_goes_on
