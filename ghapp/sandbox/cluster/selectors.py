"""Label and field selectors of lists and watches.

The grammar and the refusals are the real server's: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from ghapp.sandbox.cluster.kinds import ObjectKind
from ghapp.sandbox.cluster.objects import Stored, value_at
from ghapp.sandbox.cluster.status import StatusError, bad_request

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_PREFIX = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
_KEY = re.compile(rf"(?:{_PREFIX}/)?{_NAME}")
_VALUE = re.compile(rf"(?:{_NAME})?")
_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[^\s,()=!<>]+")
_OPERATOR = re.compile(r"==|=|!=")
_FIELD = re.compile(r"(?P<field>[^=!]+)(?P<operator>==|=|!=)(?P<value>.*)")


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
