"""The pages of jobs and of deaths. Both show only jobs of repositories that GitHub lists to the visitor."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.deaths import page_views as death_views
from ghapp.deaths.death import Death
from ghapp.deaths.page_views import death_page
from ghapp.deaths.store import identity
from ghapp.installations.scope_paths import path_segment
from ghapp.runners.page_views import evidence_of
from ghapp.web.pages.data import MOST_DEATHS
from ghapp.web.pages.fleet_pages import OrgVisit, PageHost, base_of, is_live_part
from ghapp.web.pages.views.history import span_named
from ghapp.web.parameters import MOST_DIGITS
from ghapp.workflow_jobs import page_views as job_views
from ghapp.workflow_jobs.page_views import job_page

LONGEST_ID = 600
"""Characters of a death's identity in an address."""


async def shown_death(host: PageHost, visit: OrgVisit, request: Request) -> Death | None:
    """Returns the death of an address: a runner's latest one, or with `end` that one; None if it is not shown here."""
    name, end = request.path_params["runner_name"], request.query_params.get("end", "")
    if end:
        found = await host.data.death_by_id(visit.org_state, name, end) if len(end) <= LONGEST_ID else None
    else:
        found = await host.data.death(visit.org_state, name)
    return found if found is not None and death_views.is_shown(found.job, visit.reads) else None


def death_path(visit: OrgVisit, request: Request, button: str = "") -> str:
    """Returns the address of a death, or of its button, relative to `/`."""
    end = request.query_params.get("end", "")
    name = quote(request.path_params["runner_name"], safe="")
    query = f"?{urlencode({'end': end})}" if end else ""
    return f"orgs/{path_segment(visit.org_state.installation.org)}/deaths/{name}{button}{query}"


class JobPages:
    """The pages, which only read; the button is one of `buttons`."""

    def __init__(self, host: PageHost) -> None:
        self._host = host

    def routes(self) -> list[Route]:
        """Returns all routes."""
        pages = {
            "/orgs/{org:scope}/jobs": self._jobs,
            "/orgs/{org:scope}/jobs/{job_id}": self._job,
            "/orgs/{org:scope}/deaths": self._deaths,
            "/orgs/{org:scope}/deaths/{runner_name}": self._death,
        }
        return [Route(path, self._host.guarded(page), methods=["GET"]) for path, page in pages.items()]

    async def _jobs(self, request: Request) -> Response:
        host = self._host
        if isinstance(visit := await host.visit(request), Response):
            return visit
        query, board = job_views.read_query(request.query_params), await host.data.board(visit.org_state)
        lines = await host.data.deaths(visit.org_state)
        deaths = {each.job.id: death_views.address_of(each) for each in reversed(lines) if each.job is not None}
        found = await host.data.find_jobs(visit.org_state, board.queue, query.text)
        page = job_views.jobs_page(board, query, visit.reads, host.clock(), deaths, found)
        chart = None if is_live_part(request) else await host.data.wait_chart(visit.org_state, span_named("day"))
        return self._render(request, visit, "jobs.html", "Jobs", page=page, is_cut=visit.rights.is_cut, view=chart)

    async def _job(self, request: Request) -> Response:
        host, given = self._host, request.path_params["job_id"]
        if isinstance(visit := await host.visit(request), Response):
            return visit
        is_id = given.isascii() and given.isdigit() and len(given) <= MOST_DIGITS
        job = await host.data.job(visit.org_state, int(given)) if is_id else None
        if job is None or not visit.reads(job.repository):
            return host.absent(request, visit.visitor)
        queue = (await host.data.board(visit.org_state)).queue
        outcome = await host.data.job_outcome(visit.org_state, job, queue)
        page = job_page(queue, job, outcome, host.clock())
        address = (
            "" if outcome.death is None else death_views.address(outcome.death.runner_name, identity(outcome.death))
        )
        return self._render(request, visit, "job.html", "Jobs", page=page, death=address)

    async def _deaths(self, request: Request) -> Response:
        host = self._host
        if isinstance(visit := await host.visit(request), Response):
            return visit
        query, lines = death_views.read_query(request.query_params), await host.data.deaths(visit.org_state)
        is_cut = len(lines) >= MOST_DEATHS
        page = death_views.deaths_page(lines, query, visit.reads, host.clock(), is_cut=is_cut)
        return self._render(request, visit, "deaths.html", "Deaths", page=page, is_cut=visit.rights.is_cut)

    async def _death(self, request: Request) -> Response:
        host = self._host
        if isinstance(visit := await host.visit(request), Response):
            return visit
        death = await shown_death(host, visit, request)
        if death is None:
            return host.absent(request, visit.visitor)
        lines, rerun = await host.data.deaths(visit.org_state), await host.data.rerun(visit.org_state, death)
        runner = None if death.runner_id is None else await host.data.runner(visit.org_state, death.runner_id)
        facts = evidence_of(death, runner, visit.org_state.view, host.clock())
        manages, reads_node_logs = visit.rights.manages, visit.rights.reads_node_logs
        page = death_page(
            death, lines, rerun, host.clock(), manages=manages, reads_node_logs=reads_node_logs, evidence=facts
        )
        has_job_page = page.job is not None and await host.data.job(visit.org_state, page.job.id) is not None
        return self._render(
            request,
            visit,
            "death.html",
            "Deaths",
            page=page,
            rerun_address=death_path(visit, request, "/rerun"),
            has_job_page=has_job_page,
        )

    def _render(self, request: Request, visit: OrgVisit, template: str, current: str, **values: Any) -> Response:
        installation = visit.org_state.installation
        shell = self._host.shell(request, visit.visitor, installation.org, current, live=True)
        base = base_of(shell, installation)
        return self._host.render(request, template, shell=shell, base=base, **values)
