"""What happens next to a lost runner: each stage, each blocker, and their order."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from ghapp.pods.blockers import SENTENCES, Blocker
from ghapp.pods.pod_claim import PodClaim
from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.remediation.status import (
    FOR_A_PERSON,
    SUCCESSOR_PATIENCE_SECONDS,
    ReplacementBlocker,
    ReplacementStage,
    ReplacementTerms,
    is_healed,
    is_loss_over,
    is_unanswered,
    replacement_status,
    should_replace,
)
from ghapp.remediation.steps import ReplacementPath
from ghapp.runners.deletion_progress import Deletion
from ghapp.runners.evidence import FailedCalls
from ghapp.runners.verdict import Limits, State, judge
from ghapp.wording import clock_time
from tests.rules.builders import LONG_AGO, MICROSECOND, NOW, lost, online, present, proving, survey, suspect

LIMITS = Limits()
TERMS = ReplacementTerms(survey=survey())
PAUSE = SimpleNamespace(who="mona", why="network maintenance", at=LONG_AGO, until=None)
STOPPED = proving(position=Position.STOPPED, reason=FuseReason.BATCH_NEVER_ONLINE)
DEAF = replace(STOPPED, reason=FuseReason.REQUEST_NOT_ACCEPTED)
CLAIM = PodClaim("pod-1", "linux-1", None, NOW + 60)
NONE, SUSPECT, WAITING, GRANTED, REMOVED, REQUESTED, HEALED, WRITTEN_OFF, RETURNED = ReplacementStage


def status_of(evidence, terms=TERMS, now=NOW, claim=None):
    return replacement_status(evidence, judge(evidence, terms.survey, now, LIMITS), terms, now, claim)


def forbidden(blocker=Blocker.CLUSTER_FORBIDDEN, **changes):
    return lost(deletion=Deletion(waits_for=blocker, waiting_since=LONG_AGO), **changes)


GRANT = {"granted_at": NOW - 9, "event_id": "e"}
TAKEN = {**GRANT, "removed_at": NOW - 8}
ACCEPTED = {**TAKEN, "replaced_at": NOW - 7}

STAGES = {
    "healthy": (online(), NONE, None, False),
    "offline": (present(), NONE, None, False),
    "suspect": (suspect(), SUSPECT, NOW - 60, False),
    "confirmed": (lost(), WAITING, NOW, True),
    "confirmed since the last sweep": (lost(confirmed_at=NOW + 1), WAITING, NOW + 1, True),
    "granted": (lost(**GRANT), GRANTED, NOW - 9, True),
    "granted while offline": (present(**GRANT), GRANTED, NOW - 9, False),
    "granted while suspect again": (suspect(**GRANT), GRANTED, NOW - 9, False),
    "removed": (lost(**TAKEN), REMOVED, NOW - 8, True),
    "removed while offline": (present(**TAKEN), REMOVED, NOW - 8, True),
    "removed while offline, and missing since": (suspect(**TAKEN), REMOVED, NOW - 8, True),
    "requested while offline": (suspect(**ACCEPTED), REQUESTED, NOW - 7, True),
    "healed while offline": (suspect(**ACCEPTED, successor=9, healed_at=NOW - 2), HEALED, NOW - 2, False),
    "requested": (lost(**ACCEPTED), REQUESTED, NOW - 7, True),
    "offline, and removed": (suspect(**TAKEN), REMOVED, NOW - 8, True),
    "offline, and requested": (suspect(**ACCEPTED), REQUESTED, NOW - 7, True),
    "offline, and replaced": (suspect(**ACCEPTED, successor=9, healed_at=NOW - 2), HEALED, NOW - 2, False),
    "removed before the end of its job came": (
        lost(**TAKEN, ephemeral=True, job_id=7, job_ended_at=NOW - 50),
        REMOVED,
        NOW - 8,
        False,
    ),
    "healed": (lost(**ACCEPTED, successor=9, healed_at=NOW - 2), HEALED, NOW - 2, False),
    "written off": (lost(not_needed_at=NOW - 5), WRITTEN_OFF, NOW - 5, False),
    "returned": (online(back_at=NOW - 5, was_lost=True), RETURNED, NOW - 5, False),
    "a suspicion that ended": (online(back_at=NOW - 5), NONE, None, False),
    "removed by its controller": (lost(retired_at=NOW), NONE, None, False),
    "lost, and its version gets no jobs": (
        lost(ephemeral=True, outdated_at=NOW - 90, last_shown_at=NOW - 80),
        NONE,
        None,
        False,
    ),
    "retired after its job": (lost(ephemeral=True, job_id=7, job_ended_at=NOW - 50), NONE, None, False),
}


@pytest.mark.parametrize(("evidence", "stage", "since", "is_open"), STAGES.values(), ids=STAGES)
def test_each_stage_has_its_begin_and_a_loss_is_open_until_its_successor_is_online(evidence, stage, since, is_open):
    found = status_of(evidence)
    assert (found.stage, found.since, found.is_open, found.blocked_by) == (stage, since, is_open, None)
    assert not found.is_stopped
    assert found.text[0].islower()
    assert not found.text.endswith(".")


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        (present(), "offline runners are reported, and replaced if the pool says so"),
        (online(), "no replacement is needed"),
        (present(first_seen=NOW - 9, offline_since=NOW - 9, was_online=False), "no replacement is needed"),
    ],
    ids=["offline", "healthy", "starting"],
)
def test_a_runner_that_is_not_lost_says_what_would_be_done_about_it(evidence, text):
    assert status_of(evidence).text == text


def test_a_machine_that_registered_again_returned():
    found = status_of(lost(reregistered_as=77))
    assert (found.stage, found.text) == (RETURNED, "its machine registered again, as runner 77")


BLOCKERS = [
    ("off", lost(), {"mode": "off"}, True),
    ("dry-run", lost(), {"mode": "dry-run"}, True),
    ("pause", lost(), {"pause": PAUSE}, True),
    ("no-pool", lost(), {"is_configured": False}, True),
    ("claim", lost(), {}, False),
    ("job", lost(job_id=7, job_started_at=NOW - 60, last_delivery_at=NOW - 60), {}, False),
    ("fuse", lost(), {"fuse": STOPPED}, True),
    ("fuse", lost(), {"fuse": DEAF}, True),
    ("permission", forbidden(), {}, True),
    ("cluster", forbidden(Blocker.CLUSTER_UNAVAILABLE), {}, False),
    ("github", lost(failed_calls=FailedCalls(2, NOW, "DELETE: GitHub answered 500", "GitHubUnavailable")), {}, False),
    (
        "permission",
        lost(failed_calls=FailedCalls(2, NOW, "DELETE: not permitted (403)", "PermissionMissing")),
        {},
        True,
    ),
    ("github", lost(), {"survey": survey(failing_since=NOW - 9, failure="GitHubUnavailable")}, False),
    ("permission", lost(), {"survey": survey(failing_since=NOW - 9, failure="PermissionMissing")}, True),
    ("fuse", lost(), {"fuse": proving()}, False),
    ("limit", lost(confirmed_at=NOW - 1), {}, False),
]


@pytest.mark.parametrize(("blocker", "evidence", "terms", "is_stopped"), BLOCKERS)
def test_each_blocker_makes_a_loss_wait_and_says_whether_a_person_must_act(blocker, evidence, terms, is_stopped):
    found = status_of(evidence, replace(TERMS, **terms), claim=CLAIM if blocker == "claim" else None)
    assert (found.stage, found.blocked_by, found.is_stopped) == (WAITING, blocker, is_stopped)
    assert found.is_open is (blocker != "job")  # a job vouches for its runner


@pytest.mark.parametrize(
    ("evidence", "since"),
    [
        (lost(confirmed_at=NOW - 7, granted_at=NOW - 5), NOW - 7),
        (present(granted_at=NOW - 5, removed_at=NOW - 4), NOW - 5),
        (forbidden(), forbidden().deletion.waiting_since),
    ],
    ids=["confirmed", "granted while offline", "the cluster forbids it"],
)
def test_what_waits_says_since_when(evidence, since):
    found = status_of(evidence, replace(TERMS, survey=survey(failing_since=NOW - 9, failure="GitHubUnavailable")))
    assert (found.stage, found.since) == (WAITING, since)


@pytest.mark.parametrize(("paused_at", "since"), [(LONG_AGO, NOW - 30), (NOW - 10, NOW - 10)], ids=["before", "after"])
def test_what_a_pause_holds_back_waits_since_the_pause_at_the_earliest(paused_at, since):
    pause = SimpleNamespace(**{**vars(PAUSE), "at": paused_at})
    found = status_of(lost(confirmed_at=NOW - 30), replace(TERMS, pause=pause))
    assert (found.blocked_by, found.since) == ("pause", since)


def test_a_pause_that_ends_by_itself_needs_no_person():
    pause = SimpleNamespace(**{**vars(PAUSE), "until": NOW + 60})
    found = status_of(lost(), replace(TERMS, pause=pause))
    assert (found.blocked_by, found.is_stopped) == ("pause", False)


def test_the_first_blocker_is_a_decision_of_a_person():
    everything = forbidden(job_id=7, job_started_at=NOW - 60, last_delivery_at=NOW - 60)
    terms = replace(TERMS, mode="off", pause=PAUSE, is_configured=False, fuse=STOPPED)
    order = []
    for ended in ({"mode": "dry-run"}, {"mode": "act"}, {"pause": None}, {"is_configured": True}):
        order.append(status_of(everything, terms, claim=CLAIM).blocked_by)
        terms = replace(terms, **ended)
    order += [status_of(everything, terms, claim=CLAIM).blocked_by, status_of(everything, terms).blocked_by]
    idle = forbidden()
    order += [status_of(idle, terms).blocked_by, status_of(idle, replace(terms, fuse=Fuse())).blocked_by]
    assert order == ["off", "dry-run", "pause", "no-pool", "claim", "job", "fuse", "permission"]


@pytest.mark.parametrize("terms", [{"mode": "dry-run"}, {"pause": PAUSE}, {"fuse": STOPPED}])
def test_what_was_granted_waits_as_well_and_what_was_accepted_does_not(terms):
    terms = replace(TERMS, **terms)
    assert status_of(lost(**TAKEN), terms).stage is WAITING
    assert status_of(lost(**ACCEPTED), terms).stage is REQUESTED


@pytest.mark.parametrize("fuse", [proving(), DEAF])
def test_a_fuse_that_proves_or_repeats_requests_does_not_hold_what_was_granted(fuse):
    assert status_of(lost(**TAKEN), replace(TERMS, fuse=fuse)).stage is REMOVED


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (ReplacementPath.CLUSTER, "its object in the cluster is being deleted"),
        (ReplacementPath.EVENT, "the pool's url has not accepted the request for its replacement yet"),
        (ReplacementPath.POLL, "its controller has not reported its replacement yet"),
    ],
)
def test_a_removed_runner_waits_for_who_replaces_it(path, words):
    assert status_of(lost(**TAKEN), replace(TERMS, path=path)).text.endswith(words)


@pytest.mark.parametrize("blocker", Blocker)
def test_a_blocker_in_the_cluster_has_its_sentence_and_its_code(blocker):
    found = status_of(forbidden(blocker))
    assert found.text == f"{SENTENCES[blocker]} ({blocker})"
    assert (found.since, found.is_stopped) == (LONG_AGO, blocker in FOR_A_PERSON)


def test_a_blocker_of_another_version_says_where_to_read_more():
    assert status_of(forbidden("OfALaterVersion")).text == "for details run `ghapp explain` (OfALaterVersion)"


HELD = suspect(deliveries_behind_at=NOW - 20)


@pytest.mark.parametrize(
    ("evidence", "terms", "blocker"),
    [
        (HELD, {}, ReplacementBlocker.DELIVERIES_MISSING),
        (suspect(job_id=7, job_started_at=NOW - 99), {}, ReplacementBlocker.JOB),
        (suspect(busy=True), {}, ReplacementBlocker.JOB),
        (suspect(deliveries_behind_at=NOW - 60), {}, ReplacementBlocker.DELIVERIES_MISSING),  # as it went missing
        (suspect(deliveries_behind_at=NOW - 60 - MICROSECOND), {}, None),  # of an earlier absence
        (suspect(failed_calls=FailedCalls(1, NOW, "GET: GitHub answered 502")), {}, ReplacementBlocker.GITHUB),
        (suspect(), {"survey": survey(failing_since=NOW - 9, failure="RateLimited")}, ReplacementBlocker.GITHUB),
        (suspect(), {"pause": PAUSE, "mode": "off", "fuse": STOPPED}, None),  # confirmation goes on
    ],
)
def test_a_suspect_waits_for_what_its_confirmation_lacks(evidence, terms, blocker):
    found = status_of(evidence, replace(TERMS, **terms))
    assert found.blocked_by is blocker
    assert found.stage is (SUSPECT if blocker is None else WAITING)
    assert not found.is_open


@pytest.mark.parametrize(("terms", "short"), [({}, "waiting"), ({"pause": PAUSE}, "waiting (pause)"), (None, "none")])
def test_the_short_form_names_the_stage_and_what_blocks_it(terms, short):
    status = status_of(online() if terms is None else lost(), replace(TERMS, **(terms or {})))
    assert status.short == short


def test_a_call_without_an_answer_shows_when_it_failed_and_when_github_is_asked_again():
    refused = lost(failed_calls=FailedCalls(2, NOW, "GET: GitHub answered 502", "GitHubUnavailable"))
    at, again = clock_time(NOW), clock_time(NOW + 60)
    words = f"GitHub gave no usable answer about it at {at} (GET: GitHub answered 502), and is asked again at {again}"
    assert status_of(refused).text == words


def test_an_absence_that_is_not_confirmed_is_no_loss_while_the_state_is_unknown():
    later = NOW + 3600  # the last list is an hour old then
    assert judge(suspect(), TERMS.survey, later, LIMITS).state is State.UNKNOWN
    assert status_of(suspect(), now=later).stage is NONE


def test_a_loss_whose_observation_is_old_waits_for_a_list():
    found = status_of(lost(**GRANT), now=NOW + 300 + MICROSECOND)
    assert (found.blocked_by, found.text.split(";")[0]) == ("github", "the last complete list is too old")


@pytest.mark.parametrize(
    ("passed", "is_open", "words"),
    [
        (SUCCESSOR_PATIENCE_SECONDS, True, "no successor is online yet"),
        (SUCCESSOR_PATIENCE_SECONDS + MICROSECOND, False, "no successor came online within an hour"),
    ],
)
def test_a_request_without_a_successor_is_over_after_an_hour_and_the_list_after_it(passed, is_open, words):
    now = NOW + passed
    evidence, terms = lost(**{**ACCEPTED, "replaced_at": NOW}), replace(TERMS, survey=survey(swept_at=now))
    found = status_of(evidence, terms, now=now)
    assert (found.stage, found.is_open, found.text.endswith(words)) == (REQUESTED, is_open, True)
    assert is_loss_over(evidence, judge(evidence, terms.survey, now, LIMITS), now) is not is_open


def test_a_request_whose_successor_is_hidden_is_over():
    evidence = lost(**ACCEPTED, hidden_at=NOW)
    found = status_of(evidence)
    assert (found.stage, found.is_open) == (REQUESTED, False)
    assert found.text.endswith("its successor cannot be distinguished from the pool's other newcomers")
    assert not is_healed(evidence, judge(evidence, TERMS.survey, NOW, LIMITS))


@pytest.mark.parametrize(("waited", "is_late"), [(299, False), (300, False), (300 + MICROSECOND, True)])
def test_a_request_is_unanswered_after_the_time_in_which_a_batch_proves_itself(waited, is_late):
    found = status_of(lost(**{**ACCEPTED, "replaced_at": NOW - waited}))
    assert is_unanswered(found, NOW, 300.0) is is_late
    assert not is_unanswered(status_of(lost(**TAKEN)), NOW + 10_000, 300.0)


def test_healed_is_a_successor_online_and_not_an_accepted_request():
    for changes, healed in (({}, False), ({"successor": 9}, True)):
        evidence = lost(**ACCEPTED, **changes)
        verdict = judge(evidence, survey(), NOW, LIMITS)
        assert (is_healed(evidence, verdict), is_loss_over(evidence, verdict, NOW)) == (healed, healed)


@pytest.mark.parametrize(
    "terms",
    [
        {"mode": "dry-run"},
        {"mode": "off"},
        {"pause": PAUSE},
        {"fuse": STOPPED},
        {"is_current": False},
        {"survey": survey(failing_since=NOW, failure="Unauthorized")},
    ],
)
def test_what_a_controller_must_not_act_on_never_reads_as_under_way(terms):
    held, free = replace(TERMS, **terms), TERMS
    evidence = lost(**GRANT)
    verdict = judge(evidence, survey(), NOW, LIMITS)
    assert should_replace(evidence, verdict, free, NOW)
    assert not should_replace(evidence, verdict, held, NOW)
    assert status_of(evidence, held).stage is WAITING or not held.is_current


@pytest.mark.parametrize(
    ("evidence", "is_lasting"),
    [(online(), True), (suspect(), False), (lost(), False), (lost(replaced_at=NOW - 60), False), (lost(replaced_at=NOW - 60, successor=2), True)],
    ids=["online", "suspect", "lost", "requested", "healed"],
)  # fmt: skip
def test_a_status_lasts_unless_time_or_the_terms_of_its_pool_change_it(evidence, is_lasting):
    assert status_of(evidence).is_lasting is is_lasting


@pytest.mark.parametrize(("terms", "name"), [({}, "the fuse"), ({"is_whole": True}, "the fuse of all pools")])
def test_terms_name_their_fuse(terms, name):
    assert ReplacementTerms(**terms).fuse_name == name
