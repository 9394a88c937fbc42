"""Who is missing: from a look at the whole list, by way of each suspect's own GET, to the confirmation.

A list is a hint, a GET is proof, and one 404 only starts a clock. Every function here is pure; `jobs.runners.sweep` and
`jobs.runners.confirm` ask GitHub, and fold what these functions make of its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from ghapp.health.installation import Installation
from ghapp.health.runner import observations
from ghapp.health.runner.evidence import Evidence, Fold, Registration, Survey, with_blind_span
from ghapp.health.runner.verdict import (
    LONGEST_JOB_SECONDS,
    Limits,
    Reason,
    State,
    gone_since,
    is_absent,
    judge,
    may_run_an_unknown_job,
    runs_a_job,
)

MOST_ASKED = 200
"""Suspects asked for alone by one sweep: what a mass loss costs of the minute's points. Batches need no more."""

MOST_AHEAD_SECONDS = 3600.0
"""A confirmation is asked for at most this long before it is due."""

MOST_SAMPLED = 10
"""Runners asked for alone to tell whether an empty list is true."""

SLIPPED_SHARE = 0.1
"""A list that is off by more than this is not slipped but wrong."""


class GetResult(NamedTuple):
    """What GitHub said of one runner alone (None: 404), and when, by our clock: freshness and proof hang on it."""

    said: Registration | None
    at: float


class RunnerList(NamedTuple):
    """One look at an installation's whole list.

    Attributes:
        runners: whoever was listed, by id.
        total: how many GitHub says there are.
        flaw: why the list proves no absence; None when it is complete.
        slipped: it is complete but for a few that the fleet's own changes hid; whom it lacks, it may have overlooked.
    """

    runners: Mapping[int, Registration]
    total: int
    flaw: Reason | None = None
    slipped: bool = False


def allow_for_churn(look: RunnerList) -> RunnerList:
    """A look that is incomplete by a few is one that slipped.

    Offset pages slip whenever a runner comes or goes between two of them. In a fleet of thousands of ephemeral runners
    that is always, and whoever waited for a complete list would never miss anybody.
    """
    off = abs(look.total - len(look.runners))
    if look.flaw is not Reason.LIST_INCOMPLETE or off > SLIPPED_SHARE * look.total:
        return look
    return look._replace(flaw=None, slipped=True)


def is_doubtful(look: RunnerList, known: Mapping[int, Evidence], floor: int) -> bool:
    """True if a list is empty although the last one had more than `floor` runners: then GETs must decide."""
    return look.flaw is None and not look.runners and sum(each.listed for each in known.values()) > floor


def sample(known: Mapping[int, Evidence]) -> list[int]:
    """The ids of a few runners that the last list had: busy and online ones first, for their loss would be noticed."""
    listed = [each for each in known.values() if each.listed]
    listed.sort(key=lambda each: (not each.busy, not each.online, each.id))
    return [each.id for each in listed[:MOST_SAMPLED]]


def usable(
    look: RunnerList, sampled: Sequence[int] = (), answers: Mapping[int, GetResult] = MappingProxyType({})
) -> RunnerList:
    """The look as it may be used. A doubtful one is believed when GitHub denies each of the sampled runners alone.

    Even then it is a hint: each suspect is asked for alone, twice, and the fuse lets no more than one batch through.

    Args:
        look: the list, leniently.
        sampled: the runners that were asked for; none where the list is not doubtful.
        answers: to each of them; one that was not answered is missing.
    """
    if not sampled or all(each in answers and answers[each].said is None for each in sampled):
        return look
    return look._replace(flaw=Reason.LIST_EMPTY)


def survey_after(survey: Survey, look: RunnerList, at: float) -> Survey:
    """The survey after a look that was begun at `at`."""
    if look.flaw is not None:
        return survey_after_failure(survey, look.flaw, at)
    return Survey(at, look.total, blind=with_blind_span(survey, at))


def survey_after_failure(survey: Survey, reason: Reason, at: float) -> Survey:
    """The last complete list stays; since when and why there is none newer is added."""
    failing_since = survey.failing_since if survey.failing_since is not None and survey.failure == reason else at
    return replace(survey, failing_since=failing_since, failure=reason)


def folds_of_list(look: RunnerList, known: Mapping[int, Evidence], survey: Survey, at: float) -> dict[int, Fold]:
    """What a look says of each runner that was listed; and, unless it is flawed, of each that was not.

    `survey` is the one before this look.
    """
    usable = look.flaw is None
    found: dict[int, Fold] = {
        runner_id: partial(_listed, seen_as=runner, at=at, usable=usable) for runner_id, runner in look.runners.items()
    }
    if usable:
        bearers = {runner.name: runner.id for runner in look.runners.values()}
        miss = partial(observations.missing_from_partial_list, survey=survey) if look.slipped else observations.unlisted
        for runner_id, evidence in known.items():
            if runner_id not in look.runners and evidence.registered:
                missed = partial(miss, at=at, total=look.total)
                found[runner_id] = partial(_unlisted, missed=missed, successor=bearers.get(evidence.name))
    return found


def folds_of_get(answer: Registration | None, at: float) -> Fold:
    """What a suspect's own GET says: its registration, or None for a 404."""
    if answer is not None:
        return partial(observations.registration_seen, seen=answer, at=at, listed=False)
    return lambda evidence: None if evidence is None else observations.get_missed(evidence, at)


