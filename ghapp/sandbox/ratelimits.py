"""GitHub's primary rate limit: so many calls for each installation in each hour."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

WINDOW_SECONDS = 3600


@dataclass(slots=True)
class RateMeter:
    """One installation's hour.

    Attributes:
        reset: the epoch second at which it starts again.
        refusal: the status of calls over the limit, 403 or 429.
    """

    limit: int
    reset: int
    used: int = 0
    refusal: int = HTTPStatus.FORBIDDEN

    @property
    def remaining(self) -> int:
        """Returns the calls that are left."""
        return max(0, self.limit - self.used)

    def renew(self, now: float) -> None:
        """Starts a new hour before its time."""
        self.used, self.refusal, self.reset = 0, HTTPStatus.FORBIDDEN, int(now) + WINDOW_SECONDS

    def headers(self, stated_reset: float) -> dict[str, str]:
        """Returns the limit as answers report it; `stated_reset` is the time of the reset by GitHub's own clock."""
        return {
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": str(self.remaining),
            "x-ratelimit-used": str(self.used),
            "x-ratelimit-reset": str(int(stated_reset)),
            "x-ratelimit-resource": "core",
        }


class RateLimits:
    """The meters of all installations."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._meters: dict[int, RateMeter] = {}

    def meter(self, installation_id: int, now: float) -> RateMeter:
        """Returns the meter of the hour of `now`; an hour begins with its first call."""
        meter = self._meters.get(installation_id)
        if meter is None or meter.reset <= now:
            limit = meter.limit if meter is not None else self._limit
            meter = self._meters[installation_id] = RateMeter(limit, int(now) + WINDOW_SECONDS)
        return meter
