"""One real Redis for each test process, empty before each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import hypothesis
import pytest
from redis.asyncio import Redis

from ghapp.embedded import embedded_redis
from ghapp.store.connect import connect

hypothesis.settings.register_profile("ours", deadline=None)  # no test is about time
hypothesis.settings.load_profile("ours")

LONGEST = ("tests/chaos/", "tests/stories/", "tests/simulation/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first, lest everybody waits for it at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


@pytest.fixture(autouse=True)
def _no_state_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test finds the App that a developer has set up on this machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_redis(tmp_path_factory.mktemp("redis"), durable=False) as url:
        yield url


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    client = connect(redis_url)
    await client.flushdb()
    yield client
    await client.aclose()
