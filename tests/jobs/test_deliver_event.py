"""One event to its pool's url, as often as it takes."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import pytest

from ghapp.errors import ReplacerUnavailableError
from ghapp.health.evidence import Registration
from ghapp.health.seen import registration_seen
from jobs.deliver_event import GIVEN_UP_SECONDS, REPLACE, EventDelivery
from jobs.house import open_house
from jobs.installations import discover_installations


async def deliver(house, event_id):
    await EventDelivery(house.settings, house.redis, house.clock).deliver(event_id)


async def granted(it):
    """A runner was lost and removed; its event waits in the outbox."""
    for _ in range(2):
        await it.live_through_an_interval()
    it.sandbox.control.fail_controller(status=503)
    (lost,) = it.sandbox.control.lose("acme", count=1)
    await it.live_through_an_interval()
    (event_id,) = await it.house.events.unsent()
    return lost, event_id


async def evidence_of(it, runner_id):
    return (await it.house.runners.some(it.installation, [runner_id]))[runner_id]


async def test_until_it_is_accepted_it_waits_and_bears_the_same_id(story):
    async with story() as it:
        lost, event_id = await granted(it)
        with pytest.raises(ReplacerUnavailableError):
            await deliver(it.house, event_id)
        assert (await evidence_of(it, lost)).replaced_at is None
        it.sandbox.control.fail_controller(seconds=0)
        await deliver(it.house, event_id)
        assert (await evidence_of(it, lost)).replaced_at == it.clock()
        assert await it.house.events.unsent() == []
        events = [each for each in it.sandbox.control.controller_events() if each["type"] == REPLACE]
        assert [each["id"] for each in events] == [event_id]


async def test_what_was_accepted_is_not_sent_again(story):
    async with story() as it:
        _, event_id = await granted(it)
        it.sandbox.control.fail_controller(seconds=0)
        for _ in range(3):
            await deliver(it.house, event_id)
        assert len([each for each in it.sandbox.control.controller_events() if each["type"] == REPLACE]) == 1


async def test_a_runner_that_came_back_meanwhile_is_not_called_replaced(story):
    async with story() as it:
        lost, event_id = await granted(it)
        known = await evidence_of(it, lost)
        back = registration_seen(known, registration(known), it.clock() + 1, listed=True)
        await it.house.runners.revise(it.installation, {lost: lambda _: back})
        it.sandbox.control.fail_controller(seconds=0)
        await deliver(it.house, event_id)
        assert (await evidence_of(it, lost)).replaced_at is None


def registration(known):
    return Registration(known.id, known.name, known.os, True, False, known.labels, known.custom_labels, known.ephemeral)


async def test_an_event_whose_pool_has_no_url_any_more_is_let_go(story):
    async with story() as it:
        _, event_id = await granted(it)
        object.__setattr__(it.house.settings, "pools", ())
        await deliver(it.house, event_id)
        assert await it.house.events.unsent() == []


async def test_an_event_of_an_org_that_was_renamed_goes_to_its_url_once(story):
    async with story() as it:
        lost, event_id = await granted(it)
        it.sandbox.control.fail_controller(seconds=0)
        it.sandbox.control.rename("acme", "acme-two")
        await it.live_through_an_interval()
        await it.live_through_an_interval()
        assert (await it.house.installations.one(it.installation)).called == "acme-two"
        assert await it.house.events.unsent() == []
        sent = [each for each in it.sandbox.control.controller_events() if each["type"] == REPLACE]
        assert [(each["id"], each["data"]["runner_id"]) for each in sent] == [(event_id, lost)]


def configured_as(it, org):
    """The settings of a configuration that calls the org by another name than GitHub does yet."""
    return replace(it.settings, pools=tuple(replace(pool, org=org) for pool in it.settings.pools))


async def test_an_event_of_an_org_whose_next_name_the_configuration_bears_already_is_kept(story):
    async with story() as it:
        _, event_id = await granted(it)
        it.sandbox.control.fail_controller(seconds=0)
        async with open_house(configured_as(it, "acme-two"), it.clock) as house:
            await deliver(house, event_id)
            assert await house.events.unsent() == [event_id]
            it.sandbox.control.rename("acme", "acme-two")
            await discover_installations(house)
            await deliver(house, event_id)
            assert await house.events.unsent() == []


@pytest.mark.parametrize(("seconds", "kept"), [(GIVEN_UP_SECONDS, True), (GIVEN_UP_SECONDS + 1, False)])
@pytest.mark.parametrize("org", ["acme", "acme-two"], ids=["the url is away", "the org bears another name"])
async def test_what_nobody_took_for_a_week_is_given_up(story, seconds, kept, org):
    async with story() as it:
        _, event_id = await granted(it)
        body = (await it.house.events.outgoing(event_id)).event
        it.clock.now = datetime.fromisoformat(json.loads(body)["time"]).timestamp() + seconds
        async with open_house(configured_as(it, org), it.clock) as house:
            with suppress(ReplacerUnavailableError):
                await deliver(house, event_id)
        assert await it.house.events.unsent() == ([event_id] if kept else [])


async def test_an_event_of_an_org_that_removed_the_app_is_let_go(story):
    async with story() as it:
        _, event_id = await granted(it)
        it.sandbox.control.fail_controller(seconds=0)
        await it.house.installations.remove(it.installation)
        await deliver(it.house, event_id)
        assert await it.house.events.unsent() == []
        assert it.sandbox.control.controller_events() == []


async def test_a_runner_that_was_forgotten_meanwhile_is_not_made_known_again(story):
    async with story() as it:
        lost, event_id = await granted(it)
        await it.house.runners.revise(it.installation, {lost: lambda _: None})
        it.sandbox.control.fail_controller(seconds=0)
        await deliver(it.house, event_id)
        assert await it.house.runners.some(it.installation, [lost]) == {}
        assert await it.house.events.unsent() == []


async def test_a_url_that_does_not_answer_at_all_is_asked_again(story):
    async with story() as it:
        _, event_id = await granted(it)
        (pool,) = it.house.settings.pools
        object.__setattr__(pool, "url", "http://127.0.0.1:1/")
        with pytest.raises(ReplacerUnavailableError):
            await deliver(it.house, event_id)
        assert await it.house.events.unsent() == [event_id]
