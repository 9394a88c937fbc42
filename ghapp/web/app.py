"""The web role: its routes and its server."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any
from urllib.parse import unquote

import uvicorn
from redis.asyncio import Redis
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ghapp.addresses import NO_SUCH_ADDRESS
from ghapp.deaths import pages as deaths
from ghapp.deaths.api import DeathEndpoints
from ghapp.deliveries.api import RECEIVE_DELIVERY, Webhook
from ghapp.errors import ConfigurationError, StoreUnavailableError
from ghapp.gate import pages as gate
from ghapp.gate.api import GateEndpoints
from ghapp.incidents import pages as incidents
from ghapp.incidents.api import HistoryEndpoints, IncidentEndpoint
from ghapp.installations.scope_paths import PAGES, ScopePaths
from ghapp.log import logger
from ghapp.notifications.api import EventStream
from ghapp.pods.api import ClaimEndpoints
from ghapp.queue.jobs import QUEUES, Enqueue, JobName, Load, load
from ghapp.redis_clock import MEASURE_SECONDS, SharedClock
from ghapp.remediation.api import RemediationEndpoints
from ghapp.runners import pages as runners
from ghapp.runners.api import FastHealth, HealthEndpoints
from ghapp.settings import Settings
from ghapp.store.connect import PipeliningRedis, connect, connect_sync
from ghapp.store.stores import Stores, stores_over
from ghapp.versions import pages as versions
from ghapp.versions.api import VersionEndpoint
from ghapp.web import openapi
from ghapp.web.api.audit_log import AuditEndpoint
from ghapp.web.api.doctor import DoctorEndpoint
from ghapp.web.api.overview import OverviewEndpoints
from ghapp.web.api.status import StatusEndpoints
from ghapp.web.authentication import Authenticator
from ghapp.web.bounded_connection import Connections, allow_connections, bounded_config
from ghapp.web.cache import NoCachedValueError
from ghapp.web.command_api import as_problem, enqueue_over, required_redis_url
from ghapp.web.examination import Examination, Examine, FindingLike, in_own_thread
from ghapp.web.fleet_view import FleetReader
from ghapp.web.operation import Clock, TokenCheck, routes
from ghapp.web.pages import layout, static_files
from ghapp.web.pages.access import PageAccess
from ghapp.web.pages.buttons import Buttons
from ghapp.web.pages.data import PageData, ReadLoad
from ghapp.web.pages.host import PageHost
from ghapp.web.pages.scope_pages import GITHUB, HISTORY, OVERVIEW
from ghapp.web.pages.server_pages import ServerPages
from ghapp.web.pages.setup import SetupEndpoints
from ghapp.web.pages.sign_in import SignInEndpoints
from ghapp.web.problems import problem
from ghapp.workflow_jobs import pages as jobs
from ghapp.workflow_jobs.api import JobEndpoints

GC_THRESHOLD = 10_000
"""New objects between two collections. A page of 10,000 runners makes 30,000; with the default, 700, it takes a fifth
longer."""

WEBHOOK = RECEIVE_DELIVERY.path

SCOPE_PAGES = (
    OVERVIEW,
    *incidents.PAGES,
    *runners.PAGES,
    *jobs.PAGES,
    *deaths.PAGES,
    versions.PAGE,
    gate.PAGE,
    HISTORY,
    GITHUB,
)
"""The pages of each scope, in the order of the navigation."""

log = logger(__name__)


class WebApplication(Starlette):
    """Starlette behind the two most frequent requests.

    Args:
        webhook: of GitHub.
        health: reads of controllers.
        options: of Starlette.
    """

    def __init__(self, webhook: Webhook, health: FastHealth, **options: Any) -> None:
        routes: list[Route] = [Route(WEBHOOK, webhook, methods=["POST"]), *options.pop("routes")]
        super().__init__(routes=routes, **options)
        self._webhook, self._health = webhook, health
        self._scope_paths = ScopePaths(each.path for each in routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
        elif scope["path"] == WEBHOOK and scope["method"] == "POST":
            await self._webhook(scope, receive, send)
        elif (document := self._document(scope)) is not None:
            headers = [(b"content-length", b"%d" % len(document)), (b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": document})
        elif (readdressed := self._scope_paths.readdressed(_raw_path(scope))) is None:
            await super().__call__(scope, receive, send)
        elif readdressed.is_shorter and readdressed.raw_path.startswith(PAGES):
            await _redirected(scope, readdressed.raw_path)(scope, receive, send)
        else:
            raw_path = readdressed.raw_path
            await self({**scope, "path": unquote(raw_path), "raw_path": raw_path.encode()}, receive, send)

    def _document(self, scope: Scope) -> bytes | None:
        try:
            return self._health.document(scope)
        except Exception:
            log.exception("answer from memory failed")
            return None


def _raw_path(scope: Scope) -> str:
    """Returns the path as it was sent; empty if the server does not pass it on."""
    return str(scope.get("raw_path") or b"", "latin-1")


def _redirected(scope: Scope, raw_path: str) -> Response:
    """Returns the redirect of a page to another path of ours: the links of pages are relative to their paths."""
    to, query = layout.root_of(_raw_path(scope)) + raw_path.lstrip("/"), str(scope["query_string"], "latin-1")
    return RedirectResponse(f"{to}?{query}" if query else to, 307, layout.headers())


def build(
    settings: Settings,
    redis: Redis,
    enqueue_job: Enqueue,
    clock: Clock = time.time,
    read_load: ReadLoad | None = None,
    examine: Examine | None = None,
) -> WebApplication:
    """Builds the application.

    Args:
        settings: with App credentials, or with the key for /setup, which creates them.
        redis: closed by the application on shutdown.
        enqueue_job: enqueues a job without blocking the event loop.
        clock: epoch seconds.
        read_load: reads the queues for `/system`; None: an empty load.
        examine: runs the doctor's checks; None: nothing is examined.

    Returns:
        The application; setting its `state.stopping` ends the event streams, which do not end by themselves.
    """
    if settings.credentials is None and settings.page_key is None:
        raise ConfigurationError("GHAPP_APP_ID: not set; create the App with `ghapp up` and /setup")
    stopping = asyncio.Event()
    stores = stores_over(redis, settings.named, clock, lambda: enqueue_job(JobName.INBOX))
    reading = stores_over(PipeliningRedis(redis), settings.named, clock)  # many reads at once cost few round trips
    reader, authenticator = FleetReader(settings, reading), Authenticator(stores.tokens)
    setup = SetupEndpoints(settings, reading, enqueue_job, clock)
    access = PageAccess(settings, stores, setup.credentials, clock)
    data = PageData(settings, reading, reader, read_load or _no_load, clock)
    host = PageHost(settings, data, access, clock, SCOPE_PAGES)
    status = StatusEndpoints(settings, reading, clock, setup.credentials)
    examination = Examination(examine, clock)
    application = WebApplication(
        Webhook(stores.inbox, setup.webhook_secrets),
        FastHealth(reader, authenticator, clock),
        routes=[
            *routes(
                TokenCheck(authenticator, clock),
                HealthEndpoints(settings, stores, reader, authenticator, enqueue_job, clock),
                JobEndpoints(reader, clock),
                OverviewEndpoints(settings, reading, reader, authenticator, clock),
                RemediationEndpoints(settings, stores, reader, authenticator, clock),
                ClaimEndpoints(stores, reader, authenticator, clock),
                GateEndpoints(settings, stores, reader, authenticator, enqueue_job, clock),
                DeathEndpoints(stores, reader),
                VersionEndpoint(reader, clock),
                IncidentEndpoint(settings, reading, reader, clock),
                HistoryEndpoints(reading, reader, clock),
                AuditEndpoint(reading.audit, reader),
                EventStream(settings, stores, reader, authenticator, clock, stopping),
                status,
                DoctorEndpoint(reading.installations, examination, authenticator, clock),
            ),
            *setup.routes(),
            *openapi.routes(settings.public_url or f"http://127.0.0.1:{settings.listen[1]}"),
            *SignInEndpoints(settings, access, clock).routes(),
            *static_files.routes(),
            *ServerPages(host, examination).routes(),
            *host.routes(),
            *Buttons(host, enqueue_job).routes(),
        ],
        exception_handlers={
            HTTPException: _page_for_browsers(host),
            StoreUnavailableError: _away,
            ClientDisconnect: _left,
            Exception: as_problem,
        },
        lifespan=_lifespan(stores, clock, status),
    )
    application.state.stopping = stopping
    return application


def _lifespan(
    stores: Stores, clock: Clock, status: StatusEndpoints
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        gc.collect()
        gc.freeze()  # imported objects are permanent; scanning them would only delay the slowest requests
        gc.set_threshold(GC_THRESHOLD)
        measuring = asyncio.create_task(_keep_clock(stores, clock)) if isinstance(clock, SharedClock) else None
        await status.prepare()
        yield
        if measuring is not None:
            measuring.cancel()
        await stores.redis.aclose()

    return lifespan


async def _keep_clock(stores: Stores, clock: SharedClock) -> None:
    """Sets the clock by Redis' time, again and again; while Redis is unavailable, it counts on."""
    while True:
        with suppress(StoreUnavailableError):
            await stores.heartbeats.measure_clock(clock, f"web on {socket.gethostname()}")
        await asyncio.sleep(MEASURE_SECONDS)


