"""Parses GitHub's JSON into our own types. No I/O, and no githubkit.

What is odd is left out as `ghapp.decoding` has it, and added to the caller's `LeftOutRows`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec

from ghapp.decoding import MOST_LABELS, Count, Decoded, Id, LeftOut, LeftOutRows, Moment, Name, RowDecoder, Text, decode
from ghapp.errors import GitHubUnavailableError
from ghapp.installations.installation import PERSON, Installation
from ghapp.runners.evidence import Registration

T = TypeVar("T")


Level = Literal["read", "write", "admin"]
"""Of a permission."""


class _Label(msgspec.Struct):
    name: Name
    type: Text = "custom"


class _Runner(msgspec.Struct):
    """A runner. An unknown status is no default: an offline runner may be replaced. A busy one is kept."""

    id: Id
    name: Name
    status: Literal["online", "offline"]
    os: Text = ""
    busy: bool = True
    labels: msgspec.Raw = msgspec.Raw(b"null")
    ephemeral: bool | None = None
    runner_group_id: Count | None = None
    version: Text | None = None


class _RunnerPage(msgspec.Struct):
    total_count: Count
    runners: list[_Runner]


class _Identified(msgspec.Struct):
    id: Id
    name: Text = ""


class _Account(msgspec.Struct):
    login: Name
    id: Id
    type: Text = ""


class _Installation(msgspec.Struct):
    id: Id
    account: _Account
    permissions: dict[str, Level]
    suspended_at: Any = None
    """Whatever it is, the installation is suspended."""


class _Token(msgspec.Struct):
    token: str
    expires_at: Moment


class _Job(msgspec.Struct):
    status: Text
    completed_at: Moment | None = None


class RunnerPage(NamedTuple):
    """A page of the runner list.

    Attributes:
        total: GitHub's total count.
        runners: the runners of this page.
        unreadable: the ids of rows that were left out; their runners are registered.
        unnamed: number of rows that were left out and have no readable id.
        names: the names of rows that were left out; empty for a name that cannot be read either.
    """

    total: int
    runners: list[Registration]
    unreadable: frozenset[int] = frozenset()
    unnamed: int = 0
    names: frozenset[str] = frozenset()


class InstallationPage(NamedTuple):
    """A page of the App's installations; fields as of `RunnerPage`. `rows`: how many the page has."""

    installations: list[Installation]
    unreadable: frozenset[int] = frozenset()
    unnamed: int = 0
    rows: int = 0


class InstallationToken(NamedTuple):
    """A token and when it expires (epoch seconds)."""

    secret: str
    expires_at: float


class JobEnd(NamedTuple):
    """The end of a job; `completed_at` is in epoch seconds, None if GitHub omits it."""

    completed_at: float | None = None


_page = RowDecoder[_RunnerPage]("runner", _RunnerPage)
_labels = RowDecoder[list[_Label]]("runner", Annotated[list[_Label], msgspec.Meta(max_length=MOST_LABELS)])
_runner = RowDecoder[_Runner]("runner", _Runner)
_installation = RowDecoder[_Installation]("installation", _Installation)
_installations = RowDecoder[list[_Installation]]("installation", list[_Installation])
_token = msgspec.json.Decoder(_Token)
_job = RowDecoder[_Job]("job", _Job)


def runner_page(body: bytes, left_out: LeftOutRows) -> RunnerPage:
    """`GET /orgs/{org}/actions/runners`."""
    page, odd = read_rows(_page, body, left_out)
    unreadable = [_identified(each) for each in odd if each.is_row]
    return RunnerPage(
        page.total_count,
        [_registration(runner, left_out) for runner in page.runners],
        frozenset(each.id for each in unreadable if each is not None),
        unreadable.count(None),
        frozenset("" if each is None else each.name for each in unreadable),
    )


def runner(body: bytes, left_out: LeftOutRows) -> Registration:
    """`GET /orgs/{org}/actions/runners/{runner_id}`."""
    return _registration(read_rows(_runner, body, left_out).value, left_out)


