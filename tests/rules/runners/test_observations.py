"""How each observation changes the evidence, and which changes it may never cause."""

from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ghapp.report.documents import history
from ghapp.runners.deletion_progress import Deletion
from ghapp.runners.evidence import DoubtedJob, Evidence, Outage, PastLoss, Survey, is_absent, missing_since, observed_at
from ghapp.runners.observations import (
    LIST_LAG_SECONDS,
    MOST_LEAD_SECONDS,
    OVERTAKING_SECONDS,
    REPORT_SETTLES_SECONDS,
    SeenBy,
    absence_confirmed,
    busy_after_all,
    deleting,
    first_observation,
    get_missed,
    job_ended,
    job_found_over,
    job_started,
    looked_again,
    needed_again,
    not_needed,
    registration_seen,
    remains_seen,
    removed,
    reregistered,
    retired_by_controller,
    succeeded_by,
    succeeding,
    successor_hidden,
    unlisted,
)
from ghapp.runners.remains import Remains, RemainsKind
from ghapp.runners.verdict import (
    DOUBTFUL_JOB_SECONDS,
    LONGEST_JOB_SECONDS,
    Limits,
    Reason,
    State,
    is_offline_too_long,
    judge,
    may_run_an_unknown_job,
    unknown_job_seconds,
)
from tests.rules.builders import LONG_AGO, MICROSECOND, NOW, lost, online, present, registration, survey, suspect

LIMITS = Limits()


