"""The verdict of a runner, at the exact times at which it changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.runners.evidence import Survey
from ghapp.runners.observations import first_observation, get_missed, job_started, retired_by_controller, unlisted
from ghapp.runners.remains import Remains, RemainsKind
from ghapp.runners.verdict import HANG_SECONDS, JOB_LEASE_SECONDS, Limits, Reason, State, is_spent, is_zombie, judge
from tests.rules.builders import LONG_AGO, MICROSECOND, NOW, lost, online, present, survey, suspect

LIMITS = Limits()
FAILURES = [
    Reason.GITHUB_UNAVAILABLE,
    Reason.RATE_LIMITED,
    Reason.BUDGET_SPENT,
    Reason.UNAUTHORIZED,
    Reason.PERMISSION_MISSING,
    Reason.INSTALLATION_SUSPENDED,
    Reason.INSTALLATION_GONE,
    Reason.LIST_INCOMPLETE,
    Reason.LIST_EMPTY,
    Reason.INTERNAL_ERROR,
]


def verdict_of(evidence, now=NOW, swept=None):
    verdict = judge(evidence, swept or survey(swept_at=now), now, LIMITS)
    return verdict.state, verdict.reason


def test_a_runner_without_evidence_is_unknown():
    verdict = judge(None, survey(), NOW, LIMITS)
    assert (verdict.state, verdict.reason, verdict.stale) == (State.UNKNOWN, Reason.NEVER_OBSERVED, True)


@pytest.mark.parametrize(
    ("evidence", "state", "reason"),
    [
        (lost(), State.INVALIDATED, Reason.REGISTRATION_INVALIDATED),
        (suspect(), State.SUSPECT, Reason.AWAITING_CONFIRMATION),
        (suspect(first_404_at=None), State.SUSPECT, Reason.AWAITING_CONFIRMATION),
        (suspect(absent_since=None), State.SUSPECT, Reason.AWAITING_CONFIRMATION),
        (lost(reregistered_as=2), State.RETIRED, Reason.REREGISTERED),
        (lost(ephemeral=True, job_id=9, job_ended_at=NOW), State.RETIRED, Reason.JOB_COMPLETED),
        (lost(ephemeral=True, job_id=9, job_started_at=NOW), State.SUSPECT, Reason.AWAITING_CONFIRMATION),
        (lost(job_id=9, job_started_at=NOW), State.SUSPECT, Reason.AWAITING_CONFIRMATION),
        (lost(job_id=9, job_started_at=NOW, removed_at=NOW), State.INVALIDATED, Reason.REGISTRATION_INVALIDATED),
        (lost(ephemeral=True, busy=True), State.RETIRED, Reason.JOB_COMPLETED),
        (lost(ephemeral=True), State.INVALIDATED, Reason.REGISTRATION_INVALIDATED),
        (lost(job_id=9, job_ended_at=NOW), State.INVALIDATED, Reason.REGISTRATION_INVALIDATED),
        (lost(ephemeral=None, job_id=9, job_ended_at=NOW), State.RETIRED, Reason.JOB_COMPLETED),
        (lost(ephemeral=None, job_id=9), State.INVALIDATED, Reason.REGISTRATION_INVALIDATED),
        (lost(retired_at=NOW), State.RETIRED, Reason.REMOVED_BY_CONTROLLER),
        (online(retired_at=NOW), State.RETIRED, Reason.REMOVED_BY_CONTROLLER),
        (suspect(removed_at=NOW), State.INVALIDATED, Reason.REPLACED_WHILE_OFFLINE),
        (lost(removed_at=NOW), State.INVALIDATED, Reason.REGISTRATION_INVALIDATED),
        (online(), State.HEALTHY, Reason.ONLINE),
        (online(busy=True), State.HEALTHY, Reason.BUSY),
        (online(job_id=9), State.HEALTHY, Reason.BUSY),
        (online(reregistered_as=2), State.HEALTHY, Reason.ONLINE),
        (present(), State.OFFLINE, Reason.OFFLINE_TOO_LONG),
        (first_observation(1, "x", NOW), State.UNKNOWN, Reason.NEVER_OBSERVED),
        (job_started(first_observation(1, "x", NOW), 9, NOW), State.HEALTHY, Reason.BUSY),
    ],
    ids=[
        "two 404s",
        "one 404",
        "missing from a list alone",
        "one 404 alone",
        "registered again",
        "ephemeral, its job ended",
        "ephemeral, its job runs",
        "a job is in progress",
        "a job was reported after its removal",
        "ephemeral, last seen busy",
        "ephemeral, without a job",
        "persistent, its job ended",
        "ephemeral unknown, its job ended",
        "ephemeral unknown, its job runs",
        "removed by a controller, two 404s",
        "removed by a controller, still listed",
        "removed by ghapp while offline",
        "removed by ghapp because it was lost",
        "online",
        "busy",
        "in a job by delivery",
        "present under two ids",
        "offline for an hour",
        "known by name only",
        "known from its job alone",
    ],
)
def test_each_evidence_has_its_verdict(evidence, state, reason):
    assert verdict_of(evidence) == (state, reason)


@pytest.mark.parametrize(
    ("age", "state"),
    [(300.0, State.HEALTHY), (300.0 + MICROSECOND, State.UNKNOWN)],
    ids=["at stale_seconds", "a microsecond later"],
)
@pytest.mark.parametrize("direction", [1, -1], ids=["ago", "in the future, by a clock that was set back"])
def test_an_observation_is_valid_until_stale_seconds(age, direction, state):
    verdict = judge(online(), survey(), NOW + direction * age, LIMITS)
    assert (verdict.state, verdict.stale) == (state, state is State.UNKNOWN)


@pytest.mark.parametrize(
    ("age", "state"),
    [
        (0.0, State.STARTING),
        (120.0 - MICROSECOND, State.STARTING),
        (120.0, State.SUSPECT),
    ],
    ids=["at once", "just within startup_seconds", "at startup_seconds"],
)
def test_a_new_runner_may_be_absent_for_startup_seconds(age, state):
    evidence = unlisted(online(first_seen=NOW), NOW, 412)._replace(observed_at=NOW + age)
    assert verdict_of(evidence, NOW + age)[0] is state


@pytest.mark.parametrize(
    ("age", "state"),
    [(120.0 - MICROSECOND, State.STARTING), (120.0, State.HEALTHY)],
    ids=["just within startup_seconds", "at startup_seconds"],
)
def test_a_new_runner_may_be_offline_for_startup_seconds(age, state):
    evidence = present(first_seen=NOW, was_online=False, offline_since=NOW)
    assert verdict_of(evidence, NOW + age)[0] is state


def test_a_new_runner_that_is_online_has_started():
    assert verdict_of(online(first_seen=NOW)) == (State.HEALTHY, Reason.ONLINE)


@pytest.mark.parametrize(
    ("offline_for", "changes", "state", "reason"),
    [
        (300.0, {}, State.HEALTHY, Reason.OFFLINE_BRIEFLY),
        (300.0 + MICROSECOND, {}, State.OFFLINE, Reason.OFFLINE_TOO_LONG),
        (300.0, {"busy": True}, State.HEALTHY, Reason.BUSY),
        (300.0 + JOB_LEASE_SECONDS, {"busy": True}, State.HEALTHY, Reason.BUSY),
        (300.0 + JOB_LEASE_SECONDS, {"job_id": 9}, State.HEALTHY, Reason.BUSY),
        (300.0 + JOB_LEASE_SECONDS + MICROSECOND, {"busy": True}, State.OFFLINE, Reason.OFFLINE_TOO_LONG),
        (300.0 + JOB_LEASE_SECONDS + MICROSECOND, {"job_id": 9}, State.OFFLINE, Reason.OFFLINE_TOO_LONG),
        (300.0 + MICROSECOND, {"job_id": 9, "job_ended_at": NOW}, State.OFFLINE, Reason.OFFLINE_TOO_LONG),
    ],
    ids=[
        "at offline_seconds",
        "a microsecond later",
        "busy at offline_seconds",
        "busy until GitHub ends the job",
        "in a job until GitHub ends the job",
        "busy a microsecond longer",
        "in a job a microsecond longer",
        "its job is over",
    ],
)
def test_an_offline_runner_is_reported_after_offline_seconds_and_is_never_invalidated(
    offline_for, changes, state, reason
):
    assert verdict_of(present(offline_since=NOW, **changes), NOW + offline_for) == (state, reason)


@pytest.mark.parametrize(
    ("swept_at", "observed_at", "state"),
    [
        (NOW + 300, NOW, State.HEALTHY),
        (NOW + 300 + MICROSECOND, NOW, State.OFFLINE),
        (NOW + 10, NOW + 301, State.OFFLINE),
    ],
    ids=["a list", "a later list", "a GET"],
)
@pytest.mark.parametrize("later", [1.0, 200.0])
def test_a_runner_is_offline_for_as_long_as_github_showed_it_however_long_ago_that_is(
    swept_at, observed_at, state, later
):
    """While workers hang, the runner may long be online again: no list shows it."""
    evidence = present(offline_since=NOW, observed_at=observed_at)
    assert judge(evidence, survey(swept_at=swept_at), NOW + 301 + later, LIMITS).state is state


@pytest.mark.parametrize(
    ("after", "reason"),
    [(10.0, Reason.BACK_FROM_ABSENCE), (300.0, Reason.BACK_FROM_ABSENCE), (300.0 + MICROSECOND, Reason.ONLINE)],
    ids=["lately", "at stale_seconds", "a microsecond later"],
)
def test_a_returned_runner_is_reported_as_back_for_stale_seconds(after, reason):
    assert verdict_of(online(back_at=NOW), NOW + after) == (State.HEALTHY, reason)


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("evidence", [online(), present(), suspect()], ids=["online", "offline", "suspect"])
def test_a_runner_is_unknown_and_not_absent_without_an_answer(failure, evidence):
    failing = survey(failing_since=NOW, failure=failure)
    assert verdict_of(evidence, NOW + 10**5, failing) == (State.UNKNOWN, failure)


def test_a_failure_has_no_effect_while_the_last_observation_is_fresh():
    assert verdict_of(online(), NOW, survey(failing_since=NOW, failure=Reason.GITHUB_UNAVAILABLE))[0] is State.HEALTHY


def test_an_old_observation_without_a_known_failure_is_stale():
    assert verdict_of(online(), NOW + 10**5, survey()) == (State.UNKNOWN, Reason.OBSERVATION_STALE)


def test_a_runner_known_by_deliveries_alone_is_never_absent():
    evidence = job_started(first_observation(1, "GitHub Actions 7", LONG_AGO), 9, LONG_AGO)
    evidence = get_missed(unlisted(evidence, NOW, 412), NOW)
    assert verdict_of(evidence) == (State.UNKNOWN, Reason.NEVER_OBSERVED)


def test_a_job_delivery_keeps_a_runner_fresh():
    evidence = job_started(online(observed_at=LONG_AGO, listed=False), 9, NOW)
    assert verdict_of(evidence, NOW, Survey()) == (State.HEALTHY, Reason.BUSY)


@pytest.mark.parametrize(
    "evidence",
    [lost(), lost(retired_at=NOW), lost(reregistered_as=2), lost(ephemeral=True, job_id=9)],
    ids=["invalidated", "removed", "registered again", "its job ended"],
)
def test_a_final_verdict_stays_at_any_age(evidence):
    at_once = judge(evidence, survey(), NOW, LIMITS)
    much_later = judge(evidence, Survey(), NOW + 86_400, LIMITS)
    assert (much_later.state, much_later.reason, much_later.since) == (at_once.state, at_once.reason, at_once.since)
    assert (at_once.stale, much_later.stale) == (False, True)


@pytest.mark.parametrize(
    "evidence",
    [
        present(),
        present(busy=True),
        first_observation(1, "x", NOW),
        online(),
        suspect(),
        retired_by_controller(online(), NOW),
    ],
)
@given(after=st.floats(0, 1e7), failure=st.sampled_from(["", *FAILURES]))
def test_time_and_failures_alone_never_invalidate(evidence, after, failure):
    failing = survey(failing_since=NOW if failure else None, failure=failure)
    assert judge(evidence, failing, NOW + after, LIMITS).state is not State.INVALIDATED


@pytest.mark.parametrize(
    ("changes", "spent"),
    [
        ({"ephemeral": True}, False),
        ({"ephemeral": True, "job_id": 9, "job_ended_at": NOW}, True),
        ({"ephemeral": True, "job_id": 9, "job_started_at": NOW}, False),
        ({"ephemeral": True, "busy": True, "job_id": 9, "job_started_at": NOW}, False),
        ({"ephemeral": True, "busy": True, "remains": Remains(RemainsKind.RUNNING, NOW, NOW)}, False),
        ({"ephemeral": True, "busy": True, "remains": Remains(RemainsKind.NOTHING, NOW, NOW)}, True),
        ({"ephemeral": True, "busy": True}, True),
        ({"ephemeral": False, "job_id": 9, "job_ended_at": NOW}, False),
        ({"ephemeral": None, "job_id": 9, "job_ended_at": NOW}, True),
        ({"ephemeral": None, "job_id": 9, "job_ended_at": NOW, "absent_since": None}, False),
        ({"ephemeral": None, "busy": True}, False),
    ],
)
def test_a_runner_is_spent_only_when_its_one_job_is_over(changes, spent):
    assert is_spent(suspect(**changes)) is spent


FINISHED = {"ephemeral": True, "job_id": 9, "job_ended_at": NOW - HANG_SECONDS - 60, "confirmed_at": NOW - 1}


@pytest.mark.parametrize(
    ("kind", "lasted", "seen", "state", "reason"),
    [
        (RemainsKind.RUNNING, HANG_SECONDS, NOW, State.INVALIDATED, Reason.HANGS_AFTER_JOB),
        (RemainsKind.RUNNING, HANG_SECONDS - MICROSECOND, NOW, State.RETIRED, Reason.JOB_COMPLETED),
        (RemainsKind.RUNNING, HANG_SECONDS, NOW - MICROSECOND, State.RETIRED, Reason.JOB_COMPLETED),
        (RemainsKind.NO_POD, HANG_SECONDS, NOW, State.INVALIDATED, Reason.HANGS_AFTER_JOB),
        (RemainsKind.TERMINATING, HANG_SECONDS, NOW, State.INVALIDATED, Reason.HANGS_AFTER_JOB),
        (RemainsKind.ENDED, HANG_SECONDS, NOW, State.RETIRED, Reason.JOB_COMPLETED),
        (RemainsKind.NOTHING, HANG_SECONDS, NOW, State.RETIRED, Reason.JOB_COMPLETED),
    ],
    ids=["it runs on", "not for long", "no newer view", "an object without a pod", "stuck", "it ended", "nothing left"],
)
def test_a_finished_runner_is_a_zombie_when_views_of_the_cluster_show_it_for_five_minutes(
    kind, lasted, seen, state, reason
):
    since = NOW - lasted
    evidence = lost(absent_since=since, first_404_at=since, remains=Remains(kind, since, seen), **FINISHED)
    assert verdict_of(evidence) == (state, reason)


@pytest.mark.parametrize(
    ("kind", "changes", "is_stuck"),
    [
        (RemainsKind.TERMINATING, {}, True),
        (RemainsKind.TERMINATING, {"job_id": 9, "job_started_at": NOW - 900}, False),
        (RemainsKind.RUNNING, {}, False),
        (RemainsKind.NO_POD, {}, False),
    ],
    ids=["being deleted", "being deleted while its job runs", "it runs, and had no job", "no pod, and had no job"],
)
def test_what_is_being_deleted_for_long_is_stuck_and_the_rest_only_after_a_job(kind, changes, is_stuck):
    evidence = lost(remains=Remains(kind, NOW - 900, NOW), absent_since=NOW - 900, first_404_at=NOW - 900, **changes)
    assert is_zombie(evidence) is is_stuck


@pytest.mark.parametrize(
    ("kind", "changes", "state"),
    [
        (RemainsKind.NOTHING, {}, State.RETIRED),
        (RemainsKind.TERMINATING, {}, State.RETIRED),
        (RemainsKind.NOTHING, {"granted_at": NOW}, State.INVALIDATED),
        (RemainsKind.NOTHING, {"removed_at": NOW}, State.INVALIDATED),
        (RemainsKind.NOTHING, {"job_id": 9, "job_started_at": NOW}, State.SUSPECT),
        (RemainsKind.RUNNING, {}, State.INVALIDATED),
        (RemainsKind.ENDED, {}, State.INVALIDATED),
        (RemainsKind.NO_POD, {}, State.INVALIDATED),
    ],
    ids=["deleted", "being deleted", "by our grant", "by us", "at work", "it runs", "it ended", "its object is left"],
)
def test_a_runner_that_was_deleted_in_the_cluster_and_not_by_us_is_no_loss(kind, changes, state):
    assert verdict_of(lost(remains=Remains(kind, NOW, NOW), **changes))[0] is state
