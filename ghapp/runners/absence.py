"""Finds missing runners: from the list of all runners, by a GET of each suspect, to the confirmation.

A list is a hint, a GET is proof, and a single 404 only starts a clock. Every function here is pure;
`jobs.runners.sweep` and `jobs.runners.confirm` call GitHub and fold the results of these functions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from ghapp.installations.installation import Installation
from ghapp.installations.pacing import mean_changed
from ghapp.runners import observations
from ghapp.runners.evidence import (
    STALE_LIST_SECONDS,
    Evidence,
    Fold,
    Registration,
    Survey,
    covered_seconds,
    is_absent,
    looks_hosted,
    missing_since,
    with_blind_span,
    with_gap,
)
from ghapp.runners.failed_calls import call_answered, doubled, may_call, retry_at
from ghapp.runners.verdict import Limits, Reason, State, judge, runs_a_job, unknown_job_seconds
from ghapp.untrusted_text import LONGEST_WORD, one_line
from ghapp.wording import bounded, counted

MOST_ASKED = 200
"""Maximum GETs of suspects per sweep: the share of the minute's points a mass loss may cost. Batches need no more."""

MOST_JOBS = 20
"""Maximum jobs of suspects that one confirmation asks about."""

LOOKUP_SECONDS = (60.0, 960.0)
"""Time from one question about a job to the next: at first, and the maximum; doubled in between."""

RUNNERS_A_GET = 1000
"""A list with page churn is followed by one GET for so many runners: a tenth of what the list costs."""

MOST_AHEAD_SECONDS = 3600.0
"""A confirmation is scheduled at most this long before it is due."""

AHEAD_SECONDS = 2.0
"""A confirmation includes suspects that are due so soon: it waits for them once its control list is read."""

MOST_SAMPLED = 10
"""Number of GETs that verify an empty list."""

SLIPPED_SHARE = 0.1
"""A list that misses GitHub's count by a greater share is wrong, not affected by page churn."""


class GetResult(NamedTuple):
    """GitHub's answer to a GET of one runner (None: 404) and its time by our clock, which dates freshness and proof."""

    registration: Registration | None
    at: float


class RunnerList(NamedTuple):
    """The result of listing all runners of an installation.

    Attributes:
        runners: listed runners by id.
        total: GitHub's own count.
        flaw: why the list proves no absence; None if it is complete.
        churned: complete except for a few runners hidden by page churn; a missing runner may be one of these.
        unreadable: ids of listed runners whose rows cannot be read; see `as_last_read`.
    """

    runners: Mapping[int, Registration]
    total: int
    flaw: Reason | None = None
    churned: bool = False
    unreadable: frozenset[int] = frozenset()


def as_last_read(look: RunnerList, known: Mapping[int, Evidence]) -> RunnerList:
    """Returns the list with its unreadable rows as GitHub last showed those runners.

    Such a runner is registered: it is not missing, and nothing else is known to have changed. A runner that was never
    read stays unreadable.
    """
    read = {each: _as_last_read(known[each]) for each in look.unreadable & known.keys() if known[each].registered}
    if not read:
        return look
    return look._replace(runners={**look.runners, **read}, unreadable=look.unreadable - read.keys())


def _as_last_read(evidence: Evidence) -> Registration:
    return Registration(
        evidence.id,
        evidence.name,
        evidence.os,
        evidence.online,
        evidence.is_busy,
        evidence.labels,
        evidence.custom_labels,
        evidence.ephemeral,
        evidence.group_id,
        evidence.version,
    )


def allow_for_churn(look: RunnerList) -> RunnerList:
    """Marks a list that is incomplete by a few runners as churned instead of flawed.

    Offset pages shift whenever a runner comes or goes between two pages. In a fleet of thousands of ephemeral runners
    every list shifts, so that waiting for a complete list would never detect a loss.
    """
    off = abs(look.total - len(look.runners) - len(look.unreadable))
    if look.flaw is not Reason.LIST_INCOMPLETE or off > SLIPPED_SHARE * look.total:
        return look
    return look._replace(flaw=None, churned=True)


def is_doubtful(look: RunnerList, known: Mapping[int, Evidence], floor: int) -> bool:
    """True if a list is empty although the previous list had more than `floor` runners; GETs must decide then."""
    return look.flaw is None and not look.runners and sum(each.listed for each in known.values()) > floor


def sample(known: Mapping[int, Evidence]) -> list[int]:
    """Returns the ids of a few runners of the last list, busy and online runners first: their loss matters most."""
    listed = [each for each in known.values() if each.listed]
    listed.sort(key=lambda each: (not each.busy, not each.online, each.id))
    return [each.id for each in listed[:MOST_SAMPLED]]


