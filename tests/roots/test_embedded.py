"""The embedded Redis."""

from __future__ import annotations

import os
import signal

import pytest
from redis import Redis

from ghapp.embedded import embedded_redis, tended_redis
from ghapp.errors import ConfigurationError


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
    with tended_redis(tmp_path / "redis", durable=True) as own:
        redis = Redis.from_url(own.url)
        assert redis.config_get("appendfsync") == {"appendfsync": "always"}
        redis.set("kept", "yes")
        own.revive()
        pid = redis.info("server")["process_id"]
        os.kill(pid, signal.SIGKILL)
        while redis_lives(pid):
            own.revive()
        own.wait()
        assert Redis.from_url(own.url).get("kept") == b"yes"


def redis_lives(pid):
    """Whether it is there, be it as a zombie: `revive` has not yet noticed its end."""
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
