"""What was told of a pool's shards: their last deploys, and what the pool's command or URL says is active."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from redis.asyncio import Redis

from ghapp.errors import StoreUnavailableError
from ghapp.health.rollout.active import ANSWER_SECONDS, Answer, Deploy, told
from ghapp.store import keys

ATTEMPTS = 20

_encode = msgspec.msgpack.Encoder().encode
_decode_deploys = msgspec.msgpack.Decoder(tuple[Deploy, ...]).decode
_decode_answer = msgspec.msgpack.Decoder(Answer).decode

_REPLACE = """
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
"""


class Shards:
    """The shards of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._replace: Any = redis.register_script(_REPLACE)

    async def deploys(self, installation: int, pool: str) -> tuple[Deploy, ...]:
        """The last deploy of each shard that anybody told of, in the order of telling."""
        row: Any = await self._redis.hget(keys.deploys(installation), pool)
        return () if row is None else _decode_deploys(row)

    async def tell(self, installation: int, pool: str, deploy: Callable[[Deploy | None], Deploy]) -> Deploy:
        """Record a deploy, whoever else tells of another at the same time.

        Args:
            installation: whose.
            pool: of the configuration: whoever calls keeps strangers' names out.
            deploy: the new record, from that shard's last one; called again when somebody was faster. It names the
                same shard each time, in lower case.

        Returns:
            What was recorded.
        """
        key, shard = keys.deploys(installation), deploy(None).shard
        for _ in range(ATTEMPTS):
            row: Any = await self._redis.hget(key, pool)
            known = () if row is None else _decode_deploys(row)
            new = deploy(next((each for each in known if each.shard == shard), None))
            if await self._replace(keys=[key], args=[pool, row or b"", _encode(told(known, new))]):
                return new
        raise StoreUnavailableError(f"the deploys of {pool} changed {ATTEMPTS} times under our hands")

    async def answered(self, installation: int, pool: str, answer: Answer) -> None:
        """Record what the pool's command or URL said."""
        key = f"{keys.active(installation)}:{pool}"
        await self._redis.set(key, _encode(answer), ex=int(ANSWER_SECONDS))

    async def answer(self, installation: int, pool: str) -> Answer | None:
        """What it last said; None when it has not for minutes."""
        row: Any = await self._redis.get(f"{keys.active(installation)}:{pool}")
        return None if row is None else _decode_answer(row)
