"""Blockers: why a lost runner's object or pod is not deleted yet, as codes and as sentences."""

from __future__ import annotations

from enum import StrEnum


class Blocker(StrEnum):
    """Why the object or pod is not deleted, or its deletion is not complete, yet."""

    CLUSTER_UNCONFIGURED = "ClusterUnconfigured"
    CLUSTER_UNAVAILABLE = "ClusterUnavailable"
    CLUSTER_FORBIDDEN = "ClusterForbidden"
    RESOURCE_MISSING = "ResourceMissing"
    POLICY_FORBIDS = "PolicyForbids"
    CLUSTER_REFUSED = "ClusterRefused"
    OBJECT_CHANGED = "ObjectChanged"
    TERMINATING = "Terminating"
    STILL_REGISTERED = "StillRegistered"
    AWAITING_CONFIRMATION = "AwaitingConfirmation"
    WITHIN_GRACE = "WithinGrace"
    POD_CLAIMED = "PodClaimed"
    JOB_IN_PROGRESS = "JobInProgress"
    JOB_JUST_ENDED = "JobJustEnded"
    JOB_UNKNOWN = "JobUnknown"
    SEEN_BUSY = "SeenBusy"
    SEVERAL_OBJECTS = "SeveralObjects"
    NO_POD = "NoPod"
    POD_OUTLIVES_OBJECT = "PodOutlivesObject"
    POD_TERMINATING = "PodTerminating"
    POD_OF_ANOTHER = "PodOfAnother"
    POD_OF_ARC = "PodOfArc"
    OF_ANOTHER_ORG = "OfAnotherOrg"
    POOL_NEVER_SEEN_THERE = "PoolNeverSeenThere"
    NOT_RUNNING = "NotRunning"
    CLOCKS_DISAGREE = "ClocksDisagree"


SENTENCES: dict[str, str] = {
    Blocker.CLUSTER_UNCONFIGURED: "no cluster is configured; `ghapp doctor` names what is missing",
    Blocker.CLUSTER_UNAVAILABLE: "the API server does not answer",
    Blocker.CLUSTER_FORBIDDEN: "RBAC lacks a verb; `ghapp doctor` names it",
    Blocker.POLICY_FORBIDS: "RBAC permits it, but a policy of the cluster forbids it",
    Blocker.RESOURCE_MISSING: "the cluster lacks the CRD or the pool's namespace",
    Blocker.CLUSTER_REFUSED: "the API server rejects the request",
    Blocker.OBJECT_CHANGED: "it changed between each read and delete",
    Blocker.TERMINATING: "it is Terminating",
    Blocker.STILL_REGISTERED: "it is Terminating, and GitHub still lists its registration",
    Blocker.AWAITING_CONFIRMATION: "it is Terminating, and GitHub has answered 404 only once",
    Blocker.WITHIN_GRACE: "it, or its container, is younger than startup_seconds",
    Blocker.POD_CLAIMED: "its controller claims that the pod is busy",
    Blocker.JOB_IN_PROGRESS: "a job runs under its name",
    Blocker.JOB_JUST_ENDED: "its job ended a moment ago",
    Blocker.JOB_UNKNOWN: "ARC shows a job for it, and the end of that job is unknown",
    Blocker.SEEN_BUSY: "GitHub showed it busy, and the end of its job is unknown",
    Blocker.SEVERAL_OBJECTS: "several ARC objects have its name",
    Blocker.NO_POD: "its object has no pod; it is replaced if no pod appears for five minutes",
    Blocker.POD_OUTLIVES_OBJECT: "its object is deleted, but a pod of its name exists",
    Blocker.POD_TERMINATING: "its pod is Terminating, and its object is not",
    Blocker.POD_OF_ANOTHER: "the pod of its name belongs to another object",
    Blocker.POD_OF_ARC: "the pod belongs to ARC, which would restart a used runner: the pool needs replacer arc",
    Blocker.OF_ANOTHER_ORG: "another organization with pods in that namespace may have a runner of its name",
    Blocker.POOL_NEVER_SEEN_THERE: "the pool's namespace has no object or pod of its name, and never had a pod of the"
    " pool: check the pool's namespace, and that its pods are named as its runners",
    Blocker.NOT_RUNNING: "its container does not run",
    Blocker.CLOCKS_DISAGREE: "by one clock it was created after the runner was lost, by another before: synchronize the"
    " clocks of the cluster and of ghapp",
}
"""Sentences for people, by code."""


IN_THE_SERVERS_WORDS = frozenset({Blocker.POLICY_FORBIDS, Blocker.CLUSTER_REFUSED})
"""Blockers whose cause only the API server's own message names."""


def blocker_sentence(blocker: str, words: str, unknown: str = "") -> str:
    """Returns the sentence of a blocker, with the API server's message where that names the cause.

    Args:
        blocker: its code.
        words: the message, or empty.
        unknown: returned for a code of another version.
    """
    found = SENTENCES.get(blocker, unknown)
    return f"{found}: {words}" if words and blocker in IN_THE_SERVERS_WORDS else found
