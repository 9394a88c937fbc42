"""Configuration: secrets and addresses from the environment, policy from one TOML file.

`Settings.read` is called by composition roots alone. Every refusal is a `ConfigurationError` of one line that
names the key and says what would be right. The tables that the judgement reads are its own dataclasses.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
import types
import typing
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

from ghapp.addresses import http_url, is_http, listen, redis_url, shown
from ghapp.credentials import VARIABLES as CREDENTIALS
from ghapp.credentials import AppCredentials, read_credentials
from ghapp.errors import ConfigurationError
from ghapp.health.cadence import BudgetLimits
from ghapp.health.fuse import FuseLimits
from ghapp.health.leaks.leak import LeakLimits
from ghapp.health.plan import RemediationLimits
from ghapp.health.posting import repository_of
from ghapp.health.rollout.shards import flaw_of, has_shards, is_shard
from ghapp.health.verdict import Limits

T = TypeVar("T")

LONGEST_SECONDS = 365 * 86_400
MOST = 1_000_000
SECRET_BYTES = 24
"""The least that Standard Webhooks asks for."""

NAMES = {
    "org": (r"[\w.-]+", "a login, as it stands in the organization's address"),
    "repository": (r"[\w.-]+/[\w.-]+", "owner/name"),
    "deploy_repository": (r"[\w.-]+/[\w.-]+", "owner/name"),
    "name": (r"(?!\*$)[^/\x00-\x1f]+", "a name without a slash, and not *, which stands for all pools"),
    "namespace": (r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "the name of a Kubernetes namespace"),
    "owner_label": (r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", "a Kubernetes label's key"),
}
"""By key: the pattern of what things are called, and how that is written."""

COMMAND_ENV = ("PATH", "HOME", "LANG")
"""What every pool's command is given of the environment."""

FRACTIONS = {"share", "fraction"}
ADDRESSES = (
    "GHAPP_CONFIG",
    "GHAPP_REDIS_URL",
    "GHAPP_STATE_DIR",
    "GHAPP_GITHUB_API_URL",
    "GHAPP_GITHUB_WEB_URL",
    "GHAPP_LISTEN",
    "GHAPP_PUBLIC_URL",
    "GHAPP_LOG_FORMAT",
    "GHAPP_LOKI_URL",
    "GHAPP_SETUP_KEY",
)

CLUSTER = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
"""Kubernetes' own variables: how a cluster is reached, from outside and from one of its pods."""


@dataclass(frozen=True, slots=True)
class SweepSettings:
    """The `[sweep]` table: seconds between sweeps of one installation, and requests in flight for it."""

    interval_seconds: float = 60.0
    concurrency: int = 10


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """The `[deliveries]` table."""

    redeliver_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """The `[report]` table: `owner/repository` of the fleet's check run; None for no report."""

    repository: str | None = None


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """One of `[[pools]]`: runners of `org` that bear all of `labels`, and how they are replaced.

    `namespace` says where their pods are, whatever replaces them. The rest is for the gate of a blue/green pool.

    Attributes:
        shard_label: a runner label `shard:pink` puts it on shard pink, for `shard`.
        shard_groups: else the runner group does: shard → the group's id.
        shard_name: else the runner's name does: a pattern with the group `(?P<shard>…)`.
        active_command: prints the name of the active shard; run without a shell, with no variable but PATH, HOME,
            LANG and those of `active_env`.
        active_url: answers with that name; instead of a command.
        active_env: the names of variables that the command needs.
        min_online: so many of a shard's runners must be online, unless whoever asks says how many.
        settle_seconds: passing must hold for so long.
        deploy_repository: `owner/name`, of the commits that are deployed; they bear a check run that says how it went.
    """

    org: str
    name: str
    labels: tuple[str, ...] = ()
    replacer: Literal["cloudevents", "arc", "pods", "none"] = "none"
    url: str | None = None
    secret_env: str | None = None
    namespace: str | None = None
    replace_offline_after_seconds: float | None = None
    shard_label: str | None = None
    shard_groups: Mapping[str, int] = field(default_factory=dict)
    shard_name: str | None = None
    active_command: tuple[str, ...] = ()
    active_url: str | None = None
    active_env: tuple[str, ...] = ()
    min_online: int = 1
    settle_seconds: float | None = None
    deploy_repository: str | None = None

    @property
    def active_source(self) -> str:
        """The key that says which shard is active; empty where none does."""
        return "active_command" if self.active_command else "active_url" if self.active_url else ""


