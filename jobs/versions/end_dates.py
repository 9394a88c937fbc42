"""Asks GitHub until when it gives jobs to the versions of the runner that an organization has.

A sweep enqueues the job when a version is due: once a day, `versions_to_ask` has the limits. The calls use the budget's
share for reports, which is deferred first. A call that fails leaves what is known; 404 is an answer, and nothing is
known then.

A runner whose container says that GitHub refuses its version (exit code 7, or a line of its log) is marked, so that it
is neither lost nor replaced, and the dates of that version are asked for again, once an hour: after a security release
older versions end at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import Death
from ghapp.errors import (
    BudgetSpentError,
    GitHubError,
    InstallationMissingError,
    InstallationSuspendedError,
    PermissionMissingError,
    RateLimitedError,
    UnauthorizedError,
)
from ghapp.github.runner_versions import read_end_dates
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.log import logger
from ghapp.queue import jobs
from ghapp.queue.jobs import enqueue_versions
from ghapp.report.org_view import is_listed
from ghapp.runners.evidence import Evidence
from ghapp.runners.outdated import WITHOUT_JOB_SECONDS, version_ended
from ghapp.versions.lifetime import (
    ASK_SECONDS,
    NOTHING_KNOWN,
    EndDates,
    is_doubtful,
    versions_to_ask,
    with_answer,
    with_failure,
)
from jobs.context import JobContext
from jobs.each_installation import each_installation

log = logger(__name__)

MOST_FAILURES = 3
"""Versions in a row for which GitHub gives no usable answer, before the others wait for the next hour."""

OF_ALL_CALLS = (
    BudgetSpentError,
    RateLimitedError,
    UnauthorizedError,
    PermissionMissingError,
    InstallationSuspendedError,
    InstallationMissingError,
)
"""Errors that the next version's call would have, too."""


async def read_versions(*installation_ids: int) -> None:
    """The job: all versions of these installations that are due."""
    await each_installation(jobs.JobName.VERSIONS, read_versions_of, installation_ids)


async def read_versions_of(context: JobContext, installation_id: int) -> int:
    """Asks for the versions that are due, one call each; returns how many GitHub answered."""
    async with context.locks.acquire("versions", installation_id, context.locks.outliving_seconds) as is_mine:
        installation = await context.installations.one(installation_id)
        if not is_mine or installation is None or installation.suspended:
            return 0
        runners = (await context.runners.all(installation_id)).values()
        known = await context.runner_versions.all(installation_id)
        due = versions_to_ask(Counter(each.version for each in runners if is_listed(each)), known, context.clock())
        found = await _ask(context, installation, due, known) if due else {}
        used = {each.version for each in runners}
        await context.runner_versions.put(installation_id, found, [each for each in known if each not in used])
    return sum(each.failed_at is None for each in found.values())


async def _ask(
    context: JobContext, installation: Installation, due: Iterable[str], known: Mapping[str, EndDates]
) -> dict[str, EndDates]:
    """Returns the new dates of the versions for which GitHub was asked."""
    found: dict[str, EndDates] = {}
    failures = 0
    for version in due:
        before = known.get(version, NOTHING_KNOWN)
        try:
            client = await context.installation_client(installation, Purpose.REPORT)
            answer = await read_end_dates(client, client.installation.api_path, version)
        except GitHubError as error:
            failures += 1
            found[version] = with_failure(before, context.clock())
            log.warning(
                "end of a version not read",
                installation=installation.id,
                org=installation.org,
                version=version,
                why=str(error),
            )
            if isinstance(error, OF_ALL_CALLS) or failures >= MOST_FAILURES:
                break
            continue
        failures = 0
        found[version] = with_answer(before, answer, context.clock())
        log.info(
            "end of a version read",
            installation=installation.id,
            org=installation.org,
            version=version,
            jobs_end_at=found[version].jobs_end_at,
            is_known=found[version].is_known,
        )
    return found


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
