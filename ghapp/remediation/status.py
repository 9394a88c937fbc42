"""What happens next to a lost runner, since when, and what blocks it. Pure; times are epoch seconds.

Decided here alone. The pages, the terminal, the check run, `explain`, the API and the notifications show it in these
words: two surfaces that each decide for themselves contradict each other at night.

A loss is healed when its successor is online. Between the accepted request and the successor it is `requested`, and
still open; after an hour without a successor it is over, and no longer counted as lost. So is a late one, once most
others of its pool healed and its successor cannot be distinguished from the pool's own newcomers (`healing`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from ghapp.pods.blockers import Blocker, blocker_sentence
from ghapp.pods.pod_claim import PodClaim
from ghapp.remediation.fuse import FUSE_REASONS, Fuse, Position
from ghapp.remediation.healing import SUCCESSOR_PATIENCE_SECONDS, awaits_successor
from ghapp.remediation.pause import Pause
from ghapp.remediation.plan import Mode
from ghapp.remediation.steps import ReplacementPath, may_act
from ghapp.runners.evidence import Evidence, Survey, is_absent
from ghapp.runners.failed_calls import failed_calls, retry_at
from ghapp.runners.verdict import (
    Reason,
    State,
    Verdict,
    deferred_at,
    may_run_an_unknown_job,
    needs_no_replacement,
    runs_a_job,
)
from ghapp.wording import clock_time

FOR_A_PERSON = frozenset(
    {
        Blocker.CLUSTER_UNCONFIGURED,
        Blocker.CLUSTER_FORBIDDEN,
        Blocker.POLICY_FORBIDS,
        Blocker.RESOURCE_MISSING,
        Blocker.POD_OF_ARC,
        Blocker.POOL_NEVER_SEEN_THERE,
    }
)
"""Blockers in the cluster that stay until an admin changes the configuration of ghapp or of the cluster."""

NOT_GRANTED = frozenset({Reason.UNAUTHORIZED, Reason.PERMISSION_MISSING, Reason.INSTALLATION_SUSPENDED})
"""Why GitHub refuses calls until an admin of the organization acts."""


class ReplacementStage(StrEnum):
    """How far the replacement of a runner is: `remediation.status` of its health document."""

    NONE = "none"
    SUSPECT = "suspect"
    WAITING = "waiting"
    GRANTED = "granted"
    REMOVED = "removed"
    REQUESTED = "requested"
    HEALED = "healed"
    WRITTEN_OFF = "written-off"
    RETURNED = "returned"


class ReplacementBlocker(StrEnum):
    """What a waiting replacement is blocked by: `remediation.blocked_by` of the health document."""

    OFF = "off"
    DRY_RUN = "dry-run"
    PAUSE = "pause"
    NO_POOL = "no-pool"
    CLAIM = "claim"
    JOB = "job"
    FUSE = "fuse"
    LIMIT = "limit"
    PERMISSION = "permission"
    """GitHub or the cluster forbids what the replacement takes."""
    CLUSTER = "cluster"
    GITHUB = "github"
    DELIVERIES_MISSING = "deliveries-missing"


class ReplacementStatus(NamedTuple):
    """What happens next to a runner.

    Attributes:
        stage: how far its replacement is.
        text: the same, in a part of a sentence that begins in lower case and has no full stop.
        since: when this stage began; None if that is not known.
        blocked_by: what a waiting replacement is blocked by; None if it is the next one.
        is_open: True if the runner is lost, and its loss is neither healed nor over.
        is_stopped: True if a person has to act, or a fuse to go on, before anything happens.
    """

    stage: ReplacementStage
    text: str = "no replacement is needed"
    since: float | None = None
    blocked_by: ReplacementBlocker | None = None
    is_open: bool = False
    is_stopped: bool = False

    @property
    def short(self) -> str:
        """The stage and what blocks it: `waiting (fuse)`."""
        return f"{self.stage} ({self.blocked_by})" if self.blocked_by else self.stage.value

    @property
    def is_lasting(self) -> bool:
        """True if it follows from the evidence and the verdict alone: time and the pool's terms change nothing."""
        return not self.is_open and self.stage not in (ReplacementStage.SUSPECT, ReplacementStage.WAITING)


NO_REPLACEMENT = ReplacementStatus(ReplacementStage.NONE)

_Block = tuple[ReplacementBlocker, str, bool]
"""A blocker, its words, and whether it stays until a person acts or a fuse goes on."""


