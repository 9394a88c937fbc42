"""Functions that add one observation or one step of a replacement to a runner's evidence.

Each function returns the new evidence. A repeated observation changes nothing, and an older one that comes late changes
no more than it would have in its turn, so that a delivery may come twice and a crashed job may run again. Pure; times
are epoch seconds.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import partial
from math import inf
from typing import Protocol

from ghapp.runners import remains
from ghapp.runners.deletion_progress import Deletion
from ghapp.runners.evidence import (
    DoubtedJob,
    Evidence,
    Fold,
    Outage,
    PastLoss,
    Registration,
    Survey,
    is_absent,
    missing_since,
    observed_at,
)
from ghapp.runners.failed_calls import doubled
from ghapp.runners.remains import RemainsKind
from ghapp.runners.verdict import may_run_an_unknown_job, runs_a_job, unknown_job_seconds

OVERTAKING_SECONDS = 180.0
"""No sweep or confirmation runs longer than this; see `ghapp.queue.jobs`."""

LIST_LAG_SECONDS = 300.0
"""Lists were observed to be 50 s stale. Where a staler one would end a doubt wrongly, the limit is six times that.
`STALE_LIST_SECONDS` is for what later answers correct.
"""

OMITTED_SECONDS = (60.0, 180.0)
"""How long lists that lack a runner are no hint after a GET found it: at first, and the maximum; an observation that is
older than `stale_seconds` would answer nothing.
"""

REPORT_SETTLES_SECONDS = 120.0
"""What shows a runner so soon after its controller reported the removal does not contradict the report.

The controller may act a minute later, and a list may be stale then.
"""


def _late(evidence: Evidence, at: float) -> bool:
    """True if a newer observation was recorded while this one, made at `at`, was on its way.

    Limited to the lifetime of a job: a record further in the future was written by a clock that jumped, and must not
    block current observations.
    """
    return evidence.observed_at is not None and at < evidence.observed_at <= at + OVERTAKING_SECONDS


class SeenBy(Enum):
    """How GitHub showed a registration."""

    LIST = auto()
    """In a complete list."""
    FLAWED_LIST = auto()
    """In a list that is not complete, or contradicts itself."""
    GET = auto()
    """Alone."""


def _still_retired(evidence: Evidence, at: float, by: SeenBy) -> float | None:
    """Returns None once GitHub contradicts the controller's report, by a GET or a complete list."""
    retired_at = evidence.retired_at
    if retired_at is not None and retired_at > at + OVERTAKING_SECONDS:
        return at  # by a clock that was set back since
    if retired_at is None or at <= retired_at + REPORT_SETTLES_SECONDS:
        return retired_at
    return retired_at if by is SeenBy.FLAWED_LIST else None


def _retired_despite_job(retired_at: float | None, started_at: float | None) -> float | None:
    """Returns None once a job contradicts the controller's report: GitHub gave the runner one long after that.

    GitHub dates the job, and we date the report.
    """
    if retired_at is None or started_at is None or started_at <= retired_at + REPORT_SETTLES_SECONDS:
        return retired_at
    return None


def _may_have_outlived_its_job(evidence: Evidence, registration: Registration) -> bool:
    """True if this observation may prove a runner persistent although GitHub does not report it: online after a job."""
    is_unpublished = registration.ephemeral is None and evidence.ephemeral is None
    return is_unpublished and registration.online and evidence.job_ended_at is not None


def _outlived_its_job(evidence: Evidence, registration: Registration, at: float) -> bool:
    """True if the runner was online when first observed after its job, and still is long after that.

    Requires two observations dated by our own clock: a single one may come from a stale list or a jumped clock.
    """
    ended, first_observed_after = evidence.job_ended_at or 0.0, evidence.observed_at or 0.0
    is_long_after = ended < first_observed_after and at > first_observed_after + LIST_LAG_SECONDS
    return _may_have_outlived_its_job(evidence, registration) and evidence.online and is_long_after


