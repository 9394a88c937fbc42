"""The store owns Redis: its errors, and its keys."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for top in ("ghapp", "jobs") for path in (ROOT / top).rglob("*.py"))
KNOWS_REDIS_ERRORS = ("ghapp/store/", "ghapp/queue/", "ghapp/redis_errors.py")


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def test_errors_of_redis_leave_neither_the_store_nor_the_queue():
    knowing = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        if any(name.startswith("redis.exceptions") or name == "redis.RedisError" for name in imported(path))
    }
    assert "ghapp/redis_errors.py" in knowing
    assert [each for each in sorted(knowing) if not each.startswith(KNOWS_REDIS_ERRORS)] == []
