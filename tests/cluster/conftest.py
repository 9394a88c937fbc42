"""A strict API server of our own, and a cluster as we use it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from ghapp.cluster.api import Cluster
from ghapp.sandbox.cluster.rbac import RbacRule
from tests.support.cluster import SteeredCluster


@pytest.fixture
def api() -> Iterator[SteeredCluster]:
    with SteeredCluster() as server:
        server.control.namespace("runners")
        yield server


@pytest.fixture
async def cluster(api: SteeredCluster) -> AsyncIterator[Cluster]:
    """A client that may do everything."""
    async with client(api) as found:
        yield Cluster(found)


def client(api: SteeredCluster, user: str = "admin") -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {api.token(user)}"}
    return httpx2.AsyncClient(base_url=api.url, headers=headers, trust_env=False)


@pytest.fixture
async def worker(api: SteeredCluster) -> AsyncIterator[Cluster]:
    """A client that may read pods in one namespace, and nothing else."""
    api.control.user("system:serviceaccount:ghapp:worker", [RbacRule(("get", "list"), ("",), ("pods",), ("runners",))])
    async with client(api, "system:serviceaccount:ghapp:worker") as found:
        yield Cluster(found)
