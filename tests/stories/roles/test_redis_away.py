"""Redis is stopped for a while, and restarts with its data."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from ghapp.sandbox.config import OrgConfig, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from ghapp.store.connect import connect_sync
from tests.stories.processes import PATIENCE_SECONDS, Role, environment
from tests.support.local_redis import embedded_redis
from tests.support.ports import free_port
from tests.support.waiting import wait_for

SECRET = "hush"


@contextmanager
def context(tmp_path):
    """Web, worker and clock as processes; a Redis that the test can stop; an org of twelve."""
    org = OrgConfig(pools=(PoolConfig(name="linux-4vcpu", size=12),))
    policy = tmp_path / "ghapp.toml"
    policy.write_text("[sweep]\ninterval_seconds = 2\n")
    with ExitStack() as stack, SandboxServer(SandboxConfig(orgs=(org,), quiet=True)) as sandbox:
        redis = stack.enter_context(ExitStack())
        url = redis.enter_context(embedded_redis(tmp_path / "redis", durable=True))
        environ = environment(sandbox, url, policy) | {
            "GHAPP_WEBHOOK_SECRET": SECRET,
            "GHAPP_LISTEN": f"127.0.0.1:{free_port()}",
        }
        roles = [stack.enter_context(Role(name, environ, tmp_path)) for name in ("web", "worker", "clock")]
        with httpx.Client(base_url=f"http://{environ['GHAPP_LISTEN']}", timeout=PATIENCE_SECONDS) as client:
            yield client, redis, url, roles


def token(url):
    import asyncio

    from ghapp.store.connect import connect
    from ghapp.store.tokens import Tokens

    async def create():
        redis = connect(url)
        secret, _ = await Tokens(redis).create("story", ("acme",), ("read",), time.time())
        await redis.aclose()
        return secret

    return {"authorization": f"Bearer {asyncio.run(create())}"}


def deliver(client, guid):
    body = json.dumps({"zen": "Keep it logically awesome."}).encode()
    signature = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "x-github-event": "ping",
        "x-github-delivery": guid,
        "x-hub-signature-256": signature,
        "content-type": "application/json",
    }
    return client.post("/webhook", content=body, headers=headers)


def answers(client, path="/livez", **kwargs):
    try:
        return client.get(path, **kwargs)
    except httpx.TransportError:
        return None


@pytest.mark.xdist_group("redis-away")
def test_while_redis_is_away_nothing_is_accepted_that_cannot_be_kept_and_reads_say_how_old_they_are(tmp_path):
    with context(tmp_path) as (client, redis, url, roles):
        headers = token(url)
        assert wait_for(lambda: answers(client)), roles[0].log

        def fleet():
            return client.get("/v1/orgs/acme/runners", headers=headers).json()

        assert wait_for(lambda: fleet().get("total") == 12), roles[1].log
        assert wait_for(lambda: '"job": "sweep-due-0"' in roles[1].log), "each line of a job has its id"
        runner_id = fleet()["runners"][0]["runner_id"]
        health = f"/v1/orgs/acme/runners/{runner_id}/health"
        before = client.get(health, headers=headers).json()
        assert deliver(client, "a").status_code == 202

        redis.close()
        refused = wait_for(lambda: (answer := deliver(client, "b")).status_code == 503 and answer)
        assert refused, "a delivery that is not kept is not accepted"
        assert int(refused.headers["retry-after"]) > 0
        assert client.get("/readyz").status_code == 503
        assert client.get("/livez").status_code == 200
        during = client.get(health, headers=headers)
        assert during.status_code == 200
        assert during.json()["observed_at"] >= before["observed_at"]
        older = wait_for(lambda: client.get(health, headers=headers).json()["age_seconds"] > 3)
        assert older, "its reported age grows"

        redis.enter_context(embedded_redis(tmp_path / "redis", durable=True))
        assert wait_for(lambda: client.get("/readyz").status_code == 200)
        assert deliver(client, "b").status_code == 202
        fresh = lambda: client.get(health, headers=headers).json()["age_seconds"] < 3  # noqa: E731
        assert wait_for(fresh), "sweeps go on by themselves:\n" + roles[1].log + roles[2].log
        queue_redis = connect_sync(url)
        assert wait_for(lambda: queue_redis.xlen("ghapp:inbox") == 0), "and so do drains"
        assert all(role.process.poll() is None for role in roles), "no process exited"


@pytest.mark.xdist_group("redis-away")
def test_asked_to_end_every_role_does_within_ten_seconds_and_says_that_it_is_well(tmp_path):
    with context(tmp_path) as (client, _, url, roles):
        headers = token(url)
        assert wait_for(lambda: answers(client)), roles[0].log
        assert wait_for(lambda: "swept" in roles[1].log), roles[1].log
        with client.stream("GET", "/v1/orgs/acme/events", headers=headers):
            began = time.monotonic()
            for role in roles:
                role.process.terminate()
            codes = {role.name: role.process.wait(10) for role in roles}
        assert codes == {"web": 0, "worker": 0, "clock": 0}, f"after {time.monotonic() - began:.1f} s"


@pytest.mark.xdist_group("redis-away")
def test_a_web_role_that_is_killed_in_the_midst_of_a_burst_has_kept_all_that_it_accepted(tmp_path):
    with context(tmp_path) as (client, _, url, roles):
        assert wait_for(lambda: answers(client)), roles[0].log
        roles[1].kill_all()  # without drains, so that stored deliveries can be counted
        accepted = []

        def burst(worker):
            for number in range(200):
                try:
                    if deliver(client, f"{worker}-{number}").status_code == 202:
                        accepted.append(f"{worker}-{number}")
                except httpx.TransportError:
                    return

        threads = [threading.Thread(target=burst, args=(worker,)) for worker in range(8)]
        for thread in threads:
            thread.start()
        assert wait_for(lambda: len(accepted) > 50)
        roles[0].kill_all()
        for thread in threads:
            thread.join()
        queue_redis = connect_sync(url)
        kept = {row[b"g"].decode() for _, row in queue_redis.xrange("ghapp:inbox")}
        assert len(accepted) < 8 * 200, "it was killed while running"
        assert set(accepted) <= kept
