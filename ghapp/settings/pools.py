"""Reads `[[pools]]`, and the environment variables that their keys name."""

from __future__ import annotations

import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ghapp.addresses import is_http, shown
from ghapp.errors import ConfigurationError
from ghapp.gate.shard_status import flaw_of, has_shards
from ghapp.installations.pool_matching import EVERY_RUNNER
from ghapp.installations.scope import owner_of
from ghapp.report.check_run_state import repository_of
from ghapp.settings.mistakes import Mistakes
from ghapp.settings.tables import PoolSettings
from ghapp.settings.values import checked, table

SECRET_BYTES = 24
"""The minimum of Standard Webhooks."""

COMMAND_ENV = ("PATH", "HOME", "LANG")
"""Environment variables that every pool's command gets."""


def read_pools(rows: Sequence[Any], mistakes: Mistakes) -> tuple[PoolSettings, ...]:
    """Returns the pools in the order of the file; those without a name or an org are left out."""
    places = _places(rows)
    found = [_pool(row, where, mistakes) for row, where in zip(rows, places, strict=True)]
    _check_distinct(zip(found, places, strict=True), mistakes)
    return tuple(each for each in found if each is not None)


def _places(rows: Sequence[Any]) -> list[str]:
    """Returns how mistakes name each pool: by its name, or by its place in the file if it shares that name."""
    names = [str(row["name"]) if isinstance(row, dict) and "name" in row else "" for row in rows]
    is_own = Counter(names)
    return [f"[[pools]] {name if name and is_own[name] == 1 else number}" for number, name in enumerate(names, 1)]


def _pool(row: Any, where: str, mistakes: Mistakes) -> PoolSettings | None:
    row = mistakes.read("[[pools]]", None, table, row, "pools")
    if row is None:
        return None
    values = checked(PoolSettings, row, where, mistakes)
    for key in ("org", "name"):
        if key not in row and not mistakes.has_any([f"{where} {key}"]):
            mistakes.add(f"{where} {key}: missing", f"{where} {key}")
    pool = PoolSettings(**{"org": "", "name": "", **values})
    for keys, flaw in (*_flaws(pool, has_labels="labels" in row), *_flaws_for_the_gate(pool)):
        if not mistakes.has_any(f"{where} {key}" for key in keys):
            mistakes.add(f"{where}{flaw}")
    return pool if pool.org and pool.name else None


_Flaw = tuple[tuple[str, ...], str]
"""The keys that it depends on, and the end of a sentence that begins with the pool."""


def _flaws(pool: PoolSettings, *, has_labels: bool) -> Iterator[_Flaw]:
    if not pool.labels:
        yield ("labels",), f' labels: {"empty" if has_labels else "missing"}; ["{EVERY_RUNNER}"] takes every runner'
    if EVERY_RUNNER in pool.labels and len(pool.labels) > 1:
        yield ("labels",), f' labels: "{EVERY_RUNNER}" takes every runner, so it must be the only label'
    if pool.replacer in ("arc", "pods") and not pool.namespace:
        yield ("replacer", "namespace"), f" replacer: '{pool.replacer}' needs namespace; add the one of its pods"
    if pool.replacer == "cloudevents" and not (pool.url and pool.secret_env):
        yield ("replacer", "url", "secret_env"), " replacer: 'cloudevents' needs url and secret_env; add both"
    if pool.url is not None and not is_http(pool.url):
        yield ("url",), f" url: {pool.url!r} is not valid; it takes an http:// or https:// address"


def _flaws_for_the_gate(pool: PoolSettings) -> Iterator[_Flaw]:
    of_shards = ("shard_label", "shard_groups", "shard_name")
    if pool.shard_name is not None and (expected := flaw_of(pool.shard_name)):
        yield ("shard_name",), f" shard_name: {shown(pool.shard_name)} is not valid; it takes {expected}"
    if len(set(pool.shard_groups.values())) < len(pool.shard_groups):
        yield ("shard_groups",), " shard_groups: two shards have the same group; give each its own group"
    if pool.active_source and not has_shards(pool):
        yield of_shards, f" {pool.active_source}: needs shard_label, shard_groups or shard_name"
    if pool.deploy_repository and not has_shards(pool):
        yield of_shards, " deploy_repository: needs shard_label, shard_groups or shard_name"
    if pool.deploy_repository and repository_of(pool.deploy_repository, pool.org) is None:
        expected = f"a repository of {owner_of(pool.org)}, whose installation posts there"
        repository = shown(pool.deploy_repository)
        yield ("deploy_repository", "org"), f" deploy_repository: {repository} is not valid; it takes {expected}"
    if pool.active_command and pool.active_url is not None:
        yield (), ": active_command and active_url exclude each other; remove one"
    if pool.active_url is not None and not is_http(pool.active_url):
        expected = "an http:// or https:// address"
        yield ("active_url",), f" active_url: {shown(pool.active_url)} is not valid; it takes {expected}"
    if not all(word and "\0" not in word for word in pool.active_command):
        yield (), " active_command: it takes a program and its arguments, none of them empty"
    for name in pool.active_env:
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            yield (), f" active_env: {shown(name)} is not valid; it takes names of variables"


def _check_distinct(pools: Iterable[tuple[PoolSettings | None, str]], mistakes: Mistakes) -> None:
    seen: set[tuple[str, str]] = set()
    for pool, where in pools:
        if pool is None:
            continue
        key = (pool.org.lower(), pool.name)
        if key in seen:
            mistakes.add(f"{where} name: {pool.org} has two pools named {pool.name}; rename one")
        seen.add(key)


def pool_secrets_of(rows: Sequence[Any], environ: Mapping[str, str], mistakes: Mistakes) -> dict[str, str]:
    """Returns the Standard Webhooks secrets, by the variable that `secret_env` of a pool names."""
    secrets = {}
    for row, place in zip(rows, _places(rows), strict=True):
        variable, where = row.get("secret_env") if isinstance(row, dict) else None, f"{place} secret_env"
        if isinstance(variable, str):
            secrets[variable] = mistakes.read(where, "", _secret, variable, environ, where)
    return secrets


def _secret(name: str, environ: Mapping[str, str], where: str) -> str:
    """Returns the secret in the variable of that name.

    Raises:
        ConfigurationError: it has none.
    """
    if name.startswith("GHAPP_"):
        raise ConfigurationError(f"{where}: {name} is not valid: names with GHAPP_ are reserved; choose another name")
    if name.startswith("whsec_"):
        raise ConfigurationError(f"{where}: it takes the name of a variable, and not the secret itself")
    secret = environ.get(name, "")
    if not secret:
        raise ConfigurationError(
            f"{where}: the variable {name} is not set; it must contain a Standard Webhooks secret, as "
            f'from `echo "whsec_$(openssl rand -base64 {SECRET_BYTES})"`'
        )
    if not _is_standard_webhooks_secret(secret):
        raise ConfigurationError(
            f"{where}: the variable {name} must contain a Standard Webhooks secret: whsec_ and "
            f"{SECRET_BYTES} bytes or more in base64"
        )
    return secret


def command_env_of(pools: tuple[PoolSettings, ...], environ: Mapping[str, str], mistakes: Mistakes) -> dict[str, str]:
    """Returns the set variables that any pool's command gets. None of our secrets may be among them."""
    secrets = {pool.secret_env for pool in pools}
    for pool in pools:
        for name in pool.active_env:
            if name.startswith("GHAPP_") or name in secrets:
                mistakes.add(
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
