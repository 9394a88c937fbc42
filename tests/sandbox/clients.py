"""Callers of the sandbox: an App with its JWT, an installation with its token."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import jwt

from ghapp.sandbox import SandboxServer


def app_jwt(sandbox: SandboxServer, key: str | None = None, **claims: Any) -> str:
    """A good JWT of the sandbox's App, but for what the claims change; None takes a claim out."""
    now = int(time.time())
    stated = {"iss": sandbox.app.client_id, "iat": now - 60, "exp": now + 540} | claims
    return jwt.encode({k: v for k, v in stated.items() if v is not None}, key or sandbox.app.private_key_pem, "RS256")


def app_client(sandbox: SandboxServer, encoded: str | None = None, base: str | None = None) -> httpx.Client:
    headers = {"authorization": f"Bearer {encoded or app_jwt(sandbox)}"}
    return httpx.Client(base_url=base or sandbox.url, headers=headers)


def mint(sandbox: SandboxServer, org: str = "acme", **body: Any) -> str:
    with app_client(sandbox) as app:
        answer = app.post(f"/app/installations/{sandbox.installation_id(org)}/access_tokens", json=body)
    return str(answer.raise_for_status().json()["token"])


def installation_client(sandbox: SandboxServer, org: str = "acme", base: str | None = None) -> httpx.Client:
    headers = {"authorization": f"token {mint(sandbox, org)}"}
    return httpx.Client(base_url=base or sandbox.url, headers=headers)


CALLBACK = "http://127.0.0.1:9/sign-in/callback"
VERIFIER = "v" * 43
CHALLENGE = "7w_YNF9DSfIdPf_pRjSq646_kPr-2-o9NAl16JGghdM"


def authorized(sandbox: SandboxServer, login: str, **changes: str) -> dict[str, str]:
    """What a person's button adds to the callback's address; an empty login is the button that refuses."""
    fields = {"client_id": sandbox.app.client_id, "redirect_uri": CALLBACK, "state": "s", "login": login} | changes
    answer = httpx.post(f"{sandbox.url}/login/oauth/authorize", data=fields)
    assert answer.status_code == 302, answer.text
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


def exchange(sandbox: SandboxServer, code: str, **changes: str) -> dict[str, Any]:
    """GitHub's answer to a code."""
    fields = {"client_id": sandbox.app.client_id, "client_secret": sandbox.app.client_secret, "code": code} | changes
    answer = httpx.post(f"{sandbox.url}/login/oauth/access_token", data=fields, headers={"accept": "application/json"})
    assert answer.status_code == 200
    document: dict[str, Any] = answer.json()
    return document


def person_client(sandbox: SandboxServer, login: str) -> httpx.Client:
    token = exchange(sandbox, authorized(sandbox, login)["code"])["access_token"]
    return httpx.Client(base_url=sandbox.url, headers={"authorization": f"Bearer {token}"})


def logged(app: httpx.Client, count: int, **query: str) -> list[dict[str, Any]]:
    """The delivery log once it has so many entries: an attempt is logged a moment after the receiver has answered."""
    deadline = time.monotonic() + 5
    while True:
        entries: list[dict[str, Any]] = app.get("/app/hook/deliveries", params=query).json()
        if len(entries) >= count:
            return entries
        assert time.monotonic() < deadline, entries
        time.sleep(0.01)
