"""Phantoms: pods, objects and registrations that count as runners but are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.pods.phantom_kinds import ADVICE, Phantom, PhantomKind, PhantomReason, command_of, is_assigned, key, lasting
from ghapp.pods.phantoms import ListedRunner, PhantomInputs, PhantomLimits, phantoms
from ghapp.pods.pod import Container, Ended, EphemeralRunner, Owner, Pod
from tests.rules.builders import LONG_AGO, MICROSECOND, NOW

LIMITS = PhantomLimits()
ORGANIZATION = "actions.github.com/organization"
RUNNING = Container("runner", running_since=LONG_AGO)


def known(name="linux-1", **changes):
    """An ephemeral runner that GitHub has shown offline for a day."""
    return ListedRunner(
        **{
            "name": name,
            "pool": "linux",
            "first_seen": LONG_AGO,
            "offline_since": LONG_AGO,
            "ephemeral": True,
            **changes,
        }
    )


def pod(name="linux-1", **changes):
    """A pod of ARC that has run for a day. Its owner's uid is derived from its name."""
    owner = Owner("EphemeralRunner", name, f"object-{name}")
    worst = Pod("runners", name, f"pod-{name}", "41", LONG_AGO, owners=(owner,), runner=RUNNING)
    return worst._replace(labels={"actions.github.com/scale-set-name": "linux"})._replace(**changes)


def runner(name="linux-1", **changes):
    """ARC's object, a day old."""
    worst = EphemeralRunner("runners", name, f"object-{name}", "41", LONG_AGO, phase="Running", scale_set="linux")
    return worst._replace(**changes)


def view(**changes):
    """Inputs read at NOW, with one healthy runner, so that pods of its pool are visible."""
    read = {"known": (), "pods": (), "objects": (), **changes}
    fine = known("fine", offline_since=None)
    read["known"] = [fine, *read["known"]]
    read["pods"] = [pod("fine"), *read["pods"]]
    read["objects"] = [runner("fine"), *read["objects"]]
    return PhantomInputs(**{"org": "acme", "known_at": NOW, "pods_at": NOW, "objects_at": NOW, **read})


def found(now=NOW, **changes):
    """The kind and the reason of each phantom that is old."""
    return [(each.kind, each.reason) for each in phantoms(view(**changes), now, LIMITS) if each.is_old]


def test_a_healthy_fleet_has_no_phantoms():
    assert found() == []
    assert found(known=[known(offline_since=None)], pods=[pod()], objects=[runner()]) == []


@pytest.mark.parametrize("ahead", [-3600.0, -300.0, 300.0, 3600.0])
@pytest.mark.parametrize(("age", "is_reported"), [(300.0, True), (300.0 - 1, False)])
def test_the_age_of_an_object_does_not_depend_on_the_clusters_clock_offset(ahead, age, is_reported):
    born = NOW + ahead - age
    assert bool(found(ahead=ahead, objects=[runner(created_at=born, phase="Pending")])) is is_reported
    held = pod(deleting_since=born, grace_ends_at=born, finalizers=("acme.io/keep",))
    assert bool(found(ahead=ahead, pods=[held], known=[known()])) is is_reported


@pytest.mark.parametrize("ahead", [-3600.0, -300.0, 300.0, 3600.0])
@pytest.mark.parametrize(("age", "is_reported"), [(120.0, True), (120.0 - 1, False)])
def test_the_run_time_of_a_container_does_not_depend_on_the_clusters_clock_offset(ahead, age, is_reported):
    running = Container("runner", running_since=NOW + ahead - age)
    assert bool(found(ahead=ahead, pods=[pod(runner=running)], objects=[runner()])) is is_reported


