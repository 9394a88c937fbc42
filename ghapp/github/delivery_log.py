"""GitHub's log of delivery attempts, and requests for redelivery. Authenticated as the App."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec

from ghapp.decoding import Count, Id, Moment, Name, RowDecoder, Text
from ghapp.deliveries.redelivery import Attempt
from ghapp.errors import NotFoundError
from ghapp.github import wire
from ghapp.github.api import GitHub
from ghapp.github.response import PER_PAGE, expect
from ghapp.installations.pacing import ACTING_SHARE, REDELIVERY_POINTS, CallLimits

MOST_PAGES = 10
"""A thousand failures per search, a job of a few seconds; the next search continues where this one stopped."""


class _Item(msgspec.Struct):
    id: Id
    guid: Name
    delivered_at: Moment
    status_code: Count
    event: Text = ""
    action: Text | None = None
    installation_id: Count | None = None


_items = RowDecoder[list[_Item]]("delivery-attempt", list[_Item])


LIMITS = CallLimits(share=0.5)
"""Of the App's own hourly limit; the rest is reserved for tokens and confirmations, which cannot wait."""

CONFIRMATION_LIMITS = CallLimits(share=ACTING_SHARE)
"""For a confirmation, which needs the log."""

REDELIVERY_LIMITS = CallLimits(share=0.5, points_a_minute=REDELIVERY_POINTS, patience_seconds=0.0)
"""Redeliveries yield to all other calls, and wait in their plan instead of in a worker."""


class Failures(NamedTuple):
    """Failed attempts, newest first, and the cursor of earlier attempts; empty if there are none."""

    attempts: list[Attempt]
    before: str


async def failed_attempts(github: GitHub, since: float, cursor: str = "", limits: CallLimits = LIMITS) -> Failures:
    """Returns attempts since then (epoch seconds) that failed, from the cursor back; successes are not listed."""
    found: list[Attempt] = []
    params: dict[str, str | int] = {"per_page": PER_PAGE, "status": "failure"}
    for _ in range(MOST_PAGES):
        if cursor:
            params["cursor"] = cursor
        answer = await github.send("GET", "/app/hook/deliveries", limits=limits, **params)
        items, odd = wire.read_rows(_items, expect(answer, "/app/hook/deliveries"), github.left_out)
        page = [_attempt(item) for item in items]
        found += [each for each in page if each.at >= since]
        cursor = _next_cursor(answer.headers.get("link", ""))
        if not cursor or not (page or odd) or (page and page[-1].at < since):
            return Failures(found, "")
    return Failures(found, cursor)


async def deliver_again(github: GitHub, attempt_id: int) -> bool:
    """Requests a redelivery; returns False if GitHub no longer has that delivery."""
    path = f"/app/hook/deliveries/{attempt_id}/attempts"
    try:
        expect(await github.send("POST", path, limits=REDELIVERY_LIMITS), path)
    except NotFoundError:
        return False
    return True


def _attempt(item: _Item) -> Attempt:
    return Attempt(
        item.id,
        item.guid,
        item.delivered_at.timestamp(),
        item.status_code,
        item.event,
        item.action or "",
        item.installation_id or 0,
    )


def _next_cursor(link: str) -> str:
    url = httpx.Response(200, headers={"link": link}).links.get("next", {}).get("url")
    cursors = parse_qs(urlsplit(url).query).get("cursor") if url else None
    return cursors[0] if cursors else ""
