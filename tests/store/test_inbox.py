"""Deliveries: stored before they are acknowledged, drained by one process, and never lost."""

import asyncio

import pytest

from ghapp.deliveries import store as module
from ghapp.deliveries.store import ASKED_MILLISECONDS, MOST_AT_ONCE, TOP, Inbox, RedeliveryCursor
from ghapp.errors import StoreUnavailableError
from ghapp.store import keys
from ghapp.store.connect import connect

NOW = 1_790_000_000.0


async def test_a_delivery_is_in_the_stream_when_keep_returns(redis, redis_url):
    await Inbox(redis).keep("guid", "workflow_job", b"\x00facts")
    another = connect(redis_url)
    ((_, row),) = await another.xrange(keys.INBOX)
    await another.aclose()
    assert row == {b"g": b"guid", b"e": b"workflow_job", b"f": b"\x00facts"}


async def test_a_burst_is_one_write(redis):
    inbox = Inbox(redis)
    await redis.config_resetstat()
    await asyncio.gather(*(inbox.keep(f"guid-{each}", "ping", b"") for each in range(200)))
    stats = await redis.info("commandstats")
    assert (stats["cmdstat_xadd"]["calls"], stats["cmdstat_set"]["calls"]) == (200, 1)
    assert await inbox.lag() == 200


async def test_deliveries_that_arrive_during_a_write_are_the_next_batch(redis):
    arrived = asyncio.Event()
    inbox = Inbox(redis, arrived.wait)
    await inbox.keep("first", "ping", b"")
    late = [inbox.keep(f"late-{each}", "ping", b"") for each in range(3)]
    await asyncio.sleep(0)
    await redis.config_resetstat()
    arrived.set()
    await asyncio.gather(*late)
    stats = await redis.info("commandstats")
    assert (stats["cmdstat_xadd"]["calls"], stats["cmdstat_set"]["calls"]) == (3, 1)


async def test_a_redis_that_is_away_refuses_every_delivery_of_the_batch(tmp_path):
    away = connect(f"unix://{tmp_path}/unknown.sock")
    inbox = Inbox(away)
    answers = await asyncio.gather(*(inbox.keep(str(each), "ping", b"") for each in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailableError] * 3


async def test_an_error_of_any_kind_refuses_its_batch_and_the_next_delivery_is_stored(redis, monkeypatch):
    """A script that is missing twice: Redis failed over between the load and the call."""
    inbox, errors = Inbox(redis), [RuntimeError("NOSCRIPT")]
    store = inbox._store

    async def failing(batch):
        if errors:
            raise errors.pop()
        return await store(batch)

    monkeypatch.setattr(inbox, "_store", failing)
    first = inbox.keep("first", "ping", b"")
    await asyncio.sleep(0)
    second = inbox.keep("second", "ping", b"")
    with pytest.raises(StoreUnavailableError, match="NOSCRIPT"):
        await asyncio.wait_for(first, 2)
    await asyncio.wait_for(second, 2)
    assert await inbox.lag() == 1


@pytest.mark.parametrize("error", [StoreUnavailableError("away"), RuntimeError("a defect")], ids=["away", "a defect"])
async def test_whatever_prevents_the_request_of_a_drain_blocks_no_delivery(redis, error):
    async def ask():
        raise error

    inbox = Inbox(redis, ask)
    await inbox.keep("first", "ping", b"")
    await redis.delete(keys.INBOX_ASKED)
    waiting = [inbox.keep(str(each), "ping", b"") for each in range(MOST_AT_ONCE + 1)]
    await asyncio.wait_for(asyncio.gather(*waiting), 10)
    assert await inbox.lag() == MOST_AT_ONCE + 2


async def test_while_no_worker_drains_a_bounded_number_waits_and_the_others_are_refused(redis, monkeypatch):
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    asked = []

    async def ask():
        asked.append(1)

    inbox = Inbox(redis, ask)
    for each in range(3):
        await inbox.keep(f"guid-{each}", "ping", b"")
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="3 deliveries wait"):
            await inbox.keep("later", "ping", b"")
    assert (await inbox.lag(), len(asked)) == (3, 1)
    await inbox.done((await inbox.take(1)), NOW)
    await inbox.keep("later", "ping", b"")
    assert [each.guid for each in await inbox.take(10)] == ["guid-1", "guid-2", "later"]
    assert 604_790 < await redis.ttl(keys.INBOX) <= 604_800


async def test_a_full_redis_refuses_deliveries_until_there_is_space(redis):
    inbox = Inbox(redis)
    await redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(StoreUnavailableError):
            await inbox.keep("guid", "ping", b"")
    finally:
        await redis.config_set("maxmemory", 0)
    assert await inbox.lag() == 0
    await inbox.keep("guid", "ping", b"")
    assert await inbox.lag() == 1


async def test_a_drain_is_enqueued_at_most_twice_a_second(redis):
    asked = []

    async def ask():
        asked.append(True)

    inbox, replica = Inbox(redis, ask), Inbox(redis, ask)
    for each in (inbox, inbox, replica):
        await each.keep("guid", "ping", b"")
    assert len(asked) == 1
    assert 0 < await redis.pttl(keys.INBOX_ASKED) <= ASKED_MILLISECONDS == 500
    await redis.delete(keys.INBOX_ASKED)  # as after the interval
    await replica.keep("guid", "ping", b"")
    assert len(asked) == 2


async def test_a_drain_that_cannot_be_enqueued_blocks_no_delivery(redis):
    asking, failing = asyncio.Event(), asyncio.Event()

    async def ask():
        asking.set()
        await failing.wait()
        raise StoreUnavailableError("away")

    inbox = Inbox(redis, ask)
    await inbox.keep("first", "ping", b"")
    await asking.wait()
    second = inbox.keep("second", "ping", b"")
    await asyncio.sleep(0)
    failing.set()
    await asyncio.wait_for(second, 2)
    assert await inbox.lag() == 2


