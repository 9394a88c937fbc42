"""Every record is unreadable at once: the pages, the commands and the jobs go on, and the fleet is known again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx
import pytest

from ghapp.health.verdict import State
from ghapp.settings import Settings
from ghapp.store import keys
from ghapp.store.connect import connect
from ghapp.store.fuses import Fuses, Pause
from ghapp.store.installations import Installations
from ghapp.store.quarantine import Quarantine
from ghapp.store.tokens import Tokens
from ghapp.web.app import build
from jobs.confirm import confirm_installation
from jobs.inbox import drain_inbox
from jobs.installations import discover_installations
from jobs.reap import reap_installation
from jobs.sweep import sweep_installation
from tests import commands
from tests.store.rows import samples
from tests.stories.conftest import POOL
from tests.stories.test_deliveries import deliver

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


async def filled(it):
    """A fleet with something of each kind, all of it unreadable but its installation and a token; a runner of it."""
    await samples.write(it.house.redis)
    for each in await it.house.redis.keys(f"ghapp:{samples.ORG}:*"):  # what the samples know is acme's
        await it.house.redis.rename(each, each.replace(b"ghapp:7:", f"ghapp:{it.installation}:".encode()))
    await it.house.redis.hdel(keys.INSTALLATIONS, str(samples.ORG))
    await it.house.redis.delete(keys.pages(it.installation), keys.credential(it.installation))
    await sweep_installation(it.house, it.installation)
    known = await it.house.runners.all(it.installation)
    await Fuses(it.house.redis).pause(it.installation, POOL, Pause("ann", "maintenance", it.clock()))
    await samples.spoil(it.house.redis, b"garbage")
    await discover_installations(it.house)
    return max(known.values())


async def test_no_page_answers_500(story):
    async with story() as it:
        runner = await filled(it)
        secret, _ = await Tokens(it.house.redis).create("t", ("acme",), ("read",), it.clock())
        application = build(Settings.read(it.environ), connect(it.environ["GHAPP_REDIS_URL"]), never, it.clock)
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
    async with story() as it:
        runner = await filled(it)
        environ: Mapping[str, str] = it.environ
        said = [word.format(name=runner.name) for word in words]
        done = await asyncio.to_thread(commands.ghapp, *said, **environ)
        assert "Traceback" not in done.stdout + done.stderr


async def test_the_jobs_go_on_and_the_next_sweep_knows_the_fleet_again(story):
    async with story() as it:
        runner = await filled(it)
        await deliver(it, "1", "in_progress", runner)
        assert await drain_inbox(it.house) == 2, "the sample's and this one"
        assert await it.house.inbox.dead_letters() == 0
        await it.pass_(60)
        swept = await sweep_installation(it.house, it.installation)
        assert swept is not None
        assert await confirm_installation(it.house, it.installation) == 0
        await reap_installation(it.house, it.installation)
        assert await it.states() == {State.HEALTHY: 12}
        standing = await Quarantine(it.house.redis).standing()
        assert keys.runners(it.installation) not in {each.key for each in standing}, "all were written anew"
        assert len(await Installations(it.house.redis).all()) == 1
        assert it.account()["wrongful_removals"] == []
        assert it.account()["replacements"]["asked"] == 0
