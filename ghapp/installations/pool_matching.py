"""Assigns a runner to its pool and shard by its labels; and what the rules read of a configured pool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Protocol, TypeVar

from ghapp.untrusted_text import one_line

UNLABELLED = "default"
"""The pool of runners that match no configured pool and have no custom label."""


LONGEST_POOL = 200
"""Characters of a pool's name. The API and the pages take no longer one."""

UNCONFIGURED = "label:"
"""Before the name of a pool that is named by its runners' labels, if a configured pool has that name."""

UNKNOWN_POOL = "unknown"
"""The pool of jobs that name no labels, but a runner group alone."""

ALL_POOLS = "*"
"""The name under which the fuse, the pause and the history of all pools of a scope are kept: that of no pool."""

EVERY_RUNNER = "*"
"""Used instead of labels: the pool matches every runner."""


GENERIC_LABELS = frozenset({"self-hosted", "linux", "windows", "macos", "x64", "x86", "arm", "arm64"})
"""Labels that GitHub gives to runners by itself; no pool is named by them."""


SHARD_LABEL = "shard"
"""Labels like `shard:pink` are of one shard: they name no pool. `ghapp init` makes `shard_label = "shard"` of them."""


class PoolRule(Protocol):
    """A configured pool with the labels of its runners."""

    @property
    def name(self) -> str:
        """The pool's name."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels that a runner must have, all of them; `*` alone for every runner."""

    @property
    def shard_label(self) -> str | None:
        """The runner label `<shard_label>:<shard>` assigns it to that shard."""


class ReplacerRule(PoolRule, Protocol):
    """A configured pool with its replacer."""

    @property
    def replacer(self) -> str:
        """How its runners are replaced; `arc`: each has an ARC object."""


class NamespaceRule(PoolRule, Protocol):
    """A configured pool with the namespace of its pods."""

    @property
    def namespace(self) -> str | None:
        """The namespace; None if it is unknown."""


class ScaledRule(ReplacerRule, NamespaceRule, Protocol):
    """A configured pool with its cluster settings."""


class LabelledRunner(Protocol):
    """A runner's labels, as GitHub lists them."""

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels."""

    @property
    def custom_labels(self) -> tuple[str, ...]:
        """Those that its owner chose."""


Rule = TypeVar("Rule", bound=PoolRule)


def pool_of(labels: Iterable[str], custom_labels: Sequence[str], rules: Iterable[PoolRule]) -> str:
    """Returns the first pool that matches, else a name made of the runner's custom labels. Case does not matter.

    Labels of shards name no pool, unless there are no others.

    A runner whose labels do not match a configured pool is none of that pool's, also if it has the pool's name as a
    label: its name is then marked. So is `*`, which stands for all pools of an installation. Characters of labels that
    are not seen are replaced in the name.
    """
    lowered, names = {label.lower() for label in labels}, {ALL_POOLS}
    for rule in rules:
        if all(label == EVERY_RUNNER or label.lower() in lowered for label in rule.labels):
            return rule.name
        names.add(rule.name)
    joined = "+".join(sorted(pool_labels(custom_labels) or custom_labels))
    name = _shortened(joined) or UNLABELLED
    return _shortened(f"{UNCONFIGURED}{joined or UNLABELLED}") if name in names else name


def pool_labels(labels: Iterable[str]) -> list[str]:
    """Returns the labels that may name a pool: those of shards do not."""
    return [label for label in labels if not label.lower().startswith(f"{SHARD_LABEL}:")]


def _shortened(name: str) -> str:
    """Returns a name that people can read and type, on one line of at most `LONGEST_POOL` characters."""
    shown = one_line(name)
    if len(shown) <= LONGEST_POOL:
        return shown
    return f"{shown[: LONGEST_POOL - 9]}…{sha256(name.encode()).hexdigest()[:8]}"


def runner_pool(runner: LabelledRunner, rules: Iterable[PoolRule]) -> str:
    """Returns the pool of a runner."""
    return pool_of(runner.labels, runner.custom_labels, rules)


class PoolMatcher:
    """The pools of many runners; runners with equal labels are matched once."""

    def __init__(self, rules: Iterable[PoolRule]) -> None:
        self._rules = tuple(rules)
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}

    def pool(self, runner: LabelledRunner) -> str:
        """Returns the pool of a runner, as `runner_pool`."""
        labels = runner.labels, runner.custom_labels
        if (pool := self._known.get(labels)) is None:
            pool = self._known[labels] = pool_of(*labels, self._rules)
        return pool


OTHER_POOL = "other"
"""In metrics, the pool of all that no configured pool takes: labels could make any number of series."""


def metric_pool(name: str, rules: Iterable[PoolRule]) -> str:
    """Returns the pool's name as a label of metrics: that of a configured pool, else `other`."""
    return name if any(rule.name == name for rule in rules) else OTHER_POOL


def rule_named(name: str, rules: Iterable[Rule]) -> Rule | None:
    """Returns the configured pool of that name; None for a pool that is named by its runners' labels."""
    return next((rule for rule in rules if rule.name == name), None)


def shard_by_label(labels: Iterable[str], rule: PoolRule | None) -> str | None:
    """Returns the shard that the labels of a runner of that pool, or of its job, name; else None."""
    if rule is None or rule.shard_label is None:
        return None
    prefix = rule.shard_label.lower() + ":"
    for label in labels:
        if label.lower().startswith(prefix):
            return label[len(prefix) :]
    return None


def namespaces_of(rules: Iterable[NamespaceRule]) -> list[str]:
    """Returns the distinct namespaces of the pools' pods, sorted."""
    return sorted({rule.namespace for rule in rules if rule.namespace})