async def kept(inbox, *guids):
    for guid in guids:
        await inbox.keep(guid, "ping", guid.encode())


async def test_deliveries_are_taken_in_order_until_they_are_done(redis):
    inbox = Inbox(redis)
    await kept(inbox, "a", "b", "c")
    first = await inbox.take(2)
    assert [(app.guid, app.event, app.facts) for app in first] == [("a", "ping", b"a"), ("b", "ping", b"b")]
    assert await inbox.take(2) == first, "the process that took them may have crashed"
    await inbox.done(first, NOW)
    assert [app.guid for app in await inbox.take(2)] == ["c"]


async def test_an_inbox_without_a_stream_is_empty(redis):
    assert await Inbox(redis).take(10) == []
    assert await Inbox(redis).lag() == 0


async def test_a_delivery_that_fails_three_times_goes_to_the_dead_letters_and_can_be_replayed(redis):
    inbox = Inbox(redis)
    await kept(inbox, "a", "b")
    poisoned, _ = await inbox.take(10)
    assert [await inbox.failed(poisoned, "KeyError: x", NOW) for _ in range(3)] == [False, False, True]
    assert [app.guid for app in await inbox.take(10)] == ["b"], "it blocks no other delivery"
    (letter,) = await inbox.dead()
    assert (letter.guid, letter.event, letter.why, letter.at) == ("a", "ping", "KeyError: x", NOW)
    assert [await inbox.replay(letter), await inbox.replay(letter)] == [True, False]
    assert [(app.guid, app.facts) for app in await inbox.take(10)] == [("b", b"b"), ("a", b"a")]
    assert await inbox.dead() == []


async def test_the_number_of_dead_letters_is_bounded(redis, monkeypatch):
    monkeypatch.setattr("ghapp.deliveries.store.MOST_DEAD", 2)
    inbox = Inbox(redis)
    await kept(inbox, "a", "b", "c")
    for entry in await inbox.take(10):
        for _ in range(3):
            await inbox.failed(entry, "why", NOW)
    assert [letter.guid for letter in await inbox.dead()] == ["b", "c"]


@pytest.mark.parametrize("where", ["waits", "is done"])
async def test_pending_and_finished_deliveries_are_kept(redis, where):
    inbox = Inbox(redis)
    await kept(inbox, "a")
    if where == "is done":
        await inbox.done(await inbox.take(10), NOW)
    assert await inbox.known({"a", "b"}, NOW) == {"a"}


async def test_a_repeated_guid_has_no_second_effect(redis):
    inbox = Inbox(redis)
    await kept(inbox, "a", "a", "b")
    entries = await inbox.take(10)
    fresh = await inbox.without_effect(entries, NOW)
    assert [app.guid for app in fresh] == ["a", "b"]
    await inbox.done(entries, NOW)
    await kept(inbox, "a", "c")
    assert [app.guid for app in await inbox.without_effect(await inbox.take(10), NOW)] == ["c"]


async def test_a_delivery_that_was_taken_and_not_finished_is_unseen(redis):
    inbox = Inbox(redis)
    await kept(inbox, "a")
    entries = await inbox.take(10)
    assert await inbox.without_effect(entries, NOW) == await inbox.without_effect(entries, NOW) == entries
    assert await inbox.lag() == 1


async def test_a_finished_delivery_is_removed_from_the_stream(redis):
    inbox = Inbox(redis)
    await kept(inbox, "a", "b")
    entries = await inbox.take(1)
    await inbox.done(entries, NOW)
    assert await inbox.lag() == 1


async def test_an_empty_batch_writes_nothing(redis):
    inbox = Inbox(redis)
    assert await inbox.without_effect([], NOW) == []
    await inbox.done([], NOW)
    assert await redis.keys() == []


async def test_the_count_of_tries_of_a_delivery_is_deleted_when_it_is_finished(redis):
    inbox = Inbox(redis)
    await kept(inbox, "a", "b")
    entries = await inbox.take(10)
    for entry in entries:
        assert not await inbox.failed(entry, "why", NOW)
    assert await redis.hlen(keys.INBOX_TRIES) == 2
    await inbox.done(entries, NOW)
    assert await redis.hlen(keys.INBOX_TRIES) == 0


async def test_a_dead_letter_is_kept_until_it_is_replayed_and_finished(redis):
    inbox = Inbox(redis)
    await kept(inbox, "a")
    (entry,) = await inbox.take(10)
    for _ in range(3):
        await inbox.failed(entry, "why", NOW)
    assert await inbox.known({"a", "b"}, NOW) == {"a"}


async def test_the_redelivery_cursor_is_read_once(redis):
    inbox = Inbox(redis)
    assert await inbox.take_cursor() == TOP
    await inbox.save_cursor(RedeliveryCursor("v1_172 3", NOW))
    assert [await inbox.take_cursor(), await inbox.take_cursor()] == [RedeliveryCursor("v1_172 3", NOW), TOP]


async def test_planned_redeliveries_are_taken_in_their_order_and_a_new_plan_replaces_the_rest(redis):
    inbox = Inbox(redis)
    assert await inbox.take_redeliveries(2) == []
    await inbox.plan_redeliveries([5, 3, 9])
    assert await inbox.take_redeliveries(2) == [5, 3]
    assert await inbox.planned_redeliveries() == 1
    await inbox.plan_redeliveries([7])
    assert [await inbox.take_redeliveries(2), await inbox.planned_redeliveries()] == [[7], 0]
    await inbox.plan_redeliveries([8])
    await inbox.plan_redeliveries([])
    assert await inbox.planned_redeliveries() == 0
