"""`ghapp audit`, as text and as JSON."""

from __future__ import annotations

import pytest

from ghapp.store.audit import AuditEntry, AuditLog, Trail
from tests.cli.conftest import ACME
from tests.cli.test_cli import one_line


async def a_pause_that_was_resumed(known):
    log, ended = AuditLog(known.redis), "ended the pause of linux by mona since 17:00:00 UTC: a move"
    paused = AuditEntry(known.now - 600, "mona", "page", "pause", "linux", "a move", "paused", "192.0.2.7")
    resumed = AuditEntry(known.now - 60, "hub", "command", "resume", "*", "", "resumed", "host", detail=ended)
    for each in (paused, resumed):
        await log.record(ACME, each)
    await log.record(ACME, resumed._replace(result="nothing-to-resume"), Trail.ATTEMPTS)
    await log.record(ACME, resumed._replace(action="claim"), Trail.CONTROLLERS)


async def test_changes_are_listed_the_latest_first_without_addresses_and_attempts(known):
    await a_pause_that_was_resumed(known)
    resumed, paused = (await known.json("audit"))["entries"]
    del resumed["at"], paused["at"]
    assert paused == {
        "org": "acme",
        "who": "mona",
        "channel": "page",
        "action": "pause",
        "subject": "linux",
        "why": "a move",
        "result": "paused",
        "text": "paused",
    }
    assert (resumed["subject"], resumed["result"]) == ("*", "resumed")
    assert resumed["text"] == "resumed; ended the pause of linux by mona since 17:00:00 UTC: a move"
    assert len((await known.json("audit", "--limit", "1"))["entries"]) == 1


async def test_the_text_has_a_row_for_each_change(known):
    await a_pause_that_was_resumed(known)
    header, resumed, paused = (await known.ask("audit", "--org", "ACME")).stdout.splitlines()
    assert header.split() == ["org", "when", "who", "through", "what", "result", "reason"]
    assert "1 min" in resumed
    assert "resume all pools  resumed; ended the pause of linux by mona since 17:00:00 UTC: a move" in resumed
    org, rest = " ".join(paused.split()).split(" 10 min ", 1)
    assert (org, rest.partition("ago ")[2]) == ("acme", "mona page pause linux paused a move")


async def test_without_a_change_the_text_says_so(known):
    assert (await known.ask("audit")).stdout == "no change is recorded\n"


async def test_an_unknown_organization_is_wrong_usage(known):
    assert "nowhere" in one_line(await known.ask("audit", "--org", "nowhere"), 2)


@pytest.mark.parametrize("limit", ["0", "many"])
async def test_a_limit_is_a_number_of_one_or_more(known, limit):
    assert "--limit" in one_line(await known.ask("audit", "--limit", limit), 2)
