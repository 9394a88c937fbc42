"""The doctor's findings on the system page: computed in the background, once a minute, shown to permitted visitors."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from ghapp.doctor.finding import ok, warning, wrong
from ghapp.settings import Settings
from ghapp.web.app import build
from ghapp.web.page_key import key_cookie
from ghapp.web.pages.examination import FRESH_SECONDS, Examination, Examined, in_own_thread
from ghapp.web.pages.views.findings import findings_view
from ghapp.web.pages.views.wording import TextPart
from tests.support.keys import private_key
from tests.web.conftest import NOW
from tests.web.pages.conftest import ELSEWHERE, HERE, KEY, Clock, port_of

WELL = ok("redis", "answers", "in 1 ms")
RISK = warning("configuration", "mode", "remediation is dry-run", 'set mode = "act"', "acme")
BAD = wrong("roles", "workers", "no worker is <alive>", "start `ghapp worker`")


# The view.


@pytest.mark.parametrize(
    ("found", "severity", "sentence"),
    [
        (None, "", "The checks are running for the first time; their findings appear here."),
        ([WELL], "good", "All 1 checks passed."),
        ([WELL, RISK], "attention", "No check failed; there is 1 warning."),
        ([WELL, BAD], "critical", "1 check failed."),
        ([RISK, BAD, RISK, BAD], "critical", "2 checks failed, and 2 warnings."),
    ],
    ids=["running", "ok", "warning", "failure", "both"],
)
def test_the_findings_are_summarized_in_one_sentence(found, severity, sentence):
    view = findings_view(found, NOW, NOW)
    assert (view.severity, view.sentence) == (severity, sentence)


def test_problems_come_first_with_their_fix_and_their_organization():
    view = findings_view([WELL, RISK, BAD], NOW - 30, NOW)
    assert [each.name for each in view.problems] == ["workers", "mode"]
    assert [(each.where, each.fix) for each in view.problems] == [
        ("roles", (TextPart("start ", False), TextPart("ghapp worker", True))),
        ("configuration, acme", (TextPart('set mode = "act"', False),)),
    ]
    assert [each.name for each in view.passed] == ["answers"]
    assert view.at.text == "30 s ago"


# The examination.


class Doctor:
    """Counts its calls, and answers once the test allows it."""

    def __init__(self):
        self.asked, self.may_answer, self.failure = 0, asyncio.Event(), None

    async def examine(self):
        self.asked += 1
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        return [BAD]


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_request_never_waits_for_an_examination_and_only_one_runs_at_a_time():
    doctor, clock = Doctor(), Clock()
    clock.now = NOW
    examination = Examination(doctor.examine, clock)
    assert examination.latest() == Examined()
    clock.now += FRESH_SECONDS
    assert examination.latest() == Examined()
    await settled()
    assert doctor.asked == 1
    doctor.may_answer.set()
    await settled()
    assert examination.latest() == Examined([BAD], NOW)


@pytest.mark.parametrize(("later", "asked"), [(0, 1), (FRESH_SECONDS - 0.001, 1), (FRESH_SECONDS, 2), (-1, 2)])
async def test_an_examination_is_started_by_a_request_when_the_last_is_a_minute_old(later, asked):
    doctor, clock = Doctor(), Clock()
    clock.now = NOW
    doctor.may_answer.set()
    examination = Examination(doctor.examine, clock)
    examination.latest()
    await settled()
    clock.now = NOW + later
    await settled()
    assert doctor.asked == 1
    examination.latest()
    await settled()
    assert doctor.asked == asked


async def test_a_failed_examination_keeps_the_last_findings():
    doctor, clock = Doctor(), Clock()
    clock.now = NOW
    doctor.may_answer.set()
    examination = Examination(doctor.examine, clock)
    examination.latest()
    await settled()
    doctor.failure, clock.now = RuntimeError("x"), NOW + FRESH_SECONDS
    examination.latest()
    await settled()
    assert (doctor.asked, examination.latest()) == (2, Examined([BAD], NOW))


async def test_the_examinations_thread_returns_findings_and_raises_errors():
    assert await in_own_thread(lambda: [WELL]) == [WELL]

    def fails():
        raise OSError("x")

    with pytest.raises(OSError, match="x"):
        await in_own_thread(fails)


# The page.


@pytest.fixture
async def browser(redis, fleet, clock, github):
    doctor = Doctor()
    doctor.may_answer.set()
    environ = {
        "GHAPP_APP_ID": "1",
        "GHAPP_PRIVATE_KEY": private_key(),
        "GHAPP_WEBHOOK_SECRET": "secret",
        "GHAPP_GITHUB_API_URL": github.api_url,
        "GHAPP_GITHUB_WEB_URL": github.url,
        "GHAPP_CLIENT_ID": github.client_id,
        "GHAPP_CLIENT_SECRET": github.app.client_secret,
        "GHAPP_PAGE_KEY": KEY,
    }

    async def nothing(*_, **__):
        return None

    application = build(Settings.read(environ), redis, nothing, clock, examine=doctor.examine)
    browsers = []

    def run(base, *, has_key=False):
        cookies = [key_cookie(KEY, port_of(base))] if has_key else []
        transport = httpx.ASGITransport(application, client=(ELSEWHERE, 5))
        browsers.append(httpx.AsyncClient(transport=transport, base_url=base, cookies=cookies))
        browsers[-1].doctor = doctor
        return browsers[-1]

    yield run
    for each in browsers:
        await each.aclose()


async def test_findings_are_escaped_and_shown_with_their_fix_and_time(browser, clock):
    here = browser(HERE, has_key=True)
    assert "The checks are running for the first time" in (await here.get("/system")).text
    await settled()
    clock.now += 20
    page = (await here.get("/system")).text
    assert "1 check failed." in page
    assert "no worker is &lt;alive&gt;" in page
    assert "start <code>ghapp worker</code>" in page
    assert "20 s ago" in page
    assert 'href="#findings"' in page
    assert here.doctor.asked == 1


@pytest.mark.parametrize(("login", "sees"), [("mona", True), ("lisa", False)])
async def test_findings_are_shown_to_visitors_who_may_replay_dead_letters(browser, signed_in, login, sees):
    person = await signed_in(login, browser(HERE))
    await person.get("/system")
    await settled()
    page = (await person.get("/system")).text
    assert ("1 check failed." in page) is sees
    assert person.doctor.asked == sees
