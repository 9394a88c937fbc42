"""Finds the repositories of an installation whose runners are swept, as `[[scopes]]` names them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ghapp.errors import GitHubError, NotFoundError, PermissionMissingError
from ghapp.github.installation_client import InstallationClient
from ghapp.github.repositories import read_installation_repositories, read_repository
from ghapp.github.response import expect
from ghapp.github.wire import runner_page
from ghapp.installations.installation import Installation, repository_scope
from ghapp.installations.pacing import Purpose
from ghapp.installations.repositories import (
    Repositories,
    ScopedRepository,
    asked,
    is_list_due,
    is_of_account,
    listed,
    looked_up,
    rules_of,
    to_ask,
    to_look_up,
)
from ghapp.installations.scope import ScopeRule, owner_of
from ghapp.log import logger
from ghapp.queue.jobs import JobName
from jobs.context import JobContext
from jobs.each_installation import each_installation
from jobs.installations.discover import list_repositories_again
from jobs.installations.enrol import enrol, warn_of_name

log = logger(__name__)

AT_ONCE = 10
"""Calls in flight."""


async def find_scopes(*installation_ids: int) -> None:
    """The job: the scopes of these installations."""
    await each_installation(JobName.SCOPES, find_scopes_of, installation_ids)


async def find_scopes_of(context: JobContext, installation_id: int) -> list[Installation]:
    """Records the scopes of an installation's repositories, schedules their sweeps, or ends them; returns the scopes.

    A repository that GitHub gives no usable answer about stays what it is. One that is deleted, transferred, archived,
    or not visible to the App any more is no scope; its data expires as that of an uninstalled installation, and is
    there again with the repository.
    """
    async with context.locks.acquire("scopes", installation_id, context.locks.outliving_seconds) as is_mine:
        installation = await context.installations.one(installation_id)
        if not is_mine or installation is None or installation.suspended:
            return []
        known = await context.installations.scopes_of(installation_id)
        rules = rules_of(installation, context.settings.scopes)
        found = {each.id: each for each in await _found(context, installation, rules, known)}
        removed = [each for each in known if each.id not in found]
        await context.uninstalled.removed([each.id for each in removed], context.clock())
        await context.installations.put_scopes(installation_id, found.values())
        await context.uninstalled.returned(found)
        before = {each.id: each for each in known}
        for scope in found.values():
            if scope.org.partition("/")[2].lower() != scope.called.partition("/")[2].lower():
                warn_of_name(context, scope)  # the rule has a former name
            await enrol(context, scope, at_once=before.get(scope.id) != scope)
        for each in removed:
            await context.schedule.remove(each.id)
    if found or removed:
        log.info("scopes", org=installation.org, found=[each.org for each in found.values()], removed=len(removed))
    return [*found.values()]


async def _found(
    context: JobContext, installation: Installation, rules: Sequence[ScopeRule], known: Sequence[Installation]
) -> list[Installation]:
    """Returns the scopes that exist now; those of patterns first, because a rule that names one decides its name."""
    patterns = [each for each in rules if each.repositories is not None]
    named = [each.repository for each in rules if each.repository is not None]
    if not patterns and not named:
        return []
    try:
        client = await context.installation_client(installation, Purpose.REPORT)
        taken = await _of_patterns(context, installation, client, patterns, known) if patterns else []
        of_names = await _of_names(context, installation, client, named, known) if named else []
        if _with_address_of_another(taken, of_names):  # one was renamed since the list
            await list_repositories_again(context, installation.id)
            taken = await _of_patterns(context, installation, client, patterns, known)
    except GitHubError as error:
        log.warning("scopes not found", org=installation.org, error=type(error).__name__, why=str(error))
        return [*known]
    doubtful = _with_address_of_another(taken, of_names)
    return [*(each for each in taken if each.id not in doubtful), *of_names]


def _with_address_of_another(taken: Iterable[Installation], of_names: Iterable[Installation]) -> set[int]:
    """Returns the ids of patterns' scopes with the address of another repository, which a rule names."""
    named = {each.org.lower(): each.id for each in of_names}
    return {each.id for each in taken if named.get(each.org.lower(), each.id) != each.id}


