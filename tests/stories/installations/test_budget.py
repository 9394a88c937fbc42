"""The hour's calls are short: which calls wait, which continue, what is reported, and that it heals by itself."""

from __future__ import annotations

import re
from functools import partial

import pytest

from ghapp.errors import BudgetSpentError
from ghapp.installations.pacing import Purpose
from ghapp.runners.verdict import State
from ghapp.store import keys
from jobs.deliveries.redeliver import redeliver_failed
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation
from tests.stories.deliveries.test_redelivery import while_away
from tests.stories.runners.test_main_job import state_of
from tests.support import commands

HOUR = 3600.0


async def calls_are_spent(app, used, *, resets_in=HOUR):
    """GitHub last answered that so many of 5,000 are used; earlier answers are forgotten."""
    await app.context.redis.delete(keys.budget(app.installation))
    text = {"limit": "5000", "used": str(used), "reset": str(int(app.clock() + resets_in))}
    await app.context.budget.leave(app.installation, "", {f"x-ratelimit-{name}": each for name, each in text.items()})


async def goes(app, purpose):
    """Whether a call for that purpose is let through."""
    installation_client = await app.context.installation_client(
        await app.context.installations.one(app.installation), purpose
    )
    try:
        await installation_client.list_runners(1, None)
    except BudgetSpentError:
        return False
    return True


@pytest.mark.parametrize(
    ("used", "let_through"),
    [
        (2249, {Purpose.ACT, Purpose.SWEEP, Purpose.REPORT}),
        (2250, {Purpose.ACT, Purpose.SWEEP}),
        (2500, {Purpose.ACT}),
        (4500, set()),
    ],
)
async def test_reports_wait_first_then_sweeps_and_confirmations_last(story, used, let_through):
    async with story() as app:
        for purpose in Purpose:
            await calls_are_spent(app, used)
            assert await goes(app, purpose) is (purpose in let_through), purpose


async def test_while_sweeps_wait_missing_runners_are_confirmed_and_replaced(story):
    async with story() as app:
        await app.settle()
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await app.pass_(60)
        await sweep_installation(app.context, app.installation)
        await calls_are_spent(app, 2500)
        await app.pass_(30)
        assert (await sweep_installation(app.context, app.installation)).flaw == "BudgetSpent"
        assert await confirm_installation(app.context, app.installation) == 1
        await app.work_off()
        assert await app.replacements() == [lost]


async def test_a_spent_budget_loses_no_runner_and_sweeps_resume_at_the_reset(story):
    async with story(runners=250) as app:
        await app.settle()
        await calls_are_spent(app, 2500, resets_in=1200.0)
        account = await sweep_installation(app.context, app.installation)
        assert (account.flaw, account.left) == ("BudgetSpent", 0)
        await app.pass_(400)
        assert set(await app.states()) == {State.UNKNOWN}, "no sweep for longer than stale_seconds"
        await app.pass_(801)
        account = await sweep_installation(app.context, app.installation)
        assert (account.flaw, account.runners) == ("", 250)
        assert account.next_in == 60.0
        assert set(await app.states()) == {State.HEALTHY}
        assert await app.replacements() == []


async def test_the_interval_stretches_as_the_hour_is_spent_and_is_the_configured_one_after_the_reset(story):
    async with story(runners=250) as app:
        await app.settle()
        waits = []
        for used in (2460, 2480, 2490):
            await app.context.redis.delete(keys.budget(app.installation))
            await every_page_changes(app)
            app.sandbox.control.limits(org="acme", limit=5000, remaining=5000 - used)
            waits.append((await sweep_installation(app.context, app.installation)).next_in)
        assert 60.0 <= waits[0] < waits[1] < waits[2], waits
        due = await app.context.schedule.next(app.installation)
        assert due == pytest.approx(app.clock() + waits[-1], abs=5), "the scheduler knows the time"
        await app.pass_(HOUR)
        await every_page_changes(app)
        assert (await sweep_installation(app.context, app.installation)).next_in == 60.0


async def every_page_changes(app):
    """No stored ETag is GitHub's any more."""
    client = await app.context.installation_client(await app.context.installations.one(app.installation), Purpose.SWEEP)
    pages = await app.context.pages.of(app.installation, client.token)
    changed = {number: page._replace(etag='"before"') for number, page in pages.items()}
    await app.context.pages.keep(app.installation, client.token, changed, len(changed))


