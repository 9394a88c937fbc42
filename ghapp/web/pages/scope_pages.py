"""The pages of a scope that join several subjects: its overview, GitHub's side, and the history."""

from __future__ import annotations

from ghapp.store.audit import Trail
from ghapp.web.pages.audit_entries import ALL_ENTRIES, most_entries, shows_latest_entries
from ghapp.web.pages.page import Page, Values, Visit
from ghapp.web.pages.views.github_status import github_page
from ghapp.web.pages.views.history import CUSTOM, SPANS, history_page, pool_asked, span_asked, span_holding
from ghapp.web.pages.views.paging import choice_of
from ghapp.web.pages.views.system import audit_lines


async def _overview(visit: Visit) -> Values:
    data, installation, manages = visit.data, visit.installation, visit.rights.manages
    page, most = await data.overview(visit.org_state), most_entries(visit.request)
    changes = await data.audited(installation.id, most)
    attempts = await data.audited(installation.id, most, Trail.ATTEMPTS) if manages else []
    declared = await data.audited(installation.id, most, Trail.CONTROLLERS) if manages else []
    sparklines = await data.sparklines(visit.org_state, page)
    cluster, leaks = await data.cluster(installation.id), await data.leaks(visit.org_state)
    now = visit.clock()
    return {
        "page": page if manages else page.for_readers(),
        "sparklines": sparklines,
        "cluster": cluster,
        "leaks": leaks,
        "changes": audit_lines(changes, now, has_addresses=manages),
        "attempts": audit_lines(attempts, now, has_addresses=manages),
        "declared": audit_lines(declared, now, has_addresses=manages),
        "all_entries": f"{visit.base}?{ALL_ENTRIES}#audit" if shows_latest_entries(visit.request) else None,
    }


async def _github(visit: Visit) -> Values:
    policy, fleet = visit.settings.of(visit.installation.org), await visit.data.fleet(visit.org_state)
    allowance, interval = await visit.data.allowance(visit.org_state), policy.sweep.interval_seconds
    return {"page": github_page(fleet, visit.installation, allowance, policy.budget, interval, visit.clock())}


async def _history(visit: Visit) -> Values:
    pools, asked, now = await visit.data.history_pools(visit.org_state), visit.query, visit.clock()
    choice_of(asked, "span", (*(each.name for each in SPANS), CUSTOM))
    span = span_asked(asked.get("span", ""), asked.get("from", ""), asked.get("to", ""), now)
    pool = pool_asked(asked.get("pool", ""), pools)
    steps = await visit.data.history(visit.org_state, pool, span)
    if not any(asked.get(name) for name in ("span", "from", "to")):
        span = span_holding(steps, now)
    return {"page": history_page(steps, pool, pools, span, now)}


OVERVIEW = Page("", "Overview", "overview.html", _overview, shows_latest_entries)
GITHUB = Page("/github", "GitHub", "github.html", _github)
HISTORY = Page("/history", "History", "history.html", _history, lambda _: False)
"""Not live: a chart that is being read must not be drawn again each second."""
