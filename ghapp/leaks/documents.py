"""Leaked pods by name: those that wait, and those that the reaper deleted within a day. Pure; times: epoch seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypedDict

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.leaks.leak_fuse import ReapedPod
from ghapp.leaks.reaper_status import LeakingPod
from ghapp.leaks.tick import Guard
from ghapp.remediation.fuse import Fuse, Position, resume_command
from ghapp.remediation.pause import Pause
from ghapp.report.documents import Timestamp, pause_in_words, timestamp
from ghapp.wording import duration

MOST_REAPED = 100
"""Deleted pods that are named, the latest ones; the others are counted."""

DELETED, LEAKED = "deleted", "leaked"

WHY_IT_WAITS = {
    "": "it waits for its turn: the reaper deletes the next ones within a minute",
    Guard.MASS_LEAK: "it waits until the batch before it has proven itself",
    Guard.REAPER_STOPPED: "the reaper is stopped: a pod that it deleted was in use; `ghapp doctor` names that",
    Guard.UNNAMED: 'the name of its runner is unknown; set `runner_name = "pod"` if runners have the names of pods',
    Guard.SESSION_AFTER_JOB: "its runner is online or busy after its only job; see whether its process hangs",
    Guard.BUSY_WHEN_LAST_SEEN: "its runner was busy when GitHub last listed it",
    Guard.NEVER_STARTED: "it never started; `kubectl describe pod` says why",
    Guard.UNCLAIMED_BRIEFLY: (
        "the only job of its runner is over; it is a leak once no controller has claimed it for {grace}"
    ),
    Guard.ABSENT_BRIEFLY: (
        "the only job of its runner is over; it is a leak once GitHub has not listed that for {grace}"
    ),
}
"""Why an unused pod is not deleted, by the guard that keeps it; what to do where a person can act.

`_why` words what depends on more than the guard.
"""


class ReaperTerms(NamedTuple):
    """What holds for the leaked pods of an organization now: the last tick may have found something else.

    Attributes:
        org: its name.
        mode: of `[leaks]`.
        pause: of the whole organization; None without one.
        fuses: of the runners, by pool; `*` is the installation's.
        grace_seconds: of `[leaks]`.
    """

    org: str
    mode: str
    pause: Pause | None = None
    fuses: Mapping[str, Fuse] = {}
    grace_seconds: float = 300.0

    def holding(self, pool: str) -> tuple[str, Fuse] | None:
        """Returns the fuse of the runners that keeps a pod of a pool, stopped ones first, with its pool.

        Of a pod whose pool is not known it may be any.
        """
        pools = [ALL_POOLS, pool] if pool else [*self.fuses]
        held = [(each, self.fuses[each]) for each in pools if each in self.fuses]
        held = [each for each in held if each[1].position is not Position.CLOSED]
        return min(
            held, key=lambda each: (each[1].position is not Position.STOPPED, each[0] != ALL_POOLS), default=None
        )


def kept_now(leaking: Iterable[LeakingPod], terms: ReaperTerms) -> list[LeakingPod]:
    """Returns the pods that the last tick left, without a fuse that has closed since."""
    return [
        each._replace(guard="") if each.guard == Guard.FUSE_NOT_CLOSED and terms.holding(each.pool) is None else each
        for each in leaking
    ]


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


def leaked_pods(leaking: Iterable[LeakingPod], reaped: Sequence[ReapedPod], terms: ReaperTerms) -> list[LeakedPod]:
    """Returns the pods that wait, the longest first, then the deleted ones, the latest first."""
    waiting = [
        LeakedPod(
            each.namespace,
            each.pod,
            each.pool,
            each.runner_name,
            each.since,
            each.guard or LEAKED,
            _why(each, terms),
        )
        for each in kept_now(leaking, terms)
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


def _why(pod: LeakingPod, terms: ReaperTerms) -> str:
    if not pod.guard and terms.pause is not None:
        return f"remediation is paused {pause_in_words(terms.pause)}"
    if not pod.guard and terms.mode != "act":
        return f"`[leaks] mode` is {terms.mode}: pods are reported, and none is deleted"
    if pod.guard == Guard.FUSE_NOT_CLOSED and (held := terms.holding(pod.pool)) is not None:
        pool, fuse = held
        name = "the fuse of all pools" if pool == ALL_POOLS else f"the fuse of the runners of {pool}"
        if fuse.position is Position.STOPPED:
            return f"{name} is stopped; `{resume_command(terms.org, pool)}` restarts it"
        return f"{name} is {fuse.position}: the pod is deleted once that has closed by itself"
    why = WHY_IT_WAITS.get(pod.guard, "the reaper keeps it for now")
    return why.replace("{grace}", duration(terms.grace_seconds))
