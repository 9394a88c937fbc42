"""Whether a runner ran in a pod that nobody saw running, by what GitHub and deliveries tell. Pure."""

from __future__ import annotations

from ghapp.health.pods.pod import Pod
from ghapp.health.runner.evidence import Evidence

BEFORE_ITS_POD_SECONDS = 300.0
"""A registration may be older than the pod that is made for it, by so much; one that is older yet had another pod."""


def has_worked(evidence: Evidence, pod: Pod) -> bool:
    """Whether a runner was at work in this pod, however short that was.

    A registration that came with the pod tells it by having been online, or by a job. An older one, whose name pod
    after pod bears, only by a job that began in this pod's time, or by a delivery that showed it alive in that.

    Args:
        evidence: of the runner of the pod's name.
        pod: as last seen.
    """
    if evidence.first_seen >= pod.created_at - BEFORE_ITS_POD_SECONDS:
        return evidence.was_online or evidence.online or evidence.busy or evidence.job_id is not None
    return any(at is not None and at > pod.created_at for at in (evidence.job_started_at, evidence.last_delivery_at))
