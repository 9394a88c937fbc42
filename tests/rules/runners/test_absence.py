"""From a list without a runner to the proof that its registration is deleted."""

import pytest

from ghapp.installations.installation import Installation
from ghapp.remediation.fuse import FuseLimits
from ghapp.runners import absence, observations
from ghapp.runners.absence import (
    MOST_AHEAD_SECONDS,
    MOST_ASKED,
    MOST_SAMPLED,
    AbsentRunners,
    GetResult,
    RunnerList,
    absent_runners,
)
from ghapp.runners.evidence import (
    BLIND_KEPT_SECONDS,
    MOST_BLIND_SPANS,
    STALE_LIST_SECONDS,
    Evidence,
    Survey,
    covered_seconds,
)
from ghapp.runners.remains import Remains, RemainsKind
from ghapp.runners.verdict import DOUBTFUL_JOB_SECONDS, LONGEST_JOB_SECONDS, Limits, Reason, State, judge
from tests.rules.builders import LONG_AGO, MICROSECOND, NOW, lost, online, present, registration, survey, suspect

FUSE = FuseLimits()
LIMITS = Limits()
FLEET = {each: online(each) for each in range(1, 11)}
HELD = {"organization_self_hosted_runners": "write"}
KNOWN = Installation(id=1, org="acme", account_id=7, permissions=HELD)


def listing(*ids, flaw=None, **changes):
    runners = {each: registration(id=each, name=f"linux-{each}", online=True, **changes) for each in ids}
    return RunnerList(runners, len(runners), flaw)


class TestEmptyList:
    @pytest.mark.parametrize("size", [3, 4], ids=["at the fuse's floor", "one above"])
    def test_an_empty_list_of_a_small_fleet_is_not_doubtful(self, size):
        known = {each: online(each) for each in range(1, size + 1)}
        assert absence.is_doubtful(listing(), known, FUSE.floor) is (size > FUSE.floor)

    @pytest.mark.parametrize(
        "found_list", [listing(1), listing(flaw=Reason.LIST_INCOMPLETE)], ids=["one left", "flawed"]
    )
    def test_only_an_empty_list_is_doubtful(self, found_list):
        assert not absence.is_doubtful(found_list, FLEET, FUSE.floor)

    def test_the_sample_prefers_busy_and_online_runners(self):
        known = {each: present(each) for each in range(1, 21)} | {30: online(30), 31: online(31, busy=True)}
        known[40] = suspect(40)._replace(listed=False)
        assert absence.sample(known) == [31, 30, *range(1, MOST_SAMPLED - 1)]

    @pytest.mark.parametrize(
        ("answers", "flaw"),
        [
            ({1: GetResult(None, NOW), 2: GetResult(None, NOW)}, None),
            ({1: GetResult(None, NOW), 2: GetResult(registration(id=2), NOW)}, Reason.LIST_EMPTY),
            ({1: GetResult(None, NOW)}, Reason.LIST_EMPTY),
            ({}, Reason.LIST_EMPTY),
        ],
        ids=["all are 404", "one is registered", "one without an answer", "no answer"],
    )
    def test_an_empty_list_is_usable_if_each_runner_of_the_sample_is_a_404(self, answers, flaw):
        assert absence.usable(listing(), [1, 2], answers).flaw == flaw

    def test_a_list_that_is_not_doubtful_stays_unchanged(self):
        assert absence.usable(listing(1)) == listing(1)