class TestObjectWithoutPod:
    @pytest.mark.parametrize(
        ("phase", "reason"),
        [
            ("Running", PhantomReason.POD_LOST),
            ("Pending", PhantomReason.POD_NEVER_MADE),
            ("", PhantomReason.POD_NEVER_MADE),
            ("Succeeded", None),
            ("Outdated", None),
        ],
    )
    def test_an_unfinished_object_without_a_pod_is_reported(self, phase, reason):
        assert found(objects=[runner(phase=phase)]) == ([(PhantomKind.OBJECT_WITHOUT_POD, reason)] if reason else [])

    @pytest.mark.parametrize(
        ("phase", "age", "is_reported"),
        [
            ("Running", 120.0, True),
            ("Running", 120.0 - MICROSECOND, False),
            ("Pending", 300.0, True),
            ("Pending", 300.0 - MICROSECOND, False),
        ],
    )
    def test_an_object_young_at_the_read_of_pods_is_not_reported(self, phase, age, is_reported):
        """ARC makes many pods one after the other; but the pod of a running object existed."""
        young = runner(created_at=NOW - age, phase=phase)
        assert bool(found(objects=[young])) is is_reported
        assert bool(found(NOW + 200, objects=[young])) is is_reported

    def test_a_pod_of_the_same_name_in_another_namespace_does_not_count(self):
        assert found(objects=[runner()], pods=[pod(namespace="other", owners=())], known=[known()]) == [
            (PhantomKind.OBJECT_WITHOUT_POD, PhantomReason.POD_LOST)
        ]

    def test_a_terminating_pod_counts_as_the_objects_pod(self):
        assert found(objects=[runner()], pods=[pod(deleting_since=NOW)], known=[known(offline_since=None)]) == []

    def test_a_terminating_object_is_not_reported(self):
        assert found(objects=[runner(deleting_since=NOW)]) == []
        assert found(objects=[runner(deleting_since=NOW, phase="Failed")]) == []


class TestPodWithoutObject:
    def test_a_pod_whose_object_no_longer_exists_is_reported(self):
        assert found(pods=[pod()], known=[known()]) == [(PhantomKind.POD_WITHOUT_OBJECT, PhantomReason.OBJECT_GONE)]

    def test_another_object_of_the_same_name_does_not_own_the_pod(self):
        is_reported = found(pods=[pod()], objects=[runner(uid="another")], known=[known()])
        assert is_reported == [(PhantomKind.POD_WITHOUT_OBJECT, PhantomReason.OBJECT_GONE)]

    @pytest.mark.parametrize("owners", [(), (Owner("ReplicaSet", "linux", "x"),)])
    def test_a_pod_not_owned_by_arc_needs_no_object(self, owners):
        assert found(pods=[pod(owners=owners)], known=[known()]) == []

    @pytest.mark.parametrize(("age", "is_reported"), [(120.0, True), (120.0 - MICROSECOND, False)])
    def test_a_pod_young_at_the_read_of_objects_is_not_reported(self, age, is_reported):
        young = pod(created_at=NOW - age)
        assert bool(found(pods=[young], known=[known()])) is is_reported
        assert bool(found(NOW + 200, pods=[young], known=[known()])) is is_reported

    def test_a_terminating_object_counts_as_the_pods_owner(self):
        assert found(pods=[pod()], objects=[runner(deleting_since=NOW)], known=[known()]) == []

    def test_a_terminating_pod_is_not_reported(self):
        assert found(pods=[pod(deleting_since=NOW)]) == []

    @pytest.mark.parametrize(("over", "is_reported"), [(300.0, True), (300.0 - MICROSECOND, False)])
    def test_a_terminating_pod_held_by_a_finalizer_after_its_grace_period_is_reported(self, over, is_reported):
        """The garbage collector deletes a pod as soon as its object no longer exists."""
        held = pod(deleting_since=LONG_AGO, grace_ends_at=NOW - over, finalizers=("acme.io/keep",))
        assert bool(found(pods=[held], known=[known()])) is is_reported
        assert found(pods=[held._replace(finalizers=())], known=[known()]) == []
        assert found(pods=[held], objects=[runner()], known=[known()]) == []


