"""Assigns a runner to a shard of its pool: by its label, its runner group, or the pattern of its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

from ghapp.installations import pool_matching
from ghapp.installations.pool_matching import PoolRule
from ghapp.runners.evidence import Evidence

LONGEST_SHARD = 100
LONGEST_PATTERN = 200
MOST_REPEATS = 3
"""Three repeats without nesting are matched quickly, whatever the name."""

LONGEST_NAME = 100
"""Characters of a runner's name that are matched. GitHub allows 64."""

_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")
_OTHER_GROUP = re.compile(r"\((?!\?P<shard>|\?:)")
_REPEATED_GROUP = re.compile(r"\)[*+?{]")
_REPEAT = re.compile(r"[*+{]")
_NAMED = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:-]*[A-Za-z0-9])?")


class ShardRule(PoolRule, Protocol):
    """A configured pool with its shard settings."""

    @property
    def shard_groups(self) -> Mapping[str, int]:
        """Shard → id of the runner group of its runners."""

    @property
    def shard_name(self) -> str | None:
        """A pattern of the runner's name that passes `flaw_of`."""


def has_shards(rule: ShardRule) -> bool:
    """True if the pool is configured to have shards."""
    return bool(rule.shard_label or rule.shard_groups or rule.shard_name)


def shard_of(evidence: Evidence, rule: ShardRule | None) -> str | None:
    """Returns the shard of a runner of that pool, by label, group or name in this order; None without a match."""
    if rule is None:
        return None
    if (labelled := pool_matching.shard_of(evidence.labels, rule)) is not None:
        return labelled
    for shard, group in rule.shard_groups.items():
        if group == evidence.group_id:
            return shard
    return None if rule.shard_name is None else shard_named(evidence.name, rule.shard_name)


@lru_cache(20_000)
def shard_named(name: str, pattern: str) -> str | None:
    """Returns the match of the pattern's group `shard` in a runner's name; None without a match."""
    found = re.search(pattern, name[:LONGEST_NAME])
    return None if found is None else found["shard"] or None


def is_shard(text: str) -> bool:
    """True if the text is a valid shard name: letters, digits and, between them, `.`, `_`, `:`, `-`."""
    return len(text) <= LONGEST_SHARD and _NAMED.fullmatch(text) is not None


def flaw_of(pattern: str) -> str:
    """Returns what a valid name pattern must be, if this one is invalid; else empty.

    Users choose the names of runners, so no name may cause a long search: a repetition must not contain another one,
    and there are at most `MOST_REPEATS`.
    """
    if len(pattern) > LONGEST_PATTERN:
        return f"a pattern of at most {LONGEST_PATTERN} characters"
    try:
        groups = re.compile(pattern).groupindex
    except (re.error, RecursionError, OverflowError):
        return "a regular expression"
    bare = _CLASS.sub("x", pattern)
    if set(groups) != {"shard"} or _OTHER_GROUP.search(bare):
        return "a pattern with the one group (?P<shard>…), and no other group but (?:…)"
    if _REPEATED_GROUP.search(bare) or len(_REPEAT.findall(bare)) > MOST_REPEATS:
        return f"a pattern that repeats no group, and has at most {MOST_REPEATS} of *, + and {{}}"
    return ""
