"""One installation of the App: its account, its permissions and its names; and scopes that are no organization.

Runners are also registered at repositories and enterprises. Such a scope is a record of the same type, with an id that
no installation has: a negative number made of the repository's id, or of the enterprise's slug. So all that is kept by
the id of an installation, and configured by its `org`, exists for each scope.

A login does not identify an organization: organizations are renamed, and another organization may take the old login.
GitHub's ids identify it. Here an installation is named as in the configuration and in tokens, possibly by a former
login; each name belongs to the first installation that had it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import NamedTuple

from ghapp.installations.scope import ENTERPRISES, Scope, ScopeKind, is_login, kind_of, owner_of

LEVELS = ("read", "write", "admin")

NEEDED = {
    "organization_self_hosted_runners": "write",
    "checks": "write",
    "actions": "read",
    "metadata": "read",
}
"""Permissions requested by app.yml."""

RUNNERS = {ScopeKind.ORGANIZATION: "organization_self_hosted_runners", ScopeKind.REPOSITORY: "administration"}
"""The permission by which an installation reads (`read`) and removes (`write`) the runners of a scope. Those of an
enterprise are closed to Apps: its token has them.
"""


def permission_text(name: str, level: str) -> str:
    """Returns a permission for people: its name never stands without its level."""
    return f"{name}: {level}"


def accepted_text(header: str) -> str:
    """Returns GitHub's `x-accepted-github-permissions`, such as `checks=write`, as `permission_text` has it."""
    return header.replace("=", ": ")


def runners_permission(kind: ScopeKind) -> str:
    """Returns the permission by which runners are read, at the level that is requested; empty for an enterprise."""
    name = RUNNERS.get(kind)
    return "" if name is None else permission_text(name, NEEDED.get(name, "read"))


PERSON = "User"
"""GitHub's type of a person's account."""

UNINSTALLED_DISCOVERY_SECONDS = 5.0
"""Seconds between requests for the App's installations while there is none: the App was just created, and a person
waits for the first sweep. GitHub's delivery of the installation may not reach us.
"""

