"""Until when GitHub gives jobs to a version of the runner. Pure; times are epoch seconds.

GitHub answers for each version when it gets its last jobs: a date, or null while no newer release is due. It may also
omit the date, or not know the version (404), as on GitHub Enterprise Server: then nothing is known, and nothing is
claimed. The configuration's `[versions] minimum` fills that gap, and nothing else: it never overrules GitHub's date.

A date alone does not prove that GitHub enforces it. A runner that took a job after its version's date, within the last
day, still gets jobs, and its version is `ending`, not `ended`; unless ephemeral runners of it were refused since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from ghapp.versions.counts import LOOP, PoolVersion, VersionedRunner

DAY = 86_400.0

NOTICE_SECONDS = 14 * DAY
"""How long before its last jobs a version is `ending`."""

WARNING_SECONDS = 7 * DAY
"""How long before its last jobs the end of a version is a warning."""

ASK_SECONDS = DAY
"""How often GitHub is asked for the dates of one version."""

KEPT_SECONDS = 30 * DAY
"""How long an answer holds: after a month in which GitHub gave no other, nothing is known."""

RETRY_SECONDS = 3600.0
"""After a failure, GitHub is asked for the same version again after this time."""

MOST_CALLS_A_DAY = 50
"""Versions of one organization for which GitHub is asked within a day. GitHub has some ten releases a year."""

_MOST_DIGITS = 9


class VersionState(StrEnum):
    """Whether GitHub gives jobs to runners of a version."""

    CURRENT = "current"
    """It does, and for more than `NOTICE_SECONDS`."""
    ENDING = "ending"
    """It does, and stops within `NOTICE_SECONDS`; or it registers no more runners of it from then on."""
    ENDED = "ended"
    """It gives them no jobs any more."""
    UNKNOWN = "unknown"
    """GitHub gave no date, and the configuration has no minimum that is newer."""


class Urgency(StrEnum):
    """How urgent the end of a version is."""

    NONE = "none"
    NOTICE = "notice"
    WARNING = "warning"
    ACTION = "action"


ParsedVersion = tuple[int, ...]
"""The numbers of a version; as tuples they are in the order of the releases."""


def parse_version(text: str | None) -> ParsedVersion | None:
    """Returns the numbers of a version like `2.336.0`; None for any other text."""
    parts = (text or "").split(".")
    if len(parts) > 1 and all(part.isascii() and part.isdigit() and len(part) <= _MOST_DIGITS for part in parts):
        return tuple(map(int, parts))
    return None


def is_older(version: str | None, than: str | None) -> bool:
    """True if both are versions, and the first is the older one."""
    first, second = parse_version(version), parse_version(than)
    return first is not None and second is not None and first < second


@dataclass(frozen=True, slots=True)
class VersionLimits:
    """The `[versions]` table.

    Attributes:
        minimum: the oldest version that gets jobs, for versions whose date GitHub does not report; None: none is known.
    """

    minimum: str | None = None


class DatesAnswer(NamedTuple):
    """What GitHub answered for one version. A date that it did not send, or that is odd, is not `reported`.

    Attributes:
        jobs_end_at: the version gets jobs until then; None: GitHub has no date yet.
        registration_ends_at: a runner of the version can register until then; None: GitHub has no date yet.
        answered_at: GitHub's date of the answer; None if it has none.
    """

    jobs_end_at: float | None = None
    jobs_end_reported: bool = False
    registration_ends_at: float | None = None
    registration_end_reported: bool = False
    answered_at: float | None = None


class EndDates(NamedTuple):
    """The dates of one version as GitHub last reported them. Stored: fields are only ever appended.

    Attributes:
        asked_at: when GitHub last answered; None: never.
        jobs_end_at: see `DatesAnswer`.
        is_known: True if GitHub reported the end of jobs, which may be that it has no date yet.
        registration_ends_at: see `DatesAnswer`.
        failed_at: when the last call since then failed; None: it did not.
        ahead_seconds: how far our clock was ahead of GitHub's then.
    """

    asked_at: float | None = None
    jobs_end_at: float | None = None
    is_known: bool = False
    registration_ends_at: float | None = None
    failed_at: float | None = None
    ahead_seconds: float = 0.0

    def github_time(self, now: float) -> float:
        """Returns the time by GitHub's clock, which dates the ends of versions and the starts of jobs."""
        return now - self.ahead_seconds


NOTHING_KNOWN = EndDates()
NO_JOBS: Mapping[str, float] = MappingProxyType({})


def with_answer(known: EndDates, answer: DatesAnswer | None, at: float) -> EndDates:
    """Returns the dates after an answer of GitHub's at `at`.

    None is a 404: GitHub does not know the version, or has no such dates. Dates that the answer does not have stay.
    """
    if answer is None:
        return EndDates(asked_at=at)
    jobs_end_at = answer.jobs_end_at if answer.jobs_end_reported else known.jobs_end_at
    registration_ends_at = (
        answer.registration_ends_at if answer.registration_end_reported else known.registration_ends_at
    )
    return EndDates(
        at,
        jobs_end_at,
        answer.jobs_end_reported or known.is_known,
        registration_ends_at,
        ahead_seconds=0.0 if answer.answered_at is None else at - answer.answered_at,
    )


