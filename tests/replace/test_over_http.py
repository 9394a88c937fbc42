"""Both replacers against an API server: preconditions, finalizers and rights are its own."""

import time
from contextlib import asynccontextmanager

import pytest

from ghapp.cluster.connection import open_cluster
from ghapp.errors import ClusterForbiddenError, ClusterUnavailableError, ConflictError, ResourceMissingError
from ghapp.pods.deletion_guards import REGISTRATION_FINALIZER, DeletionVerdict, Preconditions
from ghapp.replace import arc, pods
from ghapp.runners.deletion_progress import Deletion
from ghapp.sandbox.cluster.rbac import RbacRule
from tests.replace.cluster import execute
from tests.rules.builders import lost as lost_in_september
from tests.rules.pods.builders import ARCS_OTHER_FINALIZER, NAMESPACE

NAME = "linux-1"


def now(**changes):
    return Preconditions(now=time.time(), grace_seconds=120.0, org="acme")._replace(**changes)


def lost(**changes):
    """A moment ago, by the clock that the server has, too."""
    at = time.time()
    return lost_in_september(absent_since=at - 60, first_404_at=at - 30, confirmed_at=at, **changes)


def stand_an_object(server, **changes):
    owner = server.control.ephemeral_runner(NAMESPACE, NAME, **changes)
    server.control.pod(NAMESPACE, NAME, owner=owner)
    return owner


def finalizers(server):
    return server.control.object("ephemeralrunners", NAMESPACE, NAME)["metadata"]["finalizers"]


async def test_arc_from_the_first_look_to_the_last(server, cluster):
    stand_an_object(server)
    decision = await arc.find(cluster, NAMESPACE, lost(), now())
    assert decision.verdict is DeletionVerdict.DELETE
    await execute(arc, cluster, decision)
    assert server.control.names("pods", NAMESPACE) == [NAME], "that one is for ARC to delete"

    at = time.time() - 200
    done = lost(deletion=Deletion(uid=decision.uid, found_at=at, accepted_at=at))
    under_way = await arc.find(cluster, NAMESPACE, done, now())
    assert under_way.verdict is DeletionVerdict.UNDER_WAY

    a_jump_of_ours = await arc.find(cluster, NAMESPACE, done, now(now=time.time() + 200))
    assert a_jump_of_ours.verdict is DeletionVerdict.UNDER_WAY
    server.cluster.clock = lambda: time.time() + 200
    stuck = await arc.find(cluster, NAMESPACE, done, now(now=time.time() + 200))
    assert stuck.verdict is DeletionVerdict.FREE
    await execute(arc, cluster, stuck)
    assert finalizers(server) == [ARCS_OTHER_FINALIZER]

    server.control.release("ephemeralrunners", NAMESPACE, NAME)
    absent = await arc.find(cluster, NAMESPACE, done, now())
    assert absent.verdict is DeletionVerdict.NOTHING_LEFT
    changes = [(call.verb, call.resource) for call in server.control.calls() if call.verb not in ("get", "list")]
    assert changes == [("delete", "ephemeralrunners"), ("patch", "ephemeralrunners")]


async def test_a_job_that_arc_assigns_after_the_look_is_a_conflict(server, cluster):
    stand_an_object(server)
    decision = await arc.find(cluster, NAMESPACE, lost(), now())
    server.control.set_status("ephemeralrunners", NAMESPACE, NAME, jobId="8f-a1", workflowRunId=99)
    with pytest.raises(ConflictError):
        await execute(arc, cluster, decision)
    assert "deletionTimestamp" not in server.control.object("ephemeralrunners", NAMESPACE, NAME)["metadata"]
    assert (await arc.find(cluster, NAMESPACE, lost(), now())).verdict is DeletionVerdict.REFUSE


async def test_a_finalizer_is_never_freed_of_what_is_not_being_deleted(server, cluster):
    stand_an_object(server)
    decision = await arc.find(cluster, NAMESPACE, lost(), now())
    with pytest.raises(ConflictError):
        await execute(arc, cluster, decision._replace(verdict=DeletionVerdict.FREE))
    assert REGISTRATION_FINALIZER in finalizers(server)


async def test_without_arcs_crd_nothing_is_concluded(server, cluster):
    server.control.uninstall()
    with pytest.raises(ResourceMissingError):
        await arc.find(cluster, NAMESPACE, lost(), now())


async def test_a_pod_and_its_account(server, cluster):
    server.control.pod(NAMESPACE, NAME, service_account=NAME)
    server.control.kubelet_deletes_after(0)
    decision = await pods.find(cluster, NAMESPACE, lost(), now())
    assert decision.verdict is DeletionVerdict.DELETE
    await execute(pods, cluster, decision)
    await execute(pods, cluster, decision)
    assert server.control.object("pods", NAMESPACE, NAME) is None
    assert server.control.object("serviceaccounts", NAMESPACE, NAME) is None


async def test_a_pod_created_again_after_the_read_is_kept(server, cluster):
    server.control.pod(NAMESPACE, NAME, service_account=NAME)
    decision = await pods.find(cluster, NAMESPACE, lost(), now())
    server.control.vanish(NAMESPACE, NAME)
    server.control.pod(NAMESPACE, NAME, service_account=NAME)
    with pytest.raises(ConflictError):
        await execute(pods, cluster, decision)
    assert server.control.object("serviceaccounts", NAMESPACE, NAME) is not None


@asynccontextmanager
async def seen_by(server, tmp_path, *rules):
    server.control.user("ghapp", rules)
    path = server.kubeconfig(tmp_path / "narrow", "ghapp")
    async with open_cluster({"KUBECONFIG": str(path)}) as cluster:
        yield cluster


async def test_a_right_that_is_missing_is_named_before_anything_is_done(server, tmp_path):
    server.control.pod(NAMESPACE, NAME, service_account=NAME)
    reading = RbacRule(("get", "list"), resources=("pods", "serviceaccounts"))
    async with seen_by(server, tmp_path, reading) as cluster:
        assert (await pods.find(cluster, NAMESPACE, lost(), now())).verdict is DeletionVerdict.DELETE
        with pytest.raises(ClusterForbiddenError) as lacks:
            await pods.require_permissions(cluster, NAMESPACE)
    assert (lacks.value.verb, lacks.value.resource) == ("delete", "pods")


async def test_a_cluster_that_is_away_says_nothing(server, cluster):
    server.stop()
    with pytest.raises(ClusterUnavailableError):
        await pods.find(cluster, NAMESPACE, lost(), now())
