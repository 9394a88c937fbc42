"""How many entries of each part of an audit log a page shows."""

from __future__ import annotations

from starlette.requests import Request

from ghapp.store.audit import MOST

LATEST = 20
"""On pages that are live."""

ALL_ENTRIES = "audit=all"
"""The query of a page with all entries."""


def shows_latest_entries(request: Request) -> bool:
    """True unless the page is asked for with all entries; then it is not live."""
    return request.query_params.get("audit") != "all"


def most_entries(request: Request) -> int:
    """Returns how many entries of each part are asked for."""
    return LATEST if shows_latest_entries(request) else MOST
