"""The application with three runners of acme and a settable clock; each answer is validated against the API description."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import jsonschema
import pytest
from starlette.routing import compile_path

from ghapp.errors import StoreUnavailableError
from ghapp.installations.installation import Installation
from ghapp.installations.scope_paths import ScopePaths
from ghapp.installations.store import Installations
from ghapp.queue.jobs import JobName
from ghapp.runners.evidence import Registration, Survey
from ghapp.runners.observations import SeenBy, absence_confirmed, get_missed, looked_again, registration_seen, unlisted
from ghapp.runners.store import Runners
from ghapp.settings import Settings
from ghapp.store.tokens import Tokens
from ghapp.web.app import Server, build
from ghapp.web.openapi import description
from tests.support.keys import private_key
from tests.support.ports import free_port

NOW = 1_800_000_000.0
INSTALLATION = 7


class Away:
    """A Redis that a test can make unavailable."""

    def __init__(self, redis):
        self.redis, self.away = redis, False

    def __getattr__(self, name):
        if self.away:
            raise StoreUnavailableError("away")
        return getattr(self.redis, name)


def runner(runner_id, name):
    labels = ("self-hosted", "linux-4vcpu")
    return Registration(runner_id, name, "linux", True, False, labels, ("linux-4vcpu",), ephemeral=True)


def healthy(runner_id, name):
    return registration_seen(None, runner(runner_id, name), NOW - 600, by=SeenBy.LIST)


def invalidated(runner_id, name):
    missing = get_missed(unlisted(healthy(runner_id, name), NOW - 100, 3), NOW - 100)
    return absence_confirmed(missing, NOW - 60)


@asynccontextmanager
async def served(application):
    """Yields the address of a real server of the application."""
    port = free_port()
    server = Server(application, host="127.0.0.1", port=port)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has nothing to wait for
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    await asyncio.wait_for(serving, 10)


@pytest.fixture
def asked():
    """The jobs that were enqueued."""
    return []


class Worker:
    """A worker that has GitHub asked for a lost runner and its name: neither is registered, or there is no answer."""

    answers = True

    def __call__(self, evidence, at):
        return looked_again(evidence, at) if self.answers else evidence


@pytest.fixture
def worker():
    return Worker()


@pytest.fixture
def times():
    return [NOW]


@pytest.fixture
def pools():
    """The configured pools."""
    return ()


@pytest.fixture
def mode():
    """That of `[remediation]`."""
    return "act"


@pytest.fixture
async def away(redis):
    await Installations(redis).put(Installation(INSTALLATION, "acme", 1))
    known = [healthy(1, "a"), healthy(2, "b"), invalidated(3, "c")]
    await Runners(redis).revise(INSTALLATION, {each.id: lambda _, each=each: each for each in known})
    await Runners(redis).save_survey(INSTALLATION, Survey(NOW - 3.2, 2))
    return Away(redis)


@pytest.fixture
def replica(away, times, redis, asked, pools, mode, worker):
    """Builds a web application over the same Redis, with empty caches."""
    settings = Settings.read(
        {
            "GHAPP_APP_ID": "1",
            "GHAPP_PRIVATE_KEY": private_key(),
            "GHAPP_WEBHOOK_SECRET": "secret",
        }
    )

    async def ask_for(work, *args, key=None, retry=True):
        asked.append((work, args, key))
        if work is JobName.REMEDIATE:
            installation, runner_id = args
            await Runners(redis).revise(installation, {runner_id: lambda evidence: worker(evidence, times[0])})

    policy = replace(settings.policy, remediation=replace(settings.policy.remediation, mode=mode))
    return lambda: build(replace(settings, pools=pools, policy=policy), away, ask_for, lambda: times[0])


@pytest.fixture
async def http(replica, redis):
    secret, token = await Tokens(redis).create("t", ("acme",), ("read",), NOW)
    transport = httpx.ASGITransport(replica())
    headers = {"authorization": f"Bearer {secret}"}
    hooks = {"response": [validated_against_the_description]}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://ghapp", headers=headers, event_hooks=hooks
    ) as client:
        client.token_id = token.id
        yield client


def described(method, path):
    """The operation's entry in the API description; None if it is not described."""
    # paths without parameters first: `…/runners/health` is not a runner named "health"
    for template, methods in sorted(description()["paths"].items(), key=lambda each: each[0].count("{")):
        if compile_path(template)[0].fullmatch(path) and method.lower() in methods:
            return methods[method.lower()]
    return None


async def validated_against_the_description(response):
    """Asserts that an answer of a described operation has a described status and a JSON body of the described schema."""
    raw_path = response.request.url.raw_path.decode().partition("?")[0]
    readdressed = ScopePaths(description()["paths"]).readdressed(raw_path)
    path = raw_path if readdressed is None else readdressed.raw_path
    operation = described(response.request.method, path)
    if operation is None or "text/event-stream" in response.headers.get("content-type", ""):
        return
    await response.aread()
    assert str(response.status_code) in operation["responses"], f"{response.status_code} is not described"
    contents = operation["responses"][str(response.status_code)].get("content", {})
    kind = response.headers.get("content-type", "").partition(";")[0]
    if contents:
        assert kind in contents, f"{kind} is not described"
    if schema := contents.get(kind, {}).get("schema"):
        jsonschema.validate(response.json(), schema | {"components": description()["components"]})
