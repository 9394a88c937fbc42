"""Sends notifications to Slack, Teams, e-mail, PagerDuty and many others by Apprise, the extra `ghapp[notify]`.

Apprise is imported when it is first needed: most installations do without. Addresses contain secrets; nothing here
shows more of them than the scheme.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from typing import Any

from ghapp.errors import ConfigurationError, NotificationError

TEXT = "text"
"""As Apprise names the format."""

TIMEOUT_SECONDS = 20.0
"""Of one attempt. Apprise itself waits four seconds for a connection and four for an answer, per request."""


class Notifier:
    """Sends to the configured receivers.

    Raises:
        ConfigurationError: Apprise is not installed, or an address is not valid for it.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._receivers: dict[str, Any] = {}
        self._schemes: dict[str, str] = {}
        for number, address in enumerate(addresses, 1):
            receiver, scheme = digest(address), address.partition("://")[0]
            self._receivers[receiver] = _parsed(address, f"GHAPP_NOTIFY_URLS: address {number} ({scheme}://…)")
            self._schemes[receiver] = scheme

    @property
    def receivers(self) -> Sequence[str]:
        """The receivers, by the digests of their addresses, in the order of the configuration."""
        return tuple(self._receivers)

    def name(self, receiver: str) -> str:
        """Returns what may be shown of a receiver's address: its scheme."""
        return f"{self._schemes[receiver]}://…"

    async def send(self, receiver: str, title: str, body: str, severity: str) -> None:
        """Sends one notification to one receiver.

        Raises:
            NotificationError: the receiver is not configured, refused the notification, or gave no answer in time.
        """
        sender = self._receivers.get(receiver)
        if sender is None:
            raise NotificationError("the receiver is no longer configured")
        try:
            sending = asyncio.to_thread(
                sender.notify, body=body, title=title, notify_type=severity, body_format=_declared_format(sender)
            )
            accepted = await asyncio.wait_for(sending, TIMEOUT_SECONDS)
        except TimeoutError:
            raise NotificationError(f"{self.name(receiver)} gave no answer in {TIMEOUT_SECONDS:g} s") from None
        except Exception as error:  # noqa: BLE001 - a hundred plug-ins raise whatever their libraries do
            raise NotificationError(f"{self.name(receiver)} failed: {type(error).__name__}") from None
        if not accepted:
            raise NotificationError(f"{self.name(receiver)} refused the notification, or did not answer")


def digest(address: str) -> str:
    """Identifies an address without disclosing it."""
    return hashlib.sha256(address.encode()).hexdigest()[:16]


def _declared_format(sender: Any) -> str | None:
    """Returns `text` if the receiver takes plain text, as messages are; else None: they are text in any markup, too.

    Apprise would escape them for others, and some of these show the backslashes.
    """
    resolve = getattr(sender, "resolve_format", None)  # from Apprise 2 on
    return TEXT if resolve is not None and resolve(TEXT) == TEXT else None


def _parsed(address: str, where: str) -> Any:
    try:
        from apprise import Apprise
    except ImportError:
        raise ConfigurationError("GHAPP_NOTIFY_URLS: needs Apprise; install ghapp[notify]") from None
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it logs addresses
    found = Apprise.instantiate(address, suppress_exceptions=True)
    if found is None:
        raise ConfigurationError(f"{where} is not valid; Apprise's documentation lists the forms of addresses")
    return found
