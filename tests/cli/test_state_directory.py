"""The directory where `ghapp up` keeps its data."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from ghapp.errors import ConfigurationError
from ghapp.state_directory import LEAST_FREE_BYTES, find_problem, find_space_problem, prepare_state_directory


def test_it_is_created_for_its_owner_alone(tmp_path):
    prepare_state_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "a" / "b").iterdir()) == [], "the probe leaves nothing"


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/proc/ghapp", "cannot create /proc/ghapp: No such file or directory"),
        ("/dev/null/ghapp", "cannot create /dev/null/ghapp: Not a directory"),
        ("/dev/null", "/dev/null is not a directory"),
        ("/sys", "cannot write to /sys: "),
        ("~/.local/state/ghapp", "not set, and this user has no home directory; set it"),
    ],
)
def test_one_that_cannot_be_used_is_named_with_the_reason(path, problem):
    with pytest.raises(ConfigurationError) as raised:
        prepare_state_directory(Path(path))
    assert str(raised.value).startswith(f"GHAPP_STATE_DIR: {problem}")


@pytest.mark.parametrize(
    ("free", "problem"),
    [
        (LEAST_FREE_BYTES, None),
        (LEAST_FREE_BYTES - 1, "has 63 MiB of free space, and ghapp needs 64 MiB"),
        (0, "has 0 MiB of free space, and ghapp needs 64 MiB"),
    ],
)
def test_a_disk_that_is_nearly_full_is_named(tmp_path, monkeypatch, free, problem):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert find_space_problem(tmp_path) == (problem and f"{tmp_path} {problem}")
    assert find_problem(tmp_path) == find_space_problem(tmp_path)
