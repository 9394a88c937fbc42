"""A row of GitHub's list of runners is odd for as long as an hour: its runner is never missing, and the others are judged."""

from __future__ import annotations

import json
from functools import partial

import pytest

from ghapp.github.installation_client import InstallationClient
from ghapp.github.ports import Listing
from ghapp.runners.verdict import State, judge
from ghapp.store.left_out import LeftOutRecords
from tests.support import commands

RUNNERS = 30


def with_odd(monkeypatch, runner_id, **odd):
    """From now on GitHub's row of that runner has these fields, in its list."""
    list_runners = InstallationClient.list_runners

    async def listed(self, page, _etag):
        listing = await list_runners(self, page, None)
        answer = json.loads(listing.body)
        for row in answer["runners"]:
            if row["id"] == runner_id:
                row.update(odd)
        return Listing(json.dumps(answer).encode(), "")

    monkeypatch.setattr(InstallationClient, "list_runners", listed)


async def state(app, runner_id):
    (evidence,) = (await app.context.runners.some(app.installation, [runner_id])).values()
    survey = await app.context.runners.survey(app.installation)
    return judge(evidence, survey, app.clock(), app.settings.of("acme").evidence).state


ODD = [
    {"os": None},
    {"busy": None},
    {"labels": None},
    {"labels": [{"name": None}]},
    {"status": None},
    {"status": "asleep"},
    {"name": None},
    {"name": ["a"]},
    {"id": None},
    {"id": -1},
    {"id": 10**30},
]


@pytest.mark.parametrize("odd", ODD, ids=str)
async def test_a_runner_whose_row_is_odd_is_not_missing_and_a_lost_one_beside_it_is_replaced(story, monkeypatch, odd):
    async with story(runners=RUNNERS) as app:
        await app.live_through_an_interval()
        lost, strange, *_ = sorted(await app.context.runners.all(app.installation))
        labels = (await app.context.runners.some(app.installation, [strange]))[strange].labels
        with_odd(monkeypatch, strange, **odd)
        app.sandbox.control.lose("acme", ids=[lost])
        for _ in range(6):
            await app.live_through_an_interval()
        assert await state(app, strange) is State.HEALTHY
        known = await app.context.runners.some(app.installation, [lost, strange])
        assert (known[strange].labels, known[strange].first_404_at) == (labels, None)
        assert known[lost].removed_at is not None
        monkeypatch.undo()
        assert (await app.live_through_an_interval()).suspects == 0


async def test_the_doctor_names_what_was_left_out_last(story, monkeypatch):
    async with story() as app:
        await app.live_through_an_interval()
        strange = min(await app.context.runners.all(app.installation))
        with_odd(monkeypatch, strange, status="asleep")
        await app.live_through_an_interval()
        await LeftOutRecords(app.context.redis).record(app.context.left_out_rows, app.clock())
        text = partial(commands.ghapp, **app.environ, COLUMNS="400")("doctor").stdout
        assert "left out: runner" in text
        assert ".status: Invalid enum value" in text
        assert "asleep" not in text
