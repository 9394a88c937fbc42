"""What else must be known before anything is deleted in a cluster: claims, and jobs."""

from __future__ import annotations

from functools import partial

from ghapp.errors import GitHubError
from ghapp.health import evidence as seen
from ghapp.health.cadence import Purpose
from ghapp.health.cluster.deletable import Circumstances
from ghapp.health.cluster.podclaim import by_name
from ghapp.health.evidence import Evidence
from ghapp.health.installation import Installation
from ghapp.log import logger
from jobs.house import House

log = logger(__name__)


async def circumstances(house: House, installation: Installation, evidence: Evidence) -> Circumstances:
    """As of now. A job of which GitHub said that it is over is over, even where no delivery said so."""
    now = house.clock()
    claims = await house.pod_claims.all(installation.id, now)
    over = evidence.job_id if evidence.job_ended_at is not None else None
    jobs = await house.demand.all(installation.id)
    return Circumstances(
        now=now,
        grace_seconds=house.settings.of(installation.org).evidence.startup_seconds,
        claimed=frozenset(by_name(claims)),
        at_work=frozenset(
            each.runner_name for each in jobs if each.status == "running" and each.runner_name and each.id != over
        ),
    )


async def learn_of_its_job(house: House, installation: Installation, evidence: Evidence) -> None:
    """Ask GitHub whether its job is over: the delivery that would say so may be lost. Any doubt changes nothing."""
    job_id = evidence.running_job
    job = None if job_id is None else await house.demand.one(installation.id, job_id)
    if job is None or not installation.may("actions", "read"):
        return
    tenant = await house.tenant(installation, Purpose.ACT)
    try:
        is_over = await tenant.job_is_over(job.repository, job.id)
    except GitHubError as error:
        log.info("the job gave no answer", org=installation.org, job=job.id, why=str(error))
        return
    if is_over:
        ended = partial(_ended, job_id=job.id, at=house.clock())
        await house.runners.revise(installation.id, {evidence.id: ended})


def _ended(evidence: Evidence | None, job_id: int, at: float) -> Evidence | None:
    return None if evidence is None else seen.job_ended(evidence, job_id, at)