async def test_the_first_sweep_with_a_new_token_does_not_stretch_the_interval(story):
    """It pays for every page, and the next one does not."""
    async with story(runners=250) as app:
        await app.settle()
        await calls_are_spent(app, 2440)
        await app.context.redis.delete(keys.pages(app.installation))
        app.sandbox.control.limits(org="acme", limit=5000, remaining=5000 - 2440)
        cold = await sweep_installation(app.context, app.installation)
        assert (cold.billable, cold.changed, cold.next_in) == (3, 0, 60.0)


@pytest.mark.parametrize("status", [403, 429])
async def test_a_retry_after_applies_to_every_job(story, status):
    async with story() as app:
        await app.settle()
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await app.pass_(60)
        await sweep_installation(app.context, app.installation)
        await app.pass_(30)
        app.sandbox.control.secondary_limit("acme", status=status, retry_after=45)
        assert (await sweep_installation(app.context, app.installation)).flaw == "RateLimited"
        app.sandbox.control.no_faults()
        app.sandbox.control.reset_account()
        await app.pass_(40)
        assert await confirm_installation(app.context, app.installation) == 0, "not before retry-after is over"
        account = await sweep_installation(app.context, app.installation)
        assert account.flaw == "RateLimited"
        asked = [call for call in app.account()["calls"] if "/orgs/" in call]
        assert asked == [], "no call was made"
        await app.pass_(10)
        assert await confirm_installation(app.context, app.installation) == 1
        assert await state_of(app, lost) is State.INVALIDATED


@pytest.mark.parametrize(
    ("stated", "silence"),
    [("{date}", 240.0), ("240.5", 240.5), ("", 60.0), ("soon", 60.0), ("-240", 60.0), ("30, 240", 240.0)],
    ids=["HTTP date", "fraction", "empty", "garbage", "negative", "twice"],
)
@pytest.mark.parametrize("status", [403, 429])
async def test_whatever_the_form_of_retry_after_the_silence_is_kept_and_the_fleet_swept_after_it(
    story, status, stated, silence
):
    async with story() as app:
        await app.settle()
        app.sandbox.control.secondary_limit("acme", status=status, retry_after=240, stated=stated, seconds=silence)
        app.sandbox.control.reset_account()
        assert (await sweep_installation(app.context, app.installation)).flaw == "RateLimited"
        assert calls_of(app) == 1, "the one that was refused"
        survey = await app.context.runners.survey(app.installation)
        assert (survey.failure, survey.total) == ("RateLimited", 12), "the last list stays known"
        for _ in range(int(silence) // 15 - 1):
            await app.pass_(15)
            assert (await sweep_installation(app.context, app.installation)).flaw == "RateLimited"
        assert calls_of(app) == 1, "no further call in the silence"
        await app.pass_(17)
        swept = await sweep_installation(app.context, app.installation)
        assert (swept.flaw, swept.runners) == ("", 12)
        assert (await app.context.runners.survey(app.installation)).failing_since is None


def calls_of(app):
    """How many calls GitHub got since its account was reset."""
    return sum(each["total"] for each in app.account()["calls"].values())


async def test_calls_as_the_app_itself_wait_too_after_a_retry_after(story):
    async with story() as app:
        await while_away(app, 3)
        app.clock.now = app.sandbox.world.now() + 60
        await app.context.budget.hold(0, 30)
        assert await redeliver_failed(app.context) == 0
        assert await app.context.inbox.complete_until() is None, "and no state is healthy"
        app.clock.pass_(31)
        assert await redeliver_failed(app.context) == 3


async def test_the_command_shows_the_remaining_budget_and_the_next_sweep(story):
    async with story() as app:
        await app.settle()
        await app.context.redis.delete(keys.budget(app.installation))
        app.sandbox.control.limits(org="acme", limit=5000, remaining=2600)
        ghapp = partial(commands.ghapp, **app.environ, COLUMNS="200")
        text = ghapp("sweep", "--org", "acme", "--dry-run")
        assert text.returncode == 0, text.stderr
        head, row = (line for line in text.stdout.splitlines() if "calls left" in line or re.search(r"\bacme\b", line))
        cells = dict(zip(re.split(r"\s{2,}|\s*[│┃]\s*", head.strip(" │┃")), _cells(row), strict=False))
        assert 90 <= int(cells["calls left"]) <= 100, text.stdout


def _cells(row):
    return re.split(r"\s{2,}|\s*[│┃]\s*", row.strip(" │┃"))
