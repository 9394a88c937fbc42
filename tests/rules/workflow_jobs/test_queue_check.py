"""When a commit gets the check run "Runner queue", and when it is updated and completed."""

from __future__ import annotations

import pytest

from ghapp.runners.evidence import HOSTED_IMAGES
from ghapp.workflow_jobs.queue_check import (
    COMPLETED_SECONDS,
    FORGOTTEN_SECONDS,
    MOST_JOBS,
    REFRESH_SECONDS,
    SETTLE_SECONDS,
    FollowedJob,
    QueueCheck,
    QueueLimits,
    checks_to_follow,
    is_done,
    is_due,
    is_forgotten,
    is_to_be_posted,
    place_of,
    unknown_jobs,
    with_outcomes,
)
from tests.rules.builders import MICROSECOND, NOW
from tests.rules.workflow_jobs.builders import busy, job, missing, offline, queue, runner

LIMITS = QueueLimits()
SHA = "f" * 40
PLACE = f"acme/api@{SHA}"
FOLLOWED = FollowedJob(1, NOW - 3600)


def waiting(number=1, **changes):
    return job(number, **{"head_sha": SHA, **changes})


def check(**changes):
    return QueueCheck("acme/api", SHA, (FOLLOWED,), 9, "digest", "summary", NOW - 60)._replace(**changes)


@pytest.mark.parametrize(
    ("runners", "waited", "due"),
    [
        ([], 300.0, True),
        ([], 300.0 - MICROSECOND, False),
        ([offline()], 300.0, True),
        ([missing()], 86_000.0, False),
        ([runner()], 86_000.0, False),
        ([busy()], 1800.0, True),
        ([busy()], 1800.0 - MICROSECOND, False),
    ],
    ids=["no runner", "a moment earlier", "offline", "being replaced", "not assigned", "busy", "a moment earlier"],
)
def test_a_job_is_due_once_it_has_waited_long_enough_for_its_reason(runners, waited, due):
    queued = waiting(queued_at=NOW - waited)
    assert is_due(queue([queued], runners), queued, LIMITS) is due


def test_busy_runners_may_be_reported_before_others():
    queued = waiting(queued_at=NOW - 60)
    limits = QueueLimits(explain_after_seconds=300, busy_after_seconds=60)
    assert is_due(queue([queued], [busy()]), queued, limits)
    assert not is_due(queue([queued], []), queued, limits)


def test_a_check_follows_all_queued_jobs_of_its_commit():
    jobs = [waiting(2, labels=("gpu",)), waiting(1, queued_at=NOW - 5), waiting(3, head_sha="a" * 40)]
    found = checks_to_follow(queue(jobs, [busy()]), {}, LIMITS)[PLACE]
    assert (found.repository, found.sha, [each.id for each in found.jobs]) == ("acme/api", SHA, [2, 1])


def test_a_check_of_a_large_matrix_is_done_only_when_the_last_job_has_left():
    jobs = [waiting(number, queued_at=NOW - 400 + number / 1000) for number in range(1, 257)]
    check = checks_to_follow(queue(jobs, []), {}, LIMITS)[PLACE]
    assert ([each.id for each in check.jobs], check.more) == (list(range(1, MOST_JOBS + 1)), 256 - MOST_JOBS)
    assert check.overflowed
    gone = check._replace(jobs=tuple(each._replace(left_at=NOW) for each in check.jobs))
    assert not is_done(gone)
    left = checks_to_follow(queue(jobs[MOST_JOBS:], []), {PLACE: gone}, LIMITS)[PLACE]
    assert ({each.id for each in left.jobs if each.left_at is None}, left.more) == (set(range(MOST_JOBS + 1, 257)), 0)
    last = checks_to_follow(queue([], []), {PLACE: gone}, LIMITS)[PLACE]
    assert is_done(last)
    assert last.overflowed, "others waited, too, and are not counted"


def test_a_check_that_follows_as_many_jobs_as_it_may_follows_all():
    jobs = [waiting(number, queued_at=NOW - 400 + number / 1000) for number in range(1, MOST_JOBS + 1)]
    check = checks_to_follow(queue(jobs, []), {}, LIMITS)[PLACE]
    assert not check.overflowed
    assert checks_to_follow(queue([waiting(201)], []), {PLACE: check}, LIMITS)[PLACE].overflowed
    opened = checks_to_follow(queue([waiting(201)], []), {PLACE: check._replace(over=True, overflowed=True)}, LIMITS)
    assert not opened[PLACE].overflowed


def test_no_check_is_begun_without_a_job_that_is_due():
    assert checks_to_follow(queue([waiting(queued_at=NOW - 299)], []), {}, LIMITS) == {}


@pytest.mark.parametrize("changes", [{"head_sha": ""}, {"repository": ""}, {"labels": (f"{HOSTED_IMAGES[0]}24.04",)}])
def test_a_job_without_a_commit_or_for_a_hosted_runner_gets_no_check(changes):
    assert checks_to_follow(queue([waiting(**changes)], []), {}, LIMITS) == {}


def test_repositories_are_compared_without_case():
    jobs = [waiting(1), waiting(2, repository="Acme/API")]
    assert checks_to_follow(queue(jobs, []), {}, LIMITS).keys() == {PLACE} == {place_of("ACME/api", SHA)}


