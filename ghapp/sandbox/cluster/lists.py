"""A list: of now or of a version, whole or page by page.

Pages of one list are all of one version. A `limit` counts matching objects, and `continue` means that there are more
objects, matching or not: a last page may be empty. With `resourceVersion=0` the real server answers from its cache and
ignores `limit`; so does this one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from ghapp.sandbox.cluster.kinds import ObjectKind
from ghapp.sandbox.cluster.objects import IN_ORDER, Key, Obj, Stored
from ghapp.sandbox.cluster.selectors import Selector
from ghapp.sandbox.cluster.status import StatusCause, StatusError, bad_request, expired, invalid_as, too_large_version
from ghapp.sandbox.cluster.store import Store, VersionForgotten

CONTINUE_FORMAT = "meta.k8s.io/v1"
ANY_VERSION = -1
"""In a token: continue with the present objects, although their version is another than that of the first page."""

TOO_OLD = "The resourceVersion for the provided list is too old."
CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
    " the continue parameter, or use the continue token in this response to retrieve the remainder of the results."
    " Continuing with the provided token results in an inconsistent list - objects that were created, modified, or"
    " deleted between the time the first chunk was returned and now may show up in the list."
)


class ListOptions(NamedTuple):
    """The options of a list request."""

    limit: int = 0
    continuation: str = ""
    version: str = ""
    match: str = ""


class _Start(NamedTuple):
    """The start of a page: the version of the list, and the name after which to continue."""

    version: int
    after: str | None


def options(query: Mapping[str, str]) -> ListOptions:
    """Reads the options; StatusError for invalid or contradicting ones."""
    found = ListOptions(
        number(query.get("limit", ""), "limit"),
        query.get("continue", ""),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
    )
    if query.get("sendInitialEvents"):
        why = "Forbidden: sendInitialEvents is forbidden for list"
        causes = [StatusCause("FieldValueForbidden", why, "sendInitialEvents")]
        raise invalid_as("ListOptions", "meta.k8s.io", "", causes)
    if found.match:
        _check_match(found)
    if found.continuation and found.version not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    return found


def number(text: str, name: str) -> int:
    """Returns a number of a query, 0 when it is missing; StatusError (400) when it is not a number."""
    if not text:
        return 0
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax (in {name})') from None


def version_number(text: str) -> int:
    """Returns a resourceVersion; StatusError when it is invalid, which is a 500 on the real server."""
    if text.isascii() and text.isdigit():
        return int(text)
    why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
    raise StatusError(500, "", why)


def page(store: Store, kind: ObjectKind, selector: Selector, wanted: ListOptions) -> bytes:
    """Returns the list, as JSON."""
    start = _start(store, wanted)
    objects = _objects(store, kind, start, wanted)
    meant = (key for key in objects if not selector.namespace or key.namespace == selector.namespace)
    keys = sorted(meant, key=IN_ORDER)
    if start.after is not None:
        keys = [key for key in keys if key.path > start.after]
    limit = 0 if wanted.version == "0" and not wanted.continuation else max(0, wanted.limit)
    found: list[Stored] = []
    left = 0
    for at, key in enumerate(keys):
        if limit and len(found) == limit:
            left = len(keys) - at
            break
        if selector.matches(objects[key]):
            found.append(objects[key])
    meta: Obj = {"resourceVersion": str(start.version)}
    if left:
        meta["continue"] = _token(start.version, found[-1].key.path)
        if not selector.selects:
            meta["remainingItemCount"] = left
    return document(kind, meta, found)


def document(kind: ObjectKind, meta: Obj, found: list[Stored]) -> bytes:
    """Returns a list object of these."""
    head = msgspec.json.encode({"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": meta})
    return head[:-1] + b',"items":[' + b",".join([stored.item for stored in found]) + b"]}"


def _start(store: Store, wanted: ListOptions) -> _Start:
    if wanted.continuation:
        start = _read_token(wanted.continuation)
        return start._replace(version=store.version) if start.version == ANY_VERSION else start
    if wanted.version in ("", "0"):
        return _Start(store.version, None)
    asked = version_number(wanted.version)
    if asked > store.version:
        raise too_large_version(asked, store.version)
    exact = wanted.match == "Exact" or (not wanted.match and wanted.limit > 0)
    return _Start(asked if exact else store.version, None)


def _objects(store: Store, kind: ObjectKind, start: _Start, wanted: ListOptions) -> Mapping[Key, Stored]:
    if start.version == store.version:
        return store.all(kind)
    try:
        return store.snapshot(kind, start.version)
    except VersionForgotten:
        if start.after is None or not wanted.continuation:
            raise expired(TOO_OLD) from None
        raise expired(CONTINUE_TOO_OLD, _token(ANY_VERSION, start.after)) from None


def _token(version: int, last: str) -> str:
    encoded = msgspec.json.encode({"v": CONTINUE_FORMAT, "rv": version, "start": last + "\0"})
    return base64.urlsafe_b64encode(encoded).rstrip(b"=").decode()


def _read_token(token: str) -> _Start:
    try:
        decoded = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        version = int(decoded["rv"]) if decoded["v"] == CONTINUE_FORMAT else 0
        start = _Start(version, decoded["start"].removesuffix("\0"))
    except (binascii.Error, msgspec.DecodeError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    if not start.version:
        why = f"server does not recognize this encoded version {decoded['v']!r}"
        raise bad_request(f"invalid continue token: continue key is not valid: {why}")
    return start


def _check_match(wanted: ListOptions) -> None:
    """Checks that `resourceVersionMatch` comes only with options that it supports."""
    if not wanted.version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif wanted.continuation:
        why = "resourceVersionMatch is forbidden when continue is provided"
    elif wanted.match not in ("Exact", "NotOlderThan"):
        message = f'Unsupported value: "{wanted.match}": supported values: "", "Exact", "NotOlderThan"'
        raise invalid_as(
            "ListOptions", "meta.k8s.io", "", [StatusCause("FieldValueNotSupported", message, "resourceVersionMatch")]
        )
    elif wanted.match == "Exact" and wanted.version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    else:
        return
    raise invalid_as(
        "ListOptions",
        "meta.k8s.io",
        "",
        [StatusCause("FieldValueForbidden", f"Forbidden: {why}", "resourceVersionMatch")],
    )
