"""The history: which samples and counts make which step, in any order and grouping."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.deaths.cause import Cause
from ghapp.incidents.history import (
    CAUSES,
    COUNTS,
    GAUGES,
    HOUR_SECONDS,
    LONGEST,
    SPREAD_BOUNDS,
    STEP_SECONDS,
    SUCCESSOR_SECONDS,
    HistoryStep,
    TimeSpread,
    all_times,
    at_least,
    blind_steps,
    bucket_of,
    counted,
    folded,
    joined,
    losses,
    paused_steps,
    pool_of_job,
    repeated,
    sample,
    sample_without_list,
    sampled,
    step_of,
)
from ghapp.installations.pool_matching import ALL_POOLS, OTHER_POOL, PoolMatcher
from ghapp.remediation.pause import PauseSpan
from ghapp.runners.evidence import Survey
from ghapp.runners.verdict import Limits
from ghapp.settings import PoolSettings
from ghapp.workflow_jobs.job import Job
from tests.rules import builders
from tests.rules.builders import NOW

POOL, RULES = "linux-4vcpu", ()
STEP = step_of(NOW)
numbers = st.integers(0, 10_000)
gauges = st.dictionaries(st.sampled_from(GAUGES), numbers)
SPREADS = [f"{name}:{bucket}" for name in ("wait", "heal") for bucket in range(len(SPREAD_BOUNDS) + 1)]
SPREADS += LONGEST
counts = st.dictionaries(st.sampled_from([*COUNTS, *(f"death:{each.value}" for each in Cause), *SPREADS]), numbers)
moments = st.integers(0, 2 * HOUR_SECONDS)
samples = st.lists(st.tuples(gauges, moments), max_size=8)
steps = st.builds(
    lambda seen, more: joined(reduce(joined, (sampled(*each) for each in seen), HistoryStep()), counted(more)),
    samples,
    counts,
)


def of(seen):
    """The steps of samples that arrive one after the other."""
    found = {}
    for values, at in seen:
        begin = step_of(at)
        found[begin] = joined(found.get(begin, HistoryStep()), sampled(values, at))
    return found


@given(samples, st.lists(st.integers(0, 8), max_size=4), st.randoms())
def test_any_order_and_any_split_of_samples_into_batches_gives_the_same_steps(seen, cuts, random):
    shuffled = list(seen)
    random.shuffle(shuffled)
    edges = [0, *sorted(cuts), len(shuffled)]
    batches = [of(shuffled[begin:end]) for begin, end in pairwise(edges)]
    merged = {}
    for batch in batches:
        for begin, step in batch.items():
            merged[begin] = joined(merged.get(begin, HistoryStep()), step)
    assert merged == of(seen)


@given(samples)
def test_an_hour_is_computed_from_its_samples(seen):
    whole = {}
    for values, at in seen:
        hour = step_of(at, HOUR_SECONDS)
        whole[hour] = joined(whole.get(hour, HistoryStep()), sampled(values, at))
    assert folded(of(seen), HOUR_SECONDS) == whole


@given(st.lists(st.tuples(gauges, st.integers(0, HOUR_SECONDS - 1)), min_size=1, max_size=8))
def test_a_step_has_the_last_the_mean_and_the_peak_of_its_samples(seen):
    step = reduce(joined, (sampled(*each) for each in seen))
    latest = max(at for _, at in seen)
    for name in GAUGES:
        values = [each.get(name, 0) for each, _ in seen]
        assert step.highest(name) == max(values)
        assert step.mean(name) == pytest.approx(sum(values) / len(values))
        assert step.last_of(name) in [each.get(name, 0) for each, at in seen if at == latest]


@pytest.mark.parametrize(("times", "mean"), [(0, 4.0), (1, 14 / 3), (8, 6 - 4 / 10)])
def test_a_repeated_sample_counts_as_often_as_sweeps_found_it(times, mean):
    step = joined(sampled({"healthy": 2}, 0.0), sampled({"healthy": 6}, 60.0))
    found = repeated(step, times)
    assert (found.samples, found.mean("healthy"), found.highest("healthy")) == (2 + times, pytest.approx(mean), 6)
    assert found.last_of("healthy") == 6


def test_a_gap_has_no_sample_to_repeat():
    assert repeated(counted({"jobs": 1}), 3) == counted({"jobs": 1})


@given(steps, steps)
def test_joined_counts_are_never_negative_and_lose_nothing(one, other):
    both = joined(one, other)
    assert min([0, *both.last, *both.total, *both.peak, *both.counts, *both.deaths]) == 0
    for name in COUNTS:
        assert both.count(name) == one.count(name) + other.count(name)
    for cause in CAUSES:
        assert both.died_of(cause) == one.died_of(cause) + other.died_of(cause)


@given(steps, counts)
def test_a_repeated_count_is_counted_once(step, given_counts):
    once = at_least(step, given_counts)
    assert at_least(once, given_counts) is once
    for name in COUNTS:
        assert once.count(name) == max(step.count(name), given_counts.get(name, 0))


def test_a_count_does_not_fall_when_records_are_deleted():
    assert at_least(counted({"lost": 3, "death:crash": 2}), {"lost": 1}) == counted({"lost": 3, "death:crash": 2})


@pytest.mark.parametrize(("at", "begin"), [(0, 0), (299.999, 0), (300, 300), (NOW, 1_789_999_800), (-1, -300)], ids=str)
def test_a_step_begins_at_a_multiple_of_its_width(at, begin):
    assert step_of(at) == begin


def test_zeros_at_the_end_are_not_stored():
    assert sampled({"healthy": 3, "busy": 0}, NOW) == HistoryStep(1, int(NOW) % HOUR_SECONDS, (3,), (3,), (3,))
    assert sampled({}, NOW).last == ()


def seen_by(*runners, jobs=(), rules=RULES, at=NOW, since=NOW - 60):
    survey = Survey(swept_at=at, total=len(runners))
    return sample(runners, jobs, survey, Limits(), rules, at, since)


def test_a_sample_has_each_state_and_busy_runners_and_sums_the_pools():
    other = builders.online(3)._replace(custom_labels=("gpu",), labels=("gpu",))
    seen = seen_by(builders.online(1), builders.online(2, busy=True), other, builders.suspect(4))
    assert seen.gauges[POOL] == {"healthy": 2, "busy": 1, "suspect": 1}
    assert seen.gauges["gpu"] == {"healthy": 1}
    assert seen.gauges[ALL_POOLS] == {"healthy": 3, "busy": 1, "suspect": 1}


def test_healed_retired_and_foreign_runners_are_in_no_gauge():
    healed = builders.lost(1, replaced_at=NOW - 1, successor=9)
    without_successor = builders.lost(4, replaced_at=NOW - 3901)
    retired = builders.lost(2, retired_at=NOW - 1)
    foreign = builders.online(3)._replace(registered=False)
    assert seen_by(healed, retired, foreign, without_successor).gauges == {ALL_POOLS: {}}


@pytest.mark.parametrize(
    ("times", "states"),
    [
        ({"absent_since": NOW, "first_404_at": NOW + 1}, {}),
        ({"absent_since": None, "first_404_at": NOW + 1}, {}),
        ({"absent_since": NOW - 1, "first_404_at": NOW + 1}, {"suspect": 1}),
    ],
    ids=["first lacked by this list", "asked for after it", "lacked by the list before"],
)
def test_a_runner_that_the_list_of_a_sample_is_the_first_to_lack_has_no_state_yet(times, states):
    """Workers come back after a minute: 81 ephemeral runners have left, and the ends of their jobs wait in the inbox."""
    seen = seen_by(builders.online(1), builders.suspect(4)._replace(**times))
    assert seen.gauges[ALL_POOLS] == {"healthy": 1, **states}


@pytest.mark.parametrize("lost", [builders.lost(), builders.suspect(removed_at=NOW - 30)], ids=["gone", "offline"])
def test_a_loss_is_in_the_gauge_until_its_successor_is_online(lost):
    for known in (lost, lost._replace(granted_at=NOW - 40, removed_at=NOW - 30, replaced_at=NOW - 20)):
        assert seen_by(known).gauges[POOL] == {"invalidated": 1}


def job(number=1, **changes):
    return Job(number, "queued", ("self-hosted", POOL), "acme/api", NOW - 30)._replace(**changes)


@pytest.mark.parametrize(
    ("changes", "queued"),
    [
        ({}, {POOL: 1}),
        ({"labels": ("self-hosted", "made-up")}, {OTHER_POOL: 1}),
        ({"labels": ("ubuntu-latest",)}, {}),
        ({"status": "running"}, {}),
        ({"waiting": True}, {}),
    ],
)
def test_a_queued_job_counts_for_its_pool_or_for_other(changes, queued):
    seen = seen_by(builders.online(1), jobs=[job()._replace(**changes)])
    assert {
        pool: each["queued"] for pool, each in seen.gauges.items() if each["queued"] and pool != ALL_POOLS
    } == queued
    assert seen.gauges[ALL_POOLS]["queued"] == sum(queued.values())


def test_a_queued_job_counts_for_its_configured_pool_without_runners():
    rule = PoolSettings(org="acme", name="big", labels=("big",))
    assert seen_by(jobs=[job(labels=("self-hosted", "big"))], rules=(rule,)).gauges["big"] == {"queued": 1}


def test_a_loss_counts_in_the_step_of_its_confirmation_and_its_healing_in_that_of_its_successor():
    lost = builders.lost(1, confirmed_at=NOW - 700, absent_since=NOW - 760, first_404_at=NOW - 730)
    lost = lost._replace(replaced_at=NOW - 690, successor=2, healed_at=NOW - 60)
    found = seen_by(lost, builders.online(2)).counts
    assert found[POOL, step_of(NOW - 700)] == found[ALL_POOLS, step_of(NOW - 700)] == {"lost": 1}
    assert found[POOL, step_of(NOW - 60)] == {
        "healed": 1,
        "heal_seconds": 700,
        "heal:9": 1,
        "longest_heal": 700,
    }
    assert len(found) == 4


def spread(*seconds):
    """These values as waits of one step."""
    found = Counter(f"wait:{bucket_of(each)}" for each in seconds)
    return counted({**found, "waited_seconds": sum(seconds), "longest_wait": max(seconds, default=0)}).wait_times


def exact(seconds, share):
    return sorted(seconds)[ceil(share * len(seconds)) - 1]


seconds_lists = st.lists(st.integers(0, 200_000), min_size=1, max_size=60)
shares = st.sampled_from([0.5, 0.95])


@pytest.mark.parametrize(
    ("seconds", "share", "found"),
    [
        ((), 0.5, None),
        ((0,), 0.5, 0),
        ((20,), 1.0, 20),
        ((60, 60), 0.5, 45),
        ((60, 60), 1.0, 60),
        ((5,) * 95 + (3600,) * 5, 0.5, 4),
        ((5,) * 95 + (3600,) * 5, 0.95, 5),
        ((5,) * 94 + (3600,) * 6, 0.95, 2100),
        ((10**9,), 0.95, 10**9),
        ((322,), 0.95, 322),
        ((322,), 0.5, 322),
        ((365, 373, 380, 403), 0.5, 352),
        ((365, 373, 380, 403), 0.95, 403),
    ],
)
def test_a_percentile_is_estimated_within_its_bucket(seconds, share, found):
    assert spread(*seconds).percentile(share) == found


@given(seconds_lists, shares)
def test_a_percentile_exceeds_no_value_and_is_off_by_less_than_its_bucket(seconds, share):
    """Of heals of 373 s, and none longer than 403 s, p95 was shown as 9 min 39 s."""
    found, bucket = spread(*seconds).percentile(share), bucket_of(exact(seconds, share))
    low = SPREAD_BOUNDS[bucket - 1] if bucket else 0
    assert low <= found <= min([max(seconds), *SPREAD_BOUNDS[bucket : bucket + 1]])


@given(st.lists(seconds_lists, max_size=4), shares)
def test_percentiles_of_joined_steps_are_those_of_all_values_in_any_grouping(several, share):
    times = [spread(*each) for each in several]
    every = spread(*(second for each in several for second in each))
    assert all_times(times) == all_times([all_times(times[:2]), all_times(times[2:])]) == every
    assert all_times(times).percentile(share) == every.percentile(share)


@given(st.lists(seconds_lists, min_size=1, max_size=4))
def test_the_longest_value_of_joined_steps_is_the_longest_of_all(several):
    steps = [
        counted({**Counter(f"heal:{bucket_of(each)}" for each in seconds), "longest_heal": max(seconds)})
        for seconds in several
    ]
    assert reduce(joined, steps).heal_times.most == max(map(max, several))


def test_the_longest_value_is_raised_like_the_counts():
    step = counted({"heal:8": 1, "heal_seconds": 500, "longest_heal": 500})
    more = {"heal:8": 1, "heal:9": 1, "heal_seconds": 1200, "longest_heal": 700}
    assert at_least(step, more).heal_times.most == 700
    assert (
        at_least(at_least(step, more), {"heal:8": 1, "heal_seconds": 500, "longest_heal": 500}).heal_times.most == 700
    )
    assert TimeSpread().most == 0


def blind_survey(*spans, failing_since=None, swept_at=NOW):
    return Survey(swept_at=swept_at, blind=spans, failing_since=failing_since)


@pytest.mark.parametrize(
    ("survey", "found"),
    [
        (blind_survey(), {}),
        (blind_survey((NOW - 100, NOW - 70.4)), {step_of(NOW - 100): 30}),
        (blind_survey((STEP - 30, STEP + 20)), {STEP - 300: 30, STEP: 20}),
        (blind_survey((STEP - 290, STEP - 280), (STEP - 90, STEP)), {STEP - 300: 100}),
        (blind_survey((NOW - 86_400, STEP - 600)), {STEP - 1200: 300, STEP - 900: 300}),
        (blind_survey(failing_since=NOW - 10, swept_at=NOW - 70), {STEP: 70}),
        (blind_survey(swept_at=NOW - 301), {STEP: 1}),
    ],
    ids=["none", "within a step", "over two", "twice", "since long ago", "still", "no sweep ran"],
)
def test_a_step_has_the_seconds_that_no_complete_list_covers(survey, found):
    assert blind_steps(survey, STEP - 1000, NOW) == found
    if len(found) < 2:
        assert sample_without_list(survey, NOW).blind == found


def test_a_complete_list_adds_the_blind_time_before_it_also_if_that_was_long():
    survey = blind_survey((NOW - 8000, NOW - 60))
    seen = sample((), (), survey, Limits(), RULES, NOW, NOW - 8000)
    assert sum(seen.blind.values()) == 7940


@pytest.mark.parametrize(
    ("pauses", "pool", "found"),
    [
        ([], POOL, {}),
        ([(POOL, STEP + 10, STEP + 40)], POOL, {STEP: 30}),
        ([(POOL, STEP + 10, STEP + 40)], "another", {}),
        ([(POOL, STEP + 10, STEP + 40)], ALL_POOLS, {STEP: 30}),
        ([(ALL_POOLS, STEP + 10, STEP + 40)], POOL, {STEP: 30}),
        ([(POOL, STEP - 10, STEP + 40)], POOL, {STEP - 300: 10, STEP: 40}),
        ([(POOL, STEP, STEP + 60), (ALL_POOLS, STEP + 30, STEP + 90)], POOL, {STEP: 90}),
        ([(POOL, STEP, STEP + 90), (ALL_POOLS, STEP + 30, STEP + 60)], POOL, {STEP: 90}),
        ([(POOL, STEP, STEP + 20), (POOL, STEP + 80, STEP + 90)], POOL, {STEP: 30}),
        ([(POOL, STEP + 10, NOW + 900)], POOL, {STEP: round(NOW - STEP - 10)}),
    ],
    ids=["none", "its own", "of another", "any", "of all", "over two", "overlap", "within", "twice", "beyond now"],
)
def test_a_step_has_the_seconds_in_which_remediation_was_paused_once(pauses, pool, found):
    assert paused_steps([PauseSpan(*each) for each in pauses], pool, NOW) == found


@pytest.mark.parametrize(("since", "found"), [(NOW - 10, 1), (NOW - 9.9, 0)])
def test_losses_are_counted_from_the_begin_of_the_span(since, found):
    runners = [builders.lost(1, confirmed_at=NOW - 10)]
    assert len(losses(runners, PoolMatcher(RULES), since, NOW)) == 2 * found


def test_losses_since_the_last_list_are_counted_after_a_long_pause_of_sweeps():
    at = NOW + 5 * HOUR_SECONDS
    lost = builders.lost(1, confirmed_at=NOW)
    assert seen_by(lost, at=at, since=NOW - 60).counts != {}
    assert seen_by(lost, at=at, since=NOW + SUCCESSOR_SECONDS + 1).counts == {}


def test_a_job_counts_for_the_pool_of_its_runner_or_else_of_its_labels():
    gpu = builders.online(3)._replace(custom_labels=("gpu",), labels=("gpu",))
    assert pool_of_job(job(), gpu, RULES) == "gpu"
    assert pool_of_job(job(), gpu._replace(registered=False), RULES) == POOL
    assert pool_of_job(job(), None, RULES) == POOL


def test_every_cause_of_death_has_a_position():
    assert sorted(CAUSES) == sorted(each.value for each in Cause)


def test_the_widths_divide_an_hour():
    assert HOUR_SECONDS % STEP_SECONDS == 0
