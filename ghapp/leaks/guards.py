"""Guards of the reaper: which stamped pods (those with the owner label) are kept, and why. The others are leaks.

A leak has no live claim and no evidence of work. In another system, the rule "labelled and unclaimed is a leak" killed
live jobs within days: a claim may be missing while the job runs. So a pod must stay unclaimed for a while, and other
evidence than claims protects it. `jobs.leaks.reap` reads in the order of guard 1, and deletes the returned pods with
their uids and versions as preconditions. Pure; times are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ghapp.leaks.fuse_limit import held_back
from ghapp.leaks.runner_activity import RunnerActivity
from ghapp.leaks.tick import WAITS, FuseView, Guard, LeakLimits, TickInputs, TickMemory, TickResult
from ghapp.pods.pod import ARC_KIND, Container, Ended, Pod, lasted
from ghapp.pods.pod_claim import claim_on
from ghapp.runners.delivery_lag import HOLD_SECONDS, overlaps
from ghapp.runners.evidence import covered_seconds
from ghapp.runners.verdict import LONGEST_JOB_SECONDS

__all__ = [
    "TERMINAL_SECONDS",
    "FuseView",
    "Guard",
    "LeakLimits",
    "TickInputs",
    "TickMemory",
    "TickResult",
    "has_started",
    "leaks",
]

TERMINAL_SECONDS = 900.0
"""A job that has been over for this long protects no pod."""

ENDING_SECONDS = 30.0
"""A pod has this long to end after its runner's only job, unless it sets another time: it is no leak before."""

FINAL_PHASES = ("Succeeded", "Failed")
"""Phases of a pod whose containers neither run nor will run again."""

MOST_GAP_SECONDS = 150.0
"""Maximum gap between two valid ticks. After a longer gap, a claim in between may have been missed."""


