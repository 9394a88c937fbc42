"""Whether an object or a pod may be deleted now: each guard by itself, at its exact boundary."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.pods.blockers import SENTENCES, Blocker
from ghapp.pods.deletion_guards import (
    NO_POD_SECONDS,
    REGISTRATION_FINALIZER,
    TERMINATING_SECONDS,
    BlockedBy,
    DeletionVerdict,
    may_delete_object,
    may_delete_pod,
)
from ghapp.pods.pod import Ended, Owner
from ghapp.runners.deletion_progress import Deletion
from ghapp.runners.remains import Remains, RemainsKind
from ghapp.runners.verdict import LONGEST_JOB_SECONDS
from tests.rules.builders import LONG_AGO, MICROSECOND, NOW, lost, present
from tests.rules.pods.builders import (
    ARCS_OTHER_FINALIZER,
    GRACE,
    container,
    pod,
    pod_of_object,
    preconditions,
    runner_object,
)

DELETE = (DeletionVerdict.DELETE, None)
NOTHING_LEFT = (DeletionVerdict.NOTHING_LEFT, None)
ENDED = Ended(exit_code=1, finished_at=NOW - 300)


def refused(blocker, after_seconds=None):
    return DeletionVerdict.REFUSE, BlockedBy(blocker, after_seconds)


@dataclass
class Case:
    """One change of a runner that may be deleted, and the expected verdict."""

    text: str
    expected: tuple
    evidence: dict
    found: dict
    pod: dict
    around: dict


def case(text, expected, *, evidence=None, found=None, pod=None, around=None):
    return Case(text, expected, evidence or {}, found or {}, pod or {}, around or {})


VERY_OLD = NOW - LONGEST_JOB_SECONDS - 60
OLDER = {"found": {"created_at": VERY_OLD}, "pod": {"created_at": VERY_OLD}}


def remains_seen(kind, seconds=0.0):
    """Remains of this kind, shown by the watch for so many seconds up to NOW."""
    return Remains(RemainsKind(kind), NOW - seconds, NOW)


def waiting_for(blocker, seconds):
    return Deletion(waits_for=blocker, waiting_since=NOW - seconds)


YOUNG = NOW - GRACE + MICROSECOND
ENDED_JUST_NOW = {"job_id": 7, "job_ended_at": NOW - GRACE + 30}
BOTH = [
    case("no guard applies", DELETE),
    case("created exactly the grace ago", DELETE, pod={"created_at": NOW - GRACE}, found={"created_at": NOW - GRACE}),
    case(
        "container started less than the grace ago",
        refused(Blocker.WITHIN_GRACE, 20.0),
        pod={"runner": container(running_since=NOW - GRACE + 20)},
    ),
    case("container started the grace ago", DELETE, pod={"runner": container(running_since=NOW - GRACE)}),
    case("claimed", refused(Blocker.POD_CLAIMED), around={"claimed": {"linux-1"}}),
    case("another pod is claimed", DELETE, around={"claimed": {"linux-2"}}),
    case("a job in progress, by delivery", refused(Blocker.JOB_IN_PROGRESS), evidence={"job_id": 7}),
    case(
        "a job in progress under the runner's name", refused(Blocker.JOB_IN_PROGRESS), around={"at_work": {"linux-1"}}
    ),
    case("a job in progress under another name", DELETE, around={"at_work": {"linux-2"}}),
    case("job ended a moment ago", refused(Blocker.JOB_JUST_ENDED, 30.0), evidence=ENDED_JUST_NOW),
    case("job ended the grace ago", DELETE, evidence={"job_id": 7, "job_ended_at": NOW - GRACE}),
    case("seen busy, and its job is unknown", refused(Blocker.SEEN_BUSY), evidence={"busy": True}),
    case(
        "seen busy, absent for as long as the longest job",
        refused(Blocker.SEEN_BUSY),
        evidence={"busy": True, "absent_since": NOW - LONGEST_JOB_SECONDS},
        **OLDER,
    ),
    case(
        "seen busy, absent for longer than the longest job",
        DELETE,
        evidence={"busy": True, "absent_since": NOW - LONGEST_JOB_SECONDS - MICROSECOND},
        **OLDER,
    ),
    case(
        "seen busy, and the container has ended since",
        DELETE,
        evidence={"busy": True, "remains": remains_seen("ended")},
    ),
    case(
        "seen busy, and the container runs",
        refused(Blocker.SEEN_BUSY),
        evidence={"busy": True, "remains": remains_seen("running")},
    ),
    case(
        "seen busy after the end of the one job of an ephemeral runner",
        DELETE,
        evidence={"busy": True, "ephemeral": True, "job_id": 7, "job_ended_at": NOW - GRACE},
    ),
    case(
        "seen busy after the end of a job of a persistent runner",
        refused(Blocker.SEEN_BUSY),
        evidence={"busy": True, "job_id": 7, "job_ended_at": NOW - GRACE},
    ),
    case(
        "a job in progress for as long as the longest job",
        refused(Blocker.JOB_IN_PROGRESS),
        evidence={"job_id": 7, "job_started_at": NOW - LONGEST_JOB_SECONDS},
    ),
    case(
        "a job in progress for longer than the longest job",
        DELETE,
        evidence={"job_id": 7, "job_started_at": NOW - LONGEST_JOB_SECONDS - 1},
    ),
    case(
        "another organization knows the runner's name",
        refused(Blocker.OF_ANOTHER_ORG),
        around={"known_elsewhere": True},
    ),
    case("created just within the grace after the registration was lost", DELETE, evidence={"absent_since": LONG_AGO}),
    case(
        "created long after the registration was lost: a successor of the same name that is starting",
        NOTHING_LEFT,
        evidence={"absent_since": LONG_AGO - GRACE - 1},
    ),
    case("no container status", refused(Blocker.NOT_RUNNING), pod={"runner": None}),
    case(
        "container not started",
        refused(Blocker.NOT_RUNNING),
        pod={"runner": container(running_since=None, waiting="ImagePullBackOff")},
    ),
    case(
        "container ended",
        refused(Blocker.NOT_RUNNING),
        pod={"runner": container(running_since=None, ended=ENDED)},
    ),
]


@pytest.mark.parametrize("app", BOTH, ids=lambda app: app.text)
def test_an_object_is_deleted_only_if_each_guard_allows_it(app):
    verdict = may_delete_object(
        lost(**app.evidence), runner_object(**app.found), pod_of_object(**app.pod), preconditions(**app.around)
    )
    assert verdict == app.expected


@pytest.mark.parametrize("app", BOTH, ids=lambda app: app.text)
def test_a_pod_is_deleted_only_if_each_guard_allows_it(app):
    assert may_delete_pod(lost(**app.evidence), pod(**app.pod), preconditions(**app.around)) == app.expected


ORPHANS = (Owner("EphemeralRunner", "linux-1", "object-0"),)
ARC_ALONE = [
    case("the object is too young", refused(Blocker.WITHIN_GRACE, GRACE - 1), found={"created_at": NOW - 1}),
    case("the object has a job that is unknown by delivery", refused(Blocker.JOB_UNKNOWN), found={"job_id": "8f-a1"}),
    case("the object has a workflow run", refused(Blocker.JOB_UNKNOWN), found={"workflow_run_id": 99}),
    case(
        "the object has a job that is over at GitHub",
        DELETE,
        found={"job_id": "8f-a1", "workflow_run_id": 99},
        evidence={"job_id": 7, "job_ended_at": NOW - GRACE},
    ),
    case(
        "the object has a job that ended a moment ago",
        refused(Blocker.JOB_JUST_ENDED, 30.0),
        found={"job_id": "8f-a1"},
        evidence=ENDED_JUST_NOW,
    ),
    case("the pod belongs to an earlier object", refused(Blocker.POD_OF_ANOTHER), pod={"owners": ORPHANS}),
    case("the pod has no owner", refused(Blocker.POD_OF_ANOTHER), pod={"owners": ()}),
    case("the pod is Terminating", refused(Blocker.POD_TERMINATING), pod={"deleting_since": NOW}),
    case("the object has another name, and is claimed", refused(Blocker.POD_CLAIMED), around={"claimed": {"arc-1"}}),
]


@pytest.mark.parametrize("app", ARC_ALONE, ids=lambda app: app.text)
def test_an_object_of_arc_has_further_guards(app):
    found = {"name": "arc-1"} | app.found
    verdict = may_delete_object(
        lost(**app.evidence), runner_object(**found), pod_of_object(**app.pod), preconditions(**app.around)
    )
    assert verdict == app.expected


def test_a_target_found_before_a_crash_is_deleted_though_clocks_show_a_successor():
    lost_before_creation = {"absent_since": LONG_AGO - GRACE - 1}
    target = lost(deletion=Deletion(uid="object-1", found_at=NOW), **lost_before_creation)
    assert may_delete_object(target, runner_object(), pod_of_object(), preconditions()) == DELETE
    target = lost(deletion=Deletion(uid="pod-1", found_at=NOW), **lost_before_creation)
    assert may_delete_pod(target, pod(), preconditions()) == DELETE


def test_an_object_or_pod_with_another_organizations_label_is_kept():
    theirs = refused(Blocker.OF_ANOTHER_ORG)
    assert may_delete_object(lost(), runner_object(org="umbrella"), pod_of_object(), preconditions()) == theirs
    labelled = pod(labels={"actions.github.com/organization": "umbrella"})
    assert may_delete_pod(lost(), labelled, preconditions()) == theirs
    assert may_delete_object(lost(), runner_object(org="ACME"), pod_of_object(), preconditions()) == DELETE


def test_a_terminating_object_of_another_organization_is_not_freed():
    stuck = runner_object(deleting_since=NOW - 9000)
    refusal = may_delete_object(accepted(NOW - 9000), stuck, pod_of_object(), preconditions(known_elsewhere=True))
    assert refusal == refused(Blocker.OF_ANOTHER_ORG)


class TestAnObjectWithoutAPod:
    """ARC counts the object as a runner forever (issue #3821), or may be about to create its pod."""

    @pytest.mark.parametrize(
        ("evidence", "expected"),
        [
            ({}, refused(Blocker.NO_POD, 60.0)),
            ({"remains": remains_seen("no-pod", NO_POD_SECONDS - 1)}, refused(Blocker.NO_POD, 1.0)),
            ({"remains": remains_seen("no-pod", NO_POD_SECONDS)}, DELETE),
            ({"remains": remains_seen("running", NO_POD_SECONDS)}, refused(Blocker.NO_POD, 60.0)),
            ({"deletion": waiting_for("NoPod", NO_POD_SECONDS - 1)}, refused(Blocker.NO_POD, 1.0)),
            ({"deletion": waiting_for("NoPod", NO_POD_SECONDS)}, DELETE),
            ({"deletion": waiting_for("JobUnknown", NO_POD_SECONDS)}, refused(Blocker.NO_POD, 60.0)),
        ],
        ids=[
            "first seen now",
            "for less than five minutes by the watch",
            "for five minutes by the watch",
            "a pod seen by the watch a moment ago",
            "for less than five minutes by ghapp's own checks",
            "for five minutes by ghapp's own checks",
            "waited for something else",
        ],
    )
    def test_the_object_is_deleted_once_no_pod_was_seen_for_five_minutes(self, evidence, expected):
        assert may_delete_object(lost(**evidence), runner_object(), None, preconditions()) == expected

    @pytest.mark.parametrize(
        ("evidence", "found", "around", "expected"),
        [
            ({"busy": True}, {}, {}, DELETE),
            ({}, {"job_id": "8f-a1"}, {}, DELETE),
            ({"job_id": 7}, {}, {}, refused(Blocker.JOB_IN_PROGRESS)),
            ({}, {}, {"claimed": {"linux-1"}}, refused(Blocker.POD_CLAIMED)),
            ({}, {"created_at": NOW - 1}, {}, refused(Blocker.WITHIN_GRACE, GRACE - 1)),
        ],
        ids=["seen busy", "a job unknown by delivery", "a job in progress", "claimed", "too young"],
    )
    def test_each_guard_applies_except_those_for_a_running_process(self, evidence, found, around, expected):
        evidence = lost(remains=remains_seen("no-pod", NO_POD_SECONDS), **evidence)
        assert may_delete_object(evidence, runner_object(**found), None, preconditions(**around)) == expected

    def test_the_object_is_kept_for_its_job_until_the_pod_was_missing_for_five_minutes(self):
        found = runner_object(job_id="8f-a1")
        assert may_delete_object(lost(), found, None, preconditions()) == refused(Blocker.JOB_UNKNOWN)


@pytest.mark.parametrize(
    ("evidence", "pod", "expected"),
    [
        (lost(), None, NOTHING_LEFT),
        (lost(), pod_of_object(), refused(Blocker.POD_OUTLIVES_OBJECT)),
        (lost(deletion=Deletion(uid="object-1", found_at=NOW)), pod_of_object(), NOTHING_LEFT),
    ],
    ids=["the pod is deleted too", "the pod remains", "deleted by ghapp, the pod follows"],
)
def test_an_object_that_no_longer_exists(evidence, pod, expected):
    assert may_delete_object(evidence, None, pod, preconditions()) == expected


def test_another_object_or_pod_of_the_same_name_is_not_deleted():
    target = lost(deletion=Deletion(uid="object-0", found_at=NOW))
    assert may_delete_object(target, runner_object(), pod_of_object(), preconditions()) == NOTHING_LEFT
    assert may_delete_pod(target, pod(), preconditions()) == NOTHING_LEFT


def test_the_same_object_after_a_crash_is_deleted_again():
    target = lost(deletion=Deletion(uid="object-1", found_at=NOW))
    assert may_delete_object(target, runner_object(), pod_of_object(), preconditions()) == DELETE


def accepted(at):
    return lost(deletion=Deletion(uid="object-1", found_at=at, accepted_at=at))


TERMINATING = BlockedBy(Blocker.TERMINATING)


@pytest.mark.parametrize(
    ("evidence", "since", "finalizers", "expected"),
    [
        (lost(), NOW - 9000, (REGISTRATION_FINALIZER,), (DeletionVerdict.UNDER_WAY, BlockedBy(Blocker.TERMINATING, 120.0))),
        (accepted(NOW - 119), NOW - 9000, (REGISTRATION_FINALIZER,), (DeletionVerdict.UNDER_WAY, BlockedBy(Blocker.TERMINATING, 1.0))),
        (accepted(NOW - 9000), NOW - 119, (REGISTRATION_FINALIZER,), (DeletionVerdict.UNDER_WAY, BlockedBy(Blocker.TERMINATING, 1.0))),
        (accepted(NOW + 9000), NOW - 120, (REGISTRATION_FINALIZER,), (DeletionVerdict.UNDER_WAY, BlockedBy(Blocker.TERMINATING, 120.0))),
        (accepted(NOW - 120), NOW - 120, (REGISTRATION_FINALIZER,), (DeletionVerdict.FREE, TERMINATING)),
        (accepted(NOW - 120), NOW - 120, (ARCS_OTHER_FINALIZER,), (DeletionVerdict.UNDER_WAY, TERMINATING)),
    ],
    ids=[
        "first seen now",
        "for two minutes, but not by the local clock",
        "for two minutes, but not by the cluster's clock",
        "the local clock jumped",
        "for two minutes by both clocks",
        "only ARC's own finalizer is left",
    ],
)  # fmt: skip
def test_a_terminating_object_is_freed_after_two_minutes_by_both_clocks(evidence, since, finalizers, expected):
    found = runner_object(deleting_since=since, finalizers=finalizers)
    assert may_delete_object(evidence, found, pod_of_object(), preconditions()) == expected


def test_the_limit_without_a_pod_is_five_minutes():
    assert NO_POD_SECONDS == 300


class TestADeletionByAnother:
    """ARC or a person deleted the object, so no guard of ghapp was checked before."""

    @pytest.mark.parametrize(
        ("watched", "since", "finalizers", "expected"),
        [
            (120, NOW - 120, (REGISTRATION_FINALIZER,), (DeletionVerdict.FREE, TERMINATING)),
            (
                119,
                NOW - 9000,
                (REGISTRATION_FINALIZER,),
                (DeletionVerdict.UNDER_WAY, BlockedBy(Blocker.TERMINATING, 1.0)),
            ),
            (
                9000,
                NOW - 119,
                (REGISTRATION_FINALIZER,),
                (DeletionVerdict.UNDER_WAY, BlockedBy(Blocker.TERMINATING, 1.0)),
            ),
            (9000, NOW - 9000, (ARCS_OTHER_FINALIZER,), (DeletionVerdict.UNDER_WAY, TERMINATING)),
        ],
        ids=["for two minutes by both clocks", "not by the watch", "not by the cluster's clock", "ARC's own finalizer"],
    )
    def test_the_object_is_freed_once_the_watch_saw_it_terminating_for_two_minutes(
        self, watched, since, finalizers, expected
    ):
        found = runner_object(deleting_since=since, finalizers=finalizers)
        evidence = lost(remains=remains_seen("terminating", watched))
        assert may_delete_object(evidence, found, pod_of_object(), preconditions()) == expected

    @pytest.mark.parametrize(
        ("evidence", "found", "around", "blocker"),
        [
            ({"job_id": 7}, {}, {}, Blocker.JOB_IN_PROGRESS),
            ({}, {"job_id": "8f-a1"}, {}, Blocker.JOB_UNKNOWN),
            ({"busy": True}, {}, {}, Blocker.SEEN_BUSY),
            ({}, {}, {"claimed": {"linux-1"}}, Blocker.POD_CLAIMED),
        ],
        ids=["a job", "a job unknown by delivery", "seen busy", "claimed"],
    )
    def test_the_object_is_not_freed_while_its_pod_may_run_a_job(self, evidence, found, around, blocker):
        evidence = lost(remains=remains_seen("terminating", 9000), **evidence)
        found = runner_object(deleting_since=NOW - 9000, **found)
        refusal = may_delete_object(evidence, found, pod_of_object(), preconditions(**around))
        assert refusal == refused(blocker)

    def test_a_terminating_object_without_a_pod_is_freed_though_it_names_a_job(self):
        evidence = lost(remains=remains_seen("terminating", 9000), busy=True)
        found = runner_object(deleting_since=NOW - 9000, job_id="8f-a1")
        assert may_delete_object(evidence, found, None, preconditions()) == (DeletionVerdict.FREE, TERMINATING)

    def test_an_object_that_is_not_terminating_is_never_freed(self):
        evidence = lost(remains=remains_seen("terminating", 9000))
        assert may_delete_object(evidence, runner_object(), pod_of_object(), preconditions()) == DELETE


@pytest.mark.parametrize("ahead", [-86_400.0, -300.0, 300.0, 86_400.0])
def test_the_age_of_an_object_does_not_depend_on_the_clusters_clock_offset(ahead):
    """The cluster's clock is `ahead`, and so is each time that the cluster writes. Ages by that clock are right."""
    theirs = NOW + ahead
    absent = {"absent_since": NOW - 60}
    for age, expected in ((GRACE - 1, refused(Blocker.WITHIN_GRACE, 1.0)), (GRACE, DELETE)):
        times = {"created_at": theirs - age, "read_at": theirs}
        ran = {"created_at": theirs - 999, "runner": container(running_since=theirs - age), "read_at": theirs}
        # With a large offset, age and creation time disagree on which came first, so the deletion is refused.
        expected_here = refused(Blocker.CLOCKS_DISAGREE) if ahead > age - 60 + GRACE else expected
        assert (
            may_delete_object(lost(**absent), runner_object(**times), pod_of_object(**ran), preconditions())
            == expected_here
        )
        assert (
            may_delete_pod(lost(**absent), pod(**times, runner=container(running_since=theirs - age)), preconditions())
            == expected_here
        )


@pytest.mark.parametrize("jump", [60.0, 600.0, 86_400.0])
def test_a_forward_jump_of_the_local_clock_makes_an_object_no_older(jump):
    """The runner was lost, a new object was created under its name, and then the clock jumped."""
    around = preconditions(now=NOW + jump)
    young = {"created_at": YOUNG, "read_at": NOW}
    for verdict, _ in (
        may_delete_object(lost(), runner_object(**young), pod_of_object(), around),
        may_delete_object(lost(), runner_object(), pod_of_object(runner=container(running_since=YOUNG)), around),
        may_delete_pod(lost(), pod(**young), around),
        may_delete_pod(lost(), pod(runner=container(running_since=YOUNG)), around),
    ):
        assert verdict is not DeletionVerdict.DELETE


@pytest.mark.parametrize(
    ("created_at", "read_at", "expected"),
    [
        (NOW + 600, NOW + 900, refused(Blocker.CLOCKS_DISAGREE)),
        (NOW - 900, NOW - 600, refused(Blocker.CLOCKS_DISAGREE)),
        (NOW + 90, NOW + 390, NOTHING_LEFT),
    ],
    ids=["by its creation time alone", "by its age alone", "by both"],
)
def test_a_successor_is_recognized_by_both_clocks_and_is_kept_if_they_disagree(created_at, read_at, expected):
    """The object and the pod are each five minutes old."""
    evidence = lost(absent_since=NOW - 60 if created_at > NOW else NOW - 500)
    now = NOW + 390 if expected is NOTHING_LEFT else NOW
    ran = container(running_since=created_at)
    around = preconditions(now=now)
    its_pod = {"created_at": created_at, "read_at": read_at, "runner": ran}
    found = runner_object(created_at=created_at, read_at=read_at)
    assert may_delete_object(evidence, found, pod_of_object(**its_pod), around) == expected
    assert may_delete_pod(evidence, pod(**its_pod), around) == expected


def test_an_object_or_pod_without_a_read_time_counts_as_young():
    young = refused(Blocker.WITHIN_GRACE, GRACE)
    assert may_delete_object(lost(), runner_object(read_at=None), pod_of_object(), preconditions()) == young
    assert may_delete_object(lost(), runner_object(), pod_of_object(read_at=None), preconditions()) == young
    assert may_delete_pod(lost(), pod(read_at=None), preconditions()) == young
    stuck = runner_object(deleting_since=NOW - 9000, read_at=None)
    waits = (DeletionVerdict.UNDER_WAY, BlockedBy(Blocker.TERMINATING, TERMINATING_SECONDS))
    assert may_delete_object(accepted(NOW - 9000), stuck, pod_of_object(), preconditions()) == waits


@pytest.mark.parametrize("jump", [600.0, 86_400.0])
def test_a_jump_of_either_clock_does_not_count_as_two_minutes_of_terminating(jump):
    ours = runner_object(deleting_since=NOW - 10)
    assert (
        may_delete_object(accepted(NOW - 10), ours, pod_of_object(), preconditions(now=NOW + jump))[0]
        is DeletionVerdict.UNDER_WAY
    )
    theirs = runner_object(deleting_since=NOW - 10, read_at=NOW + jump)
    assert (
        may_delete_object(accepted(NOW - 10), theirs, pod_of_object(), preconditions())[0] is DeletionVerdict.UNDER_WAY
    )


def test_the_limit_of_terminating_is_two_minutes():
    assert TERMINATING_SECONDS == 120


@pytest.mark.parametrize(
    ("evidence", "changes", "expected"),
    [
        (lost(), {"owners": (Owner("EphemeralRunner", "linux-1", "object-1"),)}, refused(Blocker.POD_OF_ARC)),
        (lost(), {"owners": (Owner("ReplicaSet", "fleet", "set-1"),)}, DELETE),
        (lost(), {"created_at": YOUNG}, refused(Blocker.WITHIN_GRACE, pytest.approx(MICROSECOND, abs=1e-6))),
        (lost(), {"deleting_since": NOW, "runner": None}, DELETE),
        (lost(deletion=Deletion(accepted_at=NOW, over_at=NOW)), {}, NOTHING_LEFT),
    ],
    ids=["owned by ARC", "owned by a ReplicaSet", "too young", "Terminating: its registration remains", "done before"],
)
def test_a_pod_without_an_arc_object(evidence, changes, expected):
    assert may_delete_pod(evidence, pod(**changes), preconditions()) == expected


@pytest.mark.parametrize("there", [None, pod(deleting_since=NOW - 60)], ids=["no pod", "a pod that is Terminating"])
@pytest.mark.parametrize(
    ("evidence", "around", "blocker"),
    [
        ({}, {"claimed": {"linux-1"}}, Blocker.POD_CLAIMED),
        ({"job_id": 7}, {}, Blocker.JOB_IN_PROGRESS),
        ({}, {"at_work": {"linux-1"}}, Blocker.JOB_IN_PROGRESS),
        ({}, {"known_elsewhere": True}, Blocker.OF_ANOTHER_ORG),
    ],
    ids=["claimed", "a job", "a job under its name", "known elsewhere"],
)
def test_a_terminating_or_missing_pod_is_refused_while_its_runner_may_be_needed(there, evidence, around, blocker):
    verdict, blocked = may_delete_pod(lost(**evidence), there, preconditions(**around))
    assert (verdict, blocked.blocker) == (DeletionVerdict.REFUSE, blocker)


def test_the_registration_of_a_runner_without_a_pod_may_be_deleted():
    assert may_delete_pod(lost(), None, preconditions()) == DELETE


def test_a_registered_busy_runner_is_never_deleted():
    offline = present(busy=True, offline_since=LONG_AGO)
    assert may_delete_pod(offline, pod(), preconditions()) == refused(Blocker.SEEN_BUSY)


@given(
    st.floats(NOW - 600, NOW + 600),
    st.floats(NOW - 600, NOW + 600),
    st.sampled_from([None, NOW - 60, NOW - 600]),
    st.booleans(),
    st.booleans(),
)
def test_a_deleted_pod_is_old_and_has_no_job(created_at, running_since, job_ended_at, busy, claimed):
    evidence = lost(job_id=7 if job_ended_at else None, job_ended_at=job_ended_at, busy=busy)
    its_pod = pod(created_at=created_at, runner=container(running_since=running_since))
    around = preconditions(claimed={"linux-1"} if claimed else ())
    verdict, _ = may_delete_pod(evidence, its_pod, around)
    is_old = NOW - max(created_at, running_since) >= GRACE
    is_idle = not busy and (job_ended_at is None or NOW - job_ended_at >= GRACE)
    assert (verdict is DeletionVerdict.DELETE) == (is_old and is_idle and not claimed)


def test_each_blocker_has_a_sentence():
    assert set(SENTENCES) == set(Blocker)
