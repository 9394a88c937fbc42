"""/setup: who may use it, from which address, with which state; which credentials are stored; and that it closes afterwards."""

from __future__ import annotations

import asyncio
import json
import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from ghapp.credentials import kept
from ghapp.errors import ConfigurationError
from ghapp.github.manifest import convert
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.queue.jobs import JobName
from ghapp.runners.store import Runners
from ghapp.sandbox.config import SandboxConfig
from ghapp.sandbox.server import SandboxServer
from ghapp.settings import Settings
from ghapp.store import keys
from ghapp.store.audit import AuditLog
from ghapp.web.app import build
from ghapp.web.pages.page_key import key_cookie
from ghapp.web.pages.setup import OWN_ACCOUNT
from ghapp.web.reachable import can_deliver
from tests.rules.builders import online
from tests.support.keys import private_key
from tests.web.pages.conftest import port_of

HERE, KEY, NOW = "http://127.0.0.1:8000", "one-time-key", 1_800_000_000.0
STRANGER = {"cookie": "ghapp_key_8000=another"}


@pytest.fixture(scope="module")
def github():
    with SandboxServer(SandboxConfig(app=False, quiet=True, ticking=False)) as sandbox:
        yield sandbox


class Clock:
    now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def asked():
    return []


@pytest.fixture
def start(redis, tmp_path, github, clock, asked):
    """Starts a web role under `ghapp up`, and returns a browser, which has its key unless `has_key` is False."""

    async def ask_for(what, *_args, **_options):
        asked.append(what)

    def run(base=HERE, *, has_key=True, **environ):
        given = {"GHAPP_STATE_DIR": str(tmp_path), "GHAPP_PAGE_KEY": KEY}
        given |= {"GHAPP_GITHUB_API_URL": github.api_url, "GHAPP_GITHUB_WEB_URL": github.url}
        application = build(Settings.read(given | environ), redis, ask_for, clock)
        cookies = [key_cookie(KEY, port_of(base))] if has_key else []
        transport = httpx.ASGITransport(application, client=("127.0.0.1", 5))
        return httpx.AsyncClient(transport=transport, base_url=base, cookies=cookies)

    return run


def state_in(answer):
    (state,) = parse_qs(urlsplit(answer.headers["location"]).query)["state"]
    return state


def manifest_in(page):
    return json.loads(unescape(re.search(r'name="manifest" value="([^"]*)"', page.text)[1]))


async def begin(browser, organization="acme"):
    """Presses the button, and returns the state that was sent to GitHub."""
    answer = await browser.post("/setup", data={"organization": organization, "manifest": "{}"})
    assert answer.status_code == 307
    return state_in(answer)


def code_of(github, **changes):
    """Presses the button at GitHub, and returns GitHub's code."""
    hook = {"url": "http://127.0.0.1:9/webhook", "active": False}
    manifest = {"name": "ghapp", "url": "https://example.com", "redirect_url": f"{HERE}/setup/created"}
    form = {"manifest": json.dumps({**manifest, "hook_attributes": hook, **changes}), "state": "s"}
    answer = httpx.post(f"{github.url}/settings/apps", data=form)
    (code,) = parse_qs(urlsplit(answer.headers["location"]).query)["code"]
    return code


async def create(browser, github):
    state = await begin(browser)
    return await browser.get("/setup/created", params={"code": code_of(github), "state": state})


# Access.


async def test_a_browser_with_the_key_may_set_up(start):
    browser = start()
    page = (await browser.get("/setup")).text
    assert "Create the App" in page
    assert "watches nothing until\n<code>[[scopes]]</code>" in page, "an App of a personal account"
    assert (await browser.get("/")).headers["location"] == "setup", "the root redirects to /setup"
    assert (await browser.get("/orgs/acme")).headers["location"] == "../setup", "each page redirects to /setup"
    assert (await browser.get("/system")).headers["location"] == "setup"


