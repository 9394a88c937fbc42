"""The address to which a browser is sent to sign in, and the exchange of GitHub's code for a token."""

from __future__ import annotations

import asyncio
import json
import logging
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.credentials import SignInClient
from ghapp.errors import CodeRefusedError, GitHubUnavailableError
from ghapp.github import user_authorization
from ghapp.github.user_authorization import LONGEST_ANSWER, LONGEST_TOKEN_SECONDS, UserAuthorization, code_challenge

BACK = "https://ghapp.example/sign-in/callback"
CODE, VERIFIER, SECRET, TOKEN = "the+code", "the-verifier", "the-client-secret", "ghu_the-token"
SECRETS = (CODE, VERIFIER, SECRET, TOKEN)
ISSUED = {"access_token": TOKEN, "token_type": "bearer", "scope": ""}


def authorization(web_url="https://github.example"):
    return UserAuthorization(web_url, "https://api.github.example", SignInClient("Iv1.id", SECRET))


class OneAnswer:
    """A server that gives one answer to every request, byte by byte if `pause` is set, and records the requests."""

    def __init__(self, head, body, pause=0.0):
        self._answer, self._pause, self.requests = head.encode() + b"\r\n\r\n" + body, pause, []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _serve(self, reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            self.requests.append(
                (head.split("\r\n")[0], headers, (await reader.readexactly(int(headers["content-length"]))).decode())
            )
            step = 1 if self._pause else len(self._answer)
            for start in range(0, len(self._answer), step):
                writer.write(self._answer[start : start + step])
                await writer.drain()
                await asyncio.sleep(self._pause)
            writer.close()
        except ConnectionError:
            pass


def answering(document, status="200 OK", more="", pause=0.0):
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return OneAnswer(f"HTTP/1.1 {status}\r\nConnection: close{more}", body, pause)


async def exchange(server):
    async with server:
        return await authorization(server.url).exchange(CODE, VERIFIER, BACK)


def test_the_challenge_is_that_of_the_rfc():
    """RFC 7636, appendix B."""
    assert (
        code_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )


def test_the_browser_is_sent_with_a_state_and_the_challenge_of_the_verifier():
    request = authorization().begin(f"{BACK}?a=1&b=ü")
    address = urlsplit(request.url)
    assert (address.scheme, address.netloc, address.path) == ("https", "github.example", "/login/oauth/authorize")
    assert parse_qs(address.query) == {
        "response_type": ["code"],
        "client_id": ["Iv1.id"],
        "redirect_uri": [f"{BACK}?a=1&b=ü"],
        "state": [request.state],
        "code_challenge": [code_challenge(request.verifier)],
        "code_challenge_method": ["S256"],
    }


def test_each_sign_in_has_its_own_state_and_verifier():
    first, second = (authorization().begin(BACK) for _ in range(2))
    assert len({first.state, first.verifier, second.state, second.verifier}) == 4
    assert 43 <= len(first.verifier) <= 128, "RFC 7636, section 4.1"


async def test_the_code_is_exchanged_by_a_form_with_the_client_secret():
    server = answering({**ISSUED, "expires_in": 600})
    assert await exchange(server) == (TOKEN, 600)
    ((line, headers, body),) = server.requests
    assert line == "POST /login/oauth/access_token HTTP/1.1"
    assert (headers["accept"], headers["content-type"]) == ("application/json", "application/x-www-form-urlencoded")
    assert "authorization" not in headers
    assert dict(parse_qsl(body)) == {
        "grant_type": "authorization_code",
        "client_id": "Iv1.id",
        "client_secret": SECRET,
        "code": CODE,
        "code_verifier": VERIFIER,
        "redirect_uri": BACK,
    }


@pytest.mark.parametrize("lifetime", [{}, {"expires_in": None}, {"expires_in": 10**9}], ids=["none", "null", "long"])
async def test_a_lifetime_is_eight_hours_at_most(lifetime):
    assert await exchange(answering({**ISSUED, **lifetime})) == (TOKEN, LONGEST_TOKEN_SECONDS)


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "401 Unauthorized"])
async def test_an_error_of_github_is_a_refusal_with_its_name(status):
    refusal = {"error": "bad_verification_code", "error_description": f"{CODE} is wrong, or {SECRET}"}
    with pytest.raises(CodeRefusedError) as raised:
        await exchange(answering({**ISSUED, **refusal}, status))
    assert str(raised.value) == "GitHub refused the sign-in: bad_verification_code"


