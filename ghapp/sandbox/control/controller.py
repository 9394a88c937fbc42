"""Makes the simulated runner controller fail."""

from __future__ import annotations

from typing import Any

from ghapp.sandbox.control.controls import FOREVER, Controls, exposed


class ControllerControls(Controls):
    """Controls of a controller that refuses events, or ignores them."""

    @exposed
    def controller_events(self) -> list[dict[str, Any]]:
        """Returns every CloudEvent that the controller accepted, oldest first."""
        return list(self.controller.events)

    @exposed
    def fail_controller(self, *, status: int = 500, seconds: float = FOREVER) -> None:
        """The controller answers every event with this status for a while."""
        self.controller.status = status
        self.controller.status_until = self.world.now() + seconds

    @exposed
    def barren_controller(self, *, barren: bool = True) -> None:
        """The controller accepts events and starts no runners."""
        self.controller.barren = barren
