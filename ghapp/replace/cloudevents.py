"""Sends CloudEvents 1.0 to a pool's controller: structured JSON, signed as in Standard Webhooks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import httpx
from standardwebhooks import Webhook

from ghapp.errors import ReplacerUnavailableError
from ghapp.tls import trusted

TIMEOUT_SECONDS = 10.0
"""For a whole request, including a slow answer."""


def open_client() -> httpx.AsyncClient:
    """Returns a client for any number of controllers, without a limit of connections."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    return httpx.AsyncClient(timeout=TIMEOUT_SECONDS, verify=trusted(), limits=limits)


async def post(client: httpx.AsyncClient, url: str, secret: str, event_id: str, event: bytes, now: float) -> None:
    """Posts one event; each attempt has the same `event_id`, so that the receiver can detect repetitions.

    Args:
        client: from `open_client`.
        url: of the controller.
        secret: of Standard Webhooks, `whsec_…`.
        event_id: sent as `webhook-id`.
        event: the CloudEvent as JSON.
        now: epoch seconds, for the signature.

    Raises:
        ReplacerUnavailableError: no answer, or a status other than 2xx.
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
