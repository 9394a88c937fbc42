"""Pausing and resuming remediation."""

from dataclasses import replace
from unittest.mock import AsyncMock

import pytest
from structlog.testing import capture_logs

from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.redis_clock import redis_time
from ghapp.remediation import store as fuses
from ghapp.remediation.fuse import Fuse, FuseLimits, FuseReason, Position
from ghapp.remediation.pause import Pause, PauseResult
from ghapp.remediation.store import Fuses, Resumption
from ghapp.wording import time_of

ACME = Installation(7, "acme", 70)
LIMITS = FuseLimits(first_batch=5)
NOW = 1_790_000_000.25
STOPPED = Fuse(Position.STOPPED, since=NOW - 900, batch=12, allowed=21, reason=FuseReason.BATCH_NEVER_ONLINE)
PROVING = Fuse(Position.PROVING, since=NOW - 900, batch=3, allowed=3, reason=FuseReason.MASS_LOSS)
CLOSED = Fuse(closed_at=NOW - 9)
RESTARTED = Fuse(
    Position.PROVING,
    since=NOW,
    batch=5,
    allowed=5,
    reason=FuseReason.RESUMED,
    by="mona",
    batch_at=NOW,
    tripped_for=FuseReason.RESUMED,
)
PAUSE = Pause("octocat", "maintenance", NOW - 60)


async def paused_and_stopped(redis):
    fuses = Fuses(redis)
    for pool, fuse in {"linux": STOPPED, "gpu": STOPPED, "arm": PROVING, "mac": CLOSED}.items():
        await fuses.save(ACME.id, pool, None, fuse)
    for pool in (ALL_POOLS, "linux", "mac"):
        await fuses.pause(ACME.id, pool, PAUSE)
    return fuses


async def test_resuming_an_org_resumes_all_its_pools(redis):
    fuses = await paused_and_stopped(redis)
    done = await fuses.resume(ACME, None, "mona", NOW, LIMITS)
    assert done.ended == {ALL_POOLS: PAUSE, "linux": PAUSE, "mac": PAUSE}
    assert done.proving == {"linux": RESTARTED, "gpu": RESTARTED}
    assert await fuses.pauses(ACME.id) == {}
    assert await fuses.all(ACME.id) == {"linux": RESTARTED, "gpu": RESTARTED, "arm": PROVING, "mac": CLOSED}


@pytest.mark.parametrize(
    ("done", "text"),
    [
        (Resumption(), ""),
        (
            Resumption({ALL_POOLS: PAUSE}, {"linux": RESTARTED, ALL_POOLS: RESTARTED}),
            (
                f"ended the pause of all pools by octocat since {time_of(PAUSE.at)}: maintenance; "
                "restarted the fuse of all pools, linux"
            ),
        ),
        (Resumption(reaping=frozenset({"linux"})), "restarted the fuse of the reaper of linux"),
        (Resumption(proving=dict.fromkeys("abcde", RESTARTED)), "restarted the fuse of a, b, c, 2 more"),
    ],
    ids=["nothing", "a pause and two fuses", "the reaper", "many"],
)
def test_a_resume_says_whose_pause_it_ended_and_which_fuses_it_restarted(done, text):
    assert done.in_words == text


async def test_resuming_a_pool_resumes_no_other_pool(redis):
    fuses = await paused_and_stopped(redis)
    done = await fuses.resume(ACME, "linux", "mona", NOW, LIMITS)
    assert (done.ended, done.proving) == ({"linux": PAUSE}, {"linux": RESTARTED})
    assert set(await fuses.pauses(ACME.id)) == {ALL_POOLS, "mac"}
    assert (await fuses.all(ACME.id))["gpu"] == STOPPED


async def test_a_restart_ends_no_pause(redis):
    fuses = await paused_and_stopped(redis)
    before = await fuses.pauses(ACME.id)
    done = await fuses.restart(ACME, None, "mona", NOW, LIMITS)
    assert (done.ended, set(done.proving) > set()) == ({}, True)
    assert await fuses.pauses(ACME.id) == before


async def test_a_pause_is_over_at_its_end_and_another_may_follow(redis):
    fuses, now = Fuses(redis), await redis_time(redis)
    over, lasting = Pause("mona", "a move", now - 60, now - 0.001), Pause("lisa", "another", now, now + 60)
    await fuses.pause(ACME.id, "linux", over)
    assert await fuses.pauses(ACME.id) == {}
    assert await fuses.pause(ACME.id, "linux", lasting) == (lasting, PauseResult.PAUSED, None)
    earlier = Pause("octocat", "a third", now, now + 30)
    assert await fuses.pause(ACME.id, "linux", earlier) == (lasting, PauseResult.ALREADY_PAUSED, None)
    assert await fuses.pauses(ACME.id) == {"linux": lasting}


