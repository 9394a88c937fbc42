"""A deployed commit's round with the gate: from when a deploy named the commit until the gate has an answer. Pure.

A round is one deploy of one shard. Told of again it is the same round, whoever tells and whatever role they give; a
deploy at another time, or of another commit, is another one, with a check run of its own. Each round ends: with
success; or, when an hour is over, with what is known by then; or when another one takes its place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

from ghapp.health.gate.active_shard import Deploy
from ghapp.health.gate.judgement import Gate, held_for
from ghapp.health.gate.stability import Stability, stability_after

GIVE_UP_SECONDS = 3600.0
"""A shard that does not pass within so long did not come up."""

FORGET_SECONDS = 600.0
"""After that, so long is tried to have GitHub take the answer."""

REFRESH_SECONDS = 60.0
"""How often numbers in sentences are brought up to date; what matters is told at once."""

_COMMIT = re.compile(r"[0-9a-f]{40}")


class GateCheckStage(Enum):
    """Where a round is. Only `WAITS` goes on."""

    WAITS = auto()
    PASSED = auto()
    FAILED = auto()
    UNSEEN = auto()
    """An hour is over, and the gate could not be judged: GitHub did not answer, or listed nothing since the deploy."""


class GateCheck(NamedTuple):
    """One round. Fields are only ever appended. Times are epoch seconds.

    Attributes:
        repository: `owner/name`, of the commit.
        began_at: when we were told; a list of runners that was begun before says nothing of this deploy.
        private: whether only invited people read that repository; None while nobody has asked GitHub.
        since, until: passing without a gap, from one list to another; None where it does not pass.
        check_run: its id; None while there is none.
        digest: of all that it says.
        gist: of what matters of that.
        posted_at: when it was last brought up to date.
        over: whether nothing more is said.
        setback: why nothing could be posted; empty when it could.
        again_at: GitHub is not asked for anything before.
    """

    sha: str
    deployed_at: float
    repository: str
    began_at: float
    private: bool | None = None
    since: float | None = None
    until: float | None = None
    check_run: int | None = None
    digest: str = ""
    gist: str = ""
    posted_at: float = 0.0
    over: bool = False
    setback: str = ""
    again_at: float = 0.0

    @property
    def gives_up_at(self) -> float:
        """When what is known must do."""
        return self.began_at + GIVE_UP_SECONDS


class DeployRule(Protocol):
    """What a configured pool says of where its deploys come from."""

    @property
    def name(self) -> str:
        """The pool's."""

    @property
    def deploy_repository(self) -> str | None:
        """`owner/name`; None: no check run is asked for."""


def commit_of(ref: str) -> str | None:
    """The commit that a deploy named, in lower case; None for a tag, a branch, a short form: those may move."""
    return ref.lower() if _COMMIT.fullmatch(ref.lower()) else None


def place_of(pool: str, shard: str) -> str:
    """Where a round is kept; no name of a pool or shard has a slash."""
    return f"{pool}/{shard}"


def subject_of(place: str, begun: GateCheck) -> str:
    """What tells a round's check run from others on the same commit, for all time and whoever posts it."""
    told = f"{place}/{begun.sha}/{begun.deployed_at:.3f}"
    return f"gate-{hashlib.sha256(told.encode()).hexdigest()[:24]}"


def open_gate_checks(
    pool: DeployRule, deploys: Sequence[Deploy], known: Mapping[str, GateCheck], now: float
) -> list[tuple[Deploy, GateCheck]]:
    """The rounds of a pool that go on at `now`, those that begin among them.

    Args:
        pool: of the configuration.
        deploys: the last one of each shard.
        known: rounds by place.
        now: epoch seconds.
    """
    found = []
    for deploy in deploys:
        sha = commit_of(deploy.ref)
        if pool.deploy_repository is None or sha is None:
            continue
        last = known.get(place_of(pool.name, deploy.shard))
        is_new = last is None or not _is_of(last, deploy, sha, pool.deploy_repository)
        if last is None or is_new:
            last = GateCheck(sha, deploy.deployed_at, pool.deploy_repository, deploy.told_at)
        begun = last._replace(began_at=min(last.began_at, now))  # of a clock that has jumped
        is_moot = is_new and is_forgotten(begun, now)
        if not (begun.over or is_moot):
            found.append((deploy, begun))
    return found


def superseded(
    pools: Sequence[DeployRule], deploys: Mapping[str, Sequence[Deploy]], known: Mapping[str, GateCheck]
) -> dict[str, GateCheck]:
    """The rounds, by place, that have not ended and never will by themselves: another deploy took their place.

    Args:
        pools: of the configuration.
        deploys: by the pool's name, the last one of each shard.
        known: rounds by place.
    """
    current = {
        (place_of(pool.name, deploy.shard), commit_of(deploy.ref), deploy.deployed_at, pool.deploy_repository)
        for pool in pools
        for deploy in deploys[pool.name]
    }
    left = {place: (place, each.sha, each.deployed_at, each.repository) for place, each in known.items()}
    return {place: known[place] for place, one in left.items() if not known[place].over and one not in current}


def observed(begun: GateCheck, gate: Gate, settle_seconds: float, now: float) -> tuple[GateCheck, Gate, GateCheckStage]:
    """A round after one more look: what it remembers, what the gate says with what must hold, and where it is.

    Args:
        begun: before the look.
        gate: what the look gave.
        settle_seconds: passing must hold for so long; 0: it need not.
        now: epoch seconds.
    """
    is_since = gate.observed_at is not None and gate.observed_at >= begun.began_at
    settling = stability_after(Stability(begun.since, begun.until), gate) if is_since else Stability()
    after = begun._replace(since=settling.since, until=settling.until)
    answer = held_for(gate, settling.held, settle_seconds) if settle_seconds else gate
    if answer.passed and is_since:
        return after, answer, GateCheckStage.PASSED
    if now < begun.gives_up_at:
        return after, answer, GateCheckStage.WAITS
    return after, answer, GateCheckStage.FAILED if is_since else GateCheckStage.UNSEEN


def is_forgotten(begun: GateCheck, now: float) -> bool:
    """Whether GitHub has not taken the answer for so long that it is left."""
    return now >= begun.gives_up_at + FORGET_SECONDS


def is_to_be_posted(begun: GateCheck, digest: str, gist: str, now: float) -> bool:
    """Whether a check run is to be created or updated to say what has this digest and this gist."""
    if begun.check_run is None or begun.gist != gist:
        return True
    return begun.digest != digest and not 0 <= now - begun.posted_at < REFRESH_SECONDS


def restarted(begun: GateCheck, now: float) -> GateCheck:
    """The same round from its beginning: somebody asked for its check run anew."""
    fresh = GateCheck(begun.sha, begun.deployed_at, begun.repository, now, begun.private)
    return fresh._replace(check_run=begun.check_run)


def _is_of(begun: GateCheck, deploy: Deploy, sha: str, repository: str) -> bool:
    return (begun.sha, begun.deployed_at, begun.repository) == (sha, deploy.deployed_at, repository)
