"""Incidents of runners that are pods; 404 where the sandbox has no cluster.

Each control chooses runners by itself, and answers with nothing while no runner is in the state that it needs.
"""

from __future__ import annotations

from ghapp.sandbox.control.controls import Controls, NoSuchThingError, exposed
from ghapp.sandbox.fleet_pods import FleetPods

NOTICED_AFTER_SECONDS = 8.0
"""From a runner's death until GitHub ends its job; on GitHub it takes ten minutes."""


class RunnerPodControls(Controls):
    """Controls of pods: killed, forgotten and lost ones."""

    fleet_pods: FleetPods | None = None

    @exposed
    def out_of_memory(self, org: str) -> int:
        """The kernel kills the container of a runner with a job; GitHub ends the job a little later.

        Returns the job's id, or 0 while no runner in the cluster has a job.
        """
        place = self._org(org)
        pod = self._pods().out_of_memory(place)
        job = None if pod is None else pod.runner.job
        if job is None:
            return 0
        job.abandoned = True

        def end(at: float) -> None:
            job.fail_without_runner()
            place.fleet.abandon(job, at, "failure")
            if job.runner_id is not None and pod is not None:
                place.fleet.boot(pod.runner.pool, at)

        self._undo_after(NOTICED_AFTER_SECONDS, end)
        return job.id

    @exposed
    def forget_pods(self, org: str, *, count: int = 1) -> list[str]:
        """The jobs of so many runners end, and their controller forgets the pods; a sidecar runs on in each.

        Returns the names of the pods; none while fewer runners have a job.
        """
        return [pod.name for pod in self._pods().forget(self._org(org), count)]

    @exposed
    def lose_pod(self, org: str) -> str:
        """The pod of an idle runner of ARC's is lost, its EphemeralRunner and its registration stay.

        Returns the runner's name, empty while none is idle.
        """
        pod = self._pods().lose_pod(self._org(org))
        return "" if pod is None else pod.name

    def _pods(self) -> FleetPods:
        if self.fleet_pods is None:
            raise NoSuchThingError("this sandbox has no cluster; start it with --kubeconfig")
        return self.fleet_pods