RUNNING = Pause("mona", "a move", NOW, NOW + 7200)


@pytest.mark.parametrize(
    ("asked", "changed", "result"),
    [
        (("lisa", "", 14_400), ("a move", 14_400), PauseResult.EXTENDED),
        (("lisa", "", None), ("a move", None), PauseResult.EXTENDED),
        (("lisa", "mine", 14_400), ("a move", 14_400), PauseResult.EXTENDED),
        (("lisa", "mine", 7260), ("a move", 7260), PauseResult.EXTENDED),
        (("lisa", "mine", 7259), ("a move", 7200), PauseResult.ALREADY_PAUSED),
        (("lisa", "mine", 3600), ("a move", 7200), PauseResult.ALREADY_PAUSED),
        (("mona", "", 3600), ("a move", 3600), PauseResult.CHANGED),
        (("mona", "", 14_400), ("a move", 14_400), PauseResult.EXTENDED),
        (("mona", "", None), ("a move", None), PauseResult.EXTENDED),
        (("mona", "another", 7200), ("another", 7200), PauseResult.CHANGED),
        (("mona", "another", 14_400), ("another", 14_400), PauseResult.EXTENDED),
        (("mona", "a move", 7205), ("a move", 7200), PauseResult.ALREADY_PAUSED),
    ],
)
async def test_a_running_pause_is_changed_in_place(redis, monkeypatch, asked, changed, result):
    monkeypatch.setattr(fuses, "redis_time", AsyncMock(return_value=NOW + 10))
    stored, (who, why, until), (new_why, new_until) = Fuses(redis), asked, changed
    assert (await stored.pause(ACME.id, "linux", RUNNING)).result is PauseResult.PAUSED
    done = await stored.pause(ACME.id, "linux", Pause(who, why, NOW + 10, None if until is None else NOW + until))
    after = replace(RUNNING, why=new_why, until=None if new_until is None else NOW + new_until)
    is_changed = result is not PauseResult.ALREADY_PAUSED
    assert done == (after, result, RUNNING if is_changed else None)
    assert done.has_effect is is_changed
    assert await stored.pauses(ACME.id) == {"linux": after}


async def test_a_pause_without_an_end_is_shortened_by_who_started_it_alone(redis, monkeypatch):
    monkeypatch.setattr(fuses, "redis_time", AsyncMock(return_value=NOW))
    stored, endless, end = Fuses(redis), replace(RUNNING, until=None), NOW + 600
    await stored.pause(ACME.id, "linux", endless)
    assert (await stored.pause(ACME.id, "linux", Pause("lisa", "x", NOW, end))).pause == endless
    assert (await stored.pause(ACME.id, "linux", Pause("mona", "", NOW, end))).pause == replace(endless, until=end)


async def test_no_pause_begins_without_a_reason(redis):
    stored, now = Fuses(redis), await redis_time(redis)
    for before in ([], [Pause("mona", "a move", now - 60, now - 0.001)]):
        for pause in before:
            await stored.pause(ACME.id, "linux", pause)
        done = await stored.pause(ACME.id, "linux", Pause("lisa", "", now, now + 600))
        assert (done.result, done.has_effect) == (PauseResult.NEEDS_REASON, False)
        assert await stored.pauses(ACME.id) == {}


async def test_resuming_without_pauses_and_stopped_fuses_changes_nothing(redis):
    fuses = await paused_and_stopped(redis)
    await fuses.resume(ACME, None, "mona", NOW, LIMITS)
    again = await fuses.resume(ACME, None, "octocat", NOW + 1, LIMITS)
    assert not again
    assert (await fuses.all(ACME.id))["linux"].by == "mona"


async def test_the_log_has_the_person_and_the_resumed_pool(redis):
    fuses = await paused_and_stopped(redis)
    with capture_logs() as lines:
        await fuses.resume(ACME, "linux", "mona", NOW, LIMITS)
    assert lines == [
        {"event": event, "log_level": "info", "installation": 7, "org": "acme", "pool": "linux", "by": "mona"}
        for event in ("pause ended", "fuse restarted")
    ]
