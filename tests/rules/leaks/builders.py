"""Pods, claims and inputs of a tick of the reaper: the worst case by default."""

from ghapp.leaks.guards import LeakLimits, TickInputs, TickMemory, leaks
from ghapp.leaks.runner_activity import RunnerActivity
from ghapp.pods.pod import Container, Ended, Pod
from ghapp.pods.pod_claim import PodClaim
from ghapp.runners.delivery_lag import DeliveryGap, GapCause
from tests.rules.builders import NOW

LIMITS = LeakLimits(mode="act")


TICK = 60.0


IDLE = RunnerActivity(busy=False, is_known=True, absent_seconds=3600.0, seen_at=NOW - 60)
"""A runner last seen connected a minute ago, and absent from GitHub for an hour. The two times are independent."""


LABEL = {LIMITS.owner_label: "linux-4vcpu"}


def pod(name="linux-1", **changes):
    """A leak: stamped with the label, an hour old, and its container has run for an hour."""
    running = Container("runner", running_since=NOW - 3600)
    leak = Pod("runners", name, f"uid-{name}", "41", NOW - 3600, labels=LABEL, runner=running, read_at=NOW)._replace(
        container="runner"
    )
    return leak._replace(**changes)


def claim(name="linux-1", **changes):
    return PodClaim(**{"pod": name, "runner_name": name, "job_id": None, "expires_at": NOW + 600, **changes})


def gap(since, until=None):
    """Deliveries of that span are missing."""
    return (DeliveryGap(since, until, GapCause.FAILED, ""),)


def tick_inputs(*pods, **changes):
    """Complete inputs of a tick, read at NOW; GitHub lists the runner of each pod as idle."""
    runners = {each.name: IDLE for each in pods}
    return TickInputs(**{"pods": pods, "pods_at": NOW, "claims": {}, "runners": runners, "claims_at": NOW, **changes})


def remembered(*pods, for_seconds=300.0, **changes):
    """The memory of a tick a minute ago: the pods have been unclaimed for `for_seconds`."""
    since = {each.uid: NOW - for_seconds for each in pods}
    lasting = {"since": since, "since_there": since, "listed_since": NOW - 99_999}
    return TickMemory(**{**lasting, "pods": len(pods), "claims": 0, "at": NOW - TICK, **changes})


def guard_of(pod, runner=IDLE, limits=LIMITS, memory=None, **changes):
    """The guard that keeps the pod; None for a leak."""
    seen = tick_inputs(pod, **{"runners": {pod.name: runner}, **changes})
    reaping = leaks(seen, NOW, limits, remembered(pod) if memory is None else memory)
    assert (reaping.skipped, reaping.deferred, reaping.would_reap) == (None, (), ())
    assert [*reaping.reap, *(each for each, _ in reaping.kept)] == [pod]
    return reaping.kept[0][1] if reaping.kept else None


ENDED = Container("runner", ended=Ended(0, started_at=NOW - 3600))


STALE = 300.0


DATABASE = pod("database", container="postgres", runner=Container("postgres", running_since=NOW - 3600))
"""It has the label for another use, and was never a runner."""
