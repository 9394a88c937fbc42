"""What the roles may do in a cluster is what their code asks of it."""

import pytest

from ghapp.cluster.access import NEAR_RUNNERS
from tests.manifests.rendered import OVERLAYS, kinds

HOME, RUNNERS = "ghapp", "runners"


def granted(overlay, role, namespace):
    """What Roles of a namespace grant to a role's account."""
    roles = {
        each["metadata"]["name"]: each for each in kinds(overlay, "Role") if each["metadata"]["namespace"] == namespace
    }
    rights = set()
    for binding in kinds(overlay, "RoleBinding"):
        subjects = {(each["kind"], each["namespace"], each["name"]) for each in binding["subjects"]}
        if binding["metadata"]["namespace"] != namespace or ("ServiceAccount", HOME, f"ghapp-{role}") not in subjects:
            continue
        for rule in roles[binding["roleRef"]["name"]]["rules"]:
            rights |= {
                (verb, group, resource, name)
                for verb in rule["verbs"]
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for name in rule.get("resourceNames", [""])
            }
    return rights


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("role", ["web", "worker", "clock", "watch"])
@pytest.mark.parametrize(("namespace", "needed"), [(RUNNERS, NEAR_RUNNERS), (HOME, ())], ids=["runners", "home"])
def test_a_role_is_granted_what_it_needs_and_nothing_else(overlay, role, namespace, needed):
    asked = {(each.verb, each.group, each.rbac_resource, "") for each in needed if each.role == role}
    assert granted(overlay, role, namespace) == asked


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nothing_is_granted_by_wildcard_or_to_the_whole_cluster(overlay):
    assert kinds(overlay, "ClusterRole", "ClusterRoleBinding") == []
    for role in kinds(overlay, "Role"):
        for rule in role["rules"]:
            assert rule.keys() - {"resourceNames"} == {"apiGroups", "resources", "verbs"}
            assert not any("*" in word for words in rule.values() for word in words)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_binding_binds_a_role_to_an_account_that_is_there(overlay):
    roles = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in kinds(overlay, "Role")}
    accounts = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in kinds(overlay, "ServiceAccount")}
    bound = set()
    for binding in kinds(overlay, "RoleBinding"):
        bound.add((binding["metadata"]["namespace"], binding["roleRef"]["name"]))
        assert {(each["namespace"], each["name"]) for each in binding["subjects"]} <= accounts
    assert bound == roles


@pytest.mark.parametrize("right", ["status", "finalizers", "secrets", "exec", "escalate", "impersonate", "bind"])
def test_no_user_may(right):
    assert not any(right in part for access in NEAR_RUNNERS for part in access[:5])
