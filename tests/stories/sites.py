"""What stories see of a site, and can do to it; `tests.stories.cluster_story` opens one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import httpx
from redis import Redis

from ghapp.pods.store import Pods
from ghapp.queue.jobs import QUEUES
from ghapp.sandbox.server import SandboxServer
from ghapp.settings import Settings
from ghapp.store import keys
from ghapp.store.connect import connect
from ghapp.store.locks import ROLE
from jobs.context import open_context
from jobs.remediation.remediate import remediate_runner
from tests.stories.processes import NORMAL_TIMINGS, Role
from tests.support.cluster import SteeredCluster
from tests.support.waiting import wait_for

HOME, NAMESPACE = "ghapp", "runners"
WATCH, WORKER = (f"system:serviceaccount:{HOME}:ghapp-{role}" for role in ("watch", "worker"))
ACCOUNTS = {"watch": WATCH, "worker": WORKER}
"""The other roles have no account that could ask anything."""


@dataclass
class Site:
    """What runs, and where: `began` are the roles in the order of their start."""

    github: SandboxServer
    api: SteeredCluster
    redis: ExitStack
    redis_url: str
    environ: dict[str, str]
    folder: Path
    web: httpx.Client
    stack: ExitStack
    queue_redis: Redis
    patience: tuple[str, ...] = NORMAL_TIMINGS
    began: list[Role] = field(default_factory=list)
    lived: set[str] = field(default_factory=set)

    @property
    def control(self):
        return self.api.control

    @property
    def installation(self):
        return self.github.installation_id()

    def begin(self, *names):
        """Starts roles, each with its own account in the cluster."""
        for name in names:
            role = Role(name, self.environ_of(name), self.folder, self.patience)
            self.began.append(self.stack.enter_context(role))

    def environ_of(self, role):
        """What a role is started with; without an account it knows of no cluster."""
        if role not in ACCOUNTS:
            return self.environ
        path = self.folder / f"kubeconfig-{role}"
        return {**self.environ, "KUBECONFIG": str(self.api.kubeconfig(path, ACCOUNTS[role], HOME))}

    def remediate(self, runner_id, seconds_from_now):
        """What a worker makes of one runner then, by its clock and the cluster's; in this process, for no other's clock
        can be moved.
        """
        clock = lambda: time.time() + seconds_from_now  # noqa: E731

        async def then():
            async with open_context(Settings.read(self.environ_of("worker")), clock) as context:
                return await remediate_runner(context, self.installation, runner_id)

        with mock.patch.object(self.api.cluster, "clock", clock):
            return asyncio.run(then())

    def log_text(self, role=""):
        """All that the roles have logged, or those of one name."""
        return "".join(each.log for each in self.began if role in ("", each.name))

    def lines(self, event, role="watch"):
        """What was logged of one event."""
        log_text = self.log_text(role).splitlines()
        return [json.loads(line) for line in log_text if f'"event": "{event}"' in line and line.endswith("}")]

    def until(self, condition, seconds=30):
        """What `condition` answers once it is true; by then it has to be."""
        found = wait_for(condition, seconds)
        assert found, self.log_text()[-6000:]
        return found

    def sees(self):
        """Wait until the watch has recorded what the cluster holds."""
        there = {f"p/{name}".encode() for name in self.control.names("pods", NAMESPACE)}
        self.until(lambda: there <= set(self.queue_redis.hkeys(keys.pods(NAMESPACE))))

    def runners(self, pool):
        """The registered runners of a pool: name → id."""
        fleet = self.github.world.orgs["acme"].fleet
        return {each.name: each.id for each in fleet.roster.registered.values() if each.pool == pool}

    def events(self, kind):
        """Every event of a type at the controller, `ghapp.` and `.v1` left out."""
        return [each for each in self.github.control.controller_events() if each["type"] == f"ghapp.{kind}.v1"]

    def removals(self):
        """How many registrations were taken away at GitHub, or tried to be."""
        calls = self.github.control.account()["calls"]
        return sum(made["total"] for operation, made in calls.items() if operation.startswith("DELETE "))

    def health(self, runner_id):
        return self.web.get(f"/v1/orgs/acme/runners/{runner_id}/health").json()

    def death(self, name):
        answer = self.web.get(f"/v1/orgs/acme/deaths/{name}")
        return answer.json() if answer.status_code == 200 else None

    def knows(self, count):
        """Wait until sweeps have recorded so many runners."""
        self.until(lambda: self.queue_redis.hlen(keys.runners(self.installation)) >= count)

    def hurry(self):
        """Work that waits for its time is due now; True, so that it can be a part of a condition."""
        for name in QUEUES:
            waiting = self.queue_redis.zrange(f"rq:scheduled:{name}", 0, -1)
            if waiting:
                self.queue_redis.zadd(f"rq:scheduled:{name}", dict.fromkeys(waiting, 0), xx=True)
        return True

    def asked_for(self, kind):
        """The keys of work that was asked for and is not done, by how they begin."""
        return {each.removeprefix(b"rq:job:") for each in self.queue_redis.scan_iter(f"rq:job:{kind}*", count=1000)}

    def waits(self, kind):
        """The same without what is due later."""
        later = {each for name in QUEUES for each in self.queue_redis.zrange(f"rq:scheduled:{name}", 0, -1)}
        return self.asked_for(kind) - later

    def check_runs(self, repository):
        """Those of a repository, by name."""
        found = self.github.world.orgs["acme"].repositories[repository].check_runs
        return {each["name"]: each for each in found.values()}

    def read(self, ask):
        """What a store answers: `ask` is given a client."""

        async def answer():
            redis = connect(self.redis_url)
            try:
                return await ask(redis)
            finally:
                await redis.aclose()

        return asyncio.run(answer())

    def recorded(self):
        """How many deaths are kept."""
        return self.queue_redis.hlen(keys.deaths(self.installation))

    def shown_ended(self):
        """The names of pods that the snapshot shows as ended."""
        known = self.read(lambda redis: Pods(redis).known(NAMESPACE))
        return {each.name for each in known if each.has_ended}

    def command(self, *words):
        """`ghapp …`; what it prints."""
        environ = {key: value for key, value in os.environ.items() if not key.startswith("GHAPP_")}
        done = subprocess.run(
            [sys.executable, "-m", "ghapp", *words],
            env={**environ, **self.environ, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stand(self, pool, *, of_arc=False):
        """What a cluster holds for each runner of a pool; their names, sorted."""
        for name, runner_id in self.runners(pool).items():
            if of_arc:
                owner = self.control.ephemeral_runner(NAMESPACE, name, runner_id=runner_id, scale_set=pool)
                self.control.pod(NAMESPACE, name, owner=owner)
            else:
                self.control.pod(NAMESPACE, name, service_account=name)
        return sorted(self.runners(pool))

    def asked(self, user, *verbs):
        """What a role has asked for with these verbs: verb, resource, name, code."""
        calls = self.control.calls(user)
        return [(each.verb, each.resource, each.name, each.code) for each in calls if each.verb in verbs]

    def refused(self):
        """Requests that RBAC denied: there are none, or the manifests lack something."""
        return [each for each in self.control.calls() if each.code == 403]

    def ends(self, *names, **how):
        """Ends containers of runners; by default killed by the kernel for memory."""
        for name in names:
            self.control.container_ends(NAMESPACE, name, **{"exit_code": 137, "reason": "OOMKilled", **how})

    def leader(self):
        """The watch that holds the lock; empty if no watch does."""
        return (self.queue_redis.get(keys.lock(ROLE, "watch")) or b"").decode()

    def leads(self, role):
        """Whether a watch holds the lock: its process id is in its identity."""
        return f"-{role.process.pid}-" in self.leader()
