"""The fate of deliveries.

A `Detour` changes what is sent, and when; a `Misattempt` changes the result of an attempt. Deliveries that a detour
holds when it ends are sent then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random

from ghapp.sandbox.apps import App
from ghapp.sandbox.delivery import SentDelivery
from ghapp.sandbox.faults.faults import Fault

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
