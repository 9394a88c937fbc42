"""Decides which stamped pods are leaks, and which guard keeps each of the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.leaks.github_queries import combined_activity
from ghapp.leaks.guards import FuseView, Guard, LeakLimits, TickInputs, TickMemory, leaks
from ghapp.leaks.leak_fuse import LeakFuse, ReapedPod, StopReason
from ghapp.leaks.runner_activity import RunnerActivity, runner_activity
from ghapp.pods.pod import Container, Ended, Owner, Pod
from ghapp.pods.pod_claim import PodClaim, by_name
from ghapp.remediation.fuse import FuseLimits, Position
from ghapp.runners.delivery_lag import HOLD_SECONDS, DeliveryGap, GapCause
from ghapp.runners.observations import job_found_over, job_started
from tests.rules.builders import MICROSECOND, NOW, lost, online, present, survey

LIMITS = LeakLimits(mode="act")
NO_FUSE = FuseView(FuseLimits(floor=10_000))
TICK = 60.0
IDLE = RunnerActivity(busy=False, is_known=True, absent_seconds=3600.0, seen_at=NOW - 60)
"""A runner last seen connected a minute ago, and absent from GitHub for an hour. The two times are independent."""

LABEL = {LIMITS.owner_label: "linux-4vcpu"}


def pod(name="linux-1", **changes):
    """A leak: stamped with the label, an hour old, and its container has run for an hour."""
    running = Container("runner", running_since=NOW - 3600)
    leak = Pod("runners", name, f"uid-{name}", "41", NOW - 3600, labels=LABEL, runner=running, read_at=NOW)._replace(
        container="runner"
    )
    return leak._replace(**changes)


def claim(name="linux-1", **changes):
    return PodClaim(**{"pod": name, "runner_name": name, "job_id": None, "expires_at": NOW + 600, **changes})


def gap(since, until=None):
    """Deliveries of that span are missing."""
    return (DeliveryGap(since, until, GapCause.FAILED, ""),)


def tick_inputs(*pods, **changes):
    """Complete inputs of a tick, read at NOW; GitHub lists the runner of each pod as idle."""
    runners = {each.name: IDLE for each in pods}
    return TickInputs(**{"pods": pods, "pods_at": NOW, "claims": {}, "runners": runners, "claims_at": NOW, **changes})


def remembered(*pods, for_seconds=300.0, **changes):
    """The memory of a tick a minute ago: the pods have been unclaimed for `for_seconds`."""
    since = {each.uid: NOW - for_seconds for each in pods}
    lasting = {"since": since, "since_there": since, "listed_since": NOW - 99_999}
    return TickMemory(**{**lasting, "pods": len(pods), "claims": 0, "at": NOW - TICK, **changes})


def guard_of(pod, runner=IDLE, limits=LIMITS, memory=None, **changes):
    """The guard that keeps the pod; None for a leak."""
    seen = tick_inputs(pod, **{"runners": {pod.name: runner}, **changes})
    reaping = leaks(seen, NOW, limits, remembered(pod) if memory is None else memory)
    assert (reaping.skipped, reaping.deferred, reaping.would_reap) == (None, (), ())
    assert [*reaping.reap, *(each for each, _ in reaping.kept)] == [pod]
    return reaping.kept[0][1] if reaping.kept else None


def test_a_stamped_pod_without_a_claim_is_reaped():
    seen = tick_inputs(pod())
    reaping = leaks(seen, NOW, LIMITS, remembered(pod()))
    assert (reaping.reap, reaping.kept, reaping.skipped) == ((pod(),), (), None)


def test_pods_without_the_label_are_ignored():
    not_runners = [pod(labels={}), pod("linux-2", labels={"tuist.dev/runner-pool-owner": "x"})]
    reaping = leaks(tick_inputs(*not_runners), NOW, LIMITS, remembered(*not_runners, pods=0))
    assert (reaping.reap, reaping.kept, reaping.skipped, reaping.memory.since) == ((), (), None, {})


def test_the_labels_name_is_configurable():
    limits = LeakLimits(mode="act", owner_label="tuist.dev/runner-pool-owner")
    stamped = pod(labels={"tuist.dev/runner-pool-owner": "x"})
    assert guard_of(stamped, limits=limits) is None


class TestGuard1PodsBeforeClaims:
    @pytest.mark.parametrize(("apart", "skipped"), [(0.0, None), (MICROSECOND, Guard.CLAIMS_READ_FIRST)])
    def test_claims_read_before_the_pods_skip_the_tick(self, apart, skipped):
        at = 1_000.0
        stale = pod(created_at=0.0, runner=Container("runner", ended=Ended(0)), read_at=at + apart)
        seen = tick_inputs(stale, pods_at=at + apart, claims_at=at)
        memory = TickMemory({stale.uid: 0.0}, 1, 0, at, since_there={stale.uid: 0.0})
        reaping = leaks(seen, at + 1, LIMITS, memory)
        assert (reaping.skipped, len(reaping.reap)) == (skipped, 0 if skipped else 1)
        assert skipped is None or reaping.memory == memory


class TestGuard2CompleteReads:
    def test_an_incomplete_read_skips_the_tick_and_keeps_the_memory(self):
        memory = remembered(pod(), pods=7, claims=7)
        reaping = leaks(tick_inputs(pod(), complete=False), NOW, LIMITS, memory)
        assert (reaping.skipped, reaping.reap) == (Guard.READ_INCOMPLETE, ())
        assert reaping.memory == memory

    @pytest.mark.parametrize(("age", "skipped"), [(150.0, None), (150.0 + MICROSECOND, Guard.READ_STALE)])
    def test_a_read_older_than_150_seconds_skips_the_tick(self, age, skipped):
        reaping = leaks(tick_inputs(pod(), pods_at=NOW - age), NOW, LIMITS, remembered(pod()))
        assert (reaping.skipped, len(reaping.reap)) == (skipped, 0 if skipped else 1)

    @pytest.mark.parametrize(
        ("pods", "claims", "skipped"),
        [
            ((), {}, Guard.READ_EMPTY),
            ((pod(labels={}),), {}, Guard.READ_EMPTY),
            ((pod(),), {}, None),
        ],
        ids=["no pods", "no stamped pod", "some"],
    )
    def test_an_empty_read_of_pods_after_a_non_empty_one_skips_the_tick(self, pods, claims, skipped):
        assert leaks(tick_inputs(*pods, claims=claims), NOW, LIMITS, remembered(pod())).skipped is skipped

    @pytest.mark.parametrize(
        ("claims", "runners", "skipped"),
        [
            ({}, {}, Guard.READ_EMPTY),
            ({}, {"linux-9": IDLE._replace(running=False, busy=True)}, Guard.READ_EMPTY),
            (by_name([claim("linux-9", expires_at=NOW)]), {}, Guard.READ_EMPTY),
            (by_name([claim("linux-9", expires_at=NOW + MICROSECOND)]), {}, None),
            ({}, {"linux-9": IDLE._replace(running=True)}, None),
        ],
        ids=["no claim", "busy without a claim", "expired", "a controller's claim", "a job by delivery"],
    )
    def test_an_empty_read_of_claims_after_a_non_empty_one_skips_the_tick(self, claims, runners, skipped):
        memory = remembered(pod(), claims=1)
        seen = tick_inputs(pod(), claims=claims, runners={"linux-1": IDLE, **runners})
        reaping = leaks(seen, NOW, LIMITS, memory)
        assert (reaping.skipped, len(reaping.reap)) == (skipped, 0 if skipped else 1)

    def test_a_second_empty_read_is_accepted_and_clocks_are_kept(self):
        first = leaks(tick_inputs(pod()), NOW, LIMITS, remembered(pod(), claims=7))
        assert first.memory == remembered(pod(), claims=0)
        later = tick_inputs(pod(), pods_at=NOW + TICK, claims_at=NOW + TICK)
        assert leaks(later, NOW + TICK, LIMITS, first.memory).reap == (pod(),)

    def test_an_empty_read_after_an_empty_memory_is_accepted(self):
        assert leaks(tick_inputs(), NOW, LIMITS, TickMemory()).skipped is None


class TestGuard3Age:
    @pytest.mark.parametrize(("age", "guard"), [(300.0, None), (300.0 - MICROSECOND, Guard.WITHIN_GRACE)])
    def test_a_young_pod_is_kept_within_the_grace(self, age, guard):
        assert guard_of(pod(created_at=NOW - age)) is guard

    def test_a_pod_created_in_the_future_counts_as_young(self):
        assert guard_of(pod(created_at=NOW + 3600)) is Guard.WITHIN_GRACE


class TestGuard4UnclaimedWithoutAGap:
    @pytest.mark.parametrize(("since", "guard"), [(300.0, None), (300.0 - MICROSECOND, Guard.UNCLAIMED_BRIEFLY)])
    def test_a_pod_is_kept_until_it_was_unclaimed_for_the_grace(self, since, guard):
        assert guard_of(pod(), memory=remembered(pod(), for_seconds=since)) is guard

    def test_the_first_tick_only_starts_the_unclaimed_clock(self):
        reaping = leaks(tick_inputs(pod()), NOW, LIMITS, TickMemory())
        assert reaping.kept == ((pod(), Guard.UNCLAIMED_BRIEFLY),)
        clock, names = {"uid-linux-1": NOW}, {"uid-linux-1": "linux-1"}
        named = {"uid-linux-1": IDLE.seen_at}
        assert reaping.memory == TickMemory(
            clock, 1, 0, NOW, names, clock, frozenset(clock), named, began_at=NOW, listed_since=NOW
        )

    def test_another_pod_of_the_same_name_starts_its_own_clock(self):
        assert guard_of(pod(uid="another"), memory=remembered(pod())) is Guard.UNCLAIMED_BRIEFLY

    @pytest.mark.parametrize(
        ("expires_at", "guard"),
        [
            (NOW - TICK, None),
            (NOW - TICK + MICROSECOND, Guard.UNCLAIMED_BRIEFLY),
            (NOW, Guard.UNCLAIMED_BRIEFLY),
            (NOW + MICROSECOND, Guard.CLAIMED),
        ],
        ids=["ended by the last tick", "ended after it", "expires now", "expires later"],
    )
    def test_a_claim_keeps_the_pod_until_it_was_unclaimed_for_the_grace_also_if_no_tick_saw_the_claim(
        self, expires_at, guard
    ):
        assert guard_of(pod(), claims=by_name([claim(expires_at=expires_at)])) is guard

    def test_a_claim_by_runner_name_keeps_the_pod(self):
        other = claim("elsewhere", runner_name="linux-1")
        assert guard_of(pod(), claims=by_name([other])) is Guard.CLAIMED

    def test_a_finished_job_does_not_overrule_a_claim(self):
        long_over = IDLE._replace(job_started_at=NOW - 3060, over_at=NOW - 3000, busy=False)
        assert guard_of(pod(), long_over, claims=by_name([claim()])) is Guard.CLAIMED

    def test_a_job_in_progress_by_delivery_counts_as_a_claim(self):
        assert guard_of(pod(), IDLE._replace(running=True, busy=False)) is Guard.CLAIMED

    @pytest.mark.parametrize(
        "runner", [IDLE._replace(running=True, busy=False), IDLE], ids=["by delivery", "by controller"]
    )
    def test_a_new_claim_resets_the_unclaimed_clock(self, runner):
        claims = {} if runner.running else by_name([claim()])
        claimed = leaks(tick_inputs(pod(), claims=claims, runners={"linux-1": runner}), NOW, LIMITS, remembered(pod()))
        assert (claimed.reap, claimed.memory.since) == ((), {})
        now = NOW + TICK
        again = tick_inputs(pod(), pods_at=now, claims_at=now, claims=by_name([claim("x", expires_at=now + 9)]))
        assert leaks(again, now, LIMITS, claimed.memory).kept == ((pod(), Guard.UNCLAIMED_BRIEFLY),)

    @pytest.mark.parametrize(
        ("last", "guard"),
        [
            (NOW - 150.0, None),
            (NOW - 150.0 - MICROSECOND, Guard.UNCLAIMED_BRIEFLY),
            (NOW, None),
            (NOW + MICROSECOND, Guard.UNCLAIMED_BRIEFLY),
            (None, Guard.UNCLAIMED_BRIEFLY),
        ],
        ids=["at the limit", "a longer gap", "the same time", "the clock went back", "no last tick"],
    )
    def test_a_gap_between_two_ticks_resets_all_clocks(self, last, guard):
        assert guard_of(pod(), memory=remembered(pod(), at=last)) is guard

    def test_a_pod_missing_from_one_tick_loses_its_clock(self):
        other = pod("linux-2")
        between = leaks(tick_inputs(other), NOW, LIMITS, remembered(pod(), other))
        assert set(between.memory.since) == {other.uid}

    def test_the_runner_name_of_a_claim_is_remembered_after_the_claim_expires(self):
        named = by_name([claim(runner_name="jit-7", expires_at=NOW - TICK)])
        busy = {"jit-7": IDLE._replace(busy=True), "linux-1": IDLE}
        first = leaks(tick_inputs(pod(), claims=named, runners=busy), NOW, LIMITS, remembered(pod()))
        assert first.kept == ((pod(), Guard.SESSION_OPEN),)
        now = NOW + TICK
        second = leaks(tick_inputs(pod(), runners=busy, pods_at=now, claims_at=now), now, LIMITS, first.memory)
        assert second.kept == ((pod(), Guard.SESSION_OPEN),)

    def test_a_claim_on_another_pod_does_not_rename_the_pods_runner(self):
        others = by_name([claim("elsewhere", runner_name="linux-1", expires_at=NOW - TICK)])
        memory = remembered(pod(), names={"uid-linux-1": "jit-7"})
        busy = {"jit-7": IDLE._replace(busy=True), "linux-1": IDLE}
        assert guard_of(pod(), memory=memory, claims=others, runners=busy) is Guard.SESSION_OPEN


class TestClocks:
    """A pod's creation time is from the cluster's clock; that clock and the local one may each jump."""

    @pytest.mark.parametrize("ahead", [-3600.0, -300.0, 300.0, 3600.0])
    def test_the_age_of_a_pod_does_not_depend_on_the_clusters_clock_offset(self, ahead):
        theirs = NOW + ahead
        for age, guard in ((299.0, Guard.WITHIN_GRACE), (300.0, None)):
            found = pod(created_at=theirs - age, read_at=theirs, runner=Container("runner", ended=Ended(1)))
            memory = remembered(found, since_there={found.uid: theirs - 300})
            assert guard_of(found, memory=memory) is guard

    @pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
    def test_the_run_time_of_a_container_does_not_depend_on_the_clusters_clock_offset(self, ahead):
        run = Container("runner", running_since=NOW + ahead - 299)
        found = pod(created_at=NOW + ahead - 3600, read_at=NOW + ahead, runner=run)
        memory = remembered(found, since_there={found.uid: NOW + ahead - 300})
        assert guard_of(found, memory=memory) is Guard.JUST_STARTED

    def test_a_forward_jump_of_the_local_clock_does_not_lengthen_the_unclaimed_time(self):
        """Each jump is smaller than the limit that counts as a gap."""
        found = pod()
        first = leaks(tick_inputs(found), NOW, LIMITS, TickMemory())
        for minute, jump in ((1, 80.0), (2, 160.0), (3, 240.0), (4, 320.0)):
            ours = NOW + 60 * minute + jump
            again = tick_inputs(found._replace(read_at=NOW + 60 * minute), pods_at=ours, claims_at=ours)
            first = leaks(again, ours, LIMITS, first.memory)
            assert [guard for _, guard in first.kept] == [Guard.UNCLAIMED_BRIEFLY]
        last = tick_inputs(found._replace(read_at=NOW + 300), pods_at=NOW + 620, claims_at=NOW + 620)
        assert leaks(last, NOW + 620, LIMITS, first.memory).reap == tuple(last.pods)

    def test_a_forward_jump_of_the_clusters_clock_does_not_lengthen_the_unclaimed_time(self):
        found = pod(read_at=NOW + 9000, created_at=NOW - 9000)
        memory = remembered(found, for_seconds=299.0)
        assert guard_of(found, memory=memory) is Guard.UNCLAIMED_BRIEFLY

    def test_a_pod_without_a_read_time_counts_as_young(self):
        assert guard_of(pod(read_at=None)) is Guard.WITHIN_GRACE

    def test_a_memory_without_cluster_times_restarts_the_clock(self):
        assert guard_of(pod(), memory=remembered(pod(), since_there={})) is Guard.UNCLAIMED_BRIEFLY

    @pytest.mark.parametrize("behind", [0.0, 1000.0])
    def test_a_job_older_than_the_pod_does_not_overrule_the_session_by_either_clock(self, behind):
        """The job's start is by the local clock. The pod was created a minute later, by a clock that is `behind`."""
        made = NOW - 2000 + 60 - behind
        found = pod(created_at=made, read_at=NOW - behind)
        memory = remembered(found, since_there={found.uid: NOW - behind - 300})
        earlier = OVER._replace(job_started_at=NOW - 2000, over_at=NOW - 1900)
        assert guard_of(found, earlier, memory=memory) is Guard.REGISTERED


