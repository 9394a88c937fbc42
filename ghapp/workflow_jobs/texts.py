"""Renders the check run "Runner queue" on the commit of jobs that wait, and the jobs of "Runner health". Pure.

Anyone who can read the repository reads it. In a public repository it names the job's own labels, pools and numbers of
runners, and leaves out most steps.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ghapp.deaths.rerun import AUTO
from ghapp.report.check_run import LONGEST, Conclusion, Report
from ghapp.report.fleet import FleetView
from ghapp.report.markdown import NOTHING, code, cut, heading, linked, row
from ghapp.untrusted_text import LONGEST_WORD, shell_command
from ghapp.wording import counted, duration, sentence, time_of
from ghapp.workflow_jobs.demand import NO_POOL, PoolDemand
from ghapp.workflow_jobs.explanation import QueueExplanation, QueueStep, explain
from ghapp.workflow_jobs.job import SHORTEST_SHA, Job
from ghapp.workflow_jobs.job_queue import JobQueue
from ghapp.workflow_jobs.labels import labels_text
from ghapp.workflow_jobs.queue_check import REFRESH_SECONDS, FollowedJob, QueueCheck
from ghapp.workflow_jobs.reason import STUCK, UNSERVED, QueueReason, waited_for_text

QUEUE_CHECK = "Runner queue"
"""The check run's name."""

QUIET_TOPIC = "ghapp-quiet"
"""A repository with this topic gets no such check run."""

KNOWN_JOBS = "jobs are known from deliveries, until 30 days after their end"
"""After the name of a job that is not known."""

JobPage = Callable[[int], str | None]
"""Returns the address of the page of a job, by its id; None if it is not known."""

LONGEST_TEXT = 800
"""Maximum characters of one sentence."""

ROOM = LONGEST // 2

FOR_EVERYONE = (QueueReason.NO_RUNNER_WITH_LABELS, QueueReason.NOT_ASSIGNED)
"""Reasons whose steps are shown in public repositories, too."""

_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ./+=,();-]|:(?= )|(?<=[0-9]):(?=[0-9]{2}\b))*")
"""A sentence in which GitHub finds no mention, no address with a scheme, no emoji and no markup; a time has colons."""

_LINKED = re.compile(r"\bwww\.|\bGH-", re.IGNORECASE)
"""What GitHub links in such a sentence: an address without a scheme, and an issue."""

_TITLES = {
    QueueReason.NO_RUNNER_WITH_LABELS: "No runner has the labels of {jobs}",
    QueueReason.GROUP_EXCLUDES_REPOSITORY: "The runner group excludes this repository",
    QueueReason.POOL_PAUSED: "The runners of {jobs} are lost, and remediation is paused",
    QueueReason.FUSE_STOPPED: "The runners of {jobs} are lost, and the fuse is stopped",
    QueueReason.RUNNERS_LOST: "The runners of {jobs} are lost",
    QueueReason.RUNNERS_OFFLINE: "All runners of {jobs} are offline",
    QueueReason.RUNNERS_TOO_OLD: "GitHub gives the version of the runners of {jobs} no jobs",
}
"""By each reason why no runner can take a job. Titles have no text of others: GitHub shows them as they are."""

_PARTS = {
    QueueReason.NO_RUNNER_WITH_LABELS: ("lacks a label that no runner has", "lack a label that no runner has"),
    QueueReason.GROUP_EXCLUDES_REPOSITORY: ("is excluded by the runner group", "are excluded by the runner group"),
    QueueReason.POOL_PAUSED: ("waits for lost runners, paused", "wait for lost runners, paused"),
    QueueReason.FUSE_STOPPED: ("waits for lost runners, fuse stopped", "wait for lost runners, fuse stopped"),
    QueueReason.RUNNERS_LOST: ("waits for lost runners", "wait for lost runners"),
    QueueReason.RUNNERS_OFFLINE: ("waits for offline runners", "wait for offline runners"),
    QueueReason.RUNNERS_TOO_OLD: ("waits for runners that are too old", "wait for runners that are too old"),
}
"""By the same reasons, what one job and several jobs do, where jobs of one commit wait for several of them."""