class TestChurn:
    @pytest.mark.parametrize(
        ("arrived", "flaw"),
        [(99, None), (90, None), (89, Reason.LIST_INCOMPLETE), (101, None), (110, None), (111, Reason.LIST_INCOMPLETE)],
        ids=["off by one", "by a tenth", "by more", "one too many", "a tenth too many", "more too many"],
    )
    def test_a_list_off_by_a_tenth_is_churned_and_one_off_by_more_is_flawed(self, arrived, flaw):
        found_list = listing(*range(1, arrived + 1), flaw=Reason.LIST_INCOMPLETE)._replace(total=100)
        used = absence.allow_for_churn(found_list)
        assert (used.flaw, used.churned) == (flaw, flaw is None)

    @pytest.mark.parametrize("flaw", [Reason.LIST_EMPTY, None])
    def test_churn_is_allowed_only_for_an_incomplete_list(self, flaw):
        assert absence.allow_for_churn(listing(1, flaw=flaw)) == listing(1, flaw=flaw)

    def test_a_runner_missing_from_churned_lists_is_suspect_only_the_second_time_in_a_row(self):
        found_list = listing(*range(2, 11))._replace(churned=True)
        before = survey(swept_at=NOW - 60)
        once = absence.folds_of_list(found_list, FLEET, before, NOW)[1](online(1, observed_at=LONG_AGO))
        verdict = judge(once, survey(), NOW, LIMITS)
        assert (verdict.state, verdict.observed_at) == (State.HEALTHY, NOW - 60), (
            "the observation is dated by the last list"
        )
        twice = absence.folds_of_list(found_list, {1: once}, survey(), NOW + 60)[1](once)
        assert judge(twice, survey(), NOW + 60, LIMITS).state is State.SUSPECT

    def test_the_same_churned_list_twice_counts_once(self):
        found_list = listing(*range(2, 11))._replace(churned=True)
        once = absence.folds_of_list(found_list, FLEET, survey(), NOW)[1](online(1))
        again = absence.folds_of_list(found_list, {1: once}, survey(), NOW)[1](once)
        assert judge(again, survey(), NOW, LIMITS).state is State.HEALTHY

    def test_a_runner_listed_between_two_churned_lists_is_healthy(self):
        churned = listing(*range(2, 11))._replace(churned=True)
        once = absence.folds_of_list(churned, FLEET, survey(), NOW)[1](online(1))
        seen = absence.folds_of_list(listing(1), {1: once}, survey(), NOW + 60)[1](once)
        again = absence.folds_of_list(churned, {1: seen}, survey(), NOW + 120)[1](seen)
        assert judge(again, survey(), NOW + 120, LIMITS).state is State.HEALTHY

    def test_a_get_that_answers_404_after_a_churned_list_makes_a_suspect_at_once(self):
        churned = listing(*range(2, 11))._replace(churned=True)
        once = absence.folds_of_list(churned, FLEET, survey(), NOW)[1](online(1))
        missed = absence.folds_of_get(None, NOW + 1)(once)
        assert (missed.absent_since, missed.absent_of, missed.first_404_at) == (NOW, None, NOW + 1)
        assert judge(missed, survey(), NOW + 1, LIMITS).state is State.SUSPECT

    @pytest.mark.parametrize(("total", "most"), [(101, 1), (1_999, 1), (2_000, 2), (10_000, 10)])
    def test_a_get_for_each_thousand_runners_looks_for_those_that_a_churned_list_lacks(self, total, most):
        missed = [online(each, missing_from_partial_list_at=NOW) for each in range(20, 0, -1)]
        churned = RunnerList({}, total, churned=True)
        assert absence.possibly_hidden(missed, churned, NOW) == [*range(1, most + 1)]

    @pytest.mark.parametrize(
        ("known", "churned"),
        [
            (online(1), True),
            (online(1, missing_from_partial_list_at=NOW - 60), True),
            (online(1, missing_from_partial_list_at=NOW, busy=True), True),
            (online(1, missing_from_partial_list_at=NOW, job_id=9, job_started_at=NOW - 60), True),
            (suspect(1, missing_from_partial_list_at=NOW), True),
            (online(1, missing_from_partial_list_at=NOW), False),
        ],
        ids=["listed", "missing before", "busy", "with a job", "a suspect already", "a complete list"],
    )
    def test_no_other_runner_is_queried_for_churn(self, known, churned):
        assert absence.possibly_hidden([known], RunnerList({}, 10_000, churned=churned), NOW) == []


class TestSurvey:
    def test_a_complete_list_ends_every_failure(self):
        before = survey(failing_since=LONG_AGO, failure="RateLimited")
        after = absence.survey_after(before, listing(1, 2), NOW + 60)
        assert after == survey(swept_at=NOW + 60, total=2, blind=((NOW, NOW + 60),))

    def test_every_list_adds_its_changed_pages_to_the_mean_and_a_failure_without_a_list_keeps_it(self):
        after = absence.survey_after(survey(changed_pages=32.0), listing(1), NOW + 60, changed=0)
        assert after.changed_pages == 30.0
        flawed = absence.survey_after(after, listing(1, flaw=Reason.LIST_INCOMPLETE), NOW + 120, changed=46)
        assert flawed.changed_pages == 31.0
        failed = absence.survey_after_failure(flawed, Reason.GITHUB_UNAVAILABLE, NOW + 180)
        assert absence.survey_after(failed, listing(1), NOW + 240, changed=None).changed_pages == 31.0

    def test_a_flawed_list_keeps_the_last_complete_one_and_the_start_of_the_failure(self):
        after = absence.survey_after(survey(), listing(1, flaw=Reason.LIST_INCOMPLETE), NOW + 60)
        assert after == survey(failing_since=NOW + 60, failure="ListIncomplete")
        again = absence.survey_after(after, listing(1, flaw=Reason.LIST_INCOMPLETE), NOW + 120)
        assert again == after
        other = absence.survey_after_failure(again, Reason.GITHUB_UNAVAILABLE, NOW + 180)
        assert (other.failing_since, other.failure) == (NOW + 180, "GitHubUnavailable")


