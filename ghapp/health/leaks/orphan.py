"""A pod that was found to be nobody's, from just before its deletion until all that follows from it is done. Values."""

from __future__ import annotations

from typing import NamedTuple

from ghapp.health.leaks.guards import TERMINAL_SECONDS
from ghapp.health.leaks.runner_activity import RunnerActivity
from ghapp.health.pods.pod import Pod

Said = tuple[float, str, str]
"""When (epoch seconds), by whom (`pod`, `claim`, `delivery`, `list`), and what."""


class Orphan(NamedTuple):
    """Fields are only ever appended: stored records are read by position. Times are epoch seconds.

    Attributes:
        uid: of the pod. Another pod of its name is another's.
        runner_name: what GitHub calls, or would call, its runner.
        pool: whose events tell of it; empty where nobody knows.
        found_at: when it was judged.
        unclaimed_since: it was seen unclaimed at every look from then on.
        evidence: in order of time.
    """

    namespace: str
    pod: str
    uid: str
    runner_name: str
    pool: str
    node: str
    found_at: float
    unclaimed_since: float
    evidence: tuple[Said, ...] = ()


def orphan(pod: Pod, runner_name: str, pool: str, runner: RunnerActivity, since: float, now: float) -> Orphan:
    """What is about to be deleted, and why.

    Args:
        pod: as read last.
        runner_name: of its runner.
        pool: of its runner.
        runner: what deliveries and GitHub say of it.
        since: since when it has been unclaimed.
        now: of the judgement.
    """
    facts: list[tuple[float | None, str, str]] = [
        (pod.created_at, "pod", f"created, uid {pod.uid}"),
        (pod.runner.running_since if pod.runner else None, "pod", "its container runs since then"),
        (pod.runner.ended.finished_at if pod.runner and pod.runner.ended else None, "pod", "its container ended"),
        (runner.over_at, "delivery", "its runner's last job ended"),
        (since, "claim", "unclaimed since then: no controller's claim, no job in progress by delivery"),
        (now, "list", _githubs_word(runner, now)),
    ]
    evidence = tuple(sorted((at, source, said) for at, source, said in facts if at is not None))
    return Orphan(pod.namespace, pod.name, pod.uid, runner_name, pool, pod.node, now, since, evidence)


def _githubs_word(runner: RunnerActivity, now: float) -> str:
    if runner.has_session is None:
        word = "GitHub gave no word on its runner"
    elif not runner.has_session and not runner.registered:
        return "GitHub shows no runner of its name"
    else:
        shown = "busy" if runner.busy else "online" if runner.online else "offline"
        word = f"GitHub shows its runner {shown}"
    if runner.offline_too_long and runner.has_session is False:
        return f"{word}, for longer than `replace_offline_after_seconds` of its pool"
    if runner.over_at is not None and now - runner.over_at >= TERMINAL_SECONDS:
        return f"{word}, whose job has been over for {TERMINAL_SECONDS / 60:.0f} minutes"
    return f"{word}, whose container has ended"
