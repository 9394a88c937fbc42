"""Selects deliveries to request again: GitHub never retries by itself, and drops its record after three days."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

KEPT_SECONDS = 3 * 24 * 3600.0
"""Age of the oldest entry in GitHub's delivery log."""

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 30.0, 3600.0
"""Delay after a delivery's n-th attempt: 30 s · 2ⁿ⁻¹, at most an hour."""

HOPELESS = {400, 413}
"""Statuses of deliveries that ghapp rejected for their content: a retry would be rejected, too."""


class Attempt(NamedTuple):
    """One of GitHub's attempts to deliver.

    Attributes:
        id: of this attempt.
        guid: of the delivery, shared by all its attempts.
        at: its time (epoch seconds, GitHub's clock).
        status: HTTP status of the response; 0 without a response.
    """

    id: int
    guid: str
    at: float
    status: int

    @property
    def succeeded(self) -> bool:
        """True if the response was 2xx."""
        return 200 <= self.status < 300  # noqa: PLR2004


class Redeliveries(NamedTuple):
    """Ids of attempts to request again now, and since when deliveries have been missing (None: none is missing)."""

    ask: tuple[int, ...]
    since: float | None


def to_redeliver(attempts: Iterable[Attempt], kept: Collection[str], now: float) -> Redeliveries:
    """Returns the deliveries to request again, oldest first: no attempt succeeded, and ghapp has not stored them.

    A delivery whose response was lost on its way to GitHub is stored: it is never requested again.
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
