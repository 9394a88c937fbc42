"""All keys and values of a Redis database, as bytes."""

from redis.asyncio import Redis


async def everything(redis: Redis) -> bytes:
    seen = []
    for key in await redis.keys():
        match await redis.type(key):
            case b"string":
                value = await redis.get(key)
            case b"hash":
                value = await redis.hgetall(key)
            case b"list":
                value = await redis.lrange(key, 0, -1)
            case b"stream":
                value = await redis.xrange(key)
            case other:
                raise NotImplementedError(other)
        seen += [key, value if isinstance(value, bytes) else repr(value).encode()]
    return b"\n".join(seen)
