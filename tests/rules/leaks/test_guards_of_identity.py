"""Guards that ask whose pod it is: its name, its registration, what GitHub and deliveries last reported of it."""

import pytest

from ghapp.leaks.github_queries import combined_activity
from ghapp.leaks.guards import FuseView, Guard, TickMemory, leaks
from ghapp.leaks.leak_fuse import LeakFuse
from ghapp.leaks.runner_activity import RunnerActivity, runner_activity
from ghapp.pods.pod import Container, Ended
from ghapp.pods.pod_claim import by_name
from ghapp.remediation.fuse import FuseLimits, Position
from ghapp.runners.delivery_lag import HOLD_SECONDS
from tests.rules.builders import MICROSECOND, NOW, lost, survey
from tests.rules.leaks.builders import (
    IDLE,
    LIMITS,
    STALE,
    TICK,
    claim,
    gap,
    guard_of,
    pod,
    remembered,
    tick_inputs,
)


class TestGuard14Unnamed:
    @pytest.mark.parametrize(
        "container",
        [
            Container("runner", running_since=NOW - 3600),
            Container("runner", waiting="CrashLoopBackOff", last_ended=Ended(1)),
            Container("runner", ended=Ended(3, finished_at=NOW - 299)),
        ],
        ids=["runs", "waits for a restart", "has just ended"],
    )
    def test_a_container_that_may_run_keeps_its_pod_while_its_runner_is_unknown(self, container):
        assert guard_of(pod(runner=container), RunnerActivity(busy=False)) is Guard.UNNAMED

    def test_a_pod_whose_container_ended_long_ago_is_reaped_though_its_runner_is_unknown(self):
        ended = Container("runner", ended=Ended(0, finished_at=NOW - 300))
        assert guard_of(pod(runner=ended), RunnerActivity(busy=False)) is None

    @pytest.mark.parametrize(("before", "guard"), [(0.0, None), (MICROSECOND, Guard.UNNAMED)])
    def test_a_runner_seen_since_the_container_started_names_the_pod(self, before, guard):
        """After a restart, the agent may have registered under another name."""
        started = Container("runner", running_since=NOW - 2000, last_ended=Ended(3))
        runner = IDLE._replace(seen_at=NOW - 2000 - before)
        assert guard_of(pod(runner=started), runner) is guard

    @pytest.mark.parametrize(
        "container",
        [
            Container("runner", ended=Ended(3, started_at=NOW - 2000, finished_at=NOW - 6), restarts=1),
            Container("runner", waiting="CrashLoopBackOff", last_ended=Ended(3, started_at=NOW - 2000), restarts=2),
            Container("runner", waiting="CrashLoopBackOff", last_ended=Ended(3, finished_at=NOW - 2000), restarts=2),
        ],
        ids=["has just ended", "waits for a restart", "only its end is known"],
    )
    @pytest.mark.parametrize(("before", "guard"), [(0.0, None), (MICROSECOND, Guard.UNNAMED)])
    def test_between_two_runs_of_a_container_a_runner_seen_since_the_last_start_names_the_pod(
        self, container, before, guard
    ):
        """An update stops the container for seconds: the pod still has the same runner."""
        assert guard_of(pod(runner=container), IDLE._replace(seen_at=NOW - 2000 - before)) is guard

    def test_a_runner_name_seen_at_an_earlier_tick_is_remembered_for_that_name_only(self):
        memory = {"named": {"uid-linux-1": NOW - 600}}
        same = remembered(pod(), names={"uid-linux-1": "linux-1"}, **memory)
        assert guard_of(pod(), RunnerActivity(busy=False), memory=same) is None
        another = remembered(pod(), names={"uid-linux-1": "jit-7"}, **memory)
        assert guard_of(pod(), memory=another, runners={"jit-7": RunnerActivity(busy=False)}) is None
        claimed = by_name([claim(runner_name="jit-7", expires_at=NOW - TICK)])
        assert (
            guard_of(pod(), memory=same, claims=claimed, runners={"jit-7": RunnerActivity(busy=False)}) is Guard.UNNAMED
        )

    def test_a_claim_names_the_runner_to_look_for_but_does_not_prove_that_it_was_seen(self):
        expired = by_name([claim(runner_name="jit-7", expires_at=NOW - TICK)])
        assert guard_of(pod(), claims=expired, runners={"jit-7": IDLE, "linux-1": RunnerActivity()}) is None
        assert guard_of(pod(), claims=expired, runners={"jit-7": RunnerActivity(busy=False)}) is Guard.UNNAMED
        unnamed = by_name([claim(expires_at=NOW - TICK)])
        assert guard_of(pod(), RunnerActivity(busy=False), claims=unnamed) is Guard.UNNAMED


