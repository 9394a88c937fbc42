"""Deployments to the shards of a blue/green pool."""

from __future__ import annotations

from typing import Any

from ghapp.sandbox.control.controls import Controls, NoSuchThingError, exposed, known
from ghapp.sandbox.organizations import Organization


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
