"""Only the store and the queue use Redis and its errors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for top in ("ghapp", "jobs") for path in (ROOT / top).rglob("*.py"))
KNOWS_REDIS_ERRORS = ("ghapp/store/", "ghapp/queue/", "ghapp/redis_errors.py")
STORES = sorted([*(ROOT / "ghapp").glob("store/*.py"), *(ROOT / "ghapp").glob("*/*store.py")])


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def test_errors_of_redis_are_handled_inside_the_store_and_the_queue():
    knowing = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        if any(name.startswith("redis.exceptions") or name == "redis.RedisError" for name in imported(path))
    }
    assert "ghapp/redis_errors.py" in knowing
    assert [each for each in sorted(knowing) if not each.startswith(KNOWS_REDIS_ERRORS)] == []


def called(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr


def store_classes() -> set[str]:
    """The classes over a client: what `stores_over` constructs, and what those construct."""
    return {
        node.name
        for path in STORES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.FunctionDef) and each.name == "__init__" and "redis" in {a.arg for a in each.args.args}
    }


def callers(names: set[str]) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in SOURCES if path not in STORES and names & set(called(path))}


def test_stores_are_constructed_only_by_stores():
    classes = store_classes()
    assert {"Runners", "Fuses", "Inbox", "SharedTokens", "RecordWriter"} <= classes
    assert callers(classes) == set()


def test_only_roles_and_commands_open_the_stores():
    assert callers({"stores_over", "open_stores"}) == {
        "ghapp/cli/context.py",
        "ghapp/gate/doctor.py",
        "ghapp/doctor/github.py",
        "ghapp/installations/doctor.py",
        "ghapp/notifications/doctor.py",
        "ghapp/doctor/pod_locations.py",
        "ghapp/leaks/doctor.py",
        "ghapp/doctor/redis.py",
        "ghapp/doctor/roles.py",
        "ghapp/doctor/watch.py",
        "ghapp/local/dashboard.py",
        "ghapp/web/app.py",
        "jobs/context.py",
        "jobs/pods/watch.py",
        "jobs/scheduler.py",
    }
