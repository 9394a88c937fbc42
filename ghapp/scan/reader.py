"""Reads what a scan shows, from GitHub: two lists of runners, and between them and after them what explains them.

Nothing here writes to GitHub. Targets are resolved first, so that a wrong one ends the scan before anybody waits. Calls
within a scope are concurrent; scopes are read one after the other.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ghapp.errors import (
    BudgetSpentError,
    GitHubError,
    NotFoundError,
    PermissionMissingError,
    RateLimitedError,
    UnauthorizedError,
    UnknownTargetError,
)
from ghapp.github.hosted_runners import read_hosted_labels
from ghapp.github.jobs import WorkflowRuns
from ghapp.github.personal_client import Pause, PersonalClient, ScopeRunners
from ghapp.github.repositories import (
    AccountKind,
    FoundAccount,
    latest_repositories,
    read_account,
    read_own_organizations,
    read_repository,
)
from ghapp.github.response import PER_PAGE
from ghapp.github.runner_groups import read_group_runners, read_runner_groups
from ghapp.github.runner_list import get_each, list_runners
from ghapp.github.runner_versions import read_end_dates
from ghapp.installations.etag_page import EtagPage
from ghapp.installations.scope import ListedRepository, Scope, ScopeKind
from ghapp.pods.assigned_job import JobOfRun
from ghapp.runners.absence import RunnerList, allow_for_churn
from ghapp.scan.allowance import (
    FINISHED_RUNS,
    MOST_JOB_CALLS,
    UnfinishedRun,
    finished_to_read,
    most_calls,
    most_gets,
    repositories_to_read,
    runs_to_read,
)
from ghapp.scan.findings import Coverage, NotSeen, Reading
from ghapp.scan.looks import Look, fold_lists, to_ask_for
from ghapp.scan.needs import RUNNERS, Right, has_scope, needed
from ghapp.versions.lifetime import NOTHING_KNOWN, versions_to_ask, with_answer
from ghapp.wording import counted, duration, meant
from ghapp.workflow_jobs.runner_groups import RunnerGroups

CONCURRENCY = 10

MOST_VERSIONS = 10
"""Versions for which GitHub is asked; those with most runners. GitHub gives jobs to the last few."""

MOST_GROUP_PAGES = 3
"""Of the runners that an enterprise shares by one group."""

Progress = Callable[[str], None]
"""Called with what the scan does now, in a few words."""

Read = TypeVar("Read")


class _Pages:
    """The pages of one list, with their ETags: an unchanged page of the second list costs no rate limit."""

    def __init__(self) -> None:
        self._known: dict[int, EtagPage] = {}

    async def of(self, _installation: int, _token: str) -> Mapping[int, EtagPage]:
        """Returns the pages."""
        return {**self._known}

    async def keep(self, _installation: int, _token: str, changed: Mapping[int, EtagPage], last: int) -> None:
        """Keeps the changed pages."""
        self._known = {number: page for number, page in {**self._known, **changed}.items() if number <= last}


class Scan(NamedTuple):
    """How a scan is made.

    Attributes:
        client: with the person's token.
        seconds: from one list to the next, as begun.
        progress: see `Progress`.
        clock: returns epoch seconds.
        pause: waits for some seconds.
    """

    client: PersonalClient
    seconds: float
    progress: Progress = lambda _: None
    clock: Callable[[], float] = time.time
    pause: Pause = asyncio.sleep


async def read_scopes(scan: Scan, targets: Iterable[Scope]) -> list[Reading]:
    """Reads all scopes, each once.

    Raises:
        UnknownTargetError: a target does not exist, or is no place where runners are registered.
        UnauthorizedError: GitHub does not accept the token.
    """
    readers: dict[str, _ScopeReader] = {}
    for target in targets:
        reader = _ScopeReader(scan, target)
        await reader.resolve()
        readers.setdefault(reader.reading.scope.address.lower(), reader)
    for reader in readers.values():
        await reader.look()
    for reader in readers.values():
        await reader.read_surroundings(readers)
    for reader in readers.values():
        await reader.look_again()
    for reader in readers.values():
        await reader.read_jobs()
    return [reader.reading for reader in readers.values()]


class _UnfinishedRuns(NamedTuple):
    """Unfinished runs of a repository, and how many it has."""

    runs: list[UnfinishedRun]
    total: int


class _ScopeReader:
    """Reads one scope, step by step. What cannot be read is noted in the reading, and ends no other step."""

    def __init__(self, scan: Scan, target: Scope) -> None:
        self.reading = Reading(target)
        self._scan, self._client = scan, scan.client
        self._allowed, self._repositories = most_calls(0), list[ListedRepository]()
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._list_pages = _Pages()
        self._client.most_calls += self._allowed

    async def resolve(self) -> None:
        """Finds a repository under its present name; other targets are looked for by their list.

        Raises:
            UnknownTargetError: there is none.
        """
        if self.reading.scope.kind is not ScopeKind.REPOSITORY:
            return
        found = await self._try("the repository", Right.JOBS, read_repository(self._client, self.reading.scope.name))
        if found is None and not self.reading.not_seen:
            await self._counted(self._raise_unknown_repository())
        if found is not None:
            if found.name.lower() != self.reading.scope.name.lower():
                self._scan.progress(f"{self.reading.scope.name} is called {found.name} now")
            self.reading.scope = Scope(ScopeKind.REPOSITORY, found.name)
            self._repositories = [found]

    async def look(self) -> None:
        """Reads the first list."""
        if self.reading.not_seen:
            return
        scope = self.reading.scope
        try:
            await self._counted(self._look())
        except NotFoundError:
            await self._counted(self._note_or_raise_not_found())
        except GitHubError as error:
            self._note(f"the runners of {scope.address}", RUNNERS[scope.kind], error)
        else:
            total = self.reading.looks[0].runner_list.total
            self._scan.progress(f"{scope.address}: first list, {counted(total, 'runner')}")

    async def read_surroundings(self, readers: Mapping[str, _ScopeReader]) -> None:
        """Reads what does not change within seconds: versions, groups, repositories, other scopes' runners."""
        scope = self.reading.scope
        if self.reading.looks:
            await self._counted(self._read_versions())
        if scope.kind is ScopeKind.ORGANIZATION and self.reading.looks:
            account = FoundAccount(scope.name, AccountKind.ORGANIZATION)
            await self._read_groups(scope)
            await self._read_hosted(scope)
            listed = await self._try("the repositories", Right.REPOSITORIES, latest_repositories(self._client, account))
            if listed is not None:
                self._repositories = listed.repositories
                self.reading.coverage = Coverage(of_repositories=listed.total)
        elif scope.kind is ScopeKind.REPOSITORY and self._repositories:
            self.reading.coverage = Coverage(of_repositories=1)
            if self._repositories[0].is_of_organization:
                await self._read_organization(readers)
        elif scope.kind is ScopeKind.ENTERPRISE:
            why = "GitHub lists jobs by repository, and an enterprise has none; scan its organizations, too"
            self.reading.not_seen.append(NotSeen("jobs that wait for the enterprise's runners", why))

    async def look_again(self) -> None:
        """Waits, reads the second list, and asks for each runner that is missing from it."""
        if not self.reading.looks:
            return
        first, address = self.reading.looks[0], self.reading.scope.address
        left = first.at + self._scan.seconds - self._scan.clock()
        if left > 0:
            self._scan.progress(f"{address}: second list in {math.ceil(left)} s")
            await self._scan.pause(left)
        right = RUNNERS[self.reading.scope.kind]
        try:
            await self._counted(self._look())
        except GitHubError as error:
            self._note(f"a second list of the runners of {address}", right, error)
            return
        ids = to_ask_for(self.reading.looks, most_gets(self.reading.looks[-1].runner_list.total))
        failures: dict[int, GitHubError] = {}
        source = ScopeRunners(self._client, self.reading.scope)
        asked = get_each(source, ids, CONCURRENCY, self._scan.clock, failures)
        self.reading.answers = await self._counted(asked)
        self._note_failures(f"{{}} of {len(ids)} missing runners, one by one", right, [*failures.values()])

    async def read_jobs(self) -> None:
        """Reads the jobs of unfinished runs, as far as the calls go."""
        if self._repositories:
            await self._counted(self._read_jobs())
        self.reading.now = self._scan.clock()

    # ---- runners

    async def _look(self) -> None:
        """Reads a list, once more if it is not complete: the fleet may have changed between two pages."""
        look = await self._list()
        if allow_for_churn(look.runner_list).flaw is not None:
            look = await self._list()
        self.reading.looks.append(look)

    async def _list(self) -> Look:
        source, began = ScopeRunners(self._client, self.reading.scope), self._scan.clock()
        found = await list_runners(source, self._list_pages, CONCURRENCY, self._grow)
        return Look(found.runner_list, began)

    def _grow(self, _done: int, pages: int) -> None:
        """Allows for the calls of so many hundred runners, once the first page has their number."""
        more = max(0, most_calls(PER_PAGE * pages) - self._allowed)
        self._allowed += more
        self._client.most_calls += more

    async def _note_or_raise_not_found(self) -> None:
        """The list is a 404: GitHub hides what a token may not see as it hides what does not exist."""
        scope, right = self.reading.scope, RUNNERS[self.reading.scope.kind]
        if scope.kind is ScopeKind.ORGANIZATION:
            account = await read_account(self._client, scope.name)
            if account is None:
                known = await self._own_organizations()
                known_are = meant(scope.name, known, "your organizations are")
                raise UnknownTargetError(f"{scope.name}: no such organization, or it has another name now; {known_are}")
            if account.kind is AccountKind.PERSON:
                raise UnknownTargetError(
                    f"{scope.name}: is a personal account, and GitHub registers runners at its repositories only; "
                    f"scan {account.login}/REPOSITORY"
                )
        elif scope.kind is ScopeKind.ENTERPRISE and has_scope(self._client.scopes, right):
            raise UnknownTargetError(
                f"{scope.address}: no such enterprise, or the token is of none of its owners; "
                "its name is in the URL of its page"
            )
        what = f"the runners of {scope.address}"
        needs = needed(right, scope, self._client.scopes)
        self.reading.not_seen.append(NotSeen(what, "GitHub answers 404, as it does without the permission", needs))

    async def _raise_unknown_repository(self) -> None:
        scope = self.reading.scope
        account = await read_account(self._client, scope.owner)
        if account is None:
            raise UnknownTargetError(f"{scope.name}: there is no account {scope.owner}")
        known = (await latest_repositories(self._client, account)).repositories
        known_are = meant(scope.name, (each.name for each in known), "it may see", "none of that account")
        raise UnknownTargetError(f"{scope.name}: no such repository, or the token may not see it; {known_are}")

    async def _own_organizations(self) -> list[str]:
        try:
            return await read_own_organizations(self._client)
        except GitHubError:
            return []

    # ---- what explains them

    async def _read_versions(self) -> None:
        """Asks until when GitHub gives jobs to each version; GitHub Enterprise Server has no such dates."""
        known, _ = fold_lists(self.reading.looks)
        counts = Counter(each.version for each in known.values())
        for version in versions_to_ask(counts, {}, self._scan.clock())[:MOST_VERSIONS]:
            try:
                answer = await read_end_dates(self._client, self.reading.scope.api_path, version)
            except GitHubError as error:
                self._note("until when versions get jobs", RUNNERS[self.reading.scope.kind], error)
                return
            self.reading.dates[version] = with_answer(NOTHING_KNOWN, answer, self._scan.clock())

    async def _read_groups(self, organization: Scope) -> None:
        """Reads the runner groups, and the runners that an enterprise shares by them."""
        runners = [each for look in self._lists() for each in look.runner_list.runners.values()]
        used = {each.group_id for each in runners if each.group_id is not None}
        what, right = f"the runner groups of {organization.name}", Right.ORGANIZATION_RUNNERS
        groups = await self._try(
            what, right, read_runner_groups(self._client, organization.name, used, with_inherited=True)
        )
        if groups is None:
            return
        self.reading.groups = RunnerGroups(self._scan.clock(), groups)
        for group in groups:
            if not group.inherited:
                continue
            what = f"the runners of the enterprise's group {group.name}"
            read = read_group_runners(self._client, organization.name, group.id, MOST_GROUP_PAGES)
            found = await self._try(what, right, read)
            self._add_others(None if found is None else _in_group(found, group.id))

    async def _read_organization(self, readers: Mapping[str, _ScopeReader]) -> None:
        """Reads the runners of a repository's organization, which may take its jobs."""
        organization = Scope(ScopeKind.ORGANIZATION, self.reading.scope.owner)
        own = readers.get(organization.address.lower())
        if own is not None and own.reading.looks:
            self.reading.others, self.reading.groups = (
                [*own.reading.looks[-1:], *own.reading.others],
                own.reading.groups,
            )
            self.reading.are_others_seen = own.reading.are_others_seen
            self.reading.hosted_labels = own.reading.hosted_labels
            return
        source, what = ScopeRunners(self._client, organization), f"the runners of {organization.name}"
        try:
            found = await self._counted(list_runners(source, _Pages(), CONCURRENCY, self._grow))
        except GitHubError as error:
            self._note(what, Right.ORGANIZATION_RUNNERS, error, organization)
            self.reading.are_others_seen = False
            return
        self._add_others(found.runner_list)
        await self._read_groups(organization)
        await self._read_hosted(organization)

    async def _read_hosted(self, organization: Scope) -> None:
        """Reads the labels of GitHub's larger runners; most organizations have none, so a refusal is not noted."""
        try:
            self.reading.hosted_labels = await self._counted(read_hosted_labels(self._client, organization.name))
        except UnauthorizedError:
            raise
        except GitHubError:
            return

    def _add_others(self, found: RunnerList | None) -> None:
        if found is None or allow_for_churn(found).flaw is not None:
            self.reading.are_others_seen = False
        if found is not None:
            self.reading.others.append(Look(found, self._scan.clock()))

    def _lists(self) -> list[Look]:
        return [*self.reading.looks[-1:], *self.reading.others]

    # ---- jobs

    async def _read_jobs(self) -> None:
        left, before = min(self._calls_left, MOST_JOB_CALLS), self._client.calls
        repositories = repositories_to_read(self._repositories, left)
        if not repositories and not all(each.archived for each in self._repositories):
            why = "of the token's hourly limit, or of the calls of this scan, too little is left"
            self.reading.not_seen.append(NotSeen("jobs that wait", why))
            return
        listed_of = f"{len(repositories)} of {len(self._repositories)}"
        self._scan.progress(f"{self.reading.scope.address}: jobs of {listed_of} repositories")
        self.reading.private |= {each.name.lower(): each.private for each in repositories}
        listed = await self._gathered(self._unfinished(each.name) for each in repositories)
        self._note_failures(f"the runs of {{}} of {len(repositories)} repositories", Right.JOBS, listed)
        readable = [each for each in listed if not isinstance(each, GitHubError)]
        if not readable:
            return
        unfinished = {run.id: run for each in readable for run in each.runs}
        chosen = runs_to_read([*unfinished.values()], left - (self._client.calls - before))
        runs = await self._jobs_of_runs((each.repository, each.id) for each in chosen)
        with_calls_left = finished_to_read(repositories, left - (self._client.calls - before))
        finished = await self._jobs_of_runs(await self._latest_finished(with_calls_left))
        self.reading.jobs = [job for jobs in (*runs, *finished) for job in jobs]
        self.reading.coverage = self.reading.coverage._replace(
            repositories=len(readable),
            runs=len(runs),
            of_runs=sum(each.total for each in readable),
            finished_runs=len(finished),
        )

    async def _latest_finished(self, repositories: Sequence[ListedRepository]) -> list[tuple[str, int]]:
        """Returns the newest completed runs, each with its repository; what cannot be read is not missed."""
        listed = await self._gathered(
            WorkflowRuns(self._client, each.name).latest_finished(FINISHED_RUNS) for each in repositories
        )
        return [
            (repository.name, run_id)
            for repository, ids in zip(repositories, listed, strict=True)
            if not isinstance(ids, GitHubError)
            for run_id in ids
        ]

    async def _jobs_of_runs(self, runs: Iterable[tuple[str, int]]) -> list[list[JobOfRun]]:
        """Returns the jobs of each run, without runs that cannot be read."""
        found = await self._gathered(
            WorkflowRuns(self._client, repository).of_run(run_id, "latest") for repository, run_id in runs
        )
        self._note_failures(f"the jobs of {{}} of {len(found)} runs", Right.JOBS, found)
        return [each for each in found if not isinstance(each, GitHubError)]

    def _note_failures(self, what: str, right: Right, results: Sequence[object]) -> None:
        """Notes the first of the errors among some results, and how many there are."""
        failures = [each for each in results if isinstance(each, GitHubError)]
        for error in failures[:1]:
            self._note(what.format(len(failures)), right, error)

    async def _unfinished(self, repository: str) -> _UnfinishedRuns:
        runs = WorkflowRuns(self._client, repository)
        queued, in_progress = await runs.in_status("queued"), await runs.in_status("in_progress")
        found = {run_id: UnfinishedRun(repository, run_id, False) for run_id in in_progress.ids}
        found |= {run_id: UnfinishedRun(repository, run_id, True) for run_id in queued.ids}
        return _UnfinishedRuns([*found.values()], max(len(found), queued.total + in_progress.total))

    async def _gathered(self, work: Iterable[Awaitable[Read]]) -> list[Read | GitHubError]:
        return await asyncio.gather(*map(self._concurrently, work))

    async def _concurrently(self, work: Awaitable[Read]) -> Read | GitHubError:
        """Returns the result, or the error: one repository that cannot be read ends no other."""
        async with self._slots:
            try:
                return await work
            except GitHubError as error:
                return error

    # ---- calls and refusals

    @property
    def _calls_left(self) -> int:
        return min(self._allowed - self.reading.calls, self._client.calls_left)

    async def _counted(self, work: Awaitable[Read]) -> Read:
        """Counts the calls of some work as those of this scope."""
        before = self._client.calls
        try:
            return await work
        finally:
            self.reading.calls += self._client.calls - before

    async def _try(self, what: str, right: Right, work: Awaitable[Read]) -> Read | None:
        """Returns what is read; None, with a note, if GitHub refuses it."""
        try:
            return await self._counted(work)
        except GitHubError as error:
            self._note(what, right, error)
            return None

    def _note(self, what: str, right: Right, error: GitHubError, scope: Scope | None = None) -> None:
        """Notes what could not be seen, and why; a token that GitHub does not accept ends the scan."""
        if isinstance(error, UnauthorizedError):
            raise error
        scope, scopes = scope or self.reading.scope, self._client.scopes
        match error:
            case PermissionMissingError(needs_single_sign_on=True):
                why = "the token is not authorized for SAML single sign-on"
                needs = f"that is authorized for the single sign-on of {scope.owner}"
            case PermissionMissingError() if "IP allow list" in error.explanation:
                why, needs = f"GitHub answers 403: {error.explanation.rstrip('.')}", ""
            case PermissionMissingError():
                why = (
                    f"GitHub answers 403: {error.explanation.rstrip('.')}"
                    if error.explanation
                    else "GitHub answers 403"
                )
                needs = needed(right, scope, scopes, error.accepted)
            case NotFoundError():
                why, needs = "GitHub answers 404, as it does without the permission", needed(right, scope, scopes)
            case RateLimitedError():
                why, needs = f"GitHub's rate limit is reached; it asks to wait {duration(error.after_seconds)}", ""
            case BudgetSpentError():
                why, needs = f"the {self._client.most_calls} calls of this scan are spent", ""
            case _:
                why, needs = str(error), ""
        self.reading.not_seen.append(NotSeen(what, why, needs))


def _in_group(shared: RunnerList, group_id: int) -> RunnerList:
    """Returns an enterprise's runners with the group by which the organization has them."""
    runners = {each.id: each._replace(group_id=group_id) for each in shared.runners.values()}
    return shared._replace(runners=runners)