def folds(times):
    """Any observation: its kind, its time, and its function of the evidence."""
    registrations = st.builds(
        registration,
        online=st.booleans(),
        busy=st.booleans(),
        ephemeral=st.sampled_from([None, False, True]),
    )
    jobs = st.integers(1, 3)
    return st.one_of(
        st.builds(
            lambda s, t, by: ("seen", t, lambda e: registration_seen(e, s, t, by=by)),
            registrations,
            times,
            st.sampled_from(SeenBy),
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
HISTORIES = st.lists(folds(TIMES), max_size=25)


def get_found(evidence, seen, at):
    return registration_seen(evidence, seen, at, by=SeenBy.GET)


def evidence_after(history, start=None):
    evidence = start if start is not None else first_observation(1, "linux-1", NOW)
    for _, _, fold in history:
        evidence = fold(evidence)
    return evidence


@given(HISTORIES, folds(TIMES))
def test_folding_an_observation_twice_is_folding_it_once(history, observation):
    once = observation[2](evidence_after(history))
    assert observation[2](once) == once


@given(st.floats(MICROSECOND, OVERTAKING_SECONDS), st.sampled_from([online(), present(), suspect(), lost()]), st.data())
def test_an_observation_of_github_older_than_the_record_changes_nothing(age, evidence, data):
    kinds = ("unlisted", "missed") if is_absent(evidence) else ("seen", "unlisted", "missed")
    kind, _, fold = data.draw(folds(st.just(NOW - age)).filter(lambda each: each[0] in kinds))
    # An answer that shows it busy proves at any time that it has had a job.
    assert fold(evidence._replace(was_busy=True)) == evidence._replace(was_busy=True), kind


@given(st.floats(MICROSECOND, OVERTAKING_SECONDS), st.sampled_from([suspect(), lost()]), st.data())
def test_a_return_older_than_an_absence_ends_nothing_of_it_that_came_later(age, evidence, data):
    _, at, fold = data.draw(folds(st.just(NOW - age)).filter(lambda each: each[0] == "seen"))
    after = fold(evidence)
    assert is_absent(after)
    assert after.observed_at == evidence.observed_at
    assert missing_since(after) > at or missing_since(after) == missing_since(evidence)


MOMENTS = st.integers(1, int(OVERTAKING_SECONDS) - 1).map(lambda second: NOW + second)


@st.composite
def days(draw):
    """Dated observations of one runner: the deliveries of jobs that follow each other, and GitHub's answers."""
    moments = sorted(draw(st.sets(MOMENTS, min_size=2, max_size=8)))
    deliveries = []
    for number, (started_at, ended_at) in enumerate(zip(moments[::2], moments[1::2], strict=False), 1):
        if draw(st.booleans()):
            deliveries.append((started_at, partial(job_started, job_id=number, at=started_at)))
        if draw(st.booleans()):
            deliveries.append((ended_at, partial(job_ended, job_id=number, at=ended_at, started_at=started_at)))
    answers, before = [], None
    for at in sorted(draw(st.sets(MOMENTS, max_size=5))):
        kind = draw(st.sampled_from(["listed", "found", "unlisted", "missed"]))
        shown = registration(online=True, busy=draw(st.booleans()), ephemeral=None)
        last = survey(swept_at=before)
        match kind:
            case "listed" | "found":
                fold = partial(registration_seen, seen=shown, at=at, by=SeenBy.LIST if kind == "listed" else SeenBy.GET)
            case "unlisted":
                fold = partial(unlisted, at=at, total=412, survey=last)
            case "missed":
                fold = partial(get_missed, at=at, survey=last)
        before = at if kind in ("listed", "unlisted") else before
        answers.append((at, fold))
    return deliveries, answers, survey(swept_at=before)


@given(days(), st.data())
def test_the_order_of_folding_changes_nothing_that_a_judgement_uses(observations, data):
    """Deliveries come late and in any order, a list is recorded after it was read: each has its own date."""
    deliveries, answers, last = observations

    def judged(order):
        evidence = online(ephemeral=None, observed_at=NOW, first_seen=NOW)
        for _, fold in order:
            evidence = fold(evidence)
        job = (evidence.running_job, evidence.job_id, evidence.job_started_at, evidence.job_ended_at)
        absent = unlisted(evidence, NOW + 1000, 412, last)  # what is asked of an absent runner alone
        return is_absent(evidence), evidence.online, job, evidence.ephemeral, may_run_an_unknown_job(absent)

    order = [*answers]
    for each in data.draw(st.permutations(deliveries)):
        order.insert(data.draw(st.integers(0, len(order))), each)
    assert judged(order) == judged(sorted([*deliveries, *answers], key=lambda each: each[0]))


ANSWERS = st.lists(
    st.tuples(MOMENTS, st.sampled_from(["listed", "found", "unlisted", "missed", "confirmed", "reported"])),
    max_size=8,
    unique_by=lambda each: each[0],
)


@given(ANSWERS, st.data())
def test_a_runner_that_github_returned_after_the_first_404_is_not_confirmed_in_whatever_order_answers_are_folded(
    answers, data
):
    """A sweep and a confirmation hold different locks: what each was answered may be folded after the other's."""
    folds_by_kind = {
        "listed": lambda at: partial(registration_seen, seen=registration(version=str(at)), at=at, by=SeenBy.LIST),
        "found": lambda at: partial(registration_seen, seen=registration(online=True), at=at, by=SeenBy.GET),
        "unlisted": lambda at: partial(unlisted, at=at, total=412),
        "missed": lambda at: partial(get_missed, at=at),
        "confirmed": lambda at: partial(absence_confirmed, at=at),
        "reported": lambda at: partial(retired_by_controller, at=at),
    }
    evidence = online(ephemeral=False, observed_at=NOW, first_seen=NOW)
    for at, kind in data.draw(st.permutations(answers)):
        evidence = folds_by_kind[kind](at)(evidence)
    if evidence.confirmed_at is not None:
        returned = [at for at, kind in answers if kind in ("listed", "found")]
        assert not any(missing_since(evidence) <= at <= evidence.confirmed_at for at in returned)


@pytest.mark.parametrize(
    ("folds_in_order", "state"),
    [
        ([("missed", 10), ("confirmed", 100), ("listed", 50)], ("suspect", 100)),
        ([("missed", 10), ("missed", 100), ("listed", 50)], ("suspect", 100)),
        ([("missed", 10), ("listed", 50), ("missed", 100)], ("suspect", 100)),
        ([("missed", 10), ("confirmed", 100), ("listed", 5)], ("invalidated", 10)),
        ([("missed", 10), ("confirmed", 100), ("listed", 101)], ("healthy", None)),
    ],
    ids=["confirmed first", "missed first", "by their dates", "before both", "after both"],
)
def test_a_late_list_between_two_404s_leaves_the_second_one_alone(folds_in_order, state):
    kinds = {
        "listed": lambda evidence, at: registration_seen(evidence, registration(online=True), at, by=SeenBy.LIST),
        "missed": get_missed,
        "confirmed": absence_confirmed,
    }
    evidence = online(observed_at=NOW, first_seen=LONG_AGO)
    for kind, after in folds_in_order:
        evidence = kinds[kind](evidence, NOW + after)
    found = "invalidated" if evidence.confirmed_at else "suspect" if is_absent(evidence) else "healthy"
    assert (found, None if evidence.first_404_at is None else evidence.first_404_at - NOW) == state


LATE = st.integers(-99, 60).map(lambda second: NOW + second)
CONFIRMED = [lost(last_shown_at=NOW - 100, ephemeral=ephemeral) for ephemeral in (None, False, True)]
RECORDED = ("recorded", NOW, lambda each: each._replace(past_loss=None))  # its incident has the loss


BUSY = LATE.map(
    lambda at: ("seen", at, lambda each: registration_seen(each, registration(busy=True), at, by=SeenBy.LIST))
)


@given(st.sampled_from([*CONFIRMED, suspect()]), st.lists(st.one_of(folds(LATE), st.just(RECORDED), BUSY), max_size=6))
def test_the_return_of_a_runner_is_that_of_a_lost_one_if_its_loss_was_ever_confirmed(evidence, history):
    """A false mass loss is known by such returns: whatever revoked a confirmation before must not hide them."""
    was_confirmed = evidence.confirmed_at is not None
    back = registration(online=True)
    for kind, at, fold in [*history, ("seen", NOW + 2000, lambda each: get_found(each, back, NOW + 2000))]:
        before, evidence = evidence, fold(evidence)
        if kind == "seen" and is_absent(before) and not is_absent(evidence):
            if before.first_404_at is not None:
                assert (evidence.back_at, evidence.was_lost) == (at, was_confirmed)
            was_confirmed = False
        was_confirmed = was_confirmed or evidence.confirmed_at is not None
    assert evidence.unconfirmed_at is None


@pytest.mark.parametrize(
    "revoked",
    [
        lambda each: registration_seen(each, registration(busy=True), NOW - 95, by=SeenBy.LIST),
        lambda each: registration_seen(each, registration(), NOW - 30, by=SeenBy.LIST),
        lambda each: job_started(each, 7, NOW - 95),
    ],
    ids=["by a list that shows it busy", "by a list between the two answers", "by a job"],
)
def test_a_loss_that_is_revoked_is_kept_for_its_incident_and_for_the_fuse(revoked):
    confirmed = suspect(
        first_404_at=NOW - 60, absent_since=NOW - 60, last_shown_at=NOW - 100, confirmed_at=NOW, observed_at=NOW
    )
    evidence = revoked(confirmed)
    assert (evidence.confirmed_at, evidence.past_loss.confirmed_at, evidence.past_loss.ended_at) == (None, NOW, NOW)
    assert get_found(evidence._replace(past_loss=None), registration(online=True), NOW + 60).was_lost


@given(HISTORIES, st.integers(0, 12), st.integers(NOW - 600, NOW + 1500))
def test_an_idle_answer_ends_no_job_of_an_ephemeral_runner(history, place, busy_at):
    """It takes one job: whenever GitHub showed it busy, before or after its absence, it is at work or has left."""
    history = [each for each in history if each[0] in ("seen", "unlisted", "missed", "confirmed")]
    shown = registration(online=True, busy=True, ephemeral=True)
    history.insert(place, ("seen", busy_at, lambda each: registration_seen(each, shown, busy_at, by=SeenBy.LIST)))
    evidence = first_observation(1, "linux-1", NOW - 600)
    for _, _, fold in history:
        evidence = fold(evidence)._replace(ephemeral=True)
        if evidence.was_busy:
            for remains in (None, Remains(RemainsKind.RUNNING, NOW, NOW)):
                verdict = judge(evidence._replace(remains=remains), survey(), NOW + 1500, LIMITS)
                assert verdict.state is not State.INVALIDATED
                assert not is_offline_too_long(evidence, 1.0, survey(swept_at=NOW + 10**5), NOW + 10**5)


def test_a_report_of_a_removal_that_is_recorded_after_a_later_list_does_not_undo_that_list():
    listed = registration_seen(online(observed_at=NOW), registration(online=True, busy=True), NOW + 21, by=SeenBy.LIST)
    reported = retired_by_controller(listed, NOW + 20)
    assert (reported.retired_at, reported.observed_at, reported.listed) == (NOW + 20, NOW + 21, True)
    again = registration_seen(reported, registration(online=True), NOW + 141, by=SeenBy.LIST)
    assert again.retired_at is None, "the second list"


@given(HISTORIES, HISTORIES)
def test_every_random_history_has_a_verdict(history, rest):
    evidence = evidence_after(history + rest)
    for now in (NOW - 1, NOW, NOW + 120, NOW + 1500, NOW + 10**6):
        for each in (survey(), Survey(), survey(failing_since=NOW, failure=Reason.RATE_LIMITED)):
            verdict = judge(evidence, each, now, LIMITS)
            assert verdict.state in State
            assert verdict.reason in Reason


@given(HISTORIES)
def test_no_runner_is_invalidated_without_two_404s_after_its_registration(history):
    evidence = first_observation(1, "linux-1", NOW)
    registered = False
    missed: float | None = None
    confirmed = False
    for kind, at, fold in history:
        before, evidence = evidence, fold(evidence)
        if kind == "seen" and evidence is not before and evidence.observed_at == at:  # else it came too late
            registered, missed, confirmed = True, None, False
        elif kind == "missed" and registered and evidence != before:
            missed = at if missed is None else min(at, missed)  # a later answer with an earlier date: a clock jumped
        elif kind == "confirmed":
            confirmed = confirmed or (missed is not None and at > missed)
        if judge(evidence, survey(), at, LIMITS).state is State.INVALIDATED:
            assert registered
            assert missed is not None
            assert confirmed


@given(HISTORIES, TIMES, st.sampled_from(SeenBy))
def test_a_busy_runner_that_github_shows_is_never_a_candidate(history, at, by):
    evidence = evidence_after(history)._replace(observed_at=None, retired_at=None)
    evidence = registration_seen(evidence, registration(online=True, busy=True), at, by=by)
    for later in (0, 299, 10**6):
        assert judge(evidence, Survey(), at + later, LIMITS).state not in (State.INVALIDATED, State.OFFLINE)


@given(HISTORIES, TIMES, st.integers(4, 9))
def test_a_runner_running_a_job_that_github_shows_is_never_a_candidate(history, at, job_id):
    evidence = evidence_after(history)._replace(observed_at=None, retired_at=None)
    evidence = registration_seen(evidence, registration(online=True), at, by=SeenBy.LIST)
    evidence = job_started(evidence, job_id, NOW + 1501)
    assert evidence.running_job == job_id
    verdict = judge(evidence, survey(swept_at=NOW + 1501), NOW + 1501, LIMITS)
    assert verdict.state in (State.HEALTHY, State.STARTING)


@pytest.mark.parametrize("by", SeenBy)
def test_a_first_observation_in_the_future_is_corrected_by_the_next_one(by):
    """A runner first seen in the future would count as a successor of a batch requested before that time."""
    ahead = registration_seen(None, registration(online=True), NOW + OVERTAKING_SECONDS + 1, by=SeenBy.LIST)
    assert registration_seen(ahead, registration(online=True), NOW, by=by).first_seen == NOW
    later = registration_seen(ahead, registration(online=True), NOW + OVERTAKING_SECONDS + 60, by=by)
    assert later.first_seen == NOW + OVERTAKING_SECONDS + 1


def test_a_404_alone_only_starts_the_clock():
    evidence = get_missed(online(), NOW)
    assert evidence == online(listed=False, observed_at=NOW, first_404_at=NOW, last_shown_at=NOW)
    assert evidence.confirmed_at is None


def test_a_first_404_in_the_future_is_dated_by_the_next_one():
    """Redis' clock was set back: without that, the loss would wait until the clock is there again."""
    assert get_missed(suspect(first_404_at=NOW + 3600, observed_at=NOW + 3600), NOW).first_404_at == NOW


def test_a_second_404_does_not_restart_the_clock():
    evidence = get_missed(get_missed(online(), NOW), NOW + 30)
    assert evidence.first_404_at == NOW
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


def test_a_confirmation_from_before_a_return_does_not_count_for_the_next_absence():
    evidence = get_missed(online(), NOW)
    evidence = registration_seen(evidence, registration(online=True), NOW + 20, by=SeenBy.LIST)
    evidence = get_missed(evidence, NOW + 40)
    assert absence_confirmed(evidence, NOW + 10) is evidence


def test_a_confirmation_older_than_an_agreeing_list_counts_and_keeps_the_lists_time():
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
    ("older_by", "is_applied"),
    [
        (0.0, True),
        (MICROSECOND, False),
        (OVERTAKING_SECONDS, False),
        (OVERTAKING_SECONDS + MICROSECOND, True),
    ],
    ids=["same time", "a microsecond older", "at the limit", "recorded by a clock that had jumped"],
)
def test_an_older_observation_is_ignored_only_within_the_overtaking_time(older_by, is_applied):
    seen = registration_seen(lost(), registration(), NOW - older_by, by=SeenBy.LIST)
    assert is_absent(seen) is not is_applied


def test_the_first_list_without_the_runner_is_recorded_with_its_size():
    evidence = unlisted(online(), NOW, 411)
    assert (evidence.absent_since, evidence.absent_of, evidence.observed_at) == (NOW, 411, NOW)


def test_the_lists_after_it_change_no_record_and_observe_the_runner_all_the_same():
    evidence = unlisted(online(), NOW, 411)
    assert unlisted(evidence, NOW + 60, 7) is evidence
    assert observed_at(evidence, survey(swept_at=NOW + 60)) == NOW + 60


def test_a_record_that_is_listed_and_absent_at_once_is_repaired_by_a_list_without_the_runner():
    repaired = unlisted(online()._replace(absent_since=NOW), NOW + 60, 7)
    assert (repaired.listed, repaired.absent_since) == (False, NOW)


def test_a_registration_seen_again_clears_the_absence_and_its_remediation():
    acted_on = lost(granted_at=NOW, event_id="e", removed_at=NOW, replaced_at=NOW)
    back = registration_seen(acted_on, registration(online=True), NOW + 60, by=SeenBy.LIST)
    assert back.back_at == NOW + 60
    undone = (
        "absent_since",
        "absent_of",
        "first_404_at",
        "confirmed_at",
        "granted_at",
        "event_id",
        "removed_at",
        "replaced_at",
    )
    assert {name: getattr(back, name) for name in undone} == dict.fromkeys(undone)


def test_a_granted_offline_runner_stays_granted_while_it_is_listed_offline():
    seen = registration_seen(present(granted_at=NOW, event_id="e"), registration(), NOW + 60, by=SeenBy.LIST)
    assert (seen.granted_at, seen.event_id) == (NOW, "e")


def test_an_unchanged_listed_runner_is_the_same_object():
    evidence = registration_seen(None, registration(online=True), NOW, by=SeenBy.LIST)
    for after in (0, 60):
        assert registration_seen(evidence, registration(online=True), NOW + after, by=SeenBy.LIST) is evidence


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
    evidence = registration_seen(online(), registration(**{"online": True, **change}), NOW + 60, by=SeenBy.LIST)
    assert evidence.observed_at == NOW + 60
    assert evidence._asdict().items() >= change.items()


def test_offline_counts_from_the_first_time_it_was_seen_offline():
    evidence = online()
    for after in (60, 120, 180):
        evidence = registration_seen(evidence, registration(), NOW + after, by=SeenBy.LIST)
    assert evidence.offline_since == NOW + 60
    assert registration_seen(evidence, registration(online=True), NOW + 240, by=SeenBy.LIST).offline_since is None


@pytest.mark.parametrize(
    ("seen", "outage"),
    [
        ([("offline", 60), ("online", 240)], (60, 240, False)),
        ([("offline", 60), ("offline", 120), ("online", 240)], (60, 240, False)),
        ([("404", 60), ("404", 200), ("online", 600)], (60, 600, True)),
        ([("offline", 60), ("404", 120), ("offline", 500), ("online", 800)], (60, 800, True)),
        ([("404", 60), ("offline", 120), ("online", 400)], (60, 400, True)),
        ([("offline", 60), ("online", 240), ("404", 500), ("online", 800)], (500, 800, True)),
        ([("offline", 60), ("online", 240), ("online", 300), ("offline", 600)], (60, 240, False)),
        ([("offline", 60), ("online", 240), ("offline", 100)], (60, 240, False)),
        ([("404", 60), ("busy", 120)], (60, 120, True)),
        ([("unlisted", 60), ("online", 120)], None),
        ([("offline", 60)], None),
        ([("404", 60)], None),
    ],
    ids=[
        "offline",
        "offline in two lists",
        "missing",
        "missing while offline",
        "registered again before it is online",
        "the last one counts",
        "the present one is not over",
        "a late list changes nothing",
        "busy when it should be removed",
        "a list alone omitted it",
        "still offline",
        "still missing",
    ],
)
def test_the_last_outage_that_is_over_is_kept_with_its_begin_and_end(seen, outage):
    folds_by_name = {
        "online": lambda evidence, at: registration_seen(evidence, registration(online=True), at, by=SeenBy.LIST),
        "offline": lambda evidence, at: registration_seen(evidence, registration(), at, by=SeenBy.LIST),
        "unlisted": lambda evidence, at: unlisted(evidence, at, 7),
        "404": get_missed,
        "busy": busy_after_all,
    }
    evidence = online(observed_at=NOW, first_seen=LONG_AGO)
    for name, after in seen:
        evidence = folds_by_name[name](evidence, NOW + after)
    last = evidence.last_outage
    assert (None if last is None else (last.began - NOW, last.ended - NOW, last.was_missing)) == outage


def test_a_runner_that_has_yet_to_start_has_no_outage():
    evidence = registration_seen(None, registration(), NOW, by=SeenBy.LIST)
    assert registration_seen(evidence, registration(online=True), NOW + 60, by=SeenBy.LIST).last_outage is None


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        ({"last_outage": Outage(NOW - 900, NOW - 60)}, ["offline", "online again after an outage of 14 min"]),
        (
            {"last_outage": Outage(NOW - 900, NOW - 60, True), "back_at": NOW - 60},
            ["first missing, or offline", "registered again after an absence of 14 min"],
        ),
        (
            {"last_outage": Outage(NOW - 900, NOW - 60, True), "back_at": NOW - 90},
            [
                "first missing, or offline",
                "registered again after an absence",
                "online again after an outage of 14 min",
            ],
        ),
        ({"back_at": NOW - 60}, ["registered again after an absence"]),
    ],
    ids=["offline", "missing", "offline after it was missing", "recorded by an earlier version"],
)
def test_the_evidence_shows_an_outage_that_is_over(changes, texts):
    facts = [text for at, _, text in history(online(first_seen=LONG_AGO, **changes), survey()) if LONG_AGO < at < NOW]
    assert facts == texts


