"""A local Redis for tests that need their own, or a restart of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ghapp.local.local_redis import supervised_redis


@contextmanager
def embedded_redis(folder: Path, *, durable: bool, server: Path | None = None) -> Iterator[str]:
    """Runs a local Redis while the block runs; yields its URL. Arguments and errors as of `EmbeddedRedis`."""
    with supervised_redis(folder, durable=durable, server=server) as redis:
        yield redis.url
