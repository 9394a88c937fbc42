from __future__ import annotations

import time

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ghapp.sandbox import SandboxServer
from tests.sandbox.clients import app_client, app_jwt, installation_client, mint

RUNNERS = "/orgs/acme/actions/runners"


def test_an_app_may_sign_with_its_id_or_its_client_id(sandbox):
    for issuer in (str(sandbox.app.id), sandbox.app.client_id):
        with app_client(sandbox, app_jwt(sandbox, iss=issuer)) as app:
            assert app.get("/app").json()["id"] == sandbox.app.id


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        ({"exp": -1}, "exp"),
        ({"exp": 900}, "too far in the future"),
        ({"iat": 120}, "iat"),
        ({"iss": "somebody-else"}, "Integration not found"),
        ({"exp": None}, "could not be decoded"),
    ],
    ids=["expired", "good for too long", "issued in the future", "of no App", "without an end"],
)
def test_a_bad_jwt_is_401_in_githubs_shape(sandbox, claims, text):
    now = int(time.time())
    moved = {name: now + value if isinstance(value, int) else value for name, value in claims.items()}
    with app_client(sandbox, app_jwt(sandbox, **moved)) as app:
        answer = app.get("/app")
    assert answer.status_code == 401
    assert text in answer.json()["message"]
    assert answer.json().keys() == {"message", "documentation_url", "status"}


def test_a_jwt_signed_with_another_key_is_401(sandbox):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    with app_client(sandbox, app_jwt(sandbox, key=pem)) as app:
        assert app.get("/app").status_code == 401


def test_without_a_credential_or_a_user_agent_every_call_is_refused(sandbox, acme):
    assert httpx.get(sandbox.url + RUNNERS).status_code == 401
    assert acme.get(RUNNERS, headers={"user-agent": ""}).status_code == 403
    assert acme.get("/app").status_code == 401, "a token is no JWT"


def test_a_token_is_good_for_an_hour(sandbox, acme):
    sandbox.control.step(seconds=3599)
    assert acme.get(RUNNERS).status_code == 200
    sandbox.control.step(seconds=1)
    assert acme.get(RUNNERS).status_code == 401


def test_a_token_sees_its_own_organization_alone(sandbox, acme):
    assert acme.get("/orgs/globex/actions/runners").status_code == 404
    assert acme.get("/repos/globex/api").status_code == 404
    with installation_client(sandbox, "globex") as globex:
        assert globex.get("/orgs/globex/actions/runners").status_code == 200


def test_an_unknown_organization_is_404(acme, app):
    assert acme.get("/orgs/unknown/actions/runners").status_code == 404
    assert app.get("/orgs/unknown/installation").status_code == 404


def test_a_missing_permission_is_403_and_is_named(sandbox, acme):
    sandbox.control.permissions("acme", permissions={"organization_self_hosted_runners": "read"})
    assert acme.get(RUNNERS).status_code == 200
    answer = acme.delete(f"{RUNNERS}/{next(iter(sandbox.fleet.roster.registered))}")
    assert answer.status_code == 403
    assert answer.json()["message"] == "Resource not accessible by integration"
    assert answer.headers["x-accepted-github-permissions"] == "organization_self_hosted_runners=write"


def test_a_token_may_be_minted_with_less_but_not_with_more(sandbox: SandboxServer, app):
    token = mint(sandbox, permissions={"organization_self_hosted_runners": "read"})
    headers = {"authorization": f"token {token}"}
    assert httpx.get(sandbox.url + RUNNERS, headers=headers).status_code == 200
    assert httpx.get(f"{sandbox.url}/repos/acme/api/actions/runs", headers=headers).status_code == 403
    path = f"/app/installations/{sandbox.installation_id()}/access_tokens"
    assert app.post(path, json={"permissions": {"administration": "write"}}).status_code == 422


def test_a_suspended_installation_gets_no_token_and_its_old_ones_are_refused(sandbox, app, acme):
    path = f"/app/installations/{sandbox.installation_id()}/access_tokens"
    sandbox.control.suspend("acme")
    assert app.post(path).status_code == 403
    assert acme.get(RUNNERS).status_code == 403
    sandbox.control.unsuspend("acme")
    assert app.post(path).status_code == 201
    assert acme.get(RUNNERS).status_code == 200


def test_an_uninstalled_app_gets_404_and_its_old_tokens_are_dead(sandbox, app, acme):
    path = f"/app/installations/{sandbox.installation_id()}/access_tokens"
    sandbox.control.uninstall("acme")
    assert app.post(path).status_code == 404
    assert acme.get(RUNNERS).status_code == 401


def test_the_page_of_an_installation_names_a_missing_permission_and_grants_it(sandbox, app, acme):
    address = app.get("/app/installations").json()[0]["html_url"]
    assert "not granted" not in httpx.get(address).text
    sandbox.control.withhold_permission("acme")
    assert acme.get(RUNNERS).status_code == 403
    page = httpx.get(address).text
    assert "organization_self_hosted_runners: write</code> (not granted)" in page
    assert "Accept new permissions" in page
    assert httpx.post(address).headers["location"] == httpx.URL(address).path
    assert acme.get(RUNNERS).status_code == 200
    assert "not granted" not in httpx.get(address).text
    unknown = address.rpartition("/")[0] + "/1"
    assert {httpx.get(unknown).status_code, httpx.post(unknown).status_code} == {404}
