"""The incidents of an organization, and the history of it and of its pools."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ghapp.incidents.documents import (
    HistoryDocument,
    IncidentsDocument,
    history_document,
    incidents_document,
    span_of,
)
from ghapp.incidents.history import WIDTHS
from ghapp.incidents.texts import incidents_now
from ghapp.installations.pool_matching import ALL_POOLS, OTHER_POOL
from ghapp.report.links import PageLinks
from ghapp.settings import Settings
from ghapp.store.stores import Stores
from ghapp.web.fleet_view import FleetReader
from ghapp.web.operation import (
    DEFAULT_PAGE,
    IF_NONE_MATCH,
    LIMIT,
    MOST_AT_ONCE,
    NOT_A_LIMIT,
    POOL,
    Answer,
    Clock,
    Handler,
    Operation,
    Parameter,
    Schema,
    etag_matches,
    problems,
    whole_number,
)
from ghapp.web.problems import problem

STEPS = {str(width): width for width in WIDTHS}


OPEN = Parameter("open", {"type": "boolean", "default": False})

LIST_INCIDENTS = Operation(
    "GET",
    "/v1/orgs/{org}/incidents",
    "Incidents (losses that overlap in time) of the last month: the open ones first, the latest begin first, then the "
    "others, the latest end first; with `open=true` only the open ones. At most 500 that are over are kept.",
    {200: Answer("The incidents.", IncidentsDocument), **problems(404)},
    "read",
    parameters=[OPEN, LIMIT],
)

MOMENT: Schema = {"type": "string", "format": "date-time"}

GET_HISTORY = Operation(
    "GET",
    "/v1/orgs/{org}/history",
    "Rollups of a pool, or of all: for each step runners by state, busy runners, queued jobs, runners lost and healed "
    "with the sum of the seconds it took, jobs taken with the sum of the seconds that they waited, deaths by cause, "
    "calls spent (of all pools only), the seconds without a complete list, and those with remediation paused. The last "
    "day by default. Steps of 300 s are kept for a week, of 3600 s for 90 days; the default is 300 s up to two days. A "
    "span is cut to what is kept and to its latest 2,304 steps. A step that no complete sweep covers is null.",
    {
        200: Answer("The columns, one value for each step from `begin` to before `end`.", HistoryDocument),
        304: Answer("Nothing has changed."),
        **problems(404, because="The App is not installed there, or no such pool has a history."),
    },
    "read",
    parameters=[
        POOL,
        Parameter("from", MOMENT),
        Parameter("to", MOMENT),
        Parameter("step", {"type": "integer", "enum": [*WIDTHS]}),
        IF_NONE_MATCH,
    ],
)
OPERATIONS = (LIST_INCIDENTS, GET_HISTORY)


class IncidentEndpoint:
    """The endpoint of incidents. They are read rarely, so they are not cached."""

    def __init__(self, settings: Settings, stores: Stores, reader: FleetReader, clock: Clock) -> None:
        self._settings, self._incidents, self._reader, self._clock = settings, stores.incidents, reader, clock

    def handlers(self) -> Mapping[Operation, Handler]:
        """Returns the handler."""
        return {LIST_INCIDENTS: self._list}

    async def _list(self, request: Request) -> Response:
        """The incidents as they are now, those included that no sweep has recorded yet."""
        query = request.query_params
        limit, is_open = whole_number(query.get("limit", str(DEFAULT_PAGE))), query.get("open", "false")
        if limit is None or not 1 <= limit <= MOST_AT_ONCE:
            return problem(400, NOT_A_LIMIT)
        if is_open not in ("true", "false"):
            return problem(400, "open takes true or false")
        org_state = await self._reader.installed(request.path_params["org"])
        runners = await self._reader.runners(org_state)
        recorded = await self._incidents.all(org_state.installation.id)
        incidents = incidents_now(recorded, org_state.view, runners, self._clock())
        links = PageLinks(self._settings.public_url, org_state.installation.org)
        document = incidents_document(links, incidents.values(), limit, is_open=is_open == "true")
        return Response(msgspec.json.encode(document), media_type="application/json")


class HistoryEndpoints:
    """The endpoint. It is not cached: a document is read in two round trips."""

    def __init__(self, stores: Stores, reader: FleetReader, clock: Clock) -> None:
        self._reader, self._clock = reader, clock
        self._history = stores.history

    def handlers(self) -> Mapping[Operation, Handler]:
        """Returns the handler."""
        return {GET_HISTORY: self._of}

    async def _of(self, request: Request) -> Response:
        """The history of a span; 304 if it is what the client has."""
        org, now, query = request.path_params["org"], self._clock(), request.query_params
        times: dict[str, float | None] = {}
        for name in ("from", "to"):
            given = query.get(name)
            times[name] = None if given is None else _epoch(given)
            if given is not None and times[name] is None:
                return problem(400, f"{name} takes a time such as 2026-11-22T12:00:00Z (RFC 3339)")
        step = query.get("step")
        if step is not None and step not in STEPS:
            return problem(400, f"step takes {' or '.join(STEPS)} (seconds)")
        org_state = await self._reader.installed(org)
        installation, pool = org_state.installation, query.get("pool")
        pools = await self._history.pools(installation.id)
        if pool is not None and pool not in {*pools, OTHER_POOL, *(rule.name for rule in org_state.view.rules)}:
            return problem(
                404, f"no history of a pool {pool!r} of {org}; pools are {', '.join(pools) or 'not known yet'}"
            )
        span = span_of(times["from"], times["to"], None if step is None else STEPS[step], now)
        steps = await self._history.steps(installation.id, pool or ALL_POOLS, span.begin, span.end, span.step)
        body = msgspec.json.encode(history_document(installation.org, pool, pools, span, steps))
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {"ETag": tag}
        if etag_matches(tag, request.headers.get("if-none-match")):
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type="application/json")


def _epoch(text: str) -> float | None:
    """Returns epoch seconds of a time with an offset; None if it is none."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    if at.tzinfo is None:
        return None
    return (at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
