"""Reports API tokens that have expired or will soon: else the controller itself would find out first."""

from __future__ import annotations

from collections.abc import Sequence

from ghapp.doctor.finding import Finding, warning
from ghapp.store.tokens import DAY_SECONDS, Token
from ghapp.wording import time_of

GROUP = "controllers"
SOON_SECONDS = 14 * DAY_SECONDS


def of_tokens(tokens: Sequence[Token], now: float) -> list[Finding]:
    """Returns a warning for each token that has expired, or expires within two weeks."""
    return [
        warning(
            GROUP,
            f"token {each.name or each.id}",
            f"{'has expired at' if each.expires_at <= now else 'expires at'} {time_of(each.expires_at)} ({each.id})",
            "create another one with `ghapp token create`, give it to the client, and run "
            f"`ghapp token revoke {each.id}`",
        )
        for each in tokens
        if each.expires_at < now + SOON_SECONDS
    ]
