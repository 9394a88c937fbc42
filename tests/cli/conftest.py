"""Stored data of acme, and the commands that show it."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from ghapp.health.deaths.cause import Cause
from ghapp.health.deaths.death import DeadJob, Death
from ghapp.health.installation import Installation
from ghapp.health.runner.evidence import Survey
from ghapp.store.deaths import Deaths
from ghapp.store.installations import Installations
from ghapp.store.runners import Runners
from tests.cli.test_cli import ghapp
from tests.health.builders import online

ACME = 7
WATCHED = '[[pools]]\norg = "acme"\nname = "linux-4vcpu"\nlabels = ["linux-4vcpu"]\nnamespace = "runners"\n'


class Known:
    """The stored data of acme, with one online runner, and a way to run commands on it."""

    def __init__(self, redis, url, path):
        self.redis, self.now, self._path = redis, time.time(), path
        self._environ = {"GHAPP_REDIS_URL": url, "GHAPP_STATE_DIR": str(path)}

    def write_config(self, config=WATCHED):
        (self._path / "ghapp.toml").write_text(config)
        self._environ["GHAPP_CONFIG"] = str(self._path / "ghapp.toml")

    def set_public_url(self, url):
        self._environ["GHAPP_PUBLIC_URL"] = url

    async def add_runner(self, evidence):
        await Runners(self.redis).revise(ACME, {evidence.id: lambda _: evidence})

    async def add_death(self, name="linux-1", **changes):
        job = DeadJob(42, "acme/api", "test", "f00", "failure", "https://github.com/acme/api/runs/42")
        worst = Death(name, name, "node-a", self.now - 5, 137, 9, "OOMKilled", Cause.HOST_OOM, "Raise it.", job=job)
        lines = ("Running job: [test]", "\x1b[31mred")
        await Deaths(self.redis).record(ACME, worst._replace(runner_log=lines, **changes))

    async def ask(self, *words):
        return await asyncio.to_thread(ghapp, *words, **self._environ)

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
