"""Where runners are registered: an organization, a repository or an enterprise. Pure.

A scope is addressed as `acme`, `acme/api` or `enterprises/acme-corp`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple
from urllib.parse import quote

ENTERPRISES = "enterprises"

_LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", re.ASCII)
_REPOSITORY = re.compile(r"(?!\.{1,2}$)[\w.-]{1,100}", re.ASCII)
_URL = re.compile(r"https?://[^/\s]+/([^?#\s]+)[?#]?.*", re.IGNORECASE)


class ScopeKind(StrEnum):
    """What a scope is."""

    ORGANIZATION = "organization"
    REPOSITORY = "repository"
    ENTERPRISE = "enterprise"


def kind_of(address: str) -> ScopeKind:
    """Returns what an address names; faster than `Scope.parse`.

    An organization's may have a dot: a name here that cannot be a login.
    """
    owner, slash, _ = address.partition("/")
    if not slash:
        return ScopeKind.ORGANIZATION
    return ScopeKind.ENTERPRISE if owner.lower() == ENTERPRISES else ScopeKind.REPOSITORY


def owner_of(address: str) -> str:
    """Returns the login of the owner of an organization's or a repository's scope; of an enterprise's `enterprises`."""
    return address.partition("/")[0]


def is_login(name: str) -> bool:
    """True if a name can be a login at GitHub."""
    return _LOGIN.fullmatch(name) is not None


def absence(address: str) -> str:
    """Returns why a scope is not known, for people: what follows `acme: `."""
    match kind_of(address):
        case ScopeKind.ORGANIZATION:
            return "the App is not installed there"
        case ScopeKind.REPOSITORY:
            return "no [[scopes]] table has this repository, or it has no runners"
        case ScopeKind.ENTERPRISE:
            return "no [[scopes]] table has this enterprise"


def reading_order(address: str) -> tuple[bool, list[str]]:
    """Sort key of addresses: organizations, each followed by its repositories, then enterprises."""
    return kind_of(address) is ScopeKind.ENTERPRISE, address.lower().split("/")


def runners_settings(address: str) -> str:
    """Returns the path of the page at GitHub with the runners of an address."""
    owner = f"organizations/{address}" if kind_of(address) is ScopeKind.ORGANIZATION else address
    return f"{quote(owner)}/settings/actions/runners"


class Scope(NamedTuple):
    """Where runners are registered.

    Attributes:
        kind: what it is.
        name: a login, `owner/name`, or an enterprise's slug.
    """

    kind: ScopeKind
    name: str

    @classmethod
    def parse(cls, text: str) -> Scope | None:
        """Parses an address, or the URL of a page of GitHub's about one; None for anything else."""
        url = _URL.fullmatch(text)
        parts = (text if url is None else url[1]).strip("/").split("/")
        if url is not None:  # the rest is a page of it
            parts = parts[1:2] if parts[0] in ("orgs", "organizations") else parts[:2]
        match parts:
            case [first, slug] if first.lower() == ENTERPRISES and _LOGIN.fullmatch(slug):
                return cls(ScopeKind.ENTERPRISE, slug)
            case [first, *_] if first.lower() == ENTERPRISES or not _LOGIN.fullmatch(first):
                return None
            case [login]:
                return cls(ScopeKind.ORGANIZATION, login)
            case [login, name] if _REPOSITORY.fullmatch(name := name.removesuffix(".git")):
                return cls(ScopeKind.REPOSITORY, f"{login}/{name}")
        return None

    @property
    def address(self) -> str:
        """How people name it."""
        return f"{ENTERPRISES}/{self.name}" if self.kind is ScopeKind.ENTERPRISE else self.name

    @property
    def owner(self) -> str:
        """The login of a repository's owner; of others the name."""
        return self.name.partition("/")[0]

    @property
    def api_path(self) -> str:
        """The beginning of its paths in GitHub's REST API."""
        return f"/{_API[self.kind]}/{self.name}"


@dataclass(frozen=True, slots=True)
class ScopeRule:
    """One of `[[scopes]]`, in lower case: a repository, repositories by a pattern, or an enterprise.

    Attributes:
        repository: `owner/name`.
        repositories: `owner/pattern`, where `*` stands for any characters of the name.
        enterprise: its slug.
    """

    repository: str | None = None
    repositories: str | None = None
    enterprise: str | None = None

    @property
    def owner(self) -> str:
        """The login of the repositories' owner; empty for an enterprise."""
        return owner_of(self.repository or self.repositories or "")

    def is_for(self, address: str) -> bool:
        """True if the rule is for a repository or an enterprise of this address, in any case."""
        if kind_of(address) is ScopeKind.ENTERPRISE:
            return address.lower() == f"{ENTERPRISES}/{self.enterprise}"
        owner, _, name = address.lower().partition("/")
        return address.lower() == self.repository or (
            self.repositories is not None and owner == self.owner and self.takes(name)
        )

    def takes(self, name: str) -> bool:
        """True if the pattern of the repositories' names takes this name, without its owner, in any case."""
        return fnmatchcase(name.lower(), (self.repositories or "").partition("/")[2])


_API = {ScopeKind.ORGANIZATION: "orgs", ScopeKind.REPOSITORY: "repos", ScopeKind.ENTERPRISE: ENTERPRISES}


class ListedRepository(NamedTuple):
    """A repository, as GitHub lists it.

    Attributes:
        name: `owner/name`.
        private: False if everybody can read it.
        pushed_at: when it was last pushed to (epoch seconds); 0 if that is not known.
        archived: True if it is archived or disabled: no workflow of it runs.
        is_of_organization: False for a repository of a personal account.
        id: GitHub's, which stays when it is renamed or transferred.
    """

    name: str
    private: bool = True
    pushed_at: float = 0.0
    archived: bool = False
    is_of_organization: bool = True
    id: int = 0
