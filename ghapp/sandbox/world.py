"""The whole simulated GitHub: its parts, and how they react to each other's events."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from random import Random
from typing import Literal

from ghapp.sandbox.apps import App, SandboxHook
from ghapp.sandbox.config import OrgConfig, PoolConfig, SandboxConfig
from ghapp.sandbox.deliveries import Deliveries
from ghapp.sandbox.documents import AccountDocuments, Document, check_run_document
from ghapp.sandbox.faults import Faults
from ghapp.sandbox.fleet.jobs import SandboxRepository
from ghapp.sandbox.fleet.life import FleetLife
from ghapp.sandbox.fleet.runners import FleetEvent, JobMoved, Runner, RunnerEnded, VersionSchedule
from ghapp.sandbox.ledger import Ledger
from ghapp.sandbox.organizations import Directory, ElsewhereRegistered, Organization
from ghapp.sandbox.people import Authorizations, author_of, person_called
from ghapp.sandbox.ratelimits import RateLimits
from ghapp.sandbox.runner_list import RunnerPlace, ShownRunners
from ghapp.sandbox.webhook_events import WebhookEvents, check_run_event, workflow_job

#: Runner ids of the first organization begin here, of the second a million later, so that a mix-up shows.
FIRST_RUNNER_ID = 1_001
FIRST_ORGANIZATION_ID = 5_001
FIRST_REPOSITORY_ID = 800_001
FIRST_ENTERPRISE_ID = 2_001
BOT_ID = 1_901


class SandboxClock:
    """Epoch seconds that can be moved forward; with `running` False time stands still in between, for tests.

    Attributes:
        github_ahead: seconds by which GitHub's own clock is ahead; every time that GitHub states includes them.
    """

    def __init__(self, *, running: bool) -> None:
        self.github_ahead = 0.0
        self._running = running
        self._skipped = 0.0
        self._started = time.time()

    def now(self) -> float:
        """Epoch seconds."""
        return (time.time() if self._running else self._started) + self._skipped

    def skip(self, seconds: float) -> None:
        """Moves the clock forward."""
        self._skipped += seconds


Deletion = Literal["deleted", "busy", "absent"]


class World:
    """Organizations, Apps, limits, faults and the ledger. Belongs to one thread.

    Args:
        config: its configuration.
        url: its root as its clients reach it, without a slash at the end.
    """

    def __init__(self, config: SandboxConfig, url: str) -> None:
        self.config = config
        self.url = url
        self.documents = AccountDocuments(url)
        self.clock = SandboxClock(running=config.ticking)
        self.faults = Faults(config.latency_seconds)
        self.directory = Directory(self.documents, self.faults, self.now)
        self.registry = self.directory.registry
        self.orgs = self.directory.orgs
        self.deliveries = Deliveries(self.now, self.faults)
        self.webhook_events = WebhookEvents(self.directory, self.deliveries)
        self.authorizations = Authorizations()
        self.versions = VersionSchedule()
        self.limits = RateLimits(config.rate_limit)
        self.ledger = Ledger(self.now())
        self.orgs |= {org.login.lower(): self._organization(org, number) for number, org in enumerate(config.orgs)}
        self.enterprises = {
            each.slug: self._elsewhere(FIRST_ENTERPRISE_ID + number, each.pools, f"enterprises/{each.slug}", number)
            for number, each in enumerate(config.enterprises)
        }
        if config.app:
            self._install_first_app()

    def now(self) -> float:
        """Epoch seconds."""
        return self.clock.now()

    def stated(self, moment: float) -> float:
        """Returns a moment as GitHub states it: by its own clock, which may be wrong."""
        return moment + self.clock.github_ahead

    def runners_of(self, org: RunnerPlace) -> ShownRunners:
        """Returns the runners of a place as GitHub shows them now."""
        return ShownRunners(org, self.faults, self.now())

    def tick(self) -> None:
        """Ends faults that are over, advances all fleets to now, and handles their events."""
        self.faults.pass_time(self.now())
        for org in self.orgs.values():
            for event in org.fleet.step(self.now()):
                self._send(org, event)
        for place in self._elsewhere_registered():
            for event in place.fleet.step(self.now()):
                self._note(event)

    def place_called(self, name: str) -> RunnerPlace | None:
        """Returns the organization of this present or former name, or `owner/repository` or `enterprises/slug`."""
        elsewhere = (each for each in self._elsewhere_registered() if each.login.lower() == name.lower())
        return self.directory.once_called(name) or next(elsewhere, None)

    def _elsewhere_registered(self) -> list[ElsewhereRegistered]:
        at_repositories = [each for org in self.orgs.values() for each in org.at_repositories.values()]
        return [*at_repositories, *self.enterprises.values()]

    def delete_runner(self, org: RunnerPlace, runner_id: int) -> Deletion:
        """Handles a client's DELETE of a runner, and records it in the ledger. GitHub trusts its own false answers."""
        now = self.now()
        self.ledger.delete_asked(runner_id, now)
        runner = org.fleet.roster.registered.get(runner_id)
        shown = self.runners_of(org).find(runner_id)
        if shown is None or runner is None:
            return "absent"
        if shown["busy"]:
            return "busy"
        if runner.alive:
            self.ledger.wrongly_removed(org.login, runner, "delete", now)
        org.fleet.retire(runner, now)
        return "deleted"

    def replace_runner(self, org: RunnerPlace, runner_id: int, pool: str, *, barren: bool) -> None:
        """Replaces a runner as a controller does: removes the old process, and requests a new runner of the same pool.

        Args:
            org: where the runner is registered.
            runner_id: the one to replace.
            pool: the pool of the new runner, when the old one is unknown.
            barren: no new runner will come.
        """
        now, fleet = self.now(), org.fleet
        runner = fleet.roster.find(runner_id)
        registered = runner_id in fleet.roster.registered
        self.ledger.replace_asked(org.login, runner_id, now, registered=registered)
        if runner is not None:
            if runner.alive and registered:
                self.ledger.wrongly_removed(org.login, runner, "replace", now)
            fleet.tear_down(runner, now)
            pool = runner.pool
        if pool in fleet.pools and not barren:
            fleet.boot(pool, now, replaces=runner_id)

    def lose(self, org: RunnerPlace, runners: list[Runner]) -> None:
        """Deletes registrations while their processes keep running."""
        org.fleet.lose(runners)
        for runner in runners:
            self.ledger.lost(org.login, runner, self.now())

    def restore(self, org: RunnerPlace, runners: list[Runner], at: float) -> None:
        """Restores those of them that are still lost."""
        back = [runner for runner in runners if runner.id in org.fleet.roster.zombies]
        org.fleet.restore(back, at)
        for runner in back:
            self.ledger.restored(runner.id, at)

    def announce_check_run(
        self,
        org: Organization,
        repository: SandboxRepository,
        check_run_id: int,
        action: str,
        identifier: str | None = None,
        by: str | None = None,
    ) -> None:
        """Notifies the App of a check run about its change, made by the person of this login or by the owner."""
        posted = repository.check_runs[check_run_id]
        app = self.registry.apps[posted["app_id"]]
        document = check_run_document(check_run_id, posted, repository, self.documents.app(app), self.url)
        moment = self.stated(self.now())
        body = check_run_event(action, document, repository, self.url, moment, identifier=identifier)
        if by is not None:
            body["sender"] = self._account(by)
        self.webhook_events.event(org, "check_run", body, repository=repository, app=app)

    def press_button(
        self,
        org: Organization,
        repository: SandboxRepository,
        check_run_id: int,
        identifier: str | None,
        by: str | None = None,
    ) -> None:
        """Presses a check run's button or, without an identifier, re-requests it; as that person or as the owner."""
        action = "rerequested" if identifier is None else "requested_action"
        self.announce_check_run(org, repository, check_run_id, action, identifier, by)

    def create_app(self, code: str) -> App | None:
        """Exchanges a code of the manifest flow for an App, and pings it; None for an invalid code."""
        app = self.registry.redeem(code, self.now())
        if app is not None:
            self.webhook_events.created(app, self.stated(self.now()))
        return app

    def _send(self, org: Organization, event: FleetEvent) -> None:
        if isinstance(event, JobMoved):
            job = event.job.with_clock_ahead(self.clock.github_ahead)
            author = job.rerun_by or author_of(job.repository.name, job.run_id).login
            body = workflow_job(event.action, job, self.url) | {"sender": self._account(author)}
            self.webhook_events.event(org, "workflow_job", body, repository=job.repository)
        else:
            self._note(event)

    def _account(self, login: str) -> Document:
        """Returns the account of a person, or of an App that acts."""
        person = person_called(login)
        if person is None:
            return self.documents.account(login, BOT_ID, "Bot")
        return self.documents.account(login, person.id, "User")

    def _note(self, event: FleetEvent) -> None:
        if isinstance(event, JobMoved):
            return
        if isinstance(event, RunnerEnded):
            self.ledger.ended(event.runner.id, event.at)
        elif event.runner.replaces is not None:
            self.ledger.replacement_online(event.runner.replaces, event.runner, event.at)

    def _organization(self, config: OrgConfig, number: int) -> Organization:
        first_repository = FIRST_REPOSITORY_ID + 100 * number
        repositories = {
            name: SandboxRepository(first_repository + index, config.login, name)
            for index, name in enumerate(config.repositories)
        }
        for repository in repositories.values():
            repository.push(self.now())
        fleet = FleetLife(
            config.pools,
            list(repositories.values()),
            pace=self.config.pace,
            rng=Random(f"{self.config.seed}/{config.login}"),
            first_id=FIRST_RUNNER_ID + 1_000_000 * number,
            now=self.now(),
            quiet=self.config.quiet,
            versions=self.versions,
        )
        at_repositories = {
            name: self._elsewhere(repositories[name].id, pools, f"{config.login}/{name}", 100 * (number + 1) + index)
            for index, (name, pools) in enumerate(config.repository_pools.items())
        }
        return Organization(
            FIRST_ORGANIZATION_ID + number,
            config.login,
            repositories,
            fleet,
            self.documents,
            at_repositories,
            config.enterprise,
            config.hosted_runners,
        )

    def _elsewhere(self, place_id: int, pools: Sequence[PoolConfig], name: str, number: int) -> ElsewhereRegistered:
        fleet = FleetLife(
            pools,
            [],
            pace=self.config.pace,
            rng=Random(f"{self.config.seed}/{name}"),
            first_id=self.config.first_elsewhere_id + 10_000 * number,
            now=self.now(),
            quiet=True,
        )
        return ElsewhereRegistered(place_id, name, fleet)

    def _install_first_app(self) -> None:
        secret = self.config.webhook_secret or secrets.token_hex(20)
        app = self.registry.register(
            name="ghapp",
            owner=self.config.orgs[0].login,
            permissions=dict(self.config.permissions),
            events=self.config.events,
            hook=SandboxHook(self.config.webhook_url, secret),
            now=self.now(),
        )
        app.callback_urls = tuple(self.config.callback_urls)
        for org in self.config.orgs:
            if org.installed:
                self.registry.install(app, org.login, self.now())
