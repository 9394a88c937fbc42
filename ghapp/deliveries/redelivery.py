"""Selects deliveries to request again: GitHub never retries by itself, and drops its record after three days."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

KEPT_SECONDS = 3 * 24 * 3600.0
"""Age of the oldest entry in GitHub's delivery log."""

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 30.0, 3600.0
"""Delay after a delivery's n-th attempt: 30 s · 2ⁿ⁻¹, at most an hour."""

REJECTED = {400, 413}
"""Statuses with which ghapp rejects a delivery for its content: a retry would be rejected, too. A proxy in front of
ghapp may answer the same, so that the delivery is requested once more. Until it comes it is missing, like any other.
"""

MOST_REJECTED = 2
"""Attempts that may be answered with one of them."""


TRIAL_SECONDS = 60.0
"""While no delivery arrives, one redelivery is requested as often as this, to learn whether they arrive again."""


class LastRequest(NamedTuple):
    """The last request for redeliveries.

    Attributes:
        at: when it was (our clock).
        arrival: the last delivery that had arrived before it, as the inbox names it.
    """

    at: float
    arrival: str


class Attempt(NamedTuple):
    """One of GitHub's attempts to deliver.

    Attributes:
        id: of this attempt.
        guid: of the delivery, shared by all its attempts.
        at: its time (epoch seconds, GitHub's clock).
        status: HTTP status of the response; 0 without a response.
        event: the event's name; empty if the log does not name it.
        action: of the event; empty if it has none.
        installation: its installation; 0 if the log names none.
    """

    id: int
    guid: str
    at: float
    status: int
    event: str = ""
    action: str = ""
    installation: int = 0

    @property
    def succeeded(self) -> bool:
        """True if the response was 2xx."""
        return 200 <= self.status < 300  # noqa: PLR2004

    @property
    def is_of_job(self) -> bool:
        """True if it delivers a job's start or end, or may."""
        return self.event in ("workflow_job", "")


class Redeliveries(NamedTuple):
    """Ids of attempts to request again now, and the first attempts of all missing deliveries, oldest first."""

    ask: tuple[int, ...]
    missing: tuple[Attempt, ...]

    @property
    def since(self) -> float | None:
        """Since when deliveries have been missing; None if none is."""
        return self.missing[0].at if self.missing else None


def to_redeliver(attempts: Iterable[Attempt], kept: Collection[str], now: float) -> Redeliveries:
    """Returns the deliveries to request again: no attempt succeeded, and ghapp has not stored them.

    Ends of jobs are requested first, the newest one before the others: they explain why runners left. Starts of jobs
    follow, the newest first; then all others, the oldest first. A delivery whose response was lost on its way to
    GitHub is stored: it is never requested again. One that was rejected for its content twice is only missing.
    """
    by_guid: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_guid[attempt.guid].append(attempt)
    missing = [
        sorted(tries, key=lambda attempt: attempt.at)
        for guid, tries in by_guid.items()
        if guid not in kept and not any(each.succeeded for each in tries)
    ]
    missing.sort(key=lambda tries: (tries[0].at, tries[0].guid))
    due = [tries for tries in missing if now - tries[-1].at >= _wait(len(tries)) and not _is_rejected(tries)]
    due.sort(key=lambda tries: _urgency(tries[0]))
    return Redeliveries(tuple(tries[-1].id for tries in due), tuple(tries[0] for tries in missing))


def may_request(last: LastRequest | None, arrival: str, now: float, batch: int) -> int:
    """Returns how many redeliveries may be requested now.

    A batch, if any delivery has arrived since the last request: GitHub reaches the webhook. Otherwise each request
    would only use up the App's limit: one for each `TRIAL_SECONDS`.

    Args:
        last: the last request that GitHub accepted; None if none is known.
        arrival: the last delivery that has arrived.
        now: our clock.
        batch: how many one batch may have.
    """
    if last is None or last.arrival != arrival:
        return batch
    return 0 if 0 <= now - last.at < TRIAL_SECONDS else 1


def _urgency(first: Attempt) -> tuple[int, float]:
    if first.event == "workflow_job" and first.action in ("completed", "in_progress"):
        return (0 if first.action == "completed" else 1), -first.at
    return 2, first.at


def _is_rejected(tries: Iterable[Attempt]) -> bool:
    return sum(each.status in REJECTED for each in tries) >= MOST_REJECTED


def _wait(attempts: int) -> float:
    return min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(attempts - 1, 10))


def by_installation(missing: Iterable[Attempt]) -> dict[int, Sequence[Attempt]]:
    """Returns the missing deliveries about jobs by installation, each oldest first."""
    found: dict[int, list[Attempt]] = defaultdict(list)
    for attempt in missing:
        if attempt.is_of_job:
            found[attempt.installation].append(attempt)
    return {installation: sorted(each, key=lambda attempt: attempt.at) for installation, each in found.items()}
