"""Controls pods and their nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ghapp.sandbox.cluster import shapes
from ghapp.sandbox.cluster.controls.objects import ObjectControls
from ghapp.sandbox.cluster.kinds import PODS, SERVICE_ACCOUNTS
from ghapp.sandbox.cluster.kubelet import KILLED, TERMINATED, ContainerLogLine, End
from ghapp.sandbox.cluster.store import Key, Obj, copied

RUNNER = "runner"


class PodControls(ObjectControls):
    """Controls of pods; LookupError for a pod that does not exist. Each returns the pod after its change."""

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

    def container_starts(self, namespace: str, name: str, container: str | None = None) -> Obj:
        """Starts its containers, or one of them."""
        with self._at() as now:
            return copied(self._cluster.kubelet.starts(Key(namespace, name), now, container))

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

    def evict(
        self,
        namespace: str,
        name: str,
        *,
        message: str = "The node was low on resource: memory.",
        exit_code: int | None = KILLED,
    ) -> Obj:
        """The node's kubelet evicts it for lack of resources; `exit_code` None: no container reports how it ended."""
        with self._at() as now:
            key, kubelet = Key(namespace, name), self._cluster.kubelet
            kubelet.disrupts(key, "TerminationByKubelet", message, now)
            end = None if exit_code is None else End(exit_code)
            return copied(kubelet.pod_fails(key, "Evicted", message, end, now))

    def preempt(self, namespace: str, name: str) -> Obj:
        """The scheduler preempts it: sets a condition, and deletes it."""
        with self._at() as now:
            message = "default-scheduler: preempting to accommodate a higher priority pod"
            key = Key(namespace, name)
            self._cluster.kubelet.disrupts(key, "PreemptionByScheduler", message, now)
            self.delete("pods", namespace, name)
            return copied(self._cluster.kubelet.pod(key).value)

    def node_lost(self, node: str, *, deletes: bool = False) -> list[str]:
        """Loses a node; returns the names of its pods. `deletes`: five minutes later, they are also deleted."""
        with self._at() as now:
            self._cluster.logs.lose(node)
            keys = self._cluster.kubelet.node_is_lost(node, now)
            for key in keys if deletes else ():
                message = "Taint manager: deleting due to NoExecute taint"
                self._cluster.kubelet.disrupts(key, "DeletionByTaintManager", message, now)
                self.delete("pods", *key)
            return [key.name for key in keys]

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

    def set_log(
        self,
        namespace: str,
        name: str,
        lines: Sequence[str],
        *,
        container: str = RUNNER,
        previous: bool = False,
        age_seconds: float = 0,
    ) -> None:
        """Sets what `pods/log` returns, all of it written so long ago; `previous`: before the last restart."""
        with self._at() as now:
            uid = self._cluster.kubelet.pod(Key(namespace, name)).value["metadata"]["uid"]
            stamped = [ContainerLogLine(now - age_seconds, line) for line in lines]
            self._cluster.logs.rewrite(uid, container, stamped, previous=previous)
