"""A whole list, read in parts: complete, or an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ghapp.cluster.request import ClusterRequest
from ghapp.cluster.transport import ClusterTransport
from ghapp.cluster.watch_events import Listed
from ghapp.cluster.wire.envelope import ObjectPage
from ghapp.errors import ClusterUnavailableError, VersionGoneError

T = TypeVar("T")

PER_PAGE = 500
MOST_PAGES = 1000

Read = Callable[[bytes, float | None], ObjectPage[T]]
"""Reads a part of a list, and takes note of when it was told."""


async def listed(transport: ClusterTransport, call: ClusterRequest, read: Read[T], selector: str = "") -> Listed[T]:
    """The whole list. Its later parts are of the same moment as the first, which the server keeps for minutes.

    Raises:
        ClusterError: some part cannot be had, and so none counts.
    """
    try:
        return await _parts(transport, call, read, selector)
    except VersionGoneError:
        return await _parts(transport, call, read, selector)


async def _parts(transport: ClusterTransport, call: ClusterRequest, read: Read[T], selector: str) -> Listed[T]:
    asked: dict[str, Any] = {"limit": PER_PAGE, **({"labelSelector": selector} if selector else {})}
    items: list[T] = []
    version = ""
    for _ in range(MOST_PAGES):
        answer = await transport.ask(call, **asked)
        if answer is None:
            raise ClusterUnavailableError(f"{call}: the cluster says that there is no such thing")
        page = read(*answer)
        items += page.items
        version = version or page.version  # the first: a watch from it misses nothing that came later
        if not page.next:
            return Listed(items, version, answer.at)
        asked["continue"] = page.next
    raise ClusterUnavailableError(f"{call}: the list has no end")
