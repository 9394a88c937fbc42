"""Runs a job again whose runner died: because a person pressed the button, or because its pool says so.

The intent is recorded before GitHub is asked. If the outcome is unknown, because the process or the connection broke,
the job's attempts at GitHub settle it before anything is asked again.
"""

from __future__ import annotations

from typing import NamedTuple

from ghapp.deaths.death import DeadJob, Death
from ghapp.deaths.github_words import JobWords, read_words
from ghapp.deaths.metrics import RERUNS
from ghapp.deaths.post_mortem import JobFacts
from ghapp.deaths.rerun import (
    AUTO,
    DEFERRED,
    Rerun,
    RerunFacts,
    RerunNote,
    RerunRefusal,
    RerunRules,
    RerunState,
    is_not_granted,
    latest_attempt,
    may_be_repeated,
    next_try_after,
    refusal,
    settled,
    tries_end_after,
    why_not,
)
from ghapp.deaths.store import identity
from ghapp.deaths.texts import NAME, RERUN, rerun_subject
from ghapp.errors import (
    DeletedError,
    GitHubError,
    NotFoundError,
    PermissionMissingError,
)
from ghapp.github.checks import external_id
from ghapp.github.deliveries import Delivery
from ghapp.github.jobs import Jobs
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.installations.pool_matching import rule_named
from ghapp.log import logger
from ghapp.queue.jobs import JobName
from ghapp.remediation.fuse import Position, fuse_of
from ghapp.store.audit import AuditEntry, Channel
from ghapp.store.presses import rerun_topic
from jobs.context import JobContext, configured, open_context

log = logger(__name__)

NOT_RUN_AGAIN = "not run again"


async def rerun_job(installation_id: int, which: str, by: str, attempt: int = 0, waited: int = 0) -> None:
    """The job: request the re-run of a dead runner's job, or try again later."""
    async with open_context(configured()) as context:
        await rerun_job_of(context, installation_id, which, by, attempt, waited)


async def rerun_job_of(
    context: JobContext, installation_id: int, which: str, by: str, attempt: int = 0, waited: int = 0
) -> Rerun | RerunRefusal | None:
    """Request the re-run of a job, once.

    Args:
        context: the stores and GitHub.
        installation_id: of the job.
        which: the `deaths.store.identity` of its runner's death.
        by: a person's login, or `auto`.
        attempt: how many tries came before; a reason that passes is waited for.
        waited: 1 if one of them found the run going on.

    Returns:
        The re-run, why there is none, or None if another process is at it or nothing is known of the death.

    Raises:
        GitHubError: GitHub gave no usable answer; the try is repeated, as for a reason that passes, and first settles
            the outcome.
    """
    installation = await context.installations.one(installation_id)
    death = await context.deaths.one(installation_id, which)
    if installation is None or installation.suspended or death is None or death.job is None:
        is_installed = installation is not None and not installation.suspended
        why = "the death is no longer on record" if is_installed else "the App is suspended or no longer installed"
        await context.presses.conclude(installation_id, rerun_topic(which), lambda _: f"{NOT_RUN_AGAIN}: {why}")
        return None
    job_id = death.job.id
    async with context.locks.acquire(
        "rerun", f"{installation_id}:{job_id}", context.locks.outliving_seconds
    ) as is_mine:
        if not is_mine:
            return None
        trouble: GitHubError | None = None
        outcome: Rerun | RerunRefusal
        try:
            outcome = await _RerunTry(context, installation, death, by, waited=waited > 0).run()
        except GitHubError as error:
            outcome, trouble = RerunRefusal.NO_ANSWER, error
    named = {"installation": installation_id, "org": installation.org, "job": job_id, "by": by}
    next_try = None
    if isinstance(outcome, Rerun):
        log.info("re-run", **named, repository=death.job.repository, state=outcome.state.value)
        _have_check_run_updated(context, installation_id, which, job_id, outcome.state.value)
    else:
        log.info("not re-run", **named, reason=outcome.value)
        if outcome in DEFERRED:
            waited = 1 if outcome is RerunRefusal.RUN_NOT_OVER else waited
            next_try = await _try_again(context, installation_id, job_id, which, by, attempt, waited)
        if outcome is not RerunRefusal.ALREADY:
            now = context.clock()
            note = RerunNote(outcome.value, by, now, None if next_try is None else now + next_try.after)
            await _note(context, installation_id, which, job_id, note)
    result = outcome.state.value if isinstance(outcome, Rerun) else outcome.value
    await context.counters.add(RERUNS, org=installation.org, outcome=result)
    if isinstance(outcome, Rerun):
        await context.presses.conclude(installation_id, rerun_topic(which), lambda _: result)
    else:
        await _show_press(context, installation_id, which, by, attempt, why_not(outcome), next_try)
    if trouble is not None:
        raise trouble
    return outcome


