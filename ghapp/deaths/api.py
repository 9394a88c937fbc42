"""Post-mortems: how a runner ended, why, and what to change."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import chooser, is_of, with_delivered_job
from ghapp.report.documents import DeathDocument, death_document
from ghapp.store.stores import Stores
from ghapp.web.fleet_view import FleetReader
from ghapp.web.operation import (
    DEFAULT_PAGE,
    LIMIT,
    MISSING_ID,
    MOST_AT_ONCE,
    NOT_A_CURSOR,
    NOT_A_LIMIT,
    POOL,
    RUNNER_ID,
    Answer,
    Handler,
    Operation,
    Parameter,
    problems,
    runner_number,
    whole_number,
)
from ghapp.web.problems import problem

CAUSES = tuple(each.value for each in Cause)


class DeathsPage(msgspec.Struct, frozen=True):
    """A page of deaths, newest first."""

    deaths: list[DeathDocument]
    next_cursor: str | None


CURSOR = r"[0-9]{1,12}\.[0-9]{1,20}-([0-9a-f]{2}){1,600}"
"""The time of a page's last death (epoch seconds), and its identity in hexadecimal digits."""


def _text_of(cursor: tuple[float, str]) -> str:
    return f"{cursor[0]!r}-{cursor[1].encode().hex()}"


def _cursor(text: str) -> tuple[float, str] | None:
    """Returns the place that a cursor names; None if it is not one."""
    if not re.fullmatch(CURSOR, text, re.ASCII):
        return None
    at, _, death_id = text.partition("-")
    return float(at), bytes.fromhex(death_id).decode(errors="replace")


LIST_DEATHS = Operation(
    "GET",
    "/v1/orgs/{org}/deaths",
    "Deaths of runners of the last 30 days, newest first, in pages.",
    {200: Answer("A page.", DeathsPage), **problems(404)},
    "read",
    parameters=[
        POOL,
        Parameter("cause", {"type": "string", "enum": list(CAUSES)}),
        LIMIT,
        Parameter("cursor", {"type": "string", "pattern": f"^{CURSOR}$"}),
    ],
)
GET_DEATH = Operation(
    "GET",
    "/v1/orgs/{org}/deaths/{runner_name}",
    "The latest death of a runner of that name, in the last 30 days; with `runner_id` only if that runner died, and "
    "not an earlier one of the same name.",
    {
        200: Answer("The post-mortem.", DeathDocument),
        **problems(404, because="No such death was recorded, or the App is not installed there."),
    },
    "read",
    parameters=[Parameter("runner_id", RUNNER_ID)],
)
OPERATIONS = (LIST_DEATHS, GET_DEATH)


class DeathEndpoints:
    """The endpoints. Post-mortems are read rarely, so they are not cached."""

    def __init__(self, stores: Stores, reader: FleetReader) -> None:
        self._reader, self._deaths, self._demand = reader, stores.deaths, stores.demand

    def handlers(self) -> Mapping[Operation, Handler]:
        """Returns the handlers."""
        return {LIST_DEATHS: self._list, GET_DEATH: self._of}

    async def _list(self, request: Request) -> Response:
        """A page of the last month's deaths, newest first."""
        org, query = request.path_params["org"], request.query_params
        pool, cause, given = query.get("pool"), query.get("cause"), query.get("cursor")
        limit, cursor = whole_number(query.get("limit", str(DEFAULT_PAGE))), None if given is None else _cursor(given)
        if cause is not None and cause not in CAUSES:
            return problem(400, f"{cause!r} is not a cause of death; causes are {', '.join(CAUSES)}")
        if limit is None or not 1 <= limit <= MOST_AT_ONCE:
            return problem(400, NOT_A_LIMIT)
        if given is not None and cursor is None:
            return problem(400, NOT_A_CURSOR)
        org_state = await self._reader.installed(org)
        found, following = await self._deaths.page(org_state.installation.id, chooser(pool, cause), limit, cursor)
        page = DeathsPage([death_document(each) for each in found], None if following is None else _text_of(following))
        return Response(msgspec.json.encode(page), media_type="application/json")

    async def _of(self, request: Request) -> Response:
        """The latest death of that name; with `runner_id` only if that runner died, and not an earlier one."""
        org, name = request.path_params["org"], request.path_params["runner_name"]
        given = request.query_params.get("runner_id")
        if given is not None and runner_number(given) is None:
            return problem(400, f"{given!r}: {MISSING_ID}")
        org_state = await self._reader.installed(org)
        found = await self._deaths.of(org_state.installation.id, name)
        evidence = None if given is None else (await self._reader.runners(org_state)).get(int(given))
        if found is None or (evidence is not None and not is_of(found, evidence)):
            return problem(404, f"no death of a runner {name} of {org} was recorded in the last 30 days")
        job = None if found.job is None else await self._demand.one(org_state.installation.id, found.job.id)
        document = death_document(with_delivered_job(found, job))
        return Response(msgspec.json.encode(document), media_type="application/json")
