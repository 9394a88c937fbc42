"""The reasons of queued jobs: a row for each rule, and what takes precedence."""

from __future__ import annotations

import pytest

from ghapp.installations.pool_matching import UNKNOWN_POOL
from ghapp.remediation.fuse import Fuse, Position
from ghapp.remediation.healing import SUCCESSOR_PATIENCE_SECONDS
from ghapp.remediation.pause import Pause
from ghapp.workflow_jobs.capacity import LEFT_LATELY_SECONDS, available_runners, departures
from ghapp.workflow_jobs.job import QUEUED_TOO_LONG_SECONDS
from ghapp.workflow_jobs.reason import STUCK, UNSERVED, QueueReason
from ghapp.workflow_jobs.runner_groups import RunnerGroup, RunnerGroups
from tests.rules.builders import LONG_AGO, MICROSECOND, NOW, lost, online, present, suspect
from tests.rules.installations.test_pool_matching import Rule
from tests.rules.workflow_jobs.builders import LABELS, POOL, busy, job, looping, missing, offline, queue, runner

PAUSE = Pause("mona", "maintenance", NOW - 120)
HOSTED = ("ubuntu-latest",)
STOPPED = {POOL: Fuse(Position.STOPPED, NOW - 900, stopped_at=NOW - 60)}
PAUSED = {POOL: PAUSE}
EXCLUDING = RunnerGroups(NOW, (RunnerGroup(3, "gpu", "selected", repositories=("acme/web",)),))
R = QueueReason
TOO_OLD = {"too_old": "2.335.1"}