def leaks(inputs: TickInputs, now: float, limits: LeakLimits, memory: TickMemory) -> TickResult:
    """Finds the leaks among the stamped pods. Each of these guards keeps one pod, or skips the tick.

    1. Pods are listed before claims are read: a pod claimed between the two reads does not count as unclaimed.
    2. Only complete and fresh reads count. No pods, or no claims, where the previous tick had some: an invalid read.
       A namespace whose pods RBAC forbids to list is left out alone: its pods are kept, the time for which they have
       been unclaimed restarts, and what else is remembered of them stays.
    3. The pod is older than `grace_seconds`, by the clock of the API server, which also dated its creation.
    4. It has been unclaimed for that long without a gap: a returning claim restarts the time, also one that came and
       went between two ticks. So does a gap of more than `MOST_GAP_SECONDS` between two valid ticks, or a clock that
       goes back. Both our clock and the cluster's must agree. Claims are live claims of controllers, and jobs that
       deliveries report in progress.
    5. Deliveries report no job of its runner in progress.
    6. Neither does GitHub, and the runner has no session: an online runner works, or may get a job at any moment,
       even if its pod is unclaimed. GitHub's answer must be fresh: no answer does not mean idle.
    7. The containers agree: one that started less than `grace_seconds` ago had no time to be claimed. Without a
       container `runner`, each container may run the agent, and all of them must agree.
    8. A job that has been over for `TERMINAL_SECONDS` overrules 5, 7 and 13 to 17, which kept leaks for hours. It
       must be the runner's latest job, and have started in the current run of its container: GitHub ends a crashed
       agent's job ten minutes late, when the container may run again. And GitHub must list the runner as ephemeral, or
       its container must have ended. It does not overrule 6: while GitHub lists the runner online or busy, the pod is
       kept and reported, whatever else indicates that it is over.
    9. At most `per_tick` pods are reaped, oldest first; the others are deferred and reported.
    10. The kill switch: `off` judges nothing, `dry-run` only reports. While a pool is paused its pods are kept, and
        their memory continues: otherwise known leaks would be unnamed after the pause, and kept forever.
    11. A pod that is being deleted is kept, and so is a pod of ARC's: ARC would restart it.
    12. It is a runner's pod: it has a container called `runner`, or GitHub, a delivery or a claim had its name. Another
        program may use the label in that namespace.
    13. Registered is not absent. While GitHub lists its runner, online or offline, the pod is kept, unless its
        container has ended. Only a pool that sets `replace_offline_after_seconds` gives up a registered runner that has
        been offline for longer than that.
    14. An unknown name is not idle. A pod whose container may run is kept until GitHub has listed a runner of its
       runner's name online since the container last started, or it took a job since. Otherwise the runner may be
       registered under another name, or with a repository, which no list shows, and may be busy. A registration that an
       earlier run of the container left offline names no runner. A controller's claim names the runner to check.
       Where the configuration says that the runner has the pod's name, a pod that nothing has named since its
       container started is released as well: no claim, no delivery, and for the grace no list (`_is_never_named`).
    15. A container that never started is not a leak: the pod waits for a node, a volume or an image.
    16. Time and absence count only while GitHub answers: nothing is reaped while its last complete list is older than
        `stale_seconds`, or sweeps fail. An empty list proves no absence of a runner whose container may run, and a
        registration must have been missing for `grace_seconds` of time that complete lists cover.
    17. A runner that GitHub showed busy may be working if the end of that job is unknown.
    18. Many leaks at once prove themselves, like replacements. If the leaks of a pool, or of the installation, plus the
        pods reaped there within the fuse's window, reach the fuse's threshold, `first_batch` are reaped first, and then
        twice as many each time, as long as no deleted pod turns out to have been in use (`leak_fuse`). While the
        runners' fuse of the pool or of the installation is not closed, none is reaped. The others are reported.
    19. Deliveries are a sense, too. While some are missing or late of the time in which a runner left, one of them may
        report that it had begun a job: its pod is kept until they have come, for at most an hour of its absence that
        complete lists cover. So is a pod that nothing has named (guard 14) while deliveries since its container
        started are missing or late. A container that has ended, and a job that is known to be over, need no delivery.

    The container has ended for good if no container that may run the agent runs, and the pod's phase is final or each
    has been terminated for `grace_seconds`: a runner that updates itself restarts earlier.
    """
    if limits.mode == "off":
        return TickResult(skipped=Guard.OFF)
    stamped = [pod for pod in inputs.pods if limits.owner_label in pod.labels]
    claims = len({id(claim) for claim in inputs.claims.values() if claim.is_live(now)})
    claims += sum(each.running for each in inputs.runners.values())
    if flaw := _flaw(inputs, now, memory, pods=len(stamped), claims=claims):
        counted = memory if flaw is not Guard.READ_EMPTY else memory._replace(pods=len(stamped), claims=claims)
        return TickResult(memory=counted, skipped=flaw)
    names = {pod.uid: _runner_name(pod, inputs, memory) for pod in stamped}
    runners = {uid: inputs.runners.get(name, RunnerActivity()) for uid, name in names.items()}
    after = _memory_after(stamped, names, runners, inputs, now, memory)._replace(pods=len(stamped), claims=claims)
    evidence = {pod.uid: _pod_evidence(pod, runners[pod.uid], after, inputs, now, limits) for pod in stamped}
    judged = {
        pod.uid: _others_business(pod, after.runners)
        or (Guard.PAUSED if pod.uid in inputs.paused else None)
        or _guard(evidence[pod.uid], inputs, now, limits)
        for pod in stamped
    }
    never_named = frozenset(uid for uid, each in evidence.items() if each.is_never_named)
    spent = frozenset(uid for uid, each in evidence.items() if judged[uid] in WAITS and _is_spent(each, now))
    return _result(stamped, judged, inputs, now, limits, after)._replace(never_named=never_named, spent=spent)


