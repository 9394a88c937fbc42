"""Jobs that lost their runner, found without a cluster: a table row for each kind of evidence."""

from __future__ import annotations

import pytest

from ghapp.deaths.cause import Cause, OwnReason
from ghapp.deaths.death import Sighting
from ghapp.deaths.github_words import JobWords
from ghapp.deaths.job_death import (
    EXAMINATION_SECONDS,
    EXAMINED_AFTER_SECONDS,
    RunnerAfter,
    completed_by_log,
    completed_by_pod,
    death_of_job,
    is_job_death_of,
    is_same_end,
    is_suspicious,
    job_death,
    last_minutes,
    needs_words,
    runner_after,
)
from ghapp.deaths.post_mortem import APART_SECONDS
from ghapp.pods.pod import Pod
from ghapp.runners.evidence import Evidence, Survey
from ghapp.workflow_jobs.job import HOSTED_GROUP, Job
from ghapp.workflow_jobs.job_steps import JobSteps, StepState, job_steps
from tests.rules.installations.test_pool_matching import Rule

BEGAN, ENDED = 1_000.0, 2_000.0
OPEN, FAILED, ENDED_WELL = JobSteps(left_open=True), JobSteps(failed=True), JobSteps()
LOST, STOPPED, KILLED = JobWords(lost=True), JobWords(shutdown=True), JobWords(killed=True)


def job(**changes):
    """A failed job all of whose steps ended without a failure."""
    worst = Job(
        7, "over", ("vm",), "acme/api", 900.0, runner_id=3, runner_name="vm-1", started_at=BEGAN, name="test",
        head_sha="a" * 40, html_url="https://github.com/acme/api/actions/runs/1/job/7", conclusion="failure",
        ended_at=ENDED, steps=ENDED_WELL,
    )  # fmt: skip
    return worst._replace(**changes)


def runner(**changes):
    """A runner that was online all the time."""
    return Evidence(3, "vm-1", 0.0, registered=True, listed=True, observed_at=1_990.0, online=True)._replace(**changes)


class TestSteps:
    @pytest.mark.parametrize(
        ("steps", "facts"),
        [
            ([], (False, False, True)),
            ([StepState(1, "completed", "success", True)], (False, False, False)),
            ([StepState(1, "in_progress", None, True)], (False, True, False)),
            ([StepState(1, "completed", "success"), StepState(2, "in_progress")], (False, True, True)),
            ([StepState(1, "completed", "success"), StepState(2, "queued")], (False, False, False)),
            ([StepState(1, "completed", "success"), StepState(2, "completed", "skipped", True)], (False, False, False)),
            ([StepState(1, "completed", "success"), StepState(2, "completed", "cancelled")], (False, False, True)),
            ([StepState(1, "completed", "success"), StepState(2, "completed", "failure", True)], (True, False, True)),
            ([StepState(2, "completed", "timed_out", True)], (True, False, True)),
            ([StepState(1, "completed", "success", True, "Set up job"), StepState(2, "completed", "success", True, "Initialize containers")], (False, False, False)),
            ([StepState(2, "in_progress", None, True, "Set up runner"), StepState(1, "completed", "success", True, "Set up job")], (False, True, False)),
            ([StepState(1, "completed", "success", True, "Set up job"), StepState(2, "completed", "success", True, "Build"), StepState(3, "queued", None, False, "Set up runner")], (False, False, True)),
            ([StepState(1, "completed", "success", True, "Build")], (False, False, True)),
            ([StepState(1, "completed", "success", True, "Set up job"), StepState(2, "completed", "success", True, "Set up runner"), StepState(3, "in_progress", None, True, "Set up runner")], (False, True, True)),
            ([StepState(1, "completed", "success", True, "Set up job"), StepState(2, "completed", "success", True, "Initialize containers"), StepState(3, "in_progress", None, True, "Set up runner")], (False, True, True)),
        ],
    )  # fmt: skip
    def test_steps_are_reduced_to_three_facts(self, steps, facts):
        assert job_steps(steps)[:3] == facts

    @pytest.mark.parametrize(
        ("steps", "name"),
        [
            ([(2, "failure", "Build"), (1, "failure", "Lint")], "Lint"),
            ([(1, "success", "Lint"), (2, "timed_out", "Build")], "Build"),
            ([(1, "failure", "")], ""),
            ([(1, "success", "Lint")], ""),
            ([(1, "failure", "a" * 61)], "a" * 59 + "…"),
        ],
        ids=["the first one", "it timed out", "without a name", "none failed", "a long name"],
    )
    def test_the_first_step_that_failed_is_named(self, steps, name):
        states = [StepState(number, "completed", conclusion, True, text) for number, conclusion, text in steps]
        assert job_steps(states).failed_step == name

    def test_failed_steps_are_counted(self):
        conclusions = ("success", "failure", "skipped", "timed_out")
        assert job_steps([StepState(each, "completed", end) for each, end in enumerate(conclusions)]).failures == 2
        assert [each.failures for each in (FAILED, ENDED_WELL)] == [1, 0], "a record without their number"


