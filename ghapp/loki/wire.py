"""Parses the streams and lines of Loki's API. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

import msgspec

from ghapp.decoding import LeftOutRows, RowDecoder
from ghapp.log import redact

BILLION = 1_000_000_000
LONGEST_LINE = 1000
LONGEST_READ = 8 * LONGEST_LINE
"""Characters of a line that are searched for secrets; limits the cost of a line of megabytes."""


class _Entry(msgspec.Struct, array_like=True):
    """`[nanoseconds, line]`; structured metadata may follow."""

    at: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,19}$")]
    line: str


class _Stream(msgspec.Struct):
    stream: dict[str, str]
    values: list[_Entry]


class _Data(msgspec.Struct):
    resultType: str  # noqa: N815 - Loki's spelling
    result: list[_Stream]


class _Answer(msgspec.Struct):
    status: str
    data: _Data


class LogLine(NamedTuple):
    """A line of a stream: its time (nanoseconds since the epoch), its journal unit (else empty), and its text."""

    at: int
    unit: str
    text: str


_answer = RowDecoder[_Answer]("log-stream", _Answer)


def read(body: bytes, left_out: LeftOutRows) -> list[LogLine]:
    """Returns the lines of an answer, unordered. Streams and lines that cannot be read are added to `left_out`.

    Raises:
        ValueError: the answer does not follow Loki's API (`msgspec.DecodeError` is a `ValueError`).
    """
    answer, odd = _answer.decode(body)
    if answer.status != "success" or answer.data.resultType != "streams":
        raise ValueError(answer.data.resultType)
    left_out.add(odd)
    lines: list[LogLine] = []
    for stream in answer.data.result:
        unit = stream.stream.get("unit", "")
        lines += [LogLine(int(entry.at), unit, _sanitized(entry.line)) for entry in stream.values]
    return lines


def _sanitized(line: str) -> str:
    """Redacts what looks like a secret, and cuts the line to `LONGEST_LINE`."""
    line = redact(line[:LONGEST_READ].rstrip())
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"


def formatted(line: LogLine) -> str:
    """Returns the line as it is stored: with its time and its unit."""
    at = datetime.fromtimestamp(line.at / BILLION, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return " ".join(each for each in (at, line.unit and f"{line.unit}:", line.text) if each)


def within(lines: Iterable[str], most_characters: int) -> list[str]:
    """Returns the first lines whose total length is within the limit."""
    kept: list[str] = []
    for line in lines:
        most_characters -= len(line)
        if most_characters < 0:
            break
        kept.append(line)
    return kept
