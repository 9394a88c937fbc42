"""Records each step of a runner's replacement in the cluster, so that a crash loses none; and an attempt's outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ghapp.installations.installation import Installation
from ghapp.log import logger, redact
from ghapp.pods.blockers import Blocker
from ghapp.pods.deletion_guards import CLOCK_SLACK_SECONDS, TERMINATING_SECONDS, DeletionDecision
from ghapp.queue.jobs import JobName
from ghapp.runners import deletion_progress, observations
from ghapp.runners.deletion_progress import Deletion
from ghapp.runners.evidence import Evidence
from jobs.context import JobContext


class RemediationOutcome(StrEnum):
    """The outcome of one call of `remediate_runner`."""

    HELD = "held"
    """Another process acts, or an admin, a job, a claim or the fuse prevents it."""
    RETURNED = "returned"
    """The runner, or another one of its name, is registered again."""
    BUSY = "busy"
    """GitHub answers that the runner runs a job."""
    WAITING = "waiting"
    """GitHub or the cluster refused a call, or gave no answer, or the terminating object still exists."""
    STILL_WAITING = "still-waiting"
    """As `WAITING`, for the same reason as before: neither counted nor logged again."""
    REPLACED = "replaced"
    """The replacement was requested now or before; in a cluster, the deletion was accepted, or nothing was there."""
    CALLED_OFF = "called-off"
    """Its condition does not hold any more: a blocker in the cluster, or a runner granted for being offline is not.
    The plan considers the runner again later."""
    FREED = "freed"
    """A stuck finalizer was removed."""
    GONE = "gone"
    """The object whose deletion was accepted no longer exists."""


log = logger(__name__)


@dataclass(frozen=True, slots=True)
class ReplacementProgress:
    """Records steps for an org's runners. Each method returns the current evidence, or the outcome."""

    context: JobContext
    installation: Installation

    async def meant(self, evidence: Evidence, decision: DeletionDecision, *, left_to_arc: bool) -> Evidence:
        """Records what is about to be deleted. After a crash the earlier record stays: that object was deleted."""
        known = evidence.deletion
        if known is not None and known.uid and decision.uid != known.uid:
            return evidence
        return await self.step(
            evidence,
            lambda before, at: deletion_progress.found(
                before, at, decision.uid, decision.text, left_to_arc=left_to_arc
            ),
        )

    async def accepted(self, evidence: Evidence, *, is_over: bool, already_deleted: bool) -> None:
        """Records that the deletion was accepted; unless it is over, schedules the next look for its expected end.

        `already_deleted`: the object was deleted before, or another deletion was under way.
        """
        at = self.context.clock()

        def accept(known: Evidence) -> Evidence:
            look_at = None if is_over else at + TERMINATING_SECONDS + CLOCK_SLACK_SECONDS
            done = deletion_progress.accepted(
                known.deletion or Deletion(), at, look_at, already_deleted=already_deleted
            )
            return observations.replaced(observations.removed(observations.deleting(known, done), at), at)

        await self.fold(evidence, accept)
        if not is_over:  # if this job is lost, the next plan enqueues another
            key = f"remediate-{self.installation.id}-{evidence.id}-gone"
            args = (self.installation.id, evidence.id)
            self.context.ask(JobName.REMEDIATE, *args, key=key, after_seconds=TERMINATING_SECONDS + CLOCK_SLACK_SECONDS)

    async def called_off(
        self, evidence: Evidence, blocker: Blocker, after_seconds: float | None, why: str
    ) -> RemediationOutcome:
        """Revokes the grant; the plan considers the runner again when the blocker may have passed."""
        at = self.context.clock()

        def call_off(known: Evidence) -> Evidence:
            waits = deletion_progress.waits(known.deletion, at, blocker, after_seconds)
            return observations.grant_revoked(observations.deleting(known, waits))

        await self.fold(evidence, call_off)
        return self._log(evidence, blocker, why, RemediationOutcome.CALLED_OFF)

    async def waits(
        self, evidence: Evidence, blocker: Blocker, after_seconds: float | None = None, why: str = "", words: str = ""
    ) -> RemediationOutcome:
        """Records what the replacement waits for; `jobs.remediation.plan_remediation` enqueues it again.

        `words` is the API server's message, for people.
        """
        words = redact(words)
        await self.step(evidence, lambda known, at: deletion_progress.waits(known, at, blocker, after_seconds, words))
        return self._log(evidence, blocker, why, RemediationOutcome.WAITING)

    async def step(self, evidence: Evidence, change: Callable[[Deletion, float], Deletion]) -> Evidence:
        """Records one step, unless the grant was revoked meanwhile."""
        at = self.context.clock()

        def step(known: Evidence) -> Evidence:
            if known.granted_at is None:
                return known
            return observations.deleting(known, change(known.deletion or Deletion(), at))

        return await self.fold(evidence, step)

    async def fold(self, evidence: Evidence, change: Callable[[Evidence], Evidence]) -> Evidence:
        """Changes the record, by compare-and-set."""

        def fold(known: Evidence | None) -> Evidence | None:
            return None if known is None else change(known)

        return (await self.context.runners.revise(self.installation.id, {evidence.id: fold}))[evidence.id]

    def _log(self, evidence: Evidence, blocker: Blocker, why: str, outcome: RemediationOutcome) -> RemediationOutcome:
        if evidence.deletion is not None and evidence.deletion.waits_for == blocker:
            return RemediationOutcome.STILL_WAITING
        log.warning(
            "replacement waits", org=self.installation.org, runner=evidence.name, because=blocker.value, why=why
        )
        return outcome