async def _note(context: JobContext, installation_id: int, which: str, job_id: int, note: RerunNote) -> None:
    """Notes why the job is not run again, or not yet; its check run shows what a person waits for, and what is final.

    It does not follow each unasked try: after a mass loss there are hundreds of them.
    """
    known = await context.reruns.noted(installation_id, job_id)
    if not note.replaces(known, context.clock()):
        return
    await context.reruns.note(installation_id, job_id, note.after(known))
    if note.by != AUTO or note.is_final:
        _have_check_run_updated(context, installation_id, which, job_id, note.reason)


async def _show_press(
    context: JobContext, installation_id: int, which: str, by: str, attempt: int, why: str, next_try: _NextTry | None
) -> None:
    """Records with a person's press why the job is not run again, or not yet.

    What holds up an unasked re-run does not hold up the person's, which is tried by itself.
    """
    if by == AUTO:
        return
    topic = rerun_topic(which)
    if next_try is None:
        ended = f"{NOT_RUN_AGAIN}: {why}" if attempt == 0 else f"{NOT_RUN_AGAIN} after {attempt + 1} tries: {why}"
        await context.presses.conclude(installation_id, topic, lambda _: ended)
        return
    next_at = context.clock() + next_try.after
    await context.presses.wait(installation_id, topic, why, next_at, next_at + tries_end_after(next_try.attempt))


async def _try_again(
    context: JobContext, installation_id: int, job_id: int, which: str, by: str, attempt: int, waited: int
) -> _NextTry | None:
    """Enqueue the next try; returns it, or None if this was the last.

    The tries for persons are one chain, however many press, and it lasts from the last press: an earlier chain ends
    when its next try finds a later one waiting, unless it settles a request. What is tried unasked is another chain.
    """
    known = await context.reruns.of(installation_id, job_id)
    if known is not None and may_be_repeated(known, context.clock()):
        _have_check_run_updated(context, installation_id, which, job_id, known.state.value)  # it gets the button
    chain = f"rerun-{installation_id}-{job_id}-{AUTO if by == AUTO else 'asked'}-"
    next_after = next_try_after(attempt, known, context.clock())
    later = [f"{chain}{number}" for number in range(1, attempt)]  # the later a chain began, the lower its number
    if by != AUTO and known is None and (waiting := context.first_waiting(JobName.RERUN, later)) is not None:
        key, after = waiting
        return _NextTry(after, int(key.removeprefix(chain)))
    if next_after is None:
        return None
    args = (installation_id, which, by, attempt + 1, waited)
    context.ask(JobName.RERUN, *args, key=f"{chain}{attempt + 1}", after_seconds=next_after)
    return _NextTry(next_after, attempt + 1)


def _have_check_run_updated(context: JobContext, installation_id: int, which: str, job_id: int, result: str) -> None:
    key = f"post-mortem-rerun-{installation_id}-{job_id}-{result}"
    context.ask(JobName.POST_MORTEM, installation_id, which, key=key)


def refusal_of(error: GitHubError) -> RerunRefusal | None:
    """Returns why a job is not run again after GitHub's answer about it or its run; None if the answer may change."""
    if isinstance(error, NotFoundError | DeletedError):
        return RerunRefusal.UNKNOWN_JOB
    if isinstance(error, PermissionMissingError) and is_not_granted(error.accepted, error.explanation):
        return RerunRefusal.NOT_GRANTED
    return None


