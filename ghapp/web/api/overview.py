"""The orgs of a token, an org without its runners, and deliveries that were given up: what commands read over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ghapp.deaths.cluster_summary import ClusterSummary
from ghapp.gate.shard_status import has_shards
from ghapp.installations.scope import ScopeKind
from ghapp.leaks.documents import LeakedPod, leak_documents
from ghapp.loading.views import FleetFacts, fleet_view, load_fleet_facts, load_leaked_pods, reaper_terms
from ghapp.report.documents import Timestamp, timestamp
from ghapp.report.fleet import by_pool
from ghapp.report.headlines import headlines
from ghapp.report.links import PageLinks
from ghapp.report.notes import notes
from ghapp.report.overview import (
    OverviewDocument,
    headline_documents,
    held_documents,
    phantom_documents,
    pool_queue_documents,
)
from ghapp.runners.evidence import Evidence
from ghapp.settings import Settings
from ghapp.store.stores import Stores
from ghapp.web.authentication import Authenticator
from ghapp.web.cache import Cache
from ghapp.web.fleet_view import MOST_ORGS, FleetReader, OrgState
from ghapp.web.operation import Answer, Clock, Handler, Operation, problems
from ghapp.web.prepared import Prepared
from ghapp.workflow_jobs.job_queue import JobQueue


class OrgsDocument(msgspec.Struct, frozen=True):
    """The scopes that the token may read, by address: organizations, repositories, enterprises.

    `github_url` is the address of the GitHub that has them.
    """

    orgs: list[str]
    github_url: str


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
    "The scopes that the token may read: organizations where the App is installed, and repositories and enterprises "
    "whose runners are watched.",
    {200: Answer("Their addresses.", OrgsDocument), **problems(401, 503)},
)
GET_OVERVIEW = Operation(
    "GET",
    "/v1/orgs/{org}/overview",
    "An organization without its runners: what is wrong now, pauses and fuses, queues of the pools, phantoms, leaked "
    "pods, and the pools with shards.",
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


class _OrgFacts(NamedTuple):
    """What is known of an org beside its runners and jobs."""

    facts: FleetFacts
    summary: ClusterSummary | None
    leaks: Sequence[LeakedPod] = ()


class OverviewEndpoints:
    """The endpoints."""

    def __init__(
        self, settings: Settings, stores: Stores, reader: FleetReader, authenticator: Authenticator, clock: Clock
    ) -> None:
        self._settings, self._stores, self._reader = settings, stores, reader
        self._authenticator, self._clock = authenticator, clock
        self._facts: Cache[int, _OrgFacts] = Cache(MOST_ORGS, MOST_ORGS)
        self._overviews: Prepared[bytes] = Prepared()

    def handlers(self) -> Mapping[Operation, Handler]:
        """Returns the handlers."""
        return {LIST_ORGS: self._orgs, GET_OVERVIEW: self._overview, LIST_DEAD_DELIVERIES: self._dead}

    async def _orgs(self, request: Request) -> Response:
        token = await self._authenticator.token(request, self._clock())
        installations = await self._stores.installations.all()
        named = {each.org for each in installations if any(token.may("read", name, self._clock()) for name in each.own)}
        return _json(OrgsDocument(sorted(named), self._settings.web_url))

    async def _overview(self, request: Request) -> Response:
        """Judges all runners, so that the document is prepared at most once a second, for all who ask."""
        org_state = await self._reader.installed(request.path_params["org"])
        installation = org_state.installation

        async def load() -> _OrgFacts:
            return _OrgFacts(
                *await asyncio.gather(
                    load_fleet_facts(self._stores, installation, self._settings, self._clock()),
                    self._stores.cluster_summaries.of(installation.id),
                    load_leaked_pods(
                        self._stores, installation, reaper_terms(org_state.view, self._settings), self._clock()
                    ),
                )
            )

        runners, known = await asyncio.gather(self._reader.runners(org_state), self._facts.read(installation.id, load))
        queue = await self._reader.job_queue(org_state, self._clock(), with_ended=False)

        async def prepare() -> bytes:
            return msgspec.json.encode(
                await self._document(org_state, runners, queue, known or _OrgFacts(FleetFacts(), None))
            )

        body = await self._overviews.read(installation.id, prepare, org_state, runners, queue, known)
        return Response(body, media_type="application/json")

    async def _document(
        self, org_state: OrgState, runners: Mapping[int, Evidence], queue: JobQueue, known: _OrgFacts
    ) -> OverviewDocument:
        now, view, installation = self._clock(), org_state.view, org_state.installation
        name, rules = installation.org, self._settings.pools_of(installation.org)
        fleet = fleet_view(installation, self._settings, view, runners.values(), queue, known.facts, now)
        pools = by_pool(fleet, now)
        found = headlines(fleet, pools, now)
        return {
            "org": name,
            "headlines": headline_documents(name, found, PageLinks(self._settings.public_url, name)),
            "notes": notes(fleet, pools, found, now),
            "held": held_documents(org_state.view),
            "pools": pool_queue_documents(fleet, pools),
            "pool_names": sorted(await self._reader.pools(org_state)),
            "phantoms": phantom_documents(name, known.summary),
            "possible_phantoms": sorted(known.facts.possible_phantoms),
            "leaks": leak_documents(name, known.leaks),
            "shard_pools": [
                {"pool": rule.name, "min_online": rule.min_online, "settle_seconds": rule.settle_seconds}
                for rule in rules
                if has_shards(rule)
            ],
            "sweep_seconds": self._settings.of(name).sweep.interval_seconds,
        }

    async def _dead(self, request: Request) -> Response:
        """The deliveries that were given up. They are of any organization, so the token must be an admin's of each.

        Repositories and enterprises have no deliveries of their own.
        """
        known = await self._stores.installations.all()
        orgs = [each.org for each in known if each.kind is ScopeKind.ORGANIZATION]
        await self._authenticator.require_admin_of_all(request, orgs, self._clock())
        letters = await self._stores.inbox.dead()
        found = [DeadDeliveryDocument(each.id, each.guid, each.event, each.why, timestamp(each.at)) for each in letters]
        return _json(DeadDeliveries(found))


def _json(document: object) -> Response:
    return Response(msgspec.json.encode(document), media_type="application/json")
