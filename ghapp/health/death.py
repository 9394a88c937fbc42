"""What a runner's end means: why its container is gone, and what the platform team should change."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Cause(StrEnum):
    """Why a runner died: the ten of the contract."""

    CLEAN_EXIT = "clean-exit"
    HOST_OOM = "host-oom"
    GUEST_OOM_OR_KILL = "guest-oom-or-kill"
    TERMINATED = "terminated"
    EXTERNAL_TEARDOWN = "external-teardown"
    CRASH = "crash"
    VERSION_DEPRECATED = "version-deprecated"
    DELETED_REGISTRATION = "deleted-registration"
    VANISHED = "vanished"
    UNKNOWN = "unknown"


class DeadJob(NamedTuple):
    """The job that a runner was given when it died, or had last. `conclusion` is empty until GitHub has one."""

    id: int
    repository: str
    name: str = ""
    head_sha: str = ""
    conclusion: str = ""
    html_url: str = ""


class Death(NamedTuple):
    """How one runner ended. Fields are only ever appended: stored records are read by position.

    Attributes:
        at: when its container ended, or, where nobody saw that, when its pod was found to be gone (epoch seconds).
        exit_code: None when its end was not seen.
        signal: None when it was not ended by one, or nobody says so.
        reason: the kubelet's word (`OOMKilled`, `Error`, `Evicted`), or what stands in for it.
        job: what it was doing; None when it was idle, or nobody knows.
        runner_log: its last lines, oldest first.
        host_log: what its node said from a minute before to a minute after, oldest first.
    """

    runner_name: str
    pod: str
    node: str
    at: float
    exit_code: int | None
    signal: int | None
    reason: str
    cause: Cause
    advice: str
    namespace: str = ""
    pod_uid: str = ""
    runner_id: int | None = None
    pool: str = ""
    job: DeadJob | None = None
    runner_log: tuple[str, ...] = ()
    host_log: tuple[str, ...] = ()
