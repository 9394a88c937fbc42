"""The check run on a deployed commit."""

from __future__ import annotations

import pytest

from ghapp.gate.active_shard import Role
from ghapp.gate.gate_checks import GIVE_UP_SECONDS, GateCheck, GateCheckStage
from ghapp.gate.judgement import ActiveShardSources, Gate
from ghapp.gate.next_steps import NextStep
from ghapp.gate.shard_checks import Check
from ghapp.gate.texts import gate_report, name_of, summary_digest, superseded_report
from ghapp.report.check_run import LONGEST, Conclusion
from ghapp.report.documents import gate_document
from tests.rules.builders import present
from tests.rules.gate.builders import at_work, deploy, gate, on, pink

NOW = 1_790_000_000.0
BEGUN = GateCheck("0" * 40, NOW - 60, "acme/infra", NOW - GIVE_UP_SECONDS)
NOT_ONLINE = gate(at_work())
PASSES = gate([*at_work(), *pink(2)])
BEFORE = gate(at_work(), sources=ActiveShardSources((deploy("pink", "inactive", first_reported_at=NOW + 1),)))


def report_of(of, stage=GateCheckStage.WAITS):
    return gate_report(of, BEGUN, stage)


@pytest.mark.parametrize(
    ("of", "stage", "conclusion", "title"),
    [
        (NOT_ONLINE, GateCheckStage.WAITS, None, "pink does not pass yet: online"),
        (NOT_ONLINE, GateCheckStage.FAILED, Conclusion.FAILURE, "pink does not pass: online"),
        (NOT_ONLINE, GateCheckStage.UNSEEN, Conclusion.TIMED_OUT, "pink could not be checked"),
        (PASSES, GateCheckStage.PASSED, Conclusion.SUCCESS, "pink passes"),
        (PASSES, GateCheckStage.WAITS, None, "pink waits for a list of runners since the deploy"),
        (BEFORE, GateCheckStage.WAITS, None, "pink waits for a list of runners since the deploy"),
        (BEFORE, GateCheckStage.UNSEEN, Conclusion.TIMED_OUT, "pink could not be checked"),
    ],
    ids=[
        "waits",
        "failed",
        "unseen",
        "passed",
        "waits for a list",
        "only a list from before the deploy",
        "no list after the deploy",
    ],
)
def test_the_conclusion_and_the_title_show_the_stage(of, stage, conclusion, title):
    report = report_of(of, stage)
    assert (report.conclusion, report.title) == (conclusion, title)
    assert report.conclusion is not Conclusion.NEUTRAL, "GitHub treats neutral as a success"


@pytest.mark.parametrize(
    ("repository", "title", "why"),
    [
        (None, "pink was deployed again", "the shard was deployed again"),
        ("acme/infra", "pink has its gate elsewhere", "its pool names `acme/infra` for gate checks now"),
        ("", "pink has its gate elsewhere", "its pool names no repository for gate checks now"),
    ],
)
def test_a_superseded_gate_check_is_cancelled_and_says_why(repository, title, why):
    report = superseded_report("linux", "pink", repository)
    assert (report.conclusion, report.title) == (Conclusion.CANCELLED, title)
    assert report.summary == f"The gate of `pink` of `linux` was not seen to pass after this deploy: {why}."


def test_other_names_and_numbers_in_the_same_steps_do_not_change_the_summary_digest():
    few = gate([on("pink", present(), 1), *at_work()])
    many = gate([*(on("pink", present(), number) for number in range(3)), *at_work()])
    assert [each.step for each in few.next] != [each.step for each in many.next]
    assert summary_digest(report_of(few), few) == summary_digest(report_of(many), many)
    none = gate(at_work())
    assert summary_digest(report_of(few), few) != summary_digest(report_of(none), none), (
        "a further step changes the digest"
    )


def test_the_title_of_a_passing_gate_that_settles_says_that_it_must_keep_passing():
    checks = (*PASSES.checks, Check("settled", passed=False, text="for 10 of 60 s"))
    of = Gate("linux", "pink", Role.INACTIVE, checks, (), NOW)
    assert report_of(of).title == "pink passes, and must keep passing"


def test_the_summary_has_the_missing_condition_the_deadline_and_the_effect_on_users():
    summary = report_of(NOT_ONLINE).summary
    assert "until 2026-09-21 14:13:20 UTC" in summary
    assert "0 runners of pink online, 1 needed" in summary
    assert "no outage" in summary