class TestFailedObject:
    def test_a_failed_object_counts_as_capacity(self):
        is_reported = phantoms(view(objects=[runner(phase="Failed")]), NOW, LIMITS)
        assert is_reported == [
            Phantom(
                PhantomKind.FAILED_OBJECT,
                "linux-1",
                PhantomReason.FAILED_COUNTS_AS_CAPACITY,
                ADVICE[PhantomReason.FAILED_COUNTS_AS_CAPACITY],
                "",
                "linux",
                "runners",
            )
        ]

    def test_a_failed_object_is_reported_with_a_pod_and_without_other_reads(self):
        failed = runner(phase="Failed")
        assert found(objects=[failed], pods=[pod()], known=[known()]) == [
            (PhantomKind.FAILED_OBJECT, PhantomReason.FAILED_COUNTS_AS_CAPACITY)
        ]
        assert len(found(objects=[failed], pods_at=None, known_at=None)) == 1

    def test_a_failed_object_is_reported_at_any_age_because_arc_has_given_it_up(self):
        assert len(found(objects=[runner(phase="Failed", created_at=NOW)])) == 1


class TestPodUnknownToGitHub:
    def test_a_running_pod_missing_from_the_list_is_reported(self):
        is_reported = phantoms(view(pods=[pod()], objects=[runner()]), NOW, LIMITS)
        assert [(each.kind, each.reason, each.subject, each.scale_set, each.namespace) for each in is_reported] == [
            (PhantomKind.POD_UNKNOWN_TO_GITHUB, PhantomReason.NOT_REGISTERED, "linux-1", "linux", "runners")
        ]

    @pytest.mark.parametrize(("ran", "is_reported"), [(120.0, True), (120.0 - MICROSECOND, False)])
    def test_a_pod_that_could_still_register_when_the_list_was_read_is_not_reported(self, ran, is_reported):
        young = pod(runner=Container("runner", running_since=NOW - ran))
        assert bool(found(pods=[young], objects=[runner()])) is is_reported
        assert bool(found(NOW + 200, pods=[young], objects=[runner()])) is is_reported

    @pytest.mark.parametrize(
        "container", [None, Container("runner", waiting="PodInitializing"), Container("runner", ended=Ended(0))]
    )
    def test_a_pod_that_does_not_run_is_not_reported(self, container):
        assert found(pods=[pod(runner=container)], objects=[runner()]) == []

    def test_a_pod_of_an_offline_runner_is_not_reported(self):
        assert found(pods=[pod()], objects=[runner()], known=[known()]) == []

    def test_a_pod_whose_runner_name_in_arcs_status_is_listed_is_not_reported(self):
        assert found(pods=[pod()], objects=[runner(runner_name="jit-7")], known=[known("jit-7")]) == []

    @pytest.mark.parametrize(
        ("container", "is_reported"),
        [("runner", True), ("listener", False)],
        ids=["a runner's container", "another container"],
    )
    def test_a_pod_not_owned_by_arc_is_a_runner_by_its_containers_name(self, container, is_reported):
        without_owner = pod(owners=(), runner=Container(container, running_since=LONG_AGO))
        assert bool(found(pods=[without_owner])) is is_reported

    def test_a_pod_of_arc_is_a_runner_under_any_container_name(self):
        renamed = pod(runner=Container("agent", running_since=LONG_AGO))
        assert found(pods=[renamed], objects=[runner()]) == [
            (PhantomKind.POD_UNKNOWN_TO_GITHUB, PhantomReason.NOT_REGISTERED)
        ]

    @pytest.mark.parametrize(("ago", "is_reported"), [(300.0, True), (300.0 - MICROSECOND, False)])
    def test_a_pod_that_runs_five_minutes_after_its_job_is_reported(self, ago, is_reported):
        changes = {"pods": [pod()], "objects": [runner()], "ended": {"linux-1": NOW - ago}}
        expected = [(PhantomKind.POD_UNKNOWN_TO_GITHUB, PhantomReason.HANGS_AFTER_JOB)] if is_reported else []
        assert found(**changes) == found(NOW + 200, **changes) == expected

    @pytest.mark.parametrize(
        ("labels", "is_reported"),
        [
            ({}, True),
            ({ORGANIZATION: "acme"}, True),
            ({ORGANIZATION: "ACME"}, True),
            ({ORGANIZATION: "umbrella"}, False),
            ({"actions.github.com/repository": "app"}, False),
            ({"actions.github.com/enterprise": "acme-inc"}, False),
        ],
        ids=["no label", "this org", "in capitals", "another org", "a repository", "an enterprise"],
    )
    def test_only_pods_of_runners_that_belong_in_this_orgs_list_are_reported(self, labels, is_reported):
        assert bool(found(pods=[pod(labels=labels)], objects=[runner()])) is is_reported

    def test_an_organization_label_may_be_truncated(self):
        org = "a" * 70
        cut = pod(labels={ORGANIZATION: org[:63]})
        assert found(org=org, pods=[cut], objects=[runner(org=org[:63])]) != []


