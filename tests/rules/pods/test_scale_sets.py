"""Scale sets that want more runners than their jobs and `minRunners` need."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.pods.scale_sets import IDLE_SECONDS, ScaleSet, inflated_demand
from ghapp.workflow_jobs.job import Job
from tests.rules.builders import MICROSECOND, NOW, survey
from tests.rules.pods.builders import NAMESPACE, runner_object

NAME = "linux-4vcpu"


def idle(count, **changes):
    return [runner_object(name=f"idle-{number}", uid=f"i{number}", **changes) for number in range(count)]


def at_work(count, **changes):
    return [runner_object(name=f"busy-{number}", uid=f"b{number}", job_id="7", **changes) for number in range(count)]


def scale_set(replicas, least=0, label=NAME):
    return ScaleSet(NAMESPACE, NAME, label, least, replicas)


def jobs(count, status="queued", labels=(NAME,), **changes):
    job = Job(1, status, labels, "acme/api", NOW - 60, NOW - 30 if status == "running" else None)
    return [job._replace(id=number, **changes) for number in range(count)]


def found(wanted, objects, waiting=(), **changes):
    arguments = {"survey": survey(), "now": NOW, **changes}
    return [
        (each.kind.value, each.subject, each.namespace, each.detail)
        for each in inflated_demand("acme", [wanted], objects, list(waiting), **arguments)
    ]


@pytest.mark.parametrize(
    ("wanted", "objects", "waiting", "excess"),
    [
        (scale_set(39, 5), [*at_work(19), *idle(20)], jobs(19, "running"), 10),
        (scale_set(24, 5), [*at_work(19), *idle(5)], jobs(19, "running"), None),
        (scale_set(25, 5), [*at_work(19), *idle(6)], (), 1),
        (scale_set(6, 5), idle(6), jobs(1), None),
        (scale_set(7, 5), idle(7), jobs(1), 1),
        (scale_set(7, 5), idle(7), jobs(1, labels=("LINUX-4vcpu",)), 1),
        (scale_set(6, 5), idle(6), jobs(1, labels=()), None),
        (scale_set(6, 5), idle(6), jobs(1, waiting=True), None),
        (scale_set(6, 5), idle(6), jobs(1, labels=("other",)), 1),
        (scale_set(6, 5, "github-name"), idle(6), jobs(1, labels=("github-name",)), None),
        (scale_set(5, 5), idle(9), (), None),
        (scale_set(9), idle(9, phase="Failed"), (), None),
        (scale_set(9), idle(9, phase="Succeeded"), (), None),
        (scale_set(9), idle(9, deleting_since=NOW - 60), (), None),
        (scale_set(9), idle(9, scale_set="other"), (), None),
        (scale_set(9), idle(9, org="globex"), (), None),
        (scale_set(9), idle(9, org=""), (), 5),
        (scale_set(9), idle(9, phase="Pending"), (), 5),
        (scale_set(9), idle(9, created_at=NOW - IDLE_SECONDS + MICROSECOND * 10), (), None),
        (scale_set(9), idle(9, created_at=NOW - IDLE_SECONDS), (), 5),
        (scale_set(9), idle(9), jobs(9, "running"), None),
        (scale_set(9), [*at_work(9), *idle(0)], jobs(9, "running"), None),
        (scale_set(0), [], (), None),
    ],
    ids=[
        "ARC #4397: assigned 34, running 19, at least 5",
        "as many as it keeps",
        "one more",
        "one more, for which a job waits",
        "two more, for one of which a job waits",
        "labels are compared in any case",
        "a job of a runner group",
        "a job that waits for an approval",
        "another set's job",
        "the set has another name at GitHub",
        "ARC wants to delete them",
        "failed ones are too few, not too many",
        "those that had their job",
        "those that are being deleted",
        "another set's",
        "another organization's",
        "without an organization's label",
        "those that do not start",
        "young ones",
        "just old enough",
        "an ARC whose objects name no job",
        "all at work",
        "nothing",
    ],
)
def test_runners_that_no_job_and_no_minimum_needs_are_too_many(wanted, objects, waiting, excess):
    detail = f"at least {excess} more than its jobs and minRunners need"
    expected = [] if excess is None else [("demand-inflated", NAME, NAMESPACE, detail)]
    assert found(wanted, objects, waiting) == expected


def test_time_in_which_github_does_not_answer_is_no_idle_time():
    fresh = survey(blind=((NOW - 86_400, NOW - IDLE_SECONDS + 1),))
    assert found(scale_set(9), idle(9), survey=fresh) == []
    assert found(scale_set(9), idle(9), survey=survey(swept_at=NOW - 400, failing_since=NOW - 300)) != []


def test_the_clusters_clock_is_not_ours():
    objects = idle(9, created_at=NOW - IDLE_SECONDS)
    assert found(scale_set(9), objects, ahead=-1.0) == []
    assert found(scale_set(9), objects, ahead=1.0) != []


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 120))
def test_a_set_with_as_many_runners_as_it_should_have_is_never_reported(busy, free, least, waiting, replicas):
    objects = [*at_work(busy), *idle(free)]
    result = found(scale_set(replicas, least), objects, jobs(waiting))
    if free <= least + waiting or replicas <= busy + least + waiting:
        assert result == []
    else:
        assert len(result) == 1
