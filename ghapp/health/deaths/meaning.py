"""What a runner's end means: why its container is gone, whose doing it was, and what the platform team should change.

The rules are in `fingerprint`, the texts in `cause`, the record that is kept of a death in `record`; here is what it
tells, and to whom.
"""

from __future__ import annotations

from typing import Any

from ghapp.health.deaths.cause import HAPPENED, NOT_YOURS, Cause
from ghapp.health.deaths.classify import OUTSIDE, Classification, classify
from ghapp.health.deaths.death import MOST_LINES, DeadJob, Death, died, vanished, with_context, with_more_lines
from ghapp.health.deaths.runner_log import read_runner_log
from ghapp.report.health_document import timestamp

__all__ = [
    "MOST_LINES",
    "Cause",
    "Classification",
    "DeadJob",
    "Death",
    "blames_the_platform",
    "classify",
    "died",
    "document",
    "sentences",
    "vanished",
    "with_context",
    "with_more_lines",
]

FAILED = frozenset({"failure", "timed_out"})
"""Conclusions of a job that failed, whoever's doing it was."""


def document(death: Death) -> dict[str, Any]:
    """A death as the contract shows it. A job that GitHub has not concluded has the conclusion null."""
    job = None if death.job is None else {**death.job._asdict(), "conclusion": death.job.conclusion or None}
    return {
        "runner_name": death.runner_name,
        "pod": death.pod,
        "node": death.node,
        "at": timestamp(death.at),
        "exit_code": death.exit_code,
        "signal": death.signal,
        "reason": death.reason,
        "cause": death.cause.value,
        "advice": death.advice,
        "job": job,
        "runner_log": list(death.runner_log),
        "host_log": list(death.host_log),
    }


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


def sentences(death: Death) -> tuple[str, str, str]:
    """For the developer: what happened, whether it was their code, and what the platform team should change.

    One sentence each, and honest where the job may have a part in it.
    """
    happened = HAPPENED[death.cause]
    where = f" on node {death.node}" if death.node else ""
    marks = [death.reason] if death.reason else []
    marks += [f"exit code {death.exit_code}"] if death.exit_code is not None else []
    marks += [f"signal {death.signal}"] if death.signal is not None else []
    told = f" ({', '.join(marks)})" if marks else ""
    return (
        f"{happened}: {death.runner_name}{where}{told}.",
        NOT_YOURS[death.cause],
        f"For the platform team: {death.advice}",
    )
