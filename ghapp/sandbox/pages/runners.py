"""A runner's settings page, to which the report links."""

from __future__ import annotations

from html import escape
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.sandbox.pages.html import page
from ghapp.sandbox.world import World

PATH = "/organizations/{org}/settings/actions/runners/{runner_id:int}"


class RunnerPages:
    """The pages of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[Route]:
        """Returns all routes."""
        return [Route(PATH, self.show, methods=["GET"])]

    async def show(self, request: Request) -> Response:
        """Shows the registration; 404 without one."""
        org = self._world.directory.organization(request.path_params["org"])
        runner_id = request.path_params["runner_id"]
        runner = None if org is None else org.fleet.roster.registered.get(runner_id)
        if runner is None:
            content = f"<p>No runner {runner_id} is registered: it was lost, or removed.</p>"
            return page("Page not found", content, HTTPStatus.NOT_FOUND)
        state = "Offline" if not runner.online else "Active" if runner.busy else "Idle"
        labels = ", ".join(f"<code>{escape(label)}</code>" for label in runner.labels)
        return page(runner.name, f"<p>Status: <b>{state}</b></p><p>Labels: {labels}</p>")