@pytest.mark.parametrize("ephemeral", [None, True])
def test_a_known_ephemeral_flag_is_kept_when_github_omits_it(ephemeral):
    evidence = registration_seen(
        online(ephemeral=True), registration(busy=True, ephemeral=ephemeral), NOW + 1, by=SeenBy.LIST
    )
    assert evidence.ephemeral is True


FIRST = NOW + 60
"""The time of the first observation after the job."""


@pytest.mark.parametrize(
    ("was_online", "at", "is_online", "ephemeral"),
    [
        (True, FIRST + LIST_LAG_SECONDS, True, None),
        (True, FIRST + LIST_LAG_SECONDS + MICROSECOND, True, False),
        (True, FIRST + LIST_LAG_SECONDS + MICROSECOND, False, None),
        (False, FIRST + LIST_LAG_SECONDS + MICROSECOND, True, None),
    ],
    ids=[
        "possibly an old list",
        "online long after its job",
        "offline, possibly a stale registration",
        "came back in between",
    ],
)
def test_a_runner_online_long_after_its_job_is_persistent_if_github_omits_the_flag(
    was_online, at, is_online, ephemeral
):
    evidence = job_ended(online(ephemeral=None), 9, NOW)
    first = registration_seen(evidence, registration(online=was_online, ephemeral=None), FIRST, by=SeenBy.LIST)
    assert (first.observed_at, first.ephemeral) == (FIRST, None)
    shown = registration(online=is_online, ephemeral=None)
    assert registration_seen(first, shown, at, by=SeenBy.LIST).ephemeral is ephemeral


