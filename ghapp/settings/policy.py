"""Reads the TOML file: its top-level tables over the defaults, and the tables of single orgs over these."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ghapp.errors import ConfigurationError
from ghapp.installations.scope import ScopeKind, kind_of, owner_of
from ghapp.settings.mistakes import Mistakes
from ghapp.settings.tables import Policy, ReportSettings
from ghapp.settings.values import checked, did_you_mean, string, table
from ghapp.untrusted_text import toml_string

T = TypeVar("T")

NOT_UTF_8 = "GHAPP_CONFIG: {} is not UTF-8 text, perhaps UTF-16; save it as UTF-8"


class ConfigurationFile(NamedTuple):
    """The file that `GHAPP_CONFIG` names: its text, and its tables."""

    text: str
    tables: Mapping[str, Any]


NO_FILE = ConfigurationFile("", {})


def read_toml(config: str | None) -> ConfigurationFile:
    """Parses the file that `GHAPP_CONFIG` names; without one there are no tables."""
    if not config:
        return NO_FILE
    path = Path(config)
    try:
        text = path.read_text("utf-8-sig")  # editors of Windows write a byte order mark
        if "\0" in text:  # UTF-16 without a byte order mark is UTF-8 of ASCII characters and zeros
            raise ConfigurationError(NOT_UTF_8.format(path))
        return ConfigurationFile(text, tomllib.loads(text))
    except OSError as error:
        ended = "" if path.parent.exists() else "; its directory is deleted, as that of a sandbox that has ended"
        raise ConfigurationError(f"GHAPP_CONFIG: cannot read {path}: {error.strerror}{ended}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(NOT_UTF_8.format(path)) from None
    except ValueError as error:  # not TOML, or a number of thousands of digits
        raise ConfigurationError(f"GHAPP_CONFIG: {path} is not TOML: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"GHAPP_CONFIG: {path} is nested too deeply; tables go three deep") from None


def read_policy(tables: Mapping[str, Any], mistakes: Mistakes) -> Policy:
    """Returns the top-level tables, over the defaults."""
    return _policy(tables, Policy(), "", mistakes)


def _policy(tables: Mapping[str, Any], base: Policy, prefix: str, mistakes: Mistakes) -> Policy:
    known = {each.name for each in dataclasses.fields(Policy)}
    changes: dict[str, Any] = {}
    for name, rows in tables.items():
        where = f"[{prefix}{name}]"
        if name not in known:
            allowed = known if prefix else known | {"pools", "orgs", "scopes"}
            mistakes.add(f"{where}: unknown table{did_you_mean(name, allowed)}", where)
            continue
        row = mistakes.read(where, {}, table, rows, prefix + name)
        changes[name] = _overlay(getattr(base, name), row, where, mistakes)
    policy = dataclasses.replace(base, **changes)
    _check_fresh_observations(policy, base, prefix, mistakes)
    return policy


def _check_fresh_observations(policy: Policy, base: Policy, prefix: str, mistakes: Mistakes) -> None:
    """Checks that an observation stays fresh until the next sweep; else each runner would be unknown between two.

    What an org inherits is reported once.
    """
    stale, interval = policy.evidence.stale_seconds, policy.sweep.interval_seconds
    is_inherited = bool(prefix) and (stale, interval) == (base.evidence.stale_seconds, base.sweep.interval_seconds)
    keys = [f"[{each}evidence] stale_seconds" for each in ("", prefix)]
    keys += [f"[{each}sweep] interval_seconds" for each in ("", prefix)]
    if stale < interval and not is_inherited and not mistakes.has_any(keys):
        mistakes.add(
            f"[{prefix}evidence] stale_seconds: {stale:g} is less than [{prefix}sweep] interval_seconds, {interval:g}: "
            "each runner would be unknown between two sweeps; it takes at least the interval"
        )


def org_policies(orgs: Mapping[str, Any], base: Policy, mistakes: Mistakes) -> dict[str, Policy]:
    """Returns each org's policy, by its address in lower case, because GitHub's logins are case-insensitive.

    A repository's policy begins with its owner's, see `inherited_policy`.
    """
    policies: dict[str, Policy] = {}
    for name, rows in sorted(orgs.items(), key=lambda item: "/" in item[0]):  # owners before their repositories
        key = toml_string(name) if "/" in name else name
        where = f"[orgs.{key}]"
        mistakes.read(where, name, string, name, "org", where)
        if name.lower() in policies:
            mistakes.add(f"{where}: defined twice, because GitHub ignores case; merge the two", where)
        row = mistakes.read(where, {}, table, rows, f"orgs.{key}")
        policies[name.lower()] = _policy(row, inherited_policy(name, policies, base), f"orgs.{key}.", mistakes)
    return policies


def check_reports(policies: Mapping[str, Policy], base: Policy, mistakes: Mistakes) -> None:
    """Checks that each repository's fleet has a check run of its own: GitHub shows the last of one name and commit."""
    taken: set[str] = set()
    for name, policy in policies.items():
        where, repository = f"[orgs.{toml_string(name)}.report] repository", policy.report.repository
        if kind_of(name) is ScopeKind.ORGANIZATION or repository is None:
            continue
        of_owner = policies.get(owner_of(repository).lower(), base).report.repository or ""
        if repository.lower() in {of_owner.lower(), *taken}:
            mistakes.add(f"{where}: {repository} has another fleet's check run; name another repository", where)
        taken.add(repository.lower())


def inherited_policy(org: str, policies: Mapping[str, Policy], base: Policy) -> Policy:
    """Returns the policy of an org without tables of its own: of a repository its owner's, of all others the base.

    No other scope inherits a `[report] repository`: two fleets with one check run would overwrite each other's.
    """
    kind = kind_of(org)
    if kind is ScopeKind.ORGANIZATION:
        return base
    inherited = policies.get(owner_of(org).lower(), base) if kind is ScopeKind.REPOSITORY else base
    return dataclasses.replace(inherited, report=ReportSettings())


def _overlay(base: T, row: Mapping[str, Any], where: str, mistakes: Mistakes) -> T:
    return dataclasses.replace(base, **checked(type(base), row, where, mistakes))  # type: ignore[type-var]
