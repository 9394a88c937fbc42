"""Presses of buttons: each gets the outcome of the work that it asked for, once, and so does its audit log entry."""

import pytest

from ghapp.deaths.rerun import GIVEN_BACK_SECONDS, tries_end_after
from ghapp.errors import Refusal, StoreRefusedError
from ghapp.store import keys, presses
from ghapp.store.audit import AuditEntry, AuditLog, Channel, Trail
from ghapp.store.presses import SWEEP_TOPIC, Presses, check_topic
from ghapp.wording import clock_time

NOW = 1_790_000_000.0
ENTRY = AuditEntry(NOW, "mona", Channel.PAGE, "sweep", "", "", "")


async def results(redis):
    return [each.result for each in await AuditLog(redis).latest(7, 9)]


async def test_a_press_is_queued_until_its_work_ends(redis):
    store = Presses(redis)
    press_id = await store.begin(7, SWEEP_TOPIC, ENTRY)
    assert ((await store.get(7, press_id)).outcome, await results(redis)) == ("", ["queued"])
    await store.conclude(7, check_topic(1), lambda _: "another work")
    await store.conclude(8, SWEEP_TOPIC, lambda _: "another organization's")
    assert ((await store.get(7, press_id)).outcome, await results(redis)) == ("", ["queued"])
    await store.conclude(7, SWEEP_TOPIC, lambda _: "found no suspect, 4 calls")
    assert (await store.get(7, press_id)).outcome == "found no suspect, 4 calls"
    assert await results(redis) == ["found no suspect, 4 calls"]


async def test_the_outcome_of_later_work_is_not_the_presss(redis):
    store = Presses(redis)
    press_id = await store.begin(7, SWEEP_TOPIC, ENTRY)
    for each in ("first", "second"):
        await store.conclude(7, SWEEP_TOPIC, lambda _, each=each: each)
    assert ((await store.get(7, press_id)).outcome, await results(redis)) == ("first", ["first"])


async def test_presses_of_one_topic_share_the_work_and_each_has_its_entry(redis):
    store = Presses(redis)
    ids = [await store.begin(7, SWEEP_TOPIC, ENTRY._replace(who=who)) for who in ("mona", "lisa")]
    await store.conclude(7, SWEEP_TOPIC, lambda press: f"for {press.entry.who}")
    assert [(await store.get(7, each)).outcome for each in ids] == ["for mona", "for lisa"]
    assert sorted(await results(redis)) == ["for lisa", "for mona"]


async def test_a_press_shows_what_its_work_waits_for_until_it_ends(redis):
    store = Presses(redis)
    press_id, other = await store.begin(7, "rerun a", ENTRY), await store.begin(7, "rerun b", ENTRY)
    await redis.expire(keys.presses(7), 10)
    for at in (60.0, 120.0):
        await store.wait(7, "rerun a", "the fuse is not closed", NOW + at, NOW + 900)
    tried_again = f"next try at {clock_time(NOW + 120)}, for the last time at {clock_time(NOW + 900)}"
    press = await store.get(7, press_id)
    assert (press.outcome, press.waits_for) == ("", "the fuse is not closed")
    assert (press.next_at, press.ends_at) == (NOW + 120, NOW + 900)
    assert (await store.get(7, other)).waits_for == ""
    waits = f"waits: the fuse is not closed; {tried_again}"
    assert sorted(await results(redis)) == ["queued", waits], "one entry for each press"
    assert await redis.ttl(keys.presses(7)) > presses.KEPT_SECONDS - 10
    await store.wait(7, "rerun a", "the run goes on", NOW + 180)
    await store.conclude(7, "rerun a", lambda _: "accepted")
    await store.wait(7, "rerun a", "too late", NOW + 240)
    assert (await store.get(7, press_id)).outcome == "accepted"
    assert sorted(await results(redis)) == ["accepted", "queued"]


