"""Stored data of acme, and the commands that show it, in their own process or over HTTP."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager, nullcontext

import pytest

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import DeadJob, Death
from ghapp.deaths.store import Deaths
from ghapp.doctor.finding import ok, warning
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.queue.jobs import JobName
from ghapp.runners.evidence import Survey
from ghapp.runners.observations import looked_again
from ghapp.runners.store import Runners
from ghapp.settings import Settings
from ghapp.store.connect import connect
from ghapp.web.app import Server, build
from tests.cli.test_cli import CREDENTIALS, ghapp
from tests.rules.builders import online

ACME = 7
WATCHED = '[[pools]]\norg = "acme"\nname = "linux-4vcpu"\nlabels = ["linux-4vcpu"]\nnamespace = "runners"\n'


class Http:
    """The web role in this process, on a free port, and a token of acme."""

    def __init__(self, redis_url, secret):
        self._redis_url, self.secret = redis_url, secret

    @asynccontextmanager
    async def serving(self, environ):
        """Serves with this environment, with empty caches; yields its address."""
        settings = Settings.read({**CREDENTIALS, **environ})
        application = build(settings, connect(self._redis_url), self._ignore, examine=self._examine)
        server = Server(application, "127.0.0.1", 0)
        task = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            await task

    async def _examine(self):
        return [ok("redis", "answers", "in 1 ms"), warning("configuration", "mode", "is dry-run", "set it", "acme")]

    async def _ignore(self, work, *args, key=None, retry=True):
        """No job is enqueued; GitHub's answer about a lost runner is that it is not registered."""
        if work is JobName.REMEDIATE:
            installation, runner_id = args
            async with connect(self._redis_url) as redis:
                await Runners(redis).revise(installation, {runner_id: lambda known: looked_again(known, time.time())})


class Known:
    """The stored data of acme, with one online runner, and a way to run commands on it: over `http` if it is given."""

    def __init__(self, redis, url, path, http=None):
        self.redis, self.now, self._path, self.http = redis, time.time(), path, http
        self._environ = {"GHAPP_REDIS_URL": url, "GHAPP_STATE_DIR": str(path)}

    def write_config(self, config=WATCHED):
        (self._path / "ghapp.toml").write_text(config)
        self._environ["GHAPP_CONFIG"] = str(self._path / "ghapp.toml")

    def set_public_url(self, url):
        self._environ["GHAPP_PUBLIC_URL"] = url

    def set_github(self, url):
        self._environ |= {"GHAPP_GITHUB_WEB_URL": url, "GHAPP_GITHUB_API_URL": f"{url}/api/v3"}

    async def add_runner(self, evidence):
        await Runners(self.redis).revise(ACME, {evidence.id: lambda _: evidence})

    async def add_death(self, name="linux-1", **changes):
        job = DeadJob(42, "acme/api", "test", "f00", "failure", "https://github.com/acme/api/runs/42")
        worst = Death(name, name, "node-a", self.now - 5, 137, 9, "OOMKilled", Cause.HOST_OOM, "Raise it.", job=job)
        lines = ("Running job: [test]", "\x1b[31mred")
        await Deaths(self.redis).record(ACME, worst._replace(runner_log=lines, **changes))

    async def ask(self, *words, **environ):
        async with nullcontext() if self.http is None else self.http.serving(self._environ) as url:
            here = self._environ if url is None else {"GHAPP_URL": url, "GHAPP_TOKEN": self.http.secret}
            return await asyncio.to_thread(ghapp, *words, **{**here, **environ})

    async def json(self, *words):
        answer = await self.ask(*words, "--json")
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)


@pytest.fixture
async def known(redis, redis_url, tmp_path):
    found = Known(redis, redis_url, tmp_path)
    await Installations(redis).put(Installation(ACME, "acme", 1))
    await Runners(redis).save_survey(ACME, Survey(found.now, 1))
    await found.add_runner(online(1, first_seen=found.now - 60))
    return found
