"""Renders the check run "Runner queue" on the commit of jobs that wait, and the jobs of "Runner health". Pure.

Anyone who can read the repository reads it. In a public repository it names the job's own labels, pools and numbers of
runners, and leaves out most steps.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from ghapp.report.check_run import LONGEST, Conclusion, Report
from ghapp.report.fleet import FleetView
from ghapp.report.markdown import NOTHING, code, cut, heading, row
from ghapp.untrusted_text import shell_command
from ghapp.wording import counted, duration, sentence, time_of
from ghapp.workflow_jobs.demand import NO_POOL, PoolDemand
from ghapp.workflow_jobs.explanation import QueueExplanation, explain
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.job_queue import JobQueue
from ghapp.workflow_jobs.queue_check import REFRESH_SECONDS, FollowedJob, QueueCheck
from ghapp.workflow_jobs.reason import STUCK, UNSERVED, QueueReason

QUEUE_CHECK = "Runner queue"
"""The check run's name."""

QUIET_TOPIC = "ghapp-quiet"
"""A repository with this topic gets no such check run."""

KNOWN_JOBS = "jobs are known from deliveries, until 30 days after their end"
"""After the name of a job that is not known."""

LONGEST_TEXT = 800
"""Maximum characters of one sentence."""

ROOM = LONGEST // 2

FOR_EVERYONE = (QueueReason.NO_RUNNER_WITH_LABELS, QueueReason.NOT_ASSIGNED)
"""Reasons whose steps are shown in public repositories, too."""

_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ./+=,();-]|:(?= ))*")
"""A sentence in which GitHub finds no mention, no address with a scheme, no emoji and no markup."""

_LINKED = re.compile(r"\bwww\.|\bGH-", re.IGNORECASE)
"""What GitHub links in such a sentence: an address without a scheme, and an issue."""

_TITLES = {
    "NoRunnerWithLabels": "No runner has the labels of {jobs}",
    "GroupExcludesRepository": "The runner group excludes this repository",
    "PoolPaused": "The runners of {jobs} are lost, and remediation is paused",
    "FuseStopped": "The runners of {jobs} are lost, and the fuse is stopped",
    "RunnersLost": "The runners of {jobs} are lost",
    "RunnersOffline": "All runners of {jobs} are offline",
    "RunnersTooOld": "GitHub gives the version of the runners of {jobs} no jobs",
    "AllBusy": "All runners of {jobs} are busy",
    "NotAssigned": "Runners are idle, but GitHub assigns no job",
}
"""By reason. Titles have no text of others: GitHub shows them as they are."""

_PARTS: Mapping[QueueReason | None, tuple[str, str]] = {
    QueueReason.NO_RUNNER_WITH_LABELS: ("lacks a label that no runner has", "lack a label that no runner has"),
    QueueReason.GROUP_EXCLUDES_REPOSITORY: ("is excluded by the runner group", "are excluded by the runner group"),
    QueueReason.POOL_PAUSED: ("waits for lost runners, paused", "wait for lost runners, paused"),
    QueueReason.FUSE_STOPPED: ("waits for lost runners, fuse stopped", "wait for lost runners, fuse stopped"),
    QueueReason.RUNNERS_LOST: ("waits for lost runners", "wait for lost runners"),
    QueueReason.RUNNERS_OFFLINE: ("waits for offline runners", "wait for offline runners"),
    QueueReason.RUNNERS_TOO_OLD: ("waits for runners that are too old", "wait for runners that are too old"),
    QueueReason.ALL_BUSY: ("waits for busy runners", "wait for busy runners"),
    QueueReason.NOT_ASSIGNED: ("waits while runners are idle", "wait while runners are idle"),
    QueueReason.HOSTED_BY_GITHUB: ("waits for a GitHub-hosted runner", "wait for GitHub-hosted runners"),
    QueueReason.UNKNOWN_POOL: ("waits for a runner group", "wait for a runner group"),
    None: ("waits for its turn", "wait for their turn"),
}
"""By reason, what one job and several jobs do, where jobs of one commit wait for several reasons."""


