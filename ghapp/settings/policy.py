"""Reads the TOML file: its top-level tables over the defaults, and the tables of single orgs over these."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from ghapp.errors import ConfigurationError
from ghapp.settings.tables import Policy
from ghapp.settings.values import checked, did_you_mean, string, table

T = TypeVar("T")

NOT_UTF_8 = "GHAPP_CONFIG: {} is not UTF-8 text, perhaps UTF-16; save it as UTF-8"


def read_toml(path: Path) -> dict[str, Any]:
    """Parses the file that `GHAPP_CONFIG` names."""
    try:
        text = path.read_text("utf-8-sig")  # editors of Windows write a byte order mark
        if "\0" in text:  # UTF-16 without a byte order mark is UTF-8 of ASCII characters and zeros
            raise ConfigurationError(NOT_UTF_8.format(path))
        return tomllib.loads(text)
    except OSError as error:
        raise ConfigurationError(f"GHAPP_CONFIG: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(NOT_UTF_8.format(path)) from None
    except ValueError as error:  # not TOML, or a number of thousands of digits
        raise ConfigurationError(f"GHAPP_CONFIG: {path} is not TOML: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"GHAPP_CONFIG: {path} is nested too deeply; tables go three deep") from None


def read_policy(tables: Mapping[str, Any]) -> Policy:
    """Returns the top-level tables, over the defaults.

    Raises:
        ConfigurationError: for the first error.
    """
    return _policy(tables, Policy(), "")


def _policy(tables: Mapping[str, Any], base: Policy, prefix: str) -> Policy:
    known = {each.name for each in dataclasses.fields(Policy)}
    for name in tables:
        if name not in known:
            allowed = known if prefix else known | {"pools", "orgs"}
            raise ConfigurationError(f"[{prefix}{name}]: unknown table{did_you_mean(name, allowed)}")
    changes = {
        name: _overlay(getattr(base, name), table(rows, prefix + name), f"[{prefix}{name}]")
        for name, rows in tables.items()
    }
    policy = dataclasses.replace(base, **changes)
    _require_fresh_observations(policy, prefix)
    return policy


def _require_fresh_observations(policy: Policy, prefix: str) -> None:
    """Checks that an observation stays fresh until the next sweep; else each runner would be unknown between two."""
    stale, interval = policy.evidence.stale_seconds, policy.sweep.interval_seconds
    if stale < interval:
        raise ConfigurationError(
            f"[{prefix}evidence] stale_seconds: {stale:g} is less than [{prefix}sweep] interval_seconds, {interval:g}: "
            "each runner would be unknown between two sweeps; it takes at least the interval"
        )


def org_policies(orgs: Mapping[str, Any], base: Policy) -> dict[str, Policy]:
    """Returns each org's policy, by its login in lower case, because GitHub's logins are case-insensitive."""
    policies: dict[str, Policy] = {}
    for name, rows in orgs.items():
        string(name, "org", f"[orgs.{name}]")
        if name.lower() in policies:
            raise ConfigurationError(f"[orgs.{name}]: defined twice, because GitHub ignores case; merge the two")
        policies[name.lower()] = _policy(table(rows, f"orgs.{name}"), base, f"orgs.{name}.")
    return policies


def _overlay(base: T, row: Mapping[str, Any], where: str) -> T:
    return dataclasses.replace(base, **checked(type(base), row, where))  # type: ignore[type-var]