@pytest.mark.parametrize(
    ("runners", "changes", "inputs", "reason"),
    [
        ([], {"labels": HOSTED}, {}, R.HOSTED_BY_GITHUB),
        ([runner()], {"labels": ()}, {}, R.UNKNOWN_POOL),
        ([runner()], {"labels": (), "waiting": True}, {}, None),
        ([busy(labels=HOSTED)], {"labels": HOSTED}, {}, R.ALL_BUSY),
        ([], {"labels": HOSTED}, {"rules": [Rule(POOL, HOSTED)]}, R.NO_RUNNER_WITH_LABELS),
        ([], {"labels": HOSTED}, {"rules": [Rule(POOL, ("*",))]}, R.HOSTED_BY_GITHUB),
        ([], {"labels": ("Ubuntu-Latest",)}, {"own_images": HOSTED}, R.NO_RUNNER_WITH_LABELS),
        ([], {"labels": ("macos-15", *HOSTED)}, {"own_images": HOSTED}, R.NO_RUNNER_WITH_LABELS),
        ([busy()], {"labels": (*HOSTED, POOL)}, {}, R.NO_RUNNER_WITH_LABELS),
        ([busy()], {"labels": (*HOSTED, "another")}, {}, R.HOSTED_BY_GITHUB),
        ([], {}, {}, R.NO_RUNNER_WITH_LABELS),
        ([runner()], {"labels": ("gpu",)}, {}, R.NO_RUNNER_WITH_LABELS),
        ([runner(group_id=3)], {}, {"groups": EXCLUDING}, R.GROUP_EXCLUDES_REPOSITORY),
        ([missing(group_id=3)], {}, {"groups": EXCLUDING, "pauses": PAUSED}, R.GROUP_EXCLUDES_REPOSITORY),
        ([runner(group_id=3), offline(group_id=1)], {}, {"groups": EXCLUDING}, R.RUNNERS_OFFLINE),
        ([runner(group_id=3)], {"repository": "ACME/Web"}, {"groups": EXCLUDING}, R.NOT_ASSIGNED),
        ([runner(group_id=9)], {}, {"groups": EXCLUDING}, R.NOT_ASSIGNED),
        ([runner(), busy(), offline(), missing()], {}, {"pauses": PAUSED}, R.NOT_ASSIGNED),
        ([busy(), offline(), missing()], {}, {"pauses": PAUSED, "fuses": STOPPED}, R.ALL_BUSY),
        ([offline(), missing()], {}, {"pauses": PAUSED, "fuses": STOPPED}, R.POOL_PAUSED),
        ([missing()], {}, {"pauses": {"*": PAUSE}}, R.POOL_PAUSED),
        ([missing()], {}, {"pauses": {"other": PAUSE}}, R.RUNNERS_LOST),
        ([offline()], {}, {"pauses": PAUSED, "fuses": STOPPED}, R.RUNNERS_OFFLINE),
        ([offline(), missing()], {}, {"fuses": STOPPED}, R.FUSE_STOPPED),
        ([missing()], {}, {"fuses": {"*": STOPPED[POOL]}}, R.FUSE_STOPPED),
        ([missing()], {}, {"fuses": {POOL: Fuse(Position.PROVING, NOW)}}, R.RUNNERS_LOST),
        ([offline(), missing()], {}, {}, R.RUNNERS_LOST),
        ([offline(), missing(replaced_at=NOW - SUCCESSOR_PATIENCE_SECONDS)], {}, {}, R.RUNNERS_LOST),
        ([offline(), missing(replaced_at=NOW - SUCCESSOR_PATIENCE_SECONDS - MICROSECOND)], {}, {}, R.RUNNERS_OFFLINE),
        ([missing(replaced_at=NOW - SUCCESSOR_PATIENCE_SECONDS - MICROSECOND)], {}, {}, R.NO_RUNNER_WITH_LABELS),
        ([offline()], {}, {}, R.RUNNERS_OFFLINE),
        ([runner(**TOO_OLD)], {}, {}, R.RUNNERS_TOO_OLD),
        ([runner(**TOO_OLD), busy(**TOO_OLD), offline(), missing()], {}, {"pauses": PAUSED}, R.RUNNERS_TOO_OLD),
        ([runner(**TOO_OLD), busy()], {}, {}, R.ALL_BUSY),
        ([runner(**TOO_OLD), runner()], {}, {}, R.NOT_ASSIGNED),
        ([offline(**TOO_OLD)], {}, {}, R.RUNNERS_OFFLINE),
        ([looping()], {}, {}, R.RUNNERS_TOO_OLD),
        ([looping(), missing()], {}, {"fuses": STOPPED}, R.RUNNERS_TOO_OLD),
        ([looping(), runner()], {}, {}, R.NOT_ASSIGNED),
        ([runner(**TOO_OLD, group_id=3)], {}, {"groups": EXCLUDING}, R.GROUP_EXCLUDES_REPOSITORY),
        ([runner(**TOO_OLD)], {"labels": ("gpu",)}, {}, R.NO_RUNNER_WITH_LABELS),
    ],
    ids=[
        "hosted labels, no runner",
        "a runner group alone",
        "a runner group alone, held by GitHub",
        "hosted labels that a runner here has",
        "hosted labels of a configured pool, scaled to zero",
        "a pool of every runner",
        "hosted labels that a runner had once",
        "one label of ours, one of GitHub's",
        "a pool's label beside GitHub's",
        "an unknown label beside GitHub's",
        "no runners",
        "no runner with the label",
        "its group excludes the repository",
        "an excluding group before a pause",
        "only the other group counts",
        "the group admits the repository, in any case",
        "a group that was not read",
        "an idle runner before all others",
        "busy before lost",
        "a pause before a stopped fuse",
        "the whole org paused",
        "another pool paused",
        "a pause without lost runners",
        "a stopped fuse",
        "the installation's fuse",
        "a proving fuse",
        "lost before offline",
        "a successor to come",
        "a successor that never came",
        "only successors that never came",
        "offline",
        "idle and too old",
        "all online ones are too old",
        "too old beside a busy one",
        "too old beside an idle one",
        "offline and too old",
        "too old and ended, again and again",
        "a loop before a stopped fuse",
        "a loop beside an idle one",
        "its group excludes the repository, and it is too old",
        "no runner with the label, and others are too old",
    ],
)
def test_a_queued_job_has_the_first_reason_that_holds(runners, changes, inputs, reason):
    waiting = job(**changes)
    assert queue([waiting], runners, **inputs).reason(waiting) is reason


@pytest.mark.parametrize(
    ("waited", "idle_for", "reason"),
    [
        (60.0, 60.0, R.NOT_ASSIGNED),
        (60.0 - MICROSECOND, 3600.0, None),
        (3600.0, 60.0 - MICROSECOND, None),
    ],
    ids=["both a minute", "a younger job", "a runner that has just become idle"],
)
def test_github_has_a_minute_to_assign_a_job_to_an_idle_runner(waited, idle_for, reason):
    waiting = job(queued_at=NOW - waited)
    assert queue([waiting], [runner(idle_since=NOW - idle_for), busy()]).reason(waiting) is reason


