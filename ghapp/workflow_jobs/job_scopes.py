"""To which scope a delivered job belongs: its organization, its repository, or an enterprise. Pure.

Deliveries come from the installation, whatever scope the job's runner is registered in, and name its runner by id and
name alone. Ids are given by each scope, so that two scopes may have runners of one id: only the same id with the same
name is the same runner.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ghapp.runners.evidence import Evidence
from ghapp.workflow_jobs.labels import normalized


class DeliveredJob(NamedTuple):
    """What deliveries of one job say of where it runs.

    Attributes:
        id: the job's id.
        repository: GitHub's id of its repository.
        labels: those that it requests.
        runner_id: of the self-hosted runner that took it; 0 while none did.
        runner_name: its name.
    """

    id: int
    repository: int
    labels: tuple[str, ...] = ()
    runner_id: int = 0
    runner_name: str = ""


class KnownScope(NamedTuple):
    """What a scope knows of delivered jobs.

    Attributes:
        id: of the scope.
        repository: GitHub's id of the repository, if the scope is one's; else 0. Its name may be another's by now.
        runners: records of the jobs' runners, by id.
        jobs: the ids of those jobs that it knows.
        label_sets: of its registered runners and its pools, in lower case; see `needs_labels`.
    """

    id: int
    repository: int = 0
    runners: Mapping[int, Evidence] = {}
    jobs: Collection[int] = ()
    label_sets: Collection[frozenset[str]] = ()

    def may_have(self, job: DeliveredJob) -> bool:
        """True if jobs of that repository may run in the scope."""
        return self.repository in (0, job.repository)

    def has_runner(self, job: DeliveredJob) -> bool:
        """True if the job's runner is known here by its id and its name."""
        known = self.runners.get(job.runner_id)
        return known is not None and known.name == job.runner_name

    def lists_runner(self, job: DeliveredJob) -> bool:
        """True if a list had the job's runner, and it was not known from deliveries alone."""
        return self.has_runner(job) and self.runners[job.runner_id].registered

    def takes(self, job: DeliveredJob) -> bool:
        """True if runners or pools here have all of the job's labels."""
        wanted = normalized(job.labels)
        return bool(wanted) and any(wanted <= each for each in self.label_sets)


def needs_labels(scope: KnownScope, unknown: Iterable[DeliveredJob]) -> bool:
    """True if the labels of another scope than the organization decide: of a job that waits, a repository's alone.

    Args:
        scope: the scope.
        unknown: the jobs whose runner no scope knows, or that have none.
    """
    return any(scope.may_have(job) and bool(job.runner_id or scope.repository) for job in unknown)


def scope_of_job(job: DeliveredJob, others: Sequence[KnownScope], organization: KnownScope) -> int:
    """Returns the one scope in which a job is counted and explained.

    That is where its runner is listed. Until it is listed anywhere: the scope that knows the job already; else the
    repository's if the job's labels fit there, because GitHub looks for a runner there first; else the organization.

    Args:
        job: the job.
        others: other scopes than the organization, repositories before enterprises.
        organization: of the installation that sent the deliveries.
    """
    candidates = [each for each in others if each.may_have(job)]
    for each in (*candidates, organization):
        if each.lists_runner(job):
            return each.id
    for each in candidates:
        if job.id in each.jobs:
            return each.id
    return next((each.id for each in candidates if each.repository and each.takes(job)), organization.id)


def scopes_of_runner(job: DeliveredJob, others: Sequence[KnownScope], organization: KnownScope) -> list[int]:
    """Returns the scopes in which the job's start and end are recorded of its runner.

    These are the ones that know the runner. A runner that none knows has just been registered: the next list of one of
    these scopes shows it, or its job is over before. Each scope whose runners may be meant then records the job, unless
    it knows another runner by that id: without the end of its job, an ephemeral runner would count as lost.
    """
    if not job.runner_id or not job.runner_name:
        return []
    candidates = [*(each for each in others if each.may_have(job)), organization]
    knowing = [each.id for each in candidates if each.has_runner(job)]
    if knowing:
        return knowing
    unknown = [each for each in candidates if job.runner_id not in each.runners]
    return [each.id for each in unknown if each is organization or not job.labels or each.takes(job)]
