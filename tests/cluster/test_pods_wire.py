"""Parsing of pods, whatever fields are missing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.cluster.wire import envelope, pods
from ghapp.errors import ClusterUnavailableError
from ghapp.pods.pod import Container, Ended, Owner, Pod
from tests.cluster.shapes import CREATED_AT, KILLED, RUNNING, encoded, listed, pod


def read(**parts) -> Pod:
    return pods.pod(encoded(pod(**parts)))


def status_of(*statuses):
    """`status` with the kubelet's word on these containers."""
    return {"containerStatuses": [{"restartCount": 0, **each} for each in statuses]}


def containers(*names):
    return {"containers": [{"name": name} for name in names]}


def test_a_running_pod_is_read_whole():
    assert read() == Pod(
        namespace="runners",
        name="linux-4vcpu-x7k2p-runner-abcde",
        uid="0a1b",
        version="412",
        created_at=CREATED_AT,
        phase="Running",
        node="node-1",
        labels={"actions.github.com/scale-set-name": "linux-4vcpu"},
        owners=(Owner("EphemeralRunner", "linux-4vcpu-x7k2p-runner-abcde", "9f8e"),),
        service_account="linux-4vcpu-gha-rs-no-permission",
        runner=Container("runner", running_since=CREATED_AT + 5),
        container="runner",
        image="ghcr.io/actions/actions-runner:2.336.0",
    )


def limited(memory):
    return {"limits": {"memory": memory}}


@pytest.mark.parametrize(
    ("spec", "in_force", "pod", "pod_in_force", "limit"),
    [
        (limited("8Gi"), None, None, None, "8Gi"),
        (limited("8Gi"), limited("4Gi"), None, None, "4Gi"),
        (limited("8Gi"), {}, None, None, ""),
        (limited("8Gi"), limited("4Gi"), limited("16Gi"), limited("12Gi"), "4Gi"),
        (None, None, limited("16Gi"), None, "16Gi"),
        (None, {}, limited("16Gi"), limited("12Gi"), "12Gi"),
        ({"limits": {"cpu": "2"}}, {"limits": None}, limited("16Gi"), None, "16Gi"),
        (None, None, None, None, ""),
    ],
    ids=[
        "no resources in the status",
        "a pending resize",
        "a pending first limit",
        "both have limits",
        "the pod's limit",
        "a pending resize of the pod",
        "no memory",
        "none",
    ],
)
def test_the_memory_limit_is_the_one_in_force_of_the_container_or_else_of_the_pod(
    spec, in_force, pod, pod_in_force, limit
):
    status = {"name": "runner", "state": RUNNING} | ({} if in_force is None else {"resources": in_force})
    found = read(
        spec={"containers": [{"name": "runner", "resources": spec}], "resources": pod},
        status={"containerStatuses": [status], "resources": pod_in_force},
    )
    assert found.memory_limit == limit


@pytest.mark.parametrize(
    ("resources", "limit"),
    [
        (None, ""),
        ({}, ""),
        ({"limits": None}, ""),
        ({"limits": {"cpu": "2"}, "requests": {"memory": "4Gi"}}, ""),
        ({"limits": {"cpu": "2", "memory": "8Gi"}}, "8Gi"),
        ({"limits": {"memory": 1024}}, "1024"),
    ],
    ids=["no-resources", "empty", "null", "no-limit-of-memory", "limit", "bytes"],
)
def test_the_image_and_the_memory_limit_are_those_of_the_runner_s_container(resources, limit):
    side = {"name": "dind", "image": "docker:dind", "resources": {"limits": {"memory": "1Gi"}}}
    found = read(spec={"containers": [side, {"name": "runner", "image": "runner:7", "resources": resources}]})
    assert (found.image, found.memory_limit) == ("runner:7", limit)


def test_an_end_is_read_whole():
    end = {"terminated": {**KILLED["terminated"], "signal": 9, "message": "out of memory"}}
    assert read(status=status_of({"name": "runner", "state": end})).runner == Container(
        "runner", ended=Ended(137, 9, "OOMKilled", "out of memory", CREATED_AT + 5, CREATED_AT + 1800)
    )


def test_an_end_that_the_kubelet_lost_has_no_times_and_no_signal():
    lost = {"exitCode": 137, "signal": 0, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}
    found = read(status=status_of({"name": "runner", "state": {"terminated": lost}}))
    assert found.ended == Ended(137, None, "ContainerStatusUnknown")


def test_a_restarted_container_shows_how_it_ended_before():
    found = read(status=status_of({"name": "runner", "state": RUNNING, "lastState": KILLED, "restartCount": 2}))
    assert found.runner is not None
    assert (found.is_running, found.runner.restarts) == (True, 2)
    assert found.ended is not None
    assert found.ended.reason == "OOMKilled"


