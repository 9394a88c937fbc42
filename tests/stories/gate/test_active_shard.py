"""The scheduler enqueues the query of the active shard only for blue/green pools."""

from __future__ import annotations

import pytest
from rq.job import Job

from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.settings import Settings
from ghapp.store.connect import connect_sync
from jobs.scheduler import Scheduler

POOL = '[[pools]]\norg = "acme"\nname = "linux"\nlabels = ["linux"]\nshard_label = "shard"\n'


@pytest.mark.parametrize(
    ("rows", "org", "suspended", "asked"),
    [
        ('active_command = ["true"]', "ACME", False, True),
        ('active_url = "http://127.0.0.1:1/"', "acme", False, True),
        ("", "acme", False, False),
        ('active_command = ["true"]', "globex", False, False),
        ('active_command = ["true"]', "acme", True, False),
    ],
    ids=["command", "url", "no source", "another org", "suspended"],
)
async def test_a_pool_with_a_source_is_queried(redis, redis_url, tmp_path, rows, org, suspended, asked):
    (tmp_path / "ghapp.toml").write_text(POOL + rows)
    await Installations(redis).put(Installation(7, org, 70, suspended=suspended))
    clock = Scheduler(Settings.read({"GHAPP_CONFIG": str(tmp_path / "ghapp.toml"), "GHAPP_REDIS_URL": redis_url}))
    await clock.tick()
    with connect_sync(redis_url) as queue_redis:
        assert Job.exists("active-7", connection=queue_redis) is asked
    await clock.close()