async def test_without_an_app_the_server_is_ready_for_its_set_up_and_says_that_there_is_none(start, github):
    """A load balancer that asks for readiness must let a person reach /setup."""
    browser = start()

    async def ready():
        answer = await browser.get("/readyz")
        return answer.status_code, answer.json()["ready"], answer.json()["app"]

    assert await ready() == (200, True, "missing")
    assert (await browser.post("/webhook")).status_code == 503
    await create(browser, github)
    assert await ready() == (200, True, "ok")


@pytest.mark.parametrize("how", ["GET", "POST"])
async def test_a_browser_without_the_key_may_not_wherever_it_comes_from(start, how):
    answer = await start(has_key=False).request(how, "/setup")
    assert answer.status_code == 403
    assert "manifest" not in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("key", ["", "one-time-ke", "one-time-key2", "é"])
async def test_a_wrong_key_is_refused(start, key):
    answer = await start(has_key=False).get("/setup", params={"key": key})
    assert answer.status_code == 403
    assert "This key is wrong" in answer.text
    assert "set-cookie" not in answer.headers


async def test_the_key_is_moved_from_the_address_to_a_cookie(start):
    browser = start(has_key=False)
    answer = await browser.get("/setup", params={"key": KEY})
    assert answer.status_code == 200
    assert 'content="0;url=./setup"' in answer.text
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert (await browser.get("/setup")).status_code == 200


async def test_cookies_set_over_https_are_secure(start):
    browser = start(base="https://ghapp.example", has_key=False)
    assert "secure" in (await browser.get("/setup", params={"key": KEY})).headers["set-cookie"].lower()


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
async def test_only_a_page_of_ours_can_submit_the_form(start, site):
    assert (await start().post("/setup", headers={"sec-fetch-site": site})).status_code == 403


async def test_without_a_key_there_is_no_set_up_mode(start):
    with pytest.raises(ConfigurationError, match="GHAPP_APP_ID: not set"):
        start(GHAPP_PAGE_KEY="")


# The content of the page, and its headers.


async def test_every_page_runs_no_script_is_not_cached_and_sends_no_referrer(start, github):
    browser = start()
    pages = [await browser.get("/setup"), await browser.get("/setup", headers=STRANGER)]
    pages.append(await browser.post("/setup", data={"organization": "acme"}))
    pages += [await browser.get("/setup/created"), await create(browser, github)]
    pages += [await browser.get("/setup"), await browser.get("/setup/installed")]
    assert [each.status_code for each in pages] == [200, 403, 307, 400, 303, 200, 200]
    for each in pages:
        policy = each.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; ")
        assert "unsafe" not in policy
        assert "script-src" not in policy
        assert "<script" not in each.text
        assert "frame-ancestors 'none'" in policy
        assert each.headers["cache-control"] == "no-store"
        assert each.headers["referrer-policy"] == "no-referrer"


async def test_forms_may_be_submitted_only_to_us_and_to_github(start, github):
    policy = (await start().get("/setup")).headers["content-security-policy"]
    assert re.search("form-action ([^;]*)", policy)[1] == f"'self' {github.url}"


@pytest.mark.parametrize(
    "web_url",
    ["https://github.com", "https://ghes.example"],
)
async def test_the_address_of_github_is_configurable(start, web_url):
    browser = start(GHAPP_GITHUB_WEB_URL=web_url, GHAPP_GITHUB_API_URL="")
    assert f"'self' {web_url};" in (await browser.get("/setup")).headers["content-security-policy"]
    target = (await browser.post("/setup", data={"owner": OWN_ACCOUNT})).headers["location"]
    assert target.startswith(f"{web_url}/settings/apps/new?state=")


async def test_an_app_of_ones_own_account_is_a_choice_apart_and_no_accident(start, github):
    browser = start()
    page = (await browser.get("/setup")).text
    assert f'name="owner" value="{OWN_ACCOUNT}"' in page
    for empty in ("", "  "):
        answer = await browser.post("/setup", data={"organization": empty})
        assert (answer.status_code, "Enter the organization's name" in unescape(answer.text)) == (422, True)
    answer = await browser.post("/setup", data={"owner": OWN_ACCOUNT, "organization": "acme"})
    assert answer.headers["location"].startswith(f"{github.url}/settings/apps/new?state=")


