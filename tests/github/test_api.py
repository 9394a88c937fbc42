"""What each of GitHub's answers means, and which of them mean nothing at all."""

from __future__ import annotations

import json
import sys
import time

import httpx
import pytest
from httpcore._synchronization import current_async_library

from ghapp import errors
from ghapp.credentials import AppCredentials
from ghapp.github.api import THE_APP, GitHub, InstallationList
from ghapp.github.installation_client import Removal, fingerprint
from ghapp.github.transport import open_client
from ghapp.github.wire import JobEnd
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import CallLimits
from ghapp.sandbox.config import SandboxConfig
from ghapp.sandbox.server import SandboxServer
from ghapp.store.github_tokens import SharedToken

ACME = Installation(7, "acme", 1)
NOW = 1_790_000_000.0
BASE = "https://ghes.example/api/v3"
RUNNER = {
    "id": 23,
    "name": "MBP",
    "os": "macos",
    "status": "online",
    "busy": True,
    "ephemeral": False,
    "labels": [{"id": 5, "name": "self-hosted", "type": "read-only"}, {"id": 21, "name": "no-gpu", "type": "custom"}],
}


class TokenStore:
    """Holds a token of that age (seconds)."""

    def __init__(self, age=3000.0):
        self.minted_at, self.forgotten = NOW - age, []

    async def token(self, installation, mint, now):
        return SharedToken("a-token", self.minted_at)

    async def forget(self, installation):
        self.forgotten.append(installation)


class MintingVault:
    async def token(self, installation, mint, now):
        return SharedToken((await mint()).secret, now)


class BudgetRecorder:
    """Lets everything pass, and remembers it."""

    def __init__(self):
        self.entered, self.received, self.held = [], [], []

    async def enter(self, installation, limits, points):
        self.entered.append((installation, limits.share, points))
        return "flight"

    async def leave(self, installation, flight, headers):
        self.received.append((installation, headers.get("x-ratelimit-used")))

    async def hold(self, installation, seconds):
        self.held.append((installation, seconds))


@pytest.fixture(scope="session")
def private_key():
    with SandboxServer(SandboxConfig(quiet=True, ticking=False)) as sandbox:
        return sandbox.app.private_key_pem


@pytest.fixture
def github(private_key):
    """A GitHub that answers with `answer(request)`, and the requests it received."""

    def open_github(answer, token_cache=None):
        sent, meter = [], BudgetRecorder()

        def handle(request):
            sent.append(request)
            return answer(request)

        client = open_client(BASE)
        client._transport, client._mounts = httpx.MockTransport(handle), {}
        credentials = AppCredentials("Iv1.abc", private_key, ("s",))
        return GitHub(BASE, credentials, token_cache or TokenStore(), meter, client, lambda: NOW), sent, meter

    return open_github


def raises(kind):
    def answer(request):
        raise kind("no", request=request)

    return answer


UNAVAILABLE = [
    *(lambda _, status=status: httpx.Response(status) for status in (500, 502, 503, 504)),
    raises(httpx.ReadTimeout),
    raises(httpx.ConnectError),
    raises(httpx.ReadError),
    raises(httpx.RemoteProtocolError),
    lambda _: httpx.Response(200, text="<html>"),
    lambda _: httpx.Response(200, content=json.dumps(RUNNER).encode()[:-5]),
    lambda _: httpx.Response(200, json={"message": "hello"}),
]


@pytest.mark.parametrize("answer", UNAVAILABLE)
async def test_no_answer_and_half_an_answer_are_unavailable_and_never_absence(github, answer):
    api, sent, _ = github(answer)
    with pytest.raises(errors.GitHubUnavailableError):
        await (await api.installation_client(ACME)).runner(23)
    assert len(sent) == 1, "nothing is retried behind our back"


async def test_a_401_says_that_our_credentials_are_not_accepted(github):
    api, _, _ = github(lambda _: httpx.Response(401, json={"message": "Bad credentials"}))
    with pytest.raises(errors.UnauthorizedError):
        await (await api.installation_client(ACME)).runner(23)


async def test_a_410_says_that_it_was_deleted(github):
    api, _, _ = github(lambda _: httpx.Response(410, json={"message": "Gone"}))
    with pytest.raises(errors.DeletedError):
        await (await api.installation_client(ACME)).runner(23)


