"""The reason of a queued job in words, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ghapp.installations.pool_matching import ALL_POOLS, rule_named, shard_by_label
from ghapp.remediation.fuse import resume_command
from ghapp.remediation.status import ReplacementBlocker, ReplacementTerms, pool_block
from ghapp.untrusted_text import shell_command
from ghapp.wording import are, clock_time, duration, time_of
from ghapp.workflow_jobs.capacity import NOT_ASSIGNED_SECONDS
from ghapp.workflow_jobs.job import QUEUED_TOO_LONG_SECONDS, SHORTEST_SHA, Job
from ghapp.workflow_jobs.job_queue import JobQueue
from ghapp.workflow_jobs.labels import labels_text, listed, missing_labels, names_one_run, shortened
from ghapp.workflow_jobs.reason import STUCK, Placement, QueueReason

_NOT_OF_RUNNERS = (QueueReason.HOSTED_BY_GITHUB, QueueReason.UNKNOWN_POOL)
"""Reasons that the job's labels show, and no list of runners."""


BY_TEAM, BY_ADMIN, BY_OWNER = (
    f"{who} can do that" for who in ("the platform team", "an admin of ghapp", "an owner of the organization")
)
"""Ends of a reason that name who can take a step which the developer of a job cannot."""


class QueueStep(NamedTuple):
    """A next step, and why. `url`: of the workflow file that it changes; empty for other steps."""

    step: str
    why: str
    url: str = ""


class QueueExplanation(NamedTuple):
    """Why a queued job waits.

    Attributes:
        reason: the code.
        text: the same in one sentence.
        since: since when the reason holds, as far as is known (epoch seconds); never before the job was queued.
        ahead: number of older jobs that wait for the same pool; None if no runner may take the job.
        typical_wait_seconds: the median wait of the pool's jobs that started last; None if none did within an hour.
        next: what to do, cheapest first.
        fails_at: when GitHub fails the job if no runner takes it (epoch seconds); None while one can.
    """

    reason: QueueReason
    text: str
    since: float
    ahead: int | None
    typical_wait_seconds: float | None
    next: tuple[QueueStep, ...]
    fails_at: float | None = None


def explain(queue: JobQueue, job: Job) -> QueueExplanation | None:
    """Returns why a queued job waits; None if the job is not queued, is about to be assigned, or nothing is known."""
    reason = queue.reason(job)
    if reason is None:
        return None
    placement = queue.placement(job)
    text, steps = _WORDS[reason](queue, job, placement)
    if (listed_at := queue.inputs.listed_at) is not None and reason not in _NOT_OF_RUNNERS:
        text += f", as of the last list, {clock_time(listed_at)}; no later list could be read"
    ahead = queue.ahead(job) if placement.permitted else None
    typical = queue.typical_wait_seconds(placement.pool) if placement.permitted else None
    fails_at = job.queued_at + QUEUED_TOO_LONG_SECONDS if reason in STUCK else None
    return QueueExplanation(reason, text, _since(queue, job, reason), ahead, typical, tuple(steps), fails_at)


def _since(queue: JobQueue, job: Job, reason: QueueReason) -> float:
    placement, since = queue.placement(job), None
    match reason:
        case QueueReason.NOT_ASSIGNED:
            since = job.queued_at + NOT_ASSIGNED_SECONDS
        case QueueReason.POOL_PAUSED:
            pause = queue.pause_of(placement.pool)
            since = None if pause is None else pause.at
        case QueueReason.FUSE_STOPPED:
            fuse = queue.fuse_of(placement.pool)
            since = fuse.stopped_at or fuse.since
        case QueueReason.RUNNERS_LOST | QueueReason.RUNNERS_OFFLINE:
            since = max((each.away_since or 0.0 for each in placement.permitted), default=None)
    return max(job.queued_at, since or 0.0)


_Words = tuple[str, Sequence[QueueStep]]


def _in_workflow(job: Job, step: str, why: str) -> QueueStep:
    """Returns a step that changes the workflow file; why, and of which commit GitHub took the file, if that is known.

    No delivery has the path of the file: GitHub's page of the run shows it.
    """
    of = f"; see the workflow file of {job.repository} at {job.head_sha[:SHORTEST_SHA]}" if job.head_sha else ""
    run, is_of_job, _ = job.html_url.partition("/job/")
    return QueueStep(step, why + of, f"{run}/workflow" if is_of_job else "")


