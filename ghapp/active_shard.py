"""Which shard of a pool is active, asked of its own command or URL: a parameter in SSM, a tag, a file on a server.

Asked by whoever may run commands: the workers, every half minute, who keep the answer for everyone to read, and
`ghapp gate` by itself. The web role never runs one. There is no shell, and the command sees nothing of the environment
but what the pool names. What it prints on stderr goes nowhere: it may hold secrets.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress

import httpx

from ghapp.health.gate.active_shard import ActiveShardAnswer
from ghapp.health.shards import is_shard
from ghapp.settings import PoolSettings, Settings
from ghapp.settings.pools import COMMAND_ENV

TIMEOUT_SECONDS = 10.0
END_SECONDS = 1.0
LARGEST_BYTES = 4096


async def query_active_shard(
    settings: Settings, pool: PoolSettings, clock: Callable[[], float]
) -> ActiveShardAnswer | None:
    """Ask the pool's command or URL which shard is active; None where it has neither. Never raises: it says why."""
    if not pool.active_source:
        return None
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            said = await (_run(settings, pool) if pool.active_command else _fetch(pool.active_url or ""))
    except TimeoutError:
        return ActiveShardAnswer("", f"it took longer than {TIMEOUT_SECONDS:.0f} s", clock())
    except _FailedError as error:
        return ActiveShardAnswer("", str(error), clock())
    return _understood(said, clock())


class _FailedError(Exception):
    """It gave no answer; says why."""


def _understood(said: bytes, at: float) -> ActiveShardAnswer:
    if len(said) > LARGEST_BYTES:
        return ActiveShardAnswer("", f"it said more than {LARGEST_BYTES} bytes", at)
    shard = said.decode("utf-8", "replace").strip()
    if not is_shard(shard):
        return ActiveShardAnswer("", "what it said is not the name of a shard" if shard else "it said nothing", at)
    return ActiveShardAnswer(shard, "", at)


async def _run(settings: Settings, pool: PoolSettings) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            *pool.active_command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            env=environment(settings.command_env, pool),
            start_new_session=True,  # so that what it starts can be ended with it
        )
    except (OSError, ValueError) as error:
        raise _FailedError(f"it could not be started ({type(error).__name__})") from None
    is_done = False
    try:
        said = await _bounded(process)
        if len(said) > LARGEST_BYTES:
            return said
        code = await process.wait()
        is_done = True
    finally:
        if not is_done:
            await _end(process)
    if code != 0:
        raise _FailedError(f"it ended with {code}")
    return said


async def _bounded(process: Process) -> bytes:
    """What it prints, up to one byte more than is taken."""
    said = b""
    while process.stdout is not None and len(said) <= LARGEST_BYTES:
        part = await process.stdout.read(LARGEST_BYTES + 1 - len(said))
        if not part:
            break
        said += part
    return said


async def _end(process: Process) -> None:
    """Kill it and whatever it started. What has fled its group, and holds on to its stdout, is not waited for."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            while process.stdout is not None and await process.stdout.read(LARGEST_BYTES):
                pass  # asyncio sees the end only behind what was printed
            await process.wait()


def environment(known: Mapping[str, str], pool: PoolSettings) -> dict[str, str]:
    """What a pool's command sees of the environment."""
    wanted = {*COMMAND_ENV, *pool.active_env}
    return {name: value for name, value in known.items() if name in wanted}


async def _fetch(url: str) -> bytes:
    said = b""
    try:
        plain = {"accept-encoding": "identity"}  # what is bounded here must not grow when it is unpacked
        async with (
            httpx.AsyncClient(timeout=TIMEOUT_SECONDS, headers=plain) as client,
            client.stream("GET", url) as answer,
        ):
            if not answer.is_success:
                raise _FailedError(f"it answered {answer.status_code}")
            async for part in answer.aiter_raw():
                said += part
                if len(said) > LARGEST_BYTES:
                    break
    except httpx.HTTPError as error:
        raise _FailedError(f"it did not answer ({type(error).__name__})") from None
    return said
