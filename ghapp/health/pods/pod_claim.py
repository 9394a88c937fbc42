"""A controller's word that a pod is legitimately busy: until it ends, its runner and its pod are left alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple


class PodClaim(NamedTuple):
    """One such word. Fields are only ever appended: stored records are read by position. Times are epoch seconds.

    Attributes:
        pod: the pod's name.
        runner_name: what GitHub calls its runner; the pod's name where the controller said nothing else.
        job_id: the job that it is busy with, where the controller knows.
        expires_at: from then on it says nothing.
        claimed_at: when its controller last said so.
    """

    pod: str
    runner_name: str
    job_id: int | None
    expires_at: float
    claimed_at: float = 0.0

    def is_live(self, now: float) -> bool:
        """Whether it still holds."""
        return now < self.expires_at


Claimed = Mapping[str, PodClaim]
"""Claims by each name that they hold for."""

NOBODY: Claimed = MappingProxyType({})


def by_name(claims: Iterable[PodClaim]) -> dict[str, PodClaim]:
    """Claims by the names of their runners and of their pods; of several for one name that which holds for longest."""
    found: dict[str, PodClaim] = {}
    for claim in claims:
        for name in (claim.runner_name, claim.pod):
            if name not in found or found[name].expires_at < claim.expires_at:
                found[name] = claim
    return found


def claim_on(claimed: Claimed, name: str, now: float) -> PodClaim | None:
    """The claim that holds a runner of that name at `now`, else None."""
    claim = claimed.get(name)
    return claim if claim is not None and claim.is_live(now) else None
