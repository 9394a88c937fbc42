"""What prevents sweeps of an installation, and when the next attempt is due."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ghapp.health.installation import NEEDED, Installation
from ghapp.health.runner.evidence import Survey
from ghapp.health.runner.next_attempt import NOT_SCHEDULED, OVERDUE, OVERDUE_SECONDS, NextAttempt, next_attempt
from tests.health.builders import MICROSECOND, NOW, survey

WELL = Installation(7, "acme", 1, NEEDED)
SUSPENDED = replace(WELL, suspended=True)
UNPERMITTED = replace(WELL, permissions={"metadata": "read"})
SWEEP_AT, DISCOVERY_AT = NOW + 60, NOW + 30
FAILING = survey(failing_since=NOW - 90, failure="RateLimited")
STRUCK = survey(failing_since=NOW - 90, failure="InstallationSuspended")


@pytest.mark.parametrize(
    ("installation", "surveyed", "sweep_at", "discovery_at", "expected"),
    [
        (WELL, survey(), SWEEP_AT, DISCOVERY_AT, NextAttempt("", None, SWEEP_AT)),
        (WELL, FAILING, SWEEP_AT, DISCOVERY_AT, NextAttempt("RateLimited", NOW - 90, SWEEP_AT)),
        (SUSPENDED, STRUCK, None, DISCOVERY_AT, NextAttempt("InstallationSuspended", NOW - 90, DISCOVERY_AT)),
        (SUSPENDED, FAILING, None, DISCOVERY_AT, NextAttempt("InstallationSuspended", None, DISCOVERY_AT)),
        (UNPERMITTED, Survey(), None, DISCOVERY_AT, NextAttempt("PermissionMissing", None, DISCOVERY_AT)),
        (UNPERMITTED, Survey(), SWEEP_AT, DISCOVERY_AT, NextAttempt("PermissionMissing", None, SWEEP_AT)),
        (WELL, survey(), None, DISCOVERY_AT, NextAttempt(NOT_SCHEDULED, None, DISCOVERY_AT)),
        (WELL, survey(), None, None, NextAttempt(NOT_SCHEDULED, None, None)),
        (WELL, survey(), NOW - OVERDUE_SECONDS, None, NextAttempt("", None, NOW - OVERDUE_SECONDS)),
        (
            WELL,
            survey(),
            NOW - OVERDUE_SECONDS - MICROSECOND,
            None,
            NextAttempt(OVERDUE, NOW - OVERDUE_SECONDS - MICROSECOND, NOW - OVERDUE_SECONDS - MICROSECOND),
        ),
    ],
    ids=[
        "well",
        "failing",
        "suspended",
        "suspended since the last failure",
        "not permitted",
        "not permitted, and swept all the same",
        "not scheduled",
        "never discovered",
        "late",
        "overdue",
    ],
)
def test_the_next_attempt_is_named_with_what_prevents_sweeps(installation, surveyed, sweep_at, discovery_at, expected):
    assert next_attempt(installation, surveyed, sweep_at, discovery_at, NOW) == expected
