"""The storage format of records: one codec per kind of record, and the only module that encodes, decodes or seals them.

A NamedTuple is stored as a msgpack array by position, a dataclass as a map by field name. Fields are only ever
appended, and an appended field has a default. A version of this program therefore reads the rows of its neighbours:

- A row of the version before has fewer fields. They get their defaults.
- A row of the version after has more fields, or more keys in a map, at any depth. They are ignored.
- A member of an enumeration that this version does not know is replaced as its codec says (`unknown`).

A row of the present version is decoded strictly, at full speed. Only if that fails, the row is decoded without types,
reduced to the fields that this version knows, and decoded strictly again. If that fails too, the row is unreadable.

A row of a NamedTuple ends with its last field that has not its default, and a whole number of seconds is stored as an
integer: each version reads both as it reads all fields.

A version that rewrites a row of its successor drops the fields that it does not know. An appended field must
therefore be safe to lose for as long as two versions run side by side.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Generic, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec import inspect

Record = TypeVar("Record")
Key = TypeVar("Key")

DROPPED = None
"""In `unknown`: the smallest optional value around the member becomes None, or the sequence loses that item."""

Unknown = Mapping[Any, Any]
"""By enumeration, or by the frozenset of a `Literal`'s values: the substitute of an unknown member, or `DROPPED`."""

_NONE_UNKNOWN: Unknown = {}

_Fit = Callable[[Any], Any]

_NO_DEFAULT = object()
_BELOW = 2.0**32

_encode = msgspec.msgpack.Encoder().encode
_decode_untyped = msgspec.msgpack.Decoder().decode

_REFUSED = (msgspec.DecodeError, ValueError, IndexError, RecursionError, zlib.error)
"""Errors of decoding bytes that are not a record. Invalid UTF-8 is a `ValueError`."""

NONCE_BYTES = 12


class UnreadableError(Exception):
    """The stored bytes are not a record of their kind. Never leaves the store."""


class _UnknownMemberError(Exception):
    """A member of an enumeration that this version does not know, and that must be dropped."""


CODECS: dict[str, Codec[Any]] = {}
"""All codecs of imported stores, by the name of their kind of record."""


class Codec(Generic[Record]):
    """Encodes and decodes one kind of record.

    Attributes:
        name: of the kind, as shown in metrics and `ghapp doctor`.
        shape: the type of the record.
        encode: encodes a record to its row.
        wrap: makes the row of a record and its msgpack part; None: that part is the row.
    """

    def __init__(
        self,
        name: str,
        shape: type[Record],
        *,
        unknown: Unknown = _NONE_UNKNOWN,
        body: Callable[[bytes], bytes] | None = None,
        wrap: Callable[[Record, bytes], bytes] | None = None,
    ) -> None:
        """Registers the codec of a kind.

        Args:
            name: of the kind; unique.
            shape: a NamedTuple, a dataclass, or a tuple of them.
            unknown: substitutes of unknown members; every enumeration in `shape` needs an entry.
            body: extracts the msgpack part of a row that has more than that.
            wrap: makes such a row.

        Raises:
            LookupError: an enumeration in `shape` has no entry in `unknown`.
        """
        self.name, self.shape, self.wrap = name, shape, wrap
        encode = _short_encode(shape) if hasattr(shape, "_fields") else _encode
        self.encode: Callable[[Record], bytes] = encode if wrap is None else lambda record: wrap(record, encode(record))
        self._strict: Callable[[bytes], Record] = msgspec.msgpack.Decoder(shape).decode
        self._fit = _fitting(inspect.type_info(shape), unknown) or _same
        self._body = body
        CODECS[name] = self

    def decode(self, row: bytes) -> Record:
        """Decodes a row that was written by this version, the previous or the next one.

        Raises:
            UnreadableError: the row is not a record of this kind.
        """
        try:
            body = row if self._body is None else self._body(row)
            try:
                return self._strict(body)
            except msgspec.ValidationError:
                return self._strict(_encode(self._fit(_decode_untyped(body))))
        except (*_REFUSED, _UnknownMemberError) as error:
            raise UnreadableError(f"not a {self.name}: {error}") from error

    def decode_all(self, rows: Mapping[Key, bytes]) -> tuple[dict[Key, Record], dict[Key, bytes]]:
        """Decodes many rows; returns the records, and the unreadable rows as they are stored."""
        strict = self._strict
        if self._body is None:
            try:
                return {key: strict(row) for key, row in rows.items()}, {}
            except _REFUSED:
                pass
        records: dict[Key, Record] = {}
        unreadable: dict[Key, bytes] = {}
        for key, row in rows.items():
            try:
                records[key] = self.decode(row)
            except UnreadableError:
                unreadable[key] = row
        return records, unreadable


def _short_encode(shape: Any) -> Callable[[Any], bytes]:
    """Returns the encoder of a NamedTuple: without the last fields that have their defaults.

    Of a runner's 50 fields most have their defaults: its row has 95 to 137 bytes instead of 127 to 169.
    """
    defaults = tuple(shape._field_defaults.get(name, _NO_DEFAULT) for name in shape._fields)
    described: Any = inspect.type_info(shape)
    floats = [at for at, field in enumerate(described.fields) if _may_be_float(field.type)]

    def encode(record: Any) -> bytes:
        length = len(record)
        while length and record[length - 1] == defaults[length - 1]:
            length -= 1
        kept = [*record[:length]]
        for at in floats:
            if at >= length:
                break
            number = kept[at]
            # A whole number takes 5 bytes as an integer, and 9 as a float; a larger one as many either way.
            if number is not None and 0 <= number < _BELOW and number.is_integer():
                kept[at] = int(number)
        return _encode(kept)

    return encode


