"""Everything this GitHub holds, and what its parts make of each other's news."""

from __future__ import annotations

import secrets
from random import Random
from typing import Literal

from ghapp.sandbox.announcements import Announcements
from ghapp.sandbox.apps import App, SandboxHook
from ghapp.sandbox.clock import SandboxClock
from ghapp.sandbox.config import OrgConfig, SandboxConfig
from ghapp.sandbox.deliveries import Deliveries
from ghapp.sandbox.directory import Directory
from ghapp.sandbox.documents.accounts import Pen
from ghapp.sandbox.documents.payloads import check_run_event, workflow_job
from ghapp.sandbox.documents.work import check_run_document
from ghapp.sandbox.faults.faults import Faults
from ghapp.sandbox.fleet.events import Happening, JobMoved, RunnerEnded
from ghapp.sandbox.fleet.jobs import SandboxRepository
from ghapp.sandbox.fleet.life import FleetLife
from ghapp.sandbox.fleet.runners import Runner
from ghapp.sandbox.ledger.ledger import Ledger
from ghapp.sandbox.organization import Organization
from ghapp.sandbox.people import Authorizations
from ghapp.sandbox.ratelimits import RateLimits
from ghapp.sandbox.runnerview import ShownRunner

Deletion = Literal["deleted", "busy", "absent"]

#: Runner ids of the first organization begin here, of the second a million later: a mix-up shows.
FIRST_RUNNER_ID = 1_001
FIRST_ORGANIZATION_ID = 5_001
FIRST_REPOSITORY_ID = 800_001


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
        self.clock = SandboxClock(running=config.ticking)
        self.faults = Faults(config.latency_seconds)
        self.directory = Directory(self.pen, self.faults, self.now)
        self.registry = self.directory.registry
        self.orgs = self.directory.orgs
        self.sender = self.directory.sender
        self.deliveries = Deliveries(self.now, self.faults)
        self.announcements = Announcements(self.directory, self.deliveries)
        self.authorizations = Authorizations()
        self.limits = RateLimits(config.rate_limit)
        self.account = Ledger(self.now())
        self.orgs |= {org.login.lower(): self._organization(org, number) for number, org in enumerate(config.orgs)}
        if config.app:
            self._install_first_app()

    def now(self) -> float:
        """Epoch seconds."""
        return self.clock.now()

    def stated(self, moment: float) -> float:
        """A moment as GitHub states it: by its own clock, which may be wrong."""
        return moment + self.clock.github_ahead

    def runners_of(self, org: Organization) -> ShownRunner:
        """An organization's runners as GitHub shows them now."""
        return ShownRunner(org, self.faults, self.now())

    def tick(self) -> None:
        """Ends the faults that are over, lets all fleets live until now, and tells the world about it."""
        self.faults.pass_time(self.now())
        for org in self.orgs.values():
            for happening in org.fleet.step(self.now()):
                self._tell(org, happening)

    def delete_runner(self, org: Organization, runner_id: int) -> Deletion:
        """A client's DELETE of a runner, put to its account. GitHub believes what it says of it."""
        now = self.now()
        self.account.delete_asked(runner_id, now)
        runner = org.fleet.roster.registered.get(runner_id)
        shown = self.runners_of(org).find(runner_id)
        if shown is None or runner is None:
            return "absent"
        if shown["busy"]:
            return "busy"
        if runner.alive:
            self.account.wrongly_removed(org.login, runner, "delete", now)
        org.fleet.retire(runner, now)
        return "deleted"

    def replace_runner(self, org: Organization, runner_id: int, pool: str, *, barren: bool) -> None:
        """What a controller does when asked to: tears down the old process, wishes for a new runner of the same pool.

        Args:
            org: the runner's organization.
            runner_id: the one to replace.
            pool: where to, when the runner is unknown here.
            barren: no new runner will come.
        """
        now, fleet = self.now(), org.fleet
        runner = fleet.roster.find(runner_id)
        registered = runner_id in fleet.roster.registered
        self.account.replace_asked(org.login, runner_id, now, registered=registered)
        if runner is not None:
            if runner.alive and registered:
                self.account.wrongly_removed(org.login, runner, "replace", now)
            fleet.tear_down(runner, now)
            pool = runner.pool
        if pool in fleet.pools and not barren:
            fleet.boot(pool, now, replaces=runner_id)

    def lose(self, org: Organization, runners: list[Runner]) -> None:
        """Registrations vanish while their processes live on."""
        org.fleet.lose(runners)
        for runner in runners:
            self.account.lost(org.login, runner, self.now())

    def restore(self, org: Organization, runners: list[Runner], at: float) -> None:
        """Those of them that are still lost come back."""
        back = [runner for runner in runners if runner.id in org.fleet.roster.zombies]
        org.fleet.restore(back, at)
        for runner in back:
            self.account.restored(runner.id, at)

    def announce_check_run(
        self,
        org: Organization,
        repository: SandboxRepository,
        check_run_id: int,
        action: str,
        identifier: str | None = None,
    ) -> None:
        """Tells the App that posted a check run what became of it."""
        posted = repository.check_runs[check_run_id]
        app = self.registry.apps[posted["app_id"]]
        document = check_run_document(check_run_id, posted, repository, self.pen.app(app), self.url)
        moment = self.stated(self.now())
        body = check_run_event(action, document, repository, self.url, moment, identifier=identifier)
        self.announcements.event(org, "check_run", body, repository=repository, app=app)

    def press_button(
        self, org: Organization, repository: SandboxRepository, check_run_id: int, identifier: str | None
    ) -> None:
        """Somebody presses a check run's button, or, without an identifier, asks for the check run again."""
        action = "rerequested" if identifier is None else "requested_action"
        self.announce_check_run(org, repository, check_run_id, action, identifier)

    def create_app(self, code: str) -> App | None:
        """Turns a code of the manifest flow into an App, and pings it; None for a code that is good no more."""
        app = self.registry.redeem(code, self.now())
        if app is not None:
            self.announcements.created(app, self.stated(self.now()))
        return app

    def _tell(self, org: Organization, happening: Happening) -> None:
        if isinstance(happening, JobMoved):
            job = happening.job.told_by(self.clock.github_ahead)
            body = workflow_job(happening.action, job, self.url)
            self.announcements.event(org, "workflow_job", body, repository=job.repository)
        elif isinstance(happening, RunnerEnded):
            self.account.ended(happening.runner.id, happening.at)
        elif happening.runner.replaces is not None:
            self.account.replacement_online(happening.runner.replaces, happening.runner, happening.at)

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
        )
        return Organization(FIRST_ORGANIZATION_ID + number, config.login, repositories, fleet, self.pen)

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