class TestSeenSeconds:
    """Only time covered by complete lists counts for a limit."""

    @pytest.mark.parametrize(
        ("gap", "failing", "seen"),
        [(60.0, False, 60.0), (300.0, False, 300.0), (301.0, False, 300.0), (60.0, True, 0.0), (3600.0, True, 0.0)],
        ids=["an interval", "as long as a list is valid", "longer", "a failure between", "an hour of failures"],
    )
    def test_two_complete_lists_cover_the_time_between_them(self, gap, failing, seen):
        before = absence.survey_after_failure(survey(), Reason.RATE_LIMITED, NOW + 1) if failing else survey()
        after = absence.survey_after(before, listing(1), NOW + gap)
        assert covered_seconds(after, NOW, NOW + gap) == seen
        assert covered_seconds(after, NOW + gap, NOW + gap + 60) == 60.0

    def test_time_without_lists_does_not_count(self):
        failing = absence.survey_after_failure(survey(), Reason.RATE_LIMITED, NOW + 60)
        assert covered_seconds(failing, NOW - 100, NOW + 3600) == 100.0

    def test_time_after_sweeps_stopped_counts_only_while_the_last_list_is_valid(self):
        assert covered_seconds(survey(), NOW, NOW + 86_400) == 300.0

    def test_all_time_counts_before_the_first_list(self):
        assert covered_seconds(Survey(), NOW, NOW + 60) == 60.0

    def test_blind_spans_are_bounded_and_the_oldest_are_joined(self):
        after, at = survey(), NOW
        for _ in range(MOST_BLIND_SPANS + 30):
            at += 120
            after = absence.survey_after(
                absence.survey_after_failure(after, Reason.RATE_LIMITED, at - 60), listing(1), at
            )
            at += 60
            after = absence.survey_after(after, listing(1), at)
        assert len(after.blind) == MOST_BLIND_SPANS
        assert covered_seconds(after, NOW, at) <= (MOST_BLIND_SPANS + 30) * 60

    def test_a_failed_sweep_each_hour_of_a_week_joins_no_spans(self):
        """Else the time between two failures would count as blind, and no patience of a day would ever end."""
        after, at = survey(), NOW
        for _ in range(7 * 24):
            after = absence.survey_after_failure(after, Reason.RATE_LIMITED, at + 60)
            after = absence.survey_after(after, listing(1), at + 120)
            for at_minute in range(180, 3600, 300):
                after = absence.survey_after(after, listing(1), at + at_minute)
            at += 3600
        assert covered_seconds(after, NOW, at) >= 0.9 * (at - NOW)

    def test_a_span_is_kept_for_a_week(self):
        blind = ((NOW - 100, NOW),)
        assert absence.survey_after(survey(blind=blind), listing(1), NOW + BLIND_KEPT_SECONDS - 1).blind[0] == blind[0]
        for after in (0.0, 1.0):
            later = NOW + BLIND_KEPT_SECONDS + after
            assert blind[0] not in absence.survey_after(survey(blind=blind), listing(1), later).blind

    def test_a_span_in_the_future_is_dropped(self):
        blind = ((NOW + 59, NOW + 3600), (NOW + 60, NOW + 7200))
        assert absence.survey_after(survey(blind=blind), listing(1), NOW + 60).blind == blind[:1]

    @pytest.mark.parametrize(
        ("due", "began", "before", "is_gap"),
        [
            (60, 120, {}, False),
            (60, 121, {}, True),
            (130, 200, {}, False),  # the budget stretched the interval
            (None, 200, {}, False),
            (60, 300, {}, True),
            (60, 301, {}, False),
            (60, 121, {"failing_since": NOW + 60, "failure": "RateLimited"}, False),
            (60, 121, {"swept_at": None}, False),
            (-1, 121, {}, False),
        ],
        ids=["twice", "more", "stretched", "unknown", "long", "blind", "failed between", "first list", "clock jumped"],
    )
    def test_a_list_after_more_than_twice_the_interval_leaves_a_gap_unless_that_time_is_blind(
        self, due, began, before, is_gap
    ):
        due_at = None if due is None else NOW + due
        after = absence.survey_after(survey(**before), listing(1), NOW + began, due_at=due_at)
        assert after.gaps == (((NOW, NOW + began),) if is_gap else ())
        assert not (after.gaps and after.blind)

    def test_gaps_are_kept_for_a_week_through_lists_and_failures_and_count_as_covered(self):
        gaps = ((NOW - 100, NOW),)
        failed = absence.survey_after_failure(survey(gaps=gaps), Reason.RATE_LIMITED, NOW + 10)
        assert absence.survey_after(failed, listing(1), NOW + BLIND_KEPT_SECONDS - 1).gaps == gaps
        assert absence.survey_after(survey(gaps=gaps), listing(1), NOW + BLIND_KEPT_SECONDS).gaps == ()
        assert covered_seconds(survey(gaps=gaps), NOW - 100, NOW) == 100.0

    def test_a_clock_that_went_back_adds_no_blind_span(self):
        assert absence.survey_after(survey(), listing(1), NOW - 3600).blind == ()


