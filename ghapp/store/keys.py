"""Every Redis key, in one place, so that a reader sees all that is kept, and a bound for each."""

from __future__ import annotations

INSTALLATIONS = "ghapp:installations"
"""hash: installation id → Installation. One entry an organization."""

DUE = "ghapp:due"
"""sorted set: installation id → when its next sweep is due. One entry an installation."""

INBOX = "ghapp:inbox"
"""stream of deliveries; an entry goes when its effects are stored."""

INBOX_ASKED = "ghapp:inbox:asked"
"""set while a drain is on its way; expires by itself."""

INBOX_TRIES = "ghapp:inbox:tries"
"""hash: entry → how often its effects could not be stored. Entries go with theirs."""

DEAD_LETTERS = "ghapp:inbox:dead"
"""stream of deliveries that were given up, the last 1,000."""

WELL_UNTIL = "ghapp:inbox:well-until"
"""string: until when every delivery has come."""

OUTBOX = "ghapp:outbox"
"""hash: event id → Outgoing: what a pool's url has not accepted yet."""

TOKENS = "ghapp:tokens"
"""hash: SHA-256 of a bearer token → what it may. One entry a token."""

PROBE = "ghapp:probe"
"""string: nothing; whether it can be written at all. Expires within a second."""

COUNTERS = "ghapp:counters"
"""hash: metric and labels → number. Bounded by the labels, which come from closed sets and pool names."""


def seen(hour: int) -> str:
    """set: GUIDs of deliveries whose effects were stored in that hour; expires after three days."""
    return f"ghapp:seen:{hour}"


def runners(installation: int) -> str:
    """hash: runner id → Evidence. Entries go a day after their runner did."""
    return f"ghapp:{installation}:runners"


def names(installation: int) -> str:
    """hash: runner name → runner id."""
    return f"ghapp:{installation}:names"


def survey(installation: int) -> str:
    """string: the installation's Survey."""
    return f"ghapp:{installation}:survey"


def pages(installation: int) -> str:
    """hash: page number → (token, etag, body). One entry a hundred runners; goes with its token."""
    return f"ghapp:{installation}:pages"


def jobs(installation: int) -> str:
    """hash: job id → Job. Entries go when their job ends, or must have ended."""
    return f"ghapp:{installation}:jobs"


def over(installation: int) -> str:
    """Prefix of strings: a job of this id is over; each expires after an hour."""
    return f"ghapp:{installation}:over"


def fuses(installation: int) -> str:
    """hash: pool → Fuse."""
    return f"ghapp:{installation}:fuses"


def pauses(installation: int) -> str:
    """hash: pool, or * for the whole org → Pause."""
    return f"ghapp:{installation}:pauses"


def events(installation: int) -> str:
    """Stream of CloudEvents, the last 10,000."""
    return f"ghapp:{installation}:events"


def event(event_id: str) -> str:
    """string: an event of this id was appended; expires after a week."""
    return f"ghapp:event:{event_id}"


def budget(installation: int) -> str:
    """hash: limit, used, reset, skew, held, and the points of this minute and the last. One an installation."""
    return f"ghapp:{installation}:budget"


def flights(installation: int) -> str:
    """Sorted set: calls on their way → when they must have ended. At most `cadence.MOST_IN_FLIGHT`."""
    return f"ghapp:{installation}:flights"


def credential(installation: int) -> str:
    """string: the sealed installation token; expires before GitHub's does."""
    return f"ghapp:{installation}:credential"


def claim(kind: str, of: str) -> str:
    """string: who holds the exclusive right; expires."""
    return f"ghapp:claim:{kind}:{of}"


def report(installation: int) -> str:
    """hash: posted, head, setback: what was last posted, where it belongs, and what keeps us from it."""
    return f"ghapp:{installation}:report"


def heartbeats(role: str) -> str:
    """Sorted set: process → when it was last alive. Entries go minutes after their process did."""
    return f"ghapp:heartbeats:{role}"
