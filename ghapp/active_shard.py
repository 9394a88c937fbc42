"""Queries which shard of a pool is active, from the pool's own command or URL: an SSM parameter, a tag, a file.

The workers query it every half minute and store the answer for all readers; `ghapp gate` queries it itself. The web
role never runs a command. Commands run without a shell, and see only the environment variables that the pool names.
Their stderr is discarded, because it may contain secrets.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress

import httpx

from ghapp.gate.active_shard import ActiveShardAnswer
from ghapp.gate.shard_status import is_shard
from ghapp.settings import PoolSettings, Settings
from ghapp.settings.pools import COMMAND_ENV

TIMEOUT_SECONDS = 10.0
END_SECONDS = 1.0
LARGEST_BYTES = 4096


async def query_active_shard(
    settings: Settings, pool: PoolSettings, clock: Callable[[], float]
) -> ActiveShardAnswer | None:
    """Queries the pool's command or URL; returns None if it has neither. Never raises: the answer has the failure."""
    if not pool.active_source:
        return None
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            output = await (_run(settings, pool) if pool.active_command else _fetch(pool.active_url or ""))
    except TimeoutError:
        return ActiveShardAnswer("", f"no answer within {TIMEOUT_SECONDS:.0f} s", clock())
    except _FailedError as error:
        return ActiveShardAnswer("", str(error), clock())
    return _parsed(output, clock())


class _FailedError(Exception):
    """The source gave no answer; the message has the reason."""


def _parsed(output: bytes, at: float) -> ActiveShardAnswer:
    if len(output) > LARGEST_BYTES:
        return ActiveShardAnswer("", f"its output has more than {LARGEST_BYTES} bytes", at)
    shard = output.decode("utf-8", "replace").strip()
    if not is_shard(shard):
        return ActiveShardAnswer("", "its output is not the name of a shard" if shard else "its output is empty", at)
    return ActiveShardAnswer(shard, "", at)


async def _run(settings: Settings, pool: PoolSettings) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            *pool.active_command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            env=environment(settings.command_env, pool),
            start_new_session=True,  # so that its child processes can be killed with it
        )
    except (OSError, ValueError) as error:
        raise _FailedError(f"it could not be started ({type(error).__name__})") from None
    is_done = False
    try:
        output = await _bounded(process)
        if len(output) > LARGEST_BYTES:
            return output
        code = await process.wait()
        is_done = True
    finally:
        if not is_done:
            await _kill(process)
    if code != 0:
        raise _FailedError(f"exit code {code}")
    return output


async def _bounded(process: Process) -> bytes:
    """Returns the output, cut one byte above the limit."""
    output = b""
    while process.stdout is not None and len(output) <= LARGEST_BYTES:
        part = await process.stdout.read(LARGEST_BYTES + 1 - len(output))
        if not part:
            break
        output += part
    return output


async def _kill(process: Process) -> None:
    """Kills the process group. Does not wait for a process that left the group and keeps stdout open."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            while process.stdout is not None and await process.stdout.read(LARGEST_BYTES):
                pass  # asyncio reports the exit only after all output was read
            await process.wait()


def environment(known: Mapping[str, str], pool: PoolSettings) -> dict[str, str]:
    """Returns the environment variables that a pool's command may see."""
    wanted = {*COMMAND_ENV, *pool.active_env}
    return {name: value for name, value in known.items() if name in wanted}


async def _fetch(url: str) -> bytes:
    body = b""
    try:
        plain = {"accept-encoding": "identity"}  # the limit applies to uncompressed bytes
        async with (
            httpx.AsyncClient(timeout=TIMEOUT_SECONDS, headers=plain) as client,
            client.stream("GET", url) as answer,
        ):
            if not answer.is_success:
                raise _FailedError(f"it answered {answer.status_code}")
            async for part in answer.aiter_raw():
                body += part
                if len(body) > LARGEST_BYTES:
                    break
    except httpx.HTTPError as error:
        raise _FailedError(f"it did not answer ({type(error).__name__})") from None
    return body