class TestFolds:
    def test_a_complete_list_has_an_observation_of_each_runner(self):
        assert set(absence.folds_of_list(listing(1, 2, 77), FLEET, survey(), NOW)) == {*FLEET, 77}

    def test_an_incomplete_list_has_no_observation_of_missing_runners(self):
        assert set(absence.folds_of_list(listing(1, 2, flaw=Reason.LIST_INCOMPLETE), FLEET, survey(), NOW)) == {1, 2}

    def test_a_runner_known_by_deliveries_alone_is_not_missing_from_a_list(self):
        known = {5: online(5, registered=False)}
        assert absence.folds_of_list(listing(), known, survey(), NOW) == {}

    def test_a_runner_with_a_later_registration_of_its_name_is_reregistered(self):
        again = RunnerList({99: registration(id=99, name="linux-1", online=True)}, 1)
        after = absence.folds_of_list(again, {1: online(1)}, survey(), NOW)[1](online(1))
        assert judge(after, survey(), NOW, LIMITS).reason is Reason.REREGISTERED

    def test_a_404_starts_the_clock_and_a_registration_ends_the_absence(self):
        absent = suspect(first_404_at=None)
        missed = absence.folds_of_get(None, NOW)(absent)
        assert (missed.first_404_at, missed.confirmed_at) == (NOW, None)
        found = absence.folds_of_get(registration(online=True), NOW + 1)(missed)
        assert judge(found, survey(), NOW + 1, LIMITS).state is State.HEALTHY

    def test_a_forgotten_record_is_not_recreated(self):
        assert absence.folds_of_get(None, NOW)(None) is None
        assert absence.confirmed(suspect(), None, NOW)(None) is None
        assert absence.folds_of_list(listing(), FLEET, survey(), NOW)[1](None) is None


class TestQueries:
    @pytest.mark.parametrize("after", [0.0, 119.0, 120.0])
    def test_a_runner_with_a_job_is_not_queried_while_the_jobs_end_may_be_in_delivery(self, after):
        absent = suspect(1, first_404_at=None, absent_since=NOW, job_id=9, job_started_at=LONG_AGO)
        seen = survey(swept_at=NOW + after)
        assert absence.not_yet_queried([absent], seen, NOW + after, LIMITS) == ([1] if after >= 120.0 else [])

    @pytest.mark.parametrize(("total", "suspects", "whole"), [(100, 1, True), (101, 1, False), (10_000, 100, True)])
    def test_the_cheaper_of_a_list_and_single_gets_is_chosen(self, total, suspects, whole):
        due = [suspect(each) for each in range(suspects)]
        assert absence.wants_whole_list(due, survey(total=total), 100) is whole

    def test_each_suspect_is_queried_once_in_order_of_absence(self):
        records = [
            suspect(1, first_404_at=None, absent_since=NOW - 60),
            suspect(2),
            suspect(3, first_404_at=None, absent_since=NOW - 120),
            online(4),
        ]
        assert absence.not_yet_queried(records, survey(), NOW, LIMITS) == [3, 1]

    @pytest.mark.parametrize("missing", [MOST_ASKED, MOST_ASKED + 1])
    def test_a_mass_loss_does_not_spend_the_hourly_budget_at_once(self, missing):
        records = [suspect(each, first_404_at=None) for each in range(1, missing + 1)]
        assert len(absence.not_yet_queried(records, survey(), NOW, LIMITS)) == MOST_ASKED

    def test_overdue_confirmations_are_due_at_once_and_others_later(self):
        records = [
            suspect(1, first_404_at=NOW - 300),
            suspect(2, first_404_at=NOW - 200),
            suspect(3, first_404_at=NOW - 10),
            suspect(4, first_404_at=None),
            lost(5),
        ]
        assert absence.confirm_at(records, survey(), NOW, LIMITS) == [NOW, NOW + 20]

    def test_suspects_that_are_due_within_one_second_share_its_latest_time(self):
        records = [suspect(each, first_404_at=NOW + at) for each, at in enumerate((-10.5, -10.25, -10.0, -9.75), 1)]
        assert absence.confirm_at(records, survey(), NOW, LIMITS) == [NOW + 19.75, NOW + 20.25]

    @pytest.mark.parametrize(("after", "is_scheduled"), [(0.0, True), (MICROSECOND, False)], ids=["an hour", "more"])
    def test_a_confirmation_is_scheduled_an_hour_before_it_is_due_at_most(self, after, is_scheduled):
        limits = Limits(confirm_seconds=10.0 + MOST_AHEAD_SECONDS + after)
        due_at = absence.confirm_at([suspect(first_404_at=NOW - 10)], survey(), NOW, limits)
        assert due_at == ([NOW + MOST_AHEAD_SECONDS] if is_scheduled else [])

    @pytest.mark.parametrize(("missing", "seconds"), [([], 0.0), ([-31.0], 0.0), ([-31.0, -29.5, -30.0], 0.5)])
    def test_suspects_are_ready_when_the_last_of_their_first_404s_is_old_enough(self, missing, seconds):
        found = [suspect(each, first_404_at=NOW + at) for each, at in enumerate(missing, 1)]
        assert absence.ready_in(found, NOW, LIMITS) == seconds


