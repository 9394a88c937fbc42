"""Every kustomization renders, and our renderer's output equals kustomize's."""

import pytest
import yaml

from tests.manifests.rendered import MANIFESTS, OVERLAYS, needs_the_real_one, objects, ours, really

WORKLOAD = """
apiVersion: apps/v1
kind: {kind}
metadata: {{name: mine, labels: {{ghapp.dev/runner: "true"}}}}
spec:
  template:
    spec:
      containers:
        - {{name: side, image: b}}
        - {{name: runner, image: a, env: [{{name: X, value: "1"}}]}}
---
apiVersion: apps/v1
kind: {kind}
metadata: {{name: other}}
spec: {{template: {{spec: {{containers: [{{name: web, image: c}}]}}}}}}
"""
ORG = """
apiVersion: apps/v1
kind: Any
metadata: {name: any}
spec: {template: {spec: {containers: [{name: runner, env: [{name: RUNNER_ORG, value: initech}]}]}}}
"""


def key(thing):
    meta = thing["metadata"]
    return thing["kind"], meta.get("namespace", ""), meta["name"]


def by_key(objects):
    keyed = {key(each): each for each in objects}
    assert len(keyed) == len(objects)
    return keyed


@pytest.fixture(params=["Deployment", "StatefulSet"])
def runners(request, tmp_path):
    """A user's kustomization with our component, outside of our tree."""
    (tmp_path / "manifests").symlink_to(MANIFESTS)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "mine.yaml").write_text(WORKLOAD.format(kind=request.param))
    found = {
        "resources": ["mine.yaml"],
        "components": ["../manifests/runners"],
        "patches": [{"target": {"kind": request.param, "labelSelector": "ghapp.dev/runner=true"}, "patch": ORG}],
    }
    (tmp_path / "mine" / "kustomization.yaml").write_text(yaml.safe_dump(found))
    return tmp_path / "mine"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_renders_and_each_object_is_there_once(overlay):
    assert by_key(objects(overlay))


@needs_the_real_one
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_itself_renders_the_same(overlay):
    directory = MANIFESTS / "overlays" / overlay
    assert by_key(really(directory)) == by_key(ours(directory))


@needs_the_real_one
def test_kustomize_itself_renders_the_same_for_runners(runners):
    assert by_key(really(runners)) == by_key(ours(runners))


def test_only_workloads_with_the_label_are_changed(runners):
    mine, other = ours(runners)
    assert other["spec"]["template"]["spec"]["containers"] == [{"name": "web", "image": "c"}]
    assert {each["name"] for each in mine["spec"]["template"]["spec"]["containers"]} == {"runner", "side"}


def test_what_a_variable_is_made_of_stands_above_it(runners):
    (runner,) = [
        each for each in ours(runners)[0]["spec"]["template"]["spec"]["containers"] if each["name"] == "runner"
    ]
    names = [each["name"] for each in runner["env"]]
    assert names.index("RUNNER_ALIVE_URL") > max(names.index("POD_NAME"), names.index("RUNNER_ORG"))
    assert {"name": "RUNNER_ORG", "value": "initech"} in runner["env"]
    assert {"name": "X", "value": "1"} in runner["env"]


def test_our_renderer_refuses_unknown_fields(tmp_path):
    (tmp_path / "kustomization.yaml").write_text("namePrefix: x-\n")
    with pytest.raises(ValueError, match="does not know namePrefix"):
        ours(tmp_path)