class TestLookUp:
    @pytest.mark.parametrize(
        ("changes", "is_looked_up"),
        [
            ({}, True),
            ({"conclusion": "cancelled"}, True),
            ({"conclusion": "timed_out"}, True),
            ({"steps": OPEN}, True),
            ({"steps": JobSteps(failed=True, left_open=True)}, True),
            ({"steps": FAILED}, False),
            ({"steps": None}, False),
            ({"conclusion": "success"}, False),
            ({"conclusion": "skipped"}, False),
            ({"status": "running"}, False),
            ({"runner_id": None}, False),
            ({"started_at": None}, False),
            ({"ended_at": None}, False),
            ({"runner_group": HOSTED_GROUP}, False),
        ],
    )  # fmt: skip
    def test_a_failed_job_without_a_failed_step_is_looked_up(self, changes, is_looked_up):
        assert is_suspicious(job(**changes), runner()) is is_looked_up

    def test_a_failed_step_is_looked_up_if_the_runner_was_lost_meanwhile(self):
        assert is_suspicious(job(steps=FAILED), runner(first_404_at=1_500.0))


class TestCauses:
    @pytest.mark.parametrize(
        ("evidence", "found"),
        [
            ({"first_404_at": 999.9}, None),
            ({"first_404_at": BEGAN}, (Cause.DELETED_REGISTRATION, OwnReason.REGISTRATION_LOST, BEGAN)),
            ({"absent_since": 1_400.0, "first_404_at": 1_500.0}, (Cause.DELETED_REGISTRATION, OwnReason.REGISTRATION_LOST, 1_400.0)),
            ({"first_404_at": 1_939.9}, (Cause.DELETED_REGISTRATION, OwnReason.REGISTRATION_LOST, 1_939.9)),
            ({"first_404_at": 1_940.0}, None),
            ({"absent_since": 1_400.0}, None),
            ({"online": False, "offline_since": BEGAN}, (Cause.LOST_COMMUNICATION, OwnReason.WENT_OFFLINE, BEGAN)),
            ({"online": False, "offline_since": 999.9}, None),
            ({"online": False, "offline_since": 1_939.9}, (Cause.LOST_COMMUNICATION, OwnReason.WENT_OFFLINE, 1_939.9)),
            ({"online": False, "offline_since": 1_940.0}, None),
            ({"retired_at": 1_939.9}, (Cause.TERMINATED, OwnReason.REMOVED, 1_939.9)),
            ({"retired_at": 1_940.0}, None),
            ({"first_404_at": 1_500.0, "id": 4}, None),
            ({"removed_at": 1_400.0, "first_404_at": 1_500.0}, None),
            ({"removed_at": 1_600.0, "first_404_at": 1_500.0}, (Cause.DELETED_REGISTRATION, OwnReason.REGISTRATION_LOST, 1_500.0)),
            ({}, None),
        ],
    )  # fmt: skip
    def test_sweeps_and_deliveries_show_the_cause(self, evidence, found):
        assert job_death(job(), runner(**evidence), JobWords()) == found

    @pytest.mark.parametrize(
        ("changes", "words", "found"),
        [
            ({}, LOST, (Cause.LOST_COMMUNICATION, OwnReason.LOST_COMMUNICATION)),
            ({}, STOPPED, (Cause.TERMINATED, OwnReason.SHUTDOWN_SIGNAL)),
            ({"conclusion": "cancelled"}, STOPPED, (Cause.TERMINATED, OwnReason.SHUTDOWN_SIGNAL)),
            ({"conclusion": "cancelled"}, JobWords(), None),
            ({"conclusion": "cancelled", "steps": OPEN}, JobWords(), None),
            ({"steps": OPEN}, JobWords(), (Cause.LOST_COMMUNICATION, OwnReason.STEP_LEFT_OPEN)),
            ({}, JobWords(), None),
            ({"steps": FAILED}, KILLED, None),
            ({"steps": FAILED}, LOST, None),
            ({"steps": FAILED}, JobWords(shutdown=True, killed=True), (Cause.TERMINATED, OwnReason.SHUTDOWN_SIGNAL)),
            ({"steps": JobSteps(failed=True, left_open=True)}, KILLED, None),
            ({"steps": FAILED._replace(failed_steps=2)}, JobWords(shutdown=True, killed=1), None),
            ({"steps": FAILED._replace(failed_steps=2)}, JobWords(shutdown=True, killed=2), (Cause.TERMINATED, OwnReason.SHUTDOWN_SIGNAL)),
        ],
    )  # fmt: skip
    def test_the_report_of_github_shows_the_cause(self, changes, words, found):
        for evidence in (runner(), None):
            death = job_death(job(**changes), evidence, words)
            assert (death and death[:2]) == found

    def test_a_failed_step_with_code_143_counts_if_the_runner_was_lost_meanwhile(self):
        found = job_death(job(steps=FAILED), runner(first_404_at=1_500.0), KILLED)
        assert found == (Cause.DELETED_REGISTRATION, OwnReason.REGISTRATION_LOST, 1_500.0)
        assert job_death(job(steps=FAILED), runner(first_404_at=1_500.0), JobWords()) is None

    def test_a_shutdown_signal_explains_more_than_that_the_runner_went_offline(self):
        offline = runner(online=False, offline_since=1_500.0)
        assert job_death(job(), offline, STOPPED)[:2] == (Cause.TERMINATED, OwnReason.SHUTDOWN_SIGNAL)

    def test_ghapps_own_replacement_is_no_death_whatever_github_reports(self):
        assert job_death(job(steps=OPEN), runner(removed_at=1_999.9), LOST) is None
        assert job_death(job(steps=OPEN), runner(removed_at=ENDED), LOST) is not None

    def test_github_is_queried_only_if_the_evidence_does_not_decide(self):
        assert needs_words(job(), runner())
        assert needs_words(job(steps=OPEN), runner())
        assert needs_words(job(steps=FAILED), runner(first_404_at=1_500.0))
        assert not needs_words(job(), runner(first_404_at=1_500.0))