def _is_first_since_its_job(evidence: Evidence, registration: Registration, at: float) -> bool:
    """True if this observation is the first of those two and must be recorded although nothing else changed."""
    ended = evidence.job_ended_at or 0.0
    return _may_have_outlived_its_job(evidence, registration) and (evidence.observed_at or 0.0) <= ended < at


def _is_ephemeral(evidence: Evidence, registration: Registration, at: float) -> bool | None:
    if _outlived_its_job(evidence, registration, at):
        return False
    return registration.ephemeral if registration.ephemeral is not None else evidence.ephemeral


def _is_unchanged(evidence: Evidence, registration: Registration, at: float) -> bool:
    """True if a listed runner's registration adds nothing to its evidence but the time."""
    return (
        evidence.listed
        and evidence.first_seen <= at
        and evidence.online == registration.online
        and evidence.busy == registration.busy
        and evidence.name == registration.name
        and evidence.labels == registration.labels
        and evidence.custom_labels == registration.custom_labels
        and evidence.os == registration.os
        and registration.ephemeral in (None, evidence.ephemeral)
        and evidence.group_id == registration.group_id
        and evidence.version == registration.version
        and evidence.absent_since is None
        and evidence.first_404_at is None
        and evidence.retired_at is None
        and evidence.reregistered_as is None
        and evidence.missing_from_partial_list_at is None
        and evidence.remains is None
        and evidence.omissions == 0
        and (not evidence.busy or evidence.is_busy)
        and not _is_first_since_its_job(evidence, registration, at)
        and not _outlived_its_job(evidence, registration, at)
    )


def _past_loss(evidence: Evidence, at: float) -> PastLoss | None:
    """Returns the loss that ends because the runner is seen again at `at`, if no incident that is over has it.

    An earlier loss that is not recorded yet stays: the second loss of a runner, which takes a confirmation, comes after
    many attempts to record the first one.
    """
    is_lost = evidence.confirmed_at is not None or evidence.removed_at is not None
    if not is_lost or evidence.incident is not None or evidence.past_loss is not None:
        return evidence.past_loss
    known = [each for each in (evidence.absent_since, evidence.first_404_at) if each is not None]
    if evidence.confirmed_at is None and evidence.offline_since is not None:
        known.append(evidence.offline_since)
    first_at = min(known, default=at)
    return PastLoss(
        first_at=first_at,
        ended_at=max(at, first_at, evidence.confirmed_at or at),  # what shows it may be from before the loss
        first_404_at=evidence.first_404_at,
        confirmed_at=evidence.confirmed_at,
        granted_at=evidence.granted_at,
        replaced_at=evidence.replaced_at,
        successor=evidence.successor,
        healed_at=evidence.healed_at,
    )


def _last_outage(evidence: Evidence, at: float, *, online: bool) -> Outage | None:
    """Returns the last outage after the runner is seen at `at`: the present one if that ends it.

    Being seen online ends the time of being offline, but not of a runner that has yet to start; being registered ends
    an absence. That a list alone lacked the runner is no outage: lists omit runners. What follows at once is the same
    outage, such as a runner that is registered again before it is online.
    """
    begins = [missing_since(evidence)] if evidence.first_404_at is not None else []
    if online and evidence.was_online and evidence.offline_since is not None:
        begins.append(evidence.offline_since)
    last = evidence.last_outage
    if not begins:
        return last
    began, was_missing = min(begins), evidence.first_404_at is not None
    if last is not None and began <= last.ended:
        began, was_missing = min(began, last.began), was_missing or last.was_missing
    return Outage(began, max(at, began), was_missing)


def first_observation(runner_id: int, name: str, at: float) -> Evidence:
    """Returns the evidence of a runner that was unknown until `at`."""
    return Evidence(id=runner_id, name=name, first_seen=at)


