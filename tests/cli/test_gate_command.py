"""`ghapp gate` as a process: deployments use its exit code."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from contextlib import suppress
from io import SEEK_END
from threading import Thread

import pytest

from ghapp.gate.active_shard import Deploy, Role
from ghapp.gate.gate_checks import GateCheck
from ghapp.gate.store import GateChecks, Shards
from ghapp.gate.terraform_log import LARGEST_BYTES
from ghapp.gate.texts import NOTHING_TO_DO
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.runners.evidence import Registration, Survey
from ghapp.runners.observations import SeenBy, job_started, registration_seen
from ghapp.runners.store import Runners
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.store import Demand
from tests.support import commands

ORG = 7
NOTHING_DONE = "Apply complete! Resources: 0 added, 0 changed, 0 destroyed.\n"


def on(shard, number, now, name=None, **changes):
    labels = ("linux-4vcpu", f"shard:{shard}")
    seen = Registration(number, name or f"{shard}-{number}", "linux", True, False, labels, labels, ephemeral=False)
    return registration_seen(None, seen._replace(**changes), now - 60, by=SeenBy.LIST)


@pytest.fixture
async def fleet(redis):
    """Purple is active and takes jobs; pink is online."""
    now = time.time()
    await Installations(redis).put(Installation(ORG, "acme", 70))
    await keep(redis, on("pink", 1, now), job_started(on("purple", 2, now), 500, now - 30))
    await Runners(redis).save_survey(ORG, Survey(now - 5, 2))
    for shard, role in (("purple", Role.ACTIVE), ("pink", Role.INACTIVE)):
        deploy = Deploy(shard, role, now - 999, now - 999)
        await Shards(redis).record(ORG, "linux", lambda _, deploy=deploy: deploy)


async def keep(redis, *known):
    await Runners(redis).revise(ORG, {each.id: lambda _, each=each: each for each in known})


@pytest.fixture
def ghapp(redis_url, tmp_path):
    policy = tmp_path / "ghapp.toml"

    def run(*words, rows="", **environ):
        policy.write_text(
            f'[[pools]]\norg = "acme"\nname = "linux"\nlabels = ["linux-4vcpu"]\nshard_label = "shard"\n{rows}\n'
            '[[pools]]\norg = "acme"\nname = "mac"\nlabels = ["mac"]\n'
        )
        ours = {"GHAPP_REDIS_URL": redis_url, "GHAPP_CONFIG": str(policy), **environ}
        return commands.ghapp("gate", *words, **ours)

    return run


async def test_a_shard_that_passes_exits_0_and_prints_the_next_step(fleet, ghapp):
    done = ghapp("acme", "linux", "pink")
    assert (done.returncode, done.stderr) == (0, "")
    found = done.stdout.splitlines()
    assert found[0] == "linux/pink (inactive) passes"
    assert found[1].split(None, 2) == [
        "ok",
        "users",
        "the active shard purple has taken 1 job in the last 10 minutes; no outage",
    ]
    after = found.index("next, cheapest and safest first:")
    assert found[after + 1] == "  1. make pink active in place of purple"
    assert all(line.startswith("     ") and line.count(". ") == 0 for line in found[after + 2 :]), "a sentence a line"


async def test_a_passing_shard_whose_deploy_is_decided_prints_that_there_is_nothing_to_do(fleet, ghapp, redis):
    at = time.time() - 99
    await Shards(redis).record(ORG, "linux", lambda _: Deploy("purple", Role.ACTIVE, at, at))
    done = ghapp("acme", "linux", "pink")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == NOTHING_TO_DO
    assert "next, cheapest" not in done.stdout


async def test_a_shard_that_does_not_pass_exits_1_with_the_contract_s_json(fleet, ghapp):
    done = ghapp("ACME", "linux", "pink", "--min-online", "2", "--json")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert list(answer) == ["pool", "shard", "passed", "role", "checks", "next", "check_url"]
    assert (answer["pool"], answer["shard"], answer["passed"], answer["role"]) == ("linux", "pink", False, "inactive")
    assert {frozenset(each) for each in answer["checks"]} == {frozenset({"name", "passed", "text"})}
    assert answer["next"][0]["step"] == "provision pink again"
    assert {frozenset(each) for each in answer["next"]} == {frozenset({"step", "why"})}


async def test_the_check_run_of_the_last_deploy_is_the_last_line(fleet, ghapp, redis):
    sha, at = "0" * 39 + "1", time.time() - 99
    await Shards(redis).record(ORG, "linux", lambda _: Deploy("pink", Role.INACTIVE, at, at, sha))
    await GateChecks(redis).keep(ORG, "linux/pink", GateCheck(sha, at, "acme/infra", at, check_run=88))
    done = ghapp("acme", "linux", "pink", rows='deploy_repository = "acme/infra"')
    assert done.stdout.splitlines()[-1] == 'check run "Runner gate": https://github.com/acme/infra/runs/88'


async def test_a_provision_log_without_changes_omits_one_step(fleet, ghapp, tmp_path):
    (tmp_path / "log").write_text(NOTHING_DONE)
    done = ghapp("acme", "linux", "pink", "--min-online", "2", "--provision-log", str(tmp_path / "log"), "--json")
    steps = [each["step"] for each in json.loads(done.stdout)["next"]]
    assert steps[:2] == ["shut down pink and start it again", "delete unhealthy runners: the machines of pink"]


async def test_an_unknown_shard_is_wrong_usage_and_the_nearest_name_is_suggested(fleet, ghapp):
    done = ghapp("acme", "linux", "pinc")
    assert (done.returncode, done.stdout) == (2, "")
    assert "linux has no shard pinc: did you mean pink? known are pink, purple" in done.stderr
    assert done.stderr.count("\n") == 1


async def test_a_new_shard_is_checked_and_no_step_destroys_anything(fleet, ghapp):
    done = ghapp("acme", "linux", "green", "--expect-new", "--failures", "9", "--json")
    assert done.returncode == 1
    steps = [each["step"] for each in json.loads(done.stdout)["next"]]
    assert steps == ["report the deploy of green", "provision green again", "break glass"]


async def test_the_check_counts_jobs_and_not_runners(fleet, ghapp, redis):
    now = time.time()
    took = [Job(number, "running", (), "acme/api", now - 60, 2, "purple-2", now - 50 + number) for number in range(4)]
    await Demand(redis).record(ORG, took)
    await Demand(redis).record(ORG, [each._replace(status="over", started_at=None) for each in took])
    done = ghapp("acme", "linux", "pink", "--json")
    text = {each["name"]: each["text"] for each in json.loads(done.stdout)["checks"]}
    assert text["users"] == "the active shard purple has taken 5 jobs in the last 10 minutes; no outage"


async def test_a_log_that_is_not_of_terraform_is_reported_and_ignored(fleet, ghapp, tmp_path):
    (tmp_path / "log").write_text("nothing")
    done = ghapp("acme", "linux", "pink", "--provision-log", str(tmp_path / "log"))
    assert done.returncode == 0
    assert done.stderr == f"ghapp: {tmp_path}/log has no result of a Terraform run; continuing without it\n"


async def test_a_log_of_fifty_megabytes_is_read_from_its_end(fleet, ghapp, tmp_path):
    with (tmp_path / "log").open("wb") as file:
        file.truncate(50_000_000)
        file.seek(0, SEEK_END)
        file.write(f"\n\x1b[1m\x1b[32m{NOTHING_DONE}".encode())
    done = ghapp("acme", "linux", "pink", "--min-online", "2", "--provision-log", str(tmp_path / "log"), "--json")
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["next"][0]["step"] == "shut down pink and start it again"


async def test_a_log_from_a_pipe_is_read_up_to_a_limit(fleet, ghapp, tmp_path):
    os.mkfifo(tmp_path / "log")

    def pour():
        with suppress(BrokenPipeError), (tmp_path / "log").open("wb") as pipe:
            for _ in range(LARGEST_BYTES // 65_536 + 1):
                pipe.write(b"x" * 65_536)

    pouring = Thread(target=pour)
    pouring.start()
    done = ghapp("acme", "linux", "pink", "--provision-log", str(tmp_path / "log"))
    pouring.join()
    assert done.returncode == 2
    assert "has more than 16,777,216 bytes" in done.stderr


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "JSON"])
async def test_an_interrupted_command_prints_no_answer(fleet, ghapp, more):
    words = ["acme", "linux", "pink", "--min-online", "9", "--timeout", "3600", *more]
    command = [sys.executable, "-c", "import os, signal; os.kill(os.getppid(), signal.SIGINT); print('purple')"]
    done = ghapp(*words, rows=f"active_command = {json.dumps(command)}")
    assert done.returncode == 130, "the exit code of an interrupted command differs from passed and failed"
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1] == "ghapp: interrupted before there was a result"
    assert "Traceback" not in done.stderr


async def test_the_command_waits_with_progress_until_its_timeout(fleet, ghapp):
    done = ghapp("acme", "linux", "pink", "--min-online", "2", "--timeout", "2")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert re.fullmatch(r" +\d s: 1 runner of pink online, 2 needed", line)
    assert done.stdout.splitlines()[0].endswith(" does not pass within 2 s")
    assert "--timeout" not in done.stdout, "it has waited already"


async def test_a_gate_that_is_judged_once_shows_the_command_that_waits(fleet, ghapp):
    done = ghapp("acme", "linux", "pink", "--min-online", "2")
    assert done.stdout.splitlines()[-1] == "to wait until it passes: ghapp gate acme linux pink --timeout 600"
    assert done.stdout.count("--timeout") == 1


async def test_passing_without_a_new_list_of_runners_does_not_count_as_settled(fleet, ghapp):
    """No sweep runs here: repeated gates on the same list are one observation."""
    done = ghapp("acme", "linux", "pink", "--timeout", "2", "--settle", "1", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["next"][0]["step"] == "wait, then run the gate again"


async def test_the_pools_active_command_runs_without_our_secrets(fleet, ghapp):
    command = [sys.executable, "-c", "import os; print('pink' if any('SECRET' in n for n in os.environ) else 'purple')"]
    done = ghapp("acme", "linux", "pink", rows=f"active_command = {json.dumps(command)}", SECRET="hush")
    assert done.returncode == 0
    assert "the configuration says that purple is active (active_command)" in done.stdout


async def test_escape_sequences_in_a_runner_name_are_removed(redis, fleet, ghapp):
    await keep(redis, on("pink", 9, time.time() - 900, "pink\x1b[2J\n9", online=False))
    done = ghapp("acme", "linux", "pink")
    assert "\x1b" not in done.stdout
    assert "unhealthy: pink\ufffd[2J 9" in done.stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["acme", "linux"], "Missing argument 'SHARD'"),
        (["acme", "linux", "p k"], "'p k' is not a valid name of a shard"),
        (["acme", "gpu", "pink"], "unknown pool gpu of acme; pools with shards are linux"),
        (["acme", "mac", "pink"], "pool mac of acme has no shards: set shard_label, shard_groups or shard_name in its"),
        (["acme", "linx", "pink"], "unknown pool linx of acme; did you mean linux? pools with shards are linux"),
        (["acme", "linux", "pink", "--min-online", "0"], "--min-online"),
        (["acme", "linux", "pink", "--min-online", "many"], "--min-online"),
        (["acme", "linux", "pink", "--version", ""], "give a version, like 2.336.0"),
        (["acme", "linux", "pink", "--timeout", "nan"], "--timeout"),
        (["acme", "linux", "pink", "--timeout", "inf"], "--timeout"),
        (["acme", "linux", ""], "'' is not a valid name of a shard"),
        (["acme", "linux", "pink/../purple"], "is not a valid name of a shard"),
        (["acme", "linux", "pınk"], "is not a valid name of a shard"),
        (["acme", "linux", "pink", "--timeout", "-1"], "--timeout"),
        (["acme", "linux", "pink", "--timeout", "5", "--settle", "6"], "is shorter than the 6 seconds to settle"),
        (["acme", "linux", "pink", "--provision-log", "/nowhere"], "cannot read /nowhere"),
        (["acme", "linux", "pink", "--changed", " "], "name what was changed"),
    ],
    ids=" ".join,
)
async def test_wrong_usage_exits_2_with_one_line(fleet, ghapp, words, text):
    done = ghapp(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("ghapp: ")
    assert text in line


async def test_an_org_without_the_app_is_wrong_usage(redis, ghapp):
    await Installations(redis).put(Installation(ORG, "globex", 70))
    done = ghapp("acme", "linux", "pink")
    assert (done.returncode, done.stderr) == (
        2,
        "ghapp: acme: the App is not installed there; known are globex\n",
    )


async def test_an_unavailable_redis_is_reported_in_one_line(ghapp):
    done = ghapp("acme", "linux", "pink", GHAPP_REDIS_URL="redis://127.0.0.1:1/0")
    assert done.returncode == 2
    assert "check GHAPP_REDIS_URL" in done.stderr
