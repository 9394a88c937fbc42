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
    FuseReason.BATCH_ONLINE: "the successors of the last batch are online",
    FuseReason.BATCH_NEVER_ONLINE: "no successor of the last batch came online",
    FuseReason.HEALED: "the successors of the last batch are online, and no loss waits",
    FuseReason.REGISTRATIONS_RETURNED: "the lost registrations returned",
    FuseReason.RESUMED: "an admin resumed it",
    FuseReason.UNPROVEN: "nothing was replaced (dry-run or off), and the mass loss is over",
    FuseReason.NOT_NEEDED: "nothing changed for a while, and no job waits for the lost runners",
    FuseReason.POOLS_STOPPED: "every pool that lost runners is stopped by its own fuse",
    FuseReason.UNREADABLE: "its record in Redis cannot be read",
}
"""Why a fuse changed, in words."""

ENDS = {
    LossEnd.OPEN: "not replaced yet",
    LossEnd.SUCCESSOR_ONLINE: "its successor is online",
    LossEnd.RETURNED: "it returned",
    LossEnd.REREGISTERED: "the same machine registered again",
    LossEnd.JOB_COMPLETED: "its only job was over: it was retired, not lost",
    LossEnd.REMOVED_BY_CONTROLLER: "its controller had removed it: it was retired, not lost",
    LossEnd.NOT_NEEDED: "it was not needed any more: no job waited for it",
    LossEnd.NO_SUCCESSOR: "its replacement was accepted, and no successor was seen within an hour",
    LossEnd.AGED_OUT: "its record was deleted without a replacement",
    LossEnd.UNKNOWN: "it ended in a way that this version of ghapp does not know",
}
"""How a loss ended, in words."""

PROOFS = {
    Reason.REGISTRATION_INVALIDATED: "GitHub has deleted its registration",
    Reason.HANGS_AFTER_JOB: "its job and its registration were over, and its container ran on",
    Reason.REPLACED_WHILE_OFFLINE: "it was offline for longer than its pool allows",
}
"""How a loss was proved, in words."""


def losses_in(view: OrgView, runners: Iterable[Evidence], now: float) -> list[RunnerLoss]:
    """Returns the losses of runners that are not recorded as over."""
    return [loss for each in runners for loss in losses_of(each, view.verdict(each, now), view.pool(each), now)]
