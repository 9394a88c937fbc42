"""The pages of a repository's and of an enterprise's fleet beside those of an organization: who sees them, and links."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from urllib.parse import urljoin, urlsplit

import pytest

from ghapp.deaths.store import Deaths
from ghapp.github.user_authorization import UserAuthorization
from ghapp.installations.installation import enterprise_scope, repository_scope
from ghapp.installations.store import Installations
from ghapp.runners.evidence import Survey
from ghapp.runners.store import Runners
from ghapp.sandbox.people import person_called
from ghapp.store.presses import SWEEP_TOPIC, Presses
from ghapp.store.schedule import Schedule
from ghapp.web.pages.access import RETRY_SECONDS
from tests.web.conftest import NOW, healthy, invalidated
from tests.web.pages.conftest import HERE
from tests.web.pages.test_buttons import press
from tests.web.pages.test_pages import with_job

SCOPES = ("acme", "acme/api", "acme/web", "acme/runners", "enterprises/acme-corp")
UNSEEN = 999
"""The id of acme/runners, which the App does not see at GitHub."""

PAGES = [
    *(
        "",
        "/runners",
        "/runners/3",
        "/jobs",
        "/jobs/70",
        "/deaths",
        "/deaths/a",
        "/incidents",
        f"/incidents/{NOW - 100:.0f}-3",
    ),
    *("/gate", "/versions", "/history", "/github", "/sweep", "/pause", "/resume", "/runners/3/check"),
]


@pytest.fixture
async def scopes(redis, fleet, github):
    """Scopes beside acme: each with runners of the same ids and names, one of them lost, and a job that died."""
    acme, repositories = await Installations(redis).one(fleet["acme"]), github.world.orgs["acme"].repositories
    ids = {"api": repositories["api"].id, "web": repositories["web"].id, "runners": UNSEEN}
    records = [repository_scope(acme, number, name, f"acme/{name}") for name, number in ids.items()]
    await Installations(redis).put_scopes(acme.id, records)
    records.append(await Installations(redis).put(enterprise_scope("acme-corp")))
    for scope in records:
        known = [healthy(1, "a"), invalidated(3, f"lost-of-{scope.org.replace('/', '-')}")]
        await Runners(redis).revise(scope.id, {each.id: lambda _, each=each: each for each in known})
        await Runners(redis).save_survey(scope.id, Survey(NOW - 3.2, 2))
        await Schedule(redis).add(scope.id, NOW + 30)
        await with_job(redis, scope.id, "acme/api" if scope.parent == 0 else scope.org)
    await with_job(redis, fleet["acme"], "acme/api")
    return {"acme": fleet["acme"], **{each.org: each.id for each in records}}


def segment(address):
    return address.replace("/", "~")


def links_of(answer):
    """The paths of all links, forms and live parts of a page, as a browser resolves them."""
    found = re.findall(r'(?:href|action|hx-get)="([^"]*)"', answer.text)
    urls = [urlsplit(urljoin(str(answer.url), unescape(each))) for each in found if not each.startswith("#")]
    return {each.path for each in urls if f"{each.scheme}://{each.netloc}" == HERE}


@pytest.mark.parametrize("page", PAGES)
async def test_every_page_of_each_scope_links_that_scope_alone(key_holder, scopes, page):
    for address in SCOPES:
        answer = await key_holder.get(f"/orgs/{segment(address)}{page}")
        assert answer.status_code == 200, (address, page)
        assert f'<span class="org">{address}</span>' in answer.text
        others = {f"lost-of-{each.replace('/', '-')}" for each in SCOPES if each not in (address, "acme")}
        assert not [each for each in others if each in answer.text]
        linked = {path.split("/")[2] for path in links_of(answer) if path.startswith("/orgs/")}
        assert linked == {segment(address)}


@pytest.mark.parametrize("page", ["", "/runners", "/history"])
async def test_every_link_of_a_page_leads_to_a_page(key_holder, scopes, page):
    for address in ("acme/api", "acme/runners", "enterprises/acme-corp"):
        for form in (segment(address), address.replace("/", "%2F")):
            for path in sorted(links_of(await key_holder.get(f"/orgs/{form}{page}"))):
                assert (await key_holder.get(path)).status_code in (200, 204), path


@pytest.mark.parametrize(
    ("requested", "to"),
    [
        ("/orgs/acme/api", "/orgs/acme~api"),
        ("/orgs/acme/api/runners?state=healthy&text=a%2Fb", "/orgs/acme~api/runners?state=healthy&text=a%2Fb"),
        ("/orgs/enterprises/acme-corp/runners/3", "/orgs/enterprises~acme-corp/runners/3"),
        ("/orgs/acme/api/deaths/x%2Fy", "/orgs/acme~api/deaths/x%2Fy"),
    ],
)
async def test_a_plain_address_redirects_to_the_page(key_holder, scopes, requested, to):
    answer = await key_holder.get(requested)
    assert answer.status_code == 307
    assert urljoin(f"{HERE}{requested}", answer.headers["location"]) == f"{HERE}{to}"
    behind = urljoin(f"{HERE}/ghapp{requested}", answer.headers["location"])
    assert behind == f"{HERE}/ghapp{to}", "also under a path of a proxy"


async def test_the_index_lists_scopes_by_kind_and_repositories_below_their_organization(key_holder, scopes):
    text = (await key_holder.get("/")).text
    rows = re.findall(r'<li( class="below")?><a href="orgs/([^"]+)"><b>([^<]+)</b></a>\s*(?:<small[^>]*>(\w+))?', text)
    assert rows == [
        ("", "acme", "acme", ""),
        (' class="below"', "acme~api", "acme/api", "repository"),
        (' class="below"', "acme~runners", "acme/runners", "repository"),
        (' class="below"', "acme~web", "acme/web", "repository"),
        ("", "globex", "globex", ""),
        ("", "enterprises~acme-corp", "enterprises/acme-corp", "enterprise"),
    ]


@pytest.mark.parametrize(
    ("login", "seen", "managed"),
    [
        ("mona", {"acme", "acme/api", "acme/web", "acme/runners"}, {"acme", "acme/api", "acme/web"}),
        ("lisa", {"acme", "acme/api", "acme/web"}, {"acme/web"}),
        ("olga", {"acme", "acme/api"}, set()),
        ("sam", set(), set()),
    ],
    ids=["an owner", "a member who is an admin of acme/web", "a collaborator", "a stranger"],
)
async def test_a_repository_is_shown_to_its_readers_and_managed_by_its_admins(
    signed_in, scopes, github, login, seen, managed
):
    seen = {each for each in seen if each != "acme/runners"}  # no repository of acme at GitHub
    browser = await signed_in(login)
    index = (await browser.get("/?all")).text
    for address in SCOPES:
        page = await browser.get(f"/orgs/{segment(address)}")
        assert (page.status_code == 200) is (address in seen), address
        assert (f"<b>{address}</b>" in index) is (address in seen), address
        for button in ("/sweep", "/pause", "/runners/3/check"):
            status = (await browser.get(f"/orgs/{segment(address)}{button}")).status_code
            assert status == (200 if address in managed else 403 if address in seen else 404), (address, button)


@pytest.mark.parametrize(
    ("login", "shown"), [("mona", True), ("lisa", False)], ids=["an owner", "an admin of it alone"]
)
async def test_the_log_of_a_node_is_not_for_the_admins_of_a_repository_alone(signed_in, scopes, redis, login, shown):
    death = await Deaths(redis, lambda: NOW).of(scopes["acme/web"], "a")
    await Deaths(redis, lambda: NOW).enrich(scopes["acme/web"], death._replace(host_log=("a line of another pod",)))
    browser = await signed_in(login)
    for page in ("deaths/a", "runners/1"):
        text = (await browser.get(f"/orgs/acme~web/{page}")).text
        assert "host-oom" in text
        assert ("a line of another pod" in text) is shown


async def test_a_repository_is_known_by_its_id_after_a_rename_and_a_transfer_of_its_name(
    signed_in, scopes, redis, github
):
    acme = await Installations(redis).one(scopes["acme"])
    records = [
        repository_scope(
            acme, -scopes["acme/api"], "web", "acme/web"
        ),  # the scope has a name that GitHub gave to another
        repository_scope(acme, UNSEEN, "api", "acme/api"),
    ]
    await Installations(redis).put_scopes(acme.id, records)
    browser = await signed_in("olga")
    assert [(await browser.get(f"/orgs/{page}")).status_code for page in ("acme~web", "acme~api")] == [200, 404]


async def test_a_person_s_account_is_managed_by_that_person_alone(signed_in, scopes, redis):
    acme = await Installations(redis).one(scopes["acme"])
    await Installations(redis).put(replace(acme, account_id=person_called("mona").id, is_personal=True))
    pressed = [(await (await signed_in(login)).get("/orgs/acme/sweep")).status_code for login in ("mona", "lisa")]
    assert pressed == [200, 403]


async def test_one_list_of_github_s_serves_all_repositories_of_an_owner(signed_in, scopes, monkeypatch):
    asked, read = [], UserAuthorization.repositories

    async def counted(authorization, token, installation):
        asked.append(installation)
        return await read(authorization, token, installation)

    monkeypatch.setattr(UserAuthorization, "repositories", counted)
    browser = await signed_in("lisa")
    for page in ("/", "/orgs/acme~api", "/orgs/acme"):
        await browser.get(page)
    assert asked == [scopes["acme"]]


async def test_while_github_does_not_list_repositories_none_is_shown_and_it_is_not_asked_each_second(
    signed_in, scopes, github, clock
):
    browser = await signed_in("mona")
    github.control.fault(match=r"/repositories$", status=502, times=1)
    for seconds, shown in ((0, False), (RETRY_SECONDS, False), (RETRY_SECONDS + 1, True)):
        clock.now = NOW + seconds
        page = await browser.get("/?all")
        assert (page.status_code, "<b>acme</b>" in page.text, "<b>acme/api</b>" in page.text) == (200, True, shown)


async def test_an_owner_of_every_organization_manages_deliveries_though_repositories_and_enterprises_are_watched(
    signed_in, scopes
):
    assert "Dead letters" in (await (await signed_in("mona")).get("/system")).text


async def test_a_press_concerns_the_scope_of_its_page(signed_in, scopes, redis, clock):
    browser = await signed_in("lisa")
    answer = await press(browser, "/orgs/acme~web/sweep")
    address = answer.headers["location"].removeprefix("../..")
    assert address.partition("&press=")[0] == "/orgs/acme~web?done=sweep"
    due = {each: await Schedule(redis).next(installation) for each, installation in scopes.items()}
    assert [each for each, at in due.items() if at == clock()] == ["acme/web"]
    page = await browser.get(address)
    (outcome,) = re.findall(r'id="outcome" hx-get="([^"]+)"', page.text)
    path = urlsplit(urljoin(str(page.url), outcome)).path
    assert (await browser.get(path)).status_code == 204
    await Presses(redis).conclude(scopes["acme/web"], SWEEP_TOPIC, lambda _: "found 1 suspect")
    assert "found 1 suspect" in (await browser.get(path)).text
    assert "no longer known" in (await browser.get(path.replace("acme~web", "acme~api"))).text


async def test_a_signed_in_person_is_led_back_to_the_scope(signed_in, scopes, start):
    browser = start()
    refused = await browser.get("/orgs/acme%2Fapi/runners")
    assert refused.headers["location"] == "../../sign-in?to=orgs/acme~api/runners"
    browser = await signed_in("lisa", browser, to="orgs/acme~api/runners")
    assert browser.last.headers["location"] == "../orgs/acme~api/runners"


async def test_a_runner_links_its_page_at_github_by_kind(key_holder, scopes, github):
    pages = {
        "acme": "organizations/acme/settings/actions/runners/1",
        "acme/api": "acme/api/settings/actions/runners/1",
        "enterprises/acme-corp": "enterprises/acme-corp/settings/actions/runners/1",
    }
    for address, page in pages.items():
        assert f'"{github.url}/{page}"' in (await key_holder.get(f"/orgs/{segment(address)}/runners/1")).text
