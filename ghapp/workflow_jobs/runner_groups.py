"""Which repositories' jobs a runner group's runners may take. Pure.

A group that could not be read permits every repository: it gives no reason for a job to wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ghapp.workflow_jobs.job import Job


class RunnerGroup(NamedTuple):
    """An organization's runner group, as GitHub shows it. Fields are only ever appended.

    Attributes:
        id: its id.
        name: its name.
        visibility: GitHub's: `all`, `private` or `selected` repositories.
        allows_public: False: public repositories are excluded, whatever the visibility.
        repositories: of a group with `selected`: their full names in lower case; None if they could not be read.
        inherited: True for a group of the enterprise, whose runners no list of the organization's runners has.
    """

    id: int
    name: str
    visibility: str = "all"
    allows_public: bool = True
    repositories: tuple[str, ...] | None = None
    inherited: bool = False


class RunnerGroups(NamedTuple):
    """What GitHub knows of an organization's runners beside their list. Fields are only ever appended.

    Attributes:
        read_at: when it was read (epoch seconds).
        groups: all groups.
        hosted_labels: labels of the larger runners that GitHub hosts for it, in lower case, as far as is known.
    """

    read_at: float
    groups: tuple[RunnerGroup, ...] = ()
    hosted_labels: tuple[str, ...] = ()


def excludes(group: RunnerGroup, job: Job) -> bool:
    """True if the group's runners never take jobs of that job's repository.

    A repository whose visibility no delivery reported is not excluded for being public.
    """
    if job.private is False and (not group.allows_public or group.visibility == "private"):
        return True
    if group.visibility != "selected" or group.repositories is None:
        return False
    return job.repository.lower() not in group.repositories


def by_id(known: RunnerGroups | None) -> Mapping[int, RunnerGroup]:
    """Returns the groups by id; empty if they were not read."""
    return {} if known is None else {group.id: group for group in known.groups}
