"""The page of the gates of an organization's blue/green pools."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.web.pages.fleet_pages import PageHost, base_of
from ghapp.web.pages.views.gate import gate_page


class GatePages:
    """The page. Only repositories that the visitor may read are named."""

    def __init__(self, host: PageHost) -> None:
        self._host = host

    def routes(self) -> list[Route]:
        """Returns the route."""
        return [Route("/orgs/{org}/gate", self._host.guarded(self._gate), methods=["GET"])]

    async def _gate(self, request: Request) -> Response:
        host = self._host
        if isinstance(visit := await host.visit(request), Response):
            return visit
        installation = visit.org_state.installation
        gates = await host.data.gates(visit.org_state, visit.reads)
        page = gate_page(gates, host.clock())
        shell = host.shell(request, visit.visitor, installation.org, "Gate", live=True)
        base = base_of(shell, installation)
        return host.render(request, "gate.html", shell=shell, page=page, base=base)
