"""What a test, or a person who tries things out, can do to the cluster; each module has the controls of one subject."""

from __future__ import annotations

from ghapp.sandbox.cluster.controls.access import AccessControls
from ghapp.sandbox.cluster.controls.faults import FaultControls
from ghapp.sandbox.cluster.controls.pods import PodControls


class ClusterControl(PodControls, AccessControls, FaultControls):
    """Controls, callable from any thread; the next request sees their changes, and watches see them at once."""
