"""From a list that lacks a runner to the proof that it is gone."""

import pytest

from ghapp.health import absence
from ghapp.health.absence import MOST_ASKED, Look
from ghapp.health.fuse import FuseLimits
from ghapp.health.installation import Installation
from ghapp.health.verdict import Limits, Reason, State, judge

from .builders import LONG_AGO, MICROSECOND, NOW, lost, online, present, registration, survey, suspect

FUSE = FuseLimits()
LIMITS = Limits()
FLEET = {each: online(each) for each in range(1, 11)}
HELD = {"organization_self_hosted_runners": "write"}
KNOWN = Installation(id=1, org="acme", account_id=7, permissions=HELD)


def listing(*ids, flaw=None, **changes):
    runners = {each: registration(id=each, name=f"linux-{each}", online=True, **changes) for each in ids}
    return Look(runners, len(runners), flaw)


class TestWeighing:
    def test_an_empty_list_of_a_fleet_that_was_there_a_moment_ago_is_no_answer(self):
        assert absence.weighed(listing(), FLEET, survey(), NOW, FUSE).flaw is Reason.LIST_EMPTY

    @pytest.mark.parametrize(
        ("size", "flaw"), [(3, None), (4, Reason.LIST_EMPTY)], ids=["at the fuse's floor", "one more"]
    )
    def test_a_handful_may_all_have_gone(self, size, flaw):
        known = {each: online(each) for each in range(1, size + 1)}
        assert absence.weighed(listing(), known, survey(), NOW, FUSE).flaw == flaw

    @pytest.mark.parametrize(
        ("failing_for", "flaw"),
        [(600.0, None), (600.0 - MICROSECOND, Reason.LIST_EMPTY)],
        ids=["a whole window", "a little less"],
    )
    def test_an_empty_list_that_lasts_a_window_becomes_a_hint(self, failing_for, flaw):
        before = survey(failing_since=NOW - failing_for, failure="ListEmpty")
        now = before.failing_since + failing_for
        assert absence.weighed(listing(), FLEET, before, now, FUSE).flaw == flaw

    def test_time_in_which_github_was_away_does_not_count_as_an_empty_list(self):
        before = survey(failing_since=NOW - 3600, failure="GitHubUnavailable")
        assert absence.weighed(listing(), FLEET, before, NOW, FUSE).flaw is Reason.LIST_EMPTY

    def test_a_list_with_anyone_in_it_is_what_it_is(self):
        assert absence.weighed(listing(1), FLEET, survey(), NOW, FUSE) == listing(1)


class TestSlipping:
    @pytest.mark.parametrize(
        ("arrived", "flaw"), [(90, None), (89, Reason.LIST_INCOMPLETE)], ids=["off by a tenth", "by more"]
    )
    def test_a_list_that_is_off_by_a_few_slipped_and_one_that_is_off_by_many_is_flawed(self, arrived, flaw):
        look = listing(*range(1, arrived + 1), flaw=Reason.LIST_INCOMPLETE)._replace(total=100)
        used = absence.weighed(look, FLEET, survey(), NOW, FUSE)
        assert (used.flaw, used.slipped) == (flaw, flaw is None)

    @pytest.mark.parametrize("flaw", [Reason.LIST_EMPTY, None])
    def test_nothing_else_is_lenient(self, flaw):
        assert absence.lenient(listing(1, flaw=flaw)) == listing(1, flaw=flaw)

    def test_whom_a_list_that_slipped_lacks_is_missed_only_the_second_time_running(self):
        look = listing(*range(2, 11))._replace(slipped=True)
        before = survey(swept_at=NOW - 60)
        once = absence.folds(look, FLEET, before, NOW)[1](online(1, observed_at=LONG_AGO))
        verdict = judge(once, survey(), NOW, LIMITS)
        assert (verdict.state, verdict.observed_at) == (State.HEALTHY, NOW - 60), "it is as old as the last list"
        twice = absence.folds(look, {1: once}, survey(), NOW + 60)[1](once)
        assert judge(twice, survey(), NOW + 60, LIMITS).state is State.SUSPECT

    def test_the_same_list_twice_is_one_look(self):
        look = listing(*range(2, 11))._replace(slipped=True)
        once = absence.folds(look, FLEET, survey(), NOW)[1](online(1))
        again = absence.folds(look, {1: once}, survey(), NOW)[1](once)
        assert judge(again, survey(), NOW, LIMITS).state is State.HEALTHY

    def test_who_is_seen_between_two_slips_was_not_missed(self):
        slipped = listing(*range(2, 11))._replace(slipped=True)
        once = absence.folds(slipped, FLEET, survey(), NOW)[1](online(1))
        seen = absence.folds(listing(1), {1: once}, survey(), NOW + 60)[1](once)
        again = absence.folds(slipped, {1: seen}, survey(), NOW + 120)[1](seen)
        assert judge(again, survey(), NOW + 120, LIMITS).state is State.HEALTHY