class TestARunnerWithThePodsName:
    """Guard 14 where the configuration says so. The container has run for a little over the grace."""

    UNKNOWN = RunnerActivity(busy=False)
    START = NOW - 400.0

    def guard(self, found=None, runner=UNKNOWN, *, says_so=True, seen=None, memory=None, **changes):
        found = found or pod(created_at=self.START - 100, runner=Container("runner", running_since=self.START))
        memory = remembered(found, **{"for_seconds": 390.0, "began_at": self.START - 500, **(memory or {})})
        named_by_pod = frozenset({found.uid}) if says_so else frozenset()
        inputs = {"survey": survey(**(seen or {})), "bear_name": named_by_pod, **changes}
        return guard_of(found, runner, memory=memory, **inputs)

    def test_a_pod_that_nothing_has_named_since_its_container_started_is_a_leak(self):
        assert self.guard() is None

    def test_without_the_setting_the_pod_is_kept(self):
        assert self.guard(says_so=False) is Guard.UNNAMED

    @pytest.mark.parametrize(
        ("seen", "guard"),
        [
            ({"swept_at": NOW - 90}, None),
            ({"swept_at": NOW - 90 - MICROSECOND}, Guard.UNNAMED),
            ({"blind": ((NOW - 200, NOW - 110),)}, None),
            ({"blind": ((NOW - 200, NOW - 110 + 1e-3),)}, Guard.UNNAMED),
            ({"swept_at": None}, Guard.UNNAMED),
        ],
        ids=[
            "a list at the end of the grace",
            "the last list was too early",
            "90 seconds without lists",
            "a millisecond more",
            "no list",
        ],
    )
    def test_only_time_up_to_the_last_complete_list_counts(self, seen, guard):
        """It has been unclaimed for 390 seconds, of which lists must cover 300."""
        assert self.guard(seen=seen) is guard

    @pytest.mark.parametrize(
        ("gaps", "guard"),
        [
            ((), None),
            (gap(0.0), Guard.DELIVERIES_BEHIND),
            (gap(NOW), Guard.DELIVERIES_BEHIND),
            (gap(0.0, START), Guard.DELIVERIES_BEHIND),
            (gap(0.0, START - MICROSECOND), None),
            (gap(START + 10, START + 11), Guard.DELIVERIES_BEHIND),
        ],
        ids=["complete", "for long", "since now", "until its start", "until before its start", "in between"],
    )
    def test_while_deliveries_since_its_start_are_missing_the_pod_is_kept(self, gaps, guard):
        assert self.guard(gaps=gaps) is guard

    @pytest.mark.parametrize(
        ("unclaimed", "listed", "guard"),
        [
            (HOLD_SECONDS, HOLD_SECONDS, None),
            (HOLD_SECONDS - MICROSECOND, HOLD_SECONDS, Guard.DELIVERIES_BEHIND),
            (HOLD_SECONDS, HOLD_SECONDS - MICROSECOND, Guard.DELIVERIES_BEHIND),
        ],
        ids=["an hour", "claimed within the hour", "an empty list within the hour"],
    )
    def test_it_waits_for_deliveries_for_an_hour_in_which_it_is_unclaimed_and_lists_have_runners(
        self, unclaimed, listed, guard
    ):
        found = pod(created_at=NOW - 9000, runner=Container("runner", running_since=NOW - HOLD_SECONDS))
        since = {found.uid: NOW - unclaimed}
        memory = {"since": since, "since_there": since, "listed_since": NOW - listed, "began_at": NOW - 9999}
        assert self.guard(found, memory=memory, gaps=gap(0.0)) is guard

    def test_a_runner_that_github_listed_is_named_and_its_pod_waits_for_no_delivery_since_its_start(self):
        runner = IDLE._replace(seen_at=self.START)
        assert self.guard(runner=runner, gaps=gap(0.0)) is None

    @pytest.mark.parametrize(("at", "guard"), [(START, Guard.UNNAMED), (START - MICROSECOND, None), (None, None)])
    def test_a_delivery_since_the_start_keeps_the_pod(self, at, guard):
        assert self.guard(runner=self.UNKNOWN._replace(delivered_at=at)) is guard
        vouched = {} if at is None else {"uid-linux-1": at}
        assert self.guard(memory={"vouched": vouched}) is guard

    @pytest.mark.parametrize(("expired_at", "guard"), [(START, Guard.UNNAMED), (START - MICROSECOND, None)])
    def test_a_claim_that_expired_since_the_start_keeps_the_pod(self, expired_at, guard):
        assert self.guard(claims=by_name([claim(expires_at=expired_at)])) is guard

    def test_a_pod_whose_runner_a_claim_has_named_otherwise_is_kept(self):
        other = by_name([claim(runner_name="jit-7", expires_at=self.START - 1)])
        runners = {"jit-7": self.UNKNOWN, "linux-1": self.UNKNOWN}
        assert self.guard(claims=other, runners=runners) is Guard.UNNAMED
        assert self.guard(memory={"names": {"uid-linux-1": "jit-7"}}, runners=runners) is Guard.UNNAMED

    def test_claims_and_deliveries_are_remembered_for_as_long_as_the_pod_exists(self):
        claimed = tick_inputs(pod(), claims=by_name([claim()]))
        delivered = tick_inputs(pod(), runners={"linux-1": IDLE._replace(delivered_at=NOW - 7)})
        running = tick_inputs(pod(), runners={"linux-1": IDLE._replace(running=True)})
        for seen, at in ((claimed, NOW), (delivered, NOW - 7), (running, NOW)):
            memory = leaks(seen, NOW, LIMITS, remembered(pod())).memory._replace(claims=0)
            assert memory.vouched == {"uid-linux-1": at}
            assert leaks(tick_inputs(pod()), NOW + TICK, LIMITS, memory).memory.vouched == memory.vouched
        assert leaks(tick_inputs(pod("linux-2")), NOW, LIMITS, memory).memory.vouched == {}

    def test_a_claim_that_is_seen_just_before_the_deletion_names_the_pod_too(self):
        memory = remembered(pod(), for_seconds=390.0, vouched={"uid-linux-2": NOW - 9}).with_claim_on(
            ["uid-linux-1"], NOW
        )
        assert (memory.since, memory.since_there) == ({}, {})
        assert memory.vouched == {"uid-linux-1": NOW, "uid-linux-2": NOW - 9}

    @pytest.mark.parametrize(
        ("began", "age", "guard"),
        [
            (0.0, 0.0, None),
            (MICROSECOND, 0.0, Guard.UNNAMED),
            (MICROSECOND, 5 * 86_400.0, Guard.UNNAMED),
            (MICROSECOND, 5 * 86_400.0 + 1e-3, None),
        ],
        ids=["as old as the memory", "older than the memory", "a job may last as long", "longer than any job"],
    )
    def test_a_container_older_than_the_memory_is_kept_for_as_long_as_a_job_may_last(self, began, age, guard):
        start = NOW - max(age, 400.0)
        found = pod(created_at=start, runner=Container("runner", running_since=start))
        memory = remembered(found, for_seconds=390.0, began_at=start + began)
        named_by_pod = frozenset({found.uid})
        assert guard_of(found, self.UNKNOWN, memory=memory, survey=survey(), bear_name=named_by_pod) is guard

    @pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
    def test_the_clusters_clock_offset_changes_nothing(self, ahead):
        start = self.START + ahead
        found = pod(created_at=start, read_at=NOW + ahead, runner=Container("runner", running_since=start))
        since_there = {found.uid: NOW + ahead - 390}
        assert self.guard(found, memory={"since_there": since_there}) is None
        vouched = {found.uid: self.START}
        assert self.guard(found, memory={"since_there": since_there, "vouched": vouched}) is Guard.UNNAMED

    @pytest.mark.parametrize(
        ("container", "guard"),
        [
            (Container("runner", waiting="CrashLoopBackOff", last_ended=Ended(1, started_at=NOW - 300)), None),
            (
                Container(
                    "runner", waiting="CrashLoopBackOff", last_ended=Ended(1, started_at=NOW - 300 + MICROSECOND)
                ),
                Guard.UNNAMED,
            ),
            (Container("runner", waiting="CrashLoopBackOff", restarts=3), Guard.UNNAMED),
            (Container("runner", waiting="ImagePullBackOff"), Guard.NEVER_STARTED),
            (Container("runner", running_since=NOW - 299), Guard.JUST_STARTED),
        ],
        ids=["restarted long ago", "restarted lately", "at an unknown time", "waits for its image", "has just started"],
    )
    def test_the_time_begins_with_the_last_start_of_the_container(self, container, guard):
        assert self.guard(pod(created_at=self.START, runner=container)) is guard

    @pytest.mark.parametrize(
        ("runner", "guard"),
        [
            (UNKNOWN._replace(busy=None), Guard.GITHUB_UNKNOWN),
            (UNKNOWN._replace(busy=True), Guard.SESSION_OPEN),
            (UNKNOWN._replace(online=True), Guard.SESSION_OPEN),
            (UNKNOWN._replace(registered=True), Guard.REGISTERED),
            (UNKNOWN._replace(absent_seconds=299.0), Guard.ABSENT_BRIEFLY),
            (UNKNOWN._replace(last_busy=True), Guard.BUSY_WHEN_LAST_SEEN),
            (UNKNOWN._replace(running=True), Guard.CLAIMED),
        ],
        ids=["no answer", "busy", "online", "offline", "absent briefly", "busy when last seen", "at work"],
    )
    def test_all_other_guards_hold(self, runner, guard):
        assert self.guard(runner=runner) is guard

    def test_an_empty_list_and_an_old_one_keep_the_pod(self):
        assert self.guard(list_empty=True) is Guard.UNNAMED
        assert self.guard(github_stale=True) is Guard.GITHUB_STALE

    @pytest.mark.parametrize(("since", "guard"), [(NOW - 300, None), (NOW - 300 + 1e-3, Guard.UNNAMED)])
    def test_time_in_which_lists_were_empty_does_not_count(self, since, guard):
        assert self.guard(memory={"listed_since": since}) is guard
        empty = leaks(tick_inputs(pod(), list_empty=True), NOW, LIMITS, remembered(pod()))
        assert empty.memory.listed_since is None

    def test_a_pod_that_was_never_a_runners_is_kept(self):
        database = pod(
            created_at=self.START, container="postgres", runner=Container("postgres", running_since=self.START)
        )
        assert self.guard(database) is Guard.NO_RUNNER

    def test_the_result_names_the_pods_that_nothing_has_named(self):
        found = [
            pod(name, created_at=self.START, runner=Container("runner", running_since=self.START)) for name in "ab"
        ]
        memory = remembered(*found, for_seconds=390.0, began_at=0.0)
        seen = tick_inputs(*found, survey=survey(), bear_name=frozenset({"uid-a"}), runners={})
        assert leaks(seen, NOW, LIMITS, memory).never_named == {"uid-a"}