@pytest.mark.parametrize(
    ("observed_at", "ephemeral"), [(NOW, None), (NOW + MICROSECOND, False)], ids=["as its job ended", "after that"]
)
def test_only_an_observation_after_its_job_is_the_first_of_the_two(observed_at, ephemeral):
    first = job_ended(online(ephemeral=None, observed_at=observed_at), 9, NOW)
    shown = registration(online=True, ephemeral=None)
    later = observed_at + LIST_LAG_SECONDS + 1.0
    assert registration_seen(first, shown, later, by=SeenBy.LIST).ephemeral is ephemeral


@pytest.mark.parametrize("after", [60, LIST_LAG_SECONDS])
def test_no_record_is_written_between_the_first_observation_after_a_job_and_the_proof(after):
    shown = registration(online=True, ephemeral=None)
    first = registration_seen(job_ended(online(ephemeral=None), 9, NOW), shown, FIRST, by=SeenBy.LIST)
    assert registration_seen(first, shown, FIRST + after, by=SeenBy.LIST) is first


@pytest.mark.parametrize(
    ("seen", "retired_at"),
    [
        ([(REPORT_SETTLES_SECONDS + MICROSECOND, SeenBy.LIST)], None),
        ([(1, SeenBy.LIST), (REPORT_SETTLES_SECONDS, SeenBy.LIST)], NOW),
        ([(REPORT_SETTLES_SECONDS + after, SeenBy.FLAWED_LIST) for after in (1, 2)], NOW),
        ([(REPORT_SETTLES_SECONDS + MICROSECOND, SeenBy.GET)], None),
        ([(REPORT_SETTLES_SECONDS, SeenBy.GET)], NOW),
    ],
    ids=[
        "a list",
        "lists of when the controller may not have acted yet, or stale ones",
        "lists that are not complete",
        "a GET",
        "a GET when the controller may not have acted yet",
    ],
)
def test_a_report_of_a_removal_ends_when_github_contradicts_it(seen, retired_at):
    evidence = retired_by_controller(online(), NOW)
    for after, by in seen:
        evidence = registration_seen(evidence, registration(online=True), NOW + after, by=by)
    assert evidence.retired_at == retired_at


@pytest.mark.parametrize(
    ("began_at", "retired_at"),
    [(NOW - 1, NOW), (NOW + REPORT_SETTLES_SECONDS, NOW), (NOW + REPORT_SETTLES_SECONDS + MICROSECOND, None)],
    ids=["before the report", "within what clocks may differ", "later"],
)
@pytest.mark.parametrize("is_over", [False, True], ids=["its start", "its end first"])
def test_a_report_of_a_removal_ends_when_github_gave_the_runner_a_job_long_after_it(began_at, retired_at, is_over):
    """The report may come after the job, and it is still the earlier of both."""
    observations = [
        lambda evidence: retired_by_controller(evidence, NOW),
        lambda evidence: (
            job_ended(evidence, 42, began_at + 5, began_at) if is_over else job_started(evidence, 42, began_at)
        ),
    ]
    for first, second in (observations, reversed(observations)):
        assert second(first(online())).retired_at == retired_at


def test_the_last_report_of_a_removal_counts():
    """A controller whose removal GitHub refused reports the next attempt as well."""
    evidence = retired_by_controller(online(), NOW)
    assert retired_by_controller(evidence, NOW + 60).retired_at == NOW + 60
    assert retired_by_controller(evidence, NOW) is evidence
    assert retired_by_controller(evidence, NOW - 60) is evidence


@pytest.mark.parametrize(("after", "is_listed"), [(60, False), (-60, True)], ids=["since it was listed", "before"])
def test_a_reported_removal_ends_the_listing_that_came_before_it(after, is_listed):
    evidence = retired_by_controller(online(observed_at=NOW), NOW + after)
    assert (evidence.listed, evidence.observed_at) == (is_listed, NOW + max(after, 0))


@pytest.mark.parametrize(
    ("ahead", "counts_from"),
    [(OVERTAKING_SECONDS, NOW + OVERTAKING_SECONDS), (OVERTAKING_SECONDS + MICROSECOND, NOW)],
    ids=["within what a sweep may take", "by a clock that was set back"],
)
def test_a_report_that_a_clock_dated_in_the_future_counts_from_now(ahead, counts_from):
    reported = online(retired_at=NOW + ahead, observed_at=LONG_AGO)
    assert registration_seen(reported, registration(online=True), NOW, by=SeenBy.LIST).retired_at == counts_from


def test_only_a_later_registration_supersedes_one():
    evidence = online(7)
    assert reregistered(evidence, 6) is evidence
    assert reregistered(evidence, 7) is evidence
    assert reregistered(evidence, 8).reregistered_as == 8


