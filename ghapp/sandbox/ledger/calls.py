"""Counts the calls of a client, and their rate."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from http import HTTPStatus

#: Points of calls in GitHub's secondary limit of points a minute.
READ_POINTS = 1
WRITE_POINTS = 5
MINUTE_SECONDS = 60


@dataclass(slots=True)
class CallCounts:
    """Calls of one kind.

    Attributes:
        counted: of them, against the rate limit.
        not_modified: answered 304.
        refused: answered with an error, injected ones too.
        unanswered: calls without a complete answer.
    """

    total: int = 0
    counted: int = 0
    not_modified: int = 0
    refused: int = 0
    unanswered: int = 0

    def add(self, status: int | None, *, counted: bool) -> None:
        """Counts one call by the status of its answer; None without an answer."""
        self.total += 1
        self.counted += counted
        if status is None:
            self.unanswered += 1
        elif status == HTTPStatus.NOT_MODIFIED:
            self.not_modified += 1
        elif status >= HTTPStatus.BAD_REQUEST:
            self.refused += 1


@dataclass(slots=True)
class Pressure:
    """The load that GitHub's secondary limits measure; they allow 100 in flight, and 900 points a minute.

    Attributes:
        most_in_flight: calls at the same time.
        most_points_a_minute: a read is 1 and a write 5.
    """

    most_in_flight: int = 0
    most_points_a_minute: int = 0
    _in_flight: int = 0
    _points: int = 0
    _minute: deque[tuple[float, int]] = field(default_factory=deque)

    def begin(self, method: str, now: float) -> None:
        """Counts the start of a call."""
        points = READ_POINTS if method in {"GET", "HEAD", "OPTIONS"} else WRITE_POINTS
        self._minute.append((now, points))
        self._points += points
        while self._minute[0][0] <= now - MINUTE_SECONDS:
            self._points -= self._minute.popleft()[1]
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        self.most_points_a_minute = max(self.most_points_a_minute, self._points)

    def end(self) -> None:
        """Counts its end."""
        self._in_flight -= 1
