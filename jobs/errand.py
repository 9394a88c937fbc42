"""One lost runner's replacement in the cluster: look there, look at GitHub, record, act, record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from ghapp.cluster.api import Cluster
from ghapp.health import absence
from ghapp.health import evidence as seen
from ghapp.health.cadence import Purpose
from ghapp.health.cluster import deletion
from ghapp.health.cluster.deletable import CLOCK_SLACK_SECONDS, TERMINATING_SECONDS, Circumstances, Finding, Ruling
from ghapp.health.cluster.deletion import Deletion
from ghapp.health.cluster.obstacle import Because
from ghapp.health.evidence import Evidence
from ghapp.health.installation import Installation
from ghapp.health.remediation import heir_of, there
from ghapp.log import logger
from ghapp.settings import PoolSettings
from ghapp.work import Work
from jobs.circumstances import circumstances, learn_of_its_job
from jobs.house import House

log = logger(__name__)

STILL_WAITING = "still-waiting"
"""As `waiting`, for the same reason as before: neither counted nor logged again."""

Leave = Callable[[Cluster, str], Awaitable[None]]
Look = Callable[[Cluster, str, Evidence, Circumstances], Awaitable[Finding]]
Act = Callable[[Cluster, Finding], Awaitable[None]]


class Replacer(NamedTuple):
    """How a kind of pool replaces."""

    look: Look
    require_leave: Leave
    act: Act


class GitHubSide(NamedTuple):
    """What `jobs.remediate` does at GitHub, for it is the same for all replacers.

    Attributes:
        look_again: the last look before acting; an outcome when nothing is to be done any more, else an empty string.
        remove: take the registration away; None when GitHub says that it is busy after all.
    """

    look_again: Callable[[Evidence], Awaitable[str]]
    remove: Callable[[Evidence], Awaitable[Evidence | None]]


@dataclass(frozen=True, slots=True)
class Errand:
    """One lost runner's replacement in the cluster. Every step is recorded, so that a crash loses none."""

    house: House
    installation: Installation
    rule: PoolSettings
    replacer: Replacer
    github: GitHubSide

    async def run(self, evidence: Evidence) -> str:
        """Look once, and do what may be done.

        Raises:
            ClusterError: no answer; whatever was asked for may have been done or not.
        """
        cluster = await self.house.cluster()
        finding = await self.replacer.look(
            cluster, self.rule.namespace or "", evidence, await circumstances(self.house, self.installation, evidence)
        )
        match finding.ruling:
            case Ruling.REFUSE:
                return await self._refuse(evidence, finding)
            case Ruling.UNDER_WAY if evidence.replaced_at is not None:
                return await self.wait(evidence, Because.TERMINATING, finding.after_seconds)
            case Ruling.NOTHING_LEFT if evidence.replaced_at is not None:
                await self._step(evidence, deletion.over)
                return "gone"
            case Ruling.FREE if evidence.replaced_at is not None:
                return await self._free(cluster, evidence, finding)
        return await self._delete(cluster, evidence, finding)

    async def _delete(self, cluster: Cluster, evidence: Evidence, finding: Finding) -> str:
        """GitHub is asked only now that the cluster has nothing against it: each question counts."""
        is_under_way = finding.ruling in (Ruling.UNDER_WAY, Ruling.FREE)
        if not is_under_way:
            outcome = await self._look_at_github(evidence)
            if outcome:
                return outcome
        evidence = await self._record(evidence, finding)
        if evidence.granted_at is None or evidence.replaced_at is not None:
            return "held"  # a delivery, or its controller, was faster
        if evidence.removed_at is None and self._is_ours_to_remove(evidence, finding):
            if finding.ruling is Ruling.DELETE:
                await self.replacer.require_leave(cluster, finding.namespace)
            removed = await self.github.remove(evidence)
            if removed is None:
                return "busy"
            evidence = removed
        if finding.ruling is Ruling.DELETE:
            await self.replacer.act(cluster, finding)
        await self._accept(
            evidence, is_over=not is_under_way and not (self._is_arc and finding.ruling is Ruling.DELETE)
        )
        return "replaced"

    async def _look_at_github(self, evidence: Evidence) -> str:
        """The last look, however often it was tried: a pod that waited for hours may bear a new registration by now."""
        if evidence.removed_at is None:
            return await self.github.look_again(evidence)
        if evidence.confirmed_at is not None:
            outcome = await self.github.look_again(evidence)
        else:  # we took its registration away; who is it now?
            tenant = await self.house.tenant(self.installation, Purpose.ACT)
            outcome = "" if heir_of(evidence, await tenant.runners_named(evidence.name)) is None else "returned"
        if outcome:
            await self._fold(evidence, seen.called_off)
        return outcome

    @property
    def _is_arc(self) -> bool:
        return self.rule.replacer == "arc"

    def _is_ours_to_remove(self, evidence: Evidence, finding: Finding) -> bool:
        """ARC removes the registration itself, and its object goes first. Without one, an offline runner's is left."""
        if self._is_arc:
            return finding.ruling is Ruling.NOTHING_LEFT and evidence.confirmed_at is None
        return True

    async def _record(self, evidence: Evidence, finding: Finding) -> Evidence:
        """What is about to be deleted. After a crash, what was recorded then stays: it was that one that went."""
        known = evidence.deletion
        if known is not None and known.uid and finding.uid != known.uid:
            return evidence
        at = self.house.clock()
        return await self._step(
            evidence,
            lambda before, _at: deletion.found(before, at, finding.uid, finding.said, left_to_arc=self._is_arc),
        )

    async def _accept(self, evidence: Evidence, *, is_over: bool) -> None:
        at = self.house.clock()

        def accept(known: Evidence) -> Evidence:
            look_at = None if is_over else at + TERMINATING_SECONDS + CLOCK_SLACK_SECONDS
            done = deletion.accepted(known.deletion or Deletion(), at, look_at)
            return seen.replaced(seen.removed(seen.deleting(known, done), at), at)

        await self._fold(evidence, accept)
        if not is_over:  # and if this is lost, the next sweeps ask
            key = f"remediate-{self.installation.id}-{evidence.id}-gone"
            args = (self.installation.id, evidence.id)
            self.house.ask(Work.REMEDIATE, *args, key=key, after_seconds=TERMINATING_SECONDS + CLOCK_SLACK_SECONDS)

    async def _free(self, cluster: Cluster, evidence: Evidence, finding: Finding) -> str:
        """Only when GitHub, believed as in a confirmation, says once more that the registration is gone."""
        now = await self.house.github.installation(self.installation.id)
        if not absence.is_sane(self.installation, now):
            return await self.wait(evidence, Because.STILL_REGISTERED)
        if evidence.confirmed_at is not None:
            outcome = await self.github.look_again(evidence)
            if outcome:
                return await self.wait(evidence, Because.STILL_REGISTERED)
        else:
            doubt = await self._doubt_about_offline(evidence)
            if doubt is not None:
                return await self.wait(evidence, doubt)
        await self.replacer.act(cluster, finding)
        await self._step(evidence, deletion.freed)
        await self.wait(evidence, Because.TERMINATING)
        return "freed"

    async def _doubt_about_offline(self, evidence: Evidence) -> Because | None:
        """One that was replaced for being offline was never confirmed to be gone: that takes two 404s of its own."""
        tenant = await self.house.tenant(self.installation, Purpose.ACT)
        answer = await tenant.runner(evidence.id)
        answer = there(evidence, answer, [] if answer else await tenant.runners_named(evidence.name))
        at = self.house.clock()
        await self.house.runners.revise(self.installation.id, {evidence.id: absence.answered(answer, at)})
        if answer is not None:
            return Because.STILL_REGISTERED
        confirm_seconds = self.house.settings.of(self.installation.org).evidence.confirm_seconds
        is_first = evidence.missing_at is None or at - evidence.missing_at < confirm_seconds
        return Because.AWAITING_CONFIRMATION if is_first else None

    async def _refuse(self, evidence: Evidence, finding: Finding) -> str:
        because = finding.because or Because.CLUSTER_REFUSED
        if because is Because.JOB_IN_PROGRESS:
            await learn_of_its_job(self.house, self.installation, evidence)
        if evidence.removed_at is not None:  # it must be replaced, however long that takes
            return await self.wait(evidence, because, finding.after_seconds)
        at = self.house.clock()

        def call_off(known: Evidence) -> Evidence:
            waits = deletion.waits(known.deletion, at, because, finding.after_seconds)
            return seen.called_off(seen.deleting(known, waits))

        await self._fold(evidence, call_off)
        return self._told(evidence, because, finding.said, "called-off")

    async def wait(
        self, evidence: Evidence, because: Because, after_seconds: float | None = None, why: str = ""
    ) -> str:
        """Record what it waits for; `jobs.decide` asks again."""
        await self._step(evidence, lambda known, at: deletion.waits(known, at, because, after_seconds))
        return self._told(evidence, because, why, "waiting")

    def _told(self, evidence: Evidence, because: Because, why: str, outcome: str) -> str:
        if evidence.deletion is not None and evidence.deletion.waits_for == because:
            return STILL_WAITING
        log.warning(
            "replacement waits", org=self.installation.org, runner=evidence.name, because=because.value, why=why
        )
        return outcome

    async def _step(self, evidence: Evidence, change: Callable[[Deletion, float], Deletion]) -> Evidence:
        at = self.house.clock()

        def step(known: Evidence) -> Evidence:
            if known.granted_at is None:
                return known  # called off meanwhile
            return seen.deleting(known, change(known.deletion or Deletion(), at))

        return await self._fold(evidence, step)

    async def _fold(self, evidence: Evidence, change: Callable[[Evidence], Evidence]) -> Evidence:
        def fold(known: Evidence | None) -> Evidence | None:
            return None if known is None else change(known)

        return (await self.house.runners.revise(self.installation.id, {evidence.id: fold}))[evidence.id]