def test_a_superseded_registration_that_is_still_listed_is_not_superseded():
    evidence = reregistered(online(), 2)
    assert registration_seen(evidence, registration(online=True), NOW + 60, by=SeenBy.LIST).reregistered_as is None


def test_a_listed_runner_is_observed_at_the_time_of_the_last_complete_list():
    assert observed_at(online(observed_at=LONG_AGO), survey()) == NOW
    assert observed_at(online(observed_at=NOW + 5), survey()) == NOW + 5
    assert observed_at(online(observed_at=LONG_AGO, listed=False), survey()) == LONG_AGO
    assert observed_at(online(observed_at=LONG_AGO), Survey()) == LONG_AGO


# Deliveries of jobs: twice, late, and in the wrong order.

STARTED = ("started", 1, NOW + 10)
ENDED = ("ended", 1, NOW + 20)
NEXT_STARTED = ("started", 2, NOW + 30)
NEXT_ENDED = ("ended", 2, NOW + 40)


LATE_ENDED = ("ended", 1, NOW + 700)
"""GitHub ended the first job long after its agent had crashed and started the next job."""
STARTED_AT = {1: NOW + 10, 2: NOW + 30}


def after_deliveries(*deliveries: tuple[str, int, float]) -> Evidence:
    evidence = first_observation(1, "linux-1", NOW)
    for kind, job_id, at in deliveries:
        if kind == "started":
            evidence = job_started(evidence, job_id, at)
        else:
            evidence = job_ended(evidence, job_id, at, started_at=STARTED_AT[job_id])
    return evidence


def as_they_arrive(deliveries: Sequence[tuple[str, int, float]], ahead: float, delays: Sequence[float]) -> Evidence:
    """The evidence after deliveries whose dates are ahead of our clock, and that arrive one after the other."""
    evidence, now = first_observation(1, "linux-1", NOW), NOW
    for (kind, job_id, at), delay in zip(deliveries, delays, strict=True):
        now = max(now, at + delay)
        if kind == "started":
            evidence = job_started(evidence, job_id, at + ahead, now)
        else:
            evidence = job_ended(evidence, job_id, at + ahead, STARTED_AT[job_id] + ahead, now)
        assert (evidence.job_started_at or 0.0) <= now
        assert (evidence.job_ended_at or 0.0) <= now
    return evidence


@given(
    deliveries=st.permutations([STARTED, LATE_ENDED, NEXT_STARTED, NEXT_ENDED]),
    count=st.integers(1, 4),
    ahead=st.sampled_from([0.5, 10.0, 19.0, 20.0, 21.0, 60.0, 3600.0]),
    delays=st.lists(st.sampled_from([0.0, 1.0, 15.0, 700.0]), min_size=4, max_size=4),
)
@example([STARTED, NEXT_STARTED, LATE_ENDED, NEXT_ENDED], 3, 60.0, [1.0, 1.0, 1.0, 1.0])
@example([NEXT_STARTED, STARTED, LATE_ENDED, NEXT_ENDED], 3, 3600.0, [0.0, 0.0, 0.0, 0.0])
def test_a_clock_of_githubs_that_is_ahead_changes_nothing_in_the_order_of_jobs(deliveries, count, ahead, delays):
    right, found = (as_they_arrive(deliveries[:count], each, delays[:count]) for each in (0.0, ahead))
    is_in_doubt = deliveries.index(STARTED) > min(map(deliveries.index, (NEXT_STARTED, NEXT_ENDED)))
    if not is_in_doubt:  # a start that comes after the next job's is taken for the later one
        assert (found.job_id, found.running_job) == (right.job_id, right.running_job)
    doubted = found.doubted_job
    assert right.running_job in (None, found.running_job, doubted and doubted.id), "what runs vouches in any case"


@pytest.mark.parametrize(
    ("known_at", "lead"),
    [(NOW, 60.0), (NOW + 20, 40.0), (NOW + 60, 0.0), (NOW + 700, 0.0), (NOW - 3600, MOST_LEAD_SECONDS)],
    ids=["at once", "late", "as late as the lead", "very late", "our clock was set back"],
)
@pytest.mark.parametrize("fold", [job_started, lambda e, job, at, known_at: job_ended(e, job, at, None, known_at)])
def test_a_report_shows_how_far_githubs_clock_leads_at_least(fold, known_at, lead):
    known = fold(online(), 1, NOW + 60, known_at)
    assert known.github_lead == lead
    assert fold(known, 2, NOW + 61, NOW + 3600).github_lead == lead, "a late report shows no less"


@given(st.permutations(range(4)))
def test_the_order_of_reports_does_not_change_the_lead(order):
    deliveries = [
        ("started", 1, NOW + 60, NOW + 5),
        ("ended", 1, NOW + 90, NOW + 300),
        ("started", 2, NOW + 95, NOW + 36),
        ("ended", 2, NOW + 99, NOW + 98),
    ]
    assert reports(*[deliveries[each] for each in order]).github_lead == 59.0


@pytest.mark.parametrize(("before_end", "is_busy"), [(58.0 - MICROSECOND, True), (58.0, False)])
def test_a_runner_shown_busy_before_its_jobs_end_may_run_another_one_by_as_much_as_githubs_clock_leads(
    before_end, is_busy
):
    """The lead is 59 s; GitHub dates an end by its second."""
    evidence = reports(("started", 1, NOW + 60, NOW + 1), ("ended", 1, NOW + 400, NOW + 500))
    shown = registration_seen(evidence, registration(online=True, busy=True), NOW + 400 - before_end, by=SeenBy.LIST)
    assert shown.is_busy is is_busy
    assert unknown_job_seconds(shown) == (DOUBTFUL_JOB_SECONDS if is_busy else 0.0)
    assert not shown._replace(github_lead=0.0).is_busy


@pytest.mark.parametrize("known_at", [NOW + 341, NOW + 350, NOW + 400], ids=["at once", "late", "as late as the lead"])
@pytest.mark.parametrize(("shown_at", "is_busy"), [(NOW + 342, False), (NOW + 342 + MICROSECOND, True)])
def test_an_end_that_is_dated_ahead_of_our_clock_came_when_githubs_date_less_its_lead_says(known_at, shown_at, is_busy):
    """A runner shown busy before the end of its job became known runs no other job because GitHub's clock leads."""
    evidence = reports(("started", 1, NOW + 60, NOW + 1), ("ended", 1, NOW + 400, known_at))
    shown = registration_seen(evidence, registration(online=True, busy=True), shown_at, by=SeenBy.LIST)
    assert shown.is_busy is is_busy
    again = job_started(shown, 2, NOW + 500, NOW + 441)
    assert again.job_end_dated_at is None


DOUBT = [("started", 2, NOW + 90, NOW + 30), ("started", 1, NOW + 50, NOW + 200)]
"""GitHub's clock is a minute ahead: the start of the first job comes late, and may be that of a later one."""


def reports(*deliveries: tuple[str, int, float, float]) -> Evidence:
    evidence = online(ephemeral=False)
    for kind, job_id, at, known_at in deliveries:
        if kind == "started":
            evidence = job_started(evidence, job_id, at, known_at)
        else:
            evidence = job_ended(evidence, job_id, at, None, known_at)
    return evidence


