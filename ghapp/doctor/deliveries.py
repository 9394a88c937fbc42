"""Deliveries: where GitHub sends them, whether they arrive, and what became of them here."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from ghapp.doctor.finding import Finding, ok, warning, wrong
from ghapp.github.app import Delivered, HookConfig
from ghapp.report.documents import timestamp
from ghapp.store.inbox import MOST_SCANNED

GROUP = "deliveries"

WITHOUT_THEM = (
    "until they come, a short-lived runner whose whole job falls between two sweeps looks lost, and is replaced once "
    "too often"
)
NOWHERE = ("", "example.com")
"""Where the hook of an App leads that was made on a machine which GitHub cannot reach."""


def of_inbox(lag: int, dead: int, *, has_come: bool) -> list[Finding]:
    """What was delivered and has no effect yet, what never will, and whether anything ever was."""
    found = [ok(GROUP, "inbox", f"{lag} wait")]
    if lag > MOST_SCANNED:
        fix = "see that a worker drains them; `job failed` in its log says why not. What waits so long may come twice"
        found = [warning(GROUP, "inbox", f"{lag} wait", fix)]
    if dead:
        fix = "see why with `ghapp deliveries dead`; replay them with `ghapp deliveries replay --all`"
        found.append(warning(GROUP, "given up", f"{dead} had no effect", fix))
    if not has_come and not lag:
        fix = f"check where the App's webhook leads; {WITHOUT_THEM}"
        found.append(warning(GROUP, "seen", "none has ever come here", fix))
    return found


def of_hook(hook: HookConfig, public_url: str | None, page: str) -> list[Finding]:
    """Where deliveries go, and whether they are signed; `page` is that of the App's settings."""
    ours = f"{public_url}/webhook" if public_url else "the address of /webhook, as GitHub reaches it"
    found = []
    if (urlsplit(hook.url).hostname or "") in NOWHERE:
        fix = f"at {page} make the webhook active, set its URL to {ours}, and its secret to GHAPP_WEBHOOK_SECRET"
        found.append(warning(GROUP, "webhook", "GitHub delivers nothing: the webhook leads nowhere", fix))
    elif public_url is not None and hook.url.rstrip("/") != ours:
        fix = f"set its URL to {ours} at {page}, or mend GHAPP_PUBLIC_URL"
        found.append(wrong(GROUP, "webhook", f"it leads to {hook.url}", fix))
    else:
        found.append(ok(GROUP, "webhook", hook.url))
    if not hook.is_signed:
        fix = f"set a webhook secret at {page}, and the same as GHAPP_WEBHOOK_SECRET"
        found.append(wrong(GROUP, "secret", "deliveries are not signed, and are refused", fix))
    return found


def of_arrivals(latest: Sequence[Delivered], page: str) -> list[Finding]:
    """Whether they arrive: the latest attempts, newest first; what failed first and came later has come."""
    attempts: dict[str, list[Delivered]] = {}
    for each in latest:
        attempts.setdefault(each.guid, []).append(each)
    lost = [tries[0] for tries in attempts.values() if not any(each.arrived for each in tries)]
    if not latest:
        fix = f"check the webhook above; {WITHOUT_THEM}"
        return [warning(GROUP, "arrivals", "GitHub has delivered nothing in three days", fix)]
    if not lost:
        return [ok(GROUP, "arrivals", f"the last {len(attempts)} arrived")]
    last = lost[0]
    said = f"{len(lost)} of the last {len(attempts)} failed: {last.status} {last.said} at {timestamp(last.at)}"
    fix = f"see what was answered at {page}/advanced; what failed is asked for again by itself"
    found = wrong if len(lost) == len(attempts) else warning
    return [found(GROUP, "arrivals", said, fix)]
