"""All of the configuration; only composition roots read it.

All mistakes are reported at once, each in one line that names the key and a valid value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_network
from pathlib import Path
from typing import Literal

from ghapp.addresses import GITHUB_API, GitHubUrls, github_urls, http_url, link_url, listen, redis_url, shown
from ghapp.credentials import VARIABLES as CREDENTIALS
from ghapp.credentials import AppCredentials, enterprise_tokens, read_credentials
from ghapp.errors import ConfigurationError
from ghapp.installations.pool_matching import namespaces_of
from ghapp.installations.scope import ScopeKind, ScopeRule, kind_of, owner_of
from ghapp.proxies import require_usable_proxies
from ghapp.settings.mistakes import Mistakes
from ghapp.settings.policy import NO_FILE, check_reports, inherited_policy, org_policies, read_policy, read_toml
from ghapp.settings.pools import command_env_of, pool_secrets_of, read_pools
from ghapp.settings.scopes import read_scopes
from ghapp.settings.tables import Policy, PoolSettings
from ghapp.settings.values import did_you_mean, optional_table, rows
from ghapp.timings import NORMAL, Timings

ADDRESSES = (
    "GHAPP_CONFIG",
    "GHAPP_REDIS_URL",
    "GHAPP_STATE_DIR",
    "GHAPP_GITHUB_API_URL",
    "GHAPP_GITHUB_WEB_URL",
    "GHAPP_LISTEN",
    "GHAPP_PUBLIC_URL",
    "GHAPP_TRUSTED_PROXIES",
    "GHAPP_LOG_FORMAT",
    "GHAPP_LOKI_URL",
    "GHAPP_NOTIFY_URLS",
    "GHAPP_PAGE_KEY",
    "GHAPP_URL",
    "GHAPP_TOKEN",
)

NO_POLICY = ("orgs", "pools", "scopes")
"""What the file has besides the tables of a policy."""

DEFAULT_LISTEN = "127.0.0.1:8000"

VARIABLES = (*CREDENTIALS, *ADDRESSES)
"""All variables of `ghapp`."""

OF_CLIENTS = ("GHAPP_URL", "GHAPP_TOKEN", "GHAPP_PUBLIC_URL", "GHAPP_LOG_FORMAT")
"""Those that a command needs which asks a server; the others may be the server's own, as they are on its machine."""

CLUSTER = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
"""Kubernetes' own variables, which say how to reach a cluster, from outside or from one of its pods."""


