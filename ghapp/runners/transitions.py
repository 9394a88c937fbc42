"""Detects state transitions worth an event, and when a runner's record may be deleted."""

from __future__ import annotations

from enum import StrEnum

from ghapp.runners.evidence import Evidence, is_absent
from ghapp.runners.verdict import State, Verdict

ANSWERABLE_SECONDS = 24 * 3600.0
"""How long invalidated and retired runners stay in the API."""

WAITING_SECONDS = 7 * 24 * 3600.0
"""How long a loss waits for a fuse or a pause to be resumed before its record is deleted; covers a long weekend."""


class Transition(StrEnum):
    """A transition that is published; the value is the middle part of the event's type."""

    OFFLINE = "offline"
    RECOVERED = "recovered"


TROUBLE = {State.OFFLINE, State.INVALIDATED}


def published_state(evidence: Evidence, state: State) -> str:
    """Returns the unhealthy state to be published; empty if there is none. `unknown` changes nothing."""
    if state in TROUBLE:
        return state.value
    return "" if state in (State.HEALTHY, State.RETIRED) else evidence.state


def transition(evidence: Evidence, state: State) -> Transition | None:
    """Returns the transition to publish; for an invalidated runner, the replace event is published instead."""
    if published_state(evidence, state) == evidence.state:
        return None
    if state is State.OFFLINE:
        return Transition.OFFLINE
    return Transition.RECOVERED if state is State.HEALTHY else None


def may_be_forgotten(evidence: Evidence, verdict: Verdict, now: float, *, counted_since: float | None = None) -> bool:
    """True if the runner's record may be deleted.

    What was granted since `counted_since`, when the oldest open fuse tripped, is kept for a week: the fuse counts it,
    and would permit as many again.

    A lost, granted or removed runner is kept until its replacement was accepted, or for a week: through pauses, stopped
    fuses, and outages of a controller or a cluster. So is one whose loss was written off: a job may wait for it on
    Monday.
    """
    granted_at = evidence.granted_at or evidence.last_replaced_at
    is_counted = counted_since is not None and granted_at is not None and granted_at >= counted_since
    if is_counted and now - (granted_at or 0.0) <= WAITING_SECONDS:
        return False
    is_begun = evidence.granted_at is not None or evidence.removed_at is not None
    if verdict.state is State.INVALIDATED or (is_begun and is_absent(evidence)):
        done_at = evidence.replaced_at
        if done_at is not None and not _is_under_way(evidence):
            return now - done_at > ANSWERABLE_SECONDS
        latest = max(verdict.since or 0.0, evidence.granted_at or 0.0, evidence.removed_at or 0.0, done_at or 0.0)
        return now - (latest or now) > WAITING_SECONDS
    if verdict.state is State.RETIRED:
        kept = ANSWERABLE_SECONDS if evidence.not_needed_at is None else WAITING_SECONDS
        return now - (verdict.since or now) > kept
    if not evidence.registered:
        return now - max(evidence.last_sign_at or 0.0, evidence.first_seen) > ANSWERABLE_SECONDS
    return False


def is_expendable(evidence: Evidence, verdict: Verdict) -> bool:
    """True if the record of a runner may be deleted early where there are too many: nothing is decided from it.

    The runner left as it should, or only deliveries have named it. Nothing was granted, and no loss waits for anything.
    """
    steps = (evidence.confirmed_at, evidence.granted_at, evidence.removed_at, evidence.last_replaced_at)
    if any(each is not None for each in steps) or evidence.not_needed_at is not None or evidence.past_loss is not None:
        return False
    return verdict.state is State.RETIRED or not evidence.registered


def _is_under_way(evidence: Evidence) -> bool:
    """True if its deletion in the cluster was accepted and is not complete."""
    return evidence.deletion is not None and evidence.deletion.is_under_way