class TestSurvey:
    def test_a_complete_list_ends_every_failure(self):
        before = survey(failing_since=LONG_AGO, failure="RateLimited")
        assert absence.surveyed(before, listing(1, 2), NOW + 60) == survey(swept_at=NOW + 60, total=2)

    def test_a_flawed_list_leaves_the_last_complete_one_and_says_since_when(self):
        after = absence.surveyed(survey(), listing(1, flaw=Reason.LIST_INCOMPLETE), NOW + 60)
        assert after == survey(failing_since=NOW + 60, failure="ListIncomplete")
        again = absence.surveyed(after, listing(1, flaw=Reason.LIST_INCOMPLETE), NOW + 120)
        assert again == after
        other = absence.failed(again, Reason.GITHUB_UNAVAILABLE, NOW + 180)
        assert (other.failing_since, other.failure) == (NOW + 180, "GitHubUnavailable")


class TestFolds:
    def test_a_complete_list_says_something_of_everyone(self):
        assert set(absence.folds(listing(1, 2, 77), FLEET, survey(), NOW)) == {*FLEET, 77}

    def test_an_incomplete_list_says_nothing_of_those_it_lacks(self):
        assert set(absence.folds(listing(1, 2, flaw=Reason.LIST_INCOMPLETE), FLEET, survey(), NOW)) == {1, 2}

    def test_who_was_only_heard_of_is_in_no_list(self):
        heard_of = {5: online(5, registered=False)}
        assert absence.folds(listing(), heard_of, survey(), NOW) == {}

    def test_a_runner_whose_name_a_later_registration_bears_lost_nothing(self):
        again = Look({99: registration(id=99, name="linux-1", online=True)}, 1)
        after = absence.folds(again, {1: online(1)}, survey(), NOW)[1](online(1))
        assert judge(after, survey(), NOW, LIMITS).reason is Reason.REREGISTERED

    def test_a_404_only_starts_a_clock_and_its_registration_ends_the_absence(self):
        absent = suspect(missing_at=None)
        missed = absence.answered(None, NOW)(absent)
        assert (missed.missing_at, missed.confirmed_at) == (NOW, None)
        found = absence.answered(registration(online=True), NOW + 1)(missed)
        assert judge(found, survey(), NOW + 1, LIMITS).state is State.HEALTHY

    def test_what_was_forgotten_meanwhile_is_not_raised_from_the_dead(self):
        assert absence.answered(None, NOW)(None) is None
        assert absence.confirmed(None, NOW)(None) is None
        assert absence.folds(listing(), FLEET, survey(), NOW)[1](None) is None


class TestAsking:
    def test_each_suspect_is_asked_for_alone_once_those_missing_for_longest_first(self):
        records = [
            suspect(1, missing_at=None, absent_since=NOW - 60),
            suspect(2),
            suspect(3, missing_at=None, absent_since=NOW - 120),
            online(4),
        ]
        assert absence.unasked(records, survey(), NOW, LIMITS) == [3, 1]

    @pytest.mark.parametrize("missing", [MOST_ASKED, MOST_ASKED + 1])
    def test_a_mass_loss_does_not_spend_the_hour_at_once(self, missing):
        records = [suspect(each, missing_at=None) for each in range(1, missing + 1)]
        assert len(absence.unasked(records, survey(), NOW, LIMITS)) == MOST_ASKED

    def test_confirmations_are_due_at_once_for_the_overdue_and_later_for_the_others(self):
        records = [
            suspect(1, missing_at=NOW - 300),
            suspect(2, missing_at=NOW - 200),
            suspect(3, missing_at=NOW - 10),
            suspect(4, missing_at=None),
            lost(5),
        ]
        assert absence.confirm_at(records, survey(), NOW, LIMITS) == [NOW, NOW + 20]


