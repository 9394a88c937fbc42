"""The JSON documents of the API and of events: a runner's health, a death, the gate, an orphaned pod. Pure.

A health document has a runner's state, its evidence, and whether a controller should act. The same document is the
API's response and the `data` of every event about a runner. Times are RFC 3339 in UTC.

The typed dictionaries are the only definition of their documents: the API's description is generated from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Literal, TypedDict

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import DeadJob, Death
from ghapp.gate.active_shard import Role
from ghapp.gate.judgement import Gate
from ghapp.gate.shard_status import ShardRule, shard_of
from ghapp.installations.pool_matching import rule_named
from ghapp.leaks.orphan import Orphan
from ghapp.pods.blockers import blocker_sentence
from ghapp.pods.pod_claim import PodClaim
from ghapp.remediation.fuse import Position
from ghapp.remediation.pause import Pause
from ghapp.remediation.status import (
    NO_REPLACEMENT,
    ReplacementBlocker,
    ReplacementStage,
    ReplacementStatus,
    ReplacementTerms,
    is_healed,
    replacement_status,
    should_replace,
)
from ghapp.runners.deletion_progress import Deletion, outcome
from ghapp.runners.evidence import Evidence, FailedCalls, Survey, observed_at
from ghapp.runners.failed_calls import failed_calls, retry_at
from ghapp.runners.verdict import Reason, State, Verdict
from ghapp.wording import duration, time_of

Timestamp = Annotated[str, "RFC 3339 in UTC"]
"""The result of `timestamp`. The API's description marks fields of this type as `date-time`."""

Source = Literal["list", "get", "delivery", "pod", "claim"]

Fact = tuple[float, Source, str]
"""An item of evidence: when (epoch seconds), from where, and what."""


class EvidenceDocument(TypedDict):
    """One item of evidence."""

    at: Timestamp
    source: Source
    text: str


class RemediationDocument(TypedDict):
    """What happens next to a runner, since when, and what blocks it. `open`: it is lost, and no successor is online."""

    status: ReplacementStage
    since: Timestamp | None
    blocked_by: ReplacementBlocker | None
    text: str
    open: bool


class HealthDocument(TypedDict):
    """The health of a runner."""

    org: str
    runner_id: int | None
    name: str | None
    pool: str | None
    shard: str | None
    state: State
    reason: Reason
    since: Timestamp | None
    replace: bool
    healed: bool
    observed_at: Timestamp | None
    age_seconds: float | None
    stale: bool
    fuse: Position
    fuse_of_all_pools: bool
    paused: bool
    remediation: RemediationDocument
    evidence: list[EvidenceDocument]


class DeadJobDocument(TypedDict):
    """The job of a runner that died. The conclusion is null until GitHub has one."""

    id: int
    repository: str
    name: str
    head_sha: str
    conclusion: str | None
    html_url: str


class DeathDocument(TypedDict):
    """The post-mortem of a runner. The logs are oldest first."""

    runner_name: str
    pod: str
    node: str
    at: Timestamp
    exit_code: int | None
    signal: int | None
    reason: str
    cause: Cause
    advice: str
    pool: str
    job: DeadJobDocument | None
    runner_log: list[str]
    host_log: list[str]
    image: str
    memory_limit: str
    runner_id: int | None


class CheckDocument(TypedDict):
    """One check of the gate."""

    name: str
    passed: bool
    text: str


class StepDocument(TypedDict):
    """One of the next steps, cheapest first."""

    step: str
    why: str


class GateDocument(TypedDict):
    """Whether a shard may take over. `check_url`: the check run "Runner gate" of its last deploy; null without one."""

    pool: str
    shard: str
    passed: bool
    role: Role
    checks: list[CheckDocument]
    next: list[StepDocument]
    check_url: str | None


def pause_in_words(pause: Pause) -> str:
    """Returns who paused, since when, until when and why."""
    until = "" if pause.until is None else f" until {time_of(pause.until)}"
    return f"by {pause.who} since {time_of(pause.at)}{until}: {pause.why}"


