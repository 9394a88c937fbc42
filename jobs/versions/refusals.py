"""Runners whose containers say that GitHub refuses their version: exit code 7, or a line of their log.

That is known before GitHub's dates are read again: after a security release older versions end at once. The runner is
marked, so that it is neither lost nor replaced, and GitHub is asked for the dates of its version again, once an hour.
"""

from __future__ import annotations

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import Death
from ghapp.installations.installation import Installation
from ghapp.queue.jobs import enqueue_versions
from ghapp.runners.evidence import Evidence
from ghapp.runners.outdated import WITHOUT_JOB_SECONDS, version_ended
from ghapp.versions.lifetime import ASK_SECONDS, is_doubtful
from jobs.context import JobContext


async def record_refusal(context: JobContext, installation: Installation, death: Death) -> None:
    """Records what a death says about its runner's version; nothing for a death of another cause."""
    if death.cause is not Cause.VERSION_DEPRECATED or death.runner_id is None:
        return

    def fold(evidence: Evidence | None) -> Evidence | None:
        return None if evidence is None else version_ended(evidence, death.at - WITHOUT_JOB_SECONDS)

    revised = await context.runners.revise(installation.id, {death.runner_id: fold})
    evidence = revised.get(death.runner_id)
    version = None if evidence is None else evidence.version
    if version is None:
        return
    known, now = (await context.runner_versions.all(installation.id)).get(version), context.clock()
    if known is not None and is_doubtful(known, now):
        due = known._replace(asked_at=min(known.asked_at or now, now - ASK_SECONDS))
        await context.runner_versions.put(installation.id, {version: due})
        enqueue_versions(context.queue_redis, installation.id)
