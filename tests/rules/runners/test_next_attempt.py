"""What prevents sweeps of an installation, and when the next attempt is due."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ghapp.installations.installation import NEEDED, Installation
from ghapp.runners.evidence import Survey
from ghapp.runners.next_attempt import (
    NOT_SCHEDULED,
    OVERDUE,
    OVERDUE_SECONDS,
    NextAttempt,
    is_list_late,
    next_attempt,
)
from tests.rules.builders import MICROSECOND, NOW, survey

HEALTHY = Installation(7, "acme", 1, NEEDED)
SUSPENDED = replace(HEALTHY, suspended=True)
NOT_PERMITTED = replace(HEALTHY, permissions={"metadata": "read"})
SWEEP_AT, DISCOVERY_AT = NOW + 60, NOW + 30
FAILING = survey(failing_since=NOW - 90, failure="RateLimited")
DEFERRED = survey(deferred_since=NOW - 20)
SUSPENDED_SURVEY = survey(failing_since=NOW - 90, failure="InstallationSuspended")


@pytest.mark.parametrize(
    ("installation", "surveyed", "sweep_at", "discovery_at", "expected"),
    [
        (HEALTHY, survey(), SWEEP_AT, DISCOVERY_AT, NextAttempt("", None, SWEEP_AT)),
        (HEALTHY, FAILING, SWEEP_AT, DISCOVERY_AT, NextAttempt("RateLimited", NOW - 90, SWEEP_AT)),
        (HEALTHY, DEFERRED, SWEEP_AT, DISCOVERY_AT, NextAttempt("RateLimited", NOW - 20, SWEEP_AT)),
        (
            HEALTHY,
            replace(DEFERRED, failing_since=NOW - 90, failure="GitHubUnavailable"),
            SWEEP_AT,
            DISCOVERY_AT,
            NextAttempt("GitHubUnavailable", NOW - 90, SWEEP_AT),
        ),
        (SUSPENDED, SUSPENDED_SURVEY, None, DISCOVERY_AT, NextAttempt("InstallationSuspended", NOW - 90, DISCOVERY_AT)),
        (SUSPENDED, FAILING, None, DISCOVERY_AT, NextAttempt("InstallationSuspended", None, DISCOVERY_AT)),
        (NOT_PERMITTED, Survey(), None, DISCOVERY_AT, NextAttempt("PermissionMissing", None, DISCOVERY_AT)),
        (NOT_PERMITTED, Survey(), SWEEP_AT, DISCOVERY_AT, NextAttempt("PermissionMissing", None, SWEEP_AT)),
        (HEALTHY, survey(), None, DISCOVERY_AT, NextAttempt(NOT_SCHEDULED, None, DISCOVERY_AT)),
        (HEALTHY, survey(), None, None, NextAttempt(NOT_SCHEDULED, None, None)),
        (HEALTHY, survey(), NOW - OVERDUE_SECONDS, None, NextAttempt("", None, NOW - OVERDUE_SECONDS)),
        (
            HEALTHY,
            survey(),
            NOW - OVERDUE_SECONDS - MICROSECOND,
            None,
            NextAttempt(OVERDUE, NOW - OVERDUE_SECONDS - MICROSECOND, NOW - OVERDUE_SECONDS - MICROSECOND),
        ),
    ],
    ids=[
        "healthy",
        "failing",
        "deferred",
        "failing, and deferred",
        "suspended",
        "suspended since the last failure",
        "not permitted",
        "not permitted, sweep scheduled",
        "not scheduled",
        "never discovered",
        "late",
        "overdue",
    ],
)
def test_the_next_attempt_has_its_time_and_the_reason_that_prevents_sweeps(
    installation, surveyed, sweep_at, discovery_at, expected
):
    assert next_attempt(installation, surveyed, sweep_at, discovery_at, NOW) == expected


@pytest.mark.parametrize(
    ("total", "interval", "age", "is_late"),
    [
        (840, 60.0, 60 + 0.65 + 15, False),
        (840, 60.0, 60 + 0.66 + 15, True),
        (0, 4.0, 4 + 15, False),
        (0, 4.0, 4 + 15 + MICROSECOND, True),
        (84_000, 30.0, 61 + 61 + 15, False),
        (84_000, 30.0, 61 + 61 + 15.1, True),
    ],
    ids=["as usual", "late", "small and fast", "small and late", "large", "large and late"],
)
def test_a_list_is_late_a_quarter_of_a_minute_after_the_next_one_should_be_there(total, interval, age, is_late):
    assert is_list_late(survey(swept_at=NOW - age, total=total), interval, NOW) is is_late
    assert not is_list_late(Survey(), interval, NOW), "none was read yet"
