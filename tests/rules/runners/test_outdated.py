"""Ephemeral runners that end at once because their version gets no jobs: neither lost nor anybody's successor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.remediation.churn import newcomers
from ghapp.remediation.fuse import FuseLimits
from ghapp.remediation.healing import heals
from ghapp.runners.observations import SeenBy, job_started, registration_seen, unlisted
from ghapp.runners.outdated import WITHOUT_JOB_SECONDS, ended_without_job, gets_no_jobs, refusals, version_ended
from ghapp.runners.remains import Remains, RemainsKind
from ghapp.runners.verdict import Limits, Reason, State, judge
from ghapp.workflow_jobs.capacity import LOOPED_LATELY_SECONDS, available_runners
from tests.rules.builders import LONG_AGO, MICROSECOND, NOW, lost, online, registration, survey

CAME = NOW - 120
OUTDATED = {"ephemeral": True, "outdated_at": CAME, "version": "2.335.1", "first_seen": CAME}


EARLY = {"first_seen": NOW - 700, "outdated_at": NOW - 700, "last_shown_at": NOW - 700}


def refused(runner_id=1, **changes):
    """Two 404s confirm its absence; the last list that had it was begun a minute after the first."""
    worst = lost(runner_id, **OUTDATED, last_shown_at=CAME + WITHOUT_JOB_SECONDS)
    return worst._replace(**changes)


def present(runner_id=1, **changes):
    return online(runner_id, **{**OUTDATED, **changes})


def test_a_runner_that_ended_without_a_job_because_it_is_too_old_is_retired():
    verdict = judge(refused(), survey(), NOW, Limits())
    assert (verdict.state, verdict.reason, verdict.since) == (State.RETIRED, Reason.VERSION_DEPRECATED, NOW - 60)


@pytest.mark.parametrize(
    ("changes", "found"),
    [({}, [("2.335.1", NOW - 60)]), ({"version": ""}, []), ({"job_id": 9}, [])],
    ids=["too old", "of no known version", "it had a job"],
)
def test_a_refusal_is_of_a_runner_that_ended_because_its_version_is_too_old(changes, found):
    assert list(refusals([refused(**changes), present(2)])) == found


@pytest.mark.parametrize(
    "changes",
    [
        {"outdated_at": None},
        {"ephemeral": False},
        {"ephemeral": None},
        {"job_id": 9},
        {"job_id": 9, "job_started_at": NOW - 90, "busy": True},
        {"last_shown_at": None},
        {"last_shown_at": CAME + WITHOUT_JOB_SECONDS + MICROSECOND},
        {"outdated_at": CAME - MICROSECOND},
        {"outdated_at": NOW - 60 + MICROSECOND},
        {"granted_at": NOW},
        {"granted_at": NOW, "removed_at": NOW},
        {"remains": Remains(RemainsKind.RUNNING, NOW, NOW)},
        {"remains": Remains(RemainsKind.TERMINATING, NOW, NOW)},
    ],
    ids=[
        "its version is not known to have ended",
        "persistent",
        "not known to be ephemeral",
        "a job is known",
        "a job that runs",
        "no list had it",
        "listed for more than a minute",
        "refused earlier",
        "missing before its version ended",
        "its replacement is granted",
        "removed",
        "its container runs",
        "its object is being deleted",
    ],
)
def test_of_any_other_runner_the_judgement_is_as_it_was(changes):
    evidence = refused(**changes)
    assert not ended_without_job(evidence)
    same = evidence._replace(outdated_at=None)
    assert judge(evidence, survey(), NOW, Limits()) == judge(same, survey(), NOW, Limits())


@pytest.mark.parametrize("kind", [RemainsKind.ENDED, RemainsKind.NOTHING, RemainsKind.NO_POD])
def test_a_cluster_that_shows_its_process_ended_agrees(kind):
    assert ended_without_job(refused(remains=Remains(kind, NOW, NOW)))


def test_one_that_is_there_is_judged_as_ever():
    verdict = judge(present(), survey(), NOW, Limits())
    assert (verdict.state, verdict.reason) == (State.HEALTHY, Reason.ONLINE)


@pytest.mark.parametrize(
    ("evidence", "is_marked"),
    [
        (online(ephemeral=True), True),
        (online(ephemeral=True, online=False, offline_since=NOW), True),
        (online(ephemeral=False), False),
        (online(ephemeral=None), False),
        (online(ephemeral=True, busy=True), False),
        (online(ephemeral=True, job_id=9), False),
        (lost(ephemeral=True), False),
        (lost(ephemeral=True, last_shown_at=NOW - 120), True),
        (lost(ephemeral=True, last_shown_at=NOW - 120, granted_at=NOW), False),
    ],
)
def test_only_an_ephemeral_runner_without_a_job_is_marked(evidence, is_marked):
    marked = version_ended(evidence, NOW - 90)
    assert (marked.outdated_at == NOW - 90) is is_marked
    assert version_ended(marked, NOW) is marked
    assert is_marked or marked is evidence


@pytest.mark.parametrize(
    ("ended_at", "is_lost"),
    [(NOW - 60, False), (NOW - 180, False), (NOW - 180 - MICROSECOND, True), (NOW - 60 + MICROSECOND, True)],
    ids=["as it went missing", "a minute before it was last listed", "earlier", "after it went missing"],
)
def test_one_that_waited_for_long_ends_when_its_version_does(ended_at, is_lost):
    waited = lost(ephemeral=True, version="2.335.1", last_shown_at=NOW - 120)
    verdict = judge(version_ended(waited, ended_at), survey(), NOW, Limits())
    assert verdict.state is (State.INVALIDATED if is_lost else State.RETIRED)


def test_from_its_first_list_to_the_first_that_lacks_it():
    seen = registration(online=True, ephemeral=True, version="2.335.1")
    evidence = version_ended(registration_seen(None, seen, NOW, by=SeenBy.LIST), NOW)
    gone = unlisted(evidence, NOW + 60, 411, survey())
    assert judge(gone, survey(swept_at=NOW + 60), NOW + 60, Limits()).reason is Reason.VERSION_DEPRECATED
    back = registration_seen(gone, seen, NOW + 120, by=SeenBy.LIST)
    assert judge(back, survey(swept_at=NOW + 120), NOW + 120, Limits()).state is State.HEALTHY
    late = job_started(gone, 9, NOW + 5)
    assert judge(late, survey(swept_at=NOW + 60), NOW + 200, Limits()).state is State.SUSPECT


SEEN = survey(swept_at=NOW + 7200)


def counted(members):
    return newcomers(members, NOW, SEEN, FuseLimits()).unexplained


def test_newcomers_that_get_no_jobs_prove_no_batch():
    newcomers = [(present(1000 + each, first_seen=NOW + 60, outdated_at=NOW + 60), State.HEALTHY) for each in range(5)]
    assert counted(newcomers) == 0
    at_work = [(each._replace(job_id=9), state) for each, state in newcomers]
    assert counted(at_work) == 5


def test_their_departures_explain_no_newcomer():
    gone = [(refused(each, first_seen=NOW - 60, last_shown_at=NOW - 60), State.RETIRED) for each in range(1, 6)]
    newcomer = (online(2000, first_seen=NOW + 60, ephemeral=True, version="2.337.0"), State.HEALTHY)
    assert counted([*gone, newcomer]) == 1
    others = [(each._replace(outdated_at=None, retired_at=NOW - 1), state) for each, state in gone]
    assert counted([*others, newcomer]) == 0


def test_they_heal_no_loss_and_take_no_successor_away():
    loss = lost(1, replaced_at=NOW - 600, granted_at=NOW - 600)
    newcomer = present(7, first_seen=NOW - 300, outdated_at=NOW - 300)
    assert heals([loss, newcomer], NOW) == []
    gone = present(6, first_seen=LONG_AGO, listed=False, retired_at=NOW - 301)
    works = newcomer._replace(outdated_at=None)
    assert [each.successor for each in heals([loss, works, gone], NOW)] == [7]
    assert heals([loss, works, gone._replace(outdated_at=None)], NOW) == []


@pytest.mark.parametrize(
    ("evidence", "loops"),
    [
        (refused(absent_since=NOW - LOOPED_LATELY_SECONDS, first_404_at=None, **EARLY), True),
        (refused(absent_since=NOW - LOOPED_LATELY_SECONDS - MICROSECOND, first_404_at=None, **EARLY), False),
        (refused(absent_since=NOW + 60, first_404_at=None), False),
        (refused(outdated_at=None), False),
        (refused(job_id=9), False),
    ],
    ids=["ten minutes ago", "longer ago", "in the future", "not marked", "a job is known"],
)
def test_one_that_ended_a_moment_ago_shows_that_the_next_one_is_too_old(evidence, loops):
    found = [each for each in available_runners([evidence], (), (), NOW) if each.loops]
    assert [(each.too_old, each.online, each.lost) for each in found] == ([("2.335.1", False, False)] if loops else [])
    assert not any(each.loops for each in available_runners([evidence], ()))


def test_a_present_runner_is_too_old_if_its_version_has_ended():
    fleet = [online(1, version="2.335.1"), online(2, version="2.337.0"), online(3)]
    assert [each.too_old for each in available_runners(fleet, (), {"2.335.1"}, NOW)] == ["2.335.1", "", ""]


@given(
    st.sampled_from([True, False, None]),
    st.one_of(st.none(), st.floats(NOW - 600, NOW)),
    st.one_of(st.none(), st.just(9)),
    st.booleans(),
    st.floats(NOW - 600, NOW),
    st.one_of(st.none(), st.floats(NOW - 600, NOW)),
)
def test_nothing_depends_on_versions_without_a_mark_and_nothing_with_a_job(
    ephemeral, outdated_at, job_id, busy, first_seen, shown_at
):
    evidence = lost(
        ephemeral=ephemeral,
        outdated_at=outdated_at,
        job_id=job_id,
        busy=busy,
        first_seen=first_seen,
        last_shown_at=shown_at,
    )
    if outdated_at is None or job_id is not None or ephemeral is not True or busy:
        assert not gets_no_jobs(evidence)
        assert not ended_without_job(evidence)