MALFORMED = [
    pytest.param(b"", id="empty"),
    pytest.param(b"<html>", id="html"),
    pytest.param(b"[]", id="list"),
    pytest.param(b"null", id="null"),
    pytest.param(b"access_token=ghu_the-token", id="form"),
    pytest.param(b"\xff\xfe", id="bytes"),
    pytest.param(b"[" * 50_000, id="deep"),
    pytest.param(b'{"x":' + b"[" * 50_000, id="deep-field"),
    pytest.param(json.dumps(ISSUED).encode()[:-1], id="cut"),
    pytest.param({"message": "Not Found"}, id="other"),
    pytest.param({**ISSUED, "access_token": ""}, id="empty-token"),
    pytest.param({**ISSUED, "access_token": 7}, id="number"),
    pytest.param({**ISSUED, "expires_in": TOKEN}, id="lifetime"),
    pytest.param({"error": [SECRET]}, id="error-list"),
    pytest.param({"error": f"line\n{SECRET}"}, id="error-lines"),
    pytest.param({"error": "x" * 101}, id="error-long"),
    pytest.param({**ISSUED, "padding": "x" * LONGEST_ANSWER}, id="long"),
]


@pytest.mark.parametrize("document", MALFORMED)
async def test_an_answer_that_is_malformed_or_too_long_is_unavailability_without_a_secret(document, caplog):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(GitHubUnavailableError) as raised:
        await exchange(answering(document))
    assert raised.value.__cause__ is None
    assert [each for each in SECRETS if each in str(raised.value) or each in caplog.text] == []


async def test_an_endless_answer_is_read_up_to_the_limit_alone():
    class Endless(OneAnswer):
        sent = 0

        async def _serve(self, reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
            try:
                while True:
                    writer.write(b" " * 4096)
                    await writer.drain()
                    self.sent += 4096
            except ConnectionError:
                pass

    with pytest.raises(GitHubUnavailableError, match="ValueError"):
        await exchange(Endless("", b""))


@pytest.mark.parametrize("status", ["500 Internal Server Error", "502 Bad Gateway", "503 Service Unavailable"])
async def test_an_outage_is_unavailability_whatever_its_body(status):
    with pytest.raises(GitHubUnavailableError, match="HTTPStatusError"):
        await exchange(answering({"error": "x"}, status))


@pytest.mark.parametrize("status", ["302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
async def test_a_redirect_does_not_carry_the_client_secret_elsewhere(status):
    async with answering(ISSUED) as other:
        with pytest.raises(GitHubUnavailableError):
            await exchange(answering(b"", status, f"\r\nLocation: {other.url}/login/oauth/access_token"))
        assert other.requests == []


async def test_an_answer_that_arrives_byte_by_byte_takes_no_longer_than_the_limit(monkeypatch):
    monkeypatch.setattr(user_authorization, "TIMEOUT_SECONDS", 0.3)
    async with asyncio.timeout(5), answering({**ISSUED, "padding": "x" * 1000}, pause=0.05) as server:
        with pytest.raises(GitHubUnavailableError, match="Timeout"):
            await authorization(server.url).exchange(CODE, VERIFIER, BACK)


async def test_a_refused_connection_is_unavailability():
    async with answering(ISSUED) as server:
        url = server.url
    with pytest.raises(GitHubUnavailableError, match="ConnectError"):
        await authorization(url).exchange(CODE, VERIFIER, BACK)


@given(st.binary(max_size=200))
def test_any_bytes_are_one_of_the_two_errors(body):
    with pytest.raises((GitHubUnavailableError, CodeRefusedError)):
        asyncio.run(exchange(answering(body)))
