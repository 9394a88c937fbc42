"""The address alone, as a person types it: on to what there is to read."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ghapp.web.pages import layout


def routes(is_set_up: Callable[[], bool]) -> list[Route]:
    """`/`: to the set-up while there is no App, else to the description of the API."""

    async def home(_: Request) -> Response:
        return RedirectResponse("docs" if is_set_up() else "setup", 303, layout.headers())

    return [Route("/", home, methods=["GET"])]
