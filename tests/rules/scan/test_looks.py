"""What two lists of runners show: the App's verdicts, and what they differ in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.pods.assigned_job import JobOfRun
from ghapp.runners.verdict import Reason, State
from ghapp.scan.looks import ListDifference, observed, to_ask_for
from tests.rules.builders import NOW
from tests.rules.scan.builders import GAP, found, look, looks, missing, offline, runner, seen
from tests.rules.workflow_jobs.builders import job

EPHEMERAL = {"ephemeral": True}


def over(**changes):
    return JobOfRun(job(1, status="over", runner_id=1, runner_name="linux-1", started_at=NOW - 20, **changes), NOW - 5)


@pytest.mark.parametrize(
    ("before", "after", "answers", "state", "reason", "difference"),
    [
        ([runner()], [runner()], {}, State.HEALTHY, Reason.ONLINE, None),
        ([runner()], [runner(busy=True)], {}, State.HEALTHY, Reason.BUSY, None),
        ([offline()], [offline()], {}, State.OFFLINE, Reason.OFFLINE_TOO_LONG, None),
        ([runner()], [offline()], {}, State.HEALTHY, Reason.OFFLINE_BRIEFLY, ListDifference.WENT_OFFLINE),
        ([offline()], [runner()], {}, State.HEALTHY, Reason.ONLINE, ListDifference.CAME_ONLINE),
        ([offline(busy=True)], [offline(busy=True)], {}, State.HEALTHY, Reason.BUSY, None),
        ([offline(**EPHEMERAL)], [offline(**EPHEMERAL)], {}, State.STARTING, Reason.WITHIN_STARTUP_GRACE, None),
        ([offline(ephemeral=None)], [offline(ephemeral=None)], {}, State.OFFLINE, Reason.OFFLINE_TOO_LONG, None),
        ([], [runner()], {}, State.HEALTHY, Reason.ONLINE, ListDifference.CAME),
        ([], [offline()], {}, State.STARTING, Reason.WITHIN_STARTUP_GRACE, ListDifference.CAME),
        ([runner()], [], {}, State.SUSPECT, Reason.AWAITING_CONFIRMATION, ListDifference.MISSING),
        ([runner()], [], missing(), State.SUSPECT, Reason.AWAITING_CONFIRMATION, ListDifference.MISSING),
        ([runner(**EPHEMERAL)], [], missing(), State.SUSPECT, Reason.AWAITING_CONFIRMATION, ListDifference.MISSING),
        ([runner()], [], found(runner()), State.HEALTHY, Reason.ONLINE, ListDifference.UNLISTED),
        ([runner(busy=True, **EPHEMERAL)], [], {}, State.RETIRED, Reason.JOB_COMPLETED, ListDifference.LEFT),
        ([runner(busy=True)], [], missing(), State.SUSPECT, Reason.AWAITING_CONFIRMATION, ListDifference.MISSING),
    ],
)
def test_a_runner_is_judged_as_the_app_judges_it(before, after, answers, state, reason, difference):
    shown = seen([runner(2), *before], [runner(2), *after], answers).runners[1]
    assert (shown.verdict.state, shown.verdict.reason, shown.change) == (state, reason, difference)


def test_a_machine_that_registered_again_left_no_gap():
    shown = seen([runner(1)], [runner(9, name="linux-1")])
    assert shown.runners[1].verdict.reason is Reason.REREGISTERED
    assert shown.runners[1].change is ListDifference.LEFT


def test_a_job_that_names_an_ephemeral_runner_explains_that_it_left():
    before = [runner(1, ephemeral=True), runner(2)]
    assert seen(before, [runner(2)], jobs=[over()]).runners[1].verdict.reason is Reason.JOB_COMPLETED


def test_a_job_shows_that_an_offline_runner_was_at_work():
    shown = seen([offline()], [offline()], jobs=[over()]).runners[1]
    assert shown.evidence.last_sign_at == NOW - 5


@pytest.mark.parametrize("changes", [{"runner_name": "another"}, {"runner_id": 7}, {"runner_id": None}])
def test_a_job_of_another_scope_s_runner_changes_nothing(changes):
    other = over()._replace(job=over().job._replace(**changes))
    assert seen([runner()], [runner()], jobs=[other]).runners == seen([runner()], [runner()]).runners


@pytest.mark.parametrize("which", [0, 1])
def test_a_list_that_does_not_add_up_proves_no_absence(which):
    lists = looks([runner(1), runner(2)], [runner(2)])
    flawed = lists[which].runner_list._replace(total=500, flaw=Reason.LIST_INCOMPLETE)
    lists[which] = lists[which]._replace(runner_list=flawed)
    shown = observed(lists, {})
    assert shown.flaws == (Reason.LIST_INCOMPLETE,)
    assert shown.runners[1].verdict.state is (State.HEALTHY if which else State.SUSPECT)
    assert shown.runners[1].change is (None if which else ListDifference.MISSING)


def test_after_a_list_that_does_not_add_up_no_runner_is_new():
    first, second = looks([runner(1)], [runner(1), runner(2)])
    flawed = first._replace(runner_list=first.runner_list._replace(total=500, flaw=Reason.LIST_INCOMPLETE))
    assert observed([flawed, second], {}).runners[2].change is None
    assert observed([first, second], {}).runners[2].change is ListDifference.CAME


def test_a_runner_beyond_a_changed_page_is_missing_only_if_github_has_none_of_it():
    fleet = [runner(each) for each in range(1, 41)]
    churned = look(*fleet[1:], at=NOW, total=40, flaw=Reason.LIST_INCOMPLETE)
    shown = observed([look(*fleet), churned], {}).runners[1]
    assert (shown.verdict.state, shown.change) == (State.HEALTHY, None)
    assert observed([look(*fleet), churned], missing()).runners[1].change is ListDifference.MISSING


def test_a_row_that_cannot_be_read_is_a_registered_runner():
    shown = observed([look(runner(1), runner(2)), look(runner(2), at=NOW, total=2, unreadable=frozenset({1}))], {})
    assert shown.hidden == 1
    assert (shown.runners[1].change, to_ask_for([look(runner(1)), look(at=NOW, unreadable=frozenset({1}))], 9)) == (
        None,
        [],
    )


def test_one_list_alone_names_no_difference():
    shown = observed([look(runner(), at=NOW)], {})
    assert (shown.runners[1].verdict.state, shown.runners[1].change) == (State.HEALTHY, None)


def test_persistent_runners_are_asked_for_first_and_finished_ones_not_at_all():
    before = [
        runner(1, ephemeral=True),
        runner(2, ephemeral=True, busy=True),
        runner(3, busy=True),
        runner(4),
        runner(5, ephemeral=None),
    ]
    assert to_ask_for(looks(before, []), 9) == [4, 3, 1, 5]
    assert to_ask_for(looks(before, []), 2) == [4, 3]


@pytest.mark.parametrize("gap", [1.0, 30.0, 300.0])
def test_the_time_between_the_lists_is_the_patience(gap):
    shown = observed([look(offline(), at=NOW - gap), look(offline(), at=NOW)], {})
    assert shown.runners[1].verdict.state is State.OFFLINE


@pytest.mark.parametrize(("gap", "state"), [(119.0, State.STARTING), (121.0, State.OFFLINE)])
def test_an_ephemeral_runner_may_be_starting_for_as_long_as_the_app_grants_it(gap, state):
    lists = [look(offline(**EPHEMERAL), at=NOW - gap), look(offline(**EPHEMERAL), at=NOW)]
    assert observed(lists, {}).runners[1].verdict.state is state


fleets = st.lists(
    st.builds(
        runner,
        st.integers(1, 6),
        online=st.booleans(),
        busy=st.booleans(),
        ephemeral=st.sampled_from([True, False, None]),
    ),
    max_size=6,
    unique_by=lambda each: each.id,
)


@given(fleets, fleets)
def test_each_runner_of_any_two_lists_has_one_verdict_and_no_healthy_one_is_called_missing(before, after):
    shown = seen(before, after)
    assert shown.runners.keys() == {each.id for each in (*before, *after)}
    for each in after:
        assert shown.runners[each.id].change is not ListDifference.MISSING
        assert shown.runners[each.id].verdict.state in (State.HEALTHY, State.OFFLINE, State.STARTING)
    assert all(each.verdict.state is not State.INVALIDATED for each in shown.runners.values())
    assert shown.at - (NOW - GAP) == GAP
