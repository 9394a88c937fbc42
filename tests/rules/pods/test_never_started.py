"""Why a pod never started its agent: a row for each kind of reason, in the cluster's own sentences."""

from __future__ import annotations

import pytest

from ghapp.pods.never_started import LONGEST_TEXT, why_not_started
from ghapp.pods.phantom_kinds import PhantomKind, PhantomReason
from ghapp.pods.phantoms import PhantomInputs, PhantomLimits, phantoms
from ghapp.pods.pod import Container, Ended
from tests.rules.builders import NOW
from tests.rules.pods.builders import container, pod, pod_of_object, runner_object

R = PhantomReason
FAILED_INIT = Container("init-dind-externals", ended=Ended(1, reason="Error", message="cp: no space left"))
CRASHING_INIT = Container("init", waiting="CrashLoopBackOff", last_ended=Ended(2), restarts=4)
RUNNING_INIT = Container("init", running_since=NOW - 900)
INITIALIZING = Container("runner", waiting="PodInitializing")
PULLING = Container(
    "runner",
    waiting="ImagePullBackOff",
    waiting_message='Back-off pulling image "acme/runner:nope": ErrImagePull: acme/runner:nope: not found',
)
PULL_FAILED = Container("runner", waiting="ErrImagePull", waiting_message="acme/runner:nope: not found")
NO_SECRET = Container("runner", waiting="CreateContainerConfigError", waiting_message='secret "jit" not found')
NO_NODE = (
    "0/12 nodes are available: 3 Insufficient cpu, 9 node(s) had untolerated taint {gpu: true}. "
    "preemption: 0/12 nodes are available: 12 Preemption is not helpful for scheduling."
)
OUT_OF_CPU = "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 1200, capacity: 4000"
AFFINITY = "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
DEVICE = "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu"


def pending(runner=None, **changes):
    return pod(phase="Pending", runner=runner, **changes)


def failed(**changes):
    return pod(phase="Failed", runner=None, **changes)


@pytest.mark.parametrize(
    ("found", "reason", "text"),
    [
        (
            failed(init=(FAILED_INIT,)),
            R.INIT_FAILED,
            "init container init-dind-externals ended with exit code 1: cp: no space left",
        ),
        (pending(INITIALIZING, init=(CRASHING_INIT,)), R.INIT_FAILED, "init container init ended with exit code 2"),
        (failed(reason="OutOfcpu", message=OUT_OF_CPU), R.POD_REJECTED, f"OutOfcpu: {OUT_OF_CPU}"),
        (failed(reason="NodeAffinity", message=AFFINITY), R.POD_REJECTED, f"NodeAffinity: {AFFINITY}"),
        (
            failed(reason="UnexpectedAdmissionError", message=DEVICE),
            R.POD_REJECTED,
            f"UnexpectedAdmissionError: {DEVICE}",
        ),
        (pending(PULLING), R.IMAGE_NOT_PULLED, "acme/runner:nope: not found"),
        (pending(PULL_FAILED), R.IMAGE_NOT_PULLED, "acme/runner:nope: not found"),
        (pending(PULL_FAILED._replace(waiting_message="")), R.IMAGE_NOT_PULLED, "ErrImagePull"),
        (pending(INITIALIZING, init=(PULLING,)), R.IMAGE_NOT_PULLED, "acme/runner:nope: not found"),
        (pending(NO_SECRET), R.CONTAINER_NOT_CREATED, 'CreateContainerConfigError: secret "jit" not found'),
        (pending(Container("runner", waiting="ContainerCreating")), R.CONTAINER_NOT_CREATED, "ContainerCreating"),
        (
            pending(node="", unschedulable=NO_NODE),
            R.UNSCHEDULABLE,
            "Insufficient cpu, node(s) had untolerated taint {gpu: true}",
        ),
    ],
    ids=[
        "Failed by its init container, without a status of its containers",
        "an init container that crashes again and again",
        "rejected for its requests",
        "rejected for its affinity",
        "rejected by a device plugin",
        "an image, backing off",
        "the same image, while it is tried",
        "an image, without a message",
        "the image of an init container",
        "a Secret is missing",
        "no reason is in the pod",
        "no node takes it",
    ],
)
def test_what_never_started_has_the_clusters_reason(found, reason, text):
    assert why_not_started(found) == (reason, text)


