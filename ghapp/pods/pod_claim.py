"""Pod claims: a controller's statement that a pod is busy. Until the claim ends, runner and pod are left alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple


class PodClaim(NamedTuple):
    """One claim. Fields are only ever appended: stored records are read by position. Times are epoch seconds.

    Attributes:
        pod: the pod's name.
        runner_name: the runner's name at GitHub; the pod's name if the controller sent none.
        job_id: the pod's job, if the controller sent it.
        expires_at: when the claim expires.
        claimed_at: when the controller last sent the claim.
    """

    pod: str
    runner_name: str
    job_id: int | None
    expires_at: float
    claimed_at: float = 0.0

    def is_live(self, now: float) -> bool:
        """True if the claim has not expired."""
        return now < self.expires_at


Claimed = Mapping[str, PodClaim]
"""Claims by each name that they cover."""

NO_CLAIMS: Claimed = MappingProxyType({})


def by_name(claims: Iterable[PodClaim]) -> dict[str, PodClaim]:
    """Returns claims by the names of their runners and pods; if several cover a name, the one that expires last."""
    found: dict[str, PodClaim] = {}
    for claim in claims:
        for name in (claim.runner_name, claim.pod):
            if name not in found or found[name].expires_at < claim.expires_at:
                found[name] = claim
    return found


def claim_on(claimed: Claimed, name: str, now: float) -> PodClaim | None:
    """Returns the live claim on a runner of that name at `now`, else None."""
    claim = claimed.get(name)
    return claim if claim is not None and claim.is_live(now) else None
