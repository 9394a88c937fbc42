"""The story of a job, as one table: each row has what is known, and the events in their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.deaths.cause import DEADLINE_EXCEEDED, LESS_MEMORY, Cause, OwnReason, needed_change
from ghapp.deaths.death import Sighting, larger_pools, memory_bytes
from ghapp.deaths.job_death import EXAMINATION_SECONDS, EXAMINED_AFTER_SECONDS, RunnerAfter
from ghapp.deaths.job_outcome import (
    NOTHING_KNOWN,
    RUN_AGAIN,
    START_AGAIN,
    UNCHANGED,
    FailedBy,
    JobOutcome,
    failed_by,
    failure_text,
    job_of_death,
    job_summary,
    lacks_rerun,
    next_steps,
    other_attempts,
    run_again_as,
)
from ghapp.deaths.job_outcome import RUNS_AGAIN as BUTTON_RUNS_AGAIN
from ghapp.deaths.job_story import StoryStep, death_story, how_known, job_story, rerun_command
from ghapp.deaths.post_mortem import ENDED_LATE_SECONDS
from ghapp.deaths.rerun import AUTO, Rerun, RerunNote, RerunRefusal, RerunState, why_not
from ghapp.wording import clock_time
from ghapp.workflow_jobs.explanation import explain
from ghapp.workflow_jobs.job import RUNNING_TOO_LONG_SECONDS, Job
from ghapp.workflow_jobs.job_steps import JobSteps
from tests.rules.builders import MICROSECOND, NOW
from tests.rules.deaths.test_post_mortem import death
from tests.rules.installations.test_pool_matching import Rule
from tests.rules.workflow_jobs.builders import POOL, busy, job, queue

QUEUED = job(7, run_id=41, name="test")
RUNNING = QUEUED._replace(
    status="running", queued_at=NOW - 900, started_at=NOW - 880, runner_id=3, runner_name="linux-3"
)
FAILED = RUNNING._replace(status="over", ended_at=NOW - 60, conclusion="failure")
ON_GITHUB = FAILED._replace(html_url="https://github.com/acme/api/actions/runs/41/job/7")
DIED = death(runner_name="linux-3", runner_id=3, at=NOW - 660)
LOST = death(exit_code=None, signal=None, pod="", cause=Cause.LOST_COMMUNICATION, reason=OwnReason.WENT_OFFLINE)
AGAIN = QUEUED._replace(id=9, attempt=2, queued_at=NOW - 40)
ASKED = Rerun(7, 41, 1, "mona", NOW - 50)
ACCEPTED = ASKED._replace(state=RerunState.ACCEPTED)

TAKEN = "taken by runner linux-3 after 20 s"
OOM = (
    "the runner was killed because its container reached its memory limit: "
    "its container ended with exit code 137, signal 9 (OOMKilled)"
)


BEGUN = "a step of the job had begun, and the pool does not run such jobs again unasked"


def story(known, outcome=NOTHING_KNOWN):
    jobs = queue([known], [busy()])
    return [each.full_text for each in job_story(known, POOL, explain(jobs, known), outcome, NOW)]


AT_NEXT = f"next try at {clock_time(NOW + 120)}"
UNKNOWN_RUN = why_not(RerunRefusal.UNKNOWN_JOB)
BY_HAND = "; to run it again unchanged: `gh run rerun --job 7 --repo acme/api`"


UNTAKEN = FAILED._replace(
    started_at=None,
    runner_id=None,
    runner_name=None,
    conclusion="cancelled",
    queued_at=NOW - 2040,
    ended_at=NOW,
    waited_for="NoRunnerWithLabels",
)


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (UNTAKEN._replace(lacked_labels=("gpu",)), "waited 34 min: no runner had the label gpu; cancelled"),
        (UNTAKEN, "waited 34 min: no runner had its labels; cancelled"),
        (UNTAKEN._replace(conclusion="timed_out"), "waited 34 min: no runner had its labels; timed out"),
        (UNTAKEN._replace(waited_for="AllBusy"), "waited 34 min: all runners of its pool were busy; cancelled"),
        (UNTAKEN._replace(waited_for=""), "waited 34 min, and no runner took it; cancelled"),
        (UNTAKEN._replace(conclusion="skipped"), None),
        (UNTAKEN._replace(conclusion=""), None),
        (UNTAKEN._replace(status="queued", conclusion="", ended_at=None), None),
        (UNTAKEN._replace(runner_id=3), None),
    ],
)
def test_the_summary_of_a_job_that_ended_without_a_runner_is_how_long_it_waited_and_why(known, text):
    summary = job_summary(known, JobOutcome(), NOW)
    assert (None if summary is None else str(summary)) == text


@pytest.mark.parametrize(
    ("known", "outcome", "events"),
    [
        (QUEUED, JobOutcome(), [f"waits: the only online runner of {POOL} is busy"]),
        (
            QUEUED._replace(waiting=True),
            JobOutcome(),
            ["waits: GitHub holds it back, for an approval or for its concurrency group"],
        ),
        (RUNNING, JobOutcome(), [TAKEN]),
        (
            RUNNING._replace(queued_at=NOW - 1480),
            JobOutcome(),
            ["taken by runner linux-3 after 10 min; what it waited for is not on record"],
        ),
        (
            RUNNING._replace(queued_at=NOW - 1480, waited_for="AllBusy"),
            JobOutcome(),
            ["taken by runner linux-3 after 10 min: all runners of its pool were busy"],
        ),
        (
            RUNNING._replace(waited_for="AllBusy"),
            JobOutcome(),
            [f"{TAKEN}: all runners of its pool were busy"],
        ),
        (
            RUNNING._replace(queued_at=NOW - 1480, waited_for="AReasonOfAnotherVersion"),
            JobOutcome(),
            ["taken by runner linux-3 after 10 min: AReasonOfAnotherVersion"],
        ),
        (RUNNING._replace(runner_name=None), JobOutcome(), ["taken by a runner that GitHub did not name after 20 s"]),
        (
            RUNNING,
            JobOutcome(DIED),
            [TAKEN, OOM, "GitHub has not ended the job yet: it does so about 10 minutes after a runner is lost"],
        ),
        (FAILED._replace(conclusion="success"), JobOutcome(), [TAKEN, "ended: success"]),
        (FAILED._replace(conclusion=""), JobOutcome(), [TAKEN, "ended: no conclusion was delivered"]),
        (
            FAILED._replace(started_at=None, runner_id=None, runner_name=None, conclusion="cancelled"),
            JobOutcome(),
            ["no runner took it", "ended: cancelled"],
        ),
        (
            UNTAKEN._replace(lacked_labels=("gpu", "cuda")),
            JobOutcome(),
            ["no runner took it: no runner had the labels gpu, cuda", "ended: cancelled"],
        ),
        (FAILED, JobOutcome(DIED), [TAKEN, OOM, "ended: failure", f"no re-run is known{BY_HAND}"]),
        (
            FAILED,
            JobOutcome(DIED, ASKED),
            [TAKEN, OOM, "ended: failure", "a re-run was requested by mona; GitHub has not confirmed it yet"],
        ),
        (
            FAILED,
            JobOutcome(DIED, ACCEPTED._replace(by=AUTO)),
            [
                *(TAKEN, OOM, "ended: failure"),
                "a re-run was requested by ghapp, as its pool is configured; it is attempt 2 of the run",
                "no delivery of attempt 2 is known, so neither is where it is now",
            ],
        ),
        (
            FAILED,
            JobOutcome(DIED, ASKED._replace(state=RerunState.REFUSED, why="it is too old")),
            [
                *(TAKEN, OOM, "ended: failure"),
                f"a re-run was requested by mona; GitHub refused it: it is too old{BY_HAND}",
            ],
        ),
        (
            FAILED,
            JobOutcome(DIED, note=RerunNote("StepsHadBegun", AUTO, NOW - 50)),
            [
                *(TAKEN, OOM, "ended: failure"),
                f"not run again: {BEGUN}{BY_HAND}",
            ],
        ),
        (
            FAILED,
            JobOutcome(DIED, note=RerunNote("OfAnotherVersion", "mona", NOW - 50, NOW + 120)),
            [*(TAKEN, OOM, "ended: failure"), f"a re-run was requested by mona; it waits: OfAnotherVersion; {AT_NEXT}"],
        ),
        (
            FAILED,
            JobOutcome(DIED, note=RerunNote("FuseNotClosed", AUTO, NOW - 50, NOW + 120)),
            [*(TAKEN, OOM, "ended: failure"), f"not run again: the fuse of the pool is not closed; {AT_NEXT}"],
        ),
        (
            FAILED,
            JobOutcome(DIED, ASKED, RerunNote("NoUsableAnswer", "mona", NOW - 50, NOW + 120)),
            [
                *(TAKEN, OOM, "ended: failure"),
                f"a re-run was requested by mona; GitHub has not confirmed it yet; {AT_NEXT}",
            ],
        ),
        (
            FAILED,
            JobOutcome(DIED, ACCEPTED, RerunNote("NoUsableAnswer", "mona", NOW - 110, NOW - 50)),
            [
                *(TAKEN, OOM, "ended: failure"),
                "a re-run was requested by mona, and waited for 1 min; it is attempt 2 of the run",
                "no delivery of attempt 2 is known, so neither is where it is now",
            ],
        ),
        (
            FAILED,
            JobOutcome(DIED, ASKED, RerunNote("FuseNotClosed", "mona", NOW - 4000, None)),
            [*(TAKEN, OOM, "ended: failure"), "a re-run was requested by mona; GitHub has not confirmed it yet"],
        ),
        (
            FAILED,
            JobOutcome(DIED, note=RerunNote("JobUnknownToGitHub", "mona", NOW - 50)),
            [*(TAKEN, OOM, "ended: failure"), f"a re-run was requested by mona: {UNKNOWN_RUN}"],
        ),
        (
            FAILED,
            JobOutcome(DIED, ACCEPTED, None, (AGAIN,)),
            [
                *(TAKEN, OOM, "ended: failure"),
                "a re-run was requested by mona; it is attempt 2 of the run",
                "attempt 2 of the run is job 9: queued",
            ],
        ),
        (
            FAILED,
            JobOutcome(
                DIED,
                attempts=(AGAIN._replace(status="over", conclusion="success", runner_name="linux-4"),),
            ),
            [
                *(TAKEN, OOM, "ended: failure"),
                "attempt 2 of the run is job 9, started at GitHub, it is not known by whom: ended on linux-4: success",
            ],
        ),
    ],
    ids=[
        *("queued", "held back", "running", "waited for an unknown reason", "waited for busy runners"),
        *(
            "waited briefly",
            "a reason of another version",
            "a runner without a name",
            "runner died and GitHub does not know",
        ),
        *(
            "succeeded",
            "ended without a conclusion",
            "cancelled before a runner took it",
            "cancelled without a runner that has its labels",
            "failed by its runner",
        ),
        *("re-run requested", "re-run accepted", "re-run refused", "not run again", "tried again later"),
        *(
            "tried again unasked",
            "request tried again",
            "run again after a wait",
            "requested a second time",
            "unknown to GitHub",
        ),
        *("run again and queued", "run again at GitHub"),
    ],
)
def test_a_job_has_one_story(known, outcome, events):
    assert story(known, outcome) == [f"queued for pool {POOL}", *events]


UNTIL = FAILED.ended_at + EXAMINED_AFTER_SECONDS + EXAMINATION_SECONDS
LOOKED_FOR = "whether its runner died is known by 14:14:20 UTC at the latest"
LOG = "see the job's log at GitHub"


@pytest.mark.parametrize(
    ("after", "now", "texts", "steps"),
    [
        (RunnerAfter(True, UNTIL), FAILED.ended_at, [LOOKED_FOR], []),
        (RunnerAfter(True, UNTIL, is_online=True, exited=True), UNTIL - MICROSECOND, [LOOKED_FOR], []),
        (RunnerAfter(True, UNTIL), UNTIL, [], [LOG]),
        (
            RunnerAfter(True, UNTIL, is_online=True),
            UNTIL,
            ["GitHub listed its runner as online after the job's end"],
            [LOG],
        ),
        (RunnerAfter(True, UNTIL, exited=True), UNTIL, ["its runner exited normally"], [LOG]),
        (RunnerAfter(True, a_step_failed=True), NOW, [], [LOG]),
        (RunnerAfter(True, exited=True, a_step_failed=True), NOW, ["its runner exited normally"], [LOG]),
        (RunnerAfter(True), NOW, [], [LOG]),
        (RunnerAfter(False), NOW, ["no death is looked for, because its pool is not configured"], [LOG]),
    ],
)
def test_the_story_of_a_job_that_ended_badly_has_what_shows_whether_its_runner_is_the_cause(after, now, texts, steps):
    """Whether it is the cause is in the job's summary, and stands there once."""
    outcome = JobOutcome(runner_after=after)
    events = [each.full_text for each in job_story(FAILED, POOL, None, outcome, now)]
    assert events[events.index("ended: failure") :] == ["ended: failure", *texts]
    assert [each.step for each in next_steps(FAILED, outcome, now)] == steps