def usable(
    look: RunnerList, sampled: Sequence[int] = (), answers: Mapping[int, GetResult] = MappingProxyType({})
) -> RunnerList:
    """Returns the list, flawed as `ListEmpty` unless GETs of all sampled runners answered 404.

    A verified empty list is still a hint: each suspect gets two GETs, and the fuse allows only one batch.

    Args:
        look: the list after `allow_for_churn`.
        sampled: ids of the sampled runners; empty if the list is not doubtful.
        answers: the GET results by id; a GET without an answer is missing.
    """
    if not sampled or all(each in answers and answers[each].registration is None for each in sampled):
        return look
    return look._replace(flaw=Reason.LIST_EMPTY)


def found(answers: Mapping[int, GetResult]) -> dict[int, GetResult]:
    """Returns the answers that have a registration: what GitHub returns is recorded, whatever it was asked for."""
    return {runner_id: each for runner_id, each in answers.items() if each.registration is not None}


MOST_OWN_IMAGES = 100


def survey_after(
    survey: Survey, look: RunnerList, at: float, changed: int | None = None, due_at: float | None = None
) -> Survey:
    """Returns the survey after a list.

    Args:
        survey: before it.
        look: the list.
        at: when it was begun (epoch seconds).
        changed: as in `pacing.mean_changed`.
        due_at: when it was due; None: unknown.
    """
    changed_pages = mean_changed(survey.changed_pages, changed)
    if look.flaw is not None:
        return replace(survey_after_failure(survey, look.flaw, at), changed_pages=changed_pages)
    return Survey(
        at,
        look.total,
        blind=with_blind_span(survey, at),
        changed_pages=changed_pages,
        own_images=_own_images(survey, look),
        gaps=with_gap(survey, at, due_at),
    )


def _own_images(survey: Survey, look: RunnerList) -> tuple[str, ...]:
    """Returns the labels that look hosted and are ours, with those of this list: a fleet may be scaled to zero."""
    labels = set(chain.from_iterable(runner.custom_labels for runner in look.runners.values()))
    new = {label.lower() for label in labels if looks_hosted(label)}.difference(survey.own_images)
    return survey.own_images if not new else tuple(sorted({*survey.own_images, *new})[:MOST_OWN_IMAGES])


def survey_after_failure(survey: Survey, reason: Reason, at: float) -> Survey:
    """Keeps the last complete list, and adds since when and why no newer list is available."""
    failing_since = survey.failing_since if survey.failing_since is not None and survey.failure == reason else at
    return replace(survey, failing_since=failing_since, failure=reason, deferred_since=None)


def survey_after_deferral(survey: Survey, at: float) -> Survey:
    """Keeps the survey, and adds since when the next sweep waits for its turn."""
    return survey if survey.deferred_since is not None else replace(survey, deferred_since=at)


class ListFolds(Mapping[int, Fold]):
    """A fold for each listed and each missing runner, by id.

    The fold of a listed runner is made when it is asked for: those of 100,000 runners would take 29 MB.
    """

    def __init__(self, look: RunnerList, missing: Mapping[int, Fold], at: float) -> None:
        self._listed, self._missing, self._at, self._usable = look.runners, missing, at, look.flaw is None

    def __getitem__(self, runner_id: int) -> Fold:
        runner = self._listed.get(runner_id)
        return self._missing[runner_id] if runner is None else partial(_listed, runner, self._at, self._usable)

    def __iter__(self) -> Iterator[int]:
        return chain(self._listed, self._missing)

    def __len__(self) -> int:
        return len(self._listed) + len(self._missing)


def folds_of_list(look: RunnerList, known: Mapping[int, Evidence], survey: Survey, at: float) -> Mapping[int, Fold]:
    """Returns a fold for each listed runner and, unless the list is flawed, for each missing runner.

    `survey` is the survey before this list.
    """
    absent = [each for each in known.values() if each.id not in look.runners and each.registered]
    if look.flaw is not None or not absent:
        return ListFolds(look, {}, at)
    ids_by_name = {runner.name: runner.id for runner in look.runners.values()}
    if look.churned:
        missed = partial(observations.missing_from_partial_list, at=at, survey=survey)
    else:
        missed = partial(observations.unlisted, at=at, total=look.total, survey=survey)
    missing = {each.id: partial(_unlisted, missed=missed, successor=ids_by_name.get(each.name)) for each in absent}
    return ListFolds(look, missing, at)


