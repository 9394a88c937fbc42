"""What the documents name of a release is what a release makes."""

from __future__ import annotations

import re
import tomllib
from datetime import date

import pytest
import yaml

from ghapp.settings import Settings
from tests.manifests.rendered import MANIFESTS, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]
HEADINGS = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(MANIFESTS.rglob("*.md"))]
NAMED_VERSION = re.compile(r"(?:ghapp:|--version |ref=v|newTag: )(\d+\.\d+\.\d+)")
INSTALL = (ROOT / "README.md").read_text().split("## Install it\n")[1].split("\n**1.")[0]


def test_the_changelog_begins_with_what_is_unreleased_and_has_the_date_of_each_release():
    unreleased, *released = HEADINGS
    assert unreleased == "Unreleased"
    days = [re.fullmatch(r"\d+\.\d+\.\d+ \((\S+)\)", each).group(1) for each in released]
    assert [date.fromisoformat(day).isoformat() for day in days] == days
    assert released or f"the first release, {VERSION}," in (ROOT / "CHANGELOG.md").read_text()


def test_every_version_that_a_document_names_is_this_one():
    named = {str(path.relative_to(ROOT)): set(NAMED_VERSION.findall(path.read_text())) for path in DOCUMENTS}
    assert {name: found for name, found in named.items() if found - {VERSION}} == {}
    assert {"README.md", "docs/kubernetes.md", "docs/upgrading.md", "manifests/README.md"} <= {
        name for name, found in named.items() if found
    }


@pytest.mark.parametrize("way", ["pipx install ", "docker run ", "helm install ", "kubectl apply "])
def test_the_readme_has_one_command_for_each_way_to_install(way):
    assert len(re.findall(rf"^\| .* \| `{way}[^`]+` \|$", INSTALL, re.MULTILINE)) == 1


def test_the_commands_name_what_is_published():
    (extra,) = re.findall(r"pipx install 'ghapp\[(\w+)\]'", INSTALL)
    assert extra in PROJECT["optional-dependencies"]
    image = yaml.safe_load((MANIFESTS / "chart" / "values.yaml").read_text())["image"]["repository"]
    assert f" {image}:{VERSION} " in INSTALL
    assert f"oci://{image.rpartition('/')[0]}/charts/ghapp " in INSTALL
    (overlay,) = re.findall(r"//(manifests/\S+)\?ref", INSTALL)
    assert (ROOT / overlay / "kustomization.yaml").exists()


@pytest.mark.parametrize("name", ["SECURITY.md", "CHANGELOG.md", "docs/upgrading.md", "docs/README.md"])
def test_links_lead_to_a_file(name):
    path = ROOT / name
    links = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", path.read_text())
    assert links
    assert [link for link in links if not (path.parent / link).exists()] == []


SNIPPETS = [
    pytest.param(snippet, id=f"{path.relative_to(ROOT)} {number}")
    for path in DOCUMENTS
    for number, snippet in enumerate(re.findall(r"```toml\n(.*?)```", path.read_text(), re.DOTALL), 1)
]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_each_configuration_that_a_document_shows_is_accepted(tmp_path, snippet):
    path = tmp_path / "ghapp.toml"
    path.write_text(snippet)
    secrets = dict.fromkeys(re.findall(r'secret_env = "(\w+)"', snippet), "whsec_" + "a" * 32)
    settings = Settings.read({"GHAPP_CONFIG": str(path), **secrets})
    assert len(settings.pools) == snippet.count("[[pools]]")


def test_vulnerabilities_are_reported_where_the_repository_takes_them():
    assert f"{PROJECT['urls']['Homepage']}/security/advisories/new" in (ROOT / "SECURITY.md").read_text()
