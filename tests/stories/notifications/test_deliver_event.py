"""Delivery of one event to the url of its pool, with retries."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import pytest

from ghapp.errors import ReplacerUnavailableError
from ghapp.remediation.steps import LOOK_LASTS_SECONDS, is_open
from ghapp.runners.evidence import Registration
from ghapp.runners.observations import SeenBy, registration_seen, replaced
from jobs.context import open_context
from jobs.events.deliver_event import GIVEN_UP_SECONDS, REPLACE
from jobs.installations.discover import discover_installations
from tests.sandbox.receivers import Receiver
from tests.support.event_delivery import deliver_event
from tests.support.policy import replace_policy, replace_pools


async def granted(app):
    """A runner was lost and removed; its event waits in the outbox."""
    for _ in range(2):
        await app.live_through_an_interval()
    app.sandbox.control.fail_controller(status=503)
    (lost,) = app.sandbox.control.lose("acme", count=1)
    await app.live_through_an_interval()
    (event_id,) = await app.context.events.unsent()
    return lost, event_id


def register_again(app, name):
    """The machine is configured again."""
    (org,) = app.sandbox.world.orgs.values()
    org.fleet.register_jit(name, ("self-hosted", "linux-4vcpu"))


async def evidence_of(app, runner_id):
    return (await app.context.runners.some(app.installation, [runner_id]))[runner_id]


async def test_an_event_is_retried_with_the_same_id_until_it_is_accepted(story):
    async with story() as app:
        lost, event_id = await granted(app)
        with pytest.raises(ReplacerUnavailableError):
            await deliver_event(app.context, event_id)
        assert (await evidence_of(app, lost)).replaced_at is None
        app.sandbox.control.fail_controller(seconds=0)
        await deliver_event(app.context, event_id)
        assert (await evidence_of(app, lost)).replaced_at == app.clock()
        assert await app.context.events.unsent() == []
        events = [each for each in app.sandbox.control.controller_events() if each["type"] == REPLACE]
        assert [each["id"] for each in events] == [event_id]


async def test_an_accepted_event_is_not_sent_again(story):
    async with story() as app:
        _, event_id = await granted(app)
        app.sandbox.control.fail_controller(seconds=0)
        for _ in range(3):
            await deliver_event(app.context, event_id)
        assert len([each for each in app.sandbox.control.controller_events() if each["type"] == REPLACE]) == 1


async def test_a_runner_that_returned_before_the_delivery_is_not_marked_as_replaced(story):
    async with story() as app:
        lost, event_id = await granted(app)
        known = await evidence_of(app, lost)
        back = registration_seen(known, registration(known), app.clock() + 1, by=SeenBy.LIST)
        await app.context.runners.revise(app.installation, {lost: lambda _: back})
        app.sandbox.control.fail_controller(seconds=0)
        await deliver_event(app.context, event_id)
        assert (await evidence_of(app, lost)).replaced_at is None


def registration(known):
    return Registration(known.id, known.name, known.os, True, False, known.labels, known.custom_labels, known.ephemeral)


async def test_a_request_of_a_pool_that_is_out_of_the_configuration_waits_until_it_is_back(story):
    async with story() as app:
        lost, event_id = await granted(app)
        app.sandbox.control.fail_controller(seconds=0)
        pools = app.context.settings.pools
        replace_pools(app.context.settings, ())
        await deliver_event(app.context, event_id)
        assert await app.context.events.unsent() == [event_id]
        replace_pools(app.context.settings, pools)
        await deliver_event(app.context, event_id)
        assert await app.context.events.unsent() == []
        assert (await evidence_of(app, lost)).replaced_at is not None


async def test_a_request_goes_to_the_pool_that_its_runner_has_now(story):
    """The pool got another name, and another url, while the request waited."""
    async with story() as app:
        lost, event_id = await granted(app)
        with Receiver() as controller:
            (pool,) = app.context.settings.pools
            replace_pools(app.context.settings, (replace(pool, name="renamed", url=controller.url),))
            await deliver_event(app.context, event_id)
            assert [each.headers["webhook-id"] for each in controller.received] == [event_id]
        assert (await evidence_of(app, lost)).replaced_at is not None


@pytest.mark.parametrize("replacer", ["none", "arc", "pods"])
@pytest.mark.parametrize("address", [{}, {"url": None, "secret_env": None}], ids=["the url is kept", "without a url"])
async def test_a_request_of_a_pool_that_has_another_replacer_now_is_left_to_that_one(story, replacer, address):
    async with story() as app:
        lost, event_id = await granted(app)
        app.sandbox.control.fail_controller(seconds=0)
        (pool,) = app.context.settings.pools
        replace_pools(app.context.settings, (replace(pool, replacer=replacer, namespace="runners", **address),))
        await deliver_event(app.context, event_id)
        assert await app.context.events.unsent() == []
        assert app.sandbox.control.controller_events() == []
        assert (await evidence_of(app, lost)).replaced_at is None
        assert is_open(await evidence_of(app, lost))


async def test_a_request_that_its_controller_reported_as_done_is_not_sent(story):
    async with story() as app:
        lost, event_id = await granted(app)
        app.sandbox.control.fail_controller(seconds=0)
        await app.context.runners.revise(app.installation, {lost: lambda known: replaced(known, app.clock())})
        await deliver_event(app.context, event_id)
        assert await app.context.events.unsent() == []
        assert app.sandbox.control.controller_events() == []


@pytest.mark.parametrize("mode", ["dry-run", "off"])
async def test_a_request_waits_while_the_mode_does_not_act(story, mode):
    async with story() as app:
        lost, event_id = await granted(app)
        app.sandbox.control.fail_controller(seconds=0)
        acting = app.context.settings.policy
        waiting = replace(acting, remediation=replace(acting.remediation, mode=mode))
        replace_policy(app.context.settings, waiting)
        await deliver_event(app.context, event_id)
        assert await app.context.events.unsent() == [event_id]
        replace_policy(app.context.settings, acting)
        await deliver_event(app.context, event_id)
        assert (await evidence_of(app, lost)).replaced_at is not None


async def test_a_machine_that_registered_again_since_the_last_list_is_not_replaced(story):
    """The url was down; its machine registers again, and the url answers before the next sweep."""
    async with story(ephemeral=False) as app:
        lost, event_id = await granted(app)
        name = (await evidence_of(app, lost)).name
        register_again(app, name)
        app.sandbox.control.fail_controller(seconds=0)
        app.clock.pass_(LOOK_LASTS_SECONDS + 1)
        await deliver_event(app.context, event_id)
        assert await app.context.events.unsent() == []
        assert app.sandbox.control.controller_events() == []


async def test_an_event_of_a_renamed_org_is_delivered_once(story):
    async with story() as app:
        lost, event_id = await granted(app)
        app.sandbox.control.fail_controller(seconds=0)
        app.sandbox.control.rename("acme", "acme-two")
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        assert (await app.context.installations.one(app.installation)).called == "acme-two"
        assert await app.context.events.unsent() == []
        sent = [each for each in app.sandbox.control.controller_events() if each["type"] == REPLACE]
        assert [(each["id"], each["data"]["runner_id"]) for each in sent] == [(event_id, lost)]


def configured_as(app, org):
    """Settings in which the org already has its next name."""
    return replace(app.settings, pools=tuple(replace(pool, org=org) for pool in app.settings.pools))


async def test_an_event_is_kept_while_the_configuration_already_has_the_orgs_next_name(story):
    async with story() as app:
        _, event_id = await granted(app)
        app.sandbox.control.fail_controller(seconds=0)
        async with open_context(configured_as(app, "acme-two"), app.clock) as context:
            await deliver_event(context, event_id)
            assert await context.events.unsent() == [event_id]
            app.sandbox.control.rename("acme", "acme-two")
            await discover_installations(context)
            await deliver_event(context, event_id)
            assert await context.events.unsent() == []


@pytest.mark.parametrize(("seconds", "kept"), [(GIVEN_UP_SECONDS, True), (GIVEN_UP_SECONDS + 1, False)])
@pytest.mark.parametrize("org", ["acme", "acme-two"], ids=["the url is unavailable", "the org has another name"])
async def test_an_event_that_is_not_accepted_for_a_week_is_dropped(story, seconds, kept, org):
    async with story() as app:
        _, event_id = await granted(app)
        body = (await app.context.events.outgoing(event_id)).event
        app.clock.now = datetime.fromisoformat(json.loads(body)["time"]).timestamp() + seconds
        async with open_context(configured_as(app, org), app.clock) as context:
            with suppress(ReplacerUnavailableError):
                await deliver_event(context, event_id)
        assert await app.context.events.unsent() == ([event_id] if kept else [])


async def test_an_event_of_an_org_that_removed_the_app_is_dropped(story):
    async with story() as app:
        _, event_id = await granted(app)
        app.sandbox.control.fail_controller(seconds=0)
        await app.context.installations.remove(app.installation)
        await deliver_event(app.context, event_id)
        assert await app.context.events.unsent() == []
        assert app.sandbox.control.controller_events() == []


async def test_a_delivery_does_not_recreate_a_deleted_runner(story):
    async with story() as app:
        lost, event_id = await granted(app)
        await app.context.runners.revise(app.installation, {lost: lambda _: None})
        app.sandbox.control.fail_controller(seconds=0)
        await deliver_event(app.context, event_id)
        assert await app.context.runners.some(app.installation, [lost]) == {}
        assert await app.context.events.unsent() == []


async def test_an_unavailable_url_is_retried(story):
    async with story() as app:
        _, event_id = await granted(app)
        (pool,) = app.context.settings.pools
        object.__setattr__(pool, "url", "http://127.0.0.1:1/")
        with pytest.raises(ReplacerUnavailableError):
            await deliver_event(app.context, event_id)
        assert await app.context.events.unsent() == [event_id]
