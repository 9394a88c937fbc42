"""The check run "Runner queue": its texts, its conclusion, and the changes that its digests ignore."""

from __future__ import annotations

import random
import re

import pytest

from ghapp.report.check_run import LONGEST, Conclusion
from ghapp.wording import time_of
from ghapp.workflow_jobs.job import QUEUED_TOO_LONG_SECONDS
from ghapp.workflow_jobs.job_queue import JobQueue, QueueInputs
from ghapp.workflow_jobs.queue_check import FollowedJob, QueueCheck, QueueLimits, checks_to_follow, is_to_be_posted
from ghapp.workflow_jobs.reason import UNSERVED, QueueReason
from ghapp.workflow_jobs.texts import _PARTS, _PASSING, _TITLES, queue_report, reasons_digest
from tests.rules.builders import NOW
from tests.rules.workflow_jobs.builders import busy, job, missing, offline, queue, runner
from tests.rules.workflow_jobs.test_reason import PAUSED

SHA = "f" * 40
PAGE = "https://github.com/acme/api/actions/runs/40000000001/job/40000000002"


def waiting(number=1, **changes):
    return job(number, **{"head_sha": SHA, "name": "test", "html_url": PAGE, **changes})


def followed(*jobs):
    kept = (FollowedJob(each.id, each.queued_at, each.name, each.html_url) for each in jobs)
    return QueueCheck("acme/api", SHA, tuple(kept))


def rendered(jobs, runners, others=(), **inputs):
    return queue_report(followed(*jobs), queue([*jobs, *others], runners, **inputs))


def test_a_job_that_cannot_start_is_explained_with_next_steps():
    queued_at = NOW - 60
    report = rendered([waiting(labels=("linux-4vpcu",), queued_at=queued_at)], [busy()])
    assert report.title == "No runner has the labels of this job"
    assert report.conclusion is None
    assert "No online runner can take 1 job of `acme/api`, the oldest since 2026-09-21 14:12:20 UTC." in report.summary
    assert (
        f"1. [Change linux-4vpcu to linux-4vcpu in runs-on.]({PAGE.partition('/job/')[0]}/workflow) That is the nearest label "
        f"of a runner or a pool; see the workflow file of acme/api at {SHA[:7]}."
    ) in report.summary
    fails = time_of(queued_at + QUEUED_TOO_LONG_SECONDS, NOW)
    assert f"\n\nGitHub fails this job at {fails}, 24 hours after it was queued.\n\n" in report.summary
    both = rendered([waiting(1, labels=("gpu",)), waiting(2, labels=("gpu",), queued_at=queued_at)], [busy()]).summary
    assert f"GitHub fails the first of them at {time_of(NOW - 3600 + QUEUED_TOO_LONG_SECONDS, NOW)}, " in both
    assert "GitHub fails" not in rendered([waiting()], [busy()]).summary
    assert f"| [`test`]({PAGE}) |" in report.text
    assert "NoRunnerWithLabels" in report.text


def test_the_summary_begins_with_the_reason_as_a_sentence_and_its_code():
    report = rendered([waiting(labels=("gpu",))], [busy()])
    assert report.summary.split("\n\n")[1] == "**No runner has the label gpu.** (`NoRunnerWithLabels`)"
    odd = rendered([waiting(labels=("g_p*u",))], [busy()])
    assert odd.summary.split("\n\n")[1].startswith(
        "**<code>no&#32;runner&#32;has&#32;the&#32;label&#32;g&#95;p&#42;u</code>"
    )


def test_a_step_that_is_a_command_is_shown_as_code():
    summary = rendered([waiting(private=True)], [missing()], pauses=PAUSED).summary
    assert "1. Run `ghapp resume acme --pool linux-4vcpu`. 1 runner of linux-4vcpu is lost" in summary


def label_lacks(*numbers):
    return [waiting(number, labels=("gpu",)) for number in numbers]


