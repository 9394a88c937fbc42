"""Why what stands in the cluster for a lost runner is still standing: constants for machines, sentences for people."""

from __future__ import annotations

from enum import StrEnum


class Because(StrEnum):
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
    Because.CLUSTER_UNCONFIGURED: "nothing says how the cluster is reached; `ghapp doctor` says what is missing",
    Because.CLUSTER_UNAVAILABLE: "the cluster gives no answer",
    Because.CLUSTER_FORBIDDEN: "RBAC lacks a verb; `ghapp doctor` names it",
    Because.RESOURCE_MISSING: "the cluster does not know such objects, or not the pool's namespace",
    Because.CLUSTER_REFUSED: "the cluster does not take the request",
    Because.OBJECT_CHANGED: "it changed each time it was looked at",
    Because.TERMINATING: "it is Terminating",
    Because.STILL_REGISTERED: "it is Terminating, and GitHub still shows its registration",
    Because.AWAITING_CONFIRMATION: "it is Terminating, and GitHub has said 404 only once",
    Because.WITHIN_GRACE: "it, or its container, is younger than startup_seconds",
    Because.POD_CLAIMED: "its controller says that the pod is busy",
    Because.JOB_IN_PROGRESS: "a job is in progress under its name",
    Because.JOB_JUST_ENDED: "its job ended a moment ago",
    Because.JOB_UNKNOWN: "ARC says that it has a job, and nobody told how that ended",
    Because.SEEN_BUSY: "it was busy when GitHub last showed it, and nobody told how its job ended",
    Because.SEVERAL_OBJECTS: "several of ARC's objects bear its name",
    Because.NO_POD: "its object has no pod; it is replaced once none was seen for five minutes",
    Because.POD_OUTLIVES_OBJECT: "its object is gone, and a pod of its name is there",
    Because.POD_TERMINATING: "its pod is Terminating, and its object is not",
    Because.POD_OF_ANOTHER: "the pod of its name does not belong to its object",
    Because.POD_OF_ARC: "the pod belongs to ARC, which would start a spent runner again: the pool needs replacer arc",
    Because.OF_ANOTHER_ORG: "another organization with pods in that namespace may have a runner of its name",
    Because.POOL_NEVER_SEEN_THERE: "nothing of its name is in the pool's namespace, and no pod of the pool was ever"
    " seen there: the pool's namespace may be wrong, or its pods may not be called as its runners",
    Because.NOT_RUNNING: "its container does not run",
    Because.CLOCKS_DISAGREE: "by one clock it was made after the runner was lost, and by another before: the cluster's"
    " and ours tell different times",
}
"""The same for people."""