@pytest.mark.parametrize(
    ("cause", "reason", "begins"),
    [
        (Cause.GUEST_OOM_OR_KILL, "Error", "change the job so that it needs less memory"),
        (Cause.VERSION_DEPRECATED, "Error", "have the platform team update the runner"),
        (Cause.HOST_OOM, "OOMKilled", "change the job so that it needs less memory"),
        (Cause.EXTERNAL_TEARDOWN, OwnReason.STORAGE_LIMIT, "change the job so that it writes less"),
        (Cause.EXTERNAL_TEARDOWN, DEADLINE_EXCEEDED, "change the job so that it takes less time"),
    ],
)
def test_a_job_that_used_up_its_machine_changes_before_it_is_run_again(cause, reason, begins):
    """The change is made in the code or by the platform team: only the re-run has an address."""
    change, again = next_steps(ON_GITHUB, JobOutcome(DIED._replace(cause=cause, reason=reason)), NOW)
    assert change.step.startswith(begins)
    assert (change.step, change.url) == (needed_change(cause, reason), "")
    assert again == (RUN_AGAIN, UNCHANGED, ON_GITHUB.html_url, True)


@pytest.mark.parametrize(
    ("reason", "again"),
    [("JobUnknownToGitHub", START_AGAIN), ("RerunLimit", START_AGAIN), ("RunNotOver", RUN_AGAIN)],
)
def test_the_last_step_leads_to_github_only_where_the_run_can_be_run_again(reason, again):
    outcome = JobOutcome(DIED, note=RerunNote(reason, "mona", NOW))
    change, last = next_steps(ON_GITHUB, outcome, NOW)
    assert change.step == needed_change(DIED.cause, DIED.reason)
    assert (last.step, last.url) == (again, ON_GITHUB.html_url if again == RUN_AGAIN else "")
    (command,) = [each.command for each in job_story(ON_GITHUB, POOL, None, outcome, NOW) if each.step == "rerun"]
    assert bool(command) is (again == RUN_AGAIN)


