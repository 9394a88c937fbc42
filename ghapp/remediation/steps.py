"""Decides whether a lost runner may be acted on, and the next step after the last check before acting."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from enum import StrEnum

from ghapp.installations.pool_matching import ReplacerRule
from ghapp.remediation.fuse import Fuse
from ghapp.remediation.plan import Mode
from ghapp.runners.deletion_progress import is_deferred
from ghapp.runners.evidence import Evidence, Registration
from ghapp.runners.failed_calls import may_call
from ghapp.runners.observations import replaced
from ghapp.runners.verdict import State, Verdict, needs_no_replacement, runs_a_job

REPLACE = "ghapp.runner.replace.v1"
"""The type of the events that request a replacement."""

TERMINATION_SECONDS = 3600.0
"""How long after the grant the process of a lost runner may end itself."""

LOOK_LASTS_SECONDS = 10.0
"""How long GitHub's answer that a lost runner and its name are not registered permits to send a request."""

REQUESTS = uuid.UUID("0e1a1f4e-7d0b-4a39-9d6d-6a0c8f1c2b55")
"""Namespace of the ids of requests."""


class RemediationStep(StrEnum):
    """The next step of a remediation. To proceed is to remove the registration, or after that to send the request."""

    PROCEED = "proceed"
    RECORD_RETURN = "record-return"
    RECORD_SUCCESSOR = "record-successor"
    CALL_OFF = "call-off"


def request_id(installation_id: int, evidence: Evidence) -> str:
    """Returns the id of the request for a runner's replacement. It follows from the loss: one loss has one request.

    A record that Redis lost in a crash, and a grant that was revoked and given again, lead to the same request.
    """
    is_missing = evidence.confirmed_at is not None
    loss = f"missing/{evidence.first_404_at}" if is_missing else f"offline/{evidence.offline_since}"
    return str(uuid.uuid5(REQUESTS, f"{installation_id}/{evidence.id}/{loss}"))


def may_act(
    evidence: Evidence, state: State, fuse: Fuse, mode: Mode, now: float, *, paused: bool, claimed: bool = False
) -> bool:
    """True if remediation is granted, not done, still justified, and not stopped since.

    A removed runner must be replaced whatever its current state is, unless it needs no replacement. A pod claim still
    blocks the replacement: a job is running in the pod, and the controller reports its end. So does a job reported at
    the last moment, until its end is known.
    """
    if not is_open(evidence) or runs_a_job(evidence, now):
        return False
    if evidence.removed_at is None and state not in (State.INVALIDATED, State.OFFLINE):
        return False
    return mode == "act" and not fuse.holds_requests and not paused and not claimed


def may_terminate(
    evidence: Evidence, verdict: Verdict, fuse: Fuse, mode: Mode, now: float, *, paused: bool, claimed: bool
) -> bool:
    """True if the process of a lost runner may end itself: a liveness probe asks, and its kubelet kills the container.

    Acting must be permitted now, by a fresh observation. The replacement may have been accepted already. Long after the
    grant another registration may run in the container; the caller has GitHub asked for that as well (`has_looked`).
    """
    if evidence.granted_at is None or not 0.0 <= now - evidence.granted_at <= TERMINATION_SECONDS:
        return False
    is_lost = verdict.state is State.INVALIDATED and not verdict.stale and not runs_a_job(evidence, now)
    return is_lost and mode == "act" and not fuse.holds_requests and not paused and not claimed


def has_looked(evidence: Evidence, now: float) -> bool:
    """True if GitHub was asked a moment ago, and neither the runner nor another one of its name is registered."""
    return evidence.looked_at is not None and 0 <= now - evidence.looked_at <= LOOK_LASTS_SECONDS


class ReplacementPath(StrEnum):
    """How the replacement of a pool's runners is requested."""

    CLUSTER = "cluster"
    """ghapp deletes the runner's object or pod."""
    EVENT = "event"
    """A replace event is sent to the pool's URL."""
    POLL = "poll"
    """The controller reads `replace` in the health documents; no event is sent."""


def replacement_path(rule: ReplacerRule | None) -> ReplacementPath:
    """Returns the path of a pool as it is configured now; controllers poll for runners of a pool without a rule."""
    match "none" if rule is None else rule.replacer:
        case "arc" | "pods":
            return ReplacementPath.CLUSTER
        case "cloudevents":
            return ReplacementPath.EVENT
        case _:
            return ReplacementPath.POLL


def awaits_remediation(
    evidence: Evidence, path: ReplacementPath, now: float, *, is_unsent: bool, is_published: bool
) -> bool:
    """True if a granted runner needs another run of its remediation: its last one was lost, or had to wait.

    While GitHub refuses the calls that it takes, each try waits twice as long as the one before.

    The path is the one that the runner's pool has now. Only what that path itself leaves behind counts as done: a
    request that was published while controllers had to poll was not sent to any URL.

    Args:
        evidence: the record of the runner.
        path: of its pool, as configured now.
        now: epoch seconds.
        is_unsent: True if its request is in the outbox, from where it is sent until it is accepted.
        is_published: True if its request is in the stream of events.
    """
    if not is_open(evidence) or not may_call(evidence, now):
        return False
    if path is ReplacementPath.CLUSTER:
        return not is_deferred(evidence.deletion, now)
    if evidence.replaced_at is not None:
        return False
    return not is_unsent if path is ReplacementPath.EVENT else evidence.removed_at is None or not is_published


