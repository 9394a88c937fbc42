"""The next version is rolled out beside the present one and rolled back, under a stream of deliveries and sweeps."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import ExitStack, contextmanager

import httpx
import msgspec
import pytest
from rq import Queue
from rq.registry import FailedJobRegistry
from rq.serializers import JSONSerializer

from ghapp.deliveries.store import Inbox
from ghapp.queue import jobs
from ghapp.runners.evidence import Evidence
from ghapp.runners.store import Runners
from ghapp.runners.verdict import Limits, State, judge
from ghapp.sandbox.config import OrgConfig, Pace, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from ghapp.store import keys
from ghapp.store.connect import connect, connect_sync
from ghapp.store.quarantine import Quarantine
from tests.stories.processes import NEXT_VERSION, NORMAL_TIMINGS, Role, environment, installed_a_minute_ago
from tests.stories.roles.test_many_processes import replaced
from tests.support.ports import free_port
from tests.support.waiting import wait_for

LOST_AT_ONCE = 2
IDLE = PoolConfig(name="idle", size=60, load=0.0, ephemeral=False)
AT_WORK = PoolConfig(name="at-work", size=12, load=0.6)
PACE = Pace(job=(1.0, 4.0), boot=(0.5, 1.0), settle=(0.5, 1.0))
HEALED_SECONDS = 60
LIMITS = Limits(confirm_seconds=1, startup_seconds=1)


@contextmanager
def roles(environ, sandbox, folder, version):
    """A web, a clock and two workers of a version; deliveries go to that web from now on."""
    port = free_port()
    with ExitStack() as stack:
        names = ["web", "clock", "worker", "worker"]
        there = {**environ, "GHAPP_LISTEN": f"127.0.0.1:{port}"}
        started = [stack.enter_context(Role(name, there, folder, version)) for name in names]
        assert wait_for(lambda: listens(port)), started[0].log
        sandbox.control.webhook(url=f"http://127.0.0.1:{port}/webhook")
        yield started


def listens(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/livez").is_success
    except httpx.TransportError:
        return False


def lose_and_heal(sandbox, started):
    """Idle runners are lost, and all of them replaced; who they were."""
    lost = sandbox.control.lose("acme", count=LOST_AT_ONCE, pool=IDLE.name)
    healed = wait_for(lambda: set(lost) <= set(replaced(sandbox)), HEALED_SECONDS)
    assert healed, "".join(role.log for role in started)
    return lost


def rows_of_the_next_version(queue_redis, installation):
    rows = queue_redis.hgetall(keys.runners(installation)).values()
    return sum(len(msgspec.msgpack.decode(row)) > len(Evidence._fields) for row in rows)


def failures(started):
    """What jobs failed of, as their workers logged it."""
    for role in started:
        for line in role.log.splitlines():
            if '"event": "job failed"' in line:
                yield json.loads(line)


def successors_are_online(redis_url, installation, lost):
    states, records, *_ = asyncio.run(found(redis_url, installation))
    idle = [states[each.id] for each in records.values() if IDLE.name in each.labels and each.id not in lost]
    return len(idle) >= IDLE.size and set(idle) == {State.HEALTHY}


async def found(redis_url, installation):
    """The state of each runner, and what was given up or set aside."""
    redis = connect(redis_url)
    runners = Runners(redis)
    survey, records = await runners.survey(installation), await runners.all(installation)
    states = {each.id: judge(each, survey, time.time(), LIMITS).state for each in records.values()}
    given_up, aside = await Inbox(redis).dead(), await Quarantine(redis).all()
    await redis.aclose()
    return states, records, given_up, aside


@pytest.mark.xdist_group("many-processes")
def test_rolling_forth_and_back_under_load_loses_nothing(redis_url, redis, tmp_path):
    config = SandboxConfig(orgs=(OrgConfig(pools=(IDLE, AT_WORK)),), pace=PACE)
    with SandboxServer(config) as sandbox, ExitStack() as stack, connect_sync(redis_url) as queue_redis:
        policy = tmp_path / "ghapp.toml"
        policy.write_text(
            f"""
            [remediation]
            mode = "act"
            [sweep]
            interval_seconds = 2
            [evidence]
            confirm_seconds = {LIMITS.confirm_seconds}
            startup_seconds = {LIMITS.startup_seconds}
            """
            + "".join(
                f"""
                [[pools]]
                org = "acme"
                name = "{pool.name}"
                labels = ["{pool.name}"]
                replacer = "cloudevents"
                url = "{sandbox.controller_url}"
                secret_env = "CONTROLLER_SECRET"
                """
                for pool in (IDLE, AT_WORK)
            )
        )
        environ, installation = environment(sandbox, redis_url, policy), sandbox.installation_id()
        asyncio.run(installed_a_minute_ago(environ))
        present = ExitStack()
        before = present.enter_context(roles(environ, sandbox, tmp_path, NORMAL_TIMINGS))
        with present:
            assert wait_for(lambda: queue_redis.hlen(keys.runners(installation)) >= IDLE.size), before[2].log
            lost: list[int] = []

            def lose_some_and_heal(started):
                # A runner that was lost before a list has shown it is unknown to ghapp.
                assert wait_for(lambda: successors_are_online(redis_url, installation, lost)), started[2].log
                lost.extend(lose_and_heal(sandbox, started))

            lose_some_and_heal(before)
            following = ExitStack()
            beside = following.enter_context(roles(environ, sandbox, tmp_path, NEXT_VERSION))
            stack.enter_context(following)
            assert wait_for(lambda: rows_of_the_next_version(queue_redis, installation) > 0), beside[2].log
            lose_some_and_heal([*before, *beside])
        lose_some_and_heal(beside)  # alone: rolled forth
        after = stack.enter_context(roles(environ, sandbox, tmp_path, NORMAL_TIMINGS))
        following.close()  # and back
        lose_some_and_heal(after)
        left = rows_of_the_next_version(queue_redis, installation)
        sandbox.control.quiet()
        assert wait_for(lambda: queue_redis.xlen(keys.INBOX) == 0)
        assert wait_for(lambda: successors_are_online(redis_url, installation, lost)), after[2].log
        account, asked = sandbox.control.account(), replaced(sandbox)
        states, records, given_up, aside = asyncio.run(found(redis_url, installation))
        for name in jobs.QUEUES:
            queue = Queue(name, connection=queue_redis, serializer=JSONSerializer)
            assert FailedJobRegistry(queue=queue).get_job_ids() == [], name
    assert left > 0, "the present version went on with rows of the next one"
    assert (given_up, aside) == ([], [])
    assert [*failures([*before, *beside, *after])] == []
    assert account["deliveries"]["sent"] > 50
    assert account["deliveries"]["undelivered"] == [], account["deliveries"]
    assert sorted(runner_id for runner_id in asked if runner_id in set(lost)) == sorted(lost), "each once"
    assert account["replacements"]["doubled"] == {}
    assert account["wrongful_removals"] == account["wrongful_replacements"] == account["unnoticed"] == []
    assert {states[runner_id] for runner_id in lost} == {State.INVALIDATED}
    assert all(records[runner_id].replaced_at is not None for runner_id in lost)
    idle = [each for each in records.values() if IDLE.name in each.labels and each.id not in lost]
    assert {states[each.id] for each in idle} == {State.HEALTHY}
    assert len(idle) == IDLE.size, "each lost one has one successor"
