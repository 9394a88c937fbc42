"""Selects the waiting events to send now, with a backoff for each event and a circuit breaker for each URL.

A copy of the outbox in memory, by what the events of a pool have in common, lets a tick cost as much as has changed.
Pure: times are monotonic seconds, passed as arguments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ghapp.runners.failed_calls import doubled

PER_URL = 4
"""Requests in flight per URL."""

MOST_IN_FLIGHT = 200
"""Requests in flight in all."""

BACKOFF_SECONDS = (1.0, 300.0)
"""After an event's first failure, and the maximum; doubled in between."""

SOON_SECONDS = (0.5, 5.0)
"""Until the next attempt for an event that waits for a worker's answer: at first, and the maximum."""

BREAKER_FAILURES = 3
"""Failures in a row after which a URL's breaker opens."""

BREAKER_SECONDS = (2.0, 30.0)
"""Time from a failed request to the next trial request while a breaker is open: at first, and the maximum."""

LONG_FAILURE_SECONDS, RARE_SECONDS = 600.0, 120.0
"""After so long without a success, the maximum is the second: each trial costs two calls of GitHub's budget."""


@dataclass
class Breaker:
    """The state of one URL.

    Attributes:
        failures: how many in a row.
        in_flight: requests in flight.
        next_at: when the next trial request may be sent.
        failing_since: when the first of these failures was.
        trial: the event of the trial; while GitHub is asked about its runner, no other event takes its place.
    """

    failures: int = 0
    in_flight: int = 0
    next_at: float = 0.0
    failing_since: float = 0.0
    trial: str = ""

    @property
    def is_open(self) -> bool:
        """True if only single trial requests are sent."""
        return self.failures >= BREAKER_FAILURES

    def room(self, now: float) -> int:
        """Returns how many more requests may be sent now."""
        if self.is_open:
            return 1 if now >= self.next_at and self.in_flight == 0 else 0
        return max(0, PER_URL - self.in_flight)

    def select(self, due: list[str], now: float) -> list[str]:
        """Returns which of these events, oldest first, may be sent now."""
        if self.is_open and self.trial in due:
            due = [self.trial]
        return due[: self.room(now)]

    def failed(self, now: float) -> None:
        """Records a failed request."""
        self.failing_since = self.failing_since if self.failures else now
        self.failures, self.trial = self.failures + 1, ""
        first, most = BREAKER_SECONDS
        most = most if now - self.failing_since < LONG_FAILURE_SECONDS else RARE_SECONDS
        self.next_at = now + doubled((first, most), self.failures - BREAKER_FAILURES)


@dataclass
class WaitingEvent:
    """One event: its URL, its time, which defines the order, its failures, and when it may be tried again.

    `looks` counts the attempts since the last request that only asked a worker to look again.
    """

    url: str
    at: float
    failures: int = 0
    next_at: float = 0.0
    in_flight: bool = False
    looks: int = 0


@dataclass
class EventBacklog:
    """The waiting events by id, and the breakers by URL. The empty URL stands for events without one.

    What a URL that is down leaves waiting costs nothing until its next trial: `send` looks only at URLs with room.
    """

    waiting: dict[str, WaitingEvent] = field(default_factory=dict)
    breakers: defaultdict[str, Breaker] = field(default_factory=lambda: defaultdict(Breaker))
    by_url: defaultdict[str, dict[str, WaitingEvent]] = field(default_factory=lambda: defaultdict(dict))

    def put(self, event_id: str, url: str, at: float) -> bool:
        """Adds an event with its URL and time; one whose URL changed keeps its failures.

        Returns False, and changes nothing, if it is in flight to another URL.
        """
        known = self.waiting.get(event_id)
        if known is None:
            known = self.waiting[event_id] = WaitingEvent(url, at)
        elif known.url == url:
            return True
        elif known.in_flight:
            return False
        else:
            self._leave_url(event_id)
            known.url = url
        self.by_url[url][event_id] = known
        return True

    def remove(self, event_id: str) -> bool:
        """Removes an event. Returns False, and removes nothing, if it is in flight."""
        known = self.waiting.get(event_id)
        if known is not None and known.in_flight:
            return False
        if known is not None:
            self._leave_url(event_id)
            del self.waiting[event_id]
        return True

    def send(self, now: float) -> list[str]:
        """Returns the events to send now, and marks them as in flight: oldest first, the URLs in turn."""
        selected = {
            url: self.breakers[url].select(_due(events, now), now)
            for url, events in self.by_url.items()
            if self.breakers[url].room(now) > 0
        }
        in_turn = [(turn, event_id) for ids in selected.values() for turn, event_id in enumerate(ids)]
        in_turn.sort(key=lambda row: (row[0], self.waiting[row[1]].at))
        room = MOST_IN_FLIGHT - sum(each.in_flight for each in self.breakers.values())
        sent = [event_id for _, event_id in in_turn[: max(0, room)]]
        for event_id in sent:
            self.waiting[event_id].in_flight = True
            self.breakers[self.waiting[event_id].url].in_flight += 1
        return sent

    def accepted(self, event_id: str) -> bool:
        """Records a success; returns True if it closed an open breaker. Then all events of the URL are due at once."""
        event, breaker = self._end_flight(event_id)
        was_open = breaker.is_open
        breaker.failures, breaker.trial = 0, ""
        if was_open:
            for each in self.by_url[event.url].values():
                each.next_at = 0.0
        self.remove(event_id)
        return was_open

    def refused(self, event_id: str, now: float) -> bool:
        """Records a failure of the URL; returns True if it opened the breaker."""
        event, breaker = self._end_flight(event_id)
        was_open = breaker.is_open
        breaker.failed(now)
        self._back_off(event, now)
        return breaker.is_open and not was_open

    def drop(self, event_id: str) -> None:
        """Drops an event that was accepted before."""
        self._end_flight(event_id)
        self.remove(event_id)

    def put_off(self, event_id: str, now: float, *, soon: bool = False) -> None:
        """Records that the event could not be sent or recorded, for a reason unrelated to its URL.

        `soon`: it can be in a moment; meanwhile no other event takes the trial request of an open breaker.
        """
        event, breaker = self._end_flight(event_id)
        if soon:
            event.next_at = now + doubled(SOON_SECONDS, event.looks)
            event.looks += 1
            breaker.next_at, breaker.trial = max(breaker.next_at, event.next_at), event_id
        else:
            self._back_off(event, now)

    def _end_flight(self, event_id: str) -> tuple[WaitingEvent, Breaker]:
        event = self.waiting[event_id]
        breaker = self.breakers[event.url]
        event.in_flight = False
        breaker.in_flight -= 1
        return event, breaker

    def _leave_url(self, event_id: str) -> None:
        """Takes a waiting event from its URL; a URL without events has no breaker."""
        url = self.waiting[event_id].url
        del self.by_url[url][event_id]
        if not self.by_url[url]:
            del self.by_url[url]
            self.breakers.pop(url, None)

    @staticmethod
    def _back_off(event: WaitingEvent, now: float) -> None:
        event.next_at = now + doubled(BACKOFF_SECONDS, event.failures)
        event.failures, event.looks = event.failures + 1, 0