def _may_be_float(shape: inspect.Type) -> bool:
    types = shape.types if isinstance(shape, inspect.UnionType) else (shape,)
    return any(isinstance(each, inspect.FloatType) for each in types)


def _same(value: Any) -> Any:
    return value


def _fitting(shape: inspect.Type, unknown: Unknown) -> _Fit | None:
    """Returns a function that reduces an untyped value to the fields of `shape`; None if nothing needs reducing.

    It does not change values of other types: the strict decoder rejects them.
    """
    match shape:
        case inspect.NamedTupleType(fields=fields):
            return _fitting_array([field.type for field in fields], unknown)
        case inspect.TupleType(item_types=types):
            return _fitting_array(types, unknown)
        case inspect.DataclassType(fields=fields):
            return _fitting_map({field.encode_name: field.type for field in fields}, unknown)
        case inspect.EnumType(cls=cls):
            return _fitting_member({each.value for each in cls}, _replacement(cls, unknown))
        case inspect.LiteralType(values=values):
            return _fitting_member(set(values), _replacement(frozenset(values), unknown))
        case inspect.UnionType(types=types):
            return _fitting_union(types, unknown)
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return _fitting_items(item, unknown)
        case inspect.FrozenSetType(item_type=item) | inspect.SetType(item_type=item):
            return _fitting_items(item, unknown)
        case inspect.DictType(value_type=item):
            return _fitting_values(item, unknown)
    return None


def _replacement(enumeration: Any, unknown: Unknown) -> Any:
    if enumeration not in unknown:
        raise LookupError(f"`unknown` has no substitute for unknown members of {enumeration}")
    found = unknown[enumeration]
    return found.value if isinstance(found, Enum) else found


def _fitting_array(types: list[inspect.Type] | tuple[inspect.Type, ...], unknown: Unknown) -> _Fit:
    width = len(types)
    parts = [(at, fit) for at, each in enumerate(types) if (fit := _fitting(each, unknown)) is not None]

    def fit_array(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        kept = value[:width]
        for at, fit in parts:
            if at < len(kept):
                kept[at] = fit(kept[at])
        return kept

    return fit_array


def _fitting_map(types: Mapping[str, inspect.Type], unknown: Unknown) -> _Fit:
    parts = {name: fit for name, each in types.items() if (fit := _fitting(each, unknown)) is not None}

    def fit_map(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: parts[name](each) if name in parts else each for name, each in value.items() if name in types}

    return fit_map


def _fitting_member(members: set[Any], replacement: Any) -> _Fit:
    def fit_member(value: Any) -> Any:
        if not isinstance(value, str) or value in members:
            return value
        if replacement is DROPPED:
            raise _UnknownMemberError(value)
        return replacement

    return fit_member


def _fitting_union(types: tuple[inspect.Type, ...], unknown: Unknown) -> _Fit | None:
    """For optional values only: records have no other unions that need reducing."""
    fits = [fit for each in types if (fit := _fitting(each, unknown)) is not None]
    if not fits:
        return None
    (fit,) = fits

    def fit_optional(value: Any) -> Any:
        try:
            return fit(value)
        except _UnknownMemberError:
            return None

    return fit_optional


def _fitting_items(item: inspect.Type, unknown: Unknown) -> _Fit | None:
    fit = _fitting(item, unknown)
    if fit is None:
        return None

    def fit_items(value: Any) -> Any:
        return [each for _, each in _kept(enumerate(value), fit)] if isinstance(value, list) else value

    return fit_items


def _fitting_values(item: inspect.Type, unknown: Unknown) -> _Fit | None:
    fit = _fitting(item, unknown)
    if fit is None:
        return None

    def fit_values(value: Any) -> Any:
        return dict(_kept(value.items(), fit)) if isinstance(value, dict) else value

    return fit_values


def _kept(items: Any, fit: _Fit) -> list[tuple[Any, Any]]:
    """Returns the reduced items, without those to be dropped."""
    kept = []
    for key, value in items:
        try:
            kept.append((key, fit(value)))
        except _UnknownMemberError:
            continue
    return kept


def derived_key(private_key: str, purpose: str) -> bytes:
    """Returns 32 bytes for one purpose. `private_key` is the App's, as PEM."""
    return HKDF(SHA256(), length=32, salt=None, info=purpose.encode()).derive(private_key.encode())


class Seal(Generic[Record]):
    """Seals and opens records of one kind; each is bound to its key in Redis."""

    def __init__(self, codec: Codec[Record], private_key: str) -> None:
        self._codec, self._cipher = codec, AESGCM(derived_key(private_key, f"ghapp {codec.name}"))

    def close(self, key: str, record: Record) -> bytes:
        """Returns the sealed record, for this key in Redis."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, self._codec.encode(record), key.encode())

    def open(self, key: str, row: bytes | None) -> Record | None:
        """Returns the record; None if it was sealed for another key, by another App key, or is corrupt.

        Such a row is not set aside in the quarantine: opened, it would be a secret.
        """
        if row is None:
            return None
        try:
            return self._codec.decode(self._cipher.decrypt(row[:NONCE_BYTES], row[NONCE_BYTES:], key.encode()))
        except (InvalidTag, ValueError, UnreadableError):
            return None
