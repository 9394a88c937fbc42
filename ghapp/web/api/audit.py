"""Records in the audit log what came through the API, under the token's name."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request

from ghapp.store.audit import AuditEntry, AuditLog, Channel, Trail
from ghapp.web.authentication import Authenticator
from ghapp.web.reachable import address_of


class ApiAudit:
    """The audit log, for requests that a token was allowed."""

    def __init__(self, log: AuditLog, authenticator: Authenticator, clock: Callable[[], float]) -> None:
        self._log, self._authenticator, self._clock = log, authenticator, clock

    async def changed(
        self, request: Request, installation: int, action: str, subject: str, *, result: str, why: str = ""
    ) -> None:
        """Records what an admin's token changed."""
        who = await self._authenticator.who(request)
        entry = AuditEntry(self._clock(), who, Channel.API, action, subject, why, result, address_of(request))
        await self._log.record(installation, entry)

    async def declared(self, request: Request, installation: int, action: str, subject: str) -> None:
        """Records what a controller declared."""
        who = await self._authenticator.who(request)
        entry = AuditEntry(self._clock(), who, Channel.API, action, subject, "", "", address_of(request))
        await self._log.record(installation, entry, Trail.CONTROLLERS)