CHECK_RUN = "https://github.com/acme/api/runs/9"


@pytest.mark.parametrize(
    ("button", "cause", "step"),
    [
        (CHECK_RUN, Cause.HOST_OOM, 'press "Re-run anyway" in the check run "Runner post-mortem"'),
        (CHECK_RUN, Cause.TERMINATED, 'press "Re-run this job" in the check run "Runner post-mortem"'),
        ("", Cause.TERMINATED, 'press "Re-run this job" above'),
    ],
)
def test_where_a_check_run_has_the_button_it_is_the_one_way_to_run_a_job_again(button, cause, step):
    outcome = JobOutcome(DIED._replace(cause=cause, reason="Error"), button=button)
    *_, last = next_steps(ON_GITHUB, outcome, NOW)
    assert (last.step, last.url, last.runs_again) == (step, button, True)
    assert last.why.startswith(f"that {BUTTON_RUNS_AGAIN}; ")
    assert [each.command for each in job_story(ON_GITHUB, POOL, None, outcome, NOW) if each.step == "rerun"] == [""]
    waits = outcome._replace(note=RerunNote("NoUsableAnswer", "mona", NOW - 50, NOW + 120))
    assert next_steps(ON_GITHUB, waits, NOW)[-1].step == "wait for the re-run that mona requested"
    assert next_steps(ON_GITHUB, waits, NOW + 120)[-1] == last
    final = outcome._replace(note=RerunNote("JobUnknownToGitHub", "mona", NOW))
    assert next_steps(ON_GITHUB, final, NOW)[-1].step == START_AGAIN


