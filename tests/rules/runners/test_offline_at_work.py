"""An offline runner is replaced only if its pool has a limit, and never while a job is known to run on it."""

import pytest

from ghapp.runners.evidence import Survey
from ghapp.runners.verdict import LONGEST_JOB_SECONDS, is_offline_too_long
from tests.rules.builders import MICROSECOND, NOW, present


@pytest.mark.parametrize(
    ("changes", "too_long"),
    [
        ({}, True),
        ({"busy": True}, False),
        ({"was_busy": True}, True),
        ({"ephemeral": True}, True),
        ({"ephemeral": True, "was_busy": True}, False),
        ({"ephemeral": True, "was_busy": True, "job_ended_at": NOW - 3700}, True),
        ({"job_id": 7, "job_started_at": NOW - 7200}, False),
        ({"job_id": 7, "job_started_at": NOW - 7200, "job_ended_at": NOW - 3700}, True),
        ({"job_id": 7, "job_started_at": NOW - LONGEST_JOB_SECONDS}, False),
        ({"job_id": 7, "job_started_at": NOW - LONGEST_JOB_SECONDS - MICROSECOND}, True),
    ],
    ids=[
        "idle",
        "listed busy",
        "listed busy before",
        "ephemeral, idle",
        "ephemeral, listed busy before",
        "ephemeral, listed busy before its end",
        "a job in progress",
        "its job is over",
        "in progress for the longest job",
        "in progress for longer",
    ],
)
def test_a_runner_with_a_job_is_not_offline_too_long(changes, too_long):
    assert is_offline_too_long(present(**changes), 3600.0, Survey(), NOW) is too_long


@pytest.mark.parametrize(
    ("patience", "too_long"),
    [(None, False), (3600.0 - MICROSECOND, True), (3600.0, True), (3600.0 + MICROSECOND, False)],
    ids=str,
)
def test_a_runner_is_offline_too_long_at_its_pools_limit(patience, too_long):
    assert is_offline_too_long(present(), patience, Survey(), NOW) is too_long
