"""Checks the receivers of notifications: their addresses, and whether notifications wait for them."""

from __future__ import annotations

from ghapp.doctor.finding import Finding, ok, probe, warning, wrong
from ghapp.errors import ConfigurationError
from ghapp.notifier import Notifier
from ghapp.settings import Settings
from ghapp.store.stores import open_stores

GROUP = "notifications"
FIX = "run `ghapp notify`, and correct GHAPP_NOTIFY_URLS"


async def check(settings: Settings, redis_url: str | None) -> list[Finding]:
    """Sends nothing. Returns no findings if no receiver is configured."""
    if not settings.notify_urls:
        return []
    try:
        notifier = Notifier(settings.notify_urls)
    except ConfigurationError as error:
        return [wrong(GROUP, "receivers", str(error), FIX)]
    found = [ok(GROUP, "receivers", ", ".join(notifier.name(each) for each in notifier.receivers))]
    if redis_url is not None:
        found += await probe(GROUP, "waiting", lambda: _waiting(redis_url, notifier), FIX)
    return found


async def _waiting(redis_url: str, notifier: Notifier) -> list[Finding]:
    async with open_stores(redis_url) as stores:
        pending = await stores.notifications.pending()
    failed = [each for each in pending.values() if each.tries and each.receiver in notifier.receivers]
    if not failed:
        return [ok(GROUP, "waiting", "no notification waits for a receiver that failed")]
    schemes = sorted({notifier.name(each.receiver) for each in failed})
    return [warning(GROUP, "waiting", f"{len(failed)} not sent yet, to {', '.join(schemes)}", FIX)]
