"""Two clocks, five workers, three webs: no sweep twice, no replacement twice."""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import ExitStack
from datetime import datetime

import httpx
import pytest

from ghapp.sandbox.config import OrgConfig, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from tests.stories.processes import Role, environment, installed_a_minute_ago
from tests.support.ports import free_port
from tests.support.waiting import wait_for

LOST = 6
INTERVAL_SECONDS = 2


@pytest.mark.xdist_group("many-processes")
def test_many_processes_do_each_thing_once(redis_url, redis, tmp_path):
    org = OrgConfig(pools=(PoolConfig(name="linux-4vcpu", size=60),))
    ports = [free_port() for _ in range(3)]
    with ExitStack() as stack, SandboxServer(SandboxConfig(orgs=(org,), quiet=True)) as sandbox:
        policy = tmp_path / "ghapp.toml"
        policy.write_text(
            f"""
            [remediation]
            mode = "act"
            [sweep]
            interval_seconds = {INTERVAL_SECONDS}
            [evidence]
            confirm_seconds = 1
            startup_seconds = 1
            [[pools]]
            org = "acme"
            name = "linux-4vcpu"
            labels = ["linux-4vcpu"]
            replacer = "cloudevents"
            url = "{sandbox.controller_url}"
            secret_env = "CONTROLLER_SECRET"
            """
        )
        environ = environment(sandbox, redis_url, policy)
        asyncio.run(installed_a_minute_ago(environ))
        webs = [
            stack.enter_context(Role("web", {**environ, "GHAPP_LISTEN": f"127.0.0.1:{port}"}, tmp_path))
            for port in ports
        ]
        workers = [stack.enter_context(Role("worker", environ, tmp_path)) for _ in range(5)]
        clocks = [stack.enter_context(Role("clock", environ, tmp_path)) for _ in range(2)]

        def swept():
            return sum(worker.log.count('"event": "swept"') for worker in workers)

        assert wait_for(lambda: swept() >= 2), workers[0].log
        lost = sandbox.control.lose("acme", count=LOST)
        assert wait_for(lambda: len(replaced(sandbox)) >= LOST, 60), clocks[0].log
        sweeps = swept()
        assert wait_for(lambda: swept() >= sweeps + 3), "and it goes on"
        assert sorted(replaced(sandbox)) == sorted(lost), "each once"
        began = sorted(time for worker in workers for time in begins(worker.log))
        apart = [after - before for before, after in itertools.pairwise(began)]
        assert min(apart) > INTERVAL_SECONDS / 2, "a slot given out twice would show two at once"
        for port in ports:
            assert wait_for(lambda port=port: is_ready(port))
        text = "".join(role.log for role in (*webs, *workers, *clocks))
        key = sandbox.app.private_key_pem.splitlines()[1]
        for secret in (key, sandbox.app.hook.secret, sandbox.controller_secret.removeprefix("whsec_"), "ghs_"):
            assert secret not in text, "no line contains a secret or a token"
        account = sandbox.control.account()
        assert account["wrongful_removals"] == account["wrongful_replacements"] == []


def is_ready(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").json()["ready"] is True
    except httpx.TransportError:
        return False


def replaced(sandbox):
    events = sandbox.control.controller_events()
    return [event["data"]["runner_id"] for event in events if event["type"] == "ghapp.runner.replace.v1"]


def begins(log):
    """When sweeps began: none is due before an interval has passed since the last one did, however long it took."""
    for line in log.splitlines():
        if '"event": "swept"' in line and line.endswith("}"):
            swept = json.loads(line)
            yield datetime.fromisoformat(swept["timestamp"]).timestamp() - swept["milliseconds"] / 1000