@dataclass(frozen=True, slots=True)
class Policy:
    """Every table of one org."""

    sweep: SweepSettings = field(default_factory=SweepSettings)
    evidence: Limits = field(default_factory=Limits)
    budget: BudgetLimits = field(default_factory=BudgetLimits)
    fuse: FuseLimits = field(default_factory=FuseLimits)
    remediation: RemediationLimits = field(default_factory=RemediationLimits)
    deliveries: DeliverySettings = field(default_factory=DeliverySettings)
    report: ReportSettings = field(default_factory=ReportSettings)
    leaks: LeakLimits = field(default_factory=LeakLimits)


@dataclass(frozen=True, slots=True)
class Settings:
    """All of the configuration, checked."""

    redis_url: str | None
    state_dir: Path
    api_url: str
    web_url: str
    listen: tuple[str, int]
    public_url: str | None
    log_format: Literal["json", "console"] | None
    loki_url: str | None
    credentials: AppCredentials | None = field(repr=False)
    policy: Policy = field(default_factory=Policy)
    org_policies: Mapping[str, Policy] = field(default_factory=dict)
    pools: tuple[PoolSettings, ...] = ()
    pool_secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The Standard Webhooks secrets that `secret_env` names, by that name."""

    command_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What pools' commands may be given of the environment; each is given the part that it names."""

    cluster: Mapping[str, str] = field(default_factory=dict)
    """What the environment says of how the cluster is reached; empty when there is none."""

    setup_key: str | None = field(default=None, repr=False)
    """Given by `up` to its web role alone: it may do without credentials, and serve /setup to whoever has this key."""

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Settings:
        """Read and check everything.

        Raises:
            ConfigurationError: for the first thing that is wrong.
        """
        known = {*CREDENTIALS, *ADDRESSES}
        for name in environ:
            if name.startswith("GHAPP_") and name not in known:
                raise ConfigurationError(f"{name}: unknown variable{_did_you_mean(name, known)}")
        tables = read_toml(Path(environ["GHAPP_CONFIG"])) if environ.get("GHAPP_CONFIG") else {}
        pools = tuple(_pool(row, index) for index, row in enumerate(_rows(tables, "pools")))
        _require_distinct(pools)
        orgs = tables.pop("orgs", {})
        tables.pop("pools", None)
        policy = _policy(tables, Policy(), "")
        state_dir = Path(environ.get("GHAPP_STATE_DIR") or _default_state_dir())
        return cls(
            redis_url=redis_url(environ),
            state_dir=state_dir,
            api_url=http_url(environ, "GHAPP_GITHUB_API_URL", "https://api.github.com"),
            web_url=http_url(environ, "GHAPP_GITHUB_WEB_URL", "https://github.com"),
            listen=listen(environ.get("GHAPP_LISTEN") or "127.0.0.1:8000"),
            public_url=http_url(environ, "GHAPP_PUBLIC_URL", "") or None,
            log_format=_log_format(environ.get("GHAPP_LOG_FORMAT")),
            loki_url=http_url(environ, "GHAPP_LOKI_URL", "") or None,
            credentials=read_credentials(environ, state_dir),
            setup_key=environ.get("GHAPP_SETUP_KEY") or None,
            policy=policy,
            org_policies=_org_policies(_table(orgs, "orgs"), policy),
            pools=pools,
            pool_secrets=_pool_secrets(pools, environ),
            command_env=_command_env(pools, environ),
            cluster={name: environ[name] for name in CLUSTER if environ.get(name)},
        )

    def of(self, org: str) -> Policy:
        """The tables that hold for an org."""
        return self.org_policies.get(org.lower(), self.policy)

    def pools_of(self, org: str) -> tuple[PoolSettings, ...]:
        """An org's configured pools, in the order in which they match."""
        return tuple(pool for pool in self.pools if pool.org.lower() == org.lower())

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Where the pools' pods are, each once; empty when no pool has any."""
        return tuple(sorted({pool.namespace for pool in self.pools if pool.namespace}))