async def test_a_403_names_the_permission_that_is_missing(github):
    headers = {"x-accepted-github-permissions": "organization_self_hosted_runners=read"}
    api, _, _ = github(lambda _: httpx.Response(403, headers=headers, json={"message": "Resource not accessible"}))
    with pytest.raises(errors.PermissionMissingError) as caught:
        await (await api.installation_client(ACME)).runner(23)
    assert caught.value.accepted == "organization_self_hosted_runners=read"


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("headers", [{"retry-after": "60"}, {"x-ratelimit-remaining": "0"}])
async def test_over_a_limit_every_caller_gets_the_time_to_wait(github, status, headers):
    reset = {"x-ratelimit-reset": str(int(time.time()) + 60)}
    api, _, meter = github(lambda _: httpx.Response(status, headers={**reset, **headers}, json={"message": "limit"}))
    with pytest.raises(errors.RateLimitedError) as caught:
        await (await api.installation_client(ACME)).runner(23)
    assert 50 < caught.value.after_seconds <= 61
    assert meter.held == [(7, caught.value.after_seconds)], "everyone stays away"
    assert meter.received == [(7, None)], "and it is no longer on its way"


@pytest.mark.parametrize("ask", [lambda api: api.installations(), lambda api: api.installation(7)])
async def test_over_the_limit_of_the_app_itself_every_caller_gets_it_too(github, ask):
    api, _, meter = github(lambda _: httpx.Response(429, headers={"retry-after": "30"}))
    with pytest.raises(errors.RateLimitedError):
        await ask(api)
    assert meter.held == [(THE_APP, pytest.approx(30, abs=1))]
    assert [entered[0] for entered in meter.entered] == [THE_APP], "and asks before each call"


async def test_a_429_that_says_no_time_is_a_minute(github):
    api, _, meter = github(lambda _: httpx.Response(429, text="slow down"))
    with pytest.raises(errors.RateLimitedError):
        await (await api.installation_client(ACME)).runner(23)
    assert meter.held == [(7, 60.0)]


@pytest.mark.parametrize("status", [400, 409, 410, 451])
async def test_an_unforeseen_answer_is_an_error_and_nothing_is_concluded_from_it(github, status):
    api, _, meter = github(lambda _: httpx.Response(status, json={"message": "no"}))
    with pytest.raises(errors.GitHubError, match=f"GitHub answered {status}"):
        await (await api.installation_client(ACME)).runner(23)
    assert meter.held == []


@pytest.mark.parametrize(("age", "forgotten"), [(10.0, [7]), (9.9, [])], ids=["settled", "too young"])
async def test_a_401_ends_a_settled_token_and_excuses_a_young_one(github, age, forgotten):
    token_cache = TokenStore(age)
    api, _, _ = github(lambda _: httpx.Response(401, json={"message": "Bad credentials"}), token_cache)
    with pytest.raises(errors.UnauthorizedError):
        await (await api.installation_client(ACME)).runner(23)
    assert token_cache.forgotten == forgotten


@pytest.mark.parametrize("ask", ["runner", "remove_runner"])
async def test_a_404_by_a_young_token_means_nothing(github, ask):
    api, _, _ = github(lambda _: httpx.Response(404, json={"message": "Not Found"}), TokenStore(9.9))
    with pytest.raises(errors.UnauthorizedError):
        await getattr(await api.installation_client(ACME), ask)(23)


@pytest.mark.parametrize(("ask", "points"), [("runner", 1), ("remove_runner", 5)])
async def test_each_call_is_admitted_with_its_points_and_under_its_ceiling(github, ask, points):
    api, _, meter = github(lambda _: httpx.Response(404, json={"message": "Not Found"}))
    await getattr(await api.installation_client(ACME, CallLimits(0.5)), ask)(23)
    assert meter.entered == [(7, 0.5, points)]


async def test_a_runner_that_answers_404_is_none(github):
    api, _, _ = github(lambda _: httpx.Response(404, json={"message": "Not Found"}))
    assert await (await api.installation_client(ACME)).runner(23) is None


async def test_a_list_that_answers_404_is_an_error_and_not_an_empty_list(github):
    api, _, _ = github(lambda _: httpx.Response(404, json={"message": "Not Found"}))
    with pytest.raises(errors.GitHubError):
        await (await api.installation_client(ACME)).list_runners(1, None)


