"""What is new about a runner since it was last told, and when its record may be forgotten."""

from __future__ import annotations

from enum import StrEnum

from ghapp.health.runner.evidence import Evidence
from ghapp.health.runner.verdict import State, Verdict, is_absent

ANSWERABLE_SECONDS = 24 * 3600.0
"""How long invalidated and retired runners stay answerable."""

WAITING_SECONDS = 7 * 24 * 3600.0
"""How long a loss waits for a fuse to be resumed, or a pause to end, before it is forgotten: a long weekend is less."""


class Transition(StrEnum):
    """What is worth an event, as the type's middle part."""

    OFFLINE = "offline"
    RECOVERED = "recovered"


TROUBLE = {State.OFFLINE, State.INVALIDATED}


def published_state(evidence: Evidence, verdict: Verdict) -> str:
    """The trouble that stands told after this verdict; empty for none. What is not known changes nothing."""
    if verdict.state in TROUBLE:
        return verdict.state.value
    return "" if verdict.state in (State.HEALTHY, State.RETIRED) else evidence.state


def transition(evidence: Evidence, verdict: Verdict) -> Transition | None:
    """What this verdict adds to what was told; an invalidated runner's news is its replacement."""
    if published_state(evidence, verdict) == evidence.state:
        return None
    if verdict.state is State.OFFLINE:
        return Transition.OFFLINE
    return Transition.RECOVERED if verdict.state is State.HEALTHY else None


def may_be_forgotten(evidence: Evidence, verdict: Verdict, now: float) -> bool:
    """Whether nobody will ask for it any more.

    What was lost, granted or removed is forgotten only when its replacement was accepted, or after a week of waiting:
    through pauses, stopped fuses, and a controller or a cluster that is away.
    """
    is_begun = evidence.granted_at is not None or evidence.removed_at is not None
    if verdict.state is State.INVALIDATED or (is_begun and is_absent(evidence)):
        done_at = evidence.replaced_at or evidence.would_remediate_at
        if done_at is not None and not _is_under_way(evidence):
            return now - done_at > ANSWERABLE_SECONDS
        latest = max(verdict.since or 0.0, evidence.granted_at or 0.0, evidence.removed_at or 0.0, done_at or 0.0)
        return now - (latest or now) > WAITING_SECONDS
    if verdict.state is State.RETIRED:
        return now - (verdict.since or now) > ANSWERABLE_SECONDS
    if not evidence.registered:
        return now - max(evidence.last_delivery_at or 0.0, evidence.first_seen) > ANSWERABLE_SECONDS
    return False


def _is_under_way(evidence: Evidence) -> bool:
    """Whether its deletion in the cluster was accepted and it is not gone."""
    return evidence.deletion is not None and evidence.deletion.is_under_way
