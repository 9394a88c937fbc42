"""A person lets remediation go on: recorded under his name, told, and followed by a look."""

from __future__ import annotations

from collections.abc import Mapping

from ghapp.health.decision import Pools, by_pool
from ghapp.health.fuse import Fuse, FuseReason, Position, tally
from ghapp.health.installation import Installation
from ghapp.store.fuses import Resumption
from ghapp.work import ask_for_sweep
from jobs.house import House
from jobs.report import ask_for_report
from jobs.tell import tell_fuse


async def resume_installation(house: House, installation: Installation, by: str) -> Resumption:
    """End every pause of an org, and let its stopped fuses prove anew.

    What is lost is looked at once more before it is acted on: a sweep comes first.
    """
    now, policy = house.clock(), house.settings.of(installation.org)
    done = await house.fuses.resume(installation, None, by, now, policy.fuse)
    runners, survey = await house.runners.all(installation.id), await house.runners.survey(installation.id)
    rules = house.settings.pools_of(installation.org)
    pools = by_pool(runners.values(), survey, rules, now, policy.evidence)
    await tell_resumed(house, installation, pools, done.proving)
    ask_for_sweep(house.desk, installation.id)
    ask_for_report(house, installation)
    return done


async def tell_resumed(house: House, installation: Installation, pools: Pools, fuses: Mapping[str, Fuse]) -> None:
    """Tell of each fuse that a person resumed, as of that time: telling it again is the same event."""
    limits = house.settings.of(installation.org).fuse
    for pool, fuse in fuses.items():
        if fuse.position is Position.PROVING and fuse.reason is FuseReason.RESUMED and fuse.since is not None:
            counted = tally(pools.get(pool, ()), fuse, fuse.since, limits)
            await tell_fuse(house, installation, pool, fuse, counted, fuse.since)
