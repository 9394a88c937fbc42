"""Judges how complete an installation's deliveries are: how late they arrive, and which are missing.

Deliveries are a sense: the end of an ephemeral runner's job explains why the runner left. While deliveries of the time
in which it left are missing or late, its absence proves nothing. Pure; times are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from ghapp.runners.evidence import LIST_LASTS_SECONDS, Evidence, Survey, covered_seconds, is_absent, missing_since
from ghapp.runners.observations import LIST_LAG_SECONDS
from ghapp.runners.verdict import deferred_at
from ghapp.wording import duration

HOLD_SECONDS = 3600.0
"""An absence waits at most this long for deliveries, counted in time that complete lists cover."""

LATE_DELIVERY_SECONDS = 10.0
"""A delivery that arrives later than this after its event is late. GitHub takes one to five seconds."""

MARGIN_SECONDS = 5.0
"""Added to each delay: GitHub's dates are whole seconds, and two deliveries are not equally late."""

UNNAMED_SECONDS = 15.0
"""A runner that GitHub lists at work for so long has a delivery of its job's start, if deliveries come at all."""

MOST_LATE = 8
"""Late arrivals that are kept of an installation."""

LATEST_SECONDS = 3 * 24 * 3600.0
"""The age of a delivery beyond which its date says nothing: GitHub repeats none that is older."""

MANY_OVERDUE, OVERDUE_LASTS_SECONDS = 3, 6 * 3600.0
"""So many deliveries in that time, each more than an hour late, and none in time since: all are late. A single one may
be old because a person had GitHub repeat it.
"""


class LateArrival(NamedTuple):
    """A delivery that came late: when it arrived (our clock), and how many seconds after its event."""

    at: float
    seconds: float


class DeliveryArrivals(NamedTuple):
    """What is known of an installation's deliveries about jobs. Fields are only ever appended.

    Attributes:
        last_at: when the last one arrived (our clock); None if none is known.
        late: those that were late, until no delivery that is as late can be on its way; oldest first.
        punctual_at: when the last one arrived that was at most an hour late; None if none is known.
        overdue: the latest ones that arrived after that, and were more than an hour late; oldest first.
    """

    last_at: float | None = None
    late: tuple[LateArrival, ...] = ()
    punctual_at: float | None = None
    overdue: tuple[LateArrival, ...] = ()


class MissingDeliveries(NamedTuple):
    """Deliveries about jobs that GitHub's log has as failed and that have not come since.

    Attributes:
        installation: of these deliveries; 0 where the log names none, and then they may be any installation's.
        since: the first attempt of the oldest one (GitHub's clock).
        until: the first attempt of the newest one.
        number: how many are missing; 0 where the log was not read so far back.
    """

    installation: int
    since: float
    until: float
    number: int


class DeliveryLog(NamedTuple):
    """GitHub's delivery log as it was last read. Fields are only ever appended.

    Attributes:
        read_at: when its newest end was last read (our clock); None: never.
        missing: the missing deliveries, one entry for each installation.
        failing_since: since when the log cannot be read; None while it can.
        failure: why, in words.
        complete_at: when the last reading began that reached the oldest failure; None: none did.
        part: the missing deliveries that a reading found which has not reached it yet.
    """

    read_at: float | None = None
    missing: tuple[MissingDeliveries, ...] = ()
    failing_since: float | None = None
    failure: str = ""
    complete_at: float | None = None
    part: tuple[MissingDeliveries, ...] = ()


class LogReading(NamedTuple):
    """One read of a part of GitHub's log, from its newest end or from where an earlier one ended.

    Attributes:
        at: when it began (our clock).
        missing: what it found missing.
        since: the oldest failure that is of interest.
        until: the oldest failure that it read, if there are older ones; else None.
        is_newest: True if it began at the newest end.
        begins: True if it begins a new reading of the whole log.
    """

    at: float
    missing: tuple[MissingDeliveries, ...]
    since: float
    until: float | None
    is_newest: bool
    begins: bool


