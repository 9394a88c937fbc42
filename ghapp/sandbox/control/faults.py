"""Makes calls fail, and limits them.

`seconds` is the duration by the sandbox's clock, `org` the organization (None: all), and `match` is searched in the
path of a request, without `/api/v3`.
"""

from __future__ import annotations

import re
from email.utils import formatdate
from typing import Any

from ghapp.sandbox.control.controls import FOREVER, Controls, exposed
from ghapp.sandbox.faults import requests
from ghapp.sandbox.faults.requests import CutShort, Hang, RequestFault, RequestFaultEffect, Reset
from ghapp.sandbox.people import PEOPLE, spender_of
from ghapp.sandbox.ratelimits import RateMeter

#: Everything that is called with an installation's token, and not by the App itself.
_BY_TOKEN = r"^/(?!app\b|app-manifests\b|orgs/[^/]+/installation$)"  # noqa: S105 -- no secret, a pattern of paths


class RequestFaultControls(Controls):
    """Controls of latency, faults and limits."""

    @exposed
    def latency(self, *, seconds: float) -> None:
        """Delays each REST call by this much, until the next call of this control."""
        self.world.faults.latency_seconds = seconds

    @exposed
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
        """Matching requests get a `status`, `hang` for so many seconds, or are `reset`.

        Lasts for `seconds`, and for so many `times`; returns how many faults are active.
        """
        if [status is not None, hang is not None, reset].count(True) != 1:
            raise ValueError("a fault needs exactly one of status, hang (seconds) and reset (true)")
        effect: RequestFaultEffect = Reset()
        if status is not None:
            effect = requests.error(status, body, headers)
        elif hang is not None:
            effect = Hang(hang)
        self._strike(effect, org, seconds, match, method=method, times=times)
        return len(self.world.faults)

    @exposed
    def no_faults(self) -> None:
        """Ends everything temporary: faults, false answers, and changes with `seconds`."""
        self.world.faults.end_all(self.world.now())

    @exposed
    def server_errors(
        self,
        org: str | None = None,
        *,
        status: int = 502,
        share: float = 1.0,
        match: str = "",
        seconds: float = FOREVER,
    ) -> None:
        """A share of the calls, chosen by the seed, is answered with a 5xx."""
        self._strike(requests.error(status), org, seconds, match, share=share)

    @exposed
    def reset_connections(
        self, org: str | None = None, *, share: float = 1.0, match: str = "", seconds: float = FOREVER
    ) -> None:
        """Connections are reset before there is an answer."""
        self._strike(Reset(), org, seconds, match, share=share)

    @exposed
    def hang(
        self,
        org: str | None = None,
        *,
        pause: float = 60.0,
        share: float = 1.0,
        match: str = "",
        seconds: float = FOREVER,
    ) -> None:
        """Answers are delayed by `pause` seconds of the wall clock."""
        self._strike(Hang(pause), org, seconds, match, share=share)

    @exposed
    def cut_short(
        self, org: str | None = None, *, share: float = 1.0, match: str = "", seconds: float = FOREVER
    ) -> None:
        """Answers end in the middle of their body, after the request took effect."""
        self._strike(CutShort(), org, seconds, match, share=share)

    @exposed
    def answer_html(
        self,
        org: str | None = None,
        *,
        status: int = 200,
        share: float = 1.0,
        match: str = "",
        seconds: float = FOREVER,
    ) -> None:
        """Answers are HTML instead of JSON."""
        self._strike(requests.page(status), org, seconds, match, share=share)

    @exposed
    def block_address(self, org: str | None = None, *, seconds: float = FOREVER) -> None:
        """The organization's IP allow list excludes the caller's address: 403 on every call by token."""
        self._strike(requests.error(403, requests.document(403, requests.BLOCKED)), org, seconds, _BY_TOKEN)

    @exposed
    def limits(self, *, org: str | None = None, limit: int | None = None, remaining: int | None = None) -> None:
        """Sets the hourly limit, the rest of this hour, or both; for one organization or all."""
        for meter in self._meters(org):
            meter.limit = meter.limit if limit is None else limit
            meter.used = meter.used if remaining is None else meter.limit - remaining

    @exposed
    def exhaust_limit(self, org: str | None = None, *, status: int = 403, seconds: float = 60.0) -> None:
        """Exhausts the primary limit, with a reset in `seconds`: calls are 403 or 429, with remaining 0."""
        for meter in self._meters(org):
            meter.reset = int(self.world.now() + seconds)
            meter.used, meter.refusal = meter.limit, status
            self._undo_after(seconds, meter.renew)

    @exposed
    def secondary_limit(
        self,
        org: str | None = None,
        *,
        status: int = 403,
        retry_after: int = 60,
        stated: str | None = None,
        seconds: float | None = None,
    ) -> None:
        """Calls by token are 403 or 429 with `retry-after`, for that time or for `seconds`.

        `stated`: the text of the header where it is not that number of seconds. Proxies send any: a date, a fraction,
        `""`. `{date}` in it is the end of `retry_after` by GitHub's clock, as in `Wed, 25 Nov 2026 06:33:00 GMT`.
        """
        lasting = retry_after if seconds is None else seconds
        end = formatdate(self.world.now() + self.world.clock.github_ahead + retry_after, usegmt=True)
        text = str(retry_after) if stated is None else stated.replace("{date}", end)
        self._strike(requests.over_secondary_limit(status, text), org, lasting, _BY_TOKEN)

    def _strike(
        self,
        effect: RequestFaultEffect,
        org: str | None,
        seconds: float,
        match: str,
        *,
        method: str | None = None,
        times: int | None = None,
        share: float = 1.0,
    ) -> None:
        fault = RequestFault(effect, re.compile(match), self._rng(), method=method, times=times, share=share)
        self._begin(fault, org, seconds)

    def _meters(self, org: str | None) -> list[RateMeter]:
        places = list(self.world.orgs.values()) if org is None else [self._org(org)]
        spenders = [installation.id for place in places for installation in self._installations(place)]
        if org is None:
            spenders += [spender_of(each) for each in PEOPLE]
        return [self.world.limits.meter(each, self.world.now()) for each in spenders]
