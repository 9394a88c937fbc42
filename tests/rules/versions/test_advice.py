"""What the end of a version means, and what to do about it."""

from __future__ import annotations

import pytest

from ghapp.versions.advice import (
    IMAGE,
    RECOMMENDED,
    WHY_RECOMMENDED,
    FleetKind,
    fleet_kind,
    target_version,
    version_steps,
    version_text,
)
from ghapp.versions.counts import PoolVersion
from ghapp.versions.lifetime import DAY, VersionState, VersionStatus

END = 1_793_865_895.0  # 2026-11-05
CURRENT, ENDING, ENDED, UNKNOWN = VersionState


def status(state=ENDED, version="2.336.0", runners=3, pools=("linux",), **changes):
    return VersionStatus(version, state, runners, tuple(PoolVersion(pool, version, 1) for pool in pools), **changes)


@pytest.mark.parametrize(
    ("replacer", "is_ephemeral", "kind"),
    [
        ("arc", True, FleetKind.ARC),
        ("arc", False, FleetKind.ARC),
        ("pods", True, FleetKind.PODS),
        ("cloudevents", True, FleetKind.IMAGES),
        ("none", True, FleetKind.IMAGES),
        ("none", False, FleetKind.MACHINES),
        (None, True, FleetKind.IMAGES),
        (None, False, FleetKind.MACHINES),
    ],
)
def test_a_fleet_s_kind_is_how_its_runners_are_started(replacer, is_ephemeral, kind):
    assert fleet_kind(replacer, is_ephemeral=is_ephemeral) is kind


@pytest.mark.parametrize(
    ("running", "target"),
    [
        ([], None),
        ([("2.337.0", CURRENT), ("2.336.0", ENDED)], "2.337.0"),
        ([("2.337.0", CURRENT), ("2.1000.0", CURRENT)], "2.1000.0"),
        ([("2.337.0", UNKNOWN)], None),
        ([("2.337.0", ENDING)], None),
        ([("2.335.0", CURRENT)], None),
        ([(RECOMMENDED, CURRENT)], RECOMMENDED),
    ],
)
def test_the_version_to_install_is_the_newest_one_that_is_known_to_be_current(running, target):
    assert target_version(status(state, version) for version, state in running) == target


@pytest.mark.parametrize(
    ("kind", "state", "words"),
    [
        (FleetKind.ARC, ENDED, ["scale set of linux", f"{IMAGE}:2.337.0"]),
        (FleetKind.PODS, ENDING, ["pods of linux", f"{IMAGE}:2.337.0"]),
        (FleetKind.IMAGES, ENDED, ["2.337.0", "image", "linux"]),
        (FleetKind.MACHINES, ENDED, ["each machine of linux", "unpack 2.337.0"]),
        (FleetKind.MACHINES, ENDING, ["--disableupdate", "2.337.0"]),
    ],
)
def test_the_step_fits_the_fleet(kind, state, words):
    (step,) = version_steps(status(state), "linux", kind, "2.337.0")
    assert all(word in step.step for word in words)
    assert step.why


@pytest.mark.parametrize("kind", FleetKind)
def test_without_a_known_target_the_newest_release_is_named_and_no_version_that_may_have_ended(kind):
    (step,) = version_steps(status(), "linux", kind)
    assert f"the newest release, {RECOMMENDED} or newer" in step.step
    assert f":{RECOMMENDED}" not in step.step


@pytest.mark.parametrize(("version", "is_told"), [("2.335.1", True), ("2.336.0", False), ("2.337.0", False)])
def test_why_a_version_is_recommended_is_given_to_those_with_an_older_one(version, is_told):
    (step,) = version_steps(status(version=version), "linux", FleetKind.ARC, "2.338.0")
    assert (WHY_RECOMMENDED in step.why) is is_told


@pytest.mark.parametrize("state", [CURRENT, UNKNOWN])
def test_nothing_is_to_be_done_about_a_version_that_does_not_end(state):
    assert version_steps(status(state), "linux", FleetKind.ARC) == ()


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            status(ENDED, jobs_end_at=END),
            "3 runners of linux have version 2.336.0, which gets no jobs since 2026-11-05",
        ),
        (
            status(ENDED, runners=1),
            "1 runner of linux has version 2.336.0, which is older than [versions] minimum: GitHub gives it no jobs",
        ),
        (
            status(ENDING, jobs_end_at=END, pools=("linux", "gpu")),
            "3 runners of linux and gpu have version 2.336.0, which gets jobs until 2026-11-05 only",
        ),
        (
            status(ENDING, jobs_end_at=END, registration_ends_at=END - DAY),
            "3 runners of linux have version 2.336.0, which GitHub registers until 2026-11-04 only",
        ),
        (
            status(ENDING, jobs_end_at=END, outlives_end=True),
            "3 runners of linux have version 2.336.0, which GitHub's date or [versions] minimum ends, although its runners still get jobs",
        ),
        (
            status(CURRENT),
            "3 runners of linux have version 2.336.0, which gets jobs; GitHub has no date of its end yet",
        ),
        (status(CURRENT, jobs_end_at=END), "3 runners of linux have version 2.336.0, which gets jobs until 2026-11-05"),
        (status(UNKNOWN), "3 runners of linux have version 2.336.0, of which GitHub reports no dates"),
        (status(UNKNOWN, version=None), "GitHub lists 3 runners of linux without a version"),
        (
            status(CURRENT, runners=1_200, pools=[*"abcdefg"]),
            "1,200 runners of a, b, c, d, e and 2 more have version 2.336.0, which gets jobs; GitHub has no date of its end yet",
        ),
        (
            status(ENDED, jobs_end_at=1e18),
            "3 runners of linux have version 2.336.0, which gets no jobs since an unknown day",
        ),
    ],
)
def test_a_sentence_says_how_many_runners_have_a_version_and_until_when_it_gets_jobs(found, text):
    assert version_text(found) == text
