"""The record of a runner's death: made when the end is seen, completed by what is found later. Pure.

The rules are in `classify`, the texts in `cause`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ghapp.health.deaths.cause import Cause, OwnReason, advice_for
from ghapp.health.deaths.classify import OURS, OUTSIDE, Classification, classify, disruption
from ghapp.health.deaths.runner_log import LONGEST_LINE, read_runner_log
from ghapp.health.pods.pod import Container, Ended, Pod

MOST_LINES = 200
"""Lines kept of each log."""

FAILED = frozenset({"failure", "timed_out"})
"""Conclusions of a failed job, whatever made it fail."""


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


def died(pod: Pod, log: Sequence[str], at: float) -> Death:
    """The death of a runner whose end was seen.

    Args:
        pod: as last read.
        log: its last lines, oldest first.
        at: when it was seen; counts only where nobody says when its container ended.
    """
    # A container that the kubelet lost has ended in 1970.
    ended_at = pod.ended.finished_at if pod.ended else None
    return _death(pod, classify(pod, log), ended_at or at)._replace(runner_log=_last(log))


def vanished(pod: Pod, at: float) -> Death:
    """The death of a runner whose pod was deleted before anybody saw it end.

    Args:
        pod: as it was when last seen.
        at: when it was found to be gone.
    """
    known = disruption(pod) or next((each for each in (pod.reason, pod.disruption) if each in OUTSIDE), "")
    reason = known or (OwnReason.DELETED if pod.deleting_since is not None else OwnReason.POD_GONE)
    return _death(pod, Classification(Cause.VANISHED, str(reason), advice_for(Cause.VANISHED, reason, pod.message)), at)


def with_more_lines(death: Death, log: Sequence[str]) -> Death:
    """The same death with more of its last lines, as when a log store has them later; they may change its cause.

    Where the cluster itself said what ended it, they change nothing but what is kept.
    """
    lines = _last(log) or death.runner_log
    if death.exit_code is None or death.cause in {Cause.HOST_OOM, Cause.TERMINATED}:
        return death._replace(runner_log=lines)
    kubelets = "Completed" if death.exit_code == 0 else "Error"
    ended = Ended(death.exit_code, death.signal, kubelets if death.reason in OURS else death.reason)
    found = classify(Pod("", "", "", "", 0.0, runner=Container("", ended=ended)), lines)
    return death._replace(cause=found.cause, reason=found.reason, advice=found.advice, runner_log=lines)


def with_context(death: Death, job: DeadJob | None, host_log: Sequence[str] = ()) -> Death:
    """The death with what surrounded it: its job, and what its node said from a minute before to a minute after.

    Of too long a log of the node the middle is kept: that is when the runner ended.
    """
    spare = max(0, len(host_log) - MOST_LINES)
    return death._replace(job=job, host_log=_cut(host_log[spare // 2 :][:MOST_LINES]))


def blames_the_platform(death: Death, *, told_by_github: bool = False) -> bool:
    """Whether a post-mortem belongs on the job's commit: its job failed, and its runner's death may be why.

    `told_by_github`: GitHub's own words beside the job say that its runner went.

    Each of these says no:

    1. The runner ended as it should.
    2. Nothing was running: no job is known, or the runner itself told the job's result before it ended.
    3. The job did not fail. GitHub has no conclusion yet (ask again when it has), or it was a success, or a
       cancellation. One that nobody asked for counts: GitHub says that the runner went, or the cluster took it away.
    """
    if death.cause is Cause.CLEAN_EXIT:
        return False
    if death.job is None or read_runner_log(death.runner_log).finished_a_job:
        return False
    if death.job.conclusion == "cancelled":
        return told_by_github or death.reason in OUTSIDE
    return death.job.conclusion in FAILED


def _death(pod: Pod, found: Classification, at: float) -> Death:
    return Death(
        runner_name=pod.name,
        pod=pod.name,
        node=pod.node,
        at=at,
        exit_code=found.exit_code,
        signal=found.signal,
        reason=found.reason,
        cause=found.cause,
        advice=found.advice,
        namespace=pod.namespace,
        pod_uid=pod.uid,
    )


def _last(log: Sequence[str]) -> tuple[str, ...]:
    return _cut(log[-MOST_LINES:])


def _cut(lines: Iterable[str]) -> tuple[str, ...]:
    """Each line at most `LONGEST_LINE` characters long; a cut one ends in `…`."""
    return tuple(line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…" for line in lines)
