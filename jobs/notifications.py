"""Notifies people of conditions that open and close, by `[notify] events`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from rq.timeouts import BaseTimeoutException

from ghapp.errors import NotificationError, StoreUnavailableError
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.loading.views import load_fleet, load_gate_states, load_job_queue
from ghapp.log import logger, redact
from ghapp.notifications.conditions import (
    Change,
    Condition,
    Topic,
    blind_conditions,
    fuse_conditions,
    gate_conditions,
    moot_conditions,
    observe,
    undecided_gates,
    unserved_conditions,
    unserved_subject,
    version_conditions,
)
from ghapp.notifications.store import Notifications, PendingNotification
from ghapp.notifications.texts import headline_of, message, page_of_topic
from ghapp.notifier import Notifier
from ghapp.queue.jobs import JobName
from ghapp.remediation.fuse import Position
from ghapp.remediation.status import is_loss_open
from ghapp.report.fleet import by_pool
from ghapp.report.headline import Headline
from ghapp.report.headlines import headlines
from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Evidence
from ghapp.runners.next_attempt import next_attempt
from ghapp.versions.lifetime import VersionStatus
from ghapp.workflow_jobs.job import Job
from jobs.context import JobContext, configured, open_context
from jobs.periodic_task import PeriodicTask, enqueue_one

log = logger(__name__)

BACKOFF_SECONDS = (15.0, 60.0, 300.0, 900.0)
GIVEN_UP_SECONDS = 86_400.0
OBSERVED_AT_ONCE = 50
"""Installations; limits memory."""

AT_ONCE = 20
"""Notifications that one run sends; the next run follows within seconds."""

NOTIFY = PeriodicTask(
    "notify",
    15.0,
    enqueue_one(JobName.NOTIFICATIONS, "notifications"),
    is_wanted=lambda settings: bool(settings.notify_urls),
)
"""Observes conditions, if any receiver is configured."""


async def send_notifications() -> None:
    """The job: observes all installations and sends pending notifications."""
    async with open_context(configured()) as context:
        await notify(context, Notifier(context.settings.notify_urls))


async def notify(context: JobContext, notifier: Notifier) -> None:
    """Records and sends the notifications that are due; one process at a time.

    Each notification is recorded together with its condition, and sent afterwards: a crash between the two loses
    nothing, and a crash after sending repeats that notification once.
    """
    async with context.locks.acquire("notifications", "all") as acquired:
        if not acquired:
            return
        now = context.clock()
        async for several in context.installations.batches(OBSERVED_AT_ONCE):
            observed = (_observe(context, each, notifier, now) for each in several)
            outcomes = await asyncio.gather(*observed, return_exceptions=True)  # none continues without the lock
            for installation, outcome in zip(several, outcomes, strict=True):
                _report_failure(installation, outcome)
        await _send(context, notifier, now)


def _report_failure(installation: Installation, outcome: BaseException | None) -> None:
    """Logs why an installation was not observed; its error costs no other installation's messages.

    Raises:
        BaseException: the job was cancelled, or Redis is away for all.
    """
    if outcome is None:
        return
    if not isinstance(outcome, Exception) or isinstance(outcome, (StoreUnavailableError, BaseTimeoutException)):
        raise outcome
    why = f"{type(outcome).__name__}: {outcome}"
    log.error("notifications not observed", installation=installation.id, org=installation.org, why=redact(why))


async def _observe(context: JobContext, installation: Installation, notifier: Notifier, now: float) -> None:
    topics = {Topic(each) for each in context.settings.of(installation.org).notify.events}
    known = await context.notifications.notified(installation.id)
    if installation.suspended or not (topics or known):
        return
    view = await context.org_view(installation)
    if installation.parent:  # the fuse of all pools is its owner's, and one message says so
        view = replace(view, fuses={pool: fuse for pool, fuse in view.fuses.items() if pool != ALL_POOLS})
    involved = {pool for pool, fuse in view.fuses.items() if fuse.position is not Position.CLOSED}
    involved |= {each.subject for each in known.values() if each.topic is Topic.FUSE and each.level}
    has_versions = view.may_versions_end(now) or any(each.topic is Topic.VERSION for each in known.values())
    runners = list((await context.runners.all(installation.id)).values()) if involved or has_versions else []
    versions = view.versions(runners, now) if has_versions else []
    unserved = await _unserved(context, installation, now)
    gates = await load_gate_states(context, installation, context.settings, now)
    conditions = [
        *fuse_conditions(view.fuses, lost_by_pool(view, runners, now)),
        *await _blind(context, installation, view, now),
        *unserved_conditions(unserved or [], {each.name for each in context.settings.pools_of(installation.org)}),
        *gate_conditions(gates),
        *version_conditions([each for each in versions if each.is_news], now),
    ]
    unknown = [*([Topic.UNSERVED.value] if unserved is None else []), *undecided_gates(gates)]
    unknown += _unseen_versions(view, versions, runners, now)
    moot = moot_conditions(known, view.fuses, gates)
    records, changes = observe(known, conditions, now, unknown, topics, moot)
    links = page_of_topic(context.links(installation))
    found: list[Headline] = []
    if any(each.level for each in changes):
        fleet = await load_fleet(context, installation, context.settings, now)
        found = headlines(fleet, by_pool(fleet, now), now)
    pending = [
        PendingNotification(
            receiver,
            *message(
                installation.called,
                _dated(each, view),
                _replaced(view, runners, each),
                links[each.topic],
                headline_of(each, found),
            ),
            now,
            org=installation.org,
            topic=each.topic.value,
        )
        for each in changes
        for receiver in notifier.receivers
    ]
    if records:
        await context.notifications.record(installation.id, records, pending)


async def _blind(context: JobContext, installation: Installation, view: OrgView, now: float) -> list[Condition]:
    sweep_at, discovery_at = await context.schedule.next(installation.id), await context.schedule.next_discovery()
    attempt = next_attempt(installation, view.survey, sweep_at, discovery_at, now)
    return blind_conditions(view.survey, attempt.prevented_by, now)


async def _unserved(context: JobContext, installation: Installation, now: float) -> list[tuple[str, Job]] | None:
    """Returns the jobs that no online runner can take, with their subjects, oldest first; None without a fresh list."""
    patience = context.settings.of(installation.org).queue.explain_after_seconds
    jobs = await context.demand.all(installation.id)
    if not any(job.status == "queued" and now - job.queued_at >= patience for job in jobs):
        return []
    queue = await load_job_queue(context, installation, context.settings, now)
    if not queue.inputs.fresh:
        return None
    return [
        (unserved_subject(queue, job, reason), job)
        for job, reason in queue.unserved()
        if now - job.queued_at >= patience
    ]


def _unseen_versions(
    view: OrgView, versions: Iterable[VersionStatus], runners: Iterable[Evidence], now: float
) -> list[str]:
    """Returns the keys of versions that runners of the last day had and no online runner has at this moment.

    A pool of ephemeral runners is empty for a while, again and again. Without a fresh list, nothing is known at all.
    """
    swept_at = view.survey.swept_at
    if swept_at is None or now - swept_at > view.limits.stale_seconds:
        return [Topic.VERSION.value]
    in_use = {each.version for each in versions if each.is_in_use}
    return [f"{Topic.VERSION.value}:{version}" for version in {each.version for each in runners} - in_use if version]


def lost_by_pool(view: OrgView, runners: Iterable[Evidence], now: float) -> Mapping[str, int]:
    """Returns the number of lost runners whose successors are not online, by pool, and their sum for `*`."""
    lost = Counter[str]()
    for evidence in runners:
        verdict = view.verdict(evidence, now)
        if is_loss_open(evidence, verdict, now):
            lost.update((view.pool(evidence), ALL_POOLS))
    return lost


def _replaced(view: OrgView, runners: Iterable[Evidence], change: Change) -> int:
    """Returns how many runners were replaced since the fuse tripped; 0 for other changes."""
    if change.topic is not Topic.FUSE or change.level:
        return 0
    return sum(
        (each.replaced_at or 0.0) >= change.since and change.subject in (view.pool(each), ALL_POOLS) for each in runners
    )


def _dated(change: Change, view: OrgView) -> Change:
    """Returns the change of a closed fuse with the time and the reason of closing; other changes as they are."""
    fuse = view.fuses.get(change.subject)
    if change.topic is not Topic.FUSE or change.level or fuse is None:
        return change
    return change._replace(at=fuse.closed_at or change.at, detail=fuse.reason.value or change.detail)


async def _send(context: JobContext, notifier: Notifier, now: float) -> None:
    notifications = context.notifications
    due = {
        name: each
        for name, each in (await notifications.pending()).items()
        if not now < each.again_at <= now + BACKOFF_SECONDS[-1]
    }
    for name in [name for name, each in due.items() if not _is_wanted(context, each)]:
        await notifications.done(name)
        del due[name]
    await asyncio.gather(*(_send_one(notifications, notifier, name, due[name], now) for name in [*due][:AT_ONCE]))


def _is_wanted(context: JobContext, pending: PendingNotification) -> bool:
    """False if the topic was switched off since: a receiver that failed may have left many notifications."""
    return not pending.topic or pending.topic in context.settings.of(pending.org).notify.events


async def _send_one(
    notifications: Notifications, notifier: Notifier, name: str, pending: PendingNotification, now: float
) -> None:
    if pending.receiver not in notifier.receivers:
        await notifications.done(name)  # the receiver was removed from the configuration
        return
    receiver = notifier.name(pending.receiver)
    try:
        await notifier.send(pending.receiver, pending.title, pending.body, pending.severity)
    except NotificationError as error:
        tries = pending.tries + 1
        if now - pending.created_at > GIVEN_UP_SECONDS:
            log.warning("notification dropped", receiver=receiver, title=pending.title, tries=tries, why=str(error))
            await notifications.done(name)
            return
        if tries == 1:
            log.warning("notification not sent, retrying", receiver=receiver, title=pending.title, why=str(error))
        again_at = now + BACKOFF_SECONDS[min(tries, len(BACKOFF_SECONDS)) - 1]
        await notifications.put_off(name, pending._replace(tries=tries, again_at=again_at))
        return
    await notifications.done(name)
    log.info("notification sent", receiver=receiver, title=pending.title)
