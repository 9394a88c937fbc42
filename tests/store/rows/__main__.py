"""`python -m tests.store.rows NAME`: the rows of the checked-out release, as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from ghapp import log
from ghapp.store.connect import connect
from tests.store.rows import samples
from tests.support.local_redis import embedded_redis


async def dumped(url: str) -> dict[str, Any]:
    """Every key that `samples.write` creates, with its type and contents, and the written records."""
    redis = connect(url)
    records = await samples.write(redis)
    stored: dict[str, Any] = {}
    for key in sorted(await redis.keys()):
        kind = (await redis.type(key)).decode()
        match kind:
            case "string":
                value: Any = (await redis.get(key)).hex()
            case "hash":
                found = await redis.hgetall(key)
                value = {field.decode(): row.hex() for field, row in sorted(found.items())}
            case "zset":
                value = {member.decode(): score for member, score in await redis.zrange(key, 0, -1, withscores=True)}
            case "stream":
                value = [
                    {name.decode(): part.hex() for name, part in entry.items()} for _, entry in await redis.xrange(key)
                ]
            case "list":
                value = [row.hex() for row in await redis.lrange(key, 0, -1)]
            case "set":
                value = sorted(member.decode() for member in await redis.smembers(key))
            case _:
                raise NotImplementedError(kind)
        stored[key.decode()] = [kind, value]
    await redis.aclose()
    return {"keys": stored, "records": msgspec.to_builtins(records)}


log.configure("json")  # to standard error: standard output has the rows alone
with tempfile.TemporaryDirectory() as folder, embedded_redis(Path(folder) / "redis", durable=False) as at:
    release = {"release": sys.argv[1], **asyncio.run(dumped(at))}
sys.stdout.write(json.dumps(release, indent=1) + "\n")
