"""Both sides at once, for stories: GitHub, a cluster with the rights of the manifests, a Redis, and roles as processes.

Each site has servers and a Redis of its own, and in the cluster each role has the account that the manifests give it.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack, contextmanager

import httpx

from ghapp.sandbox.config import OrgConfig, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from ghapp.store.connect import connect, connect_sync
from ghapp.store.tokens import Tokens
from tests.manifests.rendered import objects
from tests.stories.processes import NORMAL_TIMINGS, environment, installed_a_minute_ago
from tests.stories.sites import HOME, NAMESPACE, Site
from tests.support.cluster import SteeredCluster
from tests.support.local_redis import embedded_redis
from tests.support.policy import acting
from tests.support.ports import free_port

ARC, PODS, JOBS = "arc", "pods", "jobs"
"""Pools, by what is particular to them: the replacer, or that jobs run there."""

POLICY = """
[sweep]
interval_seconds = 1
[evidence]
confirm_seconds = 1
startup_seconds = 1
"""

POOL = """
[[pools]]
org = "acme"
name = "{name}"
labels = ["{name}"]
replacer = "{replacer}"
namespace = "runners"
url = "{url}"
secret_env = "CONTROLLER_SECRET"
"""


@contextmanager
def cluster_of_the_manifests():
    """The stand-in for the API server; what our roles may do there is what the manifests grant them."""
    with SteeredCluster() as api:
        api.control.load_roles(objects("dev"))
        for name in (HOME, NAMESPACE):
            api.control.namespace(name)
        yield api


@contextmanager
def site(folder, *roles, patience=NORMAL_TIMINGS, **sizes):
    """Opens a site where these roles run. `sizes`: of the pools, by name; a pool that is left out is not there."""
    pools = tuple(PoolConfig(name=name, size=size) for name, size in sizes.items())
    port = free_port()
    with ExitStack() as stack:
        org = OrgConfig(pools=pools)
        github = stack.enter_context(SandboxServer(SandboxConfig(orgs=(org,), quiet=True)))
        api = stack.enter_context(cluster_of_the_manifests())
        redis = stack.enter_context(ExitStack())
        url = redis.enter_context(embedded_redis(folder / "redis", durable=True))
        policy = folder / "ghapp.toml"
        replacers = {ARC: "arc", PODS: "pods"}
        policy.write_text(
            acting(POLICY)
            + "".join(
                POOL.format(name=name, replacer=replacers.get(name, "cloudevents"), url=github.controller_url)
                for name in sizes
            )
        )
        environ = environment(github, url, policy) | {
            "GHAPP_STATE_DIR": str(folder / "state"),
            "GHAPP_LISTEN": f"127.0.0.1:{port}",
        }
        headers = {"authorization": f"Bearer {asyncio.run(_token(url))}"}
        web = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30))
        # What `stack` holds from here on ends first: roles before what they talk to.
        queue_redis = stack.enter_context(connect_sync(url))
        app = Site(github, api, redis, url, environ, folder, web, stack, queue_redis, patience)
        asyncio.run(installed_a_minute_ago(environ))
        app.begin(*roles)
        if "web" in roles:
            app.until(lambda: _listens(web))
            github.control.webhook(url=f"http://127.0.0.1:{port}/webhook")
        yield app
        assert app.refused() == []


async def _token(url):
    redis = connect(url)
    secret, _ = await Tokens(redis).create("story", ("acme",), ("read", "claim"), time.time())
    await redis.aclose()
    return secret


def _listens(web):
    try:
        return web.get("/livez").status_code == 200
    except httpx.TransportError:
        return False