async def _of_names(
    context: JobContext,
    installation: Installation,
    client: InstallationClient,
    names: Sequence[str],
    known: Iterable[Installation],
) -> list[Installation]:
    """Returns the scopes of repositories that rules name; of those that were looked up lately, as they are known."""
    now, slots = context.clock(), asyncio.Semaphore(AT_ONCE)
    repositories = await context.scoped_repositories.get(installation.id) or Repositories()
    scopes = {
        each.repository_id: replace(each, permissions=installation.permissions, suspended=installation.suspended)
        for each in known
        if (owner_of(each.org), owner_of(each.called)) == (installation.org, installation.called)
    }
    due = to_look_up(repositories, names, scopes.keys(), now)
    answers = await asyncio.gather(*(_named(installation, client, slots, each) for each in due))
    found = {name: answer for name, answer in zip(due, answers, strict=True) if not isinstance(answer, GitHubError)}
    ids = {name: 0 if each is None else each.repository_id for name, each in found.items()}
    repositories = await context.scoped_repositories.get(installation.id) or Repositories()  # a delivery may reset it
    repositories = looked_up(repositories, names, ids, now)
    await context.scoped_repositories.put(installation.id, repositories)
    as_known = [scopes[each.id] for each in repositories.named if each.name not in found and each.id in scopes]
    without_answer = {each.partition("/")[2] for each in due if each not in found}
    unread = [each for each in known if each.org.partition("/")[2].lower() in without_answer]
    return [*unread, *as_known, *(each for each in found.values() if each is not None)]


async def _named(
    installation: Installation, client: InstallationClient, slots: asyncio.Semaphore, named: str
) -> Installation | GitHubError | None:
    """Returns the scope of a repository that a rule names; None if there is none, see `find_scopes_of`.

    Without a usable answer it returns the error.
    """
    name = named.partition("/")[2]
    try:
        async with slots:
            found = await read_repository(client, installation.at_github(named))
    except GitHubError as error:
        log.warning("repository not read", org=installation.org, repository=named, why=str(error))
        return error
    if found is None or not is_of_account(installation, found):
        log.warning("no such repository, or archived or transferred", org=installation.org, repository=named)
        return None
    current = found.name.partition("/")[2]
    return repository_scope(installation, found.id, current if current.lower() == name else name, found.name)


async def _of_patterns(
    context: JobContext,
    installation: Installation,
    client: InstallationClient,
    patterns: Sequence[ScopeRule],
    known: Iterable[Installation],
) -> list[Installation]:
    """Returns the scopes of repositories that patterns take and that have runners, or had one within a day.

    Without the permission to list their runners, none can be found.
    """
    now = context.clock()
    repositories = await context.scoped_repositories.get(installation.id) or Repositories()
    if is_list_due(repositories, patterns, now):
        repositories = listed(repositories, *await read_installation_repositories(client), patterns, now)
        await context.scoped_repositories.put(installation.id, repositories)
    current = {each.id: each.name for each in repositories.known}
    scopes = {-each.id for each in known if -each.id in current and await context.runners.count(each.id)}
    asked_now = to_ask(repositories, scopes, now) if _reads_repositories(installation) else []
    answers = await _have_runners(installation, client, asked_now)
    latest = await context.scoped_repositories.get(installation.id) or repositories  # a delivery may have reset it
    await context.scoped_repositories.put(installation.id, asked(latest, answers.keys(), now))
    unanswered = {-each.id for each in known if -each.id in current and answers.get(-each.id) is None}
    having = scopes | unanswered | {number for number, has_runners in answers.items() if has_runners}
    return [_scope_of(installation, number, name) for number, name in current.items() if number in having]


def _scope_of(installation: Installation, number: int, name: str) -> Installation:
    return repository_scope(installation, number, name, f"{installation.called}/{name}")


def _reads_repositories(installation: Installation) -> bool:
    return repository_scope(installation, 1, "any", "any").may_read_runners()


async def _have_runners(
    installation: Installation, client: InstallationClient, repositories: Iterable[ScopedRepository]
) -> dict[int, bool | None]:
    """Returns by id whether repositories have runners: None where GitHub refuses to say so of this one.

    Those for which GitHub gave no answer are left out. One that it refuses is not asked before the others again.
    """
    slots, found = asyncio.Semaphore(AT_ONCE), dict[int, bool | None]()

    async def ask(repository: ScopedRepository) -> None:
        path = f"{_scope_of(installation, repository.id, repository.name).api_path}/actions/runners"
        async with slots:
            try:
                page = runner_page(expect(await client.send("GET", path, per_page=1), path), client.left_out)
            except GitHubError as error:
                log.info("runners of a repository not read", org=installation.org, path=path, why=str(error))
                if isinstance(error, NotFoundError | PermissionMissingError):
                    found[repository.id] = None
                return
        found[repository.id] = page.total > 0

    await asyncio.gather(*map(ask, repositories))
    return found
