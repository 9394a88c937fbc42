"""Every pod conforms to the profile `restricted` and is self-contained."""

import re

import pytest

from tests.manifests.rendered import OVERLAYS, kinds, named, pods

PODS = named(pods())
ROLES = ("web", "worker", "clock", "watch")
ENDS_WITHIN_SECONDS = 10


def containers(template):
    spec = template["spec"]
    return [*spec.get("initContainers", []), *spec["containers"]]


@pytest.mark.parametrize("template", PODS)
def test_it_is_restricted(template):
    spec = template["spec"]
    assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & spec.keys()
    security = spec["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] > 0
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(template):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not any("hostPort" in port for port in container.get("ports", []))
    allowed = {"configMap", "secret", "emptyDir"}
    assert all(set(volume) - {"name"} <= allowed for volume in spec.get("volumes", []))


@pytest.mark.parametrize("template", PODS)
def test_it_can_write_to_tmp_alone_and_not_without_end(template):
    writable = [volume for volume in template["spec"]["volumes"] if "emptyDir" in volume]
    assert [volume["name"] for volume in writable] == ["tmp"]
    assert writable[0]["emptyDir"]["sizeLimit"]
    for container in containers(template):
        mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
        assert mounts["tmp"]["mountPath"] == "/tmp"
        assert all(mount.get("readOnly") for name, mount in mounts.items() if name not in ("tmp", "data"))


@pytest.mark.parametrize("template", PODS)
def test_every_volume_is_mounted_and_every_mount_has_a_volume(template):
    claimed = {"data"} if template["metadata"]["labels"]["app.kubernetes.io/component"] == "redis" else set()
    there = {volume["name"] for volume in template["spec"]["volumes"]} | claimed
    assert {mount["name"] for each in containers(template) for mount in each["volumeMounts"]} == there


@pytest.mark.parametrize("template", PODS)
def test_it_asks_for_what_it_needs_and_cannot_take_a_node_with_it(template):
    for container in containers(template):
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["resources"]["limits"].keys() == {"memory"}


@pytest.mark.parametrize("template", PODS)
def test_no_service_becomes_a_variable(template):
    """A Service called ghapp would set GHAPP_PORT, and the roles refuse unknown variables."""
    assert template["spec"]["enableServiceLinks"] is False


@pytest.mark.parametrize("template", PODS)
def test_secret_files_are_for_the_roles_group_and_not_for_everyone(template):
    """The kubelet adds the group's read bit for fsGroup; a key that others may read is refused by ghapp."""
    secrets = [volume["secret"] for volume in template["spec"]["volumes"] if "secret" in volume]
    assert all(secret["defaultMode"] == 0o400 for secret in secrets)
    assert not secrets or template["spec"]["securityContext"]["fsGroup"] > 0


@pytest.mark.parametrize("template", PODS)
def test_a_role_is_given_the_time_that_it_needs_to_end(template):
    (main,) = template["spec"]["containers"]
    sleep = main.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
    assert template["spec"]["terminationGracePeriodSeconds"] > int(sleep[1]) + ENDS_WITHIN_SECONDS


@pytest.mark.parametrize("template", PODS)
def test_each_image_has_a_version_and_is_the_released_one_or_redis(template):
    for container in containers(template):
        assert re.fullmatch(r"(ghcr\.io/ghapp/ghapp|redis):[\d.]+[\w.-]*", container["image"])


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("role", ROLES)
def test_a_role_has_an_account_of_its_own_and_a_token_only_where_it_asks_the_cluster(overlay, role):
    (deployment,) = [each for each in kinds(overlay, "Deployment") if each["metadata"]["name"] == f"ghapp-{role}"]
    spec = deployment["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == f"ghapp-{role}"
    assert spec["automountServiceAccountToken"] is (role in ("worker", "watch"))
    (account,) = [each for each in kinds(overlay, "ServiceAccount") if each["metadata"]["name"] == f"ghapp-{role}"]
    assert account["automountServiceAccountToken"] is False


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_namespace_refuses_whatever_is_not_restricted(overlay):
    (namespace,) = kinds(overlay, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_secret_is_in_a_manifest(overlay):
    assert kinds(overlay, "Secret") == []
