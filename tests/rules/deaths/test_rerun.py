"""When a job whose runner died is re-run, and when not: a table row for each reason."""

from __future__ import annotations

import pytest

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import DeadJob
from ghapp.deaths.github_words import JobWords
from ghapp.deaths.post_mortem import JobFacts
from ghapp.deaths.rerun import (
    AUTO,
    DEFERRED,
    GIVEN_BACK_SECONDS,
    NO_ACCESS,
    SETTLING_SECONDS,
    TRIES_AFTER_SECONDS,
    Rerun,
    RerunFacts,
    RerunNote,
    RerunRefusal,
    RerunRules,
    RerunState,
    RunFacts,
    as_requested,
    is_not_granted,
    latest_attempt,
    may_be_repeated,
    next_try_after,
    refusal,
    settled,
)
from ghapp.workflow_jobs.job import Job
from tests.rules.builders import MICROSECOND, NOW
from tests.rules.deaths.test_post_mortem import death

JOB = JobFacts(7, "test", "a" * 40, over=True, conclusion="failure", run_id=1, attempt=1, begun=False)
RUN = RunFacts(1, over=True, conclusion="failure", event="push", branch="main", workflow_id=5)
DEAD = death(cause=Cause.VANISHED, reason="NodeLost", job=DeadJob(7, "acme/api"))
BEGUN, CANCELLED, SECOND = JOB._replace(begun=True), JOB._replace(conclusion="cancelled"), JOB._replace(attempt=2)
FAILED_STEP, CANCELLED_RUN = JOB._replace(step_failed=True), RUN._replace(conclusion="cancelled")
DELETED = DEAD._replace(reason="Deleted")
AUTOMATIC = RerunRules(mode="auto")
BOTH, UNASKED = ("mona", AUTO), (AUTO,)


def facts(by=AUTO, **changes):
    """Facts that do not prevent a re-run."""
    best = RerunFacts(by, DEAD, JOB, AUTOMATIC, granted=True, fuse_closed=True, run=RUN)
    return best._replace(**changes)


def terminated(reason):
    return DEAD._replace(cause=Cause.TERMINATED, reason=reason)


@pytest.mark.parametrize("by", BOTH)
def test_a_first_attempt_that_had_not_begun_is_re_run(by):
    assert refusal(facts(by)) is None


@pytest.mark.parametrize(
    ("changes", "why", "for_whom"),
    [
        ({"rules": RerunRules(mode="off")}, RerunRefusal.OFF, BOTH),
        ({"granted": False}, RerunRefusal.NOT_GRANTED, BOTH),
        ({"job": JOB._replace(over=False)}, RerunRefusal.NOT_FAILED, BOTH),
        ({"job": JOB._replace(conclusion="success")}, RerunRefusal.NOT_FAILED, BOTH),
        ({"run": RUN._replace(attempt=2)}, RerunRefusal.LATER_ATTEMPT, BOTH),
        ({"run": RUN._replace(over=False)}, RerunRefusal.RUN_NOT_OVER, BOTH),
        ({"run": CANCELLED_RUN, "waited": True}, RerunRefusal.CANCELLED, BOTH),
        ({"run": RUN._replace(attempt=51), "job": JOB._replace(attempt=51)}, RerunRefusal.TOO_MANY, BOTH),
        ({"rules": RerunRules(mode="button")}, RerunRefusal.NOT_AUTOMATIC, UNASKED),
        ({"death": DEAD._replace(cause=Cause.HOST_OOM)}, RerunRefusal.CAUSE, UNASKED),
        ({"death": DEAD._replace(cause=Cause.LOST_COMMUNICATION)}, RerunRefusal.CAUSE, UNASKED),
        ({"rules": RerunRules(mode="auto", causes=("host-oom",))}, RerunRefusal.CAUSE, UNASKED),
        ({"death": terminated("StorageLimitExceeded")}, RerunRefusal.USED_UP, UNASKED),
        ({"death": terminated("DeadlineExceeded")}, RerunRefusal.USED_UP, UNASKED),
        ({"job": FAILED_STEP}, RerunRefusal.STEP_FAILED, UNASKED),
        ({"job": FAILED_STEP, "words": JobWords(lost=True)}, RerunRefusal.STEP_FAILED, UNASKED),
        (
            {"job": FAILED_STEP._replace(failed_steps=2), "words": JobWords(shutdown=True, killed=1)},
            RerunRefusal.STEP_FAILED,
            UNASKED,
        ),
        ({"run": CANCELLED_RUN}, RerunRefusal.CANCELLED, UNASKED),
        ({"words": JobWords(stopped=True)}, RerunRefusal.CANCELLED, UNASKED),
        ({"job": CANCELLED, "words": JobWords(lost=True, stopped=True)}, RerunRefusal.CANCELLED, UNASKED),
        ({"job": CANCELLED, "words": JobWords(known=False)}, RerunRefusal.CANCELLED, UNASKED),
        ({"job": CANCELLED._replace(completed_at=DEAD.at - MICROSECOND)}, RerunRefusal.CANCELLED, UNASKED),
        ({"job": CANCELLED, "death": DELETED}, RerunRefusal.CANCELLED, UNASKED),
        ({"job": CANCELLED, "run": CANCELLED_RUN, "words": JobWords(shutdown=True)}, RerunRefusal.CANCELLED, UNASKED),
        ({"run": RUN._replace(event="merge_group")}, RerunRefusal.MERGE_QUEUE, UNASKED),
        ({"run": RUN._replace(branch="gh-readonly-queue/main/pr-7-abc")}, RerunRefusal.MERGE_QUEUE, UNASKED),
        ({"run": RUN._replace(event="deployment")}, RerunRefusal.DEPLOYMENT, UNASKED),
        ({"run": RUN._replace(event="deployment_status")}, RerunRefusal.DEPLOYMENT, UNASKED),
        ({"death": DEAD._replace(job=DeadJob(7, "acme/api", deploys=True))}, RerunRefusal.DEPLOYMENT, UNASKED),
        ({"job": SECOND, "run": RUN._replace(attempt=2)}, RerunRefusal.ATTEMPTS, UNASKED),
        ({"job": BEGUN}, RerunRefusal.BEGUN, UNASKED),
        ({"fuse_closed": False}, RerunRefusal.FUSE, UNASKED),
        ({"run": RUN._replace(newer_goes_on=True)}, RerunRefusal.NEWER_RUN, UNASKED),
    ],
)
def test_each_condition_alone_prevents_a_re_run(changes, why, for_whom):
    for by in BOTH:
        assert refusal(facts(by, **changes)) is (why if by in for_whom else None)


