"""A local Redis for tests that need their own, or a restart of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ghapp.local.local_redis import supervised_redis
from ghapp.local.redis_servers import RedisServer


@contextmanager
def embedded_redis(folder: Path, *, durable: bool, servers: Sequence[RedisServer] | None = None) -> Iterator[str]:
    """Runs a local Redis while the block runs; yields its URL. Arguments and errors as of `EmbeddedRedis`."""
    with supervised_redis(folder, durable=durable, servers=servers) as redis:
        yield redis.url
