"""Which deliveries GitHub is asked for again: it never repeats one by itself, and forgets each after three days."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

KEPT_SECONDS = 3 * 24 * 3600.0
"""How far back GitHub's record goes."""

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 30.0, 3600.0
"""After a delivery's n-th attempt it is left alone for 30 s · 2ⁿ⁻¹, an hour at most."""

HOPELESS = {400, 413}
"""We refused it for what it is: it would be refused again."""


class Attempt(NamedTuple):
    """One attempt of GitHub's to deliver.

    Attributes:
        id: of this attempt.
        guid: of the delivery; all its attempts share it.
        at: when it was made (epoch seconds, GitHub's clock).
        status: the HTTP status that it was answered; 0 for no answer.
    """

    id: int
    guid: str
    at: float
    status: int

    @property
    def succeeded(self) -> bool:
        """Whether it was answered 2xx."""
        return 200 <= self.status < 300  # noqa: PLR2004


class Redeliveries(NamedTuple):
    """What is to be asked for again now (ids of attempts), and since when not all is well (None: all is)."""

    ask: tuple[int, ...]
    since: float | None


def to_redeliver(attempts: Iterable[Attempt], kept: Collection[str], now: float) -> Redeliveries:
    """Group by GUID; ask again for each that no attempt brought, and that we do not hold anyhow, oldest first.

    A delivery whose answer was lost on its way to GitHub is held by us: it is never asked for.
    """
    by_guid: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_guid[attempt.guid].append(attempt)
    missing = [
        sorted(tries, key=lambda attempt: attempt.at)
        for guid, tries in by_guid.items()
        if guid not in kept and not any(each.succeeded or each.status in HOPELESS for each in tries)
    ]
    missing.sort(key=lambda tries: tries[0].at)
    ask = tuple(tries[-1].id for tries in missing if now - tries[-1].at >= _wait(len(tries)))
    return Redeliveries(ask, missing[0][0].at if missing else None)


def _wait(attempts: int) -> float:
    return min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(attempts - 1, 10))
