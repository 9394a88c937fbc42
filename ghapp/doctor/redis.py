"""Redis: how it answers, and whether it takes and keeps what it is given."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, OutOfMemoryError, ReadOnlyError, ResponseError

from ghapp.doctor.finding import Finding, ok, warning, wrong
from ghapp.doctor.probe import connected
from ghapp.report.documents import timestamp
from ghapp.store import keys
from ghapp.store.quarantine import Quarantine, UnreadableRecord

GROUP = "redis"
PINGS = 3
PROBE_MILLISECONDS = 1000

MOST_NAMED = 5
"""Unreadable records that are named."""


async def look(url: str) -> list[Finding]:
    """Ask it about itself."""
    async with connected(url) as redis:
        milliseconds = min([await _ping(redis) for _ in range(PINGS)])
        info: Any = {}
        with suppress(ResponseError):  # our user there need not be permitted to ask
            info = await redis.info()
        refusal = await _refusal(redis)
        policy = str(info.get("maxmemory_policy", ""))
        with suppress(ResponseError):  # nor need a managed Redis tell
            told: Any = await redis.config_get("maxmemory-policy")
            policy = str(told.get("maxmemory-policy", policy))
        fsync = ""
        with suppress(ResponseError):
            settings: Any = await redis.config_get("appendfsync")
            fsync = str(settings.get("appendfsync", ""))
        unreadable: list[UnreadableRecord] = []
        with suppress(ResponseError):
            unreadable = await Quarantine(redis).standing()
    return [*of_redis(url, milliseconds, info, policy, fsync), *of_writing(refusal), *of_records(unreadable)]


def of_records(unreadable: Sequence[UnreadableRecord]) -> list[Finding]:
    """Whether all records can be read.

    Args:
        unreadable: those that a role could not read, and that were not written again since, the oldest first.
    """
    if not unreadable:
        return [ok(GROUP, "records", "no unreadable record is known")]
    named = [
        f"{each.kind} {each.field} in {each.key}" if each.field else f"{each.kind} in {each.key}"
        for each in unreadable[:MOST_NAMED]
    ]
    more = f" and {len(unreadable) - MOST_NAMED} more" if len(unreadable) > MOST_NAMED else ""
    said = f"{len(unreadable)} unreadable since {timestamp(unreadable[0].found_at)}: {', '.join(named)}{more}"
    fix = (
        "run versions that are at most one release apart. The next sweep writes runners again, other records are "
        "written when they change, and `ghapp resume` ends an unreadable pause or fuse; the bytes are kept in "
        f"{keys.QUARANTINE}"
    )
    return [warning(GROUP, "records", said, fix)]


def of_writing(refusal: ResponseError | None) -> list[Finding]:
    """Whether it takes what it is given: reading works on many a Redis that keeps nothing."""
    if refusal is None:
        return [ok(GROUP, "writing", "it takes what it is given")]
    said, fix = f"it keeps nothing: {refusal}", "mend that: without it nothing is remembered"
    match refusal:
        case ReadOnlyError():
            said, fix = "it is a replica, and takes nothing", "name the primary, or Sentinel by redis+sentinel://"
        case OutOfMemoryError():
            said, fix = "its memory is full, and it takes nothing", "raise its maxmemory"
        case NoPermissionError():
            said, fix = "our user may not write our keys", "permit it ~ghapp:* and ~rq:*; SECURITY.md has the whole"
    return [wrong(GROUP, "writing", said, fix)]


def of_redis(url: str, milliseconds: float, info: Mapping[str, object], policy: str, fsync: str = "") -> list[Finding]:
    """What its answers mean.

    Args:
        url: where it is.
        milliseconds: a round trip.
        info: its INFO; empty where it does not tell.
        policy: its maxmemory-policy; empty where it does not tell.
        fsync: its appendfsync; empty where it does not tell.
    """
    used = int(str(info.get("used_memory", 0))) / 2**20
    found = [ok(GROUP, "answers", f"{info.get('redis_version', '?')} in {milliseconds:.1f} ms, {used:.0f} MiB used")]
    if str(info.get("aof_enabled")) == "1":
        found.append(_of_fsync(fsync))
    else:
        said = "appendonly is off" if "aof_enabled" in info else "appendonly is not told"
        fix = "set `appendonly yes`: a restart forgets who is lost, and deliveries that wait"
        found.append(warning(GROUP, "persistence", said, fix))
    if policy == "noeviction":
        found.append(ok(GROUP, "eviction", policy))
    else:
        fix = "set `maxmemory-policy noeviction`: an evicted record is a runner forgotten"
        found.append(warning(GROUP, "eviction", f"maxmemory-policy is {policy or 'not told'}", fix))
    if far := [host for host in _in_clear(url) if not _is_here(host)]:
        fix = "use rediss:// and an ACL user: whoever writes there gives work to the workers"
        found.append(warning(GROUP, "transport", f"no TLS to {', '.join(far)}", fix))
    return found


def _of_fsync(fsync: str) -> Finding:
    """When a write is on the disk. The usual `everysec` is a choice, and its price is named."""
    match fsync:
        case "no":
            fix = (
                "set `appendfsync always` or `everysec`: half a minute of answered deliveries is lost with the machine"
            )
            return warning(GROUP, "persistence", "appendonly, and appendfsync is no", fix)
        case "everysec":
            said = "appendonly, appendfsync everysec: with the machine, up to 2 s of answered deliveries are lost"
            return ok(GROUP, "persistence", said)
    return ok(GROUP, "persistence", f"appendonly, appendfsync {fsync}" if fsync else "appendonly")


async def _refusal(redis: Redis) -> ResponseError | None:
    try:
        await redis.set(keys.PROBE, b"", px=PROBE_MILLISECONDS)
    except ResponseError as error:
        return error
    return None


async def _ping(redis: Redis) -> float:
    began = time.monotonic()
    await redis.ping()
    return 1000 * (time.monotonic() - began)


def _in_clear(url: str) -> list[str]:
    """The hosts that are spoken to without TLS; of Sentinel all."""
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "redis+sentinel"):
        return []
    places = parts.netloc.rpartition("@")[2].split(",")
    return [urlsplit(f"//{place}").hostname or "localhost" for place in places]


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
