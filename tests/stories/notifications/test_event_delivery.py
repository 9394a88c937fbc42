"""Events reach their URLs whatever other URLs do; one process delivers, and another takes over within seconds."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

import pytest

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.pause import Pause
from ghapp.replace.event_backlog import BREAKER_FAILURES, PER_URL
from ghapp.runners.evidence import Registration
from ghapp.runners.observations import SeenBy, registration_seen
from ghapp.store.stores import open_stores
from jobs.events import deliver_event as delivery_module
from jobs.events.deliver_event import LOCK_SECONDS, REPLACE, STANDBY_SECONDS, EventDelivery
from tests.bench.steady import silent_url
from tests.sandbox.receivers import Receiver
from tests.stories.conftest import POOL as POOL_NAME
from tests.stories.processes import Role
from tests.support.event_delivery import deliver_event
from tests.support.waiting import wait_for

SOON_SECONDS = 3.0
TAKEN_OVER_SECONDS = LOCK_SECONDS + 3 * STANDBY_SECONDS
POOL = """
[[pools]]
org = "acme"
name = "%s"
labels = ["%s"]
replacer = "cloudevents"
url = "%s"
secret_env = "CONTROLLER_SECRET"
"""


def pool(name, url):
    return POOL % (name, name, url)


async def append(app, name, count=1):
    """Events for a pool; their ids."""
    ids = [str(uuid.uuid4()) for _ in range(count)]
    for event_id in ids:
        data = {"runner_id": 1, "pool": name}
        now = datetime.now(UTC).isoformat()
        event = {"specversion": "1.0", "source": "/orgs/acme", "subject": "linux-1", "time": now, "data": data}
        event |= {"id": event_id, "type": "ghapp.runner.offline.v1", "datacontenttype": "application/json"}
        await app.context.events.append(app.installation, event, name)
    return ids


@asynccontextmanager
async def delivering(app):
    async with open_stores(str(app.settings.redis_url)) as stores:
        delivery = asyncio.create_task(EventDelivery(app.settings, stores, app.look_again, app.clock).run())
        try:
            yield delivery
        finally:
            delivery.cancel()
            await asyncio.gather(delivery, return_exceptions=True)


async def until(condition, seconds=SOON_SECONDS):
    return await asyncio.to_thread(wait_for, condition, seconds)


def ids_of(receiver):
    return [each.headers["webhook-id"] for each in receiver.received]


async def test_a_url_that_never_answers_holds_up_no_other_url(story):
    with silent_url() as silent, Receiver() as controller:
        async with story(config=pool("silent", silent) + pool("well", controller.url)) as app:
            kept = await append(app, "silent", 300)
            async with delivering(app):
                await asyncio.sleep(1.0)
                (event_id,) = await append(app, "well")
                assert await until(lambda: ids_of(controller) == [event_id])
                await asyncio.sleep(0.5)  # its acceptance is recorded
            assert set(await app.context.events.unsent()) == set(kept)


async def test_a_url_that_refuses_is_asked_now_and_then_and_gets_everything_once_it_is_well(story):
    with Receiver(status=503) as controller:
        async with story(config=pool("ill", controller.url)) as app:
            sent = await append(app, "ill", 40)
            async with delivering(app):
                await asyncio.sleep(2.5)
                assert BREAKER_FAILURES <= len(controller.received) <= 2 * PER_URL + 2, "and not 40 of them"
                failed = (await app.context.counters.all())['ghapp_jobs_failed_total{work="deliver-event"}']
                assert failed >= BREAKER_FAILURES
                controller.status = 202
                controller.received.clear()
                assert await until(lambda: len(controller.received) >= len(sent), 20)
                await asyncio.sleep(1.0)
            assert sorted(ids_of(controller)) == sorted(sent), "each once"
            assert await app.context.events.unsent() == []


async def test_what_waits_for_a_url_that_is_down_is_not_read_again_and_again(story):
    with Receiver(status=503) as controller:
        async with story(config=pool("ill", controller.url)) as app:
            await append(app, "ill", 200)
            async with delivering(app):
                assert await until(lambda: len(controller.received) >= BREAKER_FAILURES)
                await app.context.redis.config_resetstat()
                await asyncio.sleep(1.5)
                commands = await app.context.redis.info("commandstats")
            assert commands.get("cmdstat_hkeys", {"calls": 0})["calls"] <= 2, "all ids are read every ten seconds"


async def test_an_event_is_sent_when_it_is_added_and_the_next_ones_when_their_url_has_answered(story, monkeypatch):
    monkeypatch.setattr(delivery_module, "TICK_SECONDS", 4.0)  # more is more than Redis' answer may take
    with Receiver() as controller:
        async with story(config=pool("well", controller.url)) as app, delivering(app):
            await asyncio.sleep(0.5)
            sent = await append(app, "well", 3 * PER_URL)
            assert await until(lambda: sorted(ids_of(controller)) == sorted(sent))


async def test_two_processes_deliver_each_event_once(story):
    with Receiver() as controller:
        async with story(config=pool("well", controller.url)) as app, delivering(app), delivering(app):
            sent = await append(app, "well", 50)
            assert await until(lambda: len(controller.received) >= len(sent), 20)
            await asyncio.sleep(2.0)
        assert sorted(ids_of(controller)) == sorted(sent)


async def test_an_event_that_cannot_be_read_holds_up_no_other(story):
    with Receiver() as controller:
        async with story(config=pool("well", controller.url)) as app:
            bad = {"id": "bad", "type": REPLACE, "time": "yesterday", "data": {"runner_id": "none"}}
            await app.context.events.append(app.installation, bad, "well")
            (event_id,) = await append(app, "well")
            async with delivering(app):
                assert await until(lambda: event_id in ids_of(controller))


async def lost_while_the_controller_is_away(app):
    """A runner was lost and removed; its request waits in the outbox. Its id, and the request's."""
    for _ in range(2):
        await app.live_through_an_interval()
    app.sandbox.control.fail_controller(status=503)
    (lost,) = app.sandbox.control.lose("acme", count=1)
    await app.live_through_an_interval()
    (event_id,) = await app.context.events.unsent()
    app.sandbox.control.fail_controller(seconds=0)
    return lost, event_id


