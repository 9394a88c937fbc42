"""The record of a runner's death: created when the end is observed, completed by later findings.

The rules are in `classify`, the texts in `cause`. What deaths have in common is found here, too: the node, or a pool's
many deaths at once. Pure; times are epoch seconds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from ghapp.deaths.cause import JOB_REASONS, Cause, OwnReason, advice_for, fitting_advice
from ghapp.deaths.classify import OURS, OUTSIDE, Classification, classify, disruption
from ghapp.deaths.runner_log import LONGEST_LINE, read_runner_log
from ghapp.installations.pool_matching import EVERY_RUNNER, PoolRule
from ghapp.pods.phantom_kinds import Phantom, PhantomReason
from ghapp.pods.pod import Container, Ended, Pod
from ghapp.runners.evidence import Evidence
from ghapp.workflow_jobs.job import Job

MOST_LINES = 200
"""Lines kept of each log."""

FAILED = frozenset({"failure", "timed_out"})
"""Conclusions of a failed job, whatever the cause."""


WHOLE_SECONDS = 1.0
"""Kubernetes states times, and HTTP its `Date`, without fractions of seconds."""

BEFORE_ITS_POD_SECONDS = 300.0
"""A registration may be older than its pod by this much; an older registration had another pod before."""


class DeadJob(NamedTuple):
    """The job that a runner had when it died, or its last job. Fields are only ever appended.

    Attributes:
        conclusion: empty until GitHub has one.
        deploys: True if it deploys to an environment, or waited for an approval, according to its deliveries.
    """

    id: int
    repository: str = ""
    name: str = ""
    head_sha: str = ""
    conclusion: str = ""
    html_url: str = ""
    deploys: bool = False


class Sighting(NamedTuple):
    """What was seen of a runner, and when (epoch seconds): one of the keys of `SIGHTINGS`, or of another version."""

    at: float
    what: str

    @property
    def text(self) -> str:
        """The same in words."""
        return SIGHTINGS.get(self.what, self.what)


SIGHTINGS = {
    "job-started": "the job started",
    "online": "GitHub listed the runner as online",
    "offline": "GitHub listed the runner as offline",
    "registration-missing": "the registration of the runner was missing",
    "removed-by-controller": "the runner's controller removed it",
    "job-ended": "GitHub ended the job",
}


class Death(NamedTuple):
    """The end of one runner. Fields are only ever appended: stored records are read by position.

    Attributes:
        at: when its container ended or, if unobserved, when its pod was found missing (epoch seconds).
        exit_code: None if its end was not observed.
        signal: None if no signal is known to have ended it.
        reason: the kubelet's reason (`OOMKilled`, `Error`, `Evicted`), or its replacement.
        job: its job; None if it was idle or its job is unknown.
        runner_log: its last lines, oldest first.
        host_log: log of its node from one minute before to one minute after, oldest first.
        id: `job ID` of a death that was found by its job; empty if it is identified by its pod and its end.
        last_minutes: what was seen of the runner while its job ran, oldest first.
        image: of the runner's container; empty without a cluster.
        memory_limit: of that container or else of its pod, as Kubernetes writes quantities (`8Gi`); empty if there was
            none or it is unknown.
        ahead: seconds by which the clock that dated `at`, the cluster's, was ahead of ours; 0 if ours dated it.
    """

    runner_name: str
    pod: str
    node: str
    at: float
    exit_code: int | None
    signal: int | None
    reason: str
    cause: Cause
    advice: str
    namespace: str = ""
    pod_uid: str = ""
    runner_id: int | None = None
    pool: str = ""
    job: DeadJob | None = None
    runner_log: tuple[str, ...] = ()
    host_log: tuple[str, ...] = ()
    id: str = ""
    last_minutes: tuple[Sighting, ...] = ()
    image: str = ""
    memory_limit: str = ""
    ahead: float = 0.0

    @property
    def advice_now(self) -> str:
        """The advice, for what is known of its job by now."""
        return fitting_advice(self.advice, has_job=self.job is not None)

    @property
    def ended_at(self) -> float:
        """When it ended, by our clock, give or take `WHOLE_SECONDS`: a job's end is compared with this."""
        return self.at - self.ahead

    @property
    def ended_before(self) -> float:
        """What came at this time or later is another runner's: no pod registers, or restarts, within a second."""
        return self.ended_at + WHOLE_SECONDS


