"""The job named by ARC's object, with its data at GitHub."""

import pytest

from ghapp.installations.installation import Installation
from ghapp.pods.assigned_job import JobOfRun, job_observed, job_of_runner, run_of
from ghapp.remediation.decision import deliveries_flow
from ghapp.runners.observations import job_ended, job_found_over
from ghapp.workflow_jobs.job import Job
from tests.rules.builders import NOW, lost
from tests.rules.pods.builders import runner_object

ACME = Installation(7, "acme", 1)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"workflow_run_id": 99, "repository": "acme/api"}, ("acme/api", 99)),
        ({"workflow_run_id": 99, "repository": "Acme/.github"}, ("acme/.github", 99)),
        ({"repository": "acme/api"}, None),
        ({"workflow_run_id": 99}, None),
        ({"workflow_run_id": 99, "repository": "umbrella/api"}, None),
        ({"workflow_run_id": 99, "repository": "acme/.."}, None),
        ({"workflow_run_id": 99, "repository": "acme/../orgs"}, None),
        ({"workflow_run_id": 99, "repository": "acme/a?b"}, None),
    ],
)
def test_a_workflow_run_is_queried_only_in_the_orgs_own_repositories(found, expected):
    assert run_of(runner_object(**found), ACME) == expected


def job(job_id, status="over", name="linux-1", runner_id=1, ended=NOW - 60):
    known = Job(job_id, status, (), "acme/api", NOW - 900, runner_id, name, NOW - 600)
    return JobOfRun(known, ended if status == "over" else None)


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ([], None),
        ([job(1, name="linux-2")], None),
        ([job(1, runner_id=2)], None),
        ([job(1, name=None, runner_id=None, status="queued")], None),
        ([job(1), job(2, ended=NOW - 30), job(3, name="linux-2")], 2),
        ([job(1, status="running"), job(2, ended=NOW)], 1),
        ([job(1, runner_id=None)], 1),
    ],
    ids=[
        "no job",
        "another runner's job",
        "a job of another runner of the same name",
        "a queued job",
        "the job that ended last",
        "a running job",
        "without a runner id",
    ],
)
def test_the_job_of_the_runner_is_found_in_its_run(jobs, expected):
    found = job_of_runner(jobs, lost())
    assert (found and found.job.id) == expected


def test_a_finished_job_is_recorded_with_its_start_and_its_end():
    evidence = job_observed(lost(busy=True), job(5), NOW)
    assert (evidence.job_id, evidence.job_started_at, evidence.job_ended_at) == (5, NOW - 600, NOW - 60)
    assert evidence.running_job is None


@pytest.mark.parametrize("status", ["running", "over"])
def test_what_github_answers_about_a_job_does_not_show_that_deliveries_arrive(status):
    evidence = job_observed(lost(busy=True), job(5, status=status), NOW)
    assert not deliveries_flow([evidence], NOW)
    assert not deliveries_flow([job_found_over(evidence, 5, NOW, NOW - 1)], NOW)
    assert deliveries_flow([job_ended(evidence, 5, NOW), job_ended(lost(), 6, NOW)], NOW)


def test_a_running_job_clears_the_confirmation_and_the_grant():
    evidence = job_observed(lost(busy=True, granted_at=NOW, event_id="e"), job(5, status="running"), NOW)
    assert (evidence.running_job, evidence.confirmed_at, evidence.granted_at) == (5, None, None)


def test_a_time_from_github_is_never_in_the_future():
    evidence = job_observed(lost(), job(5, ended=NOW + 900), NOW)
    assert evidence.job_ended_at == NOW
