"""The manifests match ghapp: variables, files, commands, probes, ports, selectors, queues, versions."""

import re
import tomllib

import pytest

from ghapp.cli.main import main
from ghapp.queue.jobs import QUEUES
from ghapp.settings import Settings
from ghapp.store.connect import connect, connect_sync
from ghapp.web.app import build
from tests.manifests.rendered import MANIFESTS, OVERLAYS, ROOT, kinds, named, objects, pods
from tests.support.keys import private_key

ROLES = named([(name, pod) for name, pod in pods() if not name.endswith("redis")])
WORKLOADS = ("Deployment", "StatefulSet")
SECRETS = {
    ("ghapp-redis", "url"): "redis://ghapp:hush@ghapp-redis:6379/0",
    ("ghapp-app", "app-id"): "12345",
    ("ghapp-app", "client-id"): "Iv1.a",
    ("ghapp-app", "client-secret"): "hush\n",
    ("ghapp-app", "enterprise-token"): "ghp_hush\n",
}


def component(template):
    return template["metadata"]["labels"]["app.kubernetes.io/component"]


def workload(overlay, name):
    (found,) = [each for each in kinds(overlay, *WORKLOADS) if each["metadata"]["name"] == name]
    return found


def environment(overlay, template, tmp_path):
    """A container's variables, with its files where a test may write."""
    spec = template["spec"]
    (container,) = spec["containers"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    files = {}
    for volume in spec["volumes"]:
        if "configMap" in volume:
            (config,) = [
                each for each in kinds(overlay, "ConfigMap") if each["metadata"]["name"] == volume["configMap"]["name"]
            ]
            files |= {f"{mounts[volume['name']]}/{key}": text for key, text in config["data"].items()}
        if "secret" in volume:
            files |= {f"{mounts[volume['name']]}/{key}": text for key, text in APP_FILES.items()}
    environ = {}
    for row in container["envFrom"]:
        if "configMapRef" in row:
            (config,) = [
                each for each in kinds(overlay, "ConfigMap") if each["metadata"]["name"] == row["configMapRef"]["name"]
            ]
            environ |= config.get("data", {})
    for row in container["env"]:
        value = (
            row["value"]
            if "value" in row
            else SECRETS[tuple(row["valueFrom"]["secretKeyRef"][key] for key in ("name", "key"))]
        )
        if value in files:
            path = tmp_path / row["name"]
            path.write_text(files[value])
            path.chmod(0o440)
            value = str(path)
        environ[row["name"]] = value
    return environ


APP_FILES = {"private-key.pem": private_key(), "webhook-secret": "hush\n"}


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("role", ["web", "worker", "clock", "watch"])
def test_ghapp_takes_a_roles_configuration(overlay, role, tmp_path):
    environ = environment(overlay, workload(overlay, f"ghapp-{role}")["spec"]["template"], tmp_path)
    settings = Settings.read(environ)
    assert settings.redis_url == SECRETS[("ghapp-redis", "url")]
    assert settings.log_format == "json"
    assert (settings.credentials is not None) is (role in ("web", "worker"))
    assert (settings.credentials is not None and settings.credentials.client is not None) is (role == "web")
    assert settings.enterprise_tokens == (("ghp_hush",) if role == "worker" else ())


ADDRESS_FILES = sorted(MANIFESTS.rglob("ghapp.env"))


@pytest.mark.parametrize("path", ADDRESS_FILES, ids=lambda path: path.parent.parent.name)
def test_every_line_of_the_addresses_can_be_uncommented(path, tmp_path):
    """Kustomize takes a line to its end: comments on an address are on the line above."""
    lines = [line.lstrip("#") for line in path.read_text().splitlines() if re.match(r"#?GHAPP_", line)]
    environ = dict(line.split("=", 1) for line in lines)
    assert environ.keys() == {"GHAPP_PUBLIC_URL", "GHAPP_LOKI_URL", "GHAPP_GITHUB_API_URL", "GHAPP_GITHUB_WEB_URL"}
    settings = Settings.read({**environ, "GHAPP_STATE_DIR": str(tmp_path)})
    assert settings.public_url == environ["GHAPP_PUBLIC_URL"]
    assert settings.loki_url == environ["GHAPP_LOKI_URL"]
    assert not any(" " in value for value in environ.values())


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_role_has_the_same_addresses_and_a_change_restarts_it(overlay):
    given = [
        next(row["configMapRef"]["name"] for row in container["envFrom"] if "configMapRef" in row)
        for role in ("web", "worker", "clock", "watch")
        for container in workload(overlay, f"ghapp-{role}")["spec"]["template"]["spec"]["containers"]
    ]
    assert len(set(given)) == 1
    assert re.fullmatch(r"ghapp-env-[a-z0-9]{10}", given[0])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_has_the_files_that_the_manual_names(overlay):
    roles = MANIFESTS / "overlays" / overlay / "roles"
    (policy,) = [each for each in kinds(overlay, "ConfigMap") if each["metadata"]["name"].startswith("ghapp-config-")]
    assert policy["data"] == {"ghapp.toml": (roles / "ghapp.toml").read_text()}
    result = (MANIFESTS / "README.md").read_text()
    assert all(f"`roles/{name}`" in result and (roles / name).exists() for name in ("ghapp.toml", "ghapp.env"))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_web_role_listens_where_its_probes_and_its_service_look(overlay, tmp_path):
    template = workload(overlay, "ghapp-web")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    host, port = Settings.read(environment(overlay, template, tmp_path)).listen
    assert (host, container["ports"]) == ("0.0.0.0", [{"name": "http", "containerPort": port}])
    (service,) = [each for each in kinds(overlay, "Service") if each["metadata"]["name"] == "ghapp"]
    assert [(each["port"], each["targetPort"]) for each in service["spec"]["ports"]] == [(port, "http")]
    assert f"http://ghapp.ghapp.svc:{port}/" in (MANIFESTS / "runners" / "runner.yaml").read_text()


@pytest.mark.parametrize("overlay", OVERLAYS)
async def test_every_path_that_is_asked_for_is_a_route(overlay, tmp_path, redis_url):
    template = workload(overlay, "ghapp-web")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    settings = Settings.read(environment(overlay, template, tmp_path))
    routes = {route.path for route in build(settings, connect(redis_url), None).routes}
    probes = {name: container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert probes == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    scraped = {each["path"] for monitor in kinds(overlay, "ServiceMonitor") for each in monitor["spec"]["endpoints"]}
    assert {*probes.values(), *scraped, "/v1/orgs/{org:scope}/runners/{name:any}/alive"} <= routes


@pytest.mark.parametrize("template", ROLES)
def test_what_a_role_runs_is_a_command(template):
    (container,) = template["spec"]["containers"]
    assert container["args"] == [component(template)]
    assert "command" not in container
    assert container["args"][0] in main.commands


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_selector_finds_its_pods_and_no_others(overlay):
    for each in kinds(overlay, *WORKLOADS):
        chosen = each["spec"]["selector"]["matchLabels"]
        found = [
            one
            for one in kinds(overlay, *WORKLOADS)
            if chosen.items() <= one["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert found == [each]
        for spread in each["spec"]["template"]["spec"].get("topologySpreadConstraints", []):
            assert spread["labelSelector"]["matchLabels"] == chosen


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_services_budgets_and_policies_choose_pods_that_are_there(overlay):
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in kinds(overlay, *WORKLOADS)]
    selectors = [each["spec"]["selector"] for each in kinds(overlay, "Service")]
    selectors += [each["spec"]["selector"]["matchLabels"] for each in kinds(overlay, "PodDisruptionBudget")]
    selectors += [each["spec"]["podSelector"].get("matchLabels", {}) for each in kinds(overlay, "NetworkPolicy")]
    assert all(any(selector.items() <= each.items() for each in labels) for selector in selectors)
    for policy in kinds(overlay, "NetworkPolicy"):
        for row in policy["spec"]["podSelector"].get("matchExpressions", []):
            assert row["operator"] == "In"
            assert set(row["values"]) <= {each[row["key"]] for each in labels}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_network_is_closed_and_only_the_web_role_and_redis_are_reached(overlay):
    policies = {each["metadata"]["name"]: each["spec"] for each in kinds(overlay, "NetworkPolicy")}
    assert policies["ghapp-default-deny"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    reached = {
        policy["podSelector"]["matchLabels"]["app.kubernetes.io/component"]: [
            port["port"] for row in policy["ingress"] for port in row["ports"]
        ]
        for policy in policies.values()
        if "ingress" in policy
    }
    assert reached == {"web": [8000]} | ({"redis": [6379]} if kinds(overlay, "StatefulSet") else {})


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nothing_is_scaled_by_two_and_what_is_scaled_has_no_number_of_its_own(overlay):
    scalers = [
        each["spec"]["scaleTargetRef"]["name"] for each in kinds(overlay, "HorizontalPodAutoscaler", "ScaledObject")
    ]
    assert len(scalers) == len(set(scalers))
    for each in kinds(overlay, "Deployment"):
        assert ("replicas" in each["spec"]) is (each["metadata"]["name"] not in scalers)


def test_in_production_nothing_is_alone():
    numbers = [each["spec"]["replicas"] for each in kinds("production", "Deployment") if "replicas" in each["spec"]]
    numbers += [each["spec"]["minReplicas"] for each in kinds("production", "HorizontalPodAutoscaler")]
    numbers += [each["spec"]["minReplicaCount"] for each in kinds("production", "ScaledObject")]
    assert len(numbers) == 4
    assert min(numbers) >= 2


def test_workers_are_scaled_on_every_queue_by_the_name_that_rq_gives_it(redis_url):
    from rq import Queue

    keys = {Queue(name, connection=connect_sync(redis_url)).key for name in QUEUES}
    (scaled,) = kinds("production", "ScaledObject")
    assert {trigger["metadata"]["listName"] for trigger in scaled["spec"]["triggers"]} == keys
    names = {trigger["authenticationRef"]["name"] for trigger in scaled["spec"]["triggers"]}
    assert names == {each["metadata"]["name"] for each in kinds("production", "TriggerAuthentication")}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_there_are_namespaces_to_watch_and_the_roles_may_look_there(overlay, tmp_path):
    """With none, `ghapp watch` refuses to start."""
    wanted = set(
        Settings.read(environment(overlay, workload(overlay, "ghapp-watch")["spec"]["template"], tmp_path)).namespaces
    )
    granted = {each["metadata"]["namespace"] for each in kinds(overlay, "Role")} - {"ghapp"}
    assert wanted == granted != set()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_image_is_of_this_version(overlay):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    images = {
        each["image"]
        for deployment in kinds(overlay, "Deployment")
        for each in deployment["spec"]["template"]["spec"]["containers"]
    }
    assert images == {f"ghcr.io/ghapp/ghapp:{version}"}


def test_the_small_redis_keeps_what_it_has_and_forgets_nothing():
    (config,) = [each for each in kinds("dev", "ConfigMap") if "redis" in each["metadata"]["name"]]
    lines = config["data"]["redis.conf"].splitlines()
    assert {"appendonly yes", "appendfsync always", "maxmemory-policy noeviction"} <= set(lines)
    (redis,) = kinds("dev", "StatefulSet")
    (limit,) = [each["resources"]["limits"]["memory"] for each in redis["spec"]["template"]["spec"]["containers"]]
    (most,) = [int(line.split()[1].removesuffix("mb")) for line in lines if line.startswith("maxmemory ")]
    assert 2 * most < int(limit.removesuffix("Mi"))
    assert redis["spec"]["volumeClaimTemplates"]


def test_its_user_has_the_rights_described_in_security_md():
    def rules(path):
        return re.search(r"^user ghapp on >\S+ (.+)$", (ROOT / path).read_text(), re.MULTILINE)[1]

    assert rules("manifests/README.md") == rules("SECURITY.md")


def test_every_secret_that_is_named_is_in_the_readme():
    result = (MANIFESTS / "README.md").read_text()
    named = set()
    for overlay in OVERLAYS:
        named |= set(
            re.findall(r"'(?:secretName|secretRef|secretKeyRef)': (?:\{'name': )?'([\w-]+)'", str(objects(overlay)))
        )
        named |= {
            each["name"] for row in kinds(overlay, "TriggerAuthentication") for each in row["spec"]["secretTargetRef"]
        }
    assert named == {"ghapp-app", "ghapp-redis", "ghapp-pools", "ghapp-redis-keda"}
    assert all(f"`{name}`" in result or f"generic {name} " in result for name in named)