class TestConfirmation:
    @pytest.mark.parametrize(
        ("waited", "is_due"), [(30.0, True), (30.0 - MICROSECOND, False)], ids=["confirm_seconds", "a little less"]
    )
    def test_the_first_404_must_be_old_enough(self, waited, is_due):
        waiting = suspect(missing_at=NOW - 100)
        found = absence.due([waiting], survey(), waiting.missing_at + waited, LIMITS)
        assert bool(found) is is_due

    @pytest.mark.parametrize(
        ("changes", "patience"),
        [
            ({"busy": True}, 600.0),
            ({"busy": True, "job_id": 9, "job_ended_at": NOW - 300}, 600.0),
            ({"busy": True, "job_id": 9, "job_started_at": NOW - 300}, 30.0),
            ({"busy": False}, 30.0),
        ],
        ids=["no delivery told of its job", "told of an earlier one", "GitHub is asked for its job", "idle"],
    )
    def test_who_was_busy_when_last_seen_has_the_time_of_a_job_s_lease(self, changes, patience):
        silent = suspect(missing_at=NOW, observed_at=NOW + patience, **changes)  # each sweep's list lacks it
        shown = survey(swept_at=NOW + patience)
        assert absence.due([silent], shown, NOW + patience - MICROSECOND, LIMITS) == {}
        assert [*absence.due([silent], shown, NOW + patience, LIMITS)] == [silent.id]
        assert absence.confirm_at([silent], survey(), NOW, LIMITS) == [NOW + patience]

    @pytest.mark.parametrize(
        "other",
        [suspect(missing_at=None), lost(), present(), suspect(reregistered_as=9)],
        ids=["never asked for alone", "confirmed already", "present", "registered anew"],
    )
    def test_nobody_else_is_confirmed(self, other):
        assert absence.due([other], survey(), NOW + 100, LIMITS) == {}

    @pytest.mark.parametrize(
        ("now", "sane"),
        [
            (KNOWN, True),
            (Installation(1, "acme", 7, {"organization_self_hosted_runners": "read"}), True),
            (Installation(1, "acme-two", 7, HELD), False),
            (Installation(1, "acme", 8, HELD), False),
            (Installation(1, "acme", 7, HELD, suspended=True), False),
            (Installation(1, "acme", 7, {}), False),
        ],
        ids=["the same", "may still read", "renamed", "another account", "suspended", "not permitted"],
    )
    def test_a_404_is_believed_only_of_the_same_installation(self, now, sane):
        assert absence.is_sane(KNOWN, now) is sane

    @pytest.mark.parametrize(
        ("control", "before", "doubt"),
        [
            (listing(1), survey(), None),
            (listing(1, flaw=Reason.LIST_INCOMPLETE), survey(), Reason.LIST_INCOMPLETE),
            (listing(), survey(), Reason.LIST_EMPTY),
            (listing(), survey(total=0), None),
        ],
        ids=["complete", "incomplete", "empty where there were runners", "empty as before"],
    )
    def test_a_control_list_must_be_able_to_prove_something(self, control, before, doubt):
        assert absence.doubt(control, before) == doubt

    @pytest.mark.parametrize(
        ("evidence", "asked"),
        [
            (suspect(5), True),
            (suspect(1), False),
            (suspect(5, job_id=3, job_started_at=NOW), False),
            (suspect(5, job_id=3, job_started_at=NOW - 5, job_ended_at=NOW), True),
            (suspect(5, name="linux-1"), False),
        ],
        ids=["gone", "on the control list", "at work", "its job is over", "its name is borne by another"],
    )
    def test_only_those_are_asked_for_again_whom_nothing_speaks_for(self, evidence, asked):
        assert absence.unproven([evidence], listing(1)) == ([evidence] if asked else [])

    def test_the_second_404_confirms_and_a_registration_takes_all_back(self):
        gone = absence.confirmed(None, NOW)(suspect())
        assert judge(gone, survey(), NOW, LIMITS).state is State.INVALIDATED
        back = absence.confirmed(registration(online=True), NOW)(suspect())
        assert judge(back, survey(), NOW, LIMITS).state is State.HEALTHY
