"""How often in a row the deploys of a shard failed, as they were reported and judged."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.gate.active_shard import Role
from ghapp.gate.deploy_results import DeployReport, failures_after, failures_now, judged, provision_of, reported
from ghapp.gate.judgement import ActiveShardSources, GateRequest
from ghapp.gate.next_steps import StepLevel
from ghapp.gate.terraform_log import TerraformRun
from tests.rules.builders import MICROSECOND, NOW, present, survey
from tests.rules.gate.builders import at_work, check, deploy, gate, on, pink

STARTUP = 120.0


@dataclass
class Pink:
    """The record of a shard, each minute."""

    now: float = NOW
    last: object = None

    def deploy(self, ref, role=Role.INACTIVE, **changes):
        self.now += 60
        self.last = reported(self.last, DeployReport("pink", role, ref=ref, **changes), self.now)
        return self

    def judge(self, result, after=STARTUP):
        self.now += after
        self.last = judged(self.last, self.now, STARTUP, passed=result == "pass", failed=result == "fail")
        return self

    @property
    def failures(self):
        return failures_now(self.last, self.now, STARTUP)


@pytest.mark.parametrize(
    ("history", "failures"),
    [
        ([], 1),
        (["fail"], 1),
        (["fail", "v2", "fail"], 2),
        (["fail", "v2", "fail", "v3", "fail"], 3),
        (["fail", "v2"], 1),
        (["fail", "v2", "v2", "v2", "fail"], 2),
        (["fail", "pass", "v2", "fail"], 1),
        (["pass", "fail", "v2", "fail"], 1),
        (["pass", "fail"], 1),
        (["v2", "v3", "fail"], 1),
        (["fail", "active", "v2", "fail"], 1),
        (["fail", "v2", "v3", "fail"], 2),
        (["unknown", "v2", "fail"], 1),
    ],
    ids=[
        "just deployed",
        "the first failure",
        "two failures in a row",
        "three failures in a row",
        "deployed again, not judged yet",
        "reported three times",
        "passed in the end",
        "passed, and failed later",
        "passed, and fails now",
        "deployed again before any gate was asked",
        "made active all the same",
        "a deploy that no gate judged in between",
        "GitHub did not answer",
    ],
)
def test_failures_in_a_row_are_counted_from_the_reported_deploys(history, failures):
    shard = Pink().deploy("v1")
    for each in history:
        if each in ("pass", "fail", "unknown"):
            shard.judge(each)
        elif each == "active":
            shard.deploy(None, Role.ACTIVE)
        else:
            shard.deploy(each)
    assert shard.failures == failures


@pytest.mark.parametrize(("after", "counts"), [(STARTUP - 1, False), (STARTUP, True)])
def test_a_shard_whose_runners_had_no_time_to_start_has_not_failed(after, counts):
    shard = Pink().deploy("v1").judge("fail", after)
    assert (shard.last.failed_at is not None) is counts
    assert (failures_after(shard.last) == 1) is counts


def test_a_clock_that_jumped_back_fails_no_deploy():
    assert Pink().deploy("v1").judge("fail", -MICROSECOND).last.failed_at is None


def test_failed_provisioning_is_a_failure_that_no_gate_must_judge():
    shard = Pink().deploy("v1", provision=TerraformRun(errors=("no quota",))).deploy("v2")
    assert (shard.last.failures, shard.judge("fail").failures) == (1, 2)


def test_another_time_of_the_same_ref_is_another_deploy():
    first = reported(None, DeployReport("pink", Role.INACTIVE, NOW - 60, "v1"), NOW)
    assert reported(first, DeployReport("pink", Role.INACTIVE, NOW - 60, "v1"), NOW + 9).first_reported_at == NOW
    assert reported(first, DeployReport("pink", Role.INACTIVE, NOW + 5, "v1"), NOW + 9).first_reported_at == NOW + 9


def test_what_an_earlier_deploy_destroyed_is_compared_with_what_this_one_added():
    shard = Pink().deploy("v1", provision=TerraformRun(0, 0, 4)).deploy("v2", provision=TerraformRun(1, 0, 0))
    assert (shard.last.provision.destroyed_before, shard.last.provision.lacking) == (4, 3)
    assert shard.deploy("v2", provision=TerraformRun(3, 0, 0)).last.provision.lacking == 1, "reported again"
    assert shard.deploy("v3").last.provision == TerraformRun(destroyed_before=1)
    assert provision_of(shard.last, None) is None, "nothing is known of its own run yet"
    assert provision_of(shard.last, TerraformRun(1, 0, 0)).lacking == 0
    assert provision_of(shard.last, TerraformRun(0, 0, 0)).lacking == 1


def test_a_log_in_hand_counts_before_the_reported_run():
    last = Pink().deploy("v1", provision=TerraformRun(2, 0, 0)).last
    assert provision_of(last, TerraformRun(0, 0, 0)).is_futile
    assert provision_of(last, TerraformRun()) == TerraformRun(2, 0, 0)
    assert provision_of(None, None) is None


RUNS = st.sampled_from([None, TerraformRun(1, 0, 0), TerraformRun(0, 0, 2), TerraformRun(errors=("x",))])
ACTS = st.one_of(
    st.tuples(st.sampled_from(["v1", "v2", None]), st.sampled_from([Role.ACTIVE, Role.INACTIVE]), RUNS),
    st.sampled_from(["pass", "fail", "unknown"]),
)


@given(st.lists(st.tuples(ACTS, st.floats(-60, 600)), max_size=20))
def test_no_order_of_reports_and_judgements_counts_more_failures_than_deploys(acts):
    shard, deploys = Pink().deploy("v0"), 1
    for act, seconds in acts:
        if isinstance(act, str):
            shard.judge(act, seconds)
            continue
        before = shard.last
        shard.now += seconds
        shard.deploy(act[0], act[1], provision=act[2])
        deploys += (before.ref, before.deployed_at) != (shard.last.ref, shard.last.deployed_at)
    assert 1 <= shard.failures <= deploys
    assert failures_after(shard.last) <= shard.failures or shard.last.passed_at is not None


def sources(**changes):
    failing = deploy("pink", "inactive", ref="v42", first_reported_at=NOW - STARTUP)._replace(**changes)
    return ActiveShardSources((deploy("purple", "active"), failing))


@pytest.mark.parametrize(
    ("changes", "asked", "level"),
    [
        ({}, 1, StepLevel.SHUT_DOWN),
        ({"failures": 1}, 1, StepLevel.CLEAN_UP),
        ({}, 2, StepLevel.CLEAN_UP),
        ({"failures": 1, "passed_at": NOW - 60}, 1, StepLevel.SHUT_DOWN),
        ({"failures": 1, "deployed_at": NOW - STARTUP + 1}, 1, StepLevel.SHUT_DOWN),
        ({"failures": 1, "deployed_at": NOW - 1, "failed_at": NOW - 1}, 1, StepLevel.CLEAN_UP),
    ],
    ids=["the first", "the second", "the second, by the asker", "passed once", "still starting", "failed provisioning"],
)
def test_a_shard_is_cleaned_up_after_two_failures_in_a_row_and_shut_down_before(changes, asked, level):
    answer = gate([on("pink", present()), *at_work()], GateRequest("pink", failures=asked), sources(**changes))
    found = {each.level for each in answer.next} & {StepLevel.SHUT_DOWN, StepLevel.CLEAN_UP}
    assert found == {level}


@pytest.mark.parametrize(
    ("changes", "asked", "advised"),
    [
        ({}, None, False),
        ({"passed_at": NOW - 60}, None, True),
        ({"passed_at": NOW - 60}, TerraformRun(0, 0, 0), False),
    ],
    ids=["it never passed", "it passed, and failed later", "provisioned again since, by a log in hand"],
)
def test_a_reported_run_that_changed_nothing_is_repeated_if_the_shard_passed_since(changes, asked, advised):
    known = sources(provision=TerraformRun(0, 0, 0), **changes)
    answer = gate([on("pink", present()), *at_work()], GateRequest("pink", provision=asked), known)
    assert check(answer, "provision").passed
    assert ("provision pink again" in [each.step for each in answer.next]) is advised


@pytest.mark.parametrize(
    ("runners", "found", "passed", "failed"),
    [
        (pink(1), {}, True, False),
        ([on("pink", present())], {}, False, True),
        ([on("pink", present())], {"survey": survey(swept_at=NOW - 301)}, False, False),
        ([on("pink", present())], {"survey": survey(swept_at=NOW - STARTUP - 1)}, False, False),
    ],
    ids=["passes", "fails", "GitHub does not answer", "not listed since the deploy"],
)
def test_a_shard_that_could_not_be_judged_has_neither_passed_nor_failed(runners, found, passed, failed):
    answer = gate([*runners, *at_work()], sources=sources(), **found)
    assert (answer.passed, answer.failed) == (passed, failed)


def test_a_shard_whose_role_is_disputed_has_not_failed():
    answer = gate([on("pink", present()), *at_work("pink", 1, first=5)], sources=sources())
    assert not check(answer, "role").passed
    assert not answer.failed
