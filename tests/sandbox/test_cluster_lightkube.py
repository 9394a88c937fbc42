"""The project's client library works unchanged with the simulated API server."""

from __future__ import annotations

import httpx2
import pytest
from lightkube import ALL_NS, ApiError, AsyncClient, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Pod, ServiceAccount
from lightkube.types import PatchType

from ghapp.sandbox.cluster.rbac import RbacRule
from tests.support.cluster import SteeredCluster

EphemeralRunner = create_namespaced_resource("actions.github.com", "v1alpha1", "EphemeralRunner", "ephemeralrunners")


@pytest.fixture
async def server():
    async with SteeredCluster() as server:
        yield server


@pytest.fixture
async def client(server, tmp_path):
    config = KubeConfig.from_file(server.kubeconfig(tmp_path / "kubeconfig", namespace="runners"))
    client = AsyncClient(config=config.get())
    yield client
    await client.close()


async def test_it_lists_page_by_page(server, client):
    for number in range(7):
        server.control.pod("runners" if number else "other", f"p-{number}", labels={"odd": str(number % 2)})
    listed = client.list(Pod, chunk_size=2)
    assert [pod.metadata.name async for pod in listed] == [f"p-{number}" for number in range(1, 7)]
    assert listed.resourceVersion == str(server.control.version())
    chosen = client.list(Pod, namespace=ALL_NS, labels={"odd": "0"}, fields={"status.phase": "Running"})
    assert [pod.metadata.name async for pod in chosen] == ["p-0", "p-2", "p-4", "p-6"]
    assert [call.verb for call in server.control.calls()] == ["list"] * 4


async def test_it_watches(server, client):
    version = str(server.control.version())
    seen = []
    server.control.pod("runners", "a")
    async for kind, pod in client.watch(Pod, resource_version=version):
        seen.append((kind, pod.metadata.name))
        if len(seen) == 1:
            server.control.container_ends("runners", "a", exit_code=137, reason="OOMKilled")
        elif len(seen) == 2:
            assert pod.status.containerStatuses[0].state.terminated.reason == "OOMKilled"
            server.control.vanish("runners", "a")
        else:
            break
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_it_raises_on_a_version_that_is_forgotten(server, client):
    version = str(server.control.version())
    server.control.forget_versions()
    with pytest.raises(ApiError) as raised:
        await anext(aiter(client.watch(Pod, resource_version=version)))
    assert (raised.value.status.code, raised.value.status.reason) == (410, "Expired")


async def test_it_patches_gets_creates_and_deletes(server, client):
    server.control.ephemeral_runner("runners", "a", finalizers=("x.dev/y",))
    patched = await client.patch(EphemeralRunner, "a", {"metadata": {"labels": {"x": "y"}}}, patch_type=PatchType.MERGE)
    assert patched.metadata.labels["x"] == "y"
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": patched.metadata.uid},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]
    await client.delete(EphemeralRunner, "a")
    assert (await client.get(EphemeralRunner, "a")).metadata.deletionTimestamp is not None
    await client.patch(EphemeralRunner, "a", operations, patch_type=PatchType.JSON)
    with pytest.raises(ApiError) as raised:
        await client.get(EphemeralRunner, "a")
    assert raised.value.status.reason == "NotFound"

    await client.create(ServiceAccount(metadata=ObjectMeta(name="sa", namespace="runners")))
    await client.delete(ServiceAccount, "sa")
    assert server.control.names("serviceaccounts", "runners") == ["default"]


async def test_a_user_is_refused_what_its_rules_do_not_allow(server, tmp_path):
    server.control.user("reader", [RbacRule(("list",), ("",), ("pods",), ("runners",))])
    path = server.kubeconfig(tmp_path / "reader", "reader", namespace="runners")
    client = AsyncClient(config=KubeConfig.from_file(path).get())
    assert [pod async for pod in client.list(Pod)] == []
    with pytest.raises(ApiError) as denied:
        await client.delete(Pod, "a")
    assert denied.value.status.code == 403
    await client.close()


async def test_a_plain_404_is_no_api_error_to_it(server, client):
    """Older API servers answer so for a CRD that is not installed: code that expects only ApiError misses it."""
    server.control.uninstall()
    with pytest.raises(ApiError) as refused:
        [runner async for runner in client.list(EphemeralRunner)]
    assert refused.value.status.reason == "NotFound"
    server.control.answers_plain_not_found()
    with pytest.raises(httpx2.HTTPStatusError) as plain:
        [runner async for runner in client.list(EphemeralRunner)]
    assert not isinstance(plain.value, ApiError)


def test_a_user_without_a_token_has_no_kubeconfig(tmp_path):
    with SteeredCluster() as server, pytest.raises(LookupError, match=r"control\.user"):
        server.kubeconfig(tmp_path / "kubeconfig", "unknown")
