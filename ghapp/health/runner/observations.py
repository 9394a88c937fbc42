"""What each sighting, and each step of ours, makes of the evidence of one runner.

Each function takes it, adds one thing, and returns the new one. The same thing twice, or an older one late, changes
nothing, so that a delivery may come twice and a crashed job may run again. Pure; times are epoch seconds.
"""

from __future__ import annotations

from ghapp.health.runner import remains as cluster
from ghapp.health.runner.deletion_progress import Deletion
from ghapp.health.runner.evidence import Evidence, Registration, Survey, observed_at
from ghapp.health.runner.remains import RemainsKind
from ghapp.health.runner.verdict import gone_since, is_absent, runs_a_job

OVERTAKING_SECONDS = 120.0
"""No sweep or confirmation lives longer than this; see `jobs`."""

LIST_LAG_SECONDS = 300.0
"""Lists were seen to be 50 s stale; six times that is safe."""


def _late(evidence: Evidence, at: float) -> bool:
    """Whether an observation made at `at` was overtaken by a newer one while it was on its way.

    Only within the life of a job: what is recorded for a remoter future was written by a clock that had jumped,
    and must not silence what is seen now.
    """
    return evidence.observed_at is not None and at < evidence.observed_at <= at + OVERTAKING_SECONDS


def _still_retired(evidence: Evidence, at: float) -> float | None:
    """Lists lag behind a removal; a runner that is still there after that was not removed."""
    if evidence.retired_at is None or at > evidence.retired_at + LIST_LAG_SECONDS:
        return None
    return evidence.retired_at


def _may_have_outlived_its_job(evidence: Evidence, seen: Registration) -> bool:
    """Whether this sight may prove it persistent, where GitHub does not say: its job is over, and it is online."""
    is_unpublished = seen.ephemeral is None and evidence.ephemeral is None
    return is_unpublished and seen.online and evidence.job_ended_at is not None


def _outlived_its_job(evidence: Evidence, seen: Registration, at: float) -> bool:
    """Whether it does: online when it was first seen after its job, and still long after that.

    Two sights, both dated by our own clock: one alone may come from an old list, and be dated by a clock that jumped.
    """
    ended, first_seen_since = evidence.job_ended_at or 0.0, evidence.observed_at or 0.0
    is_long_after = ended < first_seen_since and at > first_seen_since + LIST_LAG_SECONDS
    return _may_have_outlived_its_job(evidence, seen) and evidence.online and is_long_after


def _is_first_since_its_job(evidence: Evidence, seen: Registration, at: float) -> bool:
    """Whether this sight is the first of those two, and must be recorded though nothing else has changed."""
    ended = evidence.job_ended_at or 0.0
    return _may_have_outlived_its_job(evidence, seen) and (evidence.observed_at or 0.0) <= ended < at


def _is_ephemeral(evidence: Evidence, seen: Registration, at: float) -> bool | None:
    if _outlived_its_job(evidence, seen, at):
        return False
    return seen.ephemeral if seen.ephemeral is not None else evidence.ephemeral


def first_observation(runner_id: int, name: str, at: float) -> Evidence:
    """A runner that nobody has told us of before."""
    return Evidence(id=runner_id, name=name, first_seen=at)


def registration_seen(evidence: Evidence | None, seen: Registration, at: float, *, listed: bool) -> Evidence:
    """GitHub showed its registration, in a list (`listed`) or alone. Ends any absence.

    Returns the very same object when nothing changed but the time of a listed runner: that time is the survey's.
    """
    if evidence is None:
        evidence = first_observation(seen.id, seen.name, at)
    if _late(evidence, at):
        return evidence
    unchanged = (
        listed
        and evidence.listed
        and evidence.online == seen.online
        and evidence.busy == seen.busy
        and evidence.name == seen.name
        and evidence.labels == seen.labels
        and evidence.group_id == seen.group_id
        and evidence.version == seen.version
        and evidence.absent_since is None
        and evidence.missing_at is None
        and evidence.retired_at is None
        and evidence.reregistered_as is None
        and evidence.missing_from_partial_list_at is None
        and evidence.remains is None
        and not _is_first_since_its_job(evidence, seen, at)
        and not _outlived_its_job(evidence, seen, at)
    )
    if unchanged:
        return evidence
    was_absent = evidence.absent_since is not None or evidence.missing_at is not None
    # Back from an absence, or online after it was granted for being offline: whatever was to be done is called off.
    is_moot = was_absent or (seen.online and evidence.removed_at is None)
    offline_since = None
    if not seen.online:
        offline_since = evidence.offline_since if evidence.offline_since is not None else at
    return evidence._replace(
        name=seen.name,
        labels=seen.labels,
        custom_labels=seen.custom_labels,
        os=seen.os,
        ephemeral=_is_ephemeral(evidence, seen, at),
        group_id=seen.group_id,
        version=seen.version,
        registered=True,
        listed=listed or evidence.listed,
        observed_at=at,
        online=seen.online,
        busy=seen.busy,
        was_online=evidence.was_online or seen.online or seen.busy,
        offline_since=offline_since,
        absent_since=None,
        absent_of=None,
        missing_at=None,
        confirmed_at=None,
        back_at=at if evidence.missing_at is not None else evidence.back_at,
        retired_at=_still_retired(evidence, at),
        reregistered_as=None,
        granted_at=None if is_moot else evidence.granted_at,
        event_id=None if is_moot else evidence.event_id,
        removed_at=None if is_moot else evidence.removed_at,
        replaced_at=None if is_moot else evidence.replaced_at,
        would_remediate_at=None if is_moot else evidence.would_remediate_at,
        missing_from_partial_list_at=None,
        deletion=None if is_moot else evidence.deletion,
        remains=None,
        not_needed_at=None,
    )


