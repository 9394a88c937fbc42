"""The simulated runner controller that replaces runners on request.

`POST /_controller/events` accepts CloudEvents 1.0 (structured JSON) signed by Standard Webhooks, and does what
`ghapp.runner.replace.v1` requests. An event id that was accepted once has no second effect.
"""

from __future__ import annotations

import base64
import secrets
from http import HTTPStatus
from typing import Any

import msgspec
from standardwebhooks import Webhook, WebhookVerificationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ghapp.sandbox.world import World

PATH = "/_controller/events"
REPLACE = "ghapp.runner.replace.v1"


class ReplaceData(msgspec.Struct):
    """The fields of a replace event's `data` that the controller needs."""

    org: str
    runner_id: int
    name: str
    pool: str


class CloudEvent(msgspec.Struct):
    """A CloudEvent in structured JSON; the attributes that 1.0 requires, and the data."""

    specversion: str
    id: str
    source: str
    type: str
    data: msgspec.Raw
    subject: str = ""


class Controller:
    """Accepts and records events, and acts on the world.

    Attributes:
        secret: `whsec_…`, shared with the sender.
        events: every accepted event, oldest first, as received.
        barren: accepts events and starts no runners.
        status: the answer to every event until `status_until` (epoch seconds), without any effect.
    """

    def __init__(self, world: World) -> None:
        random_secret = "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()
        self.secret = world.config.controller_secret or random_secret
        self.events: list[dict[str, Any]] = []
        self.barren = False
        self.status = HTTPStatus.ACCEPTED.value
        self.status_until = 0.0
        self._world = world
        self._accepted: set[str] = set()
        self._webhook = Webhook(self.secret)

    async def __call__(self, request: Request) -> Response:
        """Answers one POST: 202 accepted, 400 invalid event, 401 wrong signature, or the configured status."""
        body = await request.body()
        if self._world.now() < self.status_until:
            return self._reject(self.status, "configured to fail")
        try:
            self._webhook.verify(body, dict(request.headers))
        except WebhookVerificationError as error:
            return self._reject(HTTPStatus.UNAUTHORIZED, str(error))
        try:
            event = msgspec.json.decode(body, type=CloudEvent)
            self._accept(request.headers["webhook-id"], event, body)
        except msgspec.DecodeError as error:
            return self._reject(HTTPStatus.BAD_REQUEST, str(error))
        return JSONResponse({"accepted": event.id}, HTTPStatus.ACCEPTED)

    def _accept(self, webhook_id: str, event: CloudEvent, body: bytes) -> None:
        if webhook_id in self._accepted:
            self._world.ledger.repeated += 1
            return
        if event.type == REPLACE:
            asked = msgspec.json.decode(event.data, type=ReplaceData)
            org = self._world.place_called(asked.org)
            if org is not None:
                self._world.replace_runner(org, asked.runner_id, asked.pool, barren=self.barren)
        self._accepted.add(webhook_id)
        self.events.append(msgspec.json.decode(body))

    def _reject(self, status: int, why: str) -> Response:
        self._world.ledger.rejected += 1
        return JSONResponse({"error": why}, status)
