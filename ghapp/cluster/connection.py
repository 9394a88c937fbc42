"""Connects to the cluster: by a kubeconfig, or by the service account of our own pod."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import httpx2
import yaml
from lightkube import ConfigError, KubeConfig, SingleConfig
from lightkube.config.client_adapter import AsyncClient, ConnectionParams, user_auth
from lightkube.config.models import Cluster as Server
from lightkube.config.models import User

from ghapp.addresses import is_http, shown
from ghapp.cluster.api import Cluster
from ghapp.cluster.transport import TIMEOUT
from ghapp.decoding import LeftOutRows
from ghapp.errors import ConfigurationError
from ghapp.timings import NORMAL, Timings

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_UNREADABLE = (ConfigError, OSError, yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError)
"""lightkube's errors for a kubeconfig that is incomplete or invalid."""


def is_configured(environ: Mapping[str, str]) -> bool:
    """True if a cluster is configured. `~/.kube/config` is never used, because it may point to any cluster."""
    return bool(environ.get("KUBECONFIG") or environ.get("KUBERNETES_SERVICE_HOST"))


@asynccontextmanager
async def open_cluster(
    environ: Mapping[str, str],
    left_out: LeftOutRows | None = None,
    account: Path = SERVICE_ACCOUNT,
    timings: Timings = NORMAL,
) -> AsyncIterator[Cluster]:
    """Opens a client for the cluster that the environment names, and closes it at the end.

    Nothing is sent: whether the cluster answers shows at the first request.

    Args:
        environ: the environment; `KUBECONFIG`, if set, takes precedence over the service account, as in kubectl.
        left_out: gets what is odd in the answers.
        account: the directory of the service account.
        timings: how long an answer is waited for.

    Raises:
        ConfigurationError: no cluster is configured, or its configuration is unreadable.
    """
    config = _configuration(environ, account)
    async with _client(config, trust_env=bool(environ.get("KUBECONFIG"))) as client:
        yield Cluster(client, left_out, timings)


def _configuration(environ: Mapping[str, str], account: Path) -> SingleConfig:
    path = environ.get("KUBECONFIG")
    if path:
        return _of_file(path)
    if not environ.get("KUBERNETES_SERVICE_HOST"):
        raise ConfigurationError("KUBECONFIG: is not set; it takes the path of a kubeconfig, outside of a cluster")
    try:
        return _of_service_account(environ, account)
    except _UNREADABLE as error:
        raise ConfigurationError(
            f"KUBECONFIG: is not set, and the service account in {account} cannot be read: {_one_line(error)}"
        ) from None


def _of_file(path: str) -> SingleConfig:
    if os.pathsep in path:
        raise ConfigurationError(f"KUBECONFIG: {shown(path)} names several files; it takes one")
    try:
        found = KubeConfig.from_file(path).get()
    except _UNREADABLE as error:
        raise ConfigurationError(f"KUBECONFIG: cannot read {path}: {_one_line(error)}") from None
    if found is None or not is_http(found.cluster.server):
        raise ConfigurationError(f"KUBECONFIG: {path}: its cluster's server must be an http:// or https:// address")
    return found._replace(user=_user(found.user))


def _of_service_account(environ: Mapping[str, str], account: Path) -> SingleConfig:
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT") or "443"
    token = account / "token"
    config = KubeConfig.from_one(
        cluster=Server(
            server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
            certificate_auth=str(account / "ca.crt"),
        ),
        user=User(token=token.read_text("utf-8"), token_file=str(token)),
        namespace=(account / "namespace").read_text("utf-8").strip(),
    ).get()
    assert config is not None  # noqa: S101 - `from_one` has one context
    return config


def _user(user: User | None) -> User:
    """Returns a user that lightkube accepts: one without credentials if there is none, and exec's v1 as v1beta1."""
    if user is None:
        return User()
    if user.exec and user.exec.apiVersion == "client.authentication.k8s.io/v1":
        user.exec.apiVersion = "client.authentication.k8s.io/v1beta1"
    return user


def _client(config: SingleConfig, *, trust_env: bool) -> httpx2.AsyncClient:
    """Returns a client as lightkube creates it. In a cluster, proxies from the environment are not used.

    A cluster's own CA is read for each client, because it may have been renewed; the machine's trust store is read
    only once.
    """
    try:
        if _uses_system_trust(config):
            auth, verify = user_auth(config.user), _system_trust(trust_env=trust_env)
            server = config.cluster.server
            return httpx2.AsyncClient(base_url=server, auth=auth, verify=verify, timeout=TIMEOUT, trust_env=trust_env)
        return AsyncClient(config, ConnectionParams(timeout=TIMEOUT, trust_env=trust_env))
    except _UNREADABLE as error:
        raise ConfigurationError(
            f"KUBECONFIG: its certificates or credentials are unusable: {_one_line(error)}"
        ) from None


def _uses_system_trust(config: SingleConfig) -> bool:
    """True if the configuration names neither a CA nor a client certificate."""
    server, user = config.cluster, config.user or User()
    own = (server.insecure, server.certificate_auth, server.certificate_auth_data)
    return not any((*own, user.client_cert, user.client_cert_data))


@cache
def _system_trust(*, trust_env: bool) -> ssl.SSLContext:
    """Returns the machine's trust store, shared by all clients of this process without a CA of their own."""
    return httpx2.create_ssl_context(trust_env=trust_env)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
