"""Denies callers what they should be allowed."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from ghapp.sandbox.apps import SandboxToken
from ghapp.sandbox.faults.faults import Fault


@dataclass(frozen=True, slots=True)
class Withheld(Fault):
    """A permission that an installation does not have.

    Attributes:
        status: 403, or 404, in whose guise GitHub may answer.
        admitted: the installation and its tokens are shown without it; else they claim to hold it.
    """

    permission: str
    status: int
    admitted: bool


@dataclass(frozen=True, slots=True)
class TokensNotYetKnown(Fault):
    """Tokens that are refused with 401 at first, and then answered 404, before all of GitHub knows them.

    Attributes:
        refused_seconds: from the token's creation.
        hidden_seconds: after that.
    """

    refused_seconds: float
    hidden_seconds: float

    def status_for(self, token: SandboxToken, now: float) -> int | None:
        """Returns the status for this token; None when it is accepted."""
        age = now - token.minted_at
        if age < self.refused_seconds:
            return HTTPStatus.UNAUTHORIZED
        return HTTPStatus.NOT_FOUND if age < self.refused_seconds + self.hidden_seconds else None