def queue_report(check: QueueCheck, queue: JobQueue) -> Report:
    """Renders the check run of one commit; without a conclusion while any of its jobs waits."""
    waiting = [each for each in check.jobs if each.left_at is None]
    explained = {job.id: explain(queue, job) for job in _queued(check, queue)}
    if not waiting and not check.more:
        return _completed(check)
    found = [reason for each in waiting if (reason := explained.get(each.id)) is not None]
    worst = min(found, key=lambda each: each.reason not in STUCK, default=None)
    repository = code(check.repository)
    count = len(waiting) + check.more
    since = time_of(min((each.queued_at for each in waiting), default=queue.now))
    are = "1 job" if count == 1 else f"{count} jobs", "waits" if count == 1 else "wait"
    parts = [f"{are[0]} of {repository} {are[1]} for a self-hosted runner, the oldest since {since}."]
    if worst is not None:
        parts.append(f"**{_sentence(worst.text)}** ({code(worst.reason)})")
        if _is_private(check, queue) or worst.reason in FOR_EVERYONE:
            parts.append(_steps(worst))
    parts.append(
        "This check follows the jobs: another reason, and another number of jobs that no runner can take, is shown "
        f"within a minute, any other number within {duration(REFRESH_SECONDS)}. It completes when none waits. The "
        f"topic `{QUIET_TOPIC}` turns it off."
    )
    begin = f"**As of {time_of(queue.now)}.** "
    return Report(
        title=_title(waiting, explained, check.more),
        summary=begin + "\n\n".join(part for part in parts if part),
        text=_text(waiting, explained, count),
        conclusion=None,
        actions=(),
        as_of=begin,
    )


def _is_private(check: QueueCheck, queue: JobQueue) -> bool:
    """True if only members can read the repository. The steps name pauses, with their reason, and runner groups."""
    return any(job.private for job in _queued(check, queue))


def _queued(check: QueueCheck, queue: JobQueue) -> list[Job]:
    """Returns the followed jobs that are still queued."""
    return [job for each in check.jobs if (job := queue.queued_by_id.get(each.id)) is not None]


def reasons_digest(check: QueueCheck, queue: JobQueue) -> str:
    """A hash of what the check means: for how many jobs no runner is online, and the reasons.

    Labels that no runner has are part of it: the advice names them. How many others wait, and whether busy runners are
    idle for a moment, changes with each event and means nothing else.
    """
    unserved = [(job, reason) for job in _queued(check, queue) if (reason := queue.reason(job)) in UNSERVED]
    lacking = {tuple(sorted(job.labels)) for job, reason in unserved if reason is QueueReason.NO_RUNNER_WITH_LABELS}
    meaning = [sorted(Counter(reason for _, reason in unserved).items()), sorted(lacking)]
    return hashlib.sha256(json.dumps(meaning).encode()).hexdigest()[:32]


def _title(waiting: Sequence[FollowedJob], explained: Mapping[int, QueueExplanation | None], more: int) -> str:
    """Returns how many jobs wait for which reason, those that cannot start by themselves first."""
    found = (explained.get(each.id) for each in waiting)
    counts = Counter(None if each is None else each.reason for each in found)
    if len(counts) == 1 and not more:
        ((reason, count),) = counts.items()
        return _title_of_one(reason, count)
    parts = [
        f"{count} {_PARTS[reason][count != 1]}"
        for reason, count in sorted(counts.items(), key=lambda item: (item[0] not in STUCK, -item[1], item[0] or ""))
    ]
    first, *others = [*parts, *([f"{more} more {'waits' if more == 1 else 'wait'}"] if more else [])]
    number, _, rest = first.partition(" ")
    return ", ".join((f"{number} {'job' if number == '1' else 'jobs'} {rest}", *others))


def _title_of_one(reason: QueueReason | None, count: int) -> str:
    jobs = "this job" if count == 1 else f"{count} jobs"
    if reason is None:
        return f"GitHub has assigned no runner to {jobs} yet"
    return _TITLES.get(reason, "A job waits for a runner").format(jobs=jobs)


def _steps(worst: QueueExplanation) -> str:
    lines = [f"{number}. {_step(step)} {_sentence(why)}" for number, (step, why) in enumerate(worst.next, 1)]
    return "\n".join(["What to do:", "", *lines]) if lines else ""


def _step(text: str) -> str:
    """Returns a next step as a sentence; a command as code."""
    return f"Run {code(text, LONGEST_TEXT)}." if text.startswith("ghapp ") else _sentence(text)


def _sentence(text: str) -> str:
    """Returns a text as a sentence; as code, unchanged, if it has characters that Markdown may interpret."""
    if not _PLAIN.fullmatch(text) or _LINKED.search(text) or len(text) > LONGEST_TEXT:
        return f"{code(text, LONGEST_TEXT)}."
    return sentence(text)


