"""Controls of the sandbox beside GitHub's API: incidents, limits, faults, time, and the ledger."""

from __future__ import annotations

from typing import Any

from ghapp.sandbox.control.apps import InstallationControls
from ghapp.sandbox.control.controls import NoSuchThingError, exposed
from ghapp.sandbox.control.faults import RequestFaultControls
from ghapp.sandbox.control.jobs import WorkControls
from ghapp.sandbox.control.response_faults import ResponseFaultControls
from ghapp.sandbox.control.rollouts import RolloutControls
from ghapp.sandbox.control.runner_pods import RunnerPodControls
from ghapp.sandbox.control.runners import ControllerControls, RunnerControls
from ghapp.sandbox.control.webhooks import WebhookControls
from ghapp.sandbox.ledger.ledger import Ledger
from ghapp.sandbox.ledger.statement import statement

__all__ = ["Control", "NoSuchThingError"]


class Control(
    RunnerControls,
    RunnerPodControls,
    RolloutControls,
    WorkControls,
    InstallationControls,
    WebhookControls,
    RequestFaultControls,
    ResponseFaultControls,
    ControllerControls,
):
    """All controls of the sandbox."""

    @exposed
    def step(self, *, seconds: float) -> None:
        """Moves the clock forward, and the fleets with it."""
        self.world.clock.skip(seconds)

    @exposed
    def quiet(self, *, quiet: bool = True) -> None:
        """Stops the arrival of jobs, or resumes it."""
        for place in self.world.orgs.values():
            place.fleet.set_quiet(quiet, self.world.now())

    @exposed
    def heal_by_hand(self, org: str, *, repository: str) -> dict[str, Any]:
        """Does what a person does after incidents that no program heals.

        Returns what was `done`, in words, and the `deploys` as `deploy` returns them. Deletes EphemeralRunners whose
        pods were lost, and deploys broken shards again, with a new commit each.
        """
        place = self._org(org)
        deleted = [each.name for each in self._pods().delete_objects_without_pod(place)]
        broken = place.shards.broken()
        deploys = [self.deploy(org, shard=shard, repository=repository) for shard in broken]
        done = [f"the EphemeralRunner {name} was deleted" for name in deleted]
        done += [f"the shard {shard} was deployed again" for shard in broken]
        return {"done": "; ".join(done) or "nothing is left to a person", "deploys": deploys}

    @exposed
    def account(self) -> dict[str, Any]:
        """Returns what the client did since the last reset, as `ledger.statement` describes it."""
        return statement(self.world.account, self.world.deliveries)

    @exposed
    def reset_account(self) -> None:
        """Resets all counts; lost runners stay lost."""
        self.world.account = Ledger(self.world.now())
        self.world.deliveries.reset_counts()
