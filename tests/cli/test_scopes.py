"""Commands with scopes of each kind, whose runners and jobs have the same ids and names; each in process and over HTTP."""

from __future__ import annotations

import json
import time

import pytest

from ghapp.deaths.store import Deaths
from ghapp.installations.installation import Installation, enterprise_scope, repository_scope
from ghapp.installations.store import Installations
from ghapp.remediation.store import Fuses
from ghapp.runners.evidence import Survey
from ghapp.runners.store import Runners
from ghapp.store.tokens import Tokens
from ghapp.workflow_jobs.store import Demand
from tests.cli.conftest import ACME, Http, Known
from tests.cli.test_cli import one_line
from tests.cli.test_jobs import PAGE, job
from tests.rules.builders import online
from tests.rules.deaths.test_post_mortem import death

ORGANIZATION = Installation(ACME, "acme", 1)
RECORDS = [ORGANIZATION, repository_scope(ORGANIZATION, 71, "api", "acme/api"), enterprise_scope("acme-corp")]
SCOPES = {each.org: each.id for each in RECORDS}


@pytest.fixture(params=["in process", "over HTTP"])
async def scopes(request, redis, redis_url, tmp_path):
    secret, _ = await Tokens(redis).create("ci", tuple(SCOPES), ("admin",), time.time())
    site = Known(redis, redis_url, tmp_path, Http(redis_url, secret) if request.param == "over HTTP" else None)
    site.write_config("")
    for each in RECORDS:
        await Installations(redis).put(each)
    for address, installation in SCOPES.items():
        await Runners(redis).save_survey(installation, Survey(site.now, 1))
        runner = online(1, first_seen=site.now - 60)._replace(labels=("self-hosted", pool_of(address)))
        runner = runner._replace(custom_labels=(pool_of(address),))
        await Runners(redis).revise(installation, {1: lambda _, runner=runner: runner})
    return site


def pool_of(address):
    return f"of-{address.replace('/', '-')}"


async def test_the_fleet_of_all_scopes_is_listed_without_mixing_them(scopes):
    every = (await scopes.json("runners"))["runners"]
    assert [(each["org"], each["pool"], each["name"]) for each in every] == [
        (address, pool_of(address), "linux-1") for address in SCOPES
    ]
    text = (await scopes.ask("runners")).stdout
    assert all(address in text for address in SCOPES)
    for address in SCOPES:
        (one,) = (await scopes.json("runners", "--org", address))["runners"]
        assert (one["org"], one["pool"]) == (address, pool_of(address))
        explained = await scopes.ask("explain", address, "linux-1")
        assert explained.stdout.startswith(f"{address} linux-1 (1) is healthy")
    unknown = one_line(await scopes.ask("explain", "acme/api", "nothing"), 2)
    assert "acme/api nothing: unknown runner; see `ghapp runners --org acme/api`" in unknown


async def test_a_scope_that_is_not_known_names_the_nearest(scopes):
    refused = one_line(await scopes.ask("runners", "--org", "acme/apo"), 2)
    assert "did you mean acme/api?" in refused


async def test_a_pause_concerns_its_scope_and_prints_the_command_that_ends_it(scopes, redis):
    paused = await scopes.ask("pause", "acme/api", "--pool", pool_of("acme/api"), "--why", "new image")
    assert paused.stdout.startswith("paused: acme/api, pool of-acme-api, ")
    assert paused.stdout.endswith("`ghapp resume acme/api --pool of-acme-api` ends it\n")
    assert {each for each, at in SCOPES.items() if await Fuses(redis).pauses(at)} == {"acme/api"}
    assert (await scopes.ask("resume", "acme/api")).returncode == 0
    assert await Fuses(redis).pauses(SCOPES["acme/api"]) == {}


async def test_the_url_of_a_job_is_answered_by_the_scope_whose_runner_took_it(scopes, redis):
    """Job 1 waits, job 2 ran in the repository's scope, job 3 in the organization's, job 4 in the enterprise's."""
    taken = {"runner_id": 1, "runner_name": "linux-1", "started_at": scopes.now - 300}
    for address, installation in SCOPES.items():
        takes = {"acme": 3, "acme/api": 2, "enterprises/acme-corp": 4}[address]
        jobs = [
            job(scopes, number, "running", **taken) if number == takes else job(scopes, number)
            for number in (1, 2, 3, 4)
        ]
        await Demand(redis).record(installation, jobs)

    async def answering(*words):
        return {each["job_id"]: each["org"] for each in (await scopes.json("why", *words))["jobs"]}

    answers = {1: "acme", 2: "acme/api", 3: "acme", 4: "enterprises/acme-corp"}
    assert await answering("https://github.com/acme/api/actions/runs/41") == answers
    assert await answering(f"{PAGE}2") == {2: "acme/api"}
    assert await answering("https://github.com/Acme/API/actions/runs/41/job/2") == {2: "acme/api"}
    assert await answering("https://github.com/acme/web/actions/runs/41/job/2") == {2: "acme"}
    assert await answering("acme", f"{PAGE}2") == {2: "acme"}
    shown = await scopes.ask("why", f"{PAGE}2", GHAPP_PUBLIC_URL="https://ghapp.example.com")
    assert "/orgs/acme~api/jobs/2" in shown.stdout
    opened = await scopes.ask("why", f"{PAGE}2", "--web", GHAPP_PUBLIC_URL="https://ghapp.example.com")
    assert opened.stdout == "https://ghapp.example.com/orgs/acme~api/jobs/2\n"


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("ghapp runners --org acme/", {"acme/api"}),
        ("ghapp explain a", {"acme", "acme/api"}),
        ("ghapp explain enterprises/", {"enterprises/acme-corp"}),
        ("ghapp runners --org acme/api --pool of-", {"of-acme-api"}),
    ],
)
async def test_addresses_and_what_is_below_them_are_completed(scopes, words, offered):
    asked = {"_GHAPP_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    found = (await scopes.ask(**asked)).stdout.split()
    assert {each.removeprefix("plain,") for each in found} == offered


async def test_the_suggested_configuration_has_the_address(scopes):
    if scopes.http is None:
        assert 'org = "acme/api"' in (await scopes.ask("init", "--org", "acme/api")).stdout


async def test_deaths_and_versions_name_their_scope(scopes, redis):
    for address, installation in SCOPES.items():
        await Deaths(redis).record(installation, death(runner_name=pool_of(address), at=scopes.now - 5))
    died = (await scopes.json("deaths"))["deaths"]
    assert {(each["org"], each["runner_name"]) for each in died} == {(each, pool_of(each)) for each in SCOPES}
    assert {each["org"] for each in (await scopes.json("versions"))["versions"]} <= set(SCOPES)


async def test_a_token_is_created_for_a_scope_and_for_no_other(known, redis):
    await Installations(redis).put(RECORDS[1])
    made = await known.ask("token", "create", "--org", "acme/api", "--scope", "read", "--json")
    assert json.loads(made.stdout)["orgs"] == ["acme/api"]
    (token,) = await Tokens(redis).all()
    assert [token.may("read", each, known.now) for each in ("acme/api", "ACME/API", "acme", "acme/web")] == [
        True,
        True,
        False,
        False,
    ]
    refused = one_line(await known.ask("token", "create", "--org", "acme/web", "--scope", "read"), 2)
    assert "acme/web: no [[scopes]] table has this repository, or it has no runners; " in refused