def with_delivered_job(death: Death, job: Job | None) -> Death:
    """Returns the death with what deliveries have shown of its job by now, where its record lacks that.

    A clean exit is examined once, and mostly before the end of its job is delivered.
    """
    known = death.job
    if known is None or job is None or job.id != known.id:
        return death
    return death._replace(
        job=known._replace(
            repository=known.repository or job.repository,
            name=known.name or job.name,
            head_sha=known.head_sha or job.head_sha,
            conclusion=known.conclusion or job.conclusion,
            html_url=known.html_url or job.html_url,
        )
    )


def died(pod: Pod, log: Sequence[str], at: float, ahead: float = 0.0) -> Death:
    """Returns the death of a runner whose end was observed.

    Args:
        pod: as last read.
        log: its last lines, oldest first.
        at: when the end was observed; used only if the container's end has no time.
        ahead: seconds by which the cluster's clock is ahead of ours.
    """
    # The end of a container that the kubelet lost is in 1970.
    ended_at = pod.ended.finished_at if pod.ended else None
    death = _death(pod, classify(pod, log), ended_at or at)
    return death._replace(runner_log=_last(log), ahead=ahead if ended_at else 0.0)


def vanished(pod: Pod, at: float, next_created_at: float | None = None) -> Death:
    """Returns the death of a runner whose pod was deleted before its end was observed.

    Args:
        pod: as last seen.
        at: when the pod was found missing.
        next_created_at: when the next pod of its name was created, by our clock; None if there is none. Names are
            unique, so that the first pod was deleted before: what happened later is of the next pod.
    """
    at = at if next_created_at is None else min(at, next_created_at)
    known = disruption(pod) or next((each for each in (pod.reason, pod.disruption) if each in OUTSIDE), "")
    reason = known or (OwnReason.DELETED if pod.deleting_since is not None else OwnReason.POD_GONE)
    return _death(pod, Classification(Cause.VANISHED, str(reason), advice_for(Cause.VANISHED, reason, pod.message)), at)


def with_phantom(death: Death, phantom: Phantom) -> Death:
    """Returns the death with the phantom's step as its advice, if its pod disappeared and left this phantom.

    One fault has one advice, also after the phantom was deleted. An end that the cluster explains keeps its own advice.
    """
    is_left = phantom.reason is PhantomReason.POD_LOST and death.reason in (OwnReason.POD_GONE, OwnReason.DELETED)
    if not is_left or (death.runner_name, death.namespace) != (phantom.subject, phantom.namespace):
        return death
    step = f"{phantom.advice[:1].lower()}{phantom.advice[1:]}"
    return death._replace(advice=f"Its pod disappeared and left its EphemeralRunner, which is a phantom: {step}")


def with_more_lines(death: Death, log: Sequence[str]) -> Death:
    """Returns the death with more of its last lines, as from a log store; the lines may change its cause.

    If the cluster itself named the cause, the lines are only stored.
    """
    lines = _last(log) or death.runner_log
    if death.exit_code is None or death.cause in {Cause.HOST_OOM, Cause.TERMINATED}:
        return death._replace(runner_log=lines)
    kubelets = "Completed" if death.exit_code == 0 else "Error"
    ended = Ended(death.exit_code, death.signal, kubelets if death.reason in OURS else death.reason)
    found = classify(Pod("", "", "", "", 0.0, runner=Container("", ended=ended)), lines)
    if found.cause is Cause.CLEAN_EXIT and death.reason in JOB_REASONS:  # the exit was clean, its job was not
        return death._replace(runner_log=lines)
    return death._replace(cause=found.cause, reason=found.reason, advice=found.advice, runner_log=lines)


