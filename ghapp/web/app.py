"""The web role: its routes, and how it is served."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import uvicorn
from redis.asyncio import Redis
from redis.exceptions import RedisError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.errors import ConfigurationError, StoreUnavailableError
from ghapp.settings import Settings
from ghapp.store.connect import connect, connect_sync
from ghapp.store.inbox import Inbox
from ghapp.store.tokens import Tokens
from ghapp.web.auth import Gate
from ghapp.web.health import Clock, Health
from ghapp.web.problems import problem
from ghapp.web.reads import Reads
from ghapp.web.webhook import Webhook
from ghapp.work import Work, ask

Ask = Callable[[Work], Awaitable[None]]


def build(settings: Settings, redis: Redis, ask_for: Ask, clock: Clock = time.time) -> Starlette:
    """The application.

    Args:
        settings: with credentials: their webhook secrets.
        redis: closed by the application when it ends.
        ask_for: asks for work, without holding up the loop.
        clock: epoch seconds.
    """
    if settings.credentials is None:
        raise ConfigurationError("GHAPP_WEBHOOK_SECRET: not set; the web role needs the App's credentials")
    inbox = Inbox(redis, lambda: ask_for(Work.INBOX))
    webhook = Webhook(inbox, settings.credentials.webhook_secrets)
    health = Health(Reads(settings, redis), Gate(Tokens(redis)), clock)

    async def livez(_: Request) -> Response:
        return _json({"alive": True})

    async def readyz(_: Request) -> Response:
        try:
            await redis.ping()
        except (RedisError, OSError):
            return _json({"ready": False, "redis": "away"}, 503)
        return _json({"ready": True, "redis": "ok"})

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        gc.collect()
        gc.freeze()  # what was imported stays; looking at it again only makes the slowest requests slower
        yield
        await redis.aclose()

    return Starlette(
        routes=[
            Route("/webhook", webhook.receive, methods=["POST"]),
            Route("/livez", livez),
            Route("/readyz", readyz),
            *health.routes(),
        ],
        exception_handlers={HTTPException: _as_problem, StoreUnavailableError: _away},
        lifespan=lifespan,
    )


def serve(settings: Settings) -> None:
    """Serve until SIGTERM; requests in hand are answered first."""
    if settings.redis_url is None:
        raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
    desk = connect_sync(settings.redis_url)

    async def ask_for(what: Work) -> None:
        await asyncio.to_thread(ask, desk, what)

    host, port = settings.listen
    application = build(settings, connect(settings.redis_url), ask_for)
    uvicorn.run(application, host=host, port=port, access_log=False, log_config=None, timeout_graceful_shutdown=5)


def _json(document: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(document), status, media_type="application/json")


async def _as_problem(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return problem(status, error.detail if isinstance(error, HTTPException) else "something went wrong here")


async def _away(_: Request, error: Exception) -> Response:
    return problem(503, str(error), {"Retry-After": "5"})
