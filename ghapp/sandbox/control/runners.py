"""Incidents of runners, of their controller and of their pods; deployments to shards.

Runners are chosen by `ids` or by a `count`, at random and idle ones first, from a `pool` or from all; the controls
return the list of ids. Where they take an organization, they take `owner/repository` and `enterprises/slug`, too.

Controls of pods choose runners by themselves, and answer with nothing while no runner is in the state that they need;
404 where the sandbox has no cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ghapp.sandbox.control.controls import FOREVER, Controls, NoSuchThingError, exposed, known
from ghapp.sandbox.fleet.runners import GroupAccess, VersionEnd
from ghapp.sandbox.fleet_pods import FleetPods
from ghapp.sandbox.organizations import Organization

NOTICED_AFTER_SECONDS = 8.0
"""From a runner's death until GitHub ends its job; on GitHub it takes ten minutes."""


class RunnerControls(Controls):
    """Controls of registrations and connections."""

    @exposed
    def lose(
        self,
        org: str,
        *,
        ids: Sequence[int] = (),
        count: int = 0,
        pool: str | None = None,
        seconds: float | None = None,
    ) -> list[int]:
        """Deletes registrations while their processes keep running; the ledger records the time.

        After `seconds` they return with their old ids, unless their runners have ended by then; None: never.
        """
        place = self._place(org)
        runners = self._registered(place, ids, count, pool)
        self.world.lose(place, runners)
        self._undo_after(seconds, lambda at: self.world.restore(place, runners, at))
        return [runner.id for runner in runners]

    @exposed
    def restrict_group(self, org: str, *, repositories: Sequence[str] | None = None) -> None:
        """Restricts the runner group of all runners to these repositories; None: all."""
        place = self._org(org)
        names = tuple(known(place.repositories, name).name for name in repositories or ())
        access = GroupAccess() if repositories is None else GroupAccess("selected", names)
        place.fleet.restrict(access, self.world.now())

    @exposed
    def restore(self, org: str, *, ids: Sequence[int] = ()) -> list[int]:
        """Restores lost registrations, all of them or these."""
        place = self._place(org)
        zombies = place.fleet.roster.zombies
        runners = [known(zombies, runner_id) for runner_id in ids] if ids else list(zombies.values())
        self.world.restore(place, runners, self.world.now())
        return [runner.id for runner in runners]

    @exposed
    def register(self, org: str, *, pool: str, count: int = 1) -> list[int]:
        """Registers new runners, offline at first and online after the settling time."""
        fleet = self._place(org).fleet
        if pool not in fleet.pools:
            raise NoSuchThingError(f"no pool {pool!r}; there are {', '.join(fleet.pools)}")
        runners = [fleet.register(pool) for _ in range(count)]
        for runner in runners:
            fleet.come_online_soon(runner, self.world.now())
        return [runner.id for runner in runners]

    @exposed
    def set_version(
        self, org: str, *, version: str, ids: Sequence[int] = (), count: int = 0, pool: str | None = None
    ) -> list[int]:
        """Changes the version of runners; with `pool` alone that of all its runners, and of those that it starts.

        An empty version is listed as none, as by GitHub Enterprise Server.
        """
        place = self._place(org)
        if pool is not None and not ids and not count:
            if pool not in place.fleet.pools:
                raise NoSuchThingError(f"no pool {pool!r}; there are {', '.join(place.fleet.pools)}")
            place.fleet.starts_version[pool] = version
            count = len(place.fleet.roster.registered)
        runners = self._registered(place, ids, count, pool)
        place.fleet.set_version(runners, version, self.world.now())
        return [runner.id for runner in runners]

    @exposed
    def end_version(self, *, version: str, jobs_in: float | None = None, registration_in: float | None = None) -> None:
        """Releases a version, or changes when it ends, in seconds from now; None: there is no date yet."""
        now = self.world.now()
        at = [None if seconds is None else now + seconds for seconds in (jobs_in, registration_in)]
        self.world.versions.put(version, VersionEnd(*at))
        for place in self.world.orgs.values():
            place.fleet.apply_versions_at(max(now, at[0] or now))

    @exposed
    def take_offline(
        self,
        org: str,
        *,
        ids: Sequence[int] = (),
        count: int = 0,
        pool: str | None = None,
        alive: bool = True,
    ) -> list[int]:
        """Drops connections; `alive`: the processes keep running."""
        place = self._place(org)
        runners = self._registered(place, ids, count, pool)
        place.fleet.take_offline(runners, alive=alive)
        return [runner.id for runner in runners]

    @exposed
    def bring_online(self, org: str, *, ids: Sequence[int] = ()) -> list[int]:
        """Restores the connections of these runners, or of all that are offline."""
        place = self._place(org)
        registered = place.fleet.roster.registered
        offline = [runner.id for runner in registered.values() if not runner.online]
        runners = [known(registered, runner_id) for runner_id in ids or offline]
        place.fleet.bring_online(runners, self.world.now())
        return [runner.id for runner in runners]

    @exposed
    def busy(
        self, org: str, *, ids: Sequence[int] = (), count: int = 0, pool: str | None = None, busy: bool = True
    ) -> list[int]:
        """Makes runners busy without a job, or idle again."""
        place = self._place(org)
        runners = self._registered(place, ids, count, pool)
        place.fleet.hold(runners, self.world.now(), busy=busy)
        return [runner.id for runner in runners]


