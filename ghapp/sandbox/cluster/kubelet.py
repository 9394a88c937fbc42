"""What happens to pods on their nodes: containers end, pods are evicted, nodes are lost, deletions are finished.

And the logs of containers, as `pods/log` returns them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ghapp.sandbox.cluster.deletion import DeleteOptions, delete
from ghapp.sandbox.cluster.kinds import PODS
from ghapp.sandbox.cluster.lists import number
from ghapp.sandbox.cluster.requests import is_true
from ghapp.sandbox.cluster.status import StatusError, bad_request
from ghapp.sandbox.cluster.store import (
    Key,
    Obj,
    Store,
    Stored,
    copied,
    epoch_of,
    random_digits,
    timestamp,
    timestamp_nano,
)

LINES_KEPT = 10_000
"""Of each container; a kubelet rotates logs, too."""

TERMINATED = 143
"""128 and SIGTERM."""

KILLED = 137
"""128 and SIGKILL."""


class ContainerLogLine(NamedTuple):
    """One line, and when it was written (epoch seconds)."""

    at: float
    text: str


class Logs:
    """The logs of all containers, by pod uid: a pod's log is deleted with it."""

    def __init__(self) -> None:
        self._now: dict[str, dict[str, deque[ContainerLogLine]]] = {}
        self._previous: dict[str, dict[str, deque[ContainerLogLine]]] = {}
        self._lost: set[str] = set()

    def write(self, uid: str, container: str, lines: Iterable[ContainerLogLine]) -> None:
        """Appends lines."""
        self._now.setdefault(uid, {}).setdefault(container, deque(maxlen=LINES_KEPT)).extend(lines)

    def rewrite(self, uid: str, container: str, lines: Iterable[ContainerLogLine], *, previous: bool = False) -> None:
        """Replaces the log."""
        kept = self._previous if previous else self._now
        kept.setdefault(uid, {})[container] = deque(lines, LINES_KEPT)

    def turn_over(self, uid: str, container: str) -> None:
        """Restarts the container: its log becomes the previous one's."""
        self.rewrite(uid, container, self._now.get(uid, {}).pop(container, ()), previous=True)

    def forget(self, uid: str) -> None:
        """Deletes the logs of a pod."""
        self._now.pop(uid, None)
        self._previous.pop(uid, None)

    def lose(self, node: str) -> None:
        """Loses the node's kubelet, which answers no more."""
        self._lost.add(node)

    def read(self, pod: Obj, query: Mapping[str, str], now: float) -> str:
        """Returns the requested log; StatusError 400 when it is unavailable, 500 when the node does not answer."""
        previous = is_true(query.get("previous"))
        container = _container(pod, query.get("container", ""))
        node = pod["spec"].get("nodeName", "")
        if node in self._lost:
            where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}/{container}"
            why = f'Get "https://{node}:10250/containerLogs/{where}": dial tcp: i/o timeout'
            raise StatusError(500, "InternalError", f"Internal error occurred: {why}", {"causes": [{"message": why}]})
        _check_started(pod, container, previous=previous)
        kept = self._previous if previous else self._now
        lines = kept.get(pod["metadata"]["uid"], {}).get(container, ())
        return _cut(list(lines), query, now)


def _container(pod: Obj, asked: str) -> str:
    name = pod["metadata"]["name"]
    containers = [each["name"] for each in pod["spec"]["containers"]]
    initial = [each["name"] for each in pod["spec"].get("initContainers") or ()]
    if not asked:
        if len(containers) == 1:
            return str(containers[0])
        choice = f"choose one of: [{' '.join(containers)}]"
        if initial:
            choice += f" or one of the init containers: [{' '.join(initial)}]"
        raise bad_request(f"a container name must be specified for pod {name}, {choice}")
    if asked not in (*containers, *initial):
        raise bad_request(f"container {asked} is not valid for pod {name}")
    return asked


def _check_started(pod: Obj, container: str, *, previous: bool) -> None:
    name = pod["metadata"]["name"]
    status = next((one for one in pod["status"].get("containerStatuses") or () if one["name"] == container), None)
    if previous:
        if status is None or "terminated" not in status.get("lastState", {}):
            raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
    elif status is None:
        raise bad_request(f'container "{container}" in pod "{name}" is not available')
    elif "waiting" in status["state"]:
        reason = status["state"]["waiting"].get("reason", "")
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')


