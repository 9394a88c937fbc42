"""The contents of events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ghapp.runners.verdict import State
from jobs.events.publish import publish_replacement_request, publish_runners
from tests.rules.builders import lost, present, survey


@pytest.mark.parametrize(("ends_after", "claims"), [(601.0, 1), (600.0, 0)], ids=["active claim", "expired claim"])
async def test_an_event_contains_the_active_claim_on_its_runner(story, ends_after, claims):
    async with story() as app:
        began = app.clock()
        await app.context.pod_claims.claim(app.installation, "linux-1", "linux-1", 42, began + ends_after)
        app.clock.pass_(600)
        now = app.clock()
        offline = present(1, first_seen=began - 86_400, offline_since=began, observed_at=now)
        await app.context.runners.revise(app.installation, {1: lambda _: offline})
        installation = await app.context.installations.one(app.installation)
        view = replace(await app.context.org_view(installation), survey=survey(swept_at=now))
        await publish_runners(app.context, installation, view, [(offline, State.OFFLINE)], now)
        (found,) = await app.sent_events("runner.offline")
    assert found["state"] == "offline"
    assert sum(each["source"] == "claim" and "busy with job 42" in each["text"] for each in found["evidence"]) == claims


@pytest.mark.parametrize("failing", [{}, {"failing_since": 1.0}], ids=["sweeps succeed", "the last sweep failed"])
async def test_a_request_always_says_that_the_runner_is_to_be_replaced(story, failing):
    """GitHub was asked for the runner and its name just before it is published."""
    async with story() as app:
        now = app.clock()
        granted = lost(1, confirmed_at=now, granted_at=now, event_id="e1", removed_at=now, observed_at=now)
        installation = await app.context.installations.one(app.installation)
        view = replace(await app.context.org_view(installation), survey=survey(swept_at=now, **failing))
        assert view.document(granted, now)["replace"] is not bool(failing)
        await publish_replacement_request(app.context, installation, view, granted, now)
        (request,) = await app.sent_events("runner.replace")
    assert request["replace"] is True