def not_yet_queried(records: Iterable[Evidence], survey: Survey, now: float, limits: Limits) -> list[int]:
    """The ids of the suspects that were never asked for alone: those missing for longest, and not too many at once.

    The others wait for the next look. They count as lost for the fuse all the same. One that runs a job is not asked
    for while the delivery that ends it may be on its way.
    """
    found = [
        each
        for each in suspects(records, survey, now, limits)
        if each.missing_at is None and not (runs_a_job(each, now) and now - gone_since(each) < limits.startup_seconds)
    ]
    found.sort(key=lambda each: (gone_since(each), each.id))
    return [each.id for each in found[:MOST_ASKED]]


def due(records: Iterable[Evidence], survey: Survey, now: float, limits: Limits) -> dict[int, Evidence]:
    """The suspects whose first 404 is `confirm_seconds` old; longer, where one may still be at work."""
    return {
        each.id: each
        for each in suspects(records, survey, now, limits)
        if each.missing_at is not None and now - each.missing_at >= _patience(each, limits)
    }


def confirm_at(records: Iterable[Evidence], survey: Survey, now: float, limits: Limits) -> list[float]:
    """When confirmations are due: one time for all that are overdue, and one for each later look.

    What is due days from now is left to the sweeps of that day.
    """
    missing = [each for each in suspects(records, survey, now, limits) if each.missing_at is not None]
    times = {max(now, (each.missing_at or now) + _patience(each, limits)) for each in missing}
    return sorted(at for at in times if at - now <= MOST_AHEAD_SECONDS)


def _patience(evidence: Evidence, limits: Limits) -> float:
    """How old its first 404 must be, in seconds.

    One that GitHub last called busy, and of whose job no delivery told, may be at work without its registration. Nobody
    can be asked whether its job is over: it is left alone for as long as the longest job runs, unless the cluster shows
    that its process ended.
    """
    return LONGEST_JOB_SECONDS if may_run_an_unknown_job(evidence) else limits.confirm_seconds


def suspects(records: Iterable[Evidence], survey: Survey, now: float, limits: Limits) -> list[Evidence]:
    """Those that are absent, and not confirmed as lost."""
    return [each for each in records if is_absent(each) and judge(each, survey, now, limits).state is State.SUSPECT]


def is_sane(known: Installation, now: Installation) -> bool:
    """Whether a 404 can be believed: the same account under the same name, not suspended, and still permitted."""
    same = now.account_id == known.account_id and now.called == known.called
    return same and not now.suspended and now.may("organization_self_hosted_runners", "read")


def may_rely_on(asked_at: float, suspects: Iterable[Evidence], now: float, memory_seconds: float) -> bool:
    """Whether an earlier answer about the installation may stand for a new one in a confirmation of these suspects.

    It may be some seconds old, and only if the question was sent after the first 404 of every suspect. So the order of
    the proof stays: first 404, sane installation, control list, second 404. What changes within those seconds confirms
    nobody: a list under a lost permission, a suspension, or an old name is refused or 404, and a confirmation without
    a complete list ends with nothing confirmed.

    Args:
        asked_at: when the question was sent (epoch seconds, our clock).
        suspects: whose absence is to be confirmed.
        now: epoch seconds.
        memory_seconds: how old the answer may be.
    """
    first_404s = [each.missing_at for each in suspects if each.missing_at is not None]
    return 0 <= now - asked_at <= memory_seconds and all(asked_at >= at for at in first_404s)


def why_unusable(control: RunnerList, survey: Survey) -> Reason | None:
    """Why a control list proves nothing, or None: it is incomplete, or empty where there were runners.

    One that slipped will do, where each suspect's own name is asked for as well.
    """
    if control.flaw is not None:
        return control.flaw
    return Reason.LIST_EMPTY if not control.runners and survey.total > 0 else None


def needs_own_get(due: Iterable[Evidence], control: RunnerList) -> list[Evidence]:
    """Those whose own GET must decide: the control list lacks them, and nothing else speaks for them.

    A running job does, and so does a registration that bears its name: such a one is not lost, whatever a GET
    would say.
    """
    names = {runner.name for runner in control.runners.values()}
    return [
        each for each in due if each.id not in control.runners and each.running_job is None and each.name not in names
    ]


def wants_whole_list(due: Collection[Evidence], survey: Survey, per_page: int) -> bool:
    """Whether the whole list is the cheaper control: else each suspect's own name is listed, and the first page."""
    return -(-survey.total // per_page) <= len(due)


def confirmed(answer: Registration | None, at: float) -> Fold:
    """What the last GET says of a suspect whose absence was confirmed in every other way."""
    if answer is not None:
        return partial(observations.registration_seen, seen=answer, at=at, listed=False)
    return lambda evidence: None if evidence is None else observations.absence_confirmed(evidence, at)


def _listed(evidence: Evidence | None, seen_as: Registration, at: float, usable: bool) -> Evidence:
    """Lists lag: one that shows a lost runner that was removed a moment ago is older than the loss.

    Believed, it would be lost, and replaced, a second time. Its own GET is believed at once.
    """
    removed_at = None if evidence is None or evidence.confirmed_at is None else evidence.removed_at
    if evidence is not None and removed_at is not None and at <= removed_at + observations.LIST_LAG_SECONDS:
        return evidence
    return observations.registration_seen(evidence, seen_as, at, listed=usable)


def _unlisted(
    evidence: Evidence | None, missed: Callable[[Evidence], Evidence], successor: int | None
) -> Evidence | None:
    if evidence is None:
        return None
    absent = missed(evidence)
    return absent if successor is None else observations.reregistered(absent, successor)