RULES = [Rule("linux", ("linux",)), Rule("big", ("big",)), Rule("huge", ("linux", "huge")), Rule("all", ("*",))]


def limits(*pairs):
    return [death(pool=pool, memory_limit=limit) for pool, limit in pairs]


@pytest.mark.parametrize(
    ("ends", "texts"),
    [
        (
            limits(("huge", "32Gi"), ("big", "16Gi")),
            ["runs-on: big (pool big, 16Gi)", "runs-on: [linux, huge] (pool huge, 32Gi)"],
        ),
        (limits(("big", "16Gi"), ("big", "4Gi")), ["runs-on: big (pool big, 16Gi)"]),
        (limits(("big", "4Gi"), ("big", "16Gi")), []),
        (limits(("big", ""), ("big", "16Gi")), ["runs-on: big (pool big, 16Gi)"]),
        (
            limits(("big", "8192Mi"), ("huge", "8589934593"), ("linux", "8Gi")),
            ["runs-on: [linux, huge] (pool huge, 8589934593)"],
        ),
        (limits(("big", "8G"), ("huge", "much"), ("all", "16Gi"), ("removed", "16Gi")), []),
        ([], []),
    ],
    ids=[
        "by size",
        "the latest end decides",
        "it was made smaller",
        "unknown limit",
        "not more",
        "none fits",
        "no ends",
    ],
)
def test_the_pools_with_more_memory_are_those_whose_latest_runner_had_more(ends, texts):
    larger = larger_pools("8Gi", ends, RULES)
    assert [each.text for each in larger] == texts
    step = next_steps(ON_GITHUB, JobOutcome(DIED._replace(memory_limit="8Gi"), larger=larger), NOW)[0].step
    more = f": {' or '.join(texts)}" if texts else "; ask the platform team which pool has more than 8Gi"
    assert step == f"{LESS_MEMORY}{more}"
    other = JobOutcome(DIED._replace(memory_limit="8Gi", cause=Cause.TERMINATED, reason="Error"), larger=larger)
    assert not next_steps(ON_GITHUB, other, NOW)[0].step.startswith(LESS_MEMORY)


@pytest.mark.parametrize(
    ("quantity", "size"),
    [
        ("8Gi", 8 * 1024**3),
        ("8G", 8 * 1000**3),
        ("512Ki", 512 * 1024),
        ("5k", 5000),
        ("1.5Mi", 1.5 * 1024**2),
        ("128974848000m", 128974848),
        ("129e6", 129_000_000),
        ("1E", 1000**6),
        ("7", 7),
        ("", None),
        ("8GB", None),
        ("8gi", None),
        ("-1", None),
    ],
)
def test_a_quantity_of_memory_is_read_as_kubernetes_writes_it(quantity, size):
    assert memory_bytes(quantity) == (None if size is None else pytest.approx(size))


def test_a_limit_that_cannot_be_read_has_no_larger_pool():
    assert larger_pools("much", limits(("big", "16Gi")), RULES) == ()


GITHUB_ENDS = DIED.ended_at + ENDED_LATE_SECONDS


@pytest.mark.parametrize(
    ("now", "by"),
    [
        (NOW - 660, ", by about 14:13 UTC"),
        (GITHUB_ENDS - MICROSECOND, ", by about 14:13 UTC"),
        (GITHUB_ENDS, ""),
        (NOW, ""),
    ],
)
@pytest.mark.parametrize("reason", ["", "OOMKilled"])
def test_a_job_that_github_has_not_ended_yet_has_its_step_and_by_when_it_can_be_run_again(now, by, reason):
    known = ON_GITHUB._replace(status="running", ended_at=None, conclusion="")
    died = DIED if reason else DIED._replace(cause=Cause.TERMINATED, reason="Error")
    *changes, last = next_steps(known, JobOutcome(died), now)
    assert last.step == f"wait until GitHub ends the job{by}, or cancel the run at GitHub"
    assert (last.why, last.url) == ("it can be run again then, and not before", ON_GITHUB.html_url)
    assert [each.step for each in changes] == ([needed_change(died.cause, died.reason)] if reason else [])
    (event,) = [each for each in job_story(known, POOL, None, JobOutcome(died), now) if each.step is StoryStep.ENDED]
    assert event.text.endswith(f"a runner is lost{by}")


@pytest.mark.parametrize(
    ("known", "outcome"),
    [
        (RUNNING, JobOutcome()),
        (RUNNING._replace(started_at=NOW - RUNNING_TOO_LONG_SECONDS - 1), JobOutcome(DIED)),
        (RUNNING, JobOutcome(DIED, attempts=(AGAIN,))),
        (RUNNING, JobOutcome(DIED, ACCEPTED)),
    ],
    ids=["its runner lives", "must have ended", "run again at GitHub", "run again"],
)
def test_github_is_not_waited_for_where_the_job_goes_on_must_have_ended_or_was_run_again(known, outcome):
    assert [each.step for each in next_steps(known, outcome, NOW)] == ([LESS_MEMORY] if outcome.death else [])


