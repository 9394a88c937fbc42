"""One rate limit budget for each installation, shared by all processes."""

import asyncio
import time
from collections import Counter
from dataclasses import replace
from email.utils import formatdate

import pytest

from ghapp.errors import BudgetSpentError, SpentLimit
from ghapp.installations.pacing import (
    MOST_IN_FLIGHT,
    MOST_POINTS,
    SWEEPING_POINTS,
    Allowance,
    BudgetLimits,
    CallLimits,
    Purpose,
    call_limits,
    token_limits,
)
from ghapp.store import budget as module
from ghapp.store import keys
from ghapp.store.budget import (
    COST_LASTS_SECONDS,
    FAR_SECONDS,
    FLIGHT_SECONDS,
    LEAST_WAIT_SECONDS,
    TURN_LASTS_SECONDS,
    Budget,
    skew,
)

ORG = 7
RESET = 1_790_000_100
NOW = RESET - 100.0


class Clock:
    def __init__(self, now=NOW):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def budget(redis, clock):
    return Budget(redis, clock)


def headers(used, reset=RESET, limit=5000):
    return {"x-ratelimit-limit": str(limit), "x-ratelimit-used": str(used), "x-ratelimit-reset": str(reset)}


async def record_answer(budget, text):
    await budget.leave(ORG, "no such flight", text)


async def test_each_scope_with_one_limit_learns_what_the_sweeps_of_the_others_cost(budget, redis):
    assert await budget.share_with_others(ORG, ORG, 60.0, NOW) == 0.0
    assert await budget.share_with_others(ORG, -3, 30.0, NOW + 1) == 60.0
    assert await budget.share_with_others(ORG, -4, 0.5, NOW + 2) == 90.0
    assert await budget.share_with_others(ORG, -3, 0.0, NOW + 3) == 60.5
    await redis.hset(keys.sweep_costs(ORG), "-5", b"\xff")
    assert await budget.share_with_others(ORG, ORG, 60.0, NOW + 4) == 0.5
    assert await budget.share_with_others(ORG, -3, 0.0, NOW + 4 + COST_LASTS_SECONDS) == 60.0, "-4 is no scope any more"
    assert await redis.hkeys(keys.sweep_costs(ORG)) == [str(ORG).encode(), b"-3", b"-5"]


async def test_the_limits_of_a_thousand_and_one_installations_are_read_by_one_command(budget, redis):
    ids = range(1, 1002)
    for each in ids[:-1]:  # the last has no answer yet
        await redis.hset(keys.budget(each), mapping={"limit": 5000, "used": each, "reset": RESET, "skew": 0})
    await redis.config_resetstat()
    found = await budget.left_of(ids, NOW)
    commands = await redis.info("commandstats")
    assert commands["cmdstat_evalsha"]["calls"] <= 2, "once more if Redis did not have the script"
    assert found == {each: Allowance(5000, each, 100.0) for each in ids[:-1]} | {1001: Allowance()}
    await redis.hset(keys.budget(2), "used", b"\xc1 unreadable")
    assert await budget.left_of([1, 2], NOW) == {1: found[1], 2: Allowance()}


class TestRateLimitHeaders:
    @pytest.mark.parametrize("order", [(9, 10, 99), (99, 10, 9), (10, 99, 9)])
    async def test_within_one_hour_the_largest_used_value_is_kept(self, budget, order):
        for used in order:
            await record_answer(budget, headers(used))
        assert await budget.left(ORG, NOW) == Allowance(limit=5000, used=99, resets_in=100.0)

    async def test_a_new_hour_resets_the_budget_and_headers_of_the_previous_hour_are_ignored(self, budget):
        for text in (headers(4000), headers(1, RESET + 3600, 15_000), headers(4001)):
            await record_answer(budget, text)
        assert await budget.left(ORG, RESET) == Allowance(limit=15_000, used=1, resets_in=3600.0)

    @pytest.mark.parametrize(("now", "used", "left"), [(RESET - 0.5, 99, 0.5), (RESET, 0, 0.0), (RESET + 1.0, 0, 0.0)])
    async def test_a_budget_is_full_again_when_its_hour_is_over(self, budget, now, used, left):
        await record_answer(budget, headers(99))
        assert await budget.left(ORG, now) == Allowance(limit=5000, used=used, resets_in=left)

    @pytest.mark.parametrize(
        "text",
        [
            {},
            {"x-ratelimit-used": "1"},
            *(
                {**headers(1), f"x-ratelimit-{name}": value}
                for name in ("limit", "used", "reset")
                for value in ("", "soon", "1.5", "-1", "1, 1", "²", "٣", "9" * 400)
            ),
        ],
    )
    async def test_answers_without_rate_limit_headers_change_nothing(self, redis, budget, text):
        await record_answer(budget, text)
        assert await budget.left(ORG, NOW) == Allowance()
        assert await redis.keys() == []

    async def test_a_reset_time_written_by_a_jumped_clock_is_ignored_and_replaced(self, budget):
        await record_answer(budget, headers(5000, reset=int(NOW + FAR_SECONDS + 1)))
        await budget.enter(ORG, CallLimits(0.5), 1)
        await record_answer(budget, headers(7))
        assert (await budget.left(ORG, NOW)).used == 7