async def test_an_organization_gets_its_own_page(start, github):
    answer = await start().post("/setup", data={"organization": " acme "})
    assert answer.headers["location"].startswith(f"{github.url}/organizations/acme/settings/apps/new?state=")


@pytest.mark.parametrize("organization", ["a b", "a/b", "../x", "https://github.com/acme", "é", "a" * 101])
async def test_an_invalid_organization_name_is_reported(start, organization):
    answer = await start().post("/setup", data={"organization": organization})
    assert answer.status_code == 422
    assert "not a valid organization name" in answer.text


async def test_entered_text_is_escaped(start):
    assert "<script" not in (await start().post("/setup", data={"organization": '"><script>'})).text


async def test_a_large_form_is_413(start):
    assert (await start().post("/setup", content=b"0" * 65_537)).status_code == 413


async def test_the_manifest_is_app_yml_with_our_own_addresses(start):
    page = await start(GHAPP_PUBLIC_URL="https://ghapp.example").get("/setup")
    assert "webhooks to <code>https://ghapp.example/webhook</code>" in page.text
    manifest = manifest_in(page)
    assert manifest["default_permissions"]["organization_self_hosted_runners"] == "write"
    assert manifest["hook_attributes"] == {"url": "https://ghapp.example/webhook", "active": True}
    assert manifest["redirect_url"] == f"{HERE}/setup/created", "the public address may not be served yet"
    assert manifest["setup_url"] == "https://ghapp.example/setup/installed"


async def test_without_a_reachable_address_the_page_says_so_and_the_webhook_is_inactive(start):
    page = await start(GHAPP_GITHUB_WEB_URL="https://github.com", GHAPP_GITHUB_API_URL="").get("/setup")
    hook = manifest_in(page)["hook_attributes"]
    assert (hook["active"], f"<code>{hook['url']}" in page.text) == (False, False)
    assert "GHAPP_PUBLIC_URL" in page.text


@pytest.mark.parametrize(
    ("web_url", "address", "can"),
    [
        ("https://github.com", "http://127.0.0.1:8000", False),
        ("https://github.com", "http://10.0.0.5:8000", False),
        ("https://github.com", "http://runners:8000", False),
        ("https://github.com", "https://ghapp.example", True),
        ("https://acme.ghe.com", "http://10.0.0.5:8000", False),
        ("https://ghes.example", "http://10.0.0.5:8000", True),
        ("https://ghes.example", "http://localhost:8000", False),
        ("http://127.0.0.1:9100", "http://localhost:8000", True),
    ],
)
def test_a_reachable_address_activates_the_webhook(web_url, address, can):
    assert can_deliver(web_url, address) is can


# The callback from GitHub.


async def test_the_credentials_from_github_are_stored_with_owner_access_and_never_shown(start, github, tmp_path, redis):
    browser = start()
    answer = await create(browser, github)
    (entry,) = await AuditLog(redis).latest(keys.ALL_ORGS, 10)
    assert (entry.who, entry.channel, entry.action) == ("holder of the key", "page", "create App")
    assert (answer.status_code, answer.headers["location"]) == (303, "../setup")
    app = kept(tmp_path)
    assert (tmp_path / "app.json").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["app.json"]
    page = await browser.get("/setup")
    assert f"{app.html_url}/installations/new" in page.text
    assert not [secret for secret in (app.client_secret, app.webhook_secret, app.pem) if secret in page.text]


async def test_deliveries_are_verified_right_after_the_set_up(start, github, tmp_path):
    browser = start()
    early = await browser.post("/webhook", content=b"{}")
    assert (early.status_code, early.headers["retry-after"]) == (503, "10")
    await create(browser, github)
    assert (await browser.post("/webhook", content=b"{}")).status_code == 401, "the role has a webhook secret now"


FORGED = {
    "no state": lambda state: {"code": "c"},
    "no code": lambda state: {"state": state},
    "another state": lambda state: {"code": "c", "state": state[:-1] + "_"},
    "an empty state": lambda state: {"code": "c", "state": ""},
}


