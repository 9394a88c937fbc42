from __future__ import annotations

import pytest

from ghapp.sandbox.cluster.kubelet import LINES_KEPT
from ghapp.sandbox.cluster.shapes import AssignedJob
from tests.sandbox.apiservers import NOON, PODS, RUNNERS, Api, names, status

LOG = f"{PODS}/a/log"


@pytest.fixture
def api():
    with Api.served() as api:
        yield api


def terminated(pod, container="runner", state="state"):
    return container_status(pod, container)[state]["terminated"]


def container_status(pod, container="runner"):
    return next(one for one in pod["status"]["containerStatuses"] if one["name"] == container)


def conditions(pod):
    return {one["type"]: (one["status"], one.get("reason", "")) for one in pod["status"]["conditions"]}


class TestShapes:
    def test_a_pod_that_is_not_scheduled_reports_no_containers(self, api):
        pod = api.control.pod("runners", "a", node="")
        assert (pod["status"]["phase"], "containerStatuses" in pod["status"]) == ("Pending", False)
        assert "nodeName" not in pod["spec"]
        assert conditions(pod)["PodScheduled"] == ("False", "Unschedulable")

    def test_a_pod_that_does_not_run_yet_waits(self, api):
        pod = api.control.pod("runners", "a", running=False)
        assert container_status(pod)["state"] == {"waiting": {"reason": "ContainerCreating"}}
        started = api.control.container_starts("runners", "a")
        assert container_status(started)["state"] == {"running": {"startedAt": "2027-01-15T08:00:00Z"}}
        assert (started["status"]["phase"], conditions(started)["Ready"]) == ("Running", ("True", ""))

    def test_a_pod_brings_its_service_account_along(self, api):
        api.control.pod("elsewhere", "a", service_account="a")
        assert api.control.names("serviceaccounts", "elsewhere") == ["a", "default"]
        api.control.pod("elsewhere", "b", service_account="a")
        assert api.control.names("serviceaccounts", "elsewhere") == ["a", "default"]

    def test_an_owner_controls(self, api):
        owner = api.control.ephemeral_runner("runners", "a")
        (reference,) = api.control.pod("runners", "a", owner=owner)["metadata"]["ownerReferences"]
        assert reference == {
            "apiVersion": "actions.github.com/v1alpha1",
            "kind": "EphemeralRunner",
            "name": "a",
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def test_a_runner_s_object_is_arc_s(self, api):
        job = AssignedJob(id="77", workflow_run_id=9)
        made = api.control.ephemeral_runner("runners", "a", runner_id=7, job=job, scale_set="gpu", age_seconds=60)
        assert made == api.get(f"{RUNNERS}/a").json()
        assert made["metadata"]["creationTimestamp"] == "2027-01-15T07:59:00Z"
        assert made["metadata"]["labels"]["actions.github.com/scale-set-name"] == "gpu"
        assert made["metadata"]["labels"]["actions.github.com/organization"] == "acme"
        assert len(made["metadata"]["finalizers"]) == 2
        pod_status = made["status"]
        assert (pod_status["phase"], pod_status["ready"], pod_status["runnerId"], pod_status["runnerName"]) == (
            "Running",
            True,
            7,
            "a",
        )
        assert (pod_status["jobId"], pod_status["workflowRunId"]) == ("77", 9)

    def test_a_runner_s_object_without_anything_has_an_empty_status(self, api):
        made = api.control.ephemeral_runner("runners", "a", runner_id=None, phase="", finalizers=())
        assert made["status"] == {}
        assert "finalizers" not in made["metadata"]

    def test_a_name_that_is_taken_is_the_test_s_mistake(self, api):
        api.control.pod("runners", "a")
        with pytest.raises(ValueError, match="already"):
            api.control.pod("runners", "a")

    @pytest.mark.parametrize("control", ["container_ends", "evict", "finish_deletion", "vanish", "preempt"])
    def test_a_control_of_an_unknown_pod_raises(self, api, control):
        with pytest.raises(LookupError, match="no pod 'b' in 'runners'"):
            getattr(api.control, control)("runners", "b")

    def test_a_kind_that_is_not_there_says_which_there_are(self, api):
        with pytest.raises(LookupError, match="ephemeralrunners"):
            api.control.objects("runnerz")


class TestEnds:
    @pytest.mark.parametrize(("code", "phase", "reason"), [(0, "Succeeded", "Completed"), (1, "Failed", "Error")])
    def test_a_pod_is_over_with_its_container(self, api, code, phase, reason):
        api.control.pod("runners", "a", age_seconds=60)
        pod = api.control.container_ends("runners", "a", exit_code=code)
        pod_status = terminated(pod)
        assert (pod["status"]["phase"], pod_status["exitCode"], pod_status["reason"]) == (phase, code, reason)
        assert (pod_status["startedAt"], pod_status["finishedAt"]) == ("2027-01-15T07:59:00Z", "2027-01-15T08:00:00Z")
        assert "signal" not in pod_status
        assert conditions(pod)["Ready"][0] == "False"
        assert pod == api.get(f"{PODS}/a").json()

    def test_an_end_has_the_given_fields(self, api):
        api.control.pod("runners", "a")
        pod = api.control.container_ends("runners", "a", exit_code=137, signal=9, reason="OOMKilled", message="so")
        pod_status = terminated(pod)
        assert (pod_status["exitCode"], pod_status["signal"], pod_status["reason"], pod_status["message"]) == (
            137,
            9,
            "OOMKilled",
            "so",
        )

    def test_a_pod_of_several_containers_runs_until_the_last_has_ended(self, api):
        api.control.pod("runners", "a", containers=("runner", "dind"))
        pod = api.control.container_ends("runners", "a", exit_code=1)
        assert (pod["status"]["phase"], conditions(pod)["Ready"]) == ("Running", ("False", "ContainersNotReady"))
        pod = api.control.container_ends("runners", "a", container="dind")
        assert pod["status"]["phase"] == "Failed"

    def test_a_container_that_starts_again_keeps_how_it_ended(self, api):
        api.control.pod("runners", "a")
        pod = api.control.container_ends("runners", "a", exit_code=2, restart=True, log=["first"])
        pod_status = container_status(pod)
        assert (pod["status"]["phase"], pod_status["restartCount"]) == ("Running", 1)
        assert "running" in pod_status["state"]
        assert terminated(pod, state="lastState")["exitCode"] == 2
        assert api.get(LOG).text == ""
        assert api.get(LOG, params={"previous": "true"}).text == "first\n"

    def test_an_eviction_is_the_pod_s_own_end(self, api):
        api.control.pod("runners", "a")
        pod = api.control.evict("runners", "a", message="too much")
        assert (pod["status"]["phase"], pod["status"]["reason"], pod["status"]["message"]) == (
            "Failed",
            "Evicted",
            "too much",
        )
        assert conditions(pod)["DisruptionTarget"] == ("True", "TerminationByKubelet")
        assert terminated(pod)["exitCode"] == 137

    def test_an_eviction_may_leave_the_containers_unreported(self, api):
        api.control.pod("runners", "a")
        pod = api.control.evict("runners", "a", exit_code=None)
        assert "running" in container_status(pod)["state"]

    def test_preemption_is_a_condition_and_a_deletion(self, api):
        api.control.pod("runners", "a")
        pod = api.control.preempt("runners", "a")
        assert conditions(pod)["DisruptionTarget"] == ("True", "PreemptionByScheduler")
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 30

    def test_a_lost_node_leaves_its_pods_as_they_were_last_seen(self, api):
        for name, node in (("a", "node-1"), ("b", "node-2"), ("c", "node-1")):
            api.control.pod("runners", name, node=node)
        assert api.control.node_lost("node-1") == ["a", "c"]
        pod = api.get(f"{PODS}/a").json()
        assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Running", "NodeLost")
        assert "running" in container_status(pod)["state"]
        assert conditions(pod)["Ready"][0] == "False"
        assert "deletionTimestamp" not in pod["metadata"]
        assert conditions(api.get(f"{PODS}/b").json())["Ready"][0] == "True"
        assert status(api.get(LOG))[:2] == (500, "InternalError")

    def test_the_pods_of_a_lost_node_are_deleted_in_the_end(self, api):
        api.control.pod("runners", "a")
        api.control.node_lost("node-1", deletes=True)
        pod = api.get(f"{PODS}/a").json()
        assert conditions(pod)["DisruptionTarget"] == ("True", "DeletionByTaintManager")
        assert "deletionTimestamp" in pod["metadata"]

    def test_a_pod_that_vanishes_has_no_end(self, api):
        api.control.pod("runners", "a", finalizers=("x.dev/y",))
        with api.watching(PODS, api.version()) as watch:
            api.control.vanish("runners", "a")
            (deleted,) = watch.so_far()
        assert (deleted["type"], deleted["object"]["status"]["phase"]) == ("DELETED", "Running")
        assert names(api.get(PODS)) == []


class TestLogs:
    def test_a_log_is_plain_text(self, api):
        api.control.pod("runners", "a")
        api.control.set_log("runners", "a", ["one", "two"])
        answer = api.get(LOG)
        assert (answer.text, answer.headers["content-type"].partition(";")[0]) == ("one\ntwo\n", "text/plain")

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ({"tailLines": "2"}, "two\nthree\n"),
            ({"tailLines": "0"}, ""),
            ({"tailLines": "9"}, "one\ntwo\nthree\n"),
            ({"limitBytes": "5"}, "one\nt"),
            ({"sinceSeconds": "10"}, "three\n"),
            ({"sinceSeconds": "30"}, "one\ntwo\nthree\n"),
            ({"sinceTime": "2027-01-15T07:59:50Z"}, "three\n"),
            ({"timestamps": "true", "tailLines": "1"}, "2027-01-15T07:59:50.000000000Z three\n"),
            ({"container": "runner", "tailLines": "1"}, "three\n"),
        ],
        ids=str,
    )
    def test_part_of_it_can_be_asked_for(self, api, query, text):
        api.control.pod("runners", "a")
        api.control.set_log("runners", "a", ["one", "two"], age_seconds=30)
        api.clock.now = NOON - 10
        api.control.container_ends("runners", "a", log=["three"])
        api.clock.now = NOON
        assert api.get(LOG, params=query).text == text

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({}, "a container name must be specified for pod a, choose one of: [runner dind]"),
            ({"container": "sidecar"}, "container sidecar is not valid for pod a"),
            ({"container": "runner"}, 'container "runner" in pod "a" is waiting to start: ContainerCreating'),
            (
                {"container": "runner", "previous": "true"},
                'previous terminated container "runner" in pod "a" not found',
            ),
        ],
        ids=str,
    )
    def test_what_cannot_be_asked_for_is_a_bad_request(self, api, query, expected):
        api.control.pod("runners", "a", containers=("runner", "dind"), running=False)
        assert status(api.get(LOG, params=query)) == (400, "BadRequest", expected)

    def test_a_log_is_deleted_with_its_pod(self, api):
        assert status(api.get(LOG))[:2] == (404, "NotFound")
        api.control.pod("runners", "a")
        api.control.set_log("runners", "a", ["old"])
        api.control.vanish("runners", "a")
        api.control.pod("runners", "a")
        assert api.get(LOG).text == ""

    @pytest.mark.parametrize("more", [0, 1], ids=["at the bound", "one past it"])
    def test_the_oldest_lines_of_a_long_log_are_dropped(self, api, more):
        api.control.pod("runners", "a")
        api.control.set_log("runners", "a", map(str, range(LINES_KEPT - 1)))
        api.control.container_ends("runners", "a", log=["x", "y"][: 1 + more])
        lines = api.get(LOG).text.splitlines()
        assert (len(lines), lines[0], lines[-1]) == (LINES_KEPT, str(more), "xy"[more])

    def test_no_log_is_kept_of_pods_that_are_deleted(self, api):
        for previous in (False, True):
            api.control.pod("runners", "a")
            api.control.set_log("runners", "a", ["old"], previous=previous)
            api.control.vanish("runners", "a")
        kept = api.server.cluster.logs
        assert (kept._now, kept._previous) == ({}, {})
