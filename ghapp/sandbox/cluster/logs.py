"""The logs of containers, as `pods/log` returns them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ghapp.sandbox.cluster.lists import number
from ghapp.sandbox.cluster.objects import Obj, epoch_of, timestamp_nano
from ghapp.sandbox.cluster.requests import is_true
from ghapp.sandbox.cluster.status import StatusError, bad_request

LINES_KEPT = 10_000
"""Of each container; a kubelet rotates logs, too."""


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