class TestGuards5To7Shields:
    def test_5_a_job_in_progress_by_delivery_keeps_the_pod(self):
        # A query of the job shows that it is over: the job is no claim any more, but it keeps the pod for 15 minutes.
        assert guard_of(pod(), IDLE._replace(running=True, over_at=NOW - 60, busy=False)) is Guard.JOB_BY_DELIVERY

    @pytest.mark.parametrize(
        ("busy", "online", "guard"),
        [
            (False, False, None),
            (True, False, Guard.SESSION_OPEN),
            (False, True, Guard.SESSION_OPEN),
            (None, True, Guard.GITHUB_UNKNOWN),
        ],
    )
    def test_6_a_session_at_github_and_an_unknown_one_keep_the_pod(self, busy, online, guard):
        assert guard_of(pod(), IDLE._replace(busy=busy, online=online)) is guard

    def test_6_a_runner_that_was_not_queried_is_not_idle(self):
        memory = remembered(pod(), names={"uid-linux-1": "linux-1"}, named={"uid-linux-1": NOW})
        assert guard_of(pod(), runners={}, memory=memory) is Guard.GITHUB_UNKNOWN

    @pytest.mark.parametrize(
        "container",
        [
            Container("runner", running_since=NOW - 3600),
            Container("runner", waiting="CrashLoopBackOff", last_ended=Ended(1)),
            Container("runner", ended=Ended(137)),
            Container("runner", ended=Ended(137, finished_at=NOW - 300)),
            Container("runner", ended=Ended(137, finished_at=NOW - 300 + MICROSECOND)),
            Container("runner", running_since=NOW - 3600, last_ended=Ended(1)),
        ],
        ids=[
            "runs",
            "waits for a restart",
            "ended at an unknown time",
            "ended long ago",
            "may be restarted",
            "restarted",
        ],
    )
    @pytest.mark.parametrize(
        "runner", [IDLE._replace(busy=True), IDLE._replace(busy=False, online=True)], ids=["busy", "online"]
    )
    def test_6_a_session_keeps_the_pod_whatever_its_container_shows(self, container, runner):
        assert guard_of(pod(runner=container), runner) is Guard.SESSION_OPEN

    @pytest.mark.parametrize(
        ("container", "guard"),
        [
            (Container("runner", ended=Ended(137)), None),
            (Container("runner", ended=Ended(137, finished_at=NOW - 300)), None),
            (Container("runner", ended=Ended(137, finished_at=NOW - 300 + MICROSECOND)), Guard.REGISTERED),
            (Container("runner", running_since=NOW - 3600, last_ended=Ended(1)), Guard.REGISTERED),
        ],
        ids=["ended at an unknown time", "ended long ago", "may be restarted", "restarted"],
    )
    def test_7_an_offline_registration_keeps_the_pod_unless_its_container_has_ended(self, container, guard):
        assert guard_of(pod(runner=container), IDLE._replace(registered=True)) is guard

    @pytest.mark.parametrize(("ran", "guard"), [(300.0, None), (300.0 - MICROSECOND, Guard.JUST_STARTED)])
    def test_7_a_container_that_just_started_keeps_its_pod(self, ran, guard):
        assert guard_of(pod(runner=Container("runner", running_since=NOW - ran))) is guard

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_7_a_pod_in_a_final_phase_has_ended_without_a_container_status(self, phase):
        assert guard_of(pod(phase=phase, runner=None), IDLE._replace(registered=True)) is None
        assert guard_of(pod(phase=phase, runner=None), IDLE._replace(busy=True)) is Guard.SESSION_OPEN


