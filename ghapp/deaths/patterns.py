"""Finds what stands out among the deaths of a week: one node, one pool, one image. Pure; times are epoch seconds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from ghapp.deaths.cause import Cause, advice_for, fitting_advice
from ghapp.deaths.death import BURST_SECONDS, LEAST_OF_BURST, WEEK_SECONDS, Death

DAY_SECONDS = 86_400.0
LEAST_ON_NODE = 3
LEAST_OF_IMAGE = 3
MOST_PATTERNS = 5
"""Patterns of each kind, those with the most deaths."""


class DeathSummary(NamedTuple):
    """A death in brief. Fields are only ever appended: stored records are read by position.

    Attributes:
        has_job: True if its job is known.
        advice: empty if it is what `advice_for` returns for cause and reason, as it mostly is: a thousand are stored.
    """

    runner_name: str
    at: float
    cause: Cause
    reason: str
    pool: str = ""
    node: str = ""
    image: str = ""
    has_job: bool = True
    advice: str = ""

    @property
    def advice_now(self) -> str:
        """The same as that of the death."""
        return fitting_advice(self.advice or advice_for(self.cause, self.reason), has_job=self.has_job)


class RecentDeaths(NamedTuple):
    """The deaths of the last hour without clean exits: how many, and the last one."""

    total: int
    last: DeathSummary


class PatternKind(StrEnum):
    """What several deaths have in common."""

    NODE = "node"
    POOL = "pool"
    IMAGE = "image"


class DeathPattern(NamedTuple):
    """Deaths with something in common.

    Attributes:
        kind: `node`: several on one node within seven days; `pool`: a burst of one pool that still goes on; `image`:
            several with one image within a day.
        value: the node, pool or image.
        deaths: their number.
        since: the first of them.
        alone: True if these are all deaths of that time: of seven days, since `since`, or of a day.
    """

    kind: PatternKind
    value: str
    deaths: int
    since: float
    alone: bool


def death_summary(death: Death) -> DeathSummary:
    """Returns a death in brief."""
    return DeathSummary(
        death.runner_name,
        death.at,
        death.cause,
        death.reason,
        death.pool,
        death.node,
        death.image,
        has_job=death.job is not None,
        advice="" if death.advice == advice_for(death.cause, death.reason) else death.advice,
    )


def death_patterns(deaths: Iterable[DeathSummary], now: float) -> list[DeathPattern]:
    """Returns what stands out: nodes, then pools, then images, each with the most deaths first.

    An image is named only if it distinguishes: deaths with another image, or of a second pool, are among the week's.

    Args:
        deaths: in any order; clean exits and deaths of more than a week ago do not count.
        now: the present time.
    """
    week = [each for each in deaths if each.cause is not Cause.CLEAN_EXIT and now - WEEK_SECONDS <= each.at <= now]
    week.sort(key=lambda each: each.at)
    nodes = _alike(PatternKind.NODE, week, lambda each: each.node, LEAST_ON_NODE)
    day = [each for each in week if each.at >= now - DAY_SECONDS]
    images = _alike(PatternKind.IMAGE, day, lambda each: each.image, LEAST_OF_IMAGE)
    has_others = len({(each.image, each.pool) for each in week if each.image}) > 1
    return [*nodes, *_bursts(week, now), *(images if has_others else ())]


def _alike(
    kind: PatternKind, deaths: Sequence[DeathSummary], key: Callable[[DeathSummary], str], least: int
) -> list[DeathPattern]:
    counts = Counter(value for each in deaths if (value := key(each)))
    found = []
    for value, count in counts.items():
        since = next(each.at for each in deaths if key(each) == value)
        if count >= least:
            found.append(DeathPattern(kind, value, count, since, alone=count == len(deaths)))
    return _most(found)


def _bursts(deaths: Sequence[DeathSummary], now: float) -> list[DeathPattern]:
    """Returns the bursts whose last death is no more than `BURST_SECONDS` ago."""
    by_pool: dict[str, list[float]] = defaultdict(list)
    for each in deaths:
        if each.pool:
            by_pool[each.pool].append(each.at)
    found = []
    for pool, times in by_pool.items():
        count, since = 0, now
        for at in reversed(times):
            if since - at > BURST_SECONDS:
                break
            count, since = count + 1, at
        if count >= LEAST_OF_BURST:
            alone = sum(each.at >= since for each in deaths) == count
            found.append(DeathPattern(PatternKind.POOL, pool, count, since, alone=alone))
    return _most(found)


def _most(found: list[DeathPattern]) -> list[DeathPattern]:
    return sorted(found, key=lambda each: (-each.deaths, each.value))[:MOST_PATTERNS]
