"""The image: small, independent of a registry, and built from the checkout."""

import fnmatch
import re

import pytest

from tests.manifests.rendered import ROOT

LINES = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text()).splitlines()
STEPS = [line.split(maxsplit=1) for line in LINES if line.strip() and not line.startswith("#")]
LAST_STAGE = STEPS[max(index for index, (word, _) in enumerate(STEPS) if word == "FROM") :]
IGNORED = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]


def arguments_of(word, steps=LAST_STAGE):
    return [rest for each, rest in steps if each == word]


def test_both_stages_are_of_one_python_and_say_which():
    assert arguments_of("ARG", STEPS)[0] == "PYTHON=3.11-slim"
    assert [each.split()[0] for each in arguments_of("FROM", STEPS)] == ["python:${PYTHON}", "python:${PYTHON}"]


def test_the_last_stage_is_not_roots_and_says_so_by_number():
    assert arguments_of("USER") == ["10001:10001"]
    assert LAST_STAGE.index(["USER", "10001:10001"]) > max(
        index for index, (word, _) in enumerate(LAST_STAGE) if word in ("RUN", "COPY")
    )


def test_the_last_stage_builds_nothing_and_fetches_nothing():
    assert not re.search(r"\b(pip|apt|apt-get|gcc|make|curl)\b", " ".join(arguments_of("RUN")))
    assert all(each.startswith("--from=build ") for each in arguments_of("COPY"))


def test_what_is_installed_is_pinned():
    (downloads,) = [each for each in arguments_of("RUN", STEPS) if "--require-hashes" in each]
    assert downloads.endswith("--no-deps --only-binary :all: --require-hashes --requirement image.txt")


def test_one_image_is_every_role():
    assert arguments_of("ENTRYPOINT") == ['["ghapp"]']
    assert arguments_of("HEALTHCHECK") == ["NONE"]


def test_no_secret_and_no_address_of_a_registry_is_in_it():
    text = "\n".join(LINES)
    assert "GHAPP_" not in text
    assert not re.search(r"FROM \S+\.\S+/", text)


def test_what_it_copies_is_there_and_reaches_the_builder():
    copied = [name for each in arguments_of("COPY", STEPS) if "--from" not in each for name in each.split()[:-1]]
    assert copied == [
        "pyproject.toml",
        "setup.py",
        "requirements.txt",
        "README.md",
        "LICENSE",
        "NOTICE",
        "app.yml",
        "ghapp",
        "jobs",
    ]
    assert all((ROOT / name).exists() and f"!{name}" in IGNORED for name in copied)
    assert IGNORED[0] == "*"


@pytest.mark.parametrize("name", [".git", ".venv", "tests", "private-key.pem", ".env", "manifests"])
def test_irrelevant_files_do_not_reach_the_builder(name):
    assert not any(fnmatch.fnmatch(name, pattern[1:]) for pattern in IGNORED if pattern.startswith("!"))
