"""The hour's calls are short: who waits, who goes on, what is said of it, and that it passes by itself."""

from __future__ import annotations

import re
from functools import partial

import pytest

from ghapp.errors import BudgetSpentError
from ghapp.health.cadence import Purpose
from ghapp.health.verdict import State
from ghapp.store import keys
from jobs.confirm import confirm_installation
from jobs.redeliver import redeliver_failed
from jobs.sweep import sweep_installation
from tests import commands
from tests.stories.test_main_job import state_of
from tests.stories.test_redelivery import while_away

HOUR = 3600.0


async def settled(it):
    for _ in range(2):
        await it.live_through_an_interval()


async def calls_are_spent(it, used, *, resets_in=HOUR):
    """GitHub last said that so many of 5,000 are used; what it said before is forgotten."""
    await it.house.redis.delete(keys.budget(it.installation))
    said = {"limit": "5000", "used": str(used), "reset": str(int(it.clock() + resets_in))}
    await it.house.budget.leave(it.installation, "", {f"x-ratelimit-{name}": each for name, each in said.items()})


async def goes(it, purpose):
    """Whether a call for that purpose is let through."""
    tenant = await it.house.tenant(await it.house.installations.one(it.installation), purpose)
    try:
        await tenant.list_runners(1, None)
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
    async with story() as it:
        for purpose in Purpose:
            await calls_are_spent(it, used)
            assert await goes(it, purpose) is (purpose in let_through), purpose


async def test_while_sweeps_wait_who_was_missing_is_confirmed_and_replaced(story):
    async with story() as it:
        await settled(it)
        (lost,) = it.sandbox.control.lose("acme", count=1)
        await it.pass_(60)
        await sweep_installation(it.house, it.installation)
        await calls_are_spent(it, 2500)
        await it.pass_(30)
        assert (await sweep_installation(it.house, it.installation)).flaw == "BudgetSpent"
        assert await confirm_installation(it.house, it.installation) == 1
        await it.work_off()
        assert await it.replacements() == [lost]


async def test_what_is_spent_makes_no_runner_lost_and_sweeps_go_on_at_the_reset(story):
    async with story(runners=250) as it:
        await settled(it)
        await calls_are_spent(it, 2500, resets_in=1200.0)
        account = await sweep_installation(it.house, it.installation)
        assert (account.flaw, account.left) == ("BudgetSpent", 0)
        await it.pass_(400)
        assert set(await it.states()) == {State.UNKNOWN}, "nobody has looked for longer than stale_seconds"
        await it.pass_(801)
        account = await sweep_installation(it.house, it.installation)
        assert (account.flaw, account.runners) == ("", 250)
        assert account.next_in == 60.0
        assert set(await it.states()) == {State.HEALTHY}
        assert await it.replacements() == []


async def test_the_interval_stretches_as_the_hour_is_spent_and_is_the_configured_one_after_the_reset(story):
    async with story(runners=250) as it:
        await settled(it)
        waits = []
        for used in (2200, 2400, 2490):
            await it.house.redis.delete(keys.budget(it.installation))
            await it.house.redis.delete(keys.pages(it.installation))  # as if every page had changed
            it.sandbox.control.limits(org="acme", limit=5000, remaining=5000 - used)
            waits.append((await sweep_installation(it.house, it.installation)).next_in)
        assert 60.0 <= waits[0] < waits[1] < waits[2], waits
        due = await it.house.schedule.next(it.installation)
        assert due == pytest.approx(it.clock() + waits[-1], abs=5), "the clock is told"
        await it.pass_(HOUR)
        await it.house.redis.delete(keys.pages(it.installation))
        assert (await sweep_installation(it.house, it.installation)).next_in == 60.0


@pytest.mark.parametrize("status", [403, 429])
async def test_who_is_told_to_stay_away_tells_every_job(story, status):
    async with story() as it:
        await settled(it)
        (lost,) = it.sandbox.control.lose("acme", count=1)
        await it.pass_(60)
        await sweep_installation(it.house, it.installation)
        await it.pass_(30)
        it.sandbox.control.secondary_limit("acme", status=status, retry_after=45)
        assert (await sweep_installation(it.house, it.installation)).flaw == "RateLimited"
        it.sandbox.control.no_faults()
        it.sandbox.control.reset_account()
        await it.pass_(40)
        assert await confirm_installation(it.house, it.installation) == 0, "not before retry-after is over"
        account = await sweep_installation(it.house, it.installation)
        assert account.flaw == "BudgetSpent"
        asked = [call for call in it.account()["calls"] if "/orgs/" in call]
        assert asked == [], "nobody asked"
        await it.pass_(10)
        assert await confirm_installation(it.house, it.installation) == 1
        assert await state_of(it, lost) is State.INVALIDATED


async def test_what_is_asked_as_the_app_itself_waits_too_when_it_is_told_to(story):
    async with story() as it:
        await while_away(it, 3)
        it.clock.now = it.sandbox.world.now() + 60
        await it.house.budget.hold(0, 30)
        with pytest.raises(BudgetSpentError):
            await redeliver_failed(it.house)
        assert await it.house.inbox.well_until() is None, "and nothing is taken for well"
        it.clock.pass_(31)
        assert await redeliver_failed(it.house) == 3


async def test_the_command_says_what_is_left_and_when_the_next_sweep_is(story):
    async with story() as it:
        await settled(it)
        await it.house.redis.delete(keys.budget(it.installation))
        it.sandbox.control.limits(org="acme", limit=5000, remaining=2600)
        ghapp = partial(commands.ghapp, **it.environ, COLUMNS="200")
        said = ghapp("sweep", "--org", "acme", "--dry-run")
        assert said.returncode == 0, said.stderr
        head, row = (line for line in said.stdout.splitlines() if "calls left" in line or re.search(r"\bacme\b", line))
        cells = dict(zip(re.split(r"\s{2,}|\s*[│┃]\s*", head.strip(" │┃")), _cells(row), strict=False))
        assert 90 <= int(cells["calls left"]) <= 100, said.stdout


def _cells(row):
    return re.split(r"\s{2,}|\s*[│┃]\s*", row.strip(" │┃"))
