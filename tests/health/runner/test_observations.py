"""What each observation adds to the evidence, and what it never may."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.health.runner.evidence import Evidence, Survey, observed_at
from ghapp.health.runner.observations import (
    LIST_LAG_SECONDS,
    OVERTAKING_SECONDS,
    absence_confirmed,
    first_observation,
    get_missed,
    job_ended,
    job_found_over,
    job_started,
    registration_seen,
    reregistered,
    retired_by_controller,
    unlisted,
)
from ghapp.health.runner.verdict import LONGEST_JOB_SECONDS, Limits, Reason, State, judge
from tests.health.builders import LONG_AGO, MICROSECOND, NOW, lost, online, present, registration, survey, suspect

LIMITS = Limits()


def folds(times):
    """One observation of any kind: a function of the evidence, its time and its kind."""
    looks = st.builds(
        registration,
        online=st.booleans(),
        busy=st.booleans(),
        ephemeral=st.sampled_from([None, False, True]),
    )
    jobs = st.integers(1, 3)
    return st.one_of(
        st.builds(
            lambda s, t, li: ("seen", t, lambda e: registration_seen(e, s, t, listed=li)), looks, times, st.booleans()
        ),
        st.builds(lambda t: ("unlisted", t, lambda e: unlisted(e, t, 412)), times),
        st.builds(lambda t: ("missed", t, lambda e: get_missed(e, t)), times),
        st.builds(lambda t: ("confirmed", t, lambda e: absence_confirmed(e, t)), times),
        st.builds(lambda j, t: ("started", t, lambda e: job_started(e, j, t)), jobs, times),
        st.builds(lambda j, t: ("ended", t, lambda e: job_ended(e, j, t)), jobs, times),
        st.builds(lambda t: ("reregistered", t, lambda e: reregistered(e, 2)), times),
        st.builds(lambda t: ("retired", t, lambda e: retired_by_controller(e, t)), times),
    )


TIMES = st.integers(0, 1500).map(lambda s: NOW + s)
LIVES = st.lists(folds(TIMES), max_size=25)


def live(life, start=None):
    evidence = start if start is not None else first_observation(1, "linux-1", NOW)
    for _, _, fold in life:
        evidence = fold(evidence)
    return evidence


@given(LIVES, folds(TIMES))
def test_folding_an_observation_twice_is_folding_it_once(life, observation):
    once = observation[2](live(life))
    assert observation[2](once) == once


@given(st.floats(MICROSECOND, OVERTAKING_SECONDS), st.sampled_from([online(), present(), suspect(), lost()]), st.data())
def test_an_observation_of_github_older_than_the_record_changes_nothing(age, evidence, data):
    late = NOW - age
    kind, _, fold = data.draw(folds(st.just(late)).filter(lambda each: each[0] in ("seen", "unlisted", "missed")))
    assert fold(evidence) is evidence, kind


@given(LIVES, LIVES)
def test_a_random_life_keeps_the_judgement_total(life, rest):
    evidence = live(life + rest)
    for now in (NOW - 1, NOW, NOW + 120, NOW + 1500, NOW + 10**6):
        for each in (survey(), Survey(), survey(failing_since=NOW, failure=Reason.RATE_LIMITED)):
            verdict = judge(evidence, each, now, LIMITS)
            assert verdict.state in State
            assert verdict.reason in Reason


@given(LIVES)
def test_nothing_is_invalidated_without_two_404s_after_it_was_registered(life):
    evidence = first_observation(1, "linux-1", NOW)
    registered = False
    missed: float | None = None
    confirmed = False
    for kind, at, fold in life:
        before, evidence = evidence, fold(evidence)
        if kind == "seen" and evidence is not before:
            registered, missed, confirmed = True, None, False
        elif kind == "missed" and registered and evidence != before:
            missed = at if missed is None else missed
        elif kind == "confirmed":
            confirmed = confirmed or (missed is not None and at > missed)
        if judge(evidence, survey(), at, LIMITS).state is State.INVALIDATED:
            assert registered
            assert missed is not None
            assert confirmed


@given(LIVES, TIMES, st.booleans())
def test_a_busy_runner_that_github_shows_is_never_a_candidate(life, at, listed):
    evidence = live(life)._replace(observed_at=None, retired_at=None)
    evidence = registration_seen(evidence, registration(online=True, busy=True), at, listed=listed)
    for later in (0, 299, 10**6):
        assert judge(evidence, Survey(), at + later, LIMITS).state not in (State.INVALIDATED, State.OFFLINE)


@given(LIVES, TIMES, st.integers(4, 9))
def test_a_runner_running_a_job_that_github_shows_is_never_a_candidate(life, at, job_id):
    evidence = live(life)._replace(observed_at=None, retired_at=None)
    evidence = registration_seen(evidence, registration(online=True), at, listed=True)
    evidence = job_started(evidence, job_id, NOW + 1501)
    assert evidence.running_job == job_id
    verdict = judge(evidence, survey(swept_at=NOW + 1501), NOW + 1501, LIMITS)
    assert verdict.state in (State.HEALTHY, State.STARTING)


@pytest.mark.parametrize("listed", [True, False], ids=["in a list", "alone"])
def test_a_first_sight_dated_by_a_clock_that_had_jumped_is_corrected_by_the_next_one(listed):
    """Dated in the future, it would count as a successor of a batch that is requested until then."""
    ahead = registration_seen(None, registration(online=True), NOW + OVERTAKING_SECONDS + 1, listed=True)
    assert registration_seen(ahead, registration(online=True), NOW, listed=listed).first_seen == NOW
    later = registration_seen(ahead, registration(online=True), NOW + OVERTAKING_SECONDS + 60, listed=listed)
    assert later.first_seen == NOW + OVERTAKING_SECONDS + 1


def test_a_404_alone_only_starts_the_clock():
    evidence = get_missed(online(), NOW)
    assert evidence == online(listed=False, observed_at=NOW, missing_at=NOW)
    assert evidence.confirmed_at is None


def test_a_second_404_does_not_restart_the_clock():
    evidence = get_missed(get_missed(online(), NOW), NOW + 30)
    assert evidence.missing_at == NOW
    assert evidence.confirmed_at is None


def test_a_confirmation_without_a_first_404_changes_nothing():
    listed_nowhere = unlisted(online(), NOW, 412)
    assert absence_confirmed(listed_nowhere, NOW + 30) is listed_nowhere


@pytest.mark.parametrize(
    ("after", "confirmed_at"),
    [(-1.0, None), (0.0, None), (MICROSECOND, NOW + MICROSECOND), (30.0, NOW + 30)],
    ids=["before the first 404", "the first 404 itself", "just after it", "confirm_seconds after it"],
)
def test_only_a_404_after_the_first_confirms(after, confirmed_at):
    assert absence_confirmed(get_missed(online(), NOW), NOW + after).confirmed_at == confirmed_at


def test_a_confirmation_from_before_the_runner_came_back_does_not_count_for_its_next_absence():
    evidence = get_missed(online(), NOW)
    evidence = registration_seen(evidence, registration(online=True), NOW + 20, listed=True)
    evidence = get_missed(evidence, NOW + 40)
    assert absence_confirmed(evidence, NOW + 10) is evidence


def test_a_confirmation_overtaken_by_a_list_that_agrees_counts_and_makes_nothing_older():
    evidence = unlisted(get_missed(online(), NOW), NOW + 31, 412)
    evidence = absence_confirmed(evidence, NOW + 30)
    assert (evidence.confirmed_at, evidence.observed_at) == (NOW + 30, NOW + 31)


@pytest.mark.parametrize(
    "fold", [lambda e: unlisted(e, NOW, 412), lambda e: get_missed(e, NOW), lambda e: reregistered(e, 2)]
)
def test_a_runner_that_was_never_registered_cannot_be_absent(fold):
    hosted = job_started(first_observation(1, "GitHub Actions 7", NOW), 9, NOW)
    assert fold(hosted) is hosted


@pytest.mark.parametrize(
    ("older_by", "heeded"),
    [
        (0.0, True),
        (MICROSECOND, False),
        (OVERTAKING_SECONDS, False),
        (OVERTAKING_SECONDS + MICROSECOND, True),
    ],
    ids=["as new", "a microsecond older", "as old as a job lives", "recorded by a clock that had jumped"],
)
def test_an_older_observation_is_late_only_within_the_life_of_a_job(older_by, heeded):
    evidence = lost()
    seen = registration_seen(evidence, registration(), NOW - older_by, listed=True)
    assert (seen is not evidence) is heeded


def test_the_list_that_lacked_it_first_is_remembered_with_its_size():
    evidence = unlisted(unlisted(online(), NOW, 411), NOW + 60, 7)
    assert (evidence.absent_since, evidence.absent_of, evidence.observed_at) == (NOW, 411, NOW + 60)


def test_a_registration_seen_again_ends_the_absence_and_all_that_was_done_about_it():
    acted_on = lost(granted_at=NOW, event_id="e", removed_at=NOW, replaced_at=NOW)
    back = registration_seen(acted_on, registration(online=True), NOW + 60, listed=True)
    assert back.back_at == NOW + 60
    undone = (
        "absent_since",
        "absent_of",
        "missing_at",
        "confirmed_at",
        "granted_at",
        "event_id",
        "removed_at",
        "replaced_at",
    )
    assert {name: getattr(back, name) for name in undone} == dict.fromkeys(undone)


def test_an_offline_runner_that_was_granted_stays_granted_while_it_is_seen():
    seen = registration_seen(present(granted_at=NOW, event_id="e"), registration(), NOW + 60, listed=True)
    assert (seen.granted_at, seen.event_id) == (NOW, "e")


def test_a_listed_runner_that_did_not_change_is_the_very_same_object():
    evidence = online()
    assert registration_seen(evidence, registration(online=True), NOW + 60, listed=True) is evidence


@pytest.mark.parametrize(
    "change",
    [
        {"online": False},
        {"busy": True},
        {"name": "other"},
        {"labels": ("self-hosted",)},
        {"group_id": 2},
        {"version": "2.330.0"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_listed_runner_that_changed_is_recorded(change):
    evidence = registration_seen(online(), registration(**{"online": True, **change}), NOW + 60, listed=True)
    assert evidence.observed_at == NOW + 60
    assert evidence._asdict().items() >= change.items()


def test_offline_counts_from_the_first_time_it_was_seen_offline():
    evidence = online()
    for after in (60, 120, 180):
        evidence = registration_seen(evidence, registration(), NOW + after, listed=True)
    assert evidence.offline_since == NOW + 60
    assert registration_seen(evidence, registration(online=True), NOW + 240, listed=True).offline_since is None


@pytest.mark.parametrize("ephemeral", [None, True])
def test_what_github_stops_saying_of_ephemeral_is_kept(ephemeral):
    evidence = registration_seen(
        online(ephemeral=True), registration(busy=True, ephemeral=ephemeral), NOW + 1, listed=True
    )
    assert evidence.ephemeral is True


FIRST = NOW + 60
"""When it was first seen after its job."""


@pytest.mark.parametrize(
    ("was_online", "at", "is_online", "ephemeral"),
    [
        (True, FIRST + LIST_LAG_SECONDS, True, None),
        (True, FIRST + LIST_LAG_SECONDS + MICROSECOND, True, False),
        (True, FIRST + LIST_LAG_SECONDS + MICROSECOND, False, None),
        (False, FIRST + LIST_LAG_SECONDS + MICROSECOND, True, None),
    ],
    ids=["maybe an old list", "it outlived its job", "its registration may linger", "it came back in between"],
)
def test_a_runner_online_long_after_its_job_is_persistent_where_github_does_not_say(
    was_online, at, is_online, ephemeral
):
    evidence = job_ended(online(ephemeral=None), 9, NOW)
    first = registration_seen(evidence, registration(online=was_online, ephemeral=None), FIRST, listed=True)
    assert (first.observed_at, first.ephemeral) == (FIRST, None)
    shown = registration(online=is_online, ephemeral=None)
    assert registration_seen(first, shown, at, listed=True).ephemeral is ephemeral


def test_between_the_first_sight_after_its_job_and_the_one_that_proves_it_nothing_is_written():
    shown = registration(online=True, ephemeral=None)
    first = registration_seen(job_ended(online(ephemeral=None), 9, NOW), shown, FIRST, listed=True)
    assert registration_seen(first, shown, FIRST + LIST_LAG_SECONDS, listed=True) is first


@pytest.mark.parametrize(
    ("after", "retired_at"),
    [(LIST_LAG_SECONDS, NOW), (LIST_LAG_SECONDS + MICROSECOND, None)],
    ids=["a list that lags", "it was not removed after all"],
)
def test_a_retired_runner_still_in_a_list_stays_retired_as_long_as_lists_lag(after, retired_at):
    evidence = retired_by_controller(online(), NOW)
    assert registration_seen(evidence, registration(online=True), NOW + after, listed=True).retired_at == retired_at


def test_the_first_word_of_a_controller_stands():
    evidence = retired_by_controller(online(), NOW)
    assert retired_by_controller(evidence, NOW + 60) is evidence


def test_only_a_later_registration_supersedes_one():
    evidence = online(7)
    assert reregistered(evidence, 6) is evidence
    assert reregistered(evidence, 7) is evidence
    assert reregistered(evidence, 8).reregistered_as == 8


def test_a_superseded_registration_that_is_still_listed_is_not_superseded():
    evidence = reregistered(online(), 2)
    assert registration_seen(evidence, registration(online=True), NOW + 60, listed=True).reregistered_as is None


def test_being_in_the_last_complete_list_is_an_observation_of_its_time():
    assert observed_at(online(observed_at=LONG_AGO), survey()) == NOW
    assert observed_at(online(observed_at=NOW + 5), survey()) == NOW + 5
    assert observed_at(online(observed_at=LONG_AGO, listed=False), survey()) == LONG_AGO
    assert observed_at(online(observed_at=LONG_AGO), Survey()) == LONG_AGO


# What deliveries say of jobs: twice, late, and in the wrong order.

STARTED = ("started", 1, NOW + 10)
ENDED = ("ended", 1, NOW + 20)
NEXT_STARTED = ("started", 2, NOW + 30)
NEXT_ENDED = ("ended", 2, NOW + 40)


LATE_ENDED = ("ended", 1, NOW + 700)
"""GitHub gave up the first job long after its agent had crashed, and taken the next one."""
STARTED_AT = {1: NOW + 10, 2: NOW + 30}


def after_deliveries(*deliveries: tuple[str, int, float]) -> Evidence:
    evidence = first_observation(1, "linux-1", NOW)
    for kind, job_id, at in deliveries:
        if kind == "started":
            evidence = job_started(evidence, job_id, at)
        else:
            evidence = job_ended(evidence, job_id, at, started_at=STARTED_AT[job_id])
    return evidence


@pytest.mark.parametrize(
    ("deliveries", "running", "job", "started", "ended"),
    [
        ([STARTED], 1, 1, NOW + 10, None),
        ([STARTED, ENDED], None, 1, NOW + 10, NOW + 20),
        ([ENDED, STARTED], None, 1, NOW + 10, NOW + 20),
        ([ENDED], None, 1, NOW + 10, NOW + 20),
        ([STARTED, ENDED, STARTED], None, 1, NOW + 10, NOW + 20),
        ([STARTED, NEXT_STARTED, ENDED], 2, 2, NOW + 30, None),
        ([NEXT_STARTED, STARTED, ENDED], 2, 2, NOW + 30, None),
        ([STARTED, NEXT_ENDED], None, 2, NOW + 30, NOW + 40),
        ([NEXT_ENDED, STARTED], None, 2, NOW + 30, NOW + 40),
        ([NEXT_ENDED, ENDED], None, 2, NOW + 30, NOW + 40),
        ([STARTED, NEXT_STARTED, LATE_ENDED], 2, 2, NOW + 30, None),
        ([NEXT_STARTED, LATE_ENDED], 2, 2, NOW + 30, None),
        ([ENDED, NEXT_STARTED], 2, 2, NOW + 30, None),
    ],
    ids=[
        "started",
        "over",
        "its end overtook its start",
        "its start was lost",
        "its start came twice",
        "an older end came late",
        "the older job came late",
        "the next one's start was lost",
        "an older start came after the next one's end",
        "an older end came after the next one's end",
        "an older job was given up while the next one runs",
        "an older job was given up, and its start was lost",
        "the next one after a lost start",
    ],
)
def test_deliveries_of_jobs_may_come_in_any_order(deliveries, running, job, started, ended):
    evidence = after_deliveries(*deliveries)
    assert evidence.running_job == running
    assert (evidence.job_id, evidence.job_started_at, evidence.job_ended_at) == (job, started, ended)


def test_an_end_whose_start_nobody_knows_does_not_end_another_job_that_runs():
    running = job_started(online(), 2, NOW)
    assert job_ended(running, 1, NOW + 700) is running


@given(st.permutations([STARTED, ENDED, LATE_ENDED, NEXT_STARTED, NEXT_ENDED]))
def test_in_whatever_order_two_jobs_are_told_none_is_left_running(deliveries):
    evidence = after_deliveries(*deliveries)
    assert evidence.running_job is None
    assert evidence.job_id == 2
    assert evidence.was_online


def test_a_grant_for_being_offline_is_called_off_when_it_is_seen_online():
    granted_offline = present(granted_at=NOW, event_id="e1")
    seen = registration_seen(granted_offline, registration(online=True), NOW + 1, listed=True)
    assert (seen.granted_at, seen.event_id) == (None, None)
    still = registration_seen(granted_offline, registration(), NOW + 1, listed=True)
    assert still.event_id == "e1"


@pytest.mark.parametrize(
    ("ended_at", "busy"),
    [(NOW, False), (NOW - MICROSECOND, True)],
    ids=["it ended after GitHub was last asked", "GitHub calls it busy since"],
)
def test_a_delivery_that_ends_its_job_ends_what_github_said_of_it_before(ended_at, busy):
    assert job_ended(online(busy=True, observed_at=NOW), 9, ended_at).busy is busy


class TestAJobThatGitHubsAnswerFoundOver:
    """The answer comes hours after the end, when a delivery was lost."""

    @pytest.mark.parametrize(
        ("completed_at", "ended_at"),
        [(NOW - 3600, NOW - 3600), (NOW, NOW), (NOW + MICROSECOND, NOW)],
        ids=["long ago", "now", "by a clock ahead of ours"],
    )
    def test_its_end_is_dated_by_github_and_not_by_the_answer(self, completed_at, ended_at):
        ended = job_found_over(job_started(online(), 1, LONG_AGO), 1, NOW, completed_at)
        assert (ended.running_job, ended.job_ended_at, ended.job_end_dated) == (None, ended_at, True)
        assert ended.last_delivery_at == ended_at

    def test_without_a_date_it_is_over_and_the_answer_shows_no_life_of_its_runner(self):
        running = job_started(online(), 1, LONG_AGO)
        ended = job_found_over(running, 1, NOW, None)
        assert (ended.running_job, ended.job_ended_at, ended.job_end_dated) == (None, NOW, False)
        assert ended.last_delivery_at == running.last_delivery_at

    def test_a_dated_end_replaces_one_without_a_date_and_never_the_other_way_round(self):
        running = job_started(online(), 1, LONG_AGO)
        dated, undated = job_ended(running, 1, NOW - 3600), job_found_over(running, 1, NOW, None)
        replaced = job_ended(undated, 1, NOW - 3600)
        assert (replaced.job_ended_at, replaced.job_end_dated) == (NOW - 3600, True)
        assert job_found_over(dated, 1, NOW, None) is dated
        assert job_found_over(undated, 1, NOW + 1, None) is undated

    def test_the_next_job_has_an_end_of_its_own(self):
        undated = job_found_over(job_started(online(), 1, LONG_AGO), 1, NOW, None)
        assert job_started(undated, 2, NOW + 1).job_end_dated
        assert job_ended(undated, 2, NOW + 9, NOW + 1).job_end_dated

    @pytest.mark.parametrize(
        ("completed_at", "busy"),
        [(NOW - 600, False), (NOW - 600 - MICROSECOND, True)],
        ids=["it ended after the runner was last listed", "the runner was listed busy since"],
    )
    def test_of_an_absent_runner_it_ends_what_was_seen_before_its_absence(self, completed_at, busy):
        running = job_started(online(busy=True, observed_at=NOW - 900), 1, NOW - 900)
        absent = unlisted(unlisted(running, NOW - 600, 412), NOW - 60, 412)
        assert job_found_over(absent, 1, NOW, completed_at).busy is busy

    @pytest.mark.parametrize(
        ("waited", "is_confirmed"),
        [(LONGEST_JOB_SECONDS - 1, False), (LONGEST_JOB_SECONDS, True)],
        ids=["within the longest job", "after the longest job"],
    )
    def test_a_runner_listed_busy_after_its_job_ended_runs_another_and_is_not_confirmed(self, waited, is_confirmed):
        running = job_started(online(busy=True, observed_at=NOW - 400, ephemeral=False), 1, NOW - 900)
        missing = get_missed(unlisted(running, NOW - 60, 412), NOW)
        asked = job_found_over(missing, 1, NOW + 30, NOW - 700)
        assert (absence_confirmed(asked, NOW + waited).confirmed_at is not None) is is_confirmed
