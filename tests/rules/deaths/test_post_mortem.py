"""Which jobs failed because their runner died, and the post-mortem that developers read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ghapp.deaths.cause import Cause, needed_change, rerun_label
from ghapp.deaths.death import Correlation, DeadJob, Death, blames_the_platform
from ghapp.deaths.github_words import JobWords
from ghapp.deaths.job_outcome import RUNS_AGAIN, JobStep, LaterAttempt
from ghapp.deaths.job_story import StoryEvent, StoryStep
from ghapp.deaths.post_mortem import (
    LOOKS_AFTER_SECONDS,
    JobFacts,
    failed_for_it,
    has_full_context,
    job_at_death,
    may_have_failed_for_it,
    may_have_undelivered_job,
    next_look_after,
    wants_lines,
)
from ghapp.deaths.texts import (
    NOT_THE_CAUSE,
    RERUN,
    RERUN_OF_CHECK,
    details,
    last_line,
    post_mortem_report,
)
from ghapp.report.check_run import LONGEST, Conclusion
from tests.rules.builders import MICROSECOND, NOW, lost

LOST, STOPPED = JobWords(lost=True), JobWords(shutdown=True)
KILLED_TOO = JobWords(shutdown=True, killed=True)
NO_WORDS = JobWords()
GFM = MarkdownIt("commonmark", {"html": True}).enable("table")


def death(**changes):
    """A runner that was killed on its host while it ran a job."""
    worst = Death(
        runner_name="linux-x7k2p",
        pod="linux-x7k2p",
        node="node-1",
        at=NOW,
        exit_code=137,
        signal=9,
        reason="OOMKilled",
        cause=Cause.HOST_OOM,
        advice="Raise `resources.limits.memory`.",
        namespace="runners",
        pod_uid="uid-1",
        job=DeadJob(42, "acme/api", "test", "a" * 40, "failure"),
    )
    return worst._replace(**changes)


def job(**changes):
    """A job that failed when its lease expired, without a failed step."""
    worst = JobFacts(42, "test", "a" * 40, over=True, conclusion="failure", completed_at=NOW + 600)
    return worst._replace(**changes)


@pytest.mark.parametrize(
    ("conclusion", "words", "cause", "step_failed", "failed"),
    [
        ("failure", LOST, Cause.HOST_OOM, False, True),
        ("failure", NO_WORDS, Cause.HOST_OOM, False, True),
        ("failure", NO_WORDS, Cause.HOST_OOM, True, False),
        ("failure", LOST, Cause.HOST_OOM, True, False),
        ("failure", STOPPED, Cause.TERMINATED, True, False),
        ("failure", JobWords(killed=True), Cause.TERMINATED, True, False),
        ("failure", KILLED_TOO, Cause.TERMINATED, 1, True),
        ("failure", KILLED_TOO, Cause.TERMINATED, 2, False),
        ("failure", LOST, Cause.CLEAN_EXIT, False, False),
        ("cancelled", NO_WORDS, Cause.HOST_OOM, False, False),
        ("cancelled", LOST, Cause.HOST_OOM, False, True),
        ("cancelled", NO_WORDS, Cause.TERMINATED, False, False),
        ("cancelled", STOPPED, Cause.TERMINATED, False, True),
        ("timed_out", NO_WORDS, Cause.HOST_OOM, False, True),
        ("timed_out", JobWords(stopped=True), Cause.HOST_OOM, False, False),
        ("cancelled", JobWords(shutdown=True, stopped=True), Cause.TERMINATED, False, True),
        ("success", LOST, Cause.HOST_OOM, False, False),
        ("skipped", LOST, Cause.HOST_OOM, False, False),
        ("neutral", LOST, Cause.HOST_OOM, False, False),
        ("action_required", LOST, Cause.HOST_OOM, False, False),
    ],
)
def test_a_job_failed_because_of_its_runners_death(conclusion, words, cause, step_failed, failed):
    dead = death(cause=cause, job=death().job._replace(conclusion=conclusion))
    ended = job(conclusion=conclusion, step_failed=bool(step_failed), failed_steps=int(step_failed))
    assert failed_for_it(dead, ended, words) is failed


@pytest.mark.parametrize(
    ("reason", "failed"), [("Evicted", True), ("StorageLimitExceeded", False), ("DeadlineExceeded", False)]
)
def test_a_job_cancelled_at_its_pods_eviction_failed_because_of_the_eviction(reason, failed):
    dead = death(cause=Cause.TERMINATED, reason=reason, job=death().job._replace(conclusion="cancelled"))
    assert failed_for_it(dead, job(conclusion="cancelled"), NO_WORDS) is failed


def test_a_job_whose_result_the_runner_logged_did_not_fail_because_of_the_runner():
    found = death(runner_log=("2026-11-20 12:00:00Z: Job test completed with result: Failed",))
    assert failed_for_it(found, job(), NO_WORDS) is False


@pytest.mark.parametrize(
    ("exit_code", "before", "may"),
    [
        (137, 60.0, True),
        (137, 60.0 + MICROSECOND, False),
        (None, 900.0, True),
        (None, 900.0 + MICROSECOND, False),
    ],
)
def test_a_job_over_long_before_the_death_did_not_fail_because_of_it(exit_code, before, may):
    dead = death(exit_code=exit_code)
    assert may_have_failed_for_it(dead, job(completed_at=NOW - before)) is may
    assert failed_for_it(dead, job(completed_at=NOW - before), LOST) is may


def test_github_is_not_queried_for_a_clean_exit():
    assert may_have_failed_for_it(death(cause=Cause.CLEAN_EXIT), job()) is False
    assert may_have_failed_for_it(death(), job()) is True


def test_a_job_that_is_not_over_has_not_failed():
    assert may_have_failed_for_it(death(), job(over=False, conclusion="", completed_at=None)) is False
    assert may_have_failed_for_it(death(), job(completed_at=None)) is True


@pytest.mark.parametrize(
    ("changes", "exit_code", "found"),
    [
        ({"job_id": None}, 137, None),
        ({"job_started_at": None, "job_ended_at": None}, 137, 42),
        ({"job_started_at": NOW - 3600, "job_ended_at": None}, 137, 42),
        ({"job_started_at": NOW, "job_ended_at": None}, 137, 42),
        ({"job_started_at": NOW + 1 - MICROSECOND, "job_ended_at": None}, 137, 42),
        ({"job_started_at": NOW + 1, "job_ended_at": None}, 137, None),
        ({"job_started_at": NOW + 1, "job_ended_at": None}, None, None),
        ({"job_started_at": NOW - 40, "job_ended_at": None, "first_seen": NOW + 1}, 137, None),
        ({"job_started_at": NOW - 3600, "job_ended_at": NOW - 60}, 137, 42),
        ({"job_started_at": NOW - 3600, "job_ended_at": NOW - 60.1}, 137, None),
        ({"job_started_at": NOW - 3600, "job_ended_at": NOW - 900}, None, 42),
        ({"job_started_at": NOW - 3600, "job_ended_at": NOW - 900.1}, None, None),
        ({"job_started_at": NOW - 3600, "job_ended_at": NOW + 600}, 137, 42),
    ],
    ids=[
        "no job",
        "neither start nor end known",
        "in progress",
        "started at the death",
        "started within the second of the death",
        "started later: the next runner's",
        "started after the pod was found missing",
        "of a registration that was seen only later",
        "ended a moment before",
        "ended before",
        "ended before the pod was found missing",
        "ended long before the pod was found missing",
        "ended when its lease expired",
    ],
)
def test_the_job_of_a_runner_at_its_death(changes, exit_code, found):
    assert job_at_death(lost(**{"job_id": 42, **changes}), death(exit_code=exit_code)) == found


@pytest.mark.parametrize(
    ("changes", "wants"),
    [
        ({}, True),
        ({"cause": Cause.CLEAN_EXIT, "reason": "Completed"}, False),
        ({"cause": Cause.CLEAN_EXIT, "reason": "CompletedSilently"}, True),
        ({"cause": Cause.CLEAN_EXIT, "reason": "CompletedSilently", "runner_log": ("bye",)}, False),
    ],
)
def test_a_clean_exit_needs_no_more_lines_unless_its_log_is_empty(changes, wants):
    assert wants_lines(death(**changes)) is wants


@pytest.mark.parametrize(
    ("changes", "seconds", "may_have"),
    [
        ({}, 0, True),
        ({}, 15 - MICROSECOND, True),
        ({}, 15, False),
        ({"ahead": -60.0}, 60, True),
        ({"ahead": 60.0}, 0, False),
        ({"job": DeadJob(7)}, 0, True),
        ({"job": DeadJob(7, "acme/api")}, 0, False),
        ({"pod": ""}, 0, False),
        ({"cause": Cause.CLEAN_EXIT}, 0, False),
        ({"runner_log": ("Running job: test",)}, 0, True),
        ({"runner_log": ("Listening for Jobs",)}, 0, False),
        ({"runner_log": ("Running job: test", "Job test completed with result: Failed")}, 0, False),
    ],
)
def test_a_job_may_be_delivered_within_15_seconds_after_its_runners_end(changes, seconds, may_have):
    assert may_have_undelivered_job(death(**{"job": None} | changes), NOW + seconds) is may_have


def test_the_context_of_a_death_is_complete_75_seconds_later():
    assert has_full_context(death(), NOW + 75) is True
    assert has_full_context(death(), NOW + 75 - MICROSECOND) is False


def test_the_second_check_has_the_full_context_and_the_third_an_expired_lease():
    assert LOOKS_AFTER_SECONDS[0] > 75
    assert sum(LOOKS_AFTER_SECONDS[:2]) > 600
    assert [next_look_after(check) for check in range(-1, 6)] == [None, *LOOKS_AFTER_SECONDS, None]


def test_the_report_explains_the_death_and_requires_action_if_the_next_attempt_would_fail_too():
    report = post_mortem_report(death(), death().job, is_private=True)
    assert report.title == "The runner was killed because its container reached its memory limit"
    assert report.summary == (
        "The runner was killed because its container reached its memory limit: `linux-x7k2p` on node `node-1`. "
        "No line of your code failed, but the job and the runner together needed more memory than their limit.\n\n"
        "Job: `test`"
    )
    assert (report.conclusion, report.actions) == (Conclusion.ACTION_REQUIRED, ())


@pytest.mark.parametrize(
    ("again", "title", "first"),
    [
        (
            LaterAttempt(2, 9, "ended on linux-2: success", "succeeded"),
            "The runner was stopped from outside; attempt 2 succeeded",
            "The job was run again. Attempt 2 of the run: ended on linux-2: success.",
        ),
        (
            LaterAttempt(3, 10, "ended on a_b: x", "ended"),
            "The runner was stopped from outside; attempt 3 ended",
            "The job was run again. Attempt 3 of the run: ended on <code>a&#95;b&#58;</code> x.",
        ),
        (
            LaterAttempt(2, 9, "queued"),
            "The runner was stopped from outside; run again as attempt 2",
            "The job was run again as attempt 2 of the run.",
        ),
    ],
    ids=["ended", "names of anybody", "goes on"],
)
def test_the_report_of_a_job_that_was_run_again_begins_with_how_that_stands(again, title, first):
    """That the job can be re-run no longer helps, and an attempt that starts causes no post."""
    dead = death(cause=Cause.TERMINATED, reason="Error")
    report = post_mortem_report(dead, dead.job, is_private=True, again=again)
    assert report.title == title
    stands, happened = report.summary.split("\n\n")[:2]
    assert stands == first
    assert happened.endswith("on node `node-1`. It was not your code: the job was interrupted.")
    own = post_mortem_report(dead, dead.job, is_private=True, again=again, is_cause=False)
    assert own.title == NOT_THE_CAUSE.removesuffix(".")


def test_a_job_that_was_run_again_needs_no_person():
    report = post_mortem_report(death(), death().job, is_private=True, again=LaterAttempt(2))
    assert report.conclusion is Conclusion.NEUTRAL


def test_a_job_that_used_up_its_limit_needs_a_person():
    report = post_mortem_report(
        death(cause=Cause.TERMINATED, reason="StorageLimitExceeded"), death().job, is_private=True
    )
    assert report.conclusion is Conclusion.ACTION_REQUIRED
    assert "run again unchanged, it ends in the same way" in report.summary


@pytest.mark.parametrize("cause", [each for each in Cause if not needed_change(each, "")])
def test_all_other_post_mortems_are_neutral(cause):
    assert post_mortem_report(death(cause=cause), death().job, is_private=True).conclusion is Conclusion.NEUTRAL


def test_what_to_do_comes_before_the_button_which_says_that_nothing_was_changed():
    step = JobStep("change the job so that it `eats` less", "of no interest here", "https://github.com/acme/api/job/42")
    report = post_mortem_report(death(), death().job, is_private=True, steps=[step], has_button=True)
    line = "1. [Change the job so that it `eats` less.](https://github.com/acme/api/job/42)"
    assert f"than their limit.\n\nWhat to do:\n\n{line}\n\n" in report.summary
    assert report.summary.index(line) < report.summary.index('The button "Re-run anyway" runs')
    assert [each.label for each in report.actions] == ["Re-run anyway"]
    assert report.summary.count(f"{RUNS_AGAIN}. {RERUN_OF_CHECK}") == 1
    assert RERUN_OF_CHECK not in post_mortem_report(death(), death().job, is_private=True, steps=[step]).summary


@pytest.mark.parametrize("reason", ["", "OOMKilled", "StorageLimitExceeded", "DeadlineExceeded"])
@pytest.mark.parametrize("cause", Cause)
def test_the_button_fits_into_githubs_limit_and_says_whether_something_is_to_be_changed_first(cause, reason):
    label = rerun_label(cause, reason)
    assert (label == RERUN.label) is not bool(needed_change(cause, reason))
    assert len(label) <= 20


def test_the_job_is_linked_only_by_a_plain_address():
    page = "https://github.com/acme/api/actions/runs/1/job/42"
    linked = death().job._replace(html_url=page)
    assert post_mortem_report(death(), linked, is_private=True).summary.endswith(f"Job: [`test`]({page})")
    here = "https://ghapp.example/orgs/acme/jobs/7"
    report = post_mortem_report(death(), linked, is_private=True, page=here)
    assert report.summary.endswith(f"Job: [`test`]({page}); where it is now: [its page]({here})")
    for forged in ("javascript:alert(1)", page + ") [x](https://a.example"):
        report = post_mortem_report(death(), linked._replace(html_url=forged), is_private=True)
        assert report.summary.endswith("Job: `test`")


@pytest.mark.parametrize(
    ("at", "text", "line"),
    [
        (NOW, "ended: failure", "- 2026-09-21 14:13:20 UTC: ended: failure"),
        (None, "no re-run is known", "- No re-run is known"),
        (NOW, "GitHub refused it: too [old](x)", "- 2026-09-21 14:13:20 UTC: GitHub refused it: too <code>&#91;old&#93;&#40;x&#41;</code>"),
    ],
)  # fmt: skip
def test_the_jobs_story_is_listed_an_event_a_line(at, text, line):
    story = [StoryEvent(NOW - 60, StoryStep.QUEUED, "queued"), StoryEvent(at, StoryStep.ENDED, text)]
    summary = post_mortem_report(death(), death().job, is_private=True, story=story).summary
    assert f"- 2026-09-21 14:12:20 UTC: queued\n{line}\n" in summary


def test_the_rerun_button_is_shown_if_it_is_enabled():
    dead = death(cause=Cause.TERMINATED, reason="Error")
    assert post_mortem_report(dead, dead.job, is_private=True, has_button=True).actions == (RERUN,)
    assert [len(RERUN.label) <= 20, len(RERUN.description) <= 40, len(RERUN.identifier) <= 20] == [True] * 3


def test_a_death_without_a_pod_has_no_rows_of_a_container():
    text = post_mortem_report(death(pod="", exit_code=None, signal=None), death().job, is_private=True).text
    assert [word in text for word in ("Exit code", "Signal", "Pod", "Node")] == [False] * 4


def test_common_facts_of_deaths_are_shown_without_the_node_in_public():
    common = Correlation(3, 4, NOW - 600)
    private, public = (
        post_mortem_report(death(pool="vm"), death().job, is_private=show, common=common) for show in (True, False)
    )
    assert "- It is death number 3 on node `node-1` within seven days." in private.text
    assert "- It is death number 3 on its node within seven days." in public.text
    assert "- 4 runners of pool `vm` died since 2026-09-21 14:03:20 UTC." in public.text
    alone = post_mortem_report(death(), death().job, is_private=True, common=Correlation(1, 2, NOW))
    assert "\n- " not in alone.text


LINE = "last line of the runner's log: heap 7.4 GiB"


@pytest.mark.parametrize(
    ("cause", "limit", "line", "shown"),
    [
        (Cause.HOST_OOM, "8Gi", "heap 7.4 GiB", ("memory: limit 8Gi, reached", LINE)),
        (
            Cause.GUEST_OOM_OR_KILL,
            "8Gi",
            "heap 7.4 GiB",
            ("memory: limit 8Gi; the use at its end is not known", LINE),
        ),
        (Cause.TERMINATED, "8Gi", "heap 7.4 GiB", (LINE,)),
        (Cause.HOST_OOM, "", "heap 7.4 GiB", (LINE,)),
        (Cause.HOST_OOM, "8Gi", "", ("memory: limit 8Gi, reached",)),
        ("of-another-version", "8Gi", "", ()),
    ],
)
def test_a_developer_sees_the_memory_limit_where_memory_ran_out_and_the_last_line_of_the_log(cause, limit, line, shown):
    assert details(cause, limit, line) == shown


@pytest.mark.parametrize(
    ("log", "line"), [((), ""), (("a", "b"), "b"), (("a", "", " \t"), "a"), (("", ""), "")], ids=str
)
def test_the_last_line_of_a_log_is_the_last_that_has_a_text(log, line):
    assert last_line(log) == line


def test_the_text_has_the_facts_and_both_logs():
    dead = death(runner_log=("Running job: test",), host_log=("kernel: Out of memory",))
    assert post_mortem_report(dead, dead.job, is_private=True).text == (
        "### For the platform team\n\nRaise `resources.limits.memory`.\n\n"
        "| Fact | Value |\n| --- | --- |\n| Cause | `host-oom` |\n| Job | `test` |\n| Pool | – |\n| Runner | `linux-x7k2p` |\n"
        "| Ended | 2026-09-21 14:13:20 UTC |\n| Exit code | 137 |\n| Signal | 9 |\n| Reason | `OOMKilled` |\n"
        "| Pod | `runners/linux-x7k2p` |\n| Node | `node-1` |\n\n"
        "### Last lines of the runner's log\n\n```text\nRunning job: test\n```\n\n"
        "### Log of its node, from one minute before to one minute after\n\n```text\nkernel: Out of memory\n```"
    )


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({"memory_limit": "8Gi"}, "| Memory | limit `8Gi`, reached |"),
        ({"memory_limit": "8Gi", "cause": Cause.CRASH}, "| Memory | limit `8Gi`; the use at its end is not known |"),
        ({}, None),
    ],
    ids=["killed-at-its-limit", "another-cause", "no-limit"],
)
def test_the_known_memory_limit_is_shown(changes, row):
    lines = post_mortem_report(death(**changes), death().job, is_private=False).text.splitlines()
    assert [each for each in lines if each.startswith("| Memory")] == ([row] if row else [])


def test_the_image_is_shown_to_members_only():
    private, public = (
        post_mortem_report(death(image="runner:7"), death().job, is_private=show).text for show in (True, False)
    )
    assert ("| Image | `runner:7` |" in private, "runner:7" in public) == (True, False)


def test_a_death_shown_by_the_job_is_reported_though_the_log_has_a_result():
    finished = death(runner_log=("2026-11-20 12:01:00Z: Job build completed with result: Failed",), exit_code=0)
    assert not blames_the_platform(finished)
    assert blames_the_platform(finished._replace(reason="StepLeftOpen"))


def test_an_unseen_end_has_neither_exit_code_nor_signal():
    unseen = death(exit_code=None, signal=None, reason="", node="", cause=Cause.VANISHED)
    report = post_mortem_report(unseen, unseen.job, is_private=True)
    assert "`linux-x7k2p`." in report.summary
    assert "| Exit code | – |\n| Signal | – |\n| Reason | – |" in report.text
    assert "| Node | – |" in report.text


def test_a_public_report_shows_nothing_about_the_host_and_no_log():
    dead = death(runner_log=("Running job: test",), host_log=("another tenant's pod",))
    report = post_mortem_report(dead, dead.job, is_private=False)
    shown = report.title + report.summary + report.text
    assert [word in shown for word in ("node-1", "runners/", "Running job", "another tenant")] == [False] * 4
    assert report.text.endswith("are not shown in a public one: see `ghapp explain` or the API.")


EVIL = st.text(st.sampled_from("|`\\\n\r\t<>&@#[]()*_~!-:;. \u202e\u2028a1") | st.characters(), max_size=40)


@given(EVIL, EVIL, EVIL, st.lists(EVIL, max_size=5))
def test_foreign_text_cannot_inject_markdown(name, node, reason, log):
    dead = death(runner_name=name, node=node, reason=reason, pod=name, runner_log=tuple(log), host_log=tuple(log))
    report = post_mortem_report(dead, dead.job._replace(name=reason), is_private=True)
    kinds = [token.type for token in GFM.parse(report.text) if token.level == 0]
    logs = ["heading_open", "inline", "heading_close", "fence"] if log else []
    outside = [kind for kind in kinds if kind != "inline"]
    head = ["heading_open", "heading_close", "paragraph_open", "paragraph_close"]
    assert outside == [*head, "table_open", "table_close", *[kind for kind in logs * 2 if kind != "inline"]]
    paragraph = GFM.parse(report.summary)
    assert [token.type for token in paragraph] == ["paragraph_open", "inline", "paragraph_close"] * 2
    words = {child.content for child in paragraph[1].children if child.type == "html_inline"}
    assert words <= {"<code>", "</code>"}
    assert {child.type for child in paragraph[1].children} <= {"text", "text_special", "code_inline", "html_inline"}


@pytest.mark.parametrize("character", ["x", "|", "`", "😀"])
def test_the_longest_report_fits_into_githubs_limits(character):
    lines = tuple(character * 1000 for _ in range(200))
    dead = death(
        runner_name=character * 1000,
        pod=character * 1000,
        node=character * 1000,
        reason=character * 1000,
        runner_log=lines,
        host_log=lines,
    )
    report = post_mortem_report(dead, dead.job._replace(name=character * 1000), is_private=True)
    assert (len(report.text) <= LONGEST, len(report.summary) <= LONGEST) == (True, True)
    assert len(report.text) > 47_000, "as many whole lines as fit"