@pytest.mark.parametrize(
    ("jobs", "title"),
    [
        ([waiting(1), waiting(2)], "Waiting for busy runners"),
        (label_lacks(1, 2), "No runner has the labels of 2 jobs"),
        (
            [*label_lacks(1, 2), *map(waiting, (3, 4, 5, 6))],
            "No runner has the labels of 2 jobs",
        ),
        (
            [*map(waiting, (3, 4)), *label_lacks(1)],
            "No runner has the labels of 1 job",
        ),
        (
            [*label_lacks(1), waiting(2, labels=("mac",)), waiting(3, labels=("ill",)), waiting(4)],
            "2 jobs lack a label that no runner has, 1 job waits for offline runners",
        ),
        ([waiting(1), waiting(2, labels=("idle",))], "Waiting for busy runners"),
        ([waiting(1, labels=("idle",)), waiting(2, labels=("idle",))], "Runners are idle, but GitHub assigns no job"),
        ([waiting(1, labels=("idle",), queued_at=NOW)], "GitHub has assigned no runner yet"),
        ([waiting(1, labels=("ubuntu-latest",))], "Waiting for GitHub-hosted runners"),
        ([waiting(1, labels=())], "Waiting for a runner group"),
    ],
    ids=[
        *(
            "busy",
            "labels",
            "two of six",
            "one of three",
            "two reasons",
            "busy and idle",
            "idle",
            "about to be assigned",
        ),
        *("hosted", "a group"),
    ],
)
def test_the_title_counts_the_jobs_that_no_runner_can_take_and_no_others(jobs, title):
    """How many others wait changes all the time, and the title is not posted again for them."""
    runners = [busy(), offline()._replace(labels=("ill",)), runner()._replace(labels=("idle",))]
    assert rendered(jobs, runners).title == title


@pytest.mark.parametrize(
    ("jobs", "title"),
    [
        ([waiting(1)], "Waiting for busy runners"),
        (label_lacks(1), "No runner has the labels of 1 or more jobs"),
        (
            [*label_lacks(1), waiting(2, labels=("ill",))],
            "1 or more jobs lack a label that no runner has, 1 or more jobs wait for offline runners",
        ),
    ],
    ids=["busy", "labels", "two reasons"],
)
def test_the_title_does_not_count_what_is_not_followed(jobs, title):
    runners = [busy(), offline()._replace(labels=("ill",))]
    assert queue_report(followed(*jobs)._replace(more=56), queue(jobs, runners)).title == title


def test_every_reason_has_a_title():
    assert _PARTS.keys() == _TITLES.keys() == UNSERVED
    assert _PASSING.keys() == {None, *QueueReason} - UNSERVED


def test_a_row_has_the_workflow_and_the_address_of_the_jobs_page():
    jobs = [waiting(1, workflow="CI", labels=("gpu",)), waiting(2, name="", html_url="", labels=("mac",))]
    check = checks_to_follow(queue(jobs, []), {}, QueueLimits())["acme/api@" + SHA]
    text = queue_report(check, queue(jobs, [busy()]), lambda job_id: f"https://ghapp.example/jobs/{job_id}").text
    assert f"| [`CI / test`]({PAGE}) |" in text
    assert "| [NoRunnerWithLabels](https://ghapp.example/jobs/1) |" in text
    assert re.search(r"\| `2` \| [^|]+ \| \[NoRunnerWithLabels\]\(https://ghapp.example/jobs/2\) \|", text)
    over = check._replace(jobs=tuple(each._replace(left_at=NOW, started=True) for each in check.jobs))
    done = queue_report(over, queue([], []), lambda job_id: f"https://ghapp.example/jobs/{job_id}").text
    assert "| [started](https://ghapp.example/jobs/1) |" in done


