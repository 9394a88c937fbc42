"""The cluster as `ghapp` uses it: what is there, what becomes of it, and what little is done about it.

Every method raises a `ClusterError` for whatever is no answer; none of these ever means that an object is gone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeVar

import httpx2
import msgspec

from ghapp.cluster.api_errors import UNPROCESSABLE, RefusedError
from ghapp.cluster.logs import read_log
from ghapp.cluster.paged_list import listed
from ghapp.cluster.request import (
    ACCESS_REVIEWS,
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
from ghapp.cluster.wire import answers, envelope, ephemeralrunners, pods
from ghapp.cluster.wire.events import change_of
from ghapp.errors import ClusterForbiddenError, ClusterUnavailableError, ConflictError, ResourceMissingError
from ghapp.health.pods.pod import EphemeralRunner, Pod

W = TypeVar("W", Pod, EphemeralRunner)

WATCH_SECONDS = 60
"""How long one watch is asked to last. A connection that died in silence is noticed this late, and a death with it."""

GRACE_SECONDS = 10.0
"""How much later than asked the server may end a watch."""


class Cluster:
    """One cluster, through a client that says who we are. The client is closed by whoever made it.

    Attributes:
        namespace: our own, where leases are.
        transport: for requests of one's own.
    """

    def __init__(self, client: httpx2.AsyncClient, namespace: str = "default") -> None:
        self.namespace, self.transport = namespace, ClusterTransport(client)

    async def pods(self, namespace: str, selector: str = "") -> Listed[Pod]:
        """Every pod of a namespace, or those that a label selector chooses. Complete, or an error."""
        return await listed(self.transport, ClusterRequest("list", PODS, namespace), pods.pods, selector)

    async def pod(self, namespace: str, name: str) -> Pod | None:
        """One pod; None when the API server says that there is none of that name."""
        answer = await self.transport.ask(ClusterRequest("get", PODS, namespace, name))
        return None if answer is None else pods.pod(*answer)

    async def ephemeral_runners(self, namespace: str) -> Listed[EphemeralRunner]:
        """Every runner object of ARC's in a namespace. Complete, or an error.

        Raises:
            ResourceMissingError: ARC is not installed in this cluster.
        """
        return await listed(
            self.transport, ClusterRequest("list", EPHEMERAL_RUNNERS, namespace), ephemeralrunners.ephemeral_runners
        )

    async def ephemeral_runner(self, namespace: str, name: str) -> EphemeralRunner | None:
        """One runner object; None when the API server says that there is none of that name.

        Raises:
            ResourceMissingError: ARC is not installed in this cluster.
        """
        answer = await self.transport.ask(ClusterRequest("get", EPHEMERAL_RUNNERS, namespace, name))
        return None if answer is None else ephemeralrunners.ephemeral_runner(*answer)

    async def delete_pod(self, namespace: str, name: str, uid: str, version: str) -> bool:
        """Delete a pod as it was read: True when that was accepted, False when it was gone.

        Raises:
            ConflictError: it is another one by now, or not what it was.
        """
        return await self._delete(PODS, namespace, name, uid, version)

    async def delete_ephemeral_runner(self, namespace: str, name: str, uid: str, version: str) -> bool:
        """Delete a runner object as it was read; as `delete_pod`. ARC's finalizers then remove what belongs to it."""
        return await self._delete(EPHEMERAL_RUNNERS, namespace, name, uid, version)

    async def delete_service_account(self, namespace: str, name: str) -> bool:
        """Delete a ServiceAccount, the one that is there now: True when that was accepted, False when there is none.

        Raises:
            ConflictError: it was changed or made anew at this very moment.
        """
        body = await self.transport.send(ClusterRequest("get", SERVICE_ACCOUNTS, namespace, name))
        if body is None:
            return False
        meta = envelope.meta(body)
        return await self._delete(SERVICE_ACCOUNTS, namespace, name, meta.uid, meta.resource_version)

    async def free_finalizer(self, runner: EphemeralRunner, finalizer: str) -> bool:
        """Take one finalizer, and nothing else, from a runner object that is being deleted.

        Returns:
            True when it was taken; False when the object or the finalizer was gone.

        Raises:
            ConflictError: it is not being deleted, or not what it was when it was read: look again.
        """
        call = ClusterRequest("patch", EPHEMERAL_RUNNERS, runner.namespace, runner.name)
        if runner.deleting_since is None:
            raise ConflictError(f"{call}: it is not being deleted; ARC would put the finalizer back")
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
            raise ConflictError(f"{call}: it is not what it was when it was read") from None

    async def log(self, pod: Pod, lines: int = 200, previous: bool = False) -> tuple[str, ...]:
        """The last lines that a pod's runner wrote, oldest first; empty when nobody has them any more.

        Args:
            pod: whose.
            lines: at most so many.
            previous: of the container before it was started again.
        """
        if pod.runner is None:
            return ()
        told = await read_log(self.transport, pod, pod.runner.name, lines, previous=previous)
        # A log is had by name alone, and ARC makes a failed pod anew under the same one.
        now = await self.pod(pod.namespace, pod.name) if told else None
        return told if now is None or now.uid == pod.uid else ()

    async def watch_pods(self, namespace: str, version: str) -> AsyncGenerator[WatchChange[Pod], None]:
        """What becomes of a namespace's pods after a version, until the server ends it. Close it (`aclosing`).

        Raises:
            VersionGoneError: list again.
            ClusterUnavailableError: it broke; what was yielded is whole, and the last version can be resumed from.
        """
        async with aclosing(self._watch(PODS, namespace, version, pods.pod)) as changes:
            async for change in changes:
                yield change

    async def watch_ephemeral_runners(
        self, namespace: str, version: str
    ) -> AsyncGenerator[WatchChange[EphemeralRunner], None]:
        """The same of ARC's runner objects."""
        read = ephemeralrunners.ephemeral_runner
        async with aclosing(self._watch(EPHEMERAL_RUNNERS, namespace, version, read)) as changes:
            async for change in changes:
                yield change

    async def may(
        self, verb: str, resource: str, namespace: str, group: str = "", subresource: str = "", name: str = ""
    ) -> bool:
        """Whether RBAC lets us; with `name` it is asked of that object alone."""
        asked = {"verb": verb, "resource": resource, "namespace": namespace, "group": group, "subresource": subresource}
        asked["name"] = name
        call = ClusterRequest("create", ACCESS_REVIEWS)
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in asked.items() if value}},
        }
        return answers.is_allowed(_there(call, await self.transport.ask(call, json=review)).body)

    async def username(self) -> str:
        """Who the API server takes us for; empty where it does not tell, as before Kubernetes 1.28."""
        call = ClusterRequest("create", SELF_REVIEWS)
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        try:
            return answers.username(_there(call, await self.transport.ask(call, json=review)).body)
        except (ResourceMissingError, ClusterForbiddenError, RefusedError):
            return ""

    async def version(self) -> str:
        """The API server's, as `v1.35.2`."""
        call = ClusterRequest("get", VERSION)
        return answers.git_version(_there(call, await self.transport.ask(call)).body)

    async def clock(self) -> float | None:
        """What the API server's clock says, in epoch seconds, to the second; None where its answers don't tell."""
        call = ClusterRequest("get", VERSION)
        return _there(call, await self.transport.ask(call)).at

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
                yield change_of(call, line, read)

    async def _delete(self, resource: Resource, namespace: str, name: str, uid: str, version: str) -> bool:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, "resourceVersion": version},
        }
        return await self.transport.send(ClusterRequest("delete", resource, namespace, name), json=options) is not None


def _there(call: ClusterRequest, answer: ClusterResponse | None) -> ClusterResponse:
    """The answer of what cannot be absent."""
    if answer is None:
        raise ClusterUnavailableError(f"{call}: the cluster says that there is no such thing")
    return answer
