"""The runners of an organization counted by version and pool. Pure; times are epoch seconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

MOST_VERSIONS = 200
"""Versions of one organization that are counted apart; runners of further ones are counted without a version."""

LOOP = 3
"""Ephemeral runners of a pool that ended within an hour because they are too old: from so many on they are a loop."""

REFUSED_SECONDS = 3600.0
"""How long such a runner is counted."""

LONGEST_VERSION = 40
"""Characters of a version that is shown."""


class VersionedRunner(Protocol):
    """What a runner's evidence has about its version."""

    @property
    def version(self) -> str | None:
        """As GitHub lists it; None if it does not."""

    @property
    def ephemeral(self) -> bool | None:
        """None if GitHub does not report it."""

    @property
    def online(self) -> bool:
        """As GitHub lists it."""

    @property
    def job_started_at(self) -> float | None:
        """When the runner took its last known job."""


@dataclass(slots=True)
class PoolVersion:
    """The registered runners of one version in one pool, counted.

    Attributes:
        pool: the pool's name.
        version: None if GitHub lists no version.
        runners: how many there are.
        ephemeral: how many of them are ephemeral.
        online: how many of them are online.
        refused: ephemeral runners that ended within the last hour, without a job, because they are too old.
    """

    pool: str
    version: str | None
    runners: int = 0
    ephemeral: int = 0
    online: int = 0
    refused: int = 0

    @property
    def is_ephemeral(self) -> bool:
        """True if most of the runners are ephemeral."""
        return self.ephemeral * 2 > self.runners or (self.refused > 0 and not self.runners)

    @property
    def loops(self) -> bool:
        """True if ephemeral runners end because they are too old, and are started again, again and again."""
        return self.refused >= LOOP


PooledRunners = Iterable[tuple[str, VersionedRunner]]
"""Runners, each with its pool."""


def count_versions(runners: PooledRunners, refused: PooledRunners = ()) -> list[PoolVersion]:
    """Counts runners by version and pool; the pools with most runners come first.

    Args:
        runners: registered ones.
        refused: ephemeral ones that ended within the last hour because they are too old.
    """
    counts: dict[tuple[str, str | None], PoolVersion] = {}
    versions: set[str | None] = set()

    def count_of(pool: str, runner: VersionedRunner) -> PoolVersion:
        version = shown_version(runner.version)
        if version not in versions:
            if len(versions) >= MOST_VERSIONS:
                version = None
            versions.add(version)
        if (count := counts.get((pool, version))) is None:
            count = counts[pool, version] = PoolVersion(pool, version)
        return count

    for pool, runner in runners:
        count = count_of(pool, runner)
        count.runners += 1
        count.ephemeral += bool(runner.ephemeral)
        count.online += runner.online
    for pool, runner in refused:
        count_of(pool, runner).refused += 1
    return sorted(counts.values(), key=lambda each: (-each.runners, each.pool, each.version or ""))


def shown_version(version: str | None) -> str | None:
    """Returns a version as it is shown and stored; None for an empty one."""
    return (version or "")[:LONGEST_VERSION] or None
