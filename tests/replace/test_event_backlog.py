"""What is sent when: bounded for each URL, with backoff for each event and a circuit breaker for each URL."""

from __future__ import annotations

import pytest

from ghapp.replace.event_backlog import (
    BACKOFF_SECONDS,
    BREAKER_FAILURES,
    BREAKER_SECONDS,
    LONG_FAILURE_SECONDS,
    MOST_IN_FLIGHT,
    PER_URL,
    RARE_SECONDS,
    EventBacklog,
    doubled,
)

GOOD, BAD = "https://good.test/", "https://bad.test/"


def keep(backlog, urls):
    """The waiting events are these, each with its URL and time."""
    for event_id in backlog.waiting.keys() - urls.keys():
        backlog.remove(event_id)
    for event_id, (url, at) in urls.items():
        backlog.put(event_id, url, at)


def backlog_of(**counts):
    """So many events for each URL, oldest first: `bad-0`, `bad-1`, …"""
    backlog = EventBacklog()
    urls = {"good": GOOD, "bad": BAD}
    keep(backlog, {f"{name}-{n}": (urls[name], float(n)) for name, count in counts.items() for n in range(count)})
    return backlog


def test_each_url_has_a_bounded_number_in_flight_oldest_first_and_in_turn():
    backlog = backlog_of(bad=300, good=2)
    sent = backlog.send(0.0)
    assert [each for each in sent if each.startswith("bad")] == [f"bad-{n}" for n in range(PER_URL)]
    assert [each for each in sent if each.startswith("good")] == ["good-0", "good-1"]
    assert set(sent[:4]) == {"bad-0", "good-0", "bad-1", "good-1"}
    assert backlog.send(100.0) == [], "until one of them is answered"


def test_there_is_a_bound_for_all_urls_together():
    backlog = EventBacklog()
    keep(backlog, {f"{n}": (f"https://{n}.test/", 0.0) for n in range(MOST_IN_FLIGHT + 1)})
    assert len(backlog.send(0.0)) == MOST_IN_FLIGHT
    assert backlog.send(0.0) == []


def test_an_event_that_was_refused_waits_twice_as_long_each_time():
    backlog, now, waits = backlog_of(good=1), 0.0, []
    for _ in range(12):
        assert backlog.send(now) == ["good-0"]
        backlog.put_off("good-0", now)
        waits.append(backlog.waiting["good-0"].next_at - now)
        assert backlog.send(now + waits[-1] - 0.01) == []
        now += waits[-1]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


def opened():
    """A backlog whose URL has refused often enough, one event after the other."""
    backlog = backlog_of(bad=BREAKER_FAILURES)
    sent = backlog.send(0.0)
    assert [backlog.refused(each, 0.0) for each in sent] == [False] * (BREAKER_FAILURES - 1) + [True]
    return backlog


def test_a_url_that_refuses_three_in_a_row_is_tried_with_one_request_at_a_time():
    backlog = opened()
    keep(backlog, {f"bad-{n}": (BAD, float(n)) for n in range(100)})
    assert backlog.send(BREAKER_SECONDS[0] - 0.01) == []
    assert len(backlog.send(BREAKER_SECONDS[0])) == 1
    assert backlog.send(BREAKER_SECONDS[0] + 1000.0) == [], "until that one is answered"


def test_trial_requests_become_rarer_up_to_a_bound():
    backlog, now, waits = opened(), BREAKER_SECONDS[0], []
    keep(backlog, {f"bad-{n}": (BAD, float(n)) for n in range(100)})
    for _ in range(7):
        (trial,) = backlog.send(now)
        assert backlog.refused(trial, now) is False, "it was open before"
        waits.append(backlog.breakers[BAD].next_at - now)
        now = backlog.breakers[BAD].next_at
    assert waits == [4, 8, 16, 30, 30, 30, 30]


@pytest.mark.parametrize(("after", "wait"), [(-0.001, BREAKER_SECONDS[1]), (0.0, RARE_SECONDS)])
def test_after_ten_minutes_of_failure_a_url_is_tried_every_two_minutes(after, wait):
    backlog, now = opened(), LONG_FAILURE_SECONDS + after
    backlog.breakers[BAD].failures = 20
    (trial,) = backlog.send(now)
    backlog.refused(trial, now)
    assert backlog.breakers[BAD].next_at == now + wait


