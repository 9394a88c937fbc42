"""Events are appended once, however often they are retried, and wait in the outbox until they are accepted."""

import asyncio
import json

import pytest

from ghapp.notifications import event_store as module
from ghapp.notifications.event_store import START, Events, Outgoing
from ghapp.store import keys
from ghapp.store.connect import connect
from ghapp.store.metric_counters import MetricCounters

ORG = 7
KIND = "runner.lost"


def event(event_id="e1"):
    return {"id": event_id, "type": KIND}


async def test_an_event_is_appended_once_by_any_number_of_writers(redis):
    fresh = await asyncio.gather(*(Events(redis).append(ORG, event(), "linux") for _ in range(10)))
    assert sorted(fresh) == [False] * 9 + [True]
    ((_, body),) = await Events(redis).since(ORG, "0")
    assert json.loads(body) == event()


async def test_an_event_of_a_pool_with_a_url_waits_in_the_outbox_until_it_is_accepted(redis):
    events = Events(redis)
    await events.append(ORG, event(), "linux")
    assert await events.unsent() == ["e1"]
    outgoing = await events.outgoing("e1")
    assert (type(outgoing), outgoing.installation, outgoing.pool) == (Outgoing, ORG, "linux")
    assert json.loads(outgoing.event) == event()
    await events.accepted("e1", await events.outgoing("e1"))
    assert (await events.unsent(), await events.outgoing("e1")) == ([], None)


async def test_who_waits_for_the_outbox_is_woken_up_by_an_event_that_is_to_be_sent_and_by_no_other(redis, redis_url):
    events, waiting = Events(redis), Events(connect(redis_url))
    await events.append(ORG, event("e0"), None)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting.added(60), 0.2)
    task = asyncio.create_task(waiting.added(4))
    await asyncio.sleep(0.1)
    await asyncio.gather(*(events.append(ORG, event(f"e{each}"), "linux") for each in range(1, 6)))
    await asyncio.wait_for(task, 2)
    await asyncio.wait_for(waiting.added(0.05), 2)  # what was added meanwhile
    assert await redis.ttl(keys.OUTBOX_ADDED) == -2, "nothing is left over"
    await events.append(ORG, event("e6"), "linux")
    assert 0 < await redis.ttl(keys.OUTBOX_ADDED) <= 60


async def test_an_accepted_event_is_not_sent_again_by_a_retry(redis):
    events = Events(redis)
    await events.append(ORG, event(), "linux")
    await events.accepted("e1", await events.outgoing("e1"))
    assert await events.append(ORG, event(), "linux") is False
    assert await events.unsent() == []


async def test_an_event_that_was_not_sent_can_be_sent_later_and_is_published_once(redis):
    events = Events(redis)
    await events.append(ORG, event(), None)
    assert await events.append(ORG, event(), "linux") is False
    assert await events.unsent() == []
    assert await events.append(ORG, event(), "linux", until_accepted=True) is True
    assert await events.append(ORG, event(), "linux", until_accepted=True) is False, "it is in the outbox"
    assert await events.unsent() == ["e1"]
    assert len(await events.since(ORG, "0")) == 1


async def test_an_event_without_a_url_is_recorded_and_not_sent(redis):
    events = Events(redis)
    assert await events.append(ORG, event(), None) is True
    assert await events.unsent() == []
    assert len(await events.since(ORG, "0")) == 1


async def test_since_returns_the_events_after_the_given_id(redis):
    events = Events(redis)
    for each in range(5):
        await events.append(ORG, event(f"e{each}"), None)
    first = await events.since(ORG, "0", most=2)
    rest = await events.since(ORG, first[-1][0])
    assert [json.loads(body)["id"] for _, body in first + rest] == ["e0", "e1", "e2", "e3", "e4"]
    assert await events.since(ORG, rest[-1][0]) == []
    assert await events.since(ORG + 1, "0") == []


async def test_events_since_a_trimmed_id_are_unknown(redis):
    events = Events(redis)
    for each in range(3):
        await events.append(ORG, event(f"e{each}"), None)
    (first, _), (second, _), (third, _) = await events.since(ORG, START)
    await redis.xtrim(keys.events(ORG), maxlen=2, approximate=False)
    assert await events.since(ORG, first) is None
    assert [entry_id for entry_id, _ in await events.since(ORG, second)] == [third]
    assert await events.since(ORG, "9-9") is None
    assert await events.since(ORG + 1, first) is None, "the org has no events"


async def test_an_event_id_is_kept_for_a_week(redis):
    await Events(redis).append(ORG, event(), None)
    assert 604_790 < await redis.ttl(keys.event_ids(ORG, KIND)) <= 604_800


async def test_of_the_news_of_a_pool_the_latest_wait_and_what_is_dropped_is_counted(redis, monkeypatch):
    monkeypatch.setattr(module, "MOST_NEWS", 3)
    events = Events(redis)
    for each in range(5):
        await events.append(ORG, {**event(f"e{each}"), "source": "/orgs/acme/api"}, "linux")
        await events.append(ORG, event(f"r{each}"), "linux", until_accepted=True)
        await events.append(ORG, event(f"o{each}"), "other" if each < 3 else None)
    waiting = {*await events.unsent()}
    assert waiting == {"e2", "e3", "e4", *(f"r{each}" for each in range(5)), "o0", "o1", "o2"}
    counted = await MetricCounters(redis).all()
    assert counted == {'ghapp_events_dropped_total{org="acme/api",pool="linux"}': 2}
    assert len(await events.since(ORG, START)) == 15, "the stream has them all"


async def test_an_accepted_event_makes_room_for_another(redis, monkeypatch):
    monkeypatch.setattr(module, "MOST_NEWS", 1)
    events = Events(redis)
    await events.append(ORG, event("e1"), "linux")
    await events.accepted("e1", await events.outgoing("e1"))
    await events.append(ORG, event("e2"), "linux")
    assert (await events.unsent(), await MetricCounters(redis).all()) == (["e2"], {})
    assert await redis.zrange(keys.outbox_news(ORG, "linux"), 0, -1) == [b"e2"]


@pytest.mark.parametrize(("older_by", "left"), [(1, {"e2"}), (-60, {"e1", "e2"})])
async def test_news_that_no_process_delivers_are_dropped_after_a_week(redis, older_by, left):
    events = Events(redis)
    await events.append(ORG, event("e1"), "linux")
    await redis.zincrby(keys.outbox_news(ORG, "linux"), -(module.NEWS_SECONDS + older_by), "e1")
    await events.append(ORG, event("e2"), "linux")
    assert {*await events.unsent()} == left


async def test_ids_are_kept_by_type_so_that_many_events_of_one_do_not_push_out_those_of_another(redis, monkeypatch):
    monkeypatch.setattr(module, "MOST_IDS", 2)
    events = Events(redis)
    await events.append(ORG, {"id": "fuse", "type": "ghapp.fuse.tripped.v1"}, None)
    for each in range(3):
        await events.append(ORG, event(f"e{each}"), None)
    assert await events.append(ORG, {"id": "fuse", "type": "ghapp.fuse.tripped.v1"}, None) is False
    assert await events.missing(ORG, KIND, ["e0", "e1", "e2"]) == {"e0"}
