"""The record of a job from its deliveries."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from ghapp.github.deliveries import WorkflowJob, decode, encode, parse
from ghapp.workflow_jobs.job import HOSTED_GROUP, was_hosted
from jobs.deliveries.inbox import _job, _sighted, _with_approval
from jobs.history.times import taken_jobs

NOW = datetime(2026, 11, 20, 12, 30, 0, tzinfo=UTC).timestamp()
QUEUED_AT = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC).timestamp()
QUEUED = {
    "id": 42,
    "run_id": 41,
    "run_attempt": 2,
    "workflow_name": "CI",
    "name": "test (3.11)",
    "head_sha": "f" * 40,
    "head_branch": "cache",
    "html_url": "https://github.com/acme/api/actions/runs/41/job/42",
    "status": "queued",
    "conclusion": None,
    "labels": ["self-hosted", "linux-4vcpu"],
    "created_at": "2026-11-20T12:00:00Z",
    "started_at": "2026-11-20T12:00:00Z",
    "completed_at": None,
    "runner_id": None,
    "runner_name": None,
    "runner_group_name": None,
}
TAKEN = {"runner_id": 7, "runner_name": "linux-7", "runner_group_name": "Default", "started_at": "2026-11-20T12:05:00Z"}
COMPLETED = {**TAKEN, "status": "completed", "conclusion": "failure", "completed_at": "2026-11-20T12:10:00Z"}


def recorded(sender=None, **changes):
    payload = {
        "action": "queued",
        "workflow_job": {**QUEUED, **changes},
        "repository": {"full_name": "acme/api", "private": True},
        "sender": sender,
        "installation": {"id": 7},
    }
    delivery = parse("workflow_job", msgspec.json.encode(payload), "application/json")
    return _job(delivery, delivery.workflow_job, NOW)


def test_a_queued_job_has_its_run_its_commit_and_its_page():
    job = recorded()
    assert (job.id, job.run_id, job.attempt, job.workflow, job.name) == (42, 41, 2, "CI", "test (3.11)")
    assert (job.head_sha, job.html_url, job.head_branch) == (QUEUED["head_sha"], QUEUED["html_url"], "cache")
    assert (job.status, job.queued_at, job.started_at, job.ended_at) == ("queued", QUEUED_AT, None, None)
    assert (job.conclusion, job.runner_group, job.private) == ("", "", True)


@pytest.mark.parametrize(("sender", "actor"), [({"login": "lisa", "id": 102}, "lisa"), (None, "")], ids=str)
def test_the_sender_of_a_jobs_delivery_is_who_triggered_its_run(sender, actor):
    assert recorded(sender).actor == actor


def test_a_job_that_ended_has_its_conclusion_its_end_and_its_runners_group():
    job = recorded(**COMPLETED)
    assert (job.status, job.conclusion, job.runner_group) == ("over", "failure", "Default")
    assert (job.started_at, job.ended_at) == (QUEUED_AT + 300, QUEUED_AT + 600)


@pytest.mark.parametrize("field", ["started_at", "completed_at"])
def test_a_date_in_the_future_is_no_date(field):
    job = recorded(**{**COMPLETED, field: "2099-01-01T00:00:00Z"})
    assert (job.started_at if field == "started_at" else job.ended_at) == NOW


def test_a_job_that_is_dated_in_the_future_does_not_vouch_for_its_runner_until_then():
    taken = WorkflowJob(42, "in_progress", runner_id=7, started_at=datetime(2099, 1, 1, tzinfo=UTC))
    evidence = _sighted(None, taken, NOW)
    assert (evidence.job_started_at, evidence.last_delivery_at) == (NOW, NOW)


def test_an_end_without_a_time_is_dated_by_its_arrival():
    assert recorded(**{**COMPLETED, "completed_at": None}).ended_at == NOW


@pytest.mark.parametrize(("status", "ended_at"), [("in_progress", None), ("completed", QUEUED_AT + 600)])
def test_a_hosted_job_is_completed_once_it_starts(status, ended_at):
    end = {"completed_at": "2026-11-20T12:10:00Z"} if status == "completed" else {}
    job = recorded(**{**TAKEN, "status": status, "runner_group_name": HOSTED_GROUP, **end})
    assert (job.status, job.ended_at, was_hosted(job)) == ("over", ended_at, True)


def test_fields_that_github_omits_are_unknown():
    omitted = ("run_id", "run_attempt", "workflow_name", "name", "head_sha", "head_branch", "html_url")
    job = recorded(**dict.fromkeys(omitted))
    assert (job.run_id, job.attempt) == (None, 1)
    assert (job.workflow, job.name, job.head_sha, job.head_branch, job.html_url) == ("", "", "", "", "")


def test_0_and_an_empty_name_are_no_runner():
    """GitHub reports so a job that was cancelled before a runner took it."""
    job = recorded(
        **{**COMPLETED, "conclusion": "cancelled", "runner_id": 0, "runner_name": "", "runner_group_name": ""}
    )
    assert (job.runner_id, job.runner_name, job.started_at) == (None, None, None)
    assert taken_jobs([job]) == []


@pytest.mark.parametrize(
    ("approvals", "queued_at", "deploys"),
    [({}, QUEUED_AT, False), ({42: None}, QUEUED_AT, True), ({42: QUEUED_AT + 90_000}, QUEUED_AT + 90_000, True)],
    ids=["needs none", "waits for it", "approved a day later"],
)
def test_a_job_waits_for_a_runner_from_its_approval_on(approvals, queued_at, deploys):
    job = _with_approval(recorded(), approvals)
    assert (job.queued_at, job.deploys) == (queued_at, deploys)


@pytest.mark.parametrize(("deployment", "deploys"), [({"id": 7}, True), (None, False), ("odd", True)])
def test_a_delivery_with_a_deployment_is_of_a_job_that_deploys(deployment, deploys):
    payload = {"action": "queued", "workflow_job": QUEUED, "installation": {"id": 7}, "deployment": deployment}
    delivery = decode(encode(parse("workflow_job", msgspec.json.encode(payload), "application/json")))
    assert delivery.workflow_job.deploys is deploys
    assert delivery.deployment is msgspec.UNSET


@pytest.mark.parametrize("status", ["waiting", "pending", "requested", "a status of next year", ""])
def test_a_job_that_github_offers_to_no_runner_yet_is_queued_and_waiting(status):
    job = recorded(status=status)
    assert (job.status, job.waiting, job.started_at) == ("queued", True, None)