def registration_seen(evidence: Evidence | None, seen: Registration, at: float, *, by: SeenBy) -> Evidence:
    """GitHub showed the registration. Ends any absence.

    Returns the same object if nothing but the time of a listed runner changed: the survey has that time.
    """
    if evidence is None:
        evidence = first_observation(seen.id, seen.name, at)
    if seen.busy and not evidence.was_busy:
        evidence = _work_seen(evidence, at)
    if _late(evidence, at):
        return _shown_before_absence(evidence, seen, at)
    if not seen.labels_complete and evidence.labels:
        seen = seen._replace(labels=evidence.labels, custom_labels=evidence.custom_labels)
    if by is SeenBy.LIST and _is_unchanged(evidence, seen, at):
        return evidence
    # Back from an absence, or online: what was granted, for the absence or for being offline, is cancelled.
    is_moot = is_absent(evidence) or (seen.online and evidence.removed_at is None)
    offline_since = None
    if not seen.online:
        offline_since = evidence.offline_since if evidence.offline_since is not None else at
    ended = _without_absence(_without_remediation(evidence, at) if is_moot else evidence)
    return ended._replace(
        name=seen.name,
        first_seen=min(evidence.first_seen, at),  # a date from a clock that had jumped would prove a later batch
        labels=seen.labels,
        custom_labels=seen.custom_labels,
        os=seen.os,
        ephemeral=_is_ephemeral(evidence, seen, at),
        group_id=seen.group_id,
        version=seen.version,
        registered=True,
        listed=by is SeenBy.LIST or evidence.listed,
        observed_at=at,
        online=seen.online,
        busy=seen.busy,
        was_online=evidence.was_online or seen.online or seen.busy,
        offline_since=offline_since,
        back_at=at if evidence.first_404_at is not None else evidence.back_at,
        was_lost=evidence.was_lost if evidence.first_404_at is None else _was_confirmed(evidence),
        retired_at=_still_retired(evidence, at, by),
        omissions=_omissions(evidence) if by is SeenBy.GET else 0,
        last_outage=_last_outage(evidence, at, online=seen.online),
    )


def _omissions(evidence: Evidence) -> int:
    """Returns how many lists in a row lacked the runner, now that its GET found it."""
    return evidence.omissions if evidence.absent_since is None else evidence.omissions + 1


def _was_confirmed(evidence: Evidence) -> bool:
    return evidence.confirmed_at is not None or evidence.unconfirmed_at is not None


def _without_absence(evidence: Evidence) -> Evidence:
    """The registration exists: ends the absence, and what was concluded from it."""
    return evidence._replace(
        absent_since=None,
        absent_of=None,
        first_404_at=None,
        confirmed_at=None,
        unconfirmed_at=None,
        reregistered_as=None,
        missing_from_partial_list_at=None,
        remains=None,
        not_needed_at=None,
        last_shown_at=None,
    )


def _without_remediation(evidence: Evidence, at: float) -> Evidence:
    """The loss is over at `at`: cancels what was done about it, and keeps the loss itself for the incidents."""
    return evidence._replace(
        granted_at=None,
        event_id=None,
        removed_at=None,
        replaced_at=None,
        would_remediate_at=None,
        deletion=None,
        successor=None,
        healed_at=None,
        hidden_at=None,
        past_loss=_past_loss(evidence, at),
        incident=None,
        looked_at=None,
        was_deleted=False,
    )


def _unconfirmed(evidence: Evidence, at: float) -> Evidence:
    """Revokes the confirmation and the grant, because of what is dated `at`.

    The loss stays on record: for the incidents, and for the fuse, which counts the runner's return as that of a lost
    one.
    """
    return evidence._replace(
        confirmed_at=None,
        granted_at=None,
        event_id=None,
        past_loss=_past_loss(evidence, at),
        incident=None,
        unconfirmed_at=at if evidence.confirmed_at is not None else evidence.unconfirmed_at,
    )


def _work_seen(evidence: Evidence, at: float) -> Evidence:
    """GitHub showed it busy, be it before answers that are on record already: an ephemeral runner has its one job."""
    return _unconfirmed_if_at_work(evidence._replace(was_busy=True), at)