@dataclass(frozen=True, slots=True)
class ReplacementTerms:
    """What holds for the replacements of a pool now.

    Attributes:
        fuse: its own fuse or the installation's, whichever allows less.
        pause: of the pool, or of the whole organization.
        mode: of `[remediation]`.
        path: how its replacements are requested.
        is_configured: False if other pools are configured, and not this one.
        survey: of the last lists.
        is_current: False if this was read before Redis became unavailable.
        is_whole: True if the fuse is that of the whole installation, and not closed.
    """

    fuse: Fuse = field(default_factory=Fuse)
    pause: Pause | None = None
    mode: Mode = "act"
    path: ReplacementPath = ReplacementPath.EVENT
    is_configured: bool = True
    survey: Survey = field(default_factory=Survey)
    is_current: bool = True
    is_whole: bool = False

    @property
    def fuse_name(self) -> str:
        """The fuse, in words."""
        return "the fuse of all pools" if self.is_whole else "the fuse"

    @property
    def is_seen(self) -> bool:
        """True unless the last sweep failed: while sweeps fail, a lost runner's machine may register again unseen."""
        return self.survey.failing_since is None


def is_lost(evidence: Evidence, verdict: Verdict) -> bool:
    """True if the runner was lost, whatever came of it: its absence is confirmed, or ghapp removed its registration.

    An offline runner that its pool has replaced is lost once ghapp removed it, and until its own successor is online.
    """
    is_removed = evidence.removed_at is not None and verdict.state is not State.RETIRED
    return verdict.state is State.INVALIDATED or is_removed


def is_healed(evidence: Evidence, verdict: Verdict) -> bool:
    """True if the runner was lost, and its successor is online."""
    return evidence.successor is not None and is_lost(evidence, verdict)


def is_loss_over(evidence: Evidence, verdict: Verdict, now: float) -> bool:
    """True if the loss of a runner ended: it healed, or its successor is not awaited any more."""
    if evidence.replaced_at is None or not is_lost(evidence, verdict):
        return False
    return evidence.successor is not None or not is_successor_awaited(evidence, now)


def is_successor_awaited(evidence: Evidence, now: float) -> bool:
    """True if its request was accepted less than an hour ago, and its successor is neither known nor hidden."""
    return awaits_successor(evidence) and now <= (evidence.replaced_at or 0.0) + SUCCESSOR_PATIENCE_SECONDS


def is_loss_open(evidence: Evidence, verdict: Verdict, now: float) -> bool:
    """True if the runner is lost, and its loss is neither healed nor over."""
    return is_lost(evidence, verdict) and not is_loss_over(evidence, verdict, now)


def is_past(evidence: Evidence, verdict: Verdict, now: float) -> bool:
    """True if the runner does not count now: it is retired, or was lost, and its loss is over."""
    is_gone = verdict.state is State.RETIRED or is_lost(evidence, verdict)
    return is_gone and not is_loss_open(evidence, verdict, now)


def may_be_past(evidence: Evidence) -> bool:
    """False if `is_past` is False whatever the verdict: GitHub has the runner, and its removal is not on record."""
    return is_absent(evidence) or evidence.retired_at is not None or evidence.removed_at is not None


def should_replace(
    evidence: Evidence, verdict: Verdict, terms: ReplacementTerms, now: float, claim: PodClaim | None = None
) -> bool:
    """True if a controller should act now.

    The runner is lost, its replacement is granted and not accepted yet, the verdict is fresh, the last sweep did not
    fail, GitHub answers about the runner, the record was read now, and neither the mode, a pause, a stopped fuse, a
    job nor a pod claim prevents the replacement. While GitHub gives no answer, the runner's machine may have registered
    again under its name.
    """
    is_due = verdict.state is State.INVALIDATED or evidence.removed_at is not None
    if not is_due or evidence.replaced_at is not None or verdict.stale:
        return False
    if not terms.is_current or not terms.is_seen or failed_calls(evidence) is not None:
        return False
    paused, claimed = terms.pause is not None, claim is not None
    return may_act(evidence, verdict.state, terms.fuse, terms.mode, now, paused=paused, claimed=claimed)


def replacement_status(
    evidence: Evidence, verdict: Verdict, terms: ReplacementTerms, now: float, claim: PodClaim | None = None
) -> ReplacementStatus:
    """Returns what happens next to a runner.

    Args:
        evidence: of the runner.
        verdict: of this evidence at `now`.
        terms: of its pool.
        now: epoch seconds.
        claim: its live pod claim.
    """
    match verdict.state:
        case State.RETIRED if not _goes_on(evidence):
            return _retired(evidence, verdict)
        case State.SUSPECT if evidence.granted_at is None and evidence.confirmed_at is None:
            return _suspect(evidence, verdict, terms, now)
        case State.INVALIDATED | State.RETIRED:
            return _lost(evidence, verdict, terms, now, claim)
    is_requested = evidence.granted_at is not None or evidence.removed_at is not None
    if is_requested or (evidence.confirmed_at is not None and is_absent(evidence)):
        return _lost(evidence, verdict, terms, now, claim)
    if evidence.was_lost and evidence.back_at is not None:
        text = "its registration returned, and nothing is replaced"
        return ReplacementStatus(ReplacementStage.RETURNED, text, evidence.back_at)
    if verdict.state is State.OFFLINE:
        return ReplacementStatus(
            ReplacementStage.NONE, "offline runners are reported, and replaced if the pool says so"
        )
    return NO_REPLACEMENT


