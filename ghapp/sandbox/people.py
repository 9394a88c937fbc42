"""People who can sign in: an owner, a member, an outside collaborator, a stranger; and their authorizations of Apps."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Literal

from ghapp.sandbox.apps import App

CODE_SECONDS = 600
USER_TOKEN_SECONDS = 28_800
USER_TOKEN_PREFIX = "ghu_"  # noqa: S105 - how GitHub's tokens begin, not a token

Role = Literal["owner", "member", "outside"]


@dataclass(frozen=True, slots=True)
class Person:
    """A person with an account.

    Attributes:
        owns: True for an owner of every organization here.
        member: True for a member of the first organization.
        outside: True for an outside collaborator of the first organization, who sees its installations, too.
        repositories: names of the repositories that a member or a collaborator may read; None for all.
        administered: names of those that they administer; owners administer all.
    """

    login: str
    id: int
    owns: bool = False
    member: bool = False
    outside: bool = False
    repositories: tuple[str, ...] | None = None
    administered: tuple[str, ...] = ()

    def role_in(self, is_first: bool) -> Role | None:
        """The role in the first organization, or in another one; None for a stranger there."""
        if self.owns:
            return "owner"
        if not is_first:
            return None
        return "member" if self.member else "outside" if self.outside else None


PEOPLE = (
    Person("mona", 101, owns=True),
    Person("lisa", 102, member=True, repositories=("api", "web"), administered=("web",)),
    Person("olga", 104, outside=True, repositories=("api",)),
    Person("sam", 103),
)
"""The owner, the member, the outside collaborator and the stranger. `mona` is also the sender of all
deliveries that are not about jobs."""


READ_BY_MEMBERS = frozenset(name for person in PEOPLE if person.member for name in person.repositories or ())
"""The repositories of an organization that its members read."""


def author_of(repository: str, number: int) -> Person:
    """Returns who triggered a run by its number: one after the other of those who may read the repository."""
    readers = [each for each in PEOPLE if each.owns or repository in (each.repositories or ())]
    return readers[number % len(readers)]


def person_called(login: str | None) -> Person | None:
    """Returns the person of a login; None if there is none."""
    return next((each for each in PEOPLE if each.login == login), None)


def spender_of(person: Person) -> int:
    """Returns the number by which a person's calls are counted; installations have numbers above 0."""
    return -person.id


@dataclass(frozen=True, slots=True)
class UserToken:
    """A user access token of an App, valid until `expires_at` (epoch seconds)."""

    value: str
    app: App
    person: Person
    expires_at: float


ALL_SCOPES = ("admin:org", "manage_runners:enterprise", "repo")
PERSONAL_TOKEN_PREFIXES = ("ghp_", "github_pat_")


@dataclass(frozen=True, slots=True)
class PersonalToken:
    """A token that a person made for themselves.

    Attributes:
        scopes: of a classic token; None for a fine-grained one.
        permissions: of a fine-grained token, name → level.
        is_authorized: False if an organization with SAML single sign-on refuses it.
    """

    value: str
    person: Person
    scopes: tuple[str, ...] | None = ALL_SCOPES
    permissions: Mapping[str, str] = field(default_factory=dict)
    is_authorized: bool = True


@dataclass(frozen=True, slots=True)
class _Code:
    app: App
    person: Person
    redirect_uri: str
    challenge: str
    expires_at: float


class CodeError(Exception):
    """GitHub's error code of an exchange, and its description."""

    def __init__(self, code: str, description: str) -> None:
        super().__init__(description)
        self.code, self.description = code, description


@dataclass(slots=True)
class Authorizations:
    """The codes and user access tokens of all Apps, and the tokens that people made for themselves.

    Each person has the classic token `ghp_LOGIN` with all scopes.
    """

    _codes: dict[str, _Code] = field(default_factory=dict)
    _tokens: dict[str, UserToken] = field(default_factory=dict)
    _personal: dict[str, PersonalToken] = field(
        default_factory=lambda: {f"ghp_{each.login}": PersonalToken(f"ghp_{each.login}", each) for each in PEOPLE}
    )

    def personal_token(self, value: str) -> PersonalToken | None:
        """Returns the personal token of that value."""
        return self._personal.get(value)

    def add_personal_token(self, token: PersonalToken) -> None:
        """Adds a personal token."""
        self._personal[token.value] = token

    def authorize(self, app: App, person: Person, redirect_uri: str, challenge: str, now: float) -> str:
        """Returns a code, valid once and for ten minutes. `challenge`: of PKCE with S256; empty without PKCE."""
        code = secrets.token_hex(10)
        self._codes[code] = _Code(app, person, redirect_uri, challenge, now + CODE_SECONDS)
        return code

    def exchange(self, app: App, code: str, redirect_uri: str, verifier: str, now: float) -> UserToken:
        """Exchanges a code for a user access token.

        Raises:
            CodeError: the code is unknown, used, too old or of another App, or its redirect or verifier is another.
        """
        known = self._codes.pop(code, None)
        if known is None or known.app is not app or known.expires_at <= now:
            raise CodeError("bad_verification_code", "The code passed is incorrect or expired.")
        if redirect_uri and redirect_uri != known.redirect_uri:
            raise CodeError("redirect_uri_mismatch", "The redirect_uri MUST match the registered callback URL.")
        if known.challenge and not compare_digest(_challenge(verifier), known.challenge):
            raise CodeError("bad_verification_code", "The code_verifier does not match the code_challenge.")
        token = UserToken(f"{USER_TOKEN_PREFIX}{secrets.token_hex(18)}", app, known.person, now + USER_TOKEN_SECONDS)
        self._tokens[token.value] = token
        return token

    def token(self, value: str, now: float) -> UserToken | None:
        """Returns the token of that value, unless it has expired or was revoked."""
        found = self._tokens.get(value)
        return found if found is not None and found.expires_at > now else None

    def revoke_token(self, app: App, value: str) -> bool:
        """Revokes one token; returns False if it is none of that App."""
        known = self._tokens.get(value)
        if known is None or known.app is not app:
            return False
        del self._tokens[value]
        return True

    def revoke(self, person: str) -> int:
        """Revokes all tokens of the person of that login; returns how many."""
        values = [value for value, token in self._tokens.items() if token.person.login == person]
        for value in values:
            del self._tokens[value]
        return len(values)


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
