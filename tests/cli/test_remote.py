"""Commands over HTTP, without Redis: what differs from Redis, and what can go wrong on the way."""

from __future__ import annotations

import asyncio
import json
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from ghapp.addresses import NO_SUCH_ADDRESS
from ghapp.deliveries.store import Entry, Inbox
from ghapp.gate.active_shard import Deploy, Role
from ghapp.gate.store import Shards
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.remediation.pause import Pause
from ghapp.remediation.store import Fuses
from ghapp.report.documents import pause_in_words
from ghapp.runners.evidence import Survey
from ghapp.runners.store import Runners
from ghapp.store import keys
from ghapp.store.presses import SWEEP_TOPIC, Presses
from ghapp.store.schedule import Schedule
from ghapp.store.tokens import Tokens
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.store import Demand
from tests.cli.conftest import ACME, Http, Known
from tests.cli.test_cli import ghapp, one_line
from tests.cli.test_gate_command import NOTHING_DONE, keep, on

SHARDED = '[[pools]]\norg = "acme"\nname = "linux"\nlabels = ["linux-4vcpu"]\nshard_label = "shard"\n'
STOPPED = Fuse(Position.STOPPED, since=1.0, batch=3, allowed=3, reason=FuseReason.BATCH_NEVER_ONLINE)


@pytest.fixture
async def site(redis, redis_url, tmp_path):
    """Acme on shards: purple is active, pink is online; a token that may do everything there."""
    secret, _ = await Tokens(redis).create("ci", ("acme",), ("admin",), time.time())
    site = Known(redis, redis_url, tmp_path, Http(redis_url, secret))
    site.write_config(SHARDED)
    await Installations(redis).put(Installation(ACME, "acme", 1))
    await Runners(redis).save_survey(ACME, Survey(site.now, 2))
    await keep(redis, on("pink", 1, site.now), on("purple", 2, site.now))
    for shard, role in (("purple", Role.ACTIVE), ("pink", Role.INACTIVE)):
        deploy = Deploy(shard, role, site.now - 999, site.now - 999)
        await Shards(redis).record(ACME, "linux", lambda _, deploy=deploy: deploy)
    return site


@pytest.mark.parametrize("words", [("runners",), ("doctor",), ("jobs", "--org", "acme", "--web")], ids=" ".join)
async def test_mistakes_of_the_servers_configuration_do_not_matter_over_http(site, tmp_path, words):
    (tmp_path / "bad.toml").write_text("[swep]\n")
    bad = {"GHAPP_CONFIG": str(tmp_path / "bad.toml"), "GHAPP_LISTEN": "x", "GHAPP_PRIVATE_KEY_FILE": "/nowhere/key"}
    answer = await site.ask(*words, **bad)
    assert (answer.returncode, answer.stderr) == (0, "")
    refused = await site.ask("runners", **bad, GHAPP_URL="")
    assert (refused.returncode, "[swep]" in refused.stderr) == (2, True)
    misspelt = one_line(await site.ask("runners", GHAPP_TOKN="x"), 2)
    assert "GHAPP_TOKN: unknown variable; did you mean GHAPP_TOKEN?" in misspelt


async def test_pause_and_resume_record_the_token_and_report_what_is_in_effect(site, redis):
    paused = await site.ask("pause", "acme", "--pool", "linux", "--why", "new image")
    pause, end = (await Fuses(redis).pauses(ACME))["linux"], "`ghapp resume acme --pool linux` ends it\n"
    assert (paused.returncode, paused.stdout) == (0, f"paused: acme, pool linux, {pause_in_words(pause)}\n{end}")
    assert (pause.who.startswith("token ci ("), pause.why) == (True, "new image")
    changed, before = await site.ask("pause", "acme", "--pool", "linux", "--for", "4h"), pause_in_words(pause)
    pause = (await Fuses(redis).pauses(ACME))["linux"]
    assert changed.stdout == f"pause changed: acme, pool linux, {pause_in_words(pause)}\nbefore: {before}\n{end}"
    await Fuses(redis).pause(ACME, "*", Pause("mona", "a move", pause.at))
    again = (await site.ask("pause", "acme", "--why", "another")).stdout.splitlines()
    assert again[0].startswith("acme: already paused by mona since ")
    assert again[1] == "`ghapp resume acme` ends it"
    await Fuses(redis).unpause(ACME, "*")
    (new,) = (await site.ask("pause", "acme", "--for", "4h")).stderr.splitlines()
    assert "no pause is running there" in new
    await Fuses(redis).save(ACME, "*", None, STOPPED)
    pool = (await site.ask("resume", "acme", "--pool", "linux")).stdout.splitlines()
    assert pool[0] == f"resumed: acme, pool linux, paused {pause_in_words(pause)}"
    assert pool[1].startswith("still in effect: fuse stopped, acme, ")
    assert (await site.ask("resume", "acme")).stdout.splitlines()[0] == "fuse restarted, now proving: acme, all pools"


