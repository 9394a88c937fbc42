"""Remediation of lost runners: `jobs.remediation.plan_remediation`, `…remediate`, `jobs.events.deliver_event`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ghapp.installations.pacing import Purpose
from ghapp.installations.pool_matching import pool_of
from ghapp.pods.pod_claim import PodClaim, claim_on
from ghapp.remediation import decision, steps
from ghapp.remediation.fuse import Position, fuse_of
from ghapp.remediation.status import ReplacementTerms, replacement_status, should_replace
from ghapp.remediation.steps import RemediationStep, RequestStep
from ghapp.replace.event_backlog import BREAKER_SECONDS
from ghapp.runners import absence, observations
from ghapp.runners.evidence import Evidence, Fold
from ghapp.runners.verdict import judge, runs_a_job
from tests.simulation.calls import CALL, STEP, Calls, Steps
from tests.simulation.fleet import Refused
from tests.simulation.folds import as_planned, if_known

if TYPE_CHECKING:
    from tests.simulation.engine import Process


class _Pause(NamedTuple):
    who: str = "a person"
    why: str = ""
    at: float = 0.0
    until: float | None = None


PAUSE = _Pause()


class Acting(Calls):
    """Grants, removes and replaces."""

    def decide(self, me: Process) -> Steps:
        if not (yield from self.hold(me, "plan")):
            return
        config, now = self.config, self.clock()
        limits = replace(config.remediation, mode=self.engine.changes.mode)
        known = dict(self.store.runners)
        pools = decision.by_pool(known.values(), self.store.survey, self.rules, now, config.evidence)
        fuses, paused = dict(self.store.fuses), set(self.store.paused)
        claimed = self.engine.claiming.held()
        runners = list(known.values())
        jobs = self.engine.fleet.known_jobs() if decision.deliveries_flow(runners, now) else None
        inputs = decision.DecisionInputs(self.store.survey, now, jobs, claimed)
        decided = decision.decide(pools, fuses, paused, self.rules, config.fuse, limits, inputs)
        if all(each.position is Position.CLOSED for each in fuses.values()) and decision.are_at_rest(
            runners, self.store.survey, self.rules, now, config.evidence
        ):
            assert (decided.fuse_changes, decided.plan.chosen, decided.not_needed) == ((), (), ()), (
                "a sweep would not have planned"
            )
        self.audit.judged(pools, now)
        self.engine.fleet.planned(decided.plan.chosen)
        yield STEP
        overtaken = []
        for fuse_change in decided.fuse_changes:
            if self.store.save_fuse(fuse_change.pool, fuse_change.before, fuse_change.after):
                self.engine.trace(
                    "fuse",
                    pool=fuse_change.pool,
                    now=fuse_change.after.position.value,
                    because=fuse_change.after.reason.value,
                )
                self.audit.turned(fuse_change.pool, fuse_change.before, fuse_change.after)
            else:
                overtaken.append(fuse_change.pool)
            yield STEP
        decided = decided.without(overtaken)
        written_off = {
            each: as_planned(known[each], partial(observations.not_needed, at=now)) for each in decided.not_needed
        }
        for runner_id, evidence in self.store.revise(written_off).items():
            if evidence.not_needed_at == now:
                self.audit.written_off(runner_id)
        self.store.revise({each: as_planned(known[each], observations.needed_again) for each in decided.needed})
        if limits.mode == "act":
            yield from self.grant(decided, known, now)
        else:
            spare = partial(observations.would_remediate, at=now)
            self.store.revise({each: as_planned(known[each], spare) for each in decided.plan.chosen})
        self.probe(now)
        for each in list(self.store.runners.values()):
            if each.event_id is not None and each.replaced_at is None and each.event_id not in self.store.events:
                self.remediation_of(each.id)
        self.store.release(me, "plan")

    def probe(self, now: float) -> None:
        """`…/alive` and `replace`: what liveness probes and controllers that poll get, as `OrgView` answers them."""
        is_seen = self.store.survey.failing_since is None
        for evidence in self.store.runners.values():
            if evidence.granted_at is None:
                continue
            verdict = judge(evidence, self.store.survey, now, self.config.evidence)
            pool = pool_of(evidence.labels, evidence.custom_labels, self.rules)
            claim, paused = self.claim_on(evidence), pool in self.store.paused
            pause = PAUSE if paused else None
            fuse, mode = fuse_of(self.store.fuses, pool), self.engine.changes.mode
            may_terminate = steps.may_terminate(
                evidence, verdict, fuse, mode, now, paused=paused, claimed=claim is not None
            )
            if is_seen and may_terminate:
                self.audit.ends_itself(evidence)
            terms = ReplacementTerms(fuse, pause, mode, survey=self.store.survey)
            is_asked_for = should_replace(evidence, verdict, terms, now, claim)
            if is_asked_for:
                self.audit.is_asked_for(evidence)
            status = replacement_status(evidence, verdict, terms, now, claim)
            self.audit.is_shown(evidence, status, is_asked_for=is_asked_for)

    def grant(self, decided: decision.Decision, known: Mapping[int, Evidence], now: float) -> Steps:
        folds = {
            each: as_planned(
                known[each],
                partial(
                    observations.granted, at=now, event_id=steps.request_id(self.store.installation.id, known[each])
                ),
            )
            for each in decided.plan.chosen
        }
        before = dict(self.store.runners) if folds else {}
        granted = [each for each, evidence in self.store.revise(folds).items() if evidence.granted_at is not None]
        fresh = {each: decided.pool_of[each] for each in granted if before[each].granted_at is None}
        if fresh:
            self.engine.trace(
                "granted", runners=[*fresh], deferred={k: v.value for k, v in decided.plan.deferred.items()}
            )
            self.audit.granted(fresh, now)
        for runner_id in granted:
            yield STEP
            self.remediation_of(runner_id)

    def remediation_of(self, runner_id: int) -> None:
        self.engine.start(f"remediate-{runner_id}", partial(self.remediate, runner_id), retries=True)

    def remediate(self, runner_id: int, me: Process) -> Steps:
        if not (yield from self.hold(me, f"runner-{runner_id}")):
            return
        evidence = self.store.runners.get(runner_id)
        if evidence is None:
            return
        if not self.may_act(evidence):
            if self.is_claimed(evidence) and observations.grant_released(evidence) is not evidence:
                self.fold(runner_id, if_known(observations.grant_released))
            elif runs_a_job(evidence, self.clock()):
                yield from self.ended_jobs({runner_id: evidence})
            return
        yield from self.settle()
        answer = yield from self.call_or_none(Purpose.ACT, self.github.runner, runner_id)
        self.audit.looked_again(runner_id, answer)
        yield STEP
        same_name = (yield from self.call(Purpose.ACT, self.github.named, evidence.name)) if answer is None else []
        match steps.step_after(evidence, answer, same_name):
            case RemediationStep.RECORD_RETURN:
                back = steps.present(evidence, answer, same_name)
                self.fold(runner_id, absence.folds_of_get(back, self.clock()))
                return
            case RemediationStep.RECORD_SUCCESSOR:
                successor = steps.successor_of(evidence, same_name) or 0
                self.fold(runner_id, if_known(partial(observations.reregistered, as_id=successor)))
                return
            case RemediationStep.CALL_OFF:
                self.fold(runner_id, if_known(observations.grant_revoked))
                return
        self.fold(runner_id, if_known(partial(observations.looked_again, at=self.clock())))
        if evidence.removed_at is None:
            if not self.may_still_act(runner_id):
                return
            self.audit.about_to_remove(evidence, self.store.survey, self.clock())
            text = yield from self.call(Purpose.ACT, self.github.remove, runner_id)
            self.engine.trace("DELETE", runner=runner_id, text=text)
            at = self.clock()
            yield STEP
            if text == "busy":
                self.fold(runner_id, if_known(partial(observations.busy_after_all, at=at)))
                return
            was_deleted = text == "removed"
            removed = partial(observations.removed, at=at, granted=evidence, was_deleted=was_deleted)
            self.fold(runner_id, if_known(removed))
            evidence = self.store.runners[runner_id]
        yield STEP
        if self.may_still_act(runner_id):
            self.append(self.store.runners[runner_id])

    def may_still_act(self, runner_id: int) -> bool:
        """By what is known of it this very moment."""
        fresh = self.store.runners.get(runner_id)
        return fresh is not None and self.may_act(fresh)

    def append(self, evidence: Evidence) -> None:
        event_id = evidence.event_id or ""
        if self.store.append(event_id, evidence.id):
            self.engine.trace("REPLACE", runner=evidence.id, event=event_id)
            self.audit.asked_for(evidence.id, event_id)
        if event_id in self.store.unsent:
            self.bring(event_id)

    def bring(self, event_id: str) -> None:
        self.engine.start(f"notify-{event_id}", partial(self.notify, event_id))

    def bring_if_unsent(self, event_id: str) -> None:
        if event_id in self.store.unsent:
            self.bring(event_id)

    def may_act(self, evidence: Evidence) -> bool:
        pool = pool_of(evidence.labels, evidence.custom_labels, self.rules)
        state = judge(evidence, self.store.survey, self.clock(), self.config.evidence).state
        fuse = fuse_of(self.store.fuses, pool)
        mode = self.engine.changes.mode
        paused, claimed = pool in self.store.paused, self.is_claimed(evidence)
        return steps.may_act(evidence, state, fuse, mode, self.clock(), paused=paused, claimed=claimed)

    def is_held(self, evidence: Evidence) -> bool:
        """By the mode, a pause, a stopped fuse, or because its pool is not configured now."""
        pool = pool_of(evidence.labels, evidence.custom_labels, self.rules)
        is_stopped = fuse_of(self.store.fuses, pool).holds_requests
        acts = self.engine.changes.mode == "act"
        return not acts or is_stopped or pool in self.store.paused or self.is_unconfigured(pool)

    def is_unconfigured(self, pool: str) -> bool:
        return bool(self.rules) and all(rule.name != pool for rule in self.rules)

    def is_claimed(self, evidence: Evidence) -> bool:
        """By its controller: a process works there."""
        return self.claim_on(evidence) is not None

    def claim_on(self, evidence: Evidence) -> PodClaim | None:
        return claim_on(self.engine.claiming.held(), evidence.name, self.clock())

    def fold(self, runner_id: int, fold: Fold) -> None:
        self.store.revise({runner_id: fold})

    def notify(self, event_id: str, me: Process) -> Steps:
        runner_id = self.store.events[event_id]
        known = self.store.runners.get(runner_id)
        match steps.request_step(known, event_id, self.clock(), held=known is not None and self.is_held(known)):
            case RequestStep.WITHDRAW:
                self.store.unsent.discard(event_id)
                return
            case RequestStep.WAIT:
                return  # the scheduler enqueues it again
            case RequestStep.LOOK:
                self.remediation_of(runner_id)
                return
        self.audit.leaves(runner_id)
        self.engine.staged.leaves(runner_id)
        yield CALL
        try:
            self.engine.fleet.accept(event_id, runner_id)
        except Refused:
            self.engine.after(BREAKER_SECONDS[1], partial(self.bring_if_unsent, event_id))
            return
        yield STEP
        self.audit.accepted(runner_id, event_id)
        self.fold(runner_id, partial(steps.accepted, event_id=event_id, at=self.clock()))
        self.audit.recorded(runner_id)
        yield STEP
        self.store.unsent.discard(event_id)
