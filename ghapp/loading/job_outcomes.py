"""Loads what is known of workflow jobs beside their deliveries: deaths of their runners, re-runs, other attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import Death, LargerPool, larger_pools
from ghapp.deaths.job_death import is_same_end
from ghapp.deaths.job_outcome import NOT_TO_REPEAT, JobOutcome, LaterAttempt, other_attempts, run_again_as
from ghapp.deaths.post_mortem import APART_UNSEEN_SECONDS, UNFINISHED
from ghapp.deaths.store import MOST_READ
from ghapp.deaths.texts import OF_MEMORY
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import PoolRule
from ghapp.notifications.event_ids import death_id
from ghapp.store.stores import Stores
from ghapp.workflow_jobs.job import Job, JobSearch, is_over, was_hosted

MOST_RUNS = 200
"""Runs whose ended jobs are searched for other attempts; in longer lists they are sought among the known jobs alone."""


MOST_ENDS = 200
"""Ends of runners among which pools with more memory are looked for, the latest."""


async def load_job_outcomes(
    stores: Stores,
    installation: Installation,
    jobs: Sequence[Job],
    known: Iterable[Job] = (),
    rules: Sequence[PoolRule] = (),
) -> Mapping[int, JobOutcome]:
    """Returns the outcomes of jobs by id, in a few round trips for all of them; jobs without any are left out.

    Args:
        stores: the stores.
        installation: of the jobs.
        jobs: as last reported.
        known: jobs among which their other attempts are.
        rules: the configured pools, of which those with more memory are named where memory ran out.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    ends = await _ends_of(stores, installation.id, [job for job in jobs if _may_have_lost_its_runner(job)])
    reruns = await stores.reruns.of_jobs(installation.id, [*ends])
    mortems = {
        job_id: death_id(installation, each) for job_id, each in ends.items() if each.cause is not Cause.CLEAN_EXIT
    }
    posted = await stores.post_mortems.of_deaths([*mortems.values()])
    larger = await load_larger_pools(stores, installation, ends.values(), rules)
    attempts = await _attempts_of(stores, installation, jobs, known)
    ids = {each.id for several in attempts.values() for each in several}
    of_attempts = await stores.reruns.of_jobs(installation.id, sorted(ids)) if ids else {}
    found = {}
    for job in jobs:
        rerun, note = reruns.get(job.id, (None, None))
        others = [of_attempts.get(each.id, (None, None))[0] for each in attempts[job.id]]
        requested = tuple(each for each in others if each is not None)
        end = ends.get(job.id)
        exited = end is not None and end.cause is Cause.CLEAN_EXIT
        outcome = JobOutcome(None if exited else end, rerun, note, attempts[job.id], requested, exited)
        if end is not None:
            outcome = outcome._replace(larger=larger.get(end.memory_limit, ()))
        if (check_run := posted.get(mortems.get(job.id, ""))) is not None:
            outcome = outcome._replace(button=check_run.button_at(job.html_url))
        if outcome != JobOutcome():
            found[job.id] = outcome
    return found


async def load_later_attempts(
    stores: Stores, installation: Installation, jobs: Sequence[Job], known: Iterable[Job], now: float
) -> Mapping[int, LaterAttempt]:
    """Returns the latest attempts of jobs that failed and were run again, by id, for a list; `known` as there.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    failed = [job for job in jobs if is_over(job, now) and job.conclusion not in NOT_TO_REPEAT]
    attempts = await _attempts_of(stores, installation, failed, known)
    reruns = await stores.reruns.of_jobs(installation.id, [job.id for job in failed])
    outcomes = ((job, JobOutcome(rerun=reruns[job.id][0], attempts=attempts[job.id])) for job in failed)
    found = {job.id: run_again_as(job, outcome, now) for job, outcome in outcomes}
    return {job_id: later for job_id, later in found.items() if later is not None}


async def _attempts_of(
    stores: Stores, installation: Installation, jobs: Sequence[Job], known: Iterable[Job]
) -> dict[int, tuple[Job, ...]]:
    """Returns the other attempts of each job, by its id: GitHub runs the same commit again."""
    searches = {
        JobSearch(run_id=job.run_id, sha=job.head_sha)
        for job in jobs
        if job.run_id is not None and (job.attempt > 1 or job.status == "over")
    }
    of_runs = await stores.demand.find_ended(installation.id, *searches) if 0 < len(searches) <= MOST_RUNS else ()
    by_run: dict[int | None, list[Job]] = {}
    for each in chain(known, of_runs):
        by_run.setdefault(each.run_id, []).append(each)
    return {job.id: other_attempts(job, by_run.get(job.run_id, ())) for job in jobs}


async def load_larger_pools(
    stores: Stores, installation: Installation, deaths: Iterable[Death], rules: Sequence[PoolRule]
) -> Mapping[str, tuple[LargerPool, ...]]:
    """Returns the pools with more memory than each limit of those deaths that memory caused."""
    limits = {each.memory_limit for each in deaths if each.cause in OF_MEMORY and each.memory_limit}
    ends = await stores.deaths.recent(installation.id, 0.0, MOST_ENDS) if limits and rules else []
    return {each: larger_pools(each, ends, rules) for each in limits}


def _may_have_lost_its_runner(job: Job) -> bool:
    """True if a death of the job's runner may explain it: the job did not come to a result of its own."""
    if job.runner_name is None or job.started_at is None or was_hosted(job):
        return False
    return job.status == "running" or job.conclusion in ("", *UNFINISHED)


async def _ends_of(stores: Stores, installation: int, jobs: Sequence[Job]) -> dict[int, Death]:
    """Returns the deaths of these jobs' runners, by job, and the latest clean exits.

    A later runner of a name may have died since.
    """
    latest = await stores.deaths.latest(installation, [*{job.runner_name or "" for job in jobs}])
    found, missing = dict[int, Death](), list[Job]()
    for job in jobs:
        death = latest.get(job.runner_name or "")
        if death is not None and is_same_end(death, job):
            found[job.id] = death
        elif death is not None and death.ended_before > (job.started_at or 0.0):
            missing.append(job)
    if missing:
        since = min(job.started_at or 0.0 for job in missing) - APART_UNSEEN_SECONDS
        others = await stores.deaths.unclean(installation, since, MOST_READ)
        for job in missing:
            own = (each for each in others if each.runner_name == job.runner_name and is_same_end(each, job))
            if (death := next(own, None)) is not None:
                found[job.id] = death
    return found
