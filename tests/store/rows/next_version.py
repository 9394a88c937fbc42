"""Simulates the next version: it appends fields to every record that it writes, at every depth."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from importlib import import_module
from typing import Any

import msgspec

import ghapp.store
from ghapp.github import deliveries
from ghapp.store.codec import CODECS, Codec

APPENDED = ({"of": "the next version", "numbers": [1, 2.5]}, None, "more")
"""The value that is appended to an array; a map gets the value under a new name."""

ABSENT = (None, msgspec.UNSET)
"""Fields of a structure that are omitted."""

NAME = "field_of_the_next_version"


def with_appended_fields(record: Any) -> Any:
    """A record as builtins, with fields appended to it and to every record within it."""
    if isinstance(record, Enum):
        return record.value
    if isinstance(record, msgspec.Struct):
        found = {each: getattr(record, each) for each in record.__struct_fields__}
        return {
            **{name: with_appended_fields(value) for name, value in found.items() if value not in ABSENT},
            NAME: APPENDED,
        }
    if is_dataclass(record):
        return {
            **{field.name: with_appended_fields(getattr(record, field.name)) for field in fields(record)},
            NAME: APPENDED,
        }
    if isinstance(record, tuple) and hasattr(record, "_fields"):
        return [*map(with_appended_fields, record), *APPENDED]
    if isinstance(record, tuple | list | frozenset):
        return [with_appended_fields(each) for each in record]
    if isinstance(record, dict):
        return {name: with_appended_fields(value) for name, value in record.items()}
    return record


def encode(codec: Codec[Any], record: Any) -> bytes:
    """Encodes a record as the next version does."""
    body = msgspec.msgpack.encode(with_appended_fields(record))
    return body if codec.wrap is None else codec.wrap(record, body)


class _Encoder:
    """Replaces the encoder of the inbox's facts."""

    @staticmethod
    def encode(delivery: Any) -> bytes:
        return msgspec.json.encode(with_appended_fields(delivery))


def become() -> None:
    """From now on this process writes as the next version does."""
    for module in pkgutil.iter_modules(ghapp.store.__path__):
        import_module(f"ghapp.store.{module.name}")
    for codec in CODECS.values():
        codec.encode = partial(encode, codec)
    deliveries._encoder = _Encoder()


@contextmanager
def writing() -> Iterator[None]:
    """Writes as the next version does while the block runs."""
    present = {name: codec.encode for name, codec in CODECS.items()}, deliveries._encoder
    become()
    try:
        yield
    finally:
        for name, codec in CODECS.items():
            codec.encode = present[0].get(name, msgspec.msgpack.encode)
        deliveries._encoder = present[1]