def unlisted(evidence: Evidence, at: float, total: int) -> Evidence:
    """A complete list of `total` runners, begun at `at`, lacked it. A hint: no more than that.

    A runner whose registration was never seen (hosted ones, and those of a repository) is in no such list.
    """
    if not evidence.registered or _late(evidence, at):
        return evidence
    if evidence.absent_since is not None:
        return evidence._replace(listed=False, observed_at=at)
    return evidence._replace(listed=False, observed_at=at, absent_since=at, absent_of=total)


def missing_from_partial_list(evidence: Evidence, at: float, total: int, survey: Survey) -> Evidence:
    """A list lacked it that had slipped by a few. It is a hint only the second time running.

    `survey` is the one before that list: until when it was last seen.
    """
    if not evidence.registered or _late(evidence, at):
        return evidence
    if evidence.absent_since is not None or (
        evidence.missing_from_partial_list_at is not None and at > evidence.missing_from_partial_list_at
    ):
        return unlisted(evidence, at, total)
    return evidence._replace(listed=False, observed_at=observed_at(evidence, survey), missing_from_partial_list_at=at)


def get_missed(evidence: Evidence, at: float) -> Evidence:
    """A GET answered 404. The first one only starts the clock."""
    if not evidence.registered or _late(evidence, at):
        return evidence
    missing_at = evidence.missing_at if evidence.missing_at is not None else at
    return evidence._replace(listed=False, observed_at=at, missing_at=missing_at)


def absence_confirmed(evidence: Evidence, at: float) -> Evidence:
    """All that the confirmation asks for held, and the second GET answered 404.

    A job that was reported in between vouches for its runner: then nothing is confirmed.
    """
    if evidence.missing_at is None or evidence.confirmed_at is not None or runs_a_job(evidence, at):
        return evidence
    if at <= evidence.missing_at:
        return evidence  # that very answer again, or one from before the runner was last seen
    return evidence._replace(confirmed_at=at, observed_at=evidence.observed_at if _late(evidence, at) else at)


def _is_older(evidence: Evidence, started_at: float) -> bool:
    """Whether a job that started then is older than the one on record, of which one end may be lost."""
    known = evidence.job_started_at if evidence.job_started_at is not None else evidence.job_ended_at
    return known is not None and started_at <= known


def job_started(evidence: Evidence, job_id: int, at: float) -> Evidence:
    """A delivery said that this runner took a job.

    If it came too late for the confirmation, that is taken back: GitHub is asked first whether the job is over.
    """
    if evidence.job_id == job_id and evidence.job_started_at is not None:
        return evidence
    if evidence.job_id != job_id and _is_older(evidence, at):
        return evidence
    ended = evidence.job_ended_at if evidence.job_id == job_id else None
    is_at_work = ended is None and evidence.removed_at is None
    return evidence._replace(
        job_id=job_id,
        job_started_at=at,
        job_ended_at=ended,
        was_online=True,
        last_delivery_at=max(at, evidence.last_delivery_at or at),
        confirmed_at=None if is_at_work else evidence.confirmed_at,
        granted_at=None if is_at_work else evidence.granted_at,
        event_id=None if is_at_work else evidence.event_id,
    )