@pytest.mark.parametrize(
    "words",
    [
        ("runners", "--all", "--sort", "name"),
        ("explain", "acme", "dead-1"),
        ("jobs",),
        ("why", "acme", "42"),
        ("deaths",),
        ("incidents",),
        ("gate", "acme", "linux", "pink"),
    ],
    ids=" ".join,
)
async def test_a_command_prints_the_same_in_its_own_process_and_over_http(site, redis, words):
    await site.add_death("dead-1")
    await Demand(redis).record(ACME, [Job(42, "queued", ("linux-4vcpu",), "acme/api", site.now - 400)])
    remote, http = await site.ask(*words, "--json"), site.http
    site.http = None
    local = await site.ask(*words, "--json")
    assert (remote.returncode, remote.stderr) == (local.returncode, local.stderr)
    assert without_ages(json.loads(remote.stdout)) == without_ages(json.loads(local.stdout))
    site.http = http


def without_ages(document):
    """The document without what counts the seconds until now."""
    if isinstance(document, list):
        return [without_ages(each) for each in document]
    if not isinstance(document, dict):
        return document
    return {key: without_ages(each) for key, each in document.items() if key not in {"age_seconds", "text"}}


async def test_without_anything_paused_or_stopped_resume_says_so(site):
    assert (await site.ask("resume", "acme")).stdout == "nothing was paused or stopped\n"


async def test_a_misspelt_runner_is_wrong_usage_and_the_nearest_is_named(site):
    (name, *_) = [each["name"] for each in (await site.json("runners"))["runners"]]
    assert f"unknown runner; did you mean {name}? see" in one_line(await site.ask("explain", "acme", f"{name}x"), 2)


async def test_an_unknown_pool_is_wrong_usage(site):
    for words in (["pause", "acme", "--pool", "gpu", "--why", "x"], ["resume", "acme", "--pool", "gpu"]):
        assert one_line(await site.ask(*words), 2) == "ghapp: acme has no pool gpu; it has linux"
    line = one_line(await site.ask("gate", "acme", "gpu", "pink"), 2)
    assert line == "ghapp: unknown pool gpu of acme; pools with shards are linux"


async def test_the_gate_passes_and_prints_the_same_document(site, redis):
    passed = await site.ask("gate", "acme", "linux", "pink", "--json")
    assert passed.returncode == 0
    document = json.loads(passed.stdout)
    assert list(document) == ["pool", "shard", "passed", "role", "checks", "next", "check_url"]
    assert {frozenset(each) for each in document["checks"]} == {frozenset({"name", "passed", "text"})}
    assert (document["role"], document["passed"]) == ("inactive", True)
    site.http = None
    assert json.loads((await site.ask("gate", "acme", "linux", "pink", "--json")).stdout)["next"] == document["next"]


async def test_the_gate_fails_with_the_steps_that_the_provision_log_leaves(site, tmp_path):
    (tmp_path / "log").write_text(NOTHING_DONE)
    words = ["gate", "acme", "linux", "pink", "--min-online", "2", "--json"]
    without = await site.ask(*words)
    with_log = await site.ask(*words, "--provision-log", str(tmp_path / "log"))
    assert (without.returncode, with_log.returncode) == (1, 1)
    first = [json.loads(each.stdout)["next"][0]["step"] for each in (without, with_log)]
    assert first == ["provision pink again", "shut down pink and start it again"]
    changed = await site.ask(*words, "--provision-log", str(tmp_path / "log"), "--changed", "raised the quota")
    again = json.loads(changed.stdout)["next"][0]
    assert again["step"] == "provision pink again"
    assert again["why"].startswith("changed since the failure: raised the quota; ")


async def test_the_gate_waits_for_runners_that_keep_passing(site):
    done = await site.ask("gate", "acme", "linux", "pink", "--timeout", "2", "--settle", "1", "--json")
    assert done.returncode == 1, "no sweep runs here: repeated gates on one list are one observation"
    assert json.loads(done.stdout)["next"][0]["step"] == "wait, then run the gate again"