_PASSING: Mapping[QueueReason | None, str] = {
    QueueReason.ALL_BUSY: "Waiting for busy runners",
    QueueReason.NOT_ASSIGNED: "Runners are idle, but GitHub assigns no job",
    QueueReason.HOSTED_BY_GITHUB: "Waiting for GitHub-hosted runners",
    QueueReason.UNKNOWN_POOL: "Waiting for a runner group",
    None: "GitHub has assigned no runner yet",
}
"""The title while some runner can take each job, by the first of the reasons. It has no numbers: they change all the
time, and the title is not posted again for them."""


def origin_text(branch: str, sha: str, actor: str, rerun_by: str = "") -> str:
    """Returns where a job comes from, `main at 3484a3f, by lisa`, as far as it is known; else empty."""
    at = " at ".join(filter(None, (branch, sha[:SHORTEST_SHA])))
    by = f"by {actor}{again_text(rerun_by, actor)}" if actor else ""
    return ", ".join(filter(None, (at, by)))


def again_text(rerun_by: str, actor: str) -> str:
    """Returns who had ghapp run a job of this actor again, in brackets after the actor's name; empty for others."""
    if not rerun_by:
        return ""
    if rerun_by == AUTO:
        return " (run again by ghapp, as its pool is configured)"
    return f" (run again by ghapp{'' if rerun_by == actor else f', requested by {rerun_by}'})"


def no_page(_job_id: int) -> None:
    """The addresses of the pages of jobs are not known."""


def queue_report(check: QueueCheck, queue: JobQueue, page: JobPage = no_page) -> Report:
    """Renders the check run of one commit; without a conclusion while any of its jobs waits.

    Args:
        check: what it follows.
        queue: the jobs and runners of the organization.
        page: returns the address of the page of a job, by its id.
    """
    waiting = [each for each in check.jobs if each.left_at is None]
    explained = {job.id: explain(queue, job) for job in _queued(check, queue)}
    if not waiting and not check.more:
        return _completed(check, page)
    found = [reason for each in waiting if (reason := explained.get(each.id)) is not None]
    worst = min(found, key=lambda each: each.reason not in STUCK, default=None)
    unserved = [each for each in waiting if (why := explained.get(each.id)) is not None and why.reason in UNSERVED]
    parts = [_first_sentence(check, unserved, waiting, queue.now)]
    if outcomes := _outcomes(each for each in check.jobs if each.left_at is not None):
        parts[0] += f" Of the jobs that waited while this check was open, {outcomes}."
    if worst is not None:
        parts.append(f"**{_sentence(worst.text)}** ({code(worst.reason)})")
        if _is_private(check, queue) or worst.reason in FOR_EVERYONE:
            parts.append(_steps(worst))
    if ends := [each.fails_at for each in found if each.fails_at is not None]:
        which = "this job" if len(ends) == 1 else "the first of them"
        parts.append(f"{failure_of_job(which, time_of(min(ends), queue.now))}.")
    parts.append(
        f"This check is updated within a minute if another number of jobs has no runner, and every "
        f"{duration(REFRESH_SECONDS)}. It completes when no job waits. The topic `{QUIET_TOPIC}` turns it off."
    )
    begin = f"**As of {time_of(queue.now)}.** "
    return Report(
        title=_title(waiting, explained, has_more=check.more > 0),
        summary=begin + "\n\n".join(part for part in parts if part),
        text=_text(check, queue, unserved, explained, page),
        conclusion=None,
        actions=(),
        as_of=begin,
    )


