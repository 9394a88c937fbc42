"""The gate's page over HTTP: the same texts as the API and the command, and a stop if the sources disagree."""

from __future__ import annotations

import re
import shlex
from html import unescape

import httpx
import pytest

from ghapp.cli.api_client import ApiClient
from ghapp.gate.active_shard import ActiveShardAnswer, Deploy, Role
from ghapp.gate.commands import lines
from ghapp.gate.gate_checks import GateCheck
from ghapp.gate.judgement import GateRequest
from ghapp.gate.store import GateChecks, Shards
from ghapp.runners.evidence import Registration, Survey
from ghapp.runners.observations import SeenBy, job_started, registration_seen
from ghapp.runners.store import Runners
from ghapp.settings import Settings
from ghapp.store.stores import stores_over
from ghapp.store.tokens import Tokens
from ghapp.web.command_api import command_api
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.store import Demand
from tests.web.conftest import NOW
from tests.web.pages.conftest import HERE

PAGE = "/orgs/acme/gate"
POLICY = """
[[pools]]
org = "acme"
name = "rollout"
labels = ["rollout"]
shard_label = "shard"
min_online = 2
deploy_repository = "acme/infra"
active_url = "http://127.0.0.1:1/active"
"""


def on(shard, number):
    labels = ("self-hosted", "rollout", f"shard:{shard}")
    seen = Registration(number, f"{shard}-{number}", "linux", True, False, labels, labels[1:], ephemeral=False)
    return registration_seen(None, seen, NOW - 600, by=SeenBy.LIST)


@pytest.fixture
async def shards(redis, fleet):
    """Purple took a job of acme/infra; one of the two runners that pink needs is online."""
    installation = fleet["acme"]
    known = [on("pink", 11), *(job_started(on("purple", each), 500 + each, NOW - 60) for each in (21, 22, 23))]
    await Runners(redis).revise(installation, {each.id: lambda _, each=each: each for each in known})
    await Runners(redis).save_survey(installation, Survey(NOW - 3, len(known)))
    await Shards(redis).answered(installation, "rollout", ActiveShardAnswer("purple", "", NOW - 20))
    jobs = [
        Job(500 + each, "running", ("rollout",), "acme/infra", NOW - 90, each, f"purple-{each}", NOW - 60)
        for each in (21, 22, 23)
    ]
    await Demand(redis).record(installation, jobs)
    return installation


@pytest.fixture
def config(tmp_path):
    (tmp_path / "ghapp.toml").write_text(POLICY)
    return {"GHAPP_CONFIG": str(tmp_path / "ghapp.toml")}


@pytest.fixture
def key_holder(start, config):
    return start(client=False, has_key=True, **config)


async def text_of(key_holder):
    """The page, with code between backticks as texts have it, without the buttons that copy it."""
    page = re.sub(
        r'<span class="command">(<code>.*?</code>)<button.*?</button></span>', r"\1", await html_of(key_holder)
    )
    sentences = page.replace("</li><li>", " ")
    return unescape(re.sub("</?code>", "`", re.sub("</?a\\b[^>]*>", "", sentences)))


async def html_of(key_holder):
    return (await key_holder.get(PAGE)).text


async def test_the_page_has_the_same_texts_as_the_api(key_holder, shards, redis):
    page = await text_of(key_holder)
    secret, _ = await Tokens(redis).create("ci", ("acme",), ("read",), NOW)
    for shard in ("pink", "purple"):
        address = f"/v1/orgs/acme/pools/rollout/shards/{shard}/gate"
        gate = (await key_holder.get(address, headers={"authorization": f"Bearer {secret}"})).json()
        assert f"{shard} {'passes' if gate['passed'] else 'does not pass'}" in page
        texts = [each["text"] for each in gate["checks"]] + [part for each in gate["next"] for part in each.values()]
        assert len(texts) > 5
        assert [text for text in texts if text not in page] == []


async def test_the_page_has_the_same_texts_as_the_command(key_holder, shards, redis, redis_url, config, clock):
    page = await text_of(key_holder)
    settings = Settings.read({**config, "GHAPP_REDIS_URL": redis_url})
    (pool,) = settings.pools_of("acme")
    transport = httpx.ASGITransport(command_api(settings, stores_over(redis), clock, "mona"))
    async with httpx.AsyncClient(transport=transport, base_url="http://ghapp") as client:
        gate = await ApiClient(client, None).gate("acme", "rollout")
        expected = lines(await gate.judge(GateRequest("pink", pool.min_online)))
    texts = [re.sub(r"^ +(?:(?:ok|NO|!) +[a-z-]+ +|\d+\. )?", "", line) for line in expected[1:]]
    texts.remove("next, cheapest and safest first:")
    assert len(texts) > 6
    assert [text for text in texts if text not in page] == []


