"""Clock and worker by themselves: repositories with runners are found, swept, and their lost runners replaced there."""

from __future__ import annotations

from ghapp.sandbox.config import OrgConfig, Pace, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from tests.stories.installations.test_enterprises import CORP
from tests.stories.installations.test_scopes import FIRST_ID, OWN, OWN_POOL, PATTERN, PERMITTED
from tests.stories.processes import FAST_TIMINGS, Role, environment, installed_a_minute_ago
from tests.support.waiting import wait_for

POLICY = """
[remediation]
mode = "act"
[sweep]
interval_seconds = 1
[evidence]
confirm_seconds = 1
startup_seconds = 1
[fuse]
floor = 3
fraction = 1.0
[[scopes]]
enterprise = "acme-corp"
"""


async def test_a_pattern_of_repositories_and_an_enterprise(redis_url, redis, tmp_path):
    org = OrgConfig(
        pools=(PoolConfig(name="linux", size=5, ephemeral=False),),
        repository_pools={"api": (PoolConfig(name=OWN, size=3, ephemeral=False),)},
    )
    pace = Pace(boot=(0.1, 0.2), settle=(0.1, 0.2))
    config = SandboxConfig(orgs=(org,), quiet=True, permissions=PERMITTED, pace=pace, first_elsewhere_id=FIRST_ID)
    with SandboxServer(config) as sandbox:
        policy = tmp_path / "ghapp.toml"
        policy.write_text(POLICY + PATTERN + OWN_POOL.replace("CONTROLLER_URL", sandbox.controller_url))
        environ = environment(sandbox, redis_url, policy) | {"GHAPP_ENTERPRISE_TOKEN": "ghp_mona"}
        await installed_a_minute_ago(environ)
        with Role("worker", environ, tmp_path, FAST_TIMINGS) as worker, Role("clock", environ, tmp_path, FAST_TIMINGS):
            api = -sandbox.world.orgs["acme"].repositories["api"].id

            def swept(scope):
                return f'"org": "{scope}", "runners": ' in worker.log

            assert wait_for(lambda: swept("acme/api") and swept("acme") and swept(CORP)), worker.log[-6000:]
            (lost,) = sandbox.control.lose("acme/api", count=1)
            events = sandbox.control.controller_events
            assert wait_for(lambda: any(each["type"] == "ghapp.runner.replace.v1" for each in events())), worker.log
            (request,) = [each for each in events() if each["type"] == "ghapp.runner.replace.v1"]
            assert (request["source"], request["data"]["runner_id"]) == ("/orgs/acme/api", lost)
            registered = sandbox.world.place_called("acme/api").fleet.roster.registered
            assert wait_for(lambda: len(registered) == 3)
            assert len(sandbox.world.orgs["acme"].fleet.roster.registered) == 5
        assert "Traceback" not in worker.log
        assert "ghp_mona" not in worker.log
        assert await redis.hlen(f"ghapp:{api}:runners") >= 3
        stored = [await redis.dump(key) for key in await redis.keys("ghapp:*")]
        assert not any(b"ghp_mona" in each for each in stored)
