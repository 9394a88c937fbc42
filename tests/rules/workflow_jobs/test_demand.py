"""Jobs queued and running, and those that no online runner can take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.pods.pod import EphemeralRunner
from ghapp.remediation.job_proof import KnownJob, KnownJobs
from ghapp.settings import PoolSettings
from ghapp.workflow_jobs.capacity import AvailableRunner
from ghapp.workflow_jobs.demand import NONE_ASSIGNED, PoolDemand, assigned_by_pool, known_jobs
from ghapp.workflow_jobs.demand import demand as demand_of
from ghapp.workflow_jobs.job import QUEUED_TOO_LONG_SECONDS, RUNNING_TOO_LONG_SECONDS, Job, is_over
from ghapp.workflow_jobs.job_queue import JobQueue, QueueInputs
from ghapp.workflow_jobs.reason import QueueReason
from tests.rules.builders import MICROSECOND, NOW
from tests.rules.installations.test_pool_matching import Rule

LINUX = ("self-hosted", "Linux", "linux-4vcpu")


def demand(jobs, workers, rules, now, assigned=NONE_ASSIGNED):
    return demand_of(JobQueue(QueueInputs("acme", jobs, workers, rules), now), assigned)


def job(job_id=1, status="queued", labels=("self-hosted", "linux-4vcpu"), **changes):
    return Job(job_id, status, labels, "acme/app", NOW)._replace(**changes)


def worker(pool="linux-4vcpu", labels=LINUX, *, online=False, busy=False):
    return AvailableRunner(pool, labels, online, busy)


@pytest.mark.parametrize(
    ("job", "age", "over"),
    [
        (job(), QUEUED_TOO_LONG_SECONDS, False),
        (job(), QUEUED_TOO_LONG_SECONDS + MICROSECOND, True),
        (job(status="running", started_at=NOW), RUNNING_TOO_LONG_SECONDS, False),
        (job(status="running", started_at=NOW), RUNNING_TOO_LONG_SECONDS + MICROSECOND, True),
        (job(status="running", started_at=NOW + 9), RUNNING_TOO_LONG_SECONDS + 9, False),
        (job(status="running"), RUNNING_TOO_LONG_SECONDS + MICROSECOND, True),
        (job(status="over"), 0.0, True),
    ],
    ids=[
        "queued a day",
        "queued longer",
        "running five days",
        "running longer",
        "counted from its start",
        "its start was lost",
        "over",
    ],
)
def test_a_job_whose_last_delivery_was_lost_is_over_one_day(job, age, over):
    assert is_over(job, NOW + age) is over


def test_jobs_and_runners_are_counted_by_pool():
    workers = [worker(online=True), worker(online=True, busy=True), worker(), worker("mac", ("self-hosted", "mac"))]
    jobs = [job(1), job(2), job(3, "running"), job(4, "over")]
    rows, unserved = demand(jobs, workers, [], NOW)
    assert rows == [
        PoolDemand("linux-4vcpu", 2, 1, 2, 1, oldest_queued_at=NOW),
        PoolDemand("mac", 0, 0, 0, 0),
    ]
    assert unserved == []


@pytest.mark.parametrize(
    ("workers", "labels", "reason"),
    [
        ([], ("self-hosted", "linux-4vcpu"), QueueReason.NO_RUNNER_WITH_LABELS),
        ([worker(online=True)], ("self-hosted", "gpu"), QueueReason.NO_RUNNER_WITH_LABELS),
        ([worker()], ("self-hosted", "linux-4vcpu"), QueueReason.RUNNERS_OFFLINE),
        ([worker(), worker(online=True)], ("self-hosted", "linux-4vcpu"), None),
        ([worker(online=True, busy=True)], ("self-hosted", "linux-4vcpu"), None),
        ([worker(online=True)], ("SELF-HOSTED", "LINUX-4vcpu"), None),
    ],
    ids=["no runners", "no runner with this label", "all offline", "one online", "one busy", "case"],
)
def test_a_queued_job_that_no_online_runner_can_take_is_unserved(workers, labels, reason):
    _, unserved = demand([job(labels=labels)], workers, [], NOW)
    assert [each.reason for each in unserved] == ([reason] if reason else [])


def test_an_online_pool_is_preferred_to_an_offline_one():
    workers = [worker("asleep"), worker("awake", (*LINUX, "gpu"), online=True)]
    rows, unserved = demand([job()], workers, [], NOW)
    assert [(row.pool, row.queued) for row in rows] == [("asleep", 0), ("awake", 1)]
    assert unserved == []


def test_a_job_counts_for_a_configured_pool_without_runners_and_jobs_that_no_pool_has_are_counted_together():
    jobs = [job(1, labels=("self-hosted", "gpu")), job(2, labels=("arm",)), job(3, labels=("linux-4vpcu",))]
    rows, unserved = demand(jobs, [], [Rule("big", ("gpu",))], NOW)
    assert [(row.pool, row.shown_name, row.queued) for row in rows] == [("big", "big", 1), ("", "no pool", 2)]
    assert [(each.job.id, each.pool) for each in unserved] == [(1, "big"), (2, ""), (3, "")]


def test_a_job_that_waits_for_an_approval_is_no_demand():
    assert demand([job(waiting=True)], [worker()], [], NOW) == ([PoolDemand("linux-4vcpu", 0, 0, 0, 0)], [])


@pytest.mark.parametrize(
    ("labels", "meant"),
    [(("big-16cor",), "big-16core"), (("self-hosted", "bih-16core"), "big-16core"), (("elsewhere",), ""), ((), "")],
)
def test_a_job_for_a_misspelt_label_has_the_label_that_was_probably_meant(labels, meant):
    _, unserved = demand([job(labels=labels)], [], [Rule("big", ("big-16core",))], NOW)
    assert [each.meant_label for each in unserved] == ([meant] if labels else [])


def test_a_running_job_is_never_unserved():
    assert demand([job(status="running")], [], [], NOW)[1] == []


def test_the_longest_waiting_job_comes_first():
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
def test_each_job_and_each_runner_is_counted_once(jobs, workers):
    rows, unserved = demand(jobs, workers, [], NOW)
    jobs = [each for each in jobs if each.labels]
    assert sum(row.queued for row in rows) == sum(each.status == "queued" for each in jobs)
    assert sum(row.running for row in rows) == sum(each.status == "running" for each in jobs)
    assert sum(row.online for row in rows) == sum(each.online for each in workers)
    assert all(row.idle <= row.online for row in rows)
    assert [row.pool for row in rows] == sorted({row.pool for row in rows}, key=lambda each: (not each, each))
    assert len(unserved) == sum(row.unserved for row in rows)
    assert all(row.unserved <= row.queued for row in rows)


@pytest.mark.parametrize(
    ("labels", "counted"),
    [
        (("ubuntu-latest",), 0),
        (("Windows-2025",), 0),
        (("macos-15-xlarge",), 0),
        (("self-hosted", "ubuntu-22.04"), 1),
        (("linux-4vpcu",), 1),
        (("ubuntu-ours",), 0),
        ((), 0),
    ],
)
def test_a_queued_job_for_github_hosted_runners_is_not_counted(labels, counted):
    rows, unserved = demand([job(labels=labels)], [worker(online=True)], [], NOW)
    assert sum(row.queued for row in rows) == len(unserved) == counted


def test_a_label_like_githubs_counts_if_a_runner_has_it():
    here = worker("ubuntu-ours", ("self-hosted", "ubuntu-ours"), online=True)
    rows, unserved = demand([job(labels=("ubuntu-ours",))], [here], [], NOW)
    assert rows == [PoolDemand("ubuntu-ours", 1, 0, 1, 1, oldest_queued_at=NOW)]
    assert unserved == []


def test_jobs_of_a_pool_that_is_scaled_to_zero_are_demand_whatever_its_labels_look_like():
    """A controller that scales from it would never start one."""
    big = Rule("ubuntu-16core", ("ubuntu-16core",))
    rows, unserved = demand([job(labels=("ubuntu-16core",))], [], [big], NOW)
    assert [(row.pool, row.queued, row.unserved) for row in rows] == [("ubuntu-16core", 1, 1)]
    assert [each.reason for each in unserved] == [QueueReason.NO_RUNNER_WITH_LABELS]


def scaled(name="linux", replacer="arc", **changes):
    return PoolSettings(
        **{"org": "acme", "name": name, "labels": (name,), "namespace": "runners"} | changes, replacer=replacer
    )


def arcs(**changes):
    """ARC's object of a runner that has a job."""
    return EphemeralRunner("runners", "a", "u", "1", NOW, phase="Running", job_id="42")._replace(**changes)


