"""Decides which notifications people get: one when a condition opens, one when it closes, and never a storm. Pure.

A condition is a state of an installation that a person wants to know of: a fuse that is not closed, no complete list
of runners, jobs that no runner can take, a gate that failed, a version that gets no jobs any more. `observe` compares
the present conditions with what people were last notified of. It keeps the difference until a notification may be sent,
so that a condition that flaps, or a limit that was reached, loses nothing: people are then notified of the state at
that time.

Times are epoch seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from ghapp.gate.gate_states import GateState
from ghapp.installations.pool_matching import pool_of
from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.runners.evidence import Survey
from ghapp.untrusted_text import one_line
from ghapp.versions.advice import day
from ghapp.versions.lifetime import NOTICE_SECONDS, VersionStatus
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.job_queue import JobQueue
from ghapp.workflow_jobs.labels import missing_labels
from ghapp.workflow_jobs.reason import QueueReason

BLIND_SECONDS = 300.0
"""Without a complete list for this long, an installation counts as blind."""

SETTLE_SECONDS = 60.0
"""A condition must have ended for this long before it counts as closed."""

MOST_AN_HOUR = 6
"""Notifications of one condition."""

HOUR = 3600.0
MOST_LABELS = 5
"""Sets of labels that a notification names."""

LONGEST_LABELS = 200
"""Characters of one set."""

MOST_UNSERVED = 20
"""Label sets and repositories of one organization whose waiting jobs are a condition of their own, those that wait
longest; the jobs of all others are one more. They come from workflow files, and could be any number. Configured pools
always have a condition of their own.
"""


MOST_ENDING = 10
"""Versions of one organization that end or have ended, and are each a condition."""


class Topic(StrEnum):
    """The kinds of conditions, as `[notify] events` names them."""

    FUSE = "fuse"
    BLIND = "blind"
    UNSERVED = "unserved"
    GATE = "gate"
    VERSION = "version"


class Condition(NamedTuple):
    """A condition that holds now.

    Attributes:
        topic: its kind.
        subject: the pool, `pool/shard`, a version, or an `unserved_subject`; empty for the whole organization, or for
            all other label sets.
        level: the fuse's position, or the urgency of a version's end; "open" for other topics. Another level is worth
            another notification.
        since: when it began.
        affected: runners, or jobs.
        detail: its reason code, the labels that no runner has, or the day on which a version ends.
    """

    topic: Topic
    subject: str
    level: str
    since: float
    affected: int = 0
    detail: str = ""

    @property
    def key(self) -> str:
        """Identifies the condition within an installation."""
        return f"{self.topic.value}:{self.subject}"


class Notified(NamedTuple):
    """What people were last notified of, by the condition's key. Fields are only ever appended.

    Attributes:
        topic: its kind.
        subject: as in `Condition`.
        level: of the last notification; empty if that was of the end, or there was none.
        since: when the condition began.
        affected: the largest number while it lasted.
        detail: the last one.
        absent_since: since when it no longer holds; None while it holds.
        sent_at: times of the notifications of the last hour.
    """

    topic: Topic
    subject: str
    level: str = ""
    since: float = 0.0
    affected: int = 0
    detail: str = ""
    absent_since: float | None = None
    sent_at: tuple[float, ...] = ()


class Change(NamedTuple):
    """One notification to send.

    Attributes:
        topic: the kind of condition.
        subject: as in `Condition`.
        level: the new level; empty: it is over.
        before: the level of the last notification; empty: there was none since it began.
        since: when the condition began.
        at: when it reached this level, or ended.
        affected: their number; at its end, the largest while it lasted.
        detail: as in `Condition`.
    """

    topic: Topic
    subject: str
    level: str
    before: str
    since: float
    at: float
    affected: int
    detail: str


OPEN = "open"
"""The level of every condition but a fuse's."""


