"""The options that commands share: fields, jq, web, watch, limit, sort, pool. Each runs on Redis and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys

import pytest
from click.testing import CliRunner

from ghapp.cli.main import main
from ghapp.cli.options import CommandOutput
from tests.cli.test_cli import ghapp, one_line
from tests.rules.builders import online, present
from tests.support.commands import Forked, inherited


async def three_runners(known):
    for number, pool in ((2, "gpu"), (3, "linux-4vcpu")):
        labels = ("self-hosted", pool)
        await known.add_runner(online(number, first_seen=known.now - 60, labels=labels, custom_labels=(pool,)))


async def test_fields_are_selected_and_plain_json_is_the_whole_document(known):
    whole = await known.json("runners")
    assert set(whole) == {"headlines", "runners", "total", "healed", "retired", "held", "pools", "phantoms"}
    answer = await known.ask("runners", "--json", "name,state")
    assert json.loads(answer.stdout) == [{"name": "linux-1", "state": "healthy"}]
    one = await known.ask("explain", "acme", "linux-1", "--json", "state,death")
    assert json.loads(one.stdout) == {"state": "healthy", "death": None}


@pytest.mark.parametrize("words", [["--json", "acme", "linux-1"], ["acme", "--json", "linux-1"]], ids=" ".join)
async def test_arguments_after_json_are_not_taken_for_fields(known, words):
    answer = await known.ask("explain", *words)
    assert json.loads(answer.stdout)["name"] == "linux-1"


async def test_fields_may_precede_the_arguments(known):
    answer = await known.ask("explain", "--json", "name,runner_id", "acme", "1")
    assert json.loads(answer.stdout) == {"name": "linux-1", "runner_id": 1}


async def test_an_unknown_field_is_wrong_usage_and_the_fields_are_named(known):
    line = one_line(await known.ask("runners", "--json", "nam"), 2)
    assert "'nam' is not a field; did you mean name? fields are org, runner_id, name, " in line


async def test_the_words_of_the_tables_header_select_their_fields(known):
    answer = await known.ask("runners", "--json", "runner,id")
    assert json.loads(answer.stdout) == [{"name": "linux-1", "runner_id": 1}]
    assert (await known.ask("deaths", "--json", "runner,cause")).returncode == 0


async def test_jq_filters_the_document_and_prints_texts_without_quotes(known):
    pytest.importorskip("jq")
    await three_runners(known)
    named = await known.ask("runners", "--jq", ".runners[].name")
    assert named.stdout.splitlines() == ["linux-2", "linux-1", "linux-3"]
    counted = await known.ask("runners", "--json", "name", "--jq", "{count: length}")
    assert counted.stdout == '{"count":3}\n'


async def test_an_invalid_jq_expression_is_wrong_usage_and_one_that_does_not_fit_fails(known):
    pytest.importorskip("jq")
    assert "--jq" in one_line(await known.ask("runners", "--jq", ".["), 2)
    assert "--jq: Cannot index number" in one_line(await known.ask("runners", "--jq", ".total.name"), 1)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--sort", "name"], ["linux-2", "linux-1", "linux-3"]),
        (["--pool", "linux-4vcpu", "--sort", "name"], ["linux-1", "linux-3"]),
        (["--sort", "name", "--limit", "2"], ["linux-2", "linux-1"]),
    ],
    ids=str,
)
async def test_runners_are_selected_by_pool_sorted_and_limited(known, options, names):
    await three_runners(known)
    found = await known.json("runners", *options)
    assert [each["name"] for each in found["runners"]] == names
    assert {each["pool"] for each in found["pools"]} <= {"linux-4vcpu", "gpu"}


async def test_a_table_has_the_ill_runners_or_counts_by_pool_and_json_all(known):
    for number in range(2, 21):
        await known.add_runner(online(number, first_seen=known.now - 60))
    shown = (await known.ask("runners")).stdout
    assert "\n 20 runners\n" in shown
    assert " linux-20 " in shown
    for number in range(21, 61):
        await known.add_runner(online(number, first_seen=known.now - 60))
    shown = (await known.ask("runners")).stdout
    assert "linux-20 " not in shown
    assert re.search(r"^ org +pool +healthy +idle +queued +running +oldest queued +unserved *$", shown, re.MULTILINE)
    assert re.search(r"^ acme +linux-4vcpu +60 +60 +0 +0 +0 *$", shown, re.MULTILINE)
    assert shown.endswith(" 60 runners, each healthy or starting; --state healthy or --limit lists them\n")
    assert " linux-20 " in (await known.ask("runners", "--limit", "60")).stdout
    await known.add_runner(
        present(99, first_seen=known.now - 7200, observed_at=known.now, offline_since=known.now - 3600)
    )
    assert [each["state"] for each in (await known.json("runners"))["runners"]] == ["offline"] + ["healthy"] * 60
    shown = (await known.ask("runners")).stdout
    assert " 1 of 61 runners; 1 offline\n" in shown
    assert " healthy " not in shown
    assert " 60 more; --limit 61 shows all\n" in shown
    for options, count in (
        (["--sort", "name"], 50),
        (["--state", "healthy"], 50),
        (["--limit", "2"], 2),
        (["--all"], 50),
    ):
        assert f" {count} of 61 runners" in (await known.ask("runners", *options)).stdout


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ([], "no runner of acme is suspect (of 1)"),
        (["--pool", "linux-4vcpu"], "no runner of pool linux-4vcpu of acme is suspect (of 1)"),
    ],
    ids=["of all pools", "of one"],
)
async def test_in_place_of_an_empty_table_is_a_sentence(known, options, line):
    shown = (await known.ask("runners", "--org", "acme", "--state", "suspect", *options)).stdout
    assert shown.splitlines()[-1] == line


@pytest.mark.parametrize("words", [["runners"], ["jobs"], ["deaths"], ["pause", "acme", "--why", "x"]], ids=" ".join)
async def test_an_unknown_pool_or_org_is_wrong_usage_and_the_nearest_is_named(known, words):
    line = one_line(await known.ask(*words, "--pool", "linux-4vpcu"), 2)
    assert "did you mean linux-4vcpu? " in line
    assert "linux-4vpcu" in line
    if "acme" not in words:
        assert "did you mean acme? " in one_line(await known.ask(*words, "--org", "amce"), 2)


@pytest.mark.parametrize("pool", ["linux-4vcpu"])
async def test_a_pool_without_jobs_or_deaths_is_none_the_less_known(known, pool):
    for command in ("jobs", "deaths"):
        assert (await known.ask(command, "--pool", pool)).returncode == 0


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("runners --org ", ["acme"]),
        ("runners --org AC", ["acme"]),
        ("explain ", ["acme"]),
        ("explain acme linux", ["linux-1"]),
        ("explain acme z", []),
        ("jobs --org acme --pool lin", ["linux-4vcpu"]),
        ("jobs --org nope --pool ", []),
        ("runners --state he", ["healthy", "healed"]),
        ("pause acme --pool ", ["linux-4vcpu"]),
    ],
)
async def test_names_are_completed(known, line, names):
    assert await completed(known, line) == names


async def test_a_name_that_a_shell_would_take_for_more_is_not_offered(known):
    await known.add_runner(online(2, first_seen=known.now - 60, name="linux-$(touch x)\nplain,y"))
    assert await completed(known, "explain acme ") == ["linux-1"]


async def completed(known, line, **environ):
    words = ["ghapp", *line.split()]
    place = str(len(words) - (not line.endswith(" ")))
    answer = await known.ask(_GHAPP_COMPLETE="bash_complete", COMP_WORDS=f"ghapp {line}", COMP_CWORD=place, **environ)
    assert answer.stderr == ""
    return [each.partition(",")[2] for each in answer.stdout.split("\n") if each]


@pytest.mark.parametrize(
    "environ",
    [
        {"GHAPP_REDIS_URL": "redis://127.0.0.1:1/0"},
        {"GHAPP_URL": "http://127.0.0.1:1", "GHAPP_TOKEN": "t"},
        {"GHAPP_UNKNOWN": "x"},
        {},
    ],
    ids=["Redis is away", "the server is away", "configuration is wrong", "nothing is configured"],
)
def test_nothing_is_completed_and_nothing_printed_without_an_answer(environ, tmp_path):
    words = {"_GHAPP_COMPLETE": "bash_complete", "COMP_WORDS": "ghapp explain ", "COMP_CWORD": "2"}
    answer = ghapp(**{"GHAPP_STATE_DIR": str(tmp_path), **environ, **words})
    assert (answer.stdout, answer.stderr) == ("\n", "")


async def test_the_number_of_runners_not_listed_is_shown(known):
    await three_runners(known)
    shown = (await known.ask("runners", "--limit", "1")).stdout
    assert "\n 1 of 3 runners\n" in shown
    assert " 2 more; --limit 3 shows all\n" in shown
    assert "more;" not in (await known.ask("runners", "--limit", "3")).stdout


PAGES = {
    ("runners",): "/",
    ("jobs", "--queued"): "/",
    ("deaths",): "/",
    ("versions",): "/",
    ("incidents",): "/",
    ("audit",): "/",
    ("audit", "--org", "acme"): "/orgs/acme#audit",
    ("incidents", "--org", "acme"): "/orgs/acme/incidents",
    ("runners", "--org", "acme"): "/orgs/acme/runners",
    ("jobs", "--org", "acme"): "/orgs/acme/jobs",
    ("deaths", "--org", "acme"): "/orgs/acme/deaths",
    ("runners", "--org", "acme", "--pool", "a b", "--state", "offline"): "/orgs/acme/runners?pool=a+b&state=offline",
    ("runners", "--org", "acme", "--all"): "/orgs/acme/runners?state=all",
    ("jobs", "--org", "acme", "--queued", "--sha", "e" * 40): f"/orgs/acme/jobs?state=queued&text={'e' * 40}",
    ("deaths", "--org", "acme", "--cause", "host-oom"): "/orgs/acme/deaths?cause=host-oom",
    ("why", "acme", "https://github.com/acme/api/actions/runs/41/job/42"): "/orgs/acme/jobs/42",
    ("why", "acme", "https://github.com/acme/api/actions/runs/41"): "/orgs/acme/jobs",
    ("gate", "acme", "linux", "pink"): "/orgs/acme/gate",
}


@pytest.mark.parametrize("base", ["GHAPP_PUBLIC_URL", "GHAPP_URL"])
@pytest.mark.parametrize(("words", "path"), list(PAGES.items()), ids=" ".join)
def test_the_address_of_the_page_is_printed_without_reading_anything(base, words, path):
    answer = ghapp(*words, "--web", **{base: "https://ghapp.example.com/"})
    assert (answer.returncode, answer.stdout) == (0, f"https://ghapp.example.com{path}\n")


def test_without_an_address_web_is_wrong_usage():
    line = one_line(ghapp("runners", "--web"), 2)
    assert line == "ghapp: --web: set GHAPP_PUBLIC_URL or GHAPP_URL to the address of the page"


async def test_the_page_of_a_runner_is_found_by_its_name(known):
    known.set_public_url("https://ghapp.example.com")
    answer = await known.ask("explain", "acme", "linux-1", "--web")
    assert answer.stdout.endswith("/orgs/acme/runners/1\n")


@pytest.mark.parametrize("more", [["--json"], ["--jq", "."], ["--web"]], ids=" ".join)
def test_a_watched_command_draws_tables_only(more):
    if more[0] == "--jq":
        pytest.importorskip("jq")
    assert "--watch draws tables" in one_line(ghapp("runners", "--watch", *more), 2)


async def test_a_watched_command_draws_again_until_it_is_interrupted(redis, redis_url, tmp_path):
    out, err = tmp_path / "out", tmp_path / "err"
    process = Forked(["runners", "--watch"], {**inherited(), "GHAPP_REDIS_URL": redis_url}, out, err)
    for _ in range(600):
        if out.exists() and out.read_text().count("no runner is known\n") >= 2:
            break
        await asyncio.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    assert await asyncio.to_thread(process.wait, 30) == 130
    assert out.read_text().count("no runner is known\n") >= 2
    assert "Traceback" not in err.read_text()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_documented_completion_script_is_printed(shell):
    answer = ghapp(_GHAPP_COMPLETE=f"{shell}_source")
    assert answer.returncode == 0
    assert "_GHAPP_COMPLETE" in answer.stdout


def test_without_the_package_jq_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jq", None)
    answer = CliRunner().invoke(main, ["runners", "--jq", "."])
    assert (answer.exit_code, answer.stderr) == (2, "ghapp: --jq: needs the package jq; install ghapp[jq]\n")


@pytest.mark.parametrize(("is_terminal", "shown"), [(True, "\ufffd[31mred\nnext\n"), (False, "\x1b[31mred\nnext\n")])
def test_a_text_of_jq_is_seen_on_a_terminal_and_as_it_is_in_a_pipe(monkeypatch, capsys, is_terminal, shown):
    pytest.importorskip("jq")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr("ghapp.cli.options.click.echo", print)  # as it is: click would ask the terminal itself
    output = CommandOutput(jq=".name, .other")
    output.print({"name": "\x1b[31mred", "other": "next"})
    output._replace(jq=".").print({"name": "\x9b\u202e"})
    assert capsys.readouterr().out == shown + '{"name":"\\u009b\\u202e"}\n'
