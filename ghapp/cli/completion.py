"""Shell completion of organizations, pools and runners, from the API or from Redis; empty when these do not answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable

import click

from ghapp.cli.api_client import ApiClient
from ghapp.cli.api_connection import api

SECONDS = 2.0
"""For opening the connection and reading the names: a person waits at the prompt."""

_WORD = re.compile(r"[\w.:@/+-]+", re.ASCII)
"""Names that a shell takes as one word; others, which anybody may have chosen, are not offered."""

Read = Callable[[ApiClient, str | None], Awaitable[Iterable[str]]]
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _completion(read: Read) -> Complete:
    """Returns a completion with the names that `read` returns for the organization on the command line."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        try:
            names = asyncio.run(_names(read, ctx.params.get("org")))
        except Exception:  # noqa: BLE001 - no message may disturb the prompt
            return []
        begun = incomplete.lower()
        return sorted({each for each in names if each.lower().startswith(begun) and _WORD.fullmatch(each)})

    return complete


async def _names(read: Read, org: str | None) -> Iterable[str]:
    from ghapp.doctor.finding import DetachedThreads

    asyncio.get_running_loop().set_default_executor(DetachedThreads())  # a name server may not answer
    async with asyncio.timeout(SECONDS), api() as client:
        return await read(client, org)


async def _orgs(found: ApiClient, _: str | None) -> Iterable[str]:
    return await found.orgs()


async def _pools(found: ApiClient, org: str | None) -> Iterable[str]:
    return await found.pools(org)


async def _runners(found: ApiClient, org: str | None) -> Iterable[str]:
    return await found.runner_names(org)


complete_orgs, complete_pools, complete_runners = map(_completion, (_orgs, _pools, _runners))