@pytest.mark.parametrize(
    ("outcome", "is_over"),
    [
        (JobOutcome(DIED, ACCEPTED), True),
        (JobOutcome(DIED, ACCEPTED._replace(state=RerunState.REQUESTED)), True),
        (JobOutcome(DIED, attempts=(AGAIN,)), True),
        (JobOutcome(DIED, note=RerunNote("LaterAttempt", "mona", NOW)), True),
        (JobOutcome(DIED), False),
    ],
    ids=["run again", "requested", "run again at GitHub", "a later attempt at GitHub", "not run again"],
)
def test_what_to_change_after_a_death_stays_and_running_it_again_ends_with_the_re_run(outcome, is_over):
    change, *again = next_steps(ON_GITHUB, outcome, NOW)
    assert change.step == LESS_MEMORY
    assert (again == []) is is_over
    unchanged = outcome._replace(death=DIED._replace(cause=Cause.TERMINATED, reason="Error"))
    assert (next_steps(ON_GITHUB, unchanged, NOW) == ()) is is_over


def test_a_job_that_came_to_a_result_of_its_own_has_nothing_to_change():
    assert next_steps(ON_GITHUB._replace(conclusion="success"), JobOutcome(DIED), NOW) == ()


def test_a_job_that_lost_its_runner_for_no_reason_of_its_own_is_run_again_as_it_is():
    (step,) = next_steps(ON_GITHUB, JobOutcome(DIED._replace(cause=Cause.TERMINATED, reason="Error")), NOW)
    assert (step.step, step.url) == ("run it again at GitHub (Re-run jobs)", ON_GITHUB.html_url)
    assert step.why.startswith("it was not your code")


@pytest.mark.parametrize(
    ("cause", "offer"),
    [(Cause.HOST_OOM, "; to run it again unchanged: "), (Cause.TERMINATED, "; to run it again: ")],
)
def test_the_command_that_runs_a_job_again_says_when_something_is_to_be_changed_first(cause, offer):
    assert f"no re-run is known{offer}`" in story(FAILED, JobOutcome(death(cause=cause, reason="")))[-1]


RUNS_AGAIN = AGAIN._replace(status="running", started_at=NOW - 30, runner_name="linux-4")


@pytest.mark.parametrize(
    ("again", "at"),
    [
        (AGAIN, AGAIN.queued_at),
        (RUNS_AGAIN, RUNS_AGAIN.started_at),
        (RUNS_AGAIN._replace(started_at=None), None),
        (RUNS_AGAIN._replace(status="over", ended_at=NOW - 20, conclusion="success"), NOW - 20),
        (RUNS_AGAIN._replace(status="over", conclusion="success"), None),
    ],
    ids=["queued", "running", "running since an unknown time", "ended", "ended at an unknown time"],
)
def test_a_later_attempt_is_dated_by_what_is_written_of_it(again, at):
    (event,) = (
        each
        for each in job_story(FAILED, POOL, None, JobOutcome(DIED, attempts=(again,)), NOW)
        if each.step is StoryStep.NEXT_ATTEMPT
    )
    assert event.at == at


OOM_SUMMARY = "its runner died (host-oom): the runner was killed because its container reached its memory limit"


@pytest.mark.parametrize(
    ("known", "outcome", "again", "later"),
    [
        (RUNNING, JobOutcome(DIED), "GitHub has not ended the job yet", None),
        (FAILED, JobOutcome(DIED), "it was not run again", None),
        (FAILED, JobOutcome(DIED, ASKED._replace(state=RerunState.REFUSED)), "it was not run again", None),
        (FAILED, JobOutcome(DIED, note=RerunNote("RunNotOver", AUTO, NOW, NOW)), "it was not run again", None),
        (
            FAILED,
            JobOutcome(DIED, note=RerunNote("RunNotOver", AUTO, NOW, NOW + MICROSECOND)),
            "it was not run again yet",
            None,
        ),
        (
            FAILED,
            JobOutcome(DIED, note=RerunNote("RunNotOver", "mona", NOW, NOW + MICROSECOND)),
            "its re-run was requested by mona, and waits",
            None,
        ),
        (
            FAILED,
            JobOutcome(DIED, note=RerunNote("JobUnknownToGitHub", "mona", NOW)),
            f"it was not run again: {UNKNOWN_RUN}",
            None,
        ),
        (FAILED, JobOutcome(DIED, ASKED), "its re-run as attempt 2 was requested", None),
        (FAILED, JobOutcome(DIED, ACCEPTED), "its re-run as attempt 2 was requested", None),
        (FAILED, JobOutcome(DIED, attempts=(AGAIN,)), "attempt 2 of the run: queued", 9),
        (
            FAILED,
            JobOutcome(DIED, ACCEPTED, None, (AGAIN, RUNS_AGAIN._replace(id=10, attempt=3))),
            "attempt 3 of the run: running on runner linux-4",
            10,
        ),
    ],
    ids=[
        "goes on",
        "not run again",
        "refused",
        "no more tries",
        "tried again",
        "a person's request waits",
        "unknown to GitHub",
        "requested",
        "accepted",
        "queued again",
        "the latest attempt",
    ],
)
def test_a_dead_runners_job_begins_with_how_the_runner_died_and_whether_it_runs_again(known, outcome, again, later):
    summary = job_summary(known, outcome, NOW)
    assert (summary.text, summary.again) == (OOM_SUMMARY, again)
    assert str(summary) == f"{OOM_SUMMARY}; {again}"
    assert (None if summary.later is None else summary.later.job_id) == later


