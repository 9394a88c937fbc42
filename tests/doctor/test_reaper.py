"""Doctor's check of the reaper."""

from __future__ import annotations

import time

import pytest

from ghapp.doctor.finding import FindingStatus
from ghapp.doctor.runner import examine
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.leaks.doctor import check, of_tick, of_unfinished
from ghapp.leaks.orphan import Orphan
from ghapp.leaks.store import Leaks, Tick
from ghapp.settings import Settings
from ghapp.wording import time_of

NOW = 1_790_000_000.0
ACME = Installation(7, "acme", 70, {"organization_self_hosted_runners": "write"})
PLACED = '[[pools]]\norg = "acme"\nname = "linux"\nlabels = ["linux"]\nnamespace = "runners"\n'


def tick(**changes):
    return Tick(at=NOW - 60, stamped=12, reaped=2)._replace(**changes)


def orphan(name="linux-1", **changes):
    return Orphan("runners", name, f"uid-{name}", name, "", "", NOW - 600, NOW - 900)._replace(**changes)


@pytest.mark.parametrize(
    ("last", "status", "text"),
    [
        (tick(), "ok", "12 pods with the owner label; 2 reaped in the last minute"),
        (
            tick(deferred=3, would_reap=4, without_owner=1),
            "ok",
            "12 pods with the owner label; 2 reaped in the last minute, 3 deferred, 4 reported only, 1 without a known owner",
        ),
        (
            tick(kept={"SessionOpen": 7, "NeverStarted": 1}, examples={"NeverStarted": (("runners/a", NOW - 900),)}),
            "ok",
            (
                "12 pods with the owner label; 2 reaped in the last minute; "
                f"1 never started: runners/a (created {time_of(NOW - 900)}); kept: 7 SessionOpen"
            ),
        ),
        (
            tick(
                kept={"Claimed": 6, "SessionOpen": 2, "Young": 1},
                kept_pods={"Claimed": ("r/a", "r/b", "r/c"), "SessionOpen": ("r/d", "r/e")},
            ),
            "ok",
            (
                "12 pods with the owner label; 2 reaped in the last minute; "
                "kept: 6 Claimed (r/a, r/b, r/c and 3 more), 2 SessionOpen (r/d, r/e), 1 Young"
            ),
        ),
        (
            tick(kept={"Unnamed": 1}, examples={"Unnamed": (("runners/b", NOW - 900),)}),
            "warning",
            (
                "12 pods with the owner label; 2 reaped in the last minute; "
                "1 run unclaimed, and the names of their runners are unknown: "
                f"runners/b (created {time_of(NOW - 900)})"
            ),
        ),
        (
            tick(held=2, kept={"MassLeak": 2}, examples={"MassLeak": (("runners/c", NOW - 900),)}),
            "warning",
            (
                "12 pods with the owner label; 2 reaped in the last minute; "
                f"2 are leaks, and wait until the batch before them has proven itself: runners/c (created {time_of(NOW - 900)})"
            ),
        ),
        (
            tick(kept={"ReaperStopped": 5}, stops={"linux": ("RunnerReturned", "runners/d")}),
            "warning",
            (
                "12 pods with the owner label; 2 reaped in the last minute; "
                "the reaper is stopped in linux: RunnerReturned runners/d; 5 are leaks, and the reaper is stopped"
            ),
        ),
        (
            tick(
                never_runners=1, kept={"NoRunner": 1, "MassLeak": 40, "Unnamed": 19, "NeverStarted": 3, "Claimed": 32}
            ),
            "warning",
            (
                "12 pods with the owner label; 2 reaped in the last minute; 1 never ran a runner; "
                "40 are leaks, and wait until the batch before them has proven itself; "
                "19 run unclaimed, and the names of their runners are unknown; 3 never started; kept: 32 Claimed"
            ),
        ),
        (tick(kept={"FuseNotClosed": 1}), "warning", "12 pods with the owner label"),
        (tick(kept={"SessionAfterJob": 1}), "warning", "12 pods with the owner label"),
        (tick(kept={"BusyWhenLastSeen": 1}), "ok", "12 pods with the owner label"),
        (
            tick(never_runners=2),
            "warning",
            "12 pods with the owner label; 2 reaped in the last minute; 2 never ran a runner",
        ),
        (
            tick(trouble="no answer", trouble_since=NOW - 300),
            "warning",
            f"blocked since {time_of(NOW - 300)}: no answer",
        ),
        (
            tick(trouble="RBAC lacks list", trouble_since=NOW - 300, kept={"MassLeak": 40}),
            "warning",
            (
                f"blocked since {time_of(NOW - 300)}: RBAC lacks list; 12 pods with the owner label; "
                "2 reaped in the last minute; 40 are leaks, and wait until the batch before them has proven itself"
            ),
        ),
        (tick(at=NOW - 180), "ok", "12 pods"),
        (tick(at=NOW - 180.001), "warning", f"it last ran at {time_of(NOW - 181)}"),
        (tick(at=NOW - 600, trouble="no answer", trouble_since=NOW - 900), "warning", "it last ran at"),
        (tick(at=NOW + 600), "warning", "it last ran at"),
        (Tick(), "warning", "it did not run in the last day"),
    ],
    ids=[
        "ok",
        "deferred",
        "kept",
        "kept, with names",
        "unnamed",
        "held by the fuse",
        "stopped",
        "everything at once",
        "the fuse of the runners",
        "online after the job",
        "busy when last seen",
        "never_runners",
        "blocked",
        "blocked in one namespace while the fuse holds leaks of others",
        "3 minutes",
        "longer",
        "stopped while blocked",
        "a clock that jumped",
        "never",
    ],
)
def test_the_last_tick_is_summarized(last, status, text):
    found = of_tick("acme", last, NOW)
    assert (found.status, found.org) == (status, "acme")
    assert found.text.startswith(text)