def folds_of_get(answer: Registration | None, at: float, survey: Survey | None = None) -> Fold:
    """Returns the fold for a runner's GET: its registration, or None for a 404. `survey` is the last one."""

    def fold(evidence: Evidence | None) -> Evidence | None:
        known = call_answered(evidence)
        if answer is not None:
            return observations.registration_seen(known, answer, at, by=observations.SeenBy.GET)
        return None if known is None else observations.get_missed(known, at, survey)

    return fold


def jobs_to_look_up(suspects: Iterable[Evidence], now: float) -> list[tuple[Evidence, int]]:
    """Returns suspects with the job that GitHub is asked about now, at most `MOST_JOBS`, asked longest ago first."""
    due = [(each, each.running_job) for each in suspects if is_job_lookup_due(each, now)]
    due.sort(key=lambda pair: (pair[0].job_looked_up_at or 0.0, pair[0].id))
    return [(each, job_id) for each, job_id in due[:MOST_JOBS] if job_id is not None]


def is_job_lookup_due(evidence: Evidence, now: float) -> bool:
    """True if GitHub may be asked again whether the runner's job is over.

    After each answer that it is not, the next question waits twice as long: 300 busy runners that are lost at once
    would spend the budget, and the deliveries of their jobs' ends say the same.
    """
    looked_up_at = evidence.job_looked_up_at
    if evidence.running_job is None or looked_up_at is None:
        return evidence.running_job is not None
    return not 0 <= now - looked_up_at < doubled(LOOKUP_SECONDS, evidence.job_lookups - 1)


def folds_of_control(control: RunnerList, absent: Collection[int], at: float) -> dict[int, Fold]:
    """Returns a fold for each runner that is recorded as absent and that a control list, begun at `at`, shows."""
    shown = ((each, control.runners[each]) for each in absent if each in control.runners)
    return {runner_id: partial(_listed, runner, at, False) for runner_id, runner in shown}


def not_yet_queried(records: Iterable[Evidence], survey: Survey, now: float, limits: Limits) -> list[int]:
    """Returns the ids of suspects without a GET so far: without a job first, then the longest missing; `MOST_ASKED`.

    The others wait for the next list. Each costs one GET, also while a job vouches for it: when that job fails, its 404
    shows what the job died of. A suspect that runs a job is skipped while the delivery of that job's end may be on its
    way; one whose GETs fail, until the next one is due.
    """
    found = [
        each
        for each in suspects(records, survey, now, limits)
        if (each.first_404_at is None or each.first_404_at > now)  # a first 404 in the future is none
        and not (runs_a_job(each, now) and now - missing_since(each) < limits.startup_seconds)
        and may_call(each, now)
    ]
    found.sort(key=lambda each: (runs_a_job(each, now), missing_since(each), each.id))
    return [each.id for each in found[:MOST_ASKED]]


