"""What is known of the gate of each deployed shard, for headlines and notifications. Pure; times are epoch seconds.

A gate check judges its shard by itself, and decides. A deploy without one (its pool has no `deploy_repository`, or its
`ref` is no full commit SHA), or whose gate check ended without a decision, is as it was judged last: by its
provisioning, by `ghapp gate`, the API or the page. A gate that passed after that has not failed.

A shard without a reported deploy has no state here: an inactive shard may be empty on purpose, so that its gate is
judged only on request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ghapp.gate.active_shard import Deploy
from ghapp.gate.gate_checks import GateCheck, commit_of, place_of

FAILED_SECONDS = 30 * 86_400.0
"""A deploy that failed before that is no news, as the record of a gate check is deleted then."""


class GateState(NamedTuple):
    """The gate of a shard after its last deploy.

    Attributes:
        ref: the deployed commit or tag; empty if it was not reported.
        began_at: when the deploy was reported.
        failed_at: when the gate failed; None: it did not, or passed later.
        passed: True if it passed.
        waits: True if a gate check waits for the shard, which does not pass now.
    """

    ref: str
    began_at: float
    failed_at: float | None = None
    passed: bool = False
    waits: bool = False

    @property
    def is_decided(self) -> bool:
        """True if it failed or passed."""
        return self.passed or self.failed_at is not None


def gate_states(
    deploys: Mapping[str, Sequence[Deploy]], gate_checks: Mapping[str, GateCheck], now: float
) -> dict[str, GateState]:
    """Returns the gates of all deployed shards, by `gate_checks.place_of`.

    Args:
        deploys: the last deploy of each shard, by configured pool.
        gate_checks: the last gate check of each shard, by `gate_checks.place_of`.
        now: epoch seconds.
    """
    known = {place_of(pool, deploy.shard): deploy for pool, several in deploys.items() for deploy in several}
    states = {place: _of_check(each) for place, each in gate_checks.items()}
    for place, deploy in known.items():
        gate_check = gate_checks.get(place)
        if gate_check is None or not _is_of(gate_check, deploy):
            states[place] = _of_deploy(deploy, now)
        elif _passed_after(deploy, gate_check):
            states[place] = states[place]._replace(failed_at=None, passed=True)
        elif gate_check.over and not states[place].is_decided:
            states[place] = _of_deploy(deploy, now)
    return states


def _of_check(gate_check: GateCheck) -> GateState:
    return GateState(
        ref=gate_check.sha,
        began_at=gate_check.began_at,
        failed_at=gate_check.failed_at,
        passed=gate_check.failed_at is None and gate_check.over and gate_check.since is not None,
        waits=not gate_check.over and gate_check.since is None,
    )


def _of_deploy(deploy: Deploy, now: float) -> GateState:
    at = deploy.failed_at
    is_failed = deploy.passed_at is None and at is not None and now - at < FAILED_SECONDS
    return GateState(
        deploy.ref, deploy.first_reported_at, at if is_failed else None, passed=deploy.passed_at is not None
    )


def _passed_after(deploy: Deploy, gate_check: GateCheck) -> bool:
    """True if the gate passed after its check had failed."""
    passed_at, failed_at = deploy.passed_at, gate_check.failed_at
    return passed_at is not None and failed_at is not None and passed_at > failed_at


def _is_of(gate_check: GateCheck, deploy: Deploy) -> bool:
    return (gate_check.sha, gate_check.deployed_at) == (commit_of(deploy.ref), deploy.deployed_at)
