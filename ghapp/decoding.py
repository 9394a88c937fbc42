"""Decodes JSON that other programs wrote. One odd row of it costs itself alone.

`decode` is for what is usable only as a whole. `RowDecoder` leaves out what does not have its shape: an optional field
alone, an item of a list alone, and the smallest of them around a mandatory field. What was left out is returned with
the rest, so that the reader can judge what it proves, and `LeftOutRows` counts it.
"""

from __future__ import annotations

import json
import re
import types
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec

T = TypeVar("T")

LARGEST = 2**63 - 1
"""The largest integer that records and Redis hold."""

LONGEST_TEXT = 4096
"""Characters of an address, a sentence or a list of names."""

LONGEST_NAME = 512
"""Characters of a name or a label. GitHub's own have at most 256."""

MOST_LABELS = 128
"""Labels of a runner or a job. GitHub takes up to 100 of one's own for a runner, and adds a few."""

MOST_ODD_ITEMS = 1_000
"""Items of one list that are left out. With more, the list is none: each one costs time."""

Id = Annotated[int, msgspec.Meta(gt=0, le=LARGEST)]
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
"""Also of ids that are 0 where there is none."""

Text = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]

Kind = Literal[
    "runner",
    "installation",
    "delivery",
    "delivery-attempt",
    "job",
    "annotation",
    "workflow-run",
    "check-run",
    "repository",
    "account",
    "hosted-runner",
    "runner-group",
    "runner-version",
    "app",
    "user-installation",
    "user-repository",
    "pod",
    "ephemeral-runner",
    "ephemeral-runner-set",
    "autoscaling-runner-set",
    "log-stream",
]
"""The kinds of rows, as metrics and `ghapp doctor` name them."""

_CONTENT = re.compile(r"(?<=Invalid enum value) '.*'", re.DOTALL)
"""What msgspec quotes of the content."""

_NUL, _REPLACEMENT = rb"\u0000", rb"\ufffd"

_LONGEST_NUMBER = 20
"""Digits of an integer. Longer ones become floats, which no field of ours takes for an integer."""


def decode(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw) -> T:
    """Decodes JSON; whatever is wrong with it is a `DecodeError`.

    msgspec itself raises `RecursionError` for some thousand nested brackets, also in fields that no type names, and
    `UnicodeDecodeError` for text that is not UTF-8.

    Raises:
        msgspec.DecodeError: not JSON, not of the decoder's type, nested too deeply, or not UTF-8.
    """
    try:
        return decoder.decode(body)
    except RecursionError:
        raise msgspec.DecodeError("the JSON is nested too deeply") from None
    except UnicodeDecodeError:
        raise msgspec.DecodeError("the JSON is not UTF-8") from None


def _without_nul(body: bytes | msgspec.Raw) -> bytes | msgspec.Raw:
    """Returns JSON without the character NUL, by which some records and scripts separate texts, in any text of it."""
    encoded = bytes(body)
    if b"\\" not in encoded or _NUL not in encoded:  # looking for one byte takes a fifth of the time
        return body
    return encoded.replace(_NUL, _REPLACEMENT)


class LeftOut(NamedTuple):
    """A row, or a field of one, that was left out.

    Attributes:
        kind: the kind of row.
        field: the path to what is odd, as `runners[3].id`; empty for the answer itself.
        why: what is odd about it; names types and bounds, never content.
        is_row: True if a whole row was left out, False if a part of one.
        row: the untyped row that was left out.
    """

    kind: Kind
    field: str
    why: str
    is_row: bool = False
    row: Any = None


class Decoded(NamedTuple, Generic[T]):
    """What could be decoded, and what was left out of it."""

    value: T
    left_out: tuple[LeftOut, ...] = ()


