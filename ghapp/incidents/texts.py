"""Renders incidents: the words of their codes, each as one sentence."""

from __future__ import annotations

from collections.abc import Iterable

from ghapp.incidents.incident import LossEnd, RunnerLoss, losses_of
from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Evidence
from ghapp.runners.verdict import Reason

ENDS = {
    LossEnd.OPEN: "no successor online yet",
    LossEnd.SUCCESSOR_ONLINE: "successor online",
    LossEnd.RETURNED: "returned",
    LossEnd.REREGISTERED: "registered again by the same machine",
    LossEnd.JOB_COMPLETED: "retired, not lost: the only job was over",
    LossEnd.REMOVED_BY_CONTROLLER: "retired, not lost: removed by the controller",
    LossEnd.NOT_NEEDED: "written off: not needed any more, for no job waited",
    LossEnd.NO_SUCCESSOR: "replacement accepted, and no successor seen within an hour",
    LossEnd.HIDDEN_BY_CHURN: "replacement accepted, and its successor not distinguished from other newcomers",
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
