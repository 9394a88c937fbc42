"""The record of a reaped pod, from just before its deletion until its events and records are done. Values."""

from __future__ import annotations

from typing import NamedTuple

from ghapp.leaks.guards import TERMINAL_SECONDS
from ghapp.leaks.runner_activity import RunnerActivity
from ghapp.pods.pod import Pod

Fact = tuple[float, str, str]
"""Time (epoch seconds), source (`pod`, `claim`, `delivery`, `list`), and statement."""


NEVER_NAMED = "its runner has its name, and no list, delivery or claim has named it since its container started"


class Orphan(NamedTuple):
    """Fields are only ever appended: stored records are read by position. Times are epoch seconds.

    Attributes:
        uid: of the pod; another pod of the same name is not meant.
        runner_name: its runner's name at GitHub.
        pool: its pool, whose events report it; empty if unknown.
        found_at: when it was judged.
        unclaimed_since: since when every tick found it unclaimed.
        evidence: in order of time.
        was_registered: GitHub listed its runner, offline.
    """

    namespace: str
    pod: str
    uid: str
    runner_name: str
    pool: str
    node: str
    found_at: float
    unclaimed_since: float
    evidence: tuple[Fact, ...] = ()
    was_registered: bool = False


def reason_of(found: Orphan) -> str:
    """Returns why a pod was a leak: since when nothing used it, and what GitHub or the cluster showed last.

    An idle runner has neither a claim nor a job: the time began before its controller forgot it.
    """
    unclaimed = f"no claim and no job for {found.found_at - found.unclaimed_since:.0f} s"
    last = [text for _, source, text in found.evidence if source == "list"]
    return "; ".join((unclaimed, *last))


def orphan(
    pod: Pod,
    runner_name: str,
    pool: str,
    runner: RunnerActivity,
    since: float,
    now: float,
    *,
    never_named: bool = False,
) -> Orphan:
    """Returns the record of a pod that is about to be deleted, with the evidence.

    Args:
        pod: as last read.
        runner_name: of its runner.
        pool: of its runner.
        runner: evidence from deliveries and GitHub.
        since: since when it has been unclaimed.
        now: time of the judgement.
        never_named: True if its runner has its name, and nothing has named that since its container started.
    """
    facts: list[tuple[float | None, str, str]] = [
        (pod.created_at, "pod", f"created, uid {pod.uid}"),
        (pod.runner.running_since if pod.runner else None, "pod", "its container started"),
        (pod.runner.ended.finished_at if pod.runner and pod.runner.ended else None, "pod", "its container ended"),
        (runner.over_at, "delivery", "its runner's last job ended"),
        (since, "claim", "unclaimed since then: no pod claim, and no job in progress by delivery"),
        (now, "list", _listed_as(runner, now)),
        (now if never_named else None, "list", NEVER_NAMED),
    ]
    evidence = tuple(sorted((at, source, text) for at, source, text in facts if at is not None))
    return Orphan(
        pod.namespace, pod.name, pod.uid, runner_name, pool, pod.node, now, since, evidence, runner.registered
    )


def _listed_as(runner: RunnerActivity, now: float) -> str:
    if runner.has_session is None:
        text = "GitHub did not answer about its runner"
    elif not runner.has_session and not runner.registered:
        return "GitHub lists no runner of its name"
    else:
        state = "busy" if runner.busy else "online" if runner.online else "offline"
        text = f"GitHub lists its runner {state}"
    if runner.offline_too_long and runner.has_session is False:
        return f"{text}, for longer than `replace_offline_after_seconds` of its pool"
    if runner.over_at is not None and now - runner.over_at >= TERMINAL_SECONDS:
        return f"{text}, and its job has been over for {TERMINAL_SECONDS / 60:.0f} minutes"
    return f"{text}, and its container has ended"
