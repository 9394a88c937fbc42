"""The cluster as a whole: objects, users and watches. One lock guards all of them."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence

from starlette.types import ASGIApp

from ghapp.sandbox.cluster.deletion import collect
from ghapp.sandbox.cluster.kinds import KINDS, NAMESPACES, PODS, SERVICE_ACCOUNTS, ObjectKind
from ghapp.sandbox.cluster.kubelet import Kubelet, Logs
from ghapp.sandbox.cluster.rbac import ANONYMOUS, ANYTHING, RbacRule, User
from ghapp.sandbox.cluster.requests import ParsedRequest
from ghapp.sandbox.cluster.store import Key, Obj, Store, StoredChange
from ghapp.sandbox.cluster.watch import CutAfterEvent, Watch
from ghapp.sandbox.cluster.writes import stamp

ADMIN = "admin"

Around = Callable[[str, ParsedRequest | None, ASGIApp], ASGIApp]
"""Gets a user's name, the request (None: for no resource) and what answers it; returns what answers instead."""


class SimulatedCluster:
    """The state of the cluster.

    Attributes:
        lock: held by every reader and writer of the store.
        installed: the kinds that are served.
        collects_garbage: dependents are deleted with their owners.
        expires_by_http: a watch from a dropped version is answered 410, and not 200 with an ERROR event.
        around: wraps the answer to each request: tests record requests there, and make them fail.
        cut: decides which watches end early.
        plain_not_found: an unknown path is answered in plain text, as by older API servers.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.store = Store()
        self.logs = Logs()
        self.store.listen(PODS, self._forget_logs)
        self.kubelet = Kubelet(self.store, self.logs)
        self.around: Around = lambda _user, _asked, answer: answer
        self.cut: CutAfterEvent = lambda: None
        self.watches: set[Watch] = set()
        self.installed: set[ObjectKind] = set(KINDS)
        self.users: dict[str, User] = {}
        self.collects_garbage = True
        self.expires_by_http = False
        self.plain_not_found = False
        self._settled = self.store.version
        self.user(ADMIN, (ANYTHING,))
        self.anonymous = User(ANONYMOUS)
        for name in ("default", "kube-system"):
            self.namespace(name)

    def user(self, name: str, rules: Sequence[RbacRule]) -> User:
        """Adds a user, or changes a user's rules; the token stays."""
        with self.lock:
            user = self.users.setdefault(name, User(name, token=secrets.token_urlsafe(24)))
            user.rules = tuple(rules)
            return user

    def user_of(self, token: str) -> User | None:
        """Returns the user of that token."""
        return next((user for user in self.users.values() if user.token == token), None)

    def namespace(self, name: str) -> None:
        """Creates the namespace if it does not exist, with the service account that each has."""
        with self.lock:
            if self.store.get(NAMESPACES, Key("", name)) is not None:
                return
            value: Obj = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}
            stamp(NAMESPACES, value, self.clock())
            value["metadata"]["labels"] = {"kubernetes.io/metadata.name": name}
            value |= {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
            self.store.put(NAMESPACES, value)
            account: Obj = {
                "kind": "ServiceAccount",
                "apiVersion": "v1",
                "metadata": {"name": "default", "namespace": name},
            }
            stamp(SERVICE_ACCOUNTS, account, self.clock())
            self.store.put(SERVICE_ACCOUNTS, account)

    def settle(self) -> None:
        """Applies the effects of writes and of the time that has passed."""
        with self.lock:
            now = self.clock()
            self.kubelet.finish_due(now)
            while self._settled != self.store.version:
                self._settled = self.store.version
                if self.collects_garbage:
                    collect(self.store, now)
                self.kubelet.finish_due(now)

    def settle_due(self) -> None:
        """The same, where time alone can have an effect."""
        if self.kubelet.deletion_seconds is not None:
            self.settle()

    def _forget_logs(self, change: StoredChange) -> None:
        if change.after is None:
            self.logs.forget(change.last.value["metadata"]["uid"])
