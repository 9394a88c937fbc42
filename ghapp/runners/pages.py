"""The pages of runners: the list of a scope, and each with its time line."""

from __future__ import annotations

from ghapp.incidents.page_views import last_incident
from ghapp.installations.scope import runners_settings
from ghapp.runners.page_views import read_query, runner_page, runners_page
from ghapp.web.pages.page import NoSuchPageError, Page, Values, Visit


async def _list(visit: Visit) -> Values:
    lines = await visit.data.lines(visit.org_state)
    page = runners_page(lines, read_query(visit.query), visit.clock())
    overview = await visit.data.overview(visit.org_state)
    return {
        "page": page,
        "phantoms": await visit.data.phantoms(visit.org_state, [each.name for each in page.rows]),
        "overview": overview if visit.rights.manages else overview.for_readers(),
    }


async def _one(visit: Visit) -> Values:
    data, org_state, rights = visit.data, visit.org_state, visit.rights
    runner_id = visit.number("runner_id")
    evidence = await data.runner(org_state, runner_id)
    if evidence is None:
        raise NoSuchPageError(
            f"Runner {runner_id} is not known: runners are known until 24 hours after their end. "
            'The page "Runners" lists them, the page "Deaths" those that died within 30 days.'
        )
    job, death = await data.job(org_state, evidence.job_id), await data.death(org_state, evidence.name)
    others, web_url = await data.others(org_state, evidence), visit.settings.web_url
    page = runner_page(
        org_state.view,
        evidence,
        others,
        job,
        death,
        visit.reads,
        visit.clock(),
        manages=rights.manages,
        reads_node_logs=rights.reads_node_logs,
    )
    return {
        "page": page,
        "at_github": f"{web_url}/{runners_settings(visit.installation.called)}/{evidence.id}",
        "phantoms": (await data.phantoms(org_state, [evidence.name])).get(evidence.name, ()),
        "possible_phantom": await data.possible_phantom(org_state, evidence.name, page.state),
        "incident": last_incident(await data.incidents(org_state), evidence.id),
        "web_url": web_url,
    }


PAGES = (
    Page("/runners", "Runners", "runners.html", _list),
    Page("/runners/{runner_id}", "Runners", "runner.html", _one),
)
