"""KEDA's user of Redis may do what KEDA does, and nothing else."""

import re

import pytest
from redis.exceptions import NoPermissionError, ResponseError

from ghapp.local.redis_servers import find_supported_servers
from ghapp.queue.jobs import QUEUES, JobName, enqueue
from ghapp.store.connect import connect_sync
from tests.manifests.rendered import MANIFESTS, ROOT, kinds
from tests.support.local_redis import embedded_redis

COUNT = """
local kind = redis.call('type', KEYS[1]).ok
if kind == 'list' or kind == 'none' then return redis.call('llen', KEYS[1]) end
"""
"""What its scaler does, as read in its source (`pkg/scalers/redis_scaler.go`, 2.18): a PING, then a script."""


def rules(path):
    return re.search(r"user keda on >… (.+)$", (ROOT / path).read_text(), re.MULTILINE)[1].split()


@pytest.fixture(params=find_supported_servers(), ids=str)
def theirs(tmp_path, request):
    """A client for the user described in the README, and one with all rights."""
    with embedded_redis(tmp_path / "redis", durable=False, servers=[request.param]) as url:
        admin = connect_sync(url)
        admin.execute_command("ACL", "SETUSER", "keda", "on", ">hush", *rules("manifests/README.md"))
        limited = connect_sync(url.replace("unix://", "unix://keda:hush@"))
        yield limited, admin
        limited.close()
        admin.close()


def test_it_can_count_every_queue(theirs):
    keda, admin = theirs
    enqueue(admin, JobName.SWEEP, 7, key="sweep-7")
    assert keda.ping()
    (scaled,) = kinds("production", "ScaledObject")
    lists = [trigger["metadata"]["listName"] for trigger in scaled["spec"]["triggers"]]
    assert {name: keda.eval(COUNT, 1, name) for name in lists} == {
        f"rq:queue:{name}": int(name == "sweep") for name in QUEUES
    }


@pytest.mark.parametrize(
    ("script", "key"),
    [
        ("return redis.call('rpush', KEYS[1], 'x')", "rq:queue:urgent"),
        ("return redis.call('del', KEYS[1])", "rq:queue:urgent"),
        ("return redis.call('lrange', KEYS[1], 0, -1)", "rq:queue:urgent"),
        (COUNT, "ghapp:inbox"),
    ],
    ids=["ask for work", "forget work", "read work", "look elsewhere"],
)
def test_it_can_do_nothing_else(theirs, script, key):
    keda, _ = theirs
    with pytest.raises((NoPermissionError, ResponseError)):
        keda.eval(script, 1, key)


def test_both_places_that_report_it_agree():
    assert rules("manifests/README.md") == rules(MANIFESTS / "components" / "keda" / "scaling.yaml")
