"""The versions of an organization's runners over HTTP: as a document, and as metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ghapp.installations.pool_matching import PoolRule, metric_pool
from ghapp.metric import Gauge, Sample
from ghapp.versions.documents import VersionsDocument, versions_document
from ghapp.versions.lifetime import Urgency, VersionStatus, parse_version
from ghapp.web.fleet_view import FleetReader
from ghapp.web.operation import Answer, Clock, Handler, Operation, problems

MOST_METRIC_VERSIONS = 20
"""Versions with series of their own, in one organization: the worst, then those with most runners."""

OTHER_VERSION, NO_VERSION = "other", "unknown"
"""Instead of further versions, and of what is no version or is not listed."""

LIST_VERSIONS = Operation(
    "GET",
    "/v1/orgs/{org}/versions",
    "The versions of the runner that run, the worst first, until when GitHub gives them jobs, and what to do.",
    {200: Answer("The versions.", VersionsDocument), **problems(404)},
    "read",
)
OPERATIONS = (LIST_VERSIONS,)

RUNNERS_BY_VERSION = Gauge(
    "ghapp_runners_by_version",
    "Runners that GitHub lists, by configured pool, version and state of the version; all other pools are pool other, "
    "and all but 20 versions of an org are version other.",
    ("org", "pool", "version", "state"),
)


class VersionEndpoint:
    """The endpoint."""

    def __init__(self, reader: FleetReader, clock: Clock) -> None:
        self._reader, self._clock = reader, clock

    def handlers(self) -> Mapping[Operation, Handler]:
        """Returns the handler."""
        return {LIST_VERSIONS: self._list}

    async def _list(self, request: Request) -> Response:
        org_state = await self._reader.installed(request.path_params["org"])
        runners = await self._reader.runners(org_state)
        document = versions_document(org_state.view, runners.values(), self._clock())
        return Response(msgspec.json.encode(document), media_type="application/json")


def version_samples(org: str, statuses: Sequence[VersionStatus], rules: Sequence[PoolRule]) -> list[Sample]:
    """Returns the number of listed runners by pool, version and state of the version.

    Args:
        org: the organization.
        statuses: of all versions, the worst first.
        rules: its configured pools.
    """
    versions = [each for each in statuses if parse_version(each.version) is not None]
    versions.sort(key=lambda each: (each.urgency is Urgency.NONE, -each.runners))
    named = {each.version for each in versions[:MOST_METRIC_VERSIONS]}
    counts: Counter[tuple[str, str, str]] = Counter()
    for status in statuses:
        version = OTHER_VERSION if parse_version(status.version) is not None else NO_VERSION
        version = status.version if status.version is not None and status.version in named else version
        for count in status.pools:
            counts[metric_pool(count.pool, rules), version, status.state.value] += count.runners
    return [
        RUNNERS_BY_VERSION.sample(count, org=org, pool=pool, version=version, state=state)
        for (pool, version, state), count in sorted(counts.items())
    ]
