"""Checks deliveries: where GitHub sends them, whether they arrive, and whether they are processed."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from ghapp.deliveries.store import MOST_SCANNED, MOST_WAITING
from ghapp.doctor.finding import Finding, ok, warning, wrong
from ghapp.github.app import Delivered, HookConfig
from ghapp.runners.delivery_lag import HOLD_SECONDS, MARGIN_SECONDS, DeliveryGap, GapCause, in_words
from ghapp.wording import duration, time_of

GROUP = "deliveries"

WITHOUT_DELIVERIES = (
    "without deliveries, a short-lived runner whose whole job falls between two sweeps looks lost, and is replaced "
    "once too often"
)
WEB_STARTS_SECONDS = 30.0
"""`web` may take deliveries so long after the workers start; those before failed."""

PLACEHOLDER_HOSTS = ("", "example.com")
"""Webhook hosts of an App that was created on a machine which GitHub cannot reach."""


def of_inbox(lag: int, dead: int, *, has_come: bool) -> list[Finding]:
    """Judges the inbox: deliveries not yet processed (`lag`), given up (`dead`), and whether any ever came."""
    found = [ok(GROUP, "inbox", f"{lag} waiting")]
    if lag > MOST_SCANNED:
        fix = "check that a worker drains it; `job failed` in its log says why. Deliveries that wait so long may repeat"
        found = [warning(GROUP, "inbox", f"{lag} waiting", fix)]
    if lag >= MOST_WAITING:
        text = f"{lag} waiting, the maximum: further deliveries are answered 503, and requested again later"
        found = [wrong(GROUP, "inbox", text, fix)]
    if dead:
        fix = "list them with `ghapp deliveries dead`; replay them with `ghapp deliveries replay --all`"
        found.append(warning(GROUP, "given up", f"{dead} failed and were set aside", fix))
    if not has_come and not lag:
        fix = f"check the URL of the App's webhook; {WITHOUT_DELIVERIES}"
        found.append(warning(GROUP, "seen", "no delivery has ever arrived", fix))
    return found


FIXES = {
    GapCause.LATE: "see githubstatus.com; nothing is to be done here",
    GapCause.BACKLOG: "check the workers; `job failed` in a worker's log says why the inbox is not drained",
    GapCause.FAILED: "check that GitHub reaches the webhook; failed deliveries are requested again automatically",
    GapCause.SILENT: "check the App's webhook and its event `Workflow job`, and see githubstatus.com",
    GapCause.UNREADABLE: "see githubstatus.com, and check the App's rate limit; the log is read again each minute",
}


def of_gaps(
    org: str, gaps: Sequence[DeliveryGap], waiting: int, without: int, now: float, started_at: float | None = None
) -> list[Finding]:
    """Judges whether an organization's deliveries are complete.

    Args:
        org: its name.
        gaps: from `completeness`.
        waiting: suspects whose confirmation is deferred until deliveries have come.
        without: losses that were confirmed after an hour without them.
        now: epoch seconds.
        started_at: when the workers started; None: not a moment ago, or unknown.
    """
    if gaps and started_at is not None and all(_failed_before_start(gap, started_at) for gap in gaps):
        text = f"{in_words(gaps)}: they failed before `ghapp` ran, and are requested again"
        return [ok(GROUP, "complete", text, org)]
    if not gaps:
        return [ok(GROUP, "complete", "none is known to be missing or late", org)]
    since = min(gap.since for gap in gaps)
    begun = f"since {time_of(since)}" if 0 < since <= now else "since an unknown time"
    text = f"behind {begun}: {in_words(gaps)}; absent runners that wait for them: {waiting}"
    if without:
        text += f"; confirmed as lost after {duration(HOLD_SECONDS)} without them: {without}"
    return [warning(GROUP, "complete", text, FIXES[gaps[0].cause], org)]


def _failed_before_start(gap: DeliveryGap, started_at: float) -> bool:
    """True if all deliveries of a gap failed while nothing was there to take them."""
    if gap.cause is not GapCause.FAILED or gap.until is None:
        return False
    return gap.until - MARGIN_SECONDS <= started_at + WEB_STARTS_SECONDS


def of_hook(hook: HookConfig, public_url: str | None, page: str) -> list[Finding]:
    """Checks the webhook's URL and that deliveries are signed; `page` is the App's settings page."""
    ours = f"{public_url}/webhook" if public_url else "the address of /webhook, as GitHub reaches it"
    found = []
    if (urlsplit(hook.url).hostname or "") in PLACEHOLDER_HOSTS:
        fix = f"at {page} make the webhook active, set its URL to {ours}, and its secret to GHAPP_WEBHOOK_SECRET"
        found.append(warning(GROUP, "webhook", "GitHub sends no deliveries: the webhook has no usable URL", fix))
    elif public_url is not None and hook.url.rstrip("/") != ours:
        fix = f"set its URL to {ours} at {page}, or fix GHAPP_PUBLIC_URL"
        found.append(wrong(GROUP, "webhook", f"its URL is {hook.url}", fix))
    else:
        found.append(ok(GROUP, "webhook", hook.url))
    if not hook.is_signed:
        fix = f"set a webhook secret at {page}, and the same as GHAPP_WEBHOOK_SECRET"
        found.append(wrong(GROUP, "secret", "deliveries are not signed, and are rejected", fix))
    return found


def of_arrivals(latest: Sequence[Delivered], page: str, started_at: float | None = None) -> list[Finding]:
    """Checks the latest delivery attempts, newest first; a delivery whose retry arrived counts as arrived.

    Args:
        latest: the attempts.
        page: the App's settings page.
        started_at: when the workers started; None: not a moment ago, or unknown.
    """
    attempts: dict[str, list[Delivered]] = {}
    for each in latest:
        attempts.setdefault(each.guid, []).append(each)
    lost = [tries[0] for tries in attempts.values() if not any(each.arrived for each in tries)]
    if not latest:
        fix = f"check the webhook above; {WITHOUT_DELIVERIES}"
        return [warning(GROUP, "arrivals", "GitHub has delivered nothing in three days", fix)]
    if not lost:
        return [ok(GROUP, "arrivals", f"the last {len(attempts)} arrived")]
    if started_at is not None and all(each.at <= started_at + WEB_STARTS_SECONDS for each in lost):
        text = f"{len(lost)} of the last {len(attempts)} failed before `ghapp` ran, and are requested again"
        return [ok(GROUP, "arrivals", text)]
    last = lost[0]
    text = f"{len(lost)} of the last {len(attempts)} failed: {last.status} {last.text} at {time_of(last.at)}"
    fix = f"see the responses at {page}/advanced; failed deliveries are requested again automatically"
    finding = wrong if len(lost) == len(attempts) else warning
    return [finding(GROUP, "arrivals", text, fix)]
