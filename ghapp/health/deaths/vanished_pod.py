"""Decides from GitHub and deliveries whether a runner ran in a pod that was never observed running. Pure."""

from __future__ import annotations

from ghapp.health.pods.pod import Pod
from ghapp.health.runner.evidence import Evidence

BEFORE_ITS_POD_SECONDS = 300.0
"""A registration may be older than its pod by this much; an older registration had another pod before."""


def has_worked(evidence: Evidence, pod: Pod) -> bool:
    """True if a runner worked in this pod, however briefly.

    A registration that came with the pod proves it by having been online, or by a job. An older registration, whose
    name is reused by several pods, proves it only by a job that began, or a delivery sent, after the pod was created.

    Args:
        evidence: of the runner with the pod's name.
        pod: as last seen.
    """
    if evidence.first_seen >= pod.created_at - BEFORE_ITS_POD_SECONDS:
        return evidence.was_online or evidence.online or evidence.busy or evidence.job_id is not None
    return any(at is not None and at > pod.created_at for at in (evidence.job_started_at, evidence.last_delivery_at))
