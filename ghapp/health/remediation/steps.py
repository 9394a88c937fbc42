"""May this one lost runner be acted on, and what follows from the last look at it before acting."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from ghapp.health.remediation.fuse import Position
from ghapp.health.remediation.plan import Mode
from ghapp.health.runner.evidence import Evidence, Registration
from ghapp.health.runner.verdict import State, runs_a_job


class RemediationStep(StrEnum):
    """What comes next."""

    REMOVE = "remove"
    RECORD_RETURN = "record-return"
    RECORD_HEIR = "record-heir"
    CALL_OFF = "call-off"


def may_act(
    evidence: Evidence, state: State, fuse: Position, mode: Mode, now: float, *, paused: bool, claimed: bool = False
) -> bool:
    """Granted, not done, still true, and stopped by nobody since.

    Once it is removed it must be replaced, whatever its state is called by then. A controller's claim on its pod holds
    it all the same: somebody works there, and the controller says when that is over. So does a job that is reported
    at the last moment, until it is known to be over.
    """
    if not is_open(evidence) or runs_a_job(evidence, now):
        return False
    if evidence.removed_at is None and state not in (State.INVALIDATED, State.OFFLINE):
        return False
    return mode == "act" and fuse is not Position.STOPPED and not paused and not claimed


class RequestStep(StrEnum):
    """What becomes of a replacement request that its controller has not accepted yet."""

    SEND = "send"
    WAIT = "wait"
    WITHDRAW = "withdraw"


def request_step(evidence: Evidence | None, event_id: str, now: float, *, paused: bool = False) -> RequestStep:
    """Whether a request may still be sent: a controller may have been away for days, and its runner is back by then.

    A job that was reported since vouches for its runner until that job is over. A pause of the pool or of the whole
    org holds back requests that were made before it. A record that is not known any more says nothing against the
    request.
    """
    if evidence is not None and evidence.event_id != event_id:
        return RequestStep.WITHDRAW
    waits = paused or (evidence is not None and runs_a_job(evidence, now))
    return RequestStep.WAIT if waits else RequestStep.SEND


def is_open(evidence: Evidence) -> bool:
    """Whether a grant leaves something to do: the replacement, or, where a deletion was accepted, to see its end."""
    if evidence.granted_at is None or evidence.event_id is None:
        return False
    return evidence.replaced_at is None or (evidence.deletion is not None and evidence.deletion.is_under_way)


def step_after(evidence: Evidence, answer: Registration | None, bearers: Iterable[Registration]) -> RemediationStep:
    """What follows from its GET just before the removal (None is a 404), and from whoever bears its name by then."""
    if evidence.confirmed_at is not None:
        if present(evidence, answer, bearers) is not None:
            return RemediationStep.RECORD_RETURN
        return RemediationStep.REMOVE if successor_of(evidence, bearers) is None else RemediationStep.RECORD_HEIR
    # Granted for being offline: it must still be. One 404 is no more than a hint; if it is gone, a sweep will find so.
    still_offline = answer is not None and not answer.online and not answer.busy
    return RemediationStep.REMOVE if still_offline else RemediationStep.CALL_OFF


def present(evidence: Evidence, answer: Registration | None, bearers: Iterable[Registration]) -> Registration | None:
    """Its registration, by whichever of the two shows it: of two answers that differ, the one that spares it counts."""
    return answer or next((each for each in bearers if each.id == evidence.id), None)


def successor_of(evidence: Evidence, bearers: Iterable[Registration]) -> int | None:
    """The later registration that bears its name: the same machine, configured anew since the last sweep."""
    later = [each.id for each in bearers if each.name == evidence.name and each.id > evidence.id]
    return max(later, default=None)
