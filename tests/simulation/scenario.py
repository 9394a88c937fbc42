"""What a seed determines: a configuration, a fleet, and the weather and incidents of a day. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from ghapp.installations.pacing import BudgetLimits
from ghapp.remediation.fuse import FuseLimits
from ghapp.remediation.plan import RemediationLimits
from ghapp.runners.verdict import Limits
from tests.simulation.lies import Weather, weather

MIDNIGHT = 1_790_000_000.0
DAY = 86_400.0
HOUR = 3600.0


class Kind(StrEnum):
    """The kind of a pool's runners, and whether GitHub shows it."""

    PERSISTENT = "persistent"
    EPHEMERAL = "ephemeral"
    UNSAID_PERSISTENT = "unsaid-persistent"
    UNSAID_EPHEMERAL = "unsaid-ephemeral"

    @property
    def ephemeral(self) -> bool:
        return self in (Kind.EPHEMERAL, Kind.UNSAID_EPHEMERAL)

    @property
    def ephemeral_in_lists(self) -> bool | None:
        """The value of `ephemeral` in the answers of GitHub; None where GitHub leaves it out."""
        return self.ephemeral if self in (Kind.PERSISTENT, Kind.EPHEMERAL) else None


class Controller(StrEnum):
    """When an accepted request has its runner, and whether it has one."""

    FAST = "fast"
    SLOW = "slow"
    NEVER = "never"
    LATE = "late"
    """After the batch's time to prove itself."""
    HALF = "half"
    """Every other request has none."""
    TWO = "two"
    """Each request has two."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A configured pool (a `PoolRule`), and what stands behind it."""

    name: str
    size: int
    kind: Kind
    controller: Controller
    replace_offline_after_seconds: float | None = None
    shard_label: str | None = None
    sends_deliveries: bool = True
    """Whether GitHub delivers anything of its jobs: it does not where the App is not installed on their repositories."""
    boot_seconds: float = 0.0
    """How long a machine boots that follows one whose only job is over; 0: some seconds."""

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration under test."""

    interval: float
    evidence: Limits
    fuse: FuseLimits = field(default_factory=FuseLimits)
    budget: BudgetLimits = field(default_factory=BudgetLimits)
    remediation: RemediationLimits = field(default_factory=RemediationLimits)


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident in the fleet, and its time."""

    at: float
    what: str


@dataclass(frozen=True, slots=True)
class Episode:
    """A busy span of the day; between episodes the fleet is quiet."""

    begins: float
    ends: float
    incidents: tuple[Incident, ...]
    weather: tuple[Weather, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything a seed determines before the day begins."""

    config: Config
    pools: tuple[Pool, ...]
    episodes: tuple[Episode, ...]
    ends: float


INCIDENTS = {
    "one is lost": 6,
    "several are lost": 3,
    "a pool is lost": 3,
    "all are lost": 1,
    "one vanishes and returns": 4,
    "many vanish and return": 4,
    "many vanish and return by halves": 4,
    "some go offline": 3,
    "one is reconfigured": 3,
    "scaled up": 3,
    "scaled down, reported": 2,
    "scaled down, unreported": 1,
    "scaled down by half in silence": 1,
    "those at work lose their registrations": 2,
    "one crashes, and its agent takes another job": 2,
    "one takes a job, and its registration goes before that is reported": 2,
    "one returns as it is planned for": 2,
    "a person pauses": 1,
    "a person resumes": 2,
}
"""Each with its weight."""


def scenario(random: Random) -> Scenario:
    """Returns the scenario of a seed."""
    config = Config(
        interval=random.choice((20.0, 60.0, 60.0, 60.0, 120.0, 120.0)),
        evidence=Limits(confirm_seconds=random.choice((5.0, 30.0, 30.0, 60.0))),
        fuse=FuseLimits(first_batch=random.choice((1, 3, 3)), fraction=random.choice((0.1, 0.2, 0.5))),
        budget=BudgetLimits(share=random.choice((0.3, 0.5, 0.5))),
        remediation=RemediationLimits(mode=random.choices(("act", "dry-run", "off"), (18, 1, 1))[0]),
    )
    several = random.choices((1, 2, 3, 12), (8, 4, 4, 1))[0]
    pools = tuple(_pool(random, number, small=several > 3) for number in range(several))
    begins, episodes = MIDNIGHT + HOUR, []
    while begins < MIDNIGHT + DAY - 8 * HOUR:
        episodes.append(_episode(random, begins, config, sum(pool.size for pool in pools)))
        begins = episodes[-1].ends + random.uniform(3.0, 9.0) * HOUR
    return Scenario(config, pools, tuple(episodes), MIDNIGHT + DAY)


def _pool(random: Random, number: int, *, small: bool) -> Pool:
    return Pool(
        name=f"pool-{number}",
        size=random.choice((1, 1, 2, 3) if small else (0, 1, 2, 3, 4, 6, 8, 12, 16)),
        kind=random.choices(tuple(Kind), (4, 3, 1, 1))[0],
        controller=random.choices((Controller.FAST, Controller.SLOW, Controller.NEVER), (5, 2, 2))[0],
        replace_offline_after_seconds=random.choice((None, None, None, 900.0)),
        sends_deliveries=random.random() > 0.15,
    )


def _episode(random: Random, begins: float, config: Config, fleet: int) -> Episode:
    ends = begins + random.uniform(600.0, 1800.0)
    names = random.choices(tuple(INCIDENTS), tuple(INCIDENTS.values()), k=random.choice((0, 1, 1, 2, 2, 3)))
    incidents = tuple(Incident(random.uniform(begins, ends), name) for name in names)
    return Episode(begins, ends, incidents, weather(random, begins, ends, config.evidence.confirm_seconds, fleet))
