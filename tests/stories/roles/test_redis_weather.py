"""Redis is demoted, full, slow, hung, restarted without its last second, moved: all roles recover by themselves.

The roles start once, and the weather changes around them. Meanwhile `/readyz` and `doctor` name what is the matter.
The roles here are in a hurry; `test_patience` shows that those that are not recover within ten seconds.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from ghapp.doctor.finding import FindingStatus
from ghapp.doctor.runner import examine
from ghapp.sandbox.config import OrgConfig, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from ghapp.settings import Settings
from ghapp.store import keys
from ghapp.store.connect import connect_sync
from tests.stories.processes import FAST_TIMINGS, PATIENCE_SECONDS, Role, environment
from tests.stories.roles.test_redis_away import SECRET, deliver
from tests.support.cluster import SteeredCluster
from tests.support.ports import free_port
from tests.support.redis_weather import Address, asked, follow, redis_server, swap
from tests.support.waiting import wait_for

ROLES = ("web", "worker", "clock", "watch")
POLICY = """
[sweep]
interval_seconds = 1
[[pools]]
org = "acme"
name = "linux-4vcpu"
labels = ["linux-4vcpu"]
namespace = "runners"
"""


class Site:
    """The four roles over one URL of Redis."""

    def __init__(self, url, environ, client, roles):
        self.url, self.environ, self.client, self.roles = url, environ, client, roles
        self._deliveries = 0

    @property
    def logs(self):
        return "\n".join(f"--- {role.name}\n{role.log[-3000:]}" for role in self.roles)

    def ready(self):
        """The code of `/readyz`, and what it calls Redis; None without an answer."""
        try:
            answer = self.client.get("/readyz")
            return answer.status_code, answer.json()["redis"]
        except httpx.TransportError:
            return None

    def works_again(self):
        """Each role works: a new delivery is kept and drained, and what the others record is newer than this call."""
        assert wait_for(lambda: self.ready() == (200, "ok")), self.logs
        self._deliveries += 1
        assert wait_for(lambda: deliver(self.client, f"d-{self._deliveries}").status_code == 202), self.logs
        with connect_sync(self.url) as redis:
            since = time.time()

            def beats(role):
                return any(at > since for _, at in redis.zrange(keys.heartbeats(role), 0, -1, withscores=True))

            def swept():  # the next sweep is due a second after one
                return any(at > since + 0.5 for _, at in redis.zrange(keys.DUE, 0, -1, withscores=True))

            assert wait_for(lambda: redis.xlen(keys.INBOX) == 0), self.logs
            assert wait_for(lambda: beats("clock") and beats("watch")), self.logs
            assert wait_for(swept), self.logs
            assert wait_for(lambda: redis.scard("rq:workers") == 1), "the worker is known, once"
        assert all(role.process.poll() is None for role in self.roles), "no process exited"

    def finding(self, name):
        """What doctor finds of Redis; and no role is reported as dead."""
        found = asyncio.run(examine(Settings.read(self.environ), self.environ))
        wrong = [each for each in found if each.group == "roles" and each.status is FindingStatus.WRONG]
        assert not [each for each in wrong if not each.text.startswith("no answer within")], found
        return next(each for each in found if (each.group, each.name) == ("redis", name))


@contextmanager
def site(folder, url):
    policy = folder / "ghapp.toml"
    policy.write_text(POLICY)
    org = OrgConfig(pools=(PoolConfig(name="linux-4vcpu", size=12),))
    with ExitStack() as stack:
        github = stack.enter_context(SandboxServer(SandboxConfig(orgs=(org,), quiet=True)))
        api = stack.enter_context(SteeredCluster())
        api.control.namespace("runners")
        environ = environment(github, url, policy) | {
            "GHAPP_WEBHOOK_SECRET": SECRET,
            "GHAPP_LISTEN": f"127.0.0.1:{free_port()}",
            "GHAPP_STATE_DIR": str(folder / "state"),
            "KUBECONFIG": str(api.kubeconfig(folder / "kubeconfig")),
        }
        roles = [stack.enter_context(Role(name, environ, folder, FAST_TIMINGS)) for name in ROLES]
        client = stack.enter_context(
            httpx.Client(base_url=f"http://{environ['GHAPP_LISTEN']}", timeout=PATIENCE_SECONDS)
        )
        app = Site(url, environ, client, roles)
        app.works_again()
        yield app
        assert not [role.name for role in roles if "Traceback" in role.log], app.logs


def durable(port):
    return [f"port {port}", "appendonly yes", "maxmemory-policy noeviction"]


def test_all_roles_recover_from_each_weather_of_a_redis_behind_one_address(tmp_path):
    one, other = free_port(), free_port()
    with ExitStack() as stack:
        stack.enter_context(redis_server(tmp_path, "one", durable(one)))
        second = stack.enter_context(redis_server(tmp_path, "other", durable(other)))
        follow(other, one)
        address = stack.enter_context(Address(one))
        app = stack.enter_context(site(tmp_path, f"redis://127.0.0.1:{address.port}"))

        swap(one, other)  # demoted; its connections stay open
        assert wait_for(lambda: app.ready() == (503, "replica")), app.logs
        assert app.finding("writing").text.startswith("it is a replica")
        address.target = other
        app.works_again()

        with asked(other) as redis:
            redis.config_set("maxmemory", 1)
            assert wait_for(lambda: app.ready() == (503, "memory")), app.logs
            assert app.finding("writing").text.startswith("its memory is full")
            redis.config_set("maxmemory", 0)
        app.works_again()

        address.delay_seconds = 0.15
        assert app.ready() == (200, "ok")
        assert app.finding("answers").text.startswith("slow: ")
        address.delay_seconds = 0.0
        app.works_again()

        second.send_signal(signal.SIGSTOP)
        assert app.client.get("/livez").status_code == 200
        assert app.ready() == (503, "away")
        assert app.finding("answers").text.startswith("no answer within")
        second.send_signal(signal.SIGCONT)
        app.works_again()

        with asked(one) as redis:
            redis.replicaof("NO", "ONE")  # it lacks what the other one gets from now on
        app.works_again()
        second.kill()
        assert wait_for(lambda: app.ready() == (503, "away")), app.logs
        address.target = one
        app.works_again()


def test_all_roles_recover_from_a_failover_by_sentinel_and_from_a_move_of_a_hung_server(tmp_path):
    primary, replica, sentinel = free_port(), free_port(), free_port()
    watched = [
        f"port {sentinel}",
        f"sentinel monitor main 127.0.0.1 {primary} 1",
        "sentinel down-after-milliseconds main 1000",
        "sentinel failover-timeout main 5000",
    ]
    with ExitStack() as stack:
        first = stack.enter_context(redis_server(tmp_path, "primary", durable(primary)))
        stack.enter_context(redis_server(tmp_path, "replica", durable(replica)))
        follow(replica, primary)
        stack.enter_context(redis_server(tmp_path, "sentinel", watched, "--sentinel"))
        url = f"redis+sentinel://127.0.0.1:{sentinel}/main/0"
        app = stack.enter_context(site(tmp_path, url))
        with asked(sentinel) as redis:
            assert wait_for(lambda: redis.execute_command("SENTINEL", "REPLICAS", "main"))
        first.send_signal(signal.SIGSTOP)  # its connections stay open, and are never answered
        assert wait_for(lambda: app.ready() == (503, "away")), app.logs
        app.works_again()
        first.send_signal(signal.SIGCONT)  # an old primary with open connections, which Sentinel demotes
        with asked(primary) as redis:
            assert wait_for(lambda: redis.info("replication")["role"] == "slave")
        app.works_again()


@pytest.mark.parametrize("hung_before", [False, True], ids=["at once", "after the worker has waited for it"])
def test_all_roles_obey_sigterm_while_redis_hangs(tmp_path, hung_before):
    port = free_port()
    with ExitStack() as stack:
        server = stack.enter_context(redis_server(tmp_path, "one", [f"port {port}"]))
        app = stack.enter_context(site(tmp_path, f"redis://127.0.0.1:{port}"))
        worker = next(role for role in app.roles if role.name == "worker")
        if hung_before:
            assert wait_for(lambda: worker.children, pause=0.001), "it is in the middle of a job"
        server.send_signal(signal.SIGSTOP)
        if hung_before:
            assert wait_for(lambda: "Redis unavailable" in worker.log), app.logs
        for role in app.roles:
            os.kill(role.process.pid, signal.SIGTERM)
        assert {role.name: role.process.wait(PATIENCE_SECONDS) for role in app.roles} == dict.fromkeys(ROLES, 0)
