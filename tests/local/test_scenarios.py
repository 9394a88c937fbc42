"""Scenarios of the sandbox: each starts a control that exists, by name, by key, or when it is due."""

from __future__ import annotations

import re

import httpx
import pytest

from ghapp.errors import ConfigurationError
from ghapp.local.pipeline import SandboxDeploy, SandboxPipeline
from ghapp.local.sandbox import REPLACERS, Sandbox, SandboxError
from ghapp.local.scenarios import DEFAULT, KEYS, SCENARIOS, Director, keys_line, scenario_called
from ghapp.sandbox import OrgConfig, SandboxConfig, SandboxServer, pools_of
from ghapp.sandbox.config import with_pods, with_rollout
from tests.support.cluster import SteeredCluster
from tests.test_makefile import MAKEFILE

NAMES = ["loss", "mass-loss", "oom", "leak", "phantom", "permission", "no-label", "github-down", "gate"]
POOLS = with_pods(with_rollout(pools_of(300)))


@pytest.fixture
def github():
    with (
        SteeredCluster() as cluster,
        SandboxServer(SandboxConfig(orgs=(OrgConfig(pools=POOLS),), ticking=False, quiet=True), cluster) as server,
    ):
        yield server


@pytest.fixture
def sandbox(github):
    return Sandbox(github.describe())


def busy(github):
    """Two jobs run in each pool."""
    for pool in ("k8s-arc", "k8s-pods", "linux-8vcpu"):
        github.control.queue("acme", labels=[pool], count=2)


def test_the_names_are_those_of_the_documentation():
    assert [each.name for each in SCENARIOS] == NAMES
    assert len(KEYS) == len(NAMES)
    assert keys_line().startswith("1 loss  2 mass-loss  3 oom")
    assert keys_line().endswith("9 gate  0 heal 5, 7 and 9")


def test_the_policy_has_each_pool_of_the_sandbox():
    assert {pool.name.removesuffix("-purple").removesuffix("-pink") for pool in POOLS} == {*REPLACERS}


@pytest.mark.parametrize("scenario", [*SCENARIOS, *DEFAULT], ids=lambda each: each.name)
def test_the_line_of_a_scenario_promises_nothing_that_a_pause_or_a_fuse_prevents(scenario):
    assert not re.search(r"minutes|are confirmed|replaced|will ", scenario.look)


@pytest.mark.parametrize("scenario", [*SCENARIOS, *DEFAULT], ids=lambda each: each.name)
def test_each_scenario_starts_and_has_its_line_and_its_page(github, sandbox, scenario):
    busy(github)
    started = scenario.start(sandbox)
    assert started is not None
    assert started.name == scenario.name
    assert started.page.startswith("/")
    assert not set("{}") & set(started.look + started.page)


@pytest.mark.parametrize("name", ["oom", "leak"])
def test_a_scenario_that_needs_a_job_is_tried_again_later(github, sandbox, name):
    assert scenario_called(name).start(sandbox) is None
    busy(github)
    assert scenario_called(name).start(sandbox) is not None


async def test_a_key_heals_what_a_phantom_and_a_failed_gate_leave_to_a_person(github, sandbox):
    director = Director(sandbox, ())
    director.press("0")
    await director.start_due(0.0)
    assert director.started[-1].look == "What 5, 7 and 9 leave to a person is done: nothing is left to a person."
    for name in ("phantom", "no-label", "gate"):
        scenario_called(name).start(sandbox)
    director.press("0")
    await director.start_due(1.0)
    assert re.fullmatch(
        r".*: the EphemeralRunner k8s-arc-\S+ was deleted; job \d+ was cancelled, and runs as \d+ with the label "
        r"linux-4vcpu; the shard pink was deployed again\.",
        director.started[-1].look,
    )
    github.control.in_world(github.pods.follow)
    github.control.step(seconds=60)
    healed = github.control.heal_by_hand("acme", repository="infra")
    assert healed == {"done": "nothing is left to a person", "deploys": []}
    fleet = github.world.orgs["acme"].fleet.roster.registered.values()
    assert [each.name for each in fleet if not each.online] == []


