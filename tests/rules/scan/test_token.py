"""Which GitHub a scan asks, and with whose token."""

from __future__ import annotations

import pytest

from ghapp.errors import ConfigurationError
from ghapp.scan.token import FoundToken, GitHubHost, find_token


def no_gh(_):
    return ""


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, ("https://api.github.com", "https://github.com", "github.com")),
        ({"GH_HOST": "github.com"}, ("https://api.github.com", "https://github.com", "github.com")),
        ({"GH_HOST": "acme.ghe.com"}, ("https://api.acme.ghe.com", "https://acme.ghe.com", "acme.ghe.com")),
        (
            {"GH_HOST": "ghes.example.com"},
            ("https://ghes.example.com/api/v3", "https://ghes.example.com", "ghes.example.com"),
        ),
        (
            {"GHAPP_GITHUB_API_URL": "https://ghes.example.com:8443/api/v3/", "GH_HOST": "github.com"},
            ("https://ghes.example.com:8443/api/v3", "https://ghes.example.com:8443", "ghes.example.com:8443"),
        ),
        (
            {"GHAPP_GITHUB_WEB_URL": "https://acme.ghe.com", "GH_HOST": "github.com"},
            ("https://api.acme.ghe.com", "https://acme.ghe.com", "acme.ghe.com"),
        ),
        (
            {"GHAPP_GITHUB_API_URL": "https://api.github.com.evil.example/api/v3"},
            (
                "https://api.github.com.evil.example/api/v3",
                "https://api.github.com.evil.example",
                "api.github.com.evil.example",
            ),
        ),
    ],
    ids=str,
)
def test_the_address_of_github(environ, found):
    host = GitHubHost.read(environ)
    assert host == found
    assert host.is_public == (host.api_url == "https://api.github.com")


@pytest.mark.parametrize(
    "url", ["http://ghes.example.com/api/v3", "https://me:secret@ghes.example.com/api/v3", "ftp://x", "https://x?y"]
)
def test_an_address_that_would_leak_the_token_is_refused(url):
    with pytest.raises(ConfigurationError, match="GHAPP_GITHUB_API_URL") as caught:
        GitHubHost.read({"GHAPP_GITHUB_API_URL": url})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("host", ["evil.example/x?", "evil example", "me@evil.example"])
def test_an_odd_gh_host_is_refused_or_stays_a_host(host):
    try:
        found = GitHubHost.read({"GH_HOST": host})
    except ConfigurationError:
        return
    assert found.api_url.startswith(f"https://{host}")


GITHUB = GitHubHost.read({})


def test_the_first_variable_counts_and_gh_is_asked_last():
    asked = []

    def gh(host):
        asked.append(host)
        return "of-gh\n"

    both = {"GH_TOKEN": " first ", "GITHUB_TOKEN": "second"}
    assert find_token(both, GITHUB, gh) == ("first", "GH_TOKEN")
    assert find_token({"GH_TOKEN": "", "GITHUB_TOKEN": "second"}, GITHUB, gh).source == "GITHUB_TOKEN"
    assert asked == []
    assert find_token({}, GitHubHost.read({"GH_HOST": "acme.ghe.com"}), gh) == ("of-gh", "gh auth token")
    assert asked == ["acme.ghe.com"]


@pytest.mark.parametrize("token", ["two words", "a\nb", "töken", "a\x00b", "a\tb"])
def test_what_is_no_token_is_refused_and_not_shown(token):
    with pytest.raises(ConfigurationError, match=r"^GH_TOKEN: is no token") as caught:
        find_token({"GH_TOKEN": token}, GITHUB, no_gh)
    assert token not in str(caught.value)


@pytest.mark.parametrize(
    ("api_url", "page"),
    [
        ("https://ghes.example.com/api/v3", "https://ghes.example.com/settings/tokens"),
        ("http://127.0.0.1:8123/api/v3", "http://127.0.0.1:8123/settings/tokens"),
    ],
)
def test_without_any_it_says_how_to_get_one(api_url, page):
    with pytest.raises(ConfigurationError, match=f" at {page} "):
        find_token({}, GitHubHost.read({"GHAPP_GITHUB_API_URL": api_url}), no_gh)


def test_a_token_is_in_no_representation():
    assert "secret" not in repr(FoundToken("secret", "GH_TOKEN"))