def _goes_on(evidence: Evidence) -> bool:
    """True if the replacement of a retired runner goes on: the end of its job came after its removal."""
    is_under_way = evidence.removed_at is not None and evidence.replaced_at is None
    return is_under_way and not needs_no_replacement(evidence)


def _retired(evidence: Evidence, verdict: Verdict) -> ReplacementStatus:
    if verdict.reason is Reason.NOT_NEEDED:
        text = "written off: the pool was stable without it, and no job waited; a job that waits brings it back"
        return ReplacementStatus(ReplacementStage.WRITTEN_OFF, text, evidence.not_needed_at)
    if verdict.reason is Reason.REREGISTERED and evidence.confirmed_at is not None:
        text = f"its machine registered again, as runner {evidence.reregistered_as}"
        return ReplacementStatus(ReplacementStage.RETURNED, text, verdict.since)
    return NO_REPLACEMENT


def _suspect(evidence: Evidence, verdict: Verdict, terms: ReplacementTerms, now: float) -> ReplacementStatus:
    if (block := _job(evidence, now) or _github(evidence, terms)) is not None:
        return _waiting(block, verdict.since)
    if (since := deferred_at(evidence)) is not None:
        text = "deliveries are missing or late, and its job may have ended unseen; it is confirmed within an hour"
        return _waiting((ReplacementBlocker.DELIVERIES_MISSING, text, False), since)
    text = "the runner is asked for again, and a second 404 of GitHub confirms the loss"
    return ReplacementStatus(ReplacementStage.SUSPECT, text, verdict.since)


def _lost(
    evidence: Evidence, verdict: Verdict, terms: ReplacementTerms, now: float, claim: PodClaim | None
) -> ReplacementStatus:
    """Returns how far the replacement is, of a lost runner and of one whose replacement was granted."""
    found = _progress(evidence, verdict, terms, now, claim)
    return found._replace(is_open=is_loss_open(evidence, verdict, now))


def _progress(
    evidence: Evidence, verdict: Verdict, terms: ReplacementTerms, now: float, claim: PodClaim | None
) -> ReplacementStatus:
    accepted_at = evidence.replaced_at
    if evidence.successor is not None:
        text = f"replaced: runner {evidence.successor} is online"
        return ReplacementStatus(ReplacementStage.HEALED, text, evidence.healed_at)
    if accepted_at is not None:
        text = "no successor is online yet"
        if evidence.hidden_at is not None:
            text = "its successor cannot be distinguished from the pool's other newcomers"
        elif not is_successor_awaited(evidence, now):
            text = "no successor came online within an hour"
        return ReplacementStatus(ReplacementStage.REQUESTED, text, accepted_at)
    if (block := _block(evidence, verdict, terms, now, claim)) is not None:
        since = evidence.confirmed_at or evidence.granted_at
        if block[0] in (ReplacementBlocker.PERMISSION, ReplacementBlocker.CLUSTER) and evidence.deletion is not None:
            since = evidence.deletion.waiting_since or since
        if block[0] is ReplacementBlocker.PAUSE and terms.pause is not None:
            since = max(since or 0.0, terms.pause.at)
        return _waiting(block, since)
    if evidence.removed_at is not None:
        text = f"its registration is removed, and {_AWAITED[terms.path]}"
        return ReplacementStatus(ReplacementStage.REMOVED, text, evidence.removed_at)
    if evidence.granted_at is not None:
        text = "its replacement is granted, and its registration is being removed"
        return ReplacementStatus(ReplacementStage.GRANTED, text, evidence.granted_at)
    return ReplacementStatus(ReplacementStage.WAITING, "its replacement is the next one", evidence.confirmed_at)


_AWAITED = {
    ReplacementPath.CLUSTER: "its object in the cluster is being deleted",
    ReplacementPath.EVENT: "the pool's url has not accepted the request for its replacement yet",
    ReplacementPath.POLL: "its controller has not reported its replacement yet",
}


def _waiting(block: _Block, since: float | None) -> ReplacementStatus:
    blocker, text, is_stopped = block
    return ReplacementStatus(ReplacementStage.WAITING, text, since, blocker, is_stopped=is_stopped)


def pool_block(terms: ReplacementTerms) -> tuple[ReplacementBlocker, str] | None:
    """Returns what blocks every replacement of a pool now, and its words; None if nothing does."""
    block = _decided(terms) or _stopped(terms)
    return None if block is None else block[:2]


