"""The page of the versions of the runner."""

from __future__ import annotations

from html import unescape

import pytest

from ghapp.report.org_view import OrgView
from ghapp.runners.verdict import Limits
from ghapp.versions.lifetime import DAY, EndDates
from ghapp.versions.pages import MOST_POOLS, versions_page
from ghapp.versions.store import RunnerVersions
from tests.rules.builders import NOW, online, survey

PATH = "/orgs/acme/versions"


def page(*runners, **dates):
    found = {version.replace("_", "."): EndDates(NOW, at, is_known=True) for version, at in dates.items()}
    return versions_page(OrgView("acme", (), Limits(), survey(), end_dates=found), runners, NOW)


def runner(number, version, **changes):
    return online(number, version=version, **changes)


@pytest.mark.parametrize(
    ("runners", "ends_at", "banner", "sentence"),
    [
        ([], None, "good", "No runner is registered."),
        ([runner(1, "2.336.0")], None, "good", "GitHub gives jobs to the versions of all runners."),
        ([runner(1, "2.336.0"), runner(2, None)], None, "good", "GitHub reports no dates for the version of 1 runner."),
        ([runner(1, "2.336.0")], NOW + 8 * DAY, "busy", "1 runner has a version that ends soon."),
        (
            [runner(1, "2.336.0"), runner(2, "2.336.0")],
            NOW + DAY,
            "attention",
            "2 runners have a version that ends soon.",
        ),
        ([runner(1, "2.336.0")], NOW - DAY, "critical", "1 runner has a version that gets no jobs any more."),
    ],
)
def test_the_banner_says_what_is_worst(runners, ends_at, banner, sentence):
    found = page(*runners, **{"2_336_0": ends_at})
    assert (found.banner, found.sentence) == (banner, sentence)


def test_a_version_in_many_pools_shows_some_and_how_many_more():
    runners = [runner(each, "2.336.0", custom_labels=(f"p{each}",)) for each in range(1, MOST_POOLS + 4)]
    (line,) = page(*runners).lines
    assert (len(line.pools), line.more_pools, line.text, line.steps) == (MOST_POOLS, 3, "", ())


async def test_the_page_shows_versions_with_their_dates_and_what_to_do(key_holder, redis, fleet, clock):
    clean = unescape((await key_holder.get(PATH)).text)
    assert "GitHub reports no dates for the version of" in clean
    assert 'aria-current="page">Versions' in clean


async def test_names_of_anybody_are_text(key_holder, redis, fleet):
    await RunnerVersions(redis).put(fleet["acme"], {"<b>": EndDates(NOW, NOW, is_known=True)})
    assert "<b>" not in (await key_holder.get(PATH)).text
