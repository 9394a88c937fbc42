"""How answers can be made to lie while the fleet lives on: the account goes by the fleet.

`seconds` is how long it lasts on the sandbox' clock, `org` whom it befalls; None is all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from random import Random
from typing import Any

from ghapp.sandbox.control.controls import FOREVER, Controls, lever
from ghapp.sandbox.faults.access import TokensNotYetKnown, Withheld
from ghapp.sandbox.faults.faults import Fault
from ghapp.sandbox.faults.history import History
from ghapp.sandbox.faults.runners import Lingering, Miscounted, Misreported, Slipping, Stale, Unlisted
from ghapp.sandbox.organization import Organization

RUNNERS_PERMISSION = "organization_self_hosted_runners"


class LieLevers(Controls):
    """Permissions, tokens, lists, single runners, the clock."""

    @lever
    def withhold_permission(
        self,
        org: str | None = None,
        *,
        permission: str = RUNNERS_PERMISSION,
        status: int = 403,
        admitted: bool = True,
        seconds: float = FOREVER,
    ) -> None:
        """Calls that need a permission are 403, or 404 in its guise.

        `admitted`: the installation's document and its tokens say so too; else they claim that it is there.
        """
        self._begin(Withheld(permission, status, admitted), org, seconds)

    @lever
    def doubt_new_tokens(
        self, org: str | None = None, *, refused: float = 2.5, hidden: float = 2.5, seconds: float = FOREVER
    ) -> None:
        """A token is answered 401 for `refused` seconds after it was minted, and 404 for `hidden` seconds more."""
        self._begin(TokensNotYetKnown(refused, hidden), org, seconds)

    @lever
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
        """Runners that are there are left out of the list: these, or a share of all, the same ones on every page.

        `counted`: `total_count` tells of them nevertheless. `everywhere`: GET and DELETE are 404 for them as well.
        Answers the ids.
        """
        chosen, seed = frozenset(ids), f"{self.world.config.seed}/{self._rng().random()}"

        @cache
        def hides(runner_id: int) -> bool:
            return runner_id in chosen or (share > 0 and Random(f"{seed}/{runner_id}").random() < share)

        self._begin(Unlisted(hides, counted_all=counted, everywhere=everywhere), org, seconds)
        return [i for place in self._places(org) for i in sorted(place.fleet.roster.registered) if hides(i)]

    @lever
    def empty_list(self, org: str | None = None, *, seconds: float = FOREVER) -> None:
        """The list has no runners, and `total_count` is 0."""
        self._begin(Unlisted(lambda _: True, counted_all=False, everywhere=False), org, seconds)

    @lever
    def miscount(self, org: str | None = None, *, by: int, seconds: float = FOREVER) -> None:
        """`total_count` is off by so many; the runners listed and the links are right."""
        self._begin(Miscounted(by), org, seconds)

    @lever
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
        """The fleet changes, in truth, after this page of the list was served, so that the next ones slip.

        Of the runners on the pages so far, the first `vanish` idle ones end; `appear` new ones are listed first from
        then on. `times`: how often; None is each time.
        """
        self._begin(Slipping(after_page, partial(self._slip, self._org(org), vanish, appear), times), org, seconds)

    @lever
    def stale_lists(self, org: str | None = None, *, age: float = 50.0, seconds: float = FOREVER) -> None:
        """Lists show the fleet as it was so many seconds ago, but no earlier than now; GET tells the truth."""
        self._begin_with_history(org, seconds, age, lambda history: Stale(history, age))

    @lever
    def linger(self, org: str | None = None, *, lag: float = 5.0, seconds: float = FOREVER) -> None:
        """GET finds a runner for so many seconds after its registration is gone, as it was last; lists do not."""
        self._begin_with_history(org, seconds, lag, lambda history: Lingering(history, lag))

    @lever
    def misreport(
        self,
        org: str | None = None,
        *,
        ids: Sequence[int] | None = None,
        busy: bool | None = None,
        status: str | None = None,
        seconds: float = FOREVER,
    ) -> None:
        """Runners, these or all, are shown as `busy` or not, or with another `status`. DELETE believes it as well."""
        values: dict[str, Any] = {"busy": busy, "status": status}
        told = {name: value for name, value in values.items() if value is not None}
        self._begin(Misreported(None if ids is None else frozenset(ids), told), org, seconds)

    @lever
    def skew_clock(self, *, ahead: float = 90.0, seconds: float = FOREVER) -> None:
        """GitHub's clock is so many seconds ahead, or behind when negative; all times that it states or checks are."""
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