def _unconfirmed_if_at_work(evidence: Evidence, at: float) -> Evidence:
    """Revokes the confirmation of a runner that may run an unknown job; what was removed stays so."""
    is_revoked = evidence.removed_at is None and may_run_an_unknown_job(evidence)
    return _unconfirmed(evidence, at) if is_revoked else evidence


def _shown_before_absence(evidence: Evidence, seen: Registration, at: float) -> Evidence:
    """GitHub showed the registration before an absence that is on record already: a list takes a minute to read.

    It ends nothing, but what GitHub showed last decides whether the runner may be at work: a busy one is not lost
    until its job is known to be over. What is shown between two answers that it is missing leaves the later one alone.
    """
    if not is_absent(evidence):
        return evidence
    if at > missing_since(evidence):
        return _missing_again(evidence, seen, at)
    shown_at = evidence.last_shown_at
    if shown_at is None or not shown_at < at < missing_since(evidence):
        return evidence
    was_online = evidence.was_online or seen.online or seen.busy
    return _unconfirmed_if_at_work(evidence._replace(busy=seen.busy, last_shown_at=at, was_online=was_online), at)


def _missing_again(evidence: Evidence, seen: Registration, at: float) -> Evidence:
    """GitHub showed the registration after it was first missing, and before it was last: only that answer counts.

    Sweeps and confirmations hold different locks, so that a list may be recorded after a GET that was sent later. What
    was removed stays so: it was looked for again just before that.
    """
    if evidence.removed_at is not None:
        return evidence
    was_asked, unlisted_since = evidence.first_404_at is not None, evidence.absent_since
    if unlisted_since is None or unlisted_since < at:
        unlisted_since = None if was_asked else evidence.observed_at
    return _unconfirmed(evidence, at)._replace(
        first_404_at=evidence.observed_at if was_asked else None,
        absent_since=unlisted_since,
        busy=seen.busy,
        last_shown_at=at,
        was_online=evidence.was_online or seen.online or seen.busy,
    )


def _last_shown_at(evidence: Evidence, survey: Survey | None) -> float | None:
    """Returns when GitHub last showed the registration, for the record of an absence.

    `survey` is the one before: it has the time of the last list, which a list that changed nothing did not record.
    """
    if is_absent(evidence):
        return evidence.last_shown_at
    return evidence.observed_at if survey is None else observed_at(evidence, survey)


def unlisted(evidence: Evidence, at: float, total: int | None, survey: Survey | None = None) -> Evidence:
    """A list of `total` runners, begun at `at`, lacked the runner. This is a hint, not a proof.

    `total` is None for a list with page churn; `survey` is the one before that list.
    Runners whose registration was never seen (hosted runners, and those of a repository) appear in no such list.
    A runner that is absent already is not written again, as `evidence.observed_at` says: most records of a fleet of
    ephemeral runners are of runners that left within a day.
    """
    if not evidence.registered or _late(evidence, at):
        return evidence
    if evidence.absent_since is not None or _was_found_lately(evidence, at):
        return evidence._replace(listed=False) if evidence.listed else evidence
    shown_at = _last_shown_at(evidence, survey)
    return evidence._replace(listed=False, observed_at=at, absent_since=at, absent_of=total, last_shown_at=shown_at)


def _was_found_lately(evidence: Evidence, at: float) -> bool:
    """True if a GET found the runner lately although lists lack it: such a list is no hint for a while.

    Each time it is found the while is twice as long, or GETs of a hundred such runners would spend the budget.
    """
    found_at = evidence.observed_at
    if evidence.omissions == 0 or is_absent(evidence) or found_at is None:
        return False
    return 0 <= at - found_at < doubled(OMITTED_SECONDS, evidence.omissions - 1)


def missing_from_partial_list(evidence: Evidence, at: float, survey: Survey) -> Evidence:
    """A list with page churn lacked the runner. Only the second such list in a row counts as a hint, or a GET's 404.

    `survey` is the survey before that list: it has the time of the runner's last observation.
    """
    if not evidence.registered or _late(evidence, at):
        return evidence
    if evidence.absent_since is not None or (
        evidence.missing_from_partial_list_at is not None and at > evidence.missing_from_partial_list_at
    ):
        return unlisted(evidence, at, None, survey)
    return evidence._replace(listed=False, observed_at=observed_at(evidence, survey), missing_from_partial_list_at=at)