@pytest.mark.parametrize(
    ("later", "running", "doubted"),
    [
        ([], 1, 2),
        ([("started", 1, NOW + 50, NOW + 210)], 1, 2),
        ([("ended", 1, NOW + 60, NOW + 210)], 2, None),
        ([("ended", 1, NOW + 60, NOW + 210), ("ended", 2, NOW + 190, NOW + 220)], None, None),
        ([("ended", 2, NOW + 190, NOW + 210)], 1, None),
        ([("started", 2, NOW + 90, NOW + 210)], 2, None),
        ([("started", 3, NOW + 90, NOW + 210)], 3, 2),
        ([("started", 3, NOW + 90 + MICROSECOND, NOW + 210)], 3, None),
    ],
    ids=[
        "the late start",
        "twice",
        "the end of the job that came late",
        "the ends of both",
        "the end of the displaced one",
        "the displaced one once more",
        "a third one that may be older",
        "a third one that is later",
    ],
)
def test_a_job_that_another_one_displaces_in_doubt_vouches_until_both_are_over(later, running, doubted):
    evidence = reports(*DOUBT, *later)
    assert evidence.running_job == running
    assert evidence.doubted_job == (None if doubted is None else DoubtedJob(doubted, NOW + 90))


@pytest.mark.parametrize(
    ("first", "second", "is_doubted"),
    [
        (("started", 2, NOW + 90, NOW + 30), NOW + 90, True),
        (("started", 2, NOW + 90, NOW + 30), NOW + 90 + MICROSECOND, False),
        (("started", 2, NOW + 90, NOW + 90), NOW + 90, False),
        (("ended", 2, NOW + 90, NOW + 30), NOW + 90, False),
    ],
    ids=["not later", "later", "no clock is ahead", "the other one is over"],
)
def test_a_job_is_displaced_in_doubt_only_by_dates_of_a_clock_that_was_ahead(first, second, is_doubted):
    assert (reports(first, ("started", 1, second, NOW + 200)).doubted_job is not None) is is_doubted


def test_when_github_answers_that_the_other_job_is_over_the_displaced_one_is_asked_for_next():
    evidence = reports(*DOUBT)._replace(job_lookups=3, job_looked_up_at=NOW + 300)
    found = job_found_over(evidence, 1, NOW + 300, NOW + 60)
    assert (found.running_job, found.job_started_at, found.job_ended_at) == (2, NOW + 90, None)
    assert (found.job_lookups, found.job_looked_up_at) == (0, None)


def test_a_job_vouches_although_the_clock_was_set_right_since_the_last_one():
    ahead = job_started(online(ephemeral=False), 1, NOW + 3600, NOW)
    assert job_started(ahead, 2, NOW + 60, NOW + 61).running_job == 2
    over = job_ended(ahead, 1, NOW + 3630, NOW + 3600, NOW + 30)
    assert job_started(over, 2, NOW + 60, NOW + 61).running_job == 2
    at_work = job_started(ahead, 2, NOW + 60, NOW + 61)
    assert job_ended(at_work, 1, NOW + 3700, NOW + 3600, NOW + 700).running_job == 2
    assert job_ended(at_work, 1, NOW + 3700, NOW + 3600, NOW + 3599.9).running_job == 2


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
        "the end before the start",
        "the start was lost",
        "the start came twice",
        "an older end came late",
        "the older job came late",
        "the next job's start was lost",
        "an older start came after the next job's end",
        "an older end came after the next job's end",
        "an older job was ended by GitHub while the next one runs",
        "an older job was ended by GitHub, and its start was lost",
        "the next job after a lost start",
    ],
)
def test_deliveries_of_jobs_may_come_in_any_order(deliveries, running, job, started, ended):
    evidence = after_deliveries(*deliveries)
    assert evidence.running_job == running
    assert (evidence.job_id, evidence.job_started_at, evidence.job_ended_at) == (job, started, ended)


@pytest.mark.parametrize("is_over", [False, True], ids=["started", "ended"])
@pytest.mark.parametrize(
    ("after", "job_id"),
    [(-MICROSECOND, 1), (0.0, 1), (MICROSECOND, 2)],
    ids=["before it", "at the same moment", "after it"],
)
def test_a_job_is_the_later_one_if_it_started_after_the_recorded_one(is_over, after, job_id):
    recorded, at = job_started(online(ephemeral=False), 1, NOW), NOW + after
    found = job_ended(recorded, 2, NOW + 30, at) if is_over else job_started(recorded, 2, at)
    assert found.job_id == job_id


@pytest.mark.parametrize(("ahead", "running"), [(0.0, None), (MICROSECOND, 1)], ids=["as it became known", "ahead"])
def test_the_end_of_another_job_that_started_ahead_of_our_clock_does_not_end_a_running_job(ahead, running):
    """Unknown which of both is the later one: the clock may have been set right since the running one began."""
    at_work = job_started(online(ephemeral=False), 1, NOW)
    assert job_ended(at_work, 2, NOW + 60, NOW + 60 + ahead, NOW + 60).running_job == running


def test_the_end_of_an_unknown_job_does_not_end_a_running_job():
    running = job_started(online(), 2, NOW)
    assert job_ended(running, 1, NOW + 700) is running


@given(st.permutations([STARTED, ENDED, LATE_ENDED, NEXT_STARTED, NEXT_ENDED]))
def test_deliveries_of_two_ended_jobs_in_any_order_leave_no_job_running(deliveries):
    evidence = after_deliveries(*deliveries)
    assert evidence.running_job is None
    assert evidence.job_id == 2
    assert evidence.was_online


def test_a_grant_of_an_offline_runner_is_revoked_when_it_is_online():
    granted_offline = present(granted_at=NOW, event_id="e1")
    seen = registration_seen(granted_offline, registration(online=True), NOW + 1, by=SeenBy.LIST)
    assert (seen.granted_at, seen.event_id) == (None, None)
    still = registration_seen(granted_offline, registration(), NOW + 1, by=SeenBy.LIST)
    assert still.event_id == "e1"


@pytest.mark.parametrize(
    ("ended_at", "busy"),
    [(NOW, False), (NOW - 1.0, False), (NOW - 1.0 - MICROSECOND, True)],
    ids=["ended after the last query of GitHub", "in the same second", "listed busy after the end"],
)
def test_the_end_of_a_job_explains_an_older_busy_flag(ended_at, busy):
    assert job_ended(online(busy=True, observed_at=NOW), 9, ended_at).is_busy is busy


@pytest.mark.parametrize(
    ("ended_at", "may_work"),
    [(NOW - 60, False), (NOW - 61, False), (NOW - 61 - MICROSECOND, True)],
    ids=["ended when it was last listed, or later", "in the second before", "listed busy after the end"],
)
@pytest.mark.parametrize("known_when", ["before the list without it", "after that list"])
def test_the_end_of_a_job_is_compared_with_the_last_list_that_returned_the_runner(ended_at, may_work, known_when):
    """Lists that change nothing are not recorded: the survey has the time of the last one."""
    evidence = online(ephemeral=False, busy=True, observed_at=NOW - 900, job_id=9, job_started_at=NOW - 900)
    if known_when == "before the list without it":
        evidence = job_ended(evidence, 9, ended_at)
    evidence = unlisted(evidence, NOW, 412, survey(swept_at=NOW - 60))
    evidence = job_ended(evidence, 9, ended_at)
    assert may_run_an_unknown_job(evidence) is may_work


def test_a_list_begun_before_a_jobs_end_says_nothing_of_another_job():
    """The job ended while the list was read, and the list is recorded after the delivery of the end."""
    evidence = job_ended(online(ephemeral=False, busy=True, observed_at=NOW - 60), 9, NOW + 2, NOW - 90)
    evidence = registration_seen(evidence, registration(online=True, busy=True), NOW, by=SeenBy.LIST)
    evidence = unlisted(evidence, NOW + 60, 412, survey(swept_at=NOW))
    assert not may_run_an_unknown_job(evidence)


