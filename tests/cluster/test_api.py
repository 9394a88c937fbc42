"""Reading a cluster, against a strict stand-in for its API server."""

from __future__ import annotations

import pytest

from ghapp.cluster import api as operations
from ghapp.cluster.connection import open_cluster
from ghapp.errors import (
    ClusterForbiddenError,
    ClusterUnavailableError,
    ResourceMissingError,
    ResourceVersionExpiredError,
)
from ghapp.pods.pod import Ended

NAMES = [f"linux-{number}" for number in range(5)]


async def test_a_kubeconfig_is_sufficient(api, tmp_path):
    api.control.pod("runners", "linux-0")
    environ = {"KUBECONFIG": str(api.kubeconfig(tmp_path / "kubeconfig", namespace="ghapp"))}
    async with open_cluster(environ) as cluster:
        assert await cluster.version() == "v1.34.1"
        assert [pod.name for pod in (await cluster.pods("runners")).items] == ["linux-0"]


async def test_everything_read_has_its_time_by_the_clusters_clock(api, cluster):
    api.control.pod("runners", "linux-0")
    api.control.ephemeral_runner("runners", "linux-0")
    api.cluster.clock = lambda: 1_790_000_000.75
    assert await cluster.clock() == 1_790_000_000.0
    listed = [await cluster.pods("runners"), await cluster.ephemeral_runners("runners")]
    assert [each.server_time for each in listed] == [1_790_000_000.0] * 2
    read = [await cluster.pod("runners", "linux-0"), await cluster.ephemeral_runner("runners", "linux-0")]
    assert {each.read_at for each in (*read, *listed[0].items, *listed[1].items)} == {1_790_000_000.0}


async def test_an_expired_token_gives_no_answer(api, cluster):
    api.control.revoke("admin")
    with pytest.raises(ClusterUnavailableError, match="credentials"):
        await cluster.pod("runners", "linux-0")


async def test_a_list_is_of_one_namespace_and_contains_its_version(api, cluster):
    api.control.pod("runners", "linux-0", labels={"team": "ci"})
    api.control.pod("others", "linux-1")
    found = await cluster.pods("runners")
    assert [(pod.namespace, pod.name, pod.is_running) for pod in found.items] == [("runners", "linux-0", True)]
    assert found.version == str(api.control.version())


async def test_a_selector_chooses(api, cluster):
    api.control.pod("runners", "linux-0", labels={"ghapp.dev/owner": "blue"})
    api.control.pod("runners", "linux-1")
    assert [pod.name for pod in (await cluster.pods("runners", "ghapp.dev/owner")).items] == ["linux-0"]


@pytest.mark.parametrize("per_page", [1, 2, 4, 5, 6])
async def test_a_long_list_is_read_to_its_end_as_it_was_at_its_beginning(api, cluster, monkeypatch, per_page):
    for name in NAMES:
        api.control.pod("runners", name)
    version = api.control.version()
    monkeypatch.setattr(operations, "PER_PAGE", per_page)
    between(cluster, lambda: api.control.set_labels("pods", "runners", "linux-4", changed="since"))
    found = await cluster.pods("runners")
    assert [pod.name for pod in found.items] == NAMES
    assert found.version == str(version)
    assert "changed" not in found.items[-1].labels


async def test_a_list_whose_continuation_expired_is_read_again_from_the_start(api, cluster, monkeypatch):
    for name in NAMES:
        api.control.pod("runners", name)
    monkeypatch.setattr(operations, "PER_PAGE", 2)
    between(cluster, api.control.forget_versions)
    assert [pod.name for pod in (await cluster.pods("runners")).items] == NAMES


async def test_a_list_whose_continuation_always_expires_is_no_answer(api, cluster, monkeypatch):
    for name in NAMES:
        api.control.pod("runners", name)
    monkeypatch.setattr(operations, "PER_PAGE", 2)
    between(cluster, api.control.forget_versions, times=9)
    with pytest.raises(ResourceVersionExpiredError):
        await cluster.pods("runners")


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_part_that_fails_fails_the_list(api, cluster, monkeypatch, times):
    for name in NAMES:
        api.control.pod("runners", name)
    monkeypatch.setattr(operations, "PER_PAGE", 2)
    left = [times]

    def cut_the_last():
        left[0] -= 1
        if not left[0]:
            api.control.cuts_short(verbs=["list"])

    between(cluster, cut_the_last, times=times, before=True)
    with pytest.raises(ClusterUnavailableError):
        await cluster.pods("runners")