def test_the_text_has_a_row_for_each_check_and_each_step_with_its_warning():
    text = report_of(NOT_ONLINE, GateCheckStage.FAILED).text
    for check in NOT_ONLINE.checks:
        assert f" | {check.name} | " in text
    assert "| **NO** | online |" in text
    for number, step in enumerate(NOT_ONLINE.next, 1):
        assert f"\n{number}. " in text
        assert f"**{step.step}**" in text
    assert text.count("Warning: ") == sum(step.why.count("Warning: ") for step in NOT_ONLINE.next) >= 3


def test_what_only_an_admin_can_do_is_in_the_document_of_the_api_and_not_on_the_commit():
    """Who reads the check run is not known; the document is for who holds a token."""
    unknown = gate([*pink(3), on("purple", present())], sources=ActiveShardSources())
    (step,) = unknown.next
    assert "GHAPP_TOKEN" not in report_of(unknown).text
    assert "GHAPP_TOKEN" in gate_document(unknown)["next"][0]["why"]
    assert step.why.endswith("Change nothing until it is known")


def test_without_a_next_step_there_is_no_heading_of_steps():
    assert (
        "What to do next"
        not in report_of(Gate("linux", "pink", Role.ACTIVE, PASSES.checks, ()), GateCheckStage.PASSED).text
    )


NAMED = "a`|<b>\n@mona #1 ![x](y)"


def test_foreign_text_is_shown_and_cannot_inject_markdown():
    of = Gate(
        "linux",
        "pink",
        Role.INACTIVE,
        (Check("users", True, NAMED, decides=False), Check("online", False, NAMED)),
        (NextStep(NAMED, NAMED),),
    )
    report = report_of(of)
    assert "mona" not in report.title
    for text in (report.summary, report.text):
        assert not {"@mona", "<b>", "![x]", "#1 "} & {each for each in ("@mona", "<b>", "![x]", "#1 ") if each in text}
    assert len([line for line in report.text.splitlines() if line.startswith("|")]) == 4


def test_the_longest_possible_text_fits():
    long = "\u202e" * 10_000
    checks = tuple(Check(f"c{number}", False, long) for number in range(10))
    of = Gate("linux", "pink" * 25, Role.INACTIVE, checks, tuple(NextStep(long, long) for _ in range(9)))
    report = report_of(of)
    assert 0 < len(report.text) <= LONGEST
    assert len(report.summary) <= LONGEST


def test_changes_by_time_alone_do_not_change_the_summary_digest():
    def aged(seconds, passed=False, step="provision pink again"):
        checks = (
            Check("github", True, f"the last complete list is {seconds} s old"),
            Check("online", passed, f"{seconds}"),
        )
        return Gate("linux", "pink", Role.INACTIVE, checks, (NextStep(step, f"after {seconds}"),))

    def digest(of, stage=GateCheckStage.WAITS):
        return summary_digest(report_of(of, stage), of)

    assert digest(aged(1)) == digest(aged(2))
    assert report_of(aged(1)).digest != report_of(aged(2)).digest
    others = [aged(1, passed=True), aged(1, step="stop")]
    assert len({digest(aged(1)), *map(digest, others), digest(aged(1), GateCheckStage.FAILED)}) == 4


def test_the_age_of_the_last_good_list_is_not_shown():
    checks = (Check("github", True, "the last complete list is 3 s old"),)
    assert "3 s ago" not in report_of(Gate("linux", "pink", Role.INACTIVE, checks, ())).text


def test_the_duration_of_githubs_outage_is_shown():
    checks = (Check("github", False, "GitHubUnavailable: the last complete list is 400 s old"),)
    assert (
        "GitHubUnavailable: the last complete list is 400 s old"
        in report_of(Gate("l", "p", Role.UNKNOWN, checks, ())).text
    )


def test_a_warning_that_decides_nothing_changes_the_summary_digest():
    first, second = (
        Gate("linux", "pink", Role.INACTIVE, (Check("one-shard", passed, "text", decides=False),), ())
        for passed in (True, False)
    )
    assert report_of(first).title == report_of(second).title
    assert summary_digest(report_of(first), first) != summary_digest(report_of(second), second)


def test_check_runs_of_several_pools_of_one_repository_have_different_names():
    assert name_of("linux", is_alone=True) == "Runner gate"
    assert name_of("linux", is_alone=False) == "Runner gate: linux"
