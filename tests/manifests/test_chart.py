"""The Helm chart makes the objects of the overlays, and each of its values does what its comment says."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import tomllib

import jsonschema
import pytest
import yaml

from tests.manifests import custom
from tests.manifests.chart import CHART, example, needs_helm, render
from tests.manifests.rendered import MANIFESTS, OVERLAYS, ROOT, objects
from tests.manifests.test_render import by_key
from tests.manifests.test_schema import check

VALUES = yaml.load((CHART / "values.yaml").read_text(), yaml.CSafeLoader)
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
CHECKSUM = "checksum/config"
ROLES = ("web", "worker", "clock", "watch")


def found(values, kind, name, **more):
    (thing,) = [
        each for each in render(values, **more).objects if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    return thing


def pod(values, role):
    return found(values, "Deployment", f"ghapp-{role}")["spec"]["template"]


def of_kind(values, kind):
    return [each for each in render(values).objects if each["kind"] == kind]


def without_hashes(things):
    """The names of ConfigMaps without the hash that kustomize adds; it restarts roles when their content changes."""
    names = {each["metadata"]["name"] for each in things if each["kind"] == "ConfigMap"}
    text = json.dumps(things)
    for name in names:
        text = text.replace(f'"{name}"', json.dumps(re.sub(r"-[a-z0-9]{10}$", "", name)))
    return json.loads(text)


def without_checksums(things):
    """Pods without the annotation that restarts them when a ConfigMap changes; each pod has it."""
    things = copy.deepcopy(things)
    for each in things:
        if each["kind"] in ("Deployment", "StatefulSet"):
            assert re.fullmatch(r"[0-9a-f]{64}", each["spec"]["template"]["metadata"].pop("annotations")[CHECKSUM])
    return things


def leaves(values, path=()):
    """Each value that has a meaning of its own: (path, value)."""
    for key, value in values.items():
        here = (*path, key)
        yield here, value
        if isinstance(value, dict) and value:
            yield from leaves(value, here)


@needs_helm
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_it_renders_the_objects_of_the_overlay(overlay):
    """But for the Namespace, which Helm creates by `--create-namespace`."""
    expected = [each for each in without_hashes(objects(overlay)) if each["kind"] != "Namespace"]
    assert by_key(without_checksums(render(example(overlay)).objects)) == by_key(expected)


@needs_helm
def test_its_defaults_are_the_base_with_the_small_redis():
    kinds = {(each["kind"], each["metadata"]["name"]) for each in render({}).objects}
    assert {("Deployment", f"ghapp-{role}") for role in ROLES} <= kinds
    assert {("StatefulSet", "ghapp-redis"), ("HorizontalPodAutoscaler", "ghapp-web")} <= kinds
    replicas = {role: found({}, "Deployment", f"ghapp-{role}")["spec"].get("replicas") for role in ROLES}
    assert replicas == {"web": None, "worker": 2, "clock": 2, "watch": 2}
    config = found({}, "ConfigMap", "ghapp-config")["data"]["ghapp.toml"]
    assert tomllib.loads(config)["remediation"] == {"mode": "dry-run"}


ALL_ON = {
    "image": {"repository": "registry.example.com/ghapp", "tag": "1.2.3", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "env": {"GHAPP_PUBLIC_URL": "https://ghapp.example.com"},
    "runnerNamespaces": ["pink", "teal"],
    "openshift": True,
    "keda": {"enabled": True, "minReplicas": 1, "maxReplicas": 3, "tls": False},
    "monitoring": {"enabled": True, "labels": {"release": "kps"}},
    "redis": {"image": "redis:8", "storage": "1Gi", "storageClass": "fast", "resources": {"limits": {"memory": "1Gi"}}},
} | {
    role: {
        "resources": {"limits": {"memory": "1Gi"}},
        "podAnnotations": {"a": "b"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    }
    for role in ROLES
}  # fmt: skip
THINGS = render(ALL_ON).objects if not needs_helm.args[0] else []


@needs_helm
@pytest.mark.parametrize("thing", THINGS, ids=[f"{each['kind']} {each['metadata']['name']}" for each in THINGS])
def test_an_object_with_every_value_set_is_as_kubernetes_has_it(thing):
    if (thing["apiVersion"], thing["kind"]) in custom.SPECS:
        custom.check(thing)
    else:
        check(thing)


@needs_helm
@pytest.mark.parametrize("role", ROLES)
def test_the_values_of_a_role_are_in_its_pod(role):
    template = pod(ALL_ON, role)
    spec, container = template["spec"], template["spec"]["containers"][0]
    assert (container["image"], container["imagePullPolicy"]) == ("registry.example.com/ghapp:1.2.3", "Always")
    assert container["resources"] == {"limits": {"memory": "1Gi"}}
    assert {name: spec[name] for name in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity")} == {
        "imagePullSecrets": [{"name": "pull"}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    }
    assert template["metadata"]["annotations"]["a"] == "b"
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@needs_helm
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "values", [{"config": "[remediation]\nmode = 'off'\n"}, {"env": {"GHAPP_PUBLIC_URL": "https://x"}}]
)
def test_a_change_of_policy_or_addresses_restarts_a_role(role, values):
    before = pod({}, role)["metadata"]["annotations"][CHECKSUM]
    assert pod(values, role)["metadata"]["annotations"][CHECKSUM] != before
    assert pod({"redis": {"storage": "1Gi"}}, role)["metadata"]["annotations"][CHECKSUM] == before


@needs_helm
def test_addresses_are_variables_and_the_policy_a_file():
    values = {"config": "[leaks]\n", "env": {"GHAPP_PUBLIC_URL": "https://ghapp.example.com"}}
    assert found(values, "ConfigMap", "ghapp-config")["data"] == {"ghapp.toml": "[leaks]\n"}
    assert found(values, "ConfigMap", "ghapp-env")["data"] == values["env"]


@needs_helm
def test_each_namespace_of_runners_has_roles_bound_to_the_accounts_of_the_release():
    access = [each for each in render(ALL_ON, namespace="ours").objects if each["kind"] in ("Role", "RoleBinding")]
    assert sorted((each["metadata"]["namespace"], each["kind"], each["metadata"]["name"]) for each in access) == [
        (namespace, kind, f"ghapp-{role}")
        for namespace in ("pink", "teal")
        for kind in ("Role", "RoleBinding")
        for role in ("watch", "worker")
    ]
    subjects = [subject for each in access for subject in each.get("subjects", [])]
    assert {subject["namespace"] for subject in subjects} == {"ours"}


@needs_helm
def test_everything_else_is_in_the_namespace_of_the_release():
    things = render({}, namespace="ours").objects
    elsewhere = {each["kind"] for each in things if each["metadata"]["namespace"] != "ours"}
    assert elsewhere == {"Role", "RoleBinding"}


@needs_helm
@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"web": {"autoscaling": {"enabled": False}}}, "HorizontalPodAutoscaler"),
        ({"redis": {"enabled": False}}, "StatefulSet"),
        ({"networkPolicy": {"enabled": False}}, "NetworkPolicy"),
        ({"podDisruptionBudget": {"enabled": False}}, "PodDisruptionBudget"),
    ],
)
def test_what_is_disabled_is_not_made(values, kind):
    assert of_kind({}, kind)
    assert of_kind(values, kind) == []


@needs_helm
@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ({"keda": {"enabled": True}}, {"ScaledObject", "TriggerAuthentication"}),
        ({"monitoring": {"enabled": True}}, {"ServiceMonitor", "PrometheusRule"}),
    ],
)
def test_what_is_enabled_is_made(values, kinds):
    before, after = ({each["kind"] for each in render(each).objects} for each in ({}, values))
    assert after - before == kinds


@needs_helm
def test_keda_alone_scales_the_workers():
    assert "replicas" not in found(ALL_ON, "Deployment", "ghapp-worker")["spec"]
    scaled = found(ALL_ON, "ScaledObject", "ghapp-worker")["spec"]
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (1, 3)
    assert {trigger["metadata"]["enableTLS"] for trigger in scaled["triggers"]} == {"false"}


@needs_helm
def test_the_operator_finds_what_has_its_label():
    for kind in ("ServiceMonitor", "PrometheusRule"):
        (thing,) = of_kind(ALL_ON, kind)
        assert thing["metadata"]["labels"] == {"release": "kps"}


@needs_helm
def test_the_small_redis_has_its_values():
    spec = found(ALL_ON, "StatefulSet", "ghapp-redis")["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert (container["image"], container["resources"]) == ("redis:8", {"limits": {"memory": "1Gi"}})
    assert spec["template"]["spec"]["securityContext"].keys() == {
        "runAsNonRoot", "fsGroupChangePolicy", "seccompProfile"
    }  # fmt: skip
    (claim,) = spec["volumeClaimTemplates"]
    assert (claim["spec"]["storageClassName"], claim["spec"]["resources"]["requests"]) == ("fast", {"storage": "1Gi"})


@needs_helm
@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"replicas": 3}, "replicas"),
        ({"web": {"replicas": -1}}, "replicas"),
        ({"worker": {"replicas": "2"}}, "replicas"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"env": {"ghapp_public_url": "x"}}, "ghapp_public_url"),
        ({"runnerNamespaces": "runners"}, "runnerNamespaces"),
    ],
)
def test_helm_refuses_a_value_that_the_schema_does_not_have(values, path):
    with pytest.raises(ValueError, match=path):
        render(values)


def test_the_schema_has_exactly_the_values_and_accepts_them():
    def names(schema, path=()):
        for key, each in schema.get("properties", {}).items():
            yield (*path, key)
            yield from names(each, (*path, key))

    jsonschema.validate(VALUES, SCHEMA)
    assert {path for path, _ in leaves(VALUES)} == {path for path in names(SCHEMA) if path != ("global",)}


def test_every_value_has_a_comment_above_it():
    lines = (CHART / "values.yaml").read_text().splitlines()
    keys = [number for number, line in enumerate(lines) if re.match(r" *\w+:", line)]
    assert len(keys) == len(list(leaves(VALUES)))
    assert [lines[number] for number in keys if not lines[number - 1].lstrip().startswith("# ")] == []


def test_it_has_the_version_of_the_package():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)


@needs_helm
def test_the_notes_name_the_secrets_that_are_needed():
    notes = render({}).notes
    assert "generic ghapp-app" in notes
    assert "example in dry-run" in notes
    (rule,) = re.findall(r"^user ghapp on >\$password .*$", notes, re.MULTILINE)
    assert rule in (MANIFESTS / "README.md").read_text()
    production = render(example("production")).notes
    assert "example in dry-run" not in production
    assert "users.acl" not in production
    assert "ghapp-redis-keda" in production
    assert "-n ours " in render({}, namespace="ours").notes


@needs_helm
def test_a_packaged_chart_renders_the_same_without_the_checkout(tmp_path):
    """`helm package` follows the links of files/, so an installation from a registry has all that the templates read."""
    program = f"import helm_python as helm; print(helm.package({str(CHART)!r}, destination={str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    (archive,) = tmp_path.iterdir()
    assert done.stdout.strip() == str(archive)
    assert render(ALL_ON, chart=archive) == render(ALL_ON)


@needs_helm
def test_helm_lint_finds_no_warning():
    program = f"import helm_python as helm; print([each for each in helm.lint({str(CHART)!r})['messages'] if each['severity'] > 1])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
