"""To which pool and shard a runner belongs, from its labels alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

UNLABELLED = "default"
"""The pool of runners that match no configured pool and bear no custom label."""


EVERY_RUNNER = "*"
"""In place of labels: the pool takes every runner."""


class PoolRule(Protocol):
    """What a configured pool says about who belongs to it."""

    @property
    def name(self) -> str:
        """The pool's name."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels that a runner must all bear; `*` alone for every runner."""

    @property
    def shard_label(self) -> str | None:
        """The runner label `<shard_label>:<shard>` puts it on that shard."""


class ScaledRule(PoolRule, Protocol):
    """A configured pool, with what it says about the cluster."""

    @property
    def replacer(self) -> str:
        """How its runners are replaced; `arc`: each has one of ARC's objects."""

    @property
    def namespace(self) -> str | None:
        """Where its pods are."""


def pool_of(labels: Iterable[str], custom_labels: Sequence[str], rules: Iterable[PoolRule]) -> str:
    """The first pool that matches; else the one named by the runner's custom labels. Case does not matter."""
    borne = {label.lower() for label in labels}
    for rule in rules:
        if all(label == EVERY_RUNNER or label.lower() in borne for label in rule.labels):
            return rule.name
    return "+".join(sorted(custom_labels)) or UNLABELLED


def shard_of(labels: Iterable[str], rule: PoolRule | None) -> str | None:
    """The shard of a runner of that pool, or None where the pool has none."""
    if rule is None or rule.shard_label is None:
        return None
    prefix = rule.shard_label.lower() + ":"
    for label in labels:
        if label.lower().startswith(prefix):
            return label[len(prefix) :]
    return None