class _OddError(Exception):
    """A value does not have its shape, at this path and for this reason."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why


class RowDecoder(Generic[T]):
    """Decodes one shape at full speed, and looks for what is odd only if that fails."""

    def __init__(self, kind: Kind, shape: Any, *, whole_rows: bool = False) -> None:
        """Creates a decoder.

        Args:
            kind: the kind of row.
            shape: a `msgspec.Struct`, or a list of them. A field whose absence could harm has no default there.
            whole_rows: True: a row with any odd field is left out as a whole. Only for lists.
        """
        self.kind, self._shape, self._whole_rows = kind, shape, whole_rows
        self._strict: msgspec.json.Decoder[T] = msgspec.json.Decoder(shape)

    def decode(self, body: bytes | msgspec.Raw) -> Decoded[T]:
        """Decodes a body.

        Raises:
            msgspec.DecodeError: not JSON, or without the shape in what is mandatory of the answer itself.
        """
        body = _without_nul(body)
        try:
            return Decoded(decode(self._strict, body))
        except msgspec.DecodeError as error:
            untyped = _untyped(body, error)
        search = _Search(self.kind, whole_rows=self._whole_rows)
        try:
            value = search.fitted(self._shape, untyped, "")
        except _OddError as odd:
            raise msgspec.ValidationError(f"{odd.why} - at `{odd.path}`" if odd.path else odd.why) from None
        return Decoded(self._strict.decode(msgspec.json.encode(value)), tuple(search.left_out))


class _Search:
    """Reduces an untyped value to what fits its shape."""

    def __init__(self, kind: Kind, *, whole_rows: bool) -> None:
        self._kind, self._whole_rows = kind, whole_rows
        self.left_out: list[LeftOut] = []

    def fitted(self, shape: Any, value: Any, path: str, *, in_row: bool = False) -> Any:
        """Returns the value without what does not fit; raises `_OddError` if that is not possible."""
        why = _why_odd(shape, value)
        if why is None:
            return value
        shape, most = _bare(shape)
        if most is not None and isinstance(value, list | dict) and len(value) > most and not self._whole_rows:
            self.left_out.append(LeftOut(self._kind, path, f"more than {most:,} items"))
            value = value[:most] if isinstance(value, list) else dict(islice(value.items(), most))
        inner = None if self._whole_rows and in_row else _inside(shape, value)
        if inner is None:
            raise _OddError(path, why)
        if isinstance(value, dict) and _is_struct(inner):
            return self._fitted_fields(inner, value, path, in_row=in_row)
        (item,) = get_args(inner)[-1:] if get_origin(inner) is dict else get_args(inner)[:1]
        if isinstance(value, dict):
            named = ((key, each, f"{path}[…]") for key, each in value.items())
            return dict(self._fitted_items(item, named, are_rows=False))
        numbered = ((at, each, f"{path}[{at}]") for at, each in enumerate(value))
        return [each for _, each in self._fitted_items(item, numbered, are_rows=not in_row)]

    def _fitted_fields(self, shape: Any, value: Mapping[str, Any], path: str, *, in_row: bool) -> dict[str, Any]:
        kept = {}
        for field in msgspec.structs.fields(shape):
            name = field.encode_name
            if name not in value:
                continue
            try:
                place = f"{path}.{name}" if path else name
                kept[name] = self.fitted(field.type, value[name], place, in_row=in_row)
            except _OddError as odd:
                if field.required:
                    raise
                self.left_out.append(LeftOut(self._kind, odd.path, odd.why))
        if (why := _why_odd(shape, kept)) is not None:  # it lacks a mandatory field
            raise _OddError(path, why)
        return kept

    def _fitted_items(
        self, shape: Any, items: Iterable[tuple[Any, Any, str]], *, are_rows: bool
    ) -> list[tuple[Any, Any]]:
        kept, odd_items = [], 0
        for key, each, place in items:
            before = len(self.left_out)
            try:
                kept.append((key, self.fitted(shape, each, place, in_row=True)))
            except _OddError as odd:
                del self.left_out[before:]  # fields of the row that is left out now
                row = each if are_rows else None
                odd_items += 1
                if odd_items > MOST_ODD_ITEMS:
                    raise _OddError(odd.path, f"more than {MOST_ODD_ITEMS:,} items are odd; {odd.why}") from None
                self.left_out.append(LeftOut(self._kind, odd.path, odd.why, are_rows, row))
        return kept


def _bare(shape: Any) -> tuple[Any, int | None]:
    """Returns a shape without its bounds, and the maximum number of its items; None if that is not bounded."""
    if get_origin(shape) is not Annotated:
        return shape, None
    bare, *bounds = get_args(shape)
    return bare, next((each.max_length for each in bounds if isinstance(each, msgspec.Meta)), None)


def _inside(shape: Any, value: Any) -> Any:
    """Returns the shape whose parts may be left out alone: a struct, a list, a tuple or a dict; None for others."""
    members = get_args(shape) if get_origin(shape) in (Union, types.UnionType) else (shape,)
    for member in members:
        origin = get_origin(member)
        if isinstance(value, dict) and (origin is dict or _is_struct(member)):
            return member
        is_list = origin is list or (origin is tuple and get_args(member)[1:] == (...,))
        if isinstance(value, list) and is_list:
            return member
    return None


def _is_struct(shape: Any) -> bool:
    origin = get_origin(shape) or shape
    return isinstance(origin, type) and issubclass(origin, msgspec.Struct)


def _why_odd(shape: Any, value: Any) -> str | None:
    """Returns why a value does not have its shape, without a path; None if it has."""
    try:
        _decoder(shape)(msgspec.json.encode(value))
    except UnicodeEncodeError:
        return "a text with half of a surrogate pair"
    except (ValueError, OverflowError) as error:
        return _CONTENT.sub("", str(error).partition(" - at ")[0])
    return None


@lru_cache(maxsize=1024)
def _decoder(shape: Any) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(shape).decode


def _untyped(body: bytes | msgspec.Raw, error: msgspec.DecodeError) -> Any:
    """Decodes JSON without types, also with numbers out of range and with half a surrogate pair in a text.

    Raises:
        msgspec.DecodeError: `error`, if it is not JSON.
    """
    try:
        return json.loads(bytes(body), parse_int=_integer)
    except (ValueError, RecursionError):
        raise error from None


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else float(digits)


class LeftOutRows:
    """What was left out since it was last recorded: how often by kind, and the last of each kind."""

    def __init__(self) -> None:
        self._counts: Counter[Kind] = Counter()
        self._last: dict[Kind, LeftOut] = {}

    def add(self, left_out: Sequence[LeftOut]) -> None:
        """Adds what one answer or delivery lacks."""
        for each in left_out:
            self._counts[each.kind] += 1
            self._last[each.kind] = each._replace(row=None)

    def take(self) -> dict[Kind, tuple[int, LeftOut]]:
        """Returns the number and the last one by kind, and begins again."""
        taken = {kind: (count, self._last[kind]) for kind, count in self._counts.items()}
        self._counts.clear()
        self._last.clear()
        return taken
