"""Records what a sweep's list shows: observes, judges and queries the runners, and confirms those that are due."""

from __future__ import annotations

from asyncio import gather
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ghapp.errors import GitHubError
from ghapp.github.runner_list import ListResult, get_each
from ghapp.incidents.history import HistorySample, sample, sample_without_list
from ghapp.incidents.settled import Settled, is_settled
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.pods.observed_remains import by_namespace
from ghapp.queue.jobs import enqueue_versions
from ghapp.remediation.decision import are_at_rest
from ghapp.report.remaining_losses import RemainingLosses
from ghapp.runners import absence
from ghapp.runners.absence import NO_ABSENT_RUNNERS, AbsentRunners, GetResult, RunnerList
from ghapp.runners.evidence import Evidence, Survey, is_absent
from ghapp.runners.next_attempt import blindness_of
from ghapp.runners.outdated import refusals, version_ended
from ghapp.runners.remains import RemainsKind
from ghapp.store.presses import FAILED
from ghapp.versions.lifetime import EndDates, ended_versions, versions_to_ask
from ghapp.wording import counted
from jobs.context import JobContext
from jobs.delivery_gaps import expect_deliveries
from jobs.failed_calls import record_failed_calls
from jobs.history.times import count_heals
from jobs.installations.forget import forget_outdated
from jobs.pods.remains import observe_remains
from jobs.remediation.job_lookup import look_up_jobs
from jobs.runners.confirm import confirm_listed, prepare_confirmation


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The result and the cost of a sweep, and when the next steps are due.

    Attributes:
        org: the organization.
        runners: how many were listed.
        suspects: how many are absent and not confirmed as lost.
        calls: requests sent.
        billable: requests that count against the hourly limit.
        milliseconds: from the first request to the record.
        changed: pages that changed since the last list; 0 if that is unknown.
        changed_pages: the mean of that, the expected cost of the next sweep, for suspects are queried once.
        flaw: why the list proves no absence; empty when it is complete.
        confirm_at: when suspects are due for confirmation (epoch seconds).
        left: calls left until the reset, up to the share that sweeps may use.
        next_in: seconds from this sweep to the next.
        at_rest: True if no runner gives a plan anything to do.
        repeats: how many sweeps, this one included, kept the judgement of an earlier one (`incidents.settled`).
        deferred: True if the sweep sent nothing, and waits for its turn.
        losses: the runners that remain lost after it; None if nothing waits for its outcome.
        absent: the names of the suspects.
    """

    org: str
    runners: int
    suspects: int
    calls: int
    billable: int
    milliseconds: float
    changed: int = 0
    changed_pages: float = 0.0
    flaw: str = ""
    confirm_at: tuple[float, ...] = ()
    left: int = 0
    next_in: float = 0.0
    at_rest: bool = False
    repeats: int = 0
    deferred: bool = False
    losses: RemainingLosses | None = None
    absent: AbsentRunners = NO_ABSENT_RUNNERS

    @property
    def outcome(self) -> str:
        """What it found and what remains lost, in words: of "Sweep now"."""
        calls = counted(self.calls, "call")
        found = f"found {self.absent.in_words}, {calls}"
        if self.flaw:
            asked = calls if self.calls else "GitHub was not asked"
            meaning = blindness_of(self.flaw, self.org).meaning
            found = f"{FAILED}{meaning} ({self.flaw}); nothing is confirmed, removed or replaced by it, {asked}"
        return f"{found}; {self.losses.in_words}" if self.losses is not None and self.losses.runners else found

    def logged(self) -> dict[str, object]:
        """Returns what the log has of it."""
        return {
            "org": self.org,
            "runners": self.runners,
            "suspects": self.suspects,
            "calls": self.calls,
            "billable": self.billable,
            "milliseconds": round(self.milliseconds),
            "flaw": self.flaw,
            "left": self.left,
            "next_in": round(self.next_in),
        }


async def record_list(
    context: JobContext,
    installation: Installation,
    observation: ListResult,
    survey: Survey,
    began: float,
    due_at: float | None,
    *,
    act: bool,
) -> tuple[SweepResult, HistorySample]:
    """Records the listed and the missing runners, queries GitHub for each suspect, and confirms those that are due.

    It enqueues the job that asks for the end dates of their versions, if one is due.

    Args:
        context: the context of the job.
        installation: the installation.
        observation: the list.
        survey: of the sweep before.
        began: when the list was begun (epoch seconds).
        due_at: when it was due; None: unknown.
        act: False: confirms no runner.

    Returns:
        What was found, and what it adds to the history.
    """
    limits, rules = context.settings.of(installation.org).evidence, context.settings.pools_of(installation.org)
    await context.settled.begin(installation.id)
    listed, sampled, after, records, end_dates = await _fold_list(
        context, installation, observation, survey, began, due_at
    )
    listed_at = context.clock()  # listing took time, and the watch's views may be newer than its start
    records |= await _read_cluster(context, installation, records.values(), listed_at)
    queried = absence.not_yet_queried(records.values(), after, began, limits)
    queried += absence.possibly_hidden(records.values(), listed, began)
    soon = listed_at + absence.AHEAD_SECONDS
    due = absence.due_in_sweep(records.values(), listed, after, began, soon, limits) if act else {}
    failures: dict[int, GitHubError] = {}
    answers, _ = await gather(
        _get_alone(context, installation, queried, failures), prepare_confirmation(context, installation, due.values())
    )
    at = context.clock()  # of GitHub's answers
    answered = {each: absence.folds_of_get(*result) for each, result in {**sampled, **answers}.items()}
    records |= await context.runners.revise(installation.id, answered, records)
    records |= await record_failed_calls(context, installation, failures)
    await context.runners.save_survey(installation.id, after)
    records |= await confirm_listed(context, installation, due, listed)
    records |= await count_heals(context, installation, records.values(), after, at)
    jobs = await forget_outdated(context, installation, records.values(), after, at, limits)
    seen = sample_without_list(after, began)
    if listed.flaw is None:
        seen = sample(records.values(), jobs, after, limits, rules, began, survey.swept_at)
        seen = seen._replace(repeats=survey.repeats, repeated_at=survey.swept_at or began)
    at_rest = are_at_rest(records.values(), after, rules, at, limits)
    settled = Settled(began, observation.digest, at_rest)
    if _is_quiet(context, installation, listed, records, after, settled):
        await context.settled.keep(installation.id, settled)
    if versions_to_ask(Counter(each.version for each in listed.runners.values()), end_dates, at):
        enqueue_versions(context.queue_redis, installation.id)
    missing = absence.suspects(records.values(), after, at, limits)
    swept = SweepResult(
        org=installation.org,
        runners=len(listed.runners),
        suspects=len(missing),
        calls=observation.calls + len(answers),
        billable=observation.billable + len(answers),
        milliseconds=(context.clock() - began) * 1000,
        changed=observation.changed or 0,
        changed_pages=after.changed_pages,
        flaw=listed.flaw or "",
        confirm_at=tuple(absence.confirm_at(missing, after, at, limits)),
        at_rest=at_rest,
        absent=absence.absent_runners(missing, at, limits),
    )
    return swept, seen


class FoldedList(NamedTuple):
    """A list as far as it is believed, and the records after it.

    Attributes:
        listed: the list.
        sampled: the runners that GETs found although the list is empty.
        survey: of this sweep.
        records: of all runners, by id.
        end_dates: when GitHub ends their versions, as far as it is known.
    """

    listed: RunnerList
    sampled: dict[int, GetResult]
    survey: Survey
    records: dict[int, Evidence]
    end_dates: Mapping[str, EndDates]


async def _fold_list(
    context: JobContext,
    installation: Installation,
    observation: ListResult,
    survey: Survey,
    began: float,
    due_at: float | None,
) -> FoldedList:
    """Folds a list into the records of all runners that it shows or lacks."""
    known, end_dates = await gather(context.runners.all(installation.id), context.runner_versions.all(installation.id))
    listed, sampled = await _verified(context, installation, observation.runner_list, known)
    known = await _without_others_ids(context, installation, listed, known)
    after = absence.survey_after(survey, listed, began, observation.changed, due_at)
    folds = absence.folds_of_list(listed, known, survey, began)
    records = {**known, **await context.runners.revise(installation.id, folds, known)}
    records |= await _mark_outdated(context, installation, records, end_dates, began)
    await expect_deliveries(context, installation, records.values())
    return FoldedList(listed, sampled, after, records, end_dates)


async def keep_judgement(
    context: JobContext,
    installation: Installation,
    observation: ListResult,
    survey: Survey,
    settled: Settled,
    began: float,
    due_at: float | None,
) -> SweepResult:
    """Records that list and records are those that the sweep of `settled` judged; reads no record."""
    after = absence.survey_after(survey, observation.runner_list, began, observation.changed, due_at)
    after = replace(after, repeats=survey.repeats + 1)
    await context.runners.save_survey(installation.id, after)
    return SweepResult(
        org=installation.org,
        runners=len(observation.runner_list.runners),
        suspects=0,
        calls=observation.calls,
        billable=observation.billable,
        milliseconds=(context.clock() - began) * 1000,
        changed=observation.changed or 0,
        changed_pages=after.changed_pages,
        at_rest=settled.at_rest,
        repeats=after.repeats,
    )


async def _without_others_ids(
    context: JobContext, installation: Installation, listed: RunnerList, known: dict[int, Evidence]
) -> dict[int, Evidence]:
    """Deletes records of jobs on another scope's runners with the ids of runners that are first listed here.

    Deliveries name a runner by its id and name alone, and each scope gives its own ids: without this, the jobs of the
    other one would explain why this one left.
    """

    def is_anothers(evidence: Evidence) -> bool:
        here = listed.runners.get(evidence.id)
        return here is not None and not evidence.registered and evidence.name != here.name

    def fold(evidence: Evidence | None) -> Evidence | None:
        return None if evidence is None or is_anothers(evidence) else evidence

    others = [each.id for each in known.values() if is_anothers(each)]
    if not others:
        return known
    await context.runners.revise(installation.id, dict.fromkeys(others, fold))
    return {runner_id: each for runner_id, each in known.items() if runner_id not in others}


async def _mark_outdated(
    context: JobContext,
    installation: Installation,
    records: Mapping[int, Evidence],
    end_dates: Mapping[str, EndDates],
    began: float,
) -> dict[int, Evidence]:
    """Records which ephemeral runners get no jobs because of their version: they end without one."""
    runners, limits = records.values(), context.settings.of(installation.org).versions
    ended = ended_versions(runners, end_dates, limits, began, refusals(runners))

    def fold(evidence: Evidence | None) -> Evidence | None:
        if evidence is None or evidence.version not in ended:
            return evidence
        return version_ended(evidence, ended[evidence.version])

    outdated = [each.id for each in runners if each.version in ended and fold(each) is not each]
    return await context.runners.revise(installation.id, dict.fromkeys(outdated, fold), records) if outdated else {}


async def _verified(
    context: JobContext, installation: Installation, observed: RunnerList, known: Mapping[int, Evidence]
) -> tuple[RunnerList, dict[int, GetResult]]:
    """Returns the list as far as it is believed, and the runners that GETs found although it is empty."""
    listed = absence.as_last_read(absence.allow_for_churn(observed), known)
    if not absence.is_doubtful(listed, known, context.settings.of(installation.org).fuse.floor):
        return listed, {}
    sampled = absence.sample(known)
    answers = await _get_alone(context, installation, sampled)
    return absence.usable(listed, sampled, answers), absence.found(answers)


def _is_quiet(
    context: JobContext,
    installation: Installation,
    listed: RunnerList,
    records: Mapping[int, Evidence],
    survey: Survey,
    settled: Settled,
) -> bool:
    """True if the list is complete, and neither the time nor the cluster changes what it shows."""
    policy, rules = context.settings.of(installation.org), context.settings.pools_of(installation.org)
    if listed.flaw is not None or listed.churned or by_namespace(_still_in_cluster(records.values()), rules):
        return False
    return is_settled(records.values(), survey, settled.at, policy.evidence)


async def _read_cluster(
    context: JobContext, installation: Installation, records: Iterable[Evidence], now: float
) -> dict[int, Evidence]:
    """Records what the watch shows of absent runners, and what GitHub answers about the jobs that the cluster names.

    A runner without remaining objects is not looked up again.
    """
    folds = await observe_remains(context, installation, _still_in_cluster(records), now)
    if not folds:
        return {}
    seen_there = await context.runners.revise(installation.id, folds)
    await look_up_jobs(context, installation, seen_there.values())
    return await context.runners.some(installation.id, seen_there)


def _still_in_cluster(records: Iterable[Evidence]) -> list[Evidence]:
    """Returns the absent runners whose objects the cluster may still have."""
    return [
        each
        for each in records
        if is_absent(each) and not (each.remains is not None and each.remains.kind is RemainsKind.NOTHING)
    ]


async def _get_alone(
    context: JobContext,
    installation: Installation,
    runner_ids: list[int],
    failures: dict[int, GitHubError] | None = None,
) -> dict[int, GetResult]:
    if not runner_ids:
        return {}
    installation_client = await context.installation_client(installation, Purpose.ACT)
    concurrency = context.settings.of(installation.org).sweep.concurrency
    return await get_each(installation_client, runner_ids, concurrency, context.clock, failures)