class TestSeveralContainersThatMayRunTheAgent:
    """No container is called `runner`, and the one that was taken for the agent's is a proxy."""

    RUNS = Container("agent", running_since=NOW - 3600)
    ENDED = Container("proxy", ended=Ended(0, finished_at=NOW - 3000))

    @pytest.mark.parametrize(
        ("others", "guard"),
        [
            ((), None),
            ((RUNS,), Guard.REGISTERED),
            ((ENDED._replace(name="log"), RUNS), Guard.REGISTERED),
            ((ENDED._replace(name="agent"),), None),
            ((Container("agent", ended=Ended(0, finished_at=NOW - 300 + MICROSECOND)),), Guard.REGISTERED),
            ((Container("agent", ended=Ended(0, finished_at=NOW - 300)),), None),
            ((Container("agent", waiting="CrashLoopBackOff", last_ended=Ended(1)),), Guard.REGISTERED),
            ((Container("agent", waiting="ImagePullBackOff"),), Guard.NEVER_STARTED),
            ((Container("agent"),), Guard.NEVER_STARTED),
            ((Container("agent", running_since=NOW - 300 + MICROSECOND),), Guard.JUST_STARTED),
        ],
        ids=[
            "it is the only container",
            "another one runs",
            "the third one runs",
            "all have ended",
            "another one may be restarted",
            "another one ended long ago",
            "another one waits for a restart",
            "another one waits for its image",
            "another one is not reported",
            "another one has just started",
        ],
    )
    def test_the_pod_has_ended_only_when_each_container_that_may_run_the_agent_has_ended(self, others, guard):
        found = pod(container="proxy", runner=self.ENDED, others=others)
        assert guard_of(found, IDLE._replace(registered=True)) is guard

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_a_container_that_runs_overrules_a_final_phase(self, phase):
        assert guard_of(pod(phase=phase, runner=self.ENDED), IDLE._replace(registered=True)) is None
        found = pod(phase=phase, runner=self.ENDED, others=(self.RUNS,))
        assert guard_of(found, IDLE._replace(registered=True)) is Guard.REGISTERED

    def test_an_unreported_container_beside_ended_ones_may_run(self):
        found = pod(container="proxy", runner=None, others=(self.ENDED,), phase="Running")
        assert guard_of(found, IDLE._replace(registered=True)) is Guard.NEVER_STARTED

    @pytest.mark.parametrize(("before", "guard"), [(0.0, None), (MICROSECOND, Guard.UNNAMED)])
    def test_the_runners_name_must_have_been_seen_since_the_last_start_of_any_of_them(self, before, guard):
        agent = Container("agent", running_since=NOW - 2000)
        found = pod(runner=Container("proxy", running_since=NOW - 3000), others=(agent,))
        assert guard_of(found, IDLE._replace(seen_at=NOW - 2000 - before)) is guard

    def test_an_absent_registration_releases_the_pod_while_a_container_runs(self):
        assert guard_of(pod(runner=self.ENDED, others=(self.RUNS,))) is None


