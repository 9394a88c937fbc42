"""What admins do with an App, and what is delivered to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ghapp.sandbox.control.levers import Levers, known, lever
from ghapp.sandbox.documents.payloads import repository_names


class InstallationLevers(Levers):
    """Installed, suspended, removed; granted this and that; told anything."""

    @lever
    def suspend(self, org: str) -> None:
        """An admin suspends the App."""
        for installation in self._installations(self._org(org)):
            installation.suspended_at = self.world.now()
            self.world.announce_installation(installation, "suspend")

    @lever
    def unsuspend(self, org: str) -> None:
        """The App is let in again."""
        for installation in self._installations(self._org(org)):
            installation.suspended_at = None
            self.world.announce_installation(installation, "unsuspend")

    @lever
    def uninstall(self, org: str) -> None:
        """An admin removes the App; its tokens die at once."""
        for installation in self._installations(self._org(org)):
            self.world.registry.uninstall(installation)
            self.world.announce_installation(installation, "deleted")

    @lever
    def install(self, org: str) -> list[int]:
        """An admin installs every App that there is; answers the installations' ids."""
        place = self._org(org)
        installed = []
        for app in self.world.registry.apps.values():
            if self.world.registry.installation_on(place.login, app) is None:
                installation = self.world.registry.install(app, place.login, self.world.now())
                self.world.announce_installation(installation, "created")
                installed.append(installation.id)
        return installed

    @lever
    def permissions(self, org: str, *, permissions: dict[str, str]) -> None:
        """The installation holds these from now on, and no others."""
        for installation in self._installations(self._org(org)):
            installation.permissions = dict(permissions)
            self.world.announce_installation(installation, "new_permissions_accepted")

    @lever
    def select(self, org: str, *, repositories: Sequence[str] | None) -> None:
        """The installation sees only these repositories; None is all."""
        place = self._org(org)
        chosen = list(place.repositories) if repositories is None else list(repositories)
        for installation in self._installations(place):
            before = [name for name in place.repositories if installation.sees(name)]
            installation.repositories = None if repositories is None else tuple(chosen)
            added = [known(place.repositories, name) for name in chosen if name not in before]
            removed = [place.repositories[name] for name in before if name not in chosen]
            extra = {
                "repository_selection": installation.selection,
                "repositories_added": repository_names(added),
                "repositories_removed": repository_names(removed),
                "requester": None,
            }
            action = "added" if added else "removed"
            self.world.announce_installation(installation, action, extra, "installation_repositories")

    @lever
    def deliver(self, org: str, *, event: str, payload: dict[str, Any]) -> list[str]:
        """Sends any payload as it is, signed, to the Apps installed there; answers the GUIDs."""
        installations = self._installations(self._org(org))
        guids = [self.world.deliver(installation, event, payload) for installation in installations]
        return [guid for guid in guids if guid is not None]

    @lever
    def webhook(self, *, url: str, secret: str | None = None) -> None:
        """Where all Apps' deliveries go from now on; an empty URL sends none."""
        for app in self.world.registry.apps.values():
            app.hook.url = url
            app.hook.secret = app.hook.secret if secret is None else secret
