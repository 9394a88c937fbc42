"""A webhook delivery: what is sent, how it is signed, and what became of it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlencode

from ghapp.sandbox.apps import App


@dataclass(frozen=True, slots=True)
class SentDelivery:
    """One attempt to deliver one event; the last fields are known once it was made.

    Attributes:
        guid: the same in all attempts.
        org_id: of the organization that it is about.
        at: epoch seconds of the attempt.
        duration: seconds it took.
        status: `OK`, or what went wrong in words.
        status_code: of the answer; 502 when there was none, 504 when it came too late.
    """

    id: int
    guid: str
    event: str
    action: str | None
    org_id: int | None
    installation_id: int | None
    repository_id: int | None
    payload: bytes
    redelivery: bool = False
    url: str = ""
    at: float = 0.0
    duration: float = 0.0
    status: str = ""
    status_code: int = 0
    request_headers: dict[str, str] | None = None
    response_headers: dict[str, str] | None = None
    response_body: str | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the receiver took it."""
        return HTTPStatus.OK <= self.status_code < HTTPStatus.MULTIPLE_CHOICES


def signature(secret: str, payload: bytes) -> str:
    """The value of `X-Hub-Signature-256`."""
    return "sha256=" + hmac.new(secret.encode(), payload, hashlib.sha256).hexdigest()


def body_of(app: App, delivery: SentDelivery) -> bytes:
    """The payload as the App's hook wants it: JSON, or a form with a field `payload`."""
    return urlencode({"payload": delivery.payload}).encode() if app.hook.content_type == "form" else delivery.payload


def headers_of(app: App, delivery: SentDelivery, body: bytes) -> Iterator[tuple[str, str]]:
    """What a delivery is sent with; signed over the raw body."""
    yield "Accept", "*/*"
    form = app.hook.content_type == "form"
    yield "Content-Type", "application/x-www-form-urlencoded" if form else "application/json"
    yield "User-Agent", "GitHub-Hookshot/sandbox"
    yield "X-GitHub-Delivery", delivery.guid
    yield "X-GitHub-Event", delivery.event
    yield "X-GitHub-Hook-ID", str(app.id)
    yield "X-GitHub-Hook-Installation-Target-ID", str(app.id)
    yield "X-GitHub-Hook-Installation-Target-Type", "integration"
    if app.hook.secret:
        yield "X-Hub-Signature-256", signature(app.hook.secret, body)
