"""All levers of the cluster in one."""

from __future__ import annotations

from ghapp.sandbox.cluster.levers.access import AccessLevers
from ghapp.sandbox.cluster.levers.pods import PodLevers
from ghapp.sandbox.cluster.levers.troubles import TroubleLevers


class ClusterControl(PodLevers, AccessLevers, TroubleLevers):
    """Levers, callable from any thread; what they change is seen by the next request, and by watches at once."""
