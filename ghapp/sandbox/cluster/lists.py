"""A list: of now or of a version, whole or page by page; with label and field selectors, as of watches.

Pages of one list are all of one version. A `limit` counts matching objects, and `continue` means that there are more
objects, matching or not: a last page may be empty. With `resourceVersion=0` the real server answers from its cache and
ignores `limit`; so does this one.

The grammar of selectors and the refusals are the real server's: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`,
`a`, `!a`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from ghapp.sandbox.cluster.kinds import ObjectKind
from ghapp.sandbox.cluster.status import StatusCause, StatusError, bad_request, expired, invalid_as, too_large_version
from ghapp.sandbox.cluster.store import IN_ORDER, Key, Obj, Store, Stored, VersionForgotten, value_at

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_PREFIX = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
_KEY = re.compile(rf"(?:{_PREFIX}/)?{_NAME}")
_VALUE = re.compile(rf"(?:{_NAME})?")
_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[^\s,()=!<>]+")
_OPERATOR = re.compile(r"==|=|!=")
_FIELD = re.compile(r"(?P<field>[^=!]+)(?P<operator>==|=|!=)(?P<value>.*)")

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


class Requirement(NamedTuple):
    """One requirement on labels: `in`, `notin`, `exists` or `!`."""

    key: str
    operator: str
    values: Collection[str] = ()

    def holds(self, labels: dict[str, str]) -> bool:
        """True if these labels meet it; a missing label differs from every value."""
        if self.operator == "in":
            return self.key in labels and labels[self.key] in self.values
        if self.operator == "notin":
            return self.key not in labels or labels[self.key] not in self.values
        return (self.key in labels) == (self.operator == "exists")


class FieldRequirement(NamedTuple):
    """One requirement on a field; a missing field has an empty value."""

    path: tuple[str, ...]
    equal: bool
    value: str

    def holds(self, stored: Stored) -> bool:
        """True if this object's field meets it."""
        return ((value_at(stored.value, self.path) or "") == self.value) == self.equal


class Selector(NamedTuple):
    """The selected objects: of a namespace (empty: any), with all of these labels and fields."""

    namespace: str = ""
    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()

    @property
    def selects(self) -> bool:
        """True if it selects by more than the namespace."""
        return bool(self.labels or self.fields)

    @property
    def name(self) -> str:
        """Returns the one name that it selects, for authorization; empty for any."""
        named = (wanted.value for wanted in self.fields if wanted.equal and wanted.path == ("metadata", "name"))
        return next(named, "")

    def matches(self, stored: Stored) -> bool:
        """True if it selects this object."""
        meta = stored.value["metadata"]
        if self.namespace and meta.get("namespace") != self.namespace:
            return False
        if self.labels:
            labels = meta.get("labels") or {}
            if not all(wanted.holds(labels) for wanted in self.labels):
                return False
        return all(wanted.holds(stored) for wanted in self.fields)


def parse(kind: ObjectKind, namespace: str, labels: str, fields: str) -> Selector:
    """Returns the selectors of a request; StatusError (400) when they are invalid."""
    return Selector(namespace, _Labels(labels).parse(), _fields(kind, fields))


def _fields(kind: ObjectKind, text: str) -> tuple[FieldRequirement, ...]:
    found: list[FieldRequirement] = []
    for term in text.split(","):
        if not term:
            continue
        match = _FIELD.fullmatch(term)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        if match["field"] not in kind.fields:
            raise bad_request(f"field label not supported: {match['field']}")
        found.append(FieldRequirement(kind.fields[match["field"]], match["operator"] != "!=", match["value"]))
    return tuple(found)


class _Labels:
    """Parses a label selector from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parse(self) -> tuple[Requirement, ...]:
        self._skip()
        found: list[Requirement] = []
        while self._at < len(self._text):
            found.append(self._requirement())
            self._skip()
            if self._at == len(self._text):
                break
            self._expect(",", "',' or 'end of string'")
            self._skip()
            if self._at == len(self._text):
                raise self._refusal("found '', expected: identifier after ','")
        return tuple(found)

    def _requirement(self) -> Requirement:
        if self._text[self._at] == "!":
            self._at += 1
            self._skip()
            return Requirement(self._key(), "!")
        key = self._key()
        self._skip()
        if operator := _OPERATOR.match(self._text, self._at):
            self._at = operator.end()
            self._skip()
            return Requirement(key, "notin" if operator[0] == "!=" else "in", (self._value(),))
        word = _WORD.match(self._text, self._at)
        if word is None:
            return Requirement(key, "exists")
        if word[0] not in ("in", "notin"):
            raise self._refusal(f"found '{word[0]}', expected: in, notin, =, ==, !=, gt, lt")
        self._at = word.end()
        return Requirement(key, word[0], self._values())

    def _values(self) -> tuple[str, ...]:
        self._skip()
        self._expect("(", "'('")
        values: list[str] = []
        while True:
            self._skip()
            values.append(self._value())
            self._skip()
            if self._text.startswith(")", self._at):
                self._at += 1
                return tuple(values)
            self._expect(",", "',', or ')'")

    def _key(self) -> str:
        word = _WORD.match(self._text, self._at)
        if word is None:
            raise self._refusal(f"found '{self._text[self._at : self._at + 1]}', expected: !, identifier, or ','")
        if not _KEY.fullmatch(word[0]):
            raise self._refusal(f'key: Invalid value: "{word[0]}": name part must be a qualified name')
        self._at = word.end()
        return word[0]

    def _value(self) -> str:
        word = _WORD.match(self._text, self._at)
        value = word[0] if word else ""
        if not _VALUE.fullmatch(value):
            raise self._refusal(f'values[0]: Invalid value: "{value}": a valid label must be an empty string or a name')
        self._at += len(value)
        return value

    def _skip(self) -> None:
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at

    def _expect(self, token: str, wanted: str) -> None:
        if not self._text.startswith(token, self._at):
            raise self._refusal(f"found '{self._text[self._at : self._at + 1]}', expected: {wanted}")
        self._at += 1

    def _refusal(self, why: str) -> StatusError:
        return bad_request(f"unable to parse requirement: {why}")


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
