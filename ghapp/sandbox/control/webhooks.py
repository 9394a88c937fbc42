"""How deliveries can be made to go wrong.

`org` is whom it befalls (None: all), `events` which (none: any), `share` how many of those, chosen by the seed, and
`seconds` how long it lasts on the sandbox' clock. What was held back goes out when it is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from ghapp.sandbox.control.controls import FOREVER, Controls, lever
from ghapp.sandbox.faults.webhooks import Affected, Dropped, Late, Misattempt, Reordered, Repeated


class WebhookLevers(Controls):
    """Deliveries lost, failed, repeated, late, out of order."""

    @lever
    def webhook(self, *, url: str, secret: str | None = None) -> None:
        """Where all Apps' deliveries go from now on; an empty URL sends none."""
        for app in self.world.registry.apps.values():
            app.hook.url = url
            app.hook.secret = app.hook.secret if secret is None else secret

    @lever
    def lose_deliveries(
        self,
        org: str | None = None,
        *,
        logged: bool = False,
        share: float = 1.0,
        events: Sequence[str] = (),
        seconds: float = FOREVER,
    ) -> None:
        """Deliveries never arrive. `logged`: GitHub's log has them as OK; else it has never heard of them."""
        affected = Affected(self._rng(), events, share)
        if logged:
            self._begin(Misattempt(affected, HTTPStatus.OK, "OK", arrives=False), org, seconds)
        else:
            self._begin(Dropped(affected, self.world.deliveries.count_dropped), org, seconds)

    @lever
    def fail_deliveries(
        self,
        org: str | None = None,
        *,
        status_code: int = 502,
        status: str = "failed to connect to host",
        arrive: bool = False,
        share: float = 1.0,
        events: Sequence[str] = (),
        seconds: float = FOREVER,
    ) -> None:
        """Attempts fail, redeliveries too, and are logged like this; `arrive`: the receiver has them all the same."""
        self._begin(Misattempt(Affected(self._rng(), events, share), status_code, status, arrive), org, seconds)

    @lever
    def unreachable_webhook(self, org: str | None = None, *, seconds: float = FOREVER) -> None:
        """No delivery reaches its receiver; each is logged as failed."""
        affected = Affected(self._rng())
        fault = Misattempt(affected, HTTPStatus.BAD_GATEWAY, "failed to connect to host", arrives=False)
        self._begin(fault, org, seconds)

    @lever
    def repeat_deliveries(
        self,
        org: str | None = None,
        *,
        copies: int = 2,
        share: float = 1.0,
        events: Sequence[str] = (),
        seconds: float = FOREVER,
    ) -> None:
        """Deliveries come several times, under one GUID."""
        self._begin(Repeated(Affected(self._rng(), events, share), copies), org, seconds)

    @lever
    def delay_deliveries(
        self,
        org: str | None = None,
        *,
        by: float = 30.0,
        share: float = 1.0,
        events: Sequence[str] = (),
        seconds: float = FOREVER,
    ) -> None:
        """Deliveries go out so many seconds late, or when this is over."""
        self._begin(Late(Affected(self._rng(), events, share), by, self.world.deliveries.post), org, seconds)

    @lever
    def reorder_deliveries(
        self,
        org: str | None = None,
        *,
        batch: int = 3,
        share: float = 1.0,
        events: Sequence[str] = (),
        seconds: float = FOREVER,
    ) -> None:
        """Deliveries wait until there are so many, and go out one after the other, the last one first."""
        self._begin(Reordered(Affected(self._rng(), events, share), batch, self.world.deliveries.post), org, seconds)