class RequestStep(StrEnum):
    """The next step for a replacement request that the controller has not accepted yet."""

    SEND = "send"
    LOOK = "look"
    """A worker is to ask GitHub for the runner and its name first."""
    WAIT = "wait"
    WITHDRAW = "withdraw"


def request_step(evidence: Evidence | None, event_id: str, now: float, *, held: bool = False) -> RequestStep:
    """Decides whether a request may leave at this moment: it may have waited for days while its controller was down.

    Meanwhile its runner may have returned, or its machine may have registered again under its name; so GitHub was
    asked for both a moment ago, or is asked now. A job that was reported since then protects the runner until that job
    is over. A request whose record was deleted is withdrawn: nothing proves it any more. So is one that was accepted
    meanwhile, or reported as done.

    Args:
        evidence: the record of the runner; None if there is none.
        event_id: of the request.
        now: epoch seconds.
        held: True if a pause, the mode or a stopped fuse holds it back.
    """
    if evidence is None or not is_requested(evidence, event_id):
        return RequestStep.WITHDRAW
    if held or runs_a_job(evidence, now):
        return RequestStep.WAIT
    if has_looked(evidence, now):
        return RequestStep.SEND
    return RequestStep.LOOK if may_call(evidence, now) else RequestStep.WAIT


def is_requested(evidence: Evidence, event_id: str) -> bool:
    """True if the request of that id is the runner's open one: neither withdrawn, nor accepted, nor needless."""
    is_done = evidence.replaced_at is not None or needs_no_replacement(evidence)
    return evidence.event_id == event_id and not is_done


def may_hand_out(evidence: Evidence | None, path: ReplacementPath, event_id: str, now: float) -> bool:
    """True if the stream of events may hand the request of that id to a listener, however long ago it was published.

    A listener acts by the runner's name, so that the request must be open. One that its URL has just accepted is still
    news, for as long as GitHub's answer permits to send it. Where controllers poll, they read `replace`, and there are
    no requests.
    """
    if evidence is None or evidence.event_id != event_id or path is ReplacementPath.POLL:
        return False
    at = evidence.replaced_at
    return not needs_no_replacement(evidence) and (at is None or 0 <= now - at <= LOOK_LASTS_SECONDS)


def accepted(evidence: Evidence | None, event_id: str, at: float) -> Evidence | None:
    """A controller accepted the request of that id. A runner that returned meanwhile has another grant, or none."""
    if evidence is None or evidence.event_id != event_id:
        return evidence
    return replaced(evidence, at)


def is_open(evidence: Evidence) -> bool:
    """True if a grant is unfinished: the replacement, or waiting for the end of an accepted deletion."""
    if evidence.granted_at is None or evidence.event_id is None:
        return False
    if evidence.replaced_at is None:
        return not needs_no_replacement(evidence)
    return evidence.deletion is not None and evidence.deletion.is_under_way


def step_after(evidence: Evidence, answer: Registration | None, same_name: Iterable[Registration]) -> RemediationStep:
    """Returns the next step, by a GET just before it (None: 404) and the list of runners with its name.

    That is before the removal, and again before a request that has waited since: for a pause, or in a crash. A list may
    show a removed runner for some minutes more, so that only its own GET proves its return then.
    """
    is_removed = evidence.removed_at is not None
    if is_removed or evidence.confirmed_at is not None:
        if (answer if is_removed else present(evidence, answer, same_name)) is not None:
            return RemediationStep.RECORD_RETURN
        is_replaced = successor_of(evidence, same_name) is not None
        return RemediationStep.RECORD_SUCCESSOR if is_replaced else RemediationStep.PROCEED
    # Granted for being offline: it must still be offline. One 404 is only a hint; a sweep will detect a loss.
    still_offline = answer is not None and not answer.online and not answer.busy
    return RemediationStep.PROCEED if still_offline else RemediationStep.CALL_OFF


def present(evidence: Evidence, answer: Registration | None, same_name: Iterable[Registration]) -> Registration | None:
    """Returns the runner's registration from the GET or the list; if they disagree, the one that has it counts."""
    return answer or next((each for each in same_name if each.id == evidence.id), None)


def successor_of(evidence: Evidence, same_name: Iterable[Registration]) -> int | None:
    """Returns the id of a later registration with its name: the same machine, configured again since the last sweep."""
    later = [each.id for each in same_name if each.name == evidence.name and each.id > evidence.id]
    return max(later, default=None)
