"""Sessions of people who signed in to the page, and sign-ins that are under way. Both are sealed.

The cookie's value is stored as a hash only. A session has the person's user access token, and GitHub's answers about
what the person may see.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.codec import Codec, Seal

SESSION_SECONDS = 8 * 3600
"""As long as GitHub's user access tokens are valid."""

ATTEMPT_SECONDS = 600
"""GitHub's code is valid for ten minutes."""

MOST_ATTEMPTS = 10_000
"""Sign-ins that are under way, the latest: anyone may begin one."""

COOKIE_BYTES = 32

_BEGIN = """
local at = tonumber(redis.call('TIME')[1])
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
redis.call('ZADD', KEYS[2], at, KEYS[1])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. at - ARGV[2])
while redis.call('ZCARD', KEYS[2]) > tonumber(ARGV[3]) do redis.call('DEL', redis.call('ZPOPMIN', KEYS[2])[1]) end
redis.call('EXPIRE', KEYS[2], ARGV[2])
"""


class OrgAccess(NamedTuple):
    """GitHub's last answers about a person and one installation. Fields are only ever appended.

    Attributes:
        installation: its id.
        manages: True if the person may list the organization's runners, and therefore use the page's buttons.
        repositories: full names (`owner/name`) of the installation's repositories that the person may read.
        asked_at: when GitHub was asked (epoch seconds).
        repository_ids: the ids of the repositories.
        administered: the ids of those of which the person is an admin.
    """

    installation: int
    manages: bool
    repositories: tuple[str, ...]
    asked_at: float
    repository_ids: tuple[int, ...] = ()
    administered: tuple[int, ...] = ()


class Session(NamedTuple):
    """A person who signed in. Fields are only ever appended.

    Attributes:
        login: the person's login at GitHub.
        user_id: the person's id there.
        token: the user access token.
        expires_at: end of the session (epoch seconds).
        installations: ids of the App's installations that GitHub shows to the person.
        asked_at: when GitHub was asked for these (epoch seconds).
        orgs: the answers about single installations that the person visited.
    """

    login: str
    user_id: int
    token: str
    expires_at: float
    installations: tuple[int, ...]
    asked_at: float
    orgs: tuple[OrgAccess, ...] = ()


class SignInAttempt(NamedTuple):
    """A sign-in that was sent to GitHub. Fields are only ever appended.

    Attributes:
        verifier: PKCE's code verifier.
        redirect_uri: the callback that GitHub was given.
        to: path of the page to return to.
    """

    verifier: str
    redirect_uri: str
    to: str


_sessions = Codec("session", Session)
_attempts = Codec("sign-in", SignInAttempt)


def digest_of(secret: str) -> str:
    """Returns the stored hash of a cookie or a state; both are random and long, so one fast hash is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Sessions:
    """All sessions. `private_key` is the App's, as PEM: with another key all sessions end."""

    def __init__(self, redis: Redis, private_key: str) -> None:
        self._redis = redis
        self._sessions, self._attempts = Seal(_sessions, private_key), Seal(_attempts, private_key)
        self._begin: Any = redis.register_script(_BEGIN)

    async def create(self, session: Session, now: float) -> str:
        """Stores a session; returns its cookie's value, which is returned only here."""
        cookie = secrets.token_urlsafe(COOKIE_BYTES)
        key = keys.session(digest_of(cookie))
        await self._redis.set(key, self._sessions.close(key, session), px=_left(session, now))
        return cookie

    async def find(self, cookie: str, now: float) -> Session | None:
        """Returns the session of a cookie; None if it is unknown, has ended or cannot be opened."""
        key = keys.session(digest_of(cookie))
        row: Any = await self._redis.get(key)
        found = self._sessions.open(key, row)
        return found if found is not None and now < found.expires_at else None

    async def update(self, cookie: str, session: Session, now: float) -> None:
        """Stores newer answers of GitHub; does nothing if the session was ended in the meantime."""
        key = keys.session(digest_of(cookie))
        await self._redis.set(key, self._sessions.close(key, session), px=_left(session, now), xx=True)

    async def end(self, cookie: str) -> None:
        """Deletes a session and its user access token."""
        await self._redis.delete(keys.session(digest_of(cookie)))

    async def begin(self, state: str, attempt: SignInAttempt) -> None:
        """Stores a sign-in that is sent to GitHub."""
        key = keys.sign_in(digest_of(state))
        sealed = self._attempts.close(key, attempt)
        await self._begin(keys=[key, keys.SIGN_INS], args=[sealed, ATTEMPT_SECONDS, MOST_ATTEMPTS])

    async def take(self, state: str) -> SignInAttempt | None:
        """Returns a sign-in once; None if it is unknown, was taken before, or is older than ten minutes."""
        key = keys.sign_in(digest_of(state))
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.getdel(key)
            pipe.zrem(keys.SIGN_INS, key)
            row, _ = await pipe.execute()
        return self._attempts.open(key, row)


def _left(session: Session, now: float) -> int:
    return max(1, int((session.expires_at - now) * 1000))