def _result(
    stamped: Sequence[Pod],
    judged: Mapping[str, Guard | None],
    inputs: TickInputs,
    now: float,
    limits: LeakLimits,
    memory: TickMemory,
) -> TickResult:
    """Guards 9, 10 and 18: returns which leaks are reaped, deferred or held. `judged` is by the pods' uids."""
    oldest = sorted(stamped, key=lambda pod: (pod.created_at, pod.uid))
    found = [pod for pod in oldest if judged[pod.uid] is None]
    likely = [pod for pod in oldest if judged[pod.uid] is Guard.GITHUB_UNKNOWN and pod.uid in inputs.unasked]
    judged_pods = [pod for pod in stamped if pod.uid not in inputs.paused]
    expected = [pod for pod in judged_pods if pod.uid in memory.runners and pod.deleting_since is None]
    held, fuses = held_back([*found, *likely], expected, inputs, now)
    free = [pod for pod in found if pod.uid not in held]
    chosen = tuple(free[: limits.per_tick])
    is_leak = {pod.uid for pod in (*found, *likely)}
    return TickResult(
        reap=chosen if limits.mode == "act" else (),
        would_reap=chosen if limits.mode == "dry-run" else (),
        deferred=(*free[limits.per_tick :], *(pod for pod in likely if pod.uid not in held)),
        kept=tuple(
            (pod, guard) for pod in stamped if (guard := judged[pod.uid]) is not None and pod.uid not in is_leak
        ),
        memory=memory,
        held=tuple((pod, held[pod.uid]) for pod in oldest if pod.uid in held),
        fuses=fuses,
    )


def _flaw(inputs: TickInputs, now: float, memory: TickMemory, *, pods: int, claims: int) -> Guard | None:
    """Guards 1 and 2: returns why these inputs cannot be judged."""
    if inputs.pods_at > inputs.claims_at:
        return Guard.CLAIMS_READ_FIRST
    if not inputs.complete:
        return Guard.READ_INCOMPLETE
    if now - inputs.pods_at > MOST_GAP_SECONDS:
        return Guard.READ_STALE
    is_emptied = (memory.pods > 0 and pods == 0) or (memory.claims > 0 and claims == 0)
    return Guard.READ_EMPTY if is_emptied else None


def _memory_after(
    stamped: Sequence[Pod],
    names: Mapping[str, str],
    runners: Mapping[str, RunnerActivity],
    inputs: TickInputs,
    now: float,
    before: TickMemory,
) -> TickMemory:
    """Returns the memory after valid reads, without the counts. `names` and `runners` are by the pods' uids."""
    is_continued = before.at is not None and 0.0 <= now - before.at <= MOST_GAP_SECONDS
    since, since_there = (before.since, before.since_there) if is_continued else ({}, {})
    unclaimed = [pod for pod in stamped if not _is_claimed(pod, runners[pod.uid], inputs, now)]
    restarted = {pod.uid for pod in unclaimed if before.at is not None and _claim_ended_after(before.at, pod, inputs)}
    since, since_there = (
        {uid: at for uid, at in each.items() if uid not in restarted} for each in (since, since_there)
    )
    unread = _of_unread(names, before) if inputs.unread else TickMemory()
    return TickMemory(
        since={pod.uid: since.get(pod.uid, now) for pod in unclaimed},
        at=now,
        names={**unread.names, **names},
        since_there={pod.uid: since_there.get(pod.uid, pod.read_at) for pod in unclaimed if pod.read_at is not None},
        runners=unread.runners | {pod.uid for pod in stamped if _is_runners(pod, runners[pod.uid], inputs, before)},
        named={**unread.named, **_named(names, runners, before)},
        vouched={**unread.vouched, **_vouched(stamped, runners, inputs, now, before)},
        began_at=now if before.began_at is None else min(now, before.began_at),
        listed_since=None if inputs.list_empty else before.listed_since or now,
    )


def _of_unread(read: Collection[str], before: TickMemory) -> TickMemory:
    """Returns what was remembered of the runners of pods that were not read; `read` has the uids of the others."""
    return TickMemory(
        names={uid: name for uid, name in before.names.items() if uid not in read},
        runners=before.runners.difference(read),
        named={uid: at for uid, at in before.named.items() if uid not in read},
        vouched={uid: at for uid, at in before.vouched.items() if uid not in read},
    )


