"""A copy of the outbox in memory, by what the events of a pool have in common, so that a tick costs as much as changed.

Pure: reads nothing, and decides nothing about URLs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ghapp.replace.event_backlog import EventBacklog


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