OVER = IDLE._replace(job_started_at=NOW - 960, over_at=NOW - 900, ephemeral=True, registered=True)
"""Offline; its only job has been over for 15 minutes."""

RUNS = Container("runner", running_since=NOW - 3600)
ENDED = Container("runner", ended=Ended(0, started_at=NOW - 3600))


class TestGuard8TerminalJobs:
    @pytest.mark.parametrize(
        "runner",
        [
            OVER._replace(running=True),
            OVER,
            OVER._replace(registered=False, last_busy=True),
            OVER._replace(seen_at=None),
        ],
        ids=["in progress by delivery", "registered", "busy when last seen", "unnamed"],
    )
    def test_a_job_that_ended_long_ago_overrules_the_shields(self, runner):
        assert guard_of(pod(), runner) is None

    @pytest.mark.parametrize(
        ("over_for", "guard"), [(900.0, None), (900.0 - MICROSECOND, Guard.REGISTERED)], ids=["15 minutes", "less"]
    )
    def test_a_job_overrules_a_registration_15_minutes_after_its_end(self, over_for, guard):
        assert guard_of(pod(), OVER._replace(over_at=NOW - over_for)) is guard

    @pytest.mark.parametrize(
        ("over_for", "guard"), [(900.0, Guard.SESSION_AFTER_JOB), (900.0 - MICROSECOND, Guard.SESSION_OPEN)]
    )
    @pytest.mark.parametrize("session", [{"busy": True}, {"busy": False, "online": True}], ids=["busy", "online"])
    @pytest.mark.parametrize("container", [RUNS, ENDED], ids=["its container runs", "its container has ended"])
    def test_a_job_never_overrules_a_session(self, over_for, guard, session, container):
        runner = OVER._replace(over_at=NOW - over_for, **session)
        assert guard_of(pod(runner=container), runner) is guard

    def test_without_githubs_answer_a_job_overrules_only_for_a_container_that_has_ended(self):
        assert guard_of(pod(), OVER._replace(busy=None)) is Guard.GITHUB_UNKNOWN
        assert guard_of(pod(runner=ENDED), OVER._replace(busy=None)) is None

    @pytest.mark.parametrize("session", [{"busy": True}, {"busy": False, "online": True}], ids=["busy", "online"])
    @pytest.mark.parametrize("ephemeral", [False, None], ids=["persistent", "not stated by GitHub"])
    def test_a_runner_that_may_take_further_jobs_is_kept(self, session, ephemeral):
        runner = OVER._replace(ephemeral=ephemeral, **session)
        assert guard_of(pod(), runner) is Guard.SESSION_OPEN

    def test_a_runner_not_known_as_ephemeral_is_reaped_only_after_its_container_ended(self):
        runner = OVER._replace(ephemeral=None, busy=None)
        assert guard_of(pod(), runner) is Guard.GITHUB_UNKNOWN
        assert guard_of(pod(runner=Container("runner", ended=Ended(0))), runner) is None

    @pytest.mark.parametrize(("after", "guard"), [(0.0, None), (MICROSECOND, Guard.REGISTERED)])
    def test_a_job_older_than_the_containers_restart_overrules_nothing(self, after, guard):
        """The job ended during the present run: GitHub ends a crashed agent's job ten minutes after the crash."""
        started = Container("runner", running_since=NOW - 960 + after, last_ended=Ended(0))
        assert guard_of(pod(runner=started), OVER) is guard
        ended = Container("runner", ended=Ended(3, started_at=NOW - 960 + after, finished_at=NOW - 6), restarts=1)
        assert guard_of(pod(runner=ended), OVER) is guard

    @pytest.mark.parametrize(
        ("started_at", "completed_at", "guard"),
        [
            (NOW - 1700, NOW - 1600, None),
            (NOW - 1801, NOW - 1600, Guard.UNNAMED),
            (NOW - 1700, None, Guard.UNNAMED),
        ],
        ids=["in this run", "before this run", "without a time of its end"],
    )
    def test_a_job_queried_at_github_is_dated_by_its_end_and_not_by_the_query(self, started_at, completed_at, guard):
        """The container restarted half an hour ago, under an unknown runner name; GitHub was queried after that."""
        busy = present(busy=True, ephemeral=True, observed_at=NOW - 7200)
        found = job_found_over(job_started(busy, 5, started_at), 5, NOW - 1000, completed_at)
        runner = runner_activity(found._replace(listed=False, absent_since=NOW - 7000), survey(), NOW, 300.0)
        restarted = Container("runner", running_since=NOW - 1800, last_ended=Ended(0), restarts=1)
        shielded = runner._replace(seen_at=None)
        assert guard_of(pod(created_at=NOW - 9000, runner=restarted), shielded) is guard

    def test_a_job_of_unknown_start_overrules_nothing(self):
        assert guard_of(pod(), OVER._replace(job_started_at=None)) is Guard.REGISTERED

    def test_a_finished_job_overrules_nothing_while_github_data_is_stale(self):
        assert guard_of(pod(), OVER, github_stale=True) is Guard.GITHUB_STALE

    @pytest.mark.parametrize(("born", "guard"), [(0.0, None), (MICROSECOND, Guard.REGISTERED)])
    def test_a_job_older_than_the_pod_overrules_nothing(self, born, guard):
        started_at = NOW - 2000.0
        reborn = pod(
            created_at=started_at + born, runner=Container("runner", waiting="Restarting", last_ended=Ended(0))
        )
        over = OVER._replace(job_started_at=started_at, over_at=NOW - 1900)
        assert guard_of(reborn, over) is guard

    def test_a_finished_job_overrules_neither_age_nor_the_unclaimed_time_nor_deletion(self):
        young = pod(created_at=NOW - 299)
        assert guard_of(young, OVER) is Guard.WITHIN_GRACE
        assert guard_of(pod(), OVER, memory=TickMemory()) is Guard.UNCLAIMED_BRIEFLY
        assert guard_of(pod(deleting_since=NOW), OVER) is Guard.DELETING