@lru_cache(maxsize=4096)
def timestamp(at: float) -> str:
    """Formats epoch seconds as RFC 3339 in UTC, to the millisecond; whole seconds have no fraction.

    Cached: each runner's document states the time of the last list twice.
    """
    text = datetime.fromtimestamp(round(at, 3), UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z").replace(".000Z", "Z")


def health_document(
    org: str,
    pool: str,
    evidence: Evidence,
    verdict: Verdict,
    terms: ReplacementTerms,
    rules: Sequence[ShardRule],
    now: float,
    claim: PodClaim | None = None,
) -> HealthDocument:
    """Returns the document of a known runner as of `now`; `claim` is its live pod claim, if there is one."""
    rule = rule_named(pool, rules)
    observed = verdict.observed_at
    return {
        "org": org,
        "runner_id": evidence.id,
        "name": evidence.name,
        "pool": pool,
        "shard": shard_of(evidence, rule),
        "state": verdict.state,
        "reason": verdict.reason,
        "since": None if verdict.since is None else timestamp(verdict.since),
        "replace": should_replace(evidence, verdict, terms, now, claim),
        "healed": is_healed(evidence, verdict),
        "observed_at": None if observed is None else timestamp(observed),
        "age_seconds": None if observed is None else round(max(0.0, now - observed), 1),
        "stale": verdict.stale,
        "fuse": terms.fuse.position,
        "fuse_of_all_pools": terms.is_whole,
        "paused": terms.pause is not None,
        "remediation": remediation_document(replacement_status(evidence, verdict, terms, now, claim)),
        "evidence": [evidence_document(fact) for fact in history(evidence, terms.survey, claim)],
    }


def evidence_document(fact: Fact) -> EvidenceDocument:
    """Returns an item of evidence."""
    at, source, text = fact
    return {"at": timestamp(at), "source": source, "text": text}


def remediation_document(status: ReplacementStatus) -> RemediationDocument:
    """Returns what happens next to a runner."""
    return {
        "status": status.stage,
        "since": None if status.since is None else timestamp(status.since),
        "blocked_by": status.blocked_by,
        "text": status.text,
        "open": status.is_open,
    }


def is_past(document: HealthDocument) -> bool:
    """True if the runner does not count now: it is retired, or was lost, and its loss is over."""
    remediation = document["remediation"]
    is_over = document["healed"] or remediation["status"] == ReplacementStage.REQUESTED
    return not remediation["open"] and (is_over or document["state"] in (State.INVALIDATED, State.RETIRED))


HEALED, NO_SUCCESSOR = "healed", "no-successor"
"""How a loss ended, beside the states of a runner."""


def listed_state(document: Mapping[str, Any]) -> str:
    """Returns the state as tables list it: of a lost runner `invalidated`, and once its loss is over, how it ended."""
    remediation = document["remediation"]
    if remediation["open"]:
        return State.INVALIDATED.value
    if document["healed"]:
        return HEALED
    is_over = document["state"] == State.INVALIDATED or remediation["status"] == ReplacementStage.REQUESTED
    return NO_SUCCESSOR if is_over else str(document["state"])


def never_seen(org: str, runner_id: int | None, name: str | None) -> HealthDocument:
    """Returns the document of an unknown runner."""
    return {
        "org": org,
        "runner_id": runner_id,
        "name": name,
        "pool": None,
        "shard": None,
        "state": State.UNKNOWN,
        "reason": Reason.NEVER_OBSERVED,
        "since": None,
        "replace": False,
        "healed": False,
        "observed_at": None,
        "age_seconds": None,
        "stale": True,
        "fuse": Position.CLOSED,
        "fuse_of_all_pools": False,
        "paused": False,
        "remediation": remediation_document(NO_REPLACEMENT),
        "evidence": [],
    }


def death_document(death: Death) -> DeathDocument:
    """Returns a death as the contract has it."""
    return {
        "runner_name": death.runner_name,
        "pod": death.pod,
        "node": death.node,
        "at": timestamp(death.at),
        "exit_code": death.exit_code,
        "signal": death.signal,
        "reason": death.reason,
        "cause": death.cause,
        "advice": death.advice_now,
        "pool": death.pool,
        "job": None if death.job is None else _dead_job(death.job),
        "runner_log": list(death.runner_log),
        "host_log": list(death.host_log),
        "image": death.image,
        "memory_limit": death.memory_limit,
        "runner_id": death.runner_id,
    }


def _dead_job(job: DeadJob) -> DeadJobDocument:
    return {
        "id": job.id,
        "repository": job.repository,
        "name": job.name,
        "head_sha": job.head_sha,
        "conclusion": job.conclusion or None,
        "html_url": job.html_url,
    }


def gate_document(gate: Gate) -> GateDocument:
    """Returns the result of the gate as the contract has it."""
    return {
        "pool": gate.pool,
        "shard": gate.shard,
        "passed": gate.passed,
        "role": gate.role,
        "checks": [{"name": each.name, "passed": each.passed, "text": each.text} for each in gate.checks],
        "next": [{"step": each.step, "why": each.for_admin().why} for each in gate.next],
        "check_url": gate.check_url,
    }


def orphan_document(org: str, found: Orphan) -> dict[str, Any]:
    """Returns the data of `ghapp.pod.orphaned.v1`. Times are RFC 3339 in UTC."""
    return {
        "org": org,
        "namespace": found.namespace,
        "pod": found.pod,
        "pod_uid": found.uid,
        "node": found.node or None,
        "runner_name": found.runner_name,
        "pool": found.pool or None,
        "at": timestamp(found.found_at),
        "unclaimed_since": timestamp(found.unclaimed_since),
        "evidence": [{"at": timestamp(at), "source": source, "text": text} for at, source, text in found.evidence],
    }


def history(evidence: Evidence, survey: Survey, claim: PodClaim | None = None) -> list[Fact]:
    """Returns the evidence in order of time; facts of one second in the order in which they follow each other.

    GitHub dates jobs by the second, and `ghapp` what it sees by less.
    """
    of = evidence.absent_of
    read = "list that changed while it was read" if of is None else f"complete list of {of}"
    facts: list[tuple[float | None, Source, str]] = [
        (evidence.first_seen, "list" if evidence.registered else "delivery", "first seen"),
        (evidence.job_started_at, "delivery", f"took job {evidence.job_id}"),
        (evidence.job_ended_at, "delivery", f"ended job {evidence.job_id}"),
        (evidence.offline_since, "list", "offline"),
        (evidence.absent_since, "list", f"absent from a {read}"),
        (evidence.first_404_at, "get", "404"),
        (evidence.confirmed_at, "get", "404 again, and a complete control list without it"),
        *_past_outage(evidence),
        (evidence.retired_at, "claim", "removed on purpose by its controller"),
        (evidence.granted_at, "claim", "remediation granted"),
        (None if _is_left_to_arc(evidence) else evidence.removed_at, "claim", "registration removed"),
        (evidence.replaced_at, "claim", "replacement accepted"),
    ]
    if evidence.deletion is not None:
        facts += _in_cluster(evidence.deletion)
    if (failed := failed_calls(evidence)) is not None:
        facts.append((failed.last_at, "get", _waits_for_github(failed, retry_at(evidence) or failed.last_at)))
    if (listing := last_listing(evidence, survey)) is not None:
        facts.append(listing)
    if claim is not None:
        facts.append((claim.claimed_at, "claim", _claimed(claim)))
    dated = ((at, source, text) for at, source, text in facts if at is not None)
    return sorted(dated, key=lambda fact: int(fact[0]))


def _past_outage(evidence: Evidence) -> list[tuple[float | None, Source, str]]:
    """Returns the last return from an absence, and the begin and end of the last outage that is over."""
    outage = evidence.last_outage
    if outage is None:
        return [(evidence.back_at, "list", "registered again after an absence")]
    is_back = outage.ended == evidence.back_at
    of = f" of {duration(outage.ended - outage.began)}"
    return [
        (outage.began, "list", "first missing, or offline" if outage.was_missing else "offline"),
        (evidence.back_at, "list", f"registered again after an absence{of if is_back else ''}"),
        (None if is_back else outage.ended, "list", f"online again after an outage{of}"),
    ]


def last_listing(evidence: Evidence, survey: Survey) -> Fact | None:
    """Returns what the last complete list shows of a runner; None if the runner is not in it."""
    at = observed_at(evidence, survey) if evidence.listed else None
    if at is None:
        return None
    state = "busy" if evidence.is_busy else "online" if evidence.online else "offline"
    return at, "list", f"{state} in a complete list of {survey.total}"


def _is_left_to_arc(evidence: Evidence) -> bool:
    return evidence.deletion is not None and evidence.deletion.left_to_arc


def _in_cluster(deletion: Deletion) -> list[tuple[float | None, Source, str]]:
    """Returns what was found in the cluster, and what was done there."""
    deleted = "ARC's object" if deletion.left_to_arc else "the pod"
    waits = blocker_sentence(deletion.waits_for, deletion.words)
    return [
        (deletion.found_at, "pod", f"found {deletion.found}"),
        (deletion.accepted_at, "pod", outcome(deletion)),
        (deletion.freed_at, "pod", "its finalizer was removed: it was stuck waiting for GitHub"),
        (deletion.over_at if deletion.over_at != deletion.accepted_at else None, "pod", f"{deleted} is deleted"),
        (deletion.waiting_since, "pod", f"waits ({deletion.waits_for}): {waits}"),
    ]


def _waits_for_github(failed: FailedCalls, again_at: float) -> str:
    times = "1 call" if failed.times == 1 else f"{failed.times} calls in a row"
    return f"GitHub gave no usable answer to {times} ({failed.why}); the next one is due at {time_of(again_at)}"


def _claimed(claim: PodClaim) -> str:
    job = "" if claim.job_id is None else f" with job {claim.job_id}"
    return f"its controller claims that pod {claim.pod} is busy{job} until {time_of(claim.expires_at)}"
