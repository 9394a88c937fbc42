"""Why what stands in the cluster for a lost runner is still standing: constants for machines, sentences for people."""

from __future__ import annotations

from enum import StrEnum


class Blocker(StrEnum):
    """Why it is not deleted, or not gone, yet."""

    CLUSTER_UNCONFIGURED = "ClusterUnconfigured"
    CLUSTER_UNAVAILABLE = "ClusterUnavailable"
    CLUSTER_FORBIDDEN = "ClusterForbidden"
    RESOURCE_MISSING = "ResourceMissing"
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
    Blocker.CLUSTER_UNCONFIGURED: "nothing says how the cluster is reached; `ghapp doctor` says what is missing",
    Blocker.CLUSTER_UNAVAILABLE: "the cluster gives no answer",
    Blocker.CLUSTER_FORBIDDEN: "RBAC lacks a verb; `ghapp doctor` names it",
    Blocker.RESOURCE_MISSING: "the cluster does not know such objects, or not the pool's namespace",
    Blocker.CLUSTER_REFUSED: "the cluster does not take the request",
    Blocker.OBJECT_CHANGED: "it changed each time it was looked at",
    Blocker.TERMINATING: "it is Terminating",
    Blocker.STILL_REGISTERED: "it is Terminating, and GitHub still shows its registration",
    Blocker.AWAITING_CONFIRMATION: "it is Terminating, and GitHub has said 404 only once",
    Blocker.WITHIN_GRACE: "it, or its container, is younger than startup_seconds",
    Blocker.POD_CLAIMED: "its controller says that the pod is busy",
    Blocker.JOB_IN_PROGRESS: "a job is in progress under its name",
    Blocker.JOB_JUST_ENDED: "its job ended a moment ago",
    Blocker.JOB_UNKNOWN: "ARC says that it has a job, and nobody told how that ended",
    Blocker.SEEN_BUSY: "it was busy when GitHub last showed it, and nobody told how its job ended",
    Blocker.SEVERAL_OBJECTS: "several of ARC's objects bear its name",
    Blocker.NO_POD: "its object has no pod; it is replaced once none was seen for five minutes",
    Blocker.POD_OUTLIVES_OBJECT: "its object is gone, and a pod of its name is there",
    Blocker.POD_TERMINATING: "its pod is Terminating, and its object is not",
    Blocker.POD_OF_ANOTHER: "the pod of its name does not belong to its object",
    Blocker.POD_OF_ARC: "the pod belongs to ARC, which would start a spent runner again: the pool needs replacer arc",
    Blocker.OF_ANOTHER_ORG: "another organization with pods in that namespace may have a runner of its name",
    Blocker.POOL_NEVER_SEEN_THERE: "nothing of its name is in the pool's namespace, and no pod of the pool was ever"
    " seen there: the pool's namespace may be wrong, or its pods may not be called as its runners",
    Blocker.NOT_RUNNING: "its container does not run",
    Blocker.CLOCKS_DISAGREE: "by one clock it was made after the runner was lost, and by another before: the cluster's"
    " and ours tell different times",
}
"""The same for people."""