def _cut(lines: list[ContainerLogLine], query: Mapping[str, str], now: float) -> str:
    if query.get("sinceSeconds"):
        since = now - number(query["sinceSeconds"], "sinceSeconds")
        lines = [line for line in lines if line.at >= since]
    elif query.get("sinceTime"):
        try:
            since = epoch_of(query["sinceTime"])
        except ValueError as error:
            raise bad_request(f"parsing time: {error}") from None
        lines = [line for line in lines if line.at >= since]
    if "tailLines" in query:
        tail = number(query["tailLines"], "tailLines")
        lines = lines[max(0, len(lines) - tail) :]
    stamped = is_true(query.get("timestamps"))
    text = "".join(f"{timestamp_nano(line.at)} {line.text}\n" if stamped else f"{line.text}\n" for line in lines)
    limit = number(query.get("limitBytes", ""), "limitBytes")
    return text.encode()[:limit].decode(errors="ignore") if limit else text


class End(NamedTuple):
    """How a container ends; `signal` None is left out of the status, as by containerd."""

    exit_code: int
    signal: int | None = None
    reason: str = ""
    message: str = ""

    @property
    def word(self) -> str:
        """Returns the kubelet's reason, where none is given."""
        return self.reason or ("Completed" if self.exit_code == 0 else "Error")


class Kubelet:
    """All nodes' kubelets.

    Attributes:
        deletion_seconds: how long the deletion of a pod takes; None: forever, without a control.
    """

    def __init__(self, store: Store, logs: Logs) -> None:
        self.deletion_seconds: float | None = None
        self._store = store
        self._logs = logs

    def pod(self, key: Key) -> Stored:
        """Returns a pod; LookupError if it does not exist."""
        stored = self._store.get(PODS, key)
        if stored is None:
            raise LookupError(f"no pod {key.name!r} in {key.namespace!r}")
        return stored

    def change(self, key: Key, change: Callable[[Obj], None]) -> Obj:
        """Changes a pod's status, and other fields."""
        value = copied(self.pod(key).value)
        change(value)
        return self._store.put(PODS, value).value

    def starts(self, key: Key, now: float, container: str | None = None) -> Obj:
        """Starts its containers, or one of them."""

        def start(pod: Obj) -> None:
            for status in _statuses(pod):
                if container in (None, status["name"]):
                    _start(status, now)
            _settle_phase(pod, now)

        return self.change(key, start)

    def container_ends(self, key: Key, container: str, end: End, now: float, *, restart: bool = False) -> Obj:
        """Ends one container; restarted, its end is shown as `lastState`, and its log as the previous one's."""

        def finish(pod: Obj) -> None:
            status = _status(pod, container)
            ended = _ended(status, end, now)
            if restart:
                status["lastState"] = ended
                status["restartCount"] += 1
                _start(status, now)
                self._logs.turn_over(pod["metadata"]["uid"], container)
            else:
                status |= {"state": ended, "ready": False, "started": False}
            _settle_phase(pod, now)

        return self.change(key, finish)

    def pod_fails(self, key: Key, reason: str, message: str, end: End | None, now: float) -> Obj:
        """Fails the pod as a whole; its running containers end so or, without `end`, do not report how."""

        def fail(pod: Obj) -> None:
            for status in _statuses(pod):
                if "running" in status["state"] and end is not None:
                    status |= {"state": _ended(status, end, now), "ready": False, "started": False}
            pod["status"] |= {"phase": "Failed", "reason": reason, "message": message}
            _not_ready(pod, now, "PodFailed")

        return self.change(key, fail)

    def disrupts(self, key: Key, reason: str, message: str, now: float) -> Obj:
        """Sets a `DisruptionTarget` condition, as before an eviction."""

        def mark(pod: Obj) -> None:
            _condition(pod, "DisruptionTarget", "True", now, reason, message)

        return self.change(key, mark)

    def node_is_lost(self, node: str, now: float) -> list[Key]:
        """Loses the node: its pods keep their last state, not ready, until they are deleted."""
        keys = [key for key, stored in self._store.all(PODS).items() if stored.value["spec"].get("nodeName") == node]
        for key in keys:
            self.change(key, lambda pod: _not_ready(pod, now, "NodeStatusUnknown", reason="NodeLost"))
        return keys

    def finish_deletion(self, key: Key, end: End | None, now: float) -> None:
        """Ends a pod that is being deleted, reports its end, and removes it; without `end` it only removes it."""
        stored = self.pod(key)
        if end is not None and stored.value["status"].get("phase") == "Running":

            def stop(pod: Obj) -> None:
                for status in _statuses(pod):
                    if "terminated" not in status["state"]:
                        status |= {"state": _ended(status, end, now), "ready": False, "started": False}
                _settle_phase(pod, now)

            self.change(key, stop)
            stored = self.pod(key)
        delete(self._store, stored, DeleteOptions(uid=stored.value["metadata"]["uid"], grace_seconds=0), now)

    def vanish(self, key: Key) -> None:
        """Removes a pod, finalizers and all, without an observed end."""
        self._store.remove(PODS, self.pod(key).key)

    def finish_due(self, now: float) -> None:
        """Finishes the deletions that are due."""
        if self.deletion_seconds is None:
            return
        for key, stored in list(self._store.all(PODS).items()):
            meta = stored.value["metadata"]
            if meta.get("deletionTimestamp") and meta.get("deletionGracePeriodSeconds"):
                grace = meta["deletionGracePeriodSeconds"]
                takes = min(self.deletion_seconds, grace)
                if epoch_of(meta["deletionTimestamp"]) - grace + takes <= now:
                    code = TERMINATED if self.deletion_seconds <= grace else KILLED
                    self.finish_deletion(key, End(code), now)


