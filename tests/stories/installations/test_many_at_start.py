"""After a start with more installations than GitHub permits tokens a minute, sweeps are deferred, and nothing warns."""

from __future__ import annotations

from ghapp.installations.pacing import SWEEPING_POINTS, WRITE_POINTS, CallLimits
from ghapp.runners.next_attempt import NextAttempt, next_attempt
from ghapp.runners.verdict import Reason, State
from ghapp.store.audit import AuditEntry, Channel
from ghapp.store.presses import SWEEP_TOPIC
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import POINTS_SPENT, sweep_installation


async def attempt_of(app):
    installation = await app.context.installations.one(app.installation)
    survey = await app.context.runners.survey(app.installation)
    due = await app.context.schedule.next(app.installation)
    return next_attempt(installation, survey, due, None, app.clock())


async def spend(app):
    """Tokens of other installations have used up the App's points of this minute."""
    app.sandbox.control.reset_account()
    for _ in range(SWEEPING_POINTS // WRITE_POINTS):
        await app.context.budget.leave(0, await app.context.budget.enter(0, CallLimits(), WRITE_POINTS), {})


async def test_a_sweep_without_a_token_is_deferred_to_its_turn_with_the_reason_and_without_a_warning(story, capsys):
    async with story() as app:
        await app.context.github.forget_token(app.installation)
        await spend(app)
        entry = AuditEntry(app.clock(), "mona", Channel.PAGE, "sweep", "", "", "")
        press_id = await app.context.presses.begin(app.installation, SWEEP_TOPIC, entry)
        capsys.readouterr()
        swept = await sweep_installation(app.context, app.installation)
        assert (swept.deferred, swept.flaw, swept.calls) == (True, Reason.RATE_LIMITED, 0)
        log = capsys.readouterr().out
        assert "sweep deferred" in log
        assert "warning" not in log
        began, attempt = app.clock(), await attempt_of(app)
        assert attempt == NextAttempt(Reason.RATE_LIMITED, began, began + swept.next_in)
        assert 0 < swept.next_in <= 61
        press = await app.context.presses.get(app.installation, press_id)
        assert (press.waits_for, press.next_at) == (POINTS_SPENT, began + swept.next_in)
        assert (await app.context.runners.survey(app.installation)).failing_since is None
        assert app.account()["calls"] == {}, "nothing was sent"
        await app.pass_(swept.next_in)
        assert (await sweep_installation(app.context, app.installation)).runners == 12
        assert (await app.context.presses.get(app.installation, press_id)).outcome.startswith("found no suspect")
        assert (await attempt_of(app)).prevented_by == ""


async def test_while_sweeps_wait_for_tokens_a_missing_runner_is_confirmed(story):
    async with story() as app:
        for _ in range(2):
            await app.live_through_an_interval()
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await app.pass_(60)
        await sweep_installation(app.context, app.installation)
        await app.context.github.forget_token(app.installation)
        await app.pass_(30)
        await spend(app)
        assert (await sweep_installation(app.context, app.installation)).deferred
        assert await confirm_installation(app.context, app.installation) == 1
        assert await app.states() == {State.HEALTHY: 11, State.INVALIDATED: 1}
        assert lost in await app.context.runners.all(app.installation)