def _others_business(pod: Pod, runners: Collection[str]) -> Guard | None:
    """Guards 11 and 12."""
    if pod.deleting_since is not None:
        return Guard.DELETING
    if any(owner.kind == ARC_KIND for owner in pod.owners):
        return Guard.POD_OF_ARC
    return None if pod.uid in runners else Guard.NO_RUNNER


class _PodEvidence(NamedTuple):
    """The evidence about one pod. `unclaimed_for` is in seconds, None for a claimed pod."""

    pod: Pod
    runner: RunnerActivity
    unclaimed_for: float | None
    is_named: bool
    is_never_named: bool
    awaits_deliveries: bool


def _pod_evidence(
    pod: Pod, runner: RunnerActivity, memory: TickMemory, inputs: TickInputs, now: float, limits: LeakLimits
) -> _PodEvidence:
    """Returns the evidence about one pod; it is unclaimed for the shorter time of our clock and the cluster's."""
    since = memory.since.get(pod.uid)
    by_cluster = lasted(memory.since_there.get(pod.uid, 0.0), pod.read_at)
    seen_at = max(memory.named.get(pod.uid, 0.0), runner.seen_at or 0.0)
    is_named = seen_at >= _started_at(pod, now)
    is_never_named = pod.uid in inputs.bear_name and _is_never_named(pod, memory, inputs, now, limits)
    may_be_undelivered = is_never_named and not is_named and _may_be_undelivered(pod, memory, inputs, now)
    return _PodEvidence(
        pod,
        runner,
        unclaimed_for=None if since is None else min(now - since, by_cluster),
        is_named=is_named,
        is_never_named=is_never_named,
        awaits_deliveries=runner.awaits_deliveries or may_be_undelivered,
    )


def _is_never_named(pod: Pod, memory: TickMemory, inputs: TickInputs, now: float, limits: LeakLimits) -> bool:
    """Guard 14 for a pod whose runner has the pod's name: True if nothing has named it since its container started.

    - No claim, present or past, has named another runner, and none has named this one since then; no delivery either.
    - Complete lists cover `grace_seconds` since then, up to the last one, in which the pod was unclaimed. Time in which
      lists were empty does not count. Of deliveries that are missing or late, see guard 19.
    - Ticks have been remembered since before that start. The runner of an older container may have registered, and have
      lost its registration at work: its pod is kept for as long as a job may last.
    """
    runs, ran_for = [_last_run_since(each) for each in pod.agents], _ran_for(pod)
    started_at, since = now - ran_for, memory.since.get(pod.uid)
    if memory.names[pod.uid] != pod.name or memory.vouched.get(pod.uid, 0.0) >= started_at:
        return False
    if since is None or memory.listed_since is None or None in runs:
        return False
    is_remembered = memory.began_at is not None and memory.began_at <= started_at
    seen_until = min(inputs.survey.swept_at or 0.0, now)
    seen_for = covered_seconds(inputs.survey, max(started_at, since, memory.listed_since), seen_until)
    return seen_for >= limits.grace_seconds and (is_remembered or ran_for > LONGEST_JOB_SECONDS)


def _ran_for(pod: Pod) -> float:
    """Returns how long the container that started last has run; of a pod whose containers did not start, its age."""
    runs = [_last_run_since(each) for each in pod.agents]
    return min([pod.age, *(lasted(since, pod.read_at) for since in runs if since is not None)])


def _may_be_undelivered(pod: Pod, memory: TickMemory, inputs: TickInputs, now: float) -> bool:
    """Guard 19 of a pod that nothing has named: a delivery since its container started may name it, and not be here."""
    started_at = now - _ran_for(pod)
    unnamed_since = max(started_at, memory.since.get(pod.uid, now), memory.listed_since or now)
    has_waited = covered_seconds(inputs.survey, unnamed_since, now) >= HOLD_SECONDS
    return not has_waited and overlaps(inputs.gaps, started_at, now)


