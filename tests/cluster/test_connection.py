"""Which cluster the environment means, and who we are there."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest
import yaml

from ghapp.cluster.connection import is_configured, open_cluster
from ghapp.errors import ConfigurationError
from tests.cluster.serving import answering


@pytest.mark.parametrize(
    ("environ", "configured"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"HOME": "/root"}, False, id="a-home-with-a-kubeconfig-perhaps"),
        pytest.param({"KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": ""}, False, id="empty"),
        pytest.param({"KUBECONFIG": "/nowhere"}, True, id="kubeconfig"),
        pytest.param({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, True, id="in-a-cluster"),
    ],
)
def test_a_cluster_must_be_named(environ, configured):
    assert is_configured(environ) is configured


def kubeconfig(tmp_path: Path, server: object, user: dict[str, object] | None = None, **context) -> dict[str, str]:
    """An environment whose `KUBECONFIG` leads there."""
    named = {"cluster": "c", **({"user": "u"} if user is not None else {}), **context}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": named}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [] if user is None else [{"name": "u", "user": user}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return {"KUBECONFIG": str(path)}


VERSION = b'{"gitVersion": "v1.35.2", "major": "1"}'


async def test_a_kubeconfig_determines_the_cluster_and_the_user(tmp_path):
    async with answering(VERSION) as server:
        environ = kubeconfig(tmp_path, server.url, {"token": "a-token"}, namespace="ghapp")
        async with open_cluster(environ) as cluster:
            assert await cluster.version() == "v1.35.2"
    assert server.requests[0].startswith(b"GET /version HTTP/1.1\r\n")
    assert b"authorization: bearer a-token\r\n" in server.requests[0].lower()


async def test_a_server_below_a_path_is_found_there(tmp_path):
    async with answering(VERSION) as server:
        environ = kubeconfig(tmp_path, f"{server.url}/k8s/clusters/c-1", {"token": "t"})
        async with open_cluster(environ) as cluster:
            assert await cluster.version() == "v1.35.2"
    assert server.requests[0].startswith(b"GET /k8s/clusters/c-1/version HTTP/1.1\r\n")


async def test_a_kubeconfig_needs_no_user(tmp_path):
    async with answering(VERSION) as server, open_cluster(kubeconfig(tmp_path, server.url)) as cluster:
        assert await cluster.version() == "v1.35.2"


@pytest.mark.parametrize("api", ["v1", "v1beta1"])
async def test_a_command_may_give_the_token(tmp_path, api):
    command = {
        "apiVersion": f"client.authentication.k8s.io/{api}",
        "command": "echo",
        "args": ['{"status": {"token": "from-a-command"}}'],
        "interactiveMode": "Never",
    }
    async with answering(VERSION) as server:
        environ = kubeconfig(tmp_path, server.url, {"exec": command})
        async with open_cluster(environ) as cluster:
            assert await cluster.version() == "v1.35.2"
    assert b"bearer from-a-command" in server.requests[0].lower()


REFUSED = re.compile(r"KUBECONFIG: [^\n]+")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("just words", id="words"),
        pytest.param("a: [", id="no-yaml"),
        pytest.param("- a\n- b", id="a-list"),
        pytest.param("\x00", id="no-text"),
        pytest.param("current-context: x\ncontexts: []\nclusters: []", id="no-such-context"),
        pytest.param("contexts: []\nclusters: []", id="no-context"),
        pytest.param("current-context: x\nclusters: []\ncontexts: [{name: x, context: {cluster: c}}]", id="no-cluster"),
        pytest.param("current-context: x\nclusters: []\ncontexts: [{name: x, context: 1}]", id="no-table"),
        pytest.param("current-context: x\nclusters: [{name: c}]\ncontexts: [{name: x}]", id="rows-of-nothing"),
    ],
)
async def test_an_invalid_kubeconfig_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        async with open_cluster({"KUBECONFIG": str(path)}):
            pass
    assert REFUSED.fullmatch(str(refused.value))
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("server", ["", "nowhere", "ftp://x", 7])
async def test_a_server_that_is_no_address_is_refused(tmp_path, server):
    with pytest.raises(ConfigurationError, match=REFUSED):
        async with open_cluster(kubeconfig(tmp_path, server)):
            pass


@pytest.mark.parametrize(
    "user",
    [
        pytest.param({"client-certificate-data": "no base64", "client-key-data": "x"}, id="no-base64"),
        pytest.param({"client-certificate": "missing.pem", "client-key": "missing.key"}, id="missing-files"),
        pytest.param({"auth-provider": {"name": "gcp"}}, id="another-age"),
    ],
)
async def test_credentials_that_cannot_be_used_are_refused(tmp_path, user):
    with pytest.raises(ConfigurationError, match=REFUSED):
        async with open_cluster(kubeconfig(tmp_path, "https://127.0.0.1:1", user)):
            pass


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({}, "is not set", id="nothing"),
        pytest.param({"KUBECONFIG": "/nowhere/at-all"}, "/nowhere/at-all", id="no-file"),
        pytest.param({"KUBECONFIG": "/a:/b"}, "several files", id="several"),
        pytest.param({"KUBECONFIG": "/"}, "cannot read /", id="a-directory"),
        pytest.param({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "service account", id="no-service-account"),
    ],
)
async def test_an_environment_without_a_cluster_is_refused(tmp_path, environ, expected):
    with pytest.raises(ConfigurationError, match=REFUSED) as refused:
        async with open_cluster(environ, account=tmp_path):
            pass
    assert expected in str(refused.value)


def service_account(tmp_path: Path) -> Path:
    authority = Path(ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt")
    for name, text in (("token", "a-token\n"), ("namespace", "ghapp\n"), ("ca.crt", authority.read_text())):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        pytest.param("10.0.0.1", "6443", "https://10.0.0.1:6443", id="IPv4"),
        pytest.param("fd00::1", "443", "https://[fd00::1]", id="IPv6"),
        pytest.param("kubernetes", "", "https://kubernetes", id="no-port"),
    ],
)
async def test_in_a_cluster_the_service_account_is_our_identity(tmp_path, host, port, url):
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    async with open_cluster(environ, account=service_account(tmp_path)) as cluster:
        assert str(cluster.transport._client.base_url).rstrip("/") == url


async def test_a_kubeconfig_has_precedence_over_the_service_account(tmp_path):
    async with answering(VERSION) as server:
        environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", **kubeconfig(tmp_path, server.url, {"token": "t"})}
        async with open_cluster(environ, account=service_account(tmp_path)) as cluster:
            assert await cluster.version() == "v1.35.2"
