"""Nothing lost: ask GitHub again for every delivery that failed while we were away."""

from __future__ import annotations

from ghapp.github.hook import deliver_again, failed_attempts
from ghapp.health.redelivery import KEPT_SECONDS, backlog
from ghapp.log import logger
from ghapp.store.claims import OUTLIVING_SECONDS
from jobs.house import House, furnished, open_house

log = logger(__name__)

MOST_AT_ONCE = 200
OVERLAP_SECONDS = 60.0
"""GitHub's clock and its record may be this far behind ours."""


async def redeliver() -> None:
    """The job: look back to when all was well."""
    async with open_house(furnished()) as house:
        await redeliver_failed(house)


async def redeliver_failed(house: House) -> int:
    """Ask again for what failed since the last time all was well, three days at most; how many were asked for."""
    async with house.claims.hold("redeliver", "app", OUTLIVING_SECONDS) as mine:
        if not mine:
            return 0
        now = house.clock()
        since = max(await house.inbox.well_until() or 0.0, now - KEPT_SECONDS) - OVERLAP_SECONDS
        attempts = await failed_attempts(house.github, since)
        kept = await house.inbox.kept({attempt.guid for attempt in attempts}, now)
        ask, missing_since = backlog(attempts, kept, now)
        asked = [await deliver_again(house.github, attempt_id) for attempt_id in ask[:MOST_AT_ONCE]]
        await house.inbox.is_well_until(now if missing_since is None else missing_since)
    if ask:
        log.info("asked for deliveries again", asked=sum(asked), forgotten=asked.count(False), of=len(ask))
        await house.counters.add("ghapp_redeliveries_total", sum(asked))
    return sum(asked)
