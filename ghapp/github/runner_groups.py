"""The runner groups of an organization, and the repositories that may use them."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from ghapp.decoding import Count, Id, Name, RowDecoder, Text
from ghapp.errors import NotFoundError, PermissionMissingError
from ghapp.github.ports import Sender
from ghapp.github.response import PER_PAGE, expect
from ghapp.github.runner_list import list_of
from ghapp.github.wire import RunnerPage, read_rows, runner_page
from ghapp.runners.absence import RunnerList
from ghapp.workflow_jobs.runner_groups import RunnerGroup

MOST_PAGES = 10
"""1,000 groups, and 1,000 repositories of a group. The access to a larger group counts as unknown."""

SELECTED = "selected"


class _Group(msgspec.Struct):
    id: Id
    name: Text
    visibility: Text
    allows_public_repositories: bool = True
    inherited: bool = False


class _Groups(msgspec.Struct):
    total_count: Count
    runner_groups: list[_Group]


class _Named(msgspec.Struct):
    full_name: Name


class _Repositories(msgspec.Struct):
    total_count: Count
    repositories: list[_Named]


_groups = RowDecoder[_Groups]("runner-group", _Groups)
_repositories = RowDecoder[_Repositories]("repository", _Repositories)


async def read_runner_groups(
    client: Sender, org: str, used: Collection[int], *, with_inherited: bool = False
) -> tuple[RunnerGroup, ...]:
    """Returns the groups with these ids; needs `organization_self_hosted_runners: read`.

    A call for each hundred groups, and for each hundred repositories of a group with selected repositories. The
    repositories of a group that the caller may not read are None. A group that cannot be read is left out.

    Args:
        client: of a caller who may read the organization's runners.
        org: its login.
        used: the ids of the groups that have runners; no other group is read.
        with_inherited: reads the enterprise's groups, too.

    Raises:
        GitHubError: the groups cannot be read now.
    """
    path, found, seen = f"/orgs/{org}/actions/runner-groups", list[_Group](), 0
    for page in range(1, MOST_PAGES + 1):
        answer = await client.send("GET", path, per_page=PER_PAGE, page=page)
        listed, odd = read_rows(_groups, expect(answer, path), client.left_out)
        found += listed.runner_groups
        rows = len(listed.runner_groups) + sum(each.is_row for each in odd)
        seen += rows
        if not rows or seen >= listed.total_count:
            break
    return tuple(
        [
            await _with_repositories(client, path, each)
            for each in found
            if each.id in used or (with_inherited and each.inherited)
        ]
    )


async def read_group_runners(client: Sender, org: str, group_id: int, most_pages: int) -> RunnerList:
    """Returns the runners of a group; the list is flawed if it has more pages.

    Raises:
        GitHubError: they cannot be read now.
    """
    path, pages = f"/orgs/{org}/actions/runner-groups/{group_id}/runners", list[RunnerPage]()
    for page in range(1, most_pages + 1):
        answer = await client.send("GET", path, per_page=PER_PAGE, page=page)
        pages.append(runner_page(expect(answer, path), client.left_out))
        if page * PER_PAGE >= pages[0].total:
            break
    return list_of(pages)


async def _with_repositories(client: Sender, path: str, group: _Group) -> RunnerGroup:
    known = RunnerGroup(
        group.id, group.name, group.visibility, group.allows_public_repositories, inherited=group.inherited
    )
    if group.visibility != SELECTED:
        return known
    try:
        return known._replace(repositories=await _repositories_of(client, f"{path}/{group.id}/repositories"))
    except (NotFoundError, PermissionMissingError):  # for example, an enterprise's group
        return known


async def _repositories_of(client: Sender, path: str) -> tuple[str, ...] | None:
    """Returns the full names in lower case; None if the list is not complete."""
    names: set[str] = set()
    for page in range(1, MOST_PAGES + 1):
        answer = await client.send("GET", path, per_page=PER_PAGE, page=page)
        listed = read_rows(_repositories, expect(answer, path), client.left_out).value
        names |= {each.full_name.lower() for each in listed.repositories}
        if len(names) >= listed.total_count:
            return tuple(sorted(names))
        if not listed.repositories:
            break
    return None
