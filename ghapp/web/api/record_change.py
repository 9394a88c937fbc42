"""Records in the audit log what comes through the API, under the token's name."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.requests import Request

from ghapp.store.audit import AuditEntry, AuditLog, ChangeOutcome, Channel, Trail
from ghapp.web.authentication import Authenticator
from ghapp.web.reachable import address_of


class ApiAudit:
    """The audit log, for requests that a token was allowed."""

    def __init__(self, log: AuditLog, authenticator: Authenticator, clock: Callable[[], float]) -> None:
        self._log, self._authenticator, self._clock = log, authenticator, clock

    @asynccontextmanager
    async def change(
        self,
        request: Request,
        installation: int,
        action: str,
        subject: str,
        *,
        why: str = "",
        trail: Trail = Trail.CHANGES,
    ) -> AsyncIterator[ChangeOutcome]:
        """Records what an admin's token changes, or a controller declares, as `AuditLog.change`."""
        entry = await self.entry(request, action, subject, why)
        async with self._log.change(installation, entry, trail) as outcome:
            yield outcome

    async def entry(self, request: Request, action: str, subject: str, why: str = "") -> AuditEntry:
        """Returns an entry of the audit log without a result."""
        who = await self._authenticator.who(request)
        channel = self._authenticator.channel
        address = socket.gethostname() if channel is Channel.COMMAND else address_of(request)
        return AuditEntry(self._clock(), who, channel, action, subject, why, "", address)
