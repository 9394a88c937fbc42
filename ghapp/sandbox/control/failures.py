"""How GitHub and the controller can be made to fail, and how much they let through."""

from __future__ import annotations

import re
from typing import Any

from ghapp.sandbox.control.levers import Levers, lever
from ghapp.sandbox.faults import Fault, effect_of

FOREVER = float("inf")


class FailureLevers(Levers):
    """Latency, faults, limits, a controller that refuses or does nothing."""

    @lever
    def latency(self, *, seconds: float) -> None:
        """Each REST call takes this much longer."""
        self.world.faults.latency_seconds = seconds

    @lever
    def fault(
        self,
        *,
        match: str,
        org: str | None = None,
        method: str | None = None,
        status: int | None = None,
        hang: float | None = None,
        reset: bool = False,
        body: Any = None,
        headers: dict[str, str] | None = None,
        seconds: float = FOREVER,
        times: int | None = None,
    ) -> int:
        """Requests whose path matches the expression get a `status` instead, `hang` so many seconds, or are `reset`.

        Lasts for `seconds`, and for so many `times`; answers how many faults are at work.
        """
        effect = effect_of(status=status, hang=hang, reset=reset, body=body, headers=headers)
        until = self.world.now() + seconds
        self.world.faults.active.append(Fault(effect, re.compile(match), until, org=org, method=method, times=times))
        return len(self.world.faults.active)

    @lever
    def no_faults(self) -> None:
        """Everything works again."""
        self.world.faults.active.clear()

    @lever
    def limits(self, *, org: str | None = None, limit: int | None = None, remaining: int | None = None) -> None:
        """Sets the hourly limit, what is left of this hour, or both; of one organization or all."""
        places = list(self.world.orgs.values()) if org is None else [self._org(org)]
        for installation in [i for place in places for i in self._installations(place)]:
            meter = self.world.limits.meter(installation.id, self.world.now())
            meter.limit = meter.limit if limit is None else limit
            meter.used = meter.used if remaining is None else meter.limit - remaining

    @lever
    def fail_controller(self, *, status: int = 500, seconds: float = FOREVER) -> None:
        """The controller answers this to every event for a while."""
        self.controller.status = status
        self.controller.status_until = self.world.now() + seconds

    @lever
    def barren_controller(self, *, barren: bool = True) -> None:
        """The controller accepts events, and no runner ever comes of it."""
        self.controller.barren = barren
