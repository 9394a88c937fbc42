"""Makes answers false while the fleet goes on; the ledger records the truth.

`seconds` is the duration by the sandbox's clock, `org` the organization; None is all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from random import Random
from typing import Any

from ghapp.sandbox.control.controls import FOREVER, Controls, exposed
from ghapp.sandbox.faults.access import TokensNotYetKnown, Withheld
from ghapp.sandbox.faults.faults import Fault
from ghapp.sandbox.organizations import Organization
from ghapp.sandbox.runner_list import History, Lingering, Miscounted, Misreported, Slipping, Stale, Unlisted

RUNNERS_PERMISSION = "organization_self_hosted_runners"


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