class TestTheRecord:
    def test_a_death_is_identified_by_its_job(self):
        evidence = runner(online=False, offline_since=1_500.0)
        found = death_of_job(job(), evidence, job_death(job(), evidence, JobWords()), "vm")
        assert (found.id, found.at, found.runner_name, found.runner_id, found.pool) == (
            "job 7",
            1_500.0,
            "vm-1",
            3,
            "vm",
        )
        assert (found.cause, found.reason) == (Cause.LOST_COMMUNICATION, "OfflineDuringJob")
        assert (found.job.id, found.job.conclusion, found.exit_code, found.pod) == (7, "failure", None, "")
        assert found.last_minutes == (
            Sighting(BEGAN, "job-started"),
            Sighting(1_500.0, "offline"),
            Sighting(ENDED, "job-ended"),
        )

    def test_the_last_minutes_are_those_of_the_job(self):
        seen = last_minutes(job(), runner(observed_at=2_000.1, first_404_at=1_200.0, absent_since=1_100.0))
        assert [each.what for each in seen] == ["job-started", "registration-missing", "job-ended"]
        assert seen[1].at == 1_100.0

    @pytest.mark.parametrize(
        ("at", "is_same"), [(BEGAN - 1, False), (BEGAN - 0.9, True), (2_060.0, True), (2_060.1, False)]
    )
    def test_a_pods_death_without_a_job_is_the_same_if_it_was_during_the_job(self, at, is_same):
        known = death_of_job(job(), None, job_death(job(steps=OPEN), None, LOST), "vm")
        assert is_same_end(known._replace(job=None, at=at), job()) is is_same
        assert is_same_end(known, job())
        assert not is_same_end(known, job(id=8))

    def test_the_end_of_the_pod_completes_a_death_that_was_found_by_its_job(self):
        known = death_of_job(job(), None, job_death(job(steps=OPEN), None, LOST), "vm")
        pod = Pod("runners", "vm-1", "uid-1", "41", BEGAN)
        ended = known._replace(id="", pod="vm-1", pod_uid="uid-1", node="n", exit_code=137, cause=Cause.HOST_OOM)
        assert is_job_death_of(known, pod, ended)
        merged = completed_by_pod(known, ended)
        assert (merged.id, merged.job, merged.pod_uid, merged.cause) == ("job 7", known.job, "uid-1", Cause.HOST_OOM)
        assert is_job_death_of(merged, pod, ended)
        assert not is_job_death_of(merged, pod._replace(uid="uid-2"), ended)
        assert not is_job_death_of(known, pod._replace(created_at=2_060.1), ended)
        assert not is_job_death_of(ended, pod, ended)

    @pytest.mark.parametrize(
        ("known_cause", "known_reason", "id_", "shown", "cause"),
        [
            pytest.param(Cause.CLEAN_EXIT, OwnReason.SILENT, "", Cause.CRASH, Cause.CRASH, id="of a pod"),
            pytest.param(Cause.CRASH, "Error", "", Cause.CLEAN_EXIT, Cause.CLEAN_EXIT, id="of a pod, to a clean exit"),
            pytest.param(
                Cause.LOST_COMMUNICATION, OwnReason.LOST_COMMUNICATION, "", Cause.CLEAN_EXIT, Cause.LOST_COMMUNICATION,
                id="completed by the job that it left",
            ),
            pytest.param(
                Cause.LOST_COMMUNICATION, OwnReason.STEP_LEFT_OPEN, "job 7", Cause.CLEAN_EXIT, Cause.LOST_COMMUNICATION,
                id="found by its job",
            ),
            pytest.param(
                Cause.LOST_COMMUNICATION, OwnReason.STEP_LEFT_OPEN, "job 7", Cause.CRASH, Cause.CRASH,
                id="found by its job, and the log knows more",
            ),
        ],
    )  # fmt: skip
    def test_a_log_that_comes_later_completes_the_cause(self, known_cause, known_reason, id_, shown, cause):
        base = death_of_job(job(), None, job_death(job(steps=OPEN), None, LOST), "vm")
        base = base._replace(pod="vm-1", pod_uid="uid-1", exit_code=0)
        known = base._replace(id=id_, cause=known_cause, reason=known_reason, advice="before")
        death = base._replace(id="", job=None, cause=shown, reason="later", advice="later", runner_log=("bye",))
        merged = completed_by_log(known, death)
        assert (merged.cause, merged.runner_log, merged.id, merged.job) == (cause, ("bye",), id_, known.job)
        assert merged.advice == ("later" if cause is shown else "before")

    def test_a_clean_exit_of_the_pod_does_not_change_the_cause(self):
        known = death_of_job(job(), None, job_death(job(steps=OPEN), None, LOST), "vm")
        merged = completed_by_pod(known, known._replace(id="", exit_code=0, cause=Cause.CLEAN_EXIT, pod_uid="uid-1"))
        assert (merged.cause, merged.exit_code, merged.pod_uid) == (Cause.LOST_COMMUNICATION, 0, "uid-1")