class TestConfirmation:
    @pytest.mark.parametrize(
        ("waited", "is_due"), [(30.0, True), (30.0 - MICROSECOND, False)], ids=["at confirm_seconds", "just before"]
    )
    def test_the_first_404_must_be_old_enough(self, waited, is_due):
        waiting = suspect(first_404_at=NOW - 100)
        found = absence.due([waiting], survey(), waiting.first_404_at + waited, LIMITS)
        assert bool(found) is is_due

    @pytest.mark.parametrize(
        ("found_list", "began", "now", "due"),
        [
            (listing(2), NOW - 99, NOW, [1]),
            (listing(2), NOW - 100, NOW, []),
            (listing(2), NOW - 101, NOW, []),
            (listing(2), NOW - 99, NOW - 70 - MICROSECOND, []),
            (listing(1, 2), NOW - 99, NOW, []),
            (listing(2, flaw=Reason.LIST_INCOMPLETE), NOW - 99, NOW, []),
            (listing(2)._replace(churned=True), NOW - 99, NOW, [1]),
        ],
        ids=[
            "a list begun after the first 404",
            "a list begun with it",
            "a list begun before it",
            "a first 404 that is too young",
            "a list with the runner",
            "an incomplete list",
            "a list with page churn",
        ],
    )
    def test_a_sweep_confirms_with_its_own_list_what_a_control_list_would(self, found_list, began, now, due):
        waiting = suspect(1, first_404_at=NOW - 100)
        assert [*absence.due_in_sweep([waiting], found_list, survey(), began, now, LIMITS)] == due

    @pytest.mark.parametrize(
        ("changes", "patience"),
        [
            ({"busy": True}, LONGEST_JOB_SECONDS),
            ({"busy": True, "job_id": 9, "job_ended_at": NOW - 300}, LONGEST_JOB_SECONDS),
            ({"busy": True, "job_ended_at": NOW - 90, "last_shown_at": NOW - 30}, DOUBTFUL_JOB_SECONDS),
            ({"busy": True, "job_ended_at": NOW - 90, "last_shown_at": NOW - 31}, DOUBTFUL_JOB_SECONDS),
            ({"busy": True, "job_ended_at": NOW - 90, "last_shown_at": NOW - 29.9}, LONGEST_JOB_SECONDS),
            ({"busy": True, "remains": Remains(RemainsKind.RUNNING, NOW, NOW)}, LONGEST_JOB_SECONDS),
            ({"busy": True, "remains": Remains(RemainsKind.NO_POD, NOW, NOW)}, 30.0),
            ({"busy": True, "remains": Remains(RemainsKind.ENDED, NOW, NOW)}, 30.0),
            ({"busy": True, "job_id": 9, "job_started_at": NOW - 300}, 30.0),
            ({"busy": False}, 30.0),
        ],
        ids=[
            "its job is unknown by delivery",
            "an earlier job is known",
            "so soon after its job that a stale list explains it",
            "sooner",
            "later",
            "its container runs",
            "its object has no pod",
            "its container ended",
            "its job is known",
            "idle",
        ],
    )
    def test_a_runner_that_may_run_an_unknown_job_is_confirmed_after_the_longest_job(self, changes, patience):
        absent = suspect(first_404_at=NOW, observed_at=NOW + patience, **changes)  # missing from the list of each sweep
        shown = survey(swept_at=NOW + patience)
        assert absence.due([absent], shown, NOW + patience - MICROSECOND, LIMITS) == {}
        assert [*absence.due([absent], shown, NOW + patience, LIMITS)] == [absent.id]
        later = [NOW + patience] if patience < MOST_AHEAD_SECONDS else []
        assert absence.confirm_at([absent], survey(), NOW, LIMITS) == later

    @pytest.mark.parametrize("blind", [0.0, 1800.0], ids=["all of it is covered", "half an hour without lists"])
    def test_what_an_unknown_job_may_last_counts_only_while_complete_lists_are_read(self, blind):
        absent = suspect(first_404_at=NOW, observed_at=NOW, busy=True, job_ended_at=NOW - 90, last_shown_at=NOW - 31)
        due_at = NOW + DOUBTFUL_JOB_SECONDS + blind
        shown = survey(swept_at=due_at, blind=((NOW + 60, NOW + 60 + blind),) if blind else ())
        assert absence.due([absent], shown, due_at - MICROSECOND, LIMITS) == {}
        assert [*absence.due([absent], shown, due_at, LIMITS)] == [absent.id]
        assert absence.due([absent], survey(swept_at=NOW, failing_since=NOW + 60), due_at, LIMITS) == {}

    @pytest.mark.parametrize(
        "other",
        [suspect(first_404_at=None), lost(), present(), suspect(reregistered_as=9)],
        ids=["without its own GET", "already confirmed", "present", "registered again"],
    )
    def test_only_suspects_with_a_404_are_due(self, other):
        assert absence.due([other], survey(), NOW + 100, LIMITS) == {}

    @pytest.mark.parametrize(
        ("now", "sane"),
        [
            (KNOWN, True),
            (Installation(1, "acme", 7, {"organization_self_hosted_runners": "read"}), True),
            (Installation(1, "acme-two", 7, HELD), False),
            (Installation(1, "acme", 8, HELD), False),
            (Installation(1, "acme", 6, HELD), False),
            (Installation(1, "acme", 7, HELD, suspended=True), False),
            (Installation(1, "acme", 7, {}), False),
        ],
        ids=[
            "the same",
            "read permission",
            "renamed",
            "a later account",
            "an earlier account",
            "suspended",
            "no permission",
        ],
    )
    def test_a_404_counts_only_for_an_unchanged_installation(self, now, sane):
        assert absence.is_sane(KNOWN, now) is sane

    @pytest.mark.parametrize(
        ("checked_at", "now", "may"),
        [
            (NOW, NOW, True),
            (NOW, NOW + 10, True),
            (NOW, NOW + 10.1, False),
            (NOW - 0.1, NOW, False),
            (NOW + 1, NOW, False),
        ],
        ids=["at the last first 404", "at the maximum age", "too old", "before a first 404", "from the future"],
    )
    def test_a_check_of_the_installation_is_valid_for_seconds_and_only_after_all_first_404s(self, checked_at, now, may):
        missing = [suspect(1, first_404_at=NOW - 60), suspect(2, first_404_at=NOW), suspect(3, first_404_at=None)]
        assert absence.may_rely_on(checked_at, missing, now, 10.0) is may

    @pytest.mark.parametrize(
        ("control", "before", "doubt"),
        [
            (listing(1), survey(), None),
            (listing(1, flaw=Reason.LIST_INCOMPLETE), survey(), Reason.LIST_INCOMPLETE),
            (listing(), survey(), Reason.LIST_EMPTY),
            (listing(), survey(total=1), Reason.LIST_EMPTY),
            (listing(), survey(total=0), None),
        ],
        ids=["complete", "incomplete", "empty where there were runners", "where there was one", "empty as before"],
    )
    def test_a_flawed_or_unexpectedly_empty_control_list_is_unusable(self, control, before, doubt):
        assert absence.why_unusable(control, before) == doubt

    @pytest.mark.parametrize(
        ("evidence", "is_needed"),
        [
            (suspect(5), True),
            (suspect(1), False),
            (suspect(5, job_id=3, job_started_at=NOW), False),
            (suspect(5, job_id=3, job_started_at=NOW - 5, job_ended_at=NOW), True),
            (suspect(5, name="linux-1"), False),
        ],
        ids=["absent", "on the control list", "in a job", "its job is over", "its name is used by another"],
    )
    def test_only_suspects_without_a_sign_of_life_need_their_own_get(self, evidence, is_needed):
        assert absence.needs_own_get([evidence], listing(1)) == ([evidence] if is_needed else [])

    def test_a_second_404_confirms_the_loss_and_a_registration_ends_it(self):
        confirmed = absence.confirmed(suspect(), None, NOW)(suspect())
        assert judge(confirmed, survey(), NOW, LIMITS).state is State.INVALIDATED
        back = absence.confirmed(suspect(), registration(online=True), NOW)(suspect())
        assert judge(back, survey(), NOW, LIMITS).state is State.HEALTHY

    def test_a_404_confirms_nothing_if_the_runner_was_seen_since_the_404_that_was_due(self):
        due = suspect()
        seen = observations.registration_seen(due, registration(online=True), NOW + 29.4, by=observations.SeenBy.LIST)
        missed_again = observations.get_missed(seen, NOW + 29.7)
        assert missed_again.first_404_at == NOW + 29.7
        assert absence.confirmed(due, None, NOW + 30)(missed_again) is missed_again
        assert absence.confirmed(due, None, NOW + 30)(seen) is seen