async def test_an_unknown_shard_is_wrong_usage_and_the_nearest_name_is_suggested(site):
    assert "did you mean pink?" in one_line(await site.ask("gate", "acme", "linux", "pinc"), 2)
    new = await site.ask("gate", "acme", "linux", "green", "--expect-new")
    assert new.returncode == 1


async def test_doctor_speaks_of_the_server_and_not_of_this_machine(site):
    found = await site.ask("doctor", "--problems", GHAPP_STATE_DIR="/nowhere")
    assert found.returncode == 0
    *table, count, note = found.stdout.splitlines()
    assert [each.split()[0] for each in table] == ["check", "configuration", "!", "→"]
    assert count == "1 warning of 2 checks of the set-up"
    assert note.startswith("the server at http://127.0.0.1:")
    document = json.loads((await site.ask("doctor", "--json")).stdout)
    assert [document[key] for key in ("ok", "checks", "problems", "warnings")] == [True, 2, 0, 1]
    assert [each["name"] for each in document["findings"]] == ["answers", "mode"]


@pytest.mark.parametrize("words", [["doctor"], ["pause", "acme", "--why", "x"]], ids=["doctor", "pause"])
async def test_a_token_that_lacks_a_scope_is_answered_with_the_command_for_one_that_has_it(site, redis, words):
    secret, _ = await Tokens(redis).create("laptop", ("acme",), ("read",), time.time())
    answer = await site.ask(*words, GHAPP_TOKEN=secret)
    assert answer.returncode == 2
    text = " ".join((answer.stdout + answer.stderr).split())
    assert "an admin of ghapp makes one with `ghapp token create --org acme --scope admin`" in text
    assert "configuration.md" not in text
    assert "correct this first" not in text, "it is no mistake of the set-up"
    assert (answer.stdout, answer.stderr.count("\n")) == ("", 1)


async def due(redis):
    while await Schedule(redis).next(ACME) > time.time():  # noqa: ASYNC110 - it is set by the server
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("outcome", "code"), [("found 2 suspects, 4 calls", 0), ("failed: PermissionMissing, 1 call", 1)]
)
async def test_a_worker_of_the_server_sweeps(site, redis, outcome, code):
    await Schedule(redis).add(ACME, site.now + 600)
    asked = asyncio.create_task(site.ask("sweep"))
    await asyncio.wait_for(due(redis), 60)
    await Presses(redis).conclude(ACME, SWEEP_TOPIC, lambda _: outcome)
    done = await asked
    assert (done.returncode, done.stdout) == (code, f"acme: {outcome}\n")


async def test_a_sweep_whose_outcome_is_not_recorded_is_not_called_done(site, redis):
    await Schedule(redis).add(ACME, site.now + 600)
    asked = asyncio.create_task(site.ask("sweep"))
    await asyncio.wait_for(due(redis), 60)
    await redis.delete(keys.presses(ACME))
    done = await asked
    assert (done.returncode, done.stdout.startswith("acme: a sweep is due; ")) == (1, True)


async def test_a_dry_run_over_http_is_wrong_usage(site, redis):
    await Schedule(redis).add(ACME, site.now + 600)
    assert "--dry-run" in one_line(await site.ask("sweep", "--dry-run"), 2)
    assert await Schedule(redis).next(ACME) == site.now + 600


async def give_up(redis, *guids):
    inbox = Inbox(redis)
    for guid in guids:
        await inbox.keep(guid, "workflow_job", b"{}")
    for entry in await inbox.take(9):
        while not await inbox.failed(Entry(*entry), "KeyError: id", time.time()):
            pass


async def test_given_up_deliveries_are_listed_for_an_admin_of_every_org(site, redis):
    await give_up(redis, "a", "b")
    found = json.loads((await site.ask("deliveries", "dead", "--json")).stdout)
    assert [(each["guid"], each["event"], each["why"]) for each in found] == [
        ("a", "workflow_job", "KeyError: id"),
        ("b", "workflow_job", "KeyError: id"),
    ]
    assert "KeyError: id" in (await site.ask("deliveries", "dead")).stdout
    await Installations(redis).put(Installation(8, "globex", 2))
    line = one_line(await site.ask("deliveries", "dead"), 2)
    assert line.startswith("ghapp: GHAPP_TOKEN: ")
    assert line.endswith(
        "answered 403: this token has no scope admin for globex; an admin of ghapp makes one with `ghapp token create --org globex --scope admin`"
    )


