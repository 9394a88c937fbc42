"""The runner groups of an organization, and the repositories that may use them."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from ghapp.errors import NotFoundError, PermissionMissingError
from ghapp.github.installation_client import InstallationClient
from ghapp.github.response import PER_PAGE, expect
from ghapp.github.wire import read
from ghapp.health.queue.runner_groups import RunnerGroup

MOST_PAGES = 10
"""1,000 groups, and 1,000 repositories of a group. The access to a larger group counts as unknown."""

SELECTED = "selected"


class _Group(msgspec.Struct):
    id: int
    name: str
    visibility: str
    allows_public_repositories: bool = True


class _Groups(msgspec.Struct):
    total_count: int
    runner_groups: list[_Group]


class _Named(msgspec.Struct):
    full_name: str


class _Repositories(msgspec.Struct):
    total_count: int
    repositories: list[_Named]


_groups = msgspec.json.Decoder(_Groups)
_repositories = msgspec.json.Decoder(_Repositories)


async def read_runner_groups(client: InstallationClient, used: Collection[int]) -> tuple[RunnerGroup, ...]:
    """Returns the groups with these ids; needs `organization_self_hosted_runners: read`.

    A call for each hundred groups, and for each hundred repositories of a group with selected repositories. The
    repositories of a group that the installation may not read are None.

    Args:
        client: the installation.
        used: the ids of the groups that have runners; no other group is read.

    Raises:
        GitHubError: the groups cannot be read now.
    """
    path, found = f"/orgs/{client.installation.org}/actions/runner-groups", list[_Group]()
    for page in range(1, MOST_PAGES + 1):
        answer = await client.send("GET", path, per_page=PER_PAGE, page=page)
        listed = read(_groups, expect(answer, path))
        found += listed.runner_groups
        if not listed.runner_groups or len(found) >= listed.total_count:
            break
    return tuple([await _with_repositories(client, path, each) for each in found if each.id in used])


async def _with_repositories(client: InstallationClient, path: str, group: _Group) -> RunnerGroup:
    known = RunnerGroup(group.id, group.name, group.visibility, group.allows_public_repositories)
    if group.visibility != SELECTED:
        return known
    try:
        return known._replace(repositories=await _repositories_of(client, f"{path}/{group.id}/repositories"))
    except (NotFoundError, PermissionMissingError):  # for example, an enterprise's group
        return known


async def _repositories_of(client: InstallationClient, path: str) -> tuple[str, ...] | None:
    """Returns the full names in lower case; None if the list is not complete."""
    names: set[str] = set()
    for page in range(1, MOST_PAGES + 1):
        answer = await client.send("GET", path, per_page=PER_PAGE, page=page)
        listed = read(_repositories, expect(answer, path))
        names |= {each.full_name.lower() for each in listed.repositories}
        if len(names) >= listed.total_count:
            return tuple(sorted(names))
        if not listed.repositories:
            break
    return None
