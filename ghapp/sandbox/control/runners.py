"""Incidents of runners.

Runners are chosen by `ids` or by a `count`, at random and idle ones first, from a `pool` or from all; the controls
return the list of ids. Where they take an organization, they take `owner/repository` and `enterprises/slug`, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ghapp.sandbox.control.controls import FOREVER, Controls, NoSuchThingError, exposed, known
from ghapp.sandbox.fleet.runners import GroupAccess
from ghapp.sandbox.fleet.versions import VersionEnd


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