def _guard(pod_evidence: _PodEvidence, inputs: TickInputs, now: float, limits: LeakLimits) -> Guard | None:
    """Guards 3 to 8, 13 to 17 and 19: returns the guard that keeps this pod; None for a leak."""
    if pod_evidence.unclaimed_for is None:
        return Guard.CLAIMED
    if pod_evidence.pod.age < limits.grace_seconds:
        return Guard.WITHIN_GRACE
    if pod_evidence.unclaimed_for < limits.grace_seconds:
        return Guard.UNCLAIMED_BRIEFLY
    if not has_started(pod_evidence.pod):
        return Guard.NEVER_STARTED
    if inputs.github_stale:
        return Guard.GITHUB_STALE
    if _is_long_over(pod_evidence, now, limits):
        return _session_after_job(pod_evidence, limits)
    return _shield(pod_evidence, inputs, limits)


def _session_after_job(pod_evidence: _PodEvidence, limits: LeakLimits) -> Guard | None:
    """Guard 8 and what it does not overrule. Without GitHub's answer, only an ended container has no session."""
    has_session = pod_evidence.runner.has_session
    if has_session is None and not _has_ended(pod_evidence.pod, limits):
        return Guard.GITHUB_UNKNOWN
    return Guard.SESSION_AFTER_JOB if has_session else None


def _shield(pod_evidence: _PodEvidence, inputs: TickInputs, limits: LeakLimits) -> Guard | None:
    """Guards 5 to 7, 13, 14, 16, 17 and 19."""
    pod, runner, has_ended = pod_evidence.pod, pod_evidence.runner, _has_ended(pod_evidence.pod, limits)
    if runner.running:
        return Guard.JOB_BY_DELIVERY
    runs = [lasted(each.running_since, pod.read_at) for each in pod.agents if each.running_since is not None]
    if runs and min(runs) < limits.grace_seconds:
        return Guard.JUST_STARTED
    if not (has_ended or pod_evidence.is_named or pod_evidence.is_never_named):
        return Guard.UNNAMED
    if runner.has_session is None:
        return Guard.GITHUB_UNKNOWN
    if runner.has_session:
        return Guard.SESSION_OPEN
    if has_ended:
        return None
    if runner.registered:
        return None if runner.offline_too_long else Guard.REGISTERED
    if inputs.list_empty:
        return Guard.LIST_EMPTY
    if runner.absent_seconds is not None and runner.absent_seconds < limits.grace_seconds:
        return Guard.ABSENT_BRIEFLY
    if runner.last_busy:
        return Guard.BUSY_WHEN_LAST_SEEN
    return Guard.DELIVERIES_BEHIND if pod_evidence.awaits_deliveries else None


def has_started(pod: Pod) -> bool:
    """True if each container that may run the agent ever ran; a pod in a final phase has started."""
    return pod.phase in FINAL_PHASES or (pod.runner is not None and all(each.has_started for each in pod.agents))


def _has_ended(pod: Pod, limits: LeakLimits) -> bool:
    """True if no container that may run the agent runs, or will run again."""
    if pod.may_run:
        return False
    if pod.phase in FINAL_PHASES:
        return True
    ends = [each.ended for each in pod.agents]
    return pod.runner is not None and all(each is not None and _is_final(each, pod, limits) for each in ends)


def _is_final(ended: Ended, pod: Pod, limits: LeakLimits) -> bool:
    """True if a container that ended so will not restart."""
    return ended.finished_at is None or lasted(ended.finished_at, pod.read_at) >= limits.grace_seconds


def _is_long_over(pod_evidence: _PodEvidence, now: float, limits: LeakLimits) -> bool:
    """Guard 8. A job that started before the container, by either clock, was of another runner of the name."""
    pod, runner = pod_evidence.pod, pod_evidence.runner
    if runner.over_at is None or now - runner.over_at < TERMINAL_SECONDS:
        return False
    if runner.job_started_at is None or runner.job_started_at < _started_at(pod, now):
        return False
    return runner.ephemeral is True or (runner.ephemeral is None and _has_ended(pod, limits))