async def _no_load() -> Load:
    return Load(workers=0, waiting=dict.fromkeys(QUEUES, 0), failed=0)


def serve(settings: Settings, examine: Callable[[], Sequence[FindingLike]] | None = None) -> None:
    """Serves until SIGTERM; then answers the open requests, and ends event streams.

    `examine` runs the doctor's checks in a thread of its own; it has its own event loop.
    """
    redis_url = required_redis_url(settings)
    queue_redis = connect_sync(redis_url)

    async def read_load() -> Load:
        return await asyncio.to_thread(load, queue_redis)

    async def examine_in_thread() -> Sequence[FindingLike]:
        return [] if examine is None else await in_own_thread(examine)

    host, port = settings.listen
    redis = connect(redis_url)
    checks = None if examine is None else examine_in_thread
    enqueue_job = enqueue_over(redis_url)
    application = build(settings, redis, enqueue_job, SharedClock(), read_load=read_load, examine=checks)
    # Uvicorn shuts down cleanly, then raises the signal again; without this handler the exit code would be a failure.
    signal.signal(signal.SIGTERM, lambda *_: None)
    allow_connections()
    Server(application, host, port, settings.trusted_proxies).run()


class Server(uvicorn.Server):
    """A server that bounds what clients can take of it, and that ends event streams on shutdown.

    Uvicorn alone would wait for the streams, then cut them off.
    """

    def __init__(self, application: WebApplication, host: str, port: int, trusted_proxies: Sequence[str] = ()) -> None:
        """`trusted_proxies`: addresses and networks whose `X-Forwarded-For` and `X-Forwarded-Proto` count."""
        super().__init__(
            bounded_config(
                application,
                Connections(),
                host=host,
                port=port,
                proxy_headers=bool(trusted_proxies),
                forwarded_allow_ips=[*trusted_proxies],
                timeout_graceful_shutdown=5,
            )
        )
        self._stopping: asyncio.Event = application.state.stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the streams, then waits for open requests."""
        self._stopping.set()
        await super().shutdown(sockets)


def _page_for_browsers(host: PageHost) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Answers HTTP errors with a problem document, and a browser at an unknown address with a page."""

    async def answer(request: Request, error: Exception) -> Response:
        is_browser = request.method == "GET" and "text/html" in request.headers.get("accept", "")
        if "endpoint" in request.scope:
            return await as_problem(request, error)
        return host.no_such_address(request) if is_browser else problem(404, NO_SUCH_ADDRESS)  # no route has matched

    return answer


async def _left(_: Request, __: Exception) -> Response:
    """Answers a client that closed its connection amid a request; its answer is dropped, and nothing is logged."""
    return problem(400, "the request is not complete")


async def _away(_: Request, error: Exception) -> Response:
    # Other errors of the store quote Redis, and its address is not for clients.
    detail = str(error) if isinstance(error, NoCachedValueError) else "Redis is unavailable; try again"
    return problem(503, detail, {"Retry-After": "5"})
