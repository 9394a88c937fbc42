"""What commands read and change, from Redis or over HTTP; a command does not know from which of the two.

`ghapp.cli.local` reads the stores, `ghapp.cli.remote` asks the API at `GHAPP_URL`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

from ghapp.cli.context import UnknownPoolError, no_such_pool, opened, settings_here
from ghapp.gate.judgement import Gate, GateRequest
from ghapp.report.documents import HealthDocument
from ghapp.report.overview import HeadlineDocument, HeldDocument, PhantomDocument, PoolQueueDocument
from ghapp.workflow_jobs.job import JobSearch, PullReference

T = TypeVar("T")

_ID = r"([1-9][0-9]{0,17})"
_JOB = re.compile(rf"{_ID}|https?://\S*/(?:runs/[0-9]+/job|actions/jobs)/{_ID}(?:[/?#]\S*)?", re.ASCII)
_OWNER = re.compile(r"https?://[^/\s]+/(?:api/v3/)?(?:repos/)?([^/\s]+)/[^/\s]+/actions/", re.ASCII)
_RUN = re.compile(rf"https?://\S*/actions/runs/{_ID}(?:[/?#]\S*)?", re.ASCII)


class JobReference(NamedTuple):
    """What a person names: a job, or all jobs of a run; `owner` is the organization of a URL, empty without one."""

    job_id: int | None = None
    run_id: int | None = None
    owner: str = ""

    @classmethod
    def parse(cls, text: str) -> JobReference | None:
        """Parses the id of a job, or the URL of a job or a run, of the pages or of the API; None for anything else."""
        owner = found[1] if (found := _OWNER.match(text)) else ""
        if found := _JOB.fullmatch(text):
            return cls(job_id=int(found[1] or found[2]), owner=owner)
        if found := _RUN.fullmatch(text):
            return cls(run_id=int(found[1]), owner=owner)
        return None

    def __str__(self) -> str:
        return f"job {self.job_id}" if self.run_id is None else f"run {self.run_id}"


class FleetDocuments(NamedTuple):
    """What is wrong, the worst of each organization first; runners, phantoms, what holds replacements, jobs by pool."""

    headlines: list[HeadlineDocument]
    runners: list[HealthDocument]
    phantoms: list[PhantomDocument]
    held: list[HeldDocument]
    pools: list[PoolQueueDocument]


class ShardGate(Protocol):
    """The gate of one pool's shards.

    Attributes:
        min_online: runners that must be online, unless the command gives a number.
        settle_seconds: how long it must keep passing, unless the command gives a time; None: a single pass is enough.
        sweep_seconds: time between two lists of runners.
    """

    min_online: int
    settle_seconds: float | None
    sweep_seconds: float

    async def judge(self, request: GateRequest) -> Gate:
        """Returns the gate's result as of now; may be called repeatedly.

        Raises:
            UnavailableError: Redis or the server does not answer.
        """


class Backend(Protocol):
    """Reads and changes of the commands. `org` is a name of an org; None where all orgs are meant.

    Every method raises `GhappError`: `UnknownOrgError` if the App is not installed there.

    Attributes:
        page_url: the address of the page; None if it is not known.
    """

    page_url: str | None

    async def fleet(self, org: str | None) -> FleetDocuments:
        """Returns the runners, and what is known beside them."""

    async def orgs(self) -> list[str]:
        """Returns the organizations that can be read."""

    async def pools(self, org: str | None) -> set[str]:
        """Returns the names of the pools."""

    async def runner_names(self, org: str | None) -> list[str]:
        """Returns the names of the runners as last known."""

    async def runner(self, org: str, name_or_id: str) -> dict[str, Any]:
        """Returns the health document of a runner with `death` and `phantoms`."""

    async def jobs(
        self, org: str | None, state: str | None, pool: str | None, search: JobSearch, pull: PullReference | None
    ) -> list[Any]:
        """Returns jobs, each with its `org`; with `pull` only those of that pull request's commits.

        `state` is `queued`, `running`, `over`, `unserved`, or None: for the first two, or for all that match a search.
        """

    async def jobs_referred_to(self, org: str, reference: JobReference) -> list[Any]:
        """Returns the document of a job, or of each known job of a run."""

    async def deaths(self, org: str | None, pool: str | None, cause: str | None, limit: int) -> list[Any]:
        """Returns the latest deaths, each with its `org`; clean exits only if `cause` names them."""

    async def versions(self, org: str | None) -> list[Any]:
        """Returns the versions of the runner that run, each with its `org`, the worst of each org first."""

    async def dead_letters(self) -> list[dict[str, Any]]:
        """Returns the deliveries that were given up, oldest first: `id`, `guid`, `event`, `why`, `at`."""

    async def pause(self, org: str, pool: str | None, why: str | None, seconds: float | None) -> list[str]:
        """Pauses remediation, for a number of seconds or until a person resumes.

        Returns:
            Lines with the pause that is in effect.
        """

    async def resume(self, org: str, pool: str | None) -> list[str]:
        """Clears pauses and restarts stopped fuses; returns lines with the result."""

    async def gate(self, org: str, pool: str) -> ShardGate:
        """Returns the gate of a pool that has shards."""


@asynccontextmanager
async def backend() -> AsyncIterator[Backend]:
    """Yields the API at `GHAPP_URL` if it is set; else the stores."""
    settings = settings_here()
    if settings.url is not None:
        from ghapp.cli.remote import connected

        async with connected(settings.url, settings.token) as remote:
            yield remote
        return
    from ghapp.cli.local import LocalBackend

    async with opened(settings, over_http=True) as stores:
        yield LocalBackend(settings, stores)


def query_of_pool(work: Callable[[Backend], Awaitable[list[T]]], org: str | None, pool: str | None) -> list[T]:
    """Runs one query of a command with `--pool`.

    Raises:
        UnknownPoolError: it finds nothing, because there is no such pool.
    """

    async def checked(backend: Backend) -> list[T]:
        found = await work(backend)
        if not found:
            await require_pool(backend, org, pool)
        return found

    return query(checked)


async def require_pool(backend: Backend, org: str | None, pool: str | None) -> None:
    """Raises UnknownPoolError if a pool is named that does not exist."""
    if pool is not None and pool not in (known := await backend.pools(org)):
        raise UnknownPoolError(no_such_pool(org, pool, known))


def query(work: Callable[[Backend], Awaitable[T]]) -> T:
    """Runs one query of a command."""

    async def with_backend() -> T:
        async with backend() as found:
            return await work(found)

    return asyncio.run(with_backend())