class DeliveryFacts(NamedTuple):
    """What `completeness` judges, of one installation.

    Attributes:
        installation: its id.
        arrivals: of its deliveries.
        log: GitHub's delivery log.
        backlog_seconds: how long the oldest delivery in our inbox has waited there (by Redis' clock); 0 without one.
        expected_at: since when another delivery must have come; see `expected_at`.
    """

    installation: int
    arrivals: DeliveryArrivals = DeliveryArrivals()
    log: DeliveryLog = DeliveryLog()
    backlog_seconds: float = 0.0
    expected_at: float | None = None


class GapCause(StrEnum):
    """Why deliveries of a span are not all here."""

    LATE = "late"
    BACKLOG = "backlog"
    FAILED = "failed"
    SILENT = "silent"
    UNREADABLE = "unreadable"


class DeliveryGap(NamedTuple):
    """A span of which deliveries are missing or late.

    Attributes:
        since: its begin; 0 if that is unknown.
        until: its end; None if it lasts.
        cause: why.
        text: the same for people.
    """

    since: float
    until: float | None
    cause: GapCause
    text: str


def arrivals_after(
    arrivals: DeliveryArrivals, new: Iterable[tuple[float, float | None]], now: float
) -> DeliveryArrivals:
    """Returns what is known after more deliveries arrived. Their order changes nothing.

    Redeliveries must be left out: they are old by nature, and show nothing of others. Deliveries whose date says
    nothing of their age must be given without a date.

    Args:
        arrivals: before these.
        new: of each delivery, when it arrived (our clock) and when its event happened (GitHub's clock; None: no date).
        now: our clock.
    """
    new = [(at, event_at) for at, event_at in new if at <= now]
    last_at = max([at for at, _ in new], default=None)
    if arrivals.last_at is not None and arrivals.last_at <= now:
        last_at = arrivals.last_at if last_at is None else max(last_at, arrivals.last_at)
    ages = [LateArrival(at, at - event_at) for at, event_at in new if event_at is not None]
    late = [each for each in ages if LATE_DELIVERY_SECONDS <= each.seconds <= HOLD_SECONDS]
    punctual = [each.at for each in ages if each.seconds <= HOLD_SECONDS]
    if arrivals.punctual_at is not None and arrivals.punctual_at <= now:
        punctual.append(arrivals.punctual_at)
    punctual_at = max(punctual, default=None)
    overdue = [*arrivals.overdue, *(each for each in ages if HOLD_SECONDS < each.seconds <= LATEST_SECONDS)]
    return DeliveryArrivals(
        last_at, _lasting([*arrivals.late, *late], now), punctual_at, _overdue(overdue, punctual_at, now)
    )


def _overdue(arrivals: Iterable[LateArrival], punctual_at: float | None, now: float) -> tuple[LateArrival, ...]:
    """Returns the latest arrivals that were more than an hour late, and since which none was in time."""
    since = max(now - OVERDUE_LASTS_SECONDS, punctual_at or 0.0)
    return tuple(sorted(each for each in arrivals if since < each.at <= now)[-MOST_LATE:])


def _lasting(late: Iterable[LateArrival], now: float) -> tuple[LateArrival, ...]:
    """Returns the late arrivals that still count, without those of which a later one was at least as late."""
    kept: list[LateArrival] = []
    for each in sorted(late, reverse=True):
        is_over = each.at > now or each.at + each.seconds + MARGIN_SECONDS < now
        if not is_over and (not kept or each.seconds > kept[-1].seconds):
            kept.append(each)
    while len(kept) > MOST_LATE:  # two become one that is as late as the one, and lasts as long as the other
        kept[-2:] = [LateArrival(kept[-2].at, kept[-1].seconds)]
    return tuple(reversed(kept))