async def test_no_backtick_is_left_on_the_page_and_it_has_the_command_that_waits(key_holder, shards):
    page = unescape((await key_holder.get(PAGE)).text)
    assert "`" not in page
    assert "ghapp gate acme rollout pink --timeout 600" in page


async def test_the_command_on_the_page_reports_the_deploy(start, config, shards, redis):
    browser = start(client=False, has_key=True, GHAPP_PUBLIC_URL=HERE, **config)
    page = unescape((await browser.get(PAGE)).text)
    (command,) = {each for each in re.findall(r"<code>(curl .*?)</code>", page) if "/shards/pink" in each}
    assert command.startswith("curl --fail-with-body -X PUT -H ")
    secret, _ = await Tokens(redis).create("ci", ("acme",), ("claim",), NOW)
    *_, header, _, body, address = shlex.split(command.replace("$GHAPP_TOKEN", secret))
    name, _, value = header.partition(": ")
    assert address.startswith(f"{HERE}/v1/")
    answer = await browser.put(address, headers={name: value}, content=body)
    assert answer.status_code == 204
    (deploy,) = await Shards(redis).deploys(shards, "rollout")
    assert (deploy.shard, deploy.role) == ("pink", Role.INACTIVE)


async def test_the_active_shard_comes_first(key_holder, shards):
    page = unescape((await key_holder.get(PAGE)).text)
    assert page.index("purple passes") < page.index("pink does not pass")
    assert "rollout/pink (inactive) does not pass." in page


async def test_a_disagreement_of_the_sources_is_a_stop(key_holder, shards, redis):
    await Shards(redis).record(
        shards, "rollout", lambda _: Deploy("pink", Role.ACTIVE, NOW - 30, NOW - 30, "v2", "ci", NOW)
    )
    page = unescape((await key_holder.get(PAGE)).text)
    assert "Stop: it is unknown which shard of rollout is active." in page
    assert "the sources disagree on the active shard" in page
    assert page.count("Change nothing until they agree") == 1
    assert "Next, cheapest and safest first" not in page


async def test_without_a_blue_green_pool_the_page_says_how_to_configure_one(start, fleet):
    browser = start(client=False, has_key=True)
    page = unescape((await browser.get(PAGE)).text)
    assert "No blue/green pool is configured." in page
    assert "shard_label" in page


async def test_each_visitor_is_shown_the_repositories_that_they_may_read(start, signed_in, redis, shards, config):
    """One web role for all of them, one after the other: no name is kept from one visitor to the next."""
    at_work = job_started(on("purple", 24), 524, NOW - 60)
    await Runners(redis).revise(shards, {at_work.id: lambda _: at_work})
    job = Job(524, "running", ("rollout",), "acme/api", NOW - 90, at_work.id, at_work.name, NOW - 60)
    await Demand(redis).record(shards, [job])
    role = start(**config)

    async def named(login):
        role.cookies.clear()
        page = await (await signed_in(login, role)).get(PAGE)
        assert page.status_code == 200
        return {each for each in ("acme/api", "acme/infra") if each in page.text}

    assert [await named(login) for login in ("mona", "lisa", "olga", "mona")] == [
        {"acme/api", "acme/infra"},
        {"acme/api"},
        {"acme/api"},
        {"acme/api", "acme/infra"},
    ]


async def test_only_who_reads_the_repository_is_shown_its_check_run(start, signed_in, redis, shards, config):
    sha = "0" * 39 + "1"
    await Shards(redis).record(shards, "rollout", lambda _: Deploy("pink", Role.INACTIVE, NOW, NOW, sha))
    await GateChecks(redis).keep(shards, "rollout/pink", GateCheck(sha, NOW, "acme/infra", NOW, check_run=88))
    role = start(**config)
    shown = [
        "/acme/infra/runs/88" in (await (await signed_in(login, role)).get(PAGE)).text for login in ("mona", "lisa")
    ]
    assert shown == [True, False]


@pytest.mark.parametrize(("login", "status"), [("mona", 200), ("lisa", 200), ("sam", 404)])
async def test_a_visitor_who_sees_the_organization_sees_its_gates(signed_in, shards, login, status):
    browser = await signed_in(login)
    assert (await browser.get(PAGE)).status_code == status
    assert (await browser.get("/orgs/nothing/gate")).status_code == 404


async def test_without_a_session_the_page_redirects_to_the_sign_in(start, shards):
    answer = await start().get(PAGE)
    assert (answer.status_code, "sign-in" in answer.headers["location"]) == (303, True)


async def test_without_redis_the_page_reports_the_outage(start, away):
    browser = start(client=False, has_key=True, database=away)
    away.away = True
    assert (await browser.get(PAGE)).status_code == 503
