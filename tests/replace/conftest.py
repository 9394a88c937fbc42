"""A real API over HTTP, as far as a sandbox can be that, and our own client on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ghapp.cluster.api import Cluster
from ghapp.cluster.connection import open_cluster
from tests.support.cluster import SteeredCluster


@pytest.fixture
def server() -> Iterator[SteeredCluster]:
    with SteeredCluster() as running:
        yield running


@pytest.fixture
async def cluster(server: SteeredCluster, tmp_path: Path) -> AsyncIterator[Cluster]:
    path = server.kubeconfig(tmp_path / "kubeconfig")
    async with open_cluster({"KUBECONFIG": str(path)}) as opened:
        yield opened
