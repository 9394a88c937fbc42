"""Signing in: state, PKCE, the session and its lifetime, permissions, and every refusal."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from ghapp.store import keys
from ghapp.store.audit import AuditLog, Trail
from ghapp.store.sessions import SESSION_SECONDS
from ghapp.web.pages.access import ASK_SECONDS, KEPT_SECONDS, RETRY_SECONDS, SESSION_COOKIE
from ghapp.web.pages.sign_in import STARTS_AT_ONCE, STATE_COOKIE, own_path
from tests.store.contents import everything
from tests.web.conftest import NOW
from tests.web.pages.conftest import HERE, at_github

SIGN_IN = "../sign-in?to=orgs/acme"


def query_of(answer):
    return {name: value for name, (value,) in parse_qs(urlsplit(answer.headers["location"]).query).items()}


async def test_the_sign_in_goes_to_github_with_a_state_and_a_challenge(start, github):
    answer = await start().get("/sign-in/github")
    query = query_of(answer)
    assert answer.headers["location"].startswith(f"{github.url}/login/oauth/authorize?")
    assert query["client_id"] == github.app.client_id
    assert query["redirect_uri"] == f"{HERE}/sign-in/callback"
    assert (query["code_challenge_method"], len(query["code_challenge"])) == ("S256", 43)
    assert len(query["state"]) >= 40
    assert "scope" not in query


async def test_a_person_returns_to_the_requested_page(signed_in):
    browser = await signed_in("mona", to="orgs/acme/runners")
    assert (browser.last.status_code, browser.last.headers["location"]) == (303, "../orgs/acme/runners")
    assert (await browser.get("/orgs/acme/runners")).status_code == 200


@pytest.mark.parametrize(
    ("public", "secure"), [("https://ghapp.example", True), ("http://ghapp.example", False)], ids=["https", "http"]
)
async def test_the_cookie_is_opaque_http_only_lax_and_secure_on_https(start, signed_in, github, public, secure):
    browser = start(base="http://ghapp.example", GHAPP_PUBLIC_URL=public)
    begun = await browser.get("/sign-in/github")
    assert query_of(begun)["redirect_uri"] == f"{public}/sign-in/callback"
    if secure:
        browser.cookies.set(f"__Host-{STATE_COOKIE}", query_of(begun)["state"])
        github.app.callback_urls = (*github.app.callback_urls, f"{public}/sign-in/callback")
    back = urlsplit(at_github(github, begun, "mona"))
    answer = await browser.get(f"{back.path}?{back.query}")
    (cookie,) = [each for each in answer.headers.get_list("set-cookie") if f"{SESSION_COOKIE}=" in each]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert f"Max-Age={SESSION_SECONDS}" in cookie
    assert ("Secure" in cookie) is secure
    name = "__Host-ghapp_session" if secure else "ghapp_session"
    assert len(re.match(rf"{name}=([\w-]+); .*Path=/", cookie)[1]) == 43
    assert "Domain" not in cookie


@pytest.mark.parametrize(
    ("login", "statuses"),
    [("mona", [200, 200]), ("lisa", [200, 404]), ("sam", [404, 404])],
    ids=["an owner of both", "a member of one", "a stranger"],
)
async def test_a_person_sees_the_organizations_that_github_shows_to_them(signed_in, login, statuses):
    browser = await signed_in(login)
    for page in ("", "/runners", "/github"):
        assert [(await browser.get(f"/orgs/{org}{page}")).status_code for org in ("acme", "globex")] == statuses
    assert [
        (await browser.get(f"/orgs/{org}/runners/{at}")).status_code for org, at in (("acme", 1), ("globex", 9))
    ] == (statuses)


async def test_another_organization_looks_like_one_that_does_not_exist(signed_in):
    browser = await signed_in("lisa")
    hidden, absent = await browser.get("/orgs/globex"), await browser.get("/orgs/nothing")
    assert (hidden.status_code, absent.status_code) == (404, 404)
    assert hidden.text == absent.text
    assert "globex" not in (await browser.get("/?all")).text


async def test_a_stranger_sees_no_organization_and_no_system(signed_in):
    browser = await signed_in("sam")
    page = await browser.get("/")
    assert (page.status_code, "No organization is shown to you" in page.text) == (200, True)
    assert (await browser.get("/system")).status_code == 404


async def test_a_person_with_one_organization_is_redirected_to_it(signed_in):
    browser = await signed_in("lisa")
    assert (await browser.get("/")).headers["location"] == "orgs/acme"
    both = await (await signed_in("mona")).get("/")
    assert both.status_code == 200
    assert all(f'href="orgs/{org}"' in both.text for org in ("acme", "globex"))


@pytest.mark.parametrize("page", ["/", "/orgs/acme", "/orgs/acme/runners/1", "/orgs/acme/github", "/system"])
async def test_without_a_session_every_page_redirects_to_the_sign_in(start, page):
    answer = await start().get(page)
    assert answer.status_code == 303
    assert answer.headers["location"].removeprefix("../" * (page.count("/") - 1)).startswith("sign-in")


async def test_a_live_part_without_a_session_reloads_its_page(start):
    answer = await start().get("/orgs/acme", headers={"hx-request": "true"})
    assert (answer.status_code, answer.headers["hx-refresh"]) == (401, "true")


async def test_a_session_ends_after_eight_hours(signed_in, clock):
    browser = await signed_in("lisa")
    clock.now = NOW + SESSION_SECONDS - 0.001
    assert (await browser.get("/orgs/acme")).status_code == 200
    clock.now = NOW + SESSION_SECONDS
    assert (await browser.get("/orgs/acme")).headers["location"] == SIGN_IN


async def test_an_unknown_cookie_opens_no_page(start):
    browser = start()
    browser.cookies.set(SESSION_COOKIE, "x" * 43)
    assert (await browser.get("/orgs/acme")).headers["location"] == SIGN_IN


async def test_redis_holds_no_token_and_no_cookie(signed_in, redis, github):
    browser = await signed_in("mona")
    await browser.get("/orgs/acme")
    await redis.delete("ghapp:due")
    content = await everything(redis)
    assert b"ghapp:session:" in content
    assert b"ghu_" not in content
    assert browser.cookies[SESSION_COOKIE].encode() not in content
    assert github.app.client_secret.encode() not in content


async def test_signing_out_deletes_the_session_and_has_its_token_revoked(signed_in, redis, github):
    github.world.authorizations.revoke("lisa")  # of the tests before
    browser = await signed_in("lisa")
    page = await browser.get("/orgs/acme")
    cookie, token = browser.cookies[SESSION_COOKIE], re.search(r'name="form_token" value="(\w+)"', page.text)[1]
    answer = await browser.post("/sign-out", data={"form_token": token})
    assert (answer.status_code, answer.headers["location"]) == (303, "sign-in?done=signed-out")
    assert SESSION_COOKIE not in browser.cookies
    assert await redis.keys("ghapp:session:*") == []
    assert github.world.authorizations.revoke("lisa") == 0, "no token is left"
    entries = await AuditLog(redis).latest(keys.ALL_ORGS, 10, Trail.SIGN_INS)
    assert [(each.who, each.action) for each in entries] == [("lisa", "sign out"), ("lisa", "sign in")]
    browser.cookies.set(SESSION_COOKIE, cookie)
    assert (await browser.get("/orgs/acme")).headers["location"] == SIGN_IN


async def test_a_person_is_signed_out_though_github_does_not_answer(signed_in, redis, github):
    github.world.authorizations.revoke("lisa")
    browser = await signed_in("lisa")
    page = await browser.get("/orgs/acme")
    token = re.search(r'name="form_token" value="(\w+)"', page.text)[1]
    github.control.fault(match="/applications/.*", status=502)
    assert (await browser.post("/sign-out", data={"form_token": token})).status_code == 303
    assert await redis.keys("ghapp:session:*") == []
    github.control.no_faults()
    assert github.world.authorizations.revoke("lisa") == 1


async def test_signing_in_again_has_the_token_of_the_session_before_revoked(signed_in, github):
    github.world.authorizations.revoke("lisa")
    browser = await signed_in("lisa")
    await signed_in("lisa", browser)
    assert github.world.authorizations.revoke("lisa") == 1


async def test_a_forged_form_does_not_sign_out(signed_in, redis):
    browser = await signed_in("lisa")
    refused = await browser.post("/sign-out", data={"form_token": "x"})
    assert refused.status_code == 403
    assert 'href="sign-in"' not in refused.text
    assert len(await redis.keys("ghapp:session:*")) == 1


# Every refusal of the callback.


async def test_a_state_of_another_browser_is_refused(start, github):
    begun = await start().get("/sign-in/github")
    victim = start()
    await victim.get("/sign-in/github")
    answer = await victim.get(at_github(github, begun, "mona"))
    assert answer.status_code == 400
    assert SESSION_COOKIE not in victim.cookies


@pytest.mark.parametrize("query", ["", "?code=x", "?code=x&state=", "?code=x&state=unknown"])
async def test_a_callback_without_the_state_of_this_browser_is_refused(start, query):
    browser = start()
    await browser.get("/sign-in/github")
    assert (await browser.get(f"/sign-in/callback{query}")).status_code == 400


async def test_a_callback_is_accepted_once(start, github):
    browser = start()
    begun = await browser.get("/sign-in/github")
    back, state = at_github(github, begun, "mona"), browser.cookies[STATE_COOKIE]
    assert (await browser.get(back)).status_code == 303
    browser.cookies.set(STATE_COOKIE, state)
    assert (await browser.get(back)).status_code == 400


async def test_a_person_who_cancels_at_github_is_not_signed_in(signed_in):
    browser = await signed_in("")
    assert browser.last.status_code == 403
    assert SESSION_COOKIE not in browser.cookies


async def test_a_code_refused_by_github_does_not_sign_in(start):
    browser = start()
    state = query_of(await browser.get("/sign-in/github"))["state"]
    answer = await browser.get("/sign-in/callback", params={"code": "wrong", "state": state})
    assert answer.status_code == 403
    assert SESSION_COOKIE not in browser.cookies


async def test_a_wrong_client_secret_is_refused_and_not_shown(start, github):
    browser = start(client_secret="hunter2")
    begun = await browser.get("/sign-in/github")
    answer = await browser.get(at_github(github, begun, "mona"))
    assert answer.status_code == 403
    assert "hunter2" not in answer.text


async def test_an_outage_of_github_prevents_the_sign_in(start, github):
    browser = start()
    begun = await browser.get("/sign-in/github")
    back = at_github(github, begun, "mona")
    github.control.fault(status=502)
    assert (await browser.get(back)).status_code == 502
    assert SESSION_COOKIE not in browser.cookies


async def test_failed_sign_ins_lock_out_no_other(start, signed_in):
    browser = start()
    for _ in range(100):
        assert (await browser.get("/sign-in/callback?code=x&state=y")).status_code == 400
    await signed_in("mona", browser)
    assert SESSION_COOKIE in browser.cookies


async def test_started_sign_ins_are_rate_limited(start):
    browser = start()
    statuses = [(await browser.get("/sign-in/github")).status_code for _ in range(STARTS_AT_ONCE + 1)]
    assert statuses == [303] * STARTS_AT_ONCE + [429]


async def test_without_an_oauth_client_the_page_says_how_to_configure_one(start):
    browser = start(client=False)
    for page in ("/sign-in", "/sign-in/github", "/sign-in/callback"):
        answer = await browser.get(page)
        assert answer.status_code == 503
        assert "GHAPP_CLIENT_ID" in answer.text


@pytest.mark.parametrize(
    "to",
    [
        "//evil.example",
        "https://evil.example",
        "orgs/../../x",
        "orgs\\x",
        "sign-out",
        "/orgs/acme",
        "orgs/" + "a" * 500,
    ],
)
def test_a_redirect_to_another_site_is_dropped(to):
    assert own_path(to) == ""


# Refresh of the permissions.


async def test_permissions_are_read_again_after_ten_minutes(signed_in, github, clock):
    browser = await signed_in("lisa")
    assert (await browser.get("/orgs/acme")).status_code == 200
    acme = github.world.registry.installations.pop(github.installation_id("acme"))
    try:
        clock.now = NOW + ASK_SECONDS
        assert (await browser.get("/orgs/acme")).status_code == 200
        clock.now = NOW + ASK_SECONDS + 1
        assert (await browser.get("/orgs/acme")).status_code == 404
    finally:
        github.world.registry.installations[acme.id] = acme


async def test_during_an_outage_of_github_permissions_stay_valid_for_an_hour(signed_in, github, clock):
    browser = await signed_in("mona")
    assert (await browser.get("/orgs/acme")).status_code == 200
    github.control.fault(status=502)
    clock.now = NOW + KEPT_SECONDS
    page = await browser.get("/orgs/acme")
    assert page.status_code == 200
    assert "/orgs/acme/sweep" in page.text, "the buttons stay: they are needed during an outage of GitHub"
    clock.now = NOW + KEPT_SECONDS + RETRY_SECONDS + 1
    assert (await browser.get("/orgs/acme")).headers["location"] == SIGN_IN


async def test_a_token_revoked_by_github_ends_the_session(signed_in, github, clock, redis):
    browser = await signed_in("lisa")
    assert (await browser.get("/orgs/acme")).status_code == 200
    assert github.world.authorizations.revoke("lisa") >= 1
    clock.now = NOW + ASK_SECONDS + 1
    assert (await browser.get("/orgs/acme")).headers["location"] == SIGN_IN
    assert await redis.keys("ghapp:session:*") == []


# A browser with the key of `ghapp up`.


async def test_under_ghapp_up_a_browser_with_the_key_sees_everything_without_a_sign_in(key_holder):
    assert (await key_holder.get("/orgs/globex")).status_code == 200
    assert (await key_holder.get("/system")).status_code == 200


async def test_a_sign_in_at_another_address_begins_again_at_the_public_one_where_its_cookies_are(start):
    browser = start(base="http://127.0.0.1:8000", GHAPP_PUBLIC_URL="https://ghapp.example/x")
    moved = await browser.get("/sign-in/github", params={"to": "orgs/acme"})
    assert moved.headers["location"] == "https://ghapp.example/x/sign-in/github?to=orgs%2Facme&public="
    begun = await browser.get("/sign-in/github", params={"to": "orgs/acme", "public": ""})
    assert query_of(begun)["redirect_uri"] == "https://ghapp.example/x/sign-in/callback", "its proxy changes Host"


async def test_a_client_that_leaves_amid_a_form_is_no_error(start, caplog):
    """Anyone can; a traceback in the log for each would fill it."""
    application = start()._transport.app
    messages = iter([{"type": "http.request", "body": b"a=", "more_body": True}, {"type": "http.disconnect"}])
    sent = []

    async def receive():
        return next(messages)

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/sign-out",
        "query_string": b"",
        "headers": [],
        "scheme": "http",
    }
    await application({**scope, "server": ("x", 80), "client": ("127.0.0.1", 5)}, receive, send)
    assert sent[0]["status"] == 400
    assert not caplog.records
