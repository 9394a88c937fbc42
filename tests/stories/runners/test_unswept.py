"""What deliveries leave of an installation that no sweep can read is bounded, and nothing that waits is forgotten."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ghapp.installations.store import KEPT_SECONDS
from ghapp.store import keys
from jobs.deliveries.inbox import drain_inbox
from jobs.installations import forget
from jobs.installations.discover import discover_installations
from jobs.runners.sweep import FORGET_SECONDS, sweep_installation
from tests.stories.deliveries.test_deliveries import deliver

HOUR, DAY = 3600.0, 86_400.0


async def discovered(app):
    await discover_installations(app.context)


async def swept(app):
    app.clock.pass_(FORGET_SECONDS - app.clock.now % FORGET_SECONDS)
    await sweep_installation(app.context, app.installation)


async def deliveries_of(app, first, count=10):
    """So many jobs, each of a runner of its own; half of them never end."""
    for number in range(first, first + count):
        runner = SimpleNamespace(id=number, name=f"runner-{number}")
        for status in ("queued", "in_progress", *(["completed"] if number % 2 else [])):
            await deliver(app, f"{status}-{number}", status, runner, job_id=number)
    await drain_inbox(app.context)


async def left(app):
    """The numbers of records of runners, of names, and of jobs."""
    redis, at = app.context.redis, app.installation
    names = [await redis.hlen(key) for key in await redis.keys(f"{keys.names(at)}*")]
    return await app.context.runners.count(at), sum(names), await app.context.demand.count(at)


CAUSES = {
    "not permitted": (lambda control: control.withhold_permission("acme"), discovered),
    "suspended": (lambda control: control.suspend("acme"), discovered),
    "its lists fail": (lambda control: control.fault("acme", status=502), swept),
}


@pytest.mark.parametrize("cause", CAUSES)
async def test_an_installation_that_is_not_swept_does_not_grow_by_its_deliveries(story, cause):
    prevent, look = CAUSES[cause]
    async with story(runners=3) as app:
        await sweep_installation(app.context, app.installation)
        prevent(app.sandbox.control)
        sizes = []
        for day in range(10):
            await deliveries_of(app, 10_000 + 10 * day)
            app.clock.pass_(DAY + HOUR)
            await look(app)
            sizes.append(await left(app))
        assert sizes[-1] == sizes[-5] == (3, 3, 20), "a job may run for five days"


async def test_beyond_the_bounds_the_oldest_go_and_none_that_waits_for_its_replacement(story, monkeypatch):
    monkeypatch.setattr(forget, "MOST_LEFT", 4)
    monkeypatch.setattr(forget, "MOST_JOBS", 8)
    async with story(runners=3, ephemeral=False) as app:
        app.sandbox.control.fail_controller(status=503)
        for _ in range(2):
            await app.live_through_an_interval()
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await app.live_through_an_interval()
        app.sandbox.control.suspend("acme")
        for batch in range(3):
            await deliveries_of(app, 10_000 + 10 * batch)
            for number in range(20_000 + 3 * batch, 20_003 + 3 * batch):
                await deliver(app, f"waits-{number}", "queued", None, job_id=number)
            await drain_inbox(app.context)
            app.clock.pass_(60)
        await discovered(app)
        assert await app.context.runners.count(app.installation) == 2 + 4, "two are listed"
        known = {*await app.context.runners.all(app.installation)}
        assert lost in known
        assert sum(10_020 <= each < 10_030 for each in known) == 3, "of the last batch"
        jobs = {job.id for job in await app.context.demand.all(app.installation)}
        assert jobs == {*range(10_000, 10_030, 2)}, "what runs is kept, though there is too much of it"


async def test_what_deliveries_leave_of_an_unknown_installation_expires_unless_it_is_listed_after_all(story):
    async with story(runners=3) as app:
        await sweep_installation(app.context, app.installation)
        known, app.installation = app.installation, 4711
        await deliveries_of(app, 10_000)
        await discovered(app)
        ttl = await app.context.redis.ttl(keys.runners(4711))
        assert KEPT_SECONDS - 60 < ttl <= KEPT_SECONDS
        assert await app.context.redis.ttl(keys.runners(known)) == -1
        await app.context.uninstalled.returned([4711])
        assert await app.context.redis.ttl(keys.runners(4711)) == -1
