"""Who sees which page, and who may use its buttons.

A person signs in with GitHub. `GET /user/installations` with the person's own token decides whose fleets are shown,
`GET /organizations/{id}/actions/runners` whose buttons work, and `GET /user/installations/{id}/repositories` whose
jobs are shown. GitHub is asked again after ten minutes; while it does not answer, its last answers hold for an hour.

The fleet of a repository is shown to who may read the repository, and its buttons work for its admins, as GitHub shows
a repository's runners to its admins alone: both are in that list of the owner's installation. No call that an
App may make shows who belongs to an enterprise, so that no person who signs in sees its fleet.

Under `ghapp up`, a browser with its key sees everything without signing in (`page_key`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest, digest

from starlette.background import BackgroundTask
from starlette.requests import Request

from ghapp.credentials import AppCredentials
from ghapp.decoding import LeftOutRows
from ghapp.errors import GitHubError, UnauthorizedError
from ghapp.github.user_authorization import MOST_LISTED, UserAuthorization
from ghapp.installations.installation import Installation
from ghapp.log import logger
from ghapp.settings import Settings
from ghapp.store import keys
from ghapp.store.audit import AuditEntry, Channel, Trail
from ghapp.store.codec import derived_key
from ghapp.store.sessions import OrgAccess, Session, Sessions
from ghapp.store.stores import Stores
from ghapp.web.cookies import cookie_of
from ghapp.web.operation import Clock
from ghapp.web.pages.page_key import PageKey
from ghapp.web.reachable import address_of, is_own_origin

log = logger(__name__)

ASK_SECONDS = 600.0
"""Answers of GitHub are asked for again after this time."""

KEPT_SECONDS = 3600.0
"""While GitHub does not answer, its last answers hold for this time."""

RETRY_SECONDS = 30.0
"""While GitHub does not answer, it is asked again after this time."""

SESSION_COOKIE = "ghapp_session"
KEY_HOLDER = "holder of the key"


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who sends a request.

    Attributes:
        name: the login, or `holder of the key`.
        cookie: the secret of this browser, to which its forms are bound.
        session: None for a browser with the key of `ghapp up`.
    """

    name: str
    cookie: str
    session: Session | None

    @property
    def has_key(self) -> bool:
        """True for a browser with the key of `ghapp up`, which may do everything."""
        return self.session is None


@dataclass(frozen=True, slots=True)
class OrgRights:
    """A visitor's rights in an organization that is shown to them.

    Attributes:
        manages: True if the page's buttons work.
        repositories: those whose jobs are shown, in lower case; None for all.
        reads_node_logs: True if logs of nodes are shown, which have lines of other pods. To manage a repository is not
            enough.
        is_cut: True if GitHub lists more repositories to the visitor than are read.
    """

    manages: bool
    repositories: frozenset[str] | None
    reads_node_logs: bool
    is_cut: bool = False

    def reads(self, repository: str) -> bool:
        """True if the jobs of a repository (`owner/name`) are shown."""
        return self.repositories is None or repository.lower() in self.repositories


ALL_RIGHTS = OrgRights(manages=True, repositories=None, reads_node_logs=True)