async def test_a_press_joins_one_of_its_topic_that_has_no_outcome_and_no_other(redis):
    store = Presses(redis)
    first, who = await store.begin_or_join(7, "rerun a", ENTRY)
    assert (who, await results(redis)) == ("mona", ["queued"])
    second = await store.begin_or_join(7, "rerun a", ENTRY._replace(who="lisa", at=NOW + 1))
    other, by = await store.begin_or_join(7, "rerun b", ENTRY._replace(who="lisa"))
    assert (second, by, other != first) == ((first, "mona"), "lisa", True)
    assert await results(redis) == ["queued", "queued"]
    (attempt,) = await AuditLog(redis).latest(7, 9, Trail.ATTEMPTS)
    assert (attempt.who, attempt.result) == ("lisa", f"{presses.ALREADY_REQUESTED} by mona")
    await store.conclude(7, "rerun a", lambda _: "accepted")
    third, by = await store.begin_or_join(7, "rerun a", ENTRY._replace(who="lisa"))
    assert (third != first, by) == (True, "lisa")


def test_a_press_is_kept_for_longer_than_a_re_run_is_tried():
    assert tries_end_after(0) + GIVEN_BACK_SECONDS < presses.KEPT_SECONDS


async def test_outcomes_of_an_hour_ago_make_room_for_others(redis, monkeypatch):
    monkeypatch.setattr(presses, "MOST", 6)
    store, late = Presses(redis), ENTRY._replace(at=NOW + presses.SHOWN_SECONDS + 1)
    done = await store.begin(7, SWEEP_TOPIC, ENTRY)
    await store.conclude(7, SWEEP_TOPIC, lambda _: "found no suspect, 4 calls")
    waits = await store.begin(7, "rerun a", ENTRY)
    assert await store.get(7, await store.begin(7, SWEEP_TOPIC, ENTRY)) is None, "too many within the hour"
    later = await store.begin(7, SWEEP_TOPIC, late)
    found = [await store.get(7, each) is not None for each in (done, waits, later)]
    assert found == [False, True, True]
    assert await redis.hlen(keys.presses(7)) == 2


async def test_an_unknown_press_has_none(redis):
    assert await Presses(redis).get(7, "nope") is None


async def test_a_press_beyond_the_most_is_in_the_audit_log(redis, monkeypatch):
    monkeypatch.setattr(presses, "MOST", 2)
    store = Presses(redis)
    first, second = [await store.begin(7, SWEEP_TOPIC, ENTRY._replace(who=who)) for who in ("mona", "lisa")]
    assert [(await store.get(7, each)) is not None for each in (first, second)] == [True, False]
    assert await results(redis) == ["queued", "queued"]


async def test_what_redis_refuses_is_logged_and_stops_no_sweep(redis, monkeypatch):
    store = Presses(redis)
    press_id = await store.begin(7, SWEEP_TOPIC, ENTRY)

    async def refuse(*_):
        raise StoreRefusedError("OOM command not allowed", Refusal.MEMORY)

    monkeypatch.setattr(redis, "hset", refuse)
    await store.wait(7, SWEEP_TOPIC, "GitHub is away", NOW)
    monkeypatch.setattr(redis, "hsetnx", refuse)
    await store.conclude(7, SWEEP_TOPIC, lambda _: "found no suspect, 1 call")
    assert (await store.get(7, press_id)).outcome == ""


async def test_presses_expire(redis):
    await Presses(redis).begin(7, SWEEP_TOPIC, ENTRY)
    assert 0 < await redis.ttl(keys.presses(7)) <= presses.KEPT_SECONDS


@pytest.mark.parametrize("row", [b"garbage", b""])
async def test_an_unreadable_press_costs_itself_alone(redis, row):
    store = Presses(redis)
    await redis.hset(keys.presses(7), "odd", row)
    press_id = await store.begin(7, SWEEP_TOPIC, ENTRY)
    await store.conclude(7, SWEEP_TOPIC, lambda _: "done")
    assert (await store.get(7, press_id)).outcome == "done"