def test_jobs_that_a_runner_can_take_are_counted_by_pool_and_have_no_row():
    """A row would stand for up to twelve minutes after the job's start."""
    stuck, recent = waiting(1, labels=("gpu",)), waiting(4, labels=("idle",), queued_at=NOW)
    runners = [busy(), runner()._replace(labels=("idle",))]
    jobs = [stuck, waiting(2), waiting(3, queued_at=NOW - 60), recent]
    report = rendered(jobs, runners)
    assert "No online runner can take 1 job of `acme/api`" in report.summary
    own, _, others = report.text.partition("\n\nJobs that a runner can take, as of the time at the top:\n\n")
    assert [own.count(PAGE), others.count(PAGE)] == [1, 0]
    assert others.splitlines()[2:] == [
        f"| `linux-4vcpu` | AllBusy | 2 | {time_of(NOW - 3600)} |",
        f"| `linux-4vcpu` | no runner assigned yet | 1 | {time_of(NOW)} |",
    ]
    calm = rendered(jobs[1:3], runners)
    assert "2 jobs of `acme/api` wait for a self-hosted runner" in calm.summary
    assert PAGE not in calm.text


def test_a_time_is_text_in_a_sentence_that_is_plain_otherwise():
    summary = rendered([waiting()], [busy()], listed_at=NOW).summary
    assert (
        "**The only online runner of linux-4vcpu is busy, as of the last list, 14:13:20 UTC; no later list could be read.** (`AllBusy`)"
        in summary
    )


@pytest.mark.parametrize(("private", "shown"), [(True, True), (False, False), (None, False)])
def test_the_person_and_the_reason_of_a_pause_are_shown_to_members_only(private, shown):
    report = rendered([waiting(private=private)], [missing()], pauses=PAUSED)
    assert ("maintenance" in report.summary) is shown
    assert "PoolPaused" in report.summary


def digest_of(jobs, runners, others=()):
    return reasons_digest(followed(*jobs), queue([*jobs, *others], runners))


def test_other_numbers_change_the_report_and_not_the_digest_of_its_reasons():
    jobs = [waiting(number, queued_at=NOW - 9000) for number in (50, 51)]
    assert rendered(jobs[:1], [busy()]).digest != rendered(jobs, [busy()]).digest
    assert digest_of(jobs[:1], [busy()]) == digest_of(jobs, [busy(), busy()])


def test_the_digest_of_reasons_changes_with_their_meaning_alone():
    calm = [
        ([waiting()], [busy()]),
        ([waiting(), waiting(2)], [busy()]),
        ([waiting(queued_at=NOW)], [runner()]),
        ([waiting()], [runner()]),
        ([], []),
    ]
    assert len({digest_of(*case) for case in calm}) == 1
    bad = [([waiting()], [offline()]), ([waiting()], [missing()]), ([waiting()], [])]
    assert len({digest_of(*case) for case in (*bad, calm[0])}) == 4
    assert digest_of([waiting(), waiting(2)], []) != digest_of([waiting()], []), "another job that cannot start"
    other = [waiting(), waiting(2, labels=("linux-4vpcu",))]
    assert digest_of(other, []) != digest_of([waiting(), waiting(2)], []), "other advice"


@pytest.mark.parametrize("seed", range(5))
def test_in_a_busy_hour_without_an_incident_the_check_changes_at_most_six_times(seed):
    chance, posts = random.Random(seed), 0
    jobs = [waiting(number, queued_at=NOW - 2000 - number) for number in range(40)]
    check = followed(*jobs)
    for now in range(int(NOW), int(NOW) + 3600, 10):
        if len(jobs) > 5 and chance.random() < 0.2:  # a job starts: its runner was idle for a moment before
            jobs.pop(chance.randrange(len(jobs)))
        runners = [runner() if chance.random() < 0.1 else busy() for _ in range(3)]
        here = JobQueue(QueueInputs("acme", jobs, runners), now)
        left = {each.id for each in jobs}
        check = check._replace(
            jobs=tuple(each if each.id in left else each._replace(left_at=now) for each in check.jobs)
        )
        digest, meaning = queue_report(check, here).digest, reasons_digest(check, here)
        if is_to_be_posted(check, digest, meaning, now):
            posts += 1
            check = check._replace(digest=digest, reasons_digest=meaning, posted_at=now)
    assert posts <= 6


