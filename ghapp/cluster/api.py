"""The Kubernetes operations that `ghapp` uses: lists, reads, watches, logs, and a few deletions and patches.

Every method raises a `ClusterError` without a usable answer; none of these errors means that an object was deleted.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import httpx2
import msgspec

from ghapp.cluster.api_errors import BAD_REQUEST, UNPROCESSABLE, RefusedError, rbac_lacks
from ghapp.cluster.request import (
    ACCESS_REVIEWS,
    AUTOSCALING_RUNNER_SETS,
    EPHEMERAL_RUNNER_SETS,
    EPHEMERAL_RUNNERS,
    PODS,
    SELF_REVIEWS,
    SERVICE_ACCOUNTS,
    VERSION,
    ClusterRequest,
    Resource,
)
from ghapp.cluster.transport import ClusterResponse, ClusterTransport
from ghapp.cluster.watch_events import Listed, WatchChange
from ghapp.cluster.wire import answers, envelope, ephemeralrunners, pods, scale_sets
from ghapp.cluster.wire.answers import change_of
from ghapp.cluster.wire.envelope import ObjectPage
from ghapp.decoding import LeftOut, LeftOutRows
from ghapp.errors import (
    ClusterForbiddenError,
    ClusterUnavailableError,
    ConflictError,
    ResourceMissingError,
    ResourceVersionExpiredError,
)
from ghapp.pods.pod import EphemeralRunner, Pod
from ghapp.pods.scale_sets import ScaleSet
from ghapp.timings import NORMAL, Timings

T = TypeVar("T")

PER_PAGE = 500
MOST_PAGES = 1000

Read = Callable[[bytes, float | None], ObjectPage[T]]
"""Parses a page of a list, with the time of the answer."""


async def listed(
    transport: ClusterTransport, call: ClusterRequest, read: Read[T], left_out: LeftOutRows, selector: str = ""
) -> Listed[T]:
    """Returns the whole list, and adds objects that cannot be read to `left_out`.

    All pages show the state of the first one, which the server keeps for minutes.

    Raises:
        ClusterError: a page could not be read; there is no partial result.
    """
    try:
        found = await _all_pages(transport, call, read, selector)
    except ResourceVersionExpiredError:
        found = await _all_pages(transport, call, read, selector)
    left_out.add(found.left_out)
    return found


async def _all_pages(transport: ClusterTransport, call: ClusterRequest, read: Read[T], selector: str) -> Listed[T]:
    params: dict[str, Any] = {"limit": PER_PAGE, **({"labelSelector": selector} if selector else {})}
    items, odd = list[T](), list[LeftOut]()
    version = ""
    for _ in range(MOST_PAGES):
        answer = await transport.request(call, **params)
        if answer is None:
            raise ClusterUnavailableError(f"{call}: the API server answered 404 for a list")
        page = read(*answer)
        items += page.items
        odd += page.left_out
        version = version or page.version  # of the first page: a watch from it misses no later change
        if not page.next:
            return Listed(items, version, answer.at, tuple(odd))
        params["continue"] = page.next
    raise ClusterUnavailableError(f"{call}: the list has more than {MOST_PAGES:,} pages, or no end")


MOST_BYTES = 256 * 1024
LONGEST_CHARACTER = 4
"""In bytes. A log whose length is within so many bytes of the limit may have been cut inside a character."""

LONGEST_LINE = 4096
"""In characters."""


async def read_log(
    transport: ClusterTransport, pod: Pod, container: str, lines: int, *, previous: bool
) -> tuple[str, ...]:
    """Returns the last lines, oldest first; empty if there is no log.

    The kubelet goes back by `tailLines` and then stops after `limitBytes`, so it cuts off the end of the log, which is
    what matters. If the limit is hit, fewer lines are therefore requested.
    """
    call = ClusterRequest("get", PODS, pod.namespace, pod.name, "log")
    while lines > 0:
        try:
            body = await transport.send(
                call,
                container=container,
                tailLines=lines,
                limitBytes=MOST_BYTES,
                previous="true" if previous else "false",
            )
        except ResourceMissingError:  # the kubelet's own 404
            return ()
        except RefusedError as error:
            if error.code != BAD_REQUEST:  # 400: the container has not started, or there is no previous one
                raise
            return ()
        if body is None:
            return ()
        if len(body) <= MOST_BYTES - LONGEST_CHARACTER or lines == 1:
            text = body[:MOST_BYTES].decode(errors="replace")
            return tuple(line.rstrip("\r")[:LONGEST_LINE] for line in text.split("\n") if line.strip())[-lines:]
        lines //= 2
    return ()


W = TypeVar("W", Pod, EphemeralRunner)

WATCH_SECONDS = 60
"""Requested duration of a watch. A silently broken connection is noticed this late, and with it a death."""

GRACE_SECONDS = 10.0
"""How much longer than requested the server may keep a watch open."""


class Cluster:
    """One cluster, through an authenticated client. The creator of the client closes it.

    Attributes:
        transport: for other requests.
        left_out: what was odd in the answers, until that is recorded.
    """

    def __init__(
        self, client: httpx2.AsyncClient, left_out: LeftOutRows | None = None, timings: Timings = NORMAL
    ) -> None:
        self.transport = ClusterTransport(client, timings)
        self.left_out = LeftOutRows() if left_out is None else left_out

    async def pods(self, namespace: str, selector: str = "") -> Listed[Pod]:
        """Returns all pods of a namespace, or those that match a label selector. Complete, or an error.

        Pods that cannot be read are left out, and named (`Listed.left_out`).
        """
        call = ClusterRequest("list", PODS, namespace)
        return await listed(self.transport, call, pods.pods, self.left_out, selector)

    async def pod(self, namespace: str, name: str) -> Pod | None:
        """Returns one pod; None if the API server reports that it does not exist."""
        answer = await self.transport.request(ClusterRequest("get", PODS, namespace, name))
        return None if answer is None else pods.pod(*answer)

    async def ephemeral_runners(self, namespace: str) -> Listed[EphemeralRunner]:
        """Returns all EphemeralRunners of a namespace, like `pods`.

        Raises:
            ResourceMissingError: ARC is not installed in this cluster.
        """
        call = ClusterRequest("list", EPHEMERAL_RUNNERS, namespace)
        return await listed(self.transport, call, ephemeralrunners.ephemeral_runners, self.left_out)

    async def ephemeral_runner(self, namespace: str, name: str) -> EphemeralRunner | None:
        """Returns one EphemeralRunner; None if the API server reports that it does not exist.

        Raises:
            ResourceMissingError: ARC is not installed in this cluster.
        """
        answer = await self.transport.request(ClusterRequest("get", EPHEMERAL_RUNNERS, namespace, name))
        return None if answer is None else ephemeralrunners.ephemeral_runner(*answer)

    async def scale_sets(self, namespace: str) -> list[ScaleSet]:
        """Returns the scale sets of a namespace, and how many runners each of them wants.

        Raises:
            ResourceMissingError: ARC is not installed in this cluster.
        """
        call = ClusterRequest("list", AUTOSCALING_RUNNER_SETS, namespace)
        found = await listed(self.transport, call, scale_sets.runner_sets, self.left_out)
        call = ClusterRequest("list", EPHEMERAL_RUNNER_SETS, namespace)
        wanted = await listed(self.transport, call, scale_sets.wanted_runners, self.left_out)
        return scale_sets.scale_sets(found.items, wanted.items)

    async def delete_pod(self, namespace: str, name: str, uid: str, version: str) -> bool:
        """Deletes a pod as it was read; returns True if that was accepted, False if the pod no longer existed.

        Raises:
            ConflictError: there is another pod of that name, or the pod has changed.
        """
        return await self._delete(PODS, namespace, name, uid, version)

    async def delete_ephemeral_runner(self, namespace: str, name: str, uid: str, version: str) -> bool:
        """Deletes an EphemeralRunner as it was read, like `delete_pod`. ARC's finalizers then remove its resources."""
        return await self._delete(EPHEMERAL_RUNNERS, namespace, name, uid, version)

    async def delete_service_account(self, namespace: str, name: str) -> bool:
        """Deletes the present ServiceAccount; returns True if that was accepted, False if there is none.

        Raises:
            ConflictError: it was changed or recreated meanwhile.
        """
        body = await self.transport.send(ClusterRequest("get", SERVICE_ACCOUNTS, namespace, name))
        if body is None:
            return False
        meta = envelope.meta(body)
        return await self._delete(SERVICE_ACCOUNTS, namespace, name, meta.uid, meta.resource_version)

    async def free_finalizer(self, runner: EphemeralRunner, finalizer: str) -> bool:
        """Removes one finalizer, and changes nothing else, from an EphemeralRunner that is being deleted.

        Returns:
            True if it was removed; False if the object or the finalizer no longer existed.

        Raises:
            ConflictError: the object is not being deleted, or has changed since it was read; read it again.
        """
        call = ClusterRequest("patch", EPHEMERAL_RUNNERS, runner.namespace, runner.name)
        if runner.deleting_since is None:
            raise ConflictError(f"{call}: the object is not being deleted; ARC would put the finalizer back")
        if finalizer not in runner.finalizers:
            return False
        place = f"/metadata/finalizers/{runner.finalizers.index(finalizer)}"
        steps = [
            {"op": "test", "path": "/metadata/uid", "value": runner.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": runner.version},
            {"op": "test", "path": place, "value": finalizer},
            {"op": "remove", "path": place},
        ]
        try:
            return await self.transport.send(call, json=steps, content_type="application/json-patch+json") is not None
        except RefusedError as error:
            if error.code != UNPROCESSABLE:
                raise
            raise ConflictError(f"{call}: the object changed since it was read") from None

    async def log(self, pod: Pod, lines: int = 200, previous: bool = False) -> tuple[str, ...]:
        """Returns the last log lines of a pod's runner, oldest first; empty if they are no longer available.

        Args:
            pod: the pod.
            lines: the maximum number of lines.
            previous: True for the container before its last restart.
        """
        if pod.runner is None:
            return ()
        found = await read_log(self.transport, pod, pod.runner.name, lines, previous=previous)
        # Logs are read by name only, and ARC recreates a failed pod under the same name.
        now = await self.pod(pod.namespace, pod.name) if found else None
        return found if now is None or now.uid == pod.uid else ()

    async def watch_pods(self, namespace: str, version: str) -> AsyncGenerator[WatchChange[Pod], None]:
        """Yields changes of a namespace's pods after a version, until the server ends the watch. Close it (`aclosing`).

        Raises:
            ResourceVersionExpiredError: the version expired; list again.
            ClusterUnavailableError: the watch broke; its changes are complete, and its last version is resumable.
        """
        async with aclosing(self._watch(PODS, namespace, version, pods.pod)) as changes:
            async for change in changes:
                yield change

    async def watch_ephemeral_runners(
        self, namespace: str, version: str
    ) -> AsyncGenerator[WatchChange[EphemeralRunner], None]:
        """Yields changes of EphemeralRunners, like `watch_pods`."""
        read = ephemeralrunners.ephemeral_runner
        async with aclosing(self._watch(EPHEMERAL_RUNNERS, namespace, version, read)) as changes:
            async for change in changes:
                yield change

    async def may(self, verb: str, resource: str, namespace: str, group: str = "", subresource: str = "") -> bool:
        """True if RBAC permits this, for objects of any name."""
        attributes = {"verb": verb, "resource": resource, "namespace": namespace, "group": group}
        attributes["subresource"] = subresource
        call = ClusterRequest("create", ACCESS_REVIEWS)
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
        }
        return answers.is_allowed(_required(call, await self.transport.request(call, json=review)).body)

    async def require(self, call: ClusterRequest) -> None:
        """Checks that RBAC permits a request, for objects of any name.

        Raises:
            ClusterForbiddenError: it does not.
            ClusterError: no answer.
        """
        resource = call.resource
        if not await self.may(call.verb, resource.plural, call.namespace, resource.group, call.subresource):
            raise ClusterForbiddenError(rbac_lacks(call), verb=call.verb, resource=call.rbac_resource)

    async def username(self) -> str:
        """Returns our user name at the API server; empty if unknown, as before Kubernetes 1.28."""
        call = ClusterRequest("create", SELF_REVIEWS)
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        try:
            return answers.username(_required(call, await self.transport.request(call, json=review)).body)
        except (ResourceMissingError, ClusterForbiddenError, RefusedError):
            return ""

    async def version(self) -> str:
        """Returns the API server's version, for example `v1.35.2`."""
        call = ClusterRequest("get", VERSION)
        return answers.git_version(_required(call, await self.transport.request(call)).body)

    async def clock(self) -> float | None:
        """Returns the API server's clock in epoch seconds, without fractions; None if its answers have no Date."""
        call = ClusterRequest("get", VERSION)
        return _required(call, await self.transport.request(call)).at

    async def _watch(
        self, resource: Resource, namespace: str, version: str, read: Callable[[msgspec.Raw], W]
    ) -> AsyncGenerator[WatchChange[W], None]:
        call = ClusterRequest("watch", resource, namespace)
        lines = self.transport.lines(
            call,
            WATCH_SECONDS + GRACE_SECONDS,
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=version,
            timeoutSeconds=WATCH_SECONDS,
        )
        async with aclosing(lines):
            async for line in lines:
                yield change_of(call, line, read, self.left_out)

    async def _delete(self, resource: Resource, namespace: str, name: str, uid: str, version: str) -> bool:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, "resourceVersion": version},
        }
        return await self.transport.send(ClusterRequest("delete", resource, namespace, name), json=options) is not None


def _required(call: ClusterRequest, answer: ClusterResponse | None) -> ClusterResponse:
    """Returns the answer for a resource that cannot be absent."""
    if answer is None:
        raise ClusterUnavailableError(f"{call}: the API server answered 404 for a resource that always exists")
    return answer
