"""Simulated days, by seed; what CI runs of `make simulate`."""

import pytest

from tests.simulation.engine import simulate

CHUNKS, SEEDS_A_CHUNK = 20, 15


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_simulated_day_breaks_an_invariant(chunk):
    for seed in range(chunk * SEEDS_A_CHUNK, (chunk + 1) * SEEDS_A_CHUNK):
        simulate(seed)
