"""Builds the state of an organization for tests of reports, headlines and pages."""

from ghapp.installations.pool_matching import ALL_POOLS as WHOLE
from ghapp.report.fleet import FleetView
from ghapp.report.org_view import OrgView
from ghapp.runners.verdict import Limits
from tests.rules.builders import lost, survey

VIEW_FIELDS = ("org", "rules", "limits", "survey", "fuses", "pauses", "claimed", "mode", "end_dates", "version_limits")


def fleet_of(*runners, org_pause=None, **changes) -> FleetView:
    """The fleet of acme with these runners; a fresh list, closed fuses, no pause, acting. `changes`: of view or fleet."""
    pauses = {**changes.pop("pauses", {}), **({} if org_pause is None else {WHOLE: org_pause})}
    known = {"org": "acme", "rules": (), "limits": Limits(), "survey": survey(), "pauses": pauses, **changes}
    view = OrgView(**{name: known.pop(name) for name in VIEW_FIELDS if name in known})
    return FleetView(view, "https://github.com", **{"runners": runners, **known})


def requested(runner_id, at, **changes):
    """A lost runner whose request was accepted, and whose successor is not online."""
    return lost(runner_id, **{"granted_at": at - 10, "removed_at": at - 5, "replaced_at": at, **changes})


def healed(runner_id, at, **changes):
    """A lost runner whose successor came online."""
    return requested(runner_id, at - 20, **{"successor": 1000 + runner_id, "healed_at": at, **changes})
