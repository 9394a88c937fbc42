"""A delivery that breaks the drain: set aside, counted, reported to people, and replayed on request."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import pytest

from ghapp.deliveries.doctor import of_inbox
from ghapp.deliveries.store import MOST_TRIES
from jobs.deliveries import inbox
from jobs.deliveries.inbox import drain_inbox
from tests.stories.deliveries.test_deliveries import deliver
from tests.support import commands


async def given_up(app, monkeypatch, *guids):
    """They are valid, and their effect fails, as after a mistake of ours that an update will fix."""
    take_effect = inbox._take_effect

    async def breaks(context, entries, *others):
        if {entry.guid for entry in entries} & set(guids):
            raise KeyError("a mistake of ours")
        await take_effect(context, entries, *others)

    with monkeypatch.context() as patched:
        patched.setattr(inbox, "_take_effect", breaks)
        for number, guid in enumerate(guids, 1):
            await deliver(app, guid, "queued", None, job_id=number)
        await deliver(app, "behind", "queued", None, job_id=99)
        assert [await drain_inbox(app.context) for _ in range(MOST_TRIES)] == [1, 0, 0], "each drain tries it once"
    assert [job.id for job in await app.context.demand.all(app.installation)] == [99], "those behind it are not held up"


def ghapp(app, *words):
    return asyncio.to_thread(partial(commands.ghapp, *words, **app.environ, COLUMNS="200"))


async def test_a_dead_letter_is_shown_with_its_reason_and_can_be_replayed_by_command(story, monkeypatch):
    async with story() as app:
        await given_up(app, monkeypatch, "first", "second")
        counted = await app.context.counters.all()
        assert counted['ghapp_deliveries_given_up_total{event="workflow_job"}'] == 2
        found = {each.name: each for each in of_inbox(0, await app.context.inbox.dead_letters(), has_come=True)}
        assert (found["given up"].status, "2 failed and were set aside") == ("warning", found["given up"].text)
        shown = json.loads((await ghapp(app, "deliveries", "dead", "--json")).stdout)
        assert [(letter["guid"], letter["why"]) for letter in shown] == [
            (guid, "KeyError: 'a mistake of ours'") for guid in ("first", "second")
        ]

        assert (await ghapp(app, "deliveries", "replay", "second")).stdout == "replayed: 1\n"
        assert await drain_inbox(app.context) == 1
        assert {job.id for job in await app.context.demand.all(app.installation)} == {2, 99}
        assert (await ghapp(app, "deliveries", "replay", "--all")).stdout == "replayed: 1\n"
        assert await drain_inbox(app.context) == 1
        assert {job.id for job in await app.context.demand.all(app.installation)} == {1, 2, 99}
        again = await ghapp(app, "deliveries", "replay", "second")
        assert (again.returncode, again.stderr.count("\n")) == (1, 1)


async def test_replaying_a_delivery_that_arrived_again_has_no_second_effect(story, monkeypatch):
    async with story() as app:
        await given_up(app, monkeypatch, "first")
        await deliver(app, "first", "queued", None, job_id=1)
        assert await drain_inbox(app.context) == 1
        assert (await ghapp(app, "deliveries", "replay", "--all")).stdout == "replayed: 1\n"
        assert await drain_inbox(app.context) == 0
        assert await app.context.inbox.dead() == []


@pytest.mark.parametrize("failures", range(1, MOST_TRIES + 1))
async def test_a_delivery_is_tried_three_times(story, monkeypatch, failures):
    async with story() as app:
        tries = []
        take_effect = inbox._take_effect

        async def breaks_at_first(context, entries, *others):
            tries.append(len(entries))
            if len(tries) <= failures:
                raise KeyError("a mistake of ours")
            await take_effect(context, entries, *others)

        monkeypatch.setattr(inbox, "_take_effect", breaks_at_first)
        await deliver(app, "first", "queued", None, job_id=1)
        drained = [await drain_inbox(app.context) for _ in range(MOST_TRIES)]
        assert sum(drained) == (1 if failures < MOST_TRIES else 0)
        assert len(await app.context.inbox.dead()) == (0 if failures < MOST_TRIES else 1)
        assert len(tries) == min(failures + 1, MOST_TRIES)
