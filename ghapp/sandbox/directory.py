"""Finds organizations by their names, Apps, and the permissions of installations."""

from __future__ import annotations

from collections.abc import Callable

from ghapp.sandbox.apps import SandboxInstallation
from ghapp.sandbox.documents.accounts import AccountDocuments, Document
from ghapp.sandbox.faults.access import Withheld
from ghapp.sandbox.faults.faults import Faults
from ghapp.sandbox.organizations import Organization
from ghapp.sandbox.registry import Registry

SENDER = ("mona", 101)


class Directory:
    """All names.

    Attributes:
        orgs: by login in lower case.
        sender: the person who performs all actions.
    """

    def __init__(self, documents: AccountDocuments, faults: Faults, clock: Callable[[], float]) -> None:
        self.orgs: dict[str, Organization] = {}
        self.registry = Registry()
        self.documents = documents
        self.sender = documents.account(*SENDER, kind="User")
        self._faults = faults
        self._clock = clock
        self._former: dict[str, Organization] = {}

    def organization(self, login: str) -> Organization | None:
        """Returns the organization of that name; case is ignored."""
        return self.orgs.get(login.lower())

    def once_called(self, login: str) -> Organization | None:
        """Returns the organization that has this name, or had it until it was renamed."""
        return self.organization(login) or self._former.get(login.lower())

    def organization_with_id(self, organization_id: int) -> Organization | None:
        """Returns the organization of that id."""
        return next((org for org in self.orgs.values() if org.id == organization_id), None)

    def organization_with_repository(self, repository_id: int) -> Organization | None:
        """Returns the organization that has the repository of that id."""
        return next((org for org in self.orgs.values() if org.repository_with_id(repository_id)), None)

    def home_of(self, installation: SandboxInstallation) -> Organization:
        """Returns the organization on which an App is installed."""
        return self.orgs[installation.org.lower()]

    def rename(self, org: Organization, login: str) -> None:
        """Renames an organization, and the account of its installations."""
        self._former[org.login.lower()] = org
        for installation in self.registry.installations.values():
            if installation.org == org.login:
                installation.org = login
        org.rename(login)
        present = [*self.orgs.values()]
        self.orgs.clear()
        self.orgs |= {each.login.lower(): each for each in present}

    def granted(self, installation: SandboxInstallation) -> dict[str, str]:
        """Returns the permissions that an installation claims to have."""
        withheld = {each.permission for each in self._withheld(installation) if each.admitted}
        return {name: level for name, level in installation.permissions.items() if name not in withheld}

    def refusal_of(self, installation: SandboxInstallation, permission: str) -> int | None:
        """Returns the status of calls that need a withheld permission; None when it is not withheld."""
        return next((each.status for each in self._withheld(installation) if each.permission == permission), None)

    def withheld_from_people(self, org: Organization, permission: str) -> int | None:
        """Returns the status of people's calls that need a withheld permission; None when it is not withheld."""
        found = self._faults.at_work(Withheld, org.id, self._clock())
        return next((each.status for each in found if each.permission == permission), None)

    def installation_document(self, installation: SandboxInstallation) -> Document:
        """Returns an installation as REST and deliveries show it."""
        account = self.home_of(installation).account
        return self.documents.installation(installation, account, self.sender, self.granted(installation))

    def _withheld(self, installation: SandboxInstallation) -> list[Withheld]:
        home = self.orgs.get(installation.org.lower())
        return [] if home is None else self._faults.at_work(Withheld, home.id, self._clock())
