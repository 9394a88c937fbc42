"""The audit log over HTTP: who changed what, when, through what, and the result."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ghapp.report.documents import Timestamp, timestamp
from ghapp.store.audit import AuditEntry, AuditLog
from ghapp.web.fleet_view import FleetReader
from ghapp.web.operation import (
    DEFAULT_PAGE,
    LIMIT,
    MOST_AT_ONCE,
    NOT_A_LIMIT,
    Answer,
    Handler,
    Operation,
    problems,
    whole_number,
)
from ghapp.web.problems import problem


class AuditEntryDocument(msgspec.Struct, frozen=True):
    """A change: `action` and its `subject` (a pool, `*` for all pools, a runner or a token), and its result.

    `channel` is the page, the API, a command or a check run; `why` the reason that was given, empty without one.
    `result` is `begun` while the change is under way, or if its process crashed; `text` has the result in words, with
    the end of a pause, and the one that it had before; what a resume ended, and the outcome of the sweep after it.
    """

    at: Timestamp
    who: str
    channel: str
    action: str
    subject: str
    why: str
    result: str
    text: str


class AuditDocument(msgspec.Struct, frozen=True):
    """The changes of an organization, the latest first."""

    org: str
    entries: list[AuditEntryDocument]


LIST_CHANGES = Operation(
    "GET",
    "/v1/orgs/{org}/audit",
    "The audit log: what people and tokens changed within a year, the latest first; at most 1,000 entries are kept.",
    {200: Answer("The entries.", AuditDocument), **problems(404)},
    "read",
    parameters=[LIMIT],
)
OPERATIONS = (LIST_CHANGES,)


class AuditEndpoint:
    """The endpoint. Attempts, declarations of controllers and addresses are on the page, for managers alone."""

    def __init__(self, log: AuditLog, reader: FleetReader) -> None:
        self._log, self._reader = log, reader

    def handlers(self) -> Mapping[Operation, Handler]:
        """Returns the handler."""
        return {LIST_CHANGES: self._list}

    async def _list(self, request: Request) -> Response:
        limit = whole_number(request.query_params.get("limit", str(DEFAULT_PAGE)))
        if limit is None or not 1 <= limit <= MOST_AT_ONCE:
            return problem(400, NOT_A_LIMIT)
        installation = (await self._reader.installed(request.path_params["org"])).installation
        entries = await self._log.latest(installation.id, limit)
        document = AuditDocument(installation.org, [_document(each) for each in entries])
        return Response(msgspec.json.encode(document), media_type="application/json")


def _document(entry: AuditEntry) -> AuditEntryDocument:
    return AuditEntryDocument(
        timestamp(entry.at),
        entry.who,
        entry.channel,
        entry.action,
        entry.subject,
        entry.why,
        entry.result,
        entry.outcome,
    )