class TestGuard15NeverStarted:
    @pytest.mark.parametrize(
        "changes",
        [
            {"runner": None},
            {"runner": None, "phase": "Pending"},
            {"runner": Container("runner", waiting="ImagePullBackOff"), "phase": "Pending"},
            {"runner": Container("runner", waiting="ContainerCreating")},
        ],
        ids=["no status", "waits for a node", "waits for an image", "is being created"],
    )
    @pytest.mark.parametrize("age", [3600.0, 86_400.0])
    def test_a_container_that_never_started_keeps_its_pod_at_any_age(self, changes, age):
        assert guard_of(pod(created_at=NOW - age, **changes)) is Guard.NEVER_STARTED

    def test_a_container_that_waits_for_a_restart_does_not_keep_its_pod(self):
        waiting = Container("runner", waiting="CrashLoopBackOff", restarts=3)
        assert guard_of(pod(runner=waiting)) is None


class TestGuard16FreshGitHubData:
    ENDED = Container("runner", ended=Ended(0))

    @pytest.mark.parametrize("container", [ENDED, Container("runner", running_since=NOW - 3600)], ids=["ended", "runs"])
    def test_nothing_is_reaped_while_github_data_is_stale(self, container):
        assert guard_of(pod(runner=container), github_stale=True) is Guard.GITHUB_STALE

    def test_an_empty_list_keeps_a_pod_whose_container_runs(self):
        assert guard_of(pod(), list_empty=True) is Guard.LIST_EMPTY
        assert guard_of(pod(runner=self.ENDED), list_empty=True) is None

    @pytest.mark.parametrize(("absent", "guard"), [(300.0, None), (300.0 - MICROSECOND, Guard.ABSENT_BRIEFLY)])
    def test_a_running_pod_is_kept_until_its_registration_was_absent_for_the_grace(self, absent, guard):
        assert guard_of(pod(), IDLE._replace(absent_seconds=absent)) is guard
        assert guard_of(pod(runner=self.ENDED), IDLE._replace(absent_seconds=absent)) is None


