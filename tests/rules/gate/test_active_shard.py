"""Which shard is active if sources agree, have no answer, or contradict each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.gate.active_shard import (
    ANSWER_SECONDS,
    CONFIGURED,
    DEPLOY,
    GITHUB,
    MOST_CANARIES,
    MOST_DEPLOYS,
    ActiveShardAnswer,
    Deploy,
    Role,
    SourceStatement,
    answer_states,
    deploys_state,
    jobs_state,
    shard_role,
    switched_at,
    with_deploy,
)
from tests.rules.builders import MICROSECOND, NOW


def deploy(shard, role, at=NOW - 3600):
    return Deploy(shard, Role(role), at, at)


SILENT = SourceStatement(GITHUB, None, "GitHub has no answer: no jobs")
PINK, PURPLE = (SourceStatement(CONFIGURED, each, f"{each}, says the configuration") for each in ("pink", "purple"))
GITHUB_PURPLE = SourceStatement(GITHUB, "purple", "purple, says GitHub")
PINK_IS_NOT = SourceStatement(DEPLOY, None, "not pink, says the last deploy", frozenset({"pink"}))


@pytest.mark.parametrize(
    ("statements", "role", "active", "disagree"),
    [
        ([SILENT], "unknown", None, False),
        ([], "unknown", None, False),
        ([PURPLE, SILENT], "inactive", "purple", False),
        ([PINK, SILENT], "active", "pink", False),
        ([PURPLE, GITHUB_PURPLE], "inactive", "purple", False),
        ([PINK, GITHUB_PURPLE], "unknown", None, True),
        ([PINK, PINK_IS_NOT], "unknown", None, True),
        ([PURPLE, PINK_IS_NOT], "inactive", "purple", False),
        ([SILENT, PINK_IS_NOT], "inactive", None, False),
    ],
    ids=[
        "all without an answer",
        "no source",
        "one names another shard",
        "one names this shard",
        "two agree",
        "two name two shards",
        "one denies the other's answer",
        "a denial that agrees",
        "a denial alone",
    ],
)
def test_the_role_is_known_if_no_source_contradicts_it(statements, role, active, disagree):
    found = shard_role("pink", statements)
    assert (found.role, found.active, found.disagree) == (role, active, disagree)
    assert all(statement.text in found.text for statement in statements)


@given(st.lists(st.sampled_from([SILENT, PINK, PURPLE, GITHUB_PURPLE, PINK_IS_NOT])), st.sampled_from(["pink", "x"]))
def test_a_source_without_an_answer_and_the_order_of_sources_change_nothing(statements, shard):
    found = shard_role(shard, statements)
    again = shard_role(shard, [SILENT, *reversed(statements)])
    assert (found.role, found.active, found.disagree) == (again.role, again.active, again.disagree)
    assert not (found.disagree and found.active)


@pytest.mark.parametrize(
    ("answer", "active", "expected"),
    [
        (None, None, "has no answer: active_command has not answered for 5 minutes"),
        (ActiveShardAnswer("", "it ended with 1", NOW), None, "has no answer: active_command failed, it ended with 1"),
        (ActiveShardAnswer("Pink", "", NOW), "pink", "says that pink is active (active_command)"),
        (ActiveShardAnswer("pink", "", NOW - ANSWER_SECONDS), "pink", "says that pink"),
        (ActiveShardAnswer("pink", "", NOW - ANSWER_SECONDS - MICROSECOND), None, "has no answer"),
        (ActiveShardAnswer("pink", "", NOW + ANSWER_SECONDS + 1), None, "has no answer"),
    ],
    ids=["none", "failed", "answered", "just fresh", "just too old", "from a clock that jumped"],
)
def test_the_answer_of_the_configuration_is_valid_for_five_minutes(answer, active, expected):
    statement = answer_states("active_command", answer, NOW)
    assert statement.active == active
    assert expected in statement.text


@pytest.mark.parametrize(
    ("taken", "canary", "active", "expected"),
    [
        ({}, None, None, "no jobs"),
        ({"pink": 0, "purple": 14}, None, "purple", "GitHub assigned 14 jobs to purple lately"),
        ({"pink": 1, "purple": 14}, None, None, "GitHub has no answer: it assigns jobs to pink and purple at once"),
        ({"pink": 1, "purple": 14}, "pink", "purple", "GitHub assigned 14 jobs to purple lately"),
        ({"pink": 1}, "pink", None, "only pink, which gets canaries, took a job lately"),
        ({"pink": 1}, None, "pink", "GitHub assigned 1 job to pink lately"),
        ({"pink": MOST_CANARIES}, "pink", None, "only pink, which gets canaries"),
        ({"pink": MOST_CANARIES + 1}, "pink", "pink", f"GitHub assigned {MOST_CANARIES + 1} jobs to pink lately"),
        ({"pink": MOST_CANARIES + 1, "purple": 1}, "pink", None, "it assigns jobs to pink and purple at once"),
    ],
    ids=[
        "no jobs",
        "one shard",
        "both",
        "both, one with canaries",
        "canaries alone",
        "one job",
        "canaries",
        "too many to be canaries",
        "too many, and others elsewhere",
    ],
)
def test_github_names_the_one_shard_that_takes_jobs(taken, canary, active, expected):
    statement = jobs_state(taken, canary)
    assert statement.active == active
    assert expected in statement.text


@pytest.mark.parametrize(
    ("deploys", "active", "inactive"),
    [
        ([], None, set()),
        ([deploy("purple", "active")], "purple", set()),
        ([deploy("purple", "active"), deploy("pink", "inactive")], "purple", {"pink"}),
        ([deploy("purple", "active"), deploy("pink", "active")], "pink", set()),
        ([deploy("pink", "active"), deploy("purple", "active", NOW - 9999)], "purple", set()),
        ([deploy("pink", "inactive")], None, {"pink"}),
    ],
    ids=["none", "one active", "one active, one inactive", "taken over", "in the order of reports", "none active"],
)
def test_the_last_deploy_reported_as_active_names_the_active_shard(deploys, active, inactive):
    statement = deploys_state(deploys)
    assert (statement.active, statement.inactive) == (active, inactive)
    assert statement.is_silent is (not deploys)


def test_a_deploy_replaces_the_last_deploy_of_its_shard():
    deploys = with_deploy(with_deploy((), deploy("pink", "inactive")), deploy("purple", "active"))
    again = deploy("pink", "active")
    assert with_deploy(deploys, again) == (deploy("purple", "active"), again)


@given(st.lists(st.text("abcdefghijklmnop", min_size=1, max_size=2)))
def test_a_limited_number_of_deploys_is_kept_with_one_per_shard(shards):
    deploys = ()
    for shard in shards:
        deploys = with_deploy(deploys, deploy(shard, "active"))
    assert len(deploys) <= MOST_DEPLOYS
    assert len({each.shard for each in deploys}) == len(deploys)
    assert not shards or deploys[-1].shard == shards[-1]


@given(st.lists(st.tuples(st.sampled_from("abcdefghijklmnop"), st.sampled_from(["active", "inactive"])), max_size=40))
def test_the_active_shards_deploy_is_never_dropped_for_lack_of_room(expected):
    deploys, active = (), None
    for shard, role in expected:
        deploys = with_deploy(deploys, deploy(shard, role))
        active = shard if role == "active" else None if shard == active else active
        if active is not None:
            assert deploys_state(deploys).active == active


@pytest.mark.parametrize(
    ("deploys", "at"),
    [
        ([], None),
        ([deploy("pink", "inactive", NOW)], None),
        ([deploy("pink", "active", NOW - 9), deploy("purple", "inactive", NOW - 1)], NOW - 9),
        ([deploy("pink", "active", NOW)], NOW),
        ([deploy("pink", "active", NOW + MICROSECOND)], None),
    ],
    ids=["none", "none active", "the last active one", "now", "in the future"],
)
def test_the_time_of_a_switch_is_that_of_the_last_report_of_an_active_deploy(deploys, at):
    assert switched_at(deploys, NOW) == at