async def test_a_token_reads_its_own_orgs_only(site, redis):
    await Installations(redis).put(Installation(8, "globex", 2))
    await keep_elsewhere(redis)
    found = json.loads((await site.ask("runners", "--json")).stdout)
    assert sorted(each["name"] for each in found["runners"]) == ["pink-1", "purple-2"]
    assert "no scope read for globex" in one_line(await site.ask("runners", "--org", "globex"), 2)


async def keep_elsewhere(redis):
    theirs = on("theirs", 3, time.time())
    await Runners(redis).revise(8, {3: lambda _: theirs})


@pytest.mark.parametrize("words", [["runners"], ["deliveries", "dead"], ["pause", "acme", "--why", "x"]], ids=" ".join)
async def test_an_unknown_token_is_wrong_usage(site, words):
    line = one_line(await site.ask(*words, GHAPP_TOKEN="ghapp_unknown"), 2)
    assert line.endswith(
        "answered 401: this token is unknown, or was revoked; an admin of ghapp makes another with `ghapp token create`"
    )
    assert "ghapp_unknown" not in line


async def test_more_runners_than_one_page_are_all_listed(site, redis):
    await keep(redis, *(on("pink", number, site.now) for number in range(10, 1010)))
    assert json.loads((await site.ask("runners", "--json")).stdout)["total"] == 1002


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"GHAPP_URL": "https://ghapp.example.com"}, "GHAPP_TOKEN: not set, though GHAPP_URL is"),
        ({"GHAPP_URL": "ftp://ghapp.example.com", "GHAPP_TOKEN": "t"}, "GHAPP_URL: 'ftp://ghapp.example.com' is not"),
        (
            {"GHAPP_URL": "http://ghapp.example.com", "GHAPP_TOKEN": "t"},
            "GHAPP_URL: http:// would send GHAPP_TOKEN unencrypted to another host; use https://",
        ),
        ({"GHAPP_URL": "https://u:p@ghapp.example.com", "GHAPP_TOKEN": "t"}, "GHAPP_URL: must not contain a user"),
        ({"GHAPP_URL": "https://ghapp.example.com", "GHAPP_TOKEN": "a\nb"}, "GHAPP_TOKEN: is not a token"),
        (
            {"GHAPP_URL": "http://127.0.0.1:1", "GHAPP_TOKEN": "t"},
            "http://127.0.0.1:1: nothing listens there, or the connection is refused",
        ),
    ],
    ids=["no token", "no HTTP", "plain HTTP", "password", "no header value", "no server"],
)
def test_an_unusable_address_or_token_is_refused_in_one_line(environ, text):
    for words in (["runners"], ["gate", "acme", "linux", "pink"], ["resume", "acme"]):
        assert one_line(ghapp(*words, **environ), 2).startswith(f"ghapp: {text}")


def test_a_server_without_tls_is_named_as_such():
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        url = f"https://127.0.0.1:{server.server_port}"
        line = one_line(ghapp("runners", GHAPP_URL=url, GHAPP_TOKEN="t"), 2)
        server.shutdown()
        thread.join()
    assert line == f"ghapp: {url}: it does not speak TLS; with http:// it may; check GHAPP_URL"


def test_a_command_that_needs_redis_says_so():
    line = one_line(ghapp("token", "list", GHAPP_URL="https://ghapp.example.com", GHAPP_TOKEN="t"), 2)
    assert line.startswith("ghapp: GHAPP_REDIS_URL: not set; this command does not work over GHAPP_URL")


async def test_a_server_without_the_api_is_reported_with_the_path(site):
    async with site.http.serving({}) as url:
        environ = {"GHAPP_URL": f"{url}/elsewhere", "GHAPP_TOKEN": site.http.secret}
        line = one_line(await in_thread("runners", **environ), 2)
    assert line.endswith(f"answered 404: {NO_SUCH_ADDRESS}: /elsewhere/v1/orgs; check GHAPP_URL, or upgrade the server")


async def test_the_address_of_a_page_is_not_the_address_of_the_server(site):
    async with site.http.serving({}) as url:
        environ = {"GHAPP_URL": f"{url}/orgs/acme", "GHAPP_TOKEN": site.http.secret}
        line = one_line(await in_thread("runners", **environ), 2)
    assert line.endswith(": Temporary Redirect; GHAPP_URL is the address of the server, without the path of a page")


async def in_thread(*words, **environ):
    return await asyncio.to_thread(ghapp, *words, **environ)
