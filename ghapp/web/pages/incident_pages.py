"""The pages of incidents: the list of a month, and each with its time line."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ghapp.incidents.fold import current
from ghapp.incidents.page_views import incident_page, incidents_page
from ghapp.web.pages import layout
from ghapp.web.pages.fleet_pages import PageHost, base_of
from ghapp.web.pages.views.overview import items_about

MOST_DIGITS = 4


class IncidentPages:
    """The pages."""

    def __init__(self, host: PageHost) -> None:
        self._host = host

    def routes(self) -> list[Route]:
        """Returns both routes."""
        pages = {"/orgs/{org:scope}/incidents": self._list, "/orgs/{org:scope}/incidents/{incident}": self._one}
        return [Route(path, self._host.guarded(page), methods=["GET"]) for path, page in pages.items()]

    async def _list(self, request: Request) -> Response:
        host = self._host
        if isinstance(visit := await host.visit(request), Response):
            return visit
        given = request.query_params.get("page", "1")
        number = int(given) if given.isascii() and given.isdigit() and len(given) <= MOST_DIGITS else 1
        installation = visit.org_state.installation
        page = incidents_page(await host.data.incidents(visit.org_state), number, host.clock())
        shell = host.shell(request, visit.visitor, installation.org, "Incidents", live=True)
        base = base_of(shell, installation)
        return host.render(request, "incidents.html", shell=shell, page=page, base=base)

    async def _one(self, request: Request) -> Response:
        """Shows one incident. The address of an incident that another one took over leads there."""
        host, identifier = self._host, request.path_params["incident"]
        if isinstance(visit := await host.visit(request), Response):
            return visit
        found = current(await host.data.incidents(visit.org_state), identifier)
        if found is None:
            return host.absent(request, visit.visitor)
        if found.id != identifier:
            return RedirectResponse(found.id, 303, layout.headers(scripts=True))
        installation = visit.org_state.installation
        interruptions = await host.data.interruptions(visit.org_state, found)
        page = incident_page(found, await host.data.names(visit.org_state), host.clock(), interruptions)
        is_open, now = found.is_open, host.clock()
        items = items_about(await host.data.fleet(visit.org_state), page.pools, now) if is_open else []
        shell = host.shell(request, visit.visitor, installation.org, "Incidents", live=True)
        base = base_of(shell, installation)
        return host.render(request, "incident.html", shell=shell, page=page, items=items, base=base)
