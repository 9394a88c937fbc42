"""The reaper's fuse: batches of deletions that double for as long as no deleted pod was in use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.leaks.leak_fuse import (
    LeakCounts,
    LeakFuse,
    ReapedPod,
    StopReason,
    next_leak_fuse,
    reason_in_use,
    resume,
    room,
)
from ghapp.leaks.runner_activity import RunnerActivity
from ghapp.pods.pod import Pod
from ghapp.remediation.fuse import FuseLimits, Position
from tests.rules.builders import MICROSECOND, NOW, survey

LIMITS = FuseLimits()
CLOSED = LeakFuse()
PROVEN_SECONDS = 120.0
"""Of `prove_seconds`, 300."""


def reaped(number=1, at=NOW - PROVEN_SECONDS, **changes):
    row = ReapedPod(
        f"uid-{number}", "linux", "runners", f"linux-{number}", f"linux-{number}", was_registered=False, at=at
    )
    return row._replace(**changes)


def batch(count=3, **changes):
    return [reaped(number, **changes) for number in range(count)]


def proving(**changes):
    return LeakFuse(**{"position": Position.PROVING, "since": NOW - 900, "batch": 3, "allowed": 3, **changes})


def stopped(**changes):
    return proving(position=Position.STOPPED, reason=StopReason.RUNNER_RETURNED, pod="runners/a", stopped_at=NOW - 900)


def counts(leaks=28, rows=(), **changes):
    """28 leaks of 28 pods."""
    return LeakCounts(**{"leaks": leaks, "expected": 28, "reaped": rows, **changes})


def after(fuse, found, **seen):
    return next_leak_fuse(fuse, found, survey(**seen), NOW, LIMITS)


class TestClosed:
    @pytest.mark.parametrize(
        ("leaks", "rows", "trips"),
        [(5, 0, False), (6, 0, True), (3, 2, False), (3, 3, True), (0, 30, False)],
        ids=["below the threshold", "a fifth", "together below", "together a fifth", "no leak is left"],
    )
    def test_it_trips_at_the_threshold_with_what_was_reaped_within_the_window(self, leaks, rows, trips):
        fuse = after(CLOSED, counts(leaks, batch(rows)))
        assert fuse == (LeakFuse(Position.PROVING, NOW - 600, 3, 3) if trips else CLOSED)

    def test_what_was_reaped_before_the_window_does_not_count(self):
        assert after(CLOSED, counts(3, batch(3, at=NOW - 600))) is CLOSED
        assert after(CLOSED, counts(3, batch(3, at=NOW - 600 + MICROSECOND))).position is Position.PROVING


class TestProving:
    @pytest.mark.parametrize(("rows", "left"), [(0, 3), (2, 1), (3, 0), (9, 0)])
    def test_a_batch_that_is_not_deleted_goes_on(self, rows, left):
        assert room(proving(), counts(rows=batch(rows))) == left
        if rows < 3:
            assert after(proving(), counts(rows=batch(rows, at=NOW - 899))) == proving()

    @pytest.mark.parametrize(
        ("seconds", "seen", "goes_on"),
        [
            (PROVEN_SECONDS, {}, True),
            (PROVEN_SECONDS - MICROSECOND, {}, False),
            (PROVEN_SECONDS, {"swept_at": NOW - 60}, True),
            (PROVEN_SECONDS, {"swept_at": NOW - 60 - MICROSECOND}, False),
            (PROVEN_SECONDS + 99, {"blind": ((NOW - 150, NOW - 50),)}, False),
            (PROVEN_SECONDS + 100, {"blind": ((NOW - 150, NOW - 50),)}, True),
            (PROVEN_SECONDS, {"swept_at": None}, False),
        ],
        ids=[
            "two minutes",
            "a moment less",
            "a list in the second half",
            "no list in the second half",
            "99 of 100 seconds without lists",
            "as long as lists cover two minutes",
            "no list",
        ],
    )
    def test_the_next_batch_is_twice_as_large_once_lists_have_covered_the_proof(self, seconds, seen, goes_on):
        fuse = after(proving(), counts(rows=batch(at=NOW - seconds)), **seen)
        assert fuse == (proving(batch=6, allowed=9) if goes_on else proving())

    def test_batches_double_until_28_pods_are_deleted(self):
        fuse, sizes = after(CLOSED, counts()), []
        rows, now = [], NOW
        while len(rows) < 28:
            size = min(room(fuse, counts(rows=rows)), 28 - len(rows))
            sizes.append(size)
            rows += [reaped(len(rows) + each, at=now) for each in range(size)]
            now += 180.0
            fuse = next_leak_fuse(fuse, counts(28 - len(rows), rows), survey(swept_at=now - 30), now, LIMITS)
        assert (sizes, now - 180.0 - NOW) == ([3, 6, 12, 7], 540.0)

    def test_a_second_decision_on_the_same_facts_changes_nothing(self):
        found = counts(rows=batch())
        once = after(proving(), found)
        assert after(once, found) is once

    def test_a_deletion_that_is_recorded_late_delays_the_next_batch(self):
        rows = [*batch(2), reaped(3, at=NOW - 1)]
        assert after(proving(), counts(rows=rows)) == proving()

    @pytest.mark.parametrize(
        ("since_last", "closes"), [(300.0, True), (300.0 - MICROSECOND, False)], ids=["proven", "not yet"]
    )
    def test_it_closes_when_no_leak_is_left_and_the_last_batch_was_watched_for_prove_seconds(self, since_last, closes):
        fuse = after(proving(), counts(0, batch(2, at=NOW - since_last)))
        assert fuse == (CLOSED if closes else proving())

    def test_it_closes_at_once_when_nothing_was_deleted(self):
        assert after(proving(), counts(0)) == CLOSED
        assert after(proving(), counts(0, is_judged=False)) == proving(), "the pods of a paused pool may be leaks"

    @pytest.mark.parametrize("leaks", [0, 28], ids=["no leak is left", "leaks are left"])
    @pytest.mark.parametrize("reason", [StopReason.RUNNER_RETURNED, StopReason.RECREATED])
    def test_it_stops_when_a_deleted_pod_was_in_use(self, reason, leaks):
        fuse = after(proving(), counts(leaks, batch(at=NOW - 1), in_use={"uid-1": reason}))
        assert fuse == proving(position=Position.STOPPED, reason=reason, pod="runners/linux-1", stopped_at=NOW)
        assert room(fuse, counts()) == 0

    def test_a_pod_deleted_before_the_fuse_tripped_or_was_resumed_stops_nothing(self):
        rows = [*batch(2, at=NOW - 900), reaped(3)]
        assert after(proving(), counts(rows=rows, in_use={"uid-1": StopReason.RECREATED})) == proving()


class TestStopped:
    def test_it_waits_for_an_admin_while_there_are_leaks(self):
        fuse = stopped()
        assert after(fuse, counts()) is fuse

    def test_an_admin_starts_it_again_from_the_first_batch(self):
        fuse = resume(NOW, LIMITS, "mona")
        assert fuse == LeakFuse(Position.PROVING, NOW, 3, 3, by="mona")
        rows = batch(at=NOW)
        assert room(fuse, counts(rows=rows)) == 3, "what was deleted before does not count"

    def test_it_closes_when_no_pod_has_looked_like_a_leak_for_a_window(self):
        calm = next_leak_fuse(stopped(), counts(0), survey(), NOW, LIMITS)
        assert (calm.position, calm.calm_since) == (Position.STOPPED, NOW)
        for seconds, position in ((600.0 - MICROSECOND, Position.STOPPED), (600.0, Position.CLOSED)):
            now = NOW + seconds
            assert next_leak_fuse(calm, counts(0), survey(swept_at=now), now, LIMITS).position is position
        again = next_leak_fuse(calm, counts(1), survey(), NOW + 300, LIMITS)
        assert (again.position, again.calm_since) == (Position.STOPPED, None)
        blind = survey(swept_at=NOW + 600, blind=((NOW + 10, NOW + 20),))
        assert next_leak_fuse(calm, counts(0), blind, NOW + 600, LIMITS) is calm

    def test_a_pause_hides_leaks_and_does_not_close_it(self):
        fuse = stopped()
        assert after(fuse, counts(0, is_judged=False)) is fuse

    def test_an_unreadable_one_waits_for_an_admin(self):
        fuse = LeakFuse(Position.STOPPED, reason=StopReason.UNREADABLE)
        assert after(fuse, counts(0)) is fuse


GONE = RunnerActivity(busy=False)
POD = Pod("runners", "linux-1", "uid-1", "41", NOW - 3600)


class TestAPodThatWasInUse:
    @pytest.mark.parametrize(
        ("runner", "in_use"),
        [
            (RunnerActivity(), False),
            (GONE, False),
            (GONE._replace(registered=True), True),
            (GONE._replace(registered=True, busy=None), False),
            (GONE._replace(online=True), True),
            (GONE._replace(busy=True), True),
            (GONE._replace(running=True), True),
            (GONE._replace(seen_at=NOW), False),
            (GONE._replace(seen_at=NOW + MICROSECOND), True),
            (GONE._replace(delivered_at=NOW), False),
            (GONE._replace(delivered_at=NOW + MICROSECOND), True),
        ],
        ids=[
            "unknown",
            "absent",
            "registered again, offline",
            "registered by an old list",
            "online",
            "busy",
            "a job in progress by delivery",
            "seen before the deletion",
            "seen after it",
            "named by a delivery before it",
            "named by a delivery after it",
        ],
    )
    def test_whatever_names_its_runner_after_the_deletion_shows_that_it_was_in_use(self, runner, in_use):
        reason = reason_in_use(reaped(at=NOW), runner, [])
        assert reason == (StopReason.RUNNER_RETURNED if in_use else StopReason.NONE)

    def test_a_registration_that_was_offline_before_the_deletion_may_stay_so(self):
        row = reaped(was_registered=True)
        assert reason_in_use(row, GONE._replace(registered=True), []) is StopReason.NONE
        assert reason_in_use(row, GONE._replace(registered=True, online=True), []) is StopReason.RUNNER_RETURNED

    @pytest.mark.parametrize(
        ("pod", "reason"),
        [
            (POD._replace(uid="another"), StopReason.RECREATED),
            (POD, StopReason.RUNNER_RETURNED),
            (POD._replace(uid="another", namespace="elsewhere"), StopReason.RUNNER_RETURNED),
            (POD._replace(uid="another", name="linux-2"), StopReason.RUNNER_RETURNED),
        ],
        ids=["a new pod of its name", "it is still being deleted", "of another namespace", "of another name"],
    )
    def test_a_living_runner_in_a_new_pod_of_the_name_was_recreated(self, pod, reason):
        assert reason_in_use(reaped(), GONE._replace(online=True), [pod]) is reason
        assert reason_in_use(reaped(), GONE, [pod]) is StopReason.NONE


ticks = st.lists(st.tuples(st.integers(0, 30), st.floats(1.0, 400.0), st.booleans()), max_size=30)


@given(ticks)
def test_no_more_pods_are_deleted_than_the_batches_allow(story):
    """Ticks with any number of leaks, late and early, in which pods are deleted or the tick dies before that."""
    fuse, rows, now = CLOSED, [], NOW
    for leaks, seconds, dies in story:
        now, before = now + seconds, fuse
        found = LeakCounts(leaks, 30, rows)
        fuse = next_leak_fuse(fuse, found, survey(swept_at=now), now, LIMITS)
        if fuse.batch > before.batch > 0:
            assert now - rows[-1].at >= PROVEN_SECONDS
            assert (fuse.batch, fuse.allowed) == (2 * before.batch, len(found.since(fuse.since)) + fuse.batch)
        if not dies:
            left = room(fuse, found)
            many = leaks if left is None else min(left, leaks)
            rows = [*rows, *(reaped(len(rows) + each, at=now) for each in range(many))]
        if Position.CLOSED not in (fuse.position, before.position):
            deleted = LeakCounts(leaks, 30, rows).since(fuse.since)
            assert len(deleted) <= max(fuse.allowed, len(found.since(fuse.since)))
