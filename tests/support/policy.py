"""The policy file of a story."""

from __future__ import annotations

import re

from ghapp.settings import PoolSettings, Settings
from ghapp.settings.policy import Policy


def acting(policy: str) -> str:
    """The same policy with remediation and the reaper acting, where it sets no mode of its own: both default to dry-run."""
    for table in ("remediation", "leaks"):
        heading = re.search(rf"^[ \t]*\[{table}\][ \t]*\n((?:(?![ \t]*\[).*\n?)*)", policy, re.MULTILINE)
        if heading is None:
            policy = f'[{table}]\nmode = "act"\n{policy}'
        elif not re.search(r"^[ \t]*mode\b", heading[1], re.MULTILINE):
            policy = f'{policy[: heading.start(1)]}mode = "act"\n{policy[heading.start(1) :]}'
    return policy


def replace_pools(settings: Settings, pools: tuple[PoolSettings, ...]) -> None:
    """Gives settings that are in use other pools."""
    object.__setattr__(settings, "pools", pools)
    vars(settings).pop("_pools_by_org", None)


def replace_policy(settings: Settings, policy: Policy) -> None:
    """Gives settings that are in use another policy."""
    object.__setattr__(settings, "policy", policy)
