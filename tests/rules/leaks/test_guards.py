"""Decides which stamped pods are leaks, and which guard keeps each of the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.leaks.guards import ENDING_SECONDS, FuseView, Guard, LeakLimits, TickMemory, leaks
from ghapp.leaks.runner_activity import RunnerActivity, runner_activity
from ghapp.pods.pod import Container, Ended, Owner
from ghapp.pods.pod_claim import by_name
from ghapp.remediation.fuse import FuseLimits
from ghapp.runners.observations import job_found_over, job_started
from tests.rules.builders import MICROSECOND, NOW, present, survey
from tests.rules.leaks.builders import (
    DATABASE,
    ENDED,
    IDLE,
    LABEL,
    LIMITS,
    TICK,
    claim,
    guard_of,
    pod,
    remembered,
    tick_inputs,
)

NO_FUSE = FuseView(FuseLimits(floor=10_000))


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

    def test_a_stamped_pod_that_was_never_a_runner_is_kept(self):
        assert guard_of(DATABASE, RunnerActivity(busy=False)) is Guard.NO_RUNNER

    @pytest.mark.parametrize("known_by", ["GitHub", "a claim that has run out"])
    def test_a_pod_without_the_runner_container_is_a_runner_if_github_or_a_claim_names_it(self, known_by):
        claims = {} if known_by == "GitHub" else by_name([claim("database", expires_at=NOW - 600)])
        assert guard_of(DATABASE, IDLE._replace(is_known=known_by == "GitHub"), claims=claims) is None

    def test_a_pod_once_known_as_a_runner_stays_a_runner_by_its_uid(self):
        before = leaks(tick_inputs(DATABASE, claims=by_name([claim("database")])), NOW, LIMITS, TickMemory()).memory
        memory = {"runners": before.runners, "names": before.names, "named": before.named}
        unknown = RunnerActivity(busy=False)
        assert guard_of(DATABASE, unknown, memory=remembered(DATABASE, **memory)) is None
        successor = DATABASE._replace(uid="another")
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


LEAK = pod()
SPENT = IDLE._replace(over_at=NOW - ENDING_SECONDS, job_started_at=NOW - 200, ephemeral=True, absent_seconds=40.0)
"""A runner whose only job ended a moment ago, and that GitHub does not list any more."""


@pytest.mark.parametrize(
    ("changes", "is_spent"),
    [
        ({}, True),
        ({"ephemeral": None}, True),
        ({"ephemeral": False}, False),
        ({"over_at": NOW - ENDING_SECONDS + MICROSECOND}, False),
        ({"over_at": None}, False),
        ({"running": True}, False),
        ({"registered": True}, False),
        ({"online": True}, False),
        ({"busy": True}, False),
        ({"busy": None}, False),
        ({"job_started_at": None}, False),
        ({"job_started_at": NOW - 3601}, False),  # of an earlier run of the container
    ],
)
def test_a_pod_whose_runners_only_job_is_over_is_named_while_its_grace_lasts(changes, is_spent):
    seen = tick_inputs(LEAK, runners={LEAK.name: SPENT._replace(**changes)})
    reaping = leaks(seen, NOW, LIMITS, remembered(LEAK, for_seconds=60.0))
    assert reaping.kept == ((LEAK, Guard.UNCLAIMED_BRIEFLY),)
    assert reaping.spent == ({LEAK.uid} if is_spent else frozenset())


@pytest.mark.parametrize(
    "changes",
    [{"claims": {"linux-1": claim()}}, {"pods": (pod(deleting_since=NOW - 1),)}, {"paused": {"uid-linux-1"}}],
    ids=["claimed", "being deleted", "paused"],
)
def test_a_pod_that_something_else_keeps_does_not_only_wait(changes):
    seen = tick_inputs(LEAK, **{"runners": {LEAK.name: SPENT}, **changes})
    assert leaks(seen, NOW, LIMITS, remembered(LEAK, for_seconds=60.0)).spent == frozenset()