def get_missed(evidence: Evidence, at: float, survey: Survey | None = None) -> Evidence:
    """A GET answered 404. The first 404 only starts the clock; it also makes a hint of a list with page churn."""
    if not evidence.registered or _late(evidence, at):
        return evidence
    first_404_at = at if evidence.first_404_at is None else min(at, evidence.first_404_at)
    absent_since = evidence.missing_from_partial_list_at if evidence.absent_since is None else evidence.absent_since
    return evidence._replace(
        listed=False,
        observed_at=at,
        first_404_at=first_404_at,
        absent_since=absent_since,
        last_shown_at=_last_shown_at(evidence, survey),
    )


def absence_confirmed(evidence: Evidence, at: float) -> Evidence:
    """All conditions of the confirmation were met, and the second GET answered 404.

    A job that was reported in between proves that the runner works: then nothing is confirmed. Neither is it if GitHub,
    asked just before the confirmation, answered that the known job was over before the runner was last listed busy: it
    has taken a job since that no delivery named.
    """
    if evidence.first_404_at is None or evidence.confirmed_at is not None or runs_a_job(evidence, at):
        return evidence
    if at - evidence.first_404_at < unknown_job_seconds(evidence):
        return evidence
    if at <= evidence.first_404_at:
        return evidence  # the same answer again, or an answer from before the runner was last seen
    return evidence._replace(confirmed_at=at, observed_at=evidence.observed_at if _late(evidence, at) else at)


def _is_older(evidence: Evidence, started_at: float) -> bool:
    """True if a job that started then is older than the recorded job, of which the start or the end may be missing.

    Both dates are GitHub's own. If one were limited to the time of its delivery, and GitHub's clock is ahead, an older
    job whose end is delivered late would seem to be the later one.
    """
    dates = (evidence.job_dated_at, evidence.job_started_at, evidence.job_ended_at)
    recorded = next((each for each in dates if each is not None), None)
    return recorded is not None and started_at <= recorded


def _ahead(at: float, known_at: float) -> float | None:
    """Returns a date of GitHub's that is ahead of our clock, else None."""
    return at if at > known_at else None


MOST_LEAD_SECONDS = 120.0
"""A clock that is further off is a jump, which is soon set right: it must not keep lost runners for long."""


def _with_lead(evidence: Evidence, at: float, known_at: float) -> Evidence:
    """Records by how much a date of GitHub's is ahead of the time at which it became known, if that is the most yet.

    A report that is late shows less of it, so that the most is the least that is certain.
    """
    lead = min(at - known_at, MOST_LEAD_SECONDS)
    return evidence if lead <= evidence.github_lead else evidence._replace(github_lead=lead)


def job_started(evidence: Evidence, job_id: int, at: float, known_at: float = inf) -> Evidence:
    """A delivery reported that this runner took a job.

    If the confirmation came before the delivery, it is revoked: GitHub is asked first whether the job is over.

    Args:
        evidence: of the runner.
        job_id: of the job.
        at: its start, as GitHub dates it.
        known_at: when it became known (our clock): a later date counts as this, because it is no date.
    """
    evidence = _with_lead(evidence, at, known_at)
    if evidence.job_id == job_id and evidence.job_started_at is not None:
        return evidence
    # In doubt it is the later job, which vouches: GitHub's clock, or ours, may have been set right since the other one.
    if evidence.job_id != job_id and _is_older(evidence._replace(job_dated_at=None), at):
        return _with_another_job(evidence, job_id)
    started = _with_job(evidence, job_id, min(at, known_at), _ahead(at, known_at))
    return started._replace(doubted_job=_doubted_job(evidence, job_id, at))


