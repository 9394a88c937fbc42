"""What the end of a version means in words, and what to do about it, by kind of fleet. Pure.

A runner in a container or in the image of a machine keeps no update: its image decides. A runner that stays on its
machine updates itself, unless it was configured with `--disableupdate`; GitHub then gives it jobs for 30 days after the
next release. One that gets no messages any more cannot update itself either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from ghapp.versions.lifetime import VersionState, VersionStatus, is_older, parse_version

RECOMMENDED = "2.336.0"
"""The oldest version that is recommended."""

WHY_RECOMMENDED = (
    "from 2.336.0 on, a runner exits where it used to hang: when its job is not found, its session is lost, or GitHub "
    "answers 401"
)

IMAGE = "ghcr.io/actions/actions-runner"
"""GitHub's image of the runner; its tags are versions."""

DAYS_BEHIND = 30
"""GitHub gives jobs to runners that are at most so many days behind the newest release."""

MOST_POOLS = 5
"""Pools that a sentence names."""


class FleetKind(StrEnum):
    """How the runners of a pool are started, which decides where their version is changed."""

    ARC = "arc"
    PODS = "pods"
    IMAGES = "images"
    """Ephemeral runners, each on a machine or in a container that something else starts."""
    MACHINES = "machines"
    """Runners that stay on their machines."""


def fleet_kind(replacer: str | None, *, is_ephemeral: bool) -> FleetKind:
    """Returns the kind of a pool's fleet, by its configured replacer; None: the pool is not configured."""
    if replacer == "arc":
        return FleetKind.ARC
    if replacer == "pods":
        return FleetKind.PODS
    return FleetKind.IMAGES if is_ephemeral else FleetKind.MACHINES


class VersionStep(NamedTuple):
    """A next step, and why."""

    step: str
    why: str


def target_version(statuses: Iterable[VersionStatus]) -> str | None:
    """Returns the version to install: the newest one that runs and is current; None if none is known to be."""
    current = [
        each.version
        for each in statuses
        if each.state is VersionState.CURRENT and each.version is not None and not is_older(each.version, RECOMMENDED)
    ]
    return max(current, key=lambda version: parse_version(version) or (), default=None)


def version_steps(
    status: VersionStatus, pool: str, kind: FleetKind, target: str | None = None
) -> tuple[VersionStep, ...]:
    """Returns what to do about one pool's runners of a version that ends or has ended; nothing for other versions.

    Args:
        status: of the version.
        pool: the pool's name.
        kind: of the pool's fleet.
        target: from `target_version`.
    """
    if status.state not in (VersionState.ENDING, VersionState.ENDED):
        return ()
    release = target or f"the newest release, {RECOMMENDED} or newer"
    image = f"{IMAGE}:{target or 'VERSION'}" + ("" if target else f", where VERSION is {release}")
    match kind:
        case FleetKind.ARC:
            step = f"set the runner's image in the scale set of {pool} to {image}, or to one that is built from it"
            why = "ARC starts each runner from this image; a scale set with outdated runners waits for a new spec"
        case FleetKind.PODS:
            step = f"start the pods of {pool} from {image}, or from an image that is built from it"
            why = "each pod starts the version that its image has"
        case FleetKind.IMAGES:
            step = f"install {release} in the image from which the runners of {pool} are started"
            why = "an ephemeral runner starts the version that its image has, and keeps no update"
        case FleetKind.MACHINES if status.state is VersionState.ENDED:
            step = f"on each machine of {pool}: stop the service, unpack {release} over its directory, start it again"
            why = "the registration is kept; a runner that gets no messages cannot update itself"
        case FleetKind.MACHINES:
            step = f"configure the runners of {pool} without --disableupdate, or install {release} on each machine"
            why = f"with --disableupdate a runner gets jobs for {DAYS_BEHIND} days after the next release, no longer"
    if is_older(status.version, RECOMMENDED):
        why = f"{why}; {WHY_RECOMMENDED}"
    return (VersionStep(step, why),)


def version_text(status: VersionStatus) -> str:
    """Returns one sentence about the runners of a version, without a full stop."""
    runners = runners_of(status)
    verb = "has" if status.runners == 1 else "have"
    match status.state:
        case VersionState.ENDED if status.jobs_end_at is None:
            end = "which is older than [versions] minimum: GitHub gives it no jobs"
        case VersionState.ENDED:
            end = f"which gets no jobs since {day(status.jobs_end_at)}"
        case VersionState.ENDING:
            end = _ending(status)
        case VersionState.CURRENT if status.jobs_end_at is not None:
            end = f"which gets jobs until {day(status.jobs_end_at)}"
        case VersionState.CURRENT:
            end = "which gets jobs; GitHub has no date of its end yet"
        case _ if status.version is None:
            return f"GitHub lists {runners} without a version"
        case _:
            end = "of which GitHub reports no dates"
    return f"{runners} {verb} version {status.version}, {end}{_loop_text(status)}"


def _loop_text(status: VersionStatus) -> str:
    if not any(each.loops for each in status.pools):
        return ""
    return f"; {status.refused:,} ephemeral ones ended within an hour without a job, and were started again"


def _ending(status: VersionStatus) -> str:
    jobs_end_at, registration_ends_at = status.jobs_end_at, status.registration_ends_at
    if status.outlives_end:
        return "which GitHub's date or [versions] minimum ends, although its runners still get jobs"
    if registration_ends_at is not None and (jobs_end_at is None or registration_ends_at < jobs_end_at):
        return f"which GitHub registers until {day(registration_ends_at)} only"
    return f"which gets jobs until {day(jobs_end_at)} only"


def runners_of(status: VersionStatus) -> str:
    """Returns how many runners have a version, and in which pools."""
    count = "1 runner" if status.runners == 1 else f"{status.runners:,} runners"
    pools = [each.pool for each in status.pools]
    return f"{count} of {_listed(pools)}" if pools else count


def _listed(pools: Sequence[str]) -> str:
    more = [f"{len(pools) - MOST_POOLS} more"] if len(pools) > MOST_POOLS else []
    named = [*pools[:MOST_POOLS], *more]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def day(at: float | None) -> str:
    """Returns the day of a time, in UTC."""
    if at is None:
        return "an unknown day"
    try:
        return datetime.fromtimestamp(at, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return "an unknown day"
