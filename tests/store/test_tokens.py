"""Bearer tokens: their orgs and scopes, and that Redis does not store their secrets."""

import base64

import pytest

from ghapp.store.tokens import PREFIX, SHOWN_SECONDS, Token, Tokens, digest
from tests.store.contents import everything

NOW = 1_790_000_000.0


async def test_a_secret_grants_the_scopes_of_its_token(redis):
    secret, token = await Tokens(redis).create("arc", ("acme",), ("read",), NOW, 60)
    assert token == Token(token.id, "arc", ("acme",), ("read",), NOW, NOW + 60)
    assert await Tokens(redis).find(digest(secret)) == token


async def test_the_secret_is_not_stored_in_redis(redis):
    secret, token = await Tokens(redis).create("arc", ("acme",), ("read",), NOW)
    random = secret.removeprefix(PREFIX)
    contents = await everything(redis)
    assert token.id.encode() in contents, "the contents of Redis were not read"
    assert len(random) >= 43
    for form in (
        random.encode(),
        base64.urlsafe_b64decode(random + "="),
        base64.urlsafe_b64decode(random + "=").hex().encode(),
    ):
        assert form not in contents
    assert token.id not in secret


async def test_an_unknown_secret_grants_nothing(redis):
    secret, _ = await Tokens(redis).create("arc", ("acme",), ("admin",), NOW)
    for wrong in (secret[:-1], secret + "x", "", PREFIX):
        assert await Tokens(redis).find(digest(wrong)) is None


async def test_a_revoked_token_is_rejected_and_the_others_still_work(redis):
    tokens = Tokens(redis)
    secret, token = await tokens.create("arc", ("acme",), ("read",), NOW)
    other_secret, other = await tokens.create("gate", ("acme",), ("read",), NOW)
    assert await tokens.revoke(token.id) == token
    assert await Tokens(redis).find(digest(secret)) is None
    assert await tokens.find(digest(other_secret)) == other
    assert await tokens.revoke(token.id) is None


async def test_tokens_are_listed_oldest_first(redis):
    tokens = Tokens(redis)
    made = [(await tokens.create(str(at), ("acme",), ("read",), at))[1] for at in (NOW + 2, NOW, NOW + 1)]
    assert await tokens.all() == [made[1], made[2], made[0]]


@pytest.mark.parametrize(
    ("scopes", "opened"),
    [
        ((), set()),
        (("read",), {"read"}),
        (("claim",), {"claim"}),
        (("read", "claim"), {"read", "claim"}),
        (("admin",), {"read", "claim", "admin"}),
    ],
)
def test_a_scope_includes_itself_and_admin_includes_all(scopes, opened):
    token = Token("1", "arc", ("acme",), scopes, NOW, NOW + 1)
    assert {scope for scope in ("read", "claim", "admin") if token.may(scope, "acme", NOW)} == opened


@pytest.mark.parametrize(
    ("org", "opens"),
    [("acme", True), ("Other", True), ("ACME", True), ("acme2", False), ("acm", False), ("", False), ("*", False)],
)
def test_a_token_grants_its_orgs_regardless_of_case(org, opens):
    assert Token("1", "arc", ("Acme", "other"), ("admin",), NOW, NOW + 1).may("read", org, NOW) is opens


@pytest.mark.parametrize(("at", "opens"), [(NOW - 0.001, True), (NOW, False), (NOW + 1, False)])
def test_a_token_expires_at_its_time(at, opens):
    assert Token("1", "arc", ("acme",), ("admin",), 0.0, NOW).may("read", "acme", at) is opens


async def test_a_token_is_valid_for_90_days_unless_another_lifetime_is_given(redis):
    _, usual = await Tokens(redis).create("a", ("acme",), ("read",), NOW)
    _, short = await Tokens(redis).create("a", ("acme",), ("read",), NOW, 60.0)
    assert (usual.expires_at, short.expires_at) == (NOW + 90 * 86_400, NOW + 60)


async def test_a_token_that_expired_is_shown_for_a_month_and_then_deleted(redis):
    tokens = Tokens(redis)
    _, old = await tokens.create("old", ("acme",), ("read",), NOW, 60.0)
    _, at_the_limit = await tokens.create("limit", ("acme",), ("read",), old.expires_at + SHOWN_SECONDS)
    assert old in await tokens.all()
    await tokens.create("new", ("acme",), ("read",), old.expires_at + SHOWN_SECONDS + 1)
    assert old not in await tokens.all()
    assert at_the_limit in await tokens.all()