class TestAPausedPool:
    def test_leaks_of_a_paused_pool_are_kept_and_their_clocks_continue(self):
        both = [pod(), pod("linux-2")]
        memory = remembered(*both, names={"uid-linux-1": "agent-7"}, named={"uid-linux-1": NOW - 600})
        seen = tick_inputs(*both, paused=frozenset({"uid-linux-1"}))
        reaping = leaks(seen, NOW, LIMITS, memory)
        assert (reaping.reap, reaping.kept) == ((both[1],), ((both[0], Guard.PAUSED),))
        after = reaping.memory
        assert (after.names["uid-linux-1"], after.named["uid-linux-1"]) == ("agent-7", NOW - 600)
        assert after.since["uid-linux-1"] == after.since_there["uid-linux-1"] == NOW - 300

    def test_a_terminating_pod_of_a_paused_pool_is_kept_as_deleting(self):
        assert guard_of(pod(deleting_since=NOW), paused=frozenset({"uid-linux-1"})) is Guard.DELETING


class TestGuard9PerTick:
    @pytest.mark.parametrize(("many", "deferred"), [(25, 0), (26, 1), (60, 35)])
    def test_the_oldest_25_are_reaped_and_the_others_are_deferred(self, many, deferred):
        pods = [pod(f"linux-{each:02}", created_at=NOW - 3600 + each) for each in range(many)]
        reaping = leaks(tick_inputs(*reversed(pods), fuse=NO_FUSE), NOW, LIMITS, remembered(*pods))
        assert reaping.reap == tuple(pods[:25])
        assert reaping.deferred == tuple(pods[25:])
        assert len(reaping.deferred) == deferred

    def test_deferred_pods_are_reaped_at_the_next_tick(self):
        pods = [pod(f"linux-{each:02}") for each in range(26)]
        first = leaks(tick_inputs(*pods, fuse=NO_FUSE), NOW, LIMITS, remembered(*pods))
        now = NOW + TICK
        rest = tick_inputs(*first.deferred, pods_at=now, claims_at=now)
        assert leaks(rest, now, LIMITS, first.memory).reap == first.deferred


class TestGuard10KillSwitch:
    def test_mode_off_skips_the_tick_and_starts_no_clock(self):
        reaping = leaks(tick_inputs(pod()), NOW, LeakLimits(mode="off"), remembered(pod()))
        assert (reaping.reap, reaping.would_reap, reaping.skipped, reaping.memory) == (
            (),
            (),
            Guard.OFF,
            TickMemory(),
        )

    def test_dry_run_reports_what_it_would_reap_and_reaps_nothing(self):
        pods = [pod(f"linux-{each:02}") for each in range(26)]
        reaping = leaks(tick_inputs(*pods, fuse=NO_FUSE), NOW, LeakLimits(mode="dry-run"), remembered(*pods))
        assert (reaping.reap, len(reaping.would_reap), len(reaping.deferred)) == ((), 25, 1)


class TestGuard11DeletingAndArc:
    def test_a_terminating_pod_is_kept(self):
        assert guard_of(pod(deleting_since=NOW - 3600)) is Guard.DELETING

    def test_a_pod_of_arcs_is_never_deleted(self):
        assert guard_of(pod(owners=(Owner("EphemeralRunner", "linux-1", "o"),))) is Guard.POD_OF_ARC
        assert guard_of(pod(owners=(Owner("ReplicaSet", "linux", "o"),))) is None


class TestGuard12ARunnersPod:
    """In this cluster the label has another use too: a database has it."""

    DATABASE = pod("database", container="postgres", runner=Container("postgres", running_since=NOW - 3600))

    def test_a_stamped_pod_that_was_never_a_runner_is_kept(self):
        assert guard_of(self.DATABASE, RunnerActivity(busy=False)) is Guard.NO_RUNNER

    @pytest.mark.parametrize("known_by", ["GitHub", "a claim that has run out"])
    def test_a_pod_without_the_runner_container_is_a_runner_if_github_or_a_claim_names_it(self, known_by):
        claims = {} if known_by == "GitHub" else by_name([claim("database", expires_at=NOW - 600)])
        assert guard_of(self.DATABASE, IDLE._replace(is_known=known_by == "GitHub"), claims=claims) is None

    def test_a_pod_once_known_as_a_runner_stays_a_runner_by_its_uid(self):
        before = leaks(
            tick_inputs(self.DATABASE, claims=by_name([claim("database")])), NOW, LIMITS, TickMemory()
        ).memory
        memory = {"runners": before.runners, "names": before.names, "named": before.named}
        unknown = RunnerActivity(busy=False)
        assert guard_of(self.DATABASE, unknown, memory=remembered(self.DATABASE, **memory)) is None
        successor = self.DATABASE._replace(uid="another")
        assert guard_of(successor, unknown, memory=remembered(successor, **memory)) is Guard.NO_RUNNER

    def test_a_pod_without_a_container_status_is_a_runner_by_its_spec(self):
        ended = {"runner": None, "phase": "Failed"}
        assert guard_of(pod(**ended), RunnerActivity(busy=False)) is None
        assert guard_of(pod(container="postgres", **ended), RunnerActivity(busy=False)) is Guard.NO_RUNNER


