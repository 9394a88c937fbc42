"""Sweeps, confirmations and deliveries: `jobs.scheduler`, `jobs.runners.sweep`, `…confirm`, `jobs.deliveries.inbox`, step by step.

Each job is a generator. It yields for as long as a call takes, and between any two writes, so that others come in
between, or it dies there. Whatever it decides is decided by the rules of `ghapp`, as in `jobs`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ghapp.incidents.settled import Settled, holds, is_settled
from ghapp.installations import pacing
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.remediation import fuse
from ghapp.remediation.fuse import Position, open_since
from ghapp.runners import absence, observations
from ghapp.runners.absence import GetResult, RunnerList
from ghapp.runners.delivery_lag import confirmation_deferred, has_waited, left_in_gap
from ghapp.runners.evidence import Evidence, Fold, Survey, is_absent
from ghapp.runners.observations import removal_reported
from ghapp.runners.transitions import ANSWERABLE_SECONDS, WAITING_SECONDS, may_be_forgotten
from ghapp.runners.verdict import Reason, State, judge
from jobs.runners.due_sweeps import RETRY_SECONDS
from tests.simulation.acting import Acting
from tests.simulation.calls import CALL, STEP, Steps
from tests.simulation.fleet import Delivery
from tests.simulation.github import PER_PAGE, NoAnswer, NotFound
from tests.simulation.scenario import HOUR
from tests.simulation.store import FAR_SECONDS

if TYPE_CHECKING:
    from tests.simulation.engine import Process


RUNNERS = "organization_self_hosted_runners"


FORGOTTEN_SECONDS = 2.5 * HOUR
"""Longer than a fuse looks back: an hour before a batch that proves itself within the hour."""


class Tick(NamedTuple):
    """One tick of the scheduler."""

    driver: Driver
    dated: float

    def __call__(self) -> None:
        self.driver.tick(self.dated)


class Driver(Acting):
    """Runs sweeps, confirmations and deliveries."""

    def tick(self, dated: float) -> None:
        """`jobs.scheduler`: enqueue the sweep that is due; again after a while unless the sweep sets another time.

        `dated`: the date that this tick was made for; there may be another by now.
        """
        if dated != self.store.due or self.engine.skip():
            return
        now = self.clock()
        for event_id in self.store.unsent:
            self.bring(event_id)
        if self.store.enrolled and (self.store.due <= now or self.store.due > now + FAR_SECONDS):
            self.due_at(now + RETRY_SECONDS)
            self.engine.start("sweep", partial(self.sweep, due_at=dated))

    def due_at(self, at: float) -> None:
        if at == self.store.due:
            return
        self.store.due = at
        self.wait_for_due()

    def wait_for_due(self) -> None:
        """The scheduler looks every second, by our clock: after a jump the due time is another true time."""
        self.engine.after(max(0.0, self.store.due - self.clock()), Tick(self, self.store.due))

    def sweep(self, me: Process, due_at: float | None = None) -> Steps:
        if not (yield from self.hold(me, "sweep")):
            return
        began, survey, installation = self.clock(), self.store.survey, self.store.installation
        settled = self.store.settled
        pages, confirm_at = 0, []
        try:
            look, pages = yield from self.look_at(installation)
            yield STEP
            if holds(settled, _digest(look), began):
                self.audit.looked(look, began)
                self.store.survey = absence.survey_after(survey, look, began, pages)
                self.audit.list_recorded(look, began)
            else:
                confirm_at = yield from self.record(me, look, pages, survey, began)
        except (NoAnswer, NotFound) as error:
            reason = yield from self.reason(error)
            self.store.survey = absence.survey_after_failure(survey, reason, began)
            self.audit.failed(began)
            self.engine.trace("sweep failed", reason=reason)
        allowance = self.store.budget.left(self.clock())
        mean = self.store.survey.changed_pages
        wait = pacing.next_sweep_in(self.config.interval, pages, mean, allowance, self.config.budget)
        self.due_at(pacing.next_sweep_at(began, due_at, wait))
        self.store.release(me, "sweep")
        for due in confirm_at:
            self.engine.start(f"confirm-{int(due)}", self.confirm, after=due - self.clock(), retries=True)
        yield from self.decide(me)

    def look_at(self, installation: Installation) -> Steps:
        if installation.suspended:
            raise NoAnswer(Reason.INSTALLATION_SUSPENDED)
        return (yield from self.observe(Purpose.SWEEP))

    def reason(self, error: Exception) -> Steps:
        if isinstance(error, NoAnswer):
            return error.reason
        yield CALL
        try:
            now = self.github.installation()
        except NoAnswer as why:
            return why.reason
        renamed = now.org != self.store.installation.org
        self.store.installation = now
        return Reason.ORGANIZATION_RENAMED if renamed else Reason.PERMISSION_MISSING

    def record(self, me: Process, look: RunnerList, pages: int, survey: Survey, began: float) -> Steps:
        digest = _digest(look)
        self.store.begin_to_judge()
        yield STEP
        limits, known = self.config.evidence, dict(self.store.runners)
        look, found = absence.allow_for_churn(look), {}
        if absence.is_doubtful(look, known, self.config.fuse.floor):
            sampled = absence.sample(known)
            answers = yield from self.ask_each(sampled)
            look, found = absence.usable(look, sampled, answers), absence.found(answers)
        after = absence.survey_after(survey, look, began, pages)
        self.audit.looked(look, began)
        records = {**known, **self.store.revise(absence.folds_of_list(look, known, survey, began), known)}
        asked = absence.not_yet_queried(records.values(), after, began, limits)
        asked += absence.possibly_hidden(records.values(), look, began)
        yield STEP
        answers = (yield from self.ask_each(asked)) if asked else {}
        at = self.clock()
        yield STEP
        folds = {each: absence.folds_of_get(*result) for each, result in {**found, **answers}.items()}
        records |= self.store.revise(folds, records)
        yield STEP
        self.store.survey = after
        self.audit.list_recorded(look, began)
        self.engine.deliveries.expect(records.values(), self.clock())
        due = absence.due_in_sweep(records.values(), look, after, began, at, limits)
        records |= yield from self.confirm_listed(me, due, look)
        self.store.revise({each.id: self.forget for each in records.values() if self.forget(each) is None})
        if look.flaw is None and not look.churned and is_settled(records.values(), after, began, limits):
            yield STEP
            self.store.settle(Settled(began, digest))
        if self.engine.tracing:
            self.engine.trace("swept", listed=len(look.runners), flaw=look.flaw or "", asked=answers)
        return absence.confirm_at(records.values(), after, at, limits)

    def forget(self, evidence: Evidence | None) -> Evidence | None:
        """Forgets finished runners after `FORGOTTEN_SECONDS`, not a day, to save simulation time."""
        if evidence is None or (evidence.online and not is_absent(evidence)):
            return evidence
        verdict = judge(evidence, self.store.survey, self.clock(), self.config.evidence)
        replaced = evidence.replaced_at is not None and self.clock() - evidence.replaced_at > FORGOTTEN_SECONDS
        kept = WAITING_SECONDS if replaced else ANSWERABLE_SECONDS
        done_with = verdict.state is State.RETIRED or replaced
        ahead = self.clock() + (kept - FORGOTTEN_SECONDS if done_with else 0.0)
        since = open_since(self.store.fuses.values())
        return None if may_be_forgotten(evidence, verdict, ahead, counted_since=since) else evidence

    def confirm(self, me: Process) -> Steps:
        if not (yield from self.hold(me, "confirm")):
            return
        records = self.store.runners.values()
        due = absence.due(records, self.store.survey, self.clock(), self.config.evidence)
        is_needed = due or absence.awaits_plan(records)
        absent = {each.id for each in records if is_absent(each)} - due.keys()
        self.engine.staged.confirming(due)
        yield from self.try_to_confirm(due, absent=absent)
        self.store.release(me, "confirm")
        if is_needed:
            yield from self.decide(me)

    def confirm_listed(self, me: Process, due: dict[int, Evidence], control: RunnerList) -> Steps:
        if not due or not self.store.take("confirm", me, self.engine.now):
            return {}
        revised = yield from self.try_to_confirm(due, control)
        self.store.release(me, "confirm")
        return revised

    def try_to_confirm(
        self, due: dict[int, Evidence], control: RunnerList | None = None, absent: Collection[int] = ()
    ) -> Steps:
        try:
            return (yield from self.confirm_due(due, control, absent)) if due else {}
        except (NoAnswer, NotFound) as error:
            self.engine.trace("not confirmed", why=repr(error))
            return {}

    def confirm_due(self, suspects: dict[int, Evidence], control: RunnerList | None, absent: Collection[int]) -> Steps:
        known = self.store.installation
        yield CALL
        if not absence.is_sane(known, self.github.installation()):
            return {}
        suspects = suspects | (yield from self.ended_jobs(suspects))
        suspects = {each.id: each for each in suspects.values() if each.running_job is None}
        survey = self.store.survey
        suspects = yield from self.without_deferred(suspects, survey)
        if not suspects:
            return {}
        listed_at = self.clock()
        control = yield from self.control(suspects, survey, control)
        if absence.why_unusable(control, survey):
            return {}
        self.engine.fleet.confirming(suspects)
        listed = {each: GetResult(control.runners[each], listed_at) for each in suspects if each in control.runners}
        asked = yield from self.ask_each(each.id for each in absence.needs_own_get(suspects.values(), control))
        for runner_id, result in listed.items():
            self.audit.answered(runner_id, result.at)
        yield STEP
        results = listed | asked
        folds = {each: absence.confirmed(suspects[each], *result) for each, result in results.items()}
        revised = self.store.revise(folds | absence.folds_of_control(control, absent, listed_at))
        self.audit.controlled(control, {*absent, *listed}, listed_at)
        self.engine.trace("confirmed", absent=[each for each, result in asked.items() if result.registration is None])
        return revised

    def control(self, suspects: Mapping[int, Evidence], survey: Survey, listed: RunnerList | None) -> Steps:
        """`jobs.runners.confirm._control`."""
        if listed is not None:
            control = listed
        elif absence.wants_whole_list(suspects.values(), survey, PER_PAGE):
            look, _ = yield from self.observe(Purpose.ACT)
            control = absence.allow_for_churn(look)
        else:
            page = yield from self.call(Purpose.ACT, self.github.page, 1)
            control = RunnerList({each.id: each for each in page.runners}, page.total, churned=True)
        if not control.churned:
            return control
        runners = dict(control.runners)
        for each in suspects.values():
            found = yield from self.call(Purpose.ACT, self.github.named, each.name)
            runners |= {runner.id: runner for runner in found}
        return control._replace(runners=runners)

    def without_deferred(self, suspects: dict[int, Evidence], survey: Survey) -> Steps:
        """`jobs.delivery_gaps.without_deferred`. A log without a failure takes no time here."""
        now = self.clock()
        if not suspects:
            return suspects
        failure = ""
        if not self.engine.deliveries.is_log_plain:
            yield CALL
            try:
                self.github.delivery_log()
                self.engine.deliveries.read_log(self.clock())
            except NoAnswer as error:
                failure = error.reason.value
        gaps = self.engine.deliveries.gaps(self.clock(), failure)
        doubtful = [each for each in suspects.values() if left_in_gap(each, gaps, survey)]
        deferred = {each.id for each in doubtful if not has_waited(each, survey, now)}
        if deferred:
            self.store.revise(dict.fromkeys(deferred, partial(confirmation_deferred, at=now)))
            self.engine.trace("deferred", runners=[*deferred], why=[each.text for each in gaps])
        return {runner_id: each for runner_id, each in suspects.items() if runner_id not in deferred}

    def ended_jobs(self, suspects: Mapping[int, Evidence]) -> Steps:
        folds: dict[int, Fold] = {}
        for each, job in absence.jobs_to_look_up(suspects.values(), self.clock()):
            if job not in self.store.known_jobs:
                continue
            try:
                end = yield from self.call(Purpose.ACT, self.github.job_end, job)
                folds[each.id] = observations.job_looked_up(job, self.clock(), end)
                if end is not None and end.completed_at is not None:
                    self.audit.answered(each.id, end.completed_at)
            except (NoAnswer, NotFound):
                continue
        return self.store.revise(folds)

    def discover(self, me: Process) -> Steps:
        """`jobs.installations.discover`: where the App is installed, and whether it has the permissions."""
        yield CALL
        try:
            now = self.github.installation()
        except NoAnswer as error:
            if error.reason is Reason.INSTALLATION_GONE:
                self.store.enrolled = False
            return
        self.store.installation = now
        was_enrolled, self.store.enrolled = self.store.enrolled, now.may(RUNNERS, "read") and not now.suspended
        if self.store.enrolled:
            if not was_enrolled:
                self.due_at(self.clock())
            return
        why = Reason.INSTALLATION_SUSPENDED if now.suspended else Reason.PERMISSION_MISSING
        self.store.survey = absence.survey_after_failure(self.store.survey, why, self.clock())

    def deliver(self, delivery: Delivery) -> None:
        """`jobs.deliveries.inbox`: a delivery takes effect, once by its GUID."""
        if delivery.guid in self.store.guids:
            return
        self.store.guids.add(delivery.guid)
        self.engine.deliveries.arrive(delivery, self.clock())
        self.delivered.append((self.engine.now, delivery))
        self.store.known_jobs.add(delivery.job_id)
        self.engine.fleet.delivered(delivery)
        now = self.clock()

        def fold(evidence: Evidence | None) -> Evidence:
            known = evidence or observations.first_observation(delivery.runner_id, delivery.runner_name, now)
            if delivery.over:
                return observations.job_ended(known, delivery.job_id, delivery.at, delivery.started_at, now)
            return observations.job_started(known, delivery.job_id, delivery.at, now)

        self.fold(delivery.runner_id, fold)
        self.engine.trace("delivered", job=delivery.job_id, runner=delivery.runner_id, over=delivery.over)
        self.audit.answered(delivery.runner_id, delivery.at)
        ahead = self.engine.fleet.clock_offset
        over_at = delivery.at - ahead if delivery.over else None
        self.audit.delivered(delivery.runner_id, delivery.job_id, delivery.started_at - ahead, over_at)

    def deliver_again(self, since: float) -> None:
        """What took effect since then was forgotten: GitHub is asked to send it again."""
        for at, delivery in list(self.delivered):
            if at >= since:
                self.store.guids.discard(delivery.guid)
                self.deliver(delivery)

    def check(self, runner_id: int) -> None:
        """`POST …/check`: one GET on behalf of a controller, recorded at once."""
        try:
            answer = self.github.runner(runner_id, self.store.installation.org)
        except NotFound:
            answer = None
            self.audit.answered_404(runner_id)
        self.audit.answered(runner_id)
        self.fold(runner_id, absence.folds_of_get(answer, self.clock()))

    def controller_says_removed(self, runner_id: int) -> None:
        """`DELETE /v1/orgs/{org}/runners/{runner_id}`."""
        self.fold(runner_id, partial(removal_reported, runner_id=runner_id, at=self.clock()))
        machine = self.engine.world.machines[runner_id]
        machine.removal_reported, machine.removal_reported_at = True, self.engine.now
        machine.is_disproved = False

    def pause(self, pool: str | None) -> None:
        """A person stops remediation, in one pool or in all."""
        self.store.paused |= {pool} if pool else {each.name for each in self.rules}
        self.audit.paused()

    def resume(self) -> None:
        """`Fuses.resume`: a person ends all pauses and restarts stopped fuses, after a sweep."""
        self.store.paused.clear()
        stopped = {pool: each for pool, each in self.store.fuses.items() if each.position is Position.STOPPED}
        for pool, before in stopped.items():
            self.store.save_fuse(pool, before, fuse.resume(before, self.clock(), self.config.fuse, "a person"))
        self.audit.resumed(stopped)
        self.engine.start("sweep", self.sweep)


def _digest(look: RunnerList) -> bytes:
    return str(hash((look.total, look.flaw, *look.runners.items()))).encode()