def _first_sentence(
    check: QueueCheck, unserved: Sequence[FollowedJob], waiting: Sequence[FollowedJob], now: float
) -> str:
    """Returns how many jobs no online runner can take or, if there are none, how many wait."""
    counted_jobs = unserved or waiting
    count = len(counted_jobs) + (0 if unserved else check.more)
    queued = min((each.queued_at for each in counted_jobs), default=now)
    jobs, since = f"{counted(count, 'job')} of {code(check.repository)}", f"the oldest since {time_of(queued)}"
    if unserved:
        return f"No online runner can take {jobs}, {since}."
    return f"{jobs} {'waits' if count == 1 else 'wait'} for a self-hosted runner, {since}."


def failure_of_job(job: str, at: str) -> str:
    """Returns when GitHub fails a job that no runner can take."""
    return f"GitHub fails {job} at {at}, 24 hours after it was queued"


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


def _title(waiting: Sequence[FollowedJob], explained: Mapping[int, QueueExplanation | None], *, has_more: bool) -> str:
    """Returns why the jobs wait, in what is true until the next post: for how many of them no runner is there.

    How many others wait changes with each event, and is not part of it.
    """
    found = [explained.get(each.id) for each in waiting]
    reasons = [None if each is None else each.reason for each in found]
    counts = Counter(reason for reason in reasons if reason in UNSERVED)
    if not counts:
        return next((title for reason, title in _PASSING.items() if reason in reasons), _PASSING[None])
    if len(counts) == 1:
        ((reason, count),) = counts.items()
        is_one = len(waiting) == 1 and not has_more
        return _TITLES[reason].format(jobs="this job" if is_one else _jobs(count, has_more=has_more))
    ordered = sorted(counts.items(), key=lambda item: (item[0] not in STUCK, -item[1], item[0]))
    parts = [f"{_jobs(count, has_more=has_more)} {_PARTS[reason][count != 1 or has_more]}" for reason, count in ordered]
    return ", ".join(parts)


def _jobs(count: int, *, has_more: bool) -> str:
    return f"{count} or more jobs" if has_more else counted(count, "job")


def _steps(worst: QueueExplanation) -> str:
    lines = [f"{number}. {_step(each)} {_sentence(each.why)}" for number, each in enumerate(worst.next, 1)]
    return "\n".join(["What to do:", "", *lines]) if lines else ""


def _step(found: QueueStep) -> str:
    """Returns a next step as a sentence, linked to where it is taken; a command as code."""
    if found.step.startswith("ghapp "):
        return f"Run {code(found.step, LONGEST_TEXT)}."
    return f"[{_sentence(found.step)}]({found.url})" if _is_link(found.url) else _sentence(found.step)


def _sentence(text: str) -> str:
    """Returns a text as a sentence; as code, unchanged, if it has characters that Markdown may interpret."""
    if not _PLAIN.fullmatch(text) or _LINKED.search(text) or len(text) > LONGEST_TEXT:
        return f"{code(text, LONGEST_TEXT)}."
    return sentence(text)


def _text(
    check: QueueCheck,
    queue: JobQueue,
    unserved: Sequence[FollowedJob],
    explained: Mapping[int, QueueExplanation | None],
    page: JobPage,
) -> str:
    """Returns a row for each job that no online runner can take, and numbers of the others.

    A job of those others would be listed for up to `REFRESH_SECONDS` after its start.
    """
    parts, count = [], len(unserved) + check.more
    if unserved:
        rows = (_row(each, why, page) for each in unserved if (why := explained[each.id]) is not None)
        parts = [cut(heading("Job", "Queued", "Reason", "Explanation"), rows, count, ROOM, "jobs")]
    if passing := _passing(queue, check, {each.id for each in unserved}, explained):
        parts.append(f"Jobs that a runner can take, as of the time at the top:\n\n{passing}")
    return "\n\n".join(parts)


