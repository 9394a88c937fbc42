"""From a deploy to the gate's answer: when a gate check begins, stays open, and ends."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ghapp.gate.active_shard import Deploy, Role
from ghapp.gate.gate_checks import (
    FORGET_SECONDS,
    GIVE_UP_SECONDS,
    REFRESH_SECONDS,
    GateCheck,
    GateCheckStage,
    commit_of,
    is_to_be_posted,
    observed,
    open_gate_checks,
    place_of,
    posted_check,
    restarted,
    subject_of,
    superseded,
)
from ghapp.gate.judgement import Gate
from ghapp.gate.shard_checks import Check

NOW = 1_790_000_000.0
SHA = "0123456789abcdef0123456789abcdef01234567"
OTHER_SHA = SHA[::-1]
PLACE = place_of("linux", "pink")


@dataclass
class Pool:
    name: str = "linux"
    deploy_repository: str | None = "acme/infra"


def deploy(ref=SHA, deployed_at=NOW - 60, reported_at=NOW - 50, shard="pink", role=Role.INACTIVE):
    return Deploy(shard, role, deployed_at, reported_at, ref)


def begun(**changes):
    return GateCheck(SHA, NOW - 60, "acme/infra", NOW - 50)._replace(**changes)


def gate(*, passed=True, at=NOW, **changes):
    checks = (Check("online", passed, "text"),)
    return Gate("linux", "pink", Role.INACTIVE, checks, (), at, **changes)


@pytest.mark.parametrize(
    ("ref", "commit"),
    [
        (SHA, SHA),
        (SHA.upper(), SHA),
        ("", None),
        ("v42", None),
        (SHA[:39], None),
        (SHA + "0", None),
        ("g" + SHA[1:], None),
        (SHA + "\n", None),
    ],
    ids=["full", "in capitals", "none", "a tag", "39", "41", "no hex", "with a line break"],
)
def test_only_a_full_sha_names_a_commit(ref, commit):
    assert commit_of(ref) == commit


@pytest.mark.parametrize(
    ("pool", "latest", "known", "is_open"),
    [
        (Pool(), deploy(), None, True),
        (Pool(deploy_repository=None), deploy(), None, False),
        (Pool(), deploy("v42"), None, False),
        (Pool(), deploy(), begun(), True),
        (Pool(), deploy(), begun(over=True), False),
        (Pool(), deploy(role=Role.ACTIVE, reported_at=NOW), begun(over=True), False),
        (Pool(), deploy(deployed_at=NOW - 59), begun(over=True), True),
        (Pool(), deploy(OTHER_SHA), begun(over=True), True),
        (Pool("mac"), deploy(), begun(over=True), True),
        (Pool(), deploy(shard="purple"), begun(over=True), True),
        (Pool(deploy_repository="acme/other"), deploy(), begun(over=True), True),
    ],
    ids=[
        "just reported",
        "no repository to post to",
        "no commit",
        "begun",
        "over",
        "reported again in another role",
        "deployed again",
        "another commit",
        "another pool",
        "another shard",
        "another repository",
    ],
)
def test_a_gate_check_stays_open_until_it_is_over(pool, latest, known, is_open):
    found = open_gate_checks(pool, [latest], {} if known is None else {PLACE: known}, NOW)
    assert [latest for latest, _ in found] == ([latest] if is_open else [])


def test_a_new_gate_check_begins_at_the_report_without_earlier_state():
    ((_, found),) = open_gate_checks(Pool(), [deploy()], {PLACE: begun(sha=OTHER_SHA, check_run=1, private=True)}, NOW)
    assert found == GateCheck(SHA, NOW - 60, "acme/infra", NOW - 50)


def test_a_gate_check_never_begins_in_the_future():
    ((_, found),) = open_gate_checks(Pool(), [deploy(reported_at=NOW + 86_400)], {}, NOW)
    assert found.began_at == NOW


@pytest.mark.parametrize(
    ("ago", "known", "is_open"),
    [
        (GIVE_UP_SECONDS + FORGET_SECONDS - 0.1, None, True),
        (GIVE_UP_SECONDS + FORGET_SECONDS, None, False),
        (GIVE_UP_SECONDS + FORGET_SECONDS, {"check_run": 7}, True),
        (GIVE_UP_SECONDS + FORGET_SECONDS, {"setback": "refused"}, True),
        (GIVE_UP_SECONDS + FORGET_SECONDS, {}, True),
    ],
    ids=[
        "just in time",
        "long ago",
        "its check run is still open",
        "its post was refused",
        "left by a crash",
    ],
)
def test_an_old_deploy_begins_no_gate_check(ago, known, is_open):
    latest = deploy(reported_at=NOW - ago)
    known_checks = {} if known is None else {PLACE: begun(began_at=NOW - ago, **known)}
    assert bool(open_gate_checks(Pool(), [latest], known_checks, NOW)) is is_open


@pytest.mark.parametrize(
    ("pool", "last", "known", "is_posted"),
    [
        (Pool(), deploy(), begun(check_run=8), True),
        (Pool(), deploy(ref=SHA.upper()), begun(check_run=8, over=True), True),
        (Pool(), deploy(), begun(), False),
        (Pool(), deploy(), None, False),
        (Pool(), deploy(ref=OTHER_SHA), begun(check_run=8), False),
        (Pool(), deploy(ref="v42"), begun(check_run=8), False),
        (Pool(), deploy(deployed_at=NOW), begun(check_run=8), False),
        (Pool(), deploy(shard="purple"), begun(check_run=8), False),
        (Pool(deploy_repository="acme/other"), deploy(), begun(check_run=8), False),
        (Pool(deploy_repository=None), deploy(), begun(check_run=8), False),
    ],
    ids=[
        "posted",
        "over",
        "not created",
        "no gate check",
        "another commit",
        "a tag",
        "deployed again",
        "another shard",
        "another repository",
        "no repository",
    ],
)
def test_the_check_run_of_the_last_deploy_is_that_of_its_own_gate_check(pool, last, known, is_posted):
    assert posted_check(pool, last, {} if known is None else {PLACE: known}) == (known if is_posted else None)


def test_each_gate_check_has_its_own_check_run():
    known = [
        subject_of(PLACE, begun()),
        subject_of(place_of("mac", "pink"), begun()),
        subject_of(place_of("linux", "purple"), begun()),
        subject_of(PLACE, begun(sha=OTHER_SHA)),
        subject_of(PLACE, begun(deployed_at=NOW)),
    ]
    assert len(set(known)) == len(known)
    assert subject_of(PLACE, begun(check_run=7, over=True, began_at=NOW)) == known[0]
    assert known[0] == "gate-84a938c855a0f91fb7bf5a9e", (
        "GitHub stores this id: another id would create another check run"
    )


@pytest.mark.parametrize(
    ("pools", "latest", "known", "left"),
    [
        ([Pool()], deploy(), begun(), False),
        ([Pool()], deploy(SHA.upper(), role=Role.ACTIVE, reported_at=NOW), begun(), False),
        ([Pool()], deploy(OTHER_SHA), begun(), True),
        ([Pool()], deploy(OTHER_SHA), begun(over=True), False),
        ([Pool()], deploy(deployed_at=NOW), begun(), True),
        ([Pool()], deploy("v42"), begun(), True),
        ([Pool()], deploy(shard="purple"), begun(), True),
        ([Pool(deploy_repository="acme/other")], deploy(), begun(), True),
        ([Pool("mac")], deploy(), begun(), True),
        ([], deploy(), begun(), True),
    ],
    ids=[
        "still open",
        "reported again",
        "another commit",
        "already over",
        "deployed again",
        "from a tag",
        "dropped among many shards",
        "another repository",
        "its pool was removed",
        "every pool was removed",
    ],
)
def test_a_gate_check_replaced_by_another_deploy_is_superseded(pools, latest, known, left):
    deploys = {pool.name: [latest] for pool in pools}
    assert superseded(pools, deploys, {PLACE: known}) == ({PLACE: known} if left else {})


def test_a_gate_check_is_either_open_or_superseded():
    for latest in (deploy(), deploy(OTHER_SHA), deploy("v42"), deploy(deployed_at=NOW)):
        is_open = [each for _, each in open_gate_checks(Pool(), [latest], {PLACE: begun(check_run=7)}, NOW)]
        left = superseded([Pool()], {"linux": [latest]}, {PLACE: begun(check_run=7)})
        assert (begun(check_run=7) in is_open) is not bool(left)


@pytest.mark.parametrize(
    ("answer", "now", "stage"),
    [
        (gate(at=NOW - 50), NOW, GateCheckStage.PASSED),
        (gate(at=NOW - 50.1), NOW, GateCheckStage.WAITS),
        (gate(at=None), NOW, GateCheckStage.WAITS),
        (gate(passed=False), NOW, GateCheckStage.WAITS),
        (gate(passed=False), NOW - 50 + GIVE_UP_SECONDS - 0.1, GateCheckStage.WAITS),
        (gate(passed=False), NOW - 50 + GIVE_UP_SECONDS, GateCheckStage.FAILED),
        (gate(), NOW - 50 + GIVE_UP_SECONDS, GateCheckStage.PASSED),
        (gate(passed=False, at=None), NOW - 50 + GIVE_UP_SECONDS, GateCheckStage.UNSEEN),
        (gate(at=NOW - 50.1), NOW - 50 + GIVE_UP_SECONDS, GateCheckStage.UNSEEN),
    ],
    ids=[
        "passes on a list after the deploy",
        "passes on a list before the deploy",
        "passes without a list",
        "does not pass",
        "does not pass for nearly an hour",
        "does not pass for an hour",
        "passes at the last moment",
        "GitHub does not answer",
        "no list after the deploy",
    ],
)
def test_a_gate_check_ends_with_success_or_after_an_hour(answer, now, stage):
    assert observed(begun(), answer, 0.0, now)[2] is stage


@pytest.mark.parametrize(("held", "stage"), [(59.9, GateCheckStage.WAITS), (60.0, GateCheckStage.PASSED)])
def test_a_gate_check_passes_only_after_passing_for_the_settling_time(held, stage):
    first, answer, waits = observed(begun(), gate(at=NOW), 60.0, NOW)
    assert (waits, answer.checks[-1].name, answer.checks[-1].passed) == (GateCheckStage.WAITS, "settled", False)
    assert observed(first, gate(at=NOW + held), 60.0, NOW + held)[2] is stage


def test_a_gap_or_a_list_from_before_the_deploy_restarts_the_settling_time():
    first, _, _ = observed(begun(), gate(at=NOW), 60.0, NOW)
    for gap in (gate(passed=False, at=NOW + 30), gate(at=None), gate(at=NOW - 51)):
        after, _, _ = observed(first, gap, 60.0, NOW + 30)
        assert observed(after, gate(at=NOW + 60), 60.0, NOW + 60)[2] is GateCheckStage.WAITS


@pytest.mark.parametrize(
    ("known", "digest", "summary_digest", "after", "posted"),
    [
        ({"check_run": None}, "d", "g", 0.0, True),
        ({}, "d", "g", REFRESH_SECONDS, False),
        ({}, "d2", "g", REFRESH_SECONDS - 0.1, False),
        ({}, "d2", "g", REFRESH_SECONDS, True),
        ({}, "d2", "g2", 0.0, True),
        ({}, "d2", "g", -0.1, True),
    ],
    ids=[
        "the first",
        "unchanged",
        "numbers, too early",
        "numbers, a minute later",
        "another summary",
        "the clock went back",
    ],
)
def test_a_changed_summary_is_posted_at_once_and_changed_numbers_once_a_minute(
    known, digest, summary_digest, after, posted
):
    last = begun(**{"check_run": 7, "digest": "d", "summary_digest": "g", "posted_at": NOW, **known})
    assert is_to_be_posted(last, digest, summary_digest, NOW + after) is posted


def test_a_rerequested_gate_check_starts_again_on_its_check_run():
    last = begun(
        check_run=7, digest="d", summary_digest="g", posted_at=NOW, over=True, private=True, since=NOW, setback="x"
    )
    assert restarted(last, NOW + 9) == GateCheck(SHA, NOW - 60, "acme/infra", NOW + 9, private=True, check_run=7)
