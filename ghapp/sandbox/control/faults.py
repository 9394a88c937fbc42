"""Makes calls fail or answer falsely, and limits them; the fleet goes on, and the ledger records the truth.

`seconds` is the duration by the sandbox's clock, `org` the organization (None: all), and `match` is searched in the
path of a request, without `/api/v3`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from email.utils import formatdate
from functools import cache, partial
from random import Random
from typing import Any

from ghapp.sandbox import faults
from ghapp.sandbox.control.controls import FOREVER, Controls, exposed
from ghapp.sandbox.faults import (
    CutShort,
    Fault,
    Hang,
    RequestFault,
    RequestFaultEffect,
    Reset,
    TokensNotYetKnown,
    Withheld,
)
from ghapp.sandbox.organizations import Organization
from ghapp.sandbox.people import PEOPLE, spender_of
from ghapp.sandbox.ratelimits import RateMeter
from ghapp.sandbox.runner_list import History, Lingering, Miscounted, Misreported, Slipping, Stale, Unlisted

#: Everything that is called with an installation's token, and not by the App itself.
_BY_TOKEN = r"^/(?!app\b|app-manifests\b|orgs/[^/]+/installation$)"  # noqa: S105 -- no secret, a pattern of paths

RUNNERS_PERMISSION = "organization_self_hosted_runners"


class RequestFaultControls(Controls):
    """Controls of latency, faults and limits."""

    @exposed
    def latency(self, *, seconds: float) -> None:
        """Delays each REST call by this much, until the next call of this control."""
        self.world.faults.latency_seconds = seconds

    @exposed
    def fault(
        self,
        org: str | None = None,
        *,
        match: str = "",
        method: str | None = None,
        status: int | None = None,
        body: Any = None,
        headers: dict[str, str] | None = None,
        html: bool = False,
        hang: float | None = None,
        reset: bool = False,
        cut_short: bool = False,
        share: float = 1.0,
        seconds: float = FOREVER,
        times: int | None = None,
    ) -> int:
        """A share of the matching calls, chosen by the seed, fails in one way; returns how many faults are active.

        `status`: they are answered so, in GitHub's shape, or with this `body` and `headers`, or with `html` for JSON.
        `hang`: answers are delayed by so many seconds of the wall clock. `reset`: connections are reset before there is
        an answer. `cut_short`: answers end in the middle of their body, after the request took effect.
        The fault lasts for `seconds`, and for so many `times`.
        """
        effects: list[RequestFaultEffect] = []
        if status is not None:
            effects.append(faults.page(status) if html else faults.error(status, body, headers))
        if hang is not None:
            effects.append(Hang(hang))
        if reset:
            effects.append(Reset())
        if cut_short:
            effects.append(CutShort())
        if len(effects) != 1:
            raise ValueError("a fault needs exactly one of status, hang (seconds), reset (true) and cut_short (true)")
        self._begin_on_requests(effects[0], org, seconds, match, method=method, times=times, share=share)
        return len(self.world.faults)

    @exposed
    def no_faults(self) -> None:
        """Ends everything temporary: faults, false answers, and changes with `seconds`."""
        self.world.faults.end_all(self.world.now())

    @exposed
    def block_address(self, org: str | None = None, *, seconds: float = FOREVER) -> None:
        """The organization's IP allow list excludes the caller's address: 403 on every call by token."""
        self._begin_on_requests(faults.error(403, faults.error_document(403, faults.BLOCKED)), org, seconds, _BY_TOKEN)

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
        self._begin_on_requests(faults.over_secondary_limit(status, text), org, lasting, _BY_TOKEN)

    def _begin_on_requests(
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


class ResponseFaultControls(Controls):
    """Controls of permissions, tokens, lists, single runners and the clock."""

    @exposed
    def withhold_permission(
        self,
        org: str | None = None,
        *,
        permission: str = RUNNERS_PERMISSION,
        status: int = 403,
        admitted: bool = True,
        seconds: float = FOREVER,
    ) -> None:
        """Calls that need a permission are 403, or 404 as GitHub hides some.

        `admitted`: the installation's document and its tokens lack the permission too; else they still list it.
        """
        self._begin(Withheld(permission, status, admitted), org, seconds)

    @exposed
    def doubt_new_tokens(
        self, org: str | None = None, *, refused: float = 2.5, hidden: float = 2.5, seconds: float = FOREVER
    ) -> None:
        """A token is answered 401 for `refused` seconds after it was issued, and 404 for `hidden` seconds more."""
        self._begin(TokensNotYetKnown(refused, hidden), org, seconds)

    @exposed
    def unlist(
        self,
        org: str | None = None,
        *,
        ids: Sequence[int] = (),
        share: float = 0.0,
        counted: bool = False,
        everywhere: bool = False,
        seconds: float = FOREVER,
    ) -> list[int]:
        """Lists omit existing runners: these, or a share of all, the same ones on every page.

        `counted`: `total_count` still includes them. `everywhere`: GET and DELETE are 404 for them as well.
        Returns the ids.
        """
        chosen, seed = frozenset(ids), f"{self.world.config.seed}/{self._rng().random()}"

        @cache
        def hides(runner_id: int) -> bool:
            return runner_id in chosen or (share > 0 and Random(f"{seed}/{runner_id}").random() < share)

        self._begin(Unlisted(hides, counted_all=counted, everywhere=everywhere), org, seconds)
        return [i for place in self._places(org) for i in sorted(place.fleet.roster.registered) if hides(i)]

    @exposed
    def empty_list(self, org: str | None = None, *, seconds: float = FOREVER) -> None:
        """The list has no runners, and `total_count` is 0."""
        self._begin(Unlisted(lambda _: True, counted_all=False, everywhere=False), org, seconds)

    @exposed
    def miscount(self, org: str | None = None, *, by: int, seconds: float = FOREVER) -> None:
        """`total_count` is wrong by so many; the listed runners and the links are right."""
        self._begin(Miscounted(by), org, seconds)

    @exposed
    def slip_pages(
        self,
        org: str,
        *,
        after_page: int = 1,
        vanish: int = 0,
        appear: int = 0,
        times: int | None = 1,
        seconds: float = FOREVER,
    ) -> None:
        """The fleet changes after this page of the list was served, so that the next pages shift.

        Of the runners on the pages so far, the first `vanish` idle ones end; `appear` new ones are listed first from
        then on. `times`: how often; None is each time.
        """
        self._begin(Slipping(after_page, partial(self._slip, self._org(org), vanish, appear), times), org, seconds)

    @exposed
    def stale_lists(self, org: str | None = None, *, age: float = 50.0, seconds: float = FOREVER) -> None:
        """Lists show the fleet as it was so many seconds ago, but no earlier than now; GET shows the present."""
        self._begin_with_history(org, seconds, age, lambda history: Stale(history, age))

    @exposed
    def linger(self, org: str | None = None, *, lag: float = 5.0, seconds: float = FOREVER) -> None:
        """GET finds a runner for so many seconds after its registration is deleted, as it was last; lists do not."""
        self._begin_with_history(org, seconds, lag, lambda history: Lingering(history, lag))

    @exposed
    def misreport(
        self,
        org: str | None = None,
        *,
        ids: Sequence[int] | None = None,
        busy: bool | None = None,
        status: str | None = None,
        omit: Sequence[str] = (),
        seconds: float = FOREVER,
    ) -> None:
        """Runners, these or all, are shown as `busy` or not, or with another `status`. DELETE behaves accordingly.

        `omit`: fields that they are shown without, as an older GitHub Enterprise Server has no `ephemeral`.
        """
        values: dict[str, Any] = {"busy": busy, "status": status}
        shown = {name: value for name, value in values.items() if value is not None}
        self._begin(Misreported(None if ids is None else frozenset(ids), shown, tuple(omit)), org, seconds)

    @exposed
    def skew_clock(self, *, ahead: float = 90.0, seconds: float = FOREVER) -> None:
        """GitHub's clock is so many seconds ahead, or behind when negative, in all times that it states or checks."""
        self.world.clock.github_ahead += ahead
        self._undo_after(seconds, lambda _: self._set_right(ahead))

    def _set_right(self, ahead: float) -> None:
        self.world.clock.github_ahead -= ahead

    def _places(self, org: str | None) -> list[Organization]:
        return list(self.world.orgs.values()) if org is None else [self._org(org)]

    def _begin_with_history(
        self, org: str | None, seconds: float, horizon: float, fault: Callable[[History], Fault]
    ) -> None:
        for place in self._places(org):
            history = History(place.fleet.roster, horizon, self.world.now())
            self._begin(fault(history), place.login, seconds)

    def _slip(self, place: Organization, vanish: int, appear: int, seen: int) -> list[int]:
        fleet, now = place.fleet, self.world.now()
        on_pages = [runner for _, runner in sorted(fleet.roster.registered.items())][:seen]
        for runner in [runner for runner in on_pages if not runner.busy][:vanish]:
            fleet.retire(runner, now)
        newcomers = [fleet.register(next(iter(fleet.pools))) for _ in range(appear)]
        for runner in newcomers:
            fleet.come_online_soon(runner, now)
        return [runner.id for runner in newcomers]
