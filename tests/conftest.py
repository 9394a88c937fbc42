"""One real Redis for each test process, empty before each test; and what costs time without proving anything is left out."""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from pathlib import Path

import certifi
import jwt.algorithms
import pytest
import structlog
import uvloop
from hypothesis import settings
from redis.asyncio import Redis

from ghapp.store.connect import connect, connect_sync
from tests.support.isolation import isolate
from tests.support.local_redis import embedded_redis

END = "-----END CERTIFICATE-----\n"
BLOCKED_LOOKS = 25
"""How often a second Redis looks whose wait is over: at its own ten, a drain's millisecond lasts a hundred."""

WAITING = (
    "tests/chaos/",
    "tests/stories/",
    "tests/browser/",
    "tests/packaging/",
    "tests/suite/",
)
"""Tests that wait for processes and clocks of their own."""

WAITING_ENDS = 0.6
"""By then the last of them has started, so that no worker waits for one of them at the end."""

# The duration of an example depends on the load of the machine.
settings.register_profile("unhurried", settings.default, deadline=None)
settings.load_profile("unhurried")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Isolates the suite; the processes of xdist are started later, and inherit it."""
    if not hasattr(config, "workerinput"):
        isolate(config)


@pytest.hookimpl(optionalhook=True)  # `-p no:xdist` leaves the plugin out
def pytest_xdist_auto_num_workers() -> int:
    """Three processes for each core: stories wait for real processes and clocks for most of their time."""
    return 3 * len(os.sched_getaffinity(0))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spreads tests that wait over those that compute: were they in a row, all workers would wait at once."""
    waiting = [item for item in items if item.nodeid.startswith(WAITING)]
    computing = [item for item in items if not item.nodeid.startswith(WAITING)]
    places = {item: WAITING_ENDS * place / len(waiting) for place, item in enumerate(waiting)}
    places |= {item: place / len(computing) for place, item in enumerate(computing)}
    items.sort(key=places.__getitem__)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Collects no garbage while tests are collected: nothing of them is, and the search for it takes a tenth."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Excludes the collected tests from garbage collection, which takes a quarter of the suite's CPU otherwise."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests run on uvloop, as jobs and the web role do: a tenth less CPU than on asyncio's own loop."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session", autouse=True)
def _plain_log() -> None:
    """A traceback is logged as plain text: by default it is drawn with all variables, which takes up to a second."""
    plain = [structlog.contextvars.merge_contextvars, structlog.processors.add_log_level]
    plain += [structlog.processors.format_exc_info, structlog.processors.KeyValueRenderer()]
    structlog.configure(processors=plain)


@pytest.fixture(scope="session", autouse=True)
def _one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test connects to the public network: one certificate authority is trusted, and not a hundred and twenty.

    Each client reads all of them, which takes 33 ms of CPU, and there are thousands of clients. Real processes that
    a test starts inherit it.
    """
    first = Path(certifi.where()).read_text().partition(END)[0] + END
    authority = tmp_path_factory.mktemp("trust") / "authority.pem"
    authority.write_text(first)
    compiled_in = ssl.get_default_verify_paths()._replace(openssl_cafile=str(authority), openssl_capath="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(authority))
        patch.setattr(certifi, "where", lambda: str(authority))
        patch.setattr(ssl, "get_default_verify_paths", lambda: compiled_in)
        yield


@pytest.fixture(scope="session", autouse=True)
def _keys_are_proven_once() -> Iterator[None]:
    """Reading a private key proves its primes, which takes 37 ms; there are few keys, and thousands of readings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jwt.algorithms, "load_pem_private_key", cache(jwt.algorithms.load_pem_private_key))
        yield


@pytest.fixture(autouse=True)
def _no_state_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test finds the App that a developer has set up on this machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_redis(tmp_path_factory.mktemp("redis"), durable=False) as url:
        with connect_sync(url) as redis:
            redis.config_set("hz", BLOCKED_LOOKS)
        yield url


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    client = connect(redis_url)
    await client.flushdb()
    yield client
    await client.aclose()
