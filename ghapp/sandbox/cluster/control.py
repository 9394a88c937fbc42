"""All levers of the cluster in one."""

from __future__ import annotations

from ghapp.sandbox.cluster.controls.access import AccessLevers
from ghapp.sandbox.cluster.controls.faults import TroubleLevers
from ghapp.sandbox.cluster.controls.pods import PodLevers


class ClusterControl(PodLevers, AccessLevers, TroubleLevers):
    """Levers, callable from any thread; what they change is seen by the next request, and by watches at once."""
