"""May this one lost runner be acted on, and what follows from the last look at it before acting."""

from __future__ import annotations

from enum import StrEnum

from ghapp.health.evidence import Evidence, Registration
from ghapp.health.fuse import Position
from ghapp.health.plan import Mode
from ghapp.health.verdict import State


class Step(StrEnum):
    """What comes next."""

    REMOVE = "remove"
    RECORD_RETURN = "record-return"
    CALL_OFF = "call-off"


def may_act(evidence: Evidence, state: State, fuse: Position, mode: Mode, *, paused: bool) -> bool:
    """Granted, not done, still true, and stopped by nobody since.

    Once it is removed it must be replaced, whatever its state is called by then.
    """
    if evidence.granted_at is None or evidence.event_id is None or evidence.replaced_at is not None:
        return False
    if evidence.removed_at is None and state not in (State.INVALIDATED, State.OFFLINE):
        return False
    return mode == "act" and fuse is not Position.STOPPED and not paused


def step_after(evidence: Evidence, answer: Registration | None) -> Step:
    """What follows from its GET just before the removal; None is a 404."""
    if evidence.confirmed_at is not None:
        return Step.REMOVE if answer is None else Step.RECORD_RETURN
    # Granted for being offline: it must still be. One 404 is no more than a hint; if it is gone, a sweep will find so.
    still_offline = answer is not None and not answer.online and not answer.busy
    return Step.REMOVE if still_offline else Step.CALL_OFF
