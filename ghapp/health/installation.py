"""One installation of the App: the tenant, what it lets us do, and by which name it goes here.

A login says little of who somebody is: organizations are renamed, and whoever comes next may take the name that is
free. Who it is, GitHub's ids say. Here an installation goes by the name that the configuration and tokens know, which
may be an earlier one, and each name belongs to the first installation that bore it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

LEVELS = ("read", "write", "admin")

NEEDED = {
    "organization_self_hosted_runners": "write",
    "checks": "write",
    "actions": "read",
    "metadata": "read",
}
"""What app.yml asks for."""

MOST_NAMES = 16
"""Of one installation. Earlier ones are forgotten, but for those that the configuration names."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Where the App is installed.

    Attributes:
        id: the installation's own id.
        org: by which name it goes here: the account's login, or an earlier one that the configuration still names.
        account_id: the account's id: it stays when the login changes.
        permissions: name → read or write.
        suspended: whether the organization suspended the App.
        login: the account's login, where that is not `org`; else empty.
        names: all that are its own, the latest first, where there are others than `org`; else empty.
    """

    id: int
    org: str
    account_id: int
    permissions: Mapping[str, str] = field(default_factory=dict)
    suspended: bool = False
    login: str = ""
    names: tuple[str, ...] = ()

    @property
    def called(self) -> str:
        """What GitHub calls it now: the only name that its API answers to."""
        return self.login or self.org

    @property
    def own(self) -> tuple[str, ...]:
        """The names that are its own, the latest first."""
        return self.names or (self.org,)

    def answers_to(self, name: str) -> bool:
        """Whether a name, in any case, is its own. Its login need not be: another one may have borne it before."""
        return name.lower() in {each.lower() for each in self.own}

    def at_github(self, repository: str) -> str:
        """A repository (`owner/name`) as GitHub calls it now."""
        owner, slash, name = repository.partition("/")
        return f"{self.called}{slash}{name}" if self.answers_to(owner) else repository

    def may(self, permission: str, level: str) -> bool:
        """Whether it holds a permission at that level or above."""
        held = self.permissions.get(permission)
        return held in LEVELS and LEVELS.index(held) >= LEVELS.index(level)

    def missing(self) -> list[str]:
        """What app.yml asks for and this installation has not granted, as `name: level`."""
        return [f"{name}: {level}" for name, level in NEEDED.items() if not self.may(name, level)]


def known_as(told: Installation, known: Collection[Installation], named: Mapping[str, int]) -> Installation:
    """What GitHub tells of an installation, under the name by which it goes here.

    A login is its own when nobody else here bears it or has borne it. One that took another's former login gets
    neither its tables, nor its pools, nor what its tokens open: it goes by its login, a dot and its id, which no login
    can be, and which the configuration and tokens may name.

    Args:
        told: by GitHub, or recorded earlier.
        known: every record, its own among them. One account has one installation, though it be made anew.
        named: the names that the configuration bears, in lower case, and how much it says of each.
    """
    before = next((each for each in known if each.id == told.id), None)
    before = before or next((each for each in known if each.account_id == told.account_id), None)
    others = [each for each in known if told.id != each.id and told.account_id != each.account_id]
    login, own = told.called, before.own if before is not None else ()
    is_news = before is None or before.called.lower() != login.lower()
    is_free = not any(each.answers_to(login) for each in others)
    if (before is not None and before.answers_to(login)) or (is_news and is_free):
        own = (login, *(each for each in own if each.lower() != login.lower()))
    own = own or (f"{login}.{told.id}",)
    own = tuple(name for at, name in enumerate(own) if at < MOST_NAMES or name.lower() in named)
    return named_by(replace(told, org=own[0], login=login, names=own), named)


def named_by(installation: Installation, named: Mapping[str, int]) -> Installation:
    """The same, by the name of its own of which the configuration says most; of several the latest.

    A configuration that follows a rename in part leaves it as it was: what is left behind may be `mode = "dry-run"`.
    """
    called, own = installation.called, installation.own
    org = max(own, key=lambda name: named.get(name.lower(), 0))
    return replace(installation, org=org, login="" if called == org else called, names=() if own == (org,) else own)


class StaleName(NamedTuple):
    """What is wrong about the names of the configuration, and what to write instead."""

    said: str
    fix: str


def stale_name(installation: Installation, named: Collection[str]) -> StaleName | None:
    """Whether an installation was renamed, and the configuration has not followed.

    Args:
        installation: as it is known here.
        named: the names that the configuration bears, in lower case.
    """
    org, called = installation.org, installation.called
    if not installation.answers_to(called):
        return StaleName(
            f"GitHub calls it {called}, and another organization bore that name here before; it goes by {org}",
            f"no table, pool or token of {called} is its own: name it {org} there, if it is to have any",
        )
    if org != called:
        return StaleName(
            f"GitHub calls it {called} now, and the configuration {org}: its tables and pools hold as before",
            f'name it {called} in [orgs.{org}] and in each [[pools]] with org = "{org}", and make tokens for it',
        )
    old = [name for name in installation.own if name != org and name.lower() in named]
    if not old:
        return None
    return StaleName(
        f"it was renamed, and the configuration names {org} and {', '.join(old)}: what it says of {org} holds alone",
        f"move what is to hold to {org}, and remove {', '.join(old)}",
    )