def _no_runner(queue: JobQueue, job: Job, _: Placement) -> _Words:
    missing, unknown = missing_labels(job.labels, queue.runner_labels), queue.unknown_labels(job)
    if unknown:
        lasting = [label for label in unknown if not names_one_run(label, job.run_id)]
        near = {shortened(label): shortened(found) for label, found in queue.nearest_labels(job).items()}
        hint = "".join(f"; the nearest label to {label} is {found}" for label, found in near.items())
        step = "; ".join(f"change {label} to {found} in runs-on" for label, found in near.items())
        change = [_in_workflow(job, step, "that is the nearest label of a runner or a pool")] if near else []
        split = [label for label in lasting if "," in label]
        one = f"{listed(split)} is one label"
        as_list = [_in_workflow(job, "write a list of labels in runs-on", one)] if split else []
        if lasting:
            if_meant = "if the spelling is right, " if near else ""
            register = QueueStep(
                f"{if_meant}register a runner with the {labels_text(lasting)}",
                f"GitHub assigns the job to such a runner; {BY_TEAM}",
            )
        else:
            register = QueueStep(
                "check what starts a runner for each run", f"the label has the id of one run; {BY_TEAM}"
            )
        return f"no runner has the {labels_text(unknown)}{hint}", [*as_list, *change, register]
    if missing:
        text, pool = f"no runner with the {labels_text(missing)} is registered", queue.pool(job)
        if rule_named(pool, queue.inputs.rules) is None:
            why = "each label is of a pool, but of different pools"
            text += f"; no pool has all of these labels: {listed(job.labels)}"
            return text, [_in_workflow(job, "request labels of one pool in runs-on", why)]
        why = f"the pool has no registered runner with these labels; {BY_TEAM}"
        return f"{text}; pool {pool} is configured for these labels", [QueueStep(f"start runners of {pool}", why)]
    text = f"no runner has all of these labels: {listed(job.labels)}"
    why = "each label exists, but on different runners"
    return text, [_in_workflow(job, "request fewer labels in runs-on", why)]


def _hosted(_queue: JobQueue, job: Job, _: Placement) -> _Words:
    text = f"the job requests a GitHub-hosted runner ({listed(job.labels)})"
    why = "GitHub assigns hosted runners within the organization's concurrency and spending limits"
    return text, [QueueStep("see githubstatus.com and the organization's Actions usage", why)]


def _unknown_pool(_queue: JobQueue, _job: Job, _: Placement) -> _Words:
    text = "the job names a runner group and no labels, and GitHub does not report the group of a queued job"
    return text, [
        QueueStep("see the group in runs-on", "any of its runners takes the job, GitHub's own larger ones included"),
        QueueStep("name a label beside the group in runs-on", "the pool that the job waits for is then known"),
    ]


def _group(queue: JobQueue, job: Job, placement: Placement) -> _Words:
    ids = {each.group_id for each in placement.able}
    groups = [group for group_id, group in queue.groups.items() if group_id in ids]
    names = listed([group.name for group in groups])
    is_public = all(group.visibility != "selected" for group in groups)
    excluded = "public repositories" if is_public else job.repository
    text = f"the runners with these labels are in a runner group that excludes {excluded}: {names}"
    step = "allow public repositories" if is_public else f"allow {job.repository}"
    return text, [
        QueueStep(
            f"{step} in the runner group {names}", f"GitHub assigns no job against the group's access; {BY_OWNER}"
        )
    ]


def usual_wait(median: float, duration: Callable[[float], str] = duration) -> str:
    """Returns a pool's median wait; empty below a second: those jobs started before all its runners were busy.

    Args:
        median: seconds.
        duration: returns seconds as text.
    """
    return "" if median < 1.0 else f"median wait {duration(median)} (the jobs that started last)"


def _busy(queue: JobQueue, job: Job, placement: Placement) -> _Words:
    online, pool = placement.count("online"), placement.pool
    rule = rule_named(pool, queue.inputs.rules)
    shards = {shard_by_label(each.labels, rule) for each in placement.permitted if each.online}
    shard = shards.pop() if len(shards) == 1 else None  # others of the pool's shards may be idle
    where = f"shard {shard} of {placement.pools}" if shard else placement.pools
    text = f"{_all_runners(online, 'online runner')} of {where} {are(online)} busy"
    oldest = queue.oldest_queued_at(pool)
    turn = f"no older job waits for {pool}"
    if oldest is not None and queue.ahead(job):
        turn = f"the oldest job that waits for {pool} was queued at {time_of(oldest, queue.now)}"
    steps = [QueueStep("wait", turn)]
    if lost := placement.count("lost"):
        steps += _held(queue, placement.pool, lost)
    return text, [*steps, QueueStep(f"add runners to {pool}", "its platform team can; every runner works")]


def _held(queue: JobQueue, pool: str, lost: int) -> list[QueueStep]:
    """Returns a step if something prevents the replacement of lost runners."""
    org, whole = queue.inputs.org, queue.inputs.fuses.get(ALL_POOLS)
    terms = ReplacementTerms(
        queue.fuse_of(pool),
        queue.pause_of(pool),
        queue.inputs.mode,
        is_configured=queue.is_configured(pool),
        is_whole=queue.fuse_of(pool) is whole,
    )
    if (block := pool_block(terms)) is None:
        return []
    blocker, text = block
    why = f"{_lost(lost, pool)}: {text}; {BY_ADMIN}"
    match blocker:
        case ReplacementBlocker.PAUSE:
            return [QueueStep(resume_command(org, pool if pool in queue.inputs.pauses else None), why)]
        case ReplacementBlocker.FUSE:
            fuse = ALL_POOLS if terms.is_whole else pool
            return [QueueStep(f"ghapp doctor; then {resume_command(org, fuse)}", why)]
        case ReplacementBlocker.NO_POOL:
            return [QueueStep(f"add a [[pools]] table for {pool}", why)]
        case _:
            return [QueueStep('replace them, or set mode = "act"', why)]


