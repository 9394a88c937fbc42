"""The pages of incidents over HTTP: their content, who may see them, and that every link leads to an existing page."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urljoin

import pytest

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import Death
from ghapp.deaths.store import Deaths, identity
from ghapp.incidents.fold import INCIDENT_KEPT_SECONDS, with_losses
from ghapp.incidents.incident import LossEnd, LossIncident, RunnerLoss
from ghapp.incidents.store import Incidents
from ghapp.report.links import PageLinks
from ghapp.runners.observations import succeeded_by
from ghapp.runners.store import Runners
from tests.web.conftest import NOW
from tests.web.pages.conftest import HERE

LIST = "/orgs/acme/incidents"
ONE = f"{LIST}/{int(NOW) - 100}-3"
LINKS = PageLinks(HERE, "acme")


@pytest.fixture
async def over(redis, fleet):
    """A completed incident of last week; its runner's record is deleted, the successor is runner 1."""
    ended = RunnerLoss(
        77, "<i>old", "linux-4vcpu", NOW - 7000, successor=1, end=LossEnd.SUCCESSOR_ONLINE, ended_at=NOW - 6900
    )
    merged = LossIncident("merged", "linux-4vcpu", NOW - 6000, NOW - 6000, merged_into=f"{int(NOW) - 7000}-77")
    await Incidents(redis).revise(fleet["acme"], lambda _: {**with_losses({}, [ended]), "merged": merged}, NOW)
    return f"{LIST}/{int(NOW) - 7000}-77"


def links(answer):
    return {
        urljoin(str(answer.url), unescape(each)).partition("#")[0]
        for each in re.findall(r'href="([^"]+)"', answer.text)
        if "/static/" not in each and not each.startswith("http")
    }


async def test_losses_that_are_not_yet_in_a_stored_incident_are_shown(key_holder):
    page = unescape((await key_holder.get(LIST)).text)
    assert "1 incident is open: 1 runner has no successor online yet." in page
    one = unescape((await key_holder.get(ONE)).text)
    assert "2 runners lost in linux-4vcpu" in one
    assert "2 runners confirmed as lost by a second 404" in one
    assert "no runner came online after the last batch, beyond the pool's own newcomers" in one
    assert "BatchNeverOnline" in one


async def test_a_completed_incident_is_listed_with_its_end_and_escaped(key_holder, over):
    page = (await key_holder.get(LIST)).text
    assert "&lt;i&gt;old lost in linux-4vcpu" in page
    assert "successor online" in page
    one = (await key_holder.get(over)).text
    assert "<i>old" not in one
    assert 'runners/77"' not in one, "the runner's record is deleted"
    assert 'runners/1"' in one


@pytest.mark.parametrize(("age", "status"), [(INCIDENT_KEPT_SECONDS, 200), (INCIDENT_KEPT_SECONDS + 1, 404)])
async def test_an_incident_is_shown_for_a_month_after_its_end(key_holder, over, clock, age, status):
    clock.now = NOW - 6900 + age
    assert (await key_holder.get(over)).status_code == status
    assert ("old lost" in (await key_holder.get(LIST)).text) is (status == 200)


async def test_a_merged_incident_redirects_to_the_incident_that_absorbed_it(key_holder, over):
    answer = await key_holder.get(f"{LIST}/merged")
    assert answer.status_code == 303
    assert urljoin(str(answer.url), answer.headers["location"]).endswith(over)


@pytest.mark.parametrize("path", ["/", "/orgs/acme", LIST, ONE, "over", "/orgs/acme/gate", "/system", "/setup"])
async def test_every_link_of_a_page_leads_to_an_existing_page(key_holder, over, path):
    page = await key_holder.get(over if path == "over" else path, follow_redirects=True)
    found = links(page)
    assert any(each in found for each in (f"{HERE}/", f"{HERE}/system"))
    for each in found:
        answer = await key_holder.get(each)
        assert answer.status_code in (200, 303), each


async def test_the_overview_links_to_the_open_incident(key_holder):
    assert ONE in {link.replace(HERE, "") for link in links(await key_holder.get("/orgs/acme"))}


async def test_a_loss_is_shown_as_healed_once_its_successor_is_known(key_holder, redis, fleet):
    for lost in (3, 4):
        await Runners(redis).revise(fleet["acme"], {lost: succeeded_by(1, NOW - 10)})
    page = (await key_holder.get(ONE)).text
    assert "2 successors online" in page


@pytest.mark.parametrize("path", [f"{LIST}/1-1", f"{LIST}/x", f"{LIST}/{'9' * 400}", f"/orgs/globex/{ONE[11:]}"])
async def test_an_unknown_incident_and_one_of_another_organization_are_404(key_holder, path):
    assert (await key_holder.get(path)).status_code == 404


@pytest.mark.parametrize("query", ["page=0", "page=99999", "page=x", "page=-1", "page=²"])
async def test_any_page_number_is_answered(key_holder, query):
    assert (await key_holder.get(f"{LIST}?{query}")).status_code == 200


@pytest.mark.parametrize(("login", "status"), [("mona", 200), ("lisa", 200), ("sam", 404)])
@pytest.mark.parametrize("path", [LIST, ONE])
async def test_a_visitor_who_sees_the_organization_sees_its_incidents(signed_in, fleet, login, status, path):
    browser = await signed_in(login)
    assert (await browser.get(path)).status_code == status


@pytest.mark.parametrize("path", [LIST, ONE])
async def test_another_organization_is_404_and_a_request_without_a_session_redirects_to_the_sign_in(
    signed_in, start, path
):
    browser = await signed_in("lisa")
    assert (await browser.get(path.replace("acme", "nothing"))).status_code == 404
    answer = await start().get(path)
    assert (answer.status_code, "sign-in" in answer.headers["location"]) == (303, True)


@pytest.mark.parametrize("path", [LIST, ONE])
async def test_without_redis_the_page_reports_the_outage(start, away, path):
    browser = start(client=False, has_key=True, database=away)
    away.away = True
    assert (await browser.get(path)).status_code == 503


DEATH = Death("linux-9", "linux-9", "", NOW - 60, 1, None, "", Cause.CRASH, "", pod_uid="uid-1")
ADDRESSES = {
    "overview": LINKS.overview,
    "incidents": LINKS.incidents,
    "gate": LINKS.gate,
    "github": LINKS.github,
    "jobs": LINKS.jobs,
    "runner": LINKS.runner(1),
    "death": LINKS.death("linux-9"),
    "one death": LINKS.death("linux-9", identity(DEATH)),
}


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
async def test_each_address_in_check_runs_notifications_and_commands_is_a_page(key_holder, redis, fleet, address):
    await Deaths(redis, lambda: NOW).record(fleet["acme"], DEATH)
    assert (await key_holder.get(address)).status_code == 200


async def test_a_runner_s_page_links_to_its_incident(key_holder, redis, fleet):
    assert ONE in {link.replace(HERE, "") for link in links(await key_holder.get("/orgs/acme/runners/3"))}
    assert "incidents/" not in (await key_holder.get("/orgs/acme/runners/1")).text
