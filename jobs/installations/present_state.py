"""Asks GitHub for the present state of an installation, or of another scope."""

from __future__ import annotations

from dataclasses import replace

from ghapp.errors import InstallationMissingError
from ghapp.github.repositories import read_repository_of
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.installations.repositories import is_of_account
from ghapp.installations.scope import ScopeKind
from jobs.context import JobContext


async def present_state(context: JobContext, installation: Installation) -> Installation:
    """Returns the present account, login, permissions and suspension.

    A repository's scope has the permissions and the suspension of its installation. Its id identifies it; its pools and
    controllers know it by its name. Of an enterprise GitHub says nothing; its list of runners has to do.

    Raises:
        InstallationMissingError: the App was uninstalled there, or the repository is no scope any more.
        GitHubError: GitHub gave no usable answer.
    """
    if installation.kind is ScopeKind.ENTERPRISE:
        return installation
    if installation.kind is ScopeKind.ORGANIZATION:
        return await context.github.installation(installation.id)
    parent = await context.github.installation(installation.caller)
    client = await context.installation_client(installation, Purpose.ACT)
    found = await read_repository_of(client, installation.repository_id)
    if found is None or not is_of_account(parent, found):
        raise InstallationMissingError(
            f"{installation.called}: deleted, archived or transferred, or the App sees it not"
        )
    return replace(installation, login=found.name, permissions=parent.permissions, suspended=parent.suspended)
