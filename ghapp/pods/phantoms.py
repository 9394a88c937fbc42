"""Finds phantoms: compares an org's registrations, pods and ARC objects with each other.

The three are read at different times and change in between. So incomplete or old reads are ignored, and what was young
at the time of the other read is found, but not old: `phantom_kinds.lasting` reports only what is old, and was found by
each check for a while. Both times run together, so that most phantoms are reported two minutes after they began. The
results are shown to people; they never cause a deletion. Pure; times are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ghapp.pods.never_started import LONGEST_TEXT, why_not_started
from ghapp.pods.phantom_kinds import ADVICE, Phantom, PhantomKind, PhantomReason, key, lasting
from ghapp.pods.pod import ARC_KIND, RUNNER_CONTAINER, EphemeralRunner, Pod, is_in, registered_at
from ghapp.untrusted_text import one_line

__all__ = [
    "ListedRunner",
    "Phantom",
    "PhantomInputs",
    "PhantomKind",
    "PhantomLimits",
    "PhantomReason",
    "key",
    "lasting",
    "phantoms",
]

SCALE_SET_LABEL = "actions.github.com/scale-set-name"
SLOW_STARTS = frozenset({PhantomReason.UNSCHEDULABLE, PhantomReason.CONTAINER_NOT_CREATED})
"""A node may be on its way, or a large image or a volume: kubelet shows `ContainerCreating` meanwhile."""


class ListedRunner(NamedTuple):
    """A listed runner. `ephemeral` is None if GitHub does not report it, `offline_since` while the runner is online."""

    name: str
    pool: str
    first_seen: float
    busy: bool = False
    offline_since: float | None = None
    ephemeral: bool | None = None


class PhantomInputs(NamedTuple):
    """The reads of one org and the namespaces of its pools.

    Each time is the start of the read; None if the read failed or was incomplete.

    Attributes:
        known: listed runners.
        ended: by name, when a registration ended because its job was over or its controller removed the runner.
        pods: all pods of the namespaces.
        objects: ARC's objects; empty, with a time, if there is no ARC.
        ahead: seconds by which the cluster's clock, which dates pods and objects, is ahead of ours.
    """

    org: str
    known: Sequence[ListedRunner] = ()
    known_at: float | None = None
    ended: Mapping[str, float] = {}
    pods: Sequence[Pod] = ()
    pods_at: float | None = None
    objects: Sequence[EphemeralRunner] = ()
    objects_at: float | None = None
    ahead: float = 0.0


@dataclass(frozen=True, slots=True)
class PhantomLimits:
    """Minimum ages of objects and maximum ages of reads, in seconds.

    Attributes:
        settled_seconds: after that no read lacks an object because it is new, where something that existed is lost.
        grace_seconds: for what takes minutes where all is well: ARC creates many pods one after the other, nodes are
            added, large images are pulled, processes end after their job, finalizers do their work.
        startup_seconds: a container that runs may be unregistered this long.
        stale_seconds: an older read is ignored.
    """

    settled_seconds: float = 120.0
    grace_seconds: float = 300.0
    startup_seconds: float = 120.0
    stale_seconds: float = 300.0


def phantoms(view: PhantomInputs, now: float, limits: PhantomLimits) -> list[Phantom]:
    """Returns the phantoms of these reads, young ones as well, sorted by kind and name. Each usable pair is compared.

    Objects that are being deleted, are finished, or belong to a repository, an enterprise or another org are ignored.
    The exception is a pod of ARC's without an object: the garbage collector deletes such a pod at once, so it is found
    only while a finalizer keeps it long after its grace period.
    """
    objects = [each for each in view.objects if each.deleting_since is None and is_in(view.org, each.org)]
    pods = [pod for pod in view.pods if pod.deleting_since is None and _is_of(pod, view.org)]
    held = [pod for pod in view.pods if pod.deleting_since is not None and pod.finalizers and _is_of(pod, view.org)]
    known_at, pods_at, objects_at = (
        at if at is not None and now - at <= limits.stale_seconds else None
        for at in (view.known_at, view.pods_at, view.objects_at)
    )
    found: list[Phantom] = []
    if objects_at is not None:
        found += _failed(objects)
    if objects_at is not None and pods_at is not None:
        found += _without_pod(objects, view.pods, pods_at + view.ahead, limits)
        found += _without_object([*pods, *held], view.objects, pods_at + view.ahead, objects_at + view.ahead, limits)
    if pods_at is not None:
        found += _not_started(pods, pods_at + view.ahead, limits)
    if known_at is not None and pods_at is not None:
        found += _unknown_to_github(view, pods, known_at, pods_at, limits)
        found += _without_machine(view, min(known_at, pods_at), limits)
    pools = {each.name: each.pool for each in view.known}
    named = (each._replace(pool=pools.get(each.subject, "")) for each in found)
    return sorted(named, key=lambda each: (each.kind, each.namespace, each.subject))


def _failed(objects: Iterable[EphemeralRunner]) -> Iterator[Phantom]:
    """ARC gives up an object for good, so that its age does not matter."""
    for each in objects:
        if each.phase == "Failed":
            yield _of_object(PhantomKind.FAILED_OBJECT, each, PhantomReason.FAILED_COUNTS_AS_CAPACITY)


def _without_pod(
    objects: Iterable[EphemeralRunner], pods: Iterable[Pod], read_at: float, limits: PhantomLimits
) -> Iterator[Phantom]:
    """Pods that are being deleted count as existing. The pod of a running object existed."""
    places = {_place(pod) for pod in pods}
    for each in objects:
        if each.phase not in {"", "Pending", "Running"} or _place(each) in places:
            continue
        is_lost = each.phase == "Running"
        reason = PhantomReason.POD_LOST if is_lost else PhantomReason.POD_NEVER_MADE
        least = limits.settled_seconds if is_lost else limits.grace_seconds
        phantom = _of_object(PhantomKind.OBJECT_WITHOUT_POD, each, reason)
        yield phantom._replace(is_old=read_at - each.created_at >= least)


def _not_started(pods: Iterable[Pod], read_at: float, limits: PhantomLimits) -> Iterator[Phantom]:
    for pod in pods:
        why = why_not_started(pod) if pod.is_runners else None
        if why is not None:
            least = limits.grace_seconds if why.reason in SLOW_STARTS else limits.settled_seconds
            phantom = _of_pod(PhantomKind.POD_NOT_STARTED, pod, why.reason)
            yield phantom._replace(detail=why.text, is_old=read_at - pod.created_at >= least)


def _without_object(
    pods: Iterable[Pod], objects: Iterable[EphemeralRunner], pods_at: float, objects_at: float, limits: PhantomLimits
) -> Iterator[Phantom]:
    """Objects that are being deleted count as existing: ARC deletes their pods itself."""
    uids = {each.uid for each in objects}
    for pod in pods:
        owners = {owner.uid for owner in pod.owners if owner.kind == ARC_KIND}
        if owners and not owners & uids:
            is_settled = objects_at - pod.created_at >= limits.settled_seconds
            is_old = is_settled and (pod.deleting_since is None or _is_held_long(pod, pods_at, limits))
            yield _of_pod(PhantomKind.POD_WITHOUT_OBJECT, pod, PhantomReason.OBJECT_GONE)._replace(is_old=is_old)


def _is_held_long(pod: Pod, read_at: float, limits: PhantomLimits) -> bool:
    """True if a pod's own grace period, which may be hours, ended at least `grace_seconds` ago."""
    return pod.grace_ends_at is not None and read_at - pod.grace_ends_at >= limits.grace_seconds