class PageAccess:
    """Finds the visitor of a request and their rights."""

    def __init__(
        self, settings: Settings, stores: Stores, credentials: Callable[[], AppCredentials | None], clock: Clock
    ) -> None:
        """`credentials` returns the App's; None before there is an App."""
        self._settings, self._stores, self._credentials, self._clock = settings, stores, credentials, clock
        self.key = PageKey(settings.page_key)
        self._failed_at: dict[str, float] = {}
        self._left_out = LeftOutRows()

    @property
    def has_app(self) -> bool:
        """True once there is an App."""
        return self._credentials() is not None

    @property
    def is_configured(self) -> bool:
        """True if people can sign in."""
        credentials = self._credentials()
        return credentials is not None and credentials.client is not None

    def authorization(self) -> UserAuthorization:
        """Returns the App's sign-in.

        Raises:
            LookupError: sign-in is not configured.
        """
        credentials = self._credentials()
        if credentials is None or credentials.client is None:
            raise LookupError("sign-in is not configured")
        return UserAuthorization(self._settings.web_url, self._settings.api_url, credentials.client, self._left_out)

    async def end_session(self, cookie: str) -> BackgroundTask | None:
        """Ends a session; returns the task that has GitHub revoke its user access token, None without a session."""
        session = await self.sessions().find(cookie, self._clock())
        await self.sessions().end(cookie)
        return None if session is None else BackgroundTask(self._revoke, session)

    async def _revoke(self, session: Session) -> None:
        try:
            await self.authorization().revoke(session.token)
        except GitHubError as error:
            log.warning("token of a person not revoked", who=session.login, why=str(error))

    def sessions(self) -> Sessions:
        """Returns the sessions; LookupError while there is no App."""
        return self._stores.sessions(self._key())

    async def visitor(self, request: Request) -> Visitor | None:
        """Returns who sends the request; None if there is no session."""
        if (cookie := self.session_cookie(request)) and self.is_configured:
            session = await self.sessions().find(cookie, self._clock())
            session = None if session is None else await self._current(cookie, session)
            if session is not None:
                return Visitor(session.login, cookie, session)
        return Visitor(KEY_HOLDER, self.key.cookie(request), None) if self.key.is_held(request) else None

    def session_cookie(self, request: Request) -> str:
        """Returns the session's cookie that the browser sends; empty without one."""
        return cookie_of(request, SESSION_COOKIE, is_secure=self.is_secure(request))

    async def seen(self, visitor: Visitor, installations: Sequence[Installation]) -> list[Installation]:
        """Returns those of all installations whose fleets the visitor may read.

        While GitHub does not say which repositories these are, none of them is shown.

        Raises:
            UnauthorizedError: GitHub no longer accepts the visitor's token.
        """
        session = visitor.session
        if session is None:
            return [*installations]
        shown = {each.id: each for each in installations if each.id in session.installations}
        parents = [each for each in shown.values() if any(scope.parent == each.id for scope in installations)]
        known = {each.id: await self._access_or_none(visitor.cookie, session, each) for each in parents}
        return [
            each
            for each in installations
            if each.id in shown
            or ((access := known.get(each.parent)) is not None and rights_in(each, access) is not None)
        ]

    async def rights(self, visitor: Visitor, installation: Installation) -> OrgRights | None:
        """Returns the visitor's rights in a scope; None if its pages are 404 to them.

        Raises:
            GitHubError: GitHub does not answer, and its last answer is too old.
        """
        session = visitor.session
        if session is None:
            return ALL_RIGHTS
        home = installation if not installation.parent else await self._stores.installations.one(installation.parent)
        if home is None or home.id not in session.installations:
            return None
        return rights_in(installation, await self._access(visitor.cookie, session, home))

    async def _access(self, cookie: str, session: Session, home: Installation) -> OrgAccess:
        known = next((each for each in session.orgs if each.installation == home.id), None)
        if known is None or self._clock() - known.asked_at > ASK_SECONDS:
            known = await self._ask(cookie, session, home, known)
        return known

    async def _access_or_none(self, cookie: str, session: Session, home: Installation) -> OrgAccess | None:
        is_known = any(each.installation == home.id for each in session.orgs)
        has_failed = self._clock() - self._failed_at.get(f"{cookie} {home.id}", 0.0) <= RETRY_SECONDS
        if has_failed and not is_known:
            return None
        try:
            return await self._access(cookie, session, home)
        except UnauthorizedError:
            raise
        except GitHubError:
            return None

    async def record_sign_in(self, request: Request, who: str, action: str) -> None:
        """Records that a person signed in or out."""
        entry = AuditEntry(self._clock(), who, Channel.PAGE, action, "", "", "", address_of(request))
        await self._stores.audit.record(keys.ALL_ORGS, entry, Trail.SIGN_INS)

    def form_token(self, visitor: Visitor) -> str:
        """Returns the token that this browser's forms must carry."""
        key = derived_key(self._key(), "ghapp form tokens")
        return digest(key, visitor.cookie.encode(), sha256).hex()

    def is_own_form(self, request: Request, visitor: Visitor, token: str) -> bool:
        """True if the form is from a page of ours, in this browser: by its token and by where the browser says."""
        asked = f"{request.url.scheme}://{request.headers.get('host', '')}"
        is_here = is_own_origin(request.headers.getlist("origin"), asked, self._settings.public_url or "")
        is_here = is_here and is_of_our_page(request)
        return is_here and compare_digest(self.form_token(visitor).encode(), token.encode())

    def is_secure(self, request: Request) -> bool:
        """True if people reach us by https, possibly through a proxy that ends TLS."""
        return request.url.scheme == "https" or (self._settings.public_url or "").startswith("https://")

    async def _current(self, cookie: str, session: Session) -> Session | None:
        """Returns the session with present answers of GitHub; None if GitHub no longer accepts its token."""
        now = self._clock()
        if now - session.asked_at <= ASK_SECONDS or now - self._failed_at.get(cookie, 0.0) <= RETRY_SECONDS:
            return session if now - session.asked_at <= KEPT_SECONDS else None
        try:
            installations = await self.authorization().installations(session.token)
        except UnauthorizedError:
            await self.sessions().end(cookie)
            return None
        except GitHubError as error:
            self._note_failure(cookie, now)
            log.warning("installations of a person not read", who=session.login, why=type(error).__name__)
            return session if now - session.asked_at <= KEPT_SECONDS else None
        await self._stores.left_out.record(self._left_out, now)
        session = session._replace(installations=installations, asked_at=now)
        await self.sessions().update(cookie, session, now)
        return session

    async def _ask(
        self, cookie: str, session: Session, installation: Installation, known: OrgAccess | None
    ) -> OrgAccess:
        now, authorization = self._clock(), self.authorization()
        may_keep = known is not None and now - known.asked_at <= KEPT_SECONDS
        failed_at = self._failed_at.get(f"{cookie} {installation.id}", 0.0)
        if known is not None and may_keep and now - failed_at <= RETRY_SECONDS:
            return known
        try:
            manages, repositories = await asyncio.gather(
                self._manages(session, installation), authorization.repositories(session.token, installation.id)
            )
        except UnauthorizedError:
            await self.sessions().end(cookie)
            raise
        except GitHubError as error:
            self._note_failure(f"{cookie} {installation.id}", now)
            log.warning("rights of a person not read", who=session.login, why=type(error).__name__)
            if known is None or not may_keep:
                raise
            return known
        await self._stores.left_out.record(self._left_out, now)
        access = OrgAccess(
            installation.id,
            manages,
            tuple(each.name for each in repositories),
            now,
            tuple(each.id for each in repositories),
            tuple(each.id for each in repositories if each.is_admin),
        )
        current = await self.sessions().find(cookie, now) or session  # another request may have asked meanwhile
        others = tuple(each for each in current.orgs if each.installation != installation.id)
        await self.sessions().update(cookie, current._replace(orgs=(*others, access)), now)
        return access

    async def _manages(self, session: Session, installation: Installation) -> bool:
        """True if the person may list the runners of the account. A person's account has none, and is theirs alone."""
        if installation.is_personal:
            return session.user_id == installation.account_id
        return await self.authorization().manages(session.token, installation.account_id)

    def _note_failure(self, key: str, now: float) -> None:
        self._failed_at = {each: at for each, at in self._failed_at.items() if now - at <= RETRY_SECONDS}
        self._failed_at[key] = now

    def _key(self) -> str:
        credentials = self._credentials()
        if credentials is None:
            raise LookupError("there is no App yet")
        return credentials.private_key


def rights_in(installation: Installation, access: OrgAccess) -> OrgRights | None:
    """Returns a person's rights in a scope; None if it is not shown to them.

    Args:
        installation: the scope.
        access: GitHub's answers about the App's installation there, or of a repository about that of its owner.
    """
    repositories = frozenset(each.lower() for each in access.repositories)
    is_cut = len(access.repositories) >= MOST_LISTED
    if installation.id == access.installation:
        return OrgRights(access.manages, repositories, access.manages, is_cut)
    if installation.repository_id not in access.repository_ids:
        return None
    return OrgRights(installation.repository_id in access.administered, repositories, access.manages, is_cut)


def is_of_our_page(request: Request) -> bool:
    """True unless the browser says that a page of another origin sent the request."""
    return request.headers.get("sec-fetch-site") in (None, "same-origin")
