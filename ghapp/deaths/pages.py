"""The pages of deaths: the list, and each death. Only jobs of repositories that GitHub lists to the visitor appear."""

from __future__ import annotations

from ghapp.deaths.death import Death
from ghapp.deaths.page_views import address, death_page, deaths_page, is_shown, read_query, with_jobs
from ghapp.runners.page_views import evidence_of
from ghapp.untrusted_text import one_line
from ghapp.web.pages.data import MOST_DEATHS
from ghapp.web.pages.page import NoSuchPageError, Page, Values, Visit

LONGEST_NAME = 100
"""Characters of a runner's name that a message shows."""

LONGEST_ID = 600
"""Characters of a death's identity in an address."""


async def death_of_address(visit: Visit) -> Death:
    """Returns the death of an address: a runner's latest one, or with `end` that one.

    Raises:
        NoSuchPageError: there is none, or it is not shown to the visitor.
    """
    name, end = visit.request.path_params["runner_name"], visit.query.get("end", "")
    if end:
        death = await visit.data.death_by_id(visit.org_state, name, end) if len(end) <= LONGEST_ID else None
    else:
        death = await visit.data.death(visit.org_state, name)
    if death is None or not is_shown(death.job, visit.reads):
        place = visit.org_state.installation.org
        raise NoSuchPageError(
            f"No death of a runner {one_line(name, LONGEST_NAME)} is known in {place}: deaths are known for 30 days. "
            "It may be of another organization, or its job of a repository that GitHub does not "
            'show to you. The page "Deaths" lists those that you may see.'
        )
    return death


def death_path(visit: Visit, button: str = "") -> str:
    """Returns the address of a death, or of its button, relative to `/`."""
    name, death_id = visit.request.path_params["runner_name"], visit.query.get("end", "")
    return f"{visit.path}/deaths/{address(name, death_id, button)}"


async def _list(visit: Visit) -> Values:
    lines = await visit.data.deaths(visit.org_state)
    is_cut = len(lines) >= MOST_DEATHS
    page = deaths_page(lines, read_query(visit.query), visit.reads, visit.clock(), is_cut=is_cut)
    listed = await visit.data.listed_jobs(visit.org_state, [each.named_job for each in page.rows if each.named_job])
    return {"page": with_jobs(page, listed, visit.clock())}


async def _one(visit: Visit) -> Values:
    death, data, org_state = await death_of_address(visit), visit.data, visit.org_state
    lines, rerun = await data.deaths(org_state), await data.rerun(org_state, death)
    runner = None if death.runner_id is None else await data.runner(org_state, death.runner_id)
    page = death_page(
        death,
        lines,
        rerun,
        visit.clock(),
        manages=visit.rights.manages,
        reads_node_logs=visit.rights.reads_node_logs,
        evidence=evidence_of(death, runner, org_state.view, visit.clock()),
    )
    has_job_page = page.job is not None and await data.job(org_state, page.job.id) is not None
    return {"page": page, "rerun_address": death_path(visit, "/rerun"), "has_job_page": has_job_page}


PAGES = (
    Page("/deaths", "Deaths", "deaths.html", _list),
    Page("/deaths/{runner_name}", "Deaths", "death.html", _one),
)
