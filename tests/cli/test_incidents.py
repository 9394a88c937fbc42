"""`ghapp incidents`, as text and as JSON."""

from __future__ import annotations

import pytest

from ghapp.incidents.incident import FuseStep, LossEnd, RunnerLoss, incident_of
from ghapp.incidents.store import Incidents
from ghapp.remediation.fuse import FuseReason, Position
from tests.cli.conftest import ACME
from tests.cli.test_cli import one_line
from tests.rules.builders import lost

DAY = 86_400.0


async def three_incidents(known):
    """One that is over for two days, one that ended an hour ago though it began earlier, and one that is open."""
    now = known.now

    def loss(runner_id, ago, lasted=None):
        first = RunnerLoss(runner_id, f"linux-{runner_id}", "linux-4vcpu", now - ago)
        if lasted is None:
            return first
        return first._replace(end=LossEnd.SUCCESSOR_ONLINE, ended_at=now - ago + lasted, successor=99)

    tripped = FuseStep(now - 590, "linux-4vcpu", Position.PROVING, FuseReason.MASS_LOSS, 3, 3, 10)
    found = [
        incident_of("old", [loss(11, 2 * DAY, 90)], []),
        incident_of("long", [loss(12, 3 * DAY, 3 * DAY - 3600)], []),
        incident_of("now", [loss(13, 600, 60), loss(14, 600), loss(15, 600)], [tripped]),
    ]
    for runner_id in (14, 15):
        since = {"absent_since": now - 600, "first_404_at": now - 570, "confirmed_at": now - 540}
        await known.add_runner(lost(runner_id, first_seen=now - DAY, observed_at=now, **since))
    await Incidents(known.redis).revise(ACME, lambda _: {each.id: each for each in found}, now)


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ([], ["now", "long", "old"]),
        (["--open"], ["now"]),
        (["--limit", "2"], ["now", "long"]),
        (["--org", "ACME"], ["now", "long", "old"]),
    ],
    ids=str,
)
async def test_open_incidents_come_first_then_the_latest_end(known, options, ids):
    await three_incidents(known)
    assert [each["id"] for each in (await known.json("incidents", *options))["incidents"]] == ids


async def test_an_incident_has_what_was_lost_what_became_of_it_and_its_page(known):
    known.set_public_url("https://ghapp.example.com")
    await three_incidents(known)
    (found,) = (await known.json("incidents", "--open"))["incidents"]
    assert {key: found[key] for key in found if key != "began"} == {
        "org": "acme",
        "id": "now",
        "state": "open",
        "text": "3 runners lost in linux-4vcpu",
        "ended": None,
        "pools": ["linux-4vcpu"],
        "lost": 3,
        "open": 2,
        "ends": [{"end": "SuccessorOnline", "losses": 1, "text": "successor online"}],
        "fuse": "proving",
        "heal_seconds": 60.0,
        "url": "https://ghapp.example.com/orgs/acme/incidents/now",
    }


async def test_the_text_has_a_row_for_each_and_the_page_of_the_open_one(known):
    known.set_public_url("https://ghapp.example.com")
    await three_incidents(known)
    shown = (await known.ask("incidents")).stdout
    assert shown.startswith(" 3 incidents\n")
    row = next(line for line in shown.splitlines() if " now " in f"{line} ")
    assert row.split()[:5] == ["acme", "open", "10", "min", "ago"]
    assert "3 runners lost in linux-4vcpu" in row
    page = "https://ghapp.example.com/orgs/acme/incidents/now"
    assert f"  now: 1 × successor online; median time to heal 1 min; {page}\n" in shown
    assert shown.count("https://") == 1
    cut = (await known.ask("incidents", "--limit", "2")).stdout
    assert cut.startswith(" 2 incidents; there are more, --limit shows them\n")


async def test_without_incidents_the_text_says_so(known):
    assert (await known.ask("incidents")).stdout == "no runner was lost in the last month\n"
    assert (await known.ask("incidents", "--open")).stdout == "no incident is open\n"


async def test_an_unknown_organization_is_wrong_usage(known):
    assert "nowhere" in one_line(await known.ask("incidents", "--org", "nowhere"), 2)