@pytest.mark.parametrize(
    ("outcome", "latest"),
    [
        (JobOutcome(DIED), None),
        (JobOutcome(DIED, ASKED), None),
        (JobOutcome(DIED, ACCEPTED), (2, None, "", "", ACCEPTED.at)),
        (JobOutcome(DIED, ACCEPTED, attempts=(AGAIN,)), (2, 9, "queued", "", AGAIN.queued_at)),
        (JobOutcome(DIED, attempts=(RUNS_AGAIN,)), (2, 9, "running on runner linux-4", "", AGAIN.queued_at)),
        (
            JobOutcome(DIED, attempts=(RUNS_AGAIN._replace(status="over", conclusion="timed_out"),)),
            (2, 9, "ended on linux-4: timed out", "timed out", AGAIN.queued_at),
        ),
        (
            JobOutcome(DIED, attempts=(RUNS_AGAIN._replace(status="over", conclusion="success"),)),
            (2, 9, "ended on linux-4: success", "succeeded", AGAIN.queued_at),
        ),
        (
            JobOutcome(DIED, attempts=(RUNS_AGAIN._replace(status="over", conclusion="ofAnotherYear"),)),
            (2, 9, "ended on linux-4: ofAnotherYear", "ended", AGAIN.queued_at),
        ),
    ],
    ids=["not", "requested", "accepted", "queued", "running", "timed out", "succeeded", "a conclusion of another year"],
)
def test_a_job_that_was_run_again_has_the_latest_attempt(outcome, latest):
    assert run_again_as(FAILED, outcome, NOW) == latest


BY_STEP = RunnerAfter(True, a_step_failed=True)


@pytest.mark.parametrize(
    ("known", "after", "text"),
    [
        (FAILED, BY_STEP._replace(exited=True), "a step of the job failed; its runner did not die"),
        (FAILED, BY_STEP._replace(is_online=True), "a step of the job failed; its runner did not die"),
        (FAILED, BY_STEP, "a step of the job failed; no death of its runner is known"),
        (
            FAILED._replace(steps=JobSteps(failed=True, failed_step="Build")),
            BY_STEP,
            'step "Build" of the job failed; no death of its runner is known',
        ),
        (
            FAILED,
            BY_STEP._replace(examined_until=NOW + MICROSECOND, exited=True),
            "a step of the job failed; its cause is being looked for",
        ),
        (
            FAILED._replace(conclusion="timed_out"),
            RunnerAfter(True, exited=True),
            "the job ended: timed out; its runner did not die",
        ),
        (
            FAILED,
            RunnerAfter(True, examined_until=NOW + MICROSECOND),
            "the job ended: failure; its cause is being looked for",
        ),
        (FAILED, RunnerAfter(True, examined_until=NOW), "the job ended: failure; no death of its runner was found"),
        (FAILED, RunnerAfter(False), "the job ended: failure; no death of its runner is known"),
    ],
)
def test_a_job_whose_runner_is_not_known_to_have_died_begins_with_that(known, after, text):
    assert str(job_summary(known, JobOutcome(runner_after=after), NOW)) == text
    again = job_summary(known, JobOutcome(runner_after=after, attempts=(AGAIN,)), NOW)
    assert str(again) == f"{text}; attempt 2 of the run: queued"
    assert again.later.job_id == AGAIN.id


@pytest.mark.parametrize("known", [FAILED, RUNNING, FAILED._replace(conclusion="success")])
def test_a_job_that_did_not_fail_or_that_no_runner_took_has_no_such_beginning(known):
    assert job_summary(known, JobOutcome(attempts=(AGAIN,)), NOW) is None


@pytest.mark.parametrize(
    ("known", "outcome", "by", "text"),
    [
        (FAILED, JobOutcome(DIED, runner_after=BY_STEP), FailedBy.RUNNER, "runner died: host-oom"),
        (FAILED, JobOutcome(runner_after=BY_STEP), FailedBy.STEP, "failure: a step failed"),
        (
            FAILED._replace(conclusion="timed_out"),
            JobOutcome(runner_after=RunnerAfter(True, is_online=True)),
            FailedBy.JOB,
            "timed out: its runner did not die",
        ),
        (
            FAILED._replace(conclusion="cancelled"),
            JobOutcome(runner_after=RunnerAfter(True, exited=True)),
            FailedBy.JOB,
            "cancelled: its runner did not die",
        ),
        (
            FAILED,
            JobOutcome(runner_after=RunnerAfter(True, NOW + MICROSECOND, is_online=True, a_step_failed=True)),
            FailedBy.PENDING,
            "failure: cause being looked for",
        ),
        (FAILED, JobOutcome(runner_after=RunnerAfter(True, NOW)), FailedBy.UNKNOWN, "failure: cause not known"),
        (FAILED, JobOutcome(), None, "failure"),
        (FAILED._replace(conclusion="success"), JobOutcome(runner_after=BY_STEP), None, "success"),
        (RUNNING, JobOutcome(DIED), None, "runner died: host-oom"),
        (RUNNING, JobOutcome(), None, ""),
    ],
    ids=[
        *("its runner", "a step", "the runner is online", "the runner exited", "looked for until now", "not known"),
        *("no runner of ours", "succeeded", "its runner died and GitHub does not know", "running"),
    ],
)
def test_a_failed_job_names_what_it_failed_by(known, outcome, by, text):
    assert failed_by(known, outcome, NOW) is by
    cause = "" if outcome.death is None else outcome.death.cause
    assert failure_text(known.conclusion, by, cause) == text