def test_a_list_after_a_jobs_end_shows_the_next_job_though_nothing_else_changed():
    evidence = job_ended(online(ephemeral=False, busy=True, observed_at=NOW - 60), 9, NOW - 2, NOW - 90)
    evidence = registration_seen(evidence, registration(online=True, busy=True), NOW, by=SeenBy.LIST)
    assert evidence.is_busy


JOBS = {
    "starts": (lambda e: job_started(e, 1, NOW - 60), lambda e: job_started(e, 2, NOW - 30)),
    "ends": (lambda e: job_ended(e, 1, NOW - 50, NOW - 60), lambda e: job_ended(e, 2, NOW - 20, NOW - 30)),
    "a start, late": (lambda e: job_started(e, 2, NOW - 30), lambda e: job_started(e, 1, NOW - 60)),
    "an end, late": (lambda e: job_ended(e, 2, NOW - 20, NOW - 30), lambda e: job_ended(e, 1, NOW - 50)),
}


@pytest.mark.parametrize("folds", JOBS.values(), ids=JOBS)
@pytest.mark.parametrize(("github", "ephemeral"), [(None, False), (True, True)], ids=["not reported", "ephemeral"])
def test_a_second_job_proves_a_runner_persistent_where_github_does_not_say(folds, github, ephemeral):
    evidence = online(ephemeral=github)
    evidence = folds[0](evidence)
    assert folds[0](evidence).ephemeral is github, "the same job again"
    assert folds[1](evidence).ephemeral is ephemeral


class TestAJobFoundOverByQuery:
    """A query finds the job over, hours after its end, because a delivery was lost."""

    @pytest.mark.parametrize(
        ("completed_at", "ended_at"),
        [(NOW - 3600, NOW - 3600), (NOW, NOW), (NOW + MICROSECOND, NOW)],
        ids=["long ago", "now", "by a clock ahead"],
    )
    def test_the_jobs_end_is_dated_by_github_and_not_by_the_query(self, completed_at, ended_at):
        ended = job_found_over(job_started(online(), 1, LONG_AGO), 1, NOW, completed_at)
        assert (ended.running_job, ended.job_ended_at, ended.job_end_dated) == (None, ended_at, True)
        assert ended.last_sign_at == ended_at

    def test_a_job_without_a_dated_end_is_over_and_does_not_count_as_a_delivery(self):
        running = job_started(online(), 1, LONG_AGO)
        ended = job_found_over(running, 1, NOW, None)
        assert (ended.running_job, ended.job_ended_at, ended.job_end_dated) == (None, NOW, False)
        assert ended.last_delivery_at == running.last_delivery_at

    def test_a_dated_end_replaces_an_undated_one_and_not_the_reverse(self):
        running = job_started(online(), 1, LONG_AGO)
        dated, undated = job_ended(running, 1, NOW - 3600), job_found_over(running, 1, NOW, None)
        replaced = job_ended(undated, 1, NOW - 3600)
        assert (replaced.job_ended_at, replaced.job_end_dated) == (NOW - 3600, True)
        assert job_found_over(dated, 1, NOW, None) is dated
        assert job_found_over(undated, 1, NOW + 1, None) is undated

    def test_the_next_job_has_its_own_end(self):
        undated = job_found_over(job_started(online(), 1, LONG_AGO), 1, NOW, None)
        assert job_started(undated, 2, NOW + 1).job_end_dated
        assert job_ended(undated, 2, NOW + 9, NOW + 1).job_end_dated

    @pytest.mark.parametrize(
        ("waited", "is_confirmed"),
        [(LONGEST_JOB_SECONDS - 1, False), (LONGEST_JOB_SECONDS, True)],
        ids=["within the longest job", "after the longest job"],
    )
    def test_a_runner_listed_busy_after_its_jobs_end_is_not_confirmed_until_the_longest_job(self, waited, is_confirmed):
        running = job_started(online(busy=True, observed_at=NOW - 400, ephemeral=False), 1, NOW - 900)
        missing = get_missed(unlisted(running, NOW - 60, 412), NOW)
        queried = job_found_over(missing, 1, NOW + 30, NOW - 700)
        assert (absence_confirmed(queried, NOW + waited).confirmed_at is not None) is is_confirmed


ABSENT = {
    "absent_since": NOW - 90,
    "absent_of": 12,
    "first_404_at": NOW - 80,
    "confirmed_at": NOW - 40,
    "missing_from_partial_list_at": NOW - 95,
    "reregistered_as": 77,
    "remains": Remains(RemainsKind.RUNNING, NOW - 30, NOW - 30),
    "not_needed_at": NOW - 20,
    "last_shown_at": NOW - 100,
}
ACTED_ON = {
    "granted_at": NOW - 30,
    "event_id": "e1",
    "removed_at": NOW - 25,
    "replaced_at": NOW - 20,
    "would_remediate_at": NOW - 30,
    "successor": 78,
    "healed_at": NOW - 10,
    "looked_at": NOW - 28,
    "was_deleted": True,
    "incident": "i1",
}


@pytest.mark.parametrize(
    "shown",
    [
        lambda evidence: registration_seen(evidence, registration(id=evidence.id), NOW, by=SeenBy.LIST),
        lambda evidence: registration_seen(evidence, registration(id=evidence.id), NOW, by=SeenBy.GET),
        lambda evidence: busy_after_all(evidence, NOW),
    ],
    ids=["listed", "returned alone", "busy, as its deletion was refused"],
)
def test_an_absence_that_is_over_leaves_nothing_of_itself(shown):
    """Whatever stayed would date the next absence by this one."""
    evidence = shown(online(observed_at=NOW - 100, listed=False)._replace(**ABSENT, **ACTED_ON))
    defaults = Evidence._field_defaults
    assert {name for name in {**ABSENT, **ACTED_ON} if getattr(evidence, name) != defaults[name]} == set()
    assert evidence.past_loss is None  # an incident has it


@pytest.mark.parametrize(("is_online", "is_busy"), [(True, False), (False, True), (False, False)])
def test_a_return_between_two_answers_that_it_is_missing_shows_that_a_runner_was_online(is_online, is_busy):
    missing = suspect(was_online=False, first_404_at=NOW - 60, absent_since=None, observed_at=NOW)
    seen = registration_seen(missing, registration(online=is_online, busy=is_busy), NOW - 30, by=SeenBy.LIST)
    assert (seen.was_online, seen.last_shown_at) == (is_online or is_busy, NOW - 30)


@pytest.mark.parametrize(
    ("first_404_at", "absent_since", "after"),
    [
        (NOW - 60, None, (NOW, None)),
        (NOW - 60, NOW - 30 - MICROSECOND, (NOW, None)),
        (NOW - 60, NOW - 30, (NOW, NOW - 30)),
        (NOW - 60, NOW - 10, (NOW, NOW - 10)),
        (None, NOW - 60, (None, NOW)),
    ],
    ids=["only asked for", "unlisted before", "unlisted at once", "unlisted after", "only unlisted"],
)
def test_after_a_return_between_two_answers_what_lacked_the_runner_since_counts(first_404_at, absent_since, after):
    missing = suspect(first_404_at=first_404_at, absent_since=absent_since, observed_at=NOW)
    seen = registration_seen(missing, registration(), NOW - 30, by=SeenBy.LIST)
    assert (seen.first_404_at, seen.absent_since) == after