UNTIL = ENDED + EXAMINED_AFTER_SECONDS + EXAMINATION_SECONDS
POOLS = (Rule("vm", ("vm",)),)


@pytest.mark.parametrize(
    ("known_job", "evidence", "swept_at", "expected"),
    [
        (job(), runner(), ENDED, RunnerAfter(True, UNTIL)),
        (job(), runner(), ENDED + APART_SECONDS, RunnerAfter(True, UNTIL, is_online=True)),
        (job(), runner(), ENDED + APART_SECONDS - 0.001, RunnerAfter(True, UNTIL)),
        (job(), runner(online=False, offline_since=ENDED), ENDED + APART_SECONDS, RunnerAfter(True, UNTIL)),
        (job(), runner(listed=False), ENDED + APART_SECONDS, RunnerAfter(True, UNTIL)),
        (job(), runner(id=4), ENDED + APART_SECONDS, RunnerAfter(True, UNTIL)),
        (job(), runner(job_id=8, job_started_at=ENDED), ENDED, RunnerAfter(True, UNTIL, is_online=True)),
        (job(), runner(job_id=8, job_started_at=ENDED - 1), ENDED, RunnerAfter(True, UNTIL)),
        (job(), None, ENDED, RunnerAfter(True, UNTIL)),
        (job(steps=FAILED), runner(), ENDED, RunnerAfter(True, a_step_failed=True)),
        (job(steps=None), runner(), ENDED, RunnerAfter(True)),
        (job(labels=("other",)), None, ENDED, RunnerAfter(False)),
        (job(conclusion="success"), runner(), ENDED, None),
        (job(runner_group=HOSTED_GROUP), None, ENDED, None),
        (job(status="running", conclusion="", ended_at=None), runner(), ENDED, None),
        (job(runner_id=None, started_at=None, conclusion="cancelled"), None, ENDED, None),
    ],
    ids=[
        *("listed at its end", "listed a minute later", "just before that", "offline", "not listed", "another runner"),
        *(
            "another job later",
            "another job earlier",
            "unknown runner",
            "a step failed",
            "unknown steps",
            "not configured",
            "succeeded",
        ),
        *("hosted by GitHub", "runs", "no runner took it"),
    ],
)
def test_what_is_known_of_a_runner_after_its_job_ended_badly(known_job, evidence, swept_at, expected):
    assert runner_after(known_job, evidence, Survey(swept_at), POOLS, exited=False) == expected


def test_a_runner_that_exited_as_it_should_is_known_to_have():
    assert runner_after(job(), None, Survey(), POOLS, exited=True) == RunnerAfter(True, UNTIL, exited=True)