def fuse_conditions(fuses: Mapping[str, Fuse], lost: Mapping[str, int]) -> list[Condition]:
    """Returns a condition for each fuse that is not closed.

    Args:
        fuses: by pool; `*` is the installation's.
        lost: lost runners whose successors are not online, by pool and for `*`.
    """
    return [
        Condition(Topic.FUSE, pool, fuse.position.value, fuse.since or 0.0, lost.get(pool, 0), fuse.reason.value)
        for pool, fuse in fuses.items()
        if fuse.position is not Position.CLOSED
    ]


def blind_conditions(survey: Survey, prevented_by: str, now: float) -> list[Condition]:
    """Returns a condition if there was no complete list for `BLIND_SECONDS`; `prevented_by` is the reason code."""
    seen_at = survey.swept_at if survey.swept_at is not None else survey.failing_since
    if seen_at is None or now - seen_at <= BLIND_SECONDS:
        return []
    return [Condition(Topic.BLIND, "", OPEN, seen_at, detail=prevented_by or survey.failure)]


def unserved_subject(queue: JobQueue, job: Job, reason: QueueReason) -> str:
    """Returns what an unserved job waits for: its pool, or what sets it apart from the pool's other jobs.

    A job with a label that no runner and no pool has waits for its label set, and a job whose repository the runner
    groups exclude for the groups: either may last for weeks, and must not hide that the pool's other jobs wait, too.
    """
    if missing_labels(job.labels, queue.runner_labels | queue.pool_labels):
        return pool_of((), [label for label in job.labels if label.lower() != "self-hosted"], ())
    pool = queue.pool(job)
    return f"{pool} in {job.repository}" if reason is QueueReason.GROUP_EXCLUDES_REPOSITORY else pool


def unserved_conditions(jobs: Iterable[tuple[str, Job]], pools: Collection[str] = ()) -> list[Condition]:
    """Returns a condition for each subject with jobs that no online runner can take.

    Args:
        jobs: each with its `unserved_subject`, oldest first.
        pools: the configured pools.
    """
    by_subject: dict[str, list[Job]] = defaultdict(list)
    others = set[str]()
    for subject, job in jobs:
        if subject not in pools and len(others) < MOST_UNSERVED:
            others.add(subject)
        by_subject[subject if subject in pools or subject in others else ""].append(job)
    return [_unserved(subject, several) for subject, several in by_subject.items()]


def _unserved(pool: str, jobs: Sequence[Job]) -> Condition:
    labels = dict.fromkeys(one_line(", ".join(job.labels), LONGEST_LABELS) for job in jobs)
    detail = "; ".join([*labels][:MOST_LABELS]) + ("; …" if len(labels) > MOST_LABELS else "")
    return Condition(Topic.UNSERVED, pool, OPEN, jobs[0].queued_at, len(jobs), detail)


def moot_conditions(known: Collection[str], fuses: Mapping[str, Fuse], gates: Mapping[str, GateState]) -> list[str]:
    """Returns the keys of records whose condition ended without being over: they are deleted without a notification.

    The pool of a fuse was renamed, so that another pool has its fuse now; or a shard's last gate check has
    expired.

    Args:
        known: the keys of the stored records.
        fuses: by pool; one that ever changed stays among them.
        gates: of all deployed shards, by `gate_checks.place_of`.
    """
    last = {f"{Topic.FUSE.value}:{pool}" for pool, fuse in fuses.items() if fuse.reason is not FuseReason.POOL_CHANGED}
    last |= {f"{Topic.GATE.value}:{place}" for place in gates}
    return [key for key in known if key.partition(":")[0] in (Topic.FUSE, Topic.GATE) and key not in last]


def undecided_gates(gates: Mapping[str, GateState]) -> list[str]:
    """Returns the keys of shards whose gate neither failed nor passed since the last deploy."""
    return [f"{Topic.GATE.value}:{place}" for place, each in gates.items() if not each.is_decided]