def _not_assigned(_queue: JobQueue, _job: Job, placement: Placement) -> _Words:
    idle = placement.count("settled")
    runners = "1 runner is" if idle == 1 else f"{idle} runners are"
    text = f"{runners} idle in {placement.pools}, but GitHub assigns no job"
    return text, [
        QueueStep("check concurrency and max-parallel of its workflow", "they hold jobs that are reported as queued"),
        QueueStep("see githubstatus.com", "GitHub assigns jobs; ghapp cannot"),
        QueueStep("check the scale set's listener, if ARC runs the pool", "it accepts jobs for its runners"),
        QueueStep("check the plan", "on a free plan, GitHub does not route jobs to custom runner groups"),
    ]


def _too_old(queue: JobQueue, _job: Job, placement: Placement) -> _Words:
    outdated, pool = placement.count("outdated"), placement.pool
    versions = listed(sorted(set[str]().union(*(each.too_old for each in placement.permitted))))
    if outdated:
        have = "has" if outdated == 1 else "have"
        text = f"{_all_runners(outdated)} of {placement.pools} online {have} version {versions}"
    else:
        text = f"runners of {placement.pools} have version {versions}, end without a job and are started again"
    org = shell_command("ghapp", "versions", "--org", queue.inputs.org)
    steps = [QueueStep(*each) for each in queue.inputs.version_steps(pool)]
    look = QueueStep(org, "it shows which versions run, and until when GitHub gives them jobs")
    return f"{text}, and GitHub gives that no jobs any more", [*steps, look]


def _paused(queue: JobQueue, _: Job, placement: Placement) -> _Words:
    lost = placement.count("lost")
    text = f"{_lost(lost, placement.pool)}, and remediation is paused"
    return text, _held(queue, placement.pool, lost)


def _stopped(queue: JobQueue, _: Job, placement: Placement) -> _Words:
    lost = placement.count("lost")
    text = f"{_lost(lost, placement.pool)}, and the fuse is stopped"
    return text, _held(queue, placement.pool, lost)


def _runners_lost(queue: JobQueue, _: Job, placement: Placement) -> _Words:
    lost, replaced, pool = placement.count("lost"), placement.count("replaced"), placement.pool
    if not lost:
        missing = placement.count("missing")
        which = f"1 runner of {pool} is" if missing == 1 else f"{missing} runners of {pool} are"
        why = "ghapp asks GitHub for it again; once its loss is confirmed, it is replaced"
        return f"{which} missing from GitHub's list, and being checked", [QueueStep("wait", why)]
    if lost == replaced:
        text = f"the replacement of {replaced} lost {'runner' if replaced == 1 else 'runners'} of {pool} was accepted"
        why = "no successor is online yet; the fuse stops if none comes"
        return f"{text}, and no successor is online", [QueueStep("wait", why)]
    held = _held(queue, pool, lost)
    runners = shell_command("ghapp", "runners", "--org", queue.inputs.org, "--pool", pool)
    return _lost(lost, pool), held or [QueueStep(runners, "it shows how far the replacement of each runner is")]


def _offline(_queue: JobQueue, _job: Job, placement: Placement) -> _Words:
    count = placement.count("offline")
    text = f"{_all_runners(count)} of {placement.pools} {are(count)} offline"
    why = "GitHub lists them as registered and offline; ghapp replaces offline runners only if the pool asks for it; "
    why += BY_TEAM
    return text, [QueueStep(f"start the runners of {placement.pool}, or check their network", why)]


_WORDS = {
    QueueReason.NO_RUNNER_WITH_LABELS: _no_runner,
    QueueReason.HOSTED_BY_GITHUB: _hosted,
    QueueReason.UNKNOWN_POOL: _unknown_pool,
    QueueReason.GROUP_EXCLUDES_REPOSITORY: _group,
    QueueReason.RUNNERS_TOO_OLD: _too_old,
    QueueReason.ALL_BUSY: _busy,
    QueueReason.NOT_ASSIGNED: _not_assigned,
    QueueReason.POOL_PAUSED: _paused,
    QueueReason.FUSE_STOPPED: _stopped,
    QueueReason.RUNNERS_LOST: _runners_lost,
    QueueReason.RUNNERS_OFFLINE: _offline,
}


def _all_runners(count: int, what: str = "runner") -> str:
    return f"the only {what}" if count == 1 else f"all {count} {what}s"


def _lost(count: int, pool: str) -> str:
    return f"1 runner of {pool} is lost" if count == 1 else f"{count} runners of {pool} are lost"
