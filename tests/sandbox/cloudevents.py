"""CloudEvents as a sender signs them by Standard Webhooks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
from standardwebhooks import Webhook

from ghapp.sandbox import SandboxServer


def send(
    sandbox: SandboxServer,
    data: dict[str, Any],
    *,
    webhook_id: str,
    kind: str = "ghapp.runner.replace.v1",
    secret: str = "",
    age: float = 0,
) -> httpx.Response:
    event = {"specversion": "1.0", "id": webhook_id, "source": "/orgs/acme", "type": kind, "data": data}
    body = msgspec.json.encode(event)
    at = datetime.now(UTC) - timedelta(seconds=age)
    headers = {
        "content-type": "application/cloudevents+json",
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret or sandbox.controller_secret).sign(webhook_id, at, body.decode()),
    }
    return httpx.post(sandbox.controller_url, content=body, headers=headers)
