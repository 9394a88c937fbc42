"""Reads a whole list page by page: complete, or an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ghapp.cluster.request import ClusterRequest
from ghapp.cluster.transport import ClusterTransport
from ghapp.cluster.watch_events import Listed
from ghapp.cluster.wire.envelope import ObjectPage
from ghapp.decoding import LeftOut, LeftOutRows
from ghapp.errors import ClusterUnavailableError, ResourceVersionExpiredError

T = TypeVar("T")

PER_PAGE = 500
MOST_PAGES = 1000

Read = Callable[[bytes, float | None], ObjectPage[T]]
"""Parses a page of a list, with the time of the answer."""


async def listed(
    transport: ClusterTransport, call: ClusterRequest, read: Read[T], left_out: LeftOutRows, selector: str = ""
) -> Listed[T]:
    """Returns the whole list, and adds objects that cannot be read to `left_out`.

    All pages show the state of the first one, which the server keeps for minutes.

    Raises:
        ClusterError: a page could not be read; there is no partial result.
    """
    try:
        found = await _all_pages(transport, call, read, selector)
    except ResourceVersionExpiredError:
        found = await _all_pages(transport, call, read, selector)
    left_out.add(found.left_out)
    return found


async def _all_pages(transport: ClusterTransport, call: ClusterRequest, read: Read[T], selector: str) -> Listed[T]:
    params: dict[str, Any] = {"limit": PER_PAGE, **({"labelSelector": selector} if selector else {})}
    items, odd = list[T](), list[LeftOut]()
    version = ""
    for _ in range(MOST_PAGES):
        answer = await transport.request(call, **params)
        if answer is None:
            raise ClusterUnavailableError(f"{call}: the API server answered 404 for a list")
        page = read(*answer)
        items += page.items
        odd += page.left_out
        version = version or page.version  # of the first page: a watch from it misses no later change
        if not page.next:
            return Listed(items, version, answer.at, tuple(odd))
        params["continue"] = page.next
    raise ClusterUnavailableError(f"{call}: the list has more than {MOST_PAGES:,} pages, or no end")
