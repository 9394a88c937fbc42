"""What the web role keeps of organizations in memory."""

from __future__ import annotations

import tracemalloc

import pytest

from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.settings import Settings
from ghapp.store.stores import stores_over
from ghapp.web.fleet_view import FleetReader
from tests.web.conftest import NOW


@pytest.fixture
async def reader(redis):
    await Installations(redis).put(Installation(7, "acme", 1))
    return FleetReader(Settings.read({}), stores_over(redis, {}, lambda: NOW))


async def test_names_of_no_organization_are_not_kept(reader):
    """Anyone may send them; 1,000 of 50 KB took 100 MB."""
    assert (await reader.org("ACME")).installation.id == 7
    tracemalloc.start()
    try:
        for number in range(100):
            assert await reader.org(f"{number}{'a' * 50_000}") is None
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