def with_failure(known: EndDates, at: float) -> EndDates:
    """Returns the dates after a call that GitHub refused or did not answer: they stay."""
    return known._replace(failed_at=at)


def version_state(
    version: str | None, dates: EndDates | None, limits: VersionLimits, now: float, last_job_at: float | None = None
) -> VersionState:
    """Returns whether GitHub gives jobs to runners of a version.

    Args:
        version: as GitHub lists it; None if it lists none.
        dates: the dates that GitHub reported; None if it was never asked.
        limits: the `[versions]` table.
        now: by our clock.
        last_job_at: when a runner of the version last took a job; None if that is not known.
    """
    if parse_version(version) is None:
        return VersionState.UNKNOWN
    dates = _held(dates, now)
    now = dates.github_time(now)
    ends_at = _ends_at(version, dates, limits, now)
    if ends_at is not None and ends_at <= now:
        is_refuted = last_job_at is not None and max(ends_at, now - DAY) < last_job_at <= now
        return VersionState.ENDING if is_refuted else VersionState.ENDED
    next_end = _next_end(dates)
    if next_end is not None and next_end <= now + NOTICE_SECONDS:
        return VersionState.ENDING
    return VersionState.CURRENT if dates.is_known else VersionState.UNKNOWN


def _held(dates: EndDates | None, now: float) -> EndDates:
    """Returns the dates; none if GitHub's last answer is too old."""
    if dates is None or dates.asked_at is None or now - dates.asked_at > KEPT_SECONDS:
        return NOTHING_KNOWN
    return dates


def _ends_at(version: str | None, dates: EndDates, limits: VersionLimits, now: float) -> float | None:
    """Returns when the version gets its last jobs, by GitHub's date or else by the configuration; None: no end known.

    The configuration has no date: the last day counts as after the end, so that a job in it refutes the minimum.
    """
    if not dates.is_known and is_older(version, limits.minimum):
        return now - DAY
    return dates.jobs_end_at


def last_jobs(runners: Iterable[VersionedRunner], refusals: Iterable[tuple[str, float]] = ()) -> dict[str, float]:
    """Returns by version when one of its runners last took a job, if it gets jobs as far as runners show.

    Args:
        runners: all that are known, those that have left, too.
        refusals: versions of ephemeral runners that GitHub refused, each with the time. `LOOP` of them since the last
            job show that the version gets no jobs any more.
    """
    found: dict[str, float] = {}
    for runner in runners:
        if runner.version and runner.job_started_at is not None:
            found[runner.version] = max(runner.job_started_at, found.get(runner.version, 0.0))
    since = Counter(version for version, at in refusals if at > found.get(version, at))
    return {version: at for version, at in found.items() if since[version] < LOOP}


def may_end(dates: Mapping[str, EndDates], limits: VersionLimits, now: float) -> bool:
    """True if a version may be `ending` or `ended`. Cheap: most organizations have no such version at most times."""
    if limits.minimum is not None:
        return True
    return any(
        (next_end := _next_end(_held(each, now))) is not None and next_end <= each.github_time(now) + NOTICE_SECONDS
        for each in dates.values()
    )


def ended_versions(
    runners: Iterable[VersionedRunner],
    dates: Mapping[str, EndDates],
    limits: VersionLimits,
    now: float,
    refusals: Iterable[tuple[str, float]] = (),
) -> dict[str, float]:
    """Returns the versions that get no jobs any more, and since when by our clock.

    Args:
        runners: all that are known, those that have left, too.
        dates: by version.
        limits: the `[versions]` table.
        now: epoch seconds, by our clock.
        refusals: as of `last_jobs`; only read if a version may have ended.
    """
    if not may_end(dates, limits, now):
        return {}
    known = list(runners)
    jobs, found = last_jobs(known, refusals), dict[str, float]()
    for version in {each.version for each in known if each.version}:
        end_dates = _held(dates.get(version), now)
        if version_state(version, end_dates, limits, now, jobs.get(version)) is VersionState.ENDED:
            ends_at = _ends_at(version, end_dates, limits, end_dates.github_time(now))
            found[version] = (now if ends_at is None else ends_at) + end_dates.ahead_seconds
    return found


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """The registered runners of one version, and until when they get jobs.

    Attributes:
        version: None if GitHub lists no version.
        state: see `VersionState`.
        runners: how many there are.
        pools: the same by pool; the pools with most runners come first.
        jobs_end_at: GitHub's date; None if it has none, or is not known.
        registration_ends_at: likewise.
        urgency: how urgent the end is.
        outlives_end: True if its date is past, and a runner of it has taken a job since.
    """

    version: str | None
    state: VersionState
    runners: int
    pools: tuple[PoolVersion, ...] = ()
    jobs_end_at: float | None = None
    registration_ends_at: float | None = None
    urgency: Urgency = Urgency.NONE
    outlives_end: bool = False

    @property
    def online(self) -> int:
        """How many of the runners are online."""
        return sum(each.online for each in self.pools)

    @property
    def refused(self) -> int:
        """How many ephemeral runners ended within the last hour because they are too old."""
        return sum(each.refused for each in self.pools)

    @property
    def is_in_use(self) -> bool:
        """True if a runner of the version is online, or runners of it end and are started again.

        A machine that is offline is reported as that; it updates itself when it starts, or gets no jobs then.
        """
        return self.online > 0 or any(each.loops for each in self.pools)

    @property
    def is_news(self) -> bool:
        """True if the version ends or has ended, and is in use."""
        return self.urgency is not Urgency.NONE and self.is_in_use