MOST_NAMES = 16
"""Maximum names stored for one installation; older ones are dropped unless the configuration has them."""


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation of the App, or another scope.

    Attributes:
        id: the installation's own id; negative for another scope.
        org: its name here: the account's login, or a former one that the configuration still has; `owner/repository` or
            `enterprises/slug`.
        account_id: the account's id, which stays when the login changes; of another scope its own id.
        permissions: name → read or write.
        suspended: True if the organization suspended the App.
        login: the account's login if that differs from `org`; else empty.
        names: all names of its own, latest first, if there are others than `org`; else empty.
        parent: of a repository's scope, the installation whose token, permissions and hourly limit it uses; else 0.
        is_personal: True if the account is a person's, which has no runners of its own; its repositories may have.
    """

    id: int
    org: str
    account_id: int
    permissions: Mapping[str, str] = field(default_factory=dict)
    suspended: bool = False
    login: str = ""
    names: tuple[str, ...] = ()
    parent: int = 0
    is_personal: bool = False

    @property
    def called(self) -> str:
        """Its current login at GitHub, the only name that GitHub's API accepts; of another scope its address there."""
        return self.login or self.org

    def settings_address(self, web_url: str) -> str:
        """Returns the page of GitHub where an owner accepts the App's permissions; `web_url`: of GitHub's pages."""
        if self.is_personal:
            return f"{web_url}/settings/installations/{self.id}"
        return f"{web_url}/organizations/{owner_of(self.called)}/settings/installations/{self.caller}"

    @property
    def has_settings(self) -> bool:
        """True if it has such a page: an enterprise's token has none, and a name that is no login has no address."""
        return self.kind is not ScopeKind.ENTERPRISE and is_login(owner_of(self.called))

    @property
    def caller(self) -> int:
        """The installation whose token and hourly limit its calls use; an enterprise has its own."""
        return self.parent or self.id

    @property
    def kind(self) -> ScopeKind:
        """What its runners are registered at."""
        return kind_of(self.org)

    @property
    def repository_id(self) -> int:
        """GitHub's id of the repository, of a repository's scope."""
        return -self.id

    @property
    def scope(self) -> Scope:
        """Its runners' scope, as GitHub's API names it."""
        kind = self.kind
        return Scope(kind, self.called.partition("/")[2] if kind is ScopeKind.ENTERPRISE else self.called)

    @property
    def api_path(self) -> str:
        """The beginning of its runners' paths in GitHub's REST API.

        A repository's has its id, as in GitHub's own links and redirects: another repository may get its name at any
        moment, and has runners of the same ids.
        """
        return f"/repositories/{self.repository_id}" if self.parent else self.scope.api_path

    @property
    def own(self) -> tuple[str, ...]:
        """The names of its own, latest first."""
        return self.names or (self.org,)

    def answers_to(self, name: str) -> bool:
        """True if a name, in any case, is its own. Its login may not be: another installation may have had it first."""
        return name.lower() in {each.lower() for each in self.own}

    def at_github(self, repository: str) -> str:
        """Returns a repository (`owner/name`) under the owner's current login."""
        owner, slash, name = repository.partition("/")
        if self.kind is ScopeKind.ORGANIZATION:
            return f"{self.called}{slash}{name}" if self.answers_to(owner) else repository
        if self.answers_to(repository):
            return self.called
        is_of_owner = owner.lower() in {owner_of(each).lower() for each in self.own}
        return f"{owner_of(self.called)}{slash}{name}" if is_of_owner else repository

    def may(self, permission: str, level: str) -> bool:
        """True if the installation has a permission at that level or above."""
        granted = self.permissions.get(permission)
        return granted in LEVELS and LEVELS.index(granted) >= LEVELS.index(level)

    def may_read_runners(self) -> bool:
        """True if the permission to list the scope's runners is granted."""
        return self._may_with_runners("read")

    def may_remove_runners(self) -> bool:
        """True if the permission to remove the scope's runners is granted."""
        return self._may_with_runners("write")

    def _may_with_runners(self, level: str) -> bool:
        permission = RUNNERS.get(self.kind)
        return permission is None or self.may(permission, level)

    def missing(self) -> list[str]:
        """Returns the permissions that are not granted, as `name: level`: of app.yml, and for another scope its own.

        What its installation lacks is reported there.
        """
        if self.kind is not ScopeKind.ORGANIZATION:
            return [] if self.may_read_runners() else [runners_permission(self.kind)]
        needed = {name: level for name, level in NEEDED.items() if not (self.is_personal and name in RUNNERS.values())}
        return [permission_text(name, level) for name, level in needed.items() if not self.may(name, level)]


def repository_scope(parent: Installation, repository_id: int, name: str, called: str) -> Installation:
    """Returns the scope of a repository's runners.

    Its name is below that of its installation here, so that it inherits that one's tables also after a rename.

    Args:
        parent: the installation that sees it, under its name here.
        repository_id: GitHub's.
        name: without the owner, as the configuration has it; else the current one.
        called: `owner/name` at GitHub now.
    """
    org = f"{parent.org}/{name}"
    return Installation(
        id=-repository_id,
        org=org,
        account_id=-repository_id,
        permissions=parent.permissions,
        suspended=parent.suspended,
        login="" if called == org else called,
        names=(called, org) if called != org and parent.answers_to(owner_of(called)) else (),
        parent=parent.id,
    )


_ENTERPRISES_FROM = 1 << 52
"""GitHub's own ids are far below; and all of ours are whole numbers in Lua, too."""


def enterprise_scope(slug: str) -> Installation:
    """Returns the scope of an enterprise's runners. GitHub does not show its id: the slug identifies it."""
    number = _ENTERPRISES_FROM + int.from_bytes(sha256(slug.lower().encode()).digest()[:6])
    return Installation(id=-number, org=f"{ENTERPRISES}/{slug}", account_id=-number)


