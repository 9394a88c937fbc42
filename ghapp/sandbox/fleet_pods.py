"""The runners of a fleet as pods of the simulated cluster, and the controllers that create and delete those pods.

Pools with `pods="arc"` have an EphemeralRunner and its pod for each runner, as of Actions Runner Controller. Pools with
`pods="own"` have a labelled pod with a ServiceAccount for each runner, as of a controller of one's own. `follow` is
called in the world's thread. It brings the cluster up to date with the fleet, and replaces runners whose object or pod
was deleted in the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ghapp.sandbox.cluster.control import ClusterControl
from ghapp.sandbox.cluster.shapes import AssignedJob
from ghapp.sandbox.config import PoolPods
from ghapp.sandbox.controller import Controller
from ghapp.sandbox.fleet.runners import Runner
from ghapp.sandbox.organizations import Organization
from ghapp.sandbox.people import READ_BY_MEMBERS
from ghapp.sandbox.world import World

NAMESPACE = "runners"
OWNER_LABEL = "ghapp.dev/owner"
KINDS: dict[PoolPods, str] = {"arc": "ephemeralrunners", "own": "pods"}
"""What a controller creates for a runner; ARC creates the pod in turn."""

CONTAINERS: dict[PoolPods, tuple[str, ...]] = {"arc": ("runner",), "own": ("runner", "dind")}
OLD_SECONDS = 600.0
"""Age of the pods at the start."""

CLEANUP_SECONDS = 3.0
"""From the end of a runner to the deletion of its pod by its controller."""

JOB_DONE_LOG = (
    "Running job: test",
    "Job test completed with result: Succeeded",
    "Runner listener exit with 0 return code, stop the service, no retry needed.",
)
OUT_OF_MEMORY_LOG = (
    "Running job: test",
    "npm run build: heap 7.4 GiB of 8 GiB",
)
VERSION_REFUSED_LOG = "An error occured: Runner version v{version} is deprecated and cannot receive messages."
KILLED, TERMINATED, REFUSED = 137, 143, 7


@dataclass(slots=True)
class RunnerPod:
    """A runner in the cluster.

    Attributes:
        ended_at: when its runner's end was noticed (epoch seconds); None while the runner exists.
        job_id: the job in the status of its EphemeralRunner; 0 for none.
        is_forgotten: its controller does not delete it.
    """

    org: Organization
    runner: Runner
    pods: PoolPods
    ended_at: float | None = None
    job_id: int = 0
    is_forgotten: bool = False

    @property
    def name(self) -> str:
        """The name of the runner, of its pod, and of the pod's owner."""
        return self.runner.name


