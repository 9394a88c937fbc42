"""Organizations with their repositories, fleets and shards; found by name, also by a former one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ghapp.sandbox.apps import Registry, SandboxInstallation
from ghapp.sandbox.config import SHARD_LABEL
from ghapp.sandbox.documents import AccountDocuments, Document
from ghapp.sandbox.faults import Faults, Withheld
from ghapp.sandbox.fleet.jobs import SandboxRepository
from ghapp.sandbox.fleet.life import FleetLife
from ghapp.sandbox.fleet.runners import Runner
from ghapp.sandbox.runner_list import RunnerListPages

SENDER = ("mona", 101)


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
        runners = sorted(
            (each for each in self._fleet.roster.registered.values() if each.pool == pool), key=lambda each: each.id
        )
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


@dataclass(eq=False)
class ElsewhereRegistered:
    """Runners that are registered at a repository or an enterprise."""

    id: int
    login: str
    fleet: FleetLife
    pages: RunnerListPages = field(init=False)

    def __post_init__(self) -> None:
        self.pages = RunnerListPages(self.fleet.roster)


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


class Directory:
    """All names.

    Attributes:
        orgs: by login in lower case.
        sender: the person who performs all actions.
    """

    def __init__(self, documents: AccountDocuments, faults: Faults, clock: Callable[[], float]) -> None:
        self.orgs: dict[str, Organization] = {}
        self.registry = Registry()
        self.documents = documents
        self.sender = documents.account(*SENDER, kind="User")
        self._faults = faults
        self._clock = clock
        self._former: dict[str, Organization] = {}

    def organization(self, login: str) -> Organization | None:
        """Returns the organization of that name; case is ignored."""
        return self.orgs.get(login.lower())

    def once_called(self, login: str) -> Organization | None:
        """Returns the organization that has this name, or had it until it was renamed."""
        return self.organization(login) or self._former.get(login.lower())

    def organization_with_id(self, organization_id: int) -> Organization | None:
        """Returns the organization of that id."""
        return next((org for org in self.orgs.values() if org.id == organization_id), None)

    def organization_with_repository(self, repository_id: int) -> Organization | None:
        """Returns the organization that has the repository of that id."""
        return next((org for org in self.orgs.values() if org.repository_with_id(repository_id)), None)

    def home_of(self, installation: SandboxInstallation) -> Organization:
        """Returns the organization on which an App is installed."""
        return self.orgs[installation.org.lower()]

    def rename(self, org: Organization, login: str) -> None:
        """Renames an organization, and the account of its installations."""
        self._former[org.login.lower()] = org
        for installation in self.registry.installations.values():
            if installation.org == org.login:
                installation.org = login
        org.rename(login)
        present = [*self.orgs.values()]
        self.orgs.clear()
        self.orgs |= {each.login.lower(): each for each in present}

    def granted(self, installation: SandboxInstallation) -> dict[str, str]:
        """Returns the permissions that an installation claims to have."""
        withheld = {each.permission for each in self._withheld(installation) if each.admitted}
        return {name: level for name, level in installation.permissions.items() if name not in withheld}

    def refusal_of(self, installation: SandboxInstallation, permission: str) -> int | None:
        """Returns the status of calls that need a withheld permission; None when it is not withheld."""
        return next((each.status for each in self._withheld(installation) if each.permission == permission), None)

    def withheld_from_people(self, org: Organization, permission: str) -> int | None:
        """Returns the status of people's calls that need a withheld permission; None when it is not withheld."""
        found = self._faults.active(Withheld, org.id, self._clock())
        return next((each.status for each in found if each.permission == permission), None)

    def accept_permissions(self, installation: SandboxInstallation) -> None:
        """Grants an installation what is withheld from it."""
        self._faults.end_kind(Withheld, self.home_of(installation).id, self._clock())

    def installation_document(self, installation: SandboxInstallation) -> Document:
        """Returns an installation as REST and deliveries show it."""
        account = self.home_of(installation).account
        return self.documents.installation(installation, account, self.sender, self.granted(installation))

    def _withheld(self, installation: SandboxInstallation) -> list[Withheld]:
        home = self.orgs.get(installation.org.lower())
        return [] if home is None else self._faults.active(Withheld, home.id, self._clock())
