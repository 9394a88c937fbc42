"""The content of the gate's page as a pure function of the gates."""

from __future__ import annotations

import pytest

from ghapp.gate.active_shard import Deploy, Role
from ghapp.gate.judgement import Gate
from ghapp.gate.next_steps import NextStep
from ghapp.gate.pages import gate_page
from ghapp.gate.shard_checks import Check
from ghapp.gate.texts import NOTHING_TO_DO
from ghapp.settings import PoolSettings
from ghapp.web.gates import PoolGates
from ghapp.web.pages.views.wording import coded
from tests.web.conftest import NOW

GOOD, BAD, SHOWN = (
    Check("online", True, "3 online"),
    Check("online", False, "0 online"),
    Check("users", False, "?", False),
)
FIX, STOP = NextStep("look", "at its runners"), NextStep("stop", "the sources disagree")


def gate(shard="pink", role=Role.INACTIVE, checks=(GOOD,), steps=(), active="purple"):
    return Gate("linux", shard, role, tuple(checks), tuple(steps), active=active)


def shown(*gates, name="linux", deploys=()):
    return PoolGates("acme", PoolSettings("acme", name, shard_label="shard"), gates, tuple(deploys))


PURPLE = gate("purple", Role.ACTIVE)


@pytest.mark.parametrize(
    ("found", "severity", "sentence"),
    [
        ([], "", "No blue/green pool is configured."),
        ([shown()], "", "No shard is known yet: no runner, deploy or setting names one."),
        ([shown(gate())], "good", "The shard passes."),
        ([shown(gate(), PURPLE)], "good", "Both shards pass."),
        ([shown(gate(checks=[GOOD, SHOWN]), PURPLE)], "good", "Both shards pass."),
        ([shown(gate(), gate("green"), PURPLE)], "good", "All 3 shards pass."),
        ([shown(gate(checks=[BAD]), PURPLE)], "attention", "linux/pink (inactive) does not pass."),
        (
            [shown(gate(checks=[BAD]), gate("purple", Role.ACTIVE, [BAD]))],
            "critical",
            "linux/purple (active) does not pass.",
        ),
        (
            [shown(gate(checks=[BAD]), gate("green", checks=[BAD]), PURPLE)],
            "attention",
            "linux/pink and linux/green (inactive) do not pass.",
        ),
        (
            [shown(gate(checks=[BAD])), shown(gate(role=Role.UNKNOWN, steps=[STOP], active=None), name="gpu")],
            "critical",
            "Stop: it is unknown which shard of gpu is active.",
        ),
    ],
    ids=["no pool", "no shard", "one", "both", "shown only", "three", "inactive", "active", "two", "unknown"],
)
def test_the_headline_reports_the_worst_gate(found, severity, sentence):
    page = gate_page(found, NOW)
    assert (page.severity, page.sentence) == (severity, sentence)


@pytest.mark.parametrize("manages", [True, False])
def test_what_only_an_admin_can_do_is_shown_to_who_may_act(manages):
    report = NextStep("report the deploy", "none was reported", by_admin="By hand, an admin runs `curl`")
    unknown = NextStep(STOP.step, "the active shard is unknown", by_admin="An admin reports it by `curl`")
    found = [shown(gate(checks=[BAD], steps=[report])), shown(gate(role=Role.UNKNOWN, steps=[unknown], active=None))]
    failing, stopped = gate_page(found, NOW, manages=manages).pools
    whys = [failing.shards[0].next[0].why, stopped.stop.why]
    assert [[any(part.text == "curl" for part in each) for each in why] for why in whys] == (
        [[False, True], [False, True]] if manages else [[False], [False]]
    )


def test_a_disagreement_of_the_sources_is_a_stop_of_the_whole_pool():
    unknown = [gate(each, Role.UNKNOWN, [BAD], [STOP], active=None) for each in ("pink", "purple")]
    (pool,) = gate_page([shown(*unknown)], NOW).pools
    assert (pool.stop.step, pool.active) == (coded(STOP.step), "")
    assert [each.severity for each in pool.shards] == ["critical", "critical"]


def test_a_failing_shard_with_a_known_role_is_not_a_stop():
    (pool,) = gate_page([shown(gate(checks=[BAD], steps=[FIX]), PURPLE)], NOW).pools
    assert (pool.stop, pool.active) == (None, "purple")
    assert [(each.step, each.why) for each in pool.shards[0].next] == [(coded(FIX.step), (coded(FIX.why),))]


@pytest.mark.parametrize(
    ("check", "mark", "kind"), [(GOOD, "ok", "good"), (BAD, "NO", "stopped"), (SHOWN, "!", "suspect")]
)
def test_a_check_has_the_mark_of_the_command_and_of_the_check_run(check, mark, kind):
    (pool,) = gate_page([shown(gate(checks=[check]))], NOW).pools
    (line,) = pool.shards[0].checks
    assert (line.mark, line.kind, line.text) == (mark, kind, coded(check.text))


def test_the_last_deploy_of_a_shard_is_dated():
    deploys = [Deploy("pink", Role.INACTIVE, NOW - 120, NOW - 60, "abc")]
    (pool,) = gate_page([shown(gate(), PURPLE, deploys=deploys)], NOW).pools
    pink, purple = pool.shards
    assert (pink.deployed.text, pink.ref, purple.deployed) == ("2 min ago", "abc", None)


@pytest.mark.parametrize(
    ("checks", "steps", "idle"),
    [([GOOD], [], NOTHING_TO_DO), ([GOOD], [FIX], ""), ([BAD], [FIX], ""), ([BAD], [], "")],
    ids=["passes", "passes with a step", "fails", "fails without a step"],
)
def test_a_passing_shard_without_steps_has_nothing_to_do(checks, steps, idle):
    (pool,) = gate_page([shown(gate(checks=checks, steps=steps))], NOW).pools
    assert pool.shards[0].idle == idle


def test_names_of_runners_and_numbers_of_visible_jobs_are_links():
    check = Check("online", False, "unhealthy: pink-1, pink-10; 7 of a/pink-1x, 8, 77")
    found = shown(gate(checks=[check]))._replace(runners={"pink-1": 5}, jobs={7})
    (pool,) = gate_page([found], NOW, "/orgs/acme").pools
    (line,) = pool.shards[0].checks
    assert "".join(each.text for each in line.text) == check.text
    linked = [(each.text, each.address) for each in line.text if each.address]
    assert linked == [("pink-1", "/orgs/acme/runners/5"), ("7", "/orgs/acme/jobs/7")]