class TestGuard17BusyWhenLastSeen:
    MAY_WORK = IDLE._replace(last_busy=True)

    def test_a_runner_busy_when_last_seen_is_kept_until_its_container_ended(self):
        assert guard_of(pod(), self.MAY_WORK) is Guard.BUSY_WHEN_LAST_SEEN
        assert guard_of(pod(runner=Container("runner", ended=Ended(0))), self.MAY_WORK) is None

    def test_a_runner_busy_when_last_seen_is_kept_as_unnamed_after_its_record_expires(self):
        first = leaks(tick_inputs(pod(), runners={"linux-1": self.MAY_WORK}), NOW, LIMITS, remembered(pod()))
        assert first.memory.named == {}
        memory = first.memory._replace(since=remembered(pod()).since, since_there=remembered(pod()).since)
        assert guard_of(pod(), RunnerActivity(busy=False), memory=memory) is Guard.UNNAMED


class TestANamespaceThatWasNotRead:
    OTHER = pod("linux-2")

    def test_the_runners_of_its_pods_are_remembered_and_their_time_restarts(self):
        """By uid: the pod that was read has its new memory, the other one its old."""
        old = {"linux-1": NOW - 7, "linux-2": NOW - 7}
        old = {f"uid-{name}": at for name, at in old.items()}
        before = remembered(
            pod(), self.OTHER, names={"uid-linux-2": "jit-7"}, named=old, vouched=old, runners=frozenset(old)
        )
        seen = tick_inputs(pod(), runners={"linux-1": IDLE._replace(last_busy=True)}, unread=True)
        after = leaks(seen, NOW, LIMITS, before).memory
        assert after.names == {"uid-linux-1": "linux-1", "uid-linux-2": "jit-7"}
        assert after.named == {"uid-linux-2": NOW - 7}
        assert (after.vouched, after.runners) == (old, frozenset(old))
        assert (set(after.since), set(after.since_there), after.pods) == ({"uid-linux-1"}, {"uid-linux-1"}, 1)
        after = leaks(seen._replace(unread=False), NOW, LIMITS, before).memory
        assert (set(after.names), set(after.vouched), after.named) == ({"uid-linux-1"}, {"uid-linux-1"}, {})

    @pytest.mark.parametrize("unread", [frozenset(), frozenset({"linux", ""})])
    def test_the_fuse_of_its_pool_and_of_the_installation_close_only_when_its_leaks_can_be_seen(self, unread):
        proving = LeakFuse(Position.PROVING, NOW - 9999, 3, 3)
        fuse = FuseView(FuseLimits(), fuses={"linux": proving, "*": proving}, unread=unread)
        fuses = leaks(tick_inputs(fuse=fuse), NOW, LIMITS, TickMemory()).fuses
        assert fuses == dict.fromkeys(("linux", "*"), proving if unread else LeakFuse())


