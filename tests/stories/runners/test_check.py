"""A controller requests a check of one runner."""

from __future__ import annotations

import re

import pytest

from ghapp.runners.verdict import State
from ghapp.store import keys
from ghapp.store.audit import AuditEntry, Channel
from ghapp.store.presses import SWEEP_TOPIC, check_topic
from jobs.installations.discover import discover_installations
from jobs.runners.check_runner import check_runner
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL
from tests.stories.runners.test_main_job import state_of

UNCHANGED = "nothing is confirmed, removed or replaced by it"


async def known_fleet(app):
    await sweep_installation(app.context, app.installation)
    app.clock.pass_(200)
    await sweep_installation(app.context, app.installation)


async def test_a_check_of_a_lost_runner_starts_the_time_of_its_confirmation(story):
    async with story() as app:
        await known_fleet(app)
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await check_runner(app.context, app.installation, lost)
        assert await state_of(app, lost) is State.SUSPECT
        app.clock.pass_(30)
        assert await confirm_installation(app.context, app.installation) == 1


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (None, "GitHub lists it as online"),
        ("lost", "GitHub answered 404: the runner is asked for again before it counts as lost"),
        ("confirmed", "GitHub answered 404, as before: the runner counts as lost since "),
        (502, "GitHub gave no usable answer: "),
    ],
)
async def test_a_press_of_look_at_this_runner_shows_what_github_answers(story, fault, outcome):
    async with story() as app:
        await known_fleet(app)
        runner_id = next(iter(await app.context.runners.all(app.installation)))
        if fault in ("lost", "confirmed"):
            (runner_id,) = app.sandbox.control.lose("acme", count=1)
        if fault == "confirmed":
            await app.live_through_an_interval()
        if fault == 502:
            app.sandbox.control.fault(match="/actions/runners/", status=fault)
        entry = AuditEntry(app.clock(), "mona", Channel.PAGE, "look at", "it", "", "")
        press_id = await app.context.presses.begin(app.installation, check_topic(runner_id), entry)
        await check_runner(app.context, app.installation, runner_id)
        assert (await app.context.presses.get(app.installation, press_id)).outcome.startswith(outcome)


@pytest.mark.parametrize(
    ("fault", "age", "outcome"),
    [
        (None, 1.0, "found no suspect, "),
        ("lost", 1.0, "found 2 runners that left the list and are being checked ("),
        (502, 1.0, f"failed: GitHub does not answer, or answers with errors (GitHubUnavailable); {UNCHANGED}, "),
        ("lost", -1.0, "already running: found 2 runners that left the list and are being checked ("),
    ],
    ids=["all is well", "two are lost", "GitHub does not answer", "pressed while a sweep ran"],
)
async def test_a_press_of_sweep_now_shows_what_the_sweep_found_and_cost(story, fault, age, outcome):
    async with story() as app:
        await known_fleet(app)
        if fault == "lost":
            app.sandbox.control.lose("acme", count=2)
        elif fault is not None:
            app.sandbox.control.fault(match="/actions/runners", status=fault)
        entry = AuditEntry(app.clock() - age, "mona", Channel.PAGE, "sweep", "", "", "")
        press_id = await app.context.presses.begin(app.installation, SWEEP_TOPIC, entry)
        await sweep_installation(app.context, app.installation)
        shown = (await app.context.presses.get(app.installation, press_id)).outcome
        assert re.fullmatch(re.escape(outcome) + r"([\w.-]+, [\w.-]+\), )?[1-9]\d* calls?", shown), shown
        assert [each.result for each in await app.context.audit.latest(app.installation, 9)] == [shown]


@pytest.mark.parametrize(
    ("hinder", "asked"),
    [
        (lambda app: app.sandbox.control.fault(match="/actions/runners", status=502), "1 call"),
        (lambda app: app.sandbox.control.fault(match="/access_tokens", status=502), "1 call"),
        (lambda app: app.sandbox.control.suspend("acme"), "GitHub was not asked"),
    ],
    ids=["the list fails", "no token", "suspended"],
)
async def test_a_sweep_that_failed_says_whether_github_was_asked(story, hinder, asked):
    async with story() as app:
        await known_fleet(app)
        hinder(app)
        if asked == "GitHub was not asked":
            await discover_installations(app.context)
        else:
            await app.context.github.forget_token(app.installation)
        entry = AuditEntry(app.clock(), "mona", Channel.PAGE, "sweep", "", "", "")
        press_id = await app.context.presses.begin(app.installation, SWEEP_TOPIC, entry)
        await sweep_installation(app.context, app.installation)
        press = await app.context.presses.get(app.installation, press_id)
        assert press.has_failed
        assert press.outcome.endswith(f"; {UNCHANGED}, {asked}")


async def test_a_sweep_counts_the_runners_that_remain_lost_and_says_what_happens_next_to_them(story):
    async with story(config='[remediation]\nmode = "dry-run"') as app:
        await known_fleet(app)
        app.sandbox.control.lose("acme", count=2)
        for _ in range(3):
            await app.live_through_an_interval()
        entry = AuditEntry(app.clock() - 1, "mona", Channel.PAGE, "sweep", "", "", "")
        press_id = await app.context.presses.begin(app.installation, SWEEP_TOPIC, entry)
        asked = await sweep_installation(app.context, app.installation)
        press = await app.context.presses.get(app.installation, press_id)
        why = "nothing is replaced: remediation is in dry-run"
        assert press.losses == (2, ((POOL, 2, "waiting", "dry-run", why),))
        assert press.outcome.endswith(f" call; 2 runners remain lost: 2 of {POOL} waiting ({why})")
        assert asked.losses == press.losses
        assert (await sweep_installation(app.context, app.installation)).losses is None, "nothing waits for an outcome"


async def test_a_check_costs_one_call_and_none_when_reports_have_spent_their_share(story):
    async with story() as app:
        await known_fleet(app)
        runner_id = next(iter(await app.context.runners.all(app.installation)))
        before = await app.context.budget.left(app.installation, app.clock())
        await check_runner(app.context, app.installation, runner_id)
        after = await app.context.budget.left(app.installation, app.clock())
        assert after.used - before.used == 1
        reset = (await app.context.redis.hget(keys.budget(app.installation), "reset")).decode()
        spent = {"x-ratelimit-limit": "5000", "x-ratelimit-used": "2250", "x-ratelimit-reset": reset}
        await app.context.budget.leave(app.installation, "", spent)
        await check_runner(app.context, app.installation, runner_id)
        assert (await app.context.budget.left(app.installation, app.clock())).used == 2250, "nothing was sent"


async def test_a_check_of_an_unknown_runner_makes_it_known(story):
    async with story() as app:
        (newcomer,) = app.sandbox.control.register("acme", pool="linux-4vcpu", count=1)
        app.clock.pass_(20)
        await check_runner(app.context, app.installation, newcomer)
        assert newcomer in await app.context.runners.all(app.installation)


async def test_a_check_of_a_runner_that_does_not_exist_leaves_no_record(story):
    async with story() as app:
        await known_fleet(app)
        await check_runner(app.context, app.installation, 424242)
        assert 424242 not in await app.context.runners.all(app.installation)
