"""Post-mortems: how a runner ended, why, and what to change."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.report.documents import death_document
from ghapp.store.stores import Stores
from ghapp.web.api.health import Clock
from ghapp.web.authentication import Authenticator
from ghapp.web.fleet_view import FleetReader
from ghapp.web.problems import problem


class DeathEndpoints:
    """The endpoint. Post-mortems are read rarely, so they are not cached."""

    def __init__(self, stores: Stores, reader: FleetReader, authenticator: Authenticator, clock: Clock) -> None:
        self._reader, self._authenticator, self._clock = reader, authenticator, clock
        self._deaths = stores.deaths

    def routes(self) -> Sequence[Route]:
        """Returns the route."""
        return [Route("/v1/orgs/{org}/deaths/{runner_name}", self._of, methods=["GET"])]

    async def _of(self, request: Request) -> Response:
        org, name = request.path_params["org"], request.path_params["runner_name"]
        await self._authenticator.require(request, "read", org, self._clock())
        org_state = await self._reader.installed(org)
        found = await self._deaths.of(org_state.installation.id, name)
        if found is None:
            return problem(404, f"no death of a runner {name} of {org} was recorded in the last 30 days")
        return Response(msgspec.json.encode(death_document(found)), media_type="application/json")
