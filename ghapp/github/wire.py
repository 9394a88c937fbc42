"""Parses GitHub's JSON into our own types. No I/O, and no githubkit."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import NamedTuple, TypeVar

import msgspec

from ghapp.decoding import decode
from ghapp.errors import GitHubUnavailableError
from ghapp.health.installation import Installation
from ghapp.health.runner.evidence import Registration

T = TypeVar("T")


class _Label(msgspec.Struct):
    name: str
    type: str = "custom"


class _Runner(msgspec.Struct):
    id: int
    name: str
    os: str
    status: str
    busy: bool
    labels: msgspec.Raw
    ephemeral: bool | None = None
    runner_group_id: int | None = None
    version: str | None = None


class _RunnerPage(msgspec.Struct):
    total_count: int
    runners: list[_Runner]


class _Account(msgspec.Struct):
    login: str
    id: int


class _Installation(msgspec.Struct):
    id: int
    account: _Account
    permissions: dict[str, str]
    suspended_at: str | None = None


class _Token(msgspec.Struct):
    token: str
    expires_at: datetime


class _Job(msgspec.Struct):
    status: str
    completed_at: datetime | None = None


class RunnerPage(NamedTuple):
    """A page of the runner list: GitHub's total count, and the runners of this page."""

    total: int
    runners: list[Registration]


class InstallationToken(NamedTuple):
    """A token and when it expires (epoch seconds)."""

    secret: str
    expires_at: float


class JobEnd(NamedTuple):
    """The end of a job; `completed_at` is in epoch seconds, None if GitHub omits it."""

    completed_at: float | None = None


_page = msgspec.json.Decoder(_RunnerPage)
_labels = msgspec.json.Decoder(list[_Label])
_runner = msgspec.json.Decoder(_Runner)
_installation = msgspec.json.Decoder(_Installation)
_installations = msgspec.json.Decoder(list[_Installation])
_token = msgspec.json.Decoder(_Token)
_job = msgspec.json.Decoder(_Job)


def runner_page(body: bytes) -> RunnerPage:
    """`GET /orgs/{org}/actions/runners`."""
    page = read(_page, body)
    return RunnerPage(page.total_count, [_registration(runner) for runner in page.runners])


def runner(body: bytes) -> Registration:
    """`GET /orgs/{org}/actions/runners/{runner_id}`."""
    return _registration(read(_runner, body))


def installation(body: bytes) -> Installation:
    """`GET /app/installations/{installation_id}`."""
    return _to_installation(read(_installation, body))


def installations(body: bytes) -> list[Installation]:
    """`GET /app/installations`, one page."""
    return [_to_installation(each) for each in read(_installations, body)]


def installation_token(body: bytes) -> InstallationToken:
    """`POST /app/installations/{installation_id}/access_tokens`."""
    token = read(_token, body)
    return InstallationToken(token.token, token.expires_at.timestamp())


def job_end(body: bytes) -> JobEnd | None:
    """`GET /repos/{owner}/{repo}/actions/jobs/{job_id}`; None while the job has not ended."""
    job = read(_job, body)
    if job.status != "completed":
        return None
    return JobEnd(None if job.completed_at is None else job.completed_at.timestamp())


def _registration(runner: _Runner) -> Registration:
    labels, custom_labels = _labels_of(bytes(runner.labels))
    return Registration(
        runner.id,
        runner.name,
        runner.os,
        runner.status == "online",
        runner.busy,
        labels,
        custom_labels,
        runner.ephemeral,
        runner.runner_group_id,
        runner.version,
    )


@lru_cache(maxsize=4096)
def _labels_of(encoded: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns all labels and the custom ones. Decoded once, and kept once: 100,000 runners have a few dozen lists."""
    labels = read(_labels, encoded)
    return tuple(each.name for each in labels), tuple(each.name for each in labels if each.type == "custom")


def _to_installation(each: _Installation) -> Installation:
    return Installation(
        id=each.id,
        org=each.account.login,
        account_id=each.account.id,
        permissions=each.permissions,
        suspended=each.suspended_at is not None,
    )


def read(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decodes a body.

    Raises:
        GitHubUnavailableError: the body is not what the API describes.
    """
    try:
        return decode(decoder, body)
    except msgspec.DecodeError as error:
        raise GitHubUnavailableError(f"GitHub's answer is not what its API describes: {error}") from None