def _with_job(evidence: Evidence, job_id: int, at: float, dated_at: float | None) -> Evidence:
    """Records a job as the last one, which is running unless its end came before its start."""
    ended = evidence.job_ended_at if evidence.job_id == job_id else None
    is_at_work = ended is None and evidence.removed_at is None
    return (_unconfirmed(evidence, at) if is_at_work else evidence)._replace(
        job_id=job_id,
        job_started_at=at,
        job_ended_at=ended,
        job_end_dated=ended is None or evidence.job_end_dated,
        was_online=True,
        last_delivery_at=max(at, evidence.last_delivery_at or at),
        retired_at=_retired_despite_job(evidence.retired_at, at),
        ephemeral=_after_another_job(evidence, job_id),
        job_lookups=0 if evidence.job_id != job_id else evidence.job_lookups,
        job_looked_up_at=None if evidence.job_id != job_id else evidence.job_looked_up_at,
        job_dated_at=dated_at,
        job_end_dated_at=None if ended is None else evidence.job_end_dated_at,
    )


def _doubted_job(evidence: Evidence, job_id: int, at: float) -> DoubtedJob | None:
    """Returns the job that one which started `at`, by GitHub's clock, displaces although it may be the older one.

    So both vouch until they are known to be over. A job that is later than both shows that they are.
    """
    if evidence.job_id == job_id:
        return evidence.doubted_job
    if evidence.running_job is not None and evidence.job_dated_at is not None and _is_older(evidence, at):
        return DoubtedJob(evidence.running_job, evidence.job_dated_at)
    doubted = evidence.doubted_job
    return doubted if doubted is not None and doubted.id != job_id and at <= doubted.dated_at else None


def _after_another_job(evidence: Evidence, job_id: int) -> bool | None:
    """Returns `ephemeral` after this job: where GitHub does not report it, a second job proves a runner persistent."""
    is_second = evidence.job_id is not None and evidence.job_id != job_id
    return False if evidence.ephemeral is None and is_second else evidence.ephemeral


def _with_another_job(evidence: Evidence, job_id: int) -> Evidence:
    """An older job than the recorded one proves no more than that there was one."""
    ephemeral = _after_another_job(evidence, job_id)
    return evidence if ephemeral is evidence.ephemeral else evidence._replace(ephemeral=ephemeral)


def job_ended(
    evidence: Evidence,
    job_id: int,
    at: float,
    started_at: float | None = None,
    known_at: float = inf,
    *,
    dated: bool = True,
) -> Evidence:
    """A delivery, or GitHub's own answer, reported that this runner's job is over. It may come before the job's start.

    GitHub gives up the job of a crashed agent ten minutes later or more. That late end must not end the job that the
    agent took since, so starts are compared instead of ends.

    Args:
        evidence: of the runner.
        job_id: of the job.
        at: its end, as GitHub dates it.
        started_at: its start, as GitHub dates it; None: unknown.
        known_at: as of `job_started`.
        dated: False: `at` is only when the end became known; a report with the time of the end replaces it. It shows
            neither that the runner was alive at `at` nor that the job ran until then.
    """
    evidence = _with_lead(evidence, at, known_at)
    if evidence.doubted_job is not None and evidence.doubted_job.id == job_id:
        return evidence._replace(doubted_job=None)
    dated_at = _ahead(at if started_at is None else started_at, known_at)
    if evidence.job_id == job_id:
        if evidence.job_ended_at is not None and (evidence.job_end_dated or not dated):
            return evidence
        if evidence.job_started_at is not None:
            started_at, dated_at = evidence.job_started_at, evidence.job_dated_at
    elif evidence.running_job is not None and (
        started_at is None or (dated_at is not None and evidence.job_dated_at is None)
    ):
        # Unknown whether this job is older than the running one: a clock may have been set right between the two.
        return _with_another_job(evidence, job_id)
    elif _is_older(evidence, at if started_at is None else started_at):
        return _with_another_job(evidence, job_id)
    doubted_job = _doubted_job(evidence, job_id, at if started_at is None else started_at)
    end_dated_at = _ahead(at, known_at)
    at, started_at = min(at, known_at), None if started_at is None else min(started_at, known_at)
    last_delivery_at = max(at, evidence.last_delivery_at or at)
    ended = evidence._replace(
        job_id=job_id,
        job_started_at=started_at,
        job_ended_at=at,
        was_online=True,
        last_delivery_at=last_delivery_at if dated else evidence.last_delivery_at,
        job_end_dated=dated,
        retired_at=_retired_despite_job(evidence.retired_at, started_at),
        ephemeral=_after_another_job(evidence, job_id),
        job_dated_at=dated_at,
        job_end_dated_at=end_dated_at,
        doubted_job=None,
    )
    if doubted_job is None:
        return ended
    started_at = doubted_job.dated_at
    return _with_job(ended, doubted_job.id, min(started_at, known_at), _ahead(started_at, known_at))