def _due(events: Mapping[str, WaitingEvent], now: float) -> list[str]:
    """Returns the ids of the events that may be sent now, oldest first."""
    due = [(each.at, event_id) for event_id, each in events.items() if not each.in_flight and each.next_at <= now]
    return [event_id for _, event_id in sorted(due, key=lambda row: row[0])]


class OutboxGroup(NamedTuple):
    """The events of one pool that go to one URL, and are held back together.

    Attributes:
        installation: its id.
        pool: the pool whose URL gets the events.
        is_request: True for replacement requests; pauses, modes and fuses hold back these events and no others.
    """

    installation: int
    pool: str
    is_request: bool = False


Places = Mapping[OutboxGroup, str | None]
"""The URL of each group, empty for none; None while the group is held back."""


@dataclass
class OutboxCopy:
    """The events of the outbox, and the backlog of those that may be sent.

    Events that are held back are not in the backlog: retries of them would delay other events to the same URL.

    Attributes:
        backlog: what may be sent.
        groups: of each group its events, each with the time when it happened (epoch seconds; 0 if unreadable).
    """

    backlog: EventBacklog = field(default_factory=EventBacklog)
    groups: dict[OutboxGroup, dict[str, float]] = field(default_factory=dict)
    _group_of: dict[str, OutboxGroup] = field(default_factory=dict)
    _places: dict[OutboxGroup, str | None] = field(default_factory=dict)
    _unplaced: set[str] = field(default_factory=set)
    """Events that came, left, or changed their place, and of which the backlog does not know that yet."""

    def __contains__(self, event_id: str) -> bool:
        """True if the outbox had the event."""
        return event_id in self._group_of

    def add(self, event_id: str, group: OutboxGroup, at: float) -> None:
        """Adds an event of the outbox."""
        self._group_of[event_id] = group
        self.groups.setdefault(group, {})[event_id] = at
        self._unplaced.add(event_id)

    def keep(self, event_ids: Collection[str]) -> None:
        """Removes all events but these, which are all that the outbox has."""
        for event_id in self._group_of.keys() - set(event_ids):
            self.remove(event_id)

    def remove(self, event_id: str) -> None:
        """Removes an event that left the outbox; it may be added again."""
        group = self._group_of.pop(event_id, None)
        if group is None:
            return
        del self.groups[group][event_id]
        if not self.groups[group]:
            del self.groups[group]
            self._places.pop(group, None)
        self._unplaced.add(event_id)

    def place(self, places: Places) -> None:
        """Sets the places of all groups, and brings the backlog up to date; what is in flight, when it has landed."""
        for group, events in self.groups.items():
            if group not in self._places or self._places[group] != places.get(group):
                self._places[group] = places.get(group)
                self._unplaced.update(events)
        self._unplaced = {event_id for event_id in self._unplaced if not self._has_place(event_id)}

    def _has_place(self, event_id: str) -> bool:
        group = self._group_of.get(event_id)
        url = None if group is None else self._places[group]
        if group is None or url is None:
            return self.backlog.remove(event_id)
        return self.backlog.put(event_id, url, self.groups[group][event_id])