@pytest.mark.parametrize(
    "changes",
    [
        {"job": JOB._replace(conclusion="timed_out")},
        {"job": CANCELLED},
        {"job": CANCELLED._replace(completed_at=DEAD.at)},
        {"words": JobWords(known=False)},
        {"job": CANCELLED._replace(completed_at=DEAD.at - 20), "words": JobWords(shutdown=True)},
        {"job": FAILED_STEP._replace(failed_steps=2), "words": JobWords(shutdown=True, killed=2)},
        {"job": CANCELLED, "death": DELETED, "words": JobWords(lost=True)},
        {"job": FAILED_STEP, "words": JobWords(shutdown=True, killed=True)},
        {"job": SECOND, "run": RUN._replace(attempt=2), "rules": RerunRules(mode="auto", attempts=2)},
        {"job": BEGUN, "rules": RerunRules(mode="auto", begun=True)},
        {"run": None},
    ],
    ids=[
        "timed out",
        "cancelled for the clusters own reason",
        "cancelled as the runner ended",
        "failed, and the annotations cannot be read",
        "cancelled before the runner ended, and GitHub reports why",
        "two steps that were killed with the runner",
        "cancelled, and GitHub reports the loss",
        "a step that was killed with the runner",
        "a second attempt where the pool allows two",
        "begun where the pool allows it",
        "the run is not known yet",
    ],
)
def test_what_no_condition_prevents_is_run_again_unasked(changes):
    assert refusal(facts(**changes)) is None


def test_what_passes_is_named_only_if_nothing_lasting_is_against_it():
    passing = {"fuse_closed": False, "run": RUN._replace(newer_goes_on=True)}
    assert refusal(facts(**passing)) in DEFERRED
    assert refusal(facts(**passing, job=BEGUN)) is RerunRefusal.BEGUN


def test_a_pool_may_allow_jobs_that_had_begun_and_name_other_causes():
    rules = RerunRules(mode="auto", causes=("host-oom",), begun=True)
    assert refusal(facts(rules=rules, death=DEAD._replace(cause=Cause.HOST_OOM), job=BEGUN)) is None


@pytest.mark.parametrize(
    ("jobs", "latest"),
    [
        ([], 1),
        ([("test", 1)], 1),
        ([("test", 1), ("test", 2)], 2),
        ([("test", 1), ("build", 2)], 1),
        ([("test", 3), ("build", 4), ("test", 1)], 3),
        ([("test", 1), ("test", 1), ("test", 2)], 1),
        ([("test", 1), ("test", 1), ("test", 2), ("test", 2)], 2),
        ([("test", 1), ("test", 1)], 1),
    ],
    ids=[
        "none listed",
        "one attempt",
        "run again",
        "only another job was run again",
        "twice",
        "one of two of its name was run again",
        "both were run again",
        "none of two of its name was run again",
    ],
)
def test_the_latest_attempt_is_that_of_the_job_itself(jobs, latest):
    assert latest_attempt(JOB, jobs) == latest


REQUESTED = Rerun(7, 1, 1, AUTO, 1000.0)


@pytest.mark.parametrize(
    ("latest", "after", "outcome"),
    [
        (2, 0.0, REQUESTED._replace(state=RerunState.ACCEPTED)),
        (3, 7200.0, REQUESTED._replace(state=RerunState.ACCEPTED)),
        (1, SETTLING_SECONDS - MICROSECOND, RerunRefusal.UNSETTLED),
        (1, SETTLING_SECONDS, None),
    ],
)
def test_an_unknown_outcome_is_settled_by_what_github_has(latest, after, outcome):
    assert settled(REQUESTED, latest, 1000.0 + after) == outcome


