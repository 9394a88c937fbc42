"""Whether a sweep may keep the judgement of the one before it, and read no record. Pure; times are epoch seconds.

A quiet fleet gives the same list and has the same records as at the sweep before, and to read and judge them again is
half of the cost of a sweep. Three conditions make it superfluous:

- The list is the same, byte for byte.
- No record of a runner or a job was written since; `incidents.store.SettledSweeps` keeps that.
- Time alone changes nothing until the next step of the history begins: no runner awaits a GET, a confirmation, a
  replacement or a view of the cluster, and each one's state at the end of the step is its state now.

The first sweep of each step reads all records. So what is not urgent and waits for time alone, such as the deletion
of old records, is at most five minutes late.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from ghapp.incidents.history import STEP_SECONDS, step_of
from ghapp.remediation.decision import is_undisturbed
from ghapp.runners.evidence import Evidence, Survey, is_absent
from ghapp.runners.verdict import Limits, State, judge


class Settled(NamedTuple):
    """The last sweep that judged all records and left nothing to wait for. Fields are only ever appended.

    Attributes:
        at: when it was begun (epoch seconds).
        digest: of the list that it read.
        at_rest: True if no runner gives a plan anything to do (`remediation.decision.are_at_rest`).
    """

    at: float
    digest: bytes
    at_rest: bool = False


def holds(settled: Settled | None, digest: bytes, at: float) -> bool:
    """True if a sweep begun at `at` that read a list with this digest may keep the judgement."""
    return settled is not None and settled.digest == digest and step_of(settled.at) == step_of(at)


def is_settled(runners: Iterable[Evidence], survey: Survey, at: float, limits: Limits) -> bool:
    """True if time alone changes no runner's state before the end of the step.

    Args:
        runners: all records, after a sweep begun at `at`.
        survey: of that sweep.
        at: of that sweep.
        limits: of the judgement.
    """
    end = float(step_of(at) + STEP_SECONDS)
    then = replace(survey, swept_at=end)  # lists until then are the same, and observe each runner as this one did
    return all(_is_settled(each, survey, at, then, end, limits) for each in runners if not is_undisturbed(each))


def _is_settled(evidence: Evidence, survey: Survey, at: float, then: Survey, end: float, limits: Limits) -> bool:
    now = judge(evidence, survey, at, limits).state
    is_done = now is State.RETIRED or (now is State.INVALIDATED and evidence.replaced_at is not None)
    if is_absent(evidence) and not is_done:
        return False
    return judge(evidence, then, end, limits).state is now