def expected_at(
    records: Iterable[Evidence], arrivals: DeliveryArrivals, known: float | None, now: float
) -> float | None:
    """Returns since when a delivery must have come: GitHub listed a runner that began to work after the last one.

    Jobs of repositories on which the App is not installed have no deliveries either; the first delivery of another job
    ends that. None if no delivery ever came: then none come at all. How long ago the last one came does not matter: no
    job may have run since.

    Args:
        records: all runners of the installation.
        arrivals: of its deliveries.
        known: the answer before; it holds until a delivery arrives.
        now: our clock.
    """
    last_at = arrivals.last_at
    if last_at is None or last_at > now:
        return None
    if known is not None and last_at < known <= now:
        return known
    began = (
        each.observed_at
        for each in records
        if each.listed and each.is_busy and each.running_job is None and not _may_show_its_last_job(each)
    )
    return min((at for at in began if at is not None and last_at < at <= now), default=None)


def _may_show_its_last_job(evidence: Evidence) -> bool:
    """True if a busy runner may be so by a job of which the end was delivered: lists may be some time behind."""
    ended_at, observed_at = evidence.job_ended_at, evidence.observed_at or 0.0
    is_ephemeral = evidence.ephemeral is True
    return ended_at is not None and (is_ephemeral or observed_at <= ended_at + LIST_LAG_SECONDS)


def completeness(facts: DeliveryFacts, now: float) -> tuple[DeliveryGap, ...]:
    """Returns the spans of which deliveries are known to be missing or late; empty while deliveries are complete.

    What failed, arrives late, waits in our inbox, or does not come although GitHub shows that it must, each has its own
    gap; so has a delivery log that cannot be read. A date in the future is no date: a gap without its begin reaches
    back as far as possible. If deliveries are more than an hour late, an absence does not wait long enough for them;
    that is a gap and is reported all the same.
    """
    arrivals = facts.arrivals
    overdue = _overdue(arrivals.overdue, arrivals.punctual_at, now)
    late = [*_lasting(arrivals.late, now), *(overdue if len(overdue) >= MANY_OVERDUE else ())]
    delay = max((each.seconds for each in late), default=0.0)
    reach = delay + MARGIN_SECONDS
    gaps = []
    if delay:
        gaps.append(DeliveryGap(now - reach, None, GapCause.LATE, f"deliveries arrive {duration(delay)} late"))
    if facts.backlog_seconds >= LATE_DELIVERY_SECONDS:
        text = f"deliveries have waited in the inbox for {duration(facts.backlog_seconds)}"
        gaps.append(DeliveryGap(now - facts.backlog_seconds - reach, None, GapCause.BACKLOG, text))
    for missing in facts.log.missing:
        if missing.installation in (0, facts.installation):
            since = missing.since - reach if missing.since <= now else 0.0
            until = missing.until + MARGIN_SECONDS if missing.until <= now else None
            text = f"{missing.number} failed and have not come since"
            if not missing.number:
                text = "more have failed than GitHub's log was read for"
            gaps.append(DeliveryGap(since, until, GapCause.FAILED, text))
    last_at, expected = arrivals.last_at, facts.expected_at
    if last_at is not None and expected is not None and last_at < expected <= now - UNNAMED_SECONDS:
        text = f"no delivery has come for {duration(now - last_at)}, and GitHub lists runners that began to work since"
        gaps.append(DeliveryGap(last_at - reach, None, GapCause.SILENT, text))
    if facts.log.failing_since is not None:
        read_at = facts.log.read_at
        since = 0.0 if read_at is None or read_at > now else read_at - reach
        text = f"GitHub's delivery log cannot be read: {facts.log.failure}"
        gaps.append(DeliveryGap(since, None, GapCause.UNREADABLE, text))
    return tuple(gaps)


def log_after(known: DeliveryLog, reading: LogReading) -> DeliveryLog:
    """Returns the log after one more read. What was missing is missing until a reading reaches the oldest failure.

    Failures between that and the newest ones are unknown until then, and may be of any installation.
    """
    is_whole = reading.is_newest and reading.until is None
    part = _joined(reading.missing if reading.begins or is_whole else [*known.part, *reading.missing])
    read_at = reading.at if reading.is_newest else known.read_at
    if reading.until is None:
        return DeliveryLog(read_at, part, complete_at=read_at)
    missing = [*known.missing, *part]
    if known.complete_at is None or not reading.until <= known.complete_at <= reading.at:
        missing.append(MissingDeliveries(0, reading.since, reading.until, 0))
    return DeliveryLog(read_at, _joined(missing), complete_at=known.complete_at, part=part)


