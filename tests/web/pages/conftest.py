"""The web pages with the sandbox's GitHub as sign-in provider, and the fleets of acme and globex."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.queue.jobs import Load
from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.remediation.store import Fuses
from ghapp.runners.evidence import Survey
from ghapp.runners.observations import replaced
from ghapp.runners.store import Runners
from ghapp.sandbox.config import OrgConfig, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from ghapp.settings import Settings
from ghapp.store.schedule import Schedule
from ghapp.web.app import build
from ghapp.web.pages.page_key import key_cookie
from ghapp.web.reachable import origin_of
from tests.support.keys import private_key
from tests.web.conftest import NOW, Away, healthy, invalidated

HERE = "http://ghapp.example"
ELSEWHERE = "192.0.2.7"
KEY = "the-key-of-this-start"
LOAD = Load(workers=2, waiting={"urgent": 0, "inbox": 3, "sweep": 0, "report": 0}, failed=1)


@pytest.fixture(scope="session")
def github():
    orgs = tuple(
        OrgConfig(login=login, pools=(PoolConfig(name="linux-4vcpu", size=3),)) for login in ("acme", "globex")
    )
    config = SandboxConfig(orgs=orgs, quiet=True, ticking=False, callback_urls=(f"{HERE}/sign-in/callback",))
    with SandboxServer(config) as sandbox:
        yield sandbox


@pytest.fixture(autouse=True)
def _github_is_well(request):
    yield
    if "github" in request.fixturenames:
        request.getfixturevalue("github").control.no_faults()


class Clock:
    now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def asked():
    """The jobs that were enqueued."""
    return []


@pytest.fixture
async def fleet(redis, github):
    """acme: two healthy runners, a lost one whose fuse is stopped, a healed one; globex: one runner."""
    ids = {org: github.installation_id(org) for org in ("acme", "globex")}
    for org, installation in ids.items():
        await Installations(redis).put(Installation(installation, org, github.world.orgs[org].id, {"checks": "write"}))
    healed = replaced(invalidated(4, "d"), NOW - 50)._replace(successor=2, healed_at=NOW - 40)
    known = {"acme": [healthy(1, "a"), healthy(2, "b"), invalidated(3, "c"), healed], "globex": [healthy(9, "z")]}
    for org, runners in known.items():
        await Runners(redis).revise(ids[org], {each.id: lambda _, each=each: each for each in runners})
        await Runners(redis).save_survey(ids[org], Survey(NOW - 3.2, 2))
        await Schedule(redis).add(ids[org], NOW + 30)
    stopped = Fuse(Position.STOPPED, NOW - 90, 3, 3, reason=FuseReason.BATCH_NEVER_ONLINE, stopped_at=NOW - 30)
    await Fuses(redis).save(ids["acme"], "linux-4vcpu", None, stopped)
    return ids


@pytest.fixture
async def start(redis, github, clock, asked, fleet):
    """Starts a web role and returns a browser.

    `client`: sign-in is configured. `has_key`: it runs under `ghapp up`, and the browser has its key.
    """
    browsers = []

    async def ask_for(work, *args, key=None, retry=True):
        asked.append((work, args, key))

    async def read_load():
        return LOAD

    def run(peer=ELSEWHERE, base=HERE, *, client=True, client_secret=None, database=redis, has_key=False, **environ):
        given = {
            "GHAPP_APP_ID": "1",
            "GHAPP_PRIVATE_KEY": private_key(),
            "GHAPP_WEBHOOK_SECRET": "secret",
            "GHAPP_GITHUB_API_URL": github.api_url,
            "GHAPP_GITHUB_WEB_URL": github.url,
        }
        if client:
            secret = client_secret or github.app.client_secret
            given |= {"GHAPP_CLIENT_ID": github.app.client_id, "GHAPP_CLIENT_SECRET": secret}
        if has_key:
            given["GHAPP_PAGE_KEY"] = KEY
        application = build(Settings.read(given | environ), database, ask_for, clock, read_load)
        transport = httpx.ASGITransport(application, client=(peer, 5))
        browsers.append(httpx.AsyncClient(transport=transport, base_url=base))
        if has_key:
            browsers[-1].cookies.set(*key_cookie(KEY, port_of(base)))
        return browsers[-1]

    yield run
    for browser in browsers:
        await browser.aclose()


def port_of(base):
    """The port of an address, as a browser knows it."""
    return origin_of(base).port


@pytest.fixture
def away(redis):
    return Away(redis)


def at_github(github, begun, login):
    """GitHub's redirect after a person pressed a button there; an empty login stands for the cancel button."""
    fields = dict(parse_qsl(urlsplit(begun.headers["location"]).query)) | {"login": login}
    answer = httpx.post(f"{github.url}/login/oauth/authorize", data=fields)
    assert answer.status_code == 302, answer.text
    return answer.headers["location"]


@pytest.fixture
def signed_in(start, github):
    """A browser in which a person signed in."""

    async def run(login, browser=None, to=""):
        browser = browser or start()
        begun = await browser.get("/sign-in/github", params={"to": to} if to else None)
        assert begun.status_code == 303, begun.text
        browser.last = await browser.get(at_github(github, begun, login))
        return browser

    return run


@pytest.fixture
def key_holder(start):
    """A browser with the key of `ghapp up`."""
    return start(client=False, has_key=True)
