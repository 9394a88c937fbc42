"""Two runners of one name within a minute: deaths, pods and jobs are joined by ids, and by what came first."""

from __future__ import annotations

from math import floor

import pytest
from hypothesis import given
from hypothesis.strategies import floats

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import DeadJob, is_of, vanished
from ghapp.deaths.job_death import is_job_death_of, is_same_end
from ghapp.deaths.post_mortem import job_at_death
from ghapp.pods.pod import Container, Pod
from ghapp.workflow_jobs.job import Job
from tests.rules.builders import LONG_AGO, MICROSECOND, NOW, online
from tests.rules.deaths.test_post_mortem import death

BY_POD = death(cause=Cause.TERMINATED, reason="Evicted", job=None)
"""The first runner's pod was evicted at NOW; which runner that was is not on record."""

OF_FIRST, OF_SECOND = BY_POD._replace(runner_id=1), BY_POD._replace(runner_id=2)


def runner(number, first_seen, job_started_at, job_ended_at=None):
    ran = {"job_id": 70 + number, "job_started_at": job_started_at, "job_ended_at": job_ended_at}
    return online(number, name="linux-x7k2p", first_seen=first_seen, **ran)


FIRST = runner(1, NOW - 600, NOW - 300)
SECOND = runner(2, NOW + 20, NOW + 40)
PERSISTENT = runner(1, LONG_AGO, NOW + 40)
"""One registration that both pods use; the second one has the job."""


@pytest.mark.parametrize(
    ("dead", "evidence", "job_id"),
    [
        (BY_POD, FIRST, 71),
        (BY_POD, SECOND, None),
        (BY_POD, runner(2, NOW - 1, NOW + 40), None),
        (BY_POD, PERSISTENT, None),
        (OF_FIRST, FIRST, 71),
        (OF_FIRST, SECOND, None),
        (OF_SECOND, FIRST, None),
        (BY_POD._replace(exit_code=None), SECOND, None),
        (BY_POD._replace(exit_code=None), PERSISTENT, None),
        (OF_FIRST, runner(1, NOW - 600, NOW - 300, NOW + 30), 71),
        (OF_FIRST, runner(1, NOW - 600, NOW - 300, NOW - 61), None),
        (BY_POD._replace(at=NOW + 90, ahead=90), SECOND, None),
        (BY_POD._replace(at=NOW + 90, ahead=90), PERSISTENT, None),
        (BY_POD._replace(at=NOW + 90, ahead=90), FIRST, 71),
        (BY_POD._replace(at=NOW - 700, ahead=-700), FIRST, 71),
        (OF_FIRST._replace(at=NOW + 90, ahead=90), runner(1, NOW - 600, NOW - 300, NOW - 30), 71),
    ],
    ids=[
        "its own",
        "the next one's",
        "of a registration that came before the end",
        "of the next pod, with the same registration",
        "its own, by its id",
        "the next one's, by its id",
        "the one before, by its id",
        "the next one's, the end unseen",
        "of the next pod, the end unseen",
        "its own, ended after it",
        "its own, ended before it",
        "the next one's, by a cluster's clock that is ahead",
        "of the next pod, by a cluster's clock that is ahead",
        "its own, by a cluster's clock that is ahead",
        "its own, by a cluster's clock that is behind",
        "its own, ended at that time, by a cluster's clock that is ahead",
    ],
)
def test_a_death_has_the_job_of_its_own_runner(dead, evidence, job_id):
    assert job_at_death(evidence, dead) == job_id


def job(number, began, ended):
    over = Job(70 + number, "over", (), "acme/api", began, runner_id=number, started_at=began, ended_at=ended)
    return over._replace(conclusion="cancelled")


@pytest.mark.parametrize(
    ("known", "over", "is_same"),
    [
        (OF_FIRST, job(1, NOW - 300, NOW + 5), True),
        (OF_FIRST, job(2, NOW - 10, NOW + 50), False),
        (BY_POD, job(2, NOW + 40, NOW + 90), False),
        (OF_FIRST, job(1, NOW - 300, NOW - 70), False),
        (BY_POD._replace(job=DeadJob(71)), job(1, NOW + 40, NOW + 90), True),
        (BY_POD._replace(job=DeadJob(71)), job(2, NOW - 300, NOW + 5), False),
    ],
    ids=["its own", "another runner's", "begun later", "ended long before", "the same job", "another job"],
)
def test_a_job_is_of_a_recorded_death_if_it_is_its_runners(known, over, is_same):
    assert is_same_end(known, over) is is_same


BY_JOB = BY_POD._replace(id="job 71", pod="", pod_uid="", runner_id=1, at=NOW, exit_code=None)


@pytest.mark.parametrize(
    ("created_at", "ended_at", "runner_id", "is_same"),
    [
        (NOW - 600, NOW + 5, 1, True),
        (NOW - 600, NOW + 5, None, True),
        (NOW - 600, NOW + 5, 2, False),
        (NOW + 40, NOW + 100, None, False),
        (NOW, NOW + 100, None, True),
        (NOW - 5000, NOW - 901, None, False),
    ],
    ids=[
        "its pod",
        "its pod, runner unknown",
        "another runner's",
        "created later",
        "created then",
        "ended long before",
    ],
)
def test_a_pods_end_completes_a_death_that_its_job_showed_only_if_it_is_its_pod(
    created_at, ended_at, runner_id, is_same
):
    pod = Pod("runners", "linux-x7k2p", "uid-9", "1", created_at)
    ended = BY_POD._replace(at=ended_at, runner_id=runner_id, pod_uid="uid-9")
    assert is_job_death_of(BY_JOB, pod, ended) is is_same


@pytest.mark.parametrize(("next_created_at", "at"), [(None, NOW + 600), (NOW + 5, NOW + 5), (NOW + 900, NOW + 600)])
def test_a_pod_that_was_missed_late_had_vanished_before_the_next_one_of_its_name_was_created(next_created_at, at):
    pod = Pod("runners", "linux-x7k2p", "uid-1", "1", NOW - 600, runner=Container("runner", running_since=NOW - 600))
    assert vanished(pod, NOW + 600, next_created_at).at == at


@pytest.mark.parametrize(
    ("first_seen", "is_its"),
    [(NOW, True), (NOW + 1 - MICROSECOND, True), (NOW + 1, False), (NOW + 20, False)],
    ids=["by the second of the end", "within the second", "a second later", "later"],
)
def test_a_registration_that_was_seen_after_the_second_of_the_end_is_not_the_dead_runner(first_seen, is_its):
    assert is_of(BY_POD, runner(2, first_seen, None)) is is_its


@given(
    ended_at=floats(NOW, NOW + 2),
    worked_for=floats(0, 5),
    cluster_ahead=floats(-900, 900),
    asked_before=floats(0, 600),
)
def test_however_soon_a_runner_ends_after_its_first_sight_and_its_jobs_start_the_death_is_its_own(
    ended_at, worked_for, cluster_ahead, asked_before
):
    """GitHub and Kubernetes state whole seconds, `Date` included, and the cluster has a clock of its own."""
    began_at, asked_at = ended_at - worked_for, ended_at - asked_before
    ahead = floor(asked_at + cluster_ahead) - asked_at
    dead = BY_POD._replace(at=floor(ended_at + cluster_ahead), ahead=ahead)
    evidence = runner(1, began_at, floor(began_at))
    assert is_of(dead, evidence)
    assert job_at_death(evidence, dead) == evidence.job_id
