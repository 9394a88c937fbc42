"""Bearer tokens: what they open, and that Redis does not have them."""

import base64

import pytest

from ghapp.store.tokens import PREFIX, Token, Tokens, digest
from tests.store.contents import everything

NOW = 1_790_000_000.0


async def test_a_secret_opens_what_it_was_made_for(redis):
    secret, token = await Tokens(redis).create("arc", ("acme",), ("read",), NOW, NOW + 60)
    assert token == Token(token.id, "arc", ("acme",), ("read",), NOW, NOW + 60)
    assert await Tokens(redis).find(digest(secret)) == token


async def test_the_secret_is_nowhere_in_redis(redis):
    secret, token = await Tokens(redis).create("arc", ("acme",), ("read",), NOW)
    random = secret.removeprefix(PREFIX)
    contents = await everything(redis)
    assert token.id.encode() in contents, "the contents were not read"
    assert len(random) >= 43
    for form in (
        random.encode(),
        base64.urlsafe_b64decode(random + "="),
        base64.urlsafe_b64decode(random + "=").hex().encode(),
    ):
        assert form not in contents
    assert token.id not in secret


async def test_another_secret_opens_nothing(redis):
    secret, _ = await Tokens(redis).create("arc", ("acme",), ("admin",), NOW)
    for wrong in (secret[:-1], secret + "x", "", PREFIX):
        assert await Tokens(redis).find(digest(wrong)) is None


async def test_a_revoked_token_opens_nothing_from_then_on_and_the_others_still_do(redis):
    tokens = Tokens(redis)
    secret, token = await tokens.create("arc", ("acme",), ("read",), NOW)
    other_secret, other = await tokens.create("gate", ("acme",), ("read",), NOW)
    assert await tokens.revoke(token.id) is True
    assert await Tokens(redis).find(digest(secret)) is None
    assert await tokens.find(digest(other_secret)) == other
    assert await tokens.revoke(token.id) is False


async def test_all_tokens_are_shown_oldest_first(redis):
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
def test_a_scope_opens_itself_and_admin_opens_all(scopes, opened):
    token = Token("1", "arc", ("acme",), scopes, NOW)
    assert {scope for scope in ("read", "claim", "admin") if token.may(scope, "acme", NOW)} == opened


@pytest.mark.parametrize(
    ("org", "opens"),
    [("acme", True), ("Other", True), ("ACME", True), ("acme2", False), ("acm", False), ("", False), ("*", False)],
)
def test_a_token_opens_its_own_orgs_whatever_their_case(org, opens):
    assert Token("1", "arc", ("Acme", "other"), ("admin",), NOW).may("read", org, NOW) is opens


@pytest.mark.parametrize(("at", "opens"), [(NOW - 0.001, True), (NOW, False), (NOW + 1, False)])
def test_a_token_ends_at_its_end(at, opens):
    assert Token("1", "arc", ("acme",), ("admin",), 0.0, NOW).may("read", "acme", at) is opens
