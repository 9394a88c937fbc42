"""What keeps each role there while one of its pods, or a node, is away; and what the base brings at all."""

import pytest

from tests.manifests.rendered import MANIFESTS, OVERLAYS, kinds, ours

ROLES = ("web", "worker", "clock", "watch")
BASE = ours(MANIFESTS / "base")


def in_base(kind):
    return {each["metadata"]["name"]: each for each in BASE if each["kind"] == kind}


def test_the_base_has_every_role_and_nothing_else_that_runs():
    assert in_base("Deployment").keys() == {f"ghapp-{role}" for role in ROLES}
    assert in_base("ServiceAccount").keys() == {f"ghapp-{role}" for role in ROLES}
    assert {each["kind"] for each in BASE} >= {"Service", "NetworkPolicy", "HorizontalPodAutoscaler"}
    assert not in_base("StatefulSet"), "Redis is a reference, or an overlay's"


def test_of_the_web_role_there_are_two_or_more_as_its_autoscaler_says():
    scaler = in_base("HorizontalPodAutoscaler")["ghapp-web"]["spec"]
    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "ghapp-web"}
    assert (scaler["minReplicas"] >= 2, scaler["maxReplicas"] > scaler["minReplicas"]) == (True, True)


@pytest.mark.parametrize("role", ROLES)
def test_a_drain_takes_one_of_a_role_at_a_time(role):
    budget = in_base("PodDisruptionBudget")[f"ghapp-{role}"]["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"]["app.kubernetes.io/component"] == role


@pytest.mark.parametrize("role", ROLES)
def test_a_roles_pods_are_spread_over_nodes_and_may_share_one_where_there_is_but_one(role):
    template = in_base("Deployment")[f"ghapp-{role}"]["spec"]["template"]
    spread = {each["topologyKey"]: each for each in template["spec"]["topologySpreadConstraints"]}
    assert "kubernetes.io/hostname" in spread
    assert {each["whenUnsatisfiable"] for each in spread.values()} == {"ScheduleAnyway"}
    assert {each["maxSkew"] for each in spread.values()} == {1}


def test_the_web_role_is_not_sent_requests_before_it_is_ready_nor_restarted_for_redis():
    (container,) = in_base("Deployment")["ghapp-web"]["spec"]["template"]["spec"]["containers"]
    paths = {name: container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe", "startupProbe")}
    assert paths == {"livenessProbe": "/livez", "readinessProbe": "/readyz", "startupProbe": "/livez"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_takes_none_of_that_away(overlay):
    there = {(each["kind"], each["metadata"]["name"]) for each in BASE if each["kind"] != "ConfigMap"}
    if overlay == "dev":  # one of each is enough to try it
        there = {each for each in there if each[0] not in ("HorizontalPodAutoscaler", "PodDisruptionBudget")}
    assert there <= {(each["kind"], each["metadata"]["name"]) for each in kinds(overlay, *{kind for kind, _ in there})}
