"""Doctor's check of the receivers of notifications."""

from ghapp.doctor.finding import FindingStatus
from ghapp.notifications.doctor import check
from ghapp.notifications.store import Notifications, PendingNotification
from ghapp.notifier import digest
from ghapp.settings import Settings

ADDRESS = "json://user:secret@127.0.0.1:9/"


async def found(redis_url, urls):
    return {each.name: each for each in await check(Settings.read({"GHAPP_NOTIFY_URLS": urls}), redis_url)}


async def test_without_receivers_there_is_no_finding(redis_url):
    assert await found(redis_url, "") == {}


async def test_receivers_are_reported_only_by_their_schemes(redis, redis_url):
    findings = await found(redis_url, ADDRESS)
    assert {name: each.status for name, each in findings.items()} == dict.fromkeys(
        ("receivers", "waiting"), FindingStatus.OK
    )
    assert findings["receivers"].text == "json://…"


async def test_an_address_that_apprise_rejects_is_wrong(redis_url):
    findings = await found(redis_url, f"{ADDRESS},nonsense://secret")
    assert findings["receivers"].status is FindingStatus.WRONG
    assert "address 2 (nonsense://…)" in findings["receivers"].text
    assert "secret" not in findings["receivers"].text


async def test_a_failed_receiver_is_a_warning_unless_it_was_removed(redis, redis_url):
    waits = PendingNotification(digest(ADDRESS), "title", "body", "info", 1.0, tries=1)
    removed = waits._replace(receiver=digest("json://127.0.0.1:10/"))
    await Notifications(redis).record(7, {}, [waits, removed, waits._replace(tries=0)])
    waiting = (await found(redis_url, ADDRESS))["waiting"]
    assert (waiting.status, waiting.text) == (FindingStatus.WARNING, "1 not sent yet, to json://…")
