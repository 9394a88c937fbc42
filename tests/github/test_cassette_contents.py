"""The cassettes conform to GitHub's description and contain no secrets."""

from __future__ import annotations

import pathlib
import re
from datetime import UTC, datetime

import httpx
import pytest
import yaml

from tests.github import test_cassettes
from tests.sandbox.openapi import description, mistakes

SECRETS = re.compile(r"gh[a-z]_\w|github_pat_|whsec_|eyJ|PRIVATE KEY-----|[Bb]earer |[Ss]et-[Cc]ookie")
CASSETTES = sorted(test_cassettes.CASSETTES.glob("*.yaml"))


def answers():
    for path in CASSETTES:
        for call in yaml.load(path.read_text(), yaml.CSafeLoader)["interactions"]:
            asked, answered = call["request"], call["response"]
            answer = httpx.Response(
                answered["status"]["code"],
                headers={name: value for name, (value,) in answered["headers"].items()},
                content=answered["body"]["string"],
                request=httpx.Request(asked["method"], asked["uri"], headers=asked["headers"]),
            )
            yield pytest.param(answer, id=f"{path.stem} {answer.status_code}")


def template(path):
    """The path as GitHub's description writes it; of two, the one with fewer parameters."""
    path = re.sub(r"^/repositories/\d+", "/repos/owner/repo", path)
    fitting = [
        each for each in description()["paths"] if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(each)), path)
    ]
    return min(fitting, key=lambda each: each.count("{"))


@pytest.mark.parametrize("answer", list(answers()))
def test_each_answer_is_as_github_describes_it(answer):
    if answer.status_code == 304:
        assert (answer.content, "etag" in answer.headers) == (b"", True)
    elif answer.status_code >= 500:
        assert answer.headers["content-type"].startswith("text/html"), "it is not the API that answers"
    else:
        assert mistakes(answer.request.method, template(answer.request.url.path), answer) == []


@pytest.mark.parametrize("answer", list(answers()))
def test_each_answer_bears_github_s_own_headers(answer):
    assert answer.headers["server"] == "GitHub.com"
    assert answer.headers["x-github-request-id"]
    if answer.content and answer.status_code < 500:
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        assert answer.headers["x-github-media-type"] == "github.v3; format=json"
        assert answer.headers["x-github-api-version-selected"] == "2022-11-28"


@pytest.mark.parametrize("path", CASSETTES, ids=lambda path: path.stem)
def test_none_holds_a_secret_or_will_be_out_of_date(path):
    text = path.read_text()
    assert SECRETS.findall(text) == []
    ends = re.findall(r'"expires_at": "(.+)"', text) + re.findall(r"x-ratelimit-reset:\n +- '(\d+)'", text)
    assert all(when(each) > datetime(2090, 1, 1, tzinfo=UTC) for each in ends)


def when(text):
    return datetime.fromtimestamp(int(text), UTC) if text.isdigit() else datetime.fromisoformat(text)


def test_each_is_played():
    source = pathlib.Path(test_cassettes.__file__).read_text()
    assert {path.name for path in CASSETTES} == set(re.findall(r'vcr\("(.+)"\)', source))


@pytest.mark.parametrize(
    "secret",
    [
        "ghs_16C7e42F292c6912E7710c838347Ae178B4a",
        "-----BEGIN RSA PRIVATE KEY-----",
        "authorization: Bearer eyJhbGciOiJ",
    ],
)
def test_a_secret_would_be_found(secret):
    assert SECRETS.search(secret)
