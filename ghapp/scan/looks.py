"""What two complete lists of runners show, some seconds apart. Pure; times are epoch seconds.

The lists are folded into evidence as a sweep folds them, and `judge` decides. Only its limits differ: what two lists
show alike has been so for the time between them, which is all that a scan can know. So a runner that both list as
offline is offline, and one that only the second lists as offline has just gone offline or has just been registered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from ghapp.pods.assigned_job import JobOfRun, job_observed
from ghapp.runners.absence import GetResult, RunnerList, allow_for_churn, folds_of_get, folds_of_list, survey_after
from ghapp.runners.evidence import Evidence, Survey, is_absent
from ghapp.runners.verdict import Limits, Reason, State, Verdict, is_spent, judge

LONGEST_GAP_SECONDS = 300.0
"""Between the two lists: more is not covered by them."""


class Look(NamedTuple):
    """One list of all runners of a scope, and when it was begun."""

    runner_list: RunnerList
    at: float


class ListDifference(StrEnum):
    """How two lists differ about a runner. A runner that becomes busy or idle is as it should be."""

    CAME = "came"
    """Only the second list has it."""
    LEFT = "left"
    """Only the first list has it, and it left as runners do: its job is over, or it registered again."""
    MISSING = "missing"
    """Only the first list has it, and nothing known explains that."""
    UNLISTED = "unlisted"
    """Only the first list has it, and GitHub returns it when it is asked for that runner."""
    WENT_OFFLINE = "went-offline"
    CAME_ONLINE = "came-online"


class ScannedRunner(NamedTuple):
    """A runner of one of the lists: its evidence, its verdict, and how the lists differ about it."""

    evidence: Evidence
    verdict: Verdict
    change: ListDifference | None = None


class Observed(NamedTuple):
    """What both lists together show.

    Attributes:
        runners: by id; also those that have left between the lists.
        survey: of the lists.
        gap: seconds from the first list to the last one.
        at: when the last list was begun, the time of the verdicts.
        flaws: why lists prove no absence, of those that do not.
        hidden: number of runners that GitHub counts and that the last list does not show: their rows cannot be read, or
            moved between two pages.
    """

    runners: Mapping[int, ScannedRunner]
    survey: Survey
    gap: float
    at: float
    flaws: tuple[Reason, ...] = ()
    hidden: int = 0

    @property
    def evidence(self) -> list[Evidence]:
        """The evidence of all runners."""
        return [each.evidence for each in self.runners.values()]


def verdict_of(evidence: Evidence, survey: Survey, at: float, gap: float) -> Verdict:
    """Returns a runner's state at `at`, the time of the last list, `gap` seconds after the first one.

    An ephemeral runner is registered before its machine or pod starts: only a longer gap distinguishes one that is
    offline from one that is about to come online.
    """
    patience = gap / 2
    if evidence.ephemeral and not is_absent(evidence):
        patience = max(patience, Limits().startup_seconds)
    return judge(evidence, survey, at, Limits(startup_seconds=patience, offline_seconds=patience))


def fold_lists(looks: Sequence[Look]) -> tuple[dict[int, Evidence], Survey]:
    """Returns the evidence of lists, the oldest first, and their survey."""
    known: dict[int, Evidence] = {}
    survey = Survey()
    for look in looks:
        runner_list = allow_for_churn(look.runner_list)
        for runner_id, fold in folds_of_list(runner_list, known, survey, look.at).items():
            evidence = fold(known.get(runner_id))
            if evidence is not None:
                known[runner_id] = evidence
        survey = survey_after(survey, runner_list, look.at)
    return known, survey


def to_ask_for(looks: Sequence[Look], most: int) -> list[int]:
    """Returns the ids of runners that the last list lacks and whose absence nothing explains, `most` of them.

    Persistent runners come first: an ephemeral one that was idle may have run a short job.
    """
    last = looks[-1].runner_list
    known, _ = fold_lists(looks)
    missing = [
        each
        for each in known.values()
        if each.id not in last.runners and each.id not in last.unreadable and not is_spent(each)
    ]
    missing.sort(key=lambda each: (each.ephemeral is not False, each.busy, each.id))
    return [each.id for each in missing[:most]]


def observed(looks: Sequence[Look], answers: Mapping[int, GetResult], jobs: Iterable[JobOfRun] = ()) -> Observed:
    """Judges what the lists show, with GitHub's answers about single runners and the jobs that name a runner.

    Args:
        looks: one or two lists, the older one first.
        answers: by runner.
        jobs: of any repository; those of other scopes' runners change nothing.
    """
    known, survey = fold_lists(looks)
    at, gap = looks[-1].at, looks[-1].at - looks[0].at
    for runner_id, answer in answers.items():
        evidence = folds_of_get(answer.registration, answer.at, survey)(known.get(runner_id))
        if evidence is not None:
            known[runner_id] = evidence
    for found in sorted(jobs, key=lambda each: each.job.id):
        evidence = known.get(found.job.runner_id or 0)
        if evidence is not None and evidence.name == found.job.runner_name:
            known[evidence.id] = job_observed(evidence, found, at)
    lists = [allow_for_churn(look.runner_list) for look in looks]
    scanned = {}
    for runner_id, evidence in known.items():
        verdict = verdict_of(evidence, survey, at, gap)
        scanned[runner_id] = ScannedRunner(evidence, verdict, _change(lists, runner_id, verdict, answers))
    flaws = tuple(each.flaw for each in lists if each.flaw is not None)
    return Observed(scanned, survey, gap, at, flaws, max(0, lists[-1].total - len(lists[-1].runners)))


def _change(
    lists: Sequence[RunnerList], runner_id: int, verdict: Verdict, answers: Mapping[int, GetResult]
) -> ListDifference | None:
    """Returns how two lists differ about a runner; a list that is not complete proves no absence."""
    if len(lists) == 1 or any(runner_id in each.unreadable for each in lists):
        return None
    before, after = (each.runners.get(runner_id) for each in lists)
    if before is None:
        return ListDifference.CAME if lists[0].flaw is None and not lists[0].churned else None
    if after is None:
        if verdict.state in (State.SUSPECT, State.RETIRED):
            return ListDifference.MISSING if verdict.state is State.SUSPECT else ListDifference.LEFT
        was_found = runner_id in answers and answers[runner_id].registration is not None
        return ListDifference.UNLISTED if was_found else None
    if before.online == after.online:
        return None
    return ListDifference.CAME_ONLINE if after.online else ListDifference.WENT_OFFLINE
