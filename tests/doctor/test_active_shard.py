"""Doctor's check of the source of the active shard."""

from __future__ import annotations

import socket

import pytest

from ghapp.doctor.finding import FindingStatus
from ghapp.gate import doctor as active_shard
from ghapp.gate.active_shard import ActiveShardAnswer
from ghapp.gate.doctor import of_answers
from ghapp.gate.store import Shards
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.settings import PoolSettings, Settings

NOW = 1_790_000_000.0
POOL = PoolSettings("acme", "linux", shard_label="shard", active_command=("true",))
PURPLE, PINK = ActiveShardAnswer("purple", "", NOW - 12), ActiveShardAnswer("pink", "", NOW - 12)
BROKEN = ActiveShardAnswer("", "it ended with 1", NOW - 12)


@pytest.mark.parametrize(
    ("here", "there", "known", "status", "text"),
    [
        (PURPLE, PURPLE, True, "ok", "purple, from active_command, here and on the workers"),
        (
            PURPLE,
            ActiveShardAnswer("Purple", "", NOW),
            True,
            "ok",
            "purple, from active_command, here and on the workers",
        ),
        (PURPLE, None, False, "ok", "purple, from active_command"),
        (PURPLE, None, True, "warning", "returns purple here; no worker has queried it for minutes"),
        (PURPLE, BROKEN, True, "warning", "returns purple here, but failed on a worker 12 s ago: it ended with 1"),
        (PURPLE, PINK, True, "warning", "returns purple here, but returned pink on a worker 12 s ago"),
        (BROKEN, PINK, True, "warning", "failed here: it ended with 1; it returned pink on a worker 12 s ago"),
        (BROKEN, None, True, "wrong", "active_command failed: it ended with 1"),
        (BROKEN, None, False, "wrong", "active_command failed: it ended with 1"),
        (
            BROKEN,
            ActiveShardAnswer("", "it said nothing", NOW + 9),
            True,
            "wrong",
            "; on a worker 0 s ago: it said nothing",
        ),
    ],
    ids=[
        "agree",
        "agree but for case",
        "workers not known",
        "no worker queried it",
        "fails on the workers",
        "disagree",
        "fails only here",
        "fails here, no worker queried it",
        "fails here, workers not known",
        "fails everywhere",
    ],
)
def test_the_active_shard_here_is_compared_with_that_of_the_workers(here, there, known, status, text):
    found = of_answers(POOL, here, there, NOW, known=known)
    assert (found.status, found.org, found.name) == (status, "acme", "active shard of linux")
    assert text in found.text
    assert (found.fix is None) is (found.status is FindingStatus.OK)


@pytest.fixture
def findings(tmp_path):
    async def run_check(rows, url=None):
        (tmp_path / "ghapp.toml").write_text(
            f'[[pools]]\norg = "acme"\nname = "linux"\nlabels = ["linux"]\nshard_label = "shard"\n{rows}'
        )
        settings = Settings.read({"GHAPP_CONFIG": str(tmp_path / "ghapp.toml"), "PATH": "/usr/bin:/bin"})
        return await active_shard.check(settings, url)

    return run_check


ECHO = 'active_command = ["echo", "purple"]'


async def test_a_pool_without_a_source_has_no_finding(findings):
    assert await findings("") == []


async def test_the_answer_of_the_command_is_compared_with_the_stored_one(findings, redis, redis_url):
    await Installations(redis).put(Installation(7, "Acme", 70))
    (unasked,) = await findings(ECHO, redis_url)
    await Shards(redis).answered(7, "linux", ActiveShardAnswer("purple", "", 1.0))
    (agreed,) = await findings(ECHO, redis_url)
    assert (unasked.status, agreed.status) == (FindingStatus.WARNING, FindingStatus.OK)


async def test_without_an_installation_the_answer_is_not_compared_with_the_workers(findings, redis, redis_url):
    (found,) = await findings(ECHO, redis_url)
    assert (found.status, found.text) == (FindingStatus.OK, "purple, from active_command")


async def test_a_redis_outage_does_not_hide_the_answer_of_the_command(findings):
    found = await findings(ECHO, "redis://127.0.0.1:1/0")
    assert [(each.name, each.status) for each in found] == [
        ("active shard of linux", FindingStatus.OK),
        ("active shards", FindingStatus.WRONG),
    ]


async def test_a_url_that_hangs_times_out(findings, monkeypatch):
    monkeypatch.setattr("ghapp.active_shard.TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (found,) = await findings(f'active_url = "http://127.0.0.1:{silent.getsockname()[1]}/"')
    assert (found.status, found.text) == (FindingStatus.WRONG, "active_url failed: no answer within 0 s")
