"""Lists the runners of a scope: pages concurrently, unchanged pages by ETag; or GETs single runners."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ghapp.errors import GitHubError, GitHubUnavailableError
from ghapp.github import wire
from ghapp.github.ports import PageCache, RunnerSource
from ghapp.github.response import PER_PAGE
from ghapp.installations.etag_page import EtagPage
from ghapp.log import logger
from ghapp.runners.absence import GetResult, RunnerList
from ghapp.runners.verdict import Reason

log = logger(__name__)

MOST_PAGES = 1_000
"""Limit of pages: 100,000 runners, more than GitHub allows in an organization."""

Progress = Callable[[int, int], None]
"""Called after each page with the number of pages read and of all pages."""


@dataclass(frozen=True, slots=True)
class ListResult:
    """A list of all runners, and what it cost.

    Attributes:
        runner_list: the list.
        calls: requests sent.
        billable: requests that count against the hourly limit.
        changed: pages that changed since they were last read; None if none was read with this token before.
        digest: of the bytes of all pages; the same for the same list.
    """

    runner_list: RunnerList
    calls: int
    billable: int
    changed: int | None
    digest: bytes


class _Pages:
    """Reads the pages of one list, each at most once.

    Attributes:
        changed: the pages that are not as they were before, by number.
        digests: of each page that was read, by number.
    """

    def __init__(self, source: RunnerSource, known: Mapping[int, EtagPage]) -> None:
        """`known` are the pages that were read before with the same token."""
        self._source, self._known = source, known
        self.changed: dict[int, EtagPage] = {}
        self.digests: dict[int, bytes] = {}

    async def fetch(self, number: int) -> tuple[bytes, str | None]:
        """Returns the body of a page, and its ETag unless the page is as it was before."""
        before = self._known.get(number)
        listing = await self._source.list_runners(number, before.etag if before else None)
        if listing.body is None and before is not None:
            if (kept := before.body()) is not None:
                return kept, None
            listing = await self._source.list_runners(number, None)
        return listing.body or b"", listing.etag

    def parse(self, number: int, body: bytes, etag: str | None) -> wire.RunnerPage:
        """Returns the runners of a fetched page, and keeps it if it has changed."""
        page = wire.runner_page(body, self._source.left_out)
        self.digests[number] = _digest(body)
        if etag is not None:
            self.changed[number] = EtagPage.of(etag, body)
        return page

    async def fetch_others(
        self, last: int, concurrency: int, progress: Progress
    ) -> tuple[list[wire.RunnerPage], Exception | None]:
        """Reads the pages after the first, `concurrency` at once; returns them, and the first error.

        After a failed page no further page is requested; pages in flight are paid for, and kept.
        """
        slots = asyncio.Semaphore(concurrency)
        pages: dict[int, wire.RunnerPage] = {}
        failures: list[Exception] = []

        async def read(number: int) -> None:
            try:
                async with slots:
                    if failures:
                        return
                    fetched = await self.fetch(number)
                pages[number] = self.parse(number, *fetched)  # while the next page is on its way
            except Exception as error:  # noqa: BLE001 - the task group would wrap it, and cancel pages that are paid for
                failures.append(error)
            else:
                progress(1 + len(pages), last)

        async with asyncio.TaskGroup() as group:
            for number in range(2, last + 1):
                group.create_task(read(number))
        return [pages[number] for number in sorted(pages)], next(iter(failures), None)


async def list_runners(
    source: RunnerSource,
    kept: PageCache,
    concurrency: int,
    progress: Progress = lambda _done, _of: None,
) -> ListResult:
    """Lists all runners, in at most ⌈N/100⌉ calls.

    The first page reports the total; the others follow. The list is complete only if all pages agree on the total and
    the number of different runners equals it.

    Raises:
        GitHubError: a page failed.
    """
    known = await kept.of(source.key, source.token)
    pages = _Pages(source, known)
    first = pages.parse(1, *await pages.fetch(1))
    last = max(1, -(-first.total // PER_PAGE))
    if last > MOST_PAGES:
        raise GitHubUnavailableError(f"GitHub counts {first.total} runners, which is not to be believed")
    progress(1, last)
    others, failure = await pages.fetch_others(last, concurrency, progress)
    if pages.changed or any(number > last for number in known):
        await kept.keep(source.key, source.token, pages.changed, last)
    if failure is not None:
        raise failure
    return ListResult(
        list_of([first, *others]),
        calls=last,
        billable=len(pages.changed),
        changed=sum(number in known for number in pages.changed) if known else None,
        digest=_digest(b"".join(pages.digests[number] for number in sorted(pages.digests))),
    )


async def first_page(source: RunnerSource, kept: PageCache) -> RunnerList:
    """Reads the first page alone: it proves that the list is readable and not empty, and no absence."""
    known = await kept.of(source.key, source.token)
    body, _ = await _Pages(source, known).fetch(1)
    page = wire.runner_page(body, source.left_out)
    runners = {runner.id: runner for runner in page.runners}
    return RunnerList(runners, page.total, churned=True, unreadable=page.unreadable)


def list_of(pages: list[wire.RunnerPage]) -> RunnerList:
    """Returns the list that these pages are."""
    runners = {runner.id: runner for page in pages for runner in page.runners}
    unreadable = frozenset[int]().union(*(page.unreadable for page in pages)) - runners.keys()
    flaw = flaw_of(pages, len(runners) + len(unreadable))
    return RunnerList(runners, pages[0].total, flaw, unreadable=unreadable)


def flaw_of(pages: list[wire.RunnerPage], distinct: int) -> Reason | None:
    """Returns why these pages are no complete list, or None. Offset pages shift when the fleet changes meanwhile.

    A row without a readable id makes the list incomplete: it may be of any runner that the list lacks.
    """
    totals = {page.total for page in pages}
    arrived = sum(len(page.runners) + len(page.unreadable) + page.unnamed for page in pages)
    return None if totals == {distinct} and arrived == distinct else Reason.LIST_INCOMPLETE


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


async def get_each(
    source: RunnerSource,
    ids: Iterable[int],
    concurrency: int,
    clock: Callable[[], float],
    failures: dict[int, GitHubError] | None = None,
) -> dict[int, GetResult]:
    """GETs each runner; the result lacks those without an answer.

    Waits until the token is old enough to be believed: a 404 for a new token proves nothing.

    Args:
        source: of the runners.
        ids: of the runners.
        concurrency: requests in flight.
        clock: epoch seconds.
        failures: gets the error of each runner without an answer.
    """
    ids, slots = list(ids), asyncio.Semaphore(concurrency)
    if ids:
        await source.settle()
    answers: dict[int, GetResult] = {}

    async def ask(runner_id: int) -> None:
        async with slots:
            try:
                runner = await source.runner(runner_id)
                answers[runner_id] = GetResult(runner, clock())
            except GitHubError as error:
                if failures is not None:
                    failures[runner_id] = error
                log.info(
                    "runner lookup failed",
                    runner=runner_id,
                    org=source.name,
                    why=str(error),
                )

    await asyncio.gather(*(ask(runner_id) for runner_id in ids))
    return answers
