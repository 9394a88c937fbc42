"""The short-lived cache of GitHub's answers about an installation."""

from __future__ import annotations

from ghapp.installations.installation import Installation
from ghapp.installations.store import MEMORY_SECONDS, InstallationState, InstallationStates
from ghapp.store import keys

NOW = 1_790_000_000.0
ACME = InstallationState(Installation(7, "acme", 70, {"checks": "write"}), NOW)


async def test_an_answer_is_cached_for_some_seconds(redis):
    states = InstallationStates(redis)
    assert await states.last(7) is None
    await states.remember(ACME)
    assert await states.last(7) == ACME
    assert await states.last(8) is None
    assert 0 < await redis.pttl(keys.installation_state(7)) <= MEMORY_SECONDS * 1000


async def test_a_contradiction_drops_the_cached_answer_and_any_answer_in_progress(redis):
    states = InstallationStates(redis)
    await states.remember(ACME)
    await states.contradict(7)
    assert await states.last(7) is None
    await states.remember(ACME)
    assert await states.last(7) is None
    assert 0 < await redis.pttl(keys.installation_state(7)) <= MEMORY_SECONDS * 1000


async def test_the_time_of_an_answer_is_not_extended_by_a_later_one(redis):
    states = InstallationStates(redis)
    await states.remember(ACME)
    await states.remember(ACME._replace(asked_at=NOW + 5))
    assert await states.last(7) == ACME