@pytest.mark.parametrize(
    ("status", "outcome"), [(204, Removal.REMOVED), (404, Removal.ALREADY_GONE), (422, Removal.BUSY)]
)
async def test_a_removal_is_answered_with_its_status(github, status, outcome):
    api, sent, _ = github(lambda _: httpx.Response(status))
    assert await (await api.installation_client(ACME)).remove_runner(23) is outcome
    assert [(request.method, request.url.path) for request in sent] == [
        ("DELETE", "/api/v3/orgs/acme/actions/runners/23")
    ]


@pytest.mark.parametrize("status", [200, 202, 302], ids=["a page", "accepted", "sent on to a page"])
async def test_a_removal_answered_by_another_server_does_not_count(github, status):
    """A proxy before a GitHub Enterprise Server that wants a login sends a page, which is no error."""

    def answer(request):
        return httpx.Response(
            status if request.method == "DELETE" else 200, headers={"location": "/login"}, text="<html>sign in</html>"
        )

    api, _, _ = github(answer)
    with pytest.raises(errors.GitHubUnavailableError):
        await (await api.installation_client(ACME)).remove_runner(23)


async def test_a_removal_is_never_sent_twice(github):
    api, sent, _ = github(lambda _: httpx.Response(502))
    with pytest.raises(errors.GitHubUnavailableError):
        await (await api.installation_client(ACME)).remove_runner(23)
    assert len(sent) == 1


async def test_an_unchanged_page_is_none_and_keeps_its_etag(github):
    api, sent, meter = github(lambda _: httpx.Response(304, headers={"x-ratelimit-used": "5"}))
    assert await (await api.installation_client(ACME)).list_runners(2, '"abc"') == (None, '"abc"')
    assert sent[0].headers["if-none-match"] == '"abc"'
    assert dict(sent[0].url.params) == {"per_page": "100", "page": "2"}
    assert meter.received == [(7, "5")]


async def test_the_app_is_known_by_its_jwt_and_a_tenant_by_its_token(github):
    api, sent, _ = github(lambda request: httpx.Response(200, json=[] if "/app/" in request.url.path else RUNNER))
    await api.installations()
    seen = await (await api.installation_client(ACME)).runner(23)
    assert seen is not None
    assert (seen.id, seen.online, seen.busy, seen.custom_labels, seen.ephemeral) == (23, True, True, ("no-gpu",), False)
    app, installation_client = sent
    assert app.headers["authorization"].lower().startswith("bearer ey")
    assert installation_client.headers["authorization"] == "token a-token"
    assert {request.headers["x-github-api-version"] for request in sent} == {"2022-11-28"}
    assert all(request.headers["user-agent"] == "ghapp" for request in sent)
    assert all(request.url.path.startswith("/api/v3/") for request in sent)


@pytest.mark.parametrize(
    ("status", "kind"), [(403, errors.InstallationSuspendedError), (404, errors.InstallationMissingError)]
)
async def test_no_token_for_a_suspended_or_removed_installation(github, status, kind):
    api, _, _ = github(lambda _: httpx.Response(status, json={"message": "no"}), MintingVault())
    with pytest.raises(kind):
        await api.installation_client(ACME)


async def test_the_list_of_installations_is_followed_to_its_end(github):
    def answer(request):
        page = int(request.url.params["page"])
        rows = range(100) if page < 3 else range(1)
        return httpx.Response(
            200, json=[{"id": page * 1000 + n, "account": {"login": "o", "id": 1}, "permissions": {}} for n in rows]
        )

    api, sent, _ = github(answer)
    assert len((await api.installations()).readable) == 201
    assert len(sent) == 3


ODD = [
    {"id": 8, "account": {"id": 5, "slug": "acme-corp"}, "permissions": {}},
    {"id": 9, "account": None, "permissions": {}},
]


@pytest.mark.parametrize("odd", ODD, ids=["an enterprise", "null"])
async def test_an_installation_without_an_organization_costs_itself_alone(github, odd):
    well = {"id": 7, "account": {"login": "acme", "id": 1}, "permissions": {"checks": "write"}}
    api, _, _ = github(lambda _: httpx.Response(200, json=[odd, well]))
    listed = await api.installations()
    assert listed == ([Installation(7, "acme", 1, {"checks": "write"})], {odd["id"]}, True)
    ((count, left_out),) = api.left_out.take().values()
    assert (count, left_out.kind, left_out.is_row) == (1, "installation", True)
    assert left_out.field == "[0].account"
    assert ("enterprise" in left_out.why) is (odd is ODD[0])


