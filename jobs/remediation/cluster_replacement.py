"""The replacement of one lost runner in the cluster: read, query GitHub again, record, delete, record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from ghapp.cluster.api import Cluster
from ghapp.cluster.api_errors import RefusedError
from ghapp.errors import ClusterForbiddenError, ConflictError, ResourceMissingError
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.pods.blockers import Blocker
from ghapp.pods.deletion_guards import DeletionDecision, DeletionVerdict, Preconditions
from ghapp.remediation.steps import present, successor_of
from ghapp.report.org_view import OrgView
from ghapp.runners import absence, deletion_progress, observations
from ghapp.runners.evidence import Evidence
from ghapp.settings import PoolSettings
from jobs.context import JobContext
from jobs.remediation.job_lookup import look_up_known_job, look_up_unknown_job
from jobs.remediation.preconditions import is_place_of, preconditions
from jobs.remediation.progress import ReplacementProgress

RequirePermissions = Callable[[Cluster, str], Awaitable[None]]
Find = Callable[[Cluster, str, Evidence, Preconditions], Awaitable[DeletionDecision]]
Delete = Callable[[Cluster, DeletionDecision], Awaitable[bool]]
Finish = Callable[[Cluster, DeletionDecision], Awaitable[None]]


class Replacer(NamedTuple):
    """How pools of one kind replace a runner: the functions of a module of `ghapp.replace`."""

    find: Find
    require_permissions: RequirePermissions
    delete: Delete
    finish: Finish


class RemediationOps(NamedTuple):
    """The steps of `jobs.remediation.remediate` that all replacers share.

    Attributes:
        look_again: queries GitHub once more; returns the outcome if nothing is left to do, else an empty string.
        remove: deletes the registration; returns None if GitHub answers that the runner is busy.
        may_act: returns the org's view if no pause, fuse or claim on any of these names prevents the next step, else
            None.
    """

    look_again: Callable[[Evidence], Awaitable[str]]
    remove: Callable[[Evidence], Awaitable[Evidence | None]]
    may_act: Callable[[Evidence, set[str]], Awaitable[OrgView | None]]


@dataclass(frozen=True, slots=True)
class ClusterReplacement:
    """The replacement of one lost runner in the cluster. Every step is recorded, so that a crash loses none."""

    context: JobContext
    installation: Installation
    rule: PoolSettings
    replacer: Replacer
    ops: RemediationOps

    @property
    def progress(self) -> ReplacementProgress:
        """The record of its steps."""
        return ReplacementProgress(self.context, self.installation)

    async def run(self, evidence: Evidence) -> str:
        """Reads the object or pod once, and takes the steps that are allowed; returns the outcome as it is counted.

        Raises:
            ClusterError: no answer; a requested deletion may have been done or not.
        """
        cluster, namespace = await self.context.cluster(), self.rule.namespace or ""
        known = await preconditions(self.context, self.installation, evidence, namespace)
        finding = await self.replacer.find(cluster, namespace, evidence, known)
        if evidence.replaced_at is None and not await is_place_of(self.context, self.installation, evidence, finding):
            finding = finding._replace(ruling=DeletionVerdict.REFUSE, because=Blocker.POOL_NEVER_SEEN_THERE)
        match finding.ruling:
            case DeletionVerdict.REFUSE:
                return await self._refuse(evidence, finding)
            case DeletionVerdict.UNDER_WAY if evidence.replaced_at is not None:
                return await self.progress.waits(evidence, Blocker.TERMINATING, finding.after_seconds)
            case DeletionVerdict.NOTHING_LEFT if evidence.replaced_at is not None:
                await self.progress.step(evidence, deletion_progress.over)
                return "gone"
            case DeletionVerdict.FREE:
                return await self._free(cluster, evidence, finding)
        return await self._delete(cluster, evidence, finding)

    async def _delete(self, cluster: Cluster, evidence: Evidence, finding: DeletionDecision) -> str:
        """Deletes the object or pod, and the registration before it.

        GitHub is queried only after the cluster allows the deletion, for each query costs budget. A pause, fuse or
        claim
        counts until the last moment: before the registration and before the pod is deleted.
        """
        is_under_way, deletes = finding.ruling is DeletionVerdict.UNDER_WAY, finding.ruling is DeletionVerdict.DELETE
        if not is_under_way:
            outcome = await self._look_at_github(evidence)
            if outcome:
                return outcome
        evidence = await self.progress.meant(evidence, finding, left_to_arc=self._is_arc)
        if evidence.granted_at is None or evidence.replaced_at is not None:
            return "held"  # a delivery or the pool's controller was faster
        if evidence.removed_at is None and self._is_ours_to_remove(evidence, finding):
            if deletes:
                await self.replacer.require_permissions(cluster, finding.namespace)
            if not await self._may_act(evidence, finding):
                return "held"
            removed = await self.ops.remove(evidence)
            if removed is None:
                return "busy"
            evidence = removed
        if deletes:
            if not await self._may_act(evidence, finding):
                return "held"
            await self._execute(cluster, finding)
        is_over = not is_under_way and not (self._is_arc and deletes)
        is_ours = await self.context.own_deletions.has_any(self.installation.id, [finding.uid])
        is_missing = deletes and not finding.uid
        await self.progress.accepted(evidence, is_over=is_over, already_deleted=not is_ours and not is_missing)
        return "replaced"

    async def _execute(self, cluster: Cluster, finding: DeletionDecision) -> None:
        """Deletes the object or pod, and what belongs to it. The deletion is ours unless it is known not to be.

        Raises:
            ClusterError: no answer; the deletion may have been done or not.
        """
        if finding.sends_delete:
            own, deletion = self.context.own_deletions, (self.installation.id, finding.uid)
            await own.record(*deletion, self.context.clock())
            try:
                is_accepted = await self.replacer.delete(cluster, finding)
            except (ConflictError, ClusterForbiddenError, RefusedError, ResourceMissingError):
                await own.withdraw(*deletion)
                raise
            if not is_accepted:  # another client was faster
                await own.withdraw(*deletion)
        await self.replacer.finish(cluster, finding)

    async def _look_at_github(self, evidence: Evidence) -> str:
        """Queries GitHub at each attempt: a pod that waited for hours may have a new registration by now."""
        if evidence.removed_at is None:
            return await self.ops.look_again(evidence)
        if evidence.confirmed_at is not None:
            outcome = await self.ops.look_again(evidence)
        else:  # ghapp removed its registration; is there a successor?
            installation_client = await self.context.installation_client(self.installation, Purpose.ACT)
            outcome = (
                ""
                if successor_of(evidence, await installation_client.runners_named(evidence.name)) is None
                else "returned"
            )
        if outcome:
            await self.progress.fold(evidence, observations.grant_revoked)
        return outcome

    async def _may_act(self, evidence: Evidence, finding: DeletionDecision) -> bool:
        found = {each.name for each in (finding.object, finding.pod) if each is not None}
        return await self.ops.may_act(evidence, {evidence.name} | found) is not None

    @property
    def _is_arc(self) -> bool:
        return self.rule.replacer == "arc"

    def _is_ours_to_remove(self, evidence: Evidence, finding: DeletionDecision) -> bool:
        """True if ghapp deletes the registration.

        ARC deletes it with its object, except that of an offline runner without an object.
        """
        if self._is_arc:
            return finding.ruling is DeletionVerdict.NOTHING_LEFT and evidence.confirmed_at is None
        return True

    async def _free(self, cluster: Cluster, evidence: Evidence, finding: DeletionDecision) -> str:
        """Removes a stuck finalizer, only if GitHub, checked as in a confirmation, answers 404 once more.

        An object that another client deleted is freed as well. The decision is recorded first; once freed, its
        replacement
        counts as accepted, for ARC creates another object after the deletion.
        """
        now = await self.context.github.installation(self.installation.id)
        if not absence.is_sane(self.installation, now):
            return await self.progress.waits(evidence, Blocker.STILL_REGISTERED)
        if evidence.confirmed_at is not None:
            outcome = await self.ops.look_again(evidence)
            if outcome:
                return await self.progress.waits(evidence, Blocker.STILL_REGISTERED)
        else:
            doubt = await self._doubt_about_offline(evidence)
            if doubt is not None:
                return await self.progress.waits(evidence, doubt)
        is_ours = evidence.replaced_at is not None
        if not is_ours:
            evidence = await self.progress.meant(evidence, finding, left_to_arc=self._is_arc)
        if evidence.granted_at is None or not await self._may_act(evidence, finding):
            return "held"
        await self.replacer.finish(cluster, finding)
        if not is_ours:
            await self.progress.accepted(evidence, is_over=False, already_deleted=True)
        await self.progress.step(evidence, deletion_progress.freed)
        await self.progress.waits(evidence, Blocker.TERMINATING)
        return "freed"

    async def _doubt_about_offline(self, evidence: Evidence) -> Blocker | None:
        """Confirms an offline runner's deletion, which takes two 404s; returns what prevents it, or None."""
        installation_client = await self.context.installation_client(self.installation, Purpose.ACT)
        answer = await installation_client.runner(evidence.id)
        answer = present(evidence, answer, [] if answer else await installation_client.runners_named(evidence.name))
        at = self.context.clock()
        await self.context.runners.revise(self.installation.id, {evidence.id: absence.folds_of_get(answer, at)})
        if answer is not None:
            return Blocker.STILL_REGISTERED
        confirm_seconds = self.context.settings.of(self.installation.org).evidence.confirm_seconds
        is_first = evidence.missing_at is None or at - evidence.missing_at < confirm_seconds
        return Blocker.AWAITING_CONFIRMATION if is_first else None

    async def _refuse(self, evidence: Evidence, finding: DeletionDecision) -> str:
        because = finding.because or Blocker.CLUSTER_REFUSED
        if because is Blocker.JOB_IN_PROGRESS:
            await look_up_known_job(self.context, self.installation, evidence)
        elif because in (Blocker.JOB_UNKNOWN, Blocker.SEEN_BUSY) and finding.object is not None:
            await look_up_unknown_job(self.context, self.installation, evidence, finding.object)
        if evidence.removed_at is not None:  # it must be replaced, however long that takes
            return await self.progress.waits(evidence, because, finding.after_seconds, finding.text)
        return await self.progress.called_off(evidence, because, finding.after_seconds, finding.text)
