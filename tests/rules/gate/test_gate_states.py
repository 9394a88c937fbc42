"""The gate of each deployed shard, from its gate check and its deploy."""

import pytest

from ghapp.gate.active_shard import Deploy, Role
from ghapp.gate.gate_checks import GateCheck, ended_undecided
from ghapp.gate.gate_states import FAILED_SECONDS, GateState, gate_states

NOW = 1_700_000_000.0
SHA, OTHER_SHA = "a" * 40, "b" * 40


def deploy(ref=SHA, **changes):
    return Deploy("pink", Role.INACTIVE, NOW - 900, NOW - 900, ref, first_reported_at=NOW - 890)._replace(**changes)


def gate_check(**changes):
    return GateCheck(SHA, NOW - 900, "acme/infra", NOW - 890)._replace(**changes)


WAITS, UNDECIDED = GateState(SHA, NOW - 890, waits=True), GateState(SHA, NOW - 890)
FAILED, PASSED = GateState(SHA, NOW - 890, failed_at=NOW - 60), GateState(SHA, NOW - 890, passed=True)


@pytest.mark.parametrize(
    ("known", "checks", "expected"),
    [
        (deploy(), None, UNDECIDED),
        (deploy(failed_at=NOW - 60), None, FAILED),
        (deploy(failed_at=NOW - 60, passed_at=NOW - 1), None, PASSED),
        (deploy("v42", failed_at=NOW - 60), None, FAILED._replace(ref="v42")),
        (deploy("", failed_at=NOW - 60), None, FAILED._replace(ref="")),
        (deploy(failed_at=NOW - FAILED_SECONDS + 1), None, FAILED._replace(failed_at=NOW - FAILED_SECONDS + 1)),
        (deploy(failed_at=NOW - FAILED_SECONDS), None, UNDECIDED),
        (deploy(), gate_check(), WAITS),
        (deploy(SHA.upper()), gate_check(), WAITS),
        (deploy(failed_at=NOW - 60), gate_check(), WAITS),
        (deploy(), gate_check(since=NOW - 5), UNDECIDED),
        (deploy(passed_at=NOW - 1), gate_check(since=NOW - 5, over=True), PASSED),
        (deploy(failed_at=NOW - 300), gate_check(failed_at=NOW - 60, over=True), FAILED),
        (deploy(failed_at=NOW - 300, passed_at=NOW - 1), gate_check(failed_at=NOW - 60, over=True), PASSED),
        (deploy(passed_at=NOW - 200), gate_check(failed_at=NOW - 60, over=True), FAILED),
        (deploy(failed_at=NOW - 60), gate_check(over=True), FAILED),
        (deploy(), ended_undecided(gate_check(failed_at=NOW - 60)), UNDECIDED),
        (deploy(OTHER_SHA, failed_at=NOW - 60), gate_check(over=True, since=NOW - 5), FAILED._replace(ref=OTHER_SHA)),
        (deploy(deployed_at=NOW - 30), gate_check(failed_at=NOW - 60, over=True), UNDECIDED),
        (None, gate_check(failed_at=NOW - 60, over=True), FAILED),
    ],
    ids=[
        "no gate was asked for",
        "the gate was asked for and failed",
        "and passed later",
        "of a tag",
        "of an unnamed version",
        "almost thirty days ago",
        "thirty days ago",
        "its check waits",
        "its check waits, in capitals",
        "its provisioning failed and its check waits",
        "it passes and settles",
        "its check passed",
        "its check failed",
        "its check failed, and it passed when asked for again",
        "it passed once, and its check failed",
        "its check could not be judged",
        "its check was superseded",
        "the check is of another commit",
        "the check is of another deploy",
        "the deploy is no longer known",
    ],
)
def test_the_gate_of_a_shard_is_that_of_its_last_deploy(known, checks, expected):
    deploys = {} if known is None else {"linux": (known,)}
    found = gate_states(deploys, {} if checks is None else {"linux/pink": checks}, NOW)
    assert found == {"linux/pink": expected}


def test_a_shard_without_a_reported_deploy_has_no_gate_to_report():
    assert gate_states({"linux": ()}, {}, NOW) == {}
