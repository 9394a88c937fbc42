"""Whether deliveries are complete: a condition of each confirmation, and of each pod that the reaper deletes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from ghapp.installations.installation import Installation
from ghapp.installations.scope import ScopeKind
from ghapp.log import logger
from ghapp.runners.delivery_lag import (
    DeliveryGap,
    completeness,
    confirmation_deferred,
    expected_at,
    has_waited,
    in_words,
    may_be_explained,
)
from ghapp.runners.evidence import Evidence, Survey
from ghapp.runners.verdict import missing_since
from jobs.context import JobContext
from jobs.delivery_gaps.delivery_log import log_read_since

log = logger(__name__)

MEMORY_SECONDS = 10.0
"""How long the log need not be read again for a confirmation. GitHub ends an attempt after ten seconds."""


async def expect_deliveries(context: JobContext, installation: Installation, records: Collection[Evidence]) -> None:
    """Records since when a delivery must have come, according to a list that was just recorded.

    While a list has such work, what is known of deliveries does not expire.
    """
    if not any(each.busy and each.listed and each.running_job is None for each in records):
        return
    if installation.kind is ScopeKind.ENTERPRISE:
        return  # its jobs may be of organizations without the App
    facts = (await context.delivery_status.facts([installation.caller]))[installation.caller]
    at = expected_at(records, facts.arrivals, facts.expected_at, context.clock())
    if at is not None:
        await context.delivery_status.expect(installation.caller, at)


async def without_deferred(
    context: JobContext, installation: Installation, suspects: Mapping[int, Evidence], survey: Survey
) -> dict[int, Evidence]:
    """Returns the suspects that may be confirmed; records of the others that their confirmation is deferred.

    Args:
        context: the context of the job.
        installation: of these runners.
        suspects: with a first 404, by id.
        survey: of the last list.
    """
    now = context.clock()
    waiting = [each for each in suspects.values() if each.ephemeral is not False]
    if not waiting:
        return dict(suspects)
    first_404_at = max(each.missing_at or 0.0 for each in waiting)
    gaps = await delivery_gaps(context, installation, max(first_404_at, now - MEMORY_SECONDS))
    explained = [each for each in waiting if may_be_explained(each, gaps, survey)]
    deferred = {each.id for each in explained if not has_waited(each, survey, now)}
    if deferred:
        fold = partial(confirmation_deferred, at=now)
        await context.runners.revise(installation.id, dict.fromkeys(deferred, fold))
        why = in_words(gaps)
        log.info(
            "confirmation deferred", installation=installation.id, org=installation.org, runners=len(deferred), why=why
        )
    waited = [each for each in explained if each.id not in deferred]
    if waited:
        log.warning(
            "deliveries stay behind, confirmation continues",
            installation=installation.id,
            org=installation.org,
            runners=len(waited),
            absent_since=min(missing_since(each) for each in waited),
            why=in_words(gaps),
        )
    return {runner_id: each for runner_id, each in suspects.items() if runner_id not in deferred}


async def delivery_gaps(context: JobContext, installation: Installation, log_since: float) -> tuple[DeliveryGap, ...]:
    """Returns the gaps of the installation's deliveries, by GitHub's log as read at `log_since` or later.

    A repository's deliveries are its installation's. Those of an enterprise's jobs are of any installation.
    """
    delivery_log = await log_read_since(context, log_since)
    sources = [installation.caller]
    if installation.kind is ScopeKind.ENTERPRISE:
        known = await context.installations.all()
        sources = [each.id for each in known if each.kind is ScopeKind.ORGANIZATION]
    facts, now = await context.delivery_status.facts(sources), context.clock()
    return tuple(gap for each in sources for gap in completeness(facts[each]._replace(log=delivery_log), now))