def test_the_time_without_a_success_counts_from_the_first_failure_after_the_last_one():
    backlog = opened()
    keep(backlog, {f"bad-{n}": (BAD, float(n)) for n in range(10)})
    (trial,) = backlog.send(1000.0)
    backlog.accepted(trial)
    sent = backlog.send(2000.0)
    for each in sent:
        backlog.refused(each, 2000.0)
    assert backlog.breakers[BAD].failing_since == 2000.0
    assert backlog.breakers[BAD].next_at == 2000.0 + BREAKER_SECONDS[0] * 2 ** (len(sent) - BREAKER_FAILURES)


def test_one_runner_is_asked_for_in_each_trial_though_an_older_event_is_due_meanwhile():
    backlog = opened()
    keep(backlog, {f"bad-{n}": (BAD, float(n)) for n in range(10)})
    for each in ("bad-0", "bad-1", "bad-2"):
        backlog.waiting[each].next_at = 100.2
    (trial,) = backlog.send(100.0)
    assert trial == "bad-3"
    backlog.put_off(trial, 100.0, soon=True)
    assert backlog.send(100.3) == []
    assert backlog.send(100.5) == [trial]
    keep(backlog, {f"bad-{n}": (BAD, float(n)) for n in range(3)})
    backlog.drop(trial)
    assert backlog.send(101.0) == ["bad-0"], "the trial left the outbox"


@pytest.mark.parametrize(("events", "urls"), [(1, 10), (10, 10)])
def test_the_looks_for_ten_dead_urls_cost_little(events, urls):
    """Each look is two calls; GitHub's answer takes a second and permits a request for ten seconds."""
    backlog, now, looks, answered = EventBacklog(), 0.0, [], {}
    waiting = {f"{url}-{n}": (f"https://{url}.test/", float(n)) for url in range(urls) for n in range(events)}
    while now < 2 * 3600:
        keep(backlog, waiting)
        for each in backlog.send(now):
            if now - 10 <= answered.get(each, -100.0) <= now:
                backlog.refused(each, now)
                continue
            if answered.get(each, -100.0) < now:
                looks.append(now)
                answered[each] = now + 1.0
            backlog.put_off(each, now, soon=True)
        now += 0.25
    assert sum(each >= 3600 for each in looks) <= 300


def test_the_first_success_closes_the_breaker_and_all_that_waits_is_due():
    backlog = opened()
    (trial,) = backlog.send(BREAKER_SECONDS[0])
    assert backlog.accepted(trial) is True
    rest = backlog.send(BREAKER_SECONDS[0])
    assert len(rest) == BREAKER_FAILURES - 1
    assert backlog.accepted(rest[0]) is False


def test_an_open_breaker_is_none_of_another_urls():
    backlog = opened()
    keep(backlog, {"good-0": (GOOD, 0.0), **dict.fromkeys(backlog.waiting, (BAD, 0.0))})
    assert backlog.send(0.0) == ["good-0"]


def test_one_event_that_is_refused_among_accepted_ones_opens_no_breaker():
    backlog, now = backlog_of(good=50), 0.0
    keep(backlog, {**{each: (GOOD, known.at) for each, known in backlog.waiting.items()}, "poison": (GOOD, -1.0)})
    while len(backlog.waiting) > 1:
        for each in backlog.send(now):
            assert not (backlog.refused(each, now) if each == "poison" else backlog.accepted(each))
        now += 1.0
    assert not backlog.breakers[GOOD].is_open


def test_what_left_the_outbox_is_forgotten_and_what_is_in_flight_is_kept_until_it_lands():
    backlog = backlog_of(good=PER_URL + 1)
    sent = backlog.send(0.0)
    keep(backlog, {})
    assert set(backlog.waiting) == set(sent)
    for each in sent:
        backlog.accepted(each)
    assert backlog.waiting == {}
    keep(backlog, {})
    assert dict(backlog.breakers) == {}


@pytest.mark.parametrize("bounds", [BACKOFF_SECONDS, BREAKER_SECONDS])
def test_waits_are_within_their_bounds_however_often(bounds):
    assert [doubled(bounds, times) for times in (-5, 0, 10_000)] == [bounds[0], bounds[0], bounds[1]]
