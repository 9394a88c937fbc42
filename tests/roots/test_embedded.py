"""The embedded Redis."""

from __future__ import annotations

from redis import Redis

from ghapp.embedded import embedded_redis


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
