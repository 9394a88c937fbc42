"""A calm hour, in fast time: no warning in any log, no failed job in the metrics, and no alert.

Fast time is what passes the most of what an hour has: intervals of a second instead of minutes, so that each periodic
job runs as often as in an hour or oftener, on all roles as real processes, while deliveries come and jobs begin and end.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from contextlib import ExitStack

import httpx
import pytest

from ghapp.sandbox.config import OrgConfig, Pace, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from tests.manifests.alerts import firing
from tests.manifests.promql import Scrapes
from tests.stories.processes import Role, environment, installed_a_minute_ago
from tests.support.ports import free_port
from tests.support.waiting import wait_for

HOUR_SECONDS = 30.0
SWEEPS = 8
"""At least, however busy the machine; as many as an hour has that is short of budget."""

POLICY = """
[remediation]
mode = "act"
[sweep]
interval_seconds = 1
[deliveries]
redeliver_seconds = 5
[report]
repository = "acme/.github"
[[pools]]
org = "acme"
name = "linux"
labels = ["linux"]
replacer = "cloudevents"
url = "%s"
secret_env = "CONTROLLER_SECRET"
"""
SCRAPES = 6
"""Of the metrics; alerts are evaluated at each."""


def lines(roles):
    for role in roles:
        for line in role.log.splitlines():
            yield json.loads(line) if line.startswith("{") else {"level": "unstructured", "event": line}


def increased(before, after, metric):
    """By how much each series of a counter grew."""
    values = [dict(re.findall(rf"^({metric}(?:{{.*}})?) (\S+)$", text, re.MULTILINE)) for text in (before, after)]
    grown = {series: float(value) - float(values[0].get(series, 0)) for series, value in values[1].items()}
    return {series: growth for series, growth in grown.items() if growth}


@pytest.mark.xdist_group("many-processes")
def test_a_calm_hour_has_no_warning_no_failed_job_and_no_alert(redis_url, redis, tmp_path):
    pool = PoolConfig(name="linux", size=20, load=0.5, ephemeral=False)
    config = SandboxConfig(orgs=(OrgConfig(pools=(pool,)),), pace=Pace(job=(1.0, 3.0)))
    with ExitStack() as stack, SandboxServer(config) as sandbox:
        policy, port = tmp_path / "ghapp.toml", free_port()
        policy.write_text(POLICY % sandbox.controller_url)
        environ = {**environment(sandbox, redis_url, policy), "GHAPP_LISTEN": f"127.0.0.1:{port}"}
        asyncio.run(installed_a_minute_ago(environ))
        roles = [stack.enter_context(Role(name, environ, tmp_path)) for name in ("web", "worker", "worker", "clock")]
        assert wait_for(lambda: answers(port, "/readyz")), roles[0].log
        sandbox.control.webhook(url=f"http://127.0.0.1:{port}/webhook")
        before, fired = scrape(port), []
        for _ in range(SCRAPES):
            time.sleep(HOUR_SECONDS / SCRAPES)
            after = scrape(port)
            fired.append(firing(Scrapes(before, after, time.time())))
        sandbox.control.quiet()
        records, sent = [*lines(roles)], sandbox.control.account()["deliveries"]["sent"]
    swept = [each for each in records if each["event"] == "swept"]
    assert len(swept) >= SWEEPS
    assert sent >= SWEEPS
    assert [each for each in records if each["level"] not in ("info", "debug")] == []
    assert increased(before, after, "ghapp_jobs_failed_total") == {}
    assert sum(increased(before, after, "ghapp_sweeps_total").values()) >= SWEEPS
    assert fired == [{}] * SCRAPES


def scrape(port):
    return httpx.get(f"http://127.0.0.1:{port}/metrics").text


def answers(port, path):
    try:
        return httpx.get(f"http://127.0.0.1:{port}{path}").is_success
    except httpx.TransportError:
        return False
