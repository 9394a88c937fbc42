"""The replacement of one lost runner in the cluster: read, query GitHub again, record, delete, record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from ghapp.cluster.api import Cluster
from ghapp.cluster.api_errors import RefusedError
from ghapp.errors import (
    ClusterError,
    ClusterForbiddenError,
    ClusterUnavailableError,
    ConfigurationError,
    ConflictError,
    ResourceMissingError,
)
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.log import logger
from ghapp.pods.blockers import Blocker
from ghapp.pods.deletion_guards import DeletionDecision, DeletionVerdict, Preconditions
from ghapp.remediation.steps import present, successor_of
from ghapp.replace import arc, pods
from ghapp.runners import absence, deletion_progress, observations
from ghapp.runners.evidence import Evidence
from ghapp.settings import PoolSettings
from jobs.context import JobContext
from jobs.remediation.job_lookup import look_up_known_job, look_up_unknown_job
from jobs.remediation.preconditions import confirm_place, preconditions
from jobs.remediation.progress import RemediationOutcome, ReplacementProgress
from jobs.remediation.steps import look_again, may_still_act, remove

RequirePermissions = Callable[[Cluster, str], Awaitable[None]]
Find = Callable[[Cluster, str, Evidence, Preconditions], Awaitable[DeletionDecision]]
Delete = Callable[[Cluster, DeletionDecision], Awaitable[bool]]
Finish = Callable[[Cluster, DeletionDecision], Awaitable[None]]

log = logger(__name__)

LOOKS = 3
"""How often the object is read again immediately when it changed between read and delete."""


class Replacer(NamedTuple):
    """How pools of one kind replace a runner: the functions of a module of `ghapp.replace`."""

    find: Find
    require_permissions: RequirePermissions
    delete: Delete
    finish: Finish


@dataclass(frozen=True, slots=True)
class ClusterReplacement:
    """The replacement of one lost runner in the cluster. Every step is recorded, so that a crash loses none."""

    context: JobContext
    installation: Installation
    rule: PoolSettings
    replacer: Replacer

    @property
    def progress(self) -> ReplacementProgress:
        """The record of its steps."""
        return ReplacementProgress(self.context, self.installation)

    async def run(self, evidence: Evidence) -> RemediationOutcome:
        """Reads the object or pod once, and takes the steps that are allowed; returns the outcome.

        Raises:
            ClusterError: no answer; a requested deletion may have been done or not.
        """
        cluster, namespace = await self.context.cluster(), self.rule.namespace or ""
        known = await preconditions(self.context, self.installation, evidence, namespace)
        decision = await self.replacer.find(cluster, namespace, evidence, known)
        if evidence.replaced_at is None and not await confirm_place(
            self.context, self.installation, evidence, decision
        ):
            decision = decision._replace(verdict=DeletionVerdict.REFUSE, blocker=Blocker.POOL_NEVER_SEEN_THERE)
        match decision.verdict:
            case DeletionVerdict.REFUSE:
                return await self._refuse(evidence, decision)
            case DeletionVerdict.UNDER_WAY if evidence.replaced_at is not None:
                return await self.progress.waits(evidence, Blocker.TERMINATING, decision.after_seconds)
            case DeletionVerdict.NOTHING_LEFT if evidence.replaced_at is not None:
                await self.progress.step(evidence, deletion_progress.over)
                return RemediationOutcome.GONE
            case DeletionVerdict.FREE:
                return await self._free(cluster, evidence, decision)
        return await self._delete(cluster, evidence, decision)

    async def _delete(self, cluster: Cluster, evidence: Evidence, decision: DeletionDecision) -> RemediationOutcome:
        """Deletes the object or pod, and the registration before it.

        GitHub is queried only after the cluster allows the deletion, for each query costs budget. A pause, fuse or
        claim counts until the last moment: before the registration and before the pod is deleted.
        """
        is_under_way, deletes = (
            decision.verdict is DeletionVerdict.UNDER_WAY,
            decision.verdict is DeletionVerdict.DELETE,
        )
        if not is_under_way:
            outcome = await self._look_at_github(evidence)
            if outcome is not None:
                return outcome
        evidence = await self.progress.meant(evidence, decision, left_to_arc=self._is_arc)
        if evidence.granted_at is None or evidence.replaced_at is not None:
            return RemediationOutcome.HELD  # a delivery or the pool's controller was faster
        if evidence.removed_at is None and self._is_ours_to_remove(evidence, decision):
            if deletes:
                await self.replacer.require_permissions(cluster, decision.namespace)
            if not await self._may_act(evidence, decision):
                return RemediationOutcome.HELD
            removed = await remove(self.context, self.installation, evidence)
            if removed is None:
                return RemediationOutcome.BUSY
            evidence = removed
        if deletes:
            if not await self._may_act(evidence, decision):
                return RemediationOutcome.HELD
            await self._execute(cluster, decision)
        is_over = not is_under_way and not (self._is_arc and deletes)
        is_ours = await self.context.own_deletions.has_any(self.installation.id, [decision.uid])
        is_missing = deletes and not decision.uid
        await self.progress.accepted(evidence, is_over=is_over, already_deleted=not is_ours and not is_missing)
        return RemediationOutcome.REPLACED

    async def _execute(self, cluster: Cluster, decision: DeletionDecision) -> None:
        """Deletes the object or pod, and what belongs to it. The deletion is ours unless it is known not to be.

        Raises:
            ClusterError: no answer; the deletion may have been done or not.
        """
        if decision.sends_delete:
            own, deletion = self.context.own_deletions, (self.installation.id, decision.uid)
            await own.record(*deletion, self.context.clock())
            try:
                is_accepted = await self.replacer.delete(cluster, decision)
            except (ConflictError, ClusterForbiddenError, RefusedError, ResourceMissingError):
                await own.withdraw(*deletion)
                raise
            if not is_accepted:  # another client was faster
                await own.withdraw(*deletion)
        await self.replacer.finish(cluster, decision)

    async def _look_at_github(self, evidence: Evidence) -> RemediationOutcome | None:
        """Queries GitHub at each attempt: a pod that waited for hours may have a new registration by now."""
        if evidence.removed_at is None:
            return await look_again(self.context, self.installation, evidence)
        if evidence.confirmed_at is not None:
            outcome = await look_again(self.context, self.installation, evidence)
        else:  # ghapp removed its registration; is there a successor?
            installation_client = await self.context.installation_client(self.installation, Purpose.ACT)
            same_name = await installation_client.runners_named(evidence.name)
            outcome = None if successor_of(evidence, same_name) is None else RemediationOutcome.RETURNED
        if outcome is not None:
            await self.progress.fold(evidence, observations.grant_revoked)
        return outcome

    async def _may_act(self, evidence: Evidence, decision: DeletionDecision) -> bool:
        found = {each.name for each in (decision.object, decision.pod) if each is not None}
        return await may_still_act(self.context, self.installation, evidence, {evidence.name} | found) is not None

    @property
    def _is_arc(self) -> bool:
        return self.rule.replacer == "arc"

    def _is_ours_to_remove(self, evidence: Evidence, decision: DeletionDecision) -> bool:
        """True if ghapp deletes the registration.

        ARC deletes it with its object, except that of an offline runner without an object.
        """
        if self._is_arc:
            return decision.verdict is DeletionVerdict.NOTHING_LEFT and evidence.confirmed_at is None
        return True

    async def _free(self, cluster: Cluster, evidence: Evidence, decision: DeletionDecision) -> RemediationOutcome:
        """Removes a stuck finalizer, only if GitHub, checked as in a confirmation, answers 404 once more.

        An object that another client deleted is freed as well. The decision is recorded first; once freed, its
        replacement counts as accepted, for ARC creates another object after the deletion.
        """
        now = await self.context.github.installation(self.installation.id)
        if not absence.is_sane(self.installation, now):
            return await self.progress.waits(evidence, Blocker.STILL_REGISTERED)
        if evidence.confirmed_at is not None:
            outcome = await look_again(self.context, self.installation, evidence)
            if outcome is not None:
                return await self.progress.waits(evidence, Blocker.STILL_REGISTERED)
        else:
            doubt = await self._doubt_about_offline(evidence)
            if doubt is not None:
                return await self.progress.waits(evidence, doubt)
        is_ours = evidence.replaced_at is not None
        if not is_ours:
            evidence = await self.progress.meant(evidence, decision, left_to_arc=self._is_arc)
        if evidence.granted_at is None or not await self._may_act(evidence, decision):
            return RemediationOutcome.HELD
        await self.replacer.finish(cluster, decision)
        if not is_ours:
            await self.progress.accepted(evidence, is_over=False, already_deleted=True)
        await self.progress.step(evidence, deletion_progress.freed)
        await self.progress.waits(evidence, Blocker.TERMINATING)
        return RemediationOutcome.FREED

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
        is_first = evidence.first_404_at is None or at - evidence.first_404_at < confirm_seconds
        return Blocker.AWAITING_CONFIRMATION if is_first else None

    async def _refuse(self, evidence: Evidence, decision: DeletionDecision) -> RemediationOutcome:
        blocker = decision.blocker or Blocker.CLUSTER_REFUSED
        if blocker is Blocker.JOB_IN_PROGRESS:
            await look_up_known_job(self.context, self.installation, evidence)
        elif blocker in (Blocker.JOB_UNKNOWN, Blocker.SEEN_BUSY) and decision.object is not None:
            await look_up_unknown_job(self.context, self.installation, evidence, decision.object)
        if evidence.removed_at is not None:  # it must be replaced, however long that takes
            return await self.progress.waits(evidence, blocker, decision.after_seconds, decision.text)
        return await self.progress.called_off(evidence, blocker, decision.after_seconds, decision.text)


REPLACERS = {
    "arc": Replacer(arc.find, arc.require_permissions, arc.delete, arc.finish),
    "pods": Replacer(pods.find, pods.require_permissions, pods.delete, pods.finish),
}
"""By the pool's `replacer`. Other pools get an event."""


