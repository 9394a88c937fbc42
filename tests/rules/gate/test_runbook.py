"""The gate's steps match the runbook, clause by clause: docs/gate.md, "What to do when it fails"."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ghapp.gate.active_shard import ActiveShardAnswer
from ghapp.gate.judgement import STOP, ActiveShardSources, GateRequest
from ghapp.gate.next_steps import SEVERAL_FAILURES, StepLevel
from ghapp.gate.terraform_log import TerraformRun
from tests.rules.builders import LONG_AGO, NOW, online, present
from tests.rules.gate.builders import DESTROYS, PURPLE_IS_ACTIVE, at_work, deploy, gate, on, pink, steps, why

PAGE = (Path(__file__).parents[3] / "docs" / "gate.md").read_text()
SECTION = PAGE.split("## What to do when it fails\n")[1].split("\n## ")[0]
DOWN = [on("pink", present()), *at_work()]


def levels(answer):
    return [each.level for each in answer.next if each.level is not StepLevel.LOOK]


def changes(answer):
    return [each.step for each in answer.next if each.level is not StepLevel.LOOK]


def provision_it_again():
    assert changes(gate(DOWN))[0] == "provision pink again"


def again_is_futile_unless_something_was_changed_since():
    answer = gate(DOWN, GateRequest("pink", provision=TerraformRun(0, 0, 0)))
    assert StepLevel.PROVISION not in levels(answer)
    assert "does not help unless something was changed since" in why(answer, "shut down pink and start it again")
    changed = gate(DOWN, GateRequest("pink", provision=TerraformRun(0, 0, 0), changed="raised the quota"))
    assert changes(changed)[0] == "provision pink again"
    assert StepLevel.PROVISION in levels(gate(DOWN, GateRequest("pink", provision=TerraformRun(1, 0, 0))))


def clean_up_only_after_two_failures_of_the_same_shard_in_a_row_else_shut_it_down_first():
    assert SEVERAL_FAILURES == 2
    few = levels(gate(DOWN, GateRequest("pink", failures=SEVERAL_FAILURES - 1)))
    assert few[:2] == [StepLevel.PROVISION, StepLevel.SHUT_DOWN]
    assert StepLevel.CLEAN_UP not in few
    several = levels(gate(DOWN, GateRequest("pink", failures=SEVERAL_FAILURES)))
    assert several[:2] == [StepLevel.PROVISION, StepLevel.CLEAN_UP]
    assert StepLevel.SHUT_DOWN not in several


@pytest.mark.parametrize("failures", [1, SEVERAL_FAILURES])
def test_delete_comes_after_shutting_down_or_cleaning_up_and_taint_after_that(failures):
    found = levels(gate(DOWN, GateRequest("pink", failures=failures)))
    assert found[2:] == [StepLevel.DELETE, StepLevel.TAINT, StepLevel.BREAK_GLASS]


def then_delete_what_is_unhealthy():
    assert changes(gate(DOWN))[2] == "delete unhealthy runners: pink-1"


def then_taint_and_provision():
    assert changes(gate(DOWN))[3] == "taint the resources of pink and provision it again"


def each_destructive_step_with_the_confirmation_of_stack_shard_and_role_declared_and_announced():
    destroys = 0
    for failures in (1, SEVERAL_FAILURES):
        for each in gate(DOWN, GateRequest("pink", failures=failures)).next:
            if each.level in DESTROYS:
                destroys += 1
                assert (
                    "First confirm stack linux, shard pink, role inactive; declare the step, and announce it to those whose jobs run there."
                    in each.why
                )
    assert destroys == 6


def where_sources_disagree_look_at_the_metrics():
    answer = gate(
        [*pink(1), *at_work()], sources=ActiveShardSources((), "active_url", ActiveShardAnswer("pink", "", NOW))
    )
    assert steps(answer) == [STOP]
    for metric in ("one-shard", "running-jobs", "ghapp_runners", "ghapp jobs", "/demand"):
        assert metric in answer.next[0].why


def after_a_success_by_hand_verify_flip_shut_down_the_other_and_run_the_pipeline_once():
    result = why(gate(DOWN), "break glass")
    order = [
        "verify it",
        "make pink active",
        "shut down the other shard",
        "run the whole pipeline once for a clean run",
    ]
    places = [result.index(each) for each in order]
    assert places == sorted(places)


def the_same_fault_may_sit_in_the_other_shard():
    assert "The same fault may affect the other shard" in why(gate(DOWN), "break glass")
    active = gate([on("purple", present()), *pink(3)], GateRequest("purple"))
    assert "the same fault may affect pink" in why(active, "run the gate for pink")


def an_agent_started_by_hand_on_the_inactive_shard_takes_jobs():
    answer = gate(DOWN)
    assert "by hand takes users' jobs beside purple, and stopping pink later kills" in why(answer, "break glass")


CLAUSES = {
    "Provision it again.": provision_it_again,
    'If the log says "0 added, 0 changed, 0 destroyed", again is futile, unless something was changed since.': (
        again_is_futile_unless_something_was_changed_since
    ),
    "Clean up only after two failures of the same shard in a row, counted from its reported deploys; else shut it down "
    "first.": clean_up_only_after_two_failures_of_the_same_shard_in_a_row_else_shut_it_down_first,
    "Then delete what is unhealthy.": then_delete_what_is_unhealthy,
    "Then taint, and provision.": then_taint_and_provision,
    "Each destructive step only with the confirmation of stack, shard and role, declared and announced.": (
        each_destructive_step_with_the_confirmation_of_stack_shard_and_role_declared_and_announced
    ),
    "Where sources disagree, stop, and look at the metrics: jobs taken and running by shard, `ghapp_runners`, the "
    "queue.": where_sources_disagree_look_at_the_metrics,
    "After a success by hand: verify, flip, shut down the other, and run the whole pipeline once for a clean run.": (
        after_a_success_by_hand_verify_flip_shut_down_the_other_and_run_the_pipeline_once
    ),
    "The same fault may sit in the other shard.": the_same_fault_may_sit_in_the_other_shard,
    "An agent that is started by hand on the inactive shard takes users' jobs beside the active one; stopping that shard "
    "later kills the job.": an_agent_started_by_hand_on_the_inactive_shard_takes_jobs,
}


@pytest.mark.parametrize("clause", CLAUSES)
def test_the_steps_match_the_clause_of_the_runbook(clause):
    CLAUSES[clause]()


def test_each_clause_of_the_runbook_has_one_test():
    result = re.findall(r"^\d+\. (.+(?:\n    ? ?.+)*)", SECTION, re.MULTILINE)
    assert [re.sub(r"\s+", " ", each) for each in result] == list(CLAUSES)


# Cases in which nothing may be destroyed.


@pytest.mark.parametrize("failures", [1, SEVERAL_FAILURES])
@pytest.mark.parametrize(
    ("runners", "question", "sources"),
    [
        (at_work(), GateRequest("pinc"), PURPLE_IS_ACTIVE),
        (at_work(), GateRequest("green", expect_new=True), PURPLE_IS_ACTIVE),
        ([*pink(3, version="2.336.0"), *at_work()], GateRequest("pink", version="2.335.1"), PURPLE_IS_ACTIVE),
        ([*pink(3, version="2.336.0"), *at_work()], GateRequest("pink", 9, version="2.335.1"), PURPLE_IS_ACTIVE),
        ([*pink(3), *at_work()], GateRequest("pink", canary=True), ActiveShardSources((deploy("purple", "active"),))),
        (DOWN, GateRequest("pink", canary=True), ActiveShardSources((deploy("purple", "active"),))),
    ],
    ids=[
        "a typo",
        "a shard expected to be new",
        "an older version required",
        "an older version required, and too few online",
        "a canary without a reported deploy",
        "a canary without a reported deploy, and none online",
    ],
)
def test_no_step_is_destructive(runners, question, sources, failures):
    answer = gate(runners, GateRequest(**{**fields_of(question), "failures": failures}), sources)
    assert not answer.passed
    assert answer.next
    assert not DESTROYS & set(levels(answer))


def fields_of(question):
    return {name: getattr(question, name) for name in question.__slots__}


def test_a_standby_shard_that_took_a_canary_after_the_switch_is_not_changed():
    answer = gate([*pink(2), *at_work("pink", 1, ago=60, first=5), *at_work()], GateRequest("purple"))
    assert steps(answer) == ["run the gate for pink"]


def test_a_request_that_does_not_fit_the_shard_leads_to_no_change():
    older = gate([*pink(3, version="2.336.0"), *at_work()], GateRequest("pink", version="2.335.1"))
    assert steps(older) == ["check the runner version of pink"]
    assert "newer than 2.335.1: require that version instead" in older.next[0].why
    never = gate(
        [*pink(3), *at_work()], GateRequest("pink", canary=True), ActiveShardSources((deploy("purple", "active"),))
    )
    assert steps(never) == ["report the deploy of pink"]


@pytest.mark.parametrize(
    ("asks", "runs", "is_older"),
    [
        ("2.336.0", "2.335.1", False),
        ("2.9.0", "2.10.0", True),
        ("2.336", "2.336.0", True),
        ("2.335.1", None, False),
        ("latest", "2.336.0", False),
    ],
)
def test_versions_are_compared_as_numbers(asks, runs, is_older):
    answer = gate([*pink(3, version=runs), *at_work()], GateRequest("pink", version=asks))
    assert (steps(answer) == ["check the runner version of pink"]) is is_older


def test_a_request_for_the_active_shard_before_a_switch_changes_no_standby_shard():
    answer = gate([*pink(3), *at_work()], GateRequest("purple"))
    assert answer.passed
    assert steps(answer) == ["run the gate for pink"]
    assert [each.changes for each in answer.next] == [""]
    assert "curl" not in answer.next[0].why, "no command that reports a switch is to be pasted by mistake"


def test_the_other_shard_is_drained_after_a_reported_switch():
    sources = ActiveShardSources((deploy("pink", "inactive"), deploy("purple", "active")))
    answer = gate([*pink(3), on("purple", online())], GateRequest("purple"), sources)
    assert steps(answer) == ["drain pink, then stop it"]


PINK, PURPLE, ACTIVE_PINK = deploy("pink", "inactive"), deploy("purple", "active"), deploy("pink", "active")


@pytest.mark.parametrize(
    ("deploys", "of_pink", "of_purple"),
    [
        ((), [], []),
        ((PURPLE,), [], []),
        ((PINK, PURPLE), [], ["drain pink, then stop it"]),
        ((ACTIVE_PINK, PURPLE), [], ["drain pink, then stop it"]),
        ((PURPLE, PINK), ["make pink active in place of purple"], ["run the gate for pink"]),
        ((PURPLE._replace(reported_at=LONG_AGO + 1), PINK), [], []),
        ((PINK,), ["make pink active in place of purple"], ["run the gate for pink"]),
    ],
    ids=[
        "peace",
        "only the switch",
        "switched since",
        "switched back",
        "open",
        "reports its role after the switch",
        "open, and no switch known",
    ],
)
def test_a_passing_shard_has_steps_only_while_a_deploy_is_open_or_a_shard_is_left_over(deploys, of_pink, of_purple):
    sources = ActiveShardSources(deploys, "active_url", ActiveShardAnswer("purple", "", NOW))
    for shard, expected in (("pink", of_pink), ("purple", of_purple)):
        answer = gate([*pink(3), on("purple", online())], GateRequest(shard), sources)
        assert answer.passed
        assert steps(answer) == expected


def test_a_third_shard_without_an_open_deploy_is_a_standby_of_which_nothing_is_asked():
    answer = gate([*pink(1), on("green", online()), *at_work()])
    assert steps(answer) == ["make pink active in place of purple"]


def test_in_an_outage_a_standby_that_passes_may_take_over_without_a_reported_deploy():
    sources = ActiveShardSources((PURPLE,))
    answer = gate([*pink(3), on("purple", present())], sources=sources)
    assert steps(answer) == ["make pink active in place of purple"]


@pytest.mark.parametrize(
    ("deploys", "purple", "is_proposed"),
    [
        ((PURPLE,), at_work(), False),
        ((PINK, PURPLE), at_work(), False),
        ((PURPLE, PINK), at_work(), True),
        ((PURPLE,), [on("purple", present())], True),
    ],
    ids=["peace", "switched since", "an open deploy", "an outage"],
)
def test_the_gate_of_a_failing_active_shard_names_another_one_only_where_that_one_s_gate_proposes_the_switch(
    deploys, purple, is_proposed
):
    sources = ActiveShardSources(deploys, "active_url", ActiveShardAnswer("purple", "", NOW))
    fleet = [*pink(20), *purple]
    of_purple, of_pink = (gate(fleet, GateRequest(each, 20), sources) for each in ("purple", "pink"))
    assert (of_purple.passed, of_pink.passed) == (False, True)
    assert ("run the gate for pink" in steps(of_purple)) is is_proposed
    assert ("make pink active in place of purple" in steps(of_pink)) is is_proposed


def test_the_deletion_of_unhealthy_runners_names_the_jobs_that_it_spares():
    step = "delete unhealthy runners: pink-1"
    assert why(gate(DOWN), step).startswith("if the steps above did not help; then provision. First confirm")
    assert why(gate(DOWN), step).endswith("no other running job is known on pink.")
    busy = on("pink", online(busy=True, job_id=7, job_started_at=NOW - 3600), 2)
    assert why(gate([*DOWN, busy], GateRequest("pink", 2)), step).endswith(
        "delete only these; deleting more would interrupt 1 running job on other runners of pink: 7."
    )
