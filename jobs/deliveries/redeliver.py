"""Nothing lost: ask GitHub again for every delivery that failed while we were away."""

from __future__ import annotations

from ghapp.github.delivery_log import deliver_again, failed_attempts
from ghapp.health.redelivery import KEPT_SECONDS, to_redeliver
from ghapp.log import logger
from ghapp.store.inbox import TOP, RedeliveryCursor
from ghapp.store.locks import OUTLIVING_SECONDS
from jobs.context import JobContext, configured, open_context

log = logger(__name__)

MOST_AT_ONCE = 100
"""Requests of five points each, of the 900 that GitHub grants a minute."""

OVERLAP_SECONDS = 600.0
"""By how much clocks may differ, GitHub's and those of all workers, and by how much GitHub's record may lag."""


async def redeliver() -> None:
    """The job: look back to when all was well."""
    async with open_context(configured()) as context:
        await redeliver_failed(context)


async def redeliver_failed(context: JobContext) -> int:
    """Ask again for what failed since the last time all was well, three days at most; how many were asked for.

    GitHub's record is read from its newest end. Of very many failures one look reads a part; the next goes on before
    it, and only the look that reaches the oldest can tell since when all is well.
    """
    async with context.locks.acquire("redeliver", "app", OUTLIVING_SECONDS) as mine:
        if not mine:
            return 0
        now, complete_until = context.clock(), await context.inbox.complete_until() or 0.0
        if complete_until > now:  # a clock that ran ahead said so
            complete_until = 0.0
        since = max(complete_until - OVERLAP_SECONDS, now - KEPT_SECONDS)
        place = await context.inbox.take_place()  # once: should GitHub not know it any more, the next look starts anew
        attempts, before = await failed_attempts(context.github, since, place.cursor)
        kept = await context.inbox.kept({attempt.guid for attempt in attempts}, now)
        ask, missing_since = to_redeliver(attempts, kept, now)
        asked = [await deliver_again(context.github, attempt_id) for attempt_id in ask[:MOST_AT_ONCE]]
        if before and attempts:
            await context.inbox.go_on_at(RedeliveryCursor(before, attempts[-1].at))
        else:
            all_came_until = now if place == TOP else place.at
            await context.inbox.mark_complete_until(all_came_until if missing_since is None else missing_since)
    if ask:
        log.info("asked for deliveries again", asked=sum(asked), forgotten=asked.count(False), of=len(ask))
        await context.counters.add("ghapp_redeliveries_total", sum(asked))
    return sum(asked)
