"""What a request says of the watch it wants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ghapp.sandbox.cluster.lists import number, version_number
from ghapp.sandbox.cluster.requests import is_true
from ghapp.sandbox.cluster.status import StatusCause, StatusError, invalid_as

DEFAULT_SECONDS = 1800
"""How long a watch lasts that says nothing: the real one takes something between this and its double."""


class WatchOptions(NamedTuple):
    """`version` None is the most recent; `seconds` is how long it may last."""

    version: int | None = None
    bookmarks: bool = False
    seconds: float = DEFAULT_SECONDS
    announces_start: bool = False
    """`sendInitialEvents=true`: what is there comes first, and a bookmark says when that was all."""
    omits_start: bool = False
    """`sendInitialEvents=false`: what is there does not come at all."""


def options(query: Mapping[str, str]) -> WatchOptions:
    """Reads them; Refusal when they cannot be or contradict each other."""
    said = query.get("resourceVersion", "")
    version = version_number(said) if said else 0
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
