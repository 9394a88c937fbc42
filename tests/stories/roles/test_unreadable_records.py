"""Every record is unreadable at once: the pages, the commands and the jobs go on, and the fleet is known again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx
import pytest

from ghapp.installations.store import Installations
from ghapp.remediation.pause import Pause
from ghapp.remediation.store import Fuses
from ghapp.runners.verdict import State
from ghapp.settings import Settings
from ghapp.store import keys
from ghapp.store.connect import connect
from ghapp.store.quarantine import Quarantine
from ghapp.store.tokens import Tokens
from ghapp.web.app import build
from jobs.deliveries.inbox import drain_inbox
from jobs.installations.discover import discover_installations
from jobs.leaks.reap import reap_installation
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation
from tests.store.rows import samples
from tests.stories.conftest import POOL
from tests.stories.deliveries.test_deliveries import deliver
from tests.support import commands

READS = [
    ("GET", "/v1/orgs/acme/runners"),
    ("GET", "/v1/orgs/acme/runners/{id}/health"),
    ("POST", "/v1/orgs/acme/runners/health"),
    ("GET", "/v1/orgs/acme/runners/{name}/alive"),
    ("GET", "/v1/orgs/acme/demand"),
    ("GET", "/v1/orgs/acme/deaths/{name}"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/"),
]


async def never(*_, **__):
    return None


async def filled(app):
    """A fleet with something of each kind, all of it unreadable but its installation and a token; a runner of it."""
    await samples.write(app.context.redis)
    for each in await app.context.redis.keys(f"ghapp:{samples.ORG}:*"):  # what the samples know is acme's
        await app.context.redis.rename(each, each.replace(b"ghapp:7:", f"ghapp:{app.installation}:".encode()))
    await app.context.redis.hdel(keys.INSTALLATIONS, str(samples.ORG))
    await app.context.redis.delete(keys.pages(app.installation), keys.credential(app.installation))
    await sweep_installation(app.context, app.installation)
    known = await app.context.runners.all(app.installation)
    await Fuses(app.context.redis).pause(app.installation, POOL, Pause("ann", "maintenance", app.clock()))
    await samples.spoil(app.context.redis, b"garbage")
    await discover_installations(app.context)
    return max(known.values())


async def test_no_page_answers_500(story):
    async with story() as app:
        runner = await filled(app)
        secret, _ = await Tokens(app.context.redis).create("t", ("acme",), ("read",), app.clock())
        application = build(Settings.read(app.environ), connect(app.environ["GHAPP_REDIS_URL"]), never, app.clock)
        headers = {"authorization": f"Bearer {secret}"}
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://ghapp", headers=headers) as http:
            for method, path in READS:
                body = {"json": {"ids": [runner.id]}} if method == "POST" else {}
                answer = await http.request(method, path.format(id=runner.id, name=runner.name), **body)
                assert answer.status_code < 500 or path == "/readyz", f"{path}: {answer.text}"


@pytest.mark.parametrize(
    "words",
    [
        ["runners"],
        ["explain", "acme/{name}"],
        ["doctor"],
        ["deliveries", "dead"],
        ["token", "list"],
        ["resume", "acme"],
    ],
    ids=lambda words: words[0],
)
async def test_no_command_ends_in_a_traceback(story, words):
    async with story() as app:
        runner = await filled(app)
        environ: Mapping[str, str] = app.environ
        text = [word.format(name=runner.name) for word in words]
        done = await asyncio.to_thread(commands.ghapp, *text, **environ)
        assert "Traceback" not in done.stdout + done.stderr


async def test_the_jobs_go_on_and_the_next_sweep_knows_the_fleet_again(story):
    async with story() as app:
        runner = await filled(app)
        await deliver(app, "1", "in_progress", runner)
        assert await drain_inbox(app.context) == 2, "the sample's and this one"
        assert await app.context.inbox.dead_letters() == 0
        await app.pass_(60)
        swept = await sweep_installation(app.context, app.installation)
        assert swept is not None
        assert await confirm_installation(app.context, app.installation) == 0
        await reap_installation(app.context, app.installation)
        assert await app.states() == {State.HEALTHY: 12}
        standing = await Quarantine(app.context.redis).unresolved()
        assert keys.runners(app.installation) not in {each.key for each in standing}, "all were written again"
        assert len(await Installations(app.context.redis).all()) == 1
        assert app.account()["wrongful_removals"] == []
        assert app.account()["replacements"]["asked"] == 0
