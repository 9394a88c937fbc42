"""What can be done to the sandbox beside GitHub's API: incidents, limits, faults, time, and the account of it."""

from __future__ import annotations

from typing import Any

from ghapp.sandbox.control.controller import ControllerLevers
from ghapp.sandbox.control.controls import NoSuchThingError, lever
from ghapp.sandbox.control.failures import FailureLevers
from ghapp.sandbox.control.installations import InstallationLevers
from ghapp.sandbox.control.response_faults import LieLevers
from ghapp.sandbox.control.rollouts import RolloutLevers
from ghapp.sandbox.control.runners import RunnerLevers
from ghapp.sandbox.control.webhooks import WebhookLevers
from ghapp.sandbox.control.work import WorkLevers
from ghapp.sandbox.ledger.ledger import Ledger
from ghapp.sandbox.ledger.statement import statement

__all__ = ["Control", "NoSuchThingError"]


class Control(
    RunnerLevers,
    RolloutLevers,
    WorkLevers,
    InstallationLevers,
    WebhookLevers,
    FailureLevers,
    LieLevers,
    ControllerLevers,
):
    """All the sandbox' levers."""

    @lever
    def step(self, *, seconds: float) -> None:
        """Puts the clock forward, and the fleets live through it."""
        self.world.clock.skip(seconds)

    @lever
    def quiet(self, *, quiet: bool = True) -> None:
        """No more jobs arrive, or they do again."""
        for place in self.world.orgs.values():
            place.fleet.set_quiet(quiet, self.world.now())

    @lever
    def account(self) -> dict[str, Any]:
        """What was seen of the client since the last reset, as `account.statement` tells it."""
        return statement(self.world.account, self.world.deliveries)

    @lever
    def reset_account(self) -> None:
        """Counts from zero again; lost runners stay lost."""
        self.world.account = Ledger(self.world.now())
        self.world.deliveries.reset_counts()