def test_what_another_version_says_a_job_failed_by_is_left_out():
    assert failure_text("failure", "weather") == "failure"


@pytest.mark.parametrize(("conclusion", "steps"), [("failure", 2), ("", 2), ("success", 0)])
def test_a_job_that_no_delivery_has_reported_has_the_steps_of_its_death(conclusion, steps):
    dead = DIED._replace(job=DIED.job._replace(conclusion=conclusion, html_url="https://github.com/acme/api/x"))
    found = next_steps(job_of_death(dead), JobOutcome(dead), NOW)
    assert [each.url for each in found] == ["", "https://github.com/acme/api/x"][:steps]


def test_a_known_death_ends_the_search_and_a_later_attempt_its_next_step():
    after = RunnerAfter(True, UNTIL)
    assert LOOKED_FOR not in story(FAILED, JobOutcome(DIED, runner_after=after))
    assert next_steps(FAILED, JobOutcome(attempts=(AGAIN,), runner_after=after), UNTIL) == ()


@pytest.mark.parametrize("behind", [0.0, 0.3, 5.0])
def test_an_attempt_stands_after_the_rerun_that_made_it_whatever_the_clocks_say(behind):
    """GitHub's dates are whole seconds: an attempt may be dated before the request for it."""
    again = AGAIN._replace(queued_at=ACCEPTED.at - behind)
    assert story(FAILED, JobOutcome(DIED, ACCEPTED, None, (again,)))[-2:] == [
        "a re-run was requested by mona; it is attempt 2 of the run",
        "attempt 2 of the run is job 9: queued",
    ]


SEEN = (
    Sighting(NOW - 800, "job-started"),
    Sighting(NOW - 700, "online"),
    Sighting(NOW - 660, "offline"),
    Sighting(NOW - 500, "registration-missing"),
    Sighting(NOW - 400, "removed-by-controller"),
    Sighting(NOW - 300, "of-another-version"),
    Sighting(NOW - 60, "job-ended"),
)


def test_what_was_seen_of_a_runner_that_died_is_in_its_jobs_story():
    """Its job and its death have events of their own."""
    lost = LOST._replace(at=NOW - 660, last_minutes=SEEN)
    events = job_story(FAILED, POOL, None, JobOutcome(lost), NOW)
    (how_the_runner_died,) = [each.text for each in events if each.step is StoryStep.DIED]
    assert [(each.at, each.text) for each in events[2:-2]] == [
        (NOW - 700, "GitHub listed the runner as online"),
        (NOW - 660, how_the_runner_died),
        (NOW - 500, "the registration of the runner was missing"),
        (NOW - 400, "the runner's controller removed it"),
        (NOW - 300, "of-another-version"),
    ]


def test_the_story_of_a_job_that_no_delivery_has_reported_is_what_its_runners_death_has():
    dead = LOST._replace(at=NOW - 660, last_minutes=SEEN[:1] + SEEN[-1:])
    dead = dead._replace(job=dead.job._replace(conclusion="failure"))
    ended = job_of_death(dead)._replace(ended_at=NOW - 60)
    events = death_story(ended, dead, JobOutcome(dead, ACCEPTED), NOW)
    assert [(each.at, each.step) for each in events] == [
        (NOW - 800, StoryStep.TAKEN),
        (NOW - 660, StoryStep.DIED),
        (NOW - 60, StoryStep.ENDED),
        (ACCEPTED.at, StoryStep.RERUN),
        (None, StoryStep.NEXT_ATTEMPT),
    ]
    assert [each.text for each in events[::2]][:2] == ["the job started", "ended: failure"]


def test_an_attempt_before_a_rerun_keeps_its_place():
    later = (AGAIN._replace(queued_at=NOW - 55), AGAIN._replace(id=10, attempt=3, queued_at=NOW - 45))
    events = story(FAILED, JobOutcome(DIED, ACCEPTED._replace(attempt=2), None, later))
    assert [each.split()[1] for each in events[-3:]] == ["2", "re-run", "3"]


def test_a_later_attempt_names_the_one_before():
    assert story(AGAIN, JobOutcome(attempts=(FAILED,)))[0] == (
        f"queued for pool {POOL} as attempt 2 of its run, after job 7 (failure)"
    )


def test_a_job_whose_end_was_never_delivered_must_have_ended():
    assert story(RUNNING._replace(started_at=NOW - 6 * 86_400, queued_at=NOW - 6 * 86_400))[-1] == (
        "must have ended: no delivery reported how, and it is too old to go on"
    )


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (death(), "its container ended with exit code 137, signal 9 (OOMKilled)"),
        (death(exit_code=1, signal=None, reason=""), "its container ended with exit code 1"),
        (death(exit_code=None, reason="PodGone"), "its pod disappeared before an end was seen (PodGone)"),
        (LOST, "GitHub listed the runner as offline while the job ran"),
        (LOST._replace(reason="Unheard"), "how is not on record (Unheard)"),
    ],
)
def test_how_a_death_is_known_names_no_host_and_no_pod(found, text):
    assert how_known(found) == text
    assert "node-1" not in text


