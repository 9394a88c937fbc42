"""GitHub's primary rate limit: so many calls for each installation in each hour."""

from __future__ import annotations

from dataclasses import dataclass

WINDOW_SECONDS = 3600


@dataclass(slots=True)
class Meter:
    """One installation's hour; `reset` is the epoch second at which it starts anew."""

    limit: int
    reset: int
    used: int = 0

    @property
    def remaining(self) -> int:
        """Calls that are left."""
        return max(0, self.limit - self.used)

    def headers(self) -> dict[str, str]:
        """The limit as every answer reports it."""
        return {
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": str(self.remaining),
            "x-ratelimit-used": str(self.used),
            "x-ratelimit-reset": str(self.reset),
            "x-ratelimit-resource": "core",
        }


class RateLimits:
    """The meters of all installations."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._meters: dict[int, Meter] = {}

    def meter(self, installation_id: int, now: float) -> Meter:
        """The meter of the hour that `now` falls into; an hour begins with its first call."""
        meter = self._meters.get(installation_id)
        if meter is None or meter.reset <= now:
            limit = meter.limit if meter is not None else self._limit
            meter = self._meters[installation_id] = Meter(limit, int(now) + WINDOW_SECONDS)
        return meter