def test_an_open_check_adds_later_jobs_and_keeps_earlier_ones():
    later = waiting(2, queued_at=NOW - 1)
    found = checks_to_follow(queue([later], [busy()]), {PLACE: check()}, LIMITS)
    assert found == {PLACE: check(jobs=(FOLLOWED, FollowedJob(2, NOW - 1)))}


def test_an_open_check_is_followed_until_it_is_completed():
    assert checks_to_follow(queue([], []), {PLACE: check()}, LIMITS) == {PLACE: check()}
    assert checks_to_follow(queue([], []), {PLACE: check(over=True)}, LIMITS) == {}


def test_a_completed_check_is_opened_again_by_a_job_that_is_due():
    known = {PLACE: check(over=True)}
    assert checks_to_follow(queue([waiting(2, queued_at=NOW - 299)], []), known, LIMITS) == {}
    found = checks_to_follow(queue([waiting(2)], []), known, LIMITS)
    assert found == {PLACE: check(jobs=(FollowedJob(2, NOW - 3600),))}


def test_the_oldest_jobs_of_a_commit_are_followed():
    jobs = [waiting(number, queued_at=NOW - 1000 - number) for number in range(1, MOST_JOBS + 3)]
    (found,) = checks_to_follow(queue(jobs, []), {}, LIMITS).values()
    assert [found.jobs[0].id, found.jobs[-1].id] == [MOST_JOBS + 2, 3]


@pytest.mark.parametrize(
    ("known", "left_at", "started"),
    [
        (job(status="running", started_at=NOW - 9), NOW - 9, True),
        (job(status="over", started_at=NOW - 9, ended_at=NOW - 1), NOW - 9, True),
        (job(status="over", ended_at=NOW - 1), NOW - 1, False),
        (job(status="over"), NOW, False),
        (job(status="running", runner_id=3), NOW, True),
        (job(status="over", runner_id=3, ended_at=NOW - 1), NOW, True),
        (None, NOW, False),
        (job(queued_at=NOW - 86_401), NOW, False),
        (job(), None, False),
    ],
    ids=[
        "started",
        "over",
        "cancelled",
        "without a time",
        "no start",
        "over without a start",
        "forgotten",
        "failed after a day",
        "queued after all",
    ],
)
def test_a_job_stops_waiting_when_it_starts_or_ends(known, left_at, started):
    after = with_outcomes(check(), [known], [1], NOW)
    assert (after.jobs[0].left_at, after.jobs[0].started) == (left_at, started)
    assert is_done(after) is (left_at is not None)


def test_a_job_that_stops_waiting_keeps_its_last_reason_and_without_a_runner_its_conclusion():
    known = job(status="over", ended_at=NOW, conclusion="cancelled", waited_for="X", lacked_labels=("gpu",))
    (left,) = with_outcomes(check(), [known], [1], NOW).jobs
    assert (left.conclusion, left.waited_for, left.lacked_labels) == ("cancelled", "X", ("gpu",))
    (taken,) = with_outcomes(check(), [known._replace(started_at=NOW - 9)], [1], NOW).jobs
    assert (taken.conclusion, taken.waited_for) == ("", "X")


def test_only_jobs_that_are_not_queued_and_not_settled_are_looked_up():
    jobs = (FOLLOWED, FollowedJob(2, NOW), FollowedJob(3, NOW, left_at=NOW))
    assert unknown_jobs(check(jobs=jobs), queue([waiting(1)], [])) == [2]


@pytest.mark.parametrize(
    ("digest", "reasons", "age", "posted"),
    [
        ("digest", "summary", REFRESH_SECONDS, False),
        ("other", "summary", REFRESH_SECONDS, True),
        ("other", "summary", REFRESH_SECONDS - MICROSECOND, False),
        ("other", "other", SETTLE_SECONDS, True),
        ("other", "other", SETTLE_SECONDS - MICROSECOND, False),
        ("other", "other", -MICROSECOND, True),
    ],
    ids=["unchanged", "numbers", "numbers too early", "reasons", "reasons too early", "the clock went back"],
)
def test_another_meaning_is_posted_once_a_minute_and_numbers_every_twelve_minutes(digest, reasons, age, posted):
    assert is_to_be_posted(check(posted_at=NOW - age), digest, reasons, NOW) is posted


@pytest.mark.parametrize(("over", "posted"), [(False, True), (True, False)])
def test_the_completion_is_posted_at_once(over, posted):
    done = check(posted_at=NOW - 1, jobs=(FOLLOWED._replace(left_at=NOW),), over=over)
    assert is_to_be_posted(done, "other", "other", NOW) is posted


@pytest.mark.parametrize("beyond", [False, True])
def test_a_check_is_forgotten_two_days_after_its_last_post_and_the_end_of_its_jobs(beyond):
    late = MICROSECOND if beyond else 0.0
    old = check(
        posted_at=NOW - FORGOTTEN_SECONDS - 1, jobs=(FollowedJob(1, 0.0, left_at=NOW - FORGOTTEN_SECONDS - late),)
    )
    assert is_forgotten(old, NOW) is beyond


@pytest.mark.parametrize("beyond", [False, True])
def test_a_completed_check_is_forgotten_after_an_hour(beyond):
    late = MICROSECOND if beyond else 0.0
    assert is_forgotten(check(over=True, posted_at=NOW - COMPLETED_SECONDS - late), NOW) is beyond