@pytest.mark.parametrize(
    ("found", "count"),
    [
        (arcs(), 1),
        (arcs(phase="Pending"), 1),
        (arcs(phase=""), 1),
        (arcs(deleting_since=NOW), 0),
        (arcs(job_id=""), 0),
        (arcs(phase="Succeeded"), 0),
        (arcs(phase="Failed"), 1),
        (arcs(phase="Outdated"), 1),
        (arcs(org="ACME"), 1),
        (arcs(org="globex"), 0),
    ],
    ids=[
        "running",
        "pending",
        "new",
        "terminating",
        "idle",
        "succeeded",
        "failed",
        "outdated",
        "of this org",
        "of another org",
    ],
)
def test_objects_that_arc_counts_as_assigned_are_counted_including_failed_ones(found, count):
    assert assigned_by_pool("acme", {"runners": [found]}, [scaled()]) == {"linux": count}


@pytest.mark.parametrize(
    ("rules", "objects", "counted"),
    [
        ([scaled()], [], {"linux": 0}),
        ([scaled(replacer="pods")], [], {}),
        ([scaled(replacer="none")], [arcs(scale_set="other")], {"linux": 1}),
        ([scaled(namespace="elsewhere")], [arcs()], {}),
        ([scaled(namespace=None)], [arcs()], {}),
        (
            [scaled(), scaled("gpu")],
            [arcs(scale_set="GPU"), arcs(scale_set="gpu"), arcs(scale_set="linux"), arcs(scale_set="x"), arcs()],
            {"linux": 1, "gpu": 2},
        ),
        ([scaled(), scaled("big", labels=("linux", "big"))], [arcs(scale_set="big")], {"linux": 0, "big": 1}),
    ],
    ids=[
        "a scale set at zero",
        "pods have no objects",
        "any replacer but pods",
        "not where its pods are",
        "no namespace",
        "two in one namespace, by scale set",
        "a scale set called like its pool",
    ],
)
def test_objects_are_counted_for_their_pool(rules, objects, counted):
    assert assigned_by_pool("acme", {"runners": objects}, rules) == counted