class TestJobsOfSuspects:
    """Lost runners at work: their jobs are asked for within the budget, and an idle one among them as usual."""

    def asked(self, **changes):
        return suspect(job_id=9, job_started_at=NOW - 600, **changes)

    @pytest.mark.parametrize(
        ("lookups", "after", "is_due"),
        [
            (0, None, True),
            (1, 60.0 - MICROSECOND, False),
            (1, 60.0, True),
            (2, 120.0 - MICROSECOND, False),
            (2, 120.0, True),
            (50, 960.0 - MICROSECOND, False),
            (50, 960.0, True),
            (1, 0.0, False),
            (1, -MICROSECOND, True),
        ],
        ids=[
            "never asked",
            "asked once, within a minute",
            "asked once, a minute ago",
            "asked twice, within two minutes",
            "asked twice, two minutes ago",
            "asked often, within sixteen minutes",
            "asked often, sixteen minutes ago",
            "asked now",
            "asked in the future",
        ],
    )
    def test_each_question_waits_twice_as_long_as_the_one_before(self, lookups, after, is_due):
        evidence = self.asked(job_lookups=lookups, job_looked_up_at=None if after is None else NOW - after)
        assert absence.is_job_lookup_due(evidence, NOW) is is_due

    def test_a_runner_without_a_job_is_not_asked_for(self):
        assert absence.jobs_to_look_up([suspect()], NOW) == []

    def test_those_that_were_asked_for_longest_ago_come_first_and_the_others_later(self):
        several = [
            self.asked()._replace(id=each, job_lookups=1, job_looked_up_at=NOW - 999 - each) for each in range(300)
        ]
        asked = absence.jobs_to_look_up(several, NOW)
        assert [each.id for each, _ in asked] == [*range(299, 299 - absence.MOST_JOBS, -1)]

    def test_three_hundred_lost_at_work_cost_less_than_sixty_questions_a_minute(self):
        """A sweep each minute, and the confirmation after it."""
        fleet = {each: self.asked()._replace(id=each) for each in range(300)}
        for minute in range(120):
            spent = 0
            for at in (NOW + 60.0 * minute, NOW + 60.0 * minute + 30.0):
                for each, job_id in absence.jobs_to_look_up(fleet.values(), at):
                    fleet[each.id] = observations.job_looked_up(job_id, at, None)(each)
                    spent += 1
            assert spent <= 40
        assert min(each.job_lookups for each in fleet.values()) > 2, "each one had its turns"

    def test_another_job_has_its_own_count(self):
        asked = observations.job_not_over(self.asked(), 9, NOW)
        assert observations.job_started(asked, 10, NOW + 1).job_lookups == 0

    @pytest.mark.parametrize("job_id", [8, 10])
    def test_an_answer_about_another_job_counts_for_that_job_alone(self, job_id):
        assert observations.job_not_over(self.asked(), job_id, NOW) == self.asked()


