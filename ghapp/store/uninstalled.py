"""Data of uninstalled installations: each key `ghapp:{id}:…` expires 30 days after the App was uninstalled.

Keys that expire earlier by themselves are left alone. If the same installation is listed again, each key gets back the
expiry that it had, or none: a list of installations may have lacked it. After a real uninstallation GitHub gives the
App another id. Each step may be repeated, also after a crash; discovery repeats it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from redis.asyncio import Redis

from ghapp.store import keys

KEPT_SECONDS = 30 * 86_400.0
"""From the uninstallation until its data expires."""

SCAN_COUNT = 1000
MOST_SCANS = 50
"""Steps of SCAN in one call, each of about `SCAN_COUNT` keys; the next call continues."""

_OF_INSTALLATION = re.compile(rb"ghapp:([1-9]\d*):")

_NOW = "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000)"

_EXPIRE = f"""
local at = redis.call('HGET', KEYS[1], ARGV[1])
if not at then return 0 end
at = tonumber(at) + tonumber(ARGV[2])
{_NOW}
for i = 3, #KEYS do
  local left = redis.call('PTTL', KEYS[i])
  if left == -1 or (left > 0 and now + left > at + 1000) then
    redis.call('HSET', KEYS[2], KEYS[i], left == -1 and '-1' or string.format('%.0f', now + left))
    redis.call('PEXPIREAT', KEYS[i], string.format('%.0f', at))
  end
end
redis.call('PEXPIREAT', KEYS[2], string.format('%.0f', at))
return 1
"""
"""KEYS: uninstalled, former expiries, then keys. ARGV: installation, milliseconds to keep."""

_RESTORE = f"""
local at = redis.call('HGET', KEYS[1], ARGV[1])
if not at then return 0 end
at = tonumber(at) + tonumber(ARGV[2])
{_NOW}
for i = 3, #KEYS do
  local former, left = redis.call('HGET', KEYS[2], KEYS[i]), redis.call('PTTL', KEYS[i])
  if former and left > 0 and math.abs(now + left - at) <= 1000 then
    if former == '-1' then redis.call('PERSIST', KEYS[i]) else redis.call('PEXPIREAT', KEYS[i], former) end
  end
  redis.call('HDEL', KEYS[2], KEYS[i])
end
return 1
"""
"""As `_EXPIRE`. A key with another expiry than ours was written again since, and is left alone."""


class UninstalledData:
    """Expiries of the data of uninstalled installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._expire: Any = redis.register_script(_EXPIRE)
        self._restore: Any = redis.register_script(_RESTORE)

    async def removed(self, installations: Iterable[int], now: float) -> None:
        """Records that these installations are uninstalled; call it before their own records are deleted.

        Args:
            installations: their ids; one that was recorded before keeps its time.
            now: epoch seconds.
        """
        for each in installations:
            await self._redis.hsetnx(keys.UNINSTALLED, str(each), f"{now * 1000:.0f}")

    async def returned(self, installations: Iterable[int]) -> None:
        """Restores the expiries of these installations, as far as they were uninstalled."""
        recorded: Any = await self._redis.hkeys(keys.UNINSTALLED)
        for each in {int(row) for row in recorded} & set(installations):
            former = keys.former_expiries(each)
            found: Any = await self._redis.hkeys(former)
            for at in range(0, len(found), SCAN_COUNT):
                await self._run(self._restore, each, found[at : at + SCAN_COUNT])
            await self._redis.hdel(keys.UNINSTALLED, str(each))

    async def expire(self, now: float) -> None:
        """Sets the expiry of keys of uninstalled installations, as many as `MOST_SCANS` steps find.

        Args:
            now: epoch seconds; an installation whose data has expired is forgotten.
        """
        recorded: Any = await self._redis.hgetall(keys.UNINSTALLED)
        since = {row: float(at) / 1000 for row, at in recorded.items()}
        for row in [row for row, at in since.items() if now - at > KEPT_SECONDS]:
            await self._redis.hdel(keys.UNINSTALLED, row.decode())
            del since[row]
        if not since:
            return
        cursor = int(await self._redis.get(keys.UNINSTALLED_CURSOR) or 0)
        for _ in range(MOST_SCANS):
            scanned: Any = await self._redis.scan(cursor, match="ghapp:[1-9]*", count=SCAN_COUNT)
            cursor, found = scanned
            by_installation = defaultdict[bytes, list[bytes]](list)
            for key in found:
                if (match := _OF_INSTALLATION.match(key)) is not None and match[1] in since:
                    by_installation[match[1]].append(key)
            for row, group in by_installation.items():
                await self._run(self._expire, int(row), group)
            if not cursor:
                break
        await self._redis.set(keys.UNINSTALLED_CURSOR, cursor, ex=int(KEPT_SECONDS))

    async def _run(self, script: Any, installation: int, found: Iterable[bytes]) -> None:
        former = keys.former_expiries(installation)
        data = [key for key in found if key != former.encode()]
        await script([keys.UNINSTALLED, former, *data], [str(installation), f"{KEPT_SECONDS * 1000:.0f}"])