KNOWN = {each: Installation(each, f"org{each}", each) for each in (1, 2, 3)}


@pytest.mark.parametrize(
    ("unreadable", "is_complete", "exist"),
    [({2, 4}, True, [1, 2]), (set(), True, [1]), (set(), False, [1, 2, 3])],
    ids=["of a known one", "none", "without an id"],
)
def test_an_installation_whose_row_cannot_be_read_exists_as_it_was_known(unreadable, is_complete, exist):
    listed = InstallationList([KNOWN[1]], frozenset(unreadable), is_complete)
    assert [each.id for each in listed.with_known(KNOWN)] == exist


@pytest.mark.parametrize("name", ["linux-1", None], ids=["with the name", "without a readable name"])
async def test_a_row_that_cannot_be_read_may_be_the_runner_of_that_name(github, name):
    rows = [{**RUNNER, "name": "linux-2", "status": "asleep"}, {**RUNNER, "name": name, "id": None}]
    api, _, _ = github(lambda _: httpx.Response(200, json={"total_count": 2, "runners": rows}))
    client = await api.installation_client(ACME)
    with pytest.raises(errors.GitHubUnavailableError, match="cannot be read"):
        await client.runners_named("linux-1")


async def test_a_list_of_installations_without_an_end_is_no_list(github):
    rows = json.dumps([{"id": n, "account": {"login": "o", "id": 1}, "permissions": {}} for n in range(100)])
    api, sent, _ = github(lambda _: httpx.Response(200, text=rows))
    with pytest.raises(errors.GitHubUnavailableError, match="no end"):
        await api.installations()
    assert len(sent) == 999


async def test_tokens_are_distinguished_without_showing_them(github):
    api, _, _ = github(lambda _: httpx.Response(200, json=RUNNER))
    installation_client = await api.installation_client(ACME)
    assert installation_client.token == fingerprint("a-token") != fingerprint("b-token")
    assert "a-token" not in installation_client.token


def moved(to):
    """Answers 307 once."""
    return lambda request: (
        httpx.Response(200, json=RUNNER)
        if str(request.url) == to
        else httpx.Response(307, headers={"location": to}, json={"message": "Temporary Redirect", "url": to})
    )


async def test_a_repository_that_moved_is_followed_with_all_that_was_sent(github):
    there = f"{BASE}/repositories/1/check-runs"
    api, sent, _ = github(moved(there))
    answer = await (await api.installation_client(ACME)).send("POST", "/repos/acme/old/check-runs", json={"name": "n"})
    assert answer.status == 200
    asked, followed = sent
    assert (followed.method, str(followed.url), followed.content) == ("POST", there, asked.content)
    assert followed.headers["authorization"] == asked.headers["authorization"]


async def test_no_other_host_is_sent_the_token(github):
    api, sent, _ = github(moved("https://elsewhere.example/"))
    await (await api.installation_client(ACME)).send("GET", "/repos/acme/old")
    assert ["authorization" in each.headers for each in sent] == [True, False]


@pytest.mark.parametrize(
    ("answered", "end"),
    [
        ({"status": "in_progress", "completed_at": None}, None),
        ({"status": "queued"}, None),
        ({"status": "completed", "completed_at": "2026-11-20T12:00:03Z"}, JobEnd(1_795_176_003.0)),
        ({"status": "completed", "completed_at": None}, JobEnd(None)),
        ({"status": "completed"}, JobEnd(None)),
    ],
    ids=["in progress", "queued", "over", "over, without a date", "over, without the field"],
)
async def test_a_job_is_over_when_github_says_so_and_since_the_time_that_github_gives(github, answered, end):
    api, _, _ = github(lambda _request: httpx.Response(200, json=answered))
    assert await (await api.installation_client(ACME)).job_end("acme/api", 42) == end


async def test_httpcore_finds_sniffio_because_a_failed_import_at_each_step_costs_a_tenth_of_a_millisecond():
    assert current_async_library() == "asyncio"
    assert sys.modules["sniffio"].__spec__ is not None
