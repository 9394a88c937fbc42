"""A request: its caller, authenticated by a JWT or a token, the objects in its path, and its body."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import TypeVar

import jwt
import msgspec
from starlette.requests import Request

from ghapp.sandbox.apps import App, Registry, SandboxInstallation, SandboxToken
from ghapp.sandbox.faults import TokensNotYetKnown
from ghapp.sandbox.fleet.jobs import SandboxRepository
from ghapp.sandbox.organizations import Organization
from ghapp.sandbox.people import PERSONAL_TOKEN_PREFIXES, USER_TOKEN_PREFIX, Person, PersonalToken, Role, UserToken
from ghapp.sandbox.rest.answers import RestError, not_found, unprocessable
from ghapp.sandbox.world import World

LONGEST_JWT_SECONDS = 600


def bearer(authorization: str) -> str:
    """Returns the credential of an `Authorization` header, with `Bearer` or the older `token`.

    Raises:
        RestError: 401, no credential.
    """
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() not in {"bearer", "token"} or not value:
        raise RestError(HTTPStatus.UNAUTHORIZED, "Requires authentication")
    return value.strip()


def calling_app(registry: Registry, encoded: str, ahead: float = 0.0) -> App:
    """Returns the App that signed this JWT.

    Checked by the wall clock, as the caller's library does, plus the seconds that GitHub's clock is `ahead`.

    Raises:
        RestError: 401, with GitHub's reasons.
    """
    try:
        issuer = jwt.decode(encoded, options={"verify_signature": False}).get("iss")
        app = registry.app_issuing(str(issuer))
        if app is None:
            raise RestError(HTTPStatus.UNAUTHORIZED, "Integration not found")
        claims = jwt.decode(
            encoded,
            app.public_key_pem,
            algorithms=["RS256"],
            options={"require": ["iat", "exp", "iss"], "verify_iss": False, "verify_iat": False, "verify_exp": False},
        )
        issued, expires = int(claims["iat"]), int(claims["exp"])
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise RestError(HTTPStatus.UNAUTHORIZED, "A JSON web token could not be decoded") from error
    now = time.time() + ahead
    if expires <= now:
        raise RestError(HTTPStatus.UNAUTHORIZED, "'Expiration time' claim ('exp') is in the past")
    if issued > now:
        raise RestError(HTTPStatus.UNAUTHORIZED, "'Issued at' claim ('iat') is in the future")
    if expires > now + LONGEST_JWT_SECONDS:
        raise RestError(HTTPStatus.UNAUTHORIZED, "'Expiration time' claim ('exp') is too far in the future")
    return app


def calling_token(registry: Registry, value: str, now: float) -> SandboxToken:
    """Returns the installation token of that value.

    Raises:
        RestError: 401 for an unknown or expired token, 403 while its installation is suspended.
    """
    token = registry.token(value, now)
    if token is None:
        raise RestError(HTTPStatus.UNAUTHORIZED, "Bad credentials")
    if token.installation.suspended_at is not None:
        raise RestError(HTTPStatus.FORBIDDEN, "This installation has been suspended")
    return token


Shape = TypeVar("Shape")


class Caller(Enum):
    """Who may call an operation."""

    ANYONE = auto()
    APP = auto()
    INSTALLATION = auto()
    """An installation by its token; where a person may ask the same, a person by theirs."""
    USER = auto()


@dataclass(slots=True)
class RestCall:
    """A request that was let in.

    Attributes:
        body: as it came.
        personal: the token it called with, if a person made it for themselves.
    """

    world: World
    request: Request
    body: bytes
    _org: Organization | None = None
    _app: App | None = None
    _token: SandboxToken | None = None
    _user: UserToken | None = None
    personal: PersonalToken | None = None
    _repository: SandboxRepository | None = None

    @property
    def base(self) -> str:
        """The API's root as the caller reached it, with `/api/v3` when it came that way."""
        return f"{self.request.url.scheme}://{self.request.url.netloc}{self.request.scope.get('root_path', '')}"

    @property
    def app(self) -> App:
        """The App that calls, by JWT or through an installation."""
        if self._app is None:
            raise RestError(HTTPStatus.UNAUTHORIZED, "Requires authentication")
        return self._app

    @property
    def token(self) -> SandboxToken:
        """The installation token it called with."""
        if self._token is None:
            raise RestError(HTTPStatus.UNAUTHORIZED, "Requires authentication")
        return self._token

    @property
    def user(self) -> UserToken:
        """The user access token it called with."""
        if self._user is None:
            raise RestError(HTTPStatus.UNAUTHORIZED, "Requires authentication")
        return self._user

    @property
    def is_of_a_person(self) -> bool:
        """True if it called with a user access token, or with a token that a person made for themselves."""
        return self._user is not None or self.personal is not None

    @property
    def person(self) -> Person:
        """The person who calls."""
        return self.user.person if self.personal is None else self.personal.person

    @property
    def credential(self) -> str:
        """The token it called with, an installation's or a person's."""
        if self.personal is not None:
            return self.personal.value
        return self.user.value if self._token is None else self._token.value

    def role_in(self, org: Organization) -> Role | None:
        """The calling person's role in an organization."""
        return self.person.role_in(org is min(self.world.orgs.values(), key=lambda each: each.id))

    def reads(self, org: Organization, repository: str) -> bool:
        """True if the calling person may read a repository."""
        mine = self.person.repositories
        role = self.role_in(org)
        return role == "owner" or (role is not None and (mine is None or repository in mine))

    @property
    def installation(self) -> SandboxInstallation:
        """The installation that calls."""
        return self.token.installation

    @property
    def org(self) -> Organization:
        """The organization in the path, or the caller's."""
        if self._org is None:
            raise not_found()
        return self._org

    @property
    def repository(self) -> SandboxRepository:
        """The repository in the path."""
        if self._repository is None:
            raise not_found()
        return self._repository

    @property
    def now(self) -> float:
        """Epoch seconds."""
        return self.world.now()

    @property
    def stated_now(self) -> float:
        """The same by GitHub's own clock: what answers state."""
        return self.world.stated(self.world.now())

    def number(self, name: str) -> int:
        """A number in the path; 404 for anything else."""
        text = self.request.path_params[name]
        if not text.isdecimal():
            raise not_found()
        return int(text)

    def json(self, shape: type[Shape]) -> Shape:
        """The body; 400 when it is no JSON, 422 when it is not of this shape."""
        try:
            return msgspec.json.decode(self.body or b"{}", type=shape)
        except msgspec.ValidationError as error:
            raise unprocessable(f"Invalid request.\n\n{error}") from error
        except msgspec.DecodeError as error:
            raise RestError(HTTPStatus.BAD_REQUEST, "Problems parsing JSON") from error

    def identify(self, caller: Caller) -> None:
        """Authenticates the caller; 403 without a User-Agent, 401 without a valid credential."""
        if not self.request.headers.get("user-agent"):
            raise RestError(HTTPStatus.FORBIDDEN, "Request forbidden by administrative rules: no User-Agent header.")
        if caller is Caller.ANYONE:
            return
        credential = bearer(self.request.headers.get("authorization", ""))
        if credential.startswith(PERSONAL_TOKEN_PREFIXES) and caller is not Caller.APP:
            self.personal = self.world.authorizations.personal_token(credential)
            if self.personal is None:
                raise RestError(HTTPStatus.UNAUTHORIZED, "Bad credentials")
        elif caller is Caller.USER or (caller is Caller.INSTALLATION and credential.startswith(USER_TOKEN_PREFIX)):
            self._user = self.world.authorizations.token(credential, self.now)
            self._app = self.user.app
        elif caller is Caller.APP:
            self._app = calling_app(self.world.registry, credential, self.world.clock.github_ahead)
        else:
            self._token = calling_token(self.world.registry, credential, self.now)
            self._app = self._token.installation.app
            self._await_recognition(self._token)

    def locate(self) -> None:
        """Finds the organization and repository that the path names; 404 for those that an installation cannot see."""
        if self.personal is not None:
            self._locate_for_person()
            return
        if self._user is not None and self._org is not None:
            if (
                self.role_in(self._org) is None
                or self.world.registry.installation_on(self._org.login, self.app) is None
            ):
                raise not_found()
            return
        if self._token is None:
            return
        params = self.request.path_params
        home = self.world.directory.home_of(self.installation)
        if params.keys() & {"org", "organization_id", "owner", "repository_id"} and self._org is not home:
            raise not_found()
        self._org = home
        if "repo" in params:
            self._repository = home.repository_named(params["repo"])
        elif "repository_id" in params:
            self._repository = home.repository_with_id(self.number("repository_id"))
        if self._repository is not None and not self.installation.sees(self._repository.name):
            raise not_found()

    def _locate_for_person(self) -> None:
        """Finds what the path names, if the person may see it."""
        params = self.request.path_params
        if self._org is None:
            if params.keys() & {"org", "organization_id", "owner", "repository_id"}:
                raise not_found()
            return
        if "repo" in params:
            self._repository = self._org.repository_named(params["repo"])
        elif "repository_id" in params:
            self._repository = self._org.repository_with_id(self.number("repository_id"))
        is_hidden = self._repository is not None and not self.reads(self._org, self._repository.name)
        if self.role_in(self._org) is None or is_hidden:
            raise not_found()

    def _await_recognition(self, token: SandboxToken) -> None:
        """A token may be too young to be known."""
        home = self.world.directory.home_of(token.installation)
        for fault in self.world.faults.active(TokensNotYetKnown, home.id, self.now):
            status = fault.status_for(token, self.now)
            if status == HTTPStatus.UNAUTHORIZED:
                raise RestError(HTTPStatus.UNAUTHORIZED, "Bad credentials")
            if status is not None:
                raise not_found()


def organization_in(world: World, params: dict[str, str]) -> Organization | None:
    """The organization that path parameters name, in whichever way."""
    if login := params.get("org") or params.get("owner"):
        return world.directory.organization(login)
    numbers = {name: int(text) for name, text in params.items() if re.fullmatch(r"\d+", text)}
    if "organization_id" in numbers:
        return world.directory.organization_with_id(numbers["organization_id"])
    if "repository_id" in numbers:
        return world.directory.organization_with_repository(numbers["repository_id"])
    installation = world.registry.installations.get(numbers.get("installation_id", 0))
    return None if installation is None else world.directory.home_of(installation)


def organization_calling(world: World, request: Request) -> Organization | None:
    """The organization of the installation whose token a request has."""
    value = request.headers.get("authorization", "").rpartition(" ")[2]
    token = world.registry.token(value, world.now())
    return None if token is None else world.directory.home_of(token.installation)
