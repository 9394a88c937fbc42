"""Both replacers that delete objects in a cluster obey the common limits: fuse, limits per sweep, budget, pauses."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from ghapp.errors import BudgetSpentError, ClusterUnavailableError
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.fuse import Position
from ghapp.remediation.pause import Pause
from ghapp.store import keys
from jobs.remediation.remediate import remediate_runner
from tests.replace.cluster import FakeCluster
from tests.stories.conftest import Story
from tests.stories.remediation.test_remediate_cluster import config, standing

RUNNERS = 12
NO_FUSE = "[fuse]\nfloor = 1000\n"
BOTH = pytest.mark.parametrize("replacer", ["arc", "pods"])
FIRST = {"arc": "delete object ", "pods": "delete pod "}
"""The first step of each replacement."""


@dataclass
class Fleet:
    """A story whose runners are all in one cluster."""

    app: Story
    replacer: str
    cluster: FakeCluster

    def replaced(self):
        """The names of the replaced runners, in order."""
        first = FIRST[self.replacer]
        return [each.removeprefix(first) for each in self.cluster.done if each.startswith(first)]

    async def names(self, ids):
        known = await self.app.context.runners.some(self.app.installation, ids)
        return {known[each].name for each in ids}

    async def live(self, intervals):
        """The number of replaced runners at the end of each interval."""
        counts = []
        for _ in range(intervals):
            await self.app.live_through_an_interval()
            counts.append(len(self.replaced()))
        return counts


@asynccontextmanager
async def fleet(story, replacer, more=""):
    async with story(runners=RUNNERS, config=config(replacer, more), ephemeral=False) as app:
        for _ in range(2):
            await app.live_through_an_interval()
        names = [each.name for each in (await app.context.runners.all(app.installation)).values()]
        things = [thing for name in names for thing in standing(replacer, name, app.clock())]
        cluster = FakeCluster(*things, accounts=tuple(names), clock=app.clock)

        async def opened():
            return cluster

        app.context = replace(app.context, cluster=opened)
        yield Fleet(app, replacer, cluster)


@BOTH
async def test_a_mass_loss_replaces_the_first_batch_and_stops_if_no_successor_comes_online(story, replacer):
    async with fleet(story, replacer) as at:
        at.app.sandbox.control.lose("acme", count=RUNNERS - 2)
        assert await at.live(1) == [3], "`first_batch`"
        fuses = at.app.context.fuses
        assert (await fuses.all(at.app.installation))["in-cluster"].position is Position.PROVING
        assert (await at.live(8))[-1] == 3
        assert (await fuses.all(at.app.installation))["in-cluster"].position is Position.STOPPED


@BOTH
async def test_at_most_per_sweep_runners_are_replaced_in_one_sweep_and_the_others_in_later_ones(story, replacer):
    async with fleet(story, replacer, f"{NO_FUSE}[remediation]\nper_sweep = 2\n") as at:
        lost = at.app.sandbox.control.lose("acme", count=5)
        assert await at.live(1) == [2]
        await at.live(2)
        assert set(at.replaced()) == await at.names(lost)


@BOTH
@pytest.mark.parametrize("pool", ["in-cluster", ALL_POOLS], ids=["the pool", "the org"])
async def test_nothing_is_replaced_during_a_pause(story, replacer, pool):
    async with fleet(story, replacer) as at:
        await at.app.context.fuses.pause(at.app.installation, pool, Pause("ada", "maintenance", at.app.clock()))
        at.app.sandbox.control.lose("acme", count=2)
        assert await at.live(2) == [0, 0]
        await at.app.context.fuses.unpause(at.app.installation, pool)
        assert await at.live(1) == [2]


@BOTH
@pytest.mark.parametrize("mode", ["dry-run", "off"])
async def test_nothing_is_replaced_unless_the_mode_is_act(story, replacer, mode):
    async with fleet(story, replacer, f'[remediation]\nmode = "{mode}"\n') as at:
        at.app.sandbox.control.lose("acme", count=2)
        await at.live(3)
        assert at.cluster.done == []
        counted = await at.app.context.counters.all()
        result = counted.get('ghapp_remediations_total{org="acme",outcome="dry-run"}', 0)
        assert result == (2 if mode == "dry-run" else 0)


@BOTH
async def test_without_budget_for_the_last_check_nothing_is_replaced_until_the_reset(story, replacer):
    """Each replacement requires a final check at GitHub, for which no budget is left."""
    async with fleet(story, replacer) as at:
        app = at.app
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await app.pass_(60)
        app.context = replace(app.context, cluster=_no_cluster)
        await app.live_through_an_interval()
        assert (await app.context.runners.some(app.installation, [lost]))[lost].granted_at is not None

        async def opened():
            return at.cluster

        app.context = replace(app.context, cluster=opened)
        await app.pass_(600)
        await app.context.redis.delete(keys.budget(app.installation))
        spent = {"limit": "5000", "used": "4500", "reset": str(int(app.clock() + 1200))}
        text = {f"x-ratelimit-{name}": each for name, each in spent.items()}
        await app.context.budget.leave(app.installation, "", text)
        with pytest.raises(BudgetSpentError):
            await remediate_runner(app.context, app.installation, lost)
        assert at.cluster.done == []
        await app.pass_(1201)
        await at.live(1)
        assert set(at.replaced()) == await at.names([lost])


async def _no_cluster():
    raise ClusterUnavailableError("away")


@BOTH
async def test_the_evidence_has_the_deletion_and_the_deleted_object(story, replacer):
    async with fleet(story, replacer) as at:
        (lost,) = at.app.sandbox.control.lose("acme", count=1)
        await at.live(1)
        evidence = (await at.app.context.runners.some(at.app.installation, [lost]))[lost]
        uid = "object-1" if replacer == "arc" else "pod-1"
        assert evidence.deletion.uid == uid
        assert f"({uid}, version 7" in evidence.deletion.found
        assert evidence.granted_at <= evidence.deletion.found_at <= evidence.deletion.accepted_at
        assert evidence.replaced_at == evidence.deletion.accepted_at