async def test_an_endless_list_is_abandoned(api, cluster, monkeypatch):
    for name in NAMES:
        api.control.pod("runners", name)
    monkeypatch.setattr(operations, "PER_PAGE", 1)
    monkeypatch.setattr(operations, "MOST_PAGES", 4)
    with pytest.raises(ClusterUnavailableError, match="no end"):
        await cluster.pods("runners")


async def test_no_pods_are_an_empty_list(cluster):
    assert (await cluster.pods("runners")).items == []


async def test_one_pod_is_read_and_an_absent_one_is_none(api, cluster):
    api.control.pod("runners", "linux-0", node="node-7", containers=("dind", "runner"))
    api.control.container_ends("runners", "linux-0", exit_code=137, reason="OOMKilled")
    pod = await cluster.pod("runners", "linux-0")
    assert (pod.node, pod.runner.name, pod.ended.exit_code, pod.ended.reason) == ("node-7", "runner", 137, "OOMKilled")
    assert await cluster.pod("runners", "linux-1") is None
    assert await cluster.pod("nowhere", "linux-0") is None


async def test_a_restarted_container_is_read_with_how_it_ended(api, cluster):
    api.control.pod("runners", "linux-0")
    api.control.container_ends("runners", "linux-0", exit_code=1, restart=True)
    pod = await cluster.pod("runners", "linux-0")
    assert (pod.is_running, type(pod.ended), pod.ended.exit_code) == (True, Ended, 1)


async def test_runner_objects_are_read(api, cluster):
    api.control.ephemeral_runner("runners", "linux-0", runner_id=7)
    listed = await cluster.ephemeral_runners("runners")
    one = await cluster.ephemeral_runner("runners", "linux-0")
    assert listed.items == [one._replace(read_at=listed.items[0].read_at)]
    assert (one.runner_id, one.runner_name, one.org, one.scale_set) == (7, "linux-0", "acme", "linux-4vcpu")
    assert await cluster.ephemeral_runner("runners", "linux-1") is None


@pytest.mark.parametrize("plain", [True, False], ids=["plain-text", "status"])
async def test_without_arc_no_runner_object_is_reported(api, cluster, plain):
    api.control.uninstall()
    api.control.answers_plain_not_found(plain=plain)
    for ask in (
        cluster.ephemeral_runners("runners"),
        cluster.ephemeral_runner("runners", "linux-0"),
        cluster.delete_ephemeral_runner("runners", "linux-0", "uid", "1"),
    ):
        with pytest.raises(ResourceMissingError, match="install its CRD"):
            await ask


@pytest.mark.parametrize("fault", ["fails", "answers_html", "resets", "cuts_short"])
async def test_a_failing_cluster_is_no_evidence_about_any_pod(api, cluster, fault):
    api.control.pod("runners", "linux-0")
    getattr(api.control, fault)()
    for ask in (cluster.pod("runners", "linux-0"), cluster.pods("runners"), cluster.may("get", "pods", "runners")):
        with pytest.raises(ClusterUnavailableError):
            await ask


async def test_an_html_404_is_no_evidence_about_any_pod(api, cluster):
    api.control.answers_html(404)
    with pytest.raises(ResourceMissingError):
        await cluster.pod("runners", "linux-0")


async def test_what_rbac_lacks_is_named(worker):
    assert (await worker.pods("runners")).items == []
    with pytest.raises(ClusterForbiddenError) as denied:
        await worker.delete_pod("runners", "linux-0", "uid", "1")
    assert (denied.value.verb, denied.value.resource) == ("delete", "pods")
    assert "a Role in namespace runners bound to system:serviceaccount:ghapp:worker" in str(denied.value)
    with pytest.raises(ClusterForbiddenError) as denied:
        await anext(worker.watch_pods("runners", "1"))
    assert denied.value.verb == "watch"


