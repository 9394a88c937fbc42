"""The activity of a stamped pod's runner, when GitHub is queried about the runner, and how answers change the activity."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.leaks.github_queries import (
    FIRST_ASKED_SECONDS,
    LONG_SECONDS,
    combined_activity,
    is_due,
    is_worth_a_query,
    with_answer,
    without_proof,
)
from ghapp.leaks.runner_activity import RunnerActivity
from ghapp.runners.evidence import Registration
from ghapp.workflow_jobs.job import Job
from tests.rules.builders import MICROSECOND, NOW, lost, online, present, survey

STALE = 300.0


def job(number=9, **changes):
    return Job(number, "running", (), "acme/api", NOW - 600, 1, "linux-1", NOW - 600)._replace(**changes)


def of(*same_name, jobs=(), swept_at=NOW):
    return combined_activity(same_name, jobs, survey(swept_at=swept_at), NOW, STALE)


ENDED = {"job_id": 3, "job_started_at": NOW - 2000, "job_ended_at": NOW - 1000}
RUNS = {"job_id": 3, "job_started_at": NOW - 2000}


class TestCombinedActivity:
    @pytest.mark.parametrize(("swept_at", "busy"), [(NOW - STALE, False), (NOW - STALE - 1e-3, None)])
    def test_an_unknown_runner_is_not_busy_by_a_fresh_list(self, swept_at, busy):
        assert of(swept_at=swept_at) == RunnerActivity(busy=busy)

    def test_one_runner_of_a_name_has_its_own_activity(self):
        assert of(online(busy=True, ephemeral=True, **ENDED)) == RunnerActivity(
            False,
            NOW - 1000,
            True,
            True,
            online=True,
            is_known=True,
            registered=True,
            seen_at=NOW,
            job_started_at=NOW - 2000,
            delivered_at=NOW - 2000,
        )

    @pytest.mark.parametrize(
        ("same_name", "busy"),
        [
            ([lost(id=1), online(id=2)], False),
            ([online(id=1, busy=True), online(id=2)], True),
            ([online(id=1), online(id=2, busy=True)], True),
            ([online(id=1, listed=False), online(id=2)], None),
            ([online(id=1, listed=False), online(id=2, busy=True)], True),
        ],
        ids=["idle", "the first busy", "the second busy", "one unknown", "busy beats unknown"],
    )
    def test_one_busy_runner_of_several_of_one_name_is_enough(self, same_name, busy):
        assert of(*same_name).busy is of(*reversed(same_name)).busy is busy

    @pytest.mark.parametrize(
        ("same_name", "is_online"),
        [([present(id=1), present(id=2)], False), ([online(id=1), present(id=2)], True), ([], False)],
        ids=["both offline", "one of two", "no runner"],
    )
    def test_one_online_runner_of_several_of_one_name_is_enough(self, same_name, is_online):
        assert of(*same_name).online is of(*reversed(same_name)).online is is_online

    @pytest.mark.parametrize("same_name", [[online(id=1, **RUNS), online(id=2, **ENDED)], [online(id=1, **RUNS)]])
    def test_a_job_in_progress_of_any_runner_of_the_name_beats_a_finished_one(self, same_name):
        activity = of(*same_name)
        assert (activity.running, activity.over_at) == (True, None)

    def test_only_the_latest_runners_job_can_be_over(self):
        assert of(online(id=1, **ENDED), online(id=2)).over_at is None
        assert of(online(id=2, **ENDED), online(id=1)).over_at == NOW - 1000

    @pytest.mark.parametrize(
        ("same_name", "running"),
        [([], True), ([online(**ENDED)], True), ([online(**ENDED | {"job_id": 9})], False)],
        ids=["no runner is known", "another job is over", "this job is over"],
    )
    def test_a_job_with_the_runners_name_counts_unless_its_end_is_known(self, same_name, running):
        activity = of(*same_name, jobs=[job(9)])
        assert (activity.running, activity.over_at is None) == (running, running)

    @pytest.mark.parametrize(
        ("same_name", "registered", "too_long"),
        [
            ([present(id=1), present(id=2)], True, True),
            ([present(id=1), present(id=2, offline_since=NOW)], True, False),
            ([lost(id=1), present(id=2)], True, True),
            ([lost(id=1)], False, False),
            ([], False, False),
        ],
        ids=["both too long", "one of two", "the only one registered", "absent", "no runner"],
    )
    def test_all_registered_runners_of_a_name_must_be_offline_too_long(self, same_name, registered, too_long):
        activity = combined_activity(same_name, (), survey(), NOW, STALE, lambda _: 600.0)
        assert (activity.registered, activity.offline_too_long) == (registered, too_long)

    def test_of_several_absent_runners_the_most_cautious_values_count(self):
        activity = of(
            lost(id=1, busy=True, absent_since=NOW - 900), lost(id=2, absent_since=NOW - 5, job_started_at=NOW - 9)
        )
        assert (activity.last_busy, activity.absent_seconds, activity.seen_at) == (True, 30.0, NOW - 9)

    def test_one_persistent_runner_of_several_of_one_name_is_enough(self):
        assert of(online(id=1, ephemeral=False), online(id=2, ephemeral=True)).ephemeral is False
        assert of(online(id=1, ephemeral=None), online(id=2, ephemeral=True)).ephemeral is True


class TestWithoutProof:
    """Runners that are absent by lists alone: a GET decides whether they are deleted at GitHub."""

    @pytest.mark.parametrize(
        ("changes", "is_queried"),
        [
            ({}, True),
            ({"first_404_at": NOW - 30}, False),
            ({"removed_at": NOW - 30}, False),
            ({"retired_at": NOW - 30}, False),
            ({"listed": True}, False),
            ({"registered": False}, False),
        ],
        ids=[
            "lists alone",
            "a GET",
            "removed by ghapp",
            "retired by its controller",
            "listed again",
            "never registered",
        ],
    )
    def test_runners_absent_by_lists_alone_have_no_proof(self, changes, is_queried):
        left = present(listed=False, absent_since=NOW - 900, **ENDED)._replace(**changes)
        assert without_proof([left]) == [left] * is_queried


class TestIsWorthAQuery:
    @pytest.mark.parametrize("busy", [False, None])
    @pytest.mark.parametrize(
        ("same_name", "worth"),
        [([], True), ([online()], True), ([online(registered=False)], False)],
        ids=["unknown", "registered", "never listed"],
    )
    def test_a_query_is_worthwhile_if_its_answer_could_let_the_pod_be_reaped(self, same_name, worth, busy):
        assert is_worth_a_query(RunnerActivity(busy=busy), same_name) is worth

    @pytest.mark.parametrize("shown", [{"busy": True}, {"busy": False, "online": True}])
    def test_a_runner_busy_or_online_by_a_fresh_list_is_not_queried(self, shown):
        assert not is_worth_a_query(RunnerActivity(**shown), [online()])

    def test_a_runner_online_by_an_old_list_is_queried(self):
        assert is_worth_a_query(RunnerActivity(busy=None, online=True), [online()])


def registration(**changes):
    return Registration(1, "linux-1", "linux", True, False, (), ())._replace(**changes)


class TestWithAnswer:
    @pytest.mark.parametrize("before", [False, None])
    @pytest.mark.parametrize("was_online", [False, True])
    @pytest.mark.parametrize(
        ("named", "busy", "is_online"),
        [
            ([registration()], False, True),
            ([registration(online=False)], False, False),
            ([registration(busy=True, online=False)], True, False),
            ([registration(online=False), registration(id=2, busy=True)], True, True),
            ([registration(online=False), registration(id=2)], False, True),
        ],
        ids=["online", "offline", "busy", "one of two busy", "one of two online"],
    )
    def test_the_answer_of_github_replaces_busy_and_online(self, before, was_online, named, busy, is_online):
        activity = with_answer(RunnerActivity(busy=before, online=was_online), [online()], named)
        assert (activity.busy, activity.online, activity.has_session) == (busy, is_online, busy or is_online)

    def test_an_answer_changes_no_other_field_of_the_activity(self):
        before = RunnerActivity(True, NOW, None, True, online=True)
        after = with_answer(before, [online()], [registration()])
        assert after == before._replace(busy=False, is_known=True, registered=True)

    @pytest.mark.parametrize(("runner_id", "too_long"), [(1, True), (2, False)], ids=["the same", "another"])
    def test_a_new_registration_has_not_been_offline_for_long(self, runner_id, too_long):
        before = RunnerActivity(busy=False, registered=True, offline_too_long=True)
        shown = [registration(id=runner_id, online=False)]
        assert with_answer(before, [present(id=1)], shown).offline_too_long is too_long

    def test_an_answer_without_a_runner_that_lists_show_leaves_the_session_unknown(self):
        before = RunnerActivity(busy=False, registered=True, offline_too_long=True)
        after = with_answer(before, [present()], [])
        assert (after.has_session, after.registered, after.offline_too_long) == (None, False, False)

    @pytest.mark.parametrize(
        ("before", "same_name", "busy"),
        [
            (False, [online()], None),
            (False, [lost(), online()], None),
            (False, [lost()], False),
            (False, [], False),
            (None, [], None),
            (None, [lost()], None),
        ],
        ids=[
            "the runner is listed",
            "another runner of the name is listed",
            "the runner is absent from lists too",
            "unknown",
            "no fresh list",
            "absent by an old list",
        ],
    )
    def test_an_answer_without_a_runner_is_no_proof_by_itself(self, before, same_name, busy):
        assert with_answer(RunnerActivity(busy=before), same_name, []).busy is busy


class TestIsDue:
    @pytest.mark.parametrize(
        ("age", "due"),
        [(FIRST_ASKED_SECONDS - MICROSECOND, False), (FIRST_ASKED_SECONDS, True)],
    )
    def test_a_runner_whose_job_looks_over_is_queried_from_five_minutes_on(self, age, due):
        assert is_due(NOW - age, NOW - 60, NOW, looks_over=True) is due

    @pytest.mark.parametrize(("age", "due"), [(LONG_SECONDS - MICROSECOND, False), (LONG_SECONDS, True)])
    def test_a_runner_whose_job_looks_alive_is_queried_from_80_minutes_on(self, age, due):
        assert is_due(NOW - age, NOW - 60, NOW, looks_over=False) is due

    def test_the_first_tick_queries_every_runner_that_is_old_enough(self):
        assert is_due(NOW - 5000, None, NOW, looks_over=False)
        assert not is_due(NOW - 100, None, NOW, looks_over=True)

    @given(st.floats(0, 59), st.booleans())
    def test_a_runner_is_queried_at_most_a_dozen_times_in_five_days(self, start, looks_over):
        ticks = [start + 60 * number for number in range(5 * 24 * 60)]
        queried_at = [at for last, at in pairwise(ticks) if is_due(0.0, last, at, looks_over=looks_over)]
        assert len(queried_at) == (11 if looks_over else 7)
        assert all(after >= 1.5 * before for before, after in pairwise(queried_at))

    @pytest.mark.parametrize("last", [NOW, NOW + 5], ids=["the same time", "the clock went back"])
    def test_a_second_tick_does_not_repeat_the_query(self, last):
        assert not is_due(NOW - FIRST_ASKED_SECONDS, last, NOW, looks_over=True)