class TestGuard13Registered:
    OFFLINE = IDLE._replace(registered=True, absent_seconds=None, seen_at=NOW)

    def test_a_registered_runner_that_is_offline_is_kept(self):
        assert guard_of(pod(), self.OFFLINE) is Guard.REGISTERED

    def test_an_offline_registered_runner_is_reaped_once_its_container_ended(self):
        assert guard_of(pod(runner=Container("runner", ended=Ended(0))), self.OFFLINE) is None

    def test_a_runner_offline_for_longer_than_its_pool_allows_is_reaped_without_a_session(self):
        overdue = self.OFFLINE._replace(offline_too_long=True)
        assert guard_of(pod(), overdue) is None
        assert guard_of(pod(), overdue._replace(online=True)) is Guard.SESSION_OPEN
        assert guard_of(pod(), overdue._replace(busy=True)) is Guard.SESSION_OPEN


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
            ({"absent_since": None, "missing_at": None, "listed": True}, False),
            ({"absent_since": None, "missing_at": None, "removed_at": NOW - 7}, False),
            ({"absent_since": NOW - HOLD_SECONDS, "missing_at": None}, False),
            ({"absent_since": NOW - HOLD_SECONDS + MICROSECOND, "missing_at": None}, True),
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
        same_name = [lost(1), lost(2, absent_since=NOW - 7000, missing_at=None)]
        for records in (same_name, same_name[::-1]):
            assert combined_activity(records, (), survey(), NOW, STALE, gaps=gap(0.0)).awaits_deliveries


def reaped_pod(name="linux-1", pool="linux", **changes):
    """A pod that was reaped a moment ago."""
    row = ReapedPod(f"uid-{name}", pool, "runners", name, name, was_registered=False, at=NOW - 1)
    return row._replace(**changes)


class TestGuard18TheFuse:
    """32 pods of one pool: seven leaks reach a threshold of a fifth."""

    LIMITS = FuseLimits()

    def held(self, leaking, of=32, reaped=0, pools=(), not_closed=()):
        """The number of pods reaped, and the guards that hold the other leaks."""
        pods = [pod(f"linux-{number:02}", created_at=NOW - 3600 + number) for number in range(of)]
        alive = IDLE._replace(registered=True)
        runners = {each.name: IDLE if number < leaking else alive for number, each in enumerate(pods)}
        names = dict(zip((each.uid for each in pods), pools, strict=False)) or {each.uid: "linux" for each in pods}
        counted = reaped if isinstance(reaped, dict) else {"linux": reaped}
        rows = [reaped_pod(f"{pool}-{each}", pool) for pool, count in counted.items() for each in range(count)]
        view = FuseView(self.LIMITS, names, rows, frozenset(pods[number].uid for number in not_closed))
        reaping = leaks(tick_inputs(*pods, runners=runners, fuse=view), NOW, LIMITS, remembered(*pods))
        assert len(reaping.reap) + len(reaping.held) == leaking
        assert reaping.reap == tuple(pods[: len(reaping.reap)]) or not_closed or pools
        return len(reaping.reap), {guard for _, guard in reaping.held}

    @pytest.mark.parametrize(
        ("leaking", "reaped", "reap"),
        [(6, 0, 6), (7, 0, 3), (32, 0, 3), (5, 1, 5), (6, 1, 2), (5, 2, 1), (4, 3, 0), (1, 30, 0), (3, 3, 3)],
    )
    def test_from_the_threshold_on_the_first_batch_is_reaped_first(self, leaking, reaped, reap):
        assert self.held(leaking, reaped=reaped) == (reap, {Guard.MASS_LEAK} if reap < leaking else set())

    @pytest.mark.parametrize(("of", "leaking", "reap"), [(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 3), (5, 3, 3)])
    def test_in_a_small_fleet_no_more_than_the_floor_is_reaped(self, of, leaking, reap):
        assert self.held(leaking, of=of)[0] == reap

    def test_single_pods_are_reaped_until_the_floor_is_reached(self):
        assert [self.held(1, of=1, reaped=reaped)[0] for reaped in range(5)] == [1, 1, 1, 0, 0]

    def test_many_small_pools_are_counted_together(self):
        pools = [f"pool-{number % 10}" for number in range(32)]
        assert self.held(7, pools=pools) == (3, {Guard.MASS_LEAK})
        assert self.held(6, pools=pools) == (6, set())
        assert self.held(6, pools=pools, reaped={"gone": 1}) == (2, {Guard.MASS_LEAK})

    def test_a_small_pool_is_also_counted_alone(self):
        pools = ["small"] * 4 + ["large"] * 28
        assert self.held(4, pools=pools) == (3, {Guard.MASS_LEAK})
        assert self.held(5, pools=pools) == (4, {Guard.MASS_LEAK}), "the fifth pod belongs to the large pool"

    def test_the_fuses_of_the_reaper_are_returned_and_followed(self):
        pods = [pod(f"linux-{number:02}", created_at=NOW - 3600 + number) for number in range(32)]
        seen = tick_inputs(*pods, fuse=FuseView(self.LIMITS), survey=survey())
        first = leaks(seen, NOW, LIMITS, remembered(*pods))
        tripped = LeakFuse(Position.PROVING, NOW - 600, 3, 3)
        assert (first.fuses, len(first.reap)) == ({"": tripped, "*": tripped}, 3)
        deleted = [reaped_pod(each.name, "", at=NOW) for each in pods[:3]]
        later = FuseView(self.LIMITS, reaped=deleted, fuses=first.fuses)
        again = leaks(tick_inputs(*pods[3:], fuse=later, survey=survey()), NOW, LIMITS, remembered(*pods[3:]))
        assert (again.fuses, again.reap, len(again.held)) == (first.fuses, (), 29), "a second tick deletes no more"

    def test_while_github_cannot_be_seen_the_fuses_stay_as_they_are(self):
        fuses = {"*": LeakFuse(Position.PROVING, NOW - 9000, 3, 3)}
        view = FuseView(self.LIMITS, fuses=fuses)
        assert leaks(tick_inputs(pod(), fuse=view, github_stale=True), NOW, LIMITS, remembered(pod())).fuses == fuses
        assert leaks(tick_inputs(fuse=view, survey=survey()), NOW, LIMITS, TickMemory()).fuses == {"*": LeakFuse()}

    @pytest.mark.parametrize(
        ("stopped", "reaped"),
        [("small", 2), ("large", 2), ("*", 0), ("gone", 4)],
        ids=["one", "another", "all", "gone"],
    )
    def test_a_pool_that_the_reapers_fuse_has_stopped_holds_back_itself_alone(self, stopped, reaped):
        pods = [pod(f"linux-{number}") for number in range(4)]
        pools = {each.uid: "small" if number < 2 else "large" for number, each in enumerate(pods)}
        view = FuseView(FuseLimits(floor=9), pools, fuses={stopped: LeakFuse(Position.STOPPED, NOW, 3, 3)})
        reaping = leaks(tick_inputs(*pods, fuse=view, survey=survey()), NOW, LIMITS, remembered(*pods))
        assert len(reaping.reap) == reaped
        assert {guard for _, guard in reaping.held} == ({Guard.REAPER_STOPPED} if reaped < 4 else set())

    def test_what_stopped_one_pool_does_not_stop_the_installation(self):
        pods = [pod(f"linux-{number}") for number in range(8)]
        pools = {each.uid: "small" if number < 4 else "large" for number, each in enumerate(pods)}
        proving = LeakFuse(Position.PROVING, NOW - 600, 3, 3)
        rows = [reaped_pod("linux-9", "small")]
        in_use = {"uid-linux-9": StopReason.RUNNER_RETURNED}
        view = FuseView(self.LIMITS, pools, rows, fuses={"small": proving, "*": proving}, in_use=in_use)
        reaping = leaks(tick_inputs(*pods, fuse=view, survey=survey()), NOW, LIMITS, remembered(*pods))
        assert (reaping.fuses["small"].position, reaping.fuses["*"]) == (Position.STOPPED, proving)
        assert [each.name for each in reaping.reap] == ["linux-4", "linux-5", "linux-6"]

    def test_no_pod_of_a_pool_is_reaped_while_the_pools_fuse_is_not_closed(self):
        assert self.held(2, not_closed=range(32)) == (0, {Guard.FUSE_NOT_CLOSED})
        assert self.held(2, not_closed=[1]) == (1, {Guard.FUSE_NOT_CLOSED})

    def test_terminating_pods_and_pods_without_runners_do_not_count_as_expected(self):
        there = [pod(f"linux-{number}") for number in range(4)]
        others = [pod(f"gone-{number}", deleting_since=NOW) for number in range(28)]
        not_runners = [TestGuard12ARunnersPod.DATABASE._replace(name=f"db-{n}", uid=f"db-{n}") for n in range(28)]
        runners = {each.name: IDLE for each in there}
        seen = tick_inputs(*there, *others, *not_runners, runners=runners)
        reaping = leaks(seen, NOW, LIMITS, remembered(*there, *others, *not_runners))
        assert (len(reaping.reap), len(reaping.held)) == (3, 1)

    def test_leaks_that_were_not_queried_at_github_count_for_the_fuse(self):
        pods = [pod(f"linux-{number:02}", created_at=NOW - 3600 + number) for number in range(32)]
        unknown = IDLE._replace(busy=None)
        runners = {each.name: IDLE if number < 6 else unknown for number, each in enumerate(pods)}
        seen = tick_inputs(*pods, runners=runners, unasked=frozenset({pods[6].uid}))
        reaping = leaks(seen, NOW, LIMITS, remembered(*pods))
        assert (reaping.reap, [each for each, _ in reaping.held]) == (tuple(pods[:3]), pods[3:7])
        assert len(reaping.kept) == 25