@pytest.mark.parametrize(
    ("jobs", "title"),
    [
        ([(300, True)], "Started after 5 min"),
        ([(300, True), (90, True)], "2 jobs waited: 2 started; the longest wait was 5 min"),
        (
            [(300, True), (9000, "cancelled"), (90, True)],
            "3 jobs waited: 2 started, 1 ended without a runner; the longest wait was 2 h 30 min",
        ),
        ([(300, "cancelled")], "The job ended without a runner after 5 min"),
        ([(300, "")], "The job left the queue without a known end after 5 min"),
        (
            [(300, "cancelled"), (90, "")],
            "2 jobs waited: 1 ended without a runner, 1 left the queue without a known end; the longest wait was 5 min",
        ),
    ],
)
def test_a_completed_check_shows_how_many_jobs_waited_for_how_long_and_how_that_ended(jobs, title):
    report = completed(
        *(left(n, waited, **outcome_of(outcome)) for n, (waited, outcome) in enumerate(jobs, 1)),
    )
    assert (report.title, report.conclusion) == (title, Conclusion.NEUTRAL)
    assert report.text.count("| [`test`]") == len(jobs)
    assert "Counted are the jobs of the commit that waited while this check was open" in report.summary


def outcome_of(found):
    return {"started": True} if found is True else {"conclusion": found}


def left(number, waited, **changes):
    return FollowedJob(number, NOW - waited, "test", PAGE, NOW, **changes)


def completed(*jobs, **changes):
    return queue_report(QueueCheck("acme/api", SHA, jobs, **changes), queue([], []))


def test_a_completed_check_that_did_not_follow_all_jobs_says_so():
    jobs = (left(1, 300, started=True), left(2, 90, conclusion="cancelled"))
    assert completed(*jobs, overflowed=True).title == (
        "More than 2 jobs waited; of these: 1 started, 1 ended without a runner; the longest wait was 5 min"
    )


def test_a_completed_check_has_for_each_job_why_it_waited_and_how_it_ended():
    lacks = {"waited_for": "NoRunnerWithLabels", "lacked_labels": ("gpu",)}
    rows = completed(
        left(1, 2040, conclusion="timed_out", **lacks),
        left(2, 600, started=True, waited_for="AllBusy"),
        left(3, 20, started=True),
    ).text.splitlines()[2:]
    assert [row.split(" | ", 2)[2] for row in rows] == [
        "34 min | No runner had the label gpu. | ended without a runner (`timed_out`) |",
        "10 min | All runners of its pool were busy. | started |",
        "20 s | – | started |",
    ]


def test_while_jobs_wait_the_summary_counts_those_that_wait_no_more():
    check = followed(waiting(1))
    jobs = (left(2, 300, started=True), left(3, 90, conclusion="cancelled"), *check.jobs)
    summary = queue_report(check._replace(jobs=jobs), queue([waiting(1)], [busy()])).summary
    words = "Of the jobs that waited while this check was open, 1 started, 1 ended without a runner."
    assert (
        f"1 job of `acme/api` waits for a self-hosted runner, the oldest since 2026-09-21 13:13:20 UTC. {words}"
        in summary
    )


def test_foreign_text_cannot_leave_its_cell():
    evil = waiting(name="a | b\n<b>", labels=("x|y`z",), html_url="https://e.example/](x) | y")
    report = rendered([evil], [])
    row = report.text.splitlines()[-1]
    assert row.count(" | ") == 3
    assert "](x)" not in report.text
    assert "<b>" not in report.text
    assert "`z" not in report.summary


def test_many_jobs_fit_into_githubs_limits():
    jobs = [waiting(number, name="n" * 300, labels=("l" * 300,)) for number in range(200)]
    report = rendered(jobs, [])
    assert len(report.summary) <= LONGEST
    assert len(report.text) <= LONGEST
