"""The wheel and the sdist work away from the checkout."""

from __future__ import annotations

import re
import signal
import subprocess
import tomllib
from email.parser import Parser

import httpx
import pytest
from markdown_it import MarkdownIt
from packaging.requirements import Requirement

from tests.manifests.rendered import ROOT
from tests.packaging.built import build, checkout, clean, environment_with, files_of, run, unpack
from tests.packaging.requirements import Section, pins, targets
from tests.support.ports import free_port
from tests.support.waiting import wait_for

pytestmark = pytest.mark.xdist_group("packaging")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]
SOME_RUNNERS = 250
"""More than one page of a list, and fewer than the fleet that loses and replaces some at any moment."""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with both distributions, the wheel made from the sdist, as `python -m build` does by default."""
    folder = tmp_path_factory.mktemp("packaging")
    source = checkout(folder / "checkout")
    build(source, folder / "dist")
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    return built / "dist" / f"ghapp-{VERSION}-py3-none-any.whl"


@pytest.fixture(scope="module")
def binaries(built, wheel):
    """The `bin` of an environment that has the wheel."""
    return environment_with(wheel, built / "venv")


def test_a_build_makes_one_wheel_and_one_sdist_of_this_version(built, wheel):
    assert sorted(path.name for path in (built / "dist").iterdir()) == [wheel.name, f"ghapp-{VERSION}.tar.gz"]


def test_the_wheel_made_from_the_sdist_has_the_files_of_the_wheel_made_from_the_checkout(built, wheel):
    (direct,) = build(checkout(built / "again"), built / "direct", "--wheel")
    assert files_of(direct) == files_of(wheel)


def test_the_wheel_has_every_tracked_file_of_both_packages_and_nothing_else(wheel):
    tracked = {
        str(path.relative_to(ROOT))
        for package in ("ghapp", "jobs")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in files_of(wheel) if ".dist-info/" not in name} == tracked


def test_the_sdist_has_no_tests_and_no_manifests(built):
    (top,) = [unpack(path, built / "sdist") for path in (built / "dist").glob("*.tar.gz")]
    names = {path.name for path in top.iterdir()}
    assert {"pyproject.toml", "CHANGELOG.md", "SECURITY.md", "LICENSE", "NOTICE", "ghapp", "jobs"} <= names
    assert names & {"tests", "manifests", "docs", ".venv"} == set()


def test_the_metadata_names_licence_extras_and_addresses(wheel):
    metadata = Parser().parsestr(files_of(wheel)[f"ghapp-{VERSION}.dist-info/METADATA"].decode())
    assert (metadata["Name"], metadata["Version"], metadata["License-Expression"]) == ("ghapp", VERSION, "Apache-2.0")
    assert set(metadata.get_all("License-File")) == {"LICENSE", "NOTICE"}
    assert {"embedded", "notify"} <= set(metadata.get_all("Provides-Extra"))
    assert {each.partition(",")[0] for each in metadata.get_all("Project-URL")} == set(PROJECT["urls"])
    assert "changelog" in {name.lower() for name in PROJECT["urls"]}


def test_the_description_has_no_relative_link_and_each_of_its_links_into_the_repository_leads_to_a_file(wheel):
    """It is shown on pages of package registries, where a relative link leads nowhere."""
    metadata = Parser().parsestr(files_of(wheel)[f"ghapp-{VERSION}.dist-info/METADATA"].decode())
    assert metadata["Description-Content-Type"] == "text/markdown"
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(metadata.get_payload())
    links = re.findall(r'(?:href|src)="([^"]*)"', html)
    assert {link for link in links if not link.startswith("https://")} == set()
    assert [link for link in links if link.endswith(".png")], "the pictures are links, too"
    homepage = PROJECT["urls"]["Homepage"]
    raw = homepage.replace("https://github.com/", "https://raw.githubusercontent.com/")
    ours = [
        found[1] for link in links if (found := re.match(rf"(?:{homepage}/(?:blob|tree)|{raw})/main/([^?#]+)", link))
    ]
    assert len(ours) > 20
    assert [each for each in ours if not (ROOT / each).exists()] == []


def test_the_installed_command_is_that_of_the_wheel(binaries, built):
    code = "import ghapp, jobs; print(ghapp.__file__, jobs.__file__)"
    done = run([binaries / "python", "-c", code], built)
    assert done.stdout.count(str(binaries.parent)) == 2, done.stdout + done.stderr


def test_version_is_printed(binaries, built):
    done = run([binaries / "ghapp", "--version"], built)
    assert (done.returncode, done.stdout) == (0, f"ghapp, version {VERSION}\n")


def test_help_lists_the_commands(binaries, built):
    done = run([binaries / "ghapp", "--help"], built)
    assert done.returncode == 0
    assert {"up", "web", "worker", "clock", "watch", "doctor"} <= set(
        re.findall(r"^  (\w+) ", done.stdout, re.MULTILINE)
    )


def test_the_sandbox_sweeps_its_fleet_serves_the_page_and_ends_on_sigterm(binaries, built, tmp_path):
    base = f"http://127.0.0.1:{(port := free_port())}"
    output = tmp_path / "output"
    environ = clean(TMPDIR=str(tmp_path), COLUMNS="250")
    with output.open("wb") as out:
        command = [binaries / "ghapp", "up", "--sandbox", "--port", str(port)]
        process = subprocess.Popen(command, cwd=built, env=environ, stdout=out, stderr=out)
    try:
        pasted = wait_for(
            lambda: re.search(r"curl -H 'Authorization: (Bearer \S+)' '(\S+)\?limit=1'", output.read_text())
        )
        assert pasted, output.read_text()
        bearer, url = pasted.groups()

        def swept():
            try:
                answer = httpx.get(url, params={"limit": 1}, headers={"authorization": bearer})
            except httpx.TransportError:  # the roles start after the terminal
                return False
            return answer.status_code == 200 and answer.json()["total"] >= SOME_RUNNERS

        assert wait_for(swept), output.read_text()
        key = re.search(r"\?key=(\S+)", output.read_text())[1]
        with httpx.Client(base_url=base) as browser:
            browser.get("/", params={"key": key})
            page = browser.get("/", follow_redirects=True)
        assert (page.status_code, page.headers["content-type"].partition(";")[0]) == (200, "text/html")
        (style, *_) = re.findall(r'rel="stylesheet" href="([^"]+)"', page.text)
        assert httpx.get(page.url.join(style)).status_code == 200
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)
    assert code == 0, output.read_text()
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{base}/livez")


def test_the_build_backend_is_pinned():
    (wanted,) = map(Requirement, tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"])
    for target in targets():
        assert wanted.specifier.contains(pins(target, wanted=[Section.IMAGE])[wanted.name])