class TestClockDifference:
    @pytest.mark.parametrize("ahead", [-90, 90])
    async def test_the_reset_time_uses_githubs_clock(self, budget, clock, ahead):
        date = formatdate(NOW + ahead, usegmt=True)
        await record_answer(budget, headers(2500, reset=RESET + ahead) | {"date": date})
        assert (await budget.left(ORG, NOW)).resets_in == 100.0
        with pytest.raises(BudgetSpentError):
            await budget.enter(ORG, CallLimits(0.5), 1)
        clock.now = float(RESET)
        await budget.enter(ORG, CallLimits(0.5), 1)

    def test_a_date_without_a_zone_is_githubs_time_and_not_ours(self, monkeypatch):
        monkeypatch.setenv("TZ", "America/New_York")
        time.tzset()
        try:
            assert skew(time.asctime(time.gmtime(NOW)), NOW) == 0.0
        finally:
            monkeypatch.undo()
            time.tzset()

    @pytest.mark.parametrize("date", ["", "yesterday", "Wed, 25 Nov 99999 06:00:00 GMT"])
    def test_without_a_date_header_the_clocks_are_assumed_to_agree(self, date):
        assert skew(date, NOW) == 0.0


class TestHourlyLimit:
    @pytest.mark.parametrize(
        ("used", "share", "goes"), [(2499, 0.5, True), (2500, 0.5, False), (4499, 0.9, True), (4500, 0.9, False)]
    )
    async def test_a_call_is_admitted_up_to_its_share_of_the_budget(self, budget, used, share, goes):
        await record_answer(budget, headers(used))
        if goes:
            await budget.enter(ORG, CallLimits(share), 1)
        else:
            with pytest.raises(BudgetSpentError, match="resets in 100 s"):
                await budget.enter(ORG, CallLimits(share), 1)

    async def test_calls_in_progress_count_as_spent(self, budget):
        await record_answer(budget, headers(2497))
        flights = [await budget.enter(ORG, CallLimits(0.5), 1) for _ in range(3)]
        with pytest.raises(BudgetSpentError):
            await budget.enter(ORG, CallLimits(0.5), 1)
        await budget.leave(ORG, flights[0], headers(2497))
        await budget.enter(ORG, CallLimits(0.5), 1)

    async def test_concurrent_processes_never_exceed_the_budget(self, redis, clock, budget):
        await record_answer(budget, headers(2480))
        others = [Budget(redis, clock) for _ in range(50)]
        came = await asyncio.gather(*(each.enter(ORG, CallLimits(0.5), 1) for each in others), return_exceptions=True)
        assert sum(isinstance(each, str) for each in came) == 20

    async def test_a_new_hour_admits_every_caller(self, budget, clock):
        await record_answer(budget, headers(5000))
        clock.now = float(RESET)
        assert await budget.enter(ORG, CallLimits(0.5), 1)


AT_ONCE = CallLimits(patience_seconds=0.0)


class TestRetryAfter:
    @pytest.mark.parametrize(("passed", "goes"), [(29.9, False), (30.0, True)])
    async def test_a_retry_after_applies_to_every_caller_with_its_time(self, redis, clock, budget, passed, goes):
        await budget.hold(ORG, 30)
        clock.now += passed
        other = Budget(redis, clock)
        if goes:
            await other.enter(ORG, CallLimits(1.0), 1)
        else:
            with pytest.raises(BudgetSpentError, match="rate limit"):
                await other.enter(ORG, CallLimits(1.0), 1)
        assert (await other.left(ORG, clock.now)).held_for == pytest.approx(max(0.0, 30 - passed))

    async def test_the_longest_retry_after_applies(self, budget):
        await budget.hold(ORG, 60)
        await budget.hold(ORG, 5)
        assert (await budget.left(ORG, NOW)).held_for == 60

    @pytest.mark.parametrize(("passed", "goes"), [(FAR_SECONDS - 0.1, False), (FAR_SECONDS, True)])
    async def test_a_retry_after_is_limited_to_its_maximum(self, budget, clock, passed, goes):
        await budget.hold(ORG, 10 * FAR_SECONDS)
        clock.now += passed
        if goes:
            await budget.enter(ORG, CallLimits(1.0), 1)
        else:
            with pytest.raises(BudgetSpentError, match="rate limit"):
                await budget.enter(ORG, CallLimits(1.0), 1)

    async def test_a_clock_that_jumped_back_does_not_extend_a_retry_after(self, budget, clock):
        await budget.hold(ORG, 60)
        clock.now -= 86_400
        await budget.enter(ORG, CallLimits(1.0), 1)


