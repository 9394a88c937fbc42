"""A person's calls: how many are sent, what is waited for, and what of the person's limit is left alone."""

from __future__ import annotations

import httpx
import pytest

from ghapp.errors import BudgetSpentError, GitHubUnavailableError, RateLimitedError, UnauthorizedError
from ghapp.github import transport as github_transport
from ghapp.github.personal_client import PersonalClient
from ghapp.github.response import GitHubResponse

RESET = {"x-ratelimit-limit": "5000", "x-ratelimit-reset": "1"}


class Answers:
    """GitHub's answers, one after the other; the last one for good."""

    def __init__(self, *answers):
        self.answers, self.asked, self.waits, self.pauses = list(answers), [], [], []

    def __call__(self, request):
        self.asked.append(request)
        status, headers = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return httpx.Response(status, headers=headers, json={})

    async def pause(self, seconds):
        self.pauses.append(seconds)

    def opened(self, monkeypatch):
        def client(api_url):
            return httpx.AsyncClient(transport=httpx.MockTransport(self), base_url=api_url, follow_redirects=True)

        monkeypatch.setattr(github_transport, "open_client", client)
        return PersonalClient.open("https://api.github.com", "ghp_secret", self.waits.append, self.pause)


@pytest.fixture
def github(monkeypatch):
    def of(*answers):
        answers = Answers(*answers)
        return answers, answers.opened(monkeypatch)

    return of


async def asked(client, most_calls=9):
    client.most_calls = most_calls
    return await client.send("GET", "/orgs/acme")


async def test_a_call_has_the_token_and_its_value_is_shown_nowhere(github):
    answers, opened = github((200, {}))
    async with opened as client:
        assert isinstance(await asked(client), GitHubResponse)
        assert answers.asked[0].headers["authorization"] == "token ghp_secret"
        assert "ghp_secret" not in f"{client!r} {client.token} {vars(client)}"


async def test_no_more_calls_are_sent_than_allowed(github):
    answers, opened = github((200, {}))
    async with opened as client:
        await asked(client, most_calls=1)
        with pytest.raises(BudgetSpentError):
            await client.send("GET", "/orgs/acme")
        assert (client.calls, client.calls_left, len(answers.asked)) == (1, 0, 1)


async def test_a_redirect_is_a_call_and_another_host_gets_no_token(github):
    answers, opened = github((301, {"location": "https://elsewhere.example/x"}), (200, {}))
    async with opened as client:
        await asked(client)
        assert client.calls == 2
        assert "authorization" not in answers.asked[1].headers


async def test_a_short_wait_that_github_asks_for_is_waited_for_once_by_all(github):
    answers, opened = github((429, {"retry-after": "7"}), (200, {}))
    async with opened as client:
        await asked(client)
        assert (answers.waits, [round(each) for each in answers.pauses], client.calls) == ([7.0], [7], 2)


async def test_a_long_wait_is_an_error_at_once(github):
    answers, opened = github((429, {"retry-after": "900"}))
    async with opened as client:
        with pytest.raises(RateLimitedError) as caught:
            await asked(client)
        assert (caught.value.after_seconds, answers.pauses, client.calls) == (900.0, [], 1)


async def test_a_limit_that_does_not_end_is_an_error_after_three_calls(github):
    answers, opened = github((403, {"retry-after": "60"}))
    async with opened as client:
        with pytest.raises(RateLimitedError):
            await asked(client)
        assert client.calls == len(answers.asked) == 3


async def test_a_gateway_s_error_is_tried_again_twice(github):
    answers, opened = github((502, {}), (503, {}), (200, {}))
    async with opened as client:
        await asked(client)
        assert answers.pauses == [1.0, 4.0]
    answers, opened = github((502, {}))
    async with opened as client:
        with pytest.raises(GitHubUnavailableError):
            await asked(client)
        assert client.calls == 3


async def test_a_401_is_not_tried_again(github):
    answers, opened = github((401, {}))
    async with opened as client:
        with pytest.raises(UnauthorizedError, match=r"the token \(401\)$"):
            await asked(client)
        assert len(answers.asked) == 1


@pytest.mark.parametrize(
    ("remaining", "left"), [("4000", 8), ("505", 5), ("500", 0), ("3", 0), ("", 8), ("many", 8)], ids=str
)
async def test_a_tenth_of_the_person_s_limit_is_left_alone(github, remaining, left):
    _, opened = github((200, RESET | {"x-ratelimit-remaining": remaining}))
    async with opened as client:
        await asked(client)
        assert client.calls_left == left


@pytest.mark.parametrize(
    ("header", "scopes"),
    [
        ({}, None),
        ({"x-oauth-scopes": ""}, frozenset()),
        ({"x-oauth-scopes": "repo, admin:org"}, frozenset({"repo", "admin:org"})),
    ],
    ids=["fine-grained", "classic without scopes", "classic"],
)
async def test_the_scopes_of_a_classic_token_are_known_and_another_token_has_none(github, header, scopes):
    _, opened = github((200, header))
    async with opened as client:
        await asked(client)
        assert client.scopes == scopes
