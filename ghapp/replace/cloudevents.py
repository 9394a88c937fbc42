"""CloudEvents 1.0 to a pool's controller: structured JSON, signed by Standard Webhooks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import httpx
from standardwebhooks import Webhook

from ghapp.errors import ReplacerUnavailableError
from ghapp.tls import trusted

TIMEOUT_SECONDS = 10.0
"""For a whole request, however slowly the controller answers."""


def open_client() -> httpx.AsyncClient:
    """A client for any number of controllers: it opens as many connections as requests are sent at once."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    return httpx.AsyncClient(timeout=TIMEOUT_SECONDS, verify=trusted(), limits=limits)


async def post(client: httpx.AsyncClient, url: str, secret: str, event_id: str, event: bytes, now: float) -> None:
    """Post one event; the same `event_id` each time, so that the receiver can tell a repetition.

    Args:
        client: of `open_client`.
        url: of the controller.
        secret: Standard Webhooks', `whsec_…`.
        event_id: becomes `webhook-id`.
        event: the CloudEvent as JSON.
        now: epoch seconds, for the signature.

    Raises:
        ReplacerUnavailableError: anything but a 2xx.
    """
    at = datetime.fromtimestamp(now, UTC)
    headers = {
        "content-type": "application/cloudevents+json",
        "webhook-id": event_id,
        "webhook-timestamp": str(int(now)),
        "webhook-signature": Webhook(secret).sign(event_id, at, event.decode()),
    }
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            answer = await client.post(url, content=event, headers=headers)
    except (httpx.HTTPError, TimeoutError) as error:
        raise ReplacerUnavailableError(f"the controller at {url} did not answer ({type(error).__name__})") from None
    if not answer.is_success:
        raise ReplacerUnavailableError(f"the controller at {url} answered {answer.status_code}")
