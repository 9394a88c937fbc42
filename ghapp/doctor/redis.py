"""Checks Redis: its latency, whether it accepts writes, and whether it persists them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import Redis

from ghapp.doctor.finding import Finding, ok, warning, wrong
from ghapp.doctor.left_out import of_left_out
from ghapp.doctor.tokens import of_tokens
from ghapp.errors import Refusal, StoreRefusedError
from ghapp.store import keys
from ghapp.store.connect import probe_write
from ghapp.store.quarantine import UnreadableRecord
from ghapp.store.stores import open_stores
from ghapp.wording import time_of

GROUP, WRITING = "redis", "writing"
PINGS = 3
SLOW_MILLISECONDS = 100.0
"""Of a round trip. A sweep takes dozens of them."""

MOST_NAMED = 5
"""The maximum of unreadable records that are named."""


async def check(url: str) -> list[Finding]:
    """Reads its INFO and configuration, and writes a probe key."""
    async with open_stores(url) as stores:
        redis = stores.redis
        milliseconds = min([await _ping(redis) for _ in range(PINGS)])
        info: Any = {}
        with suppress(StoreRefusedError):  # its ACL user may lack INFO
            info = await redis.info()
        refusal = await _refusal(redis)
        policy = str(info.get("maxmemory_policy", ""))
        with suppress(StoreRefusedError):  # a managed Redis may refuse CONFIG
            config: Any = await redis.config_get("maxmemory-policy")
            policy = str(config.get("maxmemory-policy", policy))
        fsync = ""
        with suppress(StoreRefusedError):
            config = await redis.config_get("appendfsync")
            fsync = str(config.get("appendfsync", ""))
        unreadable: list[UnreadableRecord] = []
        with suppress(StoreRefusedError):
            unreadable = await stores.quarantine.unresolved()
        tokens: list[Finding] = []
        with suppress(StoreRefusedError):
            tokens = of_tokens(await stores.tokens.all(), await stores.now())
        left_out: list[Finding] = []
        with suppress(StoreRefusedError):
            left_out = of_left_out(await stores.left_out.last(), await stores.now())
    return [
        *of_redis(url, milliseconds, info, policy, fsync),
        *of_writing(refusal),
        *of_records(unreadable),
        *left_out,
        *tokens,
    ]


def of_records(unreadable: Sequence[UnreadableRecord]) -> list[Finding]:
    """Reports records that a role could not read and that were not rewritten since.

    Args:
        unreadable: those records, the oldest first.
    """
    if not unreadable:
        return [ok(GROUP, "records", "no unreadable record is known")]
    named = [
        f"{each.kind} {each.field} in {each.key}" if each.field else f"{each.kind} in {each.key}"
        for each in unreadable[:MOST_NAMED]
    ]
    more = f" and {len(unreadable) - MOST_NAMED} more" if len(unreadable) > MOST_NAMED else ""
    text = f"{len(unreadable)} unreadable since {time_of(unreadable[0].found_at)}: {', '.join(named)}{more}"
    fix = (
        "run versions that are at most one release apart. The next sweep rewrites runners, other records are rewritten "
        "when they change, and `ghapp resume` clears an unreadable pause or fuse; the original bytes are kept in "
        f"{keys.QUARANTINE}"
    )
    return [warning(GROUP, "records", text, fix)]


def of_writing(refusal: StoreRefusedError | None) -> list[Finding]:
    """Judges the result of a probe write; reads also work on a Redis that accepts no writes."""
    if refusal is None:
        return [ok(GROUP, WRITING, "writes are accepted")]
    text, fix = f"writes fail: {refusal.why}", "fix that: without writes no state is kept"
    match refusal.refusal:
        case Refusal.REPLICA:
            text, fix = "it is a replica and rejects writes", "name the primary, or Sentinel by redis+sentinel://"
        case Refusal.MEMORY:
            text, fix = "its memory is full and it rejects writes", "raise its maxmemory"
        case Refusal.DISK:
            text, fix = "it cannot write to its disk and rejects writes", "free its disk, or enlarge it; see its log"
        case Refusal.PERMISSION:
            text, fix = "its ACL user may not write our keys", "permit ~ghapp:* and ~rq:*; SECURITY.md has the full ACL"
    return [wrong(GROUP, WRITING, text, fix)]


def of_redis(url: str, milliseconds: float, info: Mapping[str, object], policy: str, fsync: str = "") -> list[Finding]:
    """Judges the latency and the configuration of Redis.

    Args:
        url: its URL.
        milliseconds: of one round trip.
        info: its INFO; empty when it is not permitted.
        policy: its maxmemory-policy; empty when unknown.
        fsync: its appendfsync; empty when unknown.
    """
    used = int(str(info.get("used_memory", 0))) / 2**20
    text = f"{_version(info)} in {milliseconds:.1f} ms, {used:.0f} MiB used"
    found = [ok(GROUP, "answers", text)]
    if milliseconds > SLOW_MILLISECONDS:
        fix = "find out what slows it or the network down (SLOWLOG, its CPU, swapping): all roles wait for it"
        found = [warning(GROUP, "answers", f"slow: {text}", fix)]
    if str(info.get("aof_enabled")) == "1":
        found.append(_of_fsync(fsync))
    else:
        text = "appendonly is off" if "aof_enabled" in info else "appendonly is unknown"
        fix = "set `appendonly yes`: without it, a restart loses the state of runners, and waiting deliveries"
        found.append(warning(GROUP, "persistence", text, fix))
    if policy == "noeviction":
        found.append(ok(GROUP, "eviction", policy))
    else:
        fix = "set `maxmemory-policy noeviction`: an evicted record is a forgotten runner"
        found.append(warning(GROUP, "eviction", f"maxmemory-policy is {policy or 'unknown'}", fix))
    if remote := [host for host in _without_tls(url) if not _is_loopback(host)]:
        fix = "use rediss:// and an ACL user: anyone who can write to this Redis can give jobs to the workers"
        found.append(warning(GROUP, "transport", f"no TLS to {', '.join(remote)}", fix))
    return found


def _version(info: Mapping[str, object]) -> str:
    """Returns product and version. Valkey reports the version of Redis that it is compatible with beside its own."""
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info.get('redis_version', '?')}"


def _of_fsync(fsync: str) -> Finding:
    """Judges when a write reaches the disk. The default, `everysec`, is accepted, and its cost is named."""
    match fsync:
        case "no":
            fix = "set `appendfsync always` or `everysec`: a machine failure loses half a minute of accepted deliveries"
            return warning(GROUP, "persistence", "appendonly, and appendfsync is no", fix)
        case "everysec":
            text = "appendonly, appendfsync everysec: a machine failure loses up to 2 s of accepted deliveries"
            return ok(GROUP, "persistence", text)
    return ok(GROUP, "persistence", f"appendonly, appendfsync {fsync}" if fsync else "appendonly")


async def _refusal(redis: Redis) -> StoreRefusedError | None:
    try:
        await probe_write(redis)
    except StoreRefusedError as error:
        return error
    return None


async def _ping(redis: Redis) -> float:
    began = time.monotonic()
    await redis.ping()
    return 1000 * (time.monotonic() - began)


def _without_tls(url: str) -> list[str]:
    """Returns the hosts that are contacted without TLS; all hosts of a Sentinel URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "redis+sentinel"):
        return []
    hosts = parts.netloc.rpartition("@")[2].split(",")
    return [urlsplit(f"//{host}").hostname or "localhost" for host in hosts]


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
