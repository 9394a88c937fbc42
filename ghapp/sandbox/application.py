"""Everything under one root: the REST API, the web pages, the control API, the controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route

from ghapp.sandbox import controller
from ghapp.sandbox.app_pages import ManifestPages
from ghapp.sandbox.control import Control
from ghapp.sandbox.control.api import routes as control_routes
from ghapp.sandbox.pages.authorize import AuthorizationPages
from ghapp.sandbox.pages.checkruns import CheckRunPages
from ghapp.sandbox.pages.html import page
from ghapp.sandbox.pages.runners import RunnerPages
from ghapp.sandbox.pages.work import WorkPages
from ghapp.sandbox.rest import apps, checks, hooks, repositories, runners, users
from ghapp.sandbox.rest.answers import RestError
from ghapp.sandbox.rest.operation import RestOperation
from ghapp.sandbox.rest.repositories import LOGS
from ghapp.sandbox.world import World

#: Where a GitHub Enterprise Server has its REST API.
ENTERPRISE_PATH = "/api/v3"


def application(
    world: World,
    control: Control,
    describe: Callable[[], dict[str, Any]],
    lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]],
) -> Starlette:
    """Returns the application for a world; `describe` returns its addresses."""
    served = Starlette(
        routes=[
            *_api(world.config.api_path),
            *ManifestPages(world).routes(),
            *AuthorizationPages(world).routes(),
            *control_routes(control, describe),
            Route(controller.PATH, control.controller.__call__, methods=["POST"]),
            *RunnerPages(world).routes(),
            *CheckRunPages(world).routes(),
            *LOGS,
            *WorkPages(world).routes(),
        ],
        exception_handlers={HTTPException: _refuse},
        lifespan=lifespan,
    )
    served.state.world = world
    return served


def _api(path: str) -> list[BaseRoute]:
    """Returns the routes of the REST API at its path and, unless a path is configured, at the root."""
    below = Mount(path or ENTERPRISE_PATH, routes=rest_routes())
    return [below] if path else [*rest_routes(), below]


async def _refuse(request: Request, error: Exception) -> Response:
    """Answers requests that no route matches, in GitHub's shape: a page for browsers."""
    if not isinstance(error, HTTPException):
        raise error
    if "text/html" in request.headers.get("accept", ""):
        return page(error.detail, '<p><a href="/">The organizations</a></p>', error.status_code)
    return RestError(error.status_code, error.detail).response()


#: The list of runners comes first: routes are tried in order, and that one is asked for a hundred times in a sweep.
OPERATIONS = (
    *runners.OPERATIONS,
    *apps.OPERATIONS,
    *hooks.OPERATIONS,
    *repositories.OPERATIONS,
    *checks.OPERATIONS,
    *users.OPERATIONS,
)


def rest_routes() -> list[Route]:
    """A route for each operation, and for its twin with ids instead of names, as `Link` headers have it."""
    return [
        Route(template, operation, methods=[operation.method])
        for operation in OPERATIONS
        for template in _templates(operation)
    ]


def _templates(operation: RestOperation) -> Iterator[str]:
    template = operation.template.replace("{ref}", "{ref:path}")
    yield template
    if template.startswith("/orgs/{org}/"):
        yield template.replace("/orgs/{org}/", "/organizations/{organization_id}/")
    elif template.startswith("/repos/{owner}/{repo}"):
        yield template.replace("/repos/{owner}/{repo}", "/repositories/{repository_id}")
