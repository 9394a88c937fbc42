"""The options of a watch request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ghapp.sandbox.cluster.lists import number, version_number
from ghapp.sandbox.cluster.requests import is_true
from ghapp.sandbox.cluster.status import StatusCause, StatusError, invalid_as

DEFAULT_SECONDS = 1800
"""The default duration of a watch: the real server chooses between this and its double."""


class WatchOptions(NamedTuple):
    """`version` None is the most recent; `seconds` is the maximum duration."""

    version: int | None = None
    bookmarks: bool = False
    seconds: float = DEFAULT_SECONDS
    announces_start: bool = False
    """`sendInitialEvents=true`: the present objects come first, and a bookmark marks their end."""
    omits_start: bool = False
    """`sendInitialEvents=false`: the present objects are not sent."""


def options(query: Mapping[str, str]) -> WatchOptions:
    """Reads the options; StatusError for invalid or contradicting ones."""
    version_text = query.get("resourceVersion", "")
    version = version_number(version_text) if version_text else 0
    match, initial = query.get("resourceVersionMatch", ""), query.get("sendInitialEvents")
    if match and initial is None:
        raise _forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
    if initial is not None and match != "NotOlderThan":
        raise _forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    announces = is_true(initial)
    return WatchOptions(
        None if version == 0 or announces else version,
        is_true(query.get("allowWatchBookmarks")),
        number(query.get("timeoutSeconds", ""), "timeoutSeconds") or DEFAULT_SECONDS,
        announces,
        initial is not None and not announces,
    )


def _forbidden(why: str) -> StatusError:
    causes = [StatusCause("FieldValueForbidden", f"Forbidden: {why}", "resourceVersionMatch")]
    return invalid_as("ListOptions", "meta.k8s.io", "", causes)