def read_toml(path: Path) -> dict[str, Any]:
    """Parse the file that `GHAPP_CONFIG` names."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"GHAPP_CONFIG: cannot read {path}: {error.strerror}") from None
    except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise ConfigurationError(f"GHAPP_CONFIG: {path} is not TOML: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"GHAPP_CONFIG: {path} is nested too deeply; tables go three deep") from None


def _policy(tables: Mapping[str, Any], base: Policy, prefix: str) -> Policy:
    known = {each.name for each in dataclasses.fields(Policy)}
    for name in tables:
        if name not in known:
            everywhere = known if prefix else known | {"pools", "orgs"}
            raise ConfigurationError(f"[{prefix}{name}]: unknown table{_did_you_mean(name, everywhere)}")
    changes = {
        name: _overlay(getattr(base, name), _table(rows, prefix + name), f"[{prefix}{name}]")
        for name, rows in tables.items()
    }
    return dataclasses.replace(base, **changes)


def _org_policies(orgs: Mapping[str, Any], base: Policy) -> dict[str, Policy]:
    """Each org's tables, by its login in lower case: to GitHub case is nothing."""
    policies: dict[str, Policy] = {}
    for name, rows in orgs.items():
        _string(name, "org", f"[orgs.{name}]")
        if name.lower() in policies:
            raise ConfigurationError(f"[orgs.{name}]: it is there twice, in another case; GitHub knows no difference")
        policies[name.lower()] = _policy(_table(rows, f"orgs.{name}"), base, f"orgs.{name}.")
    return policies


def _overlay(base: T, row: Mapping[str, Any], where: str) -> T:
    return dataclasses.replace(base, **_checked(type(base), row, where))  # type: ignore[type-var]


def _pool(row: Any, index: int) -> PoolSettings:
    row = _table(row, "pools")
    where = f"[[pools]] {row.get('name', index + 1)}"
    values = _checked(PoolSettings, row, where)
    for key in ("org", "name"):
        if not values.get(key):
            raise ConfigurationError(f"{where} {key}: missing")
    pool = PoolSettings(**values)
    if pool.replacer in ("arc", "pods") and not pool.namespace:
        raise ConfigurationError(f"{where}: replacer '{pool.replacer}' needs namespace, where its pods are")
    if pool.replacer == "cloudevents" and not (pool.url and pool.secret_env):
        raise ConfigurationError(f"{where}: replacer 'cloudevents' needs url and secret_env")
    if pool.url is not None and not is_http(pool.url):
        raise ConfigurationError(f"{where} url: {pool.url!r} is not valid; it takes an http:// or https:// address")
    _require_gate(pool, where)
    return pool


def _require_gate(pool: PoolSettings, where: str) -> None:
    """What the gate needs is there, and can be used as it is."""
    if pool.shard_name is not None and (right := flaw_of(pool.shard_name)):
        raise ConfigurationError(f"{where} shard_name: {shown(pool.shard_name)} is not valid; it takes {right}")
    if len(set(pool.shard_groups.values())) < len(pool.shard_groups):
        raise ConfigurationError(f"{where} shard_groups: two shards have the same group; each takes one of its own")
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
        raise ConfigurationError(f"{where}: active_command and active_url are two answers to one question; keep one")
    if pool.active_url is not None and not is_http(pool.active_url):
        right = "an http:// or https:// address"
        raise ConfigurationError(f"{where} active_url: {shown(pool.active_url)} is not valid; it takes {right}")
    if not all(word and "\0" not in word for word in pool.active_command):
        raise ConfigurationError(f"{where} active_command: takes a program and its arguments, none of them empty")
    for name in pool.active_env:
        _require(re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII), name, f"{where} active_env", "names of variables")


def _require_distinct(pools: tuple[PoolSettings, ...]) -> None:
    seen: set[tuple[str, str]] = set()
    for pool in pools:
        key = (pool.org.lower(), pool.name)
        if key in seen:
            raise ConfigurationError(f"[[pools]] {pool.name}: there are two of that name in {pool.org}; rename one")
        seen.add(key)


def _pool_secrets(pools: tuple[PoolSettings, ...], environ: Mapping[str, str]) -> dict[str, str]:
    secrets = {}
    for pool in pools:
        if pool.secret_env is None:
            continue
        where = f"[[pools]] {pool.name} secret_env"
        if pool.secret_env.startswith("GHAPP_"):
            raise ConfigurationError(f"{where}: {pool.secret_env} is taken; choose a name that does not begin so")
        secret = environ.get(pool.secret_env, "")
        if not _is_standard_webhooks_secret(secret):
            raise ConfigurationError(
                f"{where}: the variable {pool.secret_env} must hold a Standard Webhooks secret, whsec_ and "
                f"{SECRET_BYTES} bytes or more in base64"
            )
        secrets[pool.secret_env] = secret
    return secrets