@dataclass(frozen=True)
class Settings:
    """The validated configuration."""

    redis_url: str | None
    state_dir: Path
    api_url: str
    web_url: str
    listen: tuple[str, int]
    public_url: str | None
    trusted_proxies: tuple[str, ...]
    """Addresses and networks whose forwarding headers count."""

    log_format: Literal["json", "console"] | None
    loki_url: str | None
    credentials: AppCredentials | None = field(repr=False)
    policy: Policy = field(default_factory=Policy)
    org_policies: Mapping[str, Policy] = field(default_factory=dict)
    pools: tuple[PoolSettings, ...] = ()
    scopes: tuple[ScopeRule, ...] = ()
    """Where runners are registered besides the App's organizations."""

    enterprise_tokens: tuple[str, ...] = field(default=(), repr=False)
    """The classic tokens for enterprises' runners, preferred first."""

    pool_secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The Standard Webhooks secrets, by the variable that `secret_env` names."""

    command_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables for the pools' commands; each command gets those that its pool names."""

    cluster: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that say how to reach the cluster; empty without a cluster."""

    notify_urls: tuple[str, ...] = field(default=(), repr=False)
    """Apprise addresses of those who get notifications. They contain secrets."""

    page_key: str | None = field(default=None, repr=False)
    """Set by `up` for its web role: it may run without credentials, and serves the pages and /setup to browsers with
    this key.
    """

    url: str | None = None
    """`GHAPP_URL`: where commands ask the API instead of Redis."""

    token: str | None = field(default=None, repr=False)
    """`GHAPP_TOKEN`, for the API at `url`."""

    timings: Timings = NORMAL
    """No configuration: only stories have others."""

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Settings:
        """Reads and validates everything.

        Raises:
            ConfigurationError: it has each mistake.
        """
        mistakes = Mistakes()
        for name in environ:
            if name.startswith("GHAPP_") and name not in VARIABLES:
                mistakes.add(f"{name}: unknown variable{did_you_mean(name, VARIABLES)}", name)
        mistakes.read("proxies", None, require_usable_proxies, environ)
        toml, tables = mistakes.read("GHAPP_CONFIG", NO_FILE, read_toml, environ.get("GHAPP_CONFIG"))
        orgs = mistakes.read("[orgs]", {}, optional_table, tables, "orgs")
        policy = read_policy({name: rows for name, rows in tables.items() if name not in NO_POLICY}, mistakes)
        own_policies = org_policies(orgs, policy, mistakes)
        check_reports(own_policies, policy, mistakes)
        pool_rows = mistakes.read("[[pools]]", [], rows, tables, "pools")
        pools = read_pools(pool_rows, mistakes)
        scopes = read_scopes(mistakes.read("[[scopes]]", [], rows, tables, "scopes"), mistakes)
        state_dir = mistakes.read("GHAPP_STATE_DIR", None, _state_dir, environ.get("GHAPP_STATE_DIR"))
        credentials = mistakes.read("credentials", None, read_credentials, environ, state_dir)

        def address(name: str, read: Callable[[Mapping[str, str], str], str]) -> str:
            return mistakes.read(name, "", read, environ, name)

        github = mistakes.read(GITHUB_API, GitHubUrls("", ""), github_urls, environ)
        settings = cls(
            redis_url=mistakes.read("GHAPP_REDIS_URL", None, redis_url, environ),
            state_dir=state_dir or Path(),
            api_url=github.api,
            web_url=github.web,
            listen=mistakes.read("GHAPP_LISTEN", ("", 0), listen, environ.get("GHAPP_LISTEN") or DEFAULT_LISTEN),
            public_url=address("GHAPP_PUBLIC_URL", link_url) or None,
            trusted_proxies=mistakes.read(
                "GHAPP_TRUSTED_PROXIES", (), _networks, environ.get("GHAPP_TRUSTED_PROXIES") or ""
            ),
            log_format=mistakes.read("GHAPP_LOG_FORMAT", None, _log_format, environ.get("GHAPP_LOG_FORMAT")),
            loki_url=address("GHAPP_LOKI_URL", http_url) or None,
            credentials=credentials,
            notify_urls=_addresses(environ.get("GHAPP_NOTIFY_URLS") or ""),
            page_key=environ.get("GHAPP_PAGE_KEY") or None,
            url=address("GHAPP_URL", http_url) or None,
            token=environ.get("GHAPP_TOKEN") or None,
            policy=policy,
            org_policies=own_policies,
            pools=pools,
            scopes=scopes,
            enterprise_tokens=mistakes.read("GHAPP_ENTERPRISE_TOKEN", (), enterprise_tokens, environ),
            pool_secrets=pool_secrets_of(pool_rows, environ, mistakes),
            command_env=command_env_of(pools, environ, mistakes),
            cluster={name: environ[name] for name in CLUSTER if environ.get(name)},
        )
        mistakes.require_none(toml)
        return settings

    def of(self, org: str) -> Policy:
        """Returns the policy of an org."""
        own = self.org_policies.get(org.lower())
        return inherited_policy(org, self.org_policies, self.policy) if own is None else own

    def pools_of(self, org: str) -> tuple[PoolSettings, ...]:
        """Returns an org's configured pools, in the order in which they match."""
        return self._pools_by_org.get(org.lower(), ())

    @cached_property
    def _pools_by_org(self) -> Mapping[str, tuple[PoolSettings, ...]]:
        """The pools by org in lower case, grouped once: each sweep asks several times, and there may be thousands."""
        by_org: dict[str, list[PoolSettings]] = {}
        for pool in self.pools:
            by_org.setdefault(pool.org.lower(), []).append(pool)
        return {org: tuple(pools) for org, pools in by_org.items()}

    @property
    def shortest_interval_seconds(self) -> float:
        """Returns the shortest time between sweeps of one installation that is configured for any org."""
        policies = (self.policy, *self.org_policies.values())
        return min(each.sweep.interval_seconds for each in policies)

    @property
    def named(self) -> Mapping[str, int]:
        """Returns the orgs with tables or pools, in lower case: 1 for pools only, 2 for tables only, 3 for both.

        What names a repository names its owner, too.
        """
        with_pools = dict.fromkeys(_with_owners(pool.org.lower() for pool in self.pools), 1)
        return with_pools | {org: 2 + with_pools.get(org, 0) for org in _with_owners(self.org_policies)}

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Returns the distinct namespaces of the pools' pods; empty if no pool has one."""
        return tuple(namespaces_of(self.pools))


def _with_owners(orgs: Iterable[str]) -> Iterator[str]:
    for org in orgs:
        yield org
        if kind_of(org) is ScopeKind.REPOSITORY:
            yield owner_of(org)


def _addresses(text: str) -> tuple[str, ...]:
    """Splits at the commas before a scheme: an address may contain commas itself."""
    return tuple(each.strip() for each in re.split(r",\s*(?=[A-Za-z][\w+.-]*://)", text) if each.strip())


def _networks(text: str) -> tuple[str, ...]:
    found = [each.strip() for each in text.split(",") if each.strip()]
    for each in found:
        try:
            ip_network(each)
        except ValueError as error:
            raise ConfigurationError(
                f"GHAPP_TRUSTED_PROXIES: {shown(each)} is not valid: it takes addresses and networks of proxies, "
                f"such as 10.0.0.7 or 10.0.0.0/24 ({error})"
            ) from None
    return tuple(found)


def _state_dir(value: str | None) -> Path:
    if not value:
        from platformdirs import user_state_dir

        return Path(user_state_dir("ghapp", appauthor=False))
    if value.startswith("~"):
        raise ConfigurationError(f"GHAPP_STATE_DIR: {shown(value)} is not valid: only a shell replaces ~; write it out")
    return Path(value)


def _log_format(value: str | None) -> Literal["json", "console"] | None:
    if not value:
        return None
    if value not in ("json", "console"):
        raise ConfigurationError(f"GHAPP_LOG_FORMAT: {value!r} is not valid; it takes json or console")
    return "json" if value == "json" else "console"
