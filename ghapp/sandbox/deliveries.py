"""Webhook deliveries: signed, sent in the background, and kept in the log that `/app/hook/deliveries` shows.

As on GitHub, a delivery that failed stays failed until somebody asks for another attempt, which keeps its GUID.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus

import httpx

from ghapp.sandbox.apps import App

#: Deliveries remembered for each App; GitHub keeps three days of them.
KEPT = 5_000
KEPT_SECONDS = 3 * 86_400
#: A receiver that has not answered by then has failed.
ANSWER_SECONDS = 10.0
SENDERS = 16
RESPONSE_KEPT_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt to deliver one event; the last fields are known once it was made.

    Attributes:
        at: epoch seconds of the attempt.
        duration: seconds it took.
        status: `OK`, or what went wrong in words.
        status_code: of the answer; 502 when there was none, 504 when it came too late.
    """

    id: int
    guid: str
    event: str
    action: str | None
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


class Deliveries:
    """The deliveries of all Apps.

    Attributes:
        sent: attempts that succeeded, by event.
        failed: attempts that did not, by event.
        waiting: deliveries not yet attempted.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.sent: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.waiting = 0
        self._clock = clock
        self._ids = itertools.count(120_000_000_001)
        self._logs: dict[int, deque[Delivery]] = {}
        self._outbox: asyncio.Queue[tuple[App, Delivery]] = asyncio.Queue()

    def send(
        self,
        app: App,
        event: str,
        payload: bytes,
        *,
        action: str | None = None,
        installation_id: int | None = None,
        repository_id: int | None = None,
    ) -> str | None:
        """Queues a delivery and answers its GUID; None when the App has no webhook URL."""
        if not app.hook.url:
            return None
        guid = str(uuid.uuid4())
        self._queue(app, Delivery(next(self._ids), guid, event, action, installation_id, repository_id, payload))
        return guid

    def log(self, app: App) -> list[Delivery]:
        """What was attempted in the last three days, newest first by id: attempts end in any order."""
        oldest = self._clock() - KEPT_SECONDS
        kept = [delivery for delivery in self._logs.get(app.id, ()) if delivery.at >= oldest]
        return sorted(kept, key=lambda delivery: delivery.id, reverse=True)

    def redeliver(self, app: App, delivery_id: int) -> bool:
        """Attempts a logged delivery once more, under its GUID; False when the log has no such delivery."""
        logged = next((d for d in self.log(app) if d.id == delivery_id), None)
        if logged is None:
            return False
        self._queue(app, replace(logged, id=next(self._ids), redelivery=True))
        return True

    def reset_counts(self) -> None:
        """Counts from zero again; the logs stay."""
        self.sent.clear()
        self.failed.clear()

    async def run(self) -> None:
        """Sends what is queued, until it is cancelled."""
        async with httpx.AsyncClient(timeout=ANSWER_SECONDS, trust_env=False) as client, asyncio.TaskGroup() as group:
            for _ in range(SENDERS):
                group.create_task(self._empty_outbox(client))

    def _queue(self, app: App, delivery: Delivery) -> None:
        self.waiting += 1
        self._outbox.put_nowait((app, delivery))

    async def _empty_outbox(self, client: httpx.AsyncClient) -> None:
        while True:
            app, delivery = await self._outbox.get()
            attempted = await self._attempt(client, app, delivery)
            self._logs.setdefault(app.id, deque(maxlen=KEPT)).append(attempted)
            (self.sent if attempted.succeeded else self.failed)[attempted.event] += 1
            self.waiting -= 1

    async def _attempt(self, client: httpx.AsyncClient, app: App, delivery: Delivery) -> Delivery:
        headers = dict(_headers(app, delivery))
        attempt = replace(delivery, url=app.hook.url, at=self._clock(), request_headers=headers)
        started = time.perf_counter()
        try:
            answer = await client.post(app.hook.url, content=delivery.payload, headers=headers)
        except httpx.TimeoutException:
            return replace(attempt, status="timed out", status_code=504, duration=ANSWER_SECONDS)
        except (httpx.HTTPError, httpx.InvalidURL):
            elapsed = time.perf_counter() - started
            return replace(attempt, status="failed to connect to host", status_code=502, duration=elapsed)
        return replace(
            attempt,
            status="OK" if answer.is_success else f"Invalid HTTP Response: {answer.status_code}",
            status_code=answer.status_code,
            duration=time.perf_counter() - started,
            response_headers=dict(answer.headers),
            response_body=answer.text[:RESPONSE_KEPT_BYTES],
        )


def signature(secret: str, payload: bytes) -> str:
    """The value of `X-Hub-Signature-256`."""
    return "sha256=" + hmac.new(secret.encode(), payload, hashlib.sha256).hexdigest()


def _headers(app: App, delivery: Delivery) -> Iterator[tuple[str, str]]:
    yield "Accept", "*/*"
    yield "Content-Type", "application/json"
    yield "User-Agent", "GitHub-Hookshot/sandbox"
    yield "X-GitHub-Delivery", delivery.guid
    yield "X-GitHub-Event", delivery.event
    yield "X-GitHub-Hook-ID", str(app.id)
    yield "X-GitHub-Hook-Installation-Target-ID", str(app.id)
    yield "X-GitHub-Hook-Installation-Target-Type", "integration"
    if app.hook.secret:
        yield "X-Hub-Signature-256", signature(app.hook.secret, delivery.payload)
