"""Patterns among the deaths of a week."""

from __future__ import annotations

import pytest

from ghapp.deaths.cause import GRACE_TOO_SHORT, Cause, OwnReason, advice_for
from ghapp.deaths.death import BURST_SECONDS, WEEK_SECONDS, DeadJob, Death
from ghapp.deaths.patterns import (
    DAY_SECONDS,
    MOST_PATTERNS,
    DeathPattern,
    DeathSummary,
    PatternKind,
    death_patterns,
    death_summary,
)
from ghapp.pods.texts import pattern_text

NOW = 1_000_000.0
NODE, POOL, IMAGE = PatternKind


def death(ago=0.0, **changes):
    """A death that has nothing in common with others."""
    return DeathSummary(f"r-{ago}", NOW - ago, Cause.VANISHED, "")._replace(**changes)


@pytest.mark.parametrize("has_job", [True, False])
@pytest.mark.parametrize("cause", Cause)
def test_a_death_in_brief_has_the_advice_of_the_death(cause, has_job):
    messages = ("", "The node was low on resource: memory.", "Usage of EmptyDir volume exceeds the limit")
    for reason in ("OOMKilled", "Evicted", "EvictionByEvictionAPI", "", *OwnReason):
        for advice in (*(advice_for(cause, reason, message) for message in messages), GRACE_TOO_SHORT):
            job = DeadJob(7, "acme/api") if has_job else None
            full = Death("a", "a", "node", NOW, 137, 9, reason, cause, advice, job=job)
            assert death_summary(full).advice_now == full.advice_now


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([0, 1, WEEK_SECONDS], [DeathPattern(NODE, "n", 3, NOW - WEEK_SECONDS, alone=True)]),
        ([0, 1, WEEK_SECONDS + 0.1], []),
        ([0, 1], []),
        ([-0.1, 0, 1], []),
    ],
    ids=["three-in-a-week", "the-first-is-too-old", "two", "one-of-a-clock-ahead"],
)
def test_three_deaths_on_a_node_within_a_week_are_a_pattern(times, found):
    assert death_patterns([death(each, node="n") for each in times], NOW) == found


@pytest.mark.parametrize(
    ("times", "found"),
    [
        (
            [BURST_SECONDS, 2 * BURST_SECONDS, 3 * BURST_SECONDS],
            [DeathPattern(POOL, "p", 3, NOW - 3 * BURST_SECONDS, alone=True)],
        ),
        ([BURST_SECONDS + 0.1, BURST_SECONDS + 1, BURST_SECONDS + 2], []),
        ([0, 10, BURST_SECONDS + 10.1], []),
        (
            [0, 10, 20, BURST_SECONDS + 20.1],
            [DeathPattern(POOL, "p", 3, NOW - 20, alone=True)],
        ),
    ],
    ids=["each-within-an-hour", "over-for-an-hour", "a-gap", "an-earlier-death-is-no-part-of-it"],
)
def test_a_burst_of_a_pool_is_a_pattern_while_it_continues(times, found):
    assert death_patterns([death(each, pool="p") for each in times], NOW) == found


@pytest.mark.parametrize(
    ("others", "stands_out"),
    [
        ([], False),
        ([death(9, pool="q", image="i")], True),
        ([death(9, pool="p", image="j")], True),
        ([death(9, pool="q")], False),
    ],
    ids=["the-only-image-of-one-pool", "of-two-pools", "another-image-of-the-pool", "a-death-without-an-image"],
)
def test_an_image_is_a_pattern_if_it_differs_from_the_pools_other_images(others, stands_out):
    apart = [each * 3 * BURST_SECONDS for each in (1, 2, 3)]
    found = death_patterns([*(death(each, pool="p", image="i") for each in apart), *others], NOW)
    assert (PatternKind.IMAGE in [each.kind for each in found]) is stands_out


def test_an_image_needs_three_deaths_within_a_day():
    known = [death(each, pool=f"p{each}", image="i") for each in (1, 2, DAY_SECONDS)]
    assert death_patterns(known, NOW) == [DeathPattern(IMAGE, "i", 3, NOW - DAY_SECONDS, alone=True)]
    assert death_patterns([*known[:2], known[2]._replace(at=known[2].at - 0.1)], NOW) == []


def test_clean_exits_do_not_count():
    exits = [death(each, node="n", pool="p", cause=Cause.CLEAN_EXIT) for each in range(9)]
    assert death_patterns(exits, NOW) == []
    (node, pool) = death_patterns([*exits, *(death(each, node="n", pool="p") for each in range(3))], NOW)
    assert (node.deaths, node.alone, pool.deaths, pool.alone) == (3, True, 3, True)


def test_the_worst_come_first_and_their_number_is_bounded():
    known = [death(number, node=f"n{node}") for node in range(MOST_PATTERNS + 2) for number in range(3 + node)]
    found = death_patterns(known, NOW)
    assert [each.value for each in found] == ["n6", "n5", "n4", "n3", "n2"]
    assert [each.alone for each in found] == [False] * MOST_PATTERNS


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (DeathPattern(NODE, "n", 3, NOW, alone=False), "3 deaths on node `n` within seven days."),
        (DeathPattern(NODE, "n", 3, NOW, alone=True), "All 3 deaths within seven days are on node `n`."),
        (DeathPattern(POOL, "n", 4, NOW, alone=True), "All 4 deaths since 1970-01-12 13:46:40 UTC are of pool `n`."),
        (DeathPattern(IMAGE, "n", 5, NOW, alone=False), "5 deaths with the image `n` within 24 hours."),
    ],
    ids=["node", "node-alone", "pool-alone", "image"],
)
def test_a_pattern_is_one_sentence(pattern, text):
    assert pattern_text(pattern, "`n`") == text