def with_context(death: Death, job: DeadJob | None, host_log: Sequence[str] = ()) -> Death:
    """Returns the death with its context: its job, and the node's log from one minute before to one minute after.

    If the node's log is too long, its middle is kept, because the runner ended there.
    """
    excess = max(0, len(host_log) - MOST_LINES)
    return death._replace(job=job, host_log=_cut(host_log[excess // 2 :][:MOST_LINES]))


def blames_the_platform(death: Death, *, confirmed_by_github: bool = False) -> bool:
    """True if a post-mortem belongs on the job's commit: its job failed, and its runner's death may be the cause.

    `confirmed_by_github`: GitHub's annotations of the job report that its runner was lost.

    Each of these excludes it:

    1. The runner exited normally.
    2. No job was running: no job is known, or the runner logged the job's result before it ended.
    3. The job did not fail. GitHub has no conclusion yet (ask again later), or it is a success or a cancellation. An
       unrequested cancellation counts as a failure: GitHub reports a lost runner, or the cluster removed it.

    A death that was found by its job (`job_death`) was judged by more than that.
    """
    if death.cause is Cause.CLEAN_EXIT:
        return False
    if death.id or death.reason in JOB_REASONS:
        return True
    if death.job is None or read_runner_log(death.runner_log).finished_a_job:
        return False
    if death.job.conclusion == "cancelled":
        return confirmed_by_github or death.reason in OUTSIDE
    return death.job.conclusion in FAILED


def _death(pod: Pod, found: Classification, at: float) -> Death:
    return Death(
        runner_name=pod.name,
        pod=pod.name,
        node=pod.node,
        at=at,
        exit_code=found.exit_code,
        signal=found.signal,
        reason=found.reason,
        cause=found.cause,
        advice=found.advice,
        namespace=pod.namespace,
        pod_uid=pod.uid,
        image=pod.image,
        memory_limit=pod.memory_limit,
    )


def _last(log: Sequence[str]) -> tuple[str, ...]:
    return _cut(log[-MOST_LINES:])


def _cut(lines: Iterable[str]) -> tuple[str, ...]:
    """Cuts each line to `LONGEST_LINE` characters; a cut line ends in `…`."""
    return tuple(line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…" for line in lines)


def has_worked(evidence: Evidence, pod: Pod) -> bool:
    """True if a runner worked in this pod, however briefly.

    A registration that came with the pod proves it by having been online, or by a job. An older registration, whose
    name is reused by several pods, proves it only by a job that began, or a delivery sent, after the pod was created.

    Args:
        evidence: of the runner with the pod's name.
        pod: as last seen.
    """
    if evidence.first_seen >= pod.created_at - BEFORE_ITS_POD_SECONDS:
        return evidence.was_online or evidence.online or evidence.busy or evidence.job_id is not None
    return evidence.last_sign_at is not None and evidence.last_sign_at > pod.created_at


WEEK_SECONDS = 7 * 86_400.0
BURST_SECONDS = 3600.0
"""Deaths of a pool are one burst if none is later than this after the one before."""

LEAST_OF_BURST = 3


class Correlation(NamedTuple):
    """What a death has in common with earlier ones.

    Attributes:
        on_node: its number among the deaths on its node within the last seven days, from 1; 0 if its node is unknown.
        of_pool: its number in a burst of its pool's deaths, from 1.
        since: when that burst began.
    """

    on_node: int = 0
    of_pool: int = 1
    since: float = 0.0


class DeathPlace(Protocol):
    """When and where a runner died, and of which cause: a `Death`, or its summary."""

    @property
    def at(self) -> float:
        """Epoch seconds."""

    @property
    def cause(self) -> Cause:
        """The cause."""

    @property
    def pool(self) -> str:
        """Its pool; empty if unknown."""

    @property
    def node(self) -> str:
        """Its node; empty if unknown."""


def correlation(death: DeathPlace, others: Iterable[DeathPlace]) -> Correlation:
    """Returns what a death has in common with the deaths before it; later ones do not change the result.

    Args:
        death: the death.
        others: deaths of the same installation, in any order; clean exits do not count.
    """
    earlier = [each for each in others if each.at < death.at and each.cause is not Cause.CLEAN_EXIT]
    on_node = sum(each.node == death.node and each.at >= death.at - WEEK_SECONDS for each in earlier)
    count, since = 1, death.at
    for at in sorted((each.at for each in earlier if death.pool and each.pool == death.pool), reverse=True):
        if since - at > BURST_SECONDS:
            break
        count, since = count + 1, at
    return Correlation(on_node + 1 if death.node else 0, count, since)


_QUANTITY = re.compile(r"([0-9]*\.?[0-9]+)([EPTGMk]i?|Ki|m|)|([0-9]*\.?[0-9]+[eE][+-]?[0-9]{1,2})", re.ASCII)
_UNITS = {"m": 1e-3, "": 1.0} | {
    f"{prefix}{binary}": (1024.0 if binary else 1000.0) ** power
    for power, prefix in enumerate("kMGTPE", 1)
    for binary in ("", "i")
}


def memory_bytes(quantity: str) -> float | None:
    """Returns the bytes of a quantity as Kubernetes writes it (`8Gi`, `8192M`, `1e9`); None if it is none."""
    found = _QUANTITY.fullmatch(quantity)
    if found is None:
        return None
    return float(found[3]) if found[3] else float(found[1]) * _UNITS[found[2].replace("K", "k")]


MOST_LARGER = 3
"""Pools that are named as having more memory."""


class LargerPool(NamedTuple):
    """A pool whose runners have more memory: the labels that a job requests for it, and its limit."""

    pool: str
    labels: tuple[str, ...]
    memory_limit: str

    @property
    def text(self) -> str:
        """What a workflow file requests for it, the pool, and its limit."""
        labels = self.labels[0] if len(self.labels) == 1 else f"[{', '.join(self.labels)}]"
        return f"runs-on: {labels} (pool {self.pool}, {self.memory_limit})"


def larger_pools(memory_limit: str, ends: Iterable[Death], rules: Iterable[PoolRule]) -> tuple[LargerPool, ...]:
    """Returns the configured pools whose latest runner that ended, also normally, had more memory; the least first.

    Args:
        memory_limit: that was not enough.
        ends: of runners of the organization, latest first.
        rules: its configured pools.
    """
    needed, limits = memory_bytes(memory_limit), dict[str, str]()
    for each in ends:
        if each.memory_limit:
            limits.setdefault(each.pool, each.memory_limit)
    found = [
        (size, LargerPool(rule.name, rule.labels, limits[rule.name]))
        for rule in rules
        if rule.name in limits and EVERY_RUNNER not in rule.labels
        if needed is not None and (size := memory_bytes(limits[rule.name])) is not None and size > needed
    ]
    return tuple(pool for _, pool in sorted(found))[:MOST_LARGER]


def is_of(death: Death, evidence: Evidence) -> bool:
    """True if this runner died, and not another of the same name.

    A registration that was first seen after the end is the next runner's, however soon it came.
    """
    if death.runner_id is not None:
        return death.runner_id == evidence.id
    return evidence.first_seen < death.ended_before


def chooser(pool: str | None, cause: str | None) -> Callable[[Death], bool]:
    """Returns a function that is True for deaths of that pool and that cause; None: of any."""
    return lambda death: pool in (None, death.pool) and cause in (None, death.cause.value)


def counted(deaths: Sequence[Death], key: Callable[[Death], str]) -> list[tuple[str, int]]:
    """Returns how many deaths share a value, most first; deaths without a value are left out."""
    counts = Counter(value for each in deaths if (value := key(each)))
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def ended_before_deletion(pod: Pod) -> bool:
    """True if the runner had ended before its pod's deletion was requested: a death with another cause.

    Both times are the cluster's, in whole seconds.
    """
    finished = None if pod.ended is None or pod.is_running else pod.ended.finished_at
    if finished is None or not finished:  # the end of a container that the kubelet lost is in 1970
        return False
    return pod.deleting_since is None or finished < pod.deleting_since
