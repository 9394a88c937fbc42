"""The pages of incidents: the list of a month, and each with its time line."""

from __future__ import annotations

from starlette.responses import RedirectResponse

from ghapp.incidents.fold import current
from ghapp.incidents.page_views import incident_page, incidents_page
from ghapp.web.pages import layout
from ghapp.web.pages.page import NoSuchPageError, OtherAnswerError, Page, Values, Visit
from ghapp.web.pages.views.overview import items_about
from ghapp.web.pages.views.paging import page_of


async def _list(visit: Visit) -> Values:
    incidents = await visit.data.incidents(visit.org_state)
    return {"page": incidents_page(incidents, page_of(visit.query), visit.clock())}


async def _one(visit: Visit) -> Values:
    """Shows one incident. The address of an incident that another one took over leads there."""
    identifier: str = visit.request.path_params["incident"]
    incident = current(await visit.data.incidents(visit.org_state), identifier)
    if incident is None:
        raise NoSuchPageError
    if incident.id != identifier:
        raise OtherAnswerError(RedirectResponse(incident.id, 303, layout.headers(scripts=True)))
    interruptions = await visit.data.interruptions(visit.org_state, incident)
    page = incident_page(incident, await visit.data.names(visit.org_state), visit.clock(), interruptions)
    fleet = await visit.data.fleet(visit.org_state) if incident.is_open else None
    items = [] if fleet is None else items_about(fleet, page.pools, visit.clock())
    return {"page": page, "items": items if visit.rights.manages else [each.for_readers() for each in items]}


PAGES = (
    Page("/incidents", "Incidents", "incidents.html", _list),
    Page("/incidents/{incident}", "Incidents", "incident.html", _one),
)