class TestOmittedRunners:
    """A list that lacks runners which their GETs find says so again at each sweep."""

    def found(self, times):
        """A runner that lists lacked, and that its GETs found; the last time was now."""
        evidence = online()
        for number in range(times):
            at = NOW - 1000.0 * (times - number - 1)
            missed = observations.unlisted(evidence, at, 412)
            evidence = observations.registration_seen(missed, registration(online=True), at, by=observations.SeenBy.GET)
        return evidence

    @pytest.mark.parametrize(
        ("times", "after", "asked"),
        [
            (0, 1.0, True),
            (1, 0.0, False),
            (1, 60.0 - MICROSECOND, False),
            (1, 60.0, True),
            (2, 120.0 - MICROSECOND, False),
            (2, 120.0, True),
            (9, 180.0 - MICROSECOND, False),
            (9, 180.0, True),
        ],
        ids=[
            "first",
            "at the same moment",
            "within a minute",
            "a minute later",
            "twice, within two minutes",
            "twice, two minutes later",
            "often, within three minutes",
            "often, three minutes later",
        ],
    )
    def test_a_list_without_a_runner_that_a_get_found_is_no_hint_for_a_while(self, times, after, asked):
        found = self.found(times)
        omitted = observations.unlisted(found, NOW + after, 412)
        queried = absence.not_yet_queried([omitted], survey(swept_at=NOW + after), NOW + after, LIMITS)
        assert (queried == [omitted.id]) is asked
        assert judge(omitted, survey(swept_at=NOW + after), NOW + after, LIMITS).state is (
            State.SUSPECT if asked else State.HEALTHY
        )

    def test_a_list_that_has_the_runner_ends_that(self):
        seen = observations.registration_seen(
            self.found(3), registration(online=True), NOW + 60, by=observations.SeenBy.LIST
        )
        assert seen.omissions == 0


@pytest.mark.parametrize(("first_404_at", "is_asked"), [(NOW, False), (NOW + MICROSECOND, True)], ids=["now", "later"])
def test_a_suspect_whose_first_404_is_in_the_future_is_asked_for_again(first_404_at, is_asked):
    missing = suspect(first_404_at=first_404_at)
    assert absence.not_yet_queried([missing], survey(), NOW, LIMITS) == ([missing.id] if is_asked else [])


def test_suspects_without_a_job_are_asked_for_before_those_with_one():
    """Three hundred busy ones may be lost at once; the idle one among them is replaced as usual."""
    at_work = [suspect(each, first_404_at=None, job_id=9, job_started_at=NOW - 900) for each in range(MOST_ASKED)]
    idle = suspect(999, first_404_at=None, absent_since=NOW - 1)
    asked = absence.not_yet_queried([*at_work, idle], survey(), NOW + 300, LIMITS)
    assert (asked[0], len(asked)) == (999, MOST_ASKED)


@pytest.mark.parametrize(
    ("was_deleted", "first_404_at", "until"),
    [
        (True, NOW - 90, NOW + observations.LIST_LAG_SECONDS),
        (False, NOW - 90, NOW),
        (False, NOW - STALE_LIST_SECONDS, NOW),
        (False, NOW - 20, NOW - 20 + STALE_LIST_SECONDS),
    ],
    ids=["deleted", "missing for long", "missing for a minute", "missing since a moment ago"],
)
def test_a_list_that_may_be_older_than_the_removal_of_its_runner_is_ignored(was_deleted, first_404_at, until):
    absent = lost(absent_since=first_404_at, first_404_at=first_404_at, observed_at=first_404_at)
    removed = absent._replace(removed_at=NOW, was_deleted=was_deleted)
    for began, is_ignored in ((until - 30, True), (until, True), (until + MICROSECOND, False)):
        fold = absence.folds_of_list(listing(1), {1: removed}, survey(), began)[1]
        assert (fold(removed) is removed) is is_ignored


def test_a_control_list_shows_more_than_the_suspects_of_its_confirmation():
    """An invalidated runner that it lists online is not removed on the old confirmation."""
    folds = absence.folds_of_control(listing(1, 2), {1, 3}, NOW + 60)
    assert folds.keys() == {1}
    assert folds[1](lost(1)).confirmed_at is None


