"""Until when GitHub gives jobs to a version of the runner: its end-of-life schedule.

`GET /orgs/{org}/actions/runners/deprecations/{version}`, since 2026-09-03, and its twins for repositories and
enterprises; needs the permission to list the runners. GitHub answers `runtime_deprecates_at`, null for the newest
release, and declares `registration_deprecates_at`, which it omits so far. 404: the version was never released, or the
server has no such endpoint, as GitHub Enterprise Server.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

import msgspec

from ghapp.decoding import LeftOutRows, Moment, Name, RowDecoder
from ghapp.errors import GitHubUnavailableError
from ghapp.github.response import NOT_FOUND, GitHubResponse, expect
from ghapp.github.wire import read_rows
from ghapp.installations.rate_limit import http_date
from ghapp.versions.lifetime import DatesAnswer, parse_version


class _Deprecation(msgspec.Struct):
    runner_version: Name
    runtime_deprecates_at: Moment | msgspec.UnsetType | None = msgspec.UNSET
    registration_deprecates_at: Moment | msgspec.UnsetType | None = msgspec.UNSET


_deprecation = RowDecoder[_Deprecation]("runner-version", _Deprecation)


class ReadingClient(Protocol):
    """What sends the call: `InstallationClient`, or another client."""

    @property
    def left_out(self) -> LeftOutRows:
        """Gets what is odd in the answers."""

    async def send(self, method: str, path: str) -> GitHubResponse:
        """Sends one request."""


async def read_end_dates(client: ReadingClient, scope: str, version: str) -> DatesAnswer | None:
    """Returns GitHub's dates for one version; None for a 404. One call.

    Args:
        client: of the scope.
        scope: the path of the scope, `/orgs/acme`, `/repositories/7` or `/enterprises/acme-corp`.
        version: as GitHub lists it; only numbers, as `parse_version` takes them.

    Raises:
        GitHubError: GitHub gave no usable answer.
    """
    path = f"{scope}/actions/runners/deprecations/{version}"
    answer = await client.send("GET", path)
    if answer.status == NOT_FOUND:
        return None
    found = read_rows(_deprecation, expect(answer, path), client.left_out).value
    if parse_version(found.runner_version) != parse_version(version):
        raise GitHubUnavailableError(f"GET {path}: GitHub answered about another version")
    jobs_end, registration_end = found.runtime_deprecates_at, found.registration_deprecates_at
    return DatesAnswer(
        _time(jobs_end),
        jobs_end is not msgspec.UNSET,
        _time(registration_end),
        registration_end is not msgspec.UNSET,
        http_date(answer.headers.get("date", "")),
    )


def _time(date: datetime | msgspec.UnsetType | None) -> float | None:
    return date.timestamp() if isinstance(date, datetime) else None