def _is_spent(pod_evidence: _PodEvidence, now: float) -> bool:
    """True if the only job of the pod's runner is over, and GitHub lists the runner no more: nothing uses the pod."""
    pod, runner = pod_evidence.pod, pod_evidence.runner
    if runner.running or runner.registered or runner.has_session is not False or runner.ephemeral is False:
        return False
    if runner.job_started_at is None or runner.job_started_at < _started_at(pod, now):
        return False
    return runner.over_at is not None and now - runner.over_at >= ENDING_SECONDS


def _started_at(pod: Pod, now: float) -> float:
    """Returns when its container last started, else when its pod was created; the later of our clock and the cluster's.

    A container that has ended, or waits to restart, began its last run after the pod was created: what GitHub listed
    before that run says nothing about it. Of several containers that may run the agent, the last start counts.
    """
    made_at = max(pod.created_at, now - pod.age)
    runs = [since for each in pod.agents if (since := _last_run_since(each)) is not None]
    return max([made_at, *(max(since, now - lasted(since, pod.read_at)) for since in runs)])


def _last_run_since(container: Container) -> float | None:
    """Returns when a container began its last run; where the kubelet knows only the end of that run, the end."""
    if container.running_since is not None:
        return container.running_since
    ended = container.ended or container.last_ended
    return None if ended is None else ended.started_at or ended.finished_at


def _named(names: Mapping[str, str], runners: Mapping[str, RunnerActivity], memory: TickMemory) -> dict[str, float]:
    """Returns when GitHub last listed each pod's runner connected, by its name, now or at an earlier tick.

    A runner that may work on an unreported job (guard 17) is left out: once its record is deleted, its pod is kept as
    one with an unknown runner.
    """
    named = dict[str, float]()
    for uid, name in names.items():
        before = memory.named.get(uid) if memory.names.get(uid) == name else None
        times = [at for at in (before, runners[uid].seen_at) if at is not None]
        if times and not runners[uid].last_busy:
            named[uid] = max(times)
    return named


def _vouched(
    stamped: Sequence[Pod], runners: Mapping[str, RunnerActivity], inputs: TickInputs, now: float, memory: TickMemory
) -> dict[str, float]:
    """Returns when a claim or a delivery last named each pod's runner, now or at an earlier tick."""
    vouched = dict[str, float]()
    for pod in stamped:
        runner, claim = runners[pod.uid], inputs.claims.get(pod.name)
        times = [memory.vouched.get(pod.uid), runner.delivered_at, now if runner.running else None]
        times.append(None if claim is None else min(claim.expires_at, now))
        known = [at for at in times if at is not None]
        if known:
            vouched[pod.uid] = max(known)
    return vouched


def _is_runners(pod: Pod, runner: RunnerActivity, inputs: TickInputs, memory: TickMemory) -> bool:
    """Guard 12."""
    return pod.is_runners or pod.uid in memory.runners or runner.is_known or pod.name in inputs.claims


def _is_claimed(pod: Pod, runner: RunnerActivity, inputs: TickInputs, now: float) -> bool:
    """True if a controller's claim covers it, or a job began and is not known to be over."""
    return claim_on(inputs.claims, pod.name, now) is not None or (runner.running and runner.over_at is None)


def _claim_ended_after(at: float, pod: Pod, inputs: TickInputs) -> bool:
    """True if the last claim on it ended after the previous tick: one may come and go between two ticks."""
    claim = inputs.claims.get(pod.name)
    return claim is not None and claim.expires_at > at


def _runner_name(pod: Pod, inputs: TickInputs, memory: TickMemory) -> str:
    """Returns its runner's name: the pod's name, unless its controller reported another one, now or before."""
    claim = inputs.claims.get(pod.name)
    if claim is not None and claim.pod == pod.name:
        return claim.runner_name
    return memory.names.get(pod.uid, pod.name)