def _decided(terms: ReplacementTerms) -> _Block | None:
    """Returns the block by what people decided or configured."""
    if terms.mode == "off":
        return ReplacementBlocker.OFF, "nothing is replaced: remediation is off", True
    if terms.mode == "dry-run":
        return ReplacementBlocker.DRY_RUN, "nothing is replaced: remediation is in dry-run", True
    if terms.pause is not None:
        why = f": {terms.pause.why}" if terms.pause.why else ""
        is_endless = terms.pause.until is None
        return ReplacementBlocker.PAUSE, f"remediation is paused by {terms.pause.who}{why}", is_endless
    if not terms.is_configured:
        return ReplacementBlocker.NO_POOL, "its pool is not configured, and no replacer is known for it", True
    return None


def _stopped(terms: ReplacementTerms, *, is_granted: bool = False) -> _Block | None:
    """Returns the block by a stopped fuse. One whose requests are repeated does not hold what was granted."""
    fuse = terms.fuse
    if fuse.holds_requests or (fuse.position is Position.STOPPED and not is_granted):
        return ReplacementBlocker.FUSE, f"{terms.fuse_name} is stopped: {FUSE_REASONS[fuse.reason]}", True
    return None


def _block(
    evidence: Evidence, verdict: Verdict, terms: ReplacementTerms, now: float, claim: PodClaim | None
) -> _Block | None:
    """Returns what blocks the replacement of a lost runner; a person's decisions first, then what is nearest to end."""
    fuse, is_granted = terms.fuse, evidence.granted_at is not None
    if (decided := _decided(terms)) is not None:
        return decided
    if claim is not None:
        return ReplacementBlocker.CLAIM, f"its controller claims that pod {claim.pod} is busy", False
    if (job := _job(evidence, now)) is not None:
        return job
    if (stopped := _stopped(terms, is_granted=is_granted)) is not None:
        return stopped
    deletion = evidence.deletion
    if deletion is not None and deletion.waits_for:
        is_for_a_person = deletion.waits_for in FOR_A_PERSON
        blocker = ReplacementBlocker.PERMISSION if is_for_a_person else ReplacementBlocker.CLUSTER
        words = blocker_sentence(deletion.waits_for, deletion.words, "for details run `ghapp explain`")
        return blocker, f"{words} ({deletion.waits_for})", is_for_a_person
    if (github := _github(evidence, terms)) is not None:
        return github
    if verdict.stale and evidence.removed_at is None:
        return (
            ReplacementBlocker.GITHUB,
            "the last complete list is too old; nothing is done without a fresh one",
            False,
        )
    if is_granted:
        return None
    if fuse.position is Position.PROVING:
        why = FUSE_REASONS[fuse.tripped_for or fuse.reason]
        text = f"{terms.fuse_name} is proving{f' ({why})' if why else ''}: {fuse.batch} at a time, then more"
        return ReplacementBlocker.FUSE, text, False
    swept_at = terms.survey.swept_at
    if evidence.confirmed_at is not None and swept_at is not None and evidence.confirmed_at < swept_at:
        return (
            ReplacementBlocker.LIMIT,
            "it waits for its turn with the next sweep, which grants a limited number",
            False,
        )
    return None


def _job(evidence: Evidence, now: float) -> _Block | None:
    """Returns the block by a job that vouches for its runner."""
    if runs_a_job(evidence, now):
        return ReplacementBlocker.JOB, f"job {evidence.running_job} runs on it by the last report", False
    if evidence.confirmed_at is None and may_run_an_unknown_job(evidence):
        return (
            ReplacementBlocker.JOB,
            "GitHub showed it busy, and the end of its job is unknown",
            False,
        )
    return None


def _github(evidence: Evidence, terms: ReplacementTerms) -> _Block | None:
    """Returns the block by answers that GitHub does not give: nothing is done on an old observation."""
    failed, failure = failed_calls(evidence), terms.survey.failure
    if failed is None and terms.is_seen:
        return None
    is_refused = (failure if failed is None else failed.reason) in NOT_GRANTED
    blocker = ReplacementBlocker.PERMISSION if is_refused else ReplacementBlocker.GITHUB
    if failed is None:
        return blocker, f"the runners cannot be read ({failure}); nothing is done without a list of them", is_refused
    again = "" if (at := retry_at(evidence)) is None else f", and is asked again at {clock_time(at)}"
    text = f"GitHub gave no usable answer about it at {clock_time(failed.last_at)} ({failed.why}){again}"
    return blocker, text, is_refused


def is_unanswered(status: ReplacementStatus, now: float, prove_seconds: float) -> bool:
    """True if a request was accepted, and `prove_seconds` later no successor is online: a controller may be broken."""
    return status.stage is ReplacementStage.REQUESTED and status.is_open and now - (status.since or now) > prove_seconds