class _NextTry(NamedTuple):
    """The next try to have a job run again: in so many seconds, and how many came before it."""

    after: float
    attempt: int


class _RerunTry:
    """One try to have a job run again."""

    def __init__(self, context: JobContext, installation: Installation, death: Death, by: str, *, waited: bool) -> None:
        self._context, self._installation, self._death, self._by = context, installation, death, by
        self._waited = waited
        self._store, self._org_id = context.reruns, installation.id

    async def run(self) -> Rerun | RerunRefusal:
        """Settle a request with an unknown outcome, then judge by what holds now, record the intent, and ask GitHub."""
        job = self._death.job
        if job is None:
            return RerunRefusal.NOT_FAILED
        known = await self._store.of(self._org_id, job.id)
        if known is not None and known.state is not RerunState.REQUESTED:
            return RerunRefusal.ALREADY
        client = await self._context.installation_client(self._installation, Purpose.REPORT)
        jobs = Jobs(client, self._installation.at_github(job.repository))
        try:
            return await self._judge(jobs, job, known)
        except GitHubError as error:
            why, pending = refusal_of(error), await self._store.of(self._org_id, job.id)
            if why is RerunRefusal.UNKNOWN_JOB and pending is not None:
                return await self._refused(pending, why_not(why))  # whether GitHub received it is never known
            if why is None or pending is not None:
                raise
            return why

    async def _judge(self, jobs: Jobs, job: DeadJob, known: Rerun | None) -> Rerun | RerunRefusal:
        facts = await self._facts(jobs, job.id)
        if known is not None:
            outcome = await self._settle(jobs, facts.job, known)
            if outcome is not None:
                return outcome
        why = refusal(facts)
        if why is None and facts.run is None:
            facts = facts._replace(run=await jobs.run_facts(facts.job.run_id))
            why = refusal(facts)
        if why is not None or facts.run is None:
            return why or RerunRefusal.NOT_FAILED
        now = self._context.clock()
        if self._by == AUTO and not await self._store.grant_unasked(
            self._org_id, job.repository, facts.rules.per_hour, now
        ):
            return RerunRefusal.HOURLY
        intent = Rerun(job.id, facts.job.run_id, facts.job.attempt, self._by, now)
        if not await self._store.begin(self._org_id, intent):
            return RerunRefusal.ALREADY
        return await self._send(jobs, intent)

    async def _facts(self, jobs: Jobs, job_id: int) -> RerunFacts:
        """What is known but for the run; GitHub's words are asked for only where they decide."""
        job = await jobs.facts(job_id)
        facts = await rerun_facts(self._context, self._installation, self._death, job, self._by)
        facts = facts._replace(waited=self._waited)
        needs_words = self._by == AUTO and (job.step_failed or job.conclusion != "failure")
        return facts._replace(words=await job_words(jobs, job_id)) if needs_words else facts

    async def _settle(self, jobs: Jobs, job: JobFacts, known: Rerun) -> Rerun | RerunRefusal | None:
        """The outcome of an earlier request; None if GitHub never received it, which withdraws it."""
        of_run = await jobs.of_run(known.run_id)
        latest = latest_attempt(job, [(each.job.name, each.job.attempt) for each in of_run])
        outcome = settled(known, latest, self._context.clock())
        if isinstance(outcome, Rerun):
            await self._store.keep(self._org_id, outcome)
        elif outcome is None:
            await self._store.forget(self._org_id, known.job_id)
        return outcome

    async def _send(self, jobs: Jobs, intent: Rerun) -> Rerun | RerunRefusal:
        try:
            await jobs.rerun(intent.job_id)
        except PermissionMissingError as error:
            if is_not_granted(error.accepted, error.explanation):
                await self._store.forget(self._org_id, intent.job_id)
                return RerunRefusal.NOT_GRANTED
            return await self._refused(intent, error.explanation or "403 without a reason")
        accepted = intent._replace(state=RerunState.ACCEPTED)
        await self._store.keep(self._org_id, accepted)
        return accepted

    async def _refused(self, intent: Rerun, why: str) -> Rerun:
        log.warning("re-run refused", installation=self._org_id, job=intent.job_id, why=why)
        refused = intent._replace(state=RerunState.REFUSED, why=why)
        await self._store.keep(self._org_id, refused)
        return refused