def test_a_row_that_cannot_be_read_shows_its_runner_as_it_was_read_before():
    known = {1: online(1, busy=True, was_busy=True), 2: online(2)}
    look = absence.as_last_read(listing(2)._replace(total=2, unreadable=frozenset({1})), known)
    assert (look.unreadable, look.runners.keys()) == (frozenset(), {1, 2})
    folds = absence.folds_of_list(look, known, survey(), NOW)
    assert folds[1](known[1]) is known[1]


def test_a_row_that_cannot_be_read_ends_an_absence_and_no_list_with_it_confirms_one():
    known = {1: suspect(1)}
    look = absence.as_last_read(listing()._replace(total=1, unreadable=frozenset({1})), known)
    back = absence.folds_of_list(look, known, survey(), NOW)[1](known[1])
    assert (back.absent_since, back.first_404_at) == (None, None)
    assert absence.due_in_sweep(known.values(), look, survey(), NOW, NOW + 60, LIMITS) == {}


@pytest.mark.parametrize(("ended_at", "busy"), [(None, True), (NOW - 60, False)])
def test_a_runner_whose_row_cannot_be_read_is_busy_until_its_known_job_ends(ended_at, busy):
    known = {1: online(1, busy=True, observed_at=NOW - 120, job_id=5, job_ended_at=ended_at)}
    assert absence.as_last_read(listing()._replace(unreadable=frozenset({1})), known).runners[1].busy is busy


def test_a_row_of_a_runner_that_was_never_read_stays_unreadable():
    look = listing()._replace(total=1, unreadable=frozenset({1}))
    assert absence.as_last_read(look, {}) == look
    assert absence.as_last_read(look, {1: online(1, registered=False)}) == look


def test_labels_that_cannot_be_read_are_those_that_were_read_before():
    odd = registration(online=True, labels=("linux-8vcpu",), custom_labels=("linux-8vcpu",), labels_complete=False)
    known = online(1)
    assert observations.registration_seen(known, odd, NOW, by=observations.SeenBy.LIST).labels == known.labels
    new = observations.registration_seen(None, odd, NOW, by=observations.SeenBy.LIST)
    assert new.labels == new.custom_labels == ("linux-8vcpu",)


def test_what_a_get_found_while_it_verified_an_empty_list_is_kept_and_a_404_is_not():
    there = GetResult(registration(id=2), NOW)
    assert absence.found({1: GetResult(None, NOW), 2: there}) == {2: there}


@pytest.mark.parametrize(
    ("age", "is_checked"),
    [(LIMITS.confirm_seconds - MICROSECOND, True), (LIMITS.confirm_seconds, False)],
    ids=["younger than a confirmation", "as old"],
)
def test_a_suspect_that_is_younger_than_a_confirmation_is_only_being_checked(age, is_checked):
    found = absent_runners([suspect(1, absent_since=NOW - age, first_404_at=None)], NOW, LIMITS)
    assert found == (AbsentRunners(checked=("linux-1",)) if is_checked else AbsentRunners(suspects=("linux-1",)))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (AbsentRunners(), "no suspect"),
        (AbsentRunners(("a",)), "1 suspect (a)"),
        (AbsentRunners((), ("a",)), "1 runner that left the list and is being checked (a)"),
        (AbsentRunners((), ("a", "b")), "2 runners that left the list and are being checked (a, b)"),
        (
            AbsentRunners(tuple("abcd"), ("e",)),
            "4 suspects (a, b, c, 1 more) and 1 runner that left the list and is being checked (e)",
        ),
        (AbsentRunners(("a\nb",)), "1 suspect (a b)"),
    ],
    ids=["all is well", "a suspect", "one is checked", "two are checked", "many and one", "a nasty name"],
)
def test_the_outcome_of_a_sweep_names_suspects_and_runners_that_are_checked(found, text):
    assert found.in_words == text


@pytest.mark.parametrize(
    ("taken", "is_shown"),
    [
        ({}, True),
        ({"job_started_at": NOW - 60}, False),
        ({"job_ended_at": NOW - 20}, False),
        ({"job_id": None}, False),
        ({"registered": True}, False),
        ({"id": 3}, False),
        ({"id": 7}, False),
        ({"id": 9}, False),
    ],
    ids=[
        "ours",
        "the list may be from before",
        "ended",
        "no job",
        "listed",
        "below",
        "far from its neighbours",
        "above",
    ],
)
def test_a_runner_that_no_list_showed_is_ours_if_its_id_is_between_those_of_two_that_came_with_it(taken, is_shown):
    """Two scopes have runners with the same labels: the deliveries of the jobs of both look alike."""
    runner = Evidence(id=5, name="vm", first_seen=NOW - 90, job_id=7, job_started_at=NOW - 61)._replace(**taken)
    times = {4: 0.0, 6: 600.0, 8: 1201.0}
    fleet = [online(each, first_seen=LONG_AGO + after) for each, after in times.items()]
    assert absence.never_listed([runner, *fleet], survey()) == ([runner] if is_shown else [])
    assert absence.never_listed([runner, *fleet], Survey()) == []