def _command_env(pools: tuple[PoolSettings, ...], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that some pool's command is given, of those that are set. No secret of ours is among them."""
    secrets = {pool.secret_env for pool in pools}
    for pool in pools:
        for name in pool.active_env:
            if name.startswith("GHAPP_") or name in secrets:
                raise ConfigurationError(
                    f"[[pools]] {pool.name} active_env: {name} is a secret; no command is given it"
                )
    asked = [pool for pool in pools if pool.active_command]
    wanted = {name for pool in asked for name in (*COMMAND_ENV, *pool.active_env)}
    return {name: environ[name] for name in sorted(wanted) if name in environ}


def _is_standard_webhooks_secret(text: str) -> bool:
    try:
        return text.startswith("whsec_") and len(b64decode(text[6:], validate=True)) >= SECRET_BYTES
    except ValueError:
        return False


def _checked(shape: type[Any], row: Mapping[str, Any], where: str) -> dict[str, Any]:
    hints = typing.get_type_hints(shape)
    for key in row:
        if key not in hints:
            raise ConfigurationError(f"{where} {key}: unknown key{_did_you_mean(key, hints)}")
    return {key: _value(value, hints[key], key, f"{where} {key}") for key, value in row.items()}


def _value(value: Any, hint: Any, key: str, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        hint = next(each for each in typing.get_args(hint) if each is not types.NoneType)
        return _value(value, hint, key, where)
    if origin is Literal:
        choices = typing.get_args(hint)
        return _require(value in choices, value, where, "one of " + ", ".join(choices))
    if origin is Mapping:
        return _groups(value, where)
    if origin is tuple:
        strings = isinstance(value, list) and all(isinstance(each, str) for each in value)
        return tuple(_require(strings, value, where, "a list of strings"))
    return _SCALARS[hint](value, key, where)


def _number(value: Any, key: str, where: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if key in FRACTIONS:
        return float(_require(is_number and 0 < value <= 1, value, where, "a fraction above 0 and up to 1"))
    return float(_require(is_number and 1 <= value <= LONGEST_SECONDS, value, where, "1 second or more, up to a year"))


def _count(value: Any, _key: str, where: str) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return int(_require(is_count and 1 <= value <= MOST, value, where, f"a whole number from 1 to {MOST:,}"))


def _string(value: Any, key: str, where: str) -> str:
    text = str(_require(isinstance(value, str) and value != "", value, where, "a string"))
    if key in NAMES:
        pattern, right = NAMES[key]
        _require(re.fullmatch(pattern, text, re.ASCII), text, where, right)
    return text


def _groups(value: Any, where: str) -> dict[str, int]:
    right = "a table of shards and the ids of their runner groups, such as { pink = 12, purple = 13 }"
    rows = _require(isinstance(value, dict), value, where, right)
    for shard, group in rows.items():
        is_id = isinstance(group, int) and not isinstance(group, bool) and group >= 1
        _require(is_shard(shard) and is_id, value, where, right)
    return dict(rows)


_SCALARS: Mapping[Any, Callable[[Any, str, str], Any]] = {float: _number, int: _count, str: _string}


def _require(holds: Any, value: Any, where: str, right: str) -> Any:
    if not holds:
        raise ConfigurationError(f"{where}: {shown(value)} is not valid; it takes {right}")
    return value


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"[{where}]: must be a table")
    return value


def _rows(tables: Mapping[str, Any], name: str) -> list[Any]:
    rows = tables.get(name, [])
    if not isinstance(rows, list):
        raise ConfigurationError(f"[[{name}]]: must be an array of tables, written with two brackets")
    return rows


def _did_you_mean(name: str, known: typing.Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(names)}"


def _default_state_dir() -> str:
    from platformdirs import user_state_dir

    return user_state_dir("ghapp", appauthor=False)


def _log_format(value: str | None) -> Literal["json", "console"] | None:
    if not value:
        return None
    if value not in ("json", "console"):
        raise ConfigurationError(f"GHAPP_LOG_FORMAT: {value!r} is not valid; it takes json or console")
    return "json" if value == "json" else "console"