class Reports(SandboxPipeline):
    """The deploys that were reported; `is_up` is False while the web role does not answer."""

    def __init__(self):
        self.is_up, self.reported = True, []

    def report(self, deploys):
        self.reported += deploys if self.is_up else ()
        return [] if self.is_up else list(deploys)


async def test_each_deploy_of_a_scenario_is_reported_once_and_so_is_the_one_that_heals_it(github, sandbox):
    pipeline = Reports()
    director, infra = Director(sandbox, (), pipeline), github.world.orgs["acme"].repositories["infra"]
    director.press("9")
    pipeline.is_up = False
    await director.start_due(0.0)
    bad, pipeline.is_up = infra.head_sha, True
    await director.start_due(1.0)
    director.press("70")
    await director.start_due(2.0)
    await director.start_due(3.0)
    assert pipeline.reported == [
        SandboxDeploy("pink", "inactive", bad, 4),
        SandboxDeploy("pink", "inactive", infra.head_sha, 4),
    ]
    assert infra.head_sha != bad


@pytest.mark.parametrize(("status", "is_repeated"), [(204, False), (404, False), (429, True), (503, True)])
def test_a_report_is_a_request_as_of_a_pipeline_and_repeated_while_there_is_no_answer(status, is_repeated, monkeypatch):
    requests = []

    def put(url, **given):
        requests.append((url, given["json"], given["headers"]))
        return httpx.Response(status)

    monkeypatch.setattr(httpx, "put", put)
    deploy, pipeline = SandboxDeploy("pink", "inactive", "a" * 40, 4), SandboxPipeline("http://web/pools/rollout", "T")
    assert pipeline.report([deploy, deploy]) == ([deploy, deploy] if is_repeated else [])
    body = {"role": "inactive", "ref": "a" * 40, "provision": "4,0,4"}
    sent = ("http://web/pools/rollout/shards/pink", body, {"authorization": "Bearer T"})
    assert requests == [sent] * (1 if is_repeated else 2)
    nothing_listens = SandboxPipeline("http://127.0.0.1:1", "T")
    monkeypatch.undo()
    assert nothing_listens.report([deploy]) == [deploy]


def test_an_unknown_scenario_is_refused_with_the_list():
    with pytest.raises(ConfigurationError) as refused:
        scenario_called("los")
    assert str(refused.value) == f"--scenario: 'los' is unknown; there are {', '.join(NAMES)}"


async def test_scenarios_start_when_they_are_due_and_once(github, sandbox):
    busy(github)
    director, started = Director(sandbox, DEFAULT), []
    for now in (100.0, 104.9, 105.0, 114.9, 115.0, 200.0):
        await director.start_due(now)
        started.append([each.name for each in director.started])
    first, second, third = "no-label", "stopped-runner", "loss"
    all_three = [first, second, third]
    assert started == [[first], [first], [first, second], [first, second], all_three, all_three]


async def test_a_key_starts_its_scenario_each_time_and_other_keys_do_nothing(github, sandbox):
    director = Director(sandbox, ())
    director.press("a7-\x1b7")
    await director.start_due(0.0)
    assert [each.name for each in director.started] == ["no-label", "no-label"]
    assert len(github.fleet.queue) == 2


async def test_a_control_that_fails_is_reported_and_not_tried_again(sandbox):
    director = Director(Sandbox({"url": "http://127.0.0.1:1"}), (scenario_called("loss"),))
    await director.start_due(0.0)
    assert "could not be started" in director.started[0].look
    await director.start_due(1.0)
    assert len(director.started) == 1


def test_the_makefile_hands_the_scenario_on():
    assert "--scenario $(SCENARIO)" in MAKEFILE.read_text()


def test_a_control_of_the_sandbox_that_does_not_exist_is_an_error(sandbox):
    with pytest.raises(SandboxError):
        sandbox.control("no-such-control")
