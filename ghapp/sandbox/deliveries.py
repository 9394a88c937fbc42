"""Webhook deliveries: signed, sent in the background, and kept in the log that `/app/hook/deliveries` shows.

As on GitHub, a failed delivery stays failed until a redelivery is requested, which keeps its GUID.

Of their faults, a `Detour` changes what is sent, and when; a `Misattempt` changes the result of an attempt. Deliveries
that a detour holds when it ends are sent then.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from random import Random
from urllib.parse import urlencode

import httpx

from ghapp.sandbox.apps import App
from ghapp.sandbox.faults import Fault, Faults

#: Deliveries kept for each App; GitHub keeps those of three days.
KEPT = 10_000
KEPT_SECONDS = 3 * 86_400
#: A receiver that has not answered by then has failed.
ANSWER_SECONDS = 10.0
SENDERS = 16
RESPONSE_KEPT_BYTES = 2_000


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


def _guid(at: float) -> str:
    """Returns a GUID as GitHub makes them: a UUID of version 1, with the time of the event."""
    ticks, random = int(at * 1e7) + 0x01B21DD213814000, uuid.uuid4().int
    time_low, time_mid, time_hi = ticks & 0xFFFFFFFF, ticks >> 32 & 0xFFFF, ticks >> 48 & 0x0FFF
    node = random >> 14 & 0xFFFFFFFFFFFF
    return str(uuid.UUID(fields=(time_low, time_mid, time_hi, random & 0x3F, random >> 6 & 0xFF, node), version=1))


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


Parcel = tuple[App, SentDelivery]
#: Sends these, one after the other.
Post = Callable[[list[Parcel]], None]


@dataclass(frozen=True, slots=True)
class Affected:
    """The deliveries that a fault affects: of these `events` (empty: any), a `share` from 0 to 1."""

    rng: Random
    events: Collection[str] = ()
    share: float = 1.0

    def __contains__(self, delivery: SentDelivery) -> bool:
        meant = not self.events or delivery.event in self.events
        return meant and (self.share >= 1 or self.rng.random() < self.share)


class Detour(Fault):
    """An effect on new deliveries before their attempt."""

    def take(self, parcels: list[Parcel], now: float) -> list[Parcel]:
        """Returns the deliveries to be sent at once, in order; the others are held or lost."""
        del now
        return parcels

    def kept(self) -> int:
        """Returns how many it holds."""
        return 0


@dataclass(slots=True)
class Dropped(Detour):
    """Deliveries that are never sent and never logged; `count` is called for each."""

    affected: Affected
    count: Callable[[], None]

    def take(self, parcels: list[Parcel], now: float) -> list[Parcel]:
        """Returns all others."""
        del now
        going = [parcel for parcel in parcels if parcel[1] not in self.affected]
        for _ in range(len(parcels) - len(going)):
            self.count()
        return going


@dataclass(frozen=True, slots=True)
class Repeated(Detour):
    """Deliveries that are sent several times with one GUID."""

    affected: Affected
    copies: int

    def take(self, parcels: list[Parcel], now: float) -> list[Parcel]:
        """Returns each delivery so many times."""
        del now
        return [p for parcel in parcels for p in [parcel] * (self.copies if parcel[1] in self.affected else 1)]


@dataclass(frozen=True, slots=True)
class Late(Detour):
    """Deliveries that are sent `by` seconds late."""

    affected: Affected
    by: float
    post: Post
    _waiting: list[tuple[float, Parcel]] = field(default_factory=list)

    def take(self, parcels: list[Parcel], now: float) -> list[Parcel]:
        """Holds these deliveries."""
        going: list[Parcel] = []
        for parcel in parcels:
            if parcel[1] in self.affected:
                self._waiting.append((now + self.by, parcel))
            else:
                going.append(parcel)
        return going

    def kept(self) -> int:
        """Returns how many are not due."""
        return len(self._waiting)

    def note(self, now: float) -> None:
        """Sends those that are due."""
        due = [parcel for at, parcel in self._waiting if at <= now]
        self._waiting[:] = [entry for entry in self._waiting if entry[0] > now]
        if due:
            self.post(due)

    def end(self, at: float) -> None:
        """Sends the rest."""
        del at
        self.note(float("inf"))


@dataclass(frozen=True, slots=True)
class Reordered(Detour):
    """Deliveries that are sent in groups of `batch`, in reverse order."""

    affected: Affected
    batch: int
    post: Post
    _waiting: list[Parcel] = field(default_factory=list)

    def take(self, parcels: list[Parcel], now: float) -> list[Parcel]:
        """Holds them until there are enough."""
        del now
        going: list[Parcel] = []
        for parcel in parcels:
            (self._waiting if parcel[1] in self.affected else going).append(parcel)
        if len(self._waiting) >= self.batch:
            going += self._turned()
        return going

    def kept(self) -> int:
        """Returns how many wait for others."""
        return len(self._waiting)

    def end(self, at: float) -> None:
        """Sends the rest."""
        del at
        if rest := self._turned():
            self.post(rest)

    def _turned(self) -> list[Parcel]:
        turned = self._waiting[::-1]
        self._waiting.clear()
        return turned


@dataclass(frozen=True, slots=True)
class Misattempt(Fault):
    """Attempts with another result than the receiver's answer.

    Attributes:
        status_code: in the log; 2xx for a delivery that another server accepted.
        status: the same in words.
        arrives: the receiver does get it, and its answer is lost.
    """

    affected: Affected
    status_code: int
    status: str
    arrives: bool


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
        guid = _guid(self._clock())
        parcels: list[Parcel] = [
            (app, SentDelivery(0, guid, event, action, org_id, installation_id, repository_id, payload))
        ]
        for detour in self._faults.active(Detour, org_id, self._clock()):
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
        faults = self._faults.active(Misattempt, delivery.org_id, self._clock())
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
