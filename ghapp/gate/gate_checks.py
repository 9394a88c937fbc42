"""The gate check of a deployed commit: from the report of a deploy until the gate has an answer. Pure.

A gate check belongs to one deploy of one shard. Reporting the same deploy again, with any role, continues it; a deploy
at another time or of another commit starts a new gate check with its own check run. Each gate check ends: with
success, after an hour with the result at that time, or when another deploy supersedes it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

from ghapp.gate.active_shard import Deploy
from ghapp.gate.judgement import Gate, held_for


class Stability(NamedTuple):
    """How long a shard has passed without a gap, in the time of the lists.

    Two evaluations of one list count once; the time between two requests does not count.

    Attributes:
        since: time of the first list of the pass (epoch seconds); None before the first pass.
        until: time of its last list.
    """

    since: float | None = None
    until: float | None = None

    @property
    def held(self) -> float:
        """The length of the pass in seconds."""
        return 0.0 if self.since is None or self.until is None else self.until - self.since


def stability_after(before: Stability, gate: Gate) -> Stability:
    """Adds one evaluation. A failure restarts the time, and so does a clock that went back."""
    at = gate.observed_at
    if not gate.passed or at is None:
        return Stability()
    if before.since is None or before.until is None or at < before.until:
        return Stability(at, at)
    return Stability(before.since, at)


GIVE_UP_SECONDS = 3600.0
"""A shard that does not pass within this time has failed."""

FORGET_SECONDS = 600.0
"""After giving up, posting the result is retried for this time."""

REFRESH_SECONDS = 60.0
"""How often numbers in sentences are updated; relevant changes are posted at once."""

_COMMIT = re.compile(r"[0-9a-f]{40}")


class GateCheckStage(Enum):
    """The stage of a gate check. Only `WAITS` continues."""

    WAITS = auto()
    PASSED = auto()
    FAILED = auto()
    UNSEEN = auto()
    """After an hour the gate could not be judged: GitHub did not answer, or listed no runners since the deploy."""


class GateCheck(NamedTuple):
    """One gate check. Fields are only ever appended. Times are epoch seconds.

    Attributes:
        repository: `owner/name`, of the commit.
        began_at: when the deploy was reported; a list of runners that began earlier proves nothing about it.
        private: True if the repository is private; None before GitHub was asked.
        since, until: first and last list of an uninterrupted pass; None if the gate does not pass.
        check_run: id of the check run; None before it is created.
        digest: hash of the whole report.
        summary_digest: hash of its relevant part (`gate_report.summary_digest`).
        posted_at: when the check run was last updated.
        over: True if nothing more is posted.
        setback: why posting failed; empty if it succeeded.
        again_at: no request is sent to GitHub before this time.
        failed_at: when the check failed, after it had waited for `GIVE_UP_SECONDS`; None: it waits, passed, or was not
            judged.
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
    summary_digest: str = ""
    posted_at: float = 0.0
    over: bool = False
    setback: str = ""
    again_at: float = 0.0
    failed_at: float | None = None

    @property
    def gives_up_at(self) -> float:
        """When the gate check ends with the result at that time."""
        return self.began_at + GIVE_UP_SECONDS


class DeployRule(Protocol):
    """The deploy settings of a configured pool."""

    @property
    def name(self) -> str:
        """The pool's name."""

    @property
    def deploy_repository(self) -> str | None:
        """`owner/name`; None: no check run is posted."""


def commit_of(ref: str) -> str | None:
    """Returns the deployed commit in lower case; None for a tag, a branch or a short SHA, which may move."""
    return ref.lower() if _COMMIT.fullmatch(ref.lower()) else None


def place_of(pool: str, shard: str) -> str:
    """Returns the storage key of a gate check; names of pools and shards have no slash."""
    return f"{pool}/{shard}"


def subject_of(place: str, gate_check: GateCheck) -> str:
    """Returns the external id that identifies a gate check's check run on a commit, independent of its publisher."""
    identity = f"{place}/{gate_check.sha}/{gate_check.deployed_at:.3f}"
    return f"gate-{hashlib.sha256(identity.encode()).hexdigest()[:24]}"