def _passing(
    queue: JobQueue, check: QueueCheck, unserved: Collection[int], explained: Mapping[int, QueueExplanation | None]
) -> str:
    """Returns a table of the queued jobs that a runner may take, by pool and reason; empty without any."""
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for job in _queued(check, queue):
        if job.id not in unserved:
            why = explained.get(job.id)
            pool = queue.existing_pool(job) or labels_text(job.labels)
            groups[pool, "no runner assigned yet" if why is None else why.reason.value].append(job.queued_at)
    rows = (
        row(code(pool, LONGEST_WORD), reason, str(len(queued)), time_of(min(queued)))
        for (pool, reason), queued in sorted(groups.items())
    )
    head = heading("Pool", "Reason", "Jobs", "Oldest since", numbers=("Jobs",))
    return cut(head, rows, len(groups), SECTION_ROOM, "pools") if groups else ""


def _row(followed: FollowedJob, found: QueueExplanation, page: JobPage) -> str:
    own, reason = page(followed.id), found.reason.value
    linked = reason if own is None else f"[{reason}]({own})"
    return row(_name(followed), time_of(followed.queued_at), linked, _sentence(found.text))


def _name(followed: FollowedJob) -> str:
    """Returns a job's name with its workflow's, linked to its page at GitHub if that is known."""
    name = code(" / ".join(filter(None, (followed.workflow, followed.name))) or str(followed.id))
    return f"[{name}]({followed.html_url})" if _is_link(followed.html_url) else name


def _is_link(url: str) -> bool:
    return re.fullmatch(r"https?://[\w.:/-]+", url, re.ASCII) is not None


def _completed(check: QueueCheck, page: JobPage) -> Report:
    """Renders how long each job waited, and why. Neutral: whether the jobs succeed is shown by themselves."""
    waits = [_waited(each) for each in check.jobs]
    longest, (only, *others) = duration(max(waits)), check.jobs
    if others:
        which = f"More than {len(waits)} jobs waited; of these" if check.overflowed else f"{len(waits)} jobs waited"
        title = f"{which}: {_outcomes(check.jobs)}; the longest wait was {longest}"
    else:
        title = f"{'Started' if only.started else f'The job {_without_runner(only)}'} after {longest}"
    head = heading("Job", "Queued", "Waited", "Waited because", "Outcome")
    rows = (_outcome(each, waited, page) for each, waited in zip(check.jobs, waits, strict=True))
    return Report(
        title=title,
        summary=f"No job of {code(check.repository)} at this commit waits for a self-hosted runner any more. "
        "Counted are the jobs of the commit that waited while this check was open; jobs that started before are not.",
        text=cut(head, rows, len(waits), ROOM, "jobs"),
        conclusion=Conclusion.NEUTRAL,
        actions=(),
    )


def _waited(followed: FollowedJob) -> float:
    return max(0.0, (followed.left_at or 0.0) - followed.queued_at)


def _outcomes(jobs: Iterable[FollowedJob]) -> str:
    """Returns how many jobs that wait no more started, and how many did not; empty without any."""
    counts = Counter("started" if each.started else _without_runner(each) for each in jobs)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in _OUTCOMES if counts[outcome])


_ENDED, _NOT_KNOWN = "ended without a runner", "left the queue without a known end"
_OUTCOMES = ("started", _ENDED, _NOT_KNOWN)


def _without_runner(followed: FollowedJob) -> str:
    return _ENDED if followed.conclusion else _NOT_KNOWN


def _outcome(followed: FollowedJob, waited: float, page: JobPage) -> str:
    outcome, own = "started" if followed.started else _without_runner(followed), page(followed.id)
    linked = outcome if own is None else f"[{outcome}]({own})"
    conclusion = f" ({code(followed.conclusion)})" if followed.conclusion else ""
    why = waited_for_text(followed.waited_for, followed.lacked_labels)
    queued = time_of(followed.queued_at)
    return row(_name(followed), queued, duration(waited), _sentence(why) if why else NOTHING, f"{linked}{conclusion}")


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
        row(
            code(pool) if pool else NO_POOL,
            reason,
            linked(str(len(jobs)), fleet.links.selected("jobs", state="unserved", pool=pool)),
            time_of(min(job.queued_at for job in jobs), now),
        )
        for (pool, reason), jobs in sorted(found.items())
    )
    return cut(head, rows, len(found), SECTION_ROOM, "pools")
