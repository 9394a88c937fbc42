"""Controls faults: requests that fail, watches that are cut, versions that are dropped."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypedDict, Unpack

from ghapp.sandbox.cluster import faults
from ghapp.sandbox.cluster.controls.access import ClusterControls
from ghapp.sandbox.cluster.deletion import collect
from ghapp.sandbox.cluster.faults import AnswerLost, ClusterFault, ClusterFaultEffect
from ghapp.sandbox.cluster.watch_cuts import Ending
from ghapp.sandbox.faults import CutShort, Hang, Reset


class RequestMatch(TypedDict, total=False):
    """Which requests a fault affects; a condition that is left out matches any.

    `verbs`, `resources` (`pods`, `pods/log`), `users` and `names` are collections; `seconds` on the cluster's clock
    and `times` limit how long it lasts and how many requests it affects.
    """

    verbs: Collection[str]
    resources: Collection[str]
    users: Collection[str]
    names: Collection[str]
    seconds: float
    times: int


class FaultControls(ClusterControls):
    """Controls of faults. A returned fault is over at its `end()`, or at the end of its `with`."""

    def fails(self, code: int = 500, *, retry_after: int = 1, **match: Unpack[RequestMatch]) -> ClusterFault:
        """Requests are answered with this code, and have no effect."""
        return self._begin(faults.status(code, retry_after=retry_after), match)

    def answers_html(self, code: int = 502, **match: Unpack[RequestMatch]) -> ClusterFault:
        """Requests are answered with a page of HTML, as by a proxy before the API server."""
        return self._begin(faults.page(code), match)

    def hangs(self, hang_seconds: float = 3600, **match: Unpack[RequestMatch]) -> ClusterFault:
        """Requests are answered after so many seconds of the wall clock."""
        return self._begin(Hang(hang_seconds), match)

    def resets(self, **match: Unpack[RequestMatch]) -> ClusterFault:
        """Connections are reset before there is an answer; requests have no effect."""
        return self._begin(Reset(), match)

    def loses_answers(self, **match: Unpack[RequestMatch]) -> ClusterFault:
        """Requests take effect, and connections are reset before the answer."""
        return self._begin(AnswerLost(), match)

    def cuts_short(self, **match: Unpack[RequestMatch]) -> ClusterFault:
        """Answers stop half-way, after their effect. Not for watches, which have `cut_watches`."""
        return self._begin(CutShort(), match)

    def delay(self, seconds: float) -> None:
        """Delays each request by this much of the wall clock."""
        self._cluster.faults.delay_seconds = seconds

    def all_is_well(self) -> None:
        """Ends all faults, delays and cuts to come."""
        self._cluster.faults.end_all()
        self._cluster.cuts.disarm()
        self._cluster.expires_by_http = False

    def watches(self) -> int:
        """Returns how many watches are open."""
        with self._cluster.lock:
            return len(self._cluster.watches)

    def cut_watches(self, how: str = "broken") -> int:
        """Ends all open watches, at once: orderly, broken, reset, half or expired (see `Ending`); returns how many."""
        with self._cluster.lock:
            for watch in self._cluster.watches:
                watch.end(Ending(how))
            return len(self._cluster.watches)

    def cut_watches_after(self, events: int, how: str = "broken", *, times: int | None = 1) -> None:
        """Ends the watch that sends the event with this number, counted over all watches, without bookmarks.

        After that it counts again, until it has cut so many `times`; None: no limit.
        """
        self._cluster.cuts.arm(events, Ending(how), times)

    def bookmark(self) -> int:
        """Sends a bookmark on all watches that asked for some, after all events so far; returns how many are open."""
        with self._cluster.lock:
            for watch in self._cluster.watches:
                watch.bookmark(self._cluster.store.version)
            return len(self._cluster.watches)

    def forget_versions(self, *, by_http: bool = False) -> int:
        """Drops versions before now: watches and pages from them get 410; returns the current version.

        `by_http`: watches are answered 410, and not 200 with an ERROR event.
        """
        with self._cluster.lock:
            self._cluster.expires_by_http = by_http
            # Another object is written meanwhile, as in a real cluster, so that the last list is too old as well.
            self._cluster.store.version += 1
            self._cluster.store.forget()
            return self._cluster.store.version

    def version(self) -> int:
        """Returns the last resourceVersion."""
        with self._cluster.lock:
            return self._cluster.store.version

    def answers_plain_not_found(self, *, plain: bool = True) -> None:
        """An unknown path, as of a CRD that is not installed, is answered 404 in plain text, as by older servers."""
        self._cluster.plain_not_found = plain

    def collects_garbage(self, *, at_once: bool = True) -> None:
        """Sets whether dependents are deleted with their owners, or only by `collect_garbage`."""
        with self._at():
            self._cluster.collects_garbage = at_once

    def collect_garbage(self) -> None:
        """Deletes dependents now."""
        with self._cluster.lock:
            collect(self._cluster.store, self._cluster.clock())

    def settle(self) -> None:
        """Applies what is due by the cluster's clock; requests and controls do so by themselves."""
        self._cluster.settle()

    def _begin(self, effect: ClusterFaultEffect, match: RequestMatch) -> ClusterFault:
        until = self._cluster.clock() + match["seconds"] if "seconds" in match else None
        return self._cluster.faults.begin(
            ClusterFault(
                effect,
                match.get("verbs", ()),
                match.get("resources", ()),
                match.get("users", ()),
                match.get("names", ()),
                until,
                match.get("times"),
            )
        )
