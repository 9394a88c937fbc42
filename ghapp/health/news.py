"""What is new about a runner since it was last told, and when its record may be forgotten."""

from __future__ import annotations

from enum import StrEnum

from ghapp.health.evidence import Evidence
from ghapp.health.verdict import State, Verdict

ANSWERABLE_SECONDS = 24 * 3600.0
"""How long invalidated and retired runners stay answerable."""

WAITING_SECONDS = 7 * 24 * 3600.0
"""How long a loss waits for a fuse to be resumed, or a pause to end, before it is forgotten: a long weekend is less."""


class News(StrEnum):
    """What is worth an event, as the type's middle part."""

    OFFLINE = "offline"
    RECOVERED = "recovered"


TROUBLE = {State.OFFLINE, State.INVALIDATED}


def told_state(evidence: Evidence, verdict: Verdict) -> str:
    """The trouble that stands told after this verdict; empty for none. What is not known changes nothing."""
    if verdict.state in TROUBLE:
        return verdict.state.value
    return "" if verdict.state in (State.HEALTHY, State.RETIRED) else evidence.state


def news(evidence: Evidence, verdict: Verdict) -> News | None:
    """What this verdict adds to what was told; an invalidated runner's news is its replacement."""
    if told_state(evidence, verdict) == evidence.state:
        return None
    if verdict.state is State.OFFLINE:
        return News.OFFLINE
    return News.RECOVERED if verdict.state is State.HEALTHY else None


def may_be_forgotten(evidence: Evidence, verdict: Verdict, now: float) -> bool:
    """Whether nobody will ask for it any more."""
    if verdict.state is State.INVALIDATED:
        acted_at = evidence.replaced_at or evidence.granted_at or evidence.would_act_at
        waited_since = verdict.since or now
        return now - (acted_at or waited_since) > (WAITING_SECONDS if acted_at is None else ANSWERABLE_SECONDS)
    if verdict.state is State.RETIRED:
        return now - (verdict.since or now) > ANSWERABLE_SECONDS
    if not evidence.registered:
        return now - max(evidence.sighted_at or 0.0, evidence.first_seen) > ANSWERABLE_SECONDS
    return False