def job_ended(evidence: Evidence, job_id: int, at: float, started_at: float | None = None) -> Evidence:
    """A delivery, or GitHub's own answer, said that this runner's job is over. May come before its start.

    `started_at` is when that job began, where that is known. GitHub gives up a job whose agent crashed ten minutes
    later or more: its late end must not end the job that the agent took since, so that starts are compared, not ends.
    """
    if evidence.job_id == job_id:
        if evidence.job_ended_at is not None:
            return evidence
        started_at = evidence.job_started_at if evidence.job_started_at is not None else started_at
    elif started_at is None and evidence.running_job is not None:
        return evidence  # whether it is older than the one that runs, nothing says
    elif _is_older(evidence, at if started_at is None else started_at):
        return evidence
    last_delivery_at = max(at, evidence.last_delivery_at or at)
    return evidence._replace(
        job_id=job_id,
        job_started_at=started_at,
        job_ended_at=at,
        was_online=True,
        last_delivery_at=last_delivery_at,
        busy=evidence.busy and at < (evidence.observed_at or at),  # GitHub's later word, of another job, stands
    )


def reregistered(evidence: Evidence, as_id: int) -> Evidence:
    """A later registration bears its name: the machine was configured anew and lost nothing."""
    if not evidence.registered or as_id <= evidence.id:
        return evidence
    return evidence._replace(reregistered_as=as_id)


def retired_by_controller(evidence: Evidence, at: float) -> Evidence:
    """A controller said that it removed this runner on purpose."""
    if evidence.retired_at is not None:
        return evidence
    return evidence._replace(retired_at=at, listed=False, observed_at=at)


def granted(evidence: Evidence, at: float, event_id: str) -> Evidence:
    """The plan lets it be acted on. The first grant holds, and so does its event's id."""
    if evidence.granted_at is not None:
        return evidence
    return evidence._replace(granted_at=at, event_id=event_id)


def would_remediate(evidence: Evidence, at: float) -> Evidence:
    """The plan would let it be acted on, and dry-run does not."""
    return evidence if evidence.would_remediate_at is not None else evidence._replace(would_remediate_at=at)


def removed(evidence: Evidence, at: float, granted: Evidence | None = None) -> Evidence:
    """Its registration is gone by our own DELETE, or was gone before it.

    `granted` is the record for which the DELETE was sent. A job that was reported in the meantime took the grant back:
    it must be replaced all the same, when that job is over.
    """
    if evidence.removed_at is not None:
        return evidence
    known = evidence if granted is None or evidence.granted_at is not None else granted
    return evidence._replace(
        removed_at=at,
        listed=False,
        confirmed_at=known.confirmed_at,
        granted_at=known.granted_at,
        event_id=known.event_id,
    )


def replaced(evidence: Evidence, at: float) -> Evidence:
    """The request for its replacement was accepted."""
    return evidence if evidence.replaced_at is not None else evidence._replace(replaced_at=at, last_replaced_at=at)


def remains_seen(evidence: Evidence, kind: RemainsKind, at: float) -> Evidence:
    """A view of the cluster, true at `at`, showed what stands there of a runner whose registration is gone.

    A view from before the registration went says nothing.
    """
    if not is_absent(evidence) or at < gone_since(evidence):
        return evidence
    remains = cluster.remains_seen(evidence.remains, kind, at)
    return evidence if remains == evidence.remains else evidence._replace(remains=remains)


def not_needed(evidence: Evidence, at: float) -> Evidence:
    """Its loss is written off: its pool was stable without it, and no job waited for it."""
    is_begun = evidence.granted_at is not None or evidence.removed_at is not None
    if is_begun or not is_absent(evidence) or evidence.not_needed_at is not None:
        return evidence
    return evidence._replace(not_needed_at=at)


def busy_after_all(evidence: Evidence, at: float) -> Evidence:
    """GitHub refused to remove it, for it is running a job: it was never gone."""
    return evidence._replace(
        busy=True,
        was_online=True,
        observed_at=at,
        absent_since=None,
        absent_of=None,
        missing_at=None,
        confirmed_at=None,
        back_at=at,
        granted_at=None,
        event_id=None,
        would_remediate_at=None,
        deletion=None,
        remains=None,
        not_needed_at=None,
    )


def grant_revoked(evidence: Evidence) -> Evidence:
    """The grant is taken back: what it was given for no longer holds."""
    return evidence._replace(granted_at=None, event_id=None)


def grant_released(evidence: Evidence) -> Evidence:
    """A claim holds it, for hours perhaps: its grant goes back, so that no batch waits for it. Not in mid-act."""
    begun = evidence.removed_at is not None or evidence.replaced_at is not None
    return evidence if begun or evidence.granted_at is None else grant_revoked(evidence)


def deleting(evidence: Evidence, deletion: Deletion) -> Evidence:
    """One step further with its object or pod in the cluster."""
    return evidence if evidence.deletion == deletion else evidence._replace(deletion=deletion)