def open_gate_checks(
    pool: DeployRule, deploys: Sequence[Deploy], known: Mapping[str, GateCheck], now: float
) -> list[tuple[Deploy, GateCheck]]:
    """Returns a pool's unfinished gate checks at `now`, including new ones.

    Args:
        pool: the configured pool.
        deploys: the last deploy of each shard.
        known: gate checks by `place_of`.
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
            last = GateCheck(sha, deploy.deployed_at, pool.deploy_repository, deploy.reported_at)
        gate_check = last._replace(began_at=min(last.began_at, now))  # guards against a clock that jumped
        is_moot = is_new and is_forgotten(gate_check, now)
        if not (gate_check.over or is_moot):
            found.append((deploy, gate_check))
    return found


def posted_check(pool: DeployRule, deploy: Deploy, known: Mapping[str, GateCheck]) -> GateCheck | None:
    """Returns the gate check of a deploy if its check run is on GitHub; `known`: gate checks by `place_of`."""
    gate_check, sha = known.get(place_of(pool.name, deploy.shard)), commit_of(deploy.ref)
    if gate_check is None or gate_check.check_run is None or sha is None:
        return None
    return gate_check if _is_of(gate_check, deploy, sha, pool.deploy_repository or "") else None


def superseded(
    pools: Sequence[DeployRule], deploys: Mapping[str, Sequence[Deploy]], known: Mapping[str, GateCheck]
) -> dict[str, GateCheck]:
    """Returns the unfinished gate checks, by place, that another deploy has superseded.

    Args:
        pools: the configured pools.
        deploys: the last deploy of each shard, by the pool's name.
        known: gate checks by `place_of`.
    """
    current = {
        (place_of(pool.name, deploy.shard), commit_of(deploy.ref), deploy.deployed_at, pool.deploy_repository)
        for pool in pools
        for deploy in deploys[pool.name]
    }
    left = {place: (place, each.sha, each.deployed_at, each.repository) for place, each in known.items()}
    return {place: known[place] for place, one in left.items() if not known[place].over and one not in current}


def ended_undecided(gate_check: GateCheck) -> GateCheck:
    """Returns a gate check that another deploy has superseded: it did not fail, and may only have begun to pass."""
    return gate_check._replace(over=True, failed_at=None, since=None, until=None)


def observed(
    gate_check: GateCheck, gate: Gate, settle_seconds: float, now: float
) -> tuple[GateCheck, Gate, GateCheckStage]:
    """Adds one evaluation: returns the updated gate check, the gate including `settled`, and the stage.

    Args:
        gate_check: before the evaluation.
        gate: the evaluated gate.
        settle_seconds: how long the gate must pass without a gap; 0: a single pass is enough.
        now: epoch seconds.
    """
    is_since = gate.observed_at is not None and gate.observed_at >= gate_check.began_at
    stability = stability_after(Stability(gate_check.since, gate_check.until), gate) if is_since else Stability()
    after = gate_check._replace(since=stability.since, until=stability.until)
    answer = held_for(gate, stability.held, settle_seconds) if settle_seconds else gate
    if answer.passed and is_since:
        return after, answer, GateCheckStage.PASSED
    if now < gate_check.gives_up_at:
        return after, answer, GateCheckStage.WAITS
    if not is_since:
        return after, answer, GateCheckStage.UNSEEN
    failed_at = after.failed_at if after.failed_at is not None else now
    return after._replace(failed_at=failed_at), answer, GateCheckStage.FAILED


def is_forgotten(gate_check: GateCheck, now: float) -> bool:
    """True if posting the result has failed for so long that it is given up."""
    return now >= gate_check.gives_up_at + FORGET_SECONDS


def is_to_be_posted(gate_check: GateCheck, digest: str, summary_digest: str, now: float) -> bool:
    """True if a check run must be created or updated for this digest and this summary digest."""
    if gate_check.check_run is None or gate_check.summary_digest != summary_digest:
        return True
    return gate_check.digest != digest and not 0 <= now - gate_check.posted_at < REFRESH_SECONDS


def restarted(gate_check: GateCheck, now: float) -> GateCheck:
    """Restarts a gate check: its check run was re-requested."""
    fresh = GateCheck(gate_check.sha, gate_check.deployed_at, gate_check.repository, now, gate_check.private)
    return fresh._replace(check_run=gate_check.check_run)


def _is_of(gate_check: GateCheck, deploy: Deploy, sha: str, repository: str) -> bool:
    return (gate_check.sha, gate_check.deployed_at, gate_check.repository) == (sha, deploy.deployed_at, repository)