@pytest.mark.parametrize(
    "found",
    [
        pod(),
        pod(
            phase="Failed", runner=container(running_since=None, ended=Ended(1)), init=(FAILED_INIT,), reason="Evicted"
        ),
        pending(Container("runner", waiting="CrashLoopBackOff", last_ended=Ended(1), restarts=3)),
        pending(INITIALIZING, init=(RUNNING_INIT,)),
        pending(),
        pending(node="node-a", unschedulable=NO_NODE),
        failed(),
        pod(phase="Succeeded", runner=None, reason="Completed"),
    ],
    ids=[
        "it runs",
        "it ran and was evicted",
        "its agent crashes again and again",
        "its init container works",
        "the kubelet has reported nothing yet",
        "it has a node by now",
        "nothing shows a reason",
        "it is over",
    ],
)
def test_what_started_or_is_on_its_way_has_none(found):
    assert why_not_started(found) is None


@pytest.mark.parametrize(("length", "shown"), [(LONGEST_TEXT, LONGEST_TEXT), (LONGEST_TEXT + 1, LONGEST_TEXT)])
def test_the_clusters_words_are_one_line_of_bounded_length(length, shown):
    found = why_not_started(pending(node="", unschedulable="a\n" + "x" * (length - 2)))
    assert found.text.startswith("a x")
    assert len(found.text) == shown


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"runner": PULLING}, 120.0),
        ({"runner": PULLING._replace(waiting="ContainerCreating", waiting_message="")}, 300.0),
        ({"runner": None, "node": "", "unschedulable": "0/3 nodes are available: 3 Insufficient cpu."}, 300.0),
    ],
    ids=["its image is not pulled", "its container is made, or its image is large", "no node takes it yet"],
)
@pytest.mark.parametrize("over", [0.0, -1.0])
def test_a_pod_that_has_not_started_is_a_phantom_when_it_is_old_enough_for_its_reason(changes, seconds, over):
    late = pod_of_object(phase="Pending", created_at=NOW - seconds - over)._replace(**changes)
    (found,) = phantoms(PhantomInputs("acme", pods=[late], pods_at=NOW), NOW, PhantomLimits())
    assert (found.kind, found.subject, found.is_old) == (PhantomKind.POD_NOT_STARTED, "linux-1", over == 0.0)


def test_a_pod_that_has_not_started_is_shown_with_the_clusters_words():
    late = pod_of_object(phase="Pending", runner=PULLING)
    (found,) = phantoms(PhantomInputs("acme", pods=[late], pods_at=NOW), NOW, PhantomLimits())
    assert found.detail == PULL_FAILED.waiting_message


@pytest.mark.parametrize(
    "changes", [{"deleting_since": NOW - 60}, {"owners": ()}, {"labels": {"actions.github.com/organization": "globex"}}]
)
def test_a_pod_that_is_deleted_no_runners_or_of_another_org_is_none(changes):
    other = pod_of_object(phase="Pending", runner=PULLING)._replace(**changes)
    assert phantoms(PhantomInputs("acme", pods=[other], pods_at=NOW), NOW, PhantomLimits()) == []


def test_an_object_for_which_a_quota_refuses_a_pod_shows_the_refusal():
    why = 'Failed to create the pod: pods "linux-1" is forbidden: exceeded quota: runners, requested: cpu=4'
    refused = runner_object(phase="Failed", reason="InvalidPod", message=why)
    (found,) = phantoms(PhantomInputs("acme", objects=[refused], objects_at=NOW), NOW, PhantomLimits())
    assert (found.kind, found.detail) == (PhantomKind.FAILED_OBJECT, why)
