"""The workflows of GitHub: pinned, with the least permissions, and made of commands that exist."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest
import yaml

from tests.manifests.rendered import MANIFESTS, ROOT

FOLDER = ROOT / ".github" / "workflows"
FILES = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.yml"))}
WORKFLOWS = {name: yaml.safe_load(text) for name, text in FILES.items()}
JOBS = [(f"{name} {job}", body) for name, workflow in WORKFLOWS.items() for job, body in workflow["jobs"].items()]
STEPS = [(f"{name} {number}", step) for name, job in JOBS for number, step in enumerate(job.get("steps", []))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RELEASE = WORKFLOWS["release.yml"]["jobs"]

each_job = pytest.mark.parametrize("job", [job for _, job in JOBS], ids=[name for name, _ in JOBS])
each_file = pytest.mark.parametrize("name", FILES)


def script(job, name):
    (found,) = [step["run"] for step in RELEASE[job]["steps"] if step.get("name") == name]
    return found


def run(text, folder, tag):
    """A step's script, as a runner runs it."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
    environ = {"PATH": "/usr/bin:/bin", "GITHUB_REF_NAME": tag}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, timeout=30, check=False).returncode


def uses():
    """Each `uses` of another repository, with the rest of its line."""
    return [found for text in FILES.values() for found in re.findall(r"uses: (?!\./)(\S+)(.*)", text)]


def test_there_are_two():
    assert FILES.keys() == {"test.yml", "release.yml"}


@each_file
def test_nothing_is_permitted_unless_a_job_asks_for_it(name):
    assert WORKFLOWS[name]["permissions"] == {}


@each_job
def test_a_job_names_its_permissions(job):
    assert job["permissions"]
    assert set(job["permissions"].values()) <= {"read", "write"}


def test_only_these_jobs_may_write_and_only_this():
    writes = {(name, scope) for name, job in JOBS for scope, level in job["permissions"].items() if level == "write"}
    assert writes == {
        ("release.yml image", "packages"),
        ("release.yml chart", "packages"),
        ("release.yml pypi", "id-token"),
        ("release.yml release", "contents"),
    }


def test_each_action_is_pinned_by_a_full_digest_with_its_version_beside_it():
    assert len(uses()) > 10
    assert [used for used, rest in uses() if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", used)] == []
    assert [used for used, rest in uses() if not re.fullmatch(r" # v\d+\.\d+\.\d+", rest)] == []


def test_an_action_has_one_digest_everywhere():
    assert len({used for used, _ in uses()}) == len({used.partition("@")[0] for used, _ in uses()})


def test_a_local_workflow_is_there_and_can_be_called():
    (called,) = [job["uses"] for _, job in JOBS if "uses" in job]
    assert "workflow_call" in WORKFLOWS[called.removeprefix("./.github/workflows/")][True]


@each_job
def test_a_job_ends_and_leaves_no_credentials_on_the_disk(job):
    assert "uses" in job or job["timeout-minutes"] <= 60
    checkouts = [step for step in job.get("steps", []) if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_no_expression_is_pasted_into_a_script():
    """Its value could be a command: values reach scripts as variables."""
    scripts = [step["run"] for _, step in STEPS if "run" in step]
    assert len(scripts) > 5
    assert [text for text in scripts if "${{" in text] == []


def test_each_make_command_is_a_target_of_the_makefile():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {word for _, step in STEPS for word in re.findall(r"^make ([a-z]+)", step.get("run", ""), re.MULTILINE)}
    assert called == {"check", "test", "dist"}
    assert called <= targets


def test_every_python_of_the_metadata_is_tested():
    matrix = WORKFLOWS["test.yml"]["jobs"]["test"]["strategy"]["matrix"]["python"]
    stated = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert stated
    assert set(stated) <= set(matrix)
    assert f">={matrix[0]}" == PROJECT["requires-python"]


def test_nothing_is_published_before_the_tests_have_passed():
    def before(job):
        needs = RELEASE[job].get("needs", [])
        direct = [needs] if isinstance(needs, str) else needs
        return {*direct, *(each for name in direct for each in before(name))}

    assert all("test" in before(job) for job in RELEASE if job != "test")
    assert before("release") == RELEASE.keys() - {"release"}


def test_the_tag_must_be_the_version_of_the_package():
    text = script("distributions", "The tag is the version of the package")
    assert run(text, ROOT, f"v{PROJECT['version']}") == 0
    assert run(text, ROOT, "v9.9.9") == 1


def test_the_notes_are_the_changelogs_section_of_the_version(tmp_path):
    text = script("distributions", "The CHANGELOG's section of the version")
    (tmp_path / "CHANGELOG.md").write_text(
        "# C\n\n## Unreleased\n\n- a\n\n## 1.2.0 (2027-01-01)\n\n### X\n\n- b\n\n## 1.1.0\n\n- c\n"
    )
    assert run(text, tmp_path, "v1.2.0") == 0
    assert (tmp_path / "notes.md").read_text() == "\n### X\n\n- b\n\n"
    assert run(text, tmp_path, "v1.2") == 1


def test_the_image_has_provenance_and_an_sbom_and_the_name_that_the_manifests_pull():
    (step,) = [
        step for step in RELEASE["image"]["steps"] if step.get("uses", "").startswith("docker/build-push-action@")
    ]
    assert (step["with"]["provenance"], step["with"]["sbom"], step["with"]["push"]) == ("mode=max", True, True)
    assert step["with"]["platforms"] == "linux/amd64,linux/arm64"
    repository = PROJECT["urls"]["Homepage"].removeprefix("https://github.com/")
    name = step["with"]["tags"].replace("${{ github.repository }}", repository).partition(":")[0]
    assert yaml.safe_load((MANIFESTS / "chart" / "values.yaml").read_text())["image"]["repository"] == name
    arguments = {line.partition("=")[0] for line in step["with"]["build-args"].splitlines()}
    assert arguments == {"PYTHON", "VERSION", "REVISION"}
    assert arguments <= set(re.findall(r"^ARG (\w+)=", (ROOT / "Dockerfile").read_text(), re.MULTILINE))


def test_what_is_pinned_is_kept_current():
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    assert {each["package-ecosystem"] for each in updates} == {"github-actions", "pip"}