def job_found_over(evidence: Evidence | None, job_id: int, at: float, completed_at: float | None) -> Evidence | None:
    """It became known at `at` that this runner's job is over: by GitHub's answer, or because no job runs for as long.

    The end counts from `completed_at`, as GitHub dates it: the answer may come hours later, when the container has
    restarted with another runner. None: the time of the end is unknown.
    A runner without a record gets none.
    """
    if evidence is None:
        return None
    if completed_at is None:
        return job_ended(evidence, job_id, at, dated=False)
    return job_ended(evidence, job_id, completed_at, known_at=at)._replace(last_delivery_at=evidence.last_delivery_at)


def reregistered(evidence: Evidence, as_id: int) -> Evidence:
    """A later registration has the same name: the machine was configured again, and nothing was lost."""
    if not evidence.registered or as_id <= evidence.id:
        return evidence
    return evidence._replace(reregistered_as=as_id)


def removal_reported(evidence: Evidence | None, runner_id: int, at: float) -> Evidence:
    """As `retired_by_controller`, of a runner that no list and no delivery may have brought yet."""
    known = first_observation(runner_id, str(runner_id), at) if evidence is None else evidence
    return retired_by_controller(known, at)


def retired_by_controller(evidence: Evidence, at: float) -> Evidence:
    """A controller reported that it removed this runner on purpose. Of several reports the last one counts."""
    is_older = evidence.retired_at is not None and at <= evidence.retired_at
    if is_older or _retired_despite_job(at, evidence.job_started_at) is None:
        return evidence
    was_observed_later = _late(evidence, at)
    return evidence._replace(
        retired_at=at,
        listed=evidence.listed and was_observed_later,
        observed_at=evidence.observed_at if was_observed_later else at,
    )


def granted(evidence: Evidence, at: float, event_id: str) -> Evidence:
    """The plan granted remediation. The first grant and its event's id are kept."""
    if evidence.granted_at is not None:
        return evidence
    return evidence._replace(granted_at=at, event_id=event_id)


def would_remediate(evidence: Evidence, at: float) -> Evidence:
    """The plan would have granted remediation, but dry-run prevented it."""
    return evidence if evidence.would_remediate_at is not None else evidence._replace(would_remediate_at=at)


def removed(evidence: Evidence, at: float, granted: Evidence | None = None, *, was_deleted: bool = False) -> Evidence:
    """Its registration was deleted by our own DELETE (`was_deleted`: it answered 204), or was already gone.

    `granted` is the record for which the DELETE was sent. If a job that was reported in the meantime revoked the grant,
    the runner must still be replaced when that job is over. If GitHub showed the runner in the meantime, a DELETE
    that answered 404 is no part of the absence that was confirmed: what is missing now needs a confirmation of its own.
    """
    if evidence.removed_at is not None:
        return evidence
    known = evidence
    if granted is not None and evidence.granted_at is None:
        if not was_deleted and (evidence.shown_at or 0.0) > (granted.shown_at or 0.0):
            return evidence
        known = granted
    return evidence._replace(
        removed_at=at,
        listed=False,
        confirmed_at=known.confirmed_at,
        granted_at=known.granted_at,
        event_id=known.event_id,
        was_deleted=was_deleted,
    )