@pytest.mark.parametrize(
    ("state", "waiting"),
    [
        pytest.param({"waiting": {"reason": "ImagePullBackOff", "message": "…"}}, "ImagePullBackOff", id="reason"),
        pytest.param({"waiting": {}}, "Waiting", id="no-reason"),
    ],
)
def test_a_waiting_container_has_its_reason(state, waiting):
    message = state["waiting"].get("message", "")
    expected = Container("runner", waiting=waiting, waiting_message=message)
    assert read(status=status_of({"name": "runner", "state": state})).runner == expected


def test_init_containers_that_did_not_complete_are_read_with_their_ends():
    """As the kubelet reports a pod that an init container failed: its containers may have no status at all."""
    failed = {"name": "init", "state": {"terminated": {"exitCode": 1, "message": "no space"}}, "restartCount": 0}
    done = {"name": "certs", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}, "restartCount": 0}
    status = {"phase": "Failed", "containerStatuses": None, "initContainerStatuses": [done, failed]}
    found = read(status=status)
    assert (found.runner, found.init) == (None, (Container("init", ended=Ended(1, message="no space")),))


@pytest.mark.parametrize(
    ("condition", "unschedulable"),
    [
        (
            {"status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"},
            "0/3 nodes are available",
        ),
        ({"status": "False", "reason": "SchedulingGated"}, "SchedulingGated"),
        ({"status": "False"}, "Unschedulable"),
        ({"status": "True", "message": "x"}, ""),
    ],
)
def test_the_scheduler_s_message_is_read_while_no_node_takes_the_pod(condition, unschedulable):
    status = {"phase": "Pending", "conditions": [{"type": "PodScheduled", **condition}]}
    assert read(status=status).unschedulable == unschedulable


def test_a_job_that_runs_since_an_unknown_time_still_runs():
    found = read(status=status_of({"name": "runner", "state": {"running": {"startedAt": None}}}))
    assert (found.is_running, found.runner) == (True, Container("runner", running_since=CREATED_AT))


def test_of_contradicting_states_the_one_that_forbids_most_is_believed():
    found = read(status=status_of({"name": "runner", "state": {**RUNNING, **KILLED, "waiting": {"reason": "x"}}}))
    assert found.runner == Container("runner", running_since=CREATED_AT + 5)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"phase": "Pending", "containerStatuses": None}, id="pending"),
        pytest.param({"containerStatuses": []}, id="no statuses"),
        pytest.param({"containerStatuses": [{"name": "dind", "state": RUNNING}]}, id="another container's status"),
    ],
)
def test_a_status_without_the_runner_s_container_has_none(status):
    found = read(status=status)
    assert (found.runner, found.container, found.is_runners) == (None, "runner", True)


@pytest.mark.parametrize("part", ["spec", "status"])
def test_a_whole_part_may_be_missing(part):
    assert read(**{part: None}).name == "linux-4vcpu-x7k2p-runner-abcde"


def test_nulls_count_as_missing():
    body = pod()
    for part, keys in (
        ("metadata", ("labels", "annotations", "ownerReferences", "finalizers", "deletionTimestamp")),
        ("spec", ("containers", "nodeName", "serviceAccountName")),
        ("status", ("phase", "reason", "message", "conditions", "containerStatuses")),
    ):
        body[part] |= dict.fromkeys(keys)
    found = pods.pod(encoded(body))
    assert found == Pod("runners", found.name, "0a1b", "412", CREATED_AT)


DIND, OURS, SIDE = ({"name": name, "state": RUNNING} for name in ("dind", "runner", "agent"))


@pytest.mark.parametrize(
    ("names", "default", "statuses", "chosen"),
    [
        pytest.param(("dind", "runner", "agent"), "dind", (SIDE, DIND, OURS), "runner", id="called-runner"),
        pytest.param(("dind", "agent"), "agent", (DIND, SIDE), "agent", id="annotation"),
        pytest.param(("dind", "agent"), "missing", (SIDE, DIND), "dind", id="annotation-names-none"),
        pytest.param(("dind", "agent"), None, (SIDE, DIND), "dind", id="first-of-spec-not-of-status"),
        pytest.param((), None, (DIND,), "dind", id="no-spec"),
    ],
)
def test_of_several_containers_the_runner_s_is_chosen(names, default, statuses, chosen):
    annotations = None if default is None else {"kubectl.kubernetes.io/default-container": default}
    found = read(metadata={"annotations": annotations}, spec=containers(*names), status=status_of(*statuses))
    assert found.runner is not None
    assert found.runner.name == chosen