async def test_access_reviews_need_no_permission(worker):
    assert await worker.may("list", "pods", "runners") is True
    assert await worker.may("list", "pods", "others") is False
    assert await worker.may("get", "pods", "runners", subresource="log") is False
    assert await worker.may("list", "ephemeralrunners", "runners", group="actions.github.com") is False


async def test_a_log_s_last_lines_come_oldest_first(api, cluster):
    api.control.pod("runners", "linux-0")
    api.control.set_log("runners", "linux-0", ["one", "", "two", "three"])
    pod = await cluster.pod("runners", "linux-0")
    assert await cluster.log(pod) == ("one", "two", "three")
    assert await cluster.log(pod, lines=2) == ("two", "three")
    assert await cluster.log(pod, lines=0) == ()


async def test_the_log_before_a_restart_is_another(api, cluster):
    api.control.pod("runners", "linux-0")
    api.control.container_ends("runners", "linux-0", exit_code=1, restart=True, log=["last words"])
    pod = await cluster.pod("runners", "linux-0")
    assert await cluster.log(pod) == ()
    assert await cluster.log(pod, previous=True) == ("last words",)


@pytest.mark.parametrize("character", ["x", "ä", "€"], ids=["1-byte", "2-bytes", "3-bytes"])
async def test_a_log_that_is_too_long_loses_its_beginning_and_not_its_end(api, cluster, monkeypatch, character):
    monkeypatch.setattr(operations, "MOST_BYTES", 100)
    api.control.pod("runners", "linux-0")
    api.control.set_log("runners", "linux-0", [f"{number} {character * 18}" for number in range(50)])
    result = await cluster.log(await cluster.pod("runners", "linux-0"))
    assert result[-1] == f"49 {character * 18}"
    assert sum(len(line.encode()) + 1 for line in result) <= 100


async def test_a_line_that_is_too_long_is_cut(api, cluster, monkeypatch):
    monkeypatch.setattr(operations, "LONGEST_LINE", 10)
    api.control.pod("runners", "linux-0")
    api.control.set_log("runners", "linux-0", ["x" * 11])
    assert await cluster.log(await cluster.pod("runners", "linux-0")) == ("x" * 10,)


async def test_where_there_is_no_log_there_are_no_lines(api, cluster):
    api.control.pod("runners", "linux-0")
    api.control.pod("runners", "linux-1", running=False)
    api.control.pod("runners", "linux-2", node="")
    running, waiting, pending = [await cluster.pod("runners", f"linux-{number}") for number in range(3)]
    assert await cluster.log(running, previous=True) == ()
    assert await cluster.log(waiting) == ()
    assert await cluster.log(pending) == ()
    api.control.vanish("runners", "linux-0")
    assert await cluster.log(running) == ()


async def test_another_pod_s_log_is_not_given_out_under_the_same_name(api, cluster):
    api.control.pod("runners", "linux-0")
    first = await cluster.pod("runners", "linux-0")
    api.control.vanish("runners", "linux-0")
    api.control.pod("runners", "linux-0")
    api.control.set_log("runners", "linux-0", ["not its words"])
    assert await cluster.log(first) == ()


async def test_a_node_without_an_answer_is_not_an_empty_log(api, cluster):
    api.control.pod("runners", "linux-0", node="node-7")
    pod = await cluster.pod("runners", "linux-0")
    api.control.node_lost("node-7")
    with pytest.raises(ClusterUnavailableError):
        await cluster.log(pod)


def between(cluster, happens, times: int = 1, *, before: bool = False) -> None:
    """Has something happen after each of the first requests, or before it."""
    ask, left = cluster.transport.request, [times]

    async def ask_and_more(call, **how):
        now, left[0] = left[0] > 0, left[0] - 1
        if now and before:
            happens()
        answer = await ask(call, **how)
        if now and not before:
            happens()
        return answer

    cluster.transport.request = ask_and_more
