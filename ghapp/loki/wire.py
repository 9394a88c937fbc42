"""What a store that answers as Loki does says: lines, in streams. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from ghapp.log import redact

BILLION = 1_000_000_000
LONGEST_LINE = 1000
LONGEST_READ = 8 * LONGEST_LINE
"""Of a line, when it is searched for secrets: they are found at its end, and a line of megabytes costs nothing."""


class _Entry(msgspec.Struct, array_like=True):
    """`[nanoseconds, line]`; structured metadata may follow."""

    at: str
    line: str


class _Stream(msgspec.Struct):
    stream: dict[str, str]
    values: list[_Entry]


class _Data(msgspec.Struct):
    resultType: str  # noqa: N815 - Loki's spelling
    result: list[msgspec.Raw]


class _Answer(msgspec.Struct):
    status: str
    data: _Data


class LogLine(NamedTuple):
    """A line of a stream: when (nanoseconds since the epoch), whose (a unit of the journal; else empty), and what."""

    at: int
    unit: str
    text: str


_decode = msgspec.json.Decoder(_Answer).decode
_decode_stream = msgspec.json.Decoder(_Stream).decode


def read(body: bytes) -> list[LogLine]:
    """The lines of an answer, in no order.

    Raises:
        ValueError: it is not what Loki's API describes (`msgspec.DecodeError` is one).
    """
    answer = _decode(body)
    if answer.status != "success" or answer.data.resultType != "streams":
        raise ValueError(answer.data.resultType)
    lines: list[LogLine] = []
    for row in answer.data.result:
        stream = _decode_stream(row)
        unit = stream.stream.get("unit", "")
        lines += [LogLine(int(entry.at), unit, _shown(entry.line)) for entry in stream.values]
    return lines


def _shown(line: str) -> str:
    """Without what looks like a secret, and not longer than a record has room for."""
    line = redact(line[:LONGEST_READ].rstrip())
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"


def told(line: LogLine) -> str:
    """A line as it is kept: with its time and its unit."""
    at = datetime.fromtimestamp(line.at / BILLION, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return " ".join(each for each in (at, line.unit and f"{line.unit}:", line.text) if each)


def within(lines: Iterable[str], room: int) -> list[str]:
    """As many of the first lines as have room."""
    kept: list[str] = []
    for line in lines:
        room -= len(line)
        if room < 0:
            break
        kept.append(line)
    return kept
