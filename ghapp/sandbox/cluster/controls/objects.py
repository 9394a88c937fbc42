"""Controls objects of any kind: create, change, read, delete. Kinds are named by their plural."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ghapp.sandbox.cluster import deletion, shapes, writes
from ghapp.sandbox.cluster.controls.access import ClusterControls
from ghapp.sandbox.cluster.kinds import EPHEMERAL_RUNNER_SETS, EPHEMERAL_RUNNERS, SERVICE_ACCOUNTS, ObjectKind, called
from ghapp.sandbox.cluster.shapes import AssignedJob
from ghapp.sandbox.cluster.store import IN_ORDER, Key, Obj, Stored, copied


class ObjectControls(ClusterControls):
    """Controls of objects; LookupError for one that does not exist."""

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

    def ephemeral_runner_set(
        self,
        namespace: str,
        name: str,
        *,
        replicas: int = 1,
        scale_set: str = "linux-4vcpu",
        org: str = "acme",
        status: Mapping[str, Any] | None = None,
        age_seconds: float = 86_400,
    ) -> Obj:
        """Creates ARC's object for a set of runners."""
        value = shapes.runner(EPHEMERAL_RUNNER_SETS, namespace, name, scale_set, org)
        value["spec"]["replicas"] = replicas
        value["status"] = {"currentReplicas": replicas, "runningEphemeralRunners": replicas} | dict(status or {})
        with self._at() as now:
            return self._make(EPHEMERAL_RUNNER_SETS, value, now - age_seconds, None)

    def autoscaling_runner_set(
        self, namespace: str, name: str, *, min_runners: int | None = None, replicas: int = 1, org: str = "acme"
    ) -> None:
        """Creates ARC's object for a scale set, and the set of runners that it owns."""
        spec: Obj = {} if min_runners is None else {"minRunners": min_runners}
        value: Obj = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
        owner = self.create("autoscalingrunnersets", value, age_seconds=86_400)
        owned = shapes.runner(EPHEMERAL_RUNNER_SETS, namespace, f"{name}-m64rg", name, org)
        owned["spec"]["replicas"] = replicas
        self.create("ephemeralrunnersets", owned, owner=owner, age_seconds=86_400)

    def create(self, kind: str, value: Obj, *, owner: Obj | None = None, age_seconds: float = 0) -> Obj:
        """Creates an object as given, including its status."""
        with self._at() as now:
            found = called(kind)
            head = {"kind": found.kind, "apiVersion": found.api_version}
            return self._make(found, head | copied(value), now - age_seconds, owner)

    def object(self, kind: str, namespace: str, name: str) -> Obj | None:
        """Returns an object as it is; None if it does not exist."""
        with self._cluster.lock:
            stored = self._cluster.store.get(called(kind), Key(namespace, name))
            return copied(stored.value) if stored else None

    def objects(self, kind: str, namespace: str = "") -> list[Obj]:
        """Returns all objects of a kind, in the order of lists; of one namespace if given."""
        with self._cluster.lock:
            found = self._cluster.store.all(called(kind))
            return [copied(found[key].value) for key in sorted(found, key=IN_ORDER) if namespace in ("", key.namespace)]

    def names(self, kind: str, namespace: str = "") -> list[str]:
        """Returns the names of all objects of a kind."""
        return [str(value["metadata"]["name"]) for value in self.objects(kind, namespace)]

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

    def set_labels(self, kind: str, namespace: str, name: str, **labels: str | None) -> Obj:
        """Sets labels; None removes a label. Names that are no identifiers go as `**{"a/b": "c"}`."""

        def put(value: Obj) -> None:
            merged = (value["metadata"].get("labels") or {}) | labels
            value["metadata"]["labels"] = {key: part for key, part in merged.items() if part is not None}

        return self.change(kind, namespace, name, put)

    def release(self, kind: str, namespace: str, name: str, *finalizers: str) -> None:
        """Removes these finalizers, or all; an object that waited for that is deleted then."""
        with self._at():
            stored = self._stored(called(kind), namespace, name)
            value = copied(stored.value)
            left = [each for each in value["metadata"].get("finalizers", ()) if finalizers and each not in finalizers]
            value["metadata"]["finalizers"] = left
            if not left:
                del value["metadata"]["finalizers"]
            if deletion.is_done(value):
                self._cluster.store.remove(stored.kind, stored.key)
            else:
                self._cluster.store.put(stored.kind, value)

    def delete(self, kind: str, namespace: str, name: str, *, grace_seconds: int | None = None) -> bool:
        """Deletes as any client would, with grace period and finalizers; True if the object is deleted already."""
        with self._at() as now:
            stored = self._stored(called(kind), namespace, name)
            options = deletion.DeleteOptions(grace_seconds=grace_seconds)
            return deletion.delete(self._cluster.store, stored, options, now).is_deleted

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
