"""docs/kubernetes.md leads a new user to a running installation: its commands and snippets work; so does the reference."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from ghapp.cluster.access import NEAR_RUNNERS
from ghapp.credentials import CreatedApp, keep
from ghapp.github.manifest import app_yml
from ghapp.settings import Settings
from tests.manifests.rendered import MANIFESTS, NOWHERE, ROOT, kinds, needs_the_real_one, really
from tests.manifests.test_schema import check
from tests.support.keys import private_key

INSTALL = (ROOT / "docs" / "kubernetes.md").read_text()
PAGE = INSTALL + (ROOT / "docs" / "kubernetes-reference.md").read_text()
TYPED = "\n".join(re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)).replace("\\\n", " ")
PASTED = [yaml.safe_load(text) for text in re.findall(r"^ *```yaml\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)]
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on PATH")
needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="no jq on PATH")


def typed(beginning):
    (line,) = [line[2:] for line in TYPED.splitlines() if line.startswith(f"$ {beginning}")]
    return line


def table(heading):
    text = PAGE[PAGE.index(heading) :]
    rows = re.findall(r"^\|(.+)\|$", text[: text.index("\n\n", text.index("| ---"))], re.MULTILINE)
    return [[cell.strip() for cell in row.split("|")] for row in rows]


@pytest.fixture
def app(tmp_path):
    """A folder where /setup has kept an App."""
    folder = tmp_path / "app"
    folder.mkdir(mode=0o700)
    keep(folder, CreatedApp(4711, "a", "https://github.com/apps/a", "Iv1", "s", "hush", private_key()))
    return folder


@needs_jq
@needs_kubectl
def test_the_secret_of_the_app_is_what_the_roles_are_given(app, tmp_path):
    lines = [typed("jq -r .pem"), typed("jq -r .webhook_secret"), typed("jq -r .client_secret")]
    lines.append(typed("kubectl -n ghapp create secret generic ghapp-app") + " --dry-run=client -o json")
    done = subprocess.run(
        ["bash", "-euc", "\n".join(lines)],
        cwd=tmp_path,
        env=NOWHERE | {"PATH": f"{NOWHERE['PATH']}:/usr/local/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    data = json.loads(done.stdout)["data"]
    (web,) = [each for each in kinds("dev", "Deployment") if each["metadata"]["name"] == "ghapp-web"]
    (container,) = web["spec"]["template"]["spec"]["containers"]
    asked = {
        row["value"].rsplit("/", 1)[1]
        for row in container["env"]
        if row["name"].endswith("_FILE")
        if "app/" in row["value"]
    }
    asked |= {
        row["valueFrom"]["secretKeyRef"]["key"]
        for row in container["env"]
        if row.get("valueFrom", {}).get("secretKeyRef", {}).get("name") == "ghapp-app"
    }
    assert data.keys() == asked
    assert {"app-id", "client-id", "client-secret"} <= asked
    key, secret = app / "private-key.pem", app / "webhook-secret"
    key.chmod(0o440)
    secret.chmod(0o440)
    environ = {"GHAPP_APP_ID": "4711", "GHAPP_PRIVATE_KEY_FILE": str(key), "GHAPP_WEBHOOK_SECRET_FILE": str(secret)}
    read = Settings.read({**environ, "GHAPP_STATE_DIR": str(tmp_path)}).credentials
    assert (read.app_id, read.webhook_secrets) == ("4711", ("hush",))
    assert read.private_key.strip() == private_key().strip()


def test_redis_user_is_that_of_the_other_page():
    pattern = r"user ghapp on >\$password (.+)$"
    assert (
        re.search(pattern, PAGE, re.MULTILINE)[1]
        == re.search(pattern, (MANIFESTS / "README.md").read_text(), re.MULTILINE)[1]
    )


def test_the_app_is_created_while_nothing_is_acted_on(tmp_path):
    line = typed("printf")
    subprocess.run(["bash", "-euc", "mkdir app\n" + line], cwd=tmp_path, check=True)
    settings = Settings.read({"GHAPP_CONFIG": str(tmp_path / "app" / "ghapp.toml"), "GHAPP_STATE_DIR": str(tmp_path)})
    assert settings.policy.remediation.mode == "dry-run"
    assert settings.namespaces == (), "no watch is started, wherever kubectl happens to lead"
    assert "GHAPP_CONFIG=app/ghapp.toml" in typed("GHAPP_CONFIG=")


def test_the_permissions_are_those_of_the_manifest():
    names = {
        "Organization: Self-hosted runners": "organization_self_hosted_runners",
        "Repository: Checks": "checks",
        "Repository: Actions": "actions",
        "Repository: Metadata": "metadata",
    }
    rows = {names[name]: level.split()[-1] for name, level, _ in table("| permission |")[2:]}
    assert rows == app_yml()["default_permissions"]


@needs_the_real_one
def test_an_overlay_of_ones_own_renders_with_its_image_and_its_address(tmp_path):
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    mine = tmp_path / "manifests" / "overlays" / "mine"
    shutil.copytree(mine.parent / "dev", mine)
    (images,) = [each["images"] for each in PASTED if "images" in each]
    roles = mine / "roles" / "kustomization.yaml"
    roles.write_text(roles.read_text() + yaml.safe_dump({"images": images}))
    env = mine / "roles" / "ghapp.env"
    env.write_text(env.read_text().replace("#GHAPP_PUBLIC_URL", "GHAPP_PUBLIC_URL"))
    found = really(mine)
    of_roles = [each for each in found if each["kind"] == "Deployment"]
    assert {each["spec"]["template"]["spec"]["containers"][0]["image"] for each in of_roles} == {
        "registry.example.com/ghapp:0.2.0"
    }
    assert {"GHAPP_PUBLIC_URL": "https://ghapp.example.com"} in [each.get("data") for each in found]


def test_what_is_pasted_is_as_kubernetes_has_it():
    things = [each for each in PASTED if "kind" in each]
    assert {each["kind"] for each in things} == {"Ingress", "NetworkPolicy"}
    for each in things:
        check(each)


def test_the_ingress_leads_to_the_service_and_the_policy_to_our_pods():
    (ingress,) = [each for each in PASTED if each.get("kind") == "Ingress"]
    (service,) = [each for each in kinds("dev", "Service") if each["metadata"]["name"] == "ghapp"]
    (path,) = ingress["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"] == {"name": "ghapp", "port": {"name": service["spec"]["ports"][0]["name"]}}
    assert (path["path"], ingress["metadata"]["namespace"]) == ("/webhook", service["metadata"]["namespace"])
    (policy,) = [each for each in PASTED if each.get("kind") == "NetworkPolicy"]
    chosen = policy["spec"]["podSelector"]["matchLabels"].items()
    roles = [each["spec"]["template"]["metadata"]["labels"] for each in kinds("dev", "Deployment")]
    assert all(chosen <= labels.items() for labels in roles)


def test_the_table_of_rights_is_what_the_code_asks_for():
    head, _, *rows = table("| role | pods |")
    result = {
        (role, verb.strip(), resource)
        for role, *cells in rows
        for resource, cell in zip(head[1:], cells, strict=True)
        for verb in cell.split(",")
        if verb.strip()
    }
    assert result == {(each.role, each.verb, each.rbac_resource) for each in NEAR_RUNNERS}


def test_the_documented_ports_are_open():
    expected = PAGE[PAGE.index("# Network") :].split("\n\n")[1]
    ports = {
        port["port"]
        for policy in kinds("dev", "NetworkPolicy")
        for row in [*policy["spec"].get("egress", []), *policy["spec"].get("ingress", [])]
        for port in row.get("ports", [])
    }
    assert {int(each) for each in re.findall(r"\b\d{2,5}\b", expected)} == ports
    assert "ghapp.dev/reachable=true" in expected


def test_every_file_and_every_link_is_there():
    named = re.findall(r"\]\((?!https?:)([^)#]+)\)", PAGE)
    assert named
    assert all((ROOT / "docs" / each).exists() for each in named)
    files = re.findall(r"\b(manifests/[\w./-]+)", TYPED)
    assert all((ROOT / each).exists() for each in files if "/mine" not in each)


def test_each_secret_of_a_pool_on_the_page_is_made_there():
    named = re.findall(r'^secret_env = "(\w+)"', INSTALL, re.MULTILINE)
    assert named
    assert [name for name in named if f"generic ghapp-pools --from-literal={name}=" not in INSTALL] == []


def test_the_way_to_an_installation_is_short():
    assert len(INSTALL.splitlines()) <= 120


def test_a_runbook_s_links_lead_somewhere():
    for path in MANIFESTS.rglob("*.md"):
        for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text()):
            assert (path.parent / link).exists(), f"{path}: {link}"
