"""The pages of no scope: the list of scopes, and the system. Each shows what concerns what the visitor sees."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ghapp.installations.scope_paths import path_segment
from ghapp.store.audit import Trail
from ghapp.web.examination import Examination
from ghapp.web.pages import layout
from ghapp.web.pages.audit_entries import ALL_ENTRIES, most_entries, shows_latest_entries
from ghapp.web.pages.host import PageHost
from ghapp.web.pages.page import NoSuchPageError, OtherAnswerError
from ghapp.web.pages.views.findings import findings_view
from ghapp.web.pages.views.system import audit_lines, system_page

MOST_LISTED = 200
"""Scopes on `/`."""


class ServerPages:
    """Both pages."""

    def __init__(self, host: PageHost, examination: Examination) -> None:
        self._host, self._examination = host, examination

    def routes(self) -> list[Route]:
        """Returns both routes."""
        pages = {"/": self._organizations, "/system": self._system}
        return [Route(path, self._host.guarded(page), methods=["GET"]) for path, page in pages.items()]

    async def _organizations(self, request: Request) -> Response:
        """Redirects to the only scope; else lists those that the visitor sees, each with its state."""
        host, visitor = self._host, await self._host.visitor(request)
        seen = await host.access.seen(visitor, await host.data.installations())
        if len(seen) == 1 and "all" not in request.query_params:
            to = f"orgs/{path_segment(seen[0].org)}"
            raise OtherAnswerError(RedirectResponse(to, 303, layout.headers(scripts=True)))
        rows = []
        for each in seen[:MOST_LISTED]:
            if (org_state := await host.data.org(each.org)) is not None:
                page = await host.data.overview(org_state)
                row = {"org": each.org, "kind": each.kind, "is_below": any(org.id == each.parent for org in seen)}
                rows.append({**row, "href": f"orgs/{path_segment(each.org)}", "page": page})
        shell = host.shell(request, visitor, current="Organizations", live=True)
        return host.render(request, "organizations.html", shell=shell, rows=rows, more=len(seen) - len(rows))

    async def _system(self, request: Request) -> Response:
        """Shown to everyone who sees an organization here."""
        host, visitor = self._host, await self._host.visitor(request)
        seen = await host.access.seen(visitor, await host.data.installations())
        if not seen and not visitor.has_key:
            raise NoSuchPageError
        manages_all, roles, most = await host.manages_all(visitor), await host.data.roles(), most_entries(request)
        letters = await host.data.letters() if manages_all else None
        entries = await host.data.audited(None, most) if manages_all else []
        attempts = await host.data.audited(None, most, Trail.ATTEMPTS) if manages_all else []
        sign_ins = await host.data.audited(None, most, Trail.SIGN_INS) if manages_all else []
        now, is_live = host.clock(), shows_latest_entries(request)
        shell = host.shell(request, visitor, seen[0].org if len(seen) == 1 else "", "System", live=is_live)
        return host.render(
            request,
            "system.html",
            shell=shell,
            page=system_page(roles.load, roles.clocks, roles.watches, roles.lag, roles.dead, letters, entries, now),
            doctor=findings_view(self._examination.latest(), now) if manages_all else None,
            attempts=audit_lines(attempts, now, has_addresses=True),
            sign_ins=audit_lines(sign_ins, now, has_addresses=True),
            all_entries=f"{shell.root}system?{ALL_ENTRIES}" if is_live else None,
        )