class TestRunnerWithoutPod:
    @pytest.mark.parametrize(
        ("busy", "reason"), [(False, PhantomReason.MACHINE_GONE), (True, PhantomReason.MACHINE_GONE_AT_WORK)]
    )
    def test_an_offline_registration_without_a_pod_is_reported(self, busy, reason):
        is_reported = phantoms(view(known=[known(busy=busy)]), NOW, LIMITS)
        assert is_reported == [Phantom(PhantomKind.RUNNER_WITHOUT_POD, "linux-1", reason, ADVICE[reason], "linux")]
        assert is_reported[0].is_old

    def test_an_online_runner_without_a_pod_is_not_reported(self):
        assert found(known=[known(offline_since=None)]) == []

    @pytest.mark.parametrize("ephemeral", [None, True, False])
    def test_a_persistent_runner_without_a_pod_is_not_reported(self, ephemeral):
        assert bool(found(known=[known(ephemeral=ephemeral)])) is (ephemeral is not False)

    def test_runners_of_a_pool_without_visible_pods_are_not_reported(self):
        assert found(known=[known(pool="metal"), known("linux-2", pool="metal")]) == []

    @pytest.mark.parametrize(
        ("was_online", "age", "is_reported"),
        [
            (True, 120.0, True),
            (True, 120.0 - MICROSECOND, False),
            (False, 300.0, True),
            (False, 300.0 - MICROSECOND, False),
        ],
    )
    def test_a_runner_that_was_never_online_may_be_registered_before_its_pod_is_made(
        self, was_online, age, is_reported
    ):
        runners = [known(offline_since=NOW - age, first_seen=LONG_AGO if was_online else NOW - age)]
        assert bool(found(known=runners)) is is_reported
        assert bool(found(NOW + 200, known=runners)) is is_reported
        assert bool(found(known=runners, known_at=NOW - 200)) is False

    def test_a_terminating_pod_counts_as_the_runners_pod(self):
        assert found(known=[known()], pods=[pod(deleting_since=NOW)], objects=[runner()]) == []

    def test_a_pod_counts_as_the_runners_pod_by_the_name_in_arcs_status(self):
        assert found(known=[known("jit-7")], pods=[pod()], objects=[runner(runner_name="jit-7")]) == []

    def test_a_pod_with_an_arc_object_is_shown_by_the_object_alone(self):
        is_reported = found(known=[known("jit-7")], objects=[runner(runner_name="jit-7")])
        assert is_reported == [(PhantomKind.OBJECT_WITHOUT_POD, PhantomReason.POD_LOST)]


EVERYTHING = {
    "known": [known("left")],
    "pods": [pod("unknown"), pod("orphan"), pod("late", runner=Container("runner", waiting="ErrImagePull"))],
    "objects": [runner("unknown"), runner("failed", phase="Failed"), runner("bare"), runner("late")],
}


