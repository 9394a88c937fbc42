"""The history of an organization and its pools."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.incidents.history import WHOLE_ORG, WIDTHS
from ghapp.installations.pool_matching import OTHER_POOL
from ghapp.report.history import history_document, span_of
from ghapp.store.stores import Stores
from ghapp.web.api.health import Clock, etag_matches
from ghapp.web.authentication import Authenticator
from ghapp.web.fleet_view import FleetReader
from ghapp.web.problems import problem

STEPS = {str(width): width for width in WIDTHS}


class HistoryEndpoints:
    """The endpoint. It is not cached: a document is read in two round trips."""

    def __init__(self, stores: Stores, reader: FleetReader, authenticator: Authenticator, clock: Clock) -> None:
        self._reader, self._authenticator, self._clock = reader, authenticator, clock
        self._history = stores.history

    def routes(self) -> Sequence[Route]:
        """Returns all routes."""
        return [Route("/v1/orgs/{org}/history", self._of, methods=["GET"])]

    async def _of(self, request: Request) -> Response:
        """The history of a span; 304 if it is what the client has."""
        org, now, query = request.path_params["org"], self._clock(), request.query_params
        await self._authenticator.require(request, "read", org, now)
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
        steps = await self._history.steps(installation.id, pool or WHOLE_ORG, span.begin, span.end, span.step)
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