def _text(waiting: Sequence[FollowedJob], explained: dict[int, QueueExplanation | None], count: int) -> str:
    head = heading("Job", "Queued", "Reason", "Explanation", "Ahead")
    return cut(head, (_row(each, explained.get(each.id)) for each in waiting), count, ROOM, "jobs")


def _row(followed: FollowedJob, found: QueueExplanation | None) -> str:
    name = code(followed.name or str(followed.id))
    link = f"[{name}]({followed.html_url})" if _is_link(followed.html_url) else name
    if found is None:
        return row(link, time_of(followed.queued_at), "–", "GitHub has assigned no runner yet", "–")
    ahead = "–" if found.ahead is None else str(found.ahead)
    return row(link, time_of(followed.queued_at), found.reason, _sentence(found.text), ahead)


def _is_link(url: str) -> bool:
    return re.fullmatch(r"https?://[\w.:/-]+", url, re.ASCII) is not None


def _completed(check: QueueCheck) -> Report:
    """Renders how long each job waited. Neutral: whether the jobs succeed is shown by themselves."""
    waits = [max(0.0, (each.left_at or 0.0) - each.queued_at) for each in check.jobs]
    started = [each.started for each in check.jobs]
    longest = duration(max(waits, default=0.0))
    jobs = "The job" if len(waits) == 1 else f"{len(waits)} jobs"
    if all(started):
        title = f"{jobs} started; the longest wait was {longest}" if len(waits) > 1 else f"Started after {longest}"
    elif any(started):
        title = f"{sum(started)} of {len(waits)} jobs started; the longest wait was {longest}"
    else:
        title = f"{jobs} ended without a runner after {longest}"
    head = heading("Job", "Queued", "Waited", "Outcome")
    rows = (_outcome(each, waited) for each, waited in zip(check.jobs, waits, strict=True))
    return Report(
        title=title,
        summary=f"No job of {code(check.repository)} at this commit waits for a self-hosted runner any more.",
        text=cut(head, rows, len(waits), ROOM, "jobs"),
        conclusion=Conclusion.NEUTRAL,
        actions=(),
    )


def _outcome(followed: FollowedJob, waited: float) -> str:
    name = code(followed.name or str(followed.id))
    link = f"[{name}]({followed.html_url})" if _is_link(followed.html_url) else name
    outcome = "started" if followed.started else "ended without a runner"
    return row(link, time_of(followed.queued_at), duration(waited), outcome)


SECTION_ROOM = 12_000
"""Maximum characters of each part."""

COLUMNS = ("Queued", "Running", "Oldest queued", "Idle runners", "Unserved")


def queue_table(fleet: FleetView, now: float) -> str:
    """Renders a row for each pool with jobs or online runners; empty without any.

    The numbers change all the time. They are as of the report's last post, and cause none.
    """
    pools = [each for each in fleet.demand if each.queued or each.running or each.online]
    if not pools:
        return ""
    head = f"\n\nJobs as of {time_of(now, now)}; unserved: no online runner can take the job.\n\n"
    numbers = [each for each in COLUMNS if each != "Oldest queued"]
    return cut(
        head + heading("Pool", *COLUMNS, numbers=numbers),
        (_pool(each, now) for each in pools),
        len(pools),
        SECTION_ROOM,
        "pools",
    )


def _pool(pool: PoolDemand, now: float) -> str:
    oldest = NOTHING if pool.oldest_queued_at is None else time_of(pool.oldest_queued_at, now)
    return row(
        code(pool.pool) if pool.pool else NO_POOL,
        str(pool.queued),
        str(pool.running),
        oldest,
        str(pool.idle),
        str(pool.unserved),
    )


def unserved_text(fleet: FleetView, now: float) -> str:
    """Renders jobs that no online runner can take, by pool and reason; empty if there are none."""
    found: dict[tuple[str, str], list[Job]] = defaultdict(list)
    for each in fleet.unserved:
        found[each.pool, each.reason].append(each.job)
    if not found:
        return ""
    count = len(fleet.unserved)
    head = f"### No online runner can take {counted(count, 'queued job')}\n\n"
    command = code(shell_command("ghapp", "jobs", "--unserved", "--org", fleet.org))
    head += f"{command} lists them; `ghapp why` explains one.\n\n"
    head += heading("Pool", "Reason", "Jobs", "Oldest since", numbers=("Jobs",))
    rows = (
        row(code(pool) if pool else NO_POOL, reason, str(len(jobs)), time_of(min(job.queued_at for job in jobs), now))
        for (pool, reason), jobs in sorted(found.items())
    )
    return cut(head, rows, len(found), SECTION_ROOM, "pools")
