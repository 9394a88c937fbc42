"""What a deployment does to the shards of a blue/green pool."""

from __future__ import annotations

from typing import Any

from ghapp.sandbox.control.controls import Controls, NoSuchThingError, known, lever
from ghapp.sandbox.organization import Organization


class RolloutLevers(Controls):
    """A shard deployed, well or badly; another one made active."""

    @lever
    def deploy(self, org: str, *, shard: str, badly: bool = False, repository: str | None = None) -> dict[str, Any]:
        """A shard's machines are made anew: all come online again, or, when that is done `badly`, one of them.

        Answers their ids as `runners`; with a `repository` it is deployed from a new commit there, `sha`.
        """
        place = self._org(org)
        _require(place, shard)
        sha = ""
        if repository is not None:
            source = known(place.repositories, repository)
            sha = source.push(self.world.now())
        runners = place.shards.deploy(shard, self.world.now(), badly=badly)
        return {"shard": shard, "runners": [runner.id for runner in runners], "sha": sha}

    @lever
    def switch(self, org: str, *, shard: str) -> None:
        """A shard becomes the active one: users' jobs come to it from now on."""
        place = self._org(org)
        _require(place, shard)
        place.shards.switch(shard, self.world.now())

    @lever
    def active_shard(self, org: str) -> str:
        """Which shard is active; empty where there are none."""
        return self._org(org).shards.active


def _require(place: Organization, shard: str) -> None:
    if shard not in place.shards.pools:
        raise NoSuchThingError(f"no shard {shard!r}; there are {', '.join(place.shards.pools) or 'none'}")