class TestGuard19DeliveriesBehind:
    BEHIND = IDLE._replace(awaits_deliveries=True)

    def test_an_absent_runner_that_may_have_begun_a_job_is_kept_until_its_container_has_ended(self):
        assert guard_of(pod(), self.BEHIND) is Guard.DELIVERIES_BEHIND
        assert guard_of(pod(runner=Container("runner", ended=Ended(0))), self.BEHIND) is None

    def test_the_runners_only_job_that_has_been_over_for_long_needs_no_delivery(self):
        over = {"ephemeral": True, "over_at": NOW - 900, "job_started_at": NOW - 1000}
        assert guard_of(pod(), self.BEHIND._replace(**over)) is None

    def test_what_lasts_is_named_before_what_ends_within_the_hour(self):
        assert guard_of(pod(), self.BEHIND._replace(last_busy=True)) is Guard.BUSY_WHEN_LAST_SEEN
        assert guard_of(pod(), self.BEHIND._replace(absent_seconds=1.0)) is Guard.ABSENT_BRIEFLY

    @pytest.mark.parametrize(
        ("changes", "awaits"),
        [
            ({}, True),
            ({"ephemeral": None}, True),
            ({"ephemeral": True}, True),
            ({"ephemeral": True, "job_id": 3, "job_ended_at": NOW - 99}, False),
            ({"ephemeral": None, "job_id": 3, "job_ended_at": NOW - 99}, True),
            ({"job_id": 3, "job_ended_at": NOW - 99}, True),
            ({"absent_since": None, "first_404_at": None, "listed": True}, False),
            ({"absent_since": None, "first_404_at": None, "removed_at": NOW - 7}, False),
            ({"absent_since": NOW - HOLD_SECONDS, "first_404_at": None}, False),
            ({"absent_since": NOW - HOLD_SECONDS + MICROSECOND, "first_404_at": None}, True),
        ],
        ids=[
            "persistent", "maybe ephemeral", "ephemeral", "its only job is over", "maybe its only job is over",
            "an earlier job is over", "listed", "removed", "absent for an hour", "absent for less than an hour",
        ],
    )  # fmt: skip
    def test_a_runner_of_any_kind_that_left_in_a_gap_may_have_begun_a_job(self, changes, awaits):
        assert runner_activity(lost(**changes), survey(), NOW, STALE, gaps=gap(0.0)).awaits_deliveries is awaits
        assert not runner_activity(lost(**changes), survey(), NOW, STALE).awaits_deliveries, "deliveries are complete"

    def test_only_a_gap_of_the_time_in_which_it_left_counts(self):
        missing_since = NOW - 60
        for begin, awaits in ((missing_since, True), (missing_since + MICROSECOND, False)):
            activity = runner_activity(lost(), survey(), NOW, STALE, gaps=gap(begin))
            assert activity.awaits_deliveries is awaits

    def test_one_of_several_runners_of_a_name_is_enough(self):
        same_name = [lost(1), lost(2, absent_since=NOW - 7000, first_404_at=None)]
        for records in (same_name, same_name[::-1]):
            assert combined_activity(records, (), survey(), NOW, STALE, gaps=gap(0.0)).awaits_deliveries