def _unknown_to_github(
    view: PhantomInputs, pods: Iterable[Pod], known_at: float, pods_at: float, limits: PhantomLimits
) -> Iterator[Phantom]:
    """Yields running pods that the list lacks, if the list was begun after their time to register."""
    listed, names = {each.name for each in view.known}, _runner_names(view)
    for pod in pods:
        container, name = pod.runner, names[_place(pod)]
        if container is None or container.running_since is None or not _is_runners(pod, container.name):
            continue
        if name in listed:
            continue
        is_old = known_at + view.ahead - container.running_since >= limits.startup_seconds
        reason = PhantomReason.NOT_REGISTERED
        if (ended_at := view.ended.get(name)) is not None:
            reason = PhantomReason.HANGS_AFTER_JOB
            is_old = is_old and pods_at - ended_at >= limits.grace_seconds
        yield _of_pod(PhantomKind.POD_UNKNOWN_TO_GITHUB, pod, reason)._replace(is_old=is_old)


def _without_machine(view: PhantomInputs, read_at: float, limits: PhantomLimits) -> Iterator[Phantom]:
    """Yields offline runners without a pod, in pools that have pods of other runners.

    An online runner runs elsewhere, a persistent runner may be off by design, and for a runner with an ARC object the
    object is reported instead.
    """
    with_pod = set(_runner_names(view).values())
    visible = {each.pool for each in view.known if each.name in with_pod}
    excluded = with_pod | {name for each in view.objects for name in (each.name, each.runner_name)}
    for each in view.known:
        if each.pool not in visible or each.name in excluded or each.ephemeral is False:
            continue
        if each.offline_since is None:
            continue
        was_online = each.offline_since > each.first_seen
        silent_since, least = each.offline_since, limits.settled_seconds
        if not was_online:  # registered before its pod is made, as controllers do with a just-in-time configuration
            silent_since, least = each.first_seen, limits.grace_seconds
        reason = PhantomReason.MACHINE_GONE_AT_WORK if each.busy else PhantomReason.MACHINE_GONE
        is_old = read_at - silent_since >= least
        yield Phantom(PhantomKind.RUNNER_WITHOUT_POD, each.name, reason, ADVICE[reason], is_old=is_old)


def _place(found: Pod | EphemeralRunner) -> tuple[str, str]:
    return found.namespace, found.name


def _runner_names(view: PhantomInputs) -> dict[tuple[str, str], str]:
    """Returns each pod's runner name at GitHub, by the pod's place: the pod's name, unless ARC has another."""
    by_arc = {_place(each): each.runner_name for each in view.objects if each.runner_name}
    return {_place(pod): by_arc.get(_place(pod), pod.name) for pod in view.pods}


def _is_of(pod: Pod, org: str) -> bool:
    """True if, according to the pod's labels, its runner would be in this scope's list."""
    return is_in(org, registered_at(pod.labels))


def _is_runners(pod: Pod, container: str) -> bool:
    """True for a runner's pod: a pod of ARC's, or a pod with a container of that name."""
    return container == RUNNER_CONTAINER or any(owner.kind == ARC_KIND for owner in pod.owners)


def _of_object(kind: PhantomKind, found: EphemeralRunner, reason: PhantomReason) -> Phantom:
    phantom = Phantom(kind, found.name, reason, ADVICE[reason], scale_set=found.scale_set, namespace=found.namespace)
    return phantom._replace(detail=one_line(found.message or found.reason, LONGEST_TEXT))


def _of_pod(kind: PhantomKind, pod: Pod, reason: PhantomReason) -> Phantom:
    scale_set = pod.labels.get(SCALE_SET_LABEL, "")
    phantom = Phantom(kind, pod.name, reason, ADVICE[reason], scale_set=scale_set, namespace=pod.namespace)
    return phantom._replace(is_plain_pod=all(owner.kind != ARC_KIND for owner in pod.owners))
