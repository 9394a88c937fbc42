"""What is heard of a stamped pod's runner, whether GitHub is asked about it, and what its answers come to."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.health.job import Job
from ghapp.health.leaks.github_queries import (
    FIRST_ASKED_SECONDS,
    LONG_SECONDS,
    combined_activity,
    is_due,
    is_worth_a_query,
    with_answer,
    without_proof,
)
from ghapp.health.leaks.runner_activity import RunnerActivity
from ghapp.health.runner.evidence import Registration
from tests.health.builders import MICROSECOND, NOW, lost, online, present, survey

STALE = 300.0


def job(number=9, **changes):
    return Job(number, "running", (), "acme/api", NOW - 600, 1, "linux-1", NOW - 600)._replace(**changes)


def of(*same_name, jobs=(), swept_at=NOW):
    return combined_activity(same_name, jobs, survey(swept_at=swept_at), NOW, STALE)


ENDED = {"job_id": 3, "job_started_at": NOW - 2000, "job_ended_at": NOW - 1000}
RUNS = {"job_id": 3, "job_started_at": NOW - 2000}


class TestHeardOf:
    @pytest.mark.parametrize(("swept_at", "busy"), [(NOW - STALE, False), (NOW - STALE - 1e-3, None)])
    def test_of_one_that_nobody_knows_a_fresh_list_says_that_it_is_not_busy(self, swept_at, busy):
        assert of(swept_at=swept_at) == RunnerActivity(busy=busy)

    def test_one_is_what_it_is(self):
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
        ids=["none", "the first", "the second", "one unknown", "busy beats unknown"],
    )
    def test_of_several_of_one_name_whatever_speaks_for_the_pod_counts(self, same_name, busy):
        assert of(*same_name).busy is of(*reversed(same_name)).busy is busy

    @pytest.mark.parametrize(
        ("same_name", "is_online"),
        [([present(id=1), present(id=2)], False), ([online(id=1), present(id=2)], True), ([], False)],
        ids=["none", "one of two", "nobody"],
    )
    def test_one_that_is_online_is_enough(self, same_name, is_online):
        assert of(*same_name).online is of(*reversed(same_name)).online is is_online

    @pytest.mark.parametrize("same_name", [[online(id=1, **RUNS), online(id=2, **ENDED)], [online(id=1, **RUNS)]])
    def test_a_job_of_any_of_them_is_in_progress_and_then_none_is_over(self, same_name):
        word = of(*same_name)
        assert (word.running, word.over_at) == (True, None)

    def test_only_the_latest_ones_job_can_be_over(self):
        assert of(online(id=1, **ENDED), online(id=2)).over_at is None
        assert of(online(id=2, **ENDED), online(id=1)).over_at == NOW - 1000

    @pytest.mark.parametrize(
        ("same_name", "running"),
        [([], True), ([online(**ENDED)], True), ([online(**ENDED | {"job_id": 9})], False)],
        ids=["nobody is known", "another job is over", "this one is over"],
    )
    def test_a_job_under_its_name_counts_unless_its_end_was_told(self, same_name, running):
        word = of(*same_name, jobs=[job(9)])
        assert (word.running, word.over_at is None) == (running, running)

    @pytest.mark.parametrize(
        ("same_name", "registered", "too_long"),
        [
            ([present(id=1), present(id=2)], True, True),
            ([present(id=1), present(id=2, offline_since=NOW)], True, False),
            ([lost(id=1), present(id=2)], True, True),
            ([lost(id=1)], False, False),
            ([], False, False),
        ],
        ids=["both too long", "one", "the only one that is left", "gone", "nobody"],
    )
    def test_of_several_all_that_are_registered_must_have_been_offline_too_long(self, same_name, registered, too_long):
        word = combined_activity(same_name, (), survey(), NOW, STALE, lambda _: 600.0)
        assert (word.registered, word.offline_too_long) == (registered, too_long)

    def test_what_speaks_for_the_pod_most_is_what_counts_of_several_that_are_gone(self):
        word = of(
            lost(id=1, busy=True, absent_since=NOW - 900), lost(id=2, absent_since=NOW - 5, job_started_at=NOW - 9)
        )
        assert (word.last_busy, word.absent_seconds, word.seen_at) == (True, 30.0, NOW - 9)

    def test_one_that_takes_further_jobs_is_enough(self):
        assert of(online(id=1, ephemeral=False), online(id=2, ephemeral=True)).ephemeral is False
        assert of(online(id=1, ephemeral=None), online(id=2, ephemeral=True)).ephemeral is True


class TestWithoutProof:
    """Runners whose absence only lists show: a GET decides whether they are gone."""

    @pytest.mark.parametrize(
        ("changes", "is_asked"),
        [
            ({}, True),
            ({"missing_at": NOW - 30}, False),
            ({"removed_at": NOW - 30}, False),
            ({"retired_at": NOW - 30}, False),
            ({"listed": True}, False),
            ({"registered": False}, False),
        ],
        ids=["lists alone", "a GET", "our removal", "its controller's", "listed again", "never registered"],
    )
    def test_a_list_is_a_hint_and_a_get_is_proof(self, changes, is_asked):
        left = present(listed=False, absent_since=NOW - 900, **ENDED)._replace(**changes)
        assert without_proof([left]) == [left] * is_asked


class TestIsWorthAsking:
    @pytest.mark.parametrize("busy", [False, None])
    @pytest.mark.parametrize(
        ("same_name", "worth"),
        [([], True), ([online()], True), ([online(registered=False)], False)],
        ids=["nobody knows it", "registered", "never listed"],
    )
    def test_where_an_answer_could_let_it_go(self, same_name, worth, busy):
        assert is_worth_a_query(RunnerActivity(busy=busy), same_name) is worth

    @pytest.mark.parametrize("shown", [{"busy": True}, {"busy": False, "online": True}])
    def test_a_fresh_list_that_shows_it_busy_or_online_is_believed(self, shown):
        assert not is_worth_a_query(RunnerActivity(**shown), [online()])

    def test_an_old_list_that_shows_it_online_is_not(self):
        assert is_worth_a_query(RunnerActivity(busy=None, online=True), [online()])


def registration(**changes):
    return Registration(1, "linux-1", "linux", True, False, (), ())._replace(**changes)


class TestAnswered:
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
    def test_what_github_shows_counts(self, before, was_online, named, busy, is_online):
        word = with_answer(RunnerActivity(busy=before, online=was_online), [online()], named)
        assert (word.busy, word.online, word.has_session) == (busy, is_online, busy or is_online)

    def test_nothing_else_of_what_was_heard_is_changed(self):
        before = RunnerActivity(True, NOW, None, True, online=True)
        after = with_answer(before, [online()], [registration()])
        assert after == before._replace(busy=False, is_known=True, registered=True)

    @pytest.mark.parametrize(("runner_id", "too_long"), [(1, True), (2, False)], ids=["the same", "another"])
    def test_a_new_registration_has_not_been_offline_for_long(self, runner_id, too_long):
        before = RunnerActivity(busy=False, registered=True, offline_too_long=True)
        shown = [registration(id=runner_id, online=False)]
        assert with_answer(before, [present(id=1)], shown).offline_too_long is too_long

    def test_none_of_its_name_where_lists_show_one_is_no_registration_and_no_answer(self):
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
            "lists show it",
            "lists show another of its name",
            "lists lack it too",
            "nobody knew it",
            "no fresh list",
            "absent by an old list",
        ],
    )
    def test_none_of_its_name_proves_nothing_alone(self, before, same_name, busy):
        assert with_answer(RunnerActivity(busy=before), same_name, []).busy is busy


class TestIsDue:
    @pytest.mark.parametrize(
        ("age", "due"),
        [(FIRST_ASKED_SECONDS - MICROSECOND, False), (FIRST_ASKED_SECONDS, True)],
    )
    def test_a_job_that_looks_over_is_asked_about_from_five_minutes_on(self, age, due):
        assert is_due(NOW - age, NOW - 60, NOW, looks_over=True) is due

    @pytest.mark.parametrize(("age", "due"), [(LONG_SECONDS - MICROSECOND, False), (LONG_SECONDS, True)])
    def test_one_that_looks_alive_from_80_minutes_on(self, age, due):
        assert is_due(NOW - age, NOW - 60, NOW, looks_over=False) is due

    def test_the_first_look_asks_about_whatever_is_old_enough(self):
        assert is_due(NOW - 5000, None, NOW, looks_over=False)
        assert not is_due(NOW - 100, None, NOW, looks_over=True)

    @given(st.floats(0, 59), st.booleans())
    def test_in_five_days_it_is_asked_about_a_dozen_times_at_most(self, start, looks_over):
        looks = [start + 60 * number for number in range(5 * 24 * 60)]
        asked = [at for last, at in pairwise(looks) if is_due(0.0, last, at, looks_over=looks_over)]
        assert len(asked) == (11 if looks_over else 7)
        assert all(after >= 1.5 * before for before, after in pairwise(asked))

    @pytest.mark.parametrize("last", [NOW, NOW + 5], ids=["a look before", "a clock that went back"])
    def test_a_second_look_does_not_ask_again(self, last):
        assert not is_due(NOW - FIRST_ASKED_SECONDS, last, NOW, looks_over=True)
