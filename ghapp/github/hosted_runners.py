"""The larger runners that GitHub hosts for an organization. They are in no list of self-hosted runners."""

from __future__ import annotations

import msgspec

from ghapp.decoding import Name, RowDecoder
from ghapp.github.ports import Sender
from ghapp.github.response import PER_PAGE, expect
from ghapp.github.wire import read_rows


class _HostedRunner(msgspec.Struct):
    name: Name


class _HostedRunners(msgspec.Struct):
    runners: list[_HostedRunner]


_hosted_runners = RowDecoder[_HostedRunners]("hosted-runner", _HostedRunners)


async def read_hosted_labels(client: Sender, org: str) -> frozenset[str]:
    """Returns the labels of these runners, which are their names, in lower case; a hundred at most. One call.

    Raises:
        GitHubError: they cannot be read; a server of one's own has none.
    """
    path = f"/orgs/{org}/actions/hosted-runners"
    body = expect(await client.send("GET", path, per_page=PER_PAGE), path)
    return frozenset(each.name.lower() for each in read_rows(_hosted_runners, body, client.left_out).value.runners)
