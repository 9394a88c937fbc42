"""`ghapp versions`, as text and as JSON."""

from __future__ import annotations

from datetime import UTC, datetime

from ghapp.versions.lifetime import DAY, EndDates
from ghapp.versions.store import RunnerVersions
from tests.cli.conftest import ACME
from tests.cli.test_cli import one_line
from tests.rules.builders import online


async def two_versions(known):
    for number, version in enumerate(["2.335.1", "2.335.1", "2.337.0"], 2):
        await known.add_runner(online(number, version=version, first_seen=known.now - 60))
    ended = EndDates(known.now, known.now - DAY, is_known=True)
    await RunnerVersions(known.redis).put(ACME, {"2.335.1": ended, "2.337.0": EndDates(known.now, is_known=True)})


async def test_versions_are_listed_the_worst_first_with_what_to_do(known):
    await two_versions(known)
    found = (await known.json("versions"))["versions"]
    assert [(each["org"], each["version"], each["state"], each["runners"]) for each in found] == [
        ("acme", "2.335.1", "ended", 2),
        ("acme", None, "unknown", 1),
        ("acme", "2.337.0", "current", 1),
    ]
    shown = (await known.ask("versions", "--org", "acme")).stdout
    assert shown.startswith(" 3 versions\n")
    assert datetime.fromtimestamp(known.now - DAY, UTC).date().isoformat() in shown
    assert "2.335.1: on each machine of linux-4vcpu: stop the service, unpack 2.337.0 over its directory" in shown
    assert "not listed" in shown


async def test_without_runners_there_are_none(known):
    await known.add_runner(online(1, retired_at=known.now))
    assert (await known.json("versions")) == {"versions": []}
    assert (await known.ask("versions")).stdout == "no runner that runs has a known version\n"


async def test_an_unknown_organization_is_wrong_usage(known):
    assert "nowhere" in one_line(await known.ask("versions", "--org", "nowhere"), 2)
