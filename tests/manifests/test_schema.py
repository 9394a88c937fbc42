"""Every object is valid by the schema of Kubernetes or of its own controller."""

import copy

import lightkube.resources.apps_v1
import lightkube.resources.autoscaling_v2
import lightkube.resources.core_v1
import lightkube.resources.networking_v1
import lightkube.resources.policy_v1
import lightkube.resources.rbac_authorization_v1  # noqa: F401 - importing registers the kinds
import msgspec
import pytest
from lightkube.core.resource_registry import resource_registry

from tests.manifests import custom
from tests.manifests.rendered import everything, objects


def name(overlay, thing):
    return f"{overlay} {thing['kind']} {thing['metadata']['name']}"


BUILT_IN = [
    (name(*each), each[1]) for each in everything() if (each[1]["apiVersion"], each[1]["kind"]) not in custom.SPECS
]
CUSTOM = [(name(*each), each[1]) for each in everything() if (each[1]["apiVersion"], each[1]["kind"]) in custom.SPECS]


def lost(before, after, path=""):
    """Fields that a model does not know."""
    if isinstance(before, dict):
        after = after if isinstance(after, dict) else {}
        for key, value in before.items():
            here = f"{path}.{key}"
            yield from lost(value, after[key], here) if key in after else ([here] if is_set(value) else [])
    elif isinstance(before, list):
        for index, value in enumerate(before):
            yield from lost(value, after[index], f"{path}[{index}]")
    elif before != after:
        yield path


def is_set(value):
    """An empty selector has a meaning and yet looks like a default; the check of its kind covers it."""
    return value not in ({}, [], None)


def check(thing):
    model = resource_registry.load(thing["apiVersion"], thing["kind"])
    plain = {key: value for key, value in thing.items() if key not in ("apiVersion", "kind")}
    unknown = list(lost(plain, model.from_dict(thing).to_dict()))
    assert unknown == []


@pytest.mark.parametrize("thing", [each for _, each in BUILT_IN], ids=[name for name, _ in BUILT_IN])
def test_it_is_as_kubernetes_has_it(thing):
    check(thing)


@pytest.mark.parametrize("thing", [each for _, each in CUSTOM], ids=[name for name, _ in CUSTOM])
def test_it_is_as_its_controller_has_it(thing):
    custom.check(thing)


def deployment(**spec):
    (web,) = [
        each
        for each in objects("production")
        if (each["kind"], each["metadata"]["name"]) == ("Deployment", "ghapp-web")
    ]
    web = copy.deepcopy(web)
    web["spec"] |= spec
    return web


def test_a_field_that_is_misspelt_is_found():
    with pytest.raises(AssertionError, match=r"\.spec\.minReadySecond"):
        check(deployment(minReadySecond=3))


def test_a_field_that_is_misspelt_deep_down_is_found():
    web = deployment()
    web["spec"]["template"]["spec"]["containers"][0]["securityContext"]["readOnlyRootFileSystem"] = True
    with pytest.raises(AssertionError, match="readOnlyRootFileSystem"):
        check(web)


def test_a_field_that_is_missing_is_found():
    web = deployment()
    del web["spec"]["selector"]
    with pytest.raises(msgspec.ValidationError, match="selector"):
        check(web)


def test_a_field_of_another_type_is_found():
    with pytest.raises(msgspec.ValidationError, match="replicas"):
        check(deployment(replicas="two"))
