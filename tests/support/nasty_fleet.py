"""A stored fleet whose every name, label and message is one of some given names."""

from __future__ import annotations

from collections.abc import Sequence

from ghapp.deaths.cause import Cause
from ghapp.deaths.cluster_summary import ClusterSummary
from ghapp.deaths.death import DeadJob, Death
from ghapp.deaths.patterns import death_summary
from ghapp.deaths.post_mortem_store import ClusterSummaries
from ghapp.deaths.store import Deaths
from ghapp.deliveries.store import Inbox
from ghapp.incidents.incident import LossIncident, RunnerLoss
from ghapp.incidents.store import Incidents
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import pool_of
from ghapp.installations.store import Installations
from ghapp.notifications.event_store import Events
from ghapp.pods.phantom_kinds import ADVICE, Phantom, PhantomKind, PhantomReason, key
from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.remediation.pause import Pause
from ghapp.remediation.store import Fuses
from ghapp.report.documents import timestamp
from ghapp.runners.evidence import Evidence, Survey
from ghapp.runners.store import Runners
from ghapp.store.audit import AuditEntry, AuditLog
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.store import Demand
from tests.rules.builders import lost, online

FIRST_RUNNER, FIRST_JOB = 101, 1001
LABEL = "self-hosted"


def pool_named(name: str) -> str:
    """The pool of runners with that label."""
    return pool_of((), (name,), ())


def evidence(number: int, name: str, now: float) -> Evidence:
    """A runner: every second one is lost."""
    labels = {
        "name": name,
        "labels": (LABEL, name),
        "custom_labels": (name,),
        "first_seen": now - 3600,
        "version": name,
    }
    if number % 2:
        gone = {"absent_since": now - 60, "first_404_at": now - 30, "confirmed_at": now - 20}
        return lost(FIRST_RUNNER + number, **labels, **gone, observed_at=now - 20)
    return online(FIRST_RUNNER + number, **labels, observed_at=now - 3)


def job(number: int, name: str, now: float) -> Job:
    """A job that waits for a label that no runner has, in a repository, a workflow and with a name of outsiders."""
    names = {"workflow": name, "name": name, "html_url": f"https://github.com/acme/api/actions/runs/7/job/{number}"}
    return Job(
        FIRST_JOB + number,
        "queued",
        (LABEL, f"{name}-of-another-kind"),
        f"acme/{name}",
        now - 1000,
        run_id=7,
        head_sha="f" * 40,
        **names,
    )


def death(number: int, name: str, now: float) -> Death:
    """The end of a runner in its job."""
    dead_job = DeadJob(FIRST_JOB + number, f"acme/{name}", name, "f" * 40, "failure", "https://github.com/acme/api")
    return Death(
        runner_name=name,
        pod=name,
        node=name,
        at=now - 5 - number,
        exit_code=137,
        signal=9,
        reason=name,
        cause=Cause.HOST_OOM,
        advice="Raise the limit.",
        namespace=name,
        runner_id=FIRST_RUNNER + number,
        pool=pool_named(name),
        job=dead_job,
        runner_log=(name, name),
        host_log=(name,),
        image=name,
        memory_limit=name,
    )


def phantom(name: str) -> Phantom:
    """A pod that counts as a runner and cannot run a job."""
    reason = PhantomReason.POD_LOST
    return Phantom(PhantomKind.OBJECT_WITHOUT_POD, name, reason, ADVICE[reason], pool_named(name), name, name, name)


async def store(redis, installation: Installation, names: Sequence[str], now: float) -> None:
    """Stores the fleet of an installation."""
    numbered = list(enumerate(names))
    await Installations(redis).put(installation)
    runners = {FIRST_RUNNER + number: evidence(number, name, now) for number, name in numbered}
    await Runners(redis).revise(
        installation.id, {each: lambda _, known=known: known for each, known in runners.items()}
    )
    await Runners(redis).save_survey(installation.id, Survey(now, len(names)))
    await Demand(redis).record(installation.id, [job(number, name, now) for number, name in numbered])
    phantoms = tuple(phantom(name) for name in names)
    deaths = [death(number, name, now) for number, name in numbered]
    since = {key(each): now - 300 for each in phantoms}
    summary = ClusterSummary(now, since, phantoms, tuple(death_summary(each) for each in deaths))
    await ClusterSummaries(redis).keep(installation.id, summary)
    incidents = {
        f"{number}": LossIncident(
            f"{number}", pool_named(name), now - 60, None, (RunnerLoss(number, name, pool_named(name), now - 60),)
        )
        for number, name in numbered
    }
    await Incidents(redis).revise(installation.id, lambda _: incidents, now)
    inbox, events, audit, fuses = Inbox(redis), Events(redis), AuditLog(redis), Fuses(redis)
    stopped = Fuse(Position.STOPPED, now - 90, 3, 3, reason=FuseReason.BATCH_NEVER_ONLINE, stopped_at=now - 30)
    for number, name in numbered:
        await Deaths(redis, lambda: now).record(installation.id, deaths[number])
        pool = pool_named(name)
        await fuses.pause(installation.id, pool, Pause(name, name, now - 40))
        await fuses.save(installation.id, pool, None, stopped)
        event = {"type": "ghapp.runner.offline.v1", "subject": name, "time": timestamp(now), "data": {"reason": name}}
        await events.append(installation.id, {**event, "id": f"{installation.id}-{number}"}, None)
        await audit.record(installation.id, AuditEntry(now, name, name, name, name, name, name, name))
        header = name.replace("\x00", "")  # no header has it
        await inbox.keep(header, header, b"{}")
    for entry, name in zip(await inbox.take(len(names)), names, strict=True):
        while not await inbox.failed(entry, f"ValueError: {name}", now):
            pass