def requests(app):
    return [each["id"] for each in app.sandbox.control.controller_events() if each["type"] == REPLACE]


@pytest.mark.parametrize("scope", [POOL_NAME, ALL_POOLS], ids=["of the pool", "of the org"])
async def test_a_pause_holds_back_a_request_that_waits_already_and_no_news_and_its_end_lets_it_go(story, scope):
    async with story() as app:
        _, event_id = await lost_while_the_controller_is_away(app)
        await app.context.fuses.pause(app.installation, scope, Pause("mona", "a move", app.clock()))
        async with delivering(app):
            (news,) = await append(app, POOL_NAME)
            assert await until(lambda: [each["id"] for each in app.sandbox.control.controller_events()] == [news])
            assert await app.context.events.unsent() == [event_id]
            await app.context.fuses.unpause(app.installation, scope)
            assert await until(lambda: requests(app) == [event_id])


async def test_a_pause_of_another_pool_holds_back_nothing(story):
    async with story() as app:
        _, event_id = await lost_while_the_controller_is_away(app)
        await app.context.fuses.pause(app.installation, "another", Pause("mona", "a move", app.clock()))
        async with delivering(app):
            assert await until(lambda: requests(app) == [event_id])


async def test_a_request_whose_runner_came_back_during_the_pause_is_withdrawn_when_it_ends(story):
    async with story() as app:
        lost, event_id = await lost_while_the_controller_is_away(app)
        await app.context.fuses.pause(app.installation, POOL_NAME, Pause("mona", "a move", app.clock()))
        await deliver_event(app.context, event_id)
        assert await app.context.events.unsent() == [event_id]
        back = partial(
            registration_seen,
            seen=Registration(lost, "linux-1", "linux", True, False, (), ()),
            at=app.clock() + 1,
            by=SeenBy.LIST,
        )
        await app.context.runners.revise(app.installation, {lost: back})
        await app.context.fuses.unpause(app.installation, POOL_NAME)
        async with delivering(app):
            for _ in range(40):
                if event_id not in await app.context.events.unsent():
                    break
                await asyncio.sleep(0.1)
        assert event_id not in await app.context.events.unsent()
        assert requests(app) == []


async def test_a_loss_is_recorded_as_replaced_when_its_event_is_accepted_with_no_worker_at_all(story):
    async with story() as app:
        for _ in range(2):
            await app.live_through_an_interval()
        app.sandbox.control.fail_controller(status=503)
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await app.live_through_an_interval()
        app.sandbox.control.fail_controller(seconds=0)
        async with delivering(app):
            assert await until(app.sandbox.control.controller_events)
            for _ in range(20):
                known = (await app.context.runners.some(app.installation, [lost]))[lost]
                if known.replaced_at is not None:
                    break
                await asyncio.sleep(0.1)
        assert known.replaced_at is not None


@pytest.mark.xdist_group("many-processes")
async def test_a_clock_that_is_killed_is_followed_by_another_within_seconds(story, tmp_path):
    with Receiver() as controller:
        async with story(config=pool("well", controller.url)) as app:
            with Role("clock", app.environ, tmp_path) as first:
                (one,) = await append(app, "well")
                assert await until(lambda: ids_of(controller) == [one], 20), first.log
                with Role("clock", app.environ, tmp_path) as second:
                    await asyncio.sleep(3.0)
                    first.kill_all()
                    (two,) = await append(app, "well")
                    assert await until(lambda: ids_of(controller) == [one, two], TAKEN_OVER_SECONDS), second.log
