"""The key of `ghapp up`: without it each request has to sign in, whatever it says of where it comes from."""

from __future__ import annotations

import pytest

from ghapp.web.pages.page_key import key_cookie
from tests.web.pages.conftest import HERE, KEY

LOCAL = "http://127.0.0.1:8000"
COOKIE = key_cookie(KEY, 8000)[1]
AS_IF_FROM_HERE = {
    "from this machine": {},
    "Host: localhost": {"host": "localhost:8000"},
    "Host: [::1]": {"host": "[::1]"},
    "a name that leads here": {"host": "rebound.example:8000"},
    "nginx with headers": {"x-forwarded-for": "127.0.0.1", "x-real-ip": "127.0.0.1", "x-forwarded-proto": "https"},
    "HAProxy": {"x-forwarded-for": "127.0.0.1", "host": "127.0.0.1:8000"},
    "RFC 7239": {"forwarded": "for=127.0.0.1;host=localhost"},
    "a CDN": {"cf-connecting-ip": "127.0.0.1", "true-client-ip": "127.0.0.1", "via": "1.1 cdn"},
    "an authenticating proxy": {"x-forwarded-user": "admin", "remote-user": "admin", "x-auth-request-user": "admin"},
    "another key": {"cookie": "ghapp_key_8000=another"},
    "an empty key": {"cookie": "ghapp_key_8000="},
    "the key itself": {"cookie": f"ghapp_key_8000={KEY}; ghapp_key={KEY}"},
    "the key of another cookie": {"cookie": f"ghapp_session={COOKIE}; ghapp_local={COOKIE}"},
    "the cookie of another port": {"cookie": "=".join(key_cookie(KEY, 9000))},
    "that with the name of this port": {"cookie": f"ghapp_key_8000={key_cookie(KEY, 9000)[1]}"},
    "the cookie of an earlier start": {"cookie": "=".join(key_cookie("an-earlier-key", 8000))},
    "the cookie, and no Host's port": {"cookie": "=".join(key_cookie(KEY, 8000)), "host": "127.0.0.1"},
    "the cookie, and a Host that is none": {"cookie": "=".join(key_cookie(KEY, 8000)), "host": "127.0.0.1:port"},
    "the key as a token": {"authorization": f"Bearer {KEY}"},
}
"""What proxies, forwarders and attackers send. An L4 forwarder, `proxy_pass` without headers and another user of this
machine all send what a browser on this machine sends."""

PAGES = ("/", "/orgs/acme", "/orgs/acme/runners/1", "/orgs/acme/gate", "/system")


@pytest.mark.parametrize("headers", AS_IF_FROM_HERE.values(), ids=AS_IF_FROM_HERE)
@pytest.mark.parametrize("client", [True, False], ids=["sign-in", "no sign-in"])
async def test_nothing_but_the_key_opens_a_page(start, headers, client):
    browser = start("127.0.0.1", LOCAL, client=client, GHAPP_PAGE_KEY=KEY)
    for page in PAGES:
        answer = await browser.get(page, headers=headers)
        assert (answer.status_code, "sign-in" in answer.headers["location"]) == (303, True), page
    pressed = await browser.post("/orgs/acme/pause", data={"why": "x"}, headers=headers)
    assert (pressed.status_code, "sign-in" in pressed.headers["location"]) == (303, True)
    installed = await browser.get("/setup/installed", headers=headers)
    assert "acme" not in installed.text, "what was found is for the holder of the key"


async def test_without_up_no_key_opens_anything(start):
    for key in ("", "None", KEY):
        browser = start("127.0.0.1", LOCAL)
        browser.cookies.set(*key_cookie(key, 8000))
        assert (await browser.get("/")).status_code == 303
        assert (await browser.get("/", params={"key": key})).status_code == 303


@pytest.mark.parametrize(
    ("path", "to"),
    [
        ("/", "./"),
        ("/orgs/acme", "./acme"),
        ("/orgs/acme/runners?state=lost&text=a%26b", "./runners?state=lost&amp;text=a%26b"),
        ("/orgs/acme/runners/javascript:alert(1)", "./javascript%3Aalert%281%29"),
    ],
)
async def test_the_key_moves_from_any_address_to_a_cookie(start, path, to):
    browser = start(client=False, GHAPP_PAGE_KEY=KEY)
    answer = await browser.get(f"{path}{'&' if '?' in path else '?'}key={KEY}")
    assert answer.status_code == 200
    assert f'content="0;url={to}"' in answer.text
    assert KEY not in answer.text
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert KEY not in cookie
    assert (await browser.get("/orgs/acme")).status_code == 200


async def test_the_cookie_is_no_key_of_an_address(start):
    browser = start("127.0.0.1", LOCAL, GHAPP_PAGE_KEY=KEY)
    answer = await browser.get("/", params={"key": COOKIE})
    assert (answer.status_code, "set-cookie" in answer.headers) == (303, False)


async def test_a_wrong_key_leads_to_the_sign_in_which_says_so(start):
    browser = start(GHAPP_PAGE_KEY=KEY)
    answer = await browser.get("/orgs/acme", params={"key": "of-an-earlier-start"})
    assert answer.headers["location"] == "../sign-in?done=wrong-key&to=orgs/acme"
    page = await browser.get("/sign-in", params={"done": "wrong-key"})
    assert "The key in that address is wrong" in page.text
    assert "that <code>ghapp up</code> printed" in page.text


async def test_a_link_from_another_site_is_requested_again_for_its_request_has_no_strict_cookie(start):
    browser = start(GHAPP_PAGE_KEY=KEY)
    link = await browser.get("/orgs/acme", headers={"sec-fetch-site": "cross-site"})
    assert (link.status_code, 'content="0;url=./acme"' in link.text) == (200, True)
    assert (await browser.get("/orgs/acme", headers={"sec-fetch-site": "same-origin"})).status_code == 303
    assert (await start().get("/orgs/acme", headers={"sec-fetch-site": "cross-site"})).status_code == 303, (
        "not under up"
    )


async def test_after_the_set_up_the_key_opens_nothing_but_the_page(key_holder):
    assert "nothing to set up" in (await key_holder.get("/setup")).text
    assert (await key_holder.post("/setup")).status_code == 409
    assert (await key_holder.get("/v1/orgs/acme/runners")).status_code == 401


async def test_a_form_of_another_origin_is_refused_also_with_the_key(key_holder):
    page = await key_holder.get("/orgs/acme/pause")
    token = page.text.partition('name="form_token" value="')[2].partition('"')[0]
    assert token
    for headers in (
        {"origin": "http://ghapp.example:9000"},
        {"origin": "https://ghapp.example"},
        {"sec-fetch-site": "same-site"},
    ):
        answer = await key_holder.post("/orgs/acme/pause", data={"form_token": token, "why": "x"}, headers=headers)
        assert answer.status_code == 403
    same = {"origin": HERE, "sec-fetch-site": "same-origin"}
    answer = await key_holder.post("/orgs/acme/pause", data={"form_token": token, "why": "x"}, headers=same)
    assert answer.status_code == 303