STALE = 300.0
THERE = {"listed": True, "absent_since": None, "missing_at": None}


class TestRunnerActivity:
    @pytest.mark.parametrize(
        ("evidence", "busy"),
        [
            (None, False),
            (online(busy=True), True),
            (online(), False),
            (present(busy=True), True),
            (lost(busy=True), False),
            (online(busy=True, listed=False, absent_since=NOW, observed_at=NOW - 9999), False),
            (online(missing_from_partial_list_at=NOW), None),
            (lost(missing_from_partial_list_at=NOW - 120), False),
            (online(registered=False), None),
            (online(listed=False), None),
            (online(listed=False, removed_at=NOW), False),
            (online(listed=False, retired_at=NOW), False),
        ],
        ids=[
            "unknown",
            "busy",
            "idle",
            "busy and offline",
            "absent",
            "absent for long",
            "missing from a partial list",
            "missing from a partial list, and then absent",
            "known by deliveries alone",
            "not in the last list",
            "removed",
            "retired",
        ],
    )
    def test_busy_is_read_from_fresh_github_data(self, evidence, busy):
        assert runner_activity(evidence, survey(), NOW, STALE).busy is busy

    @pytest.mark.parametrize(
        ("evidence", "is_online"),
        [
            (online(), True),
            (present(), False),
            (online(listed=False, removed_at=NOW), False),
            (lost(online=True), False),
        ],
        ids=["online", "offline", "removed", "absent"],
    )
    def test_online_is_read_from_fresh_github_data(self, evidence, is_online):
        assert runner_activity(evidence, survey(), NOW, STALE).online is is_online

    @pytest.mark.parametrize(("age", "is_fresh"), [(STALE, True), (STALE + 1e-3, False), (None, False)])
    @pytest.mark.parametrize("evidence", [None, online(observed_at=0.0), lost()], ids=["unknown", "idle", "absent"])
    def test_busy_is_unknown_without_a_fresh_list(self, evidence, age, is_fresh):
        swept_at = None if age is None else NOW - age
        activity = runner_activity(evidence, survey(swept_at=swept_at), NOW, STALE)
        assert activity.busy is (False if is_fresh else None)

    @pytest.mark.parametrize(
        ("changes", "running", "over_at"),
        [
            ({}, False, None),
            ({"job_id": 3, "job_started_at": NOW}, True, None),
            ({"job_id": 3, "job_started_at": NOW - 5, "job_ended_at": NOW}, False, NOW),
        ],
        ids=["no job", "in progress", "completed"],
    )
    def test_deliveries_show_a_job_in_progress_or_over(self, changes, running, over_at):
        activity = runner_activity(online(ephemeral=True, **changes), survey(), NOW, STALE)
        assert (activity.running, activity.over_at, activity.ephemeral) == (running, over_at, True)

    @pytest.mark.parametrize(
        ("evidence", "registered"),
        [
            (online(), True),
            (present(), True),
            (online(missing_from_partial_list_at=NOW), False),
            (lost(), False),
            (None, False),
        ],
        ids=["online", "offline", "missing from a partial list", "absent", "unknown"],
    )
    def test_registered_is_read_from_github_data(self, evidence, registered):
        assert runner_activity(evidence, survey(), NOW, STALE).registered is registered

    def test_an_old_list_shows_no_registration(self):
        assert not runner_activity(present(observed_at=0.0), survey(swept_at=NOW - STALE - 1), NOW, STALE).registered

    @pytest.mark.parametrize(
        ("patience", "blind", "too_long"),
        [
            (None, (), False),
            (3600.0, (), True),
            (3600.0 + MICROSECOND, (), False),
            (3600.0, ((NOW - 100, NOW - 99),), False),
        ],
        ids=["never replaced", "after an hour", "after more than an hour", "a second without lists"],
    )
    def test_offline_too_long_uses_the_pools_limit_and_counts_only_time_covered_by_lists(
        self, patience, blind, too_long
    ):
        activity = runner_activity(
            present(offline_since=NOW - 3600), survey(blind=blind), NOW, STALE, lambda _: patience
        )
        assert activity.offline_too_long is too_long

    @pytest.mark.parametrize(
        ("changes", "last_busy"),
        [
            ({"busy": True}, True),
            ({"busy": False}, False),
            ({"busy": True, "job_id": 3, "job_started_at": NOW - 99}, False),
            ({"busy": True, "job_id": 3, "job_ended_at": NOW - 99, "ephemeral": True}, False),
            ({"busy": True, "job_id": 3, "job_ended_at": NOW - 99, "ephemeral": None}, True),
            ({"busy": True, "absent_since": None, "missing_at": None, "listed": True}, False),
        ],
        ids=["busy", "idle", "its job is known", "its only job is over", "an earlier job is over", "still listed"],
    )
    def test_a_runner_busy_when_last_seen_without_a_known_job_end_may_be_working(self, changes, last_busy):
        assert runner_activity(lost(**changes), survey(), NOW, STALE).last_busy is last_busy

    @pytest.mark.parametrize(
        ("evidence", "seconds"),
        [
            (lost(), 60.0),
            (online(), None),
            (online(listed=False), None),
            (online(listed=False, removed_at=NOW - 7), 7.0),
            (online(listed=False, retired_at=NOW - 8), 8.0),
            (None, None),
        ],
        ids=["absent", "listed", "not in the last list", "removed", "retired", "unknown"],
    )
    def test_absence_lasts_since_the_earliest_proof(self, evidence, seconds):
        assert runner_activity(evidence, survey(), NOW, STALE).absent_seconds == seconds

    def test_time_not_covered_by_lists_does_not_lengthen_an_absence(self):
        assert runner_activity(lost(), survey(blind=((NOW - 50, NOW - 10),)), NOW, STALE).absent_seconds == 20.0

    @pytest.mark.parametrize(
        ("changes", "seen_at"),
        [
            ({**THERE, "online": True}, NOW),
            ({**THERE, "busy": True}, NOW),
            (THERE, NOW - 900),
            ({}, NOW - 900),
            ({"job_started_at": NOW - 400}, NOW - 400),
            ({"job_started_at": NOW - 800, "job_ended_at": NOW - 60, "last_delivery_at": NOW - 60}, NOW - 800),
            ({"registered": False, "job_started_at": NOW}, None),
            ({**THERE, "was_online": False}, None),
        ],
        ids=[
            "online",
            "busy",
            "offline",
            "absent",
            "by the job's start",
            "not by the job's end",
            "by deliveries alone",
            "never online",
        ],
    )
    def test_seen_at_is_the_last_time_at_which_the_runner_was_connected(self, changes, seen_at):
        assert runner_activity(lost(first_seen=NOW - 900, **changes), survey(), NOW, STALE).seen_at == seen_at


