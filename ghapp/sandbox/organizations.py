"""An organization: its name, its repositories, its fleet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ghapp.sandbox.config import SHARD_LABEL
from ghapp.sandbox.documents.accounts import AccountDocuments, Document
from ghapp.sandbox.documents.runnerpages import RunnerListPages
from ghapp.sandbox.fleet.jobs import SandboxRepository
from ghapp.sandbox.fleet.life import FleetLife
from ghapp.sandbox.fleet.roster import Roster
from ghapp.sandbox.fleet.runners import Runner


class ShardLayout:
    """The shards of one fleet, by name; an organization has one blue/green pool at most.

    Attributes:
        pools: shard → its pool.
        active: the one for users' jobs; empty where there are no shards.
    """

    def __init__(self, fleet: FleetLife) -> None:
        self._fleet = fleet
        self.pools = {shard: pool for pool in fleet.pools.values() if (shard := _shard_of(pool.labels))}
        self.active = max(self.pools, key=lambda shard: self.pools[shard].load, default="")
        self._load = self.pools[self.active].load if self.active else 0.0

    def deploy(self, shard: str, now: float, *, badly: bool) -> list[Runner]:
        """Replaces its machines under their old names; the job of each that had one fails.

        Each comes online again after the settling time or, with `badly`, only the first one does.
        """
        pool = self.pools[shard].name
        runners = sorted((each for each in self._fleet.roster.registered.values() if each.pool == pool), key=_id)
        jobs = [each.job for each in runners if each.job is not None]
        self._fleet.take_offline(runners, alive=False)
        for job in jobs:
            job.fail_without_runner()
            self._fleet.finish(job, now, "failure")
        for runner in runners[:1] if badly else runners:
            runner.alive = True
            self._fleet.come_online_soon(runner, now)
        return runners

    def broken(self) -> list[str]:
        """Returns the shards of which a machine stays away since a deploy."""
        away = {each.pool for each in self._fleet.roster.registered.values() if not each.alive}
        return [shard for shard, pool in self.pools.items() if pool.name in away]

    def switch(self, shard: str, now: float) -> None:
        """Activates a shard: users' jobs run on it from now on."""
        self._fleet.set_load(self.pools[self.active].name, 0.0, now)
        self._fleet.set_load(self.pools[shard].name, self._load, now)
        self.active = shard


def _shard_of(labels: Sequence[str]) -> str:
    return next((label.removeprefix(SHARD_LABEL) for label in labels if label.startswith(SHARD_LABEL)), "")


def _id(runner: Runner) -> int:
    return runner.id


class RunnerPlace(Protocol):
    """Where runners are registered: an organization, a repository or an enterprise."""

    @property
    def id(self) -> int:
        """GitHub's id of it."""

    @property
    def login(self) -> str:
        """The organization's login, `owner/repository` or `enterprises/slug`."""

    @property
    def fleet(self) -> FleetLife:
        """Its runners."""

    @property
    def pages(self) -> RunnerListPages:
        """The pages of their list."""


@dataclass(eq=False)
class ElsewhereRegistered:
    """Runners that are registered at a repository or an enterprise."""

    id: int
    login: str
    fleet: FleetLife
    pages: RunnerListPages = field(init=False)

    def __post_init__(self) -> None:
        self.pages = RunnerListPages(self.fleet.roster)

    @property
    def roster(self) -> Roster:
        """The runners by id."""
        return self.fleet.roster


@dataclass(eq=False)
class Organization:
    """An organization, its repositories by name and its fleet.

    Attributes:
        at_repositories: the runners of repositories, by name.
        hosted_runners: names of the larger runners that GitHub hosts for it.
        enterprise: the slug of the enterprise that shares its runners with it; empty without one.
    """

    id: int
    login: str
    repositories: dict[str, SandboxRepository]
    fleet: FleetLife
    documents: AccountDocuments
    at_repositories: dict[str, ElsewhereRegistered] = field(default_factory=dict)
    enterprise: str = ""
    hosted_runners: tuple[str, ...] = ()
    pages: RunnerListPages = field(init=False)
    shards: ShardLayout = field(init=False)

    def __post_init__(self) -> None:
        self.pages = RunnerListPages(self.fleet.roster)
        self.shards = ShardLayout(self.fleet)

    @property
    def account(self) -> Document:
        """Returns its short form."""
        return self.documents.account(self.login, self.id)

    def repository_document(self, repository: SandboxRepository) -> Document:
        """Returns one of its repositories in full."""
        return self.documents.repository(repository, self.account)

    def repository_named(self, name: str) -> SandboxRepository | None:
        """Returns the repository of that name; case is ignored."""
        return next((each for known, each in self.repositories.items() if known.lower() == name.lower()), None)

    def repository_with_id(self, repository_id: int) -> SandboxRepository | None:
        """Returns the repository of that id."""
        return next((r for r in self.repositories.values() if r.id == repository_id), None)

    def rename(self, login: str) -> None:
        """Renames it, and its repositories; all ids stay."""
        self.login = login
        for repository in self.repositories.values():
            repository.owner = login
        for name, place in self.at_repositories.items():
            place.login = f"{login}/{name}"