@pytest.mark.parametrize(
    ("at", "shown_at"),
    [(NOW - 91, NOW - 90), (NOW - 90, NOW - 90), (NOW - 75, NOW - 75), (NOW - 60, NOW - 90)],
    ids=["before the last return", "as that", "after it", "as it went missing"],
)
def test_a_return_from_before_the_absence_dates_the_last_return(at, shown_at):
    missing = suspect(first_404_at=NOW - 60, absent_since=None, observed_at=NOW, last_shown_at=NOW - 90)
    seen = registration_seen(missing, registration(), at, by=SeenBy.LIST)
    assert seen.last_shown_at == shown_at
    assert (seen is missing) is (shown_at == NOW - 90)


@pytest.mark.parametrize(
    ("changes", "was_lost"),
    [({}, False), ({"confirmed_at": NOW}, True), ({"past_loss": PastLoss(NOW - 90, NOW)}, False)],
    ids=["suspected", "confirmed", "suspected, with an earlier loss that is not recorded yet"],
)
def test_a_return_records_whether_the_runner_was_lost(changes, was_lost):
    seen = registration_seen(suspect(**changes), registration(online=True), NOW + 60, by=SeenBy.GET)
    assert (seen.back_at, seen.was_lost) == (NOW + 60, was_lost)


@pytest.mark.parametrize(
    ("changes", "first_at"),
    [
        ({"removed_at": NOW - 10, "offline_since": NOW - 900}, NOW - 900),
        ({"confirmed_at": NOW - 10, "offline_since": NOW - 900}, NOW - 60),
    ],
    ids=["replaced while offline", "invalidated, and offline before"],
)
def test_a_loss_that_ends_by_a_return_began_with_the_evidence_for_which_it_counted(changes, first_at):
    missing = suspect(absent_since=NOW - 60, first_404_at=NOW - 50, **changes)
    seen = registration_seen(missing, registration(online=True), NOW + 60, by=SeenBy.GET)
    assert seen.past_loss is not None
    assert seen.past_loss.first_at == first_at


def test_a_runner_that_github_does_not_remove_because_of_its_job_is_busy():
    assert busy_after_all(lost(), NOW).is_busy


@pytest.mark.parametrize(("at", "is_recorded"), [(NOW - 1, False), (NOW, False), (NOW + MICROSECOND, True)])
def test_the_first_list_after_a_job_is_recorded_though_nothing_else_changed(at, is_recorded):
    """It may be the first of two that prove a runner persistent; one from before the job's end is neither."""
    ended = job_ended(online(ephemeral=None, observed_at=NOW - 60), 9, NOW)
    again = registration_seen(ended, registration(online=True, ephemeral=None), at, by=SeenBy.LIST)
    assert (again is not ended) is is_recorded


@pytest.mark.parametrize(
    ("before", "at", "kind", "after"),
    [
        (None, NOW, RemainsKind.RUNNING, Remains(RemainsKind.RUNNING, NOW, NOW)),
        (Remains(RemainsKind.RUNNING, NOW - 60, NOW - 30), NOW, RemainsKind.RUNNING, Remains(RemainsKind.RUNNING, NOW - 60, NOW)),
        (Remains(RemainsKind.RUNNING, NOW - 60, NOW - 30), NOW, RemainsKind.ENDED, Remains(RemainsKind.ENDED, NOW, NOW)),
        (Remains(RemainsKind.ENDED, NOW - 60, NOW - 30), NOW, RemainsKind.RUNNING, Remains(RemainsKind.RUNNING, NOW, NOW)),
        (Remains(RemainsKind.RUNNING, NOW - 60, NOW), NOW, RemainsKind.ENDED, Remains(RemainsKind.ENDED, NOW, NOW)),
        (Remains(RemainsKind.RUNNING, NOW - 60, NOW), NOW - MICROSECOND, RemainsKind.ENDED, Remains(RemainsKind.RUNNING, NOW - 60, NOW)),
        (None, NOW - 90, RemainsKind.RUNNING, Remains(RemainsKind.RUNNING, NOW - 90, NOW - 90)),
        (None, NOW - 91, RemainsKind.RUNNING, None),
    ],
    ids=["first", "the same", "it ended", "it runs again", "another at once", "an older view", "of when it went missing", "from before it was missing"],
)  # fmt: skip
def test_a_view_of_the_cluster_counts_if_it_is_the_latest_and_younger_than_the_absence(before, at, kind, after):
    known = suspect(absent_since=NOW - 90, first_404_at=NOW - 90, remains=before)
    seen = remains_seen(known, kind, at)
    assert seen.remains == after
    assert (seen is known) is (before == after)


@pytest.mark.parametrize(
    ("evidence", "is_written_off"),
    [
        (lost(), True),
        (lost(granted_at=NOW - 9), False),
        (suspect(removed_at=NOW - 9), False),
        (present(), False),
        (lost(not_needed_at=NOW - 9), False),
    ],
    ids=["a loss that waits", "granted", "removed", "returned", "written off before"],
)
def test_only_a_loss_about_which_nothing_was_done_is_written_off(evidence, is_written_off):
    after = not_needed(evidence, NOW)
    assert (after is evidence) is not is_written_off
    assert after == (evidence._replace(not_needed_at=NOW) if is_written_off else evidence)


def test_a_loss_that_a_waiting_job_could_use_is_no_longer_written_off():
    waits = lost()
    assert needed_again(waits._replace(not_needed_at=NOW)) == waits
    assert needed_again(waits) is waits


@pytest.mark.parametrize(
    ("fold", "changes"),
    [
        (succeeded_by(9, NOW), {"successor": 9, "healed_at": NOW}),
        (successor_hidden(NOW), {"hidden_at": NOW}),
        (succeeding(9), {"succeeds": 9}),
    ],
    ids=["its successor is known", "its successor is hidden", "it is a successor"],
)
def test_who_succeeds_a_lost_runner_is_recorded_unless_the_record_was_deleted(fold, changes):
    assert fold(lost()) == lost()._replace(**changes)
    assert fold(None) is None


@pytest.mark.parametrize(("granted_at", "looked_at"), [(NOW - 9, NOW), (None, None)], ids=["granted", "revoked since"])
def test_that_github_was_asked_again_is_recorded_of_a_grant_alone(granted_at, looked_at):
    assert looked_again(lost(granted_at=granted_at), NOW).looked_at == looked_at


@pytest.mark.parametrize("was_deleted", [True, False], ids=["by us", "already gone"])
def test_a_removal_is_recorded_once_and_the_runner_is_not_listed_any_more(was_deleted):
    offline = present(granted_at=NOW - 9, event_id="e")
    after = removed(offline, NOW, granted=offline, was_deleted=was_deleted)
    assert after == offline._replace(removed_at=NOW, listed=False, was_deleted=was_deleted)
    assert removed(after, NOW + 9, granted=offline, was_deleted=not was_deleted) is after


@pytest.mark.parametrize("after", [Deletion(uid="a"), Deletion(uid="b")], ids=["a", "b"])
@pytest.mark.parametrize("before", [None, Deletion(uid="a"), Deletion(uid="b")], ids=["nothing", "a", "b"])
def test_the_last_state_of_a_deletion_is_recorded_once(before, after):
    known = lost(deletion=before)
    found = deleting(known, after)
    assert found == lost(deletion=after)
    assert (found is known) is (before == after)