def test_an_init_container_is_not_the_runner():
    body = pod(spec={"initContainers": [{"name": "runner"}], **containers("agent")})
    body["status"] |= {"initContainerStatuses": [{"name": "runner", "state": KILLED}], **status_of(SIDE)}
    assert pods.pod(encoded(body)).runner == Container("agent", running_since=CREATED_AT + 5)


@pytest.mark.parametrize(
    ("names", "sidecars", "others"),
    [
        pytest.param(("runner", "dind", "proxy"), ("mesh",), (), id="beside-runner-nothing-is-the-agent"),
        pytest.param(("proxy", "agent"), (), ("agent",), id="without-runner-any-container-may-be"),
        pytest.param(("proxy",), ("agent",), ("agent",), id="a-sidecar-that-is-always-restarted-may-be"),
        pytest.param(("proxy",), ("runner",), ("runner",), id="also-when-it-is-called-runner"),
    ],
)
def test_the_containers_that_may_run_the_agent(names, sidecars, others):
    init = [{"name": "setup"}, *({"name": name, "restartPolicy": "Always"} for name in sidecars)]
    running = [{"name": name, "state": RUNNING, "restartCount": 0} for name in sidecars]
    reported = status_of(*({"name": name, "state": RUNNING} for name in names))
    spec = {"initContainers": init, **containers(*names)}
    found = read(spec=spec, status={"initContainerStatuses": running, **reported})
    assert found.others == tuple(Container(name, running_since=CREATED_AT + 5) for name in others)
    unreported = read(spec=spec, status={"containerStatuses": None})
    assert unreported.others == tuple(map(Container, others))


@pytest.mark.parametrize(
    ("condition", "disruption"),
    [
        pytest.param({"status": "True", "reason": "PreemptionByScheduler"}, "PreemptionByScheduler", id="holds"),
        pytest.param({"status": "True"}, "DisruptionTarget", id="without-a-reason"),
        pytest.param({"status": "False", "reason": "PreemptionByScheduler"}, "", id="does-not-hold"),
    ],
)
def test_a_disruption_is_a_condition_that_holds(condition, disruption):
    status = {"conditions": [{"type": "Ready", "status": "True"}, {"type": "DisruptionTarget", **condition}]}
    assert read(status=status).disruption == disruption


def test_an_evicted_pod_is_recognized_by_its_status():
    found = read(status={"phase": "Failed", "reason": "Evicted", "message": "low on memory", "containerStatuses": None})
    assert (found.phase, found.reason, found.message, found.runner) == ("Failed", "Evicted", "low on memory", None)


@pytest.mark.parametrize(
    ("grace", "since"),
    [pytest.param(30, CREATED_AT + 30, id="grace"), pytest.param(None, CREATED_AT + 60, id="none")],
)
def test_deletion_was_asked_for_before_its_grace(grace, since):
    meta = {"deletionTimestamp": "2026-11-20T12:01:00Z", "deletionGracePeriodSeconds": grace}
    assert read(metadata=meta).deleting_since == since


@pytest.mark.parametrize("key", ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"])
@pytest.mark.parametrize("how", ["missing", "empty"])
def test_required_fields_must_be_present(key, how):
    body = pod(metadata={key: None})
    if how == "empty":
        body["metadata"][key] = ""
    with pytest.raises(ClusterUnavailableError, match="not what its API describes"):
        pods.pod(encoded(body))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"<html>", id="a-page"),
        pytest.param(b"{}", id="an-empty-object"),
        pytest.param(encoded({"items": []}), id="no-metadata"),
        pytest.param(encoded({"metadata": {"resourceVersion": "1"}}), id="no-items"),
        pytest.param(encoded(listed([], version="")), id="no-version"),
        pytest.param(encoded(listed([], version="0")), id="any-version"),
        pytest.param(b'{"metadata": {"resourceVersion": "1", "continue": "\xff"}, "items": []}', id="no-utf-8"),
    ],
)
def test_a_body_without_a_list_is_not_an_empty_list(body):
    with pytest.raises(ClusterUnavailableError):
        pods.pods(body)


def test_a_null_list_of_go_is_an_empty_list():
    assert pods.pods(encoded(listed([]) | {"items": None})) == envelope.ObjectPage([], "500", "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON, st.sampled_from(["metadata", "spec", "status"]))
def test_any_body_is_a_pod_or_no_answer(value, part):
    body = pod()
    body[part] = value
    try:
        found = pods.pod(msgspec.json.encode(body))
    except ClusterUnavailableError:
        return
    assert found.uid == "0a1b"
