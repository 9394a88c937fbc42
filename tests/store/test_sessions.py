"""Sessions and sign-ins: sealed, bound to their keys, and of a limited life; and the audit log, which is bounded."""

from __future__ import annotations

import pytest

from ghapp.store import keys
from ghapp.store.sessions import ATTEMPT_SECONDS, Session, Sessions, SignInAttempt, digest_of

NOW = 1_800_000_000.0
SESSION = Session("mona", 101, "ghu_secret", NOW + 100, (7,), NOW)
ATTEMPT = SignInAttempt("verifier", "http://127.0.0.1/sign-in/callback", "orgs/acme")


@pytest.fixture
def sessions(redis):
    return Sessions(redis, "a private key")


async def test_a_session_is_found_by_its_cookie_until_it_expires(sessions, redis):
    cookie = await sessions.create(SESSION, NOW)
    assert await sessions.find(cookie, NOW + 99.999) == SESSION
    assert await sessions.find(cookie, NOW + 100) is None
    assert 0 < await redis.pttl(keys.session(digest_of(cookie))) <= 100_000


async def test_neither_the_cookie_nor_the_token_is_stored_in_clear(sessions, redis):
    cookie = await sessions.create(SESSION, NOW)
    (key,) = await redis.keys()
    content = key + await redis.get(key)
    assert cookie.encode() not in content
    assert b"ghu_secret" not in content
    assert b"mona" not in content


async def test_with_another_private_key_there_is_no_session(sessions, redis):
    cookie = await sessions.create(SESSION, NOW)
    assert await Sessions(redis, "another private key").find(cookie, NOW) is None


async def test_a_session_copied_to_another_cookie_is_rejected(sessions, redis):
    cookie = await sessions.create(SESSION, NOW)
    await redis.copy(keys.session(digest_of(cookie)), keys.session(digest_of("mine")))
    assert await sessions.find("mine", NOW) is None
    assert await sessions.find(cookie, NOW) == SESSION


async def test_a_late_answer_does_not_restore_a_deleted_session(sessions, redis):
    cookie = await sessions.create(SESSION, NOW)
    await sessions.update(cookie, SESSION._replace(asked_at=NOW + 1), NOW)
    assert (await sessions.find(cookie, NOW)).asked_at == NOW + 1
    await sessions.end(cookie)
    await sessions.update(cookie, SESSION, NOW)
    assert await sessions.find(cookie, NOW) is None
    assert await redis.keys() == []


async def test_a_sign_in_is_taken_once_and_expires_after_ten_minutes(sessions, redis):
    await sessions.begin("state", ATTEMPT)
    assert 0 < await redis.ttl(keys.sign_in(digest_of("state"))) <= ATTEMPT_SECONDS
    assert await sessions.take("another") is None
    assert await sessions.take("state") == ATTEMPT
    assert await sessions.take("state") is None
