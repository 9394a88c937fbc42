"""The versions of the runner: until when GitHub gives them jobs, and registers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

NEWEST = "2.337.0"

_AS_OF_SEPTEMBER: Mapping[str, str | None] = {
    "2.325.0": "2025-09-11T13:58:34Z",
    "2.328.0": "2025-12-16T17:40:26Z",
    "2.329.0": "2026-01-23T17:10:35Z",
    "2.330.0": "2026-03-13T18:34:13Z",
    "2.331.0": "2026-04-30T21:52:20Z",
    "2.332.0": "2026-05-25T15:23:35Z",
    "2.333.0": "2026-05-29T17:27:54Z",
    "2.333.1": "2026-06-30T15:52:45Z",
    "2.334.0": "2026-08-10T17:08:55Z",
    "2.335.0": "2026-08-14T16:59:37Z",
    "2.335.1": "2026-09-24T15:30:55Z",
    "2.336.0": "2026-11-05T08:04:55Z",
    NEWEST: None,
}
"""What GitHub's endpoint answered on 2026-09-29, by version."""


@dataclass(frozen=True, slots=True)
class VersionEnd:
    """When a version gets its last jobs, and when it can last register (epoch seconds); None: no date yet."""

    jobs_end_at: float | None = None
    registration_ends_at: float | None = None


class VersionSchedule:
    """All released versions. Of any other GitHub answers 404."""

    def __init__(self) -> None:
        self._ends = {
            version: VersionEnd(None if text is None else datetime.fromisoformat(text).timestamp())
            for version, text in _AS_OF_SEPTEMBER.items()
        }

    def find(self, version: str) -> VersionEnd | None:
        """Returns the dates of a version; None if it was never released."""
        return self._ends.get(version)

    def put(self, version: str, end: VersionEnd) -> None:
        """Releases a version, or changes its dates."""
        self._ends[version] = end

    def gives_jobs(self, version: str, now: float) -> bool:
        """True if runners of the version get jobs."""
        end = self._ends.get(version, VersionEnd())
        return end.jobs_end_at is None or now < end.jobs_end_at
