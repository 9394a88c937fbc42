"""Offline is replaced only where a pool asks for it, and never while a job is known to run there."""

import pytest

from ghapp.health.runner.evidence import Survey
from ghapp.health.runner.verdict import LONGEST_JOB_SECONDS, is_offline_too_long
from tests.health.builders import MICROSECOND, NOW, present


@pytest.mark.parametrize(
    ("changes", "too_long"),
    [
        ({}, True),
        ({"busy": True}, False),
        ({"job_id": 7, "job_started_at": NOW - 7200}, False),
        ({"job_id": 7, "job_started_at": NOW - 7200, "job_ended_at": NOW - 3700}, True),
        ({"job_id": 7, "job_started_at": NOW - LONGEST_JOB_SECONDS}, False),
        ({"job_id": 7, "job_started_at": NOW - LONGEST_JOB_SECONDS - MICROSECOND}, True),
    ],
    ids=["idle", "GitHub calls it busy", "its job runs", "its job is over", "for as long as any may", "longer"],
)
def test_whose_job_runs_is_let_be_whatever_github_shows(changes, too_long):
    assert is_offline_too_long(present(**changes), 3600.0, Survey(), NOW) is too_long


@pytest.mark.parametrize(
    ("patience", "too_long"), [(None, False), (3600.0, True), (3600.0 + MICROSECOND, False)], ids=str
)
def test_it_takes_as_long_as_its_pool_says(patience, too_long):
    assert is_offline_too_long(present(), patience, Survey(), NOW) is too_long
