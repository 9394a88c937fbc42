"""Jobs queued and running, and those that nobody online can take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.health.demand import (
    QUEUED_TOO_LONG_SECONDS,
    RUNNING_TOO_LONG_SECONDS,
    Job,
    PoolDemand,
    Unserved,
    Worker,
    demand,
    is_over,
)

from .builders import MICROSECOND, NOW
from .test_pools import Rule

LINUX = ("self-hosted", "Linux", "linux-4vcpu")


def job(job_id=1, status="queued", labels=("self-hosted", "linux-4vcpu"), **changes):
    return Job(job_id, status, labels, "acme/app", NOW)._replace(**changes)


def worker(pool="linux-4vcpu", labels=LINUX, *, online=False, busy=False):
    return Worker(pool, labels, online, busy)


@pytest.mark.parametrize(
    ("told", "age", "over"),
    [
        (job(), QUEUED_TOO_LONG_SECONDS, False),
        (job(), QUEUED_TOO_LONG_SECONDS + MICROSECOND, True),
        (job(status="running", started_at=NOW), RUNNING_TOO_LONG_SECONDS, False),
        (job(status="running", started_at=NOW), RUNNING_TOO_LONG_SECONDS + MICROSECOND, True),
        (job(status="running", started_at=NOW + 9), RUNNING_TOO_LONG_SECONDS + 9, False),
        (job(status="running"), RUNNING_TOO_LONG_SECONDS + MICROSECOND, True),
        (job(status="over"), 0.0, True),
    ],
    ids=["queued a day", "longer", "running five days", "longer", "from its start", "its start was lost", "over"],
)
def test_a_job_whose_last_delivery_was_lost_is_over_one_day(told, age, over):
    assert is_over(told, NOW + age) is over


def test_jobs_and_runners_are_counted_by_pool():
    workers = [worker(online=True), worker(online=True, busy=True), worker(), worker("mac", ("self-hosted", "mac"))]
    jobs = [job(1), job(2), job(3, "running"), job(4, "over")]
    rows, unserved = demand(jobs, workers, [], NOW)
    assert rows == [PoolDemand("linux-4vcpu", 2, 1, 2, 1), PoolDemand("mac", 0, 0, 0, 0)]
    assert unserved == []


@pytest.mark.parametrize(
    ("workers", "labels", "reason"),
    [
        ([], ("self-hosted", "linux-4vcpu"), Unserved.NO_RUNNER_WITH_LABELS),
        ([worker(online=True)], ("self-hosted", "gpu"), Unserved.NO_RUNNER_WITH_LABELS),
        ([worker()], ("self-hosted", "linux-4vcpu"), Unserved.RUNNERS_OFFLINE),
        ([worker(), worker(online=True)], ("self-hosted", "linux-4vcpu"), None),
        ([worker(online=True, busy=True)], ("self-hosted", "linux-4vcpu"), None),
        ([worker(online=True)], ("SELF-HOSTED", "LINUX-4vcpu"), None),
    ],
    ids=["no runners", "none with this label", "all offline", "one online", "busy will be free", "case"],
)
def test_a_queued_job_that_nobody_online_can_take_is_unserved(workers, labels, reason):
    _, unserved = demand([job(labels=labels)], workers, [], NOW)
    assert [each.reason for each in unserved] == ([reason] if reason else [])


def test_an_online_pool_is_preferred_to_an_offline_one():
    workers = [worker("asleep"), worker("awake", (*LINUX, "gpu"), online=True)]
    rows, unserved = demand([job()], workers, [], NOW)
    assert [(row.pool, row.queued) for row in rows] == [("asleep", 0), ("awake", 1)]
    assert unserved == []


def test_a_job_for_a_pool_without_runners_counts_for_the_pool_its_labels_name():
    rows, _ = demand([job(1, labels=("self-hosted", "gpu")), job(2, labels=("arm",))], [], [Rule("big", ("gpu",))], NOW)
    assert [(row.pool, row.queued) for row in rows] == [("arm", 1), ("big", 1)]


def test_a_running_job_is_never_unserved():
    assert demand([job(status="running")], [], [], NOW)[1] == []


def test_the_job_that_waits_longest_comes_first():
    jobs = [job(3), job(2), job(9, queued_at=NOW - 1)]
    assert [each.job.id for each in demand(jobs, [], [], NOW)[1]] == [9, 2, 3]


JOBS = st.lists(
    st.builds(
        job,
        st.integers(1, 99),
        st.sampled_from(["queued", "running", "over"]),
        st.sets(st.sampled_from(["self-hosted", "a", "B", "b"])).map(tuple),
    )
)
WORKERS = st.lists(
    st.builds(
        worker,
        st.sampled_from(["a", "b"]),
        st.sets(st.sampled_from(["self-hosted", "a", "b", "A"])).map(tuple),
        online=st.booleans(),
        busy=st.booleans(),
    )
)


@given(JOBS, WORKERS)
def test_no_job_and_no_runner_is_lost_in_counting(jobs, workers):
    rows, unserved = demand(jobs, workers, [], NOW)
    assert sum(row.queued for row in rows) == sum(each.status == "queued" for each in jobs)
    assert sum(row.running for row in rows) == sum(each.status == "running" for each in jobs)
    assert sum(row.online for row in rows) == sum(each.online for each in workers)
    assert all(row.idle <= row.online for row in rows)
    assert [row.pool for row in rows] == sorted({row.pool for row in rows})
    assert len(unserved) <= sum(row.queued for row in rows)


@pytest.mark.parametrize(
    ("labels", "counted"),
    [
        (("ubuntu-latest",), 0),
        (("Windows-2025",), 0),
        (("macos-15-xlarge",), 0),
        (("self-hosted", "ubuntu-22.04"), 1),
        (("linux-4vpcu",), 1),
        (("ubuntu-ours",), 0),
    ],
)
def test_a_queued_job_for_githubs_own_machines_is_none_of_ours(labels, counted):
    rows, unserved = demand([job(labels=labels)], [worker(online=True)], [], NOW)
    assert sum(row.queued for row in rows) == len(unserved) == counted


def test_a_label_like_githubs_is_ours_when_a_runner_here_bears_it():
    here = worker("ubuntu-ours", ("self-hosted", "ubuntu-ours"), online=True)
    rows, unserved = demand([job(labels=("ubuntu-ours",))], [here], [], NOW)
    assert rows == [PoolDemand("ubuntu-ours", 1, 0, 1, 1)]
    assert unserved == []