def poster_of(installation: Installation, repository: str, known: Iterable[Installation]) -> Installation | None:
    """Returns the installation that posts a scope's check run; None if there is none.

    The token of an enterprise posts none: the App does where it is installed on the repository's owner.
    """
    if installation.kind is not ScopeKind.ENTERPRISE:
        return installation
    owner = owner_of(repository)
    return next((each for each in known if each.kind is ScopeKind.ORGANIZATION and each.answers_to(owner)), None)


def known_as(
    reported: Installation, known: Collection[Installation], named: Mapping[str, int], owners: Mapping[str, int]
) -> Installation:
    """Returns an installation as reported by GitHub, under its name here.

    A login is its own if no other account has or had it, be it that the App is no longer installed there. An
    installation that took another's former login gets neither that one's tables and pools nor access by its tokens:
    its name is its login, a dot and its id, which cannot be a login, and which the configuration and tokens may use.

    Args:
        reported: by GitHub, or recorded earlier.
        known: all records, including its own. One account has one installation, even if it was installed again.
        named: the names in the configuration, in lower case, each with its number of mentions.
        owners: the account that first had a name, in lower case, with the App installed.
    """
    before = next((each for each in known if each.id == reported.id), None)
    before = before or next((each for each in known if each.account_id == reported.account_id), None)
    others = [each for each in known if reported.id != each.id and reported.account_id != each.account_id]
    login, own = reported.called, before.own if before is not None else ()
    is_new = before is None or before.called.lower() != login.lower()
    is_another_s = owners.get(login.lower(), reported.account_id) != reported.account_id
    is_free = not is_another_s and not any(each.answers_to(login) for each in others)
    if (before is not None and before.answers_to(login)) or (is_new and is_free):
        own = (login, *(each for each in own if each.lower() != login.lower()))
    own = own or (f"{login}.{reported.id}",)
    own = tuple(name for at, name in enumerate(own) if at < MOST_NAMES or name.lower() in named)
    return named_by(replace(reported, org=own[0], login=login, names=own), named)


def named_by(installation: Installation, named: Mapping[str, int]) -> Installation:
    """Returns the installation under that of its own names with most mentions in the configuration; else the latest.

    A configuration that follows a rename only in part keeps the old name: the remainder may be `mode = "dry-run"`.
    """
    if not installation.names or installation.kind is not ScopeKind.ORGANIZATION:
        return installation
    called, own = installation.called, installation.own
    org = max(own, key=lambda name: named.get(name.lower(), 0))
    return replace(installation, org=org, login="" if called == org else called, names=() if own == (org,) else own)


class StaleName(NamedTuple):
    """A problem with the names in the configuration, and how to fix it."""

    text: str
    fix: str


def stale_name(installation: Installation, named: Collection[str]) -> StaleName | None:
    """Returns the problem if an installation was renamed and the configuration was not updated; else None.

    Args:
        installation: under its name here.
        named: the names in the configuration, in lower case.
    """
    org, called = installation.org, installation.called
    if not installation.answers_to(called):
        return StaleName(
            f"its login at GitHub is {called}, which another organization here had before; its name here is {org}",
            f"tables, pools and tokens of {called} do not apply to it: use {org} there instead",
        )
    if org != called:
        return StaleName(
            f"its login at GitHub is now {called}; the configuration has {org}, whose tables and pools still apply",
            f'rename it to {called} in [orgs.{org}] and in each [[pools]] with org = "{org}", and create tokens for it',
        )
    old = [name for name in installation.own if name != org and name.lower() in named]
    if not old:
        return None
    return StaleName(
        f"it was renamed, and the configuration has both {org} and {', '.join(old)}: only {org} applies",
        f"move the settings to {org}, and remove {', '.join(old)}",
    )