class TestReads:
    @pytest.mark.parametrize(
        ("missing", "kinds"),
        [
            ((), {*PhantomKind} - {PhantomKind.DEMAND_INFLATED}),
            (
                ("known_at",),
                {
                    PhantomKind.FAILED_OBJECT,
                    PhantomKind.OBJECT_WITHOUT_POD,
                    PhantomKind.POD_WITHOUT_OBJECT,
                    PhantomKind.POD_NOT_STARTED,
                },
            ),
            (
                ("objects_at",),
                {PhantomKind.POD_UNKNOWN_TO_GITHUB, PhantomKind.RUNNER_WITHOUT_POD, PhantomKind.POD_NOT_STARTED},
            ),
            (("pods_at",), {PhantomKind.FAILED_OBJECT}),
            (("known_at", "objects_at"), {PhantomKind.POD_NOT_STARTED}),
        ],
        ids=["all read", "without the list", "without the objects", "without the pods", "the pods alone"],
    )
    def test_a_read_that_failed_or_is_old_proves_nothing(self, missing, kinds):
        none = view(**EVERYTHING, **dict.fromkeys(missing))
        old = view(**EVERYTHING, **dict.fromkeys(missing, NOW - 300 - MICROSECOND))
        assert {each.kind for each in phantoms(none, NOW, LIMITS)} == kinds
        assert {each.kind for each in phantoms(old, NOW, LIMITS)} == kinds

    def test_a_read_may_be_as_old_as_the_limit(self):
        just = view(**EVERYTHING, known_at=NOW - 300, pods_at=NOW - 300, objects_at=NOW - 300)
        assert {each.kind for each in phantoms(just, NOW, LIMITS)} == {*PhantomKind} - {PhantomKind.DEMAND_INFLATED}

    def test_a_phantom_has_the_pool_of_its_listed_runner(self):
        is_reported = phantoms(view(objects=[runner(phase="Failed")], known=[known(offline_since=None)]), NOW, LIMITS)
        assert [each.pool for each in is_reported] == ["linux"]

    def test_objects_of_another_org_are_ignored(self):
        assert found(objects=[runner(org="umbrella", phase="Failed")]) == []
        assert len(found(objects=[runner(org="acme", phase="Failed")])) == 1

    @given(st.permutations(["a", "b", "c", "d"]))
    def test_the_order_of_reading_changes_nothing(self, names):
        is_reported = phantoms(view(objects=[runner(each) for each in names]), NOW, LIMITS)
        assert [each.subject for each in is_reported] == ["a", "b", "c", "d"]

    @given(st.floats(LONG_AGO, NOW))
    def test_reads_taken_while_everything_was_young_report_nothing(self, born):
        young = min(born + 119.0, NOW)
        things = view(
            known=[known("left", first_seen=born, offline_since=born)],
            pods=[pod("x", created_at=born, runner=Container("runner", running_since=born))],
            objects=[runner("y", created_at=born)],
            known_at=young,
            pods_at=young,
            objects_at=young,
        )
        assert [each for each in phantoms(things, young + 300, LIMITS) if each.is_old] == []

    def test_every_reason_has_one_sentence_of_advice(self):
        for reason in PhantomReason:
            assert ADVICE[reason].count(". ") == 0
            assert ADVICE[reason].endswith(".")


@pytest.mark.parametrize(
    ("reason", "is_plain_pod", "command"),
    [
        (PhantomReason.POD_LOST, False, "kubectl -n runners delete ephemeralrunner 'x y'"),
        (PhantomReason.FAILED_COUNTS_AS_CAPACITY, False, "kubectl -n runners delete ephemeralrunner 'x y'"),
        (PhantomReason.NOT_REGISTERED, False, "kubectl -n runners delete ephemeralrunner 'x y'"),
        (PhantomReason.NOT_REGISTERED, True, "kubectl -n runners delete pod 'x y'"),
        (PhantomReason.HANGS_AFTER_JOB, False, "kubectl -n runners delete ephemeralrunner 'x y'"),
        (PhantomReason.HANGS_AFTER_JOB, True, "kubectl -n runners delete pod 'x y'"),
        (PhantomReason.POD_NEVER_MADE, False, "kubectl -n runners describe ephemeralrunner 'x y'"),
        (PhantomReason.OBJECT_GONE, False, "kubectl -n runners get pod 'x y' -o 'jsonpath={.metadata.finalizers}'"),
        (PhantomReason.INIT_FAILED, False, "kubectl -n runners logs 'x y' --all-containers --prefix"),
        (PhantomReason.POD_REJECTED, False, "kubectl -n runners describe pod 'x y'"),
        (PhantomReason.UNSCHEDULABLE, False, "kubectl -n runners describe pod 'x y'"),
        (PhantomReason.IMAGE_NOT_PULLED, False, "kubectl -n runners describe pod 'x y'"),
        (PhantomReason.CONTAINER_NOT_CREATED, False, "kubectl -n runners describe pod 'x y'"),
        (
            PhantomReason.DEMAND_INFLATED,
            False,
            "kubectl -n runners get ephemeralrunners -l 'actions.github.com/scale-set-name=x y'",
        ),
        (PhantomReason.MACHINE_GONE, False, ""),
        (PhantomReason.MACHINE_GONE_AT_WORK, False, ""),
    ],
)
def test_the_command_is_for_a_shell_and_deletes_no_pod_of_arc(reason, is_plain_pod, command):
    named = Phantom(PhantomKind.POD_UNKNOWN_TO_GITHUB, "x y", reason, "", namespace="runners")
    assert command_of(named._replace(is_plain_pod=is_plain_pod)) == command


