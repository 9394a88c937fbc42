"""What the steps of a job that ended badly show, reduced to three facts. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import dropwhile
from typing import NamedTuple

from ghapp.untrusted_text import one_line

FAILED = ("failure", "timed_out")

LONGEST_STEP = 60

PREPARATION = ("Set up job", "Set up runner", "Initialize containers")
"""The runner's own steps before the first step of the job, in their order, each at most once: its set-up, its hook, the
job's containers."""


class StepState(NamedTuple):
    """A step as GitHub reports it.

    Attributes:
        number: its place in the job, from 1.
        status: `queued`, `in_progress`, `completed`.
        conclusion: None until the step has ended.
        started: True if GitHub has the time of its start.
        name: its name.
    """

    number: int
    status: str
    conclusion: str | None = None
    started: bool = False
    name: str = ""


class JobSteps(NamedTuple):
    """The steps of a job that is over. Stored with the job: fields are only ever appended.

    Attributes:
        failed: one of them ended by itself with a failure.
        left_open: one of them began, and its end was never reported: the runner stopped reporting.
        begun: one of the job's own steps had begun, or GitHub reports no steps at all, which proves nothing.
        failed_steps: how many ended by themselves with a failure; 0 in records that have only `failed`.
        failed_step: name of the first of them, at most `LONGEST_STEP` characters; empty if none failed, or it has none.
    """

    failed: bool = False
    left_open: bool = False
    begun: bool = True
    failed_steps: int = 0
    failed_step: str = ""

    @property
    def failures(self) -> int:
        """How many steps failed, at least."""
        return max(self.failed_steps, int(self.failed))


def job_steps(steps: Iterable[StepState]) -> JobSteps:
    """Returns what the steps of a job that is over show."""
    known = list(steps)
    failed = sorted((step for step in known if step.conclusion in FAILED), key=lambda step: step.number)
    return JobSteps(
        failed=bool(failed),
        left_open=any(step.conclusion is None and (step.status == "in_progress" or step.started) for step in known),
        begun=not known or any(_has_begun(step) for step in _without_preparation(known)),
        failed_steps=len(failed),
        failed_step=one_line(failed[0].name, LONGEST_STEP) if failed else "",
    )


def _without_preparation(steps: list[StepState]) -> Iterable[StepState]:
    """Returns the steps after the runner's own first ones; another step of the same name is the job's."""
    expected = iter(PREPARATION)  # a name that was found is passed, and not found again
    ordered = sorted(steps, key=lambda step: step.number)
    return dropwhile(lambda step: step.name in expected or (step.number == 1 and not step.name), ordered)


def _has_begun(step: StepState) -> bool:
    """True if a step began; a completed step counts unless it was skipped."""
    if step.conclusion == "skipped":
        return False
    return step.started or step.status in ("in_progress", "completed")
