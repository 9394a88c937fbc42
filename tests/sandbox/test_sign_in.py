"""People who authorize an App: what each of them can see, and the life of a code."""

from __future__ import annotations

import httpx
import pytest

from ghapp.sandbox.people import CODE_SECONDS, USER_TOKEN_SECONDS
from tests.sandbox.clients import CALLBACK, CHALLENGE, VERIFIER, authorized, exchange, person_client

RUNNERS = "/orgs/{}/actions/runners"


@pytest.mark.parametrize(
    ("login", "installations", "statuses"),
    [
        ("mona", ["acme", "globex"], [200, 200]),
        ("lisa", ["acme"], [403, 404]),
        ("olga", ["acme"], [403, 404]),
        ("sam", [], [404, 404]),
    ],
    ids=["an owner", "a member of one organization", "an outside collaborator", "a stranger"],
)
def test_a_person_sees_the_installations_of_their_organizations_and_an_owner_lists_runners(
    sandbox, login, installations, statuses
):
    with person_client(sandbox, login) as person:
        assert person.get("/user").json()["login"] == login
        found = person.get("/user/installations").json()["installations"]
        assert [each["account"]["login"] for each in found] == installations
        assert [person.get(RUNNERS.format(org)).status_code for org in ("acme", "globex")] == statuses


def test_a_member_reads_some_repositories_and_an_owner_all(sandbox):
    path = f"/user/installations/{sandbox.installation_id()}/repositories"
    seen = {}
    for login in ("mona", "lisa", "olga"):
        with person_client(sandbox, login) as person:
            seen[login] = {each["name"] for each in person.get(path).json()["repositories"]}
    assert seen == {"mona": {"api", "web", "infra", ".github"}, "lisa": {"api", "web"}, "olga": {"api"}}


def test_a_code_is_good_once_and_for_ten_minutes(sandbox):
    code = authorized(sandbox, "lisa")["code"]
    assert exchange(sandbox, code)["access_token"].startswith("ghu_")
    assert exchange(sandbox, code)["error"] == "bad_verification_code"
    late = authorized(sandbox, "lisa")["code"]
    sandbox.control.step(seconds=CODE_SECONDS)
    assert exchange(sandbox, late)["error"] == "bad_verification_code"


def test_a_challenge_is_met_by_its_verifier_alone(sandbox):
    challenged = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
    assert "access_token" in exchange(
        sandbox, authorized(sandbox, "lisa", **challenged)["code"], code_verifier=VERIFIER
    )
    for wrong in ({}, {"code_verifier": "w" * 43}):
        code = authorized(sandbox, "lisa", **challenged)["code"]
        assert exchange(sandbox, code, **wrong)["error"] == "bad_verification_code"


def test_a_wrong_secret_and_another_redirect_are_refused(sandbox):
    code = authorized(sandbox, "lisa")["code"]
    assert exchange(sandbox, code, client_secret="x")["error"] == "incorrect_client_credentials"
    assert exchange(sandbox, code, redirect_uri=f"{CALLBACK}/x")["error"] == "redirect_uri_mismatch"


def test_a_refusal_redirects_with_an_error_and_the_state(sandbox):
    answer = authorized(sandbox, "")
    assert (answer["error"], answer["state"]) == ("access_denied", "s")


@pytest.mark.parametrize("redirect", ["https://elsewhere.example/", "http://127.0.0.1:9/elsewhere", ""])
def test_an_unregistered_redirect_address_is_refused(sandbox, redirect):
    query = {"client_id": sandbox.app.client_id, "redirect_uri": redirect}
    shown = httpx.get(f"{sandbox.url}/login/oauth/authorize", params=query)
    assert shown.status_code == (400 if redirect else 200)
    fields = {**query, "login": "mona"}
    assert httpx.post(f"{sandbox.url}/login/oauth/authorize", data=fields).status_code == 404


def test_a_user_token_expires_after_eight_hours(sandbox):
    with person_client(sandbox, "lisa") as person:
        sandbox.control.step(seconds=USER_TOKEN_SECONDS - 1)
        assert person.get("/user").status_code == 200
        sandbox.control.step(seconds=1)
        assert person.get("/user").status_code == 401
