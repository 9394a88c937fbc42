"""The web role: its routes, and how it is served."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from redis.asyncio import Redis
from redis.exceptions import RedisError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.errors import ConfigurationError, StoreUnavailableError
from ghapp.queue.jobs import JobName, enqueue
from ghapp.settings import Settings
from ghapp.store.connect import connect, connect_sync
from ghapp.store.inbox import Inbox
from ghapp.store.tokens import Tokens
from ghapp.web.api.claims import ClaimEndpoints
from ghapp.web.api.deaths import DeathEndpoints
from ghapp.web.api.events import EventStream
from ghapp.web.api.gate import GateEndpoints
from ghapp.web.api.health import Clock, Enqueue, HealthEndpoints
from ghapp.web.api.remediation import RemediationEndpoints
from ghapp.web.api.status import StatusEndpoints
from ghapp.web.api.webhook import Webhook
from ghapp.web.authentication import Authenticator
from ghapp.web.fleet_view import FleetReader
from ghapp.web.openapi import description
from ghapp.web.pages import root
from ghapp.web.pages.setup import SetupEndpoints
from ghapp.web.problems import problem


def build(settings: Settings, redis: Redis, ask_for: Enqueue, clock: Clock = time.time) -> Starlette:
    """The application.

    Args:
        settings: with credentials, or with a key for /setup, which obtains them.
        redis: closed by the application when it ends.
        ask_for: asks for work, without holding up the loop.
        clock: epoch seconds.

    Returns:
        An application; its `state.stopping`, once set, ends streams that would not end by themselves.
    """
    if settings.credentials is None and settings.setup_key is None:
        raise ConfigurationError("GHAPP_APP_ID: not set; create the App with `ghapp up` and /setup")
    stopping = asyncio.Event()
    inbox = Inbox(redis, lambda: ask_for(JobName.INBOX))
    reads, gate = FleetReader(settings, redis), Authenticator(Tokens(redis))
    setup = SetupEndpoints(settings, ask_for, clock)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        gc.collect()
        gc.freeze()  # what was imported stays; looking at it again only makes the slowest requests slower
        yield
        await redis.aclose()

    application = Starlette(
        routes=[
            Route("/webhook", Webhook(inbox, setup.webhook_secrets).receive, methods=["POST"]),
            *HealthEndpoints(settings, reads, gate, ask_for, clock).routes(),
            *setup.routes(),
            *RemediationEndpoints(settings, redis, reads, gate, ask_for, clock).routes(),
            *ClaimEndpoints(redis, reads, gate, clock).routes(),
            *GateEndpoints(settings, redis, reads, gate, ask_for, clock).routes(),
            *DeathEndpoints(redis, reads, gate, clock).routes(),
            *EventStream(redis, reads, gate, clock, stopping).routes(),
            *StatusEndpoints(settings, redis, clock).routes(),
            *description.routes(),
            *root.routes(lambda: bool(setup.webhook_secrets())),
        ],
        exception_handlers={
            HTTPException: _as_problem,
            StoreUnavailableError: _away,
            RedisError: _away,
            Exception: _as_problem,
        },
        lifespan=lifespan,
    )
    application.state.stopping = stopping
    return application


def serve(settings: Settings) -> None:
    """Serve until SIGTERM; requests in hand are answered first, and event streams end."""
    if settings.redis_url is None:
        raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
    queue_redis = connect_sync(settings.redis_url)

    async def ask_for(work: JobName, /, *args: int | str, key: str | None = None, retry: bool = True) -> None:
        await asyncio.to_thread(enqueue, queue_redis, work, *args, key=key, retry=retry)

    host, port = settings.listen
    application = build(settings, connect(settings.redis_url), ask_for)
    # Uvicorn ends well, and then raises the signal anew; who asked for it should see that it ended well.
    signal.signal(signal.SIGTERM, lambda *_: None)
    Server(application, host=host, port=port).run()


class Server(uvicorn.Server):
    """Uvicorn, for an application whose streams are to end with it: it would wait for them, and then cut them off."""

    def __init__(self, application: Starlette, host: str, port: int) -> None:
        super().__init__(
            uvicorn.Config(
                application, host=host, port=port, access_log=False, log_config=None, timeout_graceful_shutdown=5
            )
        )
        self._stopping: asyncio.Event = application.state.stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then wait for what is in hand."""
        self._stopping.set()
        await super().shutdown(sockets)


async def _as_problem(_: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return problem(error.status_code, error.detail, dict(error.headers or {}))
    return problem(500, "something went wrong here; the log says what")


async def _away(_: Request, error: Exception) -> Response:
    detail = str(error) if isinstance(error, StoreUnavailableError) else "Redis is away; ask again"
    return problem(503, detail, {"Retry-After": "5"})