def looked_again(evidence: Evidence, at: float) -> Evidence:
    """GitHub answered that neither the runner nor another one of its name is registered."""
    return evidence if evidence.granted_at is None else evidence._replace(looked_at=at)


class EndOfJob(Protocol):
    """GitHub's answer that a job is over."""

    @property
    def completed_at(self) -> float | None:
        """When it ended, as GitHub dates it; None if that is unknown."""


def job_looked_up(job_id: int, at: float, end: EndOfJob | None) -> Fold:
    """Returns the fold for an answer about a runner's job at `at`; `end` is None if the job is not over."""
    if end is None:
        return partial(job_not_over, job_id=job_id, at=at)
    return partial(job_found_over, job_id=job_id, at=at, completed_at=end.completed_at)


def job_not_over(evidence: Evidence | None, job_id: int, at: float) -> Evidence | None:
    """GitHub was asked for the end of the runner's job, and had none."""
    if evidence is None or evidence.running_job != job_id:
        return evidence
    return evidence._replace(job_lookups=evidence.job_lookups + 1, job_looked_up_at=at)


def replaced(evidence: Evidence, at: float) -> Evidence:
    """The request for its replacement was accepted."""
    return evidence if evidence.replaced_at is not None else evidence._replace(replaced_at=at, last_replaced_at=at)


def succeeded_by(successor: int, at: float) -> Fold:
    """Another runner came online in the place of this one, first observed at `at`."""
    return lambda evidence: None if evidence is None else evidence._replace(successor=successor, healed_at=at)


def successor_hidden(at: float) -> Fold:
    """Its successor cannot be distinguished from the other newcomers of its pool, and is not awaited any more."""
    return lambda evidence: None if evidence is None else evidence._replace(hidden_at=at)


def succeeding(lost: int) -> Fold:
    """This runner came online in the place of a lost one."""
    return lambda evidence: None if evidence is None else evidence._replace(succeeds=lost)


def remains_seen(evidence: Evidence, kind: RemainsKind, at: float) -> Evidence:
    """A view of the cluster at `at` showed what remains of a runner whose registration is missing.

    A view from before the registration went missing proves nothing.
    """
    if not is_absent(evidence) or at < missing_since(evidence):
        return evidence
    found = remains.remains_seen(evidence.remains, kind, at)
    return evidence if found == evidence.remains else evidence._replace(remains=found)


def needed_again(evidence: Evidence) -> Evidence:
    """A job waits that the runner, whose loss was written off, could take."""
    return evidence if evidence.not_needed_at is None else evidence._replace(not_needed_at=None)


def not_needed(evidence: Evidence, at: float) -> Evidence:
    """Its loss is written off: the pool was stable without the runner, and no job waited for it."""
    is_begun = evidence.granted_at is not None or evidence.removed_at is not None
    if is_begun or not is_absent(evidence) or evidence.not_needed_at is not None:
        return evidence
    return evidence._replace(not_needed_at=at)


def busy_after_all(evidence: Evidence, at: float) -> Evidence:
    """GitHub refused to remove the runner because it runs a job: it works, and counts as a lost one that returned."""
    return _without_absence(_without_remediation(evidence, at))._replace(
        busy=True,
        was_online=True,
        was_busy=True,
        observed_at=at,
        back_at=at,
        was_lost=True,
        last_outage=_last_outage(evidence, at, online=False),
    )


def grant_revoked(evidence: Evidence) -> Evidence:
    """Revokes the grant: its condition no longer applies."""
    return evidence._replace(granted_at=None, event_id=None)


def grant_released(evidence: Evidence) -> Evidence:
    """A pod claim may last for hours: releases the grant so that no batch waits for it. A begun removal keeps it."""
    begun = evidence.removed_at is not None or evidence.replaced_at is not None
    return evidence if begun or evidence.granted_at is None else grant_revoked(evidence)


def deleting(evidence: Evidence, deletion: Deletion) -> Evidence:
    """Records progress of deleting the runner's object or pod in the cluster."""
    return evidence if evidence.deletion == deletion else evidence._replace(deletion=deletion)