def rules_of(context: JobContext, installation: Installation, death: Death) -> RerunRules:
    """The `rerun` table of a death's pool; the defaults for a pool that is not configured."""
    rule = rule_named(death.pool, context.settings.pools_of(installation.org))
    return RerunRules() if rule is None else rule.rerun


async def rerun_facts(
    context: JobContext, installation: Installation, death: Death, job: JobFacts, by: str
) -> RerunFacts:
    """What is known when a re-run is considered, without questions to GitHub.

    Deliveries since the death was recorded may have shown that its job deploys.
    """
    fuses, delivered = await context.fuses.all(installation.id), await context.demand.one(installation.id, job.id)
    if delivered is not None and delivered.deploys and death.job is not None:
        death = death._replace(job=death.job._replace(deploys=True))
    return RerunFacts(
        by=by,
        death=death,
        job=job,
        rules=rules_of(context, installation, death),
        granted=installation.may("actions", "write"),
        fuse_closed=fuse_of(fuses, death.pool).position is Position.CLOSED,
    )


async def job_words(jobs: Jobs, job_id: int) -> JobWords:
    """GitHub's words in a job's annotations; unknown where they may not be read, for the steps show most of it."""
    try:
        return read_words(await jobs.annotations(job_id))
    except (NotFoundError, PermissionMissingError):
        return JobWords(known=False)


async def request_if_automatic(context: JobContext, facts: RerunFacts, installation: Installation) -> None:
    """Enqueue the re-run of a job that failed for its runner's death, if its pool says so; else note why not."""
    why = refusal(facts._replace(by=AUTO))
    if await context.reruns.of(installation.id, facts.job.id):
        return
    note = await context.reruns.noted(installation.id, facts.job.id)
    if note is not None and note.is_final:
        return
    if why is not None and why not in DEFERRED:
        await _note_why_not(context, facts, installation, why)
        return
    key = f"rerun-{installation.id}-{facts.job.id}-{AUTO}"
    context.ask(JobName.RERUN, installation.id, identity(facts.death), AUTO, key=key)


async def _note_why_not(context: JobContext, facts: RerunFacts, installation: Installation, why: RerunRefusal) -> None:
    """Note why a pool that runs jobs again unasked does not run this one again. A job that goes on is judged later."""
    is_expected = facts.rules.mode == "auto" and why is not RerunRefusal.NOT_FAILED
    if is_expected and await context.reruns.noted(installation.id, facts.job.id) is None:
        note = RerunNote(why.value, AUTO, context.clock(), None)
        await context.reruns.note(installation.id, facts.job.id, note)


async def request_by_button(context: JobContext, installation: Installation, delivery: Delivery) -> bool:
    """Enqueue a re-run that a person requested; False if the delivery is not about a button of a post-mortem.

    GitHub shows buttons to people with write access to the repository only.
    """
    check_run, action = delivery.check_run, delivery.requested_action
    prefix = external_id(installation.id, "")
    if check_run is None or action is None or check_run.name != NAME or action.identifier != RERUN.identifier:
        return False
    subject = (check_run.external_id or "").removeprefix(prefix)
    posted = await context.post_mortems.posted(subject)
    if posted is None or posted.check_run != check_run.id or not posted.death:
        return False
    by = delivery.sender.login if delivery.sender is not None else "unknown"
    key = f"rerun-{installation.id}-{check_run.id}"
    death = await context.deaths.one(installation.id, posted.death)
    about = rerun_subject(subject if death is None else death.runner_name)
    repository = "" if delivery.repository is None else delivery.repository.full_name
    entry = AuditEntry(context.clock(), by, Channel.CHECK_RUN, "re-run", about, "", "", repository)
    _, first = await context.presses.begin_or_join(installation.id, rerun_topic(posted.death), entry)
    context.ask(JobName.RERUN, installation.id, posted.death, first, key=key)
    log.info("button used", installation=installation.id, org=installation.org, button=action.identifier, by=by)
    return True
