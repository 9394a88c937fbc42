"""The API for the commands of one process: an ASGI application over Redis, without tokens, pages and a socket."""

from __future__ import annotations

import asyncio

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ghapp.deaths.api import DeathEndpoints
from ghapp.errors import ConfigurationError
from ghapp.gate.api import GateEndpoints
from ghapp.incidents.api import IncidentEndpoint
from ghapp.queue.jobs import Enqueue, JobName, enqueue
from ghapp.remediation.api import RemediationEndpoints
from ghapp.runners.api import HealthEndpoints
from ghapp.settings import Settings
from ghapp.store.connect import connect_sync
from ghapp.store.stores import Stores
from ghapp.versions.api import VersionEndpoint
from ghapp.web.api.audit_log import AuditEndpoint
from ghapp.web.api.overview import OverviewEndpoints
from ghapp.web.authentication import CommandAuthenticator
from ghapp.web.fleet_view import FleetReader
from ghapp.web.operation import Clock, TokenCheck, routes
from ghapp.web.problems import problem
from ghapp.workflow_jobs.api import JobEndpoints


def command_api(settings: Settings, stores: Stores, clock: Clock, user: str) -> Starlette:
    """Builds the API for the commands of this process: without tokens, and errors of Redis are raised.

    Args:
        settings: App credentials are not needed.
        stores: closed by the caller.
        clock: epoch seconds.
        user: named by the records of what is changed.
    """
    reader, authenticator = FleetReader(settings, stores), CommandAuthenticator(stores.tokens, user)
    enqueue_job = enqueue_over(required_redis_url(settings))
    return Starlette(
        routes=routes(
            TokenCheck(authenticator, clock),
            HealthEndpoints(settings, stores, reader, authenticator, enqueue_job, clock),
            JobEndpoints(reader, clock),
            OverviewEndpoints(settings, stores, reader, authenticator, clock),
            RemediationEndpoints(settings, stores, reader, authenticator, clock),
            GateEndpoints(settings, stores, reader, authenticator, enqueue_job, clock),
            DeathEndpoints(stores, reader),
            IncidentEndpoint(settings, stores, reader, clock),
            AuditEndpoint(stores.audit, reader),
            VersionEndpoint(reader, clock),
        ),
        exception_handlers={HTTPException: as_problem},
    )


def required_redis_url(settings: Settings) -> str:
    """Returns the address of Redis.

    Raises:
        ConfigurationError: it is not set.
    """
    if settings.redis_url is None:
        raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
    return settings.redis_url


def enqueue_over(redis_url: str) -> Enqueue:
    """Returns what enqueues jobs; it connects when the first one is enqueued."""
    queue_redis = connect_sync(redis_url)

    async def enqueue_job(work: JobName, /, *args: int | str, key: str | None = None, retry: bool = True) -> None:
        await asyncio.to_thread(enqueue, queue_redis, work, *args, key=key, retry=retry)

    return enqueue_job


async def as_problem(_: Request, error: Exception) -> Response:
    """Answers with a problem document."""
    if isinstance(error, HTTPException):
        return problem(error.status_code, error.detail, dict(error.headers or {}))
    return problem(500, "internal error; see the log")
