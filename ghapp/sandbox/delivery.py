"""A webhook delivery: its content, its signature and its result."""

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
    """One attempt to deliver one event; the last fields are set after the attempt.

    Attributes:
        guid: the same in all attempts.
        org_id: the organization of the event.
        at: epoch seconds of the attempt.
        duration: seconds it took.
        status: `OK`, or the error in words.
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
        """True if the receiver accepted it."""
        return HTTPStatus.OK <= self.status_code < HTTPStatus.MULTIPLE_CHOICES


def signature(secret: str, payload: bytes) -> str:
    """Returns the value of `X-Hub-Signature-256`."""
    return "sha256=" + hmac.new(secret.encode(), payload, hashlib.sha256).hexdigest()


def body_of(app: App, delivery: SentDelivery) -> bytes:
    """Returns the payload in the hook's content type: JSON, or a form with a field `payload`."""
    return urlencode({"payload": delivery.payload}).encode() if app.hook.content_type == "form" else delivery.payload


def headers_of(app: App, delivery: SentDelivery, body: bytes) -> Iterator[tuple[str, str]]:
    """Yields the headers of a delivery; the raw body is signed."""
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
