"""Makes deliveries fail.

`org` is the organization (None: all), `events` the events (none: any), `share` the share of those, chosen by the seed,
and `seconds` the duration by the sandbox's clock. Deliveries that were held back are sent at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from ghapp.sandbox.control.controls import FOREVER, Controls, exposed
from ghapp.sandbox.faults.webhooks import Affected, Dropped, Late, Misattempt, Reordered, Repeated


class WebhookControls(Controls):
    """Controls of lost, failed, repeated, late and reordered deliveries."""

    @exposed
    def webhook(self, *, url: str, secret: str | None = None) -> None:
        """Sets the webhook URL of all Apps; an empty URL sends none."""
        for app in self.world.registry.apps.values():
            app.hook.url = url
            app.hook.secret = app.hook.secret if secret is None else secret

    @exposed
    def lose_deliveries(
        self,
        org: str | None = None,
        *,
        logged: bool = False,
        share: float = 1.0,
        events: Sequence[str] = (),
        seconds: float = FOREVER,
    ) -> None:
        """Deliveries never arrive. `logged`: GitHub's log shows them as OK; else the log lacks them."""
        affected = Affected(self._rng(), events, share)
        if logged:
            self._begin(Misattempt(affected, HTTPStatus.OK, "OK", arrives=False), org, seconds)
        else:
            self._begin(Dropped(affected, self.world.deliveries.count_dropped), org, seconds)

    @exposed
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
        """Attempts fail, redeliveries too, and are logged so; `arrive`: the receiver gets them all the same."""
        self._begin(Misattempt(Affected(self._rng(), events, share), status_code, status, arrive), org, seconds)

    @exposed
    def unreachable_webhook(self, org: str | None = None, *, seconds: float = FOREVER) -> None:
        """No delivery reaches its receiver; each is logged as failed."""
        affected = Affected(self._rng())
        fault = Misattempt(affected, HTTPStatus.BAD_GATEWAY, "failed to connect to host", arrives=False)
        self._begin(fault, org, seconds)

    @exposed
    def repeat_deliveries(
        self,
        org: str | None = None,
        *,
        copies: int = 2,
        share: float = 1.0,
        events: Sequence[str] = (),
        seconds: float = FOREVER,
    ) -> None:
        """Deliveries arrive several times, with one GUID."""
        self._begin(Repeated(Affected(self._rng(), events, share), copies), org, seconds)

    @exposed
    def delay_deliveries(
        self,
        org: str | None = None,
        *,
        by: float = 30.0,
        share: float = 1.0,
        events: Sequence[str] = (),
        seconds: float = FOREVER,
    ) -> None:
        """Deliveries are sent so many seconds late, or when the fault ends."""
        self._begin(Late(Affected(self._rng(), events, share), by, self.world.deliveries.post), org, seconds)

    @exposed
    def reorder_deliveries(
        self,
        org: str | None = None,
        *,
        batch: int = 3,
        share: float = 1.0,
        events: Sequence[str] = (),
        seconds: float = FOREVER,
    ) -> None:
        """Deliveries wait until there are so many, and are sent in reverse order."""
        self._begin(Reordered(Affected(self._rng(), events, share), batch, self.world.deliveries.post), org, seconds)
