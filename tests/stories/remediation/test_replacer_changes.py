"""A lost runner is replaced by the replacer that its pool has now, whatever the pool had when it was lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobs.remediation import plan_remediation
from jobs.remediation.remediate import remediate_runner
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation
from tests.support.event_delivery import deliver_event
from tests.support.policy import replace_pools


async def live(app, asked):
    """An interval in which workers do what plans enqueue, and no more."""
    for seconds, job in ((60, sweep_installation), (30, confirm_installation)):
        await app.pass_(seconds)
        await job(app.context, app.installation)
        while asked:
            await remediate_runner(app.context, app.installation, asked.pop())
        for event_id in await app.context.events.unsent():
            await deliver_event(app.context, event_id)


@pytest.mark.parametrize("before", ["none", "no pools", "cloudevents, none"])
async def test_a_loss_from_the_time_before_the_pools_controller_was_configured_is_requested_once(
    story, monkeypatch, before
):
    asked = []
    monkeypatch.setattr(plan_remediation, "enqueue_remediation", lambda _redis, _org, runner: asked.append(runner))
    async with story(runners=40, ephemeral=False) as app:
        (pool,) = app.context.settings.pools
        without = () if before == "no pools" else (replace(pool, replacer="none"),)
        app.sandbox.control.fail_controller(status=503)
        if before != "cloudevents, none":
            replace_pools(app.context.settings, without)
        await live(app, asked)
        await live(app, asked)
        (lost,) = app.sandbox.control.lose("acme", count=1)
        if before == "cloudevents, none":
            await app.live_through_an_interval()
            assert len(await app.context.events.unsent()) == 1
            replace_pools(app.context.settings, without)
            asked.clear()
        await live(app, asked)
        app.sandbox.control.fail_controller(seconds=0)
        await live(app, asked)
        assert app.sandbox.control.controller_events() == []
        evidence = (await app.context.runners.all(app.installation))[lost]
        assert (evidence.removed_at is not None, evidence.replaced_at) == (True, None)
        replace_pools(app.context.settings, (pool,))
        for _ in range(3):
            await live(app, asked)
        requested = [each["data"]["runner_id"] for each in app.sandbox.control.controller_events()]
        assert requested == [lost]
        assert (await app.context.runners.all(app.installation))[lost].replaced_at is not None