@pytest.mark.parametrize("query", FORGED.values(), ids=FORGED)
async def test_a_forged_state_is_refused(start, tmp_path, query):
    browser = start()
    answer = await browser.get("/setup/created", params=query(await begin(browser)))
    assert answer.status_code == 400
    assert kept(tmp_path) is None


async def test_a_browser_may_return_to_another_address_of_ours_where_it_has_no_cookies(start, github, tmp_path):
    browser = start()
    query = {"code": code_of(github), "state": await begin(browser)}
    browser.cookies.clear()
    assert (await browser.get("/setup/created", params=query)).status_code == 303
    assert kept(tmp_path) is not None


@pytest.mark.parametrize(("after", "status"), [(3599.9, 303), (3600.0, 400)])
async def test_a_state_expires_after_an_hour(start, github, clock, after, status):
    browser = start()
    state = await begin(browser)
    clock.now += after
    answer = await browser.get("/setup/created", params={"code": code_of(github), "state": state})
    assert answer.status_code == status


async def test_a_code_unknown_to_github_ends_the_attempt(start, tmp_path):
    browser = start()
    query = {"code": "0123abc", "state": await begin(browser)}
    assert "rejected the code" in (await browser.get("/setup/created", params=query)).text
    assert "not started here" in (await browser.get("/setup/created", params=query)).text
    assert kept(tmp_path) is None


async def test_a_code_that_was_used_already_creates_nothing(start, github, tmp_path):
    code = code_of(github)
    await convert(github.api_url, code)
    browser = start()
    answer = await browser.get("/setup/created", params={"code": code, "state": await begin(browser)})
    assert answer.status_code == 400
    assert kept(tmp_path) is None


async def test_a_code_with_path_segments_is_refused(start, github):
    browser = start()
    before = len(github.world.registry.apps)
    query = {"code": f"x/../{code_of(github)}", "state": await begin(browser)}
    assert (await browser.get("/setup/created", params=query)).status_code == 400
    assert len(github.world.registry.apps) == before


AWAY = {
    "an error": {"status": 503},
    "a broken connection": {"reset": True},
    "another server's page": {"status": 200, "body": "<h1>Welcome</h1>"},
    "too many calls": {"status": 429, "headers": {"retry-after": "60"}},
}


@pytest.mark.parametrize("fault", AWAY.values(), ids=AWAY)
async def test_after_an_outage_of_github_the_same_callback_can_be_retried(
    start, github, tmp_path, fault, capfd, caplog
):
    browser = start()
    query = {"code": code_of(github), "state": await begin(browser)}
    github.control.fault(match="/conversions$", times=1, **fault)
    away = await browser.get("/setup/created", params=query)
    assert away.status_code == 502
    assert "Try again" in away.text
    assert kept(tmp_path) is None
    assert query["code"] not in caplog.text + "".join(capfd.readouterr()), "the code grants access to the App's key"
    assert (await browser.get("/setup/created", params=query)).status_code == 303
    assert kept(tmp_path) is not None


async def test_credentials_that_cannot_be_stored_are_reported_and_leave_no_file(start, github, tmp_path):
    browser = start()
    state = await begin(browser)
    (tmp_path / "app.json").mkdir()  # a directory that the file cannot replace
    answer = await browser.get("/setup/created", params={"code": code_of(github), "state": state})
    assert answer.status_code == 500
    assert "Delete the App on GitHub" in answer.text
    assert [path.name for path in tmp_path.iterdir()] == ["app.json"]
    assert (await browser.post("/webhook", content=b"{}")).status_code == 503


# After the set-up.


async def test_a_completed_set_up_creates_no_other_app(start, github):
    browser = start()
    second = await begin(browser)
    code = code_of(github)
    assert (await create(browser, github)).status_code == 303
    apps = len(github.world.registry.apps)
    assert (await browser.get("/setup/created", params={"code": code, "state": second})).status_code == 303
    assert len(github.world.registry.apps) == apps
    assert (await browser.post("/setup")).status_code == 409


