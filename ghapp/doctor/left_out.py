"""Reports what could not be read of the answers of others, the last of each kind."""

from __future__ import annotations

from collections.abc import Sequence

from ghapp.doctor.finding import Finding, warning
from ghapp.store.left_out import LastLeftOut
from ghapp.wording import time_of

GITHUB = "github"
_GROUPS = {
    "delivery": "deliveries",
    "delivery-attempt": "deliveries",
    "pod": "cluster",
    "ephemeral-runner": "cluster",
    "ephemeral-runner-set": "cluster",
    "autoscaling-runner-set": "cluster",
    "log-stream": "cluster",
}
"""By kind; all others are in GitHub's answers."""

FIX = (
    "nothing else was lost: what cannot be read counts as it was read before. If it lasts, look for a proxy that "
    "changes answers, or report it with this line"
)


LASTS_SECONDS = 3600.0
"""Lists are read again within minutes: what was not left out for so long can be read again."""


def of_left_out(left_out: Sequence[LastLeftOut], now: float) -> list[Finding]:
    """Returns a warning for each kind of row of which something was left out within the last hour."""
    return [
        warning(
            _GROUPS.get(each.kind, GITHUB),
            f"left out: {each.kind}",
            f"{'a row' if each.is_row else 'a part of a row'} of kind {each.kind} was left out at "
            f"{time_of(each.at)}: {each.field or 'the answer'}: {each.why}",
            FIX,
        )
        for each in left_out
        if now - each.at < LASTS_SECONDS
    ]
