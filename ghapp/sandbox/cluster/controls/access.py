"""Who may do what, and what was asked."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence

from ghapp.sandbox.cluster.calls import ClusterCall
from ghapp.sandbox.cluster.controls.controls import ClusterControls
from ghapp.sandbox.cluster.kinds import KINDS, ObjectKind, called
from ghapp.sandbox.cluster.manifests import users_of
from ghapp.sandbox.cluster.objects import Obj
from ghapp.sandbox.cluster.rbac import RbacRule


class AccessLevers(ClusterControls):
    """Levers on users, and on what is installed."""

    def user(self, name: str, rules: Sequence[RbacRule] = ()) -> str:
        """A user who may do just that, or another set of rules for one; its bearer token."""
        return self._cluster.user(name, rules).token or ""

    def load_roles(self, documents: Iterable[Obj]) -> list[str]:
        """Users from parsed Roles, ClusterRoles and their bindings, as in manifests; their names.

        A ServiceAccount `watch` in `ghapp` is the user `system:serviceaccount:ghapp:watch`. Other documents are passed
        over. ValueError when a binding names a role that is not among them.
        """
        found = users_of(documents)
        for name, rules in found.items():
            self._cluster.user(name, rules)
        return sorted(found)

    def rotate_token(self, user: str) -> str:
        """The old token is refused with 401 from now on; the new one."""
        with self._cluster.lock:
            token = secrets.token_urlsafe(24)
            self._cluster.users[user].token = token
            return token

    def revoke(self, user: str) -> None:
        """No token of this user is good any more."""
        with self._cluster.lock:
            self._cluster.users[user].token = None

    def calls(self, user: str = "") -> list[ClusterCall]:
        """What was asked for, in the order of the answers; by one user where one is given."""
        return [call for call in self._cluster.calls.all() if user in ("", call.user)]

    def forget_calls(self) -> None:
        """Begins the record anew."""
        self._cluster.calls.clear()

    def uninstall(self, *plurals: str) -> None:
        """Takes CRDs away with all their objects: `ephemeralrunners`; with no name, all of them."""
        with self._at():
            for kind in self._custom(plurals):
                self._cluster.installed.discard(kind)
                for key in list(self._cluster.store.all(kind)):
                    self._cluster.store.remove(kind, key)
                for watch in self._cluster.watches:
                    if watch.kind is kind:
                        watch.finish()

    def install(self, *plurals: str) -> None:
        """Brings them back, without objects."""
        with self._at():
            self._cluster.installed |= set(self._custom(plurals))

    def _custom(self, plurals: Sequence[str]) -> list[ObjectKind]:
        kinds = [called(plural) for plural in plurals] or [kind for kind in KINDS if kind.custom]
        for kind in kinds:
            if not kind.custom:
                raise ValueError(f"{kind.plural} are built in and cannot be taken away")
        return kinds
