"""Whatever GitHub answers: no working runner is removed or replaced, the reason is reported, and it heals by itself."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ghapp.report.fleet_report import report_on
from ghapp.runners.verdict import State, judge
from jobs.installations.discover import discover_installations
from jobs.reports.health_report import _fleet
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation
from tests.stories.runners.test_main_job import at_work

RUNNERS = 250
AS_BEFORE = {State.HEALTHY}
NOT_KNOWN = {State.HEALTHY, State.UNKNOWN}


@dataclass
class Lie:
    """How it begins, what the sweeps then say is wrong (an empty word: nothing), and what may become of the states."""

    begin: object
    flaws: set[str]
    states: set[State]
    end: object = lambda control: control.no_faults()


LIES = {
    "a_missing_permission": Lie(lambda c: c.withhold_permission("acme"), {"PermissionMissing"}, NOT_KNOWN),
    "a_missing_permission_in_the_guise_of_404": Lie(
        lambda c: c.withhold_permission("acme", status=404), {"PermissionMissing"}, NOT_KNOWN
    ),
    "a_404_on_every_call_that_nothing_explains": Lie(
        lambda c: c.withhold_permission("acme", status=404, admitted=False), {"PermissionMissing"}, NOT_KNOWN
    ),
    "a_renamed_organization": Lie(
        lambda c: c.rename("acme", "acme-two"),
        {"OrganizationRenamed", ""},
        AS_BEFORE,
        lambda c: c.rename("acme-two", "acme"),
    ),
    "a_suspended_installation": Lie(
        lambda c: c.suspend("acme"),
        {"InstallationSuspended", "PermissionMissing", "Unauthorized"},
        NOT_KNOWN,
        lambda c: c.unsuspend("acme"),
    ),
    "server_errors_on_half_of_the_calls": Lie(
        lambda c: c.fault("acme", status=502, share=0.5), {"GitHubUnavailable", ""}, NOT_KNOWN
    ),
    "connections_that_are_reset": Lie(lambda c: c.fault("acme", reset=True), {"GitHubUnavailable"}, NOT_KNOWN),
    "bodies_cut_short": Lie(lambda c: c.fault("acme", cut_short=True), {"GitHubUnavailable", ""}, NOT_KNOWN),
    "html_instead_of_json": Lie(lambda c: c.fault("acme", status=200, html=True), {"GitHubUnavailable"}, NOT_KNOWN),
    "a_list_that_leaves_out_live_runners": Lie(lambda c: c.unlist("acme", share=0.3), {""}, AS_BEFORE),
    "a_list_that_leaves_them_out_and_counts_them": Lie(
        lambda c: c.unlist("acme", share=0.3, counted=True), {"ListIncomplete"}, NOT_KNOWN
    ),
    "a_list_that_leaves_out_a_few_and_counts_them": Lie(
        lambda c: c.unlist("acme", share=0.05, counted=True), {""}, AS_BEFORE
    ),
    "a_total_that_disagrees": Lie(lambda c: c.miscount("acme", by=100), {"ListIncomplete"}, NOT_KNOWN),
    "an_empty_list": Lie(lambda c: c.empty_list("acme"), {"ListEmpty"}, NOT_KNOWN),
    "busy_and_status_that_are_not_so": Lie(
        lambda c: c.misreport("acme", busy=False, status="offline"), {""}, {State.HEALTHY, State.OFFLINE}
    ),
    "lists_that_are_stale": Lie(lambda c: c.stale_lists("acme"), {""}, AS_BEFORE),
    "an_exhausted_limit": Lie(
        lambda c: c.exhaust_limit("acme", seconds=100), {"RateLimited", "BudgetSpent", ""}, NOT_KNOWN
    ),
    "a_secondary_limit": Lie(
        lambda c: c.secondary_limit("acme", status=429, retry_after=45), {"RateLimited", "BudgetSpent", ""}, NOT_KNOWN
    ),
    "an_address_that_is_blocked": Lie(lambda c: c.block_address("acme"), {"PermissionMissing"}, NOT_KNOWN),
    "a_clock_that_is_ahead": Lie(lambda c: c.skew_clock(ahead=90), {""}, AS_BEFORE),
    "a_clock_that_is_behind": Lie(lambda c: c.skew_clock(ahead=-90), {""}, AS_BEFORE),
}


async def is_reported(app, flaws):
    """A metric counts the flaws; while a list is flawed, the report and each runner show the reason."""
    counted = await app.context.counters.all()
    org = (await app.context.installations.one(app.installation)).org
    for flaw in flaws - {"", "OrganizationRenamed"}:
        assert counted[f'ghapp_sweeps_total{{org="{org}",outcome="{flaw}"}}'] > 0
    survey = await app.context.runners.survey(app.installation)
    if survey.failing_since is None:
        return
    acme = await app.context.installations.one(app.installation)
    assert f"({survey.failure})" in report_on(await _fleet(app.context, acme, None, app.clock()), app.clock()).summary
    limits = app.settings.of(org).evidence
    verdicts = [
        judge(each, survey, app.clock(), limits) for each in (await app.context.runners.all(app.installation)).values()
    ]
    assert {each.reason for each in verdicts if each.state is State.UNKNOWN} <= {survey.failure}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
async def test_no_working_runner_is_lost_because_of(story, lie):
    async with story(runners=RUNNERS) as app:
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        assert set(await app.states()) == AS_BEFORE

        lie.begin(app.sandbox.control)
        flaws = set()
        for _ in range(5):
            flaws.add((await app.live_through_an_interval()).flaw)
            assert set(await app.states()) <= lie.states
        assert flaws <= lie.flaws
        assert flaws, "each sweep logs its result"
        await is_reported(app, flaws)

        lie.end(app.sandbox.control)
        await discover_installations(app.context)
        await app.live_through_an_interval()
        last = await app.live_through_an_interval()  # within two intervals, by itself
        assert (last.flaw, last.runners) == ("", RUNNERS)
        assert set(await app.states()) == AS_BEFORE
        account = app.account()
        assert account["wrongful_removals"] == account["wrongful_replacements"] == []
        assert await app.replacements() == []


async def test_pages_that_slip_lose_no_runner_and_still_show_who_is_lost(story):
    async with story(runners=RUNNERS) as app:
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        (lost,) = app.sandbox.control.lose("acme", count=1)
        for _ in range(3):
            app.sandbox.control.slip_pages("acme", after_page=1, vanish=1, appear=1, times=2)
            await app.live_through_an_interval()
        account = app.account()
        assert account["wrongful_removals"] == account["wrongful_replacements"] == []
        assert lost in await app.replacements()


async def test_a_token_that_is_not_known_everywhere_yet_loses_no_runner(story):
    async with story(runners=RUNNERS) as app:
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        app.sandbox.control.doubt_new_tokens("acme")
        for doubted in (0, 2, 4, 6):
            await app.context.github._token_cache.forget(app.installation)
            await sweep_installation(app.context, app.installation)
            await app.pass_(doubted)
            await confirm_installation(app.context, app.installation)
            assert set(await app.states()) == AS_BEFORE
        await app.live_through_an_interval()
        assert (await app.live_through_an_interval()).flaw == ""
        assert await app.replacements() == []


async def test_a_registration_that_vanishes_and_returns_is_kept(story):
    async with story(runners=RUNNERS) as app:
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        app.sandbox.control.lose("acme", count=20, seconds=70)
        await app.pass_(60)
        account = await sweep_installation(app.context, app.installation)
        assert account.suspects == 20
        await app.pass_(30)
        await confirm_installation(app.context, app.installation)
        assert set(await app.states()) == AS_BEFORE
        assert await app.replacements() == []


async def test_a_runner_deleted_seconds_ago_that_is_still_there_is_not_replaced_twice(story):
    async with story(runners=RUNNERS) as app:
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await app.live_through_an_interval()
        app.sandbox.control.linger("acme", lag=40)
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        assert await app.replacements() == [lost]


async def test_an_answer_that_never_comes_is_no_evidence(story, monkeypatch):
    import httpx

    from ghapp.github import transport

    monkeypatch.setattr(transport, "TIMEOUT", httpx.Timeout(0.3))
    async with story(runners=RUNNERS) as app:
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        app.sandbox.control.fault("acme", hang=60.0)
        assert (await sweep_installation(app.context, app.installation)).flaw == "GitHubUnavailable"
        assert set(await app.states()) == AS_BEFORE
        app.sandbox.control.no_faults()
        assert (await app.live_through_an_interval()).flaw == ""


async def test_a_removed_installation_is_not_swept_any_more_and_loses_no_runner(story):
    async with story(runners=RUNNERS) as app:
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        app.sandbox.control.uninstall("acme")
        account = await app.live_through_an_interval()
        assert account.flaw in ("InstallationGone", "Unauthorized", "PermissionMissing")
        await discover_installations(app.context)
        assert await sweep_installation(app.context, app.installation) is None
        assert await app.context.schedule.next(app.installation) is None
        assert await app.replacements() == []


async def test_an_organization_that_installs_it_again_is_swept_again_and_loses_no_runner(story):
    async with story(runners=RUNNERS) as app:
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        app.sandbox.control.uninstall("acme")
        for _ in range(3):
            await sweep_installation(app.context, app.installation)
            await app.pass_(60)
        await discover_installations(app.context)
        (app.installation,) = app.sandbox.control.install("acme")
        await discover_installations(app.context)
        assert await app.context.schedule.next(app.installation) is not None
        await app.live_through_an_interval()
        assert (await app.live_through_an_interval()).flaw == ""
        assert (await app.states())[State.HEALTHY] == RUNNERS
        account = app.account()
        assert account["wrongful_removals"] == account["wrongful_replacements"] == []
        assert await app.replacements() == []


@pytest.mark.parametrize("patience", ["", "replace_offline_after_seconds = 300"], ids=["", "offline is replaced"])
async def test_a_runner_shown_idle_and_offline_while_its_job_runs_is_kept(story, patience):
    async with story(runners=8, ephemeral=False, pool=patience) as app:
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        runner_id, job_id = await at_work(app)
        app.sandbox.control.misreport("acme", ids=[runner_id], busy=False, status="offline")
        for _ in range(16):  # for longer than a job's lease
            await app.live_through_an_interval()
        app.sandbox.control.no_faults()
        assert runner_id in app.sandbox.world.orgs["acme"].fleet.roster.registered
        assert await app.replacements() == []
        app.sandbox.control.finish("acme", job_id=job_id)
        await app.live_through_an_interval()
        assert set(await app.states()) == AS_BEFORE
