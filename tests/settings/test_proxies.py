"""Proxies of the environment: refused if the HTTP client cannot use them, named if there is no answer."""

from __future__ import annotations

import pytest

from ghapp.errors import ConfigurationError, GitHubUnavailableError
from ghapp.github.transport import GitHubTransport, open_client
from ghapp.proxies import through_proxy
from ghapp.settings import Settings
from tests.support.ports import free_port


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize("name", ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"])
@pytest.mark.parametrize("value", ["ftp://user:hunter2@p:21", "socks4://p:1080", "http://", "p:port", "http://p q"])
def test_one_that_cannot_be_used_is_refused_by_its_name_and_not_shown(name, value):
    with pytest.raises(ConfigurationError) as raised:
        Settings.read({name: value})
    assert str(raised.value).startswith(f"{name}: is not a proxy that ghapp can use; it takes http://HOST:PORT")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "value", ["http://p:3128", "https://user:pass@p:3128", "p:3128", "HTTP://p:3128", "10.0.0.1:3128", ""]
)
def test_one_that_can_be_used_is_taken(value):
    Settings.read({"ALL_PROXY": value})


@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
@pytest.mark.parametrize("exceptions", ["*", "localhost, *"])
def test_none_is_checked_that_no_request_uses(name, exceptions):
    Settings.read({"ALL_PROXY": "ftp://p", name: exceptions})


def test_socks_takes_one_more_package(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="pip install socksio"):
        Settings.read({"ALL_PROXY": "socks5://p:1080"})
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    Settings.read({"ALL_PROXY": "socks5://p:1080"})


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({}, ""),
        ({"HTTPS_PROXY": "http://user:hunter2@p:3128"}, " through the proxy p:3128; check HTTPS_PROXY, "),
        ({"ALL_PROXY": "p:3128"}, " through the proxy p:3128; check HTTPS_PROXY, "),
        ({"HTTP_PROXY": "http://p:3128"}, ""),
        ({"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "api.github.com"}, ""),
        ({"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "*"}, ""),
    ],
    ids=["none", "of the scheme", "of all", "of another scheme", "an exception", "exceptions all"],
)
def test_the_proxy_of_a_request_is_named_without_its_password(monkeypatch, environ, named):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    found = through_proxy("https://api.github.com/app")
    assert found.startswith(named)
    assert bool(found) == bool(named)


async def test_a_proxy_that_does_not_answer_is_named_where_github_seems_not_to(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{(port := free_port())}")
    url = "http://api.example.com"
    async with open_client(url) as client:
        with pytest.raises(GitHubUnavailableError, match=rf"through the proxy 127\.0\.0\.1:{port}; check HTTP_PROXY"):
            await GitHubTransport.anonymous(url, client).send("GET", "/meta")
