"""Renders incidents: the words of their codes, each as one sentence."""

from __future__ import annotations

from collections.abc import Iterable

from ghapp.health.incidents.loss import LossEnd, RunnerLoss, losses_of
from ghapp.health.remediation.fuse import FuseReason
from ghapp.health.runner.evidence import Evidence
from ghapp.health.runner.verdict import Reason
from ghapp.report.org_view import OrgView

FUSE_REASONS = {
    FuseReason.NONE: "",
    FuseReason.MASS_LOSS: "too many runners were lost at once",
    FuseReason.LOSS_ON_WATCH: "a runner was lost soon after the fuse had closed",
    FuseReason.BATCH_ONLINE: "successors of the last batch are online",
    FuseReason.BATCH_NEVER_ONLINE: "no successor of the last batch came online",
    FuseReason.REQUEST_NOT_ACCEPTED: "no request of the last batch was accepted; they are still repeated",
    FuseReason.REQUEST_ACCEPTED: "a request was accepted after all",
    FuseReason.HEALED: "successors of the last batch are online, and no loss waits",
    FuseReason.REGISTRATIONS_RETURNED: "the lost registrations returned",
    FuseReason.RESUMED: "an admin resumed it",
    FuseReason.UNPROVEN: "nothing was replaced (dry-run or off), and the mass loss is over",
    FuseReason.NOT_NEEDED: "nothing changed for a while, and no job waits for the lost runners",
    FuseReason.POOLS_STOPPED: "every pool that lost runners is stopped by its own fuse, paused or not configured",
    FuseReason.POOL_CHANGED: "its runners belong to another pool now, which has the fuse",
    FuseReason.UNREADABLE: "its record in Redis cannot be read",
}
"""Why a fuse changed, in words."""

ENDS = {
    LossEnd.OPEN: "not replaced yet",
    LossEnd.SUCCESSOR_ONLINE: "successor online",
    LossEnd.RETURNED: "returned",
    LossEnd.REREGISTERED: "registered again by the same machine",
    LossEnd.JOB_COMPLETED: "retired, not lost: the only job was over",
    LossEnd.REMOVED_BY_CONTROLLER: "retired, not lost: removed by the controller",
    LossEnd.NOT_NEEDED: "written off: not needed any more, for no job waited",
    LossEnd.NO_SUCCESSOR: "replacement accepted, and no successor seen within an hour",
    LossEnd.AGED_OUT: "record deleted without a replacement",
    LossEnd.UNKNOWN: "ended in a way that this version of ghapp does not know",
}
"""How a loss ended, in words."""

PROOFS = {
    Reason.REGISTRATION_INVALIDATED: "registration deleted by GitHub",
    Reason.HANGS_AFTER_JOB: "container running on after the end of job and registration",
    Reason.REPLACED_WHILE_OFFLINE: "offline for longer than the pool allows",
}
"""How a loss was proved, in words."""


def losses_in(view: OrgView, runners: Iterable[Evidence], now: float) -> list[RunnerLoss]:
    """Returns the losses of runners that are not recorded as over."""
    return [loss for each in runners for loss in losses_of(each, view.verdict(each, now), view.pool(each), now)]
