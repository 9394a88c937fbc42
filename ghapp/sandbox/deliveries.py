"""Webhook deliveries: signed, sent in the background, and kept in the log that `/app/hook/deliveries` shows.

As on GitHub, a failed delivery stays failed until a redelivery is requested, which keeps its GUID.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace

import httpx

from ghapp.sandbox.apps import App
from ghapp.sandbox.delivery import SentDelivery, body_of, headers_of
from ghapp.sandbox.faults.faults import Faults
from ghapp.sandbox.faults.webhooks import Detour, Misattempt, Parcel

#: Deliveries kept for each App; GitHub keeps those of three days.
KEPT = 10_000
KEPT_SECONDS = 3 * 86_400
#: A receiver that has not answered by then has failed.
ANSWER_SECONDS = 10.0
SENDERS = 16
RESPONSE_KEPT_BYTES = 2_000


class Deliveries:
    """The deliveries of all Apps.

    Attributes:
        sent: attempts that succeeded, by event.
        failed: attempts that failed, by event.
        dropped: deliveries that a fault discarded without a log entry.
    """

    def __init__(self, clock: Callable[[], float], faults: Faults) -> None:
        self.sent: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.dropped = 0
        self._clock = clock
        self._faults = faults
        self._unsent = 0
        self._ids = itertools.count(120_000_000_001)
        self._logs: dict[int, deque[SentDelivery]] = {}
        self._outbox: asyncio.Queue[list[Parcel]] = asyncio.Queue()

    def send(
        self,
        app: App,
        event: str,
        payload: bytes,
        *,
        action: str | None = None,
        org_id: int | None = None,
        installation_id: int | None = None,
        repository_id: int | None = None,
    ) -> str | None:
        """Queues a delivery and returns its GUID; None when the App has no webhook URL."""
        if not app.hook.url:
            return None
        guid = str(uuid.uuid4())
        parcels: list[Parcel] = [
            (app, SentDelivery(0, guid, event, action, org_id, installation_id, repository_id, payload))
        ]
        for detour in self._faults.at_work(Detour, org_id, self._clock()):
            parcels = detour.take(parcels, self._clock())
        self.post(parcels)
        return guid

    def post(self, parcels: list[Parcel]) -> None:
        """Queues deliveries to be sent one after the other, each as its own attempt."""
        if parcels:
            self._unsent += len(parcels)
            self._outbox.put_nowait([(app, replace(delivery, id=next(self._ids))) for app, delivery in parcels])

    def count_dropped(self) -> None:
        """Counts a discarded delivery."""
        self.dropped += 1

    @property
    def unsent(self) -> int:
        """Returns how many deliveries are on their way."""
        return self._unsent

    @property
    def waiting(self) -> int:
        """Returns how many deliveries wait, also those that a fault holds back."""
        return self._unsent + sum(detour.kept() for detour in self._faults.all_of(Detour))

    def log(self, app: App) -> list[SentDelivery]:
        """Returns the attempts of the last three days, newest first by id: attempts end in any order."""
        oldest = self._clock() - KEPT_SECONDS
        kept = [delivery for delivery in self._logs.get(app.id, ()) if delivery.at >= oldest]
        return sorted(kept, key=lambda delivery: delivery.id, reverse=True)

    def undelivered(self) -> list[str]:
        """Returns the GUIDs in the log without a successful attempt, in the order of their first attempts."""
        succeeded: dict[str, bool] = {}
        for delivery in itertools.chain.from_iterable(self._logs.values()):
            succeeded[delivery.guid] = succeeded.get(delivery.guid, False) or delivery.succeeded
        return [guid for guid, good in succeeded.items() if not good]

    def redeliver(self, app: App, delivery_id: int) -> bool:
        """Repeats a logged delivery with its GUID; returns False when the log has no such delivery."""
        logged = next((d for d in self.log(app) if d.id == delivery_id), None)
        if logged is None:
            return False
        self.post([(app, replace(logged, redelivery=True))])
        return True

    def reset_counts(self) -> None:
        """Resets the counts; the logs stay."""
        self.sent.clear()
        self.failed.clear()
        self.dropped = 0

    async def run(self) -> None:
        """Sends queued deliveries until it is cancelled."""
        async with httpx.AsyncClient(timeout=ANSWER_SECONDS, trust_env=False) as client, asyncio.TaskGroup() as group:
            for _ in range(SENDERS):
                group.create_task(self._empty_outbox(client))

    async def _empty_outbox(self, client: httpx.AsyncClient) -> None:
        while True:
            for app, delivery in await self._outbox.get():
                attempted = await self._attempt(client, app, delivery)
                self._logs.setdefault(app.id, deque(maxlen=KEPT)).append(attempted)
                (self.sent if attempted.succeeded else self.failed)[attempted.event] += 1
                self._unsent -= 1

    async def _attempt(self, client: httpx.AsyncClient, app: App, delivery: SentDelivery) -> SentDelivery:
        """Sends one delivery; returns it with its result, which a fault may change."""
        faults = self._faults.at_work(Misattempt, delivery.org_id, self._clock())
        fault = next((fault for fault in faults if delivery in fault.affected), None)
        body = body_of(app, delivery)
        headers = dict(headers_of(app, delivery, body))
        attempt = replace(delivery, url=app.hook.url, at=self._clock(), request_headers=headers)
        if fault is None or fault.arrives:
            attempt = await _post(client, attempt, body)
        if fault is None:
            return attempt
        return replace(
            attempt, status=fault.status, status_code=fault.status_code, response_headers={}, response_body=""
        )


async def _post(client: httpx.AsyncClient, attempt: SentDelivery, body: bytes) -> SentDelivery:
    started = time.perf_counter()
    try:
        answer = await client.post(attempt.url, content=body, headers=attempt.request_headers)
    except httpx.TimeoutException:
        return replace(attempt, status="timed out", status_code=504, duration=ANSWER_SECONDS)
    except (
        httpx.HTTPError,
        httpx.InvalidURL,
        AttributeError,
    ):  # uvloop raises it when the connection was closed early
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