async def replace_in_cluster(
    context: JobContext, installation: Installation, evidence: Evidence, rule: PoolSettings
) -> RemediationOutcome:
    """Replaces a runner that `may_act` allowed, however often it is called; returns the outcome."""
    replacement = ClusterReplacement(context, installation, rule, REPLACERS[rule.replacer])
    try:
        for _ in range(LOOKS):
            try:
                return await replacement.run(evidence)
            except ConflictError as conflict:
                log.info("object changed, retrying", runner=evidence.name, why=str(conflict))
            fresh = (await context.runners.some(installation.id, [evidence.id])).get(evidence.id)
            if fresh is None or fresh.granted_at is None:
                return RemediationOutcome.HELD
            evidence = fresh
        return await replacement.progress.waits(evidence, Blocker.OBJECT_CHANGED)
    except (ClusterError, ConfigurationError) as error:
        return await replacement.progress.waits(evidence, _because(error), why=str(error), words=str(error))


def _because(error: ClusterError | ConfigurationError) -> Blocker:
    match error:
        case ConfigurationError():
            return Blocker.CLUSTER_UNCONFIGURED
        case ClusterUnavailableError():
            return Blocker.CLUSTER_UNAVAILABLE
        case ClusterForbiddenError(by_rbac=True):
            return Blocker.CLUSTER_FORBIDDEN
        case ClusterForbiddenError():
            return Blocker.POLICY_FORBIDS
        case ResourceMissingError():
            return Blocker.RESOURCE_MISSING
        case _:
            return Blocker.CLUSTER_REFUSED