def possibly_hidden(records: Iterable[Evidence], look: RunnerList, at: float) -> list[int]:
    """Returns the ids of runners that a list with page churn, begun at `at`, is the first to lack, and that GETs find.

    Such a list alone is no hint, and in a busy fleet every list is like that: a GET saves the wait for the next list.
    Runners with a job are left out, because most of them leave when it ends.
    """
    missed = [
        each.id
        for each in records
        if each.missing_from_partial_list_at == at
        and not is_absent(each)
        and not each.is_busy
        and not runs_a_job(each, at)
    ]
    return sorted(missed)[: max(1, look.total // RUNNERS_A_GET)] if look.churned else []


def due(records: Iterable[Evidence], survey: Survey, now: float, limits: Limits) -> dict[int, Evidence]:
    """Returns the suspects whose first 404 is old enough for a confirmation, and that GitHub may be asked about."""
    return {
        each.id: each
        for each in suspects(records, survey, now, limits)
        if _is_old_enough(each, survey, now, limits) and may_call(each, now)
    }


def _is_old_enough(evidence: Evidence, survey: Survey, now: float, limits: Limits) -> bool:
    """True if the first 404 of a runner is old enough. What an unknown job may last counts while lists show runners."""
    first_404_at = evidence.first_404_at
    if first_404_at is None or now - first_404_at < limits.confirm_seconds:
        return False
    may_last = unknown_job_seconds(evidence)
    return may_last == 0.0 or covered_seconds(survey, first_404_at, now) >= may_last


def due_in_sweep(
    records: Iterable[Evidence], look: RunnerList, survey: Survey, began: float, now: float, limits: Limits
) -> dict[int, Evidence]:
    """Returns the suspects that a sweep's own list, begun at `began`, can confirm.

    The list must be complete and younger than their first 404, as a control list is. After page churn each suspect is
    listed by name as well.
    """
    if look.flaw is not None:
        return {}
    return {
        runner_id: each
        for runner_id, each in due(records, survey, now, limits).items()
        if runner_id not in look.runners and each.first_404_at is not None and each.first_404_at < began
    }


def confirm_at(records: Iterable[Evidence], survey: Survey, now: float, limits: Limits) -> list[float]:
    """Returns when confirmations are due: one time for all overdue ones, and the latest of each later second.

    Confirmations due more than `MOST_AHEAD_SECONDS` ahead are left to later sweeps.
    """
    times = sorted({max(now, at) for at in _due_at(suspects(records, survey, now, limits), limits)})
    return [*{int(at): at for at in times if at - now <= MOST_AHEAD_SECONDS}.values()]


def ready_in(due: Iterable[Evidence], now: float, limits: Limits) -> float:
    """Returns the seconds until the first 404s of all these suspects are old enough; 0 if they are."""
    return max(0.0, max(_due_at(due, limits), default=now) - now)


def _due_at(absent: Iterable[Evidence], limits: Limits) -> list[float]:
    """Returns when each of these runners may be confirmed; runners without a first 404 are left out.

    That is when the first 404 is old enough, and after failed calls when the next one is due.
    """
    return [
        max(each.first_404_at + _patience(each, limits), retry_at(each) or 0.0)
        for each in absent
        if each.first_404_at is not None
    ]


def _patience(evidence: Evidence, limits: Limits) -> float:
    """Returns how old the first 404 must be, in seconds.

    A runner that GitHub last listed busy, and whose job no delivery reported, may be at work without a registration.
    GitHub has no way to ask for its job, so the runner is kept for the longest job duration, or for an hour where a
    stale list explains that, unless the cluster shows that its process ended.
    """
    return max(unknown_job_seconds(evidence), limits.confirm_seconds)


def suspects(records: Iterable[Evidence], survey: Survey, now: float, limits: Limits) -> list[Evidence]:
    """Returns the runners that are absent and not confirmed as lost."""
    return [each for each in records if is_absent(each) and judge(each, survey, now, limits).state is State.SUSPECT]


NEIGHBOURS_SECONDS = 600.0
"""Runners that came within this time of each other have ids that follow each other closely."""


def never_listed(records: Collection[Evidence], survey: Survey) -> list[Evidence]:
    """Returns runners of ours that took a job and left before any list showed them; the end of the job is not known.

    Deliveries alone name them, and those of jobs on another scope's runners do so, too. The id separates them: within
    a scope GitHub's ids ascend, and theirs is between those of two of our runners that came soon after each other. It
    is no proof: such a runner is shown, and never replaced.
    """
    swept_at = survey.swept_at
    found = [
        each
        for each in records
        if not each.registered
        and each.running_job is not None
        and each.job_started_at is not None
        and swept_at is not None
        and each.job_started_at + STALE_LIST_SECONDS < swept_at
    ]
    known = sorted((each.id, each.first_seen) for each in records if each.registered) if found else []
    return [each for each in found if _is_between_neighbours(each.id, known)]


def _is_between_neighbours(runner_id: int, known: Sequence[tuple[int, float]]) -> bool:
    place = bisect_left(known, (runner_id, 0.0))
    if not 0 < place < len(known):
        return False
    (_, before), (_, after) = known[place - 1], known[place]
    return abs(after - before) <= NEIGHBOURS_SECONDS


MOST_NAMED = 3
"""Runners that the outcome of a sweep names; the others are counted."""


class AbsentRunners(NamedTuple):
    """The names of the runners that a list lacks and that are not confirmed as lost.

    Attributes:
        suspects: those that a confirmation should have decided by now.
        checked: those that are missing for less than a confirmation takes. Each ephemeral runner that ends its job is,
            until the delivery of that end, or GitHub's answer, explains it.
    """

    suspects: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """What was found, as a part of a sentence."""
        parts = []
        if self.suspects:
            parts.append(f"{counted(len(self.suspects), 'suspect')} ({_names(self.suspects)})")
        if self.checked:
            what = "that left the list and is" if len(self.checked) == 1 else "that left the list and are"
            parts.append(f"{counted(len(self.checked), 'runner')} {what} being checked ({_names(self.checked)})")
        return " and ".join(parts) or "no suspect"


NO_ABSENT_RUNNERS = AbsentRunners()


def _names(names: Iterable[str]) -> str:
    return ", ".join(bounded((one_line(each, LONGEST_WORD) for each in names), MOST_NAMED))


def absent_runners(suspects: Iterable[Evidence], now: float, limits: Limits) -> AbsentRunners:
    """Returns the names of suspects, of both kinds, at `now` (epoch seconds)."""
    found, checked = list[str](), list[str]()
    for each in sorted(suspects, key=lambda each: each.name):
        (checked if now - missing_since(each) < limits.confirm_seconds else found).append(each.name)
    return AbsentRunners(tuple(found), tuple(checked))


def is_sane(known: Installation, now: Installation) -> bool:
    """True if a 404 is credible: same account id and name, not suspended, and the permission is granted."""
    same = now.account_id == known.account_id and now.called == known.called
    return same and not now.suspended and now.may_read_runners()


def may_rely_on(asked_at: float, suspects: Iterable[Evidence], now: float, memory_seconds: float) -> bool:
    """True if an earlier answer about the installation may replace a new one in a confirmation of these suspects.

    The answer may be some seconds old, and only if the request was sent after the first 404 of every suspect. This
    keeps the order of the proof: first 404, sane installation, control list, second 404. A change within those seconds
    confirms no loss: with a lost permission, a suspension or an old name, GitHub refuses the list or answers 404, and a
    confirmation without a complete list confirms nothing.

    Args:
        asked_at: when the request was sent (epoch seconds, our clock).
        suspects: the runners whose absence is to be confirmed.
        now: epoch seconds.
        memory_seconds: maximum age of the answer.
    """
    first_404s = [each.first_404_at for each in suspects if each.first_404_at is not None]
    return 0 <= now - asked_at <= memory_seconds and all(asked_at >= at for at in first_404s)


def why_unusable(control: RunnerList, survey: Survey) -> Reason | None:
    """Returns why a control list proves nothing (incomplete, or empty where there were runners), or None.

    A list with page churn is sufficient if each suspect's own name is listed as well.
    """
    if control.flaw is not None:
        return control.flaw
    return Reason.LIST_EMPTY if not control.runners and survey.total > 0 else None


def needs_own_get(due: Iterable[Evidence], control: RunnerList) -> list[Evidence]:
    """Returns the suspects whose own GET must decide: the control list lacks them, and nothing else protects them.

    A running job protects a runner, and so does a registration with the same name: such a runner is not lost, whatever
    a GET would answer.
    """
    names = {runner.name for runner in control.runners.values()}
    return [
        each for each in due if each.id not in control.runners and each.running_job is None and each.name not in names
    ]


def wants_whole_list(due: Collection[Evidence], survey: Survey, per_page: int) -> bool:
    """True if the whole list is the cheaper control than one request per suspect's name plus the first page."""
    return -(-survey.total // per_page) <= len(due)


def awaits_plan(records: Iterable[Evidence]) -> bool:
    """True if a loss is confirmed and not granted: its plan may be missing, as after a crash."""
    return any(each.confirmed_at is not None and each.granted_at is None for each in records)


def confirmed(suspect: Evidence, answer: Registration | None, at: float) -> Fold:
    """Returns the fold for the last GET of a suspect that met all other conditions of the confirmation."""
    if answer is not None:
        return folds_of_get(answer, at)

    def fold(evidence: Evidence | None) -> Evidence | None:
        known = call_answered(evidence)
        if known is None or known.first_404_at != suspect.first_404_at:
            return known  # the runner was seen since its first 404 was due, and a 404 since then is its first one
        return observations.absence_confirmed(known, at)

    return fold


def _listed(seen_as: Registration, at: float, usable: bool, evidence: Evidence | None) -> Evidence:
    """The fold of a listed runner.

    Ignores a list that may be older than the runner's removal: the runner would be lost, and replaced, a second time.
    Once our DELETE was answered 204, that is a stale list for some minutes; after a 404, a list that was begun before
    it, or so soon after the runner was first missing that it may show what was before. A GET of the runner itself is
    applied at once.
    """
    removed_at = None if evidence is None or evidence.confirmed_at is None else evidence.removed_at
    if evidence is not None and removed_at is not None:
        if evidence.was_deleted:
            is_old = at <= removed_at + observations.LIST_LAG_SECONDS
        else:
            is_old = at <= max(removed_at, missing_since(evidence) + STALE_LIST_SECONDS)
        if is_old:
            return evidence
    by = observations.SeenBy.LIST if usable else observations.SeenBy.FLAWED_LIST
    return observations.registration_seen(evidence, seen_as, at, by=by)


def _unlisted(
    evidence: Evidence | None, missed: Callable[[Evidence], Evidence], successor: int | None
) -> Evidence | None:
    if evidence is None:
        return None
    absent = missed(evidence)
    return absent if successor is None else observations.reregistered(absent, successor)
