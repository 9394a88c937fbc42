"""Who we are to which cluster: a kubeconfig, or the service account of the pod that we run in."""

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
from ghapp.errors import ConfigurationError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_UNREADABLE = (ConfigError, OSError, yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError)
"""What lightkube raises for a kubeconfig that lacks something, or is none."""


def is_configured(environ: Mapping[str, str]) -> bool:
    """Whether there is a cluster. `~/.kube/config` is never used by accident: it may lead to any cluster."""
    return bool(environ.get("KUBECONFIG") or environ.get("KUBERNETES_SERVICE_HOST"))


@asynccontextmanager
async def open_cluster(environ: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> AsyncIterator[Cluster]:
    """Open the connections to the cluster that the environment names, and close them at the end.

    Nothing is sent: a cluster that is away is noticed by the first call.

    Args:
        environ: where `KUBECONFIG`, when it is set, goes before the service account, as with kubectl.
        account: the directory of the service account.

    Raises:
        ConfigurationError: it names none, or what it names cannot be read.
    """
    config = _configuration(environ, account)
    async with _client(config, trust_env=bool(environ.get("KUBECONFIG"))) as client:
        yield Cluster(client, config.namespace)


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
    """The user that lightkube must be given, if only one without credentials; of exec's equal versions it knows one."""
    if user is None:
        return User()
    if user.exec and user.exec.apiVersion == "client.authentication.k8s.io/v1":
        user.exec.apiVersion = "client.authentication.k8s.io/v1beta1"
    return user


def _client(config: SingleConfig, *, trust_env: bool) -> httpx2.AsyncClient:
    """A client as lightkube makes it. In a cluster no proxy of the environment leads to the API server.

    A cluster's own authority is one certificate, and read for each client, for it may have been renewed; whom the whole
    machine trusts is read once.
    """
    try:
        if _is_trusted_by_all(config):
            auth, verify = user_auth(config.user), _machines_trust(trust_env=trust_env)
            server = config.cluster.server
            return httpx2.AsyncClient(base_url=server, auth=auth, verify=verify, timeout=TIMEOUT, trust_env=trust_env)
        return AsyncClient(config, ConnectionParams(timeout=TIMEOUT, trust_env=trust_env))
    except _UNREADABLE as error:
        raise ConfigurationError(
            f"KUBECONFIG: its certificates or credentials are unusable: {_one_line(error)}"
        ) from None


def _is_trusted_by_all(config: SingleConfig) -> bool:
    """Whether nothing is said of whom to trust, nor with which certificate to come."""
    server, user = config.cluster, config.user or User()
    own = (server.insecure, server.certificate_auth, server.certificate_auth_data)
    return not any((*own, user.client_cert, user.client_cert_data))


@cache
def _machines_trust(*, trust_env: bool) -> ssl.SSLContext:
    """Whom this machine trusts: the one context of all clients in this process that are told of nobody else."""
    return httpx2.create_ssl_context(trust_env=trust_env)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
