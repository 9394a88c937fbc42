"""GitHub's primary rate limit: so many calls for each installation, and for each App, in each hour."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

WINDOW_SECONDS = 3600

APP_LIMIT = 5000
"""Calls with an App's JWT in an hour. GitHub does not document that limit: it is an assumption."""


@dataclass(slots=True)
class RateMeter:
    """The hour of one installation or App.

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
    """The meters of all installations and Apps."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._meters: dict[int, RateMeter] = {}
        self._app_meters: dict[int, RateMeter] = {}

    def meter(self, installation_id: int, now: float) -> RateMeter:
        """Returns the meter of the hour of `now`; an hour begins with its first call."""
        return self._current(self._meters, installation_id, self._limit, now)

    def meter_of_app(self, app_id: int, now: float) -> RateMeter:
        """Returns the same of an App's own calls."""
        return self._current(self._app_meters, app_id, APP_LIMIT, now)

    @staticmethod
    def _current(meters: dict[int, RateMeter], number: int, limit: int, now: float) -> RateMeter:
        meter = meters.get(number)
        if meter is None or meter.reset <= now:
            limit = limit if meter is None else meter.limit
            meter = meters[number] = RateMeter(limit, int(now) + WINDOW_SECONDS)
        return meter
