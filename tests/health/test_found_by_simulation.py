"""What `make simulate` found: each the shortest way to the mistake, without a seed."""

from ghapp.health.decision import decide
from ghapp.health.fuse import FuseLimits, FuseReason, Position
from ghapp.health.plan import RemediationLimits
from ghapp.health.verdict import Limits, State, judge
from tests.health.builders import NOW, lost, online, present, proving, survey


def test_what_still_waits_is_not_let_through_when_others_came_back_before_the_plan_was_made():
    back = online(1, first_seen=NOW - 9000, back_at=NOW - 0.4)
    waiting = [(lost(runner_id), State.INVALIDATED) for runner_id in range(2, 12)]
    decision = decide(
        {"linux-4vcpu": [(back, State.HEALTHY), *waiting]},
        {"linux-4vcpu": proving(since=NOW - 60)},
        (),
        (),
        FuseLimits(),
        RemediationLimits(),
        NOW,
    )
    (turn,) = decision.turns
    assert (turn.after.position, turn.after.reason) == (Position.CLOSED, FuseReason.REGISTRATIONS_RETURNED)
    assert decision.plan.now == ()


def test_an_offline_runner_is_offline_since_its_last_sign_of_life():
    ended_a_job = present(offline_since=NOW - 3600, job_id=5, job_started_at=NOW - 900, job_ended_at=NOW - 10)
    verdict = judge(ended_a_job._replace(sighted_at=NOW - 10), survey(), NOW, Limits())
    assert (verdict.state, verdict.since) == (State.HEALTHY, NOW - 10)
