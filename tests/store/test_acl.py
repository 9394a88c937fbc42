"""Redis with an ACL user that may use only the keys of ghapp and RQ, and no dangerous command; on every Redis version of this machine."""

from __future__ import annotations

import pathlib
import re
import time

import pytest

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import Death
from ghapp.deaths.store import Deaths
from ghapp.deliveries.store import Inbox
from ghapp.errors import Refusal, StoreRefusedError
from ghapp.installations.pacing import CallLimits
from ghapp.local.redis_servers import find_supported_servers
from ghapp.notifications.event_store import Events
from ghapp.pods.claim_store import PodClaims
from ghapp.pods.end_store import PodEnd, PodEnds
from ghapp.pods.pod import Pod
from ghapp.pods.store import PodChange, Pods
from ghapp.queue import jobs
from ghapp.queue.jobs import JobName
from ghapp.runners.observations import first_observation
from ghapp.runners.store import Runners
from ghapp.store.budget import Budget
from ghapp.store.connect import connect, connect_sync
from ghapp.store.locks import Locks
from ghapp.store.schedule import Schedule
from tests.support.local_redis import embedded_redis
from tests.support.snapshots import record_snapshot

ROOT = pathlib.Path(__file__).parents[2]
NOW = 1_790_000_000.0


def rules(file="SECURITY.md"):
    """The user's rules from the given file."""
    text = (ROOT / file).read_text()
    return re.search(r"^user ghapp on >\S+ (.+)$", text, re.MULTILINE)[1].split()


@pytest.fixture(params=find_supported_servers(), ids=str)
def limited(tmp_path, request):
    """The URL of a Redis, with the user's name and password in it."""
    with embedded_redis(tmp_path / "redis", durable=False, servers=[request.param]) as url:
        admin = connect_sync(url)
        admin.execute_command("ACL", "SETUSER", "ghapp", "on", ">hush", *rules())
        admin.close()
        yield url.replace("unix://", "unix://ghapp:hush@")


@pytest.mark.parametrize("file", ["manifests/README.md", "docs/kubernetes.md"])
def test_all_files_with_the_acl_rules_have_the_same_rules(file):
    assert rules(file) == rules()


async def test_the_documented_acl_user_is_sufficient_for_the_stores(limited):
    redis = connect(limited)
    await Runners(redis).revise(7, {1: lambda _: first_observation(1, "a", NOW)})
    await Inbox(redis).keep("a", "ping", b"{}")
    inbox = Inbox(redis)
    await inbox.done(await inbox.take(10), NOW)
    await Schedule(redis).add(7, NOW)
    assert await Schedule(redis).take_due(NOW, 60, 8) == {7: NOW}
    budget = Budget(redis)
    await budget.leave(7, await budget.enter(7, CallLimits(0.5), 1), {})
    async with Locks(redis).acquire("sweep", 7) as mine:
        assert mine
    await Events(redis).append(7, {"id": "e", "type": "test"}, None)
    await Deaths(redis).record(7, Death("a", "a", "n", NOW, 1, None, "Error", Cause.CRASH, ""))
    assert len(await Deaths(redis, lambda: NOW).recent(7, NOW, 1)) == 1
    await record_snapshot(Pods(redis), "runners", [Pod("runners", "a", "u", "1", NOW)], [], NOW)
    change = PodChange(Pod("runners", "a", "u", "1", NOW), deleted=True)
    await Pods(redis).record("runners", [change._replace(end=PodEnd(change.pod))])
    (end,) = await PodEnds(redis).unrecorded("runners", None, 1)
    await PodEnds(redis).recorded("runners", end.id)
    await PodClaims(redis, lambda: NOW).claim(7, "a", "a", None, NOW + 60)
    assert len(await PodClaims(redis).all(7, NOW)) == 1
    for forbidden in (redis.set("others:key", "x"), redis.config_set("dir", "/tmp")):
        with pytest.raises(StoreRefusedError) as refused:
            await forbidden
        assert refused.value.refusal is Refusal.PERMISSION
    await redis.aclose()


def test_the_documented_acl_user_is_sufficient_for_the_job_queue(limited):
    from rq import Queue, SimpleWorker
    from rq.serializers import JSONSerializer

    queue_redis = connect_sync(limited)
    assert jobs.enqueue(queue_redis, JobName.SWEEP, 7, key="sweep-7")
    assert jobs.enqueue(queue_redis, JobName.CONFIRM, 7, key="confirm-7", after_seconds=1)
    jobs.promote_due(queue_redis, time.time() + 10)
    assert jobs.load(queue_redis).waiting["urgent"] == 1
    queues = [Queue(name, connection=queue_redis, serializer=JSONSerializer) for name in jobs.QUEUES]
    worker = SimpleWorker(queues, connection=queue_redis, serializer=JSONSerializer)
    worker.work(burst=True, logging_level="CRITICAL")
    assert jobs.load(queue_redis).waiting["urgent"] == 0
    queue_redis.close()