def judge_versions(
    counts: Iterable[PoolVersion],
    dates: Mapping[str, EndDates],
    limits: VersionLimits,
    now: float,
    jobs: Mapping[str, float] = NO_JOBS,
) -> list[VersionStatus]:
    """Returns the status of each version that runs: ended ones first, then ending ones, each with the oldest first.

    Args:
        counts: from `count_versions`.
        dates: by version.
        limits: the `[versions]` table.
        now: epoch seconds, by our clock.
        jobs: from `last_jobs`.
    """
    by_version: dict[str | None, list[PoolVersion]] = {}
    for count in counts:
        by_version.setdefault(count.version, []).append(count)
    found = [
        _status(version, pools, _held(dates.get(version or ""), now), limits, now, jobs.get(version or ""))
        for version, pools in by_version.items()
    ]
    return sorted(found, key=_worst_first)


def _status(
    version: str | None,
    pools: Sequence[PoolVersion],
    dates: EndDates,
    limits: VersionLimits,
    now: float,
    last_job_at: float | None,
) -> VersionStatus:
    state = version_state(version, dates, limits, now, last_job_at)
    ends_at = _ends_at(version, dates, limits, dates.github_time(now))
    return VersionStatus(
        version,
        state,
        sum(each.runners for each in pools),
        tuple(pools),
        dates.jobs_end_at,
        dates.registration_ends_at,
        _urgency(state, dates, now),
        state is VersionState.ENDING and ends_at is not None and ends_at <= dates.github_time(now),
    )


def _urgency(state: VersionState, dates: EndDates, now: float) -> Urgency:
    if state is VersionState.ENDED:
        return Urgency.ACTION
    if state is not VersionState.ENDING:
        return Urgency.NONE
    next_end = _next_end(dates)
    is_near = next_end is None or next_end <= dates.github_time(now) + WARNING_SECONDS
    return Urgency.WARNING if is_near else Urgency.NOTICE


def _next_end(dates: EndDates) -> float | None:
    known = (dates.jobs_end_at, dates.registration_ends_at)
    return min((each for each in known if each is not None), default=None)


def _worst_first(status: VersionStatus) -> tuple[int, ParsedVersion]:
    order = (VersionState.ENDED, VersionState.ENDING, VersionState.UNKNOWN, VersionState.CURRENT)
    return order.index(status.state), parse_version(status.version) or ()


def versions_to_ask(runners: Mapping[str | None, int], known: Mapping[str, EndDates], now: float) -> list[str]:
    """Returns the versions for which GitHub is to be asked now, those with most runners first.

    Each version is asked for once a day, or an hour after a failure. Within a day GitHub is asked for at most
    `MOST_CALLS_A_DAY` versions; the dates of further ones are not known.

    Args:
        runners: how many listed runners have each version.
        known: what is known by version.
        now: epoch seconds.
    """
    left = MOST_CALLS_A_DAY - sum(
        _is_within(each.asked_at, DAY, now) or _is_within(each.failed_at, DAY, now) for each in known.values()
    )
    due = [
        version
        for version in runners
        if version is not None
        and parse_version(version) is not None
        and _is_due(known.get(version, NOTHING_KNOWN), now)
    ]
    due.sort(key=lambda version: (-runners[version], version))
    return due[: max(0, left)]


def is_doubtful(dates: EndDates, now: float) -> bool:
    """True if GitHub is to be asked for these dates again because it refused a runner of the version.

    They name no end that is past, and are an hour old at least.
    """
    has_ended = dates.jobs_end_at is not None and dates.jobs_end_at <= dates.github_time(now)
    return not has_ended and dates.asked_at is not None and not _is_within(dates.asked_at, RETRY_SECONDS, now)


def _is_due(dates: EndDates, now: float) -> bool:
    return not _is_within(dates.asked_at, ASK_SECONDS, now) and not _is_within(dates.failed_at, RETRY_SECONDS, now)


def _is_within(at: float | None, seconds: float, now: float) -> bool:
    return at is not None and 0 <= now - at < seconds