class ControllerControls(Controls):
    """Controls of a controller that refuses events, or ignores them."""

    @exposed
    def controller_events(self) -> list[dict[str, Any]]:
        """Returns every CloudEvent that the controller accepted, oldest first."""
        return list(self.controller.events)

    @exposed
    def fail_controller(self, *, status: int = 500, seconds: float = FOREVER) -> None:
        """The controller answers every event with this status for a while."""
        self.controller.status = status
        self.controller.status_until = self.world.now() + seconds

    @exposed
    def barren_controller(self, *, barren: bool = True) -> None:
        """The controller accepts events and starts no runners."""
        self.controller.barren = barren


class RunnerPodControls(Controls):
    """Controls of pods: killed, forgotten and lost ones."""

    fleet_pods: FleetPods | None = None

    @exposed
    def out_of_memory(self, org: str) -> list[int | str]:
        """The kernel kills the container of a runner with a job; GitHub ends the job a little later.

        Returns the job's id and the runner's name; nothing while no runner in the cluster has a job of a repository
        that members read.
        """
        place = self._org(org)
        pod = self._pods().out_of_memory(place)
        job = None if pod is None else pod.runner.job
        if pod is None or job is None:
            return []
        job.abandoned = True

        def end(at: float) -> None:
            job.fail_without_runner()
            place.fleet.abandon(job, at, "failure")
            if job.runner_id is not None:
                place.fleet.boot(pod.runner.pool, at)

        self._undo_after(NOTICED_AFTER_SECONDS, end)
        return [job.id, pod.runner.name]

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


class RolloutControls(Controls):
    """Controls of deployments, and of the active shard."""

    @exposed
    def deploy(self, org: str, *, shard: str, badly: bool = False, repository: str | None = None) -> dict[str, Any]:
        """Replaces a shard's machines: all come online again or, with `badly`, one of them.

        Returns their ids as `runners` and the shard's `role`; with a `repository` the deploy has a new commit there,
        `sha`.
        """
        place = self._org(org)
        _require(place, shard)
        sha = ""
        if repository is not None:
            source = known(place.repositories, repository)
            sha = source.push(self.world.now())
        runners = place.shards.deploy(shard, self.world.now(), badly=badly)
        role = "active" if place.shards.active == shard else "inactive"
        return {"shard": shard, "role": role, "runners": [runner.id for runner in runners], "sha": sha}

    @exposed
    def switch(self, org: str, *, shard: str) -> None:
        """Activates a shard: users' jobs run on it from now on."""
        place = self._org(org)
        _require(place, shard)
        place.shards.switch(shard, self.world.now())

    @exposed
    def active_shard(self, org: str) -> str:
        """Returns the active shard; empty where there are no shards."""
        return self._org(org).shards.active


def _require(place: Organization, shard: str) -> None:
    if shard not in place.shards.pools:
        raise NoSuchThingError(f"no shard {shard!r}; there are {', '.join(place.shards.pools) or 'none'}")
