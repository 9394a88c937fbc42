"""An installation and the scopes of its repositories have one fuse over all pools."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.notifier import Notifier
from ghapp.remediation.fuse import FuseLimits, FuseReason, Position
from ghapp.runners.verdict import State, judge
from ghapp.sandbox.config import LEAST_PRIVILEGE, PoolConfig
from jobs.installations.scopes import find_scopes_of
from jobs.notifications import notify
from jobs.remediation.plan_remediation import plan_remediation
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation
from tests.sandbox.receivers import Receiver

NAMES = [f"small-{number}" for number in range(12)]
FIRST_BATCH = 3
PERMITTED = LEAST_PRIVILEGE | {"administration": "write"}
CONFIGURED = '[[scopes]]\nrepositories = "acme/small-*"\n' + "".join(
    f"""
[[pools]]
org = "acme/{name}"
name = "own"
labels = ["own"]
replacer = "cloudevents"
url = "CONTROLLER_URL"
secret_env = "CONTROLLER_SECRET"
"""
    for name in NAMES
)
FEW = NAMES[:4]
OTHERS = [PoolConfig(name=f"other-{number}", size=4) for number in range(3)]
POOL = (PoolConfig(name="own", size=2, ephemeral=False),)


class Family:
    """The scopes of a story, that live at the same time."""

    def __init__(self, app, scopes):
        self.app, self.scopes = app, scopes

    async def live(self, intervals=1):
        """A sweep of each scope, the confirmations half a minute later, and whatever they let through."""
        for _ in range(intervals):
            await self.app.pass_(60)
            for each in self.scopes:
                await sweep_installation(self.app.context, each.id)
            await self.work_off()
            await self.app.pass_(30)
            for each in self.scopes:
                await confirm_installation(self.app.context, each.id)
            await self.work_off()

    async def work_off(self):
        before = self.app.installation
        for each in self.scopes:
            self.app.installation = each.id
            await self.app.work_off()
        self.app.installation = before

    def lose(self, *names, count=2):
        for name in names:
            self.app.sandbox.control.lose(f"acme/{name}", count=count)

    async def granted(self):
        """Runners that ghapp removed or asked for, or is about to, of all scopes."""
        return [(org, each.id) for org, each in await self.runners() if each.granted_at or each.last_replaced_at]

    async def removed(self):
        return [(org, each.id) for org, each in await self.runners() if each.removed_at]

    async def runners(self):
        """All records, with the address of their scope."""
        known = {each.org: await self.app.context.runners.all(each.id) for each in self.scopes}
        return [(org, each) for org, records in known.items() for each in records.values()]

    async def fuses(self):
        return {each.org: (await self.app.context.fuses.all(each.id)).get(ALL_POOLS) for each in self.scopes}

    async def positions(self):
        return {each.position if each else Position.CLOSED for each in (await self.fuses()).values()}

    async def events_of(self, scope, kind):
        before, self.app.installation = self.app.installation, scope.id
        events = await self.app.sent_events(kind)
        self.app.installation = before
        return events

    async def states(self, scope):
        context, now = self.app.context, self.app.clock()
        survey, limits = await context.runners.survey(scope.id), self.app.settings.of(scope.org).evidence
        return [judge(each, survey, now, limits).state for each in (await context.runners.all(scope.id)).values()]


@pytest.fixture
def family(story):
    @asynccontextmanager
    async def open_family(names=NAMES, mode="act", more="", **changes):
        pools = "".join(
            f'[[pools]]\norg = "acme"\nname = "{each.name}"\nlabels = ["{each.name}"]\nreplacer = "cloudevents"\n'
            'url = "CONTROLLER_URL"\nsecret_env = "CONTROLLER_SECRET"\n'
            for each in changes.get("others", ())
        )
        dry_run = '[remediation]\nmode = "dry-run"\n' if mode == "dry-run" else ""
        async with story(
            config=CONFIGURED + pools + dry_run + more,
            permissions=changes.pop("permissions", PERMITTED),
            runners=changes.pop("runners", 5),
            ephemeral=False,
            repository_pools=dict.fromkeys(names, POOL),
            **changes,
        ) as app:
            await app.pass_(15)
            scopes = await find_scopes_of(app.context, app.installation)
            assert len(scopes) == len(names)
            org = await app.context.installations.one(app.installation)
            found = Family(app, [*scopes, org])
            await found.live(2)
            yield found

    return open_family


async def test_a_true_mass_loss_of_many_small_repositories_heals_in_doubling_batches(family):
    async with family() as it:
        it.lose(*NAMES)
        counts = []
        while not counts or (counts[-1] < 24 and len(counts) < 10):
            await it.live()
            counts.append(len(await it.granted()))
            assert await it.positions() <= {Position.PROVING, Position.CLOSED}
        steps = [FIRST_BATCH, *(each for each in dict.fromkeys(counts) if each > FIRST_BATCH)]
        assert (steps[-1], len(steps) <= 4) == (24, True)
        assert all(later <= 3 * earlier for earlier, later in pairwise(steps)), (
            "each batch is twice as many as came at most"
        )
        await it.live(2)
        assert await it.positions() == {Position.CLOSED}
        assert {each.reason for each in (await it.fuses()).values()} == {FuseReason.HEALED}
        assert it.app.account()["wrongful_removals"] == it.app.account()["wrongful_replacements"] == []


async def test_a_false_mass_loss_of_many_small_repositories_costs_one_first_batch_in_all_and_says_so_on_each(family):
    async with family() as it:
        it.app.sandbox.control.unlist(share=1.0, everywhere=True)
        await it.live(7)
        assert len(await it.granted()) == FIRST_BATCH
        for scope in it.scopes:
            view = await it.app.context.org_view(scope)
            whole = view.fuses[ALL_POOLS]
            assert (whole.position, whole.reason) == (Position.STOPPED, FuseReason.BATCH_NEVER_ONLINE)
            assert len(await it.events_of(scope, "fuse.stopped")) == 1
        it.app.sandbox.control.no_faults()
        await it.live(2)
        assert len(await it.granted()) == FIRST_BATCH


async def test_a_false_loss_of_repositories_beside_a_large_organization_that_slow_sweeps_show_bit_by_bit_is_stopped(
    family,
):
    async with family(runners=100) as it:
        ids = [each.id for scope in it.scopes[:-1] for each in (await it.app.context.runners.all(scope.id)).values()]
        it.app.sandbox.control.unlist(ids=ids, everywhere=True)
        for scope in it.scopes[:-1]:
            await it.app.pass_(60)
            for each in (scope, it.scopes[-1]):
                await sweep_installation(it.app.context, each.id)
            await it.work_off()
            await it.app.pass_(30)
            await confirm_installation(it.app.context, scope.id)
            await it.work_off()
        assert len(await it.granted()) == 2 + FIRST_BATCH, "two before the second repository showed the mass loss"
        assert await it.positions() <= {Position.PROVING, Position.STOPPED}


async def test_one_lost_runner_of_one_repository_is_replaced_at_once(family):
    async with family(FEW) as it:
        it.lose(FEW[0], count=1)
        await it.live()
        assert [org for org, _ in await it.granted()] == [f"acme/{FEW[0]}"]
        assert set((await it.fuses()).values()) == {None}


async def test_a_mass_loss_of_repositories_holds_the_organization_and_a_resume_there_restarts_all(family):
    async with family(FEW) as it:
        it.app.sandbox.control.barren_controller(barren=True)
        it.lose(*FEW)
        await it.live(7)
        assert await it.positions() == {Position.STOPPED}
        before = await it.granted()
        assert len(before) == FIRST_BATCH
        it.app.sandbox.control.lose("acme", count=1)
        await it.live(2)
        assert await it.granted() == before
        context, scope = it.app.context, it.scopes[1]
        assert not await context.fuses.resume(scope, None, "eve", it.app.clock(), FuseLimits()), "not its own fuse"
        assert await it.positions() == {Position.STOPPED}
        organization = await context.installations.one(it.app.installation)
        await context.fuses.resume(organization, None, "ada", it.app.clock(), FuseLimits())
        assert await it.positions() == {Position.PROVING}
        assert {each.by for each in (await it.fuses()).values()} == {"ada"}
        await it.live(7)
        assert len(await it.granted()) == 2 * FIRST_BATCH
        assert await it.positions() == {Position.STOPPED}


async def test_the_organization_s_mass_loss_holds_its_repositories(family):
    async with family(FEW, runners=8, others=OTHERS) as it:
        it.app.sandbox.control.barren_controller(barren=True)
        for pool in OTHERS:
            it.app.sandbox.control.lose("acme", pool=pool.name, count=2)
        await it.live(7)
        assert await it.positions() == {Position.STOPPED}
        before = await it.granted()
        assert {org for org, _ in before} == {"acme"}
        with Receiver(status=200) as receiver:
            await notify(it.app.context, Notifier([receiver.url.replace("http://", "json://")]))
            titles = [each.payload["title"] for each in receiver.wait(1)]
        assert titles == ["ghapp: acme: the fuse of all pools together stopped: replacing runners did not help"]
        it.lose(FEW[0], count=1)
        await it.live(2)
        assert await it.granted() == before
        ((_, lost),) = (each.items() for each in [Counter(await it.states(it.scopes[0]))] if each[State.INVALIDATED])
        assert lost


async def test_scopes_that_are_planned_at_once_grant_one_first_batch(family, monkeypatch):
    async with family() as it:
        it.lose(*NAMES)
        with monkeypatch.context() as patched:
            patched.setattr("jobs.runners.confirm.plan_remediation", nothing)
            await it.live()
        for _ in range(2):
            await it.app.pass_(15)
            await asyncio.gather(*(plan_remediation(it.app.context, each) for each in it.scopes))
            assert len(await it.granted()) == FIRST_BATCH


async def nothing(*_):
    return None


async def test_in_dry_run_the_scopes_show_one_first_batch_and_take_nothing(family):
    async with family(FEW, mode="dry-run") as it:
        it.lose(*FEW)
        await it.live(3)
        assert await it.granted() == []
        shown = [each for scope in it.scopes for each in (await it.app.context.runners.all(scope.id)).values()]
        assert sum(each.would_remediate_at is not None for each in shown) == FIRST_BATCH


async def test_a_scope_in_dry_run_neither_counts_nor_turns_the_fuse_of_those_that_act(family):
    dry = "".join(f'[orgs."acme/{name}".remediation]\nmode = "dry-run"\n' for name in FEW[1:])
    async with family(FEW, more=dry) as it:
        it.lose(*FEW)
        await it.live(2)
        assert {org for org, _ in await it.granted()} == {f"acme/{FEW[0]}"}
        assert set((await it.fuses()).values()) == {None}


async def test_repositories_whose_runners_may_not_be_removed_do_not_hold_the_organization(family):
    async with family(FEW, permissions=LEAST_PRIVILEGE | {"administration": "read"}) as it:
        it.lose(*FEW)
        await it.live()
        it.app.sandbox.control.lose("acme", count=1)
        await it.live()
        assert [org for org, _ in await it.removed()] == ["acme"]
        assert set((await it.fuses()).values()) == {None}


async def test_nothing_of_other_scopes_is_read_while_nothing_is_to_be_replaced(family, monkeypatch):
    async with family(FEW) as it:
        monkeypatch.setattr("jobs.remediation.family._load", refused)
        await it.live()
        it.app.sandbox.control.take_offline("acme/small-0", count=1)
        await it.live(2)
        for each in it.scopes:
            await plan_remediation(it.app.context, each)


async def test_an_installation_without_repositories_asks_for_no_others(story, monkeypatch):
    async with story(runners=12) as app:
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        app.sandbox.control.lose("acme", count=8)
        monkeypatch.setattr(type(app.context.installations), "all", refused)
        monkeypatch.setattr("jobs.remediation.family._load", refused)
        await app.live_through_an_interval()
        assert len(await app.replacements()) == FIRST_BATCH


async def test_an_installation_none_of_whose_repositories_has_runners_decides_alone(story, monkeypatch):
    async with story(config='[[scopes]]\nrepositories = "acme/*"\n', permissions=PERMITTED, runners=12) as app:
        assert await find_scopes_of(app.context, app.installation) == []
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        app.sandbox.control.lose("acme", count=8)
        monkeypatch.setattr("jobs.remediation.family._load", refused)
        for _ in range(6):
            await app.live_through_an_interval()
        assert len(await app.replacements()) == 8


async def refused(*_):
    raise AssertionError
