"""What evidence says of the runner in a pod."""

import pytest

from ghapp.leaks.runner_activity import runner_activity
from tests.rules.builders import MICROSECOND, NOW, lost, online, present, survey
from tests.rules.leaks.builders import (
    STALE,
)

THERE = {"listed": True, "absent_since": None, "first_404_at": None}


class TestRunnerActivity:
    @pytest.mark.parametrize(
        ("evidence", "busy"),
        [
            (None, False),
            (online(busy=True), True),
            (online(), False),
            (present(busy=True), True),
            (lost(busy=True), False),
            (online(busy=True, listed=False, absent_since=NOW, observed_at=NOW - 9999), False),
            (online(missing_from_partial_list_at=NOW), None),
            (lost(missing_from_partial_list_at=NOW - 120), False),
            (online(registered=False), None),
            (online(listed=False), None),
            (online(listed=False, removed_at=NOW), False),
            (online(listed=False, retired_at=NOW), False),
        ],
        ids=[
            "unknown",
            "busy",
            "idle",
            "busy and offline",
            "absent",
            "absent for long",
            "missing from a partial list",
            "missing from a partial list, and then absent",
            "known by deliveries alone",
            "not in the last list",
            "removed",
            "retired",
        ],
    )
    def test_busy_is_read_from_fresh_github_data(self, evidence, busy):
        assert runner_activity(evidence, survey(), NOW, STALE).busy is busy

    @pytest.mark.parametrize(
        ("evidence", "is_online"),
        [
            (online(), True),
            (present(), False),
            (online(listed=False, removed_at=NOW), False),
            (lost(online=True), False),
        ],
        ids=["online", "offline", "removed", "absent"],
    )
    def test_online_is_read_from_fresh_github_data(self, evidence, is_online):
        assert runner_activity(evidence, survey(), NOW, STALE).online is is_online

    @pytest.mark.parametrize(("age", "is_fresh"), [(STALE, True), (STALE + 1e-3, False), (None, False)])
    @pytest.mark.parametrize("evidence", [None, online(observed_at=0.0), lost()], ids=["unknown", "idle", "absent"])
    def test_busy_is_unknown_without_a_fresh_list(self, evidence, age, is_fresh):
        swept_at = None if age is None else NOW - age
        activity = runner_activity(evidence, survey(swept_at=swept_at), NOW, STALE)
        assert activity.busy is (False if is_fresh else None)

    @pytest.mark.parametrize(
        ("changes", "running", "over_at"),
        [
            ({}, False, None),
            ({"job_id": 3, "job_started_at": NOW}, True, None),
            ({"job_id": 3, "job_started_at": NOW - 5, "job_ended_at": NOW}, False, NOW),
        ],
        ids=["no job", "in progress", "completed"],
    )
    def test_deliveries_show_a_job_in_progress_or_over(self, changes, running, over_at):
        activity = runner_activity(online(ephemeral=True, **changes), survey(), NOW, STALE)
        assert (activity.running, activity.over_at, activity.ephemeral) == (running, over_at, True)

    @pytest.mark.parametrize(
        ("evidence", "registered"),
        [
            (online(), True),
            (present(), True),
            (online(missing_from_partial_list_at=NOW), False),
            (lost(), False),
            (None, False),
        ],
        ids=["online", "offline", "missing from a partial list", "absent", "unknown"],
    )
    def test_registered_is_read_from_github_data(self, evidence, registered):
        assert runner_activity(evidence, survey(), NOW, STALE).registered is registered

    def test_an_old_list_shows_no_registration(self):
        assert not runner_activity(present(observed_at=0.0), survey(swept_at=NOW - STALE - 1), NOW, STALE).registered

    @pytest.mark.parametrize(
        ("patience", "blind", "too_long"),
        [
            (None, (), False),
            (3600.0, (), True),
            (3600.0 + MICROSECOND, (), False),
            (3600.0, ((NOW - 100, NOW - 99),), False),
        ],
        ids=["never replaced", "after an hour", "after more than an hour", "a second without lists"],
    )
    def test_offline_too_long_uses_the_pools_limit_and_counts_only_time_covered_by_lists(
        self, patience, blind, too_long
    ):
        activity = runner_activity(
            present(offline_since=NOW - 3600), survey(blind=blind), NOW, STALE, lambda _: patience
        )
        assert activity.offline_too_long is too_long

    @pytest.mark.parametrize(
        ("changes", "last_busy"),
        [
            ({"busy": True}, True),
            ({"busy": False}, False),
            ({"busy": True, "job_id": 3, "job_started_at": NOW - 99}, False),
            ({"busy": True, "job_id": 3, "job_ended_at": NOW - 99, "ephemeral": True}, False),
            ({"busy": True, "job_id": 3, "job_ended_at": NOW - 99, "ephemeral": None}, True),
            ({"busy": True, "absent_since": None, "first_404_at": None, "listed": True}, False),
        ],
        ids=["busy", "idle", "its job is known", "its only job is over", "an earlier job is over", "still listed"],
    )
    def test_a_runner_busy_when_last_seen_without_a_known_job_end_may_be_working(self, changes, last_busy):
        assert runner_activity(lost(**changes), survey(), NOW, STALE).last_busy is last_busy

    @pytest.mark.parametrize(
        ("evidence", "seconds"),
        [
            (lost(), 60.0),
            (online(), None),
            (online(listed=False), None),
            (online(listed=False, removed_at=NOW - 7), 7.0),
            (online(listed=False, retired_at=NOW - 8), 8.0),
            (None, None),
        ],
        ids=["absent", "listed", "not in the last list", "removed", "retired", "unknown"],
    )
    def test_absence_lasts_since_the_earliest_proof(self, evidence, seconds):
        assert runner_activity(evidence, survey(), NOW, STALE).absent_seconds == seconds

    def test_time_not_covered_by_lists_does_not_lengthen_an_absence(self):
        assert runner_activity(lost(), survey(blind=((NOW - 50, NOW - 10),)), NOW, STALE).absent_seconds == 20.0

    @pytest.mark.parametrize(
        ("changes", "seen_at"),
        [
            ({**THERE, "online": True}, NOW),
            ({**THERE, "busy": True}, NOW),
            (THERE, NOW - 900),
            ({}, NOW - 900),
            ({"job_started_at": NOW - 400}, NOW - 400),
            ({"job_started_at": NOW - 800, "job_ended_at": NOW - 60, "last_delivery_at": NOW - 60}, NOW - 800),
            ({"registered": False, "job_started_at": NOW}, None),
            ({**THERE, "was_online": False}, None),
        ],
        ids=[
            "online",
            "busy",
            "offline",
            "absent",
            "by the job's start",
            "not by the job's end",
            "by deliveries alone",
            "never online",
        ],
    )
    def test_seen_at_is_the_last_time_at_which_the_runner_was_connected(self, changes, seen_at):
        assert runner_activity(lost(first_seen=NOW - 900, **changes), survey(), NOW, STALE).seen_at == seen_at
