"""What happens to runners.

Where runners are to be named, it is either by `ids` or by a `count`, chosen at random and idle ones first, of a `pool`
or of any; the answer is the list of ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from ghapp.sandbox.control.controls import Controls, NoSuchThingError, known, lever
from ghapp.sandbox.fleet.runners import GroupAccess


class RunnerLevers(Controls):
    """Registrations and connections, gained and lost."""

    @lever
    def lose(
        self,
        org: str,
        *,
        ids: Sequence[int] = (),
        count: int = 0,
        pool: str | None = None,
        seconds: float | None = None,
    ) -> list[int]:
        """Registrations vanish while their processes live on; the moment is kept in the account.

        After `seconds` they come back under their old ids, unless their runners are gone by then; None: never.
        """
        place = self._org(org)
        runners = self._registered(place, ids, count, pool)
        self.world.lose(place, runners)
        self._undo_after(seconds, lambda at: self.world.restore(place, runners, at))
        return [runner.id for runner in runners]

    @lever
    def restrict_group(self, org: str, *, repositories: Sequence[str] | None = None) -> None:
        """Only these repositories may use the runner group that all runners are in; None: all may."""
        place = self._org(org)
        names = tuple(known(place.repositories, name).name for name in repositories or ())
        access = GroupAccess() if repositories is None else GroupAccess("selected", names)
        place.fleet.restrict(access, self.world.now())

    @lever
    def restore(self, org: str, *, ids: Sequence[int] = ()) -> list[int]:
        """Lost registrations come back, all of them or these."""
        place = self._org(org)
        zombies = place.fleet.roster.zombies
        runners = [known(zombies, runner_id) for runner_id in ids] if ids else list(zombies.values())
        self.world.restore(place, runners, self.world.now())
        return [runner.id for runner in runners]

    @lever
    def register(self, org: str, *, pool: str, count: int = 1) -> list[int]:
        """New runners, offline at first and online after the settling time."""
        fleet = self._org(org).fleet
        if pool not in fleet.pools:
            raise NoSuchThingError(f"no pool {pool!r}; there are {', '.join(fleet.pools)}")
        runners = [fleet.register(pool) for _ in range(count)]
        for runner in runners:
            fleet.come_online_soon(runner, self.world.now())
        return [runner.id for runner in runners]

    @lever
    def take_offline(
        self,
        org: str,
        *,
        ids: Sequence[int] = (),
        count: int = 0,
        pool: str | None = None,
        alive: bool = True,
    ) -> list[int]:
        """Connections drop; `alive` says whether the processes are still there."""
        place = self._org(org)
        runners = self._registered(place, ids, count, pool)
        place.fleet.take_offline(runners, alive=alive)
        return [runner.id for runner in runners]

    @lever
    def bring_online(self, org: str, *, ids: Sequence[int] = ()) -> list[int]:
        """Connections are back: of these runners, or of all that are offline."""
        place = self._org(org)
        registered = place.fleet.roster.registered
        offline = [runner.id for runner in registered.values() if not runner.online]
        runners = [known(registered, runner_id) for runner_id in ids or offline]
        place.fleet.bring_online(runners, self.world.now())
        return [runner.id for runner in runners]

    @lever
    def busy(
        self, org: str, *, ids: Sequence[int] = (), count: int = 0, pool: str | None = None, busy: bool = True
    ) -> list[int]:
        """Runners are busy with no job behind it, or are let go of."""
        place = self._org(org)
        runners = self._registered(place, ids, count, pool)
        place.fleet.hold(runners, self.world.now(), busy=busy)
        return [runner.id for runner in runners]
