"""How the stand-in for a runner controller can be made to fail."""

from __future__ import annotations

from typing import Any

from ghapp.sandbox.control.controls import FOREVER, Controls, lever


class ControllerLevers(Controls):
    """A controller that refuses, or does nothing."""

    @lever
    def controller_events(self) -> list[dict[str, Any]]:
        """Every CloudEvent that the controller accepted, oldest first."""
        return list(self.controller.events)

    @lever
    def fail_controller(self, *, status: int = 500, seconds: float = FOREVER) -> None:
        """The controller answers this to every event for a while."""
        self.controller.status = status
        self.controller.status_until = self.world.now() + seconds

    @lever
    def barren_controller(self, *, barren: bool = True) -> None:
        """The controller accepts events, and no runner ever comes of it."""
        self.controller.barren = barren
