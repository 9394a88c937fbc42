"""The guard of the fuse: of many leaks at once, a batch is reaped."""

import pytest

from ghapp.leaks.guards import FuseView, Guard, TickMemory, leaks
from ghapp.leaks.leak_fuse import LeakFuse, ReapedPod, StopReason
from ghapp.remediation.fuse import FuseLimits, Position
from tests.rules.builders import NOW, survey
from tests.rules.leaks.builders import (
    DATABASE,
    IDLE,
    LIMITS,
    pod,
    remembered,
    tick_inputs,
)


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
        not_runners = [DATABASE._replace(name=f"db-{n}", uid=f"db-{n}") for n in range(28)]
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
