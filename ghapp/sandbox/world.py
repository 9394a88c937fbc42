"""Everything this GitHub holds, and what its parts make of each other's news."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

import msgspec

from ghapp.sandbox.account import Account
from ghapp.sandbox.apps import App, Hook, Installation, Registry, holds
from ghapp.sandbox.clock import Clock
from ghapp.sandbox.config import OrgConfig, SandboxConfig
from ghapp.sandbox.deliveries import Deliveries
from ghapp.sandbox.documents.accounts import Document, Pen
from ghapp.sandbox.documents.payloads import repository_names, workflow_job
from ghapp.sandbox.documents.runnerpages import RunnerPages
from ghapp.sandbox.faults import Faults
from ghapp.sandbox.fleet.happenings import Happening, JobMoved, RunnerEnded
from ghapp.sandbox.fleet.jobs import Repository
from ghapp.sandbox.fleet.life import Deletion, Fleet
from ghapp.sandbox.ratelimits import RateLimits

#: Runner ids of the first organization begin here, of the second a million later: a mix-up shows.
FIRST_RUNNER_ID = 1_001
FIRST_ORGANIZATION_ID = 5_001
FIRST_REPOSITORY_ID = 800_001
SENDER = ("mona", 101)

#: What an installation must hold to be told of an event; whatever is not named here comes by itself.
_PERMISSION_FOR = {"workflow_job": "actions", "check_run": "checks", "check_suite": "checks"}
_BY_SUBSCRIPTION = frozenset({"workflow_job"})


@dataclass(eq=False)
class Organization:
    """An organization, its repositories by name and its fleet."""

    id: int
    login: str
    repositories: dict[str, Repository]
    fleet: Fleet
    pen: Pen
    pages: RunnerPages = field(init=False)

    def __post_init__(self) -> None:
        self.pages = RunnerPages(self.fleet.roster)

    @cached_property
    def account(self) -> Document:
        """Its short form."""
        return self.pen.account(self.login, self.id)

    def repository_document(self, repository: Repository) -> Document:
        """A repository of it in full."""
        return self.pen.repository(repository, self.account)

    def repository_with_id(self, repository_id: int) -> Repository | None:
        """The repository of that id."""
        return next((r for r in self.repositories.values() if r.id == repository_id), None)


class World:
    """Organizations, Apps, limits, faults and the account of it all. Belongs to one thread.

    Args:
        config: what it is made of.
        url: its root as its clients reach it, without a slash at the end.
    """

    def __init__(self, config: SandboxConfig, url: str) -> None:
        self.config = config
        self.url = url
        self.pen = Pen(url)
        self.clock = Clock(running=config.ticking)
        self.deliveries = Deliveries(self.now)
        self.limits = RateLimits(config.rate_limit)
        self.faults = Faults(config.latency_seconds)
        self.account = Account(self.now())
        self.registry = Registry()
        self.sender = self.pen.account(*SENDER, kind="User")
        self.orgs = {org.login.lower(): self._organization(org, number) for number, org in enumerate(config.orgs)}
        self._envelopes: dict[int, msgspec.Raw] = {}
        if config.app:
            self._install_first_app()

    def now(self) -> float:
        """Epoch seconds, on this GitHub's clock."""
        return self.clock.now()

    def organization(self, login: str) -> Organization | None:
        """The organization of that name; names are the same in any case."""
        return self.orgs.get(login.lower())

    def organization_with_id(self, organization_id: int) -> Organization | None:
        """The organization of that id."""
        return next((org for org in self.orgs.values() if org.id == organization_id), None)

    def installation_document(self, installation: Installation) -> Document:
        """An installation as REST and deliveries show it."""
        return self.pen.installation(installation, self.orgs[installation.org.lower()].account, self.sender)

    def tick(self) -> None:
        """Lets all fleets live until now, and tells the world about it."""
        for org in self.orgs.values():
            for happening in org.fleet.step(self.now()):
                self._tell(org, happening)

    def delete_runner(self, org: Organization, runner_id: int) -> Deletion:
        """A client's DELETE of a runner, put to its account."""
        self.account.delete_asked(org.login, runner_id, self.now())
        runner = org.fleet.roster.registered.get(runner_id)
        worked = runner is not None and runner.alive
        deletion = org.fleet.delete(runner_id)
        if runner is not None and worked and deletion == "deleted":
            self.account.wrongly_removed(org.login, runner, "delete", self.now())
        return deletion

    def replace_runner(self, org: Organization, runner_id: int, pool: str, *, barren: bool) -> None:
        """What a controller does when asked to: tears down the old process, wishes for a new runner of the same pool.

        Args:
            org: the runner's organization.
            runner_id: the one to replace.
            pool: where to, when the runner is unknown here.
            barren: no new runner will come.
        """
        self.account.replace_asked(org.login, runner_id, self.now())
        fleet = org.fleet
        runner = fleet.roster.find(runner_id)
        if runner is not None:
            if runner.alive and runner_id in fleet.roster.registered:
                self.account.wrongly_removed(org.login, runner, "replace", self.now())
            fleet.tear_down(runner)
            pool = runner.pool
        if pool in fleet.pools and not barren:
            fleet.boot(pool, self.now(), replaces=runner_id)

    def announce(
        self,
        org: Organization,
        event: str,
        body: Document,
        *,
        repository: Repository | None = None,
        app: App | None = None,
    ) -> None:
        """Delivers an event to each installed App (or that one) that may know of it."""
        for installation in self.registry.installations.values():
            if installation.org != org.login or app not in (None, installation.app):
                continue
            if installation.suspended_at is None and _hears_of(event, installation):
                self.deliver(installation, event, self._enveloped(org, installation, body, repository), repository)

    def announce_installation(
        self, installation: Installation, action: str, extra: Document | None = None, event: str = "installation"
    ) -> None:
        """Tells an App what became of an installation of it."""
        org = self.orgs[installation.org.lower()]
        seen = [r for r in org.repositories.values() if installation.sees(r.name)]
        body: Document = {
            "action": action,
            "installation": self.installation_document(installation),
            "sender": self.sender,
        }
        if event == "installation":
            body["repositories"] = repository_names(seen)
        self.deliver(installation, event, body | (extra or {}))

    def deliver(
        self,
        installation: Installation,
        event: str,
        payload: Document,
        repository: Repository | None = None,
    ) -> str | None:
        """Sends a payload as it is to the installation's App; answers the GUID."""
        return self.deliveries.send(
            installation.app,
            event,
            msgspec.json.encode(payload),
            action=payload.get("action"),
            installation_id=installation.id,
            repository_id=None if repository is None else repository.id,
        )

    def _enveloped(
        self, org: Organization, installation: Installation, body: Document, repository: Repository | None
    ) -> Document:
        envelope: dict[str, Any] = {
            "organization": self.pen.organization(org.login, org.id),
            "sender": self.sender,
            "installation": {"id": installation.id, "node_id": f"I_{installation.id}"},
        }
        if repository is not None:
            # The one large part of most payloads, and the same in all of them.
            if repository.id not in self._envelopes:
                document = org.repository_document(repository)
                self._envelopes[repository.id] = msgspec.Raw(msgspec.json.encode(document))
            envelope["repository"] = self._envelopes[repository.id]
        return body | envelope

    def _tell(self, org: Organization, happening: Happening) -> None:
        if isinstance(happening, JobMoved):
            body = workflow_job(happening.action, happening.job, self.url)
            self.announce(org, "workflow_job", body, repository=happening.job.repository)
        elif isinstance(happening, RunnerEnded):
            self.account.ended(org.login, happening.runner, happening.at)
        elif happening.runner.replaces is not None:
            self.account.replacement_online(org.login, happening.runner.replaces, happening.runner, happening.at)

    def _organization(self, config: OrgConfig, number: int) -> Organization:
        first_repository = FIRST_REPOSITORY_ID + 100 * number
        repositories = {
            name: Repository(first_repository + index, config.login, name)
            for index, name in enumerate(config.repositories)
        }
        for repository in repositories.values():
            repository.push(self.now())
        fleet = Fleet(
            config.pools,
            list(repositories.values()),
            pace=self.config.pace,
            rng=Random(f"{self.config.seed}/{config.login}"),
            first_id=FIRST_RUNNER_ID + 1_000_000 * number,
            now=self.now(),
            quiet=self.config.quiet,
        )
        return Organization(FIRST_ORGANIZATION_ID + number, config.login, repositories, fleet, self.pen)

    def _install_first_app(self) -> None:
        secret = self.config.webhook_secret or secrets.token_hex(20)
        app = self.registry.register(
            name="ghapp",
            owner=self.config.orgs[0].login,
            permissions=dict(self.config.permissions),
            events=self.config.events,
            hook=Hook(self.config.webhook_url, secret),
            now=self.now(),
        )
        for org in self.config.orgs:
            if org.installed:
                self.registry.install(app, org.login, self.now())


def _hears_of(event: str, installation: Installation) -> bool:
    permission = _PERMISSION_FOR.get(event)
    if permission is not None and not holds(installation.permissions, permission, "read"):
        return False
    return event not in _BY_SUBSCRIPTION or event in installation.app.events