@pytest.mark.parametrize(
    ("rerun", "after", "may"),
    [
        (None, 0.0, True),
        (REQUESTED, GIVEN_BACK_SECONDS - MICROSECOND, False),
        (REQUESTED, GIVEN_BACK_SECONDS, True),
        (REQUESTED._replace(state=RerunState.ACCEPTED), 1e6, False),
        (REQUESTED._replace(state=RerunState.REFUSED), 1e6, False),
    ],
)
def test_a_request_without_an_outcome_is_given_to_a_person_after_an_hour(rerun, after, may):
    assert may_be_repeated(rerun, 1000.0 + after) is may


def test_a_temporary_condition_is_waited_for_about_six_hours():
    assert [next_try_after(number, None, 0.0) for number in (-1, 0, len(TRIES_AFTER_SECONDS))] == [None, 60.0, None]
    assert sum(TRIES_AFTER_SECONDS) == pytest.approx(5.6 * 3600, abs=600)


@pytest.mark.parametrize(
    ("state", "after", "waits"),
    [
        (RerunState.REQUESTED, 0.0, 300.0),
        (RerunState.REQUESTED, GIVEN_BACK_SECONDS - MICROSECOND, 300.0),
        (RerunState.REQUESTED, GIVEN_BACK_SECONDS, None),
        (RerunState.ACCEPTED, 0.0, None),
        (RerunState.REFUSED, 0.0, None),
    ],
)
def test_the_outcome_of_the_last_try_is_asked_for_within_the_hour(state, after, waits):
    last = len(TRIES_AFTER_SECONDS)
    assert next_try_after(last, REQUESTED._replace(state=state), REQUESTED.at + after) == waits


@pytest.mark.parametrize(
    ("accepted", "explanation", "is_about_it"),
    [
        ("actions=write", "", True),
        ("actions=write", NO_ACCESS, True),
        ("", NO_ACCESS, True),
        ("", "", False),
        ("actions=write", "This workflow run is already running", False),
    ],
)
def test_a_403_is_about_a_permission_by_githubs_sentence_or_by_a_header_alone(accepted, explanation, is_about_it):
    assert is_not_granted(accepted, explanation) is is_about_it


WAITED = RerunNote("NoUsableAnswer", "mona", NOW - 60, NOW)


@pytest.mark.parametrize(
    ("known", "at"),
    [
        (WAITED, NOW - 60),
        (None, NOW),
        (WAITED._replace(by="lisa"), NOW),
        (WAITED._replace(next_at=None), NOW),
        (WAITED._replace(at=NOW + 60), NOW),
        (WAITED._replace(next_at=NOW - TRIES_AFTER_SECONDS[-1]), NOW - 60),
        (WAITED._replace(next_at=NOW - TRIES_AFTER_SECONDS[-1] - MICROSECOND), NOW),
    ],
    ids=["a further try", "the first", "another person's", "one that had ended", "in the future", "late", "forgotten"],
)
def test_a_further_try_keeps_the_time_of_the_request(known, at):
    assert RerunNote("RunNotOver", "mona", NOW, NOW + 60).after(known) == ("RunNotOver", "mona", at, NOW + 60)


EARLIER = Job(7, "over", ("linux",), "acme/api", 900.0, run_id=1, actor="lisa")
AGAIN = Job(9, "queued", ("linux",), "acme/api", 1001.0, run_id=1, attempt=2, actor="ghapp[bot]")
BY_MONA = REQUESTED._replace(by="mona", state=RerunState.ACCEPTED)


@pytest.mark.parametrize(
    ("again", "rerun", "actor", "rerun_by"),
    [
        (AGAIN, BY_MONA, "mona", "mona"),
        (AGAIN, BY_MONA._replace(state=RerunState.REQUESTED), "mona", "mona"),
        (AGAIN, REQUESTED, "lisa", AUTO),
        (AGAIN, BY_MONA._replace(by="holder of the key"), "lisa", "holder of the key"),
        (AGAIN, BY_MONA._replace(state=RerunState.REFUSED), "ghapp[bot]", ""),
        (AGAIN, BY_MONA._replace(run_id=2), "ghapp[bot]", ""),
        (AGAIN._replace(attempt=3), BY_MONA, "ghapp[bot]", ""),
        (AGAIN._replace(actor="sam"), BY_MONA, "sam", ""),
    ],
    ids=[
        "a person requested it",
        "its delivery came before GitHub's answer",
        "its pool requested it",
        "a person without a login requested it",
        "GitHub refused it",
        "of another run",
        "of an earlier attempt",
        "a person was faster at GitHub",
    ],
)
def test_a_job_that_ghapp_ran_again_is_of_who_requested_that(again, rerun, actor, rerun_by):
    assert as_requested(again, [EARLIER], [rerun]) == again._replace(actor=actor, rerun_by=rerun_by)


def test_without_the_earlier_attempt_what_a_pool_requested_is_the_apps():
    assert as_requested(AGAIN, [], [REQUESTED]) == AGAIN._replace(rerun_by=AUTO)
