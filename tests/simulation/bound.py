"""How long a real loss may go without its replacement being asked for, computed from the configuration."""

from __future__ import annotations

from math import ceil, log2

from ghapp.github.installation_client import SETTLING_SECONDS
from ghapp.queue.jobs import BRIEF_BACKOFF_SECONDS, TIMEOUT_SECONDS
from ghapp.runners.absence import LOOKUP_SECONDS
from ghapp.runners.verdict import JOB_LEASE_SECONDS
from tests.simulation.lies import Lie, Weather, jump_of
from tests.simulation.scenario import Config

RECOVERY_SECONDS = 30.0


def noticed_within(config: Config, lost_of_pool: int) -> float:
    """Seconds of fair weather within which a lost runner's replacement is asked for, or it is reported as deferred.

    Fair weather is time without any lie, and without a pause or a stopped fuse in its pool: then the runner is
    deferred, and the report shows it. It begins at the loss, or when the last weather and its tail are over, or when
    the pool's rounds restart because of one more loss or return. From there, the worst case of each:

    - a sweep that has just begun is too early; the next begins an interval later, and a list that churned needs a
      second: 2 intervals
    - a runner that was registered a moment ago may be absent: `startup_seconds`
    - a runner whose job ran by deliveries is asked for when the delivery that ends it has had its time:
      `startup_seconds`, and the interval in which that is noticed
    - if a job ran on it, GitHub reports its end when the lease expires: `JOB_LEASE_SECONDS`; the confirmation asks
      again after at most twice the time that it has asked for, and the interval
    - the second 404: `confirm_seconds`, and a job's life if another confirmation holds the claim
    - if it is one of many, the fuse doubles its batches: ⌈log₂(n/first_batch + 1)⌉ rounds. A round ends when its batch
      is online or `prove_seconds` are over (then the fuse stops, which is reported), and is seen by the next sweep,
      and by the one after that when newcomers are weighed against those who left
    - a registration that came back doubles no batch for a window: `window_seconds`, and the interval in which that is
      noticed
    - a token of this moment is waited for: `SETTLING_SECONDS`
    """
    limits, fuse = config.evidence, config.fuse
    looked = 2 * config.interval + limits.startup_seconds
    vouched = limits.startup_seconds + config.interval + SETTLING_SECONDS
    confirmed = 2 * JOB_LEASE_SECONDS + LOOKUP_SECONDS[0] + config.interval + limits.confirm_seconds + TIMEOUT_SECONDS
    rounds = ceil(log2(lost_of_pool / fuse.first_batch + 1))
    proved = rounds * (fuse.prove_seconds + 2 * config.interval) + fuse.window_seconds + config.interval
    return looked + vouched + confirmed + proved


def tail_of(window: Weather, config: Config) -> float:
    """Seconds for which weather has effects after its end.

    - A failed job is retried after a few seconds; after that, the next sweep enqueues it again
    - A clock that jumped back: what was dated in its future waits for that long; and so do the due sweeps.
    - Calls that are spent come back at the full hour, and so do those blocked by retry-after, sooner.
    - Who died or froze is taken over from when its claim and its time are out.
    - A discovery may be five minutes away: until then a suspended installation is not swept again.
    - A late delivery may say for ten minutes more that a job runs.
    """
    retries = sum(BRIEF_BACKOFF_SECONDS) + config.interval
    tail = retries + 300.0 + TIMEOUT_SECONDS + RECOVERY_SECONDS
    match window.lie:
        case Lie.CLOCK:
            tail += 2 * abs(jump_of(window)) + 120.0
        case Lie.SPENT | Lie.LIMITED:
            tail += 3600.0
        case Lie.DELIVERIES:
            tail += 660.0
    return tail
