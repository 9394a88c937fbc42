"""What admins do with an App, what is delivered to it, and how deliveries fail.

`org` is the organization (None: all), `events` the events (none: any), `share` the share of those, chosen by the seed,
and `seconds` the duration by the sandbox's clock. Deliveries that were held back are sent at the end.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from ghapp.sandbox.control.controls import FOREVER, Controls, NoSuchThingError, exposed, known
from ghapp.sandbox.deliveries import Affected, Dropped, Late, Misattempt, Reordered, Repeated
from ghapp.sandbox.organizations import Organization
from ghapp.sandbox.people import PersonalToken, person_called
from ghapp.sandbox.webhook_events import repository_names


class InstallationControls(Controls):
    """Controls of installations, their permissions and their deliveries."""

    @exposed
    def suspend(self, org: str, *, seconds: float | None = None) -> None:
        """An admin suspends the App, for a while or until `unsuspend`."""
        place = self._org(org)
        for installation in self._installations(place):
            installation.suspended_at = self.world.now()
            self.world.webhook_events.installation(installation, "suspend")
        self._undo_after(seconds, lambda _: self._unsuspend(place))

    @exposed
    def unsuspend(self, org: str) -> None:
        """Ends the suspension of the App."""
        self._unsuspend(self._org(org))

    @exposed
    def uninstall(self, org: str, *, seconds: float | None = None) -> None:
        """Removes the App, and its tokens stop working. After `seconds` it is installed again with another id."""
        place = self._org(org)
        for installation in self._installations(place):
            self.world.registry.uninstall(installation)
            self.world.webhook_events.installation(installation, "deleted")
        self._undo_after(seconds, lambda _: self._install_all(place))

    @exposed
    def rename(self, org: str, login: str, *, seconds: float | None = None) -> None:
        """Renames the organization, for a while or permanently; the old name is 404 everywhere, all ids stay."""
        place = self._org(org)
        if self.world.directory.once_called(login) not in (None, place):
            raise ValueError(f"an organization is or was called {login!r}")
        former = place.login
        self.world.directory.rename(place, login)
        self._undo_after(seconds, lambda _: self.world.directory.rename(place, former))

    @exposed
    def install(self, org: str) -> list[int]:
        """An admin installs every App; returns the installations' ids."""
        return self._install_all(self._org(org))

    @exposed
    def permissions(self, org: str, *, permissions: dict[str, str]) -> None:
        """Sets the permissions of the installation; all others are removed."""
        for installation in self._installations(self._org(org)):
            installation.permissions = dict(permissions)
            self.world.webhook_events.installation(installation, "new_permissions_accepted")

    @exposed
    def select(self, org: str, *, repositories: Sequence[str] | None) -> None:
        """Limits the installation to these repositories; None is all."""
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
            self.world.webhook_events.installation(installation, action, extra, "installation_repositories")

    @exposed
    def personal_token(
        self,
        *,
        login: str = "mona",
        scopes: Sequence[str] | None = None,
        permissions: dict[str, str] | None = None,
        authorized: bool = True,
    ) -> str:
        """A person makes a token for themselves: a classic one with `scopes`, or a fine-grained one.

        `authorized`: False if organizations with SAML single sign-on refuse it. Every person also has the classic token
        `ghp_LOGIN` with all scopes.
        """
        person = person_called(login)
        if person is None:
            raise NoSuchThingError(f"no person {login!r}")
        prefix = "github_pat_" if scopes is None else "ghp_"
        listed = None if scopes is None else tuple(scopes)
        token = PersonalToken(f"{prefix}{secrets.token_hex(18)}", person, listed, permissions or {}, authorized)
        self.world.authorizations.add_personal_token(token)
        return token.value

    @exposed
    def deliver(self, org: str, *, event: str, payload: dict[str, Any]) -> list[str]:
        """Sends a payload unchanged, signed, to the Apps installed there; returns the GUIDs."""
        installations = self._installations(self._org(org))
        guids = [self.world.webhook_events.payload(installation, event, payload) for installation in installations]
        return [guid for guid in guids if guid is not None]

    def _unsuspend(self, place: Organization) -> None:
        for installation in self._installations(place):
            if installation.suspended_at is not None:
                installation.suspended_at = None
                self.world.webhook_events.installation(installation, "unsuspend")

    def _install_all(self, place: Organization) -> list[int]:
        installed = []
        for app in self.world.registry.apps.values():
            if self.world.registry.installation_on(place.login, app) is None:
                installation = self.world.registry.install(app, place.login, self.world.now())
                self.world.webhook_events.installation(installation, "created")
                installed.append(installation.id)
        return installed


class WebhookControls(Controls):
    """Controls of lost, failed, repeated, late and reordered deliveries."""

    @exposed
    def webhook(self, *, url: str, secret: str | None = None) -> None:
        """Sets the webhook URL of all Apps; an empty URL sends none."""
        for app in self.world.registry.apps.values():
            app.hook.url = url
            app.hook.secret = app.hook.secret if secret is None else secret

    @exposed
    def lose_deliveries(
        self,
        org: str | None = None,
        *,
        logged: bool = False,
        share: float = 1.0,
        events: Sequence[str] = (),
        seconds: float = FOREVER,
    ) -> None:
        """Deliveries never arrive. `logged`: GitHub's log shows them as OK; else the log lacks them."""
        affected = Affected(self._rng(), events, share)
        if logged:
            self._begin(Misattempt(affected, HTTPStatus.OK, "OK", arrives=False), org, seconds)
        else:
            self._begin(Dropped(affected, self.world.deliveries.count_dropped), org, seconds)

    @exposed
    def fail_deliveries(
        self,
        org: str | None = None,
        *,
        status_code: int = 502,
        status: str = "failed to connect to host",
        arrive: bool = False,
        share: float = 1.0,
        events: Sequence[str] = (),
        seconds: float = FOREVER,
    ) -> None:
        """Attempts fail, redeliveries too, and are logged so; `arrive`: the receiver gets them all the same."""
        self._begin(Misattempt(Affected(self._rng(), events, share), status_code, status, arrive), org, seconds)

    @exposed
    def repeat_deliveries(
        self,
        org: str | None = None,
        *,
        copies: int = 2,
        share: float = 1.0,
        events: Sequence[str] = (),
        seconds: float = FOREVER,
    ) -> None:
        """Deliveries arrive several times, with one GUID."""
        self._begin(Repeated(Affected(self._rng(), events, share), copies), org, seconds)

    @exposed
    def delay_deliveries(
        self,
        org: str | None = None,
        *,
        by: float = 30.0,
        share: float = 1.0,
        events: Sequence[str] = (),
        seconds: float = FOREVER,
    ) -> None:
        """Deliveries are sent so many seconds late, or when the fault ends."""
        self._begin(Late(Affected(self._rng(), events, share), by, self.world.deliveries.post), org, seconds)

    @exposed
    def reorder_deliveries(
        self,
        org: str | None = None,
        *,
        batch: int = 3,
        share: float = 1.0,
        events: Sequence[str] = (),
        seconds: float = FOREVER,
    ) -> None:
        """Deliveries wait until there are so many, and are sent in reverse order."""
        self._begin(Reordered(Affected(self._rng(), events, share), batch, self.world.deliveries.post), org, seconds)