async def test_two_concurrent_identical_callbacks_create_one_app(start, github, tmp_path):
    browser = start()
    query = {"code": code_of(github), "state": await begin(browser)}
    answers = await asyncio.gather(*(browser.get("/setup/created", params=query) for _ in range(3)))
    assert [each.status_code for each in answers] == [303, 303, 303]
    assert kept(tmp_path) is not None


async def test_a_later_start_reports_that_the_set_up_is_complete(start, github):
    await create(start(), github)
    later = start()
    assert "Install the App" in (await later.get("/setup")).text
    assert (await later.post("/setup")).status_code == 409
    assert (await later.post("/webhook", content=b"{}")).status_code == 401


async def test_credentials_in_the_environment_disable_the_set_up(start):
    given = {"GHAPP_APP_ID": "1", "GHAPP_PRIVATE_KEY": private_key(), "GHAPP_WEBHOOK_SECRET": "s"}
    assert "nothing to set up" in (await start(**given, GHAPP_PAGE_KEY="").get("/setup")).text


@pytest.mark.parametrize(
    ("action", "expected"), [("install", "is installed"), ("update", "is installed"), ("request", "approval")]
)
async def test_the_page_after_the_installation_explains_the_next_steps(start, github, action, expected):
    browser = start()
    await create(browser, github)
    assert expected in (await browser.get("/setup/installed", params={"setup_action": action})).text


async def test_the_redirect_after_the_installation_enqueues_a_discovery(start, github, asked):
    browser = start()
    assert (await browser.get("/setup/installed")).status_code == 303, "there is no App yet"
    await create(browser, github)
    await browser.get("/setup/installed", headers=STRANGER)
    assert asked == [], "a remote browser may not trigger it"
    await browser.get("/setup/installed")
    assert asked == [JobName.INSTALLATIONS]


async def installed(start, github, redis, *runners):
    browser = start()
    await create(browser, github)
    await Installations(redis).put(Installation(7, "acme", 70))
    await Runners(redis).revise(7, {each.id: lambda _, each=each: each for each in runners})
    return browser


async def test_the_last_page_shows_what_was_found_and_a_configuration_in_dry_run(start, github, redis, tmp_path):
    browser = await installed(start, github, redis, online(1), online(2))
    page = (await browser.get("/setup/installed")).text
    assert "<td>2</td><td>dry-run</td>" in page
    (suggestion,) = re.findall(r"<pre>(# ghapp.toml.*?)</pre>", page, re.DOTALL)
    (tmp_path / "ghapp.toml").write_text(unescape(suggestion))
    settings = Settings.read({"GHAPP_CONFIG": str(tmp_path / "ghapp.toml"), "GHAPP_STATE_DIR": str(tmp_path)})
    assert [(each.org, each.labels) for each in settings.pools] == [("acme", ("linux-4vcpu",))]
    assert settings.of("acme").remediation.mode == "dry-run"
    assert "http-equiv" not in page, "with runners it does not reload"


async def test_markup_in_a_label_is_text(start, github, redis):
    browser = await installed(start, github, redis, online(1, custom_labels=("<script>alert(1)</script>",)))
    assert "<script>" not in (await browser.get("/setup/installed")).text


@pytest.mark.parametrize(
    ("look", "reloads"), [("", 1), ("1", 2), ("23", 24), ("24", None), ("9999", None), ("x", None)]
)
async def test_without_runners_the_last_page_reloads_for_two_minutes(start, github, redis, look, reloads):
    browser = await installed(start, github, redis)
    page = (await browser.get(f"/setup/installed{'?look=' * bool(look)}{look}")).text
    assert re.findall(r'url=installed\?look=(\d+)"', page) == ([] if reloads is None else [str(reloads)])


async def test_a_stranger_does_not_see_what_was_found(start, github, redis):
    browser = await installed(start, github, redis, online(1))
    page = (await browser.get("/setup/installed", headers=STRANGER)).text
    assert "is installed" in page
    assert "acme" not in page
    assert "linux-4vcpu" not in page