@pytest.mark.parametrize(
    ("others", "ids"),
    [
        ([AGAIN, FAILED], [9]),
        ([AGAIN, AGAIN], [9]),
        ([AGAIN, AGAIN._replace(id=10, attempt=3)], [9, 10]),
        ([AGAIN, AGAIN._replace(id=10)], []),
        ([AGAIN, FAILED._replace(id=8)], []),
        ([AGAIN._replace(name="lint")], []),
        ([AGAIN._replace(repository="acme/web")], []),
        ([AGAIN._replace(run_id=None)], []),
    ],
    ids=[
        *("the next attempt", "delivered twice", "two later ones", "two of one name", "two of its own name"),
        *("another job", "another repository", "no run"),
    ],
)
def test_other_attempts_are_known_by_run_and_name_alone(others, ids):
    assert [each.id for each in other_attempts(FAILED, others)] == ids


def test_a_job_without_a_run_has_no_other_attempt():
    assert other_attempts(FAILED._replace(run_id=None), [AGAIN._replace(run_id=None)]) == ()


TIMES = st.floats(NOW - 5000, NOW + 5000)


@given(TIMES, st.none() | TIMES, st.none() | TIMES, st.none() | TIMES, st.booleans())
def test_the_runner_takes_the_job_before_it_dies_whatever_the_clocks_say(queued, started, ended, died, asked):
    known = Job(
        *(7, "over" if ended else "running", (POOL,), "acme/api", queued, 3, "linux-3", started),
        ended_at=ended,
        conclusion="failure",
    )
    outcome = JobOutcome(None if died is None else death(at=died), ACCEPTED if asked else None)
    events = job_story(known, POOL, None, outcome, NOW)
    steps = [each.step for each in events if each.step in (StoryStep.QUEUED, StoryStep.TAKEN, StoryStep.DIED)]
    assert steps == sorted(steps, key=list(StoryStep).index)
    followed = [each.step for each in events if each.step in (StoryStep.TAKEN, StoryStep.ENDED, StoryStep.RERUN)]
    assert followed == sorted(followed, key=list(StoryStep).index)
    assert events[0].step is StoryStep.QUEUED


SECOND = FAILED._replace(id=9, attempt=2, queued_at=NOW - 40, ended_at=NOW - 20)
THIRD = QUEUED._replace(id=11, attempt=3, queued_at=NOW - 10)


@pytest.mark.parametrize(
    ("requested", "words"),
    [
        ((Rerun(9, 41, 2, "mona", NOW - 15, RerunState.ACCEPTED),), ", requested by mona"),
        ((Rerun(9, 41, 2, "mona", NOW - 15, RerunState.REFUSED),), ", started at GitHub, it is not known by whom"),
        ((), ", started at GitHub, it is not known by whom"),
    ],
    ids=["of the second attempt", "refused", "not by us"],
)
def test_each_attempt_of_a_run_again_and_again_has_who_requested_it(requested, words):
    outcome = JobOutcome(None, ACCEPTED, None, (SECOND, THIRD), requested)
    assert story(FAILED, outcome)[-2:] == [
        "attempt 2 of the run is job 9: ended on linux-3: failure",
        f"attempt 3 of the run is job 11{words}: queued",
    ]


@pytest.mark.parametrize(
    ("address", "repository", "command"),
    [
        ("", "acme/api", "gh run rerun --job 7 --repo acme/api"),
        ("https://github.com/acme/api/actions/runs/1/job/7", "acme/api", "gh run rerun --job 7 --repo acme/api"),
        ("https://ghes.example/acme/api/x", "acme/api", "gh run rerun --job 7 --repo ghes.example/acme/api"),
        ("https://github.com/x", "", ""),
        ("http://127.0.0.1:8123/acme/api/actions/runs/1/job/7", "acme/api", ""),
        ("https://127.0.0.1:8123/acme/api/actions/runs/1/job/7", "acme/api", ""),
        ("http://ghes.example/acme/api/x", "acme/api", ""),
    ],
)
def test_the_command_that_runs_a_job_again_names_another_host_than_githubs_and_is_none_where_gh_cannot_be_used(
    address, repository, command
):
    assert rerun_command(7, repository, address) == command


@pytest.mark.parametrize(
    ("job", "outcome", "may_be"),
    [
        (FAILED, JobOutcome(DIED), True),
        (FAILED, JobOutcome(), False),
        (FAILED._replace(conclusion="success"), JobOutcome(DIED), False),
        (FAILED, JobOutcome(DIED, ASKED), False),
        (FAILED, JobOutcome(DIED, ACCEPTED), False),
        (FAILED, JobOutcome(DIED, ASKED._replace(state=RerunState.REFUSED)), True),
        (FAILED, JobOutcome(DIED, attempts=(FAILED._replace(id=8, attempt=2),)), False),
        (FAILED, JobOutcome(DIED, note=RerunNote("LaterAttempt", "mona", NOW)), False),
        (FAILED, JobOutcome(DIED, note=RerunNote("RunNotOver", "mona", NOW)), True),
        (RUNNING, JobOutcome(DIED), False),
    ],
)
def test_a_job_may_be_run_again_by_hand_while_no_re_run_of_it_is_under_way(job, outcome, may_be):
    assert lacks_rerun(job, outcome) is may_be
    story = [each.full_text for each in job_story(job, "linux-4vcpu", None, outcome, NOW)]
    assert any("gh run rerun" in text for text in story) is may_be
