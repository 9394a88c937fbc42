"""A simulated Kubernetes API server with a namespace of runner pods: what `ghapp watch` asks for, nothing else.

`python -m tests.bench.fleet.cluster FILE`, with a JSON `Config` in FILE, prints one line with its address when it
listens. Pods have the size and the fields of real ones, and are encoded before anything is measured. ARC is not
installed. Two controls: `POST /_burst` changes pods, `GET /_report` returns what was asked.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec

from tests.bench.fleet.github import POOL, Receive, Send, body_of, listen

NAMESPACE = "runners"
STEPS = 20
"""Parts of a burst, evenly spaced."""

LOG_LINES = 60
FIRST_VERSION = 1_000_000
FIELDS_BYTES = 3_000
"""Of the `managedFields` of a real runner pod, half of its size; `ghapp` skips them."""


class Config(msgspec.Struct):
    """What is simulated.

    Attributes:
        pods: how many there are, all running.
        log_seconds: until a log is answered: the API server asks the kubelet of the pod's node.
    """

    pods: int
    log_seconds: float = 0.0


class Burst(msgspec.Struct):
    """A change of pods, by number.

    Attributes:
        ended: pods whose container ends.
        labeled: pods that get another value of the label `busy`.
        seconds: within which all of that is sent.
    """

    ended: list[int]
    labeled: list[int]
    seconds: float = 1.0


class Report(msgspec.Struct):
    """What was asked: calls by kind, and paths that are not simulated."""

    calls: dict[str, int]
    unknown: list[str]


def name_of(number: int) -> str:
    """Returns the name of a pod and of its runner."""
    return f"{POOL}-{number}"


class Cluster:
    """The application: plain ASGI, because a framework would take most of the time."""

    def __init__(self, config: Config) -> None:
        self._config, self._version = config, FIRST_VERSION
        self._started = _rfc3339(time.time() - 3600)
        self._pods = {number: self._pod(number) for number in range(1, config.pods + 1)}
        self._events: list[bytes] = []
        """Of the version after `FIRST_VERSION`, and so on."""
        self._watchers: set[asyncio.Queue[bytes]] = set()
        self._log = b"".join(
            b"2026-11-22 10:00:%02dZ: Running job step %d of 60, all is well.\n" % (n, n) for n in range(LOG_LINES)
        )
        self._calls, self._unknown = Counter[str](), Counter[str]()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            return
        query = parse_qs(scope["query_string"].decode())
        match scope["path"].split("/")[1:]:
            case ["api", "v1", "namespaces", _, "pods"] if "watch" in query:
                self._calls["watch"] += 1
                await self._watch(receive, send, int(query["resourceVersion"][0]), float(query["timeoutSeconds"][0]))
            case ["api", "v1", "namespaces", _, "pods"]:
                self._calls["list"] += 1
                await self._list(send, int(query["limit"][0]), int(query.get("continue", ["0"])[0]))
            case ["api", "v1", "namespaces", _, "pods", name]:
                self._calls["get"] += 1
                await _answer(send, self._pods[int(name.rpartition("-")[2])])
            case ["api", "v1", "namespaces", _, "pods", _, "log"]:
                self._calls["log"] += 1
                await asyncio.sleep(self._config.log_seconds)
                await _answer(send, self._log)
            case ["apis", "actions.github.com", *_]:
                self._calls["ephemeralrunners"] += 1
                await _answer(send, b"404 page not found", 404)
            case ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"]:
                self._calls["reviews"] += 1
                review = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
                await _answer(send, msgspec.json.encode({**review, "status": {"allowed": True}}), 201)
            case ["_burst"]:
                await self._burst(send, msgspec.json.decode(await body_of(receive), type=Burst))
            case ["_report"]:
                await _answer(send, msgspec.json.encode(Report(dict(self._calls), [*self._unknown])))
            case _:
                self._unknown[scope["path"]] += 1
                await _answer(send, b"404 page not found", 404)

    async def _list(self, send: Send, limit: int, begin: int) -> None:
        pods = [*self._pods.values()][begin : begin + limit]
        rest = b',"continue":"%d"' % (begin + limit) if begin + limit < len(self._pods) else b""
        meta = b'{"resourceVersion":"%d"%s}' % (self._version, rest)
        await _answer(
            send, b'{"kind":"PodList","apiVersion":"v1","metadata":%s,"items":[%s]}' % (meta, b",".join(pods))
        )

    async def _watch(self, receive: Receive, send: Send, version: int, seconds: float) -> None:
        """Sends all events after that version, until the time is over or the client leaves."""
        mine: asyncio.Queue[bytes] = asyncio.Queue()
        for line in self._events[version - FIRST_VERSION :]:
            mine.put_nowait(line)
        self._watchers.add(mine)
        sending = asyncio.create_task(_stream(send, mine))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait({sending, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            bookmark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(self._version)}}
            end = msgspec.json.encode({"type": "BOOKMARK", "object": bookmark}) + b"\n"
            await send({"type": "http.response.body", "body": end})
        finally:
            self._watchers.discard(mine)
            sending.cancel()
            leaving.cancel()

    async def _burst(self, send: Send, burst: Burst) -> None:
        """Sends the changes evenly, and then answers when the last one was sent (epoch seconds)."""
        now = _rfc3339(time.time())
        todo = [(number, now) for number in burst.ended] + [(number, "") for number in burst.labeled]
        began = time.monotonic()
        for step in range(STEPS):
            for number, ended in todo[step::STEPS]:
                self._change(number, ended)
            await asyncio.sleep(began + (step + 1) * burst.seconds / STEPS - time.monotonic() - 0.001)
        await _answer(send, msgspec.json.encode({"at": time.time(), "seconds": time.monotonic() - began}))

    def _change(self, number: int, ended: str) -> None:
        self._version += 1
        pod = self._pods[number] = self._pod(number, ended, busy="true")
        line = b'{"type":"MODIFIED","object":%s}\n' % pod
        self._events.append(line)
        for each in self._watchers:
            each.put_nowait(line)

    def _pod(self, number: int, ended: str = "", busy: str = "false") -> bytes:
        name, image = name_of(number), "ghcr.io/actions/actions-runner:2.337.0"
        running = {"running": {"startedAt": self._started}}
        terminated = {
            "exitCode": 137,
            "reason": "OOMKilled",
            "startedAt": self._started,
            "finishedAt": ended,
            "containerID": f"containerd://{number:064x}",
        }
        status = {"name": "runner", "ready": not ended, "restartCount": 0, "image": image, "started": not ended}
        return msgspec.json.encode(
            {
                "metadata": {
                    "name": name,
                    "namespace": NAMESPACE,
                    "uid": f"00000000-0000-4000-8000-{number:012}",
                    "resourceVersion": str(self._version),
                    "creationTimestamp": self._started,
                    "labels": {"app": "runner", "pool": POOL, "busy": busy, "actions.github.com/organization": "org-0"},
                    "ownerReferences": [{"kind": "RunnerSet", "name": POOL, "uid": "owner"}],
                    "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": "x" * FIELDS_BYTES}}],
                },
                "spec": {
                    "nodeName": f"node-{number % 500}",
                    "serviceAccountName": "runner",
                    "containers": [
                        {
                            "name": "runner",
                            "image": image,
                            "env": [{"name": f"VARIABLE_{each}", "value": "v" * 40} for each in range(20)],
                            "resources": {"limits": {"cpu": "4", "memory": "16Gi"}, "requests": {"cpu": "2"}},
                            "volumeMounts": [{"name": f"v{each}", "mountPath": f"/mnt/{each}"} for each in range(4)],
                        }
                    ],
                    "tolerations": [
                        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
                    ],
                },
                "status": {
                    "phase": "Failed" if ended else "Running",
                    "conditions": [
                        {"type": each, "status": "True", "lastTransitionTime": self._started}
                        for each in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
                    ],
                    "containerStatuses": [{**status, "state": {"terminated": terminated} if ended else running}],
                },
            }
        )


async def _stream(send: Send, lines: asyncio.Queue[bytes]) -> None:
    await send(
        {"type": "http.response.start", "status": 200, "headers": [_date(), (b"content-type", b"application/json")]}
    )
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    while True:
        found = [await lines.get()]
        while not lines.empty():
            found.append(lines.get_nowait())
        await send({"type": "http.response.body", "body": b"".join(found), "more_body": True})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(send: Send, body: bytes, status: int = 200) -> None:
    headers = [(b"content-length", str(len(body)).encode()), (b"content-type", b"application/json"), _date()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _date() -> tuple[bytes, bytes]:
    return b"date", formatdate(time.time(), usegmt=True).encode()


def _rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    listen(Cluster(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Config)))
