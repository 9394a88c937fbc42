"""Divides delivered jobs among the scopes whose runners may have taken them."""

from __future__ import annotations

from asyncio import gather
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ghapp.github.deliveries import Delivery, WorkflowJob
from ghapp.installations.installation import Installation
from ghapp.installations.scope import ScopeKind
from ghapp.workflow_jobs.job import HOSTED_GROUP
from ghapp.workflow_jobs.job_scopes import (
    DeliveredJob,
    KnownScope,
    needs_labels,
    scope_of_job,
    scopes_of_runner,
)
from ghapp.workflow_jobs.labels import normalized
from jobs.context import JobContext

Delivered = tuple[Delivery, WorkflowJob]


@dataclass(slots=True)
class ScopeShare:
    """What deliveries mean for one scope.

    Attributes:
        jobs: deliveries of the jobs that are counted and explained there.
        runners: deliveries that are recorded of its runners.
        elsewhere: ids of delivered jobs that belong to another scope.
    """

    jobs: list[Delivered] = field(default_factory=list)
    runners: list[WorkflowJob] = field(default_factory=list)
    elsewhere: set[int] = field(default_factory=set)


async def shares_of(
    context: JobContext, installation_id: int, delivered: Sequence[Delivered]
) -> Mapping[int, ScopeShare]:
    """Returns by the scope's id what an installation's deliveries mean for it.

    Without other scopes all of it is the organization's, and nothing is read.
    """
    whole = ScopeShare([*delivered], [job for _, job in delivered])
    if not context.settings.scopes:
        return {installation_id: whole}
    jobs = _delivered_jobs(delivered)
    scopes = await _scopes_of(context, installation_id, {each.repository for each in jobs.values()})
    if not scopes:
        return {installation_id: whole}
    runner_ids = {each.runner_id for each in jobs.values() if each.runner_id}
    organization = KnownScope(installation_id, runners=await context.runners.some(installation_id, runner_ids))
    others = [await _known_scope(context, each, jobs, runner_ids) for each in scopes]
    unknown = [job for job in jobs.values() if not any(each.has_runner(job) for each in (*others, organization))]
    for place, each in enumerate(scopes):
        if needs_labels(others[place], unknown):
            others[place] = others[place]._replace(label_sets=await _label_sets(context, each))
    shares: dict[int, ScopeShare] = defaultdict(ScopeShare)
    places = {each.id: scope_of_job(each, others, organization) for each in jobs.values()}
    recorded = {each.id: scopes_of_runner(each, others, organization) for each in jobs.values()}
    for delivery, job in delivered:
        shares[places[job.id]].jobs.append((delivery, job))
        for scope in recorded[job.id]:
            shares[scope].runners.append(job)
    for known in (*others, organization):
        elsewhere = {job_id for job_id, place in places.items() if place != known.id}
        if elsewhere:
            shares[known.id].elsewhere = elsewhere
    return shares


def _delivered_jobs(delivered: Sequence[Delivered]) -> dict[int, DeliveredJob]:
    """Returns each job once, with its runner if any of the deliveries names one."""
    jobs: dict[int, DeliveredJob] = {}
    for delivery, payload in delivered:
        repository = delivery.repository.id if delivery.repository is not None else 0
        job = jobs.get(payload.id) or DeliveredJob(payload.id, repository, payload.labels)
        if payload.runner_id and payload.runner_name and payload.runner_group_name != HOSTED_GROUP:
            job = job._replace(runner_id=payload.runner_id, runner_name=payload.runner_name)
        jobs[payload.id] = job
    return jobs


async def _scopes_of(context: JobContext, installation_id: int, repositories: set[int]) -> list[Installation]:
    """Returns the scopes of these repositories, and then the enterprises'."""
    known = await context.installations.all()
    of_repositories = [each for each in known if each.parent == installation_id and each.repository_id in repositories]
    return of_repositories + [each for each in known if each.kind is ScopeKind.ENTERPRISE]


async def _known_scope(
    context: JobContext, scope: Installation, jobs: Collection[int], runner_ids: Collection[int]
) -> KnownScope:
    runners, known = await gather(context.runners.some(scope.id, runner_ids), context.demand.known(scope.id, jobs))
    return KnownScope(scope.id, scope.repository_id if scope.parent else 0, runners, known)


async def _label_sets(context: JobContext, scope: Installation) -> set[frozenset[str]]:
    """Returns the labels of the scope's registered runners and of its pools."""
    runners, rules = await context.runners.all(scope.id), context.settings.pools_of(scope.org)
    registered = {normalized(each.labels) for each in runners.values() if each.registered}
    return registered | {normalized(each.labels) for each in rules}
