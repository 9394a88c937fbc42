"""A loss that ended because the runner returned: kept with the runner's evidence until it is recorded."""

from __future__ import annotations

from typing import NamedTuple


class PastLoss(NamedTuple):
    """The last loss of a runner that returned. Fields are only ever appended; times are epoch seconds.

    Attributes:
        first_at: the first evidence.
        ended_at: when the runner was seen again.
        missing_at: the first GET that answered 404.
        confirmed_at: the second one; None if the runner was replaced because it was offline.
        granted_at: when its replacement was granted.
        replaced_at: when the request for its replacement was accepted.
        successor: the runner that came online in its place.
        healed_at: when that runner was first observed online.
    """

    first_at: float
    ended_at: float
    missing_at: float | None = None
    confirmed_at: float | None = None
    granted_at: float | None = None
    replaced_at: float | None = None
    successor: int | None = None
    healed_at: float | None = None
