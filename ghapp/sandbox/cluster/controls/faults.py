"""What goes wrong: requests that fail, watches that are cut, versions that are forgotten."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypedDict, Unpack

from ghapp.sandbox.cluster import faults
from ghapp.sandbox.cluster.controls.controls import ClusterControls
from ghapp.sandbox.cluster.faults import AnswerLost, ClusterFault, ClusterFaultEffect
from ghapp.sandbox.cluster.garbage import collect
from ghapp.sandbox.cluster.watch_cuts import Ending
from ghapp.sandbox.faults.requests import CutShort, Hang, Reset


class Meant(TypedDict, total=False):
    """Which requests a trouble befalls; what is left out is any.

    `verbs`, `resources` (`pods`, `pods/log`), `users` and `names` are collections; `seconds` on the cluster's clock
    and `times` are how long it lasts and how many requests it befalls.
    """

    verbs: Collection[str]
    resources: Collection[str]
    users: Collection[str]
    names: Collection[str]
    seconds: float
    times: int


class TroubleLevers(ClusterControls):
    """Levers on what goes wrong. A trouble that is returned is over at its `end()`, or at the end of its `with`."""

    def fails(self, code: int = 500, *, retry_after: int = 1, **meant: Unpack[Meant]) -> ClusterFault:
        """Requests are answered with this code, and have no effect."""
        return self._begin(faults.status(code, retry_after=retry_after), meant)

    def answers_html(self, code: int = 502, **meant: Unpack[Meant]) -> ClusterFault:
        """Requests are answered with a page of HTML, as by something that stands before the API server."""
        return self._begin(faults.page(code), meant)

    def hangs(self, hang_seconds: float = 3600, **meant: Unpack[Meant]) -> ClusterFault:
        """Requests hear nothing for so long, by the wall's clock, and are answered then."""
        return self._begin(Hang(hang_seconds), meant)

    def resets(self, **meant: Unpack[Meant]) -> ClusterFault:
        """Connections are reset before there is an answer; requests have no effect."""
        return self._begin(Reset(), meant)

    def loses_answers(self, **meant: Unpack[Meant]) -> ClusterFault:
        """Requests have their effect, and connections are reset before the answer."""
        return self._begin(AnswerLost(), meant)

    def cuts_short(self, **meant: Unpack[Meant]) -> ClusterFault:
        """Answers stop half-way, after their effect. Not for watches, which have `cut_watches`."""
        return self._begin(CutShort(), meant)

    def delay(self, seconds: float) -> None:
        """Each request takes so much longer, by the wall's clock."""
        self._cluster.troubles.delay_seconds = seconds

    def all_is_well(self) -> None:
        """Ends all troubles, delays and cuts to come."""
        self._cluster.troubles.end_all()
        self._cluster.cuts.disarm()
        self._cluster.expires_by_http = False

    def watches(self) -> int:
        """How many are open."""
        with self._cluster.lock:
            return len(self._cluster.watches)

    def cut_watches(self, how: str = "broken") -> int:
        """Ends all that are open, at once: orderly, broken, reset, half or expired (see `Ending`); how many."""
        with self._cluster.lock:
            for watch in self._cluster.watches:
                watch.end(Ending(how))
            return len(self._cluster.watches)

    def cut_watches_after(self, events: int, how: str = "broken", *, times: int | None = 1) -> None:
        """Ends the watch that sends the event with this number, counted over all watches, bookmarks not.

        After that it counts anew, until it has cut so many `times`; None is for ever.
        """
        self._cluster.cuts.arm(events, Ending(how), times)

    def bookmark(self) -> int:
        """Sends a bookmark on all watches that asked for some, after all events so far; how many are open."""
        with self._cluster.lock:
            for watch in self._cluster.watches:
                watch.bookmark(self._cluster.store.version)
            return len(self._cluster.watches)

    def forget_versions(self, *, by_http: bool = False) -> int:
        """Versions before now are gone: watches and pages from them get 410; the version that it is now.

        `by_http`: watches are answered 410, and not 200 with an ERROR event.
        """
        with self._cluster.lock:
            self._cluster.expires_by_http = by_http
            # Something else is written meanwhile, as always; so that also what was listed last is too old.
            self._cluster.store.version += 1
            self._cluster.store.forget()
            return self._cluster.store.version

    def version(self) -> int:
        """The last resourceVersion that was given."""
        with self._cluster.lock:
            return self._cluster.store.version

    def answers_plain_not_found(self, *, plain: bool = True) -> None:
        """A path of no resource, as of a CRD that is not installed, is answered 404 in plain text, as by older ones."""
        self._cluster.plain_not_found = plain

    def collects_garbage(self, *, at_once: bool = True) -> None:
        """Whether dependents go with their owners; when not, `collect_garbage` lets them."""
        with self._at():
            self._cluster.collects_garbage = at_once

    def collect_garbage(self) -> None:
        """Lets dependents go now."""
        with self._cluster.lock:
            collect(self._cluster.store, self._cluster.clock())

    def settle(self) -> None:
        """Lets happen what has fallen due by the cluster's clock; requests and levers do so by themselves."""
        self._cluster.settle()

    def _begin(self, effect: ClusterFaultEffect, meant: Meant) -> ClusterFault:
        until = self._cluster.clock() + meant["seconds"] if "seconds" in meant else None
        return self._cluster.troubles.begin(
            ClusterFault(
                effect,
                meant.get("verbs", ()),
                meant.get("resources", ()),
                meant.get("users", ()),
                meant.get("names", ()),
                until,
                meant.get("times"),
            )
        )