pods_of_any_kind = st.builds(
    pod,
    name=st.sampled_from([f"linux-{each}" for each in range(6)]),
    created_at=st.floats(NOW - 1000, NOW + 100),
    deleting_since=st.none() | st.just(NOW),
    labels=st.sampled_from([LABEL, {}]),
    runner=st.sampled_from([None, Container("runner", running_since=NOW - 500), Container("runner", ended=Ended(1))]),
)
runners_of_any_kind = st.builds(
    RunnerActivity,
    running=st.booleans(),
    over_at=st.none() | st.floats(NOW - 2000, NOW),
    job_started_at=st.none() | st.floats(NOW - 2000, NOW),
    busy=st.none() | st.booleans(),
    ephemeral=st.none() | st.booleans(),
    online=st.booleans(),
    registered=st.booleans(),
    offline_too_long=st.booleans(),
    last_busy=st.booleans(),
    absent_seconds=st.none() | st.floats(0, 1000),
    seen_at=st.none() | st.floats(NOW - 1000, NOW),
)


@given(
    st.lists(pods_of_any_kind, unique_by=lambda each: each.name, max_size=6),
    st.dictionaries(st.sampled_from([f"linux-{each}" for each in range(6)]), runners_of_any_kind),
    st.sets(st.sampled_from([f"linux-{each}" for each in range(6)])),
    st.integers(0, 6),
)
def test_every_stamped_pod_is_reaped_deferred_or_kept_and_never_a_claimed_one(pods, runners, claimed, per_tick):
    seen = tick_inputs(*pods, runners=runners, claims=by_name([claim(each) for each in claimed]))
    reaping = leaks(seen, NOW, LeakLimits(mode="act", per_tick=per_tick), remembered(*pods))
    stamped = [each for each in pods if each.labels]
    held = [each for each, _ in reaping.held]
    parts = [*reaping.reap, *reaping.deferred, *held, *(each for each, _ in reaping.kept)]
    if reaping.skipped is None:
        assert sorted(each.uid for each in parts) == sorted(each.uid for each in stamped)
        assert not reaping.deferred or len(reaping.reap) == per_tick
        assert len(reaping.reap) <= 3 or not held
    else:
        assert parts == []
    for each in [*reaping.reap, *reaping.deferred, *held]:
        runner = runners.get(each.name, RunnerActivity())
        assert each.name not in claimed
        assert each.deleting_since is None
        assert NOW - each.created_at >= LIMITS.grace_seconds
        is_shown_idle = runner.has_session is False and not runner.running
        assert is_shown_idle or runner.over_at is not None or each.runner.ended
        assert runner.ephemeral is not False or (not runner.running and runner.busy is not None)
        assert each.runner is not None
        is_over = runner.over_at is not None and runner.ephemeral is True
        assert each.runner.ended or is_over or not runner.registered or runner.offline_too_long
        assert each.runner.ended or is_over or (runner.seen_at or 0.0) >= each.runner.running_since


@given(st.lists(st.sampled_from(["unclaimed", "claimed", "bad", "missed"]), min_size=1, max_size=40))
def test_a_pod_is_reaped_after_a_whole_grace_of_ticks_without_a_claim(story):
    memory, now, unclaimed_since = TickMemory(), NOW, None
    steady = by_name([claim("another", expires_at=NOW + 99_999)])
    last_good = None
    for tick in story:
        now += TICK
        if tick == "missed":
            continue
        claims = {**steady, **(by_name([claim(expires_at=NOW + 99_999)]) if tick == "claimed" else {})}
        seen = tick_inputs(pod(read_at=now), pods_at=now, claims_at=now, claims=claims, complete=tick != "bad")
        reaping = leaks(seen, now, LIMITS, memory)
        memory = reaping.memory
        if tick != "bad":
            had_gap = last_good is not None and now - last_good > 150.0
            unclaimed_since = (
                None if tick == "claimed" else now if unclaimed_since is None or had_gap else unclaimed_since
            )
            last_good = now
        due = tick == "unclaimed" and unclaimed_since is not None and now - unclaimed_since >= 300.0
        assert bool(reaping.reap) is due
