"""What the history of a pool takes in Redis when it is complete: a week by five minutes, and 90 days by hours."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from functools import reduce
from pathlib import Path

from ghapp.incidents.history import (
    HOUR_SECONDS,
    KEPT_SECONDS,
    STEP_SECONDS,
    HistoryStep,
    at_least,
    bucket_of,
    folded,
    joined,
    sampled,
)
from ghapp.incidents.store import BUCKET_SECONDS
from ghapp.store import keys
from ghapp.store.codec import CODECS
from ghapp.store.connect import connect
from tests.bench.figure import Figure
from tests.support.local_redis import embedded_redis

POOLS, INSTALLATION, BEGIN = 10, 77, 1_790_006_400
RUNNERS, SAMPLES = 1_000, 5
MOST_KILOBYTES = 620.0


def measure(folder: Path) -> list[Figure]:
    """Kilobytes for each pool of a busy fleet: no gauge stays as it is, and runners die in every step."""
    with embedded_redis(folder / "redis", durable=False) as url:
        kilobytes = asyncio.run(_fill(url)) / POOLS / 1024
    title = f"Redis memory of a pool's history: {RUNNERS:,} busy runners, 7 days by 5 minutes and 90 by hours"
    return [Figure(title, f"{kilobytes:.0f} KB", kilobytes, most=MOST_KILOBYTES, unit=" KB")]


async def _fill(url: str) -> int:
    redis, numbers = connect(url), random.Random(1)
    encode = CODECS["history-step"].encode
    steps = {BEGIN + at: _step(numbers, BEGIN + at) for at in range(0, KEPT_SECONDS[STEP_SECONDS], STEP_SECONDS)}
    week = folded(steps, HOUR_SECONDS)
    hours = {
        BEGIN + at: week[BEGIN + at % KEPT_SECONDS[STEP_SECONDS]]
        for at in range(0, KEPT_SECONDS[HOUR_SECONDS], HOUR_SECONDS)
    }
    before = (await redis.info("memory"))["used_memory"]
    for pool in range(POOLS):
        for width, rows in ((STEP_SECONDS, steps), (HOUR_SECONDS, hours)):
            async with redis.pipeline(transaction=False) as pipe:
                for at, row in rows.items():
                    bucket = at // BUCKET_SECONDS[width]
                    pipe.hset(keys.history_steps(INSTALLATION, width, bucket, f"pool-{pool}"), str(at), encode(row))
                await pipe.execute()
    used = (await redis.info("memory"))["used_memory"] - before
    await redis.aclose()
    return int(used)


def _step(numbers: random.Random, at: int) -> HistoryStep:
    def gauges() -> dict[str, int]:
        busy = numbers.randint(300, RUNNERS)
        return {
            "healthy": RUNNERS - numbers.randint(0, 9),
            "busy": busy,
            "queued": numbers.randint(0, 400),
            "starting": 9,
        }

    whole = reduce(joined, (sampled(gauges(), at + 60 * number) for number in range(SAMPLES)))
    jobs = numbers.randint(100, 400)
    counts = {"jobs": jobs, "waited_seconds": jobs * 40, "lost": numbers.random() < 0.05}
    return at_least(
        whole, {**counts, **_waits(jobs, numbers), "death:clean-exit": jobs, "death:host-oom": numbers.randint(0, 3)}
    )


def _waits(jobs: int, numbers: random.Random) -> dict[str, int]:
    """The jobs by their wait, in as many buckets as a busy pool has in five minutes, and the longest wait."""
    waits = [round(numbers.expovariate(1 / 40)) for _ in range(jobs)]
    return {**Counter(f"wait:{bucket_of(each)}" for each in waits), "longest_wait": max(waits)}
