"""The pages of the fleet. Each reads its data, has a pure function make its content, and renders a template."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ghapp.errors import GitHubError, StoreUnavailableError
from ghapp.incidents.page_views import last_incident
from ghapp.installations.installation import Installation
from ghapp.installations.scope import ScopeKind, runners_settings
from ghapp.installations.scope_paths import path_segment
from ghapp.report.documents import timestamp
from ghapp.runners.page_views import read_query, runner_page, runners_page
from ghapp.settings import Settings
from ghapp.store.audit import MOST as MOST_ENTRIES
from ghapp.store.audit import Trail
from ghapp.store.presses import Press
from ghapp.web.examination import Examination
from ghapp.web.fleet_view import OrgState
from ghapp.web.operation import Clock
from ghapp.web.pages import layout
from ghapp.web.pages.access import OrgRights, PageAccess, Visitor
from ghapp.web.pages.data import PageData
from ghapp.web.pages.page_key import PARAMETER
from ghapp.web.pages.shell import NOTICES, PageShell, banner, navigation
from ghapp.web.pages.views.findings import findings_view
from ghapp.web.pages.views.github_status import github_page
from ghapp.web.pages.views.history import history_page, pool_asked, span_asked
from ghapp.web.pages.views.system import audit_lines, system_page
from ghapp.web.parameters import MOST_DIGITS

LATEST_ENTRIES = 20
"""Of each part of an audit log, on pages that are live."""

ALL_ENTRIES = "audit=all"
"""The query of a page with all entries."""

MOST_LISTED = 200
"""Organizations on `/`."""

MOST_MANAGED = 20
"""With more installations only a browser with the key sees the dead letters of all of them."""


class OrgVisit(NamedTuple):
    """A visitor at an organization that is shown to them."""

    visitor: Visitor
    org_state: OrgState
    rights: OrgRights

    def reads(self, repository: str) -> bool:
        """True if the visitor may read a repository (`owner/name`, also by a former name of the owner)."""
        return self.rights.reads(self.org_state.installation.at_github(repository))


LONGEST_PRESS = 64


def is_live_part(request: Request) -> bool:
    """True if htmx asks for the live part of a page, which has no charts."""
    return bool(request.headers.get("hx-request"))


class PageHost:
    """What all pages and buttons share: who visits, refusals, and rendering."""

    def __init__(self, settings: Settings, data: PageData, access: PageAccess, clock: Clock) -> None:
        self.settings, self.data, self.access, self.clock = settings, data, access, clock

    def guarded(self, page: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Returns the endpoint with pages in place of errors of Redis and GitHub."""

        async def endpoint(request: Request) -> Response:
            try:
                return await page(request)
            except StoreUnavailableError:
                detail = "Redis does not answer, so nothing about the fleet can be shown. Try again in a few seconds."
                return self.refuse(request, 503, "Redis does not answer", detail, again=True, wait=5)
            except GitHubError:
                detail = "What you may see depends on GitHub, which does not answer. Try again in a minute."
                return self.refuse(request, 502, "GitHub does not answer", detail, again=True, wait=30)

        return endpoint

    async def visitor(self, request: Request) -> Visitor | Response:
        """Returns the visitor, or a redirect: to the sign-in, and to the set-up while there is no App."""
        root, key = layout.root_of(request.url.path), self.access.key
        if taken := key.taken(request):
            return taken
        if not self.access.has_app:
            return RedirectResponse(f"{root}setup", 303, layout.headers(scripts=True))
        visitor = await self.access.visitor(request)
        if visitor is not None:
            return visitor
        if again := key.again(request):
            return again
        if request.headers.get("hx-request"):  # a live part: the whole page must go to the sign-in
            return Response(status_code=401, headers={**layout.headers(scripts=True), "HX-Refresh": "true"})
        to = request.url.path.lstrip("/") if request.method == "GET" else ""
        query = {"done": "wrong-key"} if PARAMETER in request.query_params else {}
        query |= {"to": to} if to else {}
        asked = urlencode(query, safe="/", quote_via=quote)
        return RedirectResponse(f"{root}sign-in{'?' if asked else ''}{asked}", 303, layout.headers(scripts=True))

    async def visit(self, request: Request) -> OrgVisit | Response:
        """Returns the visitor at the organization of the address, or the refusal of a person who may not see it."""
        visitor = await self.visitor(request)
        if isinstance(visitor, Response):
            return visitor
        org_state = await self.data.org(request.path_params["org"])
        rights = None if org_state is None else await self.access.rights(visitor, org_state.installation)
        if org_state is None or rights is None:
            return self.absent(request, visitor)
        press_id = request.query_params.get("press", "")[:LONGEST_PRESS]
        if press_id and not is_live_part(request):
            request.state.press = await self.data.press(org_state, press_id)
        return OrgVisit(visitor, org_state, rights)

    def shell(
        self, request: Request, visitor: Visitor, org: str = "", current: str = "", *, live: bool = False
    ) -> PageShell:
        """Returns the frame of a page."""
        root = layout.root_of(request.url.path)
        here = f"{root}{request.url.path.lstrip('/')}" or "./"
        asked = [part for part in request.url.query.split("&") if part]
        query = "&".join(part for part in asked if not part.startswith(("done=", "press=")))
        press: Press | None = getattr(request.state, "press", None)
        outcome = "" if press is None else banner(press, self.clock())
        waits_for = "" if press is None or press.outcome else request.query_params["press"]
        return PageShell(
            root=root,
            current=current,
            org=org,
            links=navigation(org),
            who=visitor.name,
            is_signed_in=not visitor.has_key,
            form_token=self.access.form_token(visitor),
            notice=outcome or NOTICES.get(request.query_params.get("done", ""), ""),
            outcome=f"{root}orgs/{path_segment(org)}/presses/{quote(waits_for, safe='')}" if waits_for else "",
            live=(f"{here}?{query}" if query else here) if live else "",
            now=timestamp(float(int(self.clock()))),
        )

    def render(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """Renders a page, or only its live part if htmx asks for it."""
        if is_live_part(request):
            html = layout.render_block(template, "live", **values)
        else:
            html = layout.render(template, **values)
        return HTMLResponse(html, status, {**layout.headers("'self'", scripts=True), "Vary": "HX-Request"})

    def absent(self, request: Request, visitor: Visitor) -> Response:
        """Returns 404, the same for what does not exist and for what the visitor may not see."""
        shell = PageShell(
            root=layout.root_of(request.url.path),
            who=visitor.name,
            is_signed_in=not visitor.has_key,
            form_token=self.access.form_token(visitor),
        )
        detail = "There is no such page, or it belongs to an organization that GitHub does not show to you."
        return self._message(404, shell, "Page not found", detail)

    def refuse(
        self,
        request: Request,
        status: int,
        title: str,
        detail: str,
        *,
        shell: PageShell | None = None,
        again: bool = False,
        wait: int = 0,
    ) -> Response:
        """Returns a refusal as a page.

        Args:
            request: what is refused.
            status: of HTTP.
            title: what happened.
            detail: why, and what to do.
            shell: the frame, for a visitor who is known; None: without navigation.
            again: True if a link leads to the address of the request, by GET, to try again.
            wait: after how many seconds that makes sense, for `Retry-After`; 0: no such time.
        """
        shell = shell or PageShell(root=layout.root_of(request.url.path))
        query = f"?{request.url.query}" if request.url.query else ""
        here = f"{shell.root}{request.url.path.lstrip('/')}{query}" or "./"
        response = self._message(status, shell, title, detail, here if again else "")
        if wait:
            response.headers["Retry-After"] = str(wait)
        return response

    def _message(self, status: int, shell: PageShell, title: str, detail: str, again: str = "") -> Response:
        html = layout.render("message.html", shell=shell, title=title, detail=detail, again=again)
        return HTMLResponse(html, status, layout.headers("'self'", scripts=True))

    async def manages_all(self, visitor: Visitor) -> bool:
        """True if the visitor manages every organization of this ghapp: deliveries may be of any of them."""
        known = await self.data.installations()
        installations = [each for each in known if each.kind is ScopeKind.ORGANIZATION]
        if visitor.has_key:
            return True
        if not installations or len(installations) > MOST_MANAGED:
            return False
        for each in installations:
            rights = await self.access.rights(visitor, each)
            if rights is None or not rights.manages:
                return False
        return True


class FleetPages:
    """The pages that only read."""

    def __init__(self, host: PageHost, examination: Examination) -> None:
        self._host, self._examination = host, examination

    def routes(self) -> list[Route]:
        """Returns all routes."""
        pages = {
            "/": self._organizations,
            "/orgs/{org:scope}": self._overview,
            "/orgs/{org:scope}/runners": self._runners,
            "/orgs/{org:scope}/runners/{runner_id}": self._runner,
            "/orgs/{org:scope}/github": self._github,
            "/orgs/{org:scope}/history": self._history,
            "/system": self._system,
        }
        return [Route(path, self._host.guarded(page), methods=["GET"]) for path, page in pages.items()]

    async def _organizations(self, request: Request) -> Response:
        """Redirects to the only scope; else lists those that the visitor sees, each with its state."""
        host = self._host
        if isinstance(visitor := await host.visitor(request), Response):
            return visitor
        seen = await host.access.seen(visitor, await host.data.installations())
        if len(seen) == 1 and "all" not in request.query_params:
            return RedirectResponse(f"orgs/{path_segment(seen[0].org)}", 303, layout.headers(scripts=True))
        rows = []
        for each in seen[:MOST_LISTED]:
            if (org_state := await host.data.org(each.org)) is not None:
                page = await host.data.overview(org_state)
                row = {"org": each.org, "kind": each.kind, "is_below": any(org.id == each.parent for org in seen)}
                rows.append({**row, "href": f"orgs/{path_segment(each.org)}", "page": page})
        shell = host.shell(request, visitor, current="Organizations", live=True)
        return host.render(request, "organizations.html", shell=shell, rows=rows, more=len(seen) - len(rows))

    async def _overview(self, request: Request) -> Response:
        host = self._host
        if isinstance(visit := await host.visit(request), Response):
            return visit
        installation, now = visit.org_state.installation, host.clock()
        page = await host.data.overview(visit.org_state)
        manages = visit.rights.manages
        most = _most_entries(request)
        changes = await host.data.audited(installation.id, most)
        attempts = await host.data.audited(installation.id, most, Trail.ATTEMPTS) if manages else []
        declared = await host.data.audited(installation.id, most, Trail.CONTROLLERS) if manages else []
        sparklines = await host.data.sparklines(visit.org_state, page)
        cluster = await host.data.cluster(installation.id)
        leaks = await host.data.leaks(visit.org_state)
        is_live = most < MOST_ENTRIES
        shell = host.shell(request, visit.visitor, installation.org, "Overview", live=is_live)
        base = base_of(shell, installation)
        return host.render(
            request,
            "overview.html",
            shell=shell,
            page=page,
            sparklines=sparklines,
            cluster=cluster,
            leaks=leaks,
            changes=audit_lines(changes, now, has_addresses=manages),
            attempts=audit_lines(attempts, now, has_addresses=manages),
            declared=audit_lines(declared, now, has_addresses=manages),
            all_entries=f"{base}?{ALL_ENTRIES}#audit" if is_live else None,
            rights=visit.rights,
            base=base,
        )

    async def _runners(self, request: Request) -> Response:
        host = self._host
        if isinstance(visit := await host.visit(request), Response):
            return visit
        query = read_query(request.query_params)
        page = runners_page(await host.data.lines(visit.org_state), query, host.clock())
        shell = host.shell(request, visit.visitor, visit.org_state.installation.org, "Runners", live=True)
        base = base_of(shell, visit.org_state.installation)
        return host.render(request, "runners.html", shell=shell, page=page, base=base)

    async def _runner(self, request: Request) -> Response:
        host, given = self._host, request.path_params["runner_id"]
        if isinstance(visit := await host.visit(request), Response):
            return visit
        is_id = given.isascii() and given.isdigit() and len(given) <= MOST_DIGITS
        evidence = await host.data.runner(visit.org_state, int(given)) if is_id else None
        if evidence is None:
            return host.absent(request, visit.visitor)
        job = await host.data.job(visit.org_state, evidence.job_id)
        death = await host.data.death(visit.org_state, evidence.name)
        view, others = host.data.view(visit.org_state), await host.data.others(visit.org_state, evidence)
        manages, reads_node_logs, now = visit.rights.manages, visit.rights.reads_node_logs, host.clock()
        page = runner_page(
            view, evidence, others, job, death, visit.reads, now, manages=manages, reads_node_logs=reads_node_logs
        )
        installation = visit.org_state.installation
        incident = last_incident(await host.data.incidents(visit.org_state), evidence.id)
        shell = host.shell(request, visit.visitor, installation.org, "Runners", live=True)
        return host.render(
            request,
            "runner.html",
            shell=shell,
            page=page,
            rights=visit.rights,
            base=base_of(shell, installation),
            at_github=f"{host.settings.web_url}/{runners_settings(installation.called)}/{evidence.id}",
            phantoms=await host.data.phantoms(visit.org_state, evidence.name),
            incident=incident,
            web_url=host.settings.web_url,
        )

    async def _github(self, request: Request) -> Response:
        host = self._host
        if isinstance(visit := await host.visit(request), Response):
            return visit
        installation = visit.org_state.installation
        policy, fleet = host.settings.of(installation.org), await host.data.fleet(visit.org_state)
        allowance = await host.data.allowance(visit.org_state)
        page = github_page(fleet, installation, allowance, policy.budget, policy.sweep.interval_seconds, host.clock())
        shell = host.shell(request, visit.visitor, installation.org, "GitHub", live=True)
        base = base_of(shell, installation)
        return host.render(request, "github.html", shell=shell, page=page, rights=visit.rights, base=base)

    async def _history(self, request: Request) -> Response:
        """Charts over time. Not live: a chart that is being read must not be drawn again each second."""
        host, given = self._host, request.query_params
        if isinstance(visit := await host.visit(request), Response):
            return visit
        pools = await host.data.history_pools(visit.org_state)
        now = host.clock()
        span = span_asked(given.get("span", ""), given.get("from", ""), given.get("to", ""), now)
        pool = pool_asked(given.get("pool", ""), pools)
        page = history_page(await host.data.history(visit.org_state, pool, span), pool, pools, span, now)
        installation = visit.org_state.installation
        shell = host.shell(request, visit.visitor, installation.org, "History")
        return host.render(request, "history.html", shell=shell, page=page, base=base_of(shell, installation))

    async def _system(self, request: Request) -> Response:
        """Shown to everyone who sees an organization here."""
        host = self._host
        if isinstance(visitor := await host.visitor(request), Response):
            return visitor
        seen = await host.access.seen(visitor, await host.data.installations())
        if not seen and not visitor.has_key:
            return host.absent(request, visitor)
        manages_all, roles, now = await host.manages_all(visitor), await host.data.roles(), host.clock()
        letters = await host.data.letters() if manages_all else None
        most = _most_entries(request)
        entries = await host.data.audited(None, most) if manages_all else []
        attempts = await host.data.audited(None, most, Trail.ATTEMPTS) if manages_all else []
        sign_ins = await host.data.audited(None, most, Trail.SIGN_INS) if manages_all else []
        page = system_page(roles.load, roles.clocks, roles.watches, roles.lag, roles.dead, letters, entries, now)
        doctor = findings_view(*self._examination.latest(), now) if manages_all else None
        org = seen[0].org if len(seen) == 1 else ""
        is_live = most < MOST_ENTRIES
        shell = host.shell(request, visitor, org, "System", live=is_live)
        all_entries = f"{shell.root}system?{ALL_ENTRIES}" if is_live else None
        return host.render(
            request,
            "system.html",
            shell=shell,
            page=page,
            doctor=doctor,
            attempts=audit_lines(attempts, now, has_addresses=True),
            sign_ins=audit_lines(sign_ins, now, has_addresses=True),
            all_entries=all_entries,
        )


def _most_entries(request: Request) -> int:
    """Returns how many entries of each part of the audit log are asked for; all of them are not shown live."""
    return MOST_ENTRIES if request.query_params.get("audit") == "all" else LATEST_ENTRIES


def base_of(shell: PageShell, installation: Installation) -> str:
    """Returns the relative address of an organization's pages."""
    return f"{shell.root}orgs/{path_segment(installation.org)}"
