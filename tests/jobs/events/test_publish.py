"""The contents of events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ghapp.health.runner.verdict import State
from jobs.events.publish import publish_runners
from tests.health.builders import present, survey


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
    assert sum(each["source"] == "claim" and "busy with job 42" in each["said"] for each in found["evidence"]) == claims
