"""Lists the runners of an installation: pages concurrently, unchanged pages by ETag; or GETs single runners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ghapp.errors import GitHubError, GitHubUnavailableError
from ghapp.github import wire
from ghapp.github.installation_client import InstallationClient
from ghapp.github.transport import PER_PAGE
from ghapp.health.runner.absence import GetResult, RunnerList
from ghapp.health.runner.evidence import Registration
from ghapp.health.runner.verdict import Reason
from ghapp.log import logger
from ghapp.store.etag_pages import EtagPage, EtagPages

log = logger(__name__)

MOST_PAGES = 1_000
"""A hundred thousand runners: GitHub lets no organization have as many."""

Progress = Callable[[int, int], None]
"""Told after each page: pages done, pages in all."""


@dataclass(frozen=True, slots=True)
class ListResult:
    """The result of listing all runners.

    Attributes:
        runners: whoever was listed, by id.
        total: how many GitHub says there are.
        calls: requests sent.
        billable: those that count against the hourly limit.
        flaw: why the list proves no absence; None when it is complete.
    """

    runners: dict[int, Registration] = field(default_factory=dict)
    total: int = 0
    calls: int = 0
    billable: int = 0
    flaw: Reason | None = None

    @property
    def look(self) -> RunnerList:
        """What it says of the runners, without what it cost."""
        return RunnerList(self.runners, self.total, self.flaw)


async def _page(
    installation_client: InstallationClient, number: int, known: Mapping[int, EtagPage], changed: dict[int, EtagPage]
) -> wire.RunnerPage:
    """Reads one page, from `known` where GitHub says that it is unchanged; else the page is added to `changed`."""
    before = known.get(number)
    listing = await installation_client.list_runners(number, before.etag if before else None)
    if listing.body is None and before is not None:
        return wire.runner_page(before.body)
    body = listing.body or b""
    page = wire.runner_page(body)
    changed[number] = EtagPage(listing.etag, body)
    return page


async def list_runners(
    installation_client: InstallationClient,
    pages: EtagPages,
    concurrency: int,
    progress: Progress = lambda _done, _of: None,
) -> ListResult:
    """List all runners, in at most ⌈N/100⌉ calls.

    The first page says how many there are; the others follow, `concurrency` at once. The list is complete only
    when all pages agree on the total and it is the number of different runners that arrived. Once a page fails no
    further one is asked for; those on their way are paid for, and kept.
    """
    installation = installation_client.installation.id
    known = await pages.of(installation, installation_client.token)
    changed: dict[int, EtagPage] = {}

    first = await _page(installation_client, 1, known, changed)
    last = max(1, -(-first.total // PER_PAGE))
    if last > MOST_PAGES:
        raise GitHubUnavailableError(f"GitHub counts {first.total} runners, which is not to be believed")
    done = 1
    progress(done, last)
    slots = asyncio.Semaphore(concurrency)
    failures: list[GitHubError] = []

    async def look_further(number: int) -> wire.RunnerPage | None:
        nonlocal done
        async with slots:
            if failures:
                return None
            try:
                page = await _page(installation_client, number, known, changed)
            except GitHubError as error:
                failures.append(error)
                return None
        done += 1
        progress(done, last)
        return page

    async with asyncio.TaskGroup() as group:
        others = [group.create_task(look_further(number)) for number in range(2, last + 1)]
    await pages.keep(installation, installation_client.token, changed, last)
    if failures:
        raise failures[0]
    listed = [first, *(page for task in others if (page := task.result()) is not None)]
    runners = {runner.id: runner for page in listed for runner in page.runners}
    return ListResult(
        runners=runners,
        total=first.total,
        calls=last,
        billable=len(changed),
        flaw=flaw_of(listed, len(runners)),
    )


async def first_page(installation_client: InstallationClient, pages: EtagPages) -> RunnerList:
    """The first page alone: that the list can be read, and is not empty. Whom it lacks, it says nothing of."""
    known = (await pages.of(installation_client.installation.id, installation_client.token)).get(1)
    listing = await installation_client.list_runners(1, known.etag if known else None)
    body = known.body if listing.body is None and known is not None else listing.body or b""
    page = wire.runner_page(body)
    return RunnerList({runner.id: runner for runner in page.runners}, page.total, churned=True)


def flaw_of(pages: list[wire.RunnerPage], distinct: int) -> Reason | None:
    """Why these pages are no complete list, or None: offset pages slip when the fleet changes under them."""
    totals = {page.total for page in pages}
    arrived = sum(len(page.runners) for page in pages)
    return None if totals == {distinct} and arrived == distinct else Reason.LIST_INCOMPLETE


async def get_each(
    installation_client: InstallationClient, ids: Iterable[int], concurrency: int, clock: Callable[[], float]
) -> dict[int, GetResult]:
    """GET each runner alone. Those that gave no answer are left out.

    A token that is too young to be believed is waited for: no call is spent on an answer that proves nothing.
    """
    ids, slots = list(ids), asyncio.Semaphore(concurrency)
    if ids:
        await installation_client.settle()
    answers: dict[int, GetResult] = {}

    async def ask(runner_id: int) -> None:
        async with slots:
            try:
                said = await installation_client.runner(runner_id)
                answers[runner_id] = GetResult(said, clock())
            except GitHubError as error:
                log.info(
                    "the runner gave no answer",
                    runner=runner_id,
                    org=installation_client.installation.org,
                    why=str(error),
                )

    await asyncio.gather(*(ask(runner_id) for runner_id in ids))
    return answers
