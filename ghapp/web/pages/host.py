"""What all pages and buttons share: who visits, the frame, refusals, and rendering."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ghapp.errors import GitHubError, StoreUnavailableError
from ghapp.installations.scope import ScopeKind
from ghapp.installations.scope_paths import path_segment
from ghapp.settings import Settings
from ghapp.store.presses import Press
from ghapp.web.operation import Clock
from ghapp.web.pages import layout
from ghapp.web.pages.access import PageAccess, Visitor
from ghapp.web.pages.data import PageData
from ghapp.web.pages.page import NoSuchPageError, OtherAnswerError, Page, Visit, is_live_part
from ghapp.web.pages.page_key import PARAMETER
from ghapp.web.pages.shell import NOTICES, PageShell, banner, did, navigation, notice
from ghapp.web.pages.views.paging import UnknownValueError
from ghapp.wording import nearest, time_of

MOST_MANAGED = 20
"""With more installations only a browser with the key sees the dead letters of all of them."""

LONGEST_PRESS = 64

Endpoint = Callable[[Request], Awaitable[Response]]


class PageHost:
    """Serves pages: `pages` are those of each scope, in the order of the navigation."""

    def __init__(
        self, settings: Settings, data: PageData, access: PageAccess, clock: Clock, pages: Sequence[Page]
    ) -> None:
        self.settings, self.data, self.access, self.clock, self._pages = settings, data, access, clock, pages

    def routes(self) -> list[Route]:
        """Returns the routes of the pages of each scope."""
        return [Route(page.route, self.guarded(self._endpoint(page)), methods=["GET"]) for page in self._pages]

    def _endpoint(self, page: Page) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            visit = await self.visit(request)
            org, is_live = visit.installation.org, page.is_live(request)
            try:
                values = await page.content(visit)
            except NoSuchPageError as error:
                if not error.detail:
                    raise
                shell = self.shell(request, visit.visitor, org, page.section)
                return self.refuse(request, 404, "Page not found", error.detail, shell=shell)
            except UnknownValueError as error:
                shell = self.shell(request, visit.visitor, org, page.section)
                return self.refuse(request, 400, "Unknown filter", str(error), shell=shell)
            shell = self.shell(request, visit.visitor, org, page.section, live=is_live)
            return self.render(request, page.template, shell=shell, base=visit.base, rights=visit.rights, **values)

        return endpoint

    def guarded(self, endpoint: Endpoint) -> Endpoint:
        """Returns the endpoint with pages in place of its errors."""

        async def answer(request: Request) -> Response:
            try:
                return await endpoint(request)
            except OtherAnswerError as error:
                return error.response
            except NoSuchPageError as error:
                return self._absent(request, error.detail)
            except StoreUnavailableError:
                detail = "Redis does not answer, so nothing about the fleet can be shown. Try again in a few seconds."
                return self.refuse(request, 503, "Redis does not answer", detail, again=True, wait=5)
            except GitHubError:
                detail = "What you may see depends on GitHub, which does not answer. Try again in a minute."
                return self.refuse(request, 502, "GitHub does not answer", detail, again=True, wait=30)

        return answer

    async def visitor(self, request: Request) -> Visitor:
        """Returns the visitor.

        Raises:
            OtherAnswerError: a redirect to the sign-in, or, while there is no App, to the set-up.
        """
        if taken := self.access.key.taken(request):
            raise OtherAnswerError(taken)
        if not self.access.has_app:
            root = layout.root_of(request.url.path)
            raise OtherAnswerError(RedirectResponse(f"{root}setup", 303, layout.headers(scripts=True)))
        visitor = await self.access.visitor(request)
        if visitor is None:
            raise OtherAnswerError(self._to_sign_in(request))
        request.state.visitor = visitor
        return visitor

    def _to_sign_in(self, request: Request) -> Response:
        if again := self.access.key.again(request):
            return again
        if is_live_part(request):  # the whole page must go to the sign-in
            return Response(status_code=401, headers={**layout.headers(scripts=True), "HX-Refresh": "true"})
        to = request.url.path.lstrip("/") if request.method == "GET" else ""
        query = {"done": "wrong-key"} if PARAMETER in request.query_params else {}
        query |= {"to": to} if to else {}
        asked, root = urlencode(query, safe="/", quote_via=quote), layout.root_of(request.url.path)
        return RedirectResponse(f"{root}sign-in{'?' if asked else ''}{asked}", 303, layout.headers(scripts=True))

    async def visit(self, request: Request) -> Visit:
        """Returns the visitor at the scope of the address.

        Raises:
            OtherAnswerError: as `visitor`.
            NoSuchPageError: the visitor may not see this scope, or there is none.
        """
        visitor = await self.visitor(request)
        org_state = await self.data.org(request.path_params["org"])
        rights = None if org_state is None else await self.access.rights(visitor, org_state.installation)
        if org_state is None or rights is None:
            names = [each.org for each in await self.access.seen(visitor, await self.data.installations())]
            near = nearest(request.path_params["org"], names)
            raise NoSuchPageError("" if near is None else f"Did you mean {near}?")
        press_id = request.query_params.get("press", "")[:LONGEST_PRESS]
        if press_id and not is_live_part(request):
            request.state.press = await self.data.press(org_state, press_id)
        elif request.query_params.get("done") and not is_live_part(request):
            request.state.changed = await self.data.last_change_by(org_state, visitor.name)
        return Visit(request, visitor, org_state, rights, self.data, self.settings, self.clock)

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

    def shell(
        self, request: Request, visitor: Visitor, org: str = "", current: str = "", *, live: bool = False
    ) -> PageShell:
        """Returns the frame of a page."""
        root = layout.root_of(request.url.path)
        depth = root.count("../")  # of the page into which the outcome is put
        here = f"{root}{request.url.path.lstrip('/')}" or "./"
        asked = [part for part in request.url.query.split("&") if part]
        query = "&".join(part for part in asked if not part.startswith(("done=", "press=")))
        press: Press | None = getattr(request.state, "press", None)
        outcome = "" if press is None else banner(press, self.clock())
        done = request.query_params.get("done", "")
        noticed = NOTICES.get(done, "")  # of a press, and where no organization's audit log has it
        if press is not None and noticed:
            noticed = f"{did(press.entry)}. {noticed}"
        elif hasattr(request.state, "changed"):
            noticed = notice(done, request.state.changed, self.clock())
        waits_for = "" if press is None or press.outcome else request.query_params["press"]
        return PageShell(
            root=root,
            current=current,
            org=org,
            links=navigation(org, {page.section: page.path for page in self._pages if page.is_in_navigation}),
            who=visitor.name,
            is_signed_in=not visitor.has_key,
            form_token=self.access.form_token(visitor),
            notice=outcome or noticed,
            outcome=f"{root}orgs/{path_segment(org)}/presses/{quote(waits_for, safe='')}?depth={depth}"
            if waits_for
            else "",
            live=(f"{here}?{query}" if query else here) if live else "",
            now=time_of(self.clock()),
        )

    def render(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """Renders a page, or only its live part if htmx asks for it."""
        if is_live_part(request):
            html = layout.render_block(template, "live", **values)
        else:
            html = layout.render(template, **values)
        return HTMLResponse(html, status, {**layout.headers("'self'", scripts=True), "Vary": "HX-Request"})

    def no_such_address(self, request: Request) -> Response:
        """Returns 404 for an address that nothing has, to a browser."""
        return self.refuse(request, 404, "Page not found", "There is no such page.")

    def _absent(self, request: Request, hint: str) -> Response:
        """Returns 404 without the navigation of a scope: nothing shows whether the scope exists.

        The hint names scopes that the visitor sees.
        """
        visitor: Visitor = request.state.visitor
        shell = PageShell(
            root=layout.root_of(request.url.path),
            who=visitor.name,
            is_signed_in=not visitor.has_key,
            form_token=self.access.form_token(visitor),
        )
        detail = "There is no such page, or it belongs to an organization that GitHub does not show to you."
        return self._message(404, shell, "Page not found", f"{detail} {hint}".strip())

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
