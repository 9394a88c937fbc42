"""Accounts and their repositories, as the caller may see them."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from ghapp.decoding import Count, Id, Moment, Name, RowDecoder, Text
from ghapp.github.ports import Sender
from ghapp.github.response import NOT_FOUND, PER_PAGE, GitHubResponse, expect
from ghapp.github.wire import read_rows
from ghapp.installations.scope import ListedRepository

ORGANIZATION = "Organization"

MOST_SEEN = 20_000
"""Repositories of one installation that are read."""

_LAST_PAGE = re.compile(r"[?&]page=([0-9]{1,9})[^>]*>;\s*rel=\"last\"")


class _Owner(msgspec.Struct):
    type: Text = ORGANIZATION


class _Repository(msgspec.Struct):
    id: Id
    full_name: Name
    private: bool = True
    pushed_at: Moment | None = None
    archived: bool = False
    disabled: bool = False
    owner: _Owner = msgspec.field(default_factory=_Owner)


class _SeenRepositories(msgspec.Struct):
    total_count: Count
    repositories: list[_Repository]


class _Account(msgspec.Struct):
    login: Name
    type: Text = ORGANIZATION


_repository = RowDecoder[_Repository]("repository", _Repository)
_repositories = RowDecoder[list[_Repository]]("repository", list[_Repository])
_seen = RowDecoder[_SeenRepositories]("repository", _SeenRepositories)
_account = RowDecoder[_Account]("account", _Account)
_accounts = RowDecoder[list[_Account]]("account", list[_Account])


class AccountKind(StrEnum):
    """What an account is."""

    ORGANIZATION = "organization"
    PERSON = "person"


class FoundAccount(NamedTuple):
    """An account: its login as GitHub spells it, and what it is."""

    login: str
    kind: AccountKind


class RepositoryList(NamedTuple):
    """Repositories of an account or an installation, and how many it has."""

    repositories: list[ListedRepository]
    total: int


async def read_account(client: Sender, login: str) -> FoundAccount | None:
    """Returns the account of a login; None for a 404. One call."""
    path = f"/users/{quote(login)}"
    answer = await client.send("GET", path)
    if answer.status == NOT_FOUND:
        return None
    found = read_rows(_account, expect(answer, path), client.left_out).value
    return FoundAccount(found.login, AccountKind.ORGANIZATION if found.type == ORGANIZATION else AccountKind.PERSON)


async def read_own_organizations(client: Sender) -> list[str]:
    """Returns the logins of the caller's organizations, at most a hundred. One call."""
    answer = await client.send("GET", "/user/orgs", per_page=PER_PAGE)
    return [each.login for each in read_rows(_accounts, expect(answer, "/user/orgs"), client.left_out).value]


async def read_repository(client: Sender, name: str) -> ListedRepository | None:
    """Returns the repository of a name (`owner/name`), under its present name; None for a 404. One call."""
    return await _read(client, f"/repos/{quote(name)}")


async def read_repository_of(client: Sender, repository_id: int) -> ListedRepository | None:
    """Returns the repository of an id, under its present name; None for a 404. One call."""
    return await _read(client, f"/repositories/{repository_id}")


async def _read(client: Sender, path: str) -> ListedRepository | None:
    answer = await client.send("GET", path)
    if answer.status == NOT_FOUND:
        return None
    return _to_repository(read_rows(_repository, expect(answer, path), client.left_out).value)


async def read_installation_repositories(client: Sender) -> RepositoryList:
    """Returns the repositories that an installation sees, `MOST_SEEN` at most. One call for each hundred.

    There are fewer than their number if a row cannot be read, or pages moved meanwhile.
    """
    path, found, total = "/installation/repositories", dict[int, ListedRepository](), 0
    for page in range(1, MOST_SEEN // PER_PAGE + 1):
        answer = await client.send("GET", path, per_page=PER_PAGE, page=page)
        listed, odd = read_rows(_seen, expect(answer, path), client.left_out)
        found |= {each.id: _to_repository(each) for each in listed.repositories}
        rows, total = len(listed.repositories) + sum(each.is_row for each in odd), listed.total_count
        if not rows or page * PER_PAGE >= total:
            break
    return RepositoryList([*found.values()], total)


async def latest_repositories(client: Sender, account: FoundAccount) -> RepositoryList:
    """Returns a hundred repositories of an account, and the number of all.

    One call, and one more where there are more than a hundred. The caller sees no others.
    """
    path = f"/{'orgs' if account.kind is AccountKind.ORGANIZATION else 'users'}/{quote(account.login)}/repos"
    answer = await _page(client, path, 1)
    rows, odd = read_rows(_repositories, expect(answer, path), client.left_out)
    total = len(rows) + sum(each.is_row for each in odd)
    last = _LAST_PAGE.search(answer.headers.get("link", ""))
    if last is not None:
        others, odd = read_rows(_repositories, expect(await _page(client, path, int(last[1])), path), client.left_out)
        total = (int(last[1]) - 1) * PER_PAGE + len(others) + sum(each.is_row for each in odd)
    return RepositoryList([_to_repository(each) for each in rows], total)


async def _page(client: Sender, path: str, page: int) -> GitHubResponse:
    return await client.send("GET", path, sort="pushed", direction="desc", per_page=PER_PAGE, page=page)


def _to_repository(found: _Repository) -> ListedRepository:
    return ListedRepository(
        found.full_name,
        found.private,
        0.0 if found.pushed_at is None else found.pushed_at.timestamp(),
        found.archived or found.disabled,
        found.owner.type == ORGANIZATION,
        found.id,
    )
