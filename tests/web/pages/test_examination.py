"""The doctor's findings on the system page: computed in the background, once a minute, shown to permitted visitors."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from ghapp.doctor.finding import ok, warning, wrong
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.settings import Settings
from ghapp.store.tokens import Tokens
from ghapp.web.app import build
from ghapp.web.examination import (
    CURRENT_SECONDS,
    FRESH_SECONDS,
    NOW_SECONDS,
    WITH_PROBLEMS_SECONDS,
    Examination,
    Examined,
    in_own_thread,
)
from ghapp.web.pages.page_key import key_cookie
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
        ([WELL], "good", "The only check passed."),
        ([WELL, RISK], "attention", "No check failed; there is 1 warning."),
        ([WELL, BAD], "critical", "1 check failed."),
        ([RISK, BAD, RISK, BAD], "critical", "2 checks failed, and 2 warnings."),
    ],
    ids=["ok", "warning", "failure", "both"],
)
def test_the_findings_are_summarized_in_one_sentence(found, severity, sentence):
    view = findings_view(Examined(found, NOW), NOW)
    assert (view.severity, view.sentence) == (severity, sentence)


@pytest.mark.parametrize(
    ("examined", "age", "severity", "sentence"),
    [
        (Examined(is_running=True), 0, "", "The checks are running; their findings appear here in a few seconds."),
        (
            Examined(),
            0,
            "",
            "The checks could not be made, see the log of `ghapp web`. They are made again within a minute.",
        ),
        (Examined([BAD], NOW, is_running=True), CURRENT_SECONDS - 0.001, "critical", "1 check failed."),
        (
            Examined([BAD], NOW, is_running=True),
            3600,
            "",
            "1 h ago: 1 check failed. The checks are running again.",
        ),
        (Examined([WELL], NOW), 3600, "", "1 h ago: The only check passed. The checks are made again within a minute."),
        (
            Examined([WELL], NOW, is_running=True),
            -1,
            "",
            "Just now: The only check passed. The checks are running again.",
        ),
    ],
    ids=["first", "failed", "current", "old", "old, and none runs", "the clock was set back"],
)
def test_the_last_findings_are_shown_with_their_age_while_the_checks_run_again(examined, age, severity, sentence):
    view = findings_view(examined, NOW + age)
    assert (view.severity, view.sentence) == (severity, sentence)
    assert (len(view.problems), len(view.passed)) == (
        (BAD in (examined.findings or ())),
        WELL in (examined.findings or ()),
    )


def test_problems_come_first_with_their_fix_and_their_organization():
    view = findings_view(Examined([WELL, RISK, BAD], NOW - 30), NOW)
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
        self.asked, self.may_answer, self.failure, self.found = 0, asyncio.Event(), None, [BAD]

    async def examine(self):
        self.asked += 1
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        return self.found


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_request_never_waits_for_an_examination_and_only_one_runs_at_a_time():
    doctor, clock = Doctor(), Clock()
    clock.now = NOW
    examination = Examination(doctor.examine, clock)
    assert examination.latest() == Examined(is_running=True)
    clock.now += FRESH_SECONDS
    assert examination.latest() == Examined(is_running=True)
    await settled()
    assert doctor.asked == 1
    doctor.may_answer.set()
    await settled()
    assert examination.latest() == Examined([BAD], NOW, is_running=True)


@pytest.mark.parametrize(
    ("found", "later", "asked"),
    [
        ([WELL], 0, 1),
        ([WELL], FRESH_SECONDS - 0.001, 1),
        ([WELL], FRESH_SECONDS, 2),
        ([WELL], -1, 2),
        ([WELL, RISK], WITH_PROBLEMS_SECONDS - 0.001, 1),
        ([WELL, RISK], WITH_PROBLEMS_SECONDS, 2),
        ([BAD], WITH_PROBLEMS_SECONDS, 2),
    ],
)
async def test_a_request_starts_an_examination_each_minute_and_sooner_while_there_is_a_problem(found, later, asked):
    doctor, clock = Doctor(), Clock()
    clock.now, doctor.found = NOW, found
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


@pytest.mark.parametrize("later", [3600, -1])
async def test_old_findings_are_returned_while_others_are_made(later):
    doctor, clock = Doctor(), Clock()
    clock.now = NOW
    doctor.may_answer.set()
    examination = Examination(doctor.examine, clock)
    examination.latest()
    await settled()
    clock.now = NOW + later
    assert examination.latest() == Examined([BAD], NOW, is_running=True)


async def test_the_command_waits_for_findings_of_now_and_joins_an_examination_that_runs():
    doctor, clock = Doctor(), Clock()
    clock.now = NOW
    examination = Examination(doctor.examine, clock)
    waiting = [asyncio.create_task(examination.of_now()) for _ in range(2)]
    await settled()
    assert not any(each.done() for each in waiting)
    doctor.may_answer.set()
    assert await asyncio.gather(*waiting) == [[BAD], [BAD]]
    assert doctor.asked == 1
    for later, asked in ((NOW_SECONDS - 0.001, 1), (NOW_SECONDS, 2)):
        clock.now = NOW + later
        assert await examination.of_now() == [BAD]
        assert doctor.asked == asked
    doctor.failure, clock.now = RuntimeError("x"), NOW + 2 * NOW_SECONDS
    assert await examination.of_now() is None, "older findings are not of now"
    assert await Examination(None, clock).of_now() is None


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
        "GHAPP_CLIENT_ID": github.app.client_id,
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
    assert "The checks are running" in (await here.get("/system")).text
    await settled()
    clock.now += 20
    page = (await here.get("/system")).text
    assert "1 check failed." in page
    assert "no worker is &lt;alive&gt;" in page
    assert 'start <span class="command"><code>ghapp worker</code><button' in page
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


# The API.


async def test_the_api_has_the_findings_of_now_for_an_admin_of_every_org(browser, redis, clock):
    here = browser(HERE)
    admin, _ = await Tokens(redis).create("a", ("acme", "globex"), ("admin",), clock.now)
    reader, _ = await Tokens(redis).create("r", ("acme",), ("read",), clock.now)

    async def ask(secret):
        return await here.get("/v1/doctor", headers={"authorization": f"Bearer {secret}"})

    assert [(await ask(each)).status_code for each in ("", reader)] == [401, 403]
    assert here.doctor.asked == 0
    found = await ask(admin)
    assert found.json() == {
        "ok": False,
        "checks": 1,
        "problems": 1,
        "warnings": 0,
        "findings": [
            {
                "group": "roles",
                "name": "workers",
                "status": "wrong",
                "text": "no worker is <alive>",
                "fix": "start `ghapp worker`",
                "org": None,
            }
        ],
    }
    here.doctor.failure, clock.now = RuntimeError("x"), clock.now + FRESH_SECONDS
    assert (await ask(admin)).status_code == 503
    await Installations(redis).put(Installation(9, "initech", 3))
    assert (await ask(admin)).status_code == 403
