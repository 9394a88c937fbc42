"""Two lists of runners, 30 s apart. A runner is online, idle and persistent."""

from __future__ import annotations

from ghapp.installations.scope import Scope, ScopeKind
from ghapp.pods.assigned_job import JobOfRun
from ghapp.runners.absence import GetResult, RunnerList
from ghapp.scan.findings import Reading
from ghapp.scan.looks import Look, observed
from tests.rules.builders import NOW, registration
from tests.rules.workflow_jobs.builders import job

GAP = 30.0
ACME = Scope(ScopeKind.ORGANIZATION, "acme")
API = Scope(ScopeKind.REPOSITORY, "acme/api")
CORP = Scope(ScopeKind.ENTERPRISE, "acme-corp")


def runner(runner_id=1, **changes):
    return registration(id=runner_id, name=f"linux-{runner_id}", online=True)._replace(**changes)


def offline(runner_id=1, **changes):
    return runner(runner_id, online=False)._replace(**changes)


def look(*runners, at=NOW - GAP, total=None, **changes):
    listed = {each.id: each for each in runners}
    return Look(RunnerList(listed, len(listed) if total is None else total, **changes), at)


def looks(before, after):
    return [look(*before), look(*after, at=NOW)]


def missing(runner_id=1, at=NOW + 1):
    """GitHub's 404 for a runner, once the second list is read."""
    return {runner_id: GetResult(None, at)}


def found(each, at=NOW + 1):
    return {each.id: GetResult(each, at)}


def seen(before, after, answers=None, jobs=()):
    return observed(looks(before, after), answers or {}, jobs)


def queued(job_id=1, **changes):
    return JobOfRun(job(job_id, **changes))


def reading(before=(), after=None, scope=ACME, **changes):
    """What a scan read: both lists, and no job."""
    lists = looks(before, before if after is None else after)
    return Reading(**{"scope": scope, "looks": lists, "now": NOW, **changes})
