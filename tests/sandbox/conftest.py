from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from ghapp.sandbox import OrgConfig, PoolConfig, SandboxConfig, SandboxServer, pools_of
from tests.sandbox.clients import app_client, installation_client
from tests.sandbox.receivers import Receiver

SMALL = (
    PoolConfig(name="linux-4vcpu", size=20),
    PoolConfig(name="gpu", size=5, ephemeral=False),
)


@pytest.fixture
def sandbox() -> Iterator[SandboxServer]:
    """Two organizations, no jobs, and a clock that stands still: time passes by `control.step` alone."""
    orgs = (OrgConfig(pools=SMALL), OrgConfig(login="globex", pools=pools_of(3)))
    with SandboxServer(SandboxConfig(orgs=orgs, quiet=True, ticking=False)) as server:
        yield server


@pytest.fixture
def app(sandbox: SandboxServer) -> Iterator[httpx.Client]:
    with app_client(sandbox) as client:
        yield client


@pytest.fixture
def acme(sandbox: SandboxServer) -> Iterator[httpx.Client]:
    with installation_client(sandbox) as client:
        yield client


@pytest.fixture
def receiver(sandbox: SandboxServer) -> Iterator[Receiver]:
    with Receiver() as hook:
        sandbox.control.webhook(url=hook.url)
        yield hook