@pytest.mark.parametrize("owner", ["EphemeralRunner", "ReplicaSet", None])
def test_only_a_pod_that_no_ephemeralrunner_owns_is_a_plain_pod(owner):
    unknown = pod(owners=() if owner is None else (Owner(owner, "linux-1", "object-linux-1"),))
    (phantom,) = phantoms(view(pods=[unknown], objects=[runner()]), NOW, LIMITS)
    assert phantom.is_plain_pod is (owner != "EphemeralRunner")


FLEETING = phantoms(view(objects=[runner()]), NOW, LIMITS)


class TestLasting:
    @pytest.mark.parametrize(("stood", "is_reported"), [(300.0, True), (300.0 - MICROSECOND, False)])
    def test_a_phantom_found_by_each_read_for_the_grace_is_reported(self, stood, is_reported):
        before = {key(FLEETING[0]): NOW - stood}
        assert lasting(FLEETING, before, NOW, 300.0) == (FLEETING if is_reported else [], before)

    def test_the_first_read_only_starts_the_clock(self):
        assert lasting(FLEETING, {}, NOW, 300.0) == ([], {key(FLEETING[0]): NOW})

    def test_the_time_counts_while_a_phantom_is_young(self):
        young = [FLEETING[0]._replace(is_old=False)]
        before = {key(FLEETING[0]): NOW - 300.0}
        assert lasting(young, before, NOW, 300.0) == ([], before)
        assert lasting(FLEETING, before, NOW, 300.0) == (FLEETING, before)

    def test_a_phantom_no_longer_found_is_forgotten(self):
        assert lasting([], {key(FLEETING[0]): LONG_AGO}, NOW, 300.0) == ([], {})

    def test_a_clock_that_went_back_restarts_the_grace(self):
        assert lasting(FLEETING, {key(FLEETING[0]): NOW + 999}, NOW, 300.0) == ([], {key(FLEETING[0]): NOW})

    def test_phantoms_differ_by_kind_namespace_and_subject(self):
        one = FLEETING[0]
        others = [
            one._replace(kind=PhantomKind.FAILED_OBJECT),
            one._replace(namespace="other"),
            one._replace(subject="x"),
        ]
        assert len({key(each) for each in [one, *others]}) == 4


class TestAssigned:
    @pytest.mark.parametrize(
        ("changes", "counted"),
        [
            ({"job_id": "7"}, True),
            ({"workflow_run_id": 7}, True),
            ({"workflow_run_id": 0}, True),
            ({"job_id": "7", "phase": "Pending"}, True),
            ({"job_id": "7", "phase": "Failed"}, True),
            ({"job_id": "7", "phase": "Succeeded"}, False),
            ({"job_id": "7", "deleting_since": NOW}, False),
            ({}, False),
        ],
    )
    def test_arc_counts_objects_that_name_a_job(self, changes, counted):
        assert is_assigned(runner(**changes)) is counted
