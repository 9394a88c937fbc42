"""The buttons: who may press them, their confirmation, their effect, their audit log entry, and every refusal."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urljoin

import pytest

from ghapp.deliveries.store import Inbox
from ghapp.queue.jobs import JobName
from ghapp.remediation.pause import Pause
from ghapp.remediation.store import Fuses
from ghapp.store.audit import AuditEntry, AuditLog, Channel
from ghapp.store.presses import SWEEP_TOPIC, Presses
from ghapp.store.schedule import Schedule
from ghapp.web.pages.access import KEY_HOLDER
from ghapp.web.pages.buttons import LONGEST_WHY, PRESSES_AT_ONCE
from ghapp.wording import clock_time, time_of
from tests.web.conftest import NOW
from tests.web.pages.conftest import ELSEWHERE

WHY = {"why": "driver <update>", "pool": ""}
OF_ORG = ["/orgs/acme/sweep", "/orgs/acme/pause", "/orgs/acme/resume", "/orgs/acme/runners/1/check"]


async def form_token(browser, path):
    page = await browser.get(path)
    assert page.status_code == 200, page.text
    return re.search(r'<form method="post">\s*<input type="hidden" name="form_token" value="(\w+)">', page.text)[1]


async def press(browser, path, **fields):
    """Requests the confirmation, then confirms."""
    return await browser.post(path, data={"form_token": await form_token(browser, path), **fields})


async def dead_letter(redis):
    inbox = Inbox(redis)
    await inbox.keep("guid-1", "workflow_job", b"{}")
    (entry,) = await inbox.take(1)
    for _ in range(3):
        await inbox.failed(entry, "no <effect>", NOW)
    (letter,) = await inbox.dead()
    return letter


async def entries(redis, installation):
    return [(each.who, each.action, each.subject, each.why, each.result, each.address) for each in (
        await AuditLog(redis).latest(installation, 10)
    )]  # fmt: skip


async def test_sweep_now_makes_a_sweep_due_and_shows_that(signed_in, fleet, redis, clock):
    browser = await signed_in("mona")
    answer = await press(browser, "/orgs/acme/sweep")
    address = answer.headers["location"].removeprefix("../..")
    assert (answer.status_code, address.partition("&press=")[0]) == (303, "/orgs/acme?done=sweep")
    assert await Schedule(redis).next(fleet["acme"]) == clock()
    page = (await browser.get(address)).text
    assert "A sweep is queued" in page
    (outcome,) = re.findall(r'id="outcome" hx-get="([^"]+)" hx-trigger="every 1s"', page)
    asked = await browser.get("/orgs/acme/" + outcome.removeprefix("../orgs/acme/"), headers={"hx-request": "true"})
    assert (asked.status_code, asked.text) == (204, ""), "the banner stays, and asks again"
    assert await entries(redis, fleet["acme"]) == [("mona", "sweep", "", "", "queued", ELSEWHERE)]


async def test_the_banner_and_the_record_show_the_outcome_when_the_work_has_ended(signed_in, fleet, redis):
    browser = await signed_in("mona")
    address = (await press(browser, "/orgs/acme/sweep")).headers["location"].removeprefix("../..")
    await Presses(redis).conclude(fleet["acme"], SWEEP_TOPIC, lambda _: "found 2 suspects, 4 calls")
    path = f"/orgs/acme/presses/{address.partition('press=')[2]}"
    asked = await browser.get(path, headers={"hx-request": "true"})
    assert (asked.status_code, asked.text.strip()) == (286, f"Sweep, {clock_time(NOW)}: found 2 suspects, 4 calls."), (
        "htmx asks no more"
    )
    page = (await browser.get(address)).text
    shown = f"Sweep, {clock_time(NOW)}: found 2 suspects, 4 calls."
    assert f'<p class="notice" role="status">{shown}</p>' in page, "also without JavaScript"
    result = "found 2 suspects, 4 calls"
    assert await entries(redis, fleet["acme"]) == [("mona", "sweep", "", "", result, ELSEWHERE)]


async def test_the_outcome_of_a_sweep_links_the_runners_that_it_names(signed_in, fleet, redis):
    browser = await signed_in("mona")
    address = (await press(browser, "/orgs/acme/sweep")).headers["location"].removeprefix("../..")
    (asks,) = re.findall(r'id="outcome" hx-get="([^"]+)"', (await browser.get(address)).text)
    found = "found 2 suspects (b, <i>), 4 calls; 2 runners remain lost: 2 of linux requested"
    await Presses(redis).conclude(fleet["acme"], SWEEP_TOPIC, lambda _: found)
    links = ['<a href="../orgs/acme/runners?state=all&amp;text=b" rel="noreferrer">b</a>, &lt;i&gt;)']
    links += ['<a href="../orgs/acme/runners?state=lost" rel="noreferrer">2 runners remain lost</a>']
    fragment = (await browser.get("/orgs/acme/" + asks.removeprefix("../orgs/acme/"))).text
    page = (await browser.get("/orgs/acme")).text
    assert [each in text for text in (fragment, page) for each in links] == [True] * 4
    for link in ("text=b", "state=lost"):
        assert (await browser.get(f"/orgs/acme/runners?{link}")).status_code == 200


async def test_the_banner_and_the_record_say_what_the_work_waits_for_and_until_when(signed_in, fleet, redis):
    browser = await signed_in("mona")
    address = (await press(browser, "/orgs/acme/sweep")).headers["location"].removeprefix("../..")
    await Presses(redis).wait(fleet["acme"], SWEEP_TOPIC, "the fuse is not closed", NOW + 120, NOW + 7200)
    path = f"/orgs/acme/presses/{address.partition('press=')[2]}"
    asked = await browser.get(path, headers={"hx-request": "true"})
    text = (
        f"Sweep, {clock_time(NOW)} waits: the fuse is not closed. It is tried again in 2 min, for the last time in 2 h."
    )
    assert (asked.status_code, asked.text.strip()) == (200, text), "htmx shows it, and asks again"
    page = (await browser.get(address)).text
    assert text in page
    assert 'hx-trigger="every 1s"' in page
    tried_again = f"next try at {clock_time(NOW + 120)}, for the last time at {clock_time(NOW + 7200)}"
    assert (await entries(redis, fleet["acme"]))[0][4] == f"waits: the fuse is not closed; {tried_again}"


async def test_the_outcome_of_a_press_is_for_who_sees_the_organization_and_an_unknown_one_ends_the_asking(
    signed_in, fleet, redis
):
    entry = AuditEntry(NOW, "lisa", Channel.PAGE, "sweep", "", "", "")
    press_id = await Presses(redis).begin(fleet["acme"], SWEEP_TOPIC, entry)
    browser = await signed_in("mona")
    assert (await browser.get(f"/orgs/globex/presses/{press_id}")).status_code in (286, 404)
    unknown = await browser.get("/orgs/acme/presses/nope")
    assert (unknown.status_code, "no longer known" in unknown.text) == (286, True)


async def test_a_confirmation_that_is_not_confirmed_does_nothing(signed_in, asked, redis, fleet):
    browser = await signed_in("mona")
    for path in OF_ORG:
        assert (await browser.get(path)).status_code == 200
    assert asked == []
    assert await Fuses(redis).pauses(fleet["acme"]) == {}
    assert await entries(redis, fleet["acme"]) == []


@pytest.mark.parametrize(("pool", "paused"), [("", "*"), ("linux-4vcpu", "linux-4vcpu")])
async def test_a_pause_is_shown_with_its_reason_and_its_author(signed_in, redis, fleet, pool, paused):
    browser = await signed_in("mona")
    answer = await press(browser, "/orgs/acme/pause", why=" driver <update> ", pool=pool)
    assert answer.headers["location"] == "../../orgs/acme?done=paused"
    assert await Fuses(redis).pauses(fleet["acme"]) == {paused: Pause("mona", "driver <update>", NOW)}
    page = (await browser.get("/orgs/acme")).text
    assert "driver &lt;update&gt;" in page
    assert "<update>" not in page
    assert await entries(redis, fleet["acme"]) == [("mona", "pause", paused, "driver <update>", "paused", ELSEWHERE)]


def notice(page):
    found = re.search(r'<p class="notice" role="status">(.*?)</p>', page.text)
    return None if found is None else unescape(found[1])


async def test_the_notice_names_the_pool_and_the_time_and_is_not_repeated_by_the_address(
    signed_in, redis, fleet, clock
):
    browser = await signed_in("mona")
    address = (
        (await press(browser, "/orgs/acme/pause", why="a reason", pool="linux-4vcpu")).headers["location"].strip("./")
    )
    shown = f"Pause linux-4vcpu, {clock_time(NOW)}. Remediation was paused: "
    assert notice(await browser.get(f"/{address}")).startswith(shown)
    assert notice(await browser.get("/orgs/acme?done=resumed")) is None, "no change of that kind"
    assert notice(await (await signed_in("lisa")).get(f"/{address}")) is None, "a shared link"
    clock.now += 61
    assert notice(await browser.get(f"/{address}")) is None, "a bookmark"


async def test_the_notice_of_a_change_without_effect_is_shown(signed_in, redis, fleet):
    await Fuses(redis).pause(fleet["acme"], "*", Pause("lisa", "first", NOW - 60))
    browser = await signed_in("mona")
    address = (await press(browser, "/orgs/acme/pause", **WHY)).headers["location"].strip("./")
    shown = f"Pause all pools, {clock_time(NOW)}. Remediation was paused before"
    assert notice(await browser.get(f"/{address}")).startswith(shown)


async def test_a_second_pause_keeps_the_first_and_reports_it(signed_in, redis, fleet):
    first = Pause("lisa", "first", NOW - 60)
    await Fuses(redis).pause(fleet["acme"], "*", first)
    answer = await press(await signed_in("mona"), "/orgs/acme/pause", **WHY)
    assert answer.headers["location"] == "../../orgs/acme?done=already-paused"
    assert await Fuses(redis).pauses(fleet["acme"]) == {"*": first}


@pytest.mark.parametrize("why", ["", "   ", "x" * (LONGEST_WHY + 1)], ids=["none", "blank", "too long"])
async def test_a_pause_with_an_invalid_reason_shows_the_form_again_with_the_pool(signed_in, redis, fleet, why):
    answer = await press(await signed_in("mona"), "/orgs/acme/pause", why=why, pool="linux-4vcpu")
    assert answer.status_code == 422
    assert '<option value="linux-4vcpu" selected>' in answer.text
    assert 'role="alert"' in answer.text
    assert await Fuses(redis).pauses(fleet["acme"]) == {}


async def test_an_unknown_pool_is_not_paused_and_the_form_keeps_the_reason(signed_in, redis, fleet):
    answer = await press(await signed_in("mona"), "/orgs/acme/pause", why="a reason", pool="nothing")
    assert answer.status_code == 422
    assert 'value="a reason"' in answer.text
    assert await Fuses(redis).pauses(fleet["acme"]) == {}


async def test_resume_ends_pauses_restarts_fuses_and_sweeps(signed_in, redis, fleet, clock):
    await Fuses(redis).pause(fleet["acme"], "*", Pause("lisa", "first", NOW - 60))
    browser = await signed_in("mona")
    answer = await press(browser, "/orgs/acme/resume", pool="")
    address, _, press_id = answer.headers["location"].partition("&press=")
    assert address == "../../orgs/acme?done=resumed"
    assert await Fuses(redis).pauses(fleet["acme"]) == {}
    fuse = (await Fuses(redis).all(fleet["acme"]))["linux-4vcpu"]
    assert (fuse.position, fuse.by) == ("proving", "mona")
    assert await Schedule(redis).next(fleet["acme"]) == clock()
    (entry,) = await AuditLog(redis).latest(fleet["acme"], 1)
    did = f"ended the pause of all pools by lisa since {time_of(NOW - 60)}: first; restarted the fuse of linux-4vcpu"
    assert (entry.result, entry.detail) == ("resumed", did)
    await Presses(redis).wait(fleet["acme"], SWEEP_TOPIC, "points are spent", NOW + 30)
    assert await AuditLog(redis).latest(fleet["acme"], 1) == [entry], "it has had its effect"
    await Presses(redis).conclude(fleet["acme"], SWEEP_TOPIC, lambda _: "found 2 suspects, 4 calls", None, NOW + 4)
    (entry,) = await AuditLog(redis).latest(fleet["acme"], 9)
    assert (entry.result, entry.detail) == ("resumed", f"{did}; sweep: found 2 suspects, 4 calls")
    banner = (await browser.get(f"/orgs/acme/presses/{press_id}")).text.strip()
    assert banner == f"Resume all pools, {clock_time(NOW)}: found 2 suspects, 4 calls."
    again = await press(browser, "/orgs/acme/resume", pool="")
    assert again.headers["location"] == "../../orgs/acme?done=nothing-to-resume"


async def test_the_only_pool_that_is_held_is_the_one_to_resume(signed_in, fleet):
    browser = await signed_in("mona")
    assert '<option value="linux-4vcpu" selected>' in (await browser.get("/orgs/acme/resume")).text, (
        "its fuse is stopped"
    )
    await press(browser, "/orgs/acme/pause", **WHY)
    assert " selected>" not in (await browser.get("/orgs/acme/resume")).text, "all pools are paused, too"


async def test_a_check_of_a_runner_is_enqueued(signed_in, fleet, asked):
    browser = await signed_in("mona")
    answer = await press(browser, "/orgs/acme/runners/3/check")
    assert answer.headers["location"].startswith("../../../../orgs/acme/runners/3?done=check&press=")
    assert asked == [(JobName.CHECK, (fleet["acme"], 3), f"check-{fleet['acme']}-3")]


@pytest.mark.parametrize("runner", ["99", "x", "9", "1" * 30])
async def test_a_runner_that_acme_does_not_have_is_404(signed_in, asked, runner):
    browser = await signed_in("mona")
    assert (await browser.get(f"/orgs/acme/runners/{runner}/check")).status_code == 404
    token = await form_token(browser, "/orgs/acme/sweep")
    answer = await browser.post(f"/orgs/acme/runners/{runner}/check", data={"form_token": token})
    assert (answer.status_code, asked) == (404, [])


async def test_a_dead_letter_is_replayed(signed_in, redis, asked):
    letter, browser = await dead_letter(redis), await signed_in("mona")
    assert "no &lt;effect&gt;" in (await browser.get("/system")).text
    answer = await press(browser, f"/system/replay/{letter.id}")
    assert answer.headers["location"] == "../../system?done=replayed"
    assert (await Inbox(redis).dead_letters(), await Inbox(redis).lag()) == (0, 1)
    assert asked == [(JobName.INBOX, (), None)]
    assert await entries(redis, 0) == [("mona", "replay", "guid-1", "", "replayed", ELSEWHERE)]
    assert "replay guid-1" in (await browser.get("/system")).text


async def test_a_dead_letter_that_no_longer_exists_is_reported(signed_in, redis):
    letter, browser = await dead_letter(redis), await signed_in("mona")
    token = await form_token(browser, f"/system/replay/{letter.id}")
    await Inbox(redis).replay(letter)
    answer = await browser.post(f"/system/replay/{letter.id}", data={"form_token": token})
    assert answer.headers["location"] == "../../system?done=not-replayed"
    assert (await browser.get(f"/system/replay/{letter.id}")).status_code == 404


async def test_a_press_from_this_machine_is_allowed_and_audited_as_local(key_holder, fleet, redis):
    answer = await press(key_holder, "/orgs/acme/pause", **WHY)
    assert answer.headers["location"] == "../../orgs/acme?done=paused"
    (entry,) = await AuditLog(redis).latest(fleet["acme"], 10)
    assert (entry.who, entry.address) == (KEY_HOLDER, ELSEWHERE)


# Refusals.


@pytest.mark.parametrize(("who", "sees"), [("mona", True), ("lisa", False)], ids=["a manager", "a member"])
async def test_the_command_that_resumes_is_shown_to_who_may_act(signed_in, redis, fleet, who, sees):
    await Fuses(redis).pause(fleet["acme"], "*", Pause("octocat", "disks", NOW - 60))
    browser = await signed_in(who)
    page = (await browser.get("/orgs/acme")).text
    assert ("ghapp resume" in page, "An admin of ghapp: " in page) == (sees, not sees)


@pytest.mark.parametrize("path", OF_ORG)
async def test_a_member_who_may_not_list_runners_sees_and_uses_no_button(signed_in, asked, redis, fleet, path):
    browser = await signed_in("lisa")
    overview = (await browser.get("/orgs/acme")).text
    assert not re.search(r"/(sweep|pause|resume)\"", overview)
    assert (await browser.get(path)).status_code == 403
    token = re.search(r'name="form_token" value="(\w+)"', overview)[1]
    assert (await browser.post(path, data={"form_token": token, **WHY})).status_code == 403
    assert (asked, await Fuses(redis).pauses(fleet["acme"])) == ([], {})


@pytest.mark.parametrize("path", [path.replace("acme", "globex") for path in OF_ORG])
async def test_buttons_of_another_organization_are_404(signed_in, asked, path):
    browser = await signed_in("lisa")
    token = re.search(r'name="form_token" value="(\w+)"', (await browser.get("/orgs/acme")).text)[1]
    assert (await browser.get(path)).status_code == 404
    assert (await browser.post(path, data={"form_token": token, **WHY})).status_code == 404
    assert asked == []


async def test_a_member_neither_sees_nor_replays_dead_letters(signed_in, redis):
    letter, browser = await dead_letter(redis), await signed_in("lisa")
    page = (await browser.get("/system")).text
    assert "guid-1" not in page
    assert (await browser.get(f"/system/replay/{letter.id}")).status_code == 403
    token = re.search(r'name="form_token" value="(\w+)"', page)[1]
    assert (await browser.post(f"/system/replay/{letter.id}", data={"form_token": token})).status_code == 403
    assert await Inbox(redis).dead_letters() == 1


@pytest.mark.parametrize("path", [*OF_ORG, "/system/replay/1-1"])
async def test_a_press_without_a_session_is_refused(start, asked, path):
    browser = start()
    assert (await browser.post(path, data=WHY)).headers["location"].endswith("sign-in")
    assert asked == []


FORGERIES = {
    "without a token": ({}, {}),
    "with an empty token": ({"form_token": ""}, {}),
    "with a token that is not ASCII": ({"form_token": "é"}, {}),
    "from another site by its Origin": (None, {"origin": "https://evil.example"}),
    "from another site by Sec-Fetch-Site": (None, {"sec-fetch-site": "cross-site"}),
    "from another port of this host": (None, {"sec-fetch-site": "same-site"}),
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
async def test_a_forged_form_does_nothing(signed_in, key_holder, asked, redis, fleet, forgery):
    given, headers = forgery
    for browser in (await signed_in("mona"), key_holder):
        fields = {"form_token": await form_token(browser, "/orgs/acme/pause")} if given is None else given
        for path in OF_ORG:
            answer = await browser.post(path, data={**fields, **WHY}, headers=headers)
            assert answer.status_code == 403, path
    assert (asked, await Fuses(redis).pauses(fleet["acme"])) == ([], {})


async def test_the_form_token_of_another_browser_is_refused(signed_in, asked):
    one, other = await signed_in("mona"), await signed_in("mona")
    token = await form_token(one, "/orgs/acme/sweep")
    assert (await other.post("/orgs/acme/sweep", data={"form_token": token})).status_code == 403
    assert asked == []


async def test_a_refusal_stays_within_the_organization_and_a_form_that_is_too_old_leads_to_a_new_one(signed_in):
    browser, member = await signed_in("mona"), await signed_in("lisa")
    old = (await browser.post("/orgs/acme/pause", data={"form_token": "old", **WHY})).text
    assert re.findall(r'href="([^"]*)">Try again', old) == ["../../orgs/acme/pause"]
    for page in (old, (await member.get("/orgs/acme/pause")).text):
        assert re.findall(r'href="([^"]*)">Overview of acme', page) == ["../../orgs/acme"]
        assert "Sign out" in page
    assert "Try again" not in page


async def test_presses_are_limited_by_person_and_organization(signed_in):
    browser = await signed_in("mona")
    token = await form_token(browser, "/orgs/acme/sweep")
    statuses = [
        (await browser.post("/orgs/acme/sweep", data={"form_token": token})).status_code
        for _ in range(PRESSES_AT_ONCE + 1)
    ]
    assert statuses == [303] * PRESSES_AT_ONCE + [429]
    assert (await browser.post("/orgs/globex/sweep", data={"form_token": token})).status_code == 303


async def test_a_form_that_is_too_large_is_refused(signed_in, redis, fleet):
    browser = await signed_in("mona")
    token = await form_token(browser, "/orgs/acme/pause")
    answer = await browser.post("/orgs/acme/pause", data={"form_token": token, "why": "x" * 20_000})
    assert answer.status_code == 413
    assert await Fuses(redis).pauses(fleet["acme"]) == {}


async def test_text_from_the_address_is_never_shown_as_a_result(signed_in):
    browser = await signed_in("mona")
    page = unescape((await browser.get("/orgs/acme?done=You+are+hacked")).text)
    assert "hacked" not in page


@pytest.mark.parametrize("path", ["/orgs/acme/pause", "/sign-out"])
async def test_a_form_of_too_many_fields_is_refused(signed_in, redis, fleet, path):
    browser = await signed_in("mona")
    fields = {"form_token": await form_token(browser, "/orgs/acme/pause"), **WHY}
    many = {str(number): "x" for number in range(20)}
    assert (await browser.post(path, data={**fields, **many})).status_code == 400
    assert await Fuses(redis).pauses(fleet["acme"]) == {}


async def test_many_changes_hide_none(signed_in, redis, fleet):
    """One click shows all; a live page shows the latest."""
    browser = await signed_in("mona")
    await press(browser, "/orgs/acme/pause", **WHY)
    assert "All entries" not in (await browser.get("/orgs/acme")).text, "they are shown"
    for number in range(20):
        entry = AuditEntry(NOW + number, "lisa", Channel.CHECK_RUN, "sweep", "", "", "queued")
        await AuditLog(redis).record(fleet["acme"], entry)
    latest = (await browser.get("/orgs/acme")).text
    assert latest.count('<td data-label="Who">') == 20
    assert '<td data-label="Who">mona' not in latest
    address = re.search(r'href="([^"]+)">All entries', latest)[1]
    page = (await browser.get(urljoin("/orgs/acme", address))).text
    assert '<td data-label="Who">mona' in page
    assert "All entries" not in page
    assert "hx-get" in latest
    assert "hx-get" not in page