def gate_conditions(gates: Mapping[str, GateState]) -> list[Condition]:
    """Returns a condition for each shard whose gate failed after its last deploy."""
    return [
        Condition(Topic.GATE, place, OPEN, each.failed_at, detail=each.ref)
        for place, each in gates.items()
        if each.failed_at is not None
    ]


def version_conditions(statuses: Iterable[VersionStatus], now: float) -> list[Condition]:
    """Returns a condition for each version that ends or has ended, the worst first, `MOST_ENDING` at most.

    Args:
        statuses: of versions that end or have ended, the worst first.
        now: epoch seconds.
    """
    return [
        Condition(
            Topic.VERSION,
            each.version or "",
            each.urgency.value,
            now if each.jobs_end_at is None else min(now, each.jobs_end_at - NOTICE_SECONDS),
            each.online,
            "" if each.jobs_end_at is None else day(each.jobs_end_at),
        )
        for each in [*statuses][:MOST_ENDING]
    ]


def observe(
    known: Mapping[str, Notified],
    conditions: Iterable[Condition],
    now: float,
    unknown: Collection[str] = (),
    topics: Collection[Topic] = tuple(Topic),
    moot: Collection[str] = (),
) -> tuple[dict[str, Notified | None], list[Change]]:
    """Returns the records to store, by key (None: to delete), and the notifications to send.

    Args:
        known: the stored records.
        conditions: those that hold now; at most one per key.
        now: epoch seconds.
        unknown: topics, and keys of conditions, that cannot be judged now; their records stay as they are.
        topics: that people want to know of; the records of others are deleted, and no notification is sent.
        moot: keys of records to delete without a notification, unless their condition holds.
    """
    present = {each.key: each for each in conditions if each.topic in topics}
    records: dict[str, Notified | None] = {}
    changes: list[Change] = []
    for key in sorted(present.keys() | known.keys()):
        before, condition = known.get(key), present.get(key)
        if before is not None and (before.topic not in topics or (condition is None and key in moot)):
            records[key] = None
            continue
        if key in unknown or key.partition(":")[0] in unknown:
            continue
        after, change = _is_over(known[key], now) if condition is None else _holds(before, condition, now)
        if after != before:
            records[key] = after
        if change is not None:
            changes.append(change)
    return records, changes


def _holds(before: Notified | None, condition: Condition, now: float) -> tuple[Notified, Change | None]:
    topic, subject, level, since, affected, detail = condition
    known = before if before is not None and before.level else Notified(topic, subject, since=since)
    sent_at = _of_last_hour(before, now)
    after = known._replace(affected=max(affected, known.affected), detail=detail, absent_since=None, sent_at=sent_at)
    if known.level == level or len(sent_at) >= MOST_AN_HOUR:
        return after, None
    after = after._replace(level=level, sent_at=(*sent_at, now))
    return after, Change(topic, subject, level, known.level, known.since, now, affected, detail)


def _is_over(before: Notified, now: float) -> tuple[Notified | None, Change | None]:
    sent_at = _of_last_hour(before, now)
    if not before.level:  # people know; the record stays for the hourly limit
        return (before._replace(sent_at=sent_at) if sent_at else None), None
    if before.absent_since is None or before.absent_since > now:
        return before._replace(absent_since=now, sent_at=sent_at), None
    if now - before.absent_since < SETTLE_SECONDS or len(sent_at) >= MOST_AN_HOUR:
        return before._replace(sent_at=sent_at), None
    topic, subject = before.topic, before.subject
    change = Change(topic, subject, "", before.level, before.since, before.absent_since, before.affected, before.detail)
    return Notified(topic, subject, sent_at=(*sent_at, now)), change


def _of_last_hour(before: Notified | None, now: float) -> tuple[float, ...]:
    """Returns the times of the last hour. A time in the future, from a clock that jumped, does not count."""
    return tuple(at for at in before.sent_at if 0.0 <= now - at < HOUR) if before is not None else ()
