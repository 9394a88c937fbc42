"""`ghapp deaths`, as text and as JSON."""

from __future__ import annotations

import re

import pytest

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import DeadJob, Death
from ghapp.deaths.store import Deaths
from tests.cli.conftest import ACME
from tests.cli.test_cli import one_line


async def four_deaths(known):
    job = DeadJob(42, "acme/api", "build", conclusion="failure")
    worst = Death("linux-1", "", "node-1", known.now, 137, 9, "OOMKilled", Cause.HOST_OOM, "More memory.", pool="linux")
    for ago, changes in (
        (10, {"runner_name": "linux-1", "job": job, "image": "runner:7", "runner_log": ("Killed",)}),
        (20, {"runner_name": "linux-2", "image": "runner:7"}),
        (30, {"runner_name": "gpu-1", "pool": "gpu", "node": "", "cause": Cause.VANISHED}),
        (40, {"runner_name": "linux-3", "cause": Cause.CLEAN_EXIT}),
    ):
        death = worst._replace(at=known.now - ago, **changes)
        await Deaths(known.redis, lambda: known.now).record(ACME, death._replace(pod=death.runner_name))


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([], ["linux-1", "linux-2", "gpu-1"]),
        (["--limit", "2"], ["linux-1", "linux-2"]),
        (["--pool", "gpu"], ["gpu-1"]),
        (["--cause", "host-oom"], ["linux-1", "linux-2"]),
        (["--cause", "clean-exit"], ["linux-3"]),
        (["--org", "ACME"], ["linux-1", "linux-2", "gpu-1"]),
    ],
    ids=str,
)
async def test_deaths_are_selected_the_latest_first(known, options, names):
    await four_deaths(known)
    found = await known.json("deaths", *options)
    assert [each["runner_name"] for each in found["deaths"]] == names


async def test_the_text_names_what_several_deaths_have_in_common(known):
    await four_deaths(known)
    shown = (await known.ask("deaths")).stdout
    assert "acme/api build" in shown
    assert re.findall(r"by (.+?) *\n", shown) == [
        "cause: host-oom 2, vanished 1",
        "pool: linux 2, gpu 1",
        "node: node-1 2",
        "image: runner:7 2",
    ]


async def test_each_cause_has_its_advice_and_the_command_that_shows_the_latest_death(known):
    await four_deaths(known)
    shown = " ".join((await known.ask("deaths")).stdout.split())
    assert "→ host-oom: More memory; its last lines: `ghapp explain acme linux-1`" in shown
    assert shown.endswith("→ vanished: More memory"), "no line of its log is known"
    assert "→" not in (await known.ask("deaths", "--cause", "clean-exit")).stdout


async def test_a_list_that_the_limit_may_have_cut_is_not_called_complete(known):
    await four_deaths(known)
    cut = "; older ones are not counted, --limit shows more"
    assert (await known.ask("deaths", "--limit", "2")).stdout.startswith(f" 2 deaths{cut}\n")
    assert (await known.ask("deaths", "--limit", "3")).stdout.startswith(" 3 deaths\n")


async def test_clean_exits_are_not_called_deaths(known):
    await four_deaths(known)
    shown = (await known.ask("deaths", "--cause", "clean-exit")).stdout
    assert shown.startswith(" 1 clean exit\n")
    assert (" ended " in shown, " died " in shown, "death" in shown) == (True, False, False)
    none = await known.ask("deaths", "--pool", "linux-4vcpu", "--cause", "clean-exit")
    assert none.stdout == "no clean exit is known\n"


async def test_unknown_organizations_and_causes_are_wrong_usage(known):
    for options in (["--org", "unknown"], ["--cause", "murder"]):
        assert options[1] in one_line(await known.ask("deaths", *options), 2)
    assert "did you mean host-oom?" in one_line(await known.ask("deaths", "--cause", "oom"), 2)


async def test_without_a_death_it_is_shown_by_when_one_would_be_known(known):
    shown = "no death is known; one that no container shows is known within two minutes of its job's end\n"
    assert (await known.ask("deaths")).stdout == shown
