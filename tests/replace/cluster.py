"""A cluster as values: strict where the API server is, and able to fail. It remembers what was changed."""

from __future__ import annotations

from ghapp.cluster.api_errors import rbac_lacks
from ghapp.cluster.watch_events import Listed
from ghapp.errors import ClusterForbiddenError, ConflictError
from ghapp.pods.pod import EphemeralRunner, Pod
from tests.rules.pods.builders import NAMESPACE


class FakeCluster:
    """What `ghapp.cluster.api.Cluster` is to a replacer.

    Attributes:
        done: the changes that were accepted, in order.
        fails: by method, what it raises; an exception that is taken out of a list is raised once.
        clock: its own, by which reads are dated; without one, objects keep their date.
        before_delete: called before a deletion reads anything: another process was faster.
    """

    def __init__(
        self, *things: Pod | EphemeralRunner, accounts: tuple[str, ...] = (), lacks: tuple[str, ...] = (), clock=None
    ):
        self.found_pods = {each.name: each for each in things if isinstance(each, Pod)}
        self.objects = {each.name: each for each in things if isinstance(each, EphemeralRunner)}
        self.accounts, self.lacks, self.clock = set(accounts), set(lacks), clock
        self.done: list[str] = []
        self.fails: dict[str, Exception | list[Exception]] = {}
        self.before_delete = lambda: None

    def _fail(self, method):
        error = self.fails.get(method)
        if isinstance(error, list):
            error = error.pop(0) if error else None
        if error is not None:
            raise error

    def _read(self, thing):
        return thing if thing is None or self.clock is None else thing._replace(read_at=self.clock())

    async def pod(self, namespace, name):
        self._fail("pod")
        return self._read(self.found_pods.get(name)) if namespace == NAMESPACE else None

    async def ephemeral_runner(self, namespace, name):
        self._fail("ephemeral_runner")
        return self._read(self.objects.get(name)) if namespace == NAMESPACE else None

    async def ephemeral_runners(self, namespace):
        self._fail("ephemeral_runners")
        return Listed([*self.objects.values()] if namespace == NAMESPACE else [], "1")

    async def require(self, call):
        if call.resource.plural in self.lacks:
            raise ClusterForbiddenError(rbac_lacks(call), verb=call.verb, resource=call.rbac_resource)

    async def delete_pod(self, namespace, name, uid, version):
        self._fail("delete_pod")
        self.before_delete()
        return self._delete(self.found_pods, "pod", name, uid, version)

    async def delete_ephemeral_runner(self, namespace, name, uid, version):
        self._fail("delete_ephemeral_runner")
        self.before_delete()
        return self._delete(self.objects, "object", name, uid, version)

    def _delete(self, things, kind, name, uid, version):
        there = things.get(name)
        if there is None:
            return False
        if (there.uid, there.version) != (uid, version):
            raise ConflictError("409")
        self.done.append(f"delete {kind} {name}")
        if kind == "object" and there.finalizers:
            things[name] = there._replace(deleting_since=there.created_at, version="72")
        else:
            del things[name]
        return True

    async def delete_service_account(self, namespace, name):
        self._fail("delete_service_account")
        if name not in self.accounts:
            return False
        self.accounts.discard(name)
        self.done.append(f"delete account {name}")
        return True

    async def free_finalizer(self, runner, finalizer):
        self._fail("free_finalizer")
        there = self.objects.get(runner.name)
        if there is None or finalizer not in there.finalizers:
            return False
        assert there.deleting_since is not None
        if (there.uid, there.version) != (runner.uid, runner.version):
            raise ConflictError("409")
        left = tuple(each for each in there.finalizers if each != finalizer)
        self.objects[runner.name] = there._replace(finalizers=left, version="73")
        self.done.append(f"free {runner.name} of {finalizer}")
        return True


async def execute(replacer, cluster, decision):
    """Executes a decision, as `ClusterReplacement` does."""
    if decision.sends_delete:
        await replacer.delete(cluster, decision)
    await replacer.finish(cluster, decision)
