"""The sandbox' API server as tests steer it: users, installed kinds, faults, and what happens to pods and nodes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ghapp.sandbox.cluster import shapes
from ghapp.sandbox.cluster.control import RUNNER
from ghapp.sandbox.cluster.kinds import EPHEMERAL_RUNNER_SETS, KINDS, ObjectKind, called
from ghapp.sandbox.cluster.kubelet import KILLED, ContainerLogLine, End
from ghapp.sandbox.cluster.rbac import RbacRule
from ghapp.sandbox.cluster.server import ClusterServer
from ghapp.sandbox.cluster.store import IN_ORDER, Key, Obj, copied
from tests.support.cluster_faults import ClusterFaultControl


class ClusterSteering(ClusterFaultControl):
    """All controls of a cluster, callable from any thread; LookupError for an object that does not exist."""

    def user(self, name: str, rules: Sequence[RbacRule] = ()) -> str:
        """Creates a user with just these rules, or replaces a user's rules; returns the bearer token."""
        return self._cluster.user(name, rules).token or ""

    def load_roles(self, documents: Iterable[Obj]) -> list[str]:
        """Creates users from parsed Roles, ClusterRoles and their bindings, as in manifests; returns their names.

        A ServiceAccount `watch` in `ghapp` is the user `system:serviceaccount:ghapp:watch`. Other documents are
        ignored.
        ValueError when a binding names a role that is not among them.
        """
        found = users_of(documents)
        for name, rules in found.items():
            self._cluster.user(name, rules)
        return sorted(found)

    def rotate_token(self, user: str) -> str:
        """Replaces a user's token: the old one is refused with 401; returns the new one."""
        with self._cluster.lock:
            token = secrets.token_urlsafe(24)
            self._cluster.users[user].token = token
            return token

    def revoke(self, user: str) -> None:
        """Revokes every token of this user."""
        with self._cluster.lock:
            self._cluster.users[user].token = None

    def uninstall(self, *plurals: str) -> None:
        """Removes CRDs with all their objects: `ephemeralrunners`; without a name, all of them."""
        with self._at():
            for kind in self._custom(plurals):
                self._cluster.installed.discard(kind)
                for key in list(self._cluster.store.all(kind)):
                    self._cluster.store.remove(kind, key)
                for watch in self._cluster.watches:
                    if watch.kind is kind:
                        watch.finish()

    def install(self, *plurals: str) -> None:
        """Installs them again, without objects."""
        with self._at():
            self._cluster.installed |= set(self._custom(plurals))

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

    def objects(self, kind: str, namespace: str = "") -> list[Obj]:
        """Returns all objects of a kind, in the order of lists; of one namespace if given."""
        with self._cluster.lock:
            found = self._cluster.store.all(called(kind))
            return [copied(found[key].value) for key in sorted(found, key=IN_ORDER) if namespace in ("", key.namespace)]

    def names(self, kind: str, namespace: str = "") -> list[str]:
        """Returns the names of all objects of a kind."""
        return [str(value["metadata"]["name"]) for value in self.objects(kind, namespace)]

    def set_labels(self, kind: str, namespace: str, name: str, **labels: str | None) -> Obj:
        """Sets labels; None removes a label. Names that are no identifiers go as `**{"a/b": "c"}`."""

        def put(value: Obj) -> None:
            merged = (value["metadata"].get("labels") or {}) | labels
            value["metadata"]["labels"] = {key: part for key, part in merged.items() if part is not None}

        return self.change(kind, namespace, name, put)

    def container_starts(self, namespace: str, name: str, container: str | None = None) -> Obj:
        """Starts its containers, or one of them."""
        with self._at() as now:
            return copied(self._cluster.kubelet.starts(Key(namespace, name), now, container))

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

    def _custom(self, plurals: Sequence[str]) -> list[ObjectKind]:
        kinds = [called(plural) for plural in plurals] or [kind for kind in KINDS if kind.custom]
        for kind in kinds:
            if not kind.custom:
                raise ValueError(f"{kind.plural} are built in and cannot be taken away")
        return kinds


class SteeredCluster(ClusterServer):
    """A simulated API server with all controls, served inside a `with` block."""

    control: ClusterSteering

    def __init__(self, *, clock: Callable[[], float] = time.time, port: int = 0) -> None:
        super().__init__(clock=clock, port=port)
        self.control = ClusterSteering(self.cluster)


_ROLES = ("Role", "ClusterRole")
_BINDINGS = ("RoleBinding", "ClusterRoleBinding")


def users_of(documents: Iterable[Obj]) -> dict[str, list[RbacRule]]:
    """Returns the rules of each bound user; ValueError when a binding names a role that does not exist."""
    found = [document for document in documents if document]
    roles = {_name_of(role): role for role in found if role.get("kind") in _ROLES}
    users: dict[str, list[RbacRule]] = {}
    for binding in found:
        if binding.get("kind") not in _BINDINGS:
            continue
        namespace = binding["metadata"].get("namespace", "") if binding["kind"] == "RoleBinding" else None
        reference = binding["roleRef"]
        named = (reference["kind"], (namespace or "") if reference["kind"] == "Role" else "", reference["name"])
        if named not in roles:
            raise ValueError(
                f"{_label(binding)} binds the {reference['kind']} {reference['name']!r}, which is not given"
            )
        rules = _rules_of(roles[named], namespace, _label(binding))
        for subject in binding.get("subjects") or ():
            users.setdefault(_user(subject, namespace), []).extend(rules)
    return users


def _rules_of(role: Obj, namespace: str | None, why: str = "") -> list[RbacRule]:
    """Returns the rules of one Role or ClusterRole, as bound in a namespace; None is everywhere."""
    where = None if namespace is None else (namespace,)
    return [
        RbacRule(
            tuple(rule.get("verbs") or ()),
            tuple(rule.get("apiGroups") or ()),
            tuple(rule.get("resources") or ()),
            where,
            tuple(rule.get("resourceNames") or ()),
            tuple(rule.get("nonResourceURLs") or ()),
            why,
        )
        for rule in role.get("rules") or ()
    ]


def _name_of(role: Obj) -> tuple[str, str, str]:
    namespace = role["metadata"].get("namespace", "") if role["kind"] == "Role" else ""
    return role["kind"], namespace, role["metadata"]["name"]


def _label(binding: Obj) -> str:
    meta = binding["metadata"]
    where = f"/{meta['namespace']}" if meta.get("namespace") else ""
    return f'{binding["kind"]} "{meta["name"]}{where}"'


def _user(subject: Obj, namespace: str | None) -> str:
    if subject["kind"] == "ServiceAccount":
        return f"system:serviceaccount:{subject.get('namespace') or namespace or ''}:{subject['name']}"
    return str(subject["name"])
