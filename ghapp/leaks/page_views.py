"""The leaked pods of an organization on its overview. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ghapp.leaks.documents import DELETED, LeakedPod
from ghapp.leaks.tick import WAITS
from ghapp.web.pages.views.wording import Moment, TextPart, coded, moment

MOST_SHOWN = 20


class LeakLine(NamedTuple):
    """One pod: `state` is `deleted`, `leaked`, or `unused` (it may become a leak); `at` since when."""

    pod: str
    pool: str
    runner: str
    at: Moment | None
    state: str
    text: tuple[TextPart, ...]


class LeaksView(NamedTuple):
    """The section; `hidden_count` counts the pods that are not shown."""

    lines: tuple[LeakLine, ...]
    hidden_count: int


def leaks_view(found: Sequence[LeakedPod], now: float) -> LeaksView:
    """Returns the section as of `now` (epoch seconds)."""
    lines = tuple(
        LeakLine(
            f"{each.namespace}/{each.pod}",
            each.pool,
            each.runner_name if each.runner_name != each.pod else "",
            moment(each.at, now),
            DELETED if each.state == DELETED else "unused" if each.state in WAITS else "leaked",
            coded(each.text),
        )
        for each in found[:MOST_SHOWN]
    )
    return LeaksView(lines, len(found) - len(lines))
