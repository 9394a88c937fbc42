"""Parses pods. No I/O.

Lenient: any part of the status may be missing, and the kubelet may not have reported any container yet. A pod with a
part of another type is left out of a list as a whole: that part may be the container that runs.
"""

from __future__ import annotations

from functools import partial

import msgspec

from ghapp.cluster.wire import envelope
from ghapp.cluster.wire.envelope import Items, Meta, ObjectPage, Timestamp
from ghapp.decoding import LONGEST_TEXT, RowDecoder
from ghapp.pods.pod import Container, Ended, Pod, may_run_agent, runner_container


class _Resources(msgspec.Struct):
    limits: dict[str, str | int | float] | None = None


class _SpecContainer(msgspec.Struct, rename="camel"):
    name: str = ""
    image: str | None = None
    resources: _Resources | None = None
    restart_policy: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_SpecContainer] | None = None
    init_containers: list[_SpecContainer] | None = None
    node_name: str | None = None
    service_account_name: str | None = None
    resources: _Resources | None = None


class _Terminated(msgspec.Struct, rename="camel"):
    exit_code: int
    signal: int | None = None
    reason: str | None = None
    message: str | None = None
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None


class _Running(msgspec.Struct, rename="camel"):
    started_at: Timestamp | None = None


class _Waiting(msgspec.Struct):
    reason: str | None = None
    message: str | None = None


class _State(msgspec.Struct):
    running: _Running | None = None
    terminated: _Terminated | None = None
    waiting: _Waiting | None = None


class _ContainerStatus(msgspec.Struct, rename="camel"):
    name: str
    state: _State | None = None
    last_state: _State | None = None
    restart_count: int = 0
    resources: _Resources | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class _PodStatus(msgspec.Struct, rename="camel"):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    resources: _Resources | None = None


class _Pod(msgspec.Struct):
    metadata: Meta
    spec: _Spec | None = None
    status: _PodStatus | None = None


_pod = msgspec.json.Decoder(_Pod)
_pods = RowDecoder[Items[_Pod]]("pod", Items[_Pod], whole_rows=True)


def pod(body: bytes | msgspec.Raw, read_at: float | None = None) -> Pod:
    """`GET /api/v1/namespaces/{namespace}/pods/{name}`, and the object of a watch's event.

    `read_at`: time of the answer by the API server's clock.
    """
    return _value(envelope.read(_pod, body), read_at)


def pods(body: bytes, read_at: float | None = None) -> ObjectPage[Pod]:
    """`GET /api/v1/namespaces/{namespace}/pods`, one page."""
    return envelope.page(_pods, body, partial(_value, read_at=read_at))


def _value(found: _Pod, read_at: float | None) -> Pod:
    meta, spec, status = found.metadata, found.spec or _Spec(), found.status or _PodStatus()
    container = _container_of(found) or ""
    specified = next((each for each in spec.containers or () if each.name == container), _SpecContainer())
    return Pod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        created_at=meta.created_at,
        phase=status.phase or "",
        node=spec.node_name or "",
        labels=meta.labels or {},
        owners=meta.owners,
        service_account=spec.service_account_name or "",
        reason=_words(status.reason),
        message=_words(status.message),
        disruption=_disruption(status),
        deleting_since=meta.deleting_since,
        runner=_status_of(found, container),
        read_at=read_at,
        container=container,
        finalizers=tuple(meta.finalizers or ()),
        grace_ends_at=None if meta.deletion_timestamp is None else meta.deletion_timestamp.timestamp(),
        image=specified.image or "",
        memory_limit=_memory_limit(found, specified),
        others=tuple(
            _status_of(found, name) or Container(name) for name in _names_of_agents(found) if name != container
        ),
        init=_uncompleted_init(found),
        unschedulable=_unschedulable(status),
    )


def _words(text: str | None) -> str:
    """Returns a reason or a message, of which the first `LONGEST_TEXT` characters are kept."""
    return (text or "")[:LONGEST_TEXT]


def _memory_limit(found: _Pod, container: _SpecContainer) -> str:
    """Returns the limit that was in force: the container's own, or else the pod's.

    The status has what is in force; while a resize is pending, the spec has what is wanted. Before Kubernetes 1.33 the
    status has no resources.
    """
    spec, status = found.spec or _Spec(), found.status or _PodStatus()
    reported = _statuses(found).get(container.name)
    own = _first(reported.resources if reported else None, container.resources)
    return _memory(own) or _memory(_first(status.resources, spec.resources))


def _first(in_force: _Resources | None, wanted: _Resources | None) -> _Resources:
    return (wanted or _Resources()) if in_force is None else in_force


def _memory(resources: _Resources) -> str:
    return str((resources.limits or {}).get("memory", ""))


def _disruption(status: _PodStatus) -> str:
    true = (each for each in status.conditions or () if each.type == "DisruptionTarget" and each.status == "True")
    return next((each.reason or "DisruptionTarget" for each in true), "")


def _unschedulable(status: _PodStatus) -> str:
    refused = (each for each in status.conditions or () if each.type == "PodScheduled" and each.status == "False")
    return next((_words(each.message or each.reason) or "Unschedulable" for each in refused), "")


def _uncompleted_init(found: _Pod) -> tuple[Container, ...]:
    reported = (_container(found, each) for each in (found.status or _PodStatus()).init_container_statuses or ())
    return tuple(each for each in reported if each.ended is None or each.ended.exit_code)


def _statuses(found: _Pod) -> dict[str, _ContainerStatus]:
    return {each.name: each for each in (found.status or _PodStatus()).container_statuses or ()}


def _names_of(found: _Pod) -> list[str]:
    """Returns the names of its containers, by the `spec` where there is one."""
    return [each.name for each in (found.spec or _Spec()).containers or ()] or list(_statuses(found))


def _container_of(found: _Pod) -> str | None:
    """Returns the name of the container that is taken for the agent's."""
    annotations = found.metadata.annotations
    return runner_container(_names_of(found), annotations.default_container if annotations else None)


def _names_of_agents(found: _Pod) -> list[str]:
    init = (found.spec or _Spec()).init_containers or ()
    return may_run_agent(_names_of(found), [each.name for each in init if each.restart_policy == "Always"])


def _status_of(found: _Pod, name: str) -> Container | None:
    """Returns that container; None if the kubelet has not reported it."""
    init = (found.status or _PodStatus()).init_container_statuses or ()
    status = _statuses(found).get(name) or next((each for each in init if each.name == name), None)
    return None if status is None else _container(found, status)


def _container(found: _Pod, status: _ContainerStatus) -> Container:
    state, before = status.state or _State(), status.last_state or _State()
    running, ended = state.running, None if state.running else state.terminated
    waiting = None if running or ended else state.waiting
    return Container(
        name=status.name,
        # A running container without a start time counts as running since the pod was created.
        running_since=None
        if running is None
        else (running.started_at or found.metadata.creation_timestamp).timestamp(),
        ended=None if ended is None else _ended(ended),
        last_ended=None if before.terminated is None else _ended(before.terminated),
        waiting="" if waiting is None else _words(waiting.reason) or "Waiting",
        restarts=status.restart_count,
        waiting_message="" if waiting is None else _words(waiting.message),
    )


def _ended(state: _Terminated) -> Ended:
    return Ended(
        exit_code=state.exit_code,
        signal=state.signal or None,
        reason=_words(state.reason),
        message=_words(state.message),
        started_at=None if state.started_at is None else state.started_at.timestamp(),
        finished_at=None if state.finished_at is None else state.finished_at.timestamp(),
    )
