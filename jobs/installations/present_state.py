"""Asks GitHub for the present state of an installation, or of another scope."""

from __future__ import annotations

from dataclasses import replace

from ghapp.errors import InstallationMissingError
from ghapp.github.repositories import read_repository
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.installations.scope import ScopeKind
from jobs.context import JobContext


async def present_state(context: JobContext, installation: Installation) -> Installation:
    """Returns the present account, login, permissions and suspension.

    Of a repository's scope they are the repository's id and name, and what its installation has: by its name alone, a
    new repository could be taken for one that was renamed. Of an enterprise GitHub says nothing; its list of runners
    has to do.

    Raises:
        InstallationMissingError: the App was uninstalled there, or does not see the repository.
        GitHubError: GitHub gave no usable answer.
    """
    if installation.kind is ScopeKind.ENTERPRISE:
        return installation
    if installation.kind is ScopeKind.ORGANIZATION:
        return await context.github.installation(installation.id)
    parent = await context.github.installation(installation.caller)
    client = await context.installation_client(installation, Purpose.ACT)
    found = await read_repository(client, installation.called)
    if found is None:
        raise InstallationMissingError(f"{installation.called}: deleted, or the App does not see it any more")
    return replace(
        installation,
        account_id=-found.id,
        login=found.name,
        permissions=parent.permissions,
        suspended=parent.suspended,
    )
