"""Reap the pods that are nobody's: look, judge, ask GitHub about the few that remain, judge again, and act.

Whatever cannot be read skips the tick: nothing is reaped by half a look. The guards, by their numbers, are in the
docstring of `ghapp.health.leaks.leak.leaks`.
"""

from __future__ import annotations

from dataclasses import replace

from ghapp.errors import ClusterError, ConfigurationError
from ghapp.health.cluster.clusterside import namespaces_of
from ghapp.health.cluster.pod import Pod
from ghapp.health.installation import Installation
from ghapp.health.leaks.leak import Guard, Memory, Reaping, leaks
from ghapp.log import logger
from ghapp.store.fuses import WHOLE_ORG
from ghapp.store.leaks import Leaks, Tick
from jobs.house import House, furnished, open_house
from jobs.leaks.ask import ask_for_runners, learn_of_jobs
from jobs.leaks.look import Seen, look_at_all, look_with
from jobs.leaks.orphans import REAPED, SKIPPED, Reaper

log = logger(__name__)

SKIPS = {
    Guard.CLAIMS_READ_FIRST: "the clock went back while pods and claims were read",
    Guard.READ_STALE: "reading pods and claims took too long",
    Guard.READ_EMPTY: "there are no stamped pods, or no claims, where there were some a tick before",
}
"""Why a look judges nothing, for people."""


async def reap(installation_id: int) -> None:
    """The job: one tick, on behalf of the clock."""
    async with open_house(furnished()) as house:
        await reap_installation(house, installation_id)


async def reap_installation(house: House, installation_id: int) -> Tick | None:
    """One tick; None when there is nothing to look at, it is switched off, or somebody else is at it just now."""
    async with house.claims.hold("reap", installation_id) as mine:
        installation = await house.installations.one(installation_id)
        if not mine or installation is None or installation.suspended:
            return None
        limits = house.settings.of(installation.org).leaks
        if limits.mode == "off" or not namespaces_of(house.settings.pools_of(installation.org)):
            return None
        if WHOLE_ORG in await house.fuses.pauses(installation_id):
            limits = replace(limits, mode="dry-run")
        store = Leaks(house.redis)
        before = await store.last(installation_id)
        try:
            tick = await _tick(Reaper(house, installation, await house.cluster(), limits, store), before)
        except (ClusterError, ConfigurationError) as error:
            tick = before._replace(trouble=str(error) or type(error).__name__, reaped=0, deferred=0, told=0)
            await house.counters.add("ghapp_orphans_reaped_total", org=installation.org, outcome=SKIPPED)
        return await _account(house, installation, store, before, tick)


async def _tick(reaper: Reaper, before: Tick) -> Tick:
    """Finish what was begun, look, judge, and reap.

    Raises:
        ClusterError: some read failed; nothing was judged.
    """
    house, installation = reaper.house, reaper.installation
    if reaper.limits.mode == "act":
        await reaper.finish_begun()
    seen = await look_at_all(house, installation, reaper.cluster, before.memory)
    if await learn_of_jobs(house, installation, seen, before.memory):
        seen = await look_with(house, installation, seen.listed, seen.look.pods_at, before.memory)
    reaping, seen, unasked = await _judge(reaper, seen, before.memory)
    tick = Tick(
        reaping.memory,
        at=house.clock(),
        stamped=len(seen.look.pods),
        deferred=len(reaping.deferred) + len(unasked),
        told=len(reaping.told),
        nobodys=seen.nobodys,
        strangers=sum(guard is Guard.NO_RUNNER for _, guard in reaping.kept),
    )
    if reaping.skipped is not None:
        await reaper.count(SKIPPED)
        return tick._replace(trouble=SKIPS.get(reaping.skipped, reaping.skipped.value))
    await reaper.store.remember(installation.id, tick)  # clocks go on, whatever becomes of this process
    await reaper.reap_all(reaping, seen)
    return tick._replace(reaped=reaper.outcomes[REAPED], trouble=reaper.trouble)


async def _judge(reaper: Reaper, seen: Seen, memory: Memory) -> tuple[Reaping, Seen, tuple[Pod, ...]]:
    """Twice: first without GitHub's word, to know for whom it is needed; then with it.

    Returns:
        What is to be done, what was seen with GitHub's word for it, and who looks like a leak and was not asked about
        this time.
    """
    blind = seen.look._replace(runners={name: word._replace(busy=None) for name, word in seen.look.runners.items()})
    first = leaks(blind, reaper.house.clock(), reaper.limits, memory)
    waiting = [pod for pod, guard in first.kept if guard is Guard.GITHUB_UNKNOWN]
    if first.skipped is not None or not waiting:
        return first, seen._replace(look=blind), ()
    enough = reaper.limits.per_tick - len(first.reap) - len(first.told)
    names = first.memory.names
    asked = await ask_for_runners(reaper.house, reaper.installation, seen, waiting, names, enough)
    look = seen.look._replace(runners=asked.runners)
    return leaks(look, reaper.house.clock(), reaper.limits, memory), seen._replace(look=look), asked.unasked


async def _account(house: House, installation: Installation, store: Leaks, before: Tick, tick: Tick) -> Tick:
    """Record how it went, and say once what is in the way."""
    now, org = house.clock(), installation.org
    since = (before.trouble_since if before.trouble else None) or now
    tick = tick._replace(at=now, trouble_since=since if tick.trouble else None)
    await store.remember(installation.id, tick)
    if tick.trouble and tick.trouble != before.trouble:
        log.warning("the reaper is held up", installation=installation.id, org=org, why=tick.trouble)
    if before.trouble and not tick.trouble:
        log.info("the reaper goes on", installation=installation.id, org=org)
    if tick.deferred or tick.told:
        log.warning("leaks wait", installation=installation.id, org=org, deferred=tick.deferred, only_told=tick.told)
    return tick
