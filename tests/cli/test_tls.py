"""The TLS trust store is read once in a process, for any number of clients."""

from __future__ import annotations

import httpx
import httpx2
import pytest

import jobs.worker
from ghapp.cluster import connection
from ghapp.cluster.connection import open_cluster
from ghapp.errors import ReplacerUnavailableError
from ghapp.github.transport import open_client
from ghapp.loki.client import LogStore
from ghapp.replace import cloudevents
from ghapp.settings import Settings
from ghapp.tls import trusted
from tests.support.cluster import SteeredCluster

NO_LISTENER = "http://127.0.0.1:9"
SECRET = "whsec_" + "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0"


@pytest.fixture
def read(monkeypatch):
    """The number of reads of the trust store, by library."""
    times = {"httpx": 0, "httpx2": 0}

    def counted(name, build):
        def count(*args, **how):
            times[name] += 1
            return build(*args, **how)

        return count

    for name, library in (("httpx", httpx), ("httpx2", httpx2)):
        monkeypatch.setattr(library, "create_ssl_context", counted(name, library.create_ssl_context))
        build = counted(name, library._config.create_ssl_context)
        for module in (library._config, library._transports.default):
            if hasattr(module, "create_ssl_context"):
                # A client with a given context reads no trust store.
                monkeypatch.setattr(module, "create_ssl_context", _given_or(build, module.create_ssl_context))
    trusted.cache_clear()
    connection._system_trust.cache_clear()
    yield times
    trusted.cache_clear()
    connection._system_trust.cache_clear()


def _given_or(count, build):
    def choose(verify=True, *args, **how):
        return (count if verify is True else build)(verify, *args, **how)

    return choose


async def test_clients_of_github_controllers_and_logs_share_one_read_of_the_trust_store(read):
    for _ in range(3):
        async with (
            open_client("https://api.github.com"),
            LogStore.open(NO_LISTENER),
            cloudevents.open_client() as client,
        ):
            with pytest.raises(ReplacerUnavailableError):
                await cloudevents.post(client, NO_LISTENER, SECRET, "evt-1", b"{}", 1_790_000_000.0)
    assert read == {"httpx": 1, "httpx2": 0}


async def test_clusters_without_an_authority_share_one_read_of_the_trust_store(read, tmp_path):
    with SteeredCluster() as server:
        environ = {"KUBECONFIG": str(server.kubeconfig(tmp_path / "kubeconfig"))}
        for _ in range(3):
            async with open_cluster(environ) as cluster:
                assert (await cluster.version()).startswith("v1.")
    assert read == {"httpx": 0, "httpx2": 1}


def test_a_worker_reads_the_trust_store_before_it_forks(read, redis_url, monkeypatch):
    found = []

    def work(*_):
        found.append(dict(read))

    monkeypatch.setattr(jobs.worker, "work", work)
    monkeypatch.setattr(jobs.worker, "configure", lambda _: None)
    jobs.worker.run(Settings.read({"GHAPP_REDIS_URL": redis_url}))
    open_client("https://api.github.com")
    assert found == [{"httpx": 1, "httpx2": 0}]
    assert read == found[0]
