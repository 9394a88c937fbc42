"""A lost machine registers again under its name while its replacement request waits: nothing is asked for by that name."""

from __future__ import annotations

from functools import partial

import pytest

from ghapp.runners.observations import removed, retired_by_controller
from jobs.remediation.remediate import remediate_runner
from jobs.runners.sweep import sweep_installation
from tests.stories.remediation.test_remediate import evidence_of, granted, lost


def register_again(app, name):
    """The machine is configured again; returns the new registration's id."""
    (org,) = app.sandbox.world.orgs.values()
    return org.fleet.register_jit(name, ("self-hosted", "linux-4vcpu")).id


def accepted(app):
    """The replacement requests that the controller accepted."""
    return [each for each in app.sandbox.control.controller_events() if each["type"] == "ghapp.runner.replace.v1"]


async def waiting_in_the_outbox(app):
    """A runner that was lost and removed, and whose request the controller did not accept yet."""
    ((runner_id, name),) = await lost(app, 1)
    app.sandbox.control.fail_controller(seconds=100)
    await app.live_through_an_interval()
    evidence = await evidence_of(app, runner_id)
    assert (evidence.removed_at is not None, evidence.replaced_at) == (True, None)
    assert await app.context.events.unsent() != []
    return runner_id, name


async def test_a_request_in_the_outbox_is_withdrawn(story):
    async with story(ephemeral=False) as app:
        runner_id, name = await waiting_in_the_outbox(app)
        again = register_again(app, name)
        await app.live_through_an_interval()
        assert (await evidence_of(app, runner_id)).reregistered_as == again
        assert await app.context.events.unsent() == []
        assert accepted(app) == []
        for _ in range(3):
            await app.live_through_an_interval()
        assert accepted(app) == [], "and it is not asked for later"


async def test_so_is_one_whose_runner_its_controller_reports_as_removed(story):
    async with story(ephemeral=False) as app:
        runner_id, _ = await waiting_in_the_outbox(app)
        fold = partial(retired_by_controller, at=app.clock())
        await app.context.runners.revise(app.installation, {runner_id: fold})
        await app.live_through_an_interval()
        assert await app.context.events.unsent() == []
        assert accepted(app) == []


async def test_a_request_that_is_not_withdrawn_is_sent_when_the_controller_answers_again(story):
    async with story(ephemeral=False) as app:
        runner_id, _ = await waiting_in_the_outbox(app)
        await app.live_through_an_interval()
        assert (await evidence_of(app, runner_id)).replaced_at is not None


@pytest.mark.parametrize("is_listed", [True, False], ids=["a list shows it", "no list was read since"])
async def test_after_a_crash_between_removal_and_request_github_is_asked_by_name(story, is_listed):
    async with story(ephemeral=False) as app:
        runner_id, name = await granted(app)
        await app.context.runners.revise(app.installation, {runner_id: partial(removed, at=app.clock())})
        again = register_again(app, name)
        if is_listed:
            await app.pass_(60)
            await sweep_installation(app.context, app.installation)
        outcome = await remediate_runner(app.context, app.installation, runner_id)
        assert outcome == ("held" if is_listed else "returned")
        assert (await evidence_of(app, runner_id)).reregistered_as == again
        assert await app.replacements() == []