def _statuses(pod: Obj) -> Sequence[Obj]:
    found: Sequence[Obj] = pod["status"].get("containerStatuses") or ()
    return found


def _status(pod: Obj, container: str) -> Obj:
    for status in _statuses(pod):
        if status["name"] == container:
            return status
    raise LookupError(f"pod {pod['metadata']['name']!r} has no status of a container {container!r}")


def _start(status: Obj, now: float) -> None:
    identity = f"containerd://{random_digits(64)}"
    status["state"] = {"running": {"startedAt": timestamp(now)}}
    status |= {"ready": True, "started": True, "containerID": identity}


def _ended(status: Obj, end: End, now: float) -> Obj:
    started = status["state"].get("running", {}).get("startedAt", timestamp(now))
    terminated: Obj = {"exitCode": end.exit_code}
    if end.signal is not None:
        terminated["signal"] = end.signal
    terminated["reason"] = end.word
    if end.message:
        terminated["message"] = end.message
    terminated |= {"startedAt": started, "finishedAt": timestamp(now)}
    if "containerID" in status:
        terminated["containerID"] = status["containerID"]
    return {"terminated": terminated}


def _settle_phase(pod: Obj, now: float) -> None:
    """Sets the phase that follows from its containers."""
    states = [status["state"] for status in _statuses(pod)]
    if states and all("terminated" in state for state in states):
        failed = any(state["terminated"]["exitCode"] for state in states)
        pod["status"]["phase"] = "Failed" if failed else "Succeeded"
        _not_ready(pod, now, "PodFailed" if failed else "PodCompleted")
    elif any("running" in state or "terminated" in state for state in states):
        pod["status"]["phase"] = "Running"
        ready = all(status["ready"] for status in _statuses(pod))
        for name in ("Ready", "ContainersReady"):
            _condition(pod, name, "True" if ready else "False", now, "" if ready else "ContainersNotReady")


def _not_ready(pod: Obj, now: float, why: str, reason: str = "") -> None:
    for name in ("Ready", "ContainersReady"):
        _condition(pod, name, "False", now, why)
    if reason:
        pod["status"]["reason"] = reason


def _condition(pod: Obj, name: str, status: str, now: float, reason: str = "", message: str = "") -> None:
    conditions = pod["status"].setdefault("conditions", [])
    condition: Obj = {"type": name, "status": status, "lastProbeTime": None, "lastTransitionTime": timestamp(now)}
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    for at, known in enumerate(conditions):
        if known["type"] == name:
            conditions[at] = condition | (
                {"lastTransitionTime": known["lastTransitionTime"]} if known["status"] == status else {}
            )
            return
    conditions.append(condition)
