"""Controls permissions, and reads the recorded requests."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from ghapp.sandbox.cluster.calls import ClusterCall
from ghapp.sandbox.cluster.cluster import SimulatedCluster
from ghapp.sandbox.cluster.kinds import KINDS, ObjectKind, called
from ghapp.sandbox.cluster.manifests import users_of
from ghapp.sandbox.cluster.rbac import RbacRule
from ghapp.sandbox.cluster.store import Obj


class ClusterControls:
    """Controls of a cluster, callable from any thread. Their changes take effect at once."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    @contextmanager
    def _at(self) -> Iterator[float]:
        """Yields the time (epoch seconds) under the lock; applies the effects at the end."""
        with self._cluster.lock:
            try:
                yield self._cluster.clock()
            finally:
                self._cluster.settle()


class AccessControls(ClusterControls):
    """Controls of users, and of installed kinds."""

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

    def calls(self, user: str = "") -> list[ClusterCall]:
        """Returns the requests, in the order of the answers; by one user if given."""
        return [call for call in self._cluster.calls.all() if user in ("", call.user)]

    def forget_calls(self) -> None:
        """Deletes the record of requests."""
        self._cluster.calls.clear()

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

    def _custom(self, plurals: Sequence[str]) -> list[ObjectKind]:
        kinds = [called(plural) for plural in plurals] or [kind for kind in KINDS if kind.custom]
        for kind in kinds:
            if not kind.custom:
                raise ValueError(f"{kind.plural} are built in and cannot be taken away")
        return kinds