@pytest.mark.parametrize(
    ("group", "private", "is_excluded"),
    [
        (RunnerGroup(3, "g"), False, False),
        (RunnerGroup(3, "g", allows_public=False), False, True),
        (RunnerGroup(3, "g", allows_public=False), True, False),
        (RunnerGroup(3, "g", allows_public=False), None, False),
        (RunnerGroup(3, "g", "private"), False, True),
        (RunnerGroup(3, "g", "selected", repositories=("acme/api",)), True, False),
        (RunnerGroup(3, "g", "selected", repositories=()), True, True),
        (RunnerGroup(3, "g", "selected", repositories=None), True, False),
    ],
    ids=[
        "open to all",
        "closed to public repositories",
        "closed to public repositories, and this one is private",
        "visibility unknown",
        "private repositories only",
        "selected, including this one",
        "selected, without this one",
        "selected repositories could not be read",
    ],
)
def test_a_runner_group_excludes_repositories_by_visibility_or_by_name(group, private, is_excluded):
    waiting = job(private=private)
    judged = queue([waiting], [offline(group_id=3)], groups=RunnerGroups(NOW, (group,)))
    assert (judged.reason(waiting) is R.GROUP_EXCLUDES_REPOSITORY) is is_excluded


@pytest.mark.parametrize(
    "changes", [{"status": "running"}, {"waiting": True}, {"queued_at": NOW - QUEUED_TOO_LONG_SECONDS - 1}]
)
def test_a_job_that_is_not_queued_has_no_reason(changes):
    assert queue([job(**changes)], []).reason(job(**changes)) is None


@pytest.mark.parametrize(("labels", "reason"), [(HOSTED, R.HOSTED_BY_GITHUB), ((), R.UNKNOWN_POOL), (("gpu",), None)])
def test_without_a_fresh_list_only_a_job_that_is_not_ours_has_a_reason(labels, reason):
    waiting = job(labels=labels)
    assert queue([waiting], [], fresh=False).reason(waiting) is reason


def placed(*groups, **changes):
    """A queue with runners of two groups, and a job without labels."""
    runners = [runner(group_id=3), runner(pool="gpu", labels=("self-hosted", "gpu"), group_id=4)]
    return queue([], runners, groups=RunnerGroups(NOW, groups)), job(labels=(), **changes)


def test_a_job_without_labels_names_a_group_that_nothing_reports_and_matches_no_runner():
    jobs, found = placed()
    assert (jobs.reason(found), jobs.pool(found), jobs.is_ours(found)) == (R.UNKNOWN_POOL, UNKNOWN_POOL, False)


@pytest.mark.parametrize(
    ("group", "pool", "ours"),
    [("big", POOL, True), ("larger runners of GitHub", UNKNOWN_POOL, False), ("", UNKNOWN_POOL, False)],
)
def test_a_running_job_without_labels_is_of_the_pool_of_its_group(group, pool, ours):
    jobs, found = placed(RunnerGroup(3, "big"), status="running", runner_group=group)
    assert (jobs.pool(found), jobs.is_ours(found)) == (pool, ours)


def test_every_reason_belongs_to_one_kind():
    waits_for_github_or_runners = {R.HOSTED_BY_GITHUB, R.UNKNOWN_POOL, R.ALL_BUSY, R.NOT_ASSIGNED}
    assert STUCK < UNSERVED
    assert UNSERVED | waits_for_github_or_runners == set(R)
    assert not UNSERVED & waits_for_github_or_runners


@pytest.mark.parametrize(
    ("evidence", "counts"),
    [
        (online(), (1, 1, 0, 0, 0, 0)),
        (online(busy=True), (1, 0, 0, 0, 0, 0)),
        (online(job_id=5, job_started_at=NOW), (1, 0, 0, 0, 0, 0)),
        (present(), (0, 0, 1, 0, 0, 0)),
        (suspect(), (0, 0, 0, 1, 0, 0)),
        (suspect(removed_at=NOW), (0, 0, 0, 0, 1, 0)),
        (lost(), (0, 0, 0, 0, 1, 0)),
        (lost(online=True, busy=True), (0, 0, 0, 0, 1, 0)),
        (lost(replaced_at=NOW), (0, 0, 0, 0, 0, 1)),
    ],
    ids=[
        *("idle", "busy", "in a job by delivery", "offline", "suspect", "removed while offline", "lost"),
        *("online when last listed", "replaced"),
    ],
)
def test_runners_are_counted_by_what_they_can_do(evidence, counts):
    (found,) = queue([], available_runners([evidence], [])).capacities
    assert (
        *(found.online, found.idle, found.offline),
        *(found.missing, found.waiting, found.replaced),
    ) == counts
    assert found.lost == found.waiting + found.replaced


