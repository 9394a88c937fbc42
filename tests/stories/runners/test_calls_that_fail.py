"""GitHub answers the calls about single runners with errors for an hour: few calls are spent, and no runner is lost."""

from __future__ import annotations

import json

import pytest

from ghapp.web.fleet_view import FleetReader
from jobs.remediation import plan_remediation
from jobs.remediation.remediate import remediate_runner
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation

ONE_RUNNER = r"/actions/runners/\d+$"
TRIES = 8
"""In an hour: after 30 s, 1, 2, 4, 8, 16, 16 minutes, each rounded up to the next sweep."""


@pytest.fixture
def asked(monkeypatch):
    """The runners whose remediation plans enqueue."""
    runners = []
    monkeypatch.setattr(plan_remediation, "enqueue_remediation", lambda _redis, _org, runner: runners.append(runner))
    return runners


async def live(app, asked, minutes):
    for _ in range(minutes):
        for seconds, job in ((30, sweep_installation), (30, confirm_installation)):
            await app.pass_(seconds)
            await job(app.context, app.installation)
            for runner_id in set(asked):
                for _ in range(3):  # a job that fails is tried three times
                    await remediate_runner(app.context, app.installation, runner_id)
            asked.clear()


def calls(app, method):
    return app.account()["calls"].get(f"{method} /orgs/{{org}}/actions/runners/{{runner_id}}", {"total": 0})["total"]


@pytest.mark.parametrize(("status", "blocker"), [(500, "github"), (403, "permission")])
async def test_registrations_that_github_does_not_delete_are_tried_ever_less_often(story, asked, status, blocker):
    async with story(runners=30, ephemeral=False) as app:
        await live(app, asked, 4)
        app.sandbox.control.fault(match=ONE_RUNNER, method="DELETE", status=status)
        lost = app.sandbox.control.lose("acme", count=5)
        app.sandbox.control.reset_account()
        await live(app, asked, 60)
        assert calls(app, "DELETE") == TRIES * len(lost)
        reader = FleetReader(app.settings, app.context)
        document = json.loads((await reader.by_id("acme", lost[0], app.clock())).at(app.clock()))
        (reason,) = [each["text"] for each in document["evidence"] if "no usable answer" in each["text"]]
        assert f"{TRIES} calls in a row (" in reason
        assert "the next one is due at" in reason
        assert document["remediation"]["blocked_by"] == blocker
        app.sandbox.control.no_faults()
        await live(app, asked, 17)
        records = await app.context.runners.all(app.installation)
        assert all(records[each].removed_at is not None and records[each].failed_calls is None for each in lost)


@pytest.mark.parametrize("first_404s", [False, True], ids=["no first 404", "first 404s, and no second"])
async def test_suspects_that_github_gives_no_answer_about_are_asked_ever_less_often(story, asked, first_404s):
    async with story(runners=20, ephemeral=False) as app:
        await live(app, asked, 4)
        lost = app.sandbox.control.lose("acme", count=12)
        if first_404s:
            await app.pass_(60)
            await sweep_installation(app.context, app.installation)
        app.sandbox.control.fault(match=ONE_RUNNER, method="GET", status=500)
        app.sandbox.control.reset_account()
        await live(app, asked, 60)
        assert calls(app, "GET") <= (TRIES + 1) * len(lost)
        assert await app.replacements() == []
        app.sandbox.control.no_faults()
        await live(app, asked, 18)
        records = await app.context.runners.all(app.installation)
        assert all(records[each].confirmed_at is not None for each in lost)
