"""Surfaces agree: each shows the same runners as lost, at any moment, whatever is known of them."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ghapp.incidents.history import sample
from ghapp.incidents.texts import losses_in
from ghapp.installations.pool_matching import ALL_POOLS as WHOLE
from ghapp.pods.blockers import Blocker
from ghapp.remediation import status
from ghapp.remediation.fuse import FuseReason, Position
from ghapp.remediation.status import ReplacementBlocker as Blocked
from ghapp.remediation.status import ReplacementStage, may_be_past
from ghapp.report.documents import is_past
from ghapp.report.fleet import by_pool
from ghapp.report.fleet_report import report_on
from ghapp.report.headline import HeadlineKind, Severity
from ghapp.report.headlines import headlines
from ghapp.runners.deletion_progress import Deletion
from ghapp.runners.evidence import FailedCalls
from ghapp.runners.page_views import RunnerQuery, lines, runners_page
from ghapp.runners.verdict import State
from ghapp.web.pages.views.overview import overview
from jobs.notifications import lost_by_pool
from tests.report.fleets import fleet_of
from tests.rules.builders import NOW, online, present, proving, survey, suspect

POOL = "linux-4vcpu"
MOMENTS = st.sampled_from([None, *(NOW - age for age in (1, 45, 299, 301, 3899, 3901, 90_000))])
STEPS = ("confirmed_at", "granted_at", "removed_at", "replaced_at", "healed_at")
"""Of a loss, in their order."""

STOPPED = proving(position=Position.STOPPED, stopped_at=NOW - 30)


@st.composite
def evidences(draw, runner_id=1):
    """A runner that took some of the steps of a loss, after it was gone or only offline."""
    begun = draw(st.integers(0, len(STEPS)))
    was_offline = draw(st.booleans())
    times = sorted(
        draw(st.lists(st.sampled_from([1, 30, 400, 3890, 3910, 9000]), min_size=5, max_size=5)), reverse=True
    )
    steps = {name: NOW - age for name, age in zip(STEPS[:begun], times, strict=False)}
    if was_offline:
        steps.pop("confirmed_at", None)
    if "healed_at" in steps:
        steps["successor"] = 900
    if "granted_at" in steps:
        steps["event_id"] = "e"
    kinds = [online, present] if not steps else ([present, suspect] if was_offline else [suspect])
    known = draw(st.sampled_from([*kinds, suspect]))(runner_id, **steps)
    if known.absent_since is not None:
        gone_at = NOW - times[0] - 60
        known = known._replace(
            absent_since=gone_at, first_404_at=gone_at + 5, offline_since=gone_at if was_offline else None
        )
    job = draw(st.sampled_from([{}, {"job_id": 7, "job_started_at": NOW - 20}, {"job_id": 7, "job_ended_at": NOW - 9}]))
    more = draw(
        st.sampled_from(
            [
                {},
                {"ephemeral": True},
                {"reregistered_as": 77},
                {"retired_at": NOW - 5},
                {"not_needed_at": NOW - 5},
                {"registered": False},
                {"failed_calls": FailedCalls(2, NOW, "DELETE: GitHub answered 500")},
                {"deletion": Deletion(waits_for=Blocker.CLUSTER_FORBIDDEN, waiting_since=NOW - 9)},
            ]
        )
    )
    return known._replace(**job, **more)


@st.composite
def fleets(draw):
    runners = [draw(evidences(number)) for number in range(1, draw(st.integers(1, 4)) + 1)]
    until = draw(st.sampled_from([None, NOW + 60]))
    pause = SimpleNamespace(who="mona", why="", at=NOW - 60, until=until)
    reason = draw(st.sampled_from(FuseReason))
    fuse = draw(st.sampled_from([proving(reason=reason), STOPPED.__class__(Position.STOPPED, NOW - 99, reason=reason)]))
    changes = {
        "fuses": draw(st.sampled_from([{}, {POOL: fuse}, {WHOLE: fuse}])),
        "pauses": draw(st.sampled_from([{}, {POOL: pause}, {WHOLE: pause}])),
        "mode": draw(st.sampled_from(["act", "dry-run", "off"])),
        "survey": draw(
            st.sampled_from(
                [
                    survey(),
                    survey(swept_at=NOW - 400),
                    survey(failing_since=NOW - 9, failure="PermissionMissing"),
                    survey(swept_at=None),
                ]
            )
        ),
    }
    return fleet_of(*runners, **changes)


@settings(max_examples=250, deadline=None)
@given(fleet=fleets())
def test_each_surface_has_the_same_lost_runners(fleet):
    view, runners = fleet.view, [each for each in fleet.runners if each.registered]
    pools = by_pool(fleet, NOW)
    lost = {each.evidence.id for pool in pools for each in pool.lost}
    documents = {each.id: view.document(each, NOW) for each in runners}
    assert {number for number, each in documents.items() if each["remediation"]["open"]} == lost
    page = lines(view, runners, NOW)
    assert {each.id for each in page if each.state == State.INVALIDATED} == lost
    current = runners_page(page, RunnerQuery(), NOW).rows
    assert {each.id for each in current} == {number for number, each in documents.items() if not is_past(each)}
    for each in runners:
        of_api = status.is_past(each, view.verdict(each, NOW), NOW)
        assert of_api is is_past(documents[each.id])
        assert may_be_past(each) or not of_api
    assert sum(len(pool.members) for pool in pools) == len(current)
    assert lost_by_pool(view, runners, NOW)[WHOLE] == len(lost)
    shown = overview(fleet, NOW)
    assert {each.state: each.runners for each in shown.states}[State.INVALIDATED] == len(lost)
    assert shown.total == sum(each.runners for each in shown.states) == len(current)
    found = headlines(fleet, pools, NOW)
    assert sum(each.affected for each in found if each.kind is HeadlineKind.LOST) == len(lost)
    gauges = sample(runners, (), view.survey, view.limits, (), NOW).gauges[WHOLE]
    assert gauges.get(State.INVALIDATED, 0) == len(lost)
    incidents = {loss.runner_id for loss in losses_in(view, runners, NOW) if loss.is_open}
    assert incidents >= lost


@settings(max_examples=250, deadline=None)
@given(fleet=fleets())
def test_what_a_controller_reads_is_what_people_read(fleet):
    for evidence in fleet.runners:
        document = fleet.view.document(evidence, NOW)
        remediation = document["remediation"]
        if document["replace"] and remediation["blocked_by"] not in (Blocked.CLUSTER, Blocked.PERMISSION):
            assert remediation["status"] in (ReplacementStage.GRANTED, ReplacementStage.REMOVED)
        if document["healed"]:
            assert remediation["status"] == ReplacementStage.HEALED
        assert (remediation["blocked_by"] is None) or remediation["status"] == ReplacementStage.WAITING


@settings(max_examples=250, deadline=None)
@given(fleet=fleets())
def test_no_headline_contradicts_itself_or_has_an_impossible_time(fleet):
    for each in headlines(fleet, by_pool(fleet, NOW), NOW):
        assert each.sentence.endswith(".")
        assert each.since is None or NOW - 100_000 < each.since <= NOW
        if each.severity is Severity.CRITICAL:
            assert not each.step.startswith("nothing to do")
    assert report_on(fleet, NOW).title


@pytest.mark.parametrize("count", [1, 2])
def test_a_headline_names_no_job_and_no_pod_of_a_single_runner(count):
    runs = {"job_id": 77, "job_started_at": NOW - 20, "absent_since": NOW - 900, "first_404_at": NOW - 890}
    fleet = fleet_of(*(suspect(number, **runs) for number in range(1, count + 1)))
    (headline,) = headlines(fleet, by_pool(fleet, NOW), NOW)
    assert headline.kind is HeadlineKind.SUSPECT
    assert "77" not in headline.sentence