class FleetPods:
    """All pods of a world's runners."""

    def __init__(self, world: World, controller: Controller, cluster: ClusterControl) -> None:
        self._world, self._controller, self._cluster = world, controller, cluster
        self._pods: dict[int, RunnerPod] = {}
        cluster.namespace(NAMESPACE)
        cluster.kubelet_deletes_after(1)
        for org, runner, pods in self._runners():
            self._create(org, runner, pods, OLD_SECONDS)

    def follow(self) -> None:
        """Creates and deletes what the fleet's changes require, and replaces runners whose object was deleted."""
        present = {runner.id: (org, runner, pods) for org, runner, pods in self._runners()}
        for runner_id, (org, runner, pods) in present.items():
            if runner_id not in self._pods and runner.alive:
                self._create(org, runner, pods, 0)
        for runner_id, pod in list(self._pods.items()):
            if self._is_deleted(pod):
                self._finish_deletion(pod, is_running=runner_id in present)
                del self._pods[runner_id]
            elif runner_id not in present:
                self._end(pod)
            else:
                self._show_job(pod)

    # Failures

    def out_of_memory(self, org: Organization) -> RunnerPod | None:
        """Kills the container of a runner with a job; returns its pod, None if no runner in the cluster has one.

        The job is of a repository that members read, if the organization has one: its developer is looked for.
        """
        shown = READ_BY_MEMBERS.intersection(org.repositories) or set(org.repositories)
        busy = ((each.runner.job, each) for each in self._of(org))
        pod = next((pod for job, pod in busy if job is not None and job.repository.name in shown), None)
        if pod is not None:
            self._cluster.container_ends(
                NAMESPACE, pod.name, exit_code=KILLED, reason="OOMKilled", log=OUT_OF_MEMORY_LOG
            )
            org.fleet.take_offline([pod.runner], alive=False)
        return pod

    def forget(self, org: Organization, count: int) -> list[RunnerPod]:
        """Has the own controller forget the pods of so many runners with a job, and completes the jobs."""
        busy = [each for each in self._of(org) if each.pods == "own" and each.runner.job is not None]
        chosen = busy[:count] if len(busy) >= count else []
        for pod in chosen:
            assert pod.runner.job is not None  # noqa: S101 - chosen for it
            pod.is_forgotten = True
            org.fleet.finish(pod.runner.job, self._world.now(), "success")
        return chosen

    def lose_pod(self, org: Organization) -> RunnerPod | None:
        """Removes the pod of an idle runner of ARC's; its EphemeralRunner and its registration stay."""
        pod = next((each for each in self._of(org) if each.pods == "arc" and each.runner.waiting), None)
        if pod is not None:
            self._cluster.vanish(NAMESPACE, pod.name)
            org.fleet.take_offline([pod.runner], alive=False)
        return pod

    def delete_objects_without_pod(self, org: Organization) -> list[RunnerPod]:
        """Deletes the EphemeralRunners whose pods were lost, as a person does; their runners are replaced."""
        lost = [
            each
            for each in self._pods.values()
            if each.org is org
            and each.pods == "arc"
            and not each.runner.alive
            and self._cluster.object("pods", NAMESPACE, each.name) is None
            and not self._is_deleted(each)
        ]
        for each in lost:
            self._cluster.delete(KINDS["arc"], NAMESPACE, each.name)
        return lost

    def _of(self, org: Organization) -> Iterator[RunnerPod]:
        return (each for each in self._pods.values() if each.org is org and each.runner.alive)

    def _runners(self) -> Iterator[tuple[Organization, Runner, PoolPods]]:
        for org in self._world.orgs.values():
            kinds = {pool.name: pool.pods for pool in org.fleet.pools.values() if pool.pods}
            for runners in (org.fleet.roster.registered, org.fleet.roster.zombies) if kinds else ():
                yield from ((org, each, kinds[each.pool]) for each in list(runners.values()) if each.pool in kinds)

    def _create(self, org: Organization, runner: Runner, pods: PoolPods, age_seconds: float) -> None:
        self._pods[runner.id] = RunnerPod(org, runner, pods)
        if pods == "arc":
            owner = self._cluster.ephemeral_runner(
                NAMESPACE,
                runner.name,
                runner_id=runner.id,
                scale_set=runner.pool,
                org=org.login,
                age_seconds=age_seconds,
            )
            labels, account = owner["metadata"]["labels"], "default"
        else:
            owner, labels, account = None, {OWNER_LABEL: runner.pool}, runner.name
        self._cluster.pod(
            NAMESPACE,
            runner.name,
            labels=labels,
            owner=owner,
            service_account=account,
            containers=CONTAINERS[pods],
            node=f"node-{runner.id % 3 + 1}",
            age_seconds=age_seconds,
        )

    def _is_deleted(self, pod: RunnerPod) -> bool:
        """True if another client than its controller deleted it, or began to."""
        found = self._cluster.object(KINDS[pod.pods], NAMESPACE, pod.name)
        return found is None or "deletionTimestamp" in found["metadata"]

    def _finish_deletion(self, pod: RunnerPod, *, is_running: bool) -> None:
        if not pod.is_forgotten:
            self._delete(pod)
        if is_running:
            barren = self._controller.barren
            if pod.pods == "arc" and not pod.runner.alive:  # ARC removes the registration of an object that is deleted
                pod.org.fleet.retire(pod.runner, self._world.now())
            self._world.replace_runner(pod.org, pod.runner.id, pod.runner.pool, barren=barren)

    def _end(self, pod: RunnerPod) -> None:
        """Ends the container of a runner that has ended, and deletes the pod a little later."""
        now = self._world.now()
        if pod.ended_at is None:
            pod.ended_at = now
            found = self._cluster.object("pods", NAMESPACE, pod.name)
            statuses = [] if found is None else found["status"].get("containerStatuses", [])
            if any(each["name"] == "runner" and "running" in each["state"] for each in statuses):
                if pod.runner.refused:
                    log = (VERSION_REFUSED_LOG.format(version=pod.runner.version),)
                    self._cluster.container_ends(NAMESPACE, pod.name, exit_code=REFUSED, reason="Error", log=log)
                else:
                    self._cluster.container_ends(NAMESPACE, pod.name, log=JOB_DONE_LOG)
        elif not pod.is_forgotten and now - pod.ended_at >= CLEANUP_SECONDS:
            self._delete(pod)
            del self._pods[pod.runner.id]

    def _delete(self, pod: RunnerPod) -> None:
        """Deletes all that the cluster has of a runner."""
        if self._cluster.object("pods", NAMESPACE, pod.name) is not None:
            self._cluster.finish_deletion(NAMESPACE, pod.name, exit_code=TERMINATED)
        if pod.pods == "arc" and (found := self._cluster.object(KINDS["arc"], NAMESPACE, pod.name)) is not None:
            if "deletionTimestamp" not in found["metadata"]:
                self._cluster.delete(KINDS["arc"], NAMESPACE, pod.name)
            self._cluster.release(KINDS["arc"], NAMESPACE, pod.name)
        elif pod.pods == "own" and self._cluster.object("serviceaccounts", NAMESPACE, pod.name) is not None:
            self._cluster.delete("serviceaccounts", NAMESPACE, pod.name)

    def _show_job(self, pod: RunnerPod) -> None:
        """Has ARC's object name the job of its runner."""
        job = pod.runner.job
        if pod.pods != "arc" or job is None or job.id == pod.job_id:
            return
        pod.job_id = job.id
        assigned = AssignedJob(str(job.id), job.run_id, repository=job.repository.full_name)
        self._cluster.set_status(
            KINDS["arc"],
            NAMESPACE,
            pod.name,
            jobId=assigned.id,
            jobRequestId=assigned.request_id,
            jobRepositoryName=assigned.repository,
            jobWorkflowRef=assigned.workflow,
            jobDisplayName=assigned.name,
            workflowRunId=assigned.workflow_run_id,
        )
