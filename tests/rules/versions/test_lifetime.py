"""Until when GitHub gives jobs to a version of the runner."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.versions.counts import LONGEST_VERSION, MOST_VERSIONS, PoolVersion, count_versions
from ghapp.versions.lifetime import (
    ASK_SECONDS,
    DAY,
    KEPT_SECONDS,
    MOST_CALLS_A_DAY,
    NOTICE_SECONDS,
    RETRY_SECONDS,
    WARNING_SECONDS,
    DatesAnswer,
    EndDates,
    Urgency,
    VersionLimits,
    VersionState,
    ended_versions,
    is_doubtful,
    is_older,
    judge_versions,
    last_jobs,
    parse_version,
    version_state,
    versions_to_ask,
    with_answer,
    with_failure,
)

NOW = 1_800_000_000.0
NO_LIMITS = VersionLimits()
CURRENT, ENDING, ENDED, UNKNOWN = VersionState


@dataclass
class Listed:
    version: str | None = "2.336.0"
    ephemeral: bool | None = True
    online: bool = True
    job_started_at: float | None = None


def dates(jobs_end_at=None, registration_ends_at=None, *, known=True, **changes):
    return EndDates(NOW - 60, jobs_end_at, known, registration_ends_at)._replace(**changes)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2.336.0", (2, 336, 0)),
        ("2.9.10", (2, 9, 10)),
        ("2.336", (2, 336)),
        ("10.0.0.1", (10, 0, 0, 1)),
        ("2", None),
        ("v2.336.0", None),
        ("2.336.0-rc1", None),
        ("2.336.", None),
        ("2..0", None),
        ("2.-1.0", None),
        ("2.٣.0", None),
        ("2. 336.0", None),
        ("2.1234567890.0", None),
        ("latest", None),
        ("", None),
        (None, None),
    ],
)
def test_a_version_is_its_numbers_and_anything_else_is_none(text, numbers):
    assert parse_version(text) == numbers


@pytest.mark.parametrize(
    ("first", "second", "older"),
    [
        ("2.99.0", "2.336.0", True),
        ("2.336.0", "2.336.1", True),
        ("2.336.9", "2.336.10", True),
        ("2.336.0", "2.336.0", False),
        ("3.0.0", "2.336.0", False),
        ("odd", "2.336.0", False),
        (None, "2.336.0", False),
        ("2.336.0", None, False),
    ],
)
def test_versions_compare_as_numbers(first, second, older):
    assert is_older(first, second) is older


@pytest.mark.parametrize(
    ("end_dates", "state"),
    [
        (None, UNKNOWN),
        (dates(known=False), UNKNOWN),
        (dates(), CURRENT),
        (dates(NOW + NOTICE_SECONDS + 1), CURRENT),
        (dates(NOW + NOTICE_SECONDS), ENDING),
        (dates(NOW + 1), ENDING),
        (dates(NOW), ENDED),
        (dates(0.0), ENDED),
        (dates(NOW + 60 * DAY, NOW + NOTICE_SECONDS), ENDING),
        (dates(NOW + 60 * DAY, NOW + NOTICE_SECONDS + 1), CURRENT),
        (dates(None, NOW - DAY), ENDING),
        (dates(None, NOW - DAY, known=False), ENDING),
        (dates(None, NOW + 60 * DAY, known=False), UNKNOWN),
        (dates(NOW - DAY, NOW + 60 * DAY), ENDED),
        (dates(NOW - DAY, asked_at=NOW - KEPT_SECONDS), ENDED),
        (dates(NOW - DAY, asked_at=NOW - KEPT_SECONDS - 1), UNKNOWN),
        (dates(NOW - DAY, asked_at=None), UNKNOWN),
    ],
)
def test_the_state_follows_from_github_s_dates(end_dates, state):
    assert version_state("2.336.0", end_dates, NO_LIMITS, NOW) is state


@pytest.mark.parametrize("version", [None, "", "2.336.0-custom"])
def test_what_is_no_version_is_unknown_whatever_is_configured(version):
    assert version_state(version, dates(NOW - DAY), VersionLimits("99.0.0"), NOW) is UNKNOWN


@pytest.mark.parametrize(
    ("version", "end_dates", "state"),
    [
        ("2.335.9", None, ENDED),
        ("2.335.9", dates(known=False), ENDED),
        ("2.336.0", None, UNKNOWN),
        ("2.337.0", dates(known=False), UNKNOWN),
        ("2.335.9", dates(), CURRENT),
        ("2.335.9", dates(NOW + 60 * DAY), CURRENT),
        ("2.336.0", dates(NOW - DAY), ENDED),
        ("odd", None, UNKNOWN),
    ],
)
def test_the_minimum_counts_only_where_github_has_no_date(version, end_dates, state):
    assert version_state(version, end_dates, VersionLimits("2.336.0"), NOW) is state


@pytest.mark.parametrize(
    ("end_dates", "limits", "last_job_at", "state"),
    [
        (dates(NOW - 9 * DAY), NO_LIMITS, NOW - DAY + 1, ENDING),
        (dates(NOW - 9 * DAY), NO_LIMITS, NOW - DAY, ENDED),
        (dates(NOW - DAY), NO_LIMITS, NOW - DAY + 1, ENDING),
        (dates(NOW - DAY), NO_LIMITS, NOW - DAY, ENDED),
        (dates(NOW - DAY), NO_LIMITS, NOW, ENDING),
        (dates(NOW - DAY), NO_LIMITS, NOW + 1, ENDED),
        (dates(NOW - DAY), NO_LIMITS, None, ENDED),
        (None, VersionLimits("2.337.0"), NOW - DAY + 1, ENDING),
        (None, VersionLimits("2.337.0"), NOW - DAY, ENDED),
    ],
)
def test_a_job_taken_after_the_end_shows_that_the_version_still_gets_jobs(end_dates, limits, last_job_at, state):
    assert version_state("2.336.0", end_dates, limits, NOW, last_job_at) is state


def test_an_end_is_compared_with_github_s_clock_not_with_ours():
    ours_is_ahead = dates(NOW - DAY, ahead_seconds=20 * DAY)
    assert version_state("2.336.0", ours_is_ahead, NO_LIMITS, NOW) is CURRENT
    ours_is_behind = dates(NOW + DAY, ahead_seconds=-2 * DAY)
    assert version_state("2.336.0", ours_is_behind, NO_LIMITS, NOW) is ENDED


def answer(jobs_end_at=None, registration_ends_at=None, *, reported=(True, True), answered_at=NOW):
    return DatesAnswer(jobs_end_at, reported[0], registration_ends_at, reported[1], answered_at)


KNOWN = EndDates(NOW - DAY, NOW + DAY, True, NOW + 2 * DAY, NOW - 60)


@pytest.mark.parametrize(
    ("answered", "recorded"),
    [
        (answer(NOW + 5, NOW + 6), EndDates(NOW, NOW + 5, True, NOW + 6)),
        (answer(), EndDates(NOW, None, True, None)),
        (answer(reported=(False, False)), EndDates(NOW, NOW + DAY, True, NOW + 2 * DAY)),
        (answer(reported=(True, False)), EndDates(NOW, None, True, NOW + 2 * DAY)),
        (answer(answered_at=NOW - 30), EndDates(NOW, None, True, None, None, 30.0)),
        (answer(answered_at=None), EndDates(NOW, None, True, None)),
        (None, EndDates(NOW)),
    ],
)
def test_an_answer_replaces_the_dates_that_it_has_and_a_404_all(answered, recorded):
    assert with_answer(KNOWN, answered, NOW) == recorded


def test_after_a_failure_the_dates_stay():
    assert with_failure(KNOWN, NOW) == KNOWN._replace(failed_at=NOW)


def test_runners_are_counted_by_pool_and_version():
    runners = [
        ("linux", Listed()),
        ("linux", Listed()),
        ("linux", Listed("2.335.0", ephemeral=None)),
        ("gpu", Listed(None)),
        ("gpu", Listed("")),
    ]
    assert count_versions(runners) == [
        PoolVersion("gpu", None, 2, 2, 2),
        PoolVersion("linux", "2.336.0", 2, 2, 2),
        PoolVersion("linux", "2.335.0", 1, 0, 1),
    ]


def test_versions_that_are_too_many_or_too_long_cost_themselves_alone():
    runners = [("linux", Listed(f"2.{each}.0")) for each in range(MOST_VERSIONS + 20)]
    counts = count_versions([*runners, ("linux", Listed("9" * 5000))])
    assert sum(each.runners for each in counts) == MOST_VERSIONS + 21
    assert len({each.version for each in counts}) <= MOST_VERSIONS + 1
    assert count_versions([("linux", Listed("9" * 5000))])[0].version == "9" * LONGEST_VERSION


def test_a_pool_of_mixed_versions_is_judged_by_version_with_the_worst_first():
    counts = [
        PoolVersion("linux", "2.337.0", 5),
        PoolVersion("linux", "2.99.0", 2),
        PoolVersion("gpu", "2.336.0", 1),
        PoolVersion("linux", "2.336.0", 3),
        PoolVersion("linux", "odd", 1),
        PoolVersion("linux", None, 1),
        PoolVersion("gpu", "2.335.0", 1),
    ]
    known = {
        "2.337.0": dates(),
        "2.336.0": dates(NOW + WARNING_SECONDS),
        "2.335.0": dates(NOW + WARNING_SECONDS + 1),
        "2.99.0": dates(NOW - DAY),
    }
    statuses = judge_versions(counts, known, NO_LIMITS, NOW)
    assert [(each.version, each.state, each.urgency, each.runners) for each in statuses] == [
        ("2.99.0", ENDED, Urgency.ACTION, 2),
        ("2.335.0", ENDING, Urgency.NOTICE, 1),
        ("2.336.0", ENDING, Urgency.WARNING, 4),
        ("odd", UNKNOWN, Urgency.NONE, 1),
        (None, UNKNOWN, Urgency.NONE, 1),
        ("2.337.0", CURRENT, Urgency.NONE, 5),
    ]
    assert [(each.pool, each.runners) for each in statuses[2].pools] == [("gpu", 1), ("linux", 3)]


def test_a_job_of_one_runner_shows_that_its_version_gets_jobs_in_all_pools():
    counts = [PoolVersion("linux", "2.336.0", 1), PoolVersion("gpu", "2.336.0", 1)]
    jobs = last_jobs([Listed(job_started_at=NOW - 5), Listed(job_started_at=NOW - 2 * DAY), Listed(None), Listed()])
    (status,) = judge_versions(counts, {"2.336.0": dates(NOW - DAY)}, NO_LIMITS, NOW, jobs)
    assert (status.state, status.urgency, status.outlives_end) == (ENDING, Urgency.WARNING, True)


@pytest.mark.parametrize(
    ("known", "limits", "ended"),
    [
        ({}, NO_LIMITS, {}),
        ({"2.336.0": dates(NOW + DAY)}, NO_LIMITS, {}),
        ({"2.336.0": dates(NOW - 2 * DAY)}, NO_LIMITS, {"2.336.0": NOW - 2 * DAY}),
        ({"2.335.0": dates(NOW - DAY)}, NO_LIMITS, {}),  # a runner of it took a job since
        ({"2.400.0": dates(NOW - DAY)}, NO_LIMITS, {}),  # no runner has it
        ({}, VersionLimits("2.337.0"), {"2.336.0": NOW - DAY}),
        ({"2.336.0": dates(NOW - DAY, ahead_seconds=2 * DAY)}, NO_LIMITS, {}),
        ({"2.336.0": dates(NOW - 9, ahead_seconds=5)}, NO_LIMITS, {"2.336.0": NOW - 4}),
    ],
)
def test_ended_versions_are_those_of_known_runners_that_get_no_jobs(known, limits, ended):
    runners = [Listed(), Listed("2.335.0", job_started_at=NOW - 60), Listed(None), Listed("odd")]
    assert ended_versions(runners, known, limits, NOW) == ended


def test_without_dates_after_a_restart_nothing_is_claimed():
    (status,) = judge_versions([PoolVersion("linux", "2.300.0", 1)], {}, NO_LIMITS, NOW)
    assert (status.state, status.urgency, status.jobs_end_at) == (UNKNOWN, Urgency.NONE, None)


def of(*versions):
    return {version: count for count, version in enumerate(reversed(versions), 1)}


@pytest.mark.parametrize(
    ("known", "due"),
    [
        ({}, ["2.336.0"]),
        ({"2.336.0": EndDates(NOW - ASK_SECONDS + 1)}, []),
        ({"2.336.0": EndDates(NOW - ASK_SECONDS)}, ["2.336.0"]),
        ({"2.336.0": EndDates(NOW + 60)}, ["2.336.0"]),
        ({"2.336.0": EndDates(failed_at=NOW - RETRY_SECONDS + 1)}, []),
        ({"2.336.0": EndDates(failed_at=NOW - RETRY_SECONDS)}, ["2.336.0"]),
        ({"2.336.0": EndDates(NOW - ASK_SECONDS, failed_at=NOW - 1)}, []),
    ],
)
def test_each_version_is_asked_for_once_a_day_and_an_hour_after_a_failure(known, due):
    assert versions_to_ask(of("2.336.0"), known, NOW) == due


def test_odd_versions_are_never_asked_for():
    assert versions_to_ask(of("2.336.0", "odd", "2.336.0/../..", None), {}, NOW) == ["2.336.0"]


def test_calls_of_a_day_have_a_ceiling_and_the_versions_with_most_runners_come_first():
    counts = of(*(f"2.{each}.0" for each in range(200)))
    asked = versions_to_ask(counts, {}, NOW)
    assert asked == [f"2.{each}.0" for each in range(MOST_CALLS_A_DAY)]
    known = dict.fromkeys(asked[1:], EndDates(NOW - 60)) | {asked[0]: EndDates(failed_at=NOW - DAY + 1)}
    assert versions_to_ask(counts, known, NOW) == []
    assert len(versions_to_ask(counts, known, NOW + DAY)) == MOST_CALLS_A_DAY


@given(
    st.one_of(st.none(), st.text(max_size=12), st.from_regex(r"\A[0-9]\.[0-9]{1,3}\.[0-9]\Z")),
    st.one_of(st.none(), st.floats(0, 4e9)),
    st.one_of(st.none(), st.floats(0, 4e9)),
    st.booleans(),
    st.one_of(st.none(), st.just("2.336.0")),
    st.one_of(st.none(), st.floats(0, 4e9)),
)
def test_a_version_has_ended_only_with_a_date_that_is_past_or_a_minimum_that_is_newer(
    version, jobs_end_at, registration_ends_at, known, minimum, last_job_at
):
    end_dates = dates(jobs_end_at if known else None, registration_ends_at, known=known)
    state = version_state(version, end_dates, VersionLimits(minimum), NOW, last_job_at)
    if state is ENDED:
        assert parse_version(version) is not None
        assert (known and jobs_end_at is not None and jobs_end_at <= NOW) or (not known and is_older(version, minimum))
    if state is CURRENT:
        assert known


@pytest.mark.parametrize(
    ("end_dates", "is_asked"),
    [
        (dates(asked_at=NOW - RETRY_SECONDS), True),
        (dates(asked_at=NOW - RETRY_SECONDS + 1), False),
        (dates(known=False, asked_at=NOW - RETRY_SECONDS), True),
        (dates(NOW + DAY, asked_at=NOW - RETRY_SECONDS), True),
        (dates(NOW - DAY, asked_at=NOW - RETRY_SECONDS), False),
        (dates(asked_at=None), False),
    ],
    ids=["an hour ago", "lately", "404 then", "an end that is to come", "it has ended", "due anyway"],
)
def test_after_a_refusal_github_is_asked_again_unless_it_named_the_end(end_dates, is_asked):
    assert is_doubtful(end_dates, NOW) is is_asked


@pytest.mark.parametrize(
    ("refused_at", "is_believed"),
    [([], True), ([NOW - 4] * 2, True), ([NOW - 5] * 9, True), ([NOW - 4] * 3, False)],
    ids=["none", "too few", "before the job", "a loop since the job"],
)
def test_a_job_shows_nothing_once_runners_of_its_version_are_refused(refused_at, is_believed):
    runners, refusals = [Listed(job_started_at=NOW - 5)], [("2.336.0", at) for at in refused_at]
    assert last_jobs(runners, [*refusals, ("2.335.0", NOW)]) == ({"2.336.0": NOW - 5} if is_believed else {})
    ended = ended_versions(runners, {"2.336.0": dates(NOW - DAY)}, NO_LIMITS, NOW, refusals)
    assert set(ended) == (set() if is_believed else {"2.336.0"})