@pytest.mark.parametrize(
    "evidence",
    [
        online(registered=False),
        online(retired_at=NOW),
        online(ephemeral=True, job_id=5, job_started_at=LONG_AGO, job_ended_at=NOW),
        lost(reregistered_as=9),
        lost(replaced_at=NOW, successor=9),
        lost(not_needed_at=NOW),
        lost(ephemeral=True, job_id=5, job_started_at=LONG_AGO, job_ended_at=NOW),
    ],
    ids=[
        "never registered",
        "retired",
        "its only job ended",
        "registered again",
        "healed",
        "not needed",
        "absent after its job",
    ],
)
def test_a_runner_that_takes_no_more_jobs_is_not_counted(evidence):
    assert available_runners([evidence], []) == []


@pytest.mark.parametrize(
    ("changes", "settled"),
    [
        ({"first_seen": NOW - 60}, 1),
        ({"observed_at": NOW - 60 + MICROSECOND}, 0),
        ({"first_seen": NOW - 60 + MICROSECOND}, 0),
        ({"job_id": 5, "job_ended_at": NOW - 60 + MICROSECOND}, 0),
    ],
    ids=["a minute old", "just online again, or just idle", "younger", "its job has just ended"],
)
def test_a_runner_is_settled_after_an_idle_minute(changes, settled):
    (found,) = queue([], available_runners([online(**{"observed_at": NOW - 60, **changes})], [])).capacities
    assert (found.idle, found.settled) == (1, settled)


LEFT = online(ephemeral=True, job_id=5, job_started_at=LONG_AGO, job_ended_at=NOW - LEFT_LATELY_SECONDS)


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (LEFT, None),
        (LEFT._replace(job_ended_at=NOW - LEFT_LATELY_SECONDS - MICROSECOND), R.NO_RUNNER_WITH_LABELS),
        (LEFT._replace(labels=("self-hosted", "gpu")), R.NO_RUNNER_WITH_LABELS),
        (LEFT._replace(job_ended_at=NOW + 1), R.NO_RUNNER_WITH_LABELS),
        (online(retired_at=NOW - 5), None),
        (lost(replaced_at=NOW, successor=9), R.NO_RUNNER_WITH_LABELS),
    ],
    ids=["a moment ago", "too long ago", "other labels", "in the future", "removed by its controller", "a lost one"],
)
def test_a_pool_whose_last_runner_left_a_moment_ago_is_given_the_time_to_start_the_next(evidence, reason):
    known = queue([job()], available_runners([evidence], []), left_at=departures([evidence], NOW))
    assert known.reason(job()) is reason


@pytest.mark.parametrize(
    ("runners", "inputs", "is_slow"),
    [
        ([busy()], {}, True),
        ([busy(), runner(idle_since=NOW - 1)], {}, True),
        ([], {"left_at": {LABELS: NOW - 1}}, True),
        ([runner()], {}, False),
        ([offline()], {}, False),
        ([busy()], {"fresh": False}, False),
    ],
    ids=["all busy", "one idle for a moment", "the next one starts", "idle for long", "offline", "no fresh list"],
)
def test_a_queue_is_slow_whichever_runner_is_idle_for_a_moment(runners, inputs, is_slow):
    assert queue([job()], runners, **inputs).is_slow(job()) is is_slow


@pytest.mark.parametrize(
    ("runners", "labels", "reason"),
    [
        ([], ("Big-Linux",), R.HOSTED_BY_GITHUB),
        ([busy()], ("big-linux",), R.HOSTED_BY_GITHUB),
        ([busy(labels=("big-linux",))], ("big-linux",), R.ALL_BUSY),
        ([busy()], ("big-linux", "self-hosted"), R.NO_RUNNER_WITH_LABELS),
        ([busy()], (), R.UNKNOWN_POOL),
    ],
)
def test_a_label_of_a_larger_runner_that_github_hosts_is_none_of_ours(runners, labels, reason):
    waiting = job(labels=labels)
    shown = queue([waiting], runners, groups=RunnerGroups(NOW, hosted_labels=("big-linux",)))
    assert shown.reason(waiting) is reason
    assert shown.is_ours(waiting) == (reason in (R.ALL_BUSY, R.NO_RUNNER_WITH_LABELS))
