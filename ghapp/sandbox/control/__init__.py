"""What can be done to the sandbox beside GitHub's API: incidents, limits, faults, time, and the account of it."""

from __future__ import annotations

from typing import Any

import msgspec

from ghapp.sandbox.account import Account
from ghapp.sandbox.control.failures import FailureLevers
from ghapp.sandbox.control.installations import InstallationLevers
from ghapp.sandbox.control.levers import NoSuchThingError, lever
from ghapp.sandbox.control.runners import RunnerLevers
from ghapp.sandbox.control.work import WorkLevers

__all__ = ["Control", "NoSuchThingError"]


class Control(RunnerLevers, WorkLevers, InstallationLevers, FailureLevers):
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
    def controller_events(self) -> list[dict[str, Any]]:
        """Every CloudEvent that the controller accepted, oldest first."""
        return list(self.controller.events)

    @lever
    def account(self) -> dict[str, Any]:
        """What was seen of the client since the last reset; times in epoch seconds.

        `calls` by method and path template and `by_org`, each `{"total", "counted", "not_modified", "refused",
        "unanswered"}`; `losses`; `wrongful_removals`; `deliveries` `{"sent", "failed", "waiting", "by_event"}`;
        `replacements` `{"asked", "repeated", "rejected", "doubled": {"org/id": how often}}`.
        """
        seen = self.world.account
        sent, failed = self.world.deliveries.sent, self.world.deliveries.failed
        document: dict[str, Any] = msgspec.to_builtins(
            {
                "since": seen.since,
                "calls": seen.calls,
                "by_org": seen.by_org,
                "losses": seen.losses,
                "wrongful_removals": seen.wrongful_removals,
                "deliveries": {
                    "sent": sent.total(),
                    "failed": failed.total(),
                    "waiting": self.world.deliveries.waiting,
                    "by_event": {event: {"sent": sent[event], "failed": failed[event]} for event in sent | failed},
                },
                "replacements": {
                    "asked": seen.asked.total(),
                    "repeated": seen.repeated,
                    "rejected": seen.rejected,
                    "doubled": {runner: count for runner, count in seen.asked.items() if count > 1},
                },
            }
        )
        return document

    @lever
    def reset_account(self) -> None:
        """Counts from zero again; lost runners stay lost."""
        self.world.account = Account(self.world.now())
        self.world.deliveries.reset_counts()
