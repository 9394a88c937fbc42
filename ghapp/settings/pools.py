"""Reads `[[pools]]`, and the environment variables that their keys name."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

from ghapp.addresses import is_http, shown
from ghapp.errors import ConfigurationError
from ghapp.gate.shard_status import flaw_of, has_shards
from ghapp.installations.pool_matching import EVERY_RUNNER
from ghapp.report.check_run_state import repository_of
from ghapp.settings.tables import PoolSettings
from ghapp.settings.values import checked, require, table

SECRET_BYTES = 24
"""The minimum of Standard Webhooks."""

COMMAND_ENV = ("PATH", "HOME", "LANG")
"""Environment variables that every pool's command gets."""


def read_pools(rows: Sequence[Any]) -> tuple[PoolSettings, ...]:
    """Returns the pools in the order of the file.

    Raises:
        ConfigurationError: for the first error.
    """
    pools = tuple(_pool(row, index) for index, row in enumerate(rows))
    _require_distinct(pools)
    return pools


def _pool(row: Any, index: int) -> PoolSettings:
    row = table(row, "pools")
    where = f"[[pools]] {row.get('name', index + 1)}"
    values = checked(PoolSettings, row, where)
    for key in ("org", "name"):
        if not values.get(key):
            raise ConfigurationError(f"{where} {key}: missing")
    pool = PoolSettings(**values)
    if not pool.labels:
        raise ConfigurationError(f'{where} labels: missing; ["{EVERY_RUNNER}"] takes every runner of {pool.org}')
    if EVERY_RUNNER in pool.labels and len(pool.labels) > 1:
        raise ConfigurationError(f'{where} labels: "{EVERY_RUNNER}" takes every runner, so it must be the only label')
    if pool.replacer in ("arc", "pods") and not pool.namespace:
        raise ConfigurationError(f"{where}: replacer '{pool.replacer}' needs namespace, the one of its pods")
    if pool.replacer == "cloudevents" and not (pool.url and pool.secret_env):
        raise ConfigurationError(f"{where}: replacer 'cloudevents' needs url and secret_env")
    if pool.url is not None and not is_http(pool.url):
        raise ConfigurationError(f"{where} url: {pool.url!r} is not valid; it takes an http:// or https:// address")
    _require_gate(pool, where)
    return pool


def _require_gate(pool: PoolSettings, where: str) -> None:
    """Checks the keys for the gate."""
    if pool.shard_name is not None and (right := flaw_of(pool.shard_name)):
        raise ConfigurationError(f"{where} shard_name: {shown(pool.shard_name)} is not valid; it takes {right}")
    if len(set(pool.shard_groups.values())) < len(pool.shard_groups):
        raise ConfigurationError(f"{where} shard_groups: two shards have the same group; give each its own group")
    if pool.active_source and not has_shards(pool):
        raise ConfigurationError(f"{where} {pool.active_source}: needs shard_label, shard_groups or shard_name")
    if pool.deploy_repository and not has_shards(pool):
        raise ConfigurationError(f"{where} deploy_repository: needs shard_label, shard_groups or shard_name")
    if pool.deploy_repository and repository_of(pool.deploy_repository, pool.org) is None:
        right = f"a repository of {pool.org}, whose installation posts there"
        raise ConfigurationError(
            f"{where} deploy_repository: {shown(pool.deploy_repository)} is not valid; it takes {right}"
        )
    if pool.active_command and pool.active_url is not None:
        raise ConfigurationError(f"{where}: active_command and active_url exclude each other; remove one")
    if pool.active_url is not None and not is_http(pool.active_url):
        right = "an http:// or https:// address"
        raise ConfigurationError(f"{where} active_url: {shown(pool.active_url)} is not valid; it takes {right}")
    if not all(word and "\0" not in word for word in pool.active_command):
        raise ConfigurationError(f"{where} active_command: it takes a program and its arguments, none of them empty")
    for name in pool.active_env:
        require(re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII), name, f"{where} active_env", "names of variables")


def _require_distinct(pools: tuple[PoolSettings, ...]) -> None:
    seen: set[tuple[str, str]] = set()
    for pool in pools:
        key = (pool.org.lower(), pool.name)
        if key in seen:
            raise ConfigurationError(f"[[pools]] {pool.name}: {pool.org} has two pools of that name; rename one")
        seen.add(key)


def pool_secrets_of(pools: tuple[PoolSettings, ...], environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the Standard Webhooks secrets, by the variable that `secret_env` names."""
    secrets = {}
    for pool in pools:
        if pool.secret_env is None:
            continue
        where = f"[[pools]] {pool.name} secret_env"
        if pool.secret_env.startswith("GHAPP_"):
            raise ConfigurationError(
                f"{where}: {pool.secret_env} is not valid: names with GHAPP_ are reserved; choose another name"
            )
        if pool.secret_env.startswith("whsec_"):
            raise ConfigurationError(f"{where}: it takes the name of a variable, and not the secret itself")
        secret = environ.get(pool.secret_env, "")
        if not secret:
            raise ConfigurationError(
                f"{where}: the variable {pool.secret_env} is not set; it must contain a Standard Webhooks secret, as "
                f'from `echo "whsec_$(openssl rand -base64 {SECRET_BYTES})"`'
            )
        if not _is_standard_webhooks_secret(secret):
            raise ConfigurationError(
                f"{where}: the variable {pool.secret_env} must contain a Standard Webhooks secret: whsec_ and "
                f"{SECRET_BYTES} bytes or more in base64"
            )
        secrets[pool.secret_env] = secret
    return secrets


def command_env_of(pools: tuple[PoolSettings, ...], environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the set variables that any pool's command gets. None of our secrets may be among them."""
    secrets = {pool.secret_env for pool in pools}
    for pool in pools:
        for name in pool.active_env:
            if name.startswith("GHAPP_") or name in secrets:
                raise ConfigurationError(
                    f"[[pools]] {pool.name} active_env: {name} is a secret, which no command may get; remove it"
                )
    with_command = [pool for pool in pools if pool.active_command]
    wanted = {name for pool in with_command for name in (*COMMAND_ENV, *pool.active_env)}
    return {name: environ[name] for name in sorted(wanted) if name in environ}


def _is_standard_webhooks_secret(text: str) -> bool:
    try:
        return text.startswith("whsec_") and len(b64decode(text[6:], validate=True)) >= SECRET_BYTES
    except ValueError:
        return False
