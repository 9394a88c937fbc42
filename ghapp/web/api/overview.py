"""The orgs of a token, an org without its runners, and deliveries that were given up: what commands read over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ghapp.gate.shard_status import has_shards
from ghapp.report.documents import Timestamp, timestamp
from ghapp.report.links import PageLinks
from ghapp.report.overview import (
    OverviewDocument,
    headline_documents,
    held_documents,
    phantom_documents,
    pool_queue_documents,
)
from ghapp.settings import Settings
from ghapp.store.stores import Stores
from ghapp.store.views import fleet_view, load_fleet_facts
from ghapp.web.authentication import Authenticator
from ghapp.web.fleet_view import FleetReader
from ghapp.web.operation import Answer, Clock, Handler, Operation, problems


class OrgsDocument(msgspec.Struct, frozen=True):
    """The organizations where the App is installed and that the token may read, by name."""

    orgs: list[str]


class DeadDeliveryDocument(msgspec.Struct, frozen=True):
    """A delivery that was given up: its id here, GitHub's GUID, its event, the error, and when it was given up."""

    id: str
    guid: str
    event: str
    why: str
    at: Timestamp


class DeadDeliveries(msgspec.Struct, frozen=True):
    """The deliveries that were given up, oldest first."""

    deliveries: list[DeadDeliveryDocument]


LIST_ORGS = Operation(
    "GET",
    "/v1/orgs",
    "The organizations where the App is installed and that the token may read.",
    {200: Answer("Their names.", OrgsDocument), **problems(401, 503)},
)
GET_OVERVIEW = Operation(
    "GET",
    "/v1/orgs/{org}/overview",
    "An organization without its runners: what is wrong now, pauses and fuses, queues of the pools, phantoms, and the "
    "pools with shards.",
    {200: Answer("The overview.", OverviewDocument), **problems(404)},
    "read",
)
LIST_DEAD_DELIVERIES = Operation(
    "GET",
    "/v1/deliveries/dead",
    "Deliveries that were given up. They may be of any organization, so the token needs the scope `admin` for each "
    "organization where the App is installed.",
    {200: Answer("The deliveries.", DeadDeliveries), **problems(401, 403, 503)},
)
OPERATIONS = (LIST_ORGS, GET_OVERVIEW, LIST_DEAD_DELIVERIES)


class OverviewEndpoints:
    """The endpoints."""

    def __init__(
        self, settings: Settings, stores: Stores, reader: FleetReader, authenticator: Authenticator, clock: Clock
    ) -> None:
        self._settings, self._stores, self._reader = settings, stores, reader
        self._authenticator, self._clock = authenticator, clock

    def handlers(self) -> Mapping[Operation, Handler]:
        """Returns the handlers."""
        return {LIST_ORGS: self._orgs, GET_OVERVIEW: self._overview, LIST_DEAD_DELIVERIES: self._dead}

    async def _orgs(self, request: Request) -> Response:
        token = await self._authenticator.token(request, self._clock())
        installations = await self._stores.installations.all()
        named = {each.org for each in installations if any(token.may("read", name, self._clock()) for name in each.own)}
        return _json(OrgsDocument(sorted(named)))

    async def _overview(self, request: Request) -> Response:
        org, now = request.path_params["org"], self._clock()
        org_state = await self._reader.installed(org)
        name, rules = org_state.installation.org, self._settings.pools_of(org_state.installation.org)
        queue = await self._reader.job_queue(org_state, now, with_ended=False)
        runners = await self._reader.runners(org_state)
        facts, summary = await asyncio.gather(
            load_fleet_facts(self._stores, org_state.installation, self._settings, now),
            self._stores.cluster_summaries.of(org_state.installation.id),
        )
        view = org_state.view
        fleet = fleet_view(org_state.installation, self._settings, view, runners.values(), queue, facts, now)
        document: OverviewDocument = {
            "org": name,
            "headlines": headline_documents(fleet, PageLinks(self._settings.public_url, name), now),
            "held": held_documents(org_state.view),
            "pools": pool_queue_documents(name, fleet.demand),
            "pool_names": sorted(await self._reader.pools(org_state)),
            "phantoms": phantom_documents(name, summary),
            "shard_pools": [
                {"pool": rule.name, "min_online": rule.min_online, "settle_seconds": rule.settle_seconds}
                for rule in rules
                if has_shards(rule)
            ],
            "sweep_seconds": self._settings.of(name).sweep.interval_seconds,
        }
        return _json(document)

    async def _dead(self, request: Request) -> Response:
        """The deliveries that were given up. They are of any org, so the token must be an admin's of every org."""
        orgs = [each.org for each in await self._stores.installations.all()]
        await self._authenticator.require_admin_of_all(request, orgs, self._clock())
        letters = await self._stores.inbox.dead()
        found = [DeadDeliveryDocument(each.id, each.guid, each.event, each.why, timestamp(each.at)) for each in letters]
        return _json(DeadDeliveries(found))


def _json(document: object) -> Response:
    return Response(msgspec.json.encode(document), media_type="application/json")
