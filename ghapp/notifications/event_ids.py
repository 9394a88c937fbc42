"""Ids of events that derive from their content, so that publishing an event again adds nothing. Pure."""

from __future__ import annotations

import uuid

from ghapp.deaths.death import Death
from ghapp.installations.installation import Installation

_NAMESPACE = uuid.UUID("6f0f7d60-9d6c-4d4f-8f6e-3c1f5f2b7a10")


def derived_id(content: str) -> str:
    """Returns the id of the event with this content."""
    return str(uuid.uuid5(_NAMESPACE, content))


def death_id(installation: Installation, death: Death) -> str:
    """Returns the stable id of a death, from its pod and its end, or its job: the same in every process and attempt."""
    ended = death.id or f"{death.namespace}/{death.pod}/{death.pod_uid}/{death.at:.3f}/{death.exit_code}"
    return derived_id(f"{installation.id}/{death.runner_name}/died/{ended}")