def test_a_pool_known_by_the_cluster_alone_is_shown():
    rows, _ = demand([], [worker("mac")], [], NOW, {"linux": 34})
    assert rows == [PoolDemand("linux", 0, 0, 0, 0, 34), PoolDemand("mac", 0, 0, 0, 0, None)]


def test_jobs_are_known_by_whether_a_runner_took_them():
    waiting, running = job(1, labels=("self-hosted", "Linux")), job(2, "running", runner_id=7, started_at=NOW + 5)
    over, cancelled = job(3, "over", runner_id=8, started_at=NOW), job(4, "over")
    known = known_jobs([waiting, running, over, cancelled, job(5, "running", runner_id=9, queued_at=NOW + 10)], NOW + 9)
    assert known.queued == [KnownJob(frozenset({"self-hosted", "linux"}), NOW, "acme/app")]
    taken = KnownJob(frozenset({"self-hosted", "linux-4vcpu"}), NOW, "acme/app")
    assert known.taken == [taken._replace(runner_id=7, started_at=NOW + 5), taken._replace(runner_id=8, started_at=NOW)]


def test_jobs_that_github_holds_and_jobs_without_labels_wait_for_no_runner():
    jobs = [job(waiting=True), job(labels=()), job(queued_at=NOW - 2 * QUEUED_TOO_LONG_SECONDS)]
    assert known_jobs(jobs, NOW) == KnownJobs([], [])