def _joined(missing: Iterable[MissingDeliveries]) -> tuple[MissingDeliveries, ...]:
    """Returns what is missing with one entry for each installation. Some may be counted twice."""
    found: dict[int, MissingDeliveries] = {}
    for each in missing:
        known = found.get(each.installation, each._replace(number=0))
        since, until = min(known.since, each.since), max(known.until, each.until)
        found[each.installation] = MissingDeliveries(each.installation, since, until, max(known.number, each.number))
    return tuple(found[installation] for installation in sorted(found))


def log_after_failure(log: DeliveryLog, why: str, now: float) -> DeliveryLog:
    """Returns the log after an attempt to read it failed: what was missing still is."""
    since = log.failing_since
    return log._replace(failing_since=now if since is None or since > now else since, failure=why)


def may_have_begun_a_job(evidence: Evidence, gaps: Sequence[DeliveryGap], survey: Survey, now: float) -> bool:
    """True if a missing or late delivery may report that an absent runner, of any kind, is at work.

    It may have begun a job when it was listed last, and have lost its registration since. An ephemeral runner whose job
    is over takes no other. The doubt lasts at most as long as an absence waits for deliveries.
    """
    if not is_absent(evidence) or has_waited(evidence, survey, now):
        return False
    had_its_job = evidence.ephemeral is True and evidence.job_ended_at is not None
    return not had_its_job and left_in_gap(evidence, gaps, survey)


def left_in_gap(evidence: Evidence, gaps: Sequence[DeliveryGap], survey: Survey) -> bool:
    """True if deliveries of the time in which an absent runner left are missing or late: its absence is in doubt.

    It left between the last list that showed it and the first that lacked it. A delivery of that time may report that
    its only job is over, or that it has begun a job, and works on although its registration is missing.
    """
    lacked_at = missing_since(evidence)
    shown_at, last_shown_at = lacked_at - LIST_LASTS_SECONDS, evidence.last_shown_at
    if last_shown_at is not None and last_shown_at <= lacked_at:
        shown_at = max(shown_at, last_shown_at)
    for begin, end in survey.blind:
        if begin <= shown_at <= end:
            shown_at = min(shown_at, begin)
    return overlaps(gaps, shown_at, lacked_at)


def overlaps(gaps: Sequence[DeliveryGap], since: float, until: float) -> bool:
    """True if deliveries of a part of that span are missing or late."""
    return any(gap.since <= until and (gap.until is None or gap.until >= since) for gap in gaps)


def has_waited(evidence: Evidence, survey: Survey, now: float) -> bool:
    """True if a runner has been absent for as long as an absence waits for deliveries."""
    return covered_seconds(survey, missing_since(evidence), now) >= HOLD_SECONDS


def confirmation_deferred(evidence: Evidence | None, at: float) -> Evidence | None:
    """The confirmation of a suspect was deferred at `at` because deliveries are behind. The first time is kept."""
    if evidence is None or not is_absent(evidence):
        return evidence
    since = deferred_at(evidence)
    return evidence if since is not None and since <= at else evidence._replace(deliveries_behind_at=at)


def was_confirmed_without_deliveries(evidence: Evidence) -> bool:
    """True if the loss was confirmed because deliveries stayed behind for longer than an absence waits for them."""
    if evidence.confirmed_at is None or deferred_at(evidence) is None:
        return False
    return evidence.confirmed_at - missing_since(evidence) >= HOLD_SECONDS


def in_words(gaps: Sequence[DeliveryGap]) -> str:
    """Returns the gaps as one sentence without its full stop; empty without any."""
    return "; ".join(gap.text for gap in gaps)