def installation(body: bytes, left_out: LeftOutRows) -> Installation:
    """`GET /app/installations/{installation_id}`."""
    return _to_installation(read_rows(_installation, body, left_out).value)


def installations(body: bytes, left_out: LeftOutRows) -> InstallationPage:
    """`GET /app/installations`, one page."""
    rows, odd = _decoded(_installations, body)
    left_out.add([_with_account(each) for each in odd])
    unreadable = [_identified(each) for each in odd if each.is_row]
    return InstallationPage(
        [_to_installation(each) for each in rows],
        frozenset(each.id for each in unreadable if each is not None),
        unreadable.count(None),
        len(rows) + len(unreadable),
    )


def installation_token(body: bytes) -> InstallationToken:
    """`POST /app/installations/{installation_id}/access_tokens`."""
    token = read(_token, body)
    return InstallationToken(token.token, token.expires_at.timestamp())


def job_end(body: bytes, left_out: LeftOutRows) -> JobEnd | None:
    """`GET /repos/{owner}/{repo}/actions/jobs/{job_id}`; None while the job has not ended."""
    job = read_rows(_job, body, left_out).value
    if job.status != "completed":
        return None
    return JobEnd(None if job.completed_at is None else job.completed_at.timestamp())


def _registration(runner: _Runner, left_out: LeftOutRows) -> Registration:
    labels, custom_labels, odd = _labels_of(bytes(runner.labels))
    if odd:
        left_out.add(odd)
    return Registration(  # by position: names would take twice the time
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
        not odd,
    )


@lru_cache(maxsize=4096)
def _labels_of(encoded: bytes) -> tuple[tuple[str, ...], tuple[str, ...], tuple[LeftOut, ...]]:
    """Returns all labels, the custom ones, and what was left out.

    Decoded once, and kept once: 100,000 runners have a few dozen lists.
    """
    try:
        labels, odd = _labels.decode(encoded)
    except msgspec.DecodeError as error:
        return (), (), (LeftOut("runner", "labels", str(error)),)
    custom = tuple(each.name for each in labels if each.type == "custom")
    return tuple(each.name for each in labels), custom, odd


def _identified(row: LeftOut) -> _Identified | None:
    """Returns the id of a row that was left out, and its name; None without a readable id."""
    if not isinstance(row.row, dict):
        return None
    found = {name: row.row[name] for name in ("id", "name") if name in row.row}
    for known in (found, {"id": found.get("id")}):
        try:
            return msgspec.convert(known, _Identified)
        except (msgspec.ValidationError, UnicodeEncodeError):
            continue
    return None


def _with_account(row: LeftOut) -> LeftOut:
    """Returns an installation that was left out, with what it is on if that is why: GitHub installs Apps there, too."""
    account = row.row.get("account") if isinstance(row.row, dict) else None
    if isinstance(account, dict) and "slug" in account and "login" not in account:
        return row._replace(why="it is on an enterprise, whose runners GitHub shows to no App")
    return row


def _to_installation(each: _Installation) -> Installation:
    return Installation(
        id=each.id,
        org=each.account.login,
        account_id=each.account.id,
        permissions=each.permissions,
        suspended=each.suspended_at is not None,
        is_personal=each.account.type == PERSON,
    )


def read(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decodes a body that is usable only as a whole.

    Raises:
        GitHubUnavailableError: the body is not what the API describes.
    """
    try:
        return decode(decoder, body)
    except msgspec.DecodeError as error:
        raise _unusable(error) from None


def read_rows(decoder: RowDecoder[T], body: bytes, left_out: LeftOutRows) -> Decoded[T]:
    """Decodes a body without what is odd in it, which is added to `left_out`.

    Raises:
        GitHubUnavailableError: the answer itself is not what the API describes.
    """
    decoded = _decoded(decoder, body)
    left_out.add(decoded.left_out)
    return decoded


def _decoded(decoder: RowDecoder[T], body: bytes) -> Decoded[T]:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise _unusable(error) from None


def _unusable(error: msgspec.DecodeError) -> GitHubUnavailableError:
    return GitHubUnavailableError(f"GitHub's answer is not what its API describes: {error}")
