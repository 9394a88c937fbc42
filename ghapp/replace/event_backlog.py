"""Which of the waiting events are sent now: backoff for each event, and a circuit breaker for each URL.

Pure: times are monotonic seconds, handed in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

PER_URL = 4
"""Requests in flight for one URL."""

MOST_IN_FLIGHT = 200
"""Requests in flight in all."""

BACKOFF_SECONDS = (1.0, 300.0)
"""After the first failure of an event, and at most; doubled in between."""

BREAKER_FAILURES = 3
"""Failures in a row after which a URL's breaker opens."""

BREAKER_SECONDS = (2.0, 30.0)
"""From the failure of one request to the next trial request while a breaker is open: at first, and at most."""


@dataclass
class Breaker:
    """One URL: failures in a row, requests in flight, and when the next trial request may be sent."""

    failures: int = 0
    in_flight: int = 0
    next_at: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether nothing is sent but single trial requests."""
        return self.failures >= BREAKER_FAILURES

    def room(self, now: float) -> int:
        """How many more requests may be sent now."""
        if self.is_open:
            return 1 if now >= self.next_at and self.in_flight == 0 else 0
        return max(0, PER_URL - self.in_flight)


@dataclass
class WaitingEvent:
    """One event: its URL, when it happened (its place in the order), its failures, and when it may be tried again."""

    url: str
    at: float
    failures: int = 0
    next_at: float = 0.0
    in_flight: bool = False


@dataclass
class EventBacklog:
    """The events that wait, by id, and the breakers by URL. An empty URL stands for events that have none."""

    waiting: dict[str, WaitingEvent] = field(default_factory=dict)
    breakers: defaultdict[str, Breaker] = field(default_factory=lambda: defaultdict(Breaker))

    def keep(self, urls: Mapping[str, tuple[str, float]]) -> None:
        """The events that wait now, each with its URL and when it happened; what else was known is forgotten.

        One whose URL changed keeps its failures. Breakers without an event are forgotten, too.
        """
        for event_id in self.waiting.keys() - urls.keys():
            if not self.waiting[event_id].in_flight:
                del self.waiting[event_id]
        for event_id, (url, at) in urls.items():
            known = self.waiting.setdefault(event_id, WaitingEvent(url, at))
            if not known.in_flight:
                known.url = url
        for url in self.breakers.keys() - {each.url for each in self.waiting.values()}:
            del self.breakers[url]

    def send(self, now: float) -> list[str]:
        """The ids of the events to send now, marked as in flight: oldest first, and every URL in turn."""
        by_url: defaultdict[str, list[str]] = defaultdict(list)
        for event_id, each in sorted(self.waiting.items(), key=lambda item: item[1].at):
            if not each.in_flight and each.next_at <= now:
                by_url[each.url].append(event_id)
        chosen = {url: ids[: self.breakers[url].room(now)] for url, ids in by_url.items()}
        in_turn = [(turn, event_id) for ids in chosen.values() for turn, event_id in enumerate(ids)]
        in_turn.sort(key=lambda row: (row[0], self.waiting[row[1]].at))
        room = MOST_IN_FLIGHT - sum(each.in_flight for each in self.waiting.values())
        sent = [event_id for _, event_id in in_turn[: max(0, room)]]
        for event_id in sent:
            self.waiting[event_id].in_flight = True
            self.breakers[self.waiting[event_id].url].in_flight += 1
        return sent

    def accepted(self, event_id: str) -> bool:
        """The URL took it; True when that closed an open breaker. Then all that waits for the URL is due at once."""
        event, breaker = self._landed(event_id)
        was_open = breaker.is_open
        breaker.failures = 0
        del self.waiting[event_id]
        if was_open:
            for each in self._of(event.url):
                each.next_at = 0.0
        return was_open

    def refused(self, event_id: str, now: float) -> bool:
        """The URL did not take it; True when that opened its breaker."""
        event, breaker = self._landed(event_id)
        was_open = breaker.is_open
        breaker.failures += 1
        breaker.next_at = now + doubled(BREAKER_SECONDS, breaker.failures - BREAKER_FAILURES)
        self._back_off(event, now)
        return breaker.is_open and not was_open

    def drop(self, event_id: str) -> None:
        """It was accepted before."""
        self._landed(event_id)
        del self.waiting[event_id]

    def put_off(self, event_id: str, now: float) -> None:
        """It could not be sent or recorded, for a reason that is not its URL's."""
        event, _ = self._landed(event_id)
        self._back_off(event, now)

    def _landed(self, event_id: str) -> tuple[WaitingEvent, Breaker]:
        event = self.waiting[event_id]
        breaker = self.breakers[event.url]
        event.in_flight = False
        breaker.in_flight -= 1
        return event, breaker

    def _of(self, url: str) -> Iterable[WaitingEvent]:
        return (each for each in self.waiting.values() if each.url == url)

    @staticmethod
    def _back_off(event: WaitingEvent, now: float) -> None:
        event.next_at = now + doubled(BACKOFF_SECONDS, event.failures)
        event.failures += 1


def doubled(bounds: tuple[float, float], times: int) -> float:
    """The first bound, doubled so many times; at most the second bound."""
    first, most = bounds
    return min(most, first * 2.0 ** min(max(times, 0), 30))
