"""The pages of jobs: the list, and each job's story. Only repositories that GitHub lists to the visitor are shown."""

from __future__ import annotations

from ghapp.deaths.page_views import address, address_of, details_of, rerun_view
from ghapp.deaths.store import identity
from ghapp.web.pages.page import NoSuchPageError, Page, Values, Visit, is_live_part
from ghapp.web.pages.views.history import span_named
from ghapp.workflow_jobs.job import JobOrigin
from ghapp.workflow_jobs.page_views import EVERY, JobsQuery, job_page, jobs_page, read_query, with_later
from ghapp.workflow_jobs.texts import KNOWN_JOBS


async def _list(visit: Visit) -> Values:
    data, org_state, query = visit.data, visit.org_state, read_query(visit.query)
    board, lines = await data.board(org_state), await data.deaths(org_state)
    deaths = {each.job.id: address_of(each) for each in reversed(lines) if each.job is not None}
    matching = await data.find_jobs(org_state, board.queue, query.text)
    page = jobs_page(board, query, visit.reads, visit.clock(), deaths, matching)
    page = with_later(page, await data.listed_jobs(org_state, page.run_again_ids), visit.clock())
    chart = None if is_live_part(visit.request) else await data.wait_chart(org_state, span_named("day"))
    mine = "" if visit.visitor.has_key else JobsQuery(EVERY, origin=JobOrigin(actor=visit.visitor.name)).address()
    return {"page": page, "view": chart, "mine": mine}


async def _one(visit: Visit) -> Values:
    data, org_state = visit.data, visit.org_state
    job = await data.job(org_state, visit.number("job_id"))
    if job is None or not visit.reads(job.repository):
        raise NoSuchPageError(
            f"This job is not known in {org_state.installation.org}: {KNOWN_JOBS}. It may be of another organization, "
            "or of a repository that GitHub does not show to you. "
            'The page "Jobs" lists the present ones, and finds earlier ones by runner, commit or pull request.'
        )
    queue = (await data.board(org_state)).queue
    outcome = await data.job_outcome(org_state, job, queue)
    death, now, at_death, at_rerun, rerun = outcome.death, visit.clock(), "", "", None
    details: tuple[str, ...] = ()
    if death is not None:
        details = details_of(death, manages=visit.rights.manages)
        known, named = await data.rerun(org_state, death), (death.runner_name, identity(death))
        rerun = rerun_view(death, known, now, manages=visit.rights.manages)
        at_death, at_rerun = address(*named), address(*named, "/rerun")
    page = job_page(queue, job, outcome, now, has_button=rerun is not None and rerun.has_button)
    return {"page": page, "death": at_death, "details": details, "rerun": rerun, "at_rerun": at_rerun}


PAGES = (
    Page("/jobs", "Jobs", "jobs.html", _list),
    Page("/jobs/{job_id}", "Jobs", "job.html", _one),
)
