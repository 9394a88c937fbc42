"""Inputs for tests of the rules. Each builder defaults to the worst case: a value on which a wrong rule would act."""

from ghapp.remediation.fuse import Fuse, FuseCounts, Position
from ghapp.runners.evidence import Evidence, Registration, Survey

NOW = 1_790_000_000.0
"""A round time, far from zero, which `or` would take for no time."""

MICROSECOND = 1e-6
LONG_AGO = NOW - 86_400.0


def registration(**changes) -> Registration:
    """GitHub's record of runner 1: offline, idle, persistent."""
    worst = Registration(
        id=1,
        name="linux-1",
        os="linux",
        online=False,
        busy=False,
        labels=("self-hosted", "Linux", "X64", "linux-4vcpu"),
        custom_labels=("linux-4vcpu",),
        ephemeral=False,
    )
    return worst._replace(**changes)


def lost(runner_id: int = 1, **changes) -> Evidence:
    """A persistent runner that worked for a day; two 404s confirm its loss, and nothing was done about it."""
    worst = Evidence(
        id=runner_id,
        name=f"linux-{runner_id}",
        first_seen=LONG_AGO,
        labels=("self-hosted", "Linux", "X64", "linux-4vcpu"),
        custom_labels=("linux-4vcpu",),
        os="linux",
        ephemeral=False,
        registered=True,
        observed_at=NOW,
        was_online=True,
        absent_since=NOW - 60,
        absent_of=412,
        first_404_at=NOW - 30,
        confirmed_at=NOW,
    )
    return worst._replace(**changes)


def suspect(runner_id: int = 1, **changes) -> Evidence:
    """The runner of `lost`, before the second 404."""
    return lost(runner_id, confirmed_at=None)._replace(**changes)


def present(runner_id: int = 1, **changes) -> Evidence:
    """The runner of `lost` while GitHub still lists it: offline for an hour, and idle."""
    shown = lost(runner_id, absent_since=None, absent_of=None, first_404_at=None, confirmed_at=None)
    return shown._replace(listed=True, offline_since=NOW - 3600)._replace(**changes)


def online(runner_id: int = 1, **changes) -> Evidence:
    """A runner that is online and idle."""
    return present(runner_id, online=True, offline_since=None)._replace(**changes)


def survey(**changes) -> Survey:
    """A survey with a complete list read at NOW, so that no verdict is excused by age."""
    return Survey(**{"swept_at": NOW, "total": 412, **changes})


def proving(**changes) -> Fuse:
    """A fuse that has just tripped, with the default first batch."""
    return Fuse(**{"position": Position.PROVING, "since": NOW, "batch": 3, "allowed": 3, **changes})


def mass_loss(**changes) -> FuseCounts:
    """A pool of 200 runners, all lost and waiting."""
    return FuseCounts(**{"lost": 200, "expected": 200, "waiting": 200, **changes})
