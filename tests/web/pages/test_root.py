"""The root address, opened in a browser."""

from __future__ import annotations


async def test_the_root_redirects_to_the_sign_in(http):
    del http.headers["authorization"]
    answer = await http.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "sign-in")


async def test_an_api_token_opens_no_page(http):
    answer = await http.get("/orgs/acme")
    assert (answer.status_code, answer.headers["location"]) == (303, "../sign-in?to=orgs/acme")
