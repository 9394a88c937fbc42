"""Controls the objects of a cluster, as controllers and kubelets change them. Kinds are named by their plural."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ghapp.sandbox.cluster import deletion, shapes, writes
from ghapp.sandbox.cluster.cluster import SimulatedCluster
from ghapp.sandbox.cluster.kinds import EPHEMERAL_RUNNERS, PODS, SERVICE_ACCOUNTS, ObjectKind, called
from ghapp.sandbox.cluster.kubelet import TERMINATED, ContainerLogLine, End
from ghapp.sandbox.cluster.shapes import AssignedJob
from ghapp.sandbox.cluster.store import Key, Obj, Stored, copied

RUNNER = "runner"


class ClusterControl:
    """Controls of a cluster's objects, callable from any thread; LookupError for an object that does not exist.

    The next request sees their changes, and watches see them at once.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def namespace(self, name: str) -> None:
        """Creates the namespace if it does not exist; other controls do so by themselves."""
        with self._at():
            self._cluster.namespace(name)

    def service_account(
        self, namespace: str, name: str, *, labels: Mapping[str, str] | None = None, owner: Obj | None = None
    ) -> Obj:
        """Creates a service account."""
        meta: Obj = {"name": name, "namespace": namespace}
        if labels:
            meta["labels"] = dict(labels)
        value: Obj = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": meta}
        with self._at() as now:
            return self._make(SERVICE_ACCOUNTS, value, now, owner)

    def ephemeral_runner(
        self,
        namespace: str,
        name: str,
        *,
        runner_id: int | None = 4242,
        phase: str = "Running",
        job: AssignedJob | None = None,
        scale_set: str = "linux-4vcpu",
        org: str = "acme",
        owner: Obj | None = None,
        labels: Mapping[str, str] | None = None,
        finalizers: Sequence[str] = (shapes.FINALIZER, shapes.REGISTRATION_FINALIZER),
        status: Mapping[str, Any] | None = None,
        age_seconds: float = 600,
    ) -> Obj:
        """Creates ARC's object for one runner; `status` and `labels` override ARC's own."""
        value = shapes.runner(EPHEMERAL_RUNNERS, namespace, name, scale_set, org)
        value["metadata"]["labels"] |= labels or {}
        if finalizers:
            value["metadata"]["finalizers"] = list(finalizers)
        value["status"] = shapes.runner_status(name, runner_id, phase, job) | dict(status or {})
        with self._at() as now:
            return self._make(EPHEMERAL_RUNNERS, value, now - age_seconds, owner)

    def object(self, kind: str, namespace: str, name: str) -> Obj | None:
        """Returns an object as it is; None if it does not exist."""
        with self._cluster.lock:
            stored = self._cluster.store.get(called(kind), Key(namespace, name))
            return copied(stored.value) if stored else None

    def change(self, kind: str, namespace: str, name: str, change: Callable[[Obj], None]) -> Obj:
        """Changes an object in place, including its status, as its controller would."""
        with self._at():
            stored = self._stored(called(kind), namespace, name)
            value = copied(stored.value)
            change(value)
            return copied(self._cluster.store.put(stored.kind, value).value)

    def set_status(self, kind: str, namespace: str, name: str, **status: Any) -> Obj:
        """Sets parts of a status; None removes a part."""

        def put(value: Obj) -> None:
            merged = value.get("status", {}) | status
            value["status"] = {key: part for key, part in merged.items() if part is not None}

        return self.change(kind, namespace, name, put)

    def release(self, kind: str, namespace: str, name: str, *finalizers: str) -> None:
        """Removes these finalizers, or all; an object that waited for that is deleted then."""
        with self._at():
            stored = self._stored(called(kind), namespace, name)
            present = stored.value["metadata"].get("finalizers", ())
            left = [each for each in present if finalizers and each not in finalizers]
            deletion.rewrite_metadata(self._cluster.store, stored, "finalizers", left)

    def delete(self, kind: str, namespace: str, name: str, *, grace_seconds: int | None = None) -> bool:
        """Deletes as any client would, with grace period and finalizers; True if the object is deleted already."""
        with self._at() as now:
            stored = self._stored(called(kind), namespace, name)
            options = deletion.DeleteOptions(grace_seconds=grace_seconds)
            return deletion.delete(self._cluster.store, stored, options, now).is_deleted

    def pod(
        self,
        namespace: str,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        containers: Sequence[str] = (RUNNER,),
        running: bool = True,
        node: str = "node-1",
        owner: Obj | None = None,
        service_account: str = "default",
        grace_seconds: int = 30,
        finalizers: Sequence[str] = (),
        age_seconds: float = 600,
    ) -> Obj:
        """Creates a pod, and its service account if it does not exist; `node=""` leaves it unscheduled."""
        shape = shapes.PodShape(
            namespace,
            name,
            labels or {},
            annotations or {},
            containers,
            node,
            running and bool(node),
            service_account,
            grace_seconds,
            finalizers,
        )
        with self._at() as now:
            created_at = now - age_seconds
            if self._cluster.store.get(SERVICE_ACCOUNTS, Key(namespace, service_account)) is None:
                self._cluster.namespace(namespace)
            if self._cluster.store.get(SERVICE_ACCOUNTS, Key(namespace, service_account)) is None:
                self.service_account(namespace, service_account)
            return self._make(PODS, shapes.pod(shape, created_at), created_at, owner)

    def container_ends(
        self,
        namespace: str,
        name: str,
        *,
        exit_code: int = 0,
        signal: int | None = None,
        reason: str = "",
        message: str = "",
        container: str = RUNNER,
        restart: bool = False,
        log: Sequence[str] = (),
    ) -> Obj:
        """Ends a container, after it has written `log`; the pod ends with its last container, unless restarted."""
        with self._at() as now:
            key = Key(namespace, name)
            uid = self._cluster.kubelet.pod(key).value["metadata"]["uid"]
            self._cluster.logs.write(uid, container, [ContainerLogLine(now, line) for line in log])
            end = End(exit_code, signal, reason, message)
            return copied(self._cluster.kubelet.container_ends(key, container, end, now, restart=restart))

    def finish_deletion(self, namespace: str, name: str, *, exit_code: int | None = TERMINATED) -> None:
        """Finishes a pod's deletion; `exit_code` None: without a report of its containers."""
        with self._at() as now:
            end = None if exit_code is None else End(exit_code)
            self._cluster.kubelet.finish_deletion(Key(namespace, name), end, now)

    def vanish(self, namespace: str, name: str) -> None:
        """Removes it without a terminal state, as after a forced deletion or the removal of its node."""
        with self._at():
            self._cluster.kubelet.vanish(Key(namespace, name))

    def kubelet_deletes_after(self, seconds: float | None) -> None:
        """Sets how long each deletion takes; 0 is at once, None (the default) is never."""
        with self._at():
            self._cluster.kubelet.deletion_seconds = seconds

    @contextmanager
    def _at(self) -> Iterator[float]:
        """Yields the time (epoch seconds) under the lock; applies the effects at the end."""
        with self._cluster.lock:
            try:
                yield self._cluster.clock()
            finally:
                self._cluster.settle()

    def _stored(self, kind: ObjectKind, namespace: str, name: str) -> Stored:
        stored = self._cluster.store.get(kind, Key(namespace, name))
        if stored is None:
            raise LookupError(f"no {kind.plural} {name!r} in {namespace!r}")
        return stored

    def _make(self, kind: ObjectKind, value: Obj, created_at: float, owner: Obj | None) -> Obj:
        meta = value["metadata"]
        key = Key(meta.get("namespace", ""), meta["name"])
        if self._cluster.store.get(kind, key) is not None:
            raise ValueError(f"there is {kind.plural} {key.name!r} in {key.namespace!r} already")
        if kind.namespaced:
            self._cluster.namespace(key.namespace)
        if owner is not None:
            meta["ownerReferences"] = [shapes.owner_reference(owner)]
        writes.stamp(kind, value, created_at)
        writes.check(kind, value)
        return copied(self._cluster.store.put(kind, value).value)
