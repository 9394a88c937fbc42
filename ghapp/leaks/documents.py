"""Leaked pods by name: those that wait, and those that the reaper deleted within a day. Pure; times: epoch seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypedDict

from ghapp.leaks.leak_fuse import ReapedPod
from ghapp.leaks.reaper_status import LeakingPod
from ghapp.leaks.tick import Guard
from ghapp.report.documents import Timestamp, timestamp

MOST_REAPED = 100
"""Deleted pods that are named, the latest ones; the others are counted."""

DELETED = "deleted"

WHY_IT_WAITS = {
    "": "it waits for its turn, or remediation is paused or in dry-run",
    Guard.FUSE_NOT_CLOSED: (
        "the fuse of its pool's runners, or of all pools, is not closed: one that is proving goes on by itself, and "
        "`ghapp resume` restarts a stopped one"
    ),
    Guard.MASS_LEAK: "it waits until the batch before it has proven itself",
    Guard.REAPER_STOPPED: "the reaper is stopped: a pod that it deleted was in use; `ghapp doctor` names that",
    Guard.UNNAMED: 'the name of its runner is unknown; set `runner_name = "pod"` if runners have the names of pods',
    Guard.SESSION_AFTER_JOB: "its runner is online or busy after its only job; see whether its process hangs",
    Guard.BUSY_WHEN_LAST_SEEN: "its runner was busy when GitHub last listed it",
    Guard.NEVER_STARTED: "it never started; `kubectl describe pod` says why",
    Guard.UNCLAIMED_BRIEFLY: (
        "the only job of its runner is over; it is a leak once no controller has claimed it for `[leaks] grace_seconds`"
    ),
    Guard.ABSENT_BRIEFLY: (
        "the only job of its runner is over; it is a leak once GitHub has not listed that for `[leaks] grace_seconds`"
    ),
}
"""Why an unused pod is not deleted, by the guard that keeps it; what to do where a person can act."""


class LeakedPod(NamedTuple):
    """A pod that is not used.

    Attributes:
        at: since when, or when it was deleted (epoch seconds).
        state: `deleted`, `leaked`, or the code of the guard that keeps it.
        text: why it was deleted, or why it is not.
    """

    namespace: str
    pod: str
    pool: str
    runner_name: str
    at: float
    state: str
    text: str


class LeakDocument(TypedDict):
    """A leaked pod; `state` is `deleted`, `leaked`, or the code of the guard that keeps it."""

    org: str
    namespace: str
    pod: str
    pool: str | None
    runner: str | None
    at: Timestamp
    state: str
    text: str


def leaked_pods(leaking: Iterable[LeakingPod], reaped: Sequence[ReapedPod]) -> list[LeakedPod]:
    """Returns the pods that wait, the longest first, then the deleted ones, the latest first."""
    waiting = [
        LeakedPod(each.namespace, each.pod, "", each.runner_name, each.since, each.guard or "leaked", _why(each.guard))
        for each in leaking
    ]
    deleted = [
        LeakedPod(each.namespace, each.pod, each.pool, each.runner_name, each.at, DELETED, each.reason)
        for each in sorted(reaped, key=lambda each: -each.at)[:MOST_REAPED]
    ]
    return [*sorted(waiting, key=lambda each: each.at), *deleted]


def leak_documents(org: str, found: Iterable[LeakedPod]) -> list[LeakDocument]:
    """Returns them as JSON documents."""
    return [
        {
            "org": org,
            "namespace": each.namespace,
            "pod": each.pod,
            "pool": each.pool or None,
            "runner": each.runner_name or None,
            "at": timestamp(each.at),
            "state": each.state,
            "text": each.text,
        }
        for each in found
    ]


def leaks_of_name(leaks: Iterable[LeakDocument], name: str) -> list[LeakDocument]:
    """Returns those of the pod or of the runner of this name."""
    return [each for each in leaks if name in (each["pod"], each["runner"])]


def _why(guard: str) -> str:
    return WHY_IT_WAITS.get(guard, "the reaper keeps it for now")
