"""The audit log: no change without its entry, no actor's entries pushed out by another, and what had no effect apart."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.store import audit, keys
from ghapp.store.audit import BEGUN, KEPT_SECONDS, AuditEntry, AuditLog, Channel, Trail, excess

NOW = 1_790_000_000.0
PAUSE = AuditEntry(NOW, "mona", Channel.PAGE, "pause", "*", "an incident", "")


async def change(log, entry=PAUSE, trail=Trail.CHANGES, *, has_effect=True):
    async with log.change(7, entry, trail) as outcome:
        outcome.set("paused", has_effect=has_effect)


async def trails(log):
    return {trail: found for trail in Trail if (found := await log.latest(7, 5_000, trail))}


async def test_the_log_has_the_latest_first_and_no_more_than_its_bound(redis, monkeypatch):
    monkeypatch.setattr(audit, "MOST", 3)
    log = AuditLog(redis)
    entries = [PAUSE._replace(at=NOW + at, address="192.0.2.7") for at in range(4)]
    for entry in entries:
        await log.record(7, entry)
    assert await log.latest(7, 10) == entries[:0:-1]
    assert await log.latest(7, 2) == [entries[3], entries[2]]
    assert await log.latest(8, 10) == []
    assert 0 < await redis.ttl(keys.audit(7)) <= KEPT_SECONDS


async def test_entries_are_in_the_order_of_their_times_also_if_what_began_first_ended_last(redis):
    log = AuditLog(redis)
    sweep = PAUSE._replace(at=NOW - 30, action="sweep", result="queued")
    for entry in (sweep, PAUSE._replace(at=NOW - 25), PAUSE._replace(at=NOW - 20)):
        await log.record(7, entry)
    await log.conclude(7, sweep, sweep._replace(result="found no suspect"))
    assert [each.at - NOW for each in await log.latest(7, 9)] == [-20, -25, -30]


async def test_an_entry_stands_before_its_change_is_made_and_stays_after_a_crash(redis):
    log = AuditLog(redis)

    async def crash():
        async with log.change(7, PAUSE) as outcome:
            assert await trails(log) == {Trail.CHANGES: [PAUSE._replace(result=BEGUN)]}
            outcome.set("paused")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await crash()
    assert await trails(log) == {Trail.CHANGES: [PAUSE._replace(result=BEGUN)]}
    await change(log)
    assert [each.result for each in await log.latest(7, 9)] == ["paused", BEGUN]


@pytest.mark.parametrize(
    ("trail", "has_effect", "found"),
    [
        (Trail.CHANGES, True, Trail.CHANGES),
        (Trail.CHANGES, False, Trail.ATTEMPTS),
        (Trail.CONTROLLERS, True, Trail.CONTROLLERS),
        (Trail.CONTROLLERS, False, None),
    ],
)
async def test_what_had_no_effect_is_no_change(redis, trail, has_effect, found):
    log = AuditLog(redis)
    await change(log, trail=trail, has_effect=has_effect)
    assert await trails(log) == ({} if found is None else {found: [PAUSE._replace(result="paused")]})


async def test_attempts_displace_no_change_not_even_one_of_their_own(redis, monkeypatch):
    monkeypatch.setattr(audit, "MOST", 12)
    log = AuditLog(redis)
    for at in range(11):  # as many as stay before a trail is trimmed
        await change(log, PAUSE._replace(at=NOW + at))
    changes = await log.latest(7, 99)
    for at in range(40):
        await change(log, PAUSE._replace(at=NOW + at), has_effect=False)
    assert await log.latest(7, 99) == changes
    assert len(changes) == 11
    assert len(await log.latest(7, 99, Trail.ATTEMPTS)) <= 11


async def test_changes_whose_processes_crash_are_bounded_too(redis, monkeypatch):
    monkeypatch.setattr(audit, "MOST", 12)
    log = AuditLog(redis)
    for at in range(40):
        with suppress(OSError):
            async with log.change(7, PAUSE._replace(at=NOW + at)):
                raise OSError
    assert len(await log.latest(7, 99)) <= 12


@pytest.mark.parametrize("flooding", ["another", "mona"])
async def test_no_actor_pushes_out_the_entries_of_another(redis, monkeypatch, flooding):
    """A token named as the person is another one."""
    monkeypatch.setattr(audit, "MOST", 12)
    log, flood = AuditLog(redis), PAUSE._replace(who=flooding, channel=Channel.API)
    for at in range(5):
        await change(log, PAUSE._replace(at=NOW + at))
    for at in range(60):
        await change(log, flood._replace(at=NOW + 10 + at))
    found = await log.latest(7, 99)
    assert [each.at for each in found if each.channel == Channel.PAGE] == [NOW + at for at in (4, 3, 2, 1, 0)]
    assert found[0].at == NOW + 69
    assert len(found) <= 11


async def test_an_unreadable_entry_is_trimmed_as_one_of_an_actor_of_its_own(redis, monkeypatch):
    monkeypatch.setattr(audit, "MOST", 3)
    log = AuditLog(redis)
    await redis.lpush(keys.audit(7), *(f"garbage {number}" for number in range(6)))
    await change(log)
    assert [each.result for each in await log.latest(7, 99)] == ["paused"]
    assert await redis.llen(keys.audit(7)) <= 3


@given(st.lists(st.sampled_from("abcd")), st.integers(0, 12))
def test_what_is_deleted_is_the_oldest_of_the_actor_with_the_most(actors, most):
    deleted = excess(actors, most)
    kept = [position for position in range(len(actors)) if position not in deleted]
    assert len(deleted) == len({*deleted}) == max(0, len(actors) - most)
    had, has = Counter(actors), Counter(actors[each] for each in kept)
    largest = max(has.values(), default=0)
    for actor, count in had.items():
        assert has[actor] in (count, largest, largest - 1), "no actor loses an entry while another one has more"
        of_actor = [position for position in kept if actors[position] == actor]
        assert of_actor == [position for position, each in enumerate(actors) if each == actor][: len(of_actor)]
