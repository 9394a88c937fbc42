"""An API below a path, as a GitHub Enterprise Server has it."""

from __future__ import annotations

import httpx
import pytest

from ghapp.sandbox import SandboxConfig, SandboxServer, pools_of
from ghapp.sandbox.config import OrgConfig
from tests.sandbox.clients import app_client, app_jwt


@pytest.fixture
def enterprise():
    orgs = (OrgConfig(pools=pools_of(30)),)
    with SandboxServer(SandboxConfig(orgs=orgs, quiet=True, ticking=False, api_path="/ghes/api/v3")) as server:
        yield server


def test_the_api_is_below_its_path_and_nowhere_else(enterprise):
    headers = {"authorization": f"Bearer {app_jwt(enterprise)}"}
    assert enterprise.api_url == f"{enterprise.url}/ghes/api/v3"
    assert httpx.get(f"{enterprise.api_url}/app", headers=headers).status_code == 200
    for wrong in (enterprise.url, f"{enterprise.url}/api/v3"):
        assert httpx.get(f"{wrong}/app", headers=headers).status_code == 404


def test_its_links_lead_below_it_and_its_faults_strike_there(enterprise):
    with app_client(enterprise, base=enterprise.api_url) as app:
        minted = app.post(f"app/installations/{enterprise.installation_id()}/access_tokens").json()["token"]
    with httpx.Client(base_url=enterprise.api_url, headers={"authorization": f"token {minted}"}) as acme:
        following = acme.get("orgs/acme/actions/runners?per_page=10").links["next"]["url"]
        assert following.startswith(f"{enterprise.api_url}/organizations/5001/actions/runners?")
        assert len(acme.get(following).json()["runners"]) == 10
        enterprise.control.fault("acme", status=502, match="^/orgs/acme/actions/runners$")
        assert acme.get("orgs/acme/actions/runners").status_code == 502


def test_web_pages_stay_at_the_root(enterprise):
    slug = enterprise.app.slug
    assert httpx.get(f"{enterprise.url}/apps/{slug}").status_code == 200
    assert httpx.get(f"{enterprise.api_url}/apps/{slug}/installations/new").status_code == 404


@pytest.mark.parametrize("path", ["api/v3", "/api/v3/", "/"])
def test_a_path_that_is_none_is_refused(path):
    with pytest.raises(ValueError, match="api_path"):
        SandboxConfig(api_path=path)
