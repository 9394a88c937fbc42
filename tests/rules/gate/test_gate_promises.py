"""The gate keeps its guarantees for every fleet."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ghapp.deaths.cause import Cause
from ghapp.gate.active_shard import ActiveShardAnswer, Role
from ghapp.gate.judgement import STOP, ActiveShardSources, GateRequest
from ghapp.gate.next_steps import StepLevel
from ghapp.gate.terraform_log import TerraformRun
from ghapp.report.documents import gate_document
from tests.rules.builders import NOW, lost, online, present, survey
from tests.rules.gate.builders import check, death, deploy, gate, on, steps, waits

MINUTES = st.sampled_from([None, NOW - 3600, NOW - 601, NOW - 599, NOW - 60, NOW - 1, NOW + 100])
KINDS = st.sampled_from(
    [
        online(),
        online(busy=True),
        online(ephemeral=True),
        online(retired_at=NOW),
        present(),
        present(offline_since=NOW - 1),
        present(first_seen=NOW - 5, was_online=False),
        lost(),
        lost(confirmed_at=None),
    ]
)
COLOURS = st.sampled_from(["pink", "purple", "green"])


@st.composite
def runners(draw):
    made = []
    for number in range(draw(st.integers(0, 6))):
        started, ended = draw(MINUTES), draw(MINUTES)
        changes = {"job_id": 300 + number, "job_started_at": started, "job_ended_at": ended} if started else {}
        made.append(on(draw(COLOURS), draw(KINDS), number)._replace(id=number + 1, **changes))
    return made


DEPLOYS = st.lists(
    st.builds(deploy, COLOURS, st.sampled_from(["active", "inactive"]), MINUTES.filter(bool)), max_size=3
)
SOURCES = st.builds(
    ActiveShardSources,
    DEPLOYS,
    st.sampled_from(["", "active_command"]),
    st.none() | st.builds(ActiveShardAnswer, st.sampled_from(["", "pink", "purple"]), st.just("x"), st.just(NOW)),
)
QUESTIONS = st.builds(
    GateRequest,
    COLOURS,
    st.integers(1, 3),
    st.sampled_from([None, "2.336.0"]),
    st.booleans(),
    st.none()
    | st.sampled_from([TerraformRun(0, 0, 0), TerraformRun(1, 0, 0), TerraformRun(errors=("x",)), TerraformRun()]),
)
SURVEYS = st.sampled_from(
    [survey(), survey(swept_at=NOW - 400), survey(failing_since=NOW, failure="GitHubUnavailable")]
)
DEATHS = st.none() | st.lists(st.builds(death, st.integers(0, 6), st.sampled_from(Cause)), max_size=5)
JOBS = st.lists(st.builds(waits, st.integers(0, 9), st.sampled_from([1.0, 61.0, 600.0])), max_size=3)


@given(runners(), QUESTIONS, SOURCES, SURVEYS, DEATHS, JOBS)
def test_the_gate_keeps_its_guarantees_for_every_fleet(fleet, question, sources, seen, deaths, jobs):
    answer = gate(fleet, question, sources, survey=seen, deaths=deaths, jobs=jobs)
    document = json.loads(json.dumps(gate_document(answer)))
    assert list(document) == ["pool", "shard", "passed", "role", "checks", "next", "check_url"]
    assert document["checks"][0]["name"] == "users"
    if answer.role is Role.UNKNOWN:
        assert not answer.passed
        assert steps(answer) == [STOP]
    if not check(answer, "github").passed:
        assert not answer.passed
        assert not any(each.changes for each in answer.next)
    levels = [each.level for each in answer.next]
    assert levels == sorted(levels), "steps are ordered, cheapest and safest first"
    for each in answer.next:
        assert each.level is StepLevel.BREAK_GLASS or not each.changes or each.changes != answer.active
        assert each.level is not StepLevel.CLEAN_UP or answer.active, (
            "no shard is torn down while no active shard is known"
        )
    if answer.passed:
        good = [
            each
            for each in fleet
            if f"shard:{question.shard}" in each.labels and each.online and each.retired_at is None
        ]
        assert len(good) >= question.min_online
    else:
        assert answer.next, "a failing gate has a next step"
