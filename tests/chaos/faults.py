"""The faults, in lanes: within a lane one after the other, all lanes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from ghapp.sandbox.control.api import Control
from tests.chaos.installation import CONFIRM_SECONDS, LARGE_POOL, ORG, OTHER_NAME, Installation

Act = Callable[[Installation, Random, float], object]
WINDOW = (2.0, 9.0)
MOMENT = (0.0, 0.0)


class Fault(NamedTuple):
    """An action on the installation, its duration (seconds, minimum and maximum), and its weight in the lane."""

    act: Act
    seconds: tuple[float, float] = WINDOW
    weight: float = 1.0


class Lane(NamedTuple):
    """Faults, and the pause between two of them (seconds, minimum and maximum)."""

    pause: tuple[float, float]
    faults: Mapping[str, Fault]


def github_fault(
    call_control: Callable[[Control, Random, float], object], seconds: tuple[float, float] = WINDOW
) -> Fault:
    """Returns a fault that calls a control of the simulated GitHub."""
    return Fault(lambda context, rng, lasting: call_control(context.sandbox.control, rng, lasting), seconds)


def _go_offline(context: Installation, rng: Random, seconds: float) -> None:
    offline = context.sandbox.control.take_offline(ORG, count=rng.randint(1, 5))
    context.later(seconds, lambda: context.bring_online(offline))


def _stop_redis(context: Installation, rng: Random, seconds: float) -> None:
    context.redis.stop()
    context.later(seconds, context.redis.start)


RUNNERS = {
    "registrations_lost": Fault(lambda context, rng, _: context.lose(rng, rng.randint(1, 3)), MOMENT, 6),
    "mass_loss": Fault(lambda context, rng, _: context.lose(rng, rng.randint(25, 35), LARGE_POOL), MOMENT, 0.4),
    "registrations_vanish_and_return": Fault(
        lambda context, rng, seconds: context.lose(rng, rng.randint(1, 30), seconds=seconds),
        (CONFIRM_SECONDS * 0.2, CONFIRM_SECONDS * 0.8),
        2,
    ),
    "runners_go_offline": Fault(_go_offline, WINDOW, 2),
}

ANSWERS = {
    "permission_missing": github_fault(lambda c, _, s: c.withhold_permission(ORG, seconds=s)),
    "permission_missing_in_guise": github_fault(lambda c, _, s: c.withhold_permission(ORG, status=404, seconds=s)),
    "permission_missing_not_admitted": github_fault(
        lambda c, _, s: c.withhold_permission(ORG, status=404, admitted=False, seconds=s)
    ),
    "organization_renamed": github_fault(lambda c, _, s: c.rename(ORG, OTHER_NAME, seconds=s)),
    "installation_suspended": github_fault(lambda c, _, s: c.suspend(ORG, seconds=s)),
    "fresh_tokens_doubted": github_fault(lambda c, _, s: c.doubt_new_tokens(ORG, seconds=s)),
    "server_errors": github_fault(lambda c, _, s: c.fault(status=502, share=0.5, seconds=s)),
    "connections_reset": github_fault(lambda c, _, s: c.fault(reset=True, share=0.5, seconds=s)),
    "answers_hang": github_fault(lambda c, _, s: c.fault(hang=15.0, share=0.3, seconds=s)),
    "bodies_cut_short": github_fault(lambda c, _, s: c.fault(cut_short=True, share=0.5, seconds=s)),
    "html_instead_of_json": github_fault(lambda c, _, s: c.fault(status=200, html=True, share=0.7, seconds=s)),
    "address_blocked": github_fault(lambda c, _, s: c.block_address(ORG, seconds=s)),
    "list_leaves_out_live_runners": github_fault(lambda c, r, s: c.unlist(ORG, share=r.uniform(0.05, 0.6), seconds=s)),
    "list_leaves_out_and_counts": github_fault(lambda c, _, s: c.unlist(ORG, share=0.2, counted=True, seconds=s)),
    "list_empty": github_fault(lambda c, _, s: c.empty_list(ORG, seconds=s)),
    "list_miscounted": github_fault(lambda c, r, s: c.miscount(ORG, by=r.choice([-7, 3, 100]), seconds=s)),
    "list_stale": github_fault(lambda c, r, s: c.stale_lists(ORG, age=r.uniform(2, 9), seconds=s)),
    "pages_slip": github_fault(
        lambda c, r, s: c.slip_pages(ORG, vanish=r.randint(0, 2), appear=r.randint(0, 2), seconds=s)
    ),
    "deleted_runners_linger": github_fault(lambda c, _, s: c.linger(ORG, seconds=s)),
    "busy_runners_shown_idle": github_fault(lambda c, _, s: c.misreport(ORG, busy=False, seconds=s)),
    "online_runners_shown_offline": github_fault(lambda c, _, s: c.misreport(ORG, status="offline", seconds=s)),
    "rate_limited": github_fault(lambda c, _, s: c.exhaust_limit(ORG, status=429, seconds=s)),
    "secondary_limit": github_fault(lambda c, _, s: c.secondary_limit(ORG, retry_after=int(s) + 1)),
    "clock_ahead": github_fault(lambda c, _, s: c.skew_clock(ahead=90, seconds=s)),
    "clock_behind": github_fault(lambda c, _, s: c.skew_clock(ahead=-90, seconds=s)),
    "controller_fails": github_fault(lambda c, _, s: c.fail_controller(seconds=s)),
}

DELIVERIES = {
    "hook_unreachable": github_fault(lambda c, _, s: c.fail_deliveries(seconds=s)),
    "deliveries_lost": github_fault(lambda c, _, s: c.lose_deliveries(share=0.3, seconds=s)),
    "deliveries_fail": github_fault(lambda c, _, s: c.fail_deliveries(share=0.5, seconds=s)),
    "answers_to_deliveries_lost": github_fault(lambda c, _, s: c.fail_deliveries(arrive=True, share=0.5, seconds=s)),
    "deliveries_repeated": github_fault(lambda c, _, s: c.repeat_deliveries(copies=3, seconds=s)),
    "deliveries_late": github_fault(lambda c, _, s: c.delay_deliveries(by=10, share=0.5, seconds=s)),
    "deliveries_out_of_order": github_fault(lambda c, _, s: c.reorder_deliveries(batch=5, seconds=s)),
}

PROCESSES = {
    "web_killed": Fault(lambda context, rng, _: context.kill("web", rng), MOMENT, 2),
    "worker_killed": Fault(lambda context, rng, _: context.kill("worker", rng), MOMENT, 3),
    "horses_killed": Fault(lambda context, rng, _: context.kill_horses(rng), MOMENT, 3),
    "clock_killed": Fault(lambda context, rng, _: context.kill("clock", rng), MOMENT, 2),
    "deliveries_to_the_other_web": Fault(lambda context, rng, _: context.deliver_to_the_next_web(), MOMENT),
    "redis_away": Fault(_stop_redis, (1.0, 5.0)),
}

LANES = {
    "runners": Lane((1.0, 5.0), RUNNERS),
    "answers": Lane((1.0, 8.0), ANSWERS),
    "deliveries": Lane((1.0, 12.0), DELIVERIES),
    "processes": Lane((2.0, 8.0), PROCESSES),
}
