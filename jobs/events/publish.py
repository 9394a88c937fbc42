"""Publishes CloudEvents, once each: to the org's stream and to the URL of the pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ghapp.deaths.death import Death
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import rule_named
from ghapp.leaks.orphan import Orphan
from ghapp.log import logger
from ghapp.notifications.event_ids import death_id, derived_id
from ghapp.remediation.decision import JudgedRunner
from ghapp.remediation.fuse import Fuse, FuseCounts, FuseReason, Position, changed_at
from ghapp.remediation.steps import REPLACE, ReplacementPath, replacement_path
from ghapp.report.documents import death_document, orphan_document, timestamp
from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Evidence
from ghapp.runners.transitions import published_state, transition
from jobs.context import JobContext

log = logger(__name__)

CHANGE_PUBLISHED_SECONDS = 24 * 3600.0
"""How long a fuse change is still published, if the process that changed it crashed; less than event ids are kept."""


async def publish_replacement_request(
    context: JobContext, installation: Installation, view: OrgView, evidence: Evidence, now: float
) -> bool:
    """Appends the replace event under the id of its loss; it is delivered to the pool's URL, if events replace there.

    The runner's request is open, so that no URL has accepted it: it is added to the outbox even if it was published
    before, when its pool had another replacer. Returns False if nothing was added.
    """
    event_id = str(evidence.event_id)
    data = {**view.document(evidence, now), "replace": True}  # GitHub was asked a moment ago, also while sweeps fail
    return await _append(context, installation, event_id, REPLACE, evidence.name, view.pool(evidence), data, now)


async def publish_runners(
    context: JobContext, installation: Installation, view: OrgView, judged: Iterable[JudgedRunner], now: float
) -> None:
    """Publishes each runner that became offline or recovered since its last event."""
    for evidence, judged_state in judged:
        state = published_state(evidence, judged_state)
        if state == evidence.state:
            continue
        what = transition(evidence, judged_state)
        if what is not None:
            verdict = view.verdict(evidence, now)
            event_id = derived_id(f"{installation.id}/{evidence.id}/{what}/{verdict.since}")
            data = view.document(evidence, now, verdict)
            kind = f"ghapp.runner.{what}.v1"
            await _append(context, installation, event_id, kind, evidence.name, view.pool(evidence), data, now)

        def fold(known: Evidence | None, state: str = state) -> Evidence | None:
            return None if known is None else known._replace(state=state, state_since=now)

        await context.runners.revise(installation.id, {evidence.id: fold})


async def publish_death(context: JobContext, installation: Installation, death: Death, now: float) -> bool:
    """Publishes a death; returns False if it was published before."""
    event_id, data = death_id(installation, death), death_document(death)
    return await _append(
        context, installation, event_id, "ghapp.runner.died.v1", death.runner_name, death.pool, data, now
    )


async def publish_orphan(context: JobContext, installation: Installation, found: Orphan, now: float) -> bool:
    """Publishes that a leaked pod was reaped; returns False if it was published before."""
    event_id = derived_id(f"{installation.id}/{found.namespace}/{found.pod}/{found.uid}/orphaned")
    data = orphan_document(installation.org, found)
    kind = "ghapp.pod.orphaned.v1"
    return await _append(context, installation, event_id, kind, found.runner_name, found.pool, data, now)


async def publish_fuse_changes(
    context: JobContext,
    installation: Installation,
    fuses: Mapping[str, Fuse],
    counts: Mapping[str, FuseCounts],
    now: float,
) -> None:
    """Publishes each fuse's last change: the process that recorded it may have crashed before it published it."""
    for pool, fuse in fuses.items():
        if may_be_unpublished(fuse, now):
            await publish_fuse(context, installation, pool, fuse, counts.get(pool, FuseCounts()), now)


def may_be_unpublished(fuse: Fuse, now: float) -> bool:
    """True if the fuse changed within a day: a crash may have prevented that it was published."""
    at = changed_at(fuse)
    return at is not None and now - at <= CHANGE_PUBLISHED_SECONDS and fuse.reason is not FuseReason.BATCH_ONLINE


async def publish_fuse(
    context: JobContext, installation: Installation, pool: str, fuse: Fuse, counted: FuseCounts, now: float
) -> None:
    """Publishes and logs a fuse change: tripped, stopped, or reset. A further batch is only logged.

    A change that was published before is neither published nor logged again.
    """
    is_new = fuse.reason is FuseReason.BATCH_ONLINE or await _publish_change(
        context, installation, pool, fuse, counted, now
    )
    if not is_new:
        return
    log.warning(
        "fuse state changed",
        installation=installation.id,
        org=installation.org,
        pool=pool,
        fuse=fuse.position.value,
        reason=fuse.reason.value,
        lost=counted.lost,
        expected=counted.expected,
        batch=fuse.batch,
        by=fuse.by,
    )


async def _publish_change(
    context: JobContext, installation: Installation, pool: str, fuse: Fuse, counted: FuseCounts, now: float
) -> bool:
    """Publishes the change; returns False if it was published before."""
    turned = {Position.CLOSED: "reset", Position.PROVING: "tripped", Position.STOPPED: "stopped"}[fuse.position]
    data = {
        "org": installation.org,
        "pool": pool,
        "fuse": fuse.position.value,
        "lost": counted.lost,
        "expected": counted.expected,
        "batch": fuse.batch,
        "replaced": counted.accepted,
        "waiting": counted.waiting,
        "since": None if fuse.since is None else timestamp(fuse.since),
        "reason": fuse.reason.value,
    }
    event_id = derived_id(f"{installation.id}/{pool}/{turned}/{changed_at(fuse)}")
    return await _append(context, installation, event_id, f"ghapp.fuse.{turned}.v1", pool, pool, data, now)


async def _append(
    context: JobContext,
    installation: Installation,
    event_id: str,
    kind: str,
    subject: str,
    pool: str,
    data: Mapping[str, Any],
    now: float,
) -> bool:
    """Appends the event; returns False if it was appended before."""
    event = {
        "specversion": "1.0",
        "id": event_id,
        "source": f"/orgs/{installation.org}",
        "type": kind,
        "subject": subject,
        "time": timestamp(now),
        "datacontenttype": "application/json",
        "data": data,
    }
    rule, is_request = rule_named(pool, context.settings.pools_of(installation.org)), kind == REPLACE
    has_url = rule is not None and rule.url is not None and rule.secret_env is not None
    is_sent = has_url and (not is_request or replacement_path(rule) is ReplacementPath.EVENT)
    return await context.events.append(installation.id, event, pool if is_sent else None, until_accepted=is_request)