def test_a_secret_in_the_cause_of_a_blocked_reaper_is_redacted():
    trouble = "GET https://mona:hush@10.0.0.1/api: no answer"
    assert "hush" not in of_tick("acme", tick(trouble=trouble, trouble_since=NOW), NOW).text


@pytest.mark.parametrize(
    ("begun", "text"),
    [
        ([], None),
        ([orphan(found_at=NOW - 180)], None),
        ([orphan(found_at=NOW - 180.001)], "1 begun"),
        (
            [orphan(), orphan("b", found_at=NOW - 400), orphan("c", found_at=NOW)],
            f"2 begun and not finished, the first at {time_of(NOW - 600)}: runners/linux-1",
        ),
    ],
    ids=["no deletion", "in progress", "for too long", "several"],
)
def test_deletions_that_stay_unfinished_are_reported(begun, text):
    found = of_unfinished("acme", begun, NOW)
    assert [(each.status, each.org) for each in found] == ([("warning", "acme")] if text else [])
    assert all(each.text.startswith(text) for each in found)


@pytest.fixture
async def names(redis, redis_url, tmp_path):
    """Runs the check, and returns the status of each finding by name; the org is installed, and the reaper never ran."""

    async def run_check(toml=PLACED, installation=ACME, url=redis_url, through=check):
        await Installations(redis).put(installation)
        policy = tmp_path / "ghapp.toml"
        policy.write_text(toml)
        environ = {"GHAPP_CONFIG": str(policy), "GHAPP_STATE_DIR": str(tmp_path), "GHAPP_REDIS_URL": redis_url}
        return {each.name: each.status for each in await through(Settings.read(environ), url)}

    return run_check


@pytest.mark.parametrize(
    ("toml", "suspended", "found"),
    [
        (PLACED, False, {"reaper": FindingStatus.WARNING}),
        ('[leaks]\nmode = "dry-run"\n' + PLACED, False, {"reaper": FindingStatus.WARNING}),
        ('[leaks]\nmode = "off"\n' + PLACED, False, {}),
        (PLACED, True, {}),
        (PLACED.replace('"acme"', '"globex"'), False, {}),
        ('[[pools]]\norg = "acme"\nname = "linux"\nlabels = ["linux"]\n', False, {}),
    ],
    ids=["a namespace", "dry-run", "off", "suspended", "another org's", "no namespace"],
)
async def test_missing_ticks_are_reported_only_where_the_reaper_should_run(names, toml, suspended, found):
    installation = Installation(7, "acme", 70, {}, suspended=suspended)
    assert await names(toml, installation) == found


async def test_the_state_stored_by_the_reaper_is_read(names, redis):
    await Leaks(redis).remember(ACME.id, Tick(at=time.time()))
    await Leaks(redis).begin(ACME.id, orphan())
    assert await names() == {"reaper": FindingStatus.OK, "unfinished deletions": FindingStatus.WARNING}


@pytest.mark.parametrize("by_web_role", [False, True])
async def test_the_reaper_is_reported_by_the_command_and_on_the_page(names, by_web_role):
    found = await names(through=lambda settings, _url: examine(settings, {}, by_web_role=by_web_role))
    assert found["reaper"] is FindingStatus.WARNING


async def test_without_redis_the_reapers_are_reported_as_wrong(names):
    assert await names(url=None) == {}
    assert await names(url="redis://127.0.0.1:1/0") == {"reapers": FindingStatus.WRONG}