class TestPointsPerMinute:
    async def test_sweeps_leave_points_to_confirmations_and_removals(self, budget):
        policy = BudgetLimits()
        sweeping = replace(call_limits(Purpose.SWEEP, policy), patience_seconds=0.0)
        for _ in range(SWEEPING_POINTS):
            await budget.leave(ORG, await budget.enter(ORG, sweeping, 1), {})
        with pytest.raises(BudgetSpentError, match="points of a minute are spent"):
            await budget.enter(ORG, sweeping, 1)
        for _ in range(MOST_POINTS - SWEEPING_POINTS):
            await budget.leave(ORG, await budget.enter(ORG, call_limits(Purpose.ACT, policy), 1), {})
        with pytest.raises(BudgetSpentError, match="points of a minute are spent"):
            await budget.enter(ORG, AT_ONCE, 1)

    async def test_a_minutes_points_are_not_exceeded(self, budget):
        for _ in range(MOST_POINTS // 5):
            await budget.leave(ORG, await budget.enter(ORG, AT_ONCE, 5), {})
        with pytest.raises(BudgetSpentError, match="points of a minute are spent"):
            await budget.enter(ORG, AT_ONCE, 5)

    @pytest.mark.parametrize("began", [0.0, 0.5, 30.0, 59.0, 59.999])
    async def test_no_window_of_sixty_seconds_exceeds_the_points(self, budget, clock, began):
        """GitHub counts bursts at the end of one calendar minute and at the beginning of the next together."""
        clock.now = NOW - NOW % 60 + began
        for _ in range(MOST_POINTS // 5):
            await budget.leave(ORG, await budget.enter(ORG, AT_ONCE, 5), {})
        for later in (0.5, 1.0, 30.0, 60.0):
            clock.now = NOW - NOW % 60 + began + later
            with pytest.raises(BudgetSpentError):
                await budget.enter(ORG, AT_ONCE, 1)

    async def test_points_are_available_again_a_minute_after_they_were_spent(self, budget, clock):
        clock.now = NOW
        for _ in range(MOST_POINTS // 2):
            await budget.leave(ORG, await budget.enter(ORG, AT_ONCE, 1), {})
        clock.now = NOW + 30
        for _ in range(MOST_POINTS // 2):
            await budget.leave(ORG, await budget.enter(ORG, AT_ONCE, 1), {})
        clock.now = NOW + 61
        for _ in range(MOST_POINTS // 2):
            await budget.leave(ORG, await budget.enter(ORG, AT_ONCE, 1), {})
        with pytest.raises(BudgetSpentError):
            await budget.enter(ORG, AT_ONCE, 1)

    async def test_points_of_a_second_are_deleted_after_a_minute(self, redis, budget, clock):
        for clock.now in (NOW, NOW + 1, NOW + 61):
            await budget.leave(ORG, await budget.enter(ORG, AT_ONCE, 1), {})
        seconds = sorted(int(value) // 1000 for value in await redis.hvals(keys.budget(ORG)))
        assert seconds == [NOW + 1, NOW + 61]

    async def test_a_short_wait_for_points_is_a_sleep_and_not_a_busy_loop(self, budget, clock, monkeypatch):
        clock.now = NOW - NOW % 60
        for _ in range(MOST_POINTS):
            await budget.leave(ORG, await budget.enter(ORG, CallLimits(1.0), 1), {})
        clock.now += 60 + 1e-6
        waits = []

        async def wait(seconds):
            waits.append(seconds)
            clock.now += seconds

        monkeypatch.setattr(module.asyncio, "sleep", wait)
        await budget.enter(ORG, CallLimits(1.0), 1)
        assert 0 < len(waits) <= 3
        assert min(waits) >= LEAST_WAIT_SECONDS

    async def test_concurrent_calls_are_limited_and_the_next_waits_for_the_end_of_one(self, budget):
        flights = [await budget.enter(ORG, CallLimits(1.0), 1) for _ in range(MOST_IN_FLIGHT)]
        waiting = asyncio.create_task(budget.enter(ORG, CallLimits(1.0), 1))
        await asyncio.sleep(0.15)
        assert not waiting.done()
        await budget.leave(ORG, flights[0], {})
        assert await asyncio.wait_for(waiting, 5)

    async def test_a_call_of_a_dead_process_is_released(self, redis, budget, clock):
        for _ in range(MOST_IN_FLIGHT):
            await budget.enter(ORG, CallLimits(1.0), 1)
        clock.now += FLIGHT_SECONDS
        await budget.enter(ORG, CallLimits(1.0), 1)
        assert await redis.zcard(keys.flights(ORG)) == 1


class TestTurns:
    """Calls that do not wait for the points of a minute, as tokens of sweeps: each has its own turn."""

    LIMITS = CallLimits(points_a_minute=100, turn="token")

    async def take(self, budget, who, points=5):
        """0.0 if the call may be sent, else the seconds until its turn."""
        try:
            await budget.leave(ORG, await budget.enter(ORG, replace(self.LIMITS, turn=f"token-{who}"), points), {})
        except BudgetSpentError as error:
            return error.after_seconds if error.limit is SpentLimit.TURN else -1.0
        return 0.0

    async def test_who_finds_no_points_gets_a_turn_after_those_that_came_before(self, budget, clock):
        clock.now = NOW
        assert [await self.take(budget, each) for each in range(20)] == [0.0] * 20
        clock.now = NOW + 10
        assert [await self.take(budget, each) for each in range(20, 60)] == [51.0] * 20 + [112.0] * 20
        assert await self.take(budget, 20) == 51.0, "one call has one turn"

    async def test_points_that_leave_the_minute_one_after_the_other_are_turns_one_after_the_other(self, budget, clock):
        for second in range(20):
            clock.now = NOW + second
            await self.take(budget, second)
        clock.now = NOW + 20
        assert [await self.take(budget, 100 + each) for each in range(3)] == [41.0, 42.0, 43.0]

    async def test_in_its_turn_it_goes_and_no_newcomer_before_it(self, budget, clock):
        for each in range(20):
            await self.take(budget, each)
        waits = [await self.take(budget, f"early-{each}") for each in range(20)]
        clock.now += waits[0]
        assert await self.take(budget, "newcomer") == 62.0
        assert [await self.take(budget, f"early-{each}") for each in range(20)] == [0.0] * 20
        clock.now += 62
        assert await self.take(budget, "newcomer") == 0.0

    async def test_a_turn_that_is_not_taken_is_given_to_others(self, budget, clock):
        for each in range(20):
            await self.take(budget, each)
        for each in range(20):
            await self.take(budget, f"killed-{each}")
        clock.now += 60 + TURN_LASTS_SECONDS
        assert await self.take(budget, "newcomer") > 0.0
        clock.now += 1.0
        assert await self.take(budget, "another") == 0.0

    async def test_calls_without_a_turn_go_before_all_that_wait_and_have_points_of_their_own(self, budget, clock):
        for each in range(30):
            await self.take(budget, each)
        await budget.enter(ORG, CallLimits(points_a_minute=105, patience_seconds=0.0), 5)
        with pytest.raises(BudgetSpentError) as refused:
            await budget.enter(ORG, CallLimits(points_a_minute=105, patience_seconds=0.0), 5)
        assert refused.value.limit is SpentLimit.POINTS

    async def test_a_thousand_tokens_are_minted_as_fast_as_the_points_allow_and_each_in_its_turn(self, budget, clock):
        """None asks more often than a few times."""
        due, asked, minted = dict.fromkeys(range(1000), NOW), Counter(), {}
        while due:
            who = min(due, key=due.get)
            clock.now = max(clock.now, due[who] + 2.0)  # a worker takes it a little later
            asked[who] += 1
            wait = await self.take_token(budget, who)
            if wait:
                due[who] = clock.now + wait
            else:
                minted[who] = clock.now - NOW
                del due[who]
        assert max(minted.values()) < 1000 / (SWEEPING_POINTS // 5) * 61 + 61
        assert max(asked.values()) <= 8
        assert asked.total() < 4000

    async def take_token(self, budget, who):
        try:
            await budget.leave(ORG, await budget.enter(ORG, token_limits(Purpose.SWEEP, who), 5), {})
        except BudgetSpentError as error:
            return error.after_seconds
        return 0.0

    @pytest.mark.parametrize(
        ("purpose", "turn"), [(Purpose.ACT, ""), (Purpose.SWEEP, "token-7"), (Purpose.REPORT, "token-7")]
    )
    def test_tokens_of_confirmations_and_removals_have_no_turn(self, purpose, turn):
        assert token_limits(purpose, 7).turn == turn

    async def test_turns_expire(self, redis, budget):
        for each in range(25):
            await self.take(budget, each)
        assert 60 < await redis.ttl(keys.turns(ORG)) <= 61 + TURN_LASTS_SECONDS
