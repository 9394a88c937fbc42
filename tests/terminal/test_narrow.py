"""What each command draws on a terminal of 80 columns, over names of 64 characters: no word is broken."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace

import pytest
from rich.console import Console, Group

from ghapp.doctor.finding import FindingCounts, ok, warning, wrong
from ghapp.report.remaining_losses import RemainingLoss, RemainingLosses
from ghapp.runners.absence import AbsentRunners
from ghapp.terminal import death_tables, incident_tables, job_tables, tables

NOW, AT = 1_795_338_611.0, "2026-11-22T09:10:11Z"
WIDTH = 80
INDENT = len("  repository: ")


def name(begin):
    """A name of 64 characters; `begin` makes it different from others."""
    return begin.ljust(63, "-") + "z"


SENTENCE = "The kubelet ended it because its memory was over the limit, and a limit of a pod was reached. " * 3
RUNNER = {
    "org": name("o"),
    "pool": name("p"),
    "name": name("r"),
    "runner_id": 123_456_789_012,
    "state": "invalidated",
    "reason": "RegistrationInvalidated",
    "age_seconds": 4.0,
    "since": AT,
    "fuse": "proving",
    "fuse_of_all_pools": False,
    "healed": False,
    "remediation": {
        "status": "waiting",
        "blocked_by": "deliveries-missing",
        "open": True,
        "since": AT,
        "text": SENTENCE,
    },
    "evidence": [{"at": AT, "source": "delivery", "text": SENTENCE}, {"at": AT, "source": "get", "text": name("e")}],
}
JOB = {
    "repository": f"{name('o')[:39]}/{name('y')[:39]}",
    "name": name("j"),
    "id": 9,
    "conclusion": "failure",
    "html_url": "https://github.com/acme/api/runs/42",
}
DEATH = {
    "org": name("o"),
    "at": AT,
    "runner_name": name("r"),
    "pool": name("p"),
    "pod": name("r"),
    "node": name("n"),
    "image": name("i"),
    "memory_limit": "8Gi",
    "cause": "deleted-registration",
    "reason": "OOMKilled",
    "exit_code": 137,
    "signal": 9,
    "job": JOB,
    "advice": SENTENCE,
    "runner_log": ["Running job"],
    "host_log": [],
}
WAITING = {
    "org": name("o"),
    "pool": name("p"),
    "job_id": 40_000_001_020,
    "repository": "acme/api",
    "head_branch": name("b"),
    "head_sha": "e" * 40,
    "actor": name("a"),
    "rerun_by": name("a"),
    "workflow": name("w"),
    "name": name("j"),
    "state": "queued",
    "queued_at": AT,
    "started_at": None,
    "ended_at": None,
    "runner": name("r"),
    "html_url": "https://github.com/acme/api/runs/42",
    "waited_for": None,
    "later_attempt": {"attempt": 2, "job_id": 40_000_001_021, "at": AT, "text": SENTENCE},
    "why": {
        "reason": "NoRunnerWithLabels",
        "since": AT,
        "text": SENTENCE,
        "ahead": 3,
        "typical_wait_seconds": 60,
        "next": [{"step": SENTENCE, "why": SENTENCE, "url": None}],
        "fails_at": "2027-01-15T07:50:00Z",
    },
    "conclusion": None,
    "summary": None,
    "failed_by": None,
    "death": {
        "cause": "host-oom",
        "advice": "Find out what deletes registrations, and see its runbook.",
        "memory_limit": "8Gi",
        "last_line": "npm run build: heap 7.4 GiB of 8 GiB, and a longer line than fits into a narrow terminal",
    },
    "story": [{"at": AT, "step": "queued", "text": SENTENCE}, {"at": None, "step": "died", "text": SENTENCE}],
    "next": [{"step": SENTENCE, "why": SENTENCE, "url": "https://github.com/acme/api/runs/42"}],
}
INCIDENT = {
    "org": name("o"),
    "id": "1795338011-123456789012",
    "state": "stopped",
    "text": f"{name('r')} lost in {name('p')}",
    "began": AT,
    "ended": None,
    "pools": [name("p")],
    "lost": 1_000,
    "open": 200,
    "ends": [{"end": "SuccessorOnline", "losses": 800, "text": SENTENCE}],
    "fuse": "stopped",
    "heal_seconds": 61.5,
    "url": "https://ghapp.example/orgs/acme/incidents/1795338011-123456789012",
}
CHANGE = {
    "org": name("o"),
    "at": AT,
    "who": name("w"),
    "channel": "check run",
    "action": "resume",
    "subject": name("p"),
}
CHANGE |= {"why": SENTENCE, "result": "resumed", "text": f"resumed; {SENTENCE}"}
HEADLINE = {
    "org": name("o"),
    "severity": "critical",
    "text": SENTENCE,
    "since": AT,
    "step": SENTENCE,
    "command": f"ghapp explain {name('o')} {name('r')}",
    "link": None,
}
PHANTOM = {
    "org": name("o"),
    "namespace": "runners",
    "name": name("r"),
    "kind": "demand-inflated",
    "reason": "DemandInflated",
    "since": AT,
    "command": f"kubectl --namespace runners delete ephemeralrunners.actions.github.com {'p' * 64}",
    "advice": SENTENCE,
    "detail": "",
}
QUEUE = {
    "org": name("o"),
    "pool": name("p"),
    "queued": 1,
    "running": 2,
    "oldest_queued_at": AT,
    "idle": 3,
    "unserved": 4,
    "shards": [{"text": SENTENCE}, {"text": SENTENCE}],
}
SWEEP = {
    "org": name("o"),
    "runners": 100_000,
    "absent": AbsentRunners((name("r"),), (name("s"),)),
    "calls": 1_000,
    "billable": 5,
    "milliseconds": 73_000.0,
}
SWEEP |= {"losses": RemainingLosses(2, (RemainingLoss(name("p"), 2, "waiting", "", SENTENCE),))}
SWEEP |= {"left": 2_000, "next_in": 60.0, "flaw": "RateLimited"}
TOKEN = {"id": "1f2e3d4c5b6a", "name": name("t"), "orgs": (name("o"), name("q")), "scopes": ("read", "claim")}
TOKEN |= {"created_at": NOW, "expires_at": NOW}
LETTER = {"at": AT, "guid": "72d3162e-cc78-11e3-81ab-4c9367dc0958", "event": "workflow_job", "why": SENTENCE}
FINDINGS = [
    ok("configuration", f"pool {name('p')}", "replaced by arc", name("o")),
    wrong("roles", "workers", SENTENCE, SENTENCE),
    warning("controllers", "controller", f"http://{name('h')}/events", SENTENCE, "acme"),
]

OUTPUTS = {
    "sweep": tables.sweeps_table([SimpleNamespace(**SWEEP)]),
    "runners": tables.runners_table([RUNNER, RUNNER | {"name": name("s")}], 9, NOW, 1),
    "runners: past": tables.past_line([RUNNER]),
    "runners: none": tables.no_runners("suspect", [f"pool {name('p')}", name("o")], 9),
    "runners: headlines": tables.headlines_text([HEADLINE], {name("o"): [SENTENCE]}, NOW),
    "runners: queues": job_tables.pools_table([QUEUE], [RUNNER], NOW),
    "runners: phantoms": tables.phantoms_table([PHANTOM], NOW),
    "explain": tables.explanation(
        RUNNER | {"death": DEATH, "phantoms": [PHANTOM]}, "https://ghapp.example/orgs/acme/runners/1"
    ),
    "jobs": job_tables.jobs_table([WAITING], 1, NOW),
    "why": job_tables.job_explanations([WAITING]),
    "why: a dead runner": job_tables.job_explanations([WAITING | {"why": None, "state": "over", "summary": SENTENCE}]),
    "jobs: none": job_tables.no_jobs("queued", ["acme/api#3"], [], [f"pool {name('p')}", name("o")]),
    "deaths": death_tables.deaths_table([DEATH], NOW),
    "incidents": incident_tables.incidents_table([INCIDENT, INCIDENT | {"ended": AT}], NOW),
    "audit": tables.audit_table([CHANGE, CHANGE | {"subject": "*", "why": ""}], NOW),
    "doctor": tables.findings_table(FINDINGS),
    "doctor: count": tables.findings_text(FindingCounts.of(FINDINGS), f"https://{name('h')}"),
    "token list": tables.tokens_table([SimpleNamespace(**TOKEN)], NOW),
    "deliveries dead": tables.letters_table([LETTER], NOW),
}


def drawn(output, **terminal):
    out = io.StringIO()
    console = Console(file=out, color_system=None, markup=False, emoji=False, highlight=False, **terminal)
    console.print(Group(output), crop=False)  # as `ghapp.cli.context.show`
    return out.getvalue()


@pytest.mark.parametrize("command", OUTPUTS)
def test_no_word_is_broken_at_80_columns(command):
    narrow, whole = (drawn(OUTPUTS[command], width=each, force_terminal=True) for each in (WIDTH, 10_000))
    headers = re.findall(r"\S+:", narrow)
    assert set(narrow.split()) <= {*whole.split(), *headers}, "each word is one of the whole output"
    too_wide = [line for line in map(str.rstrip, narrow.splitlines()) if len(line) > WIDTH]
    assert all(len(max(line.split(), key=len)) > WIDTH - INDENT for line in too_wide), too_wide


@pytest.mark.parametrize(("of_all", "words"), [(False, ", fuse proving"), (True, ", fuse of all pools proving")])
def test_an_explanation_names_whose_fuse_is_in_force(of_all, words):
    assert words in drawn(tables.explanation(RUNNER | {"fuse_of_all_pools": of_all}), width=250)


@pytest.mark.parametrize("command", OUTPUTS)
def test_in_a_pipe_no_word_is_broken(command):
    piped, whole = drawn(OUTPUTS[command], width=250), drawn(OUTPUTS[command], width=10_000)
    assert set(piped.split()) <= set(whole.split())


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one two three", ["one two", "three"]),
        ("  one two three", ["  one two", "  three"]),
        ("abcdefghijkl", ["abcdefghijkl"]),
        ("see `a b c d`", ["see", "`a b c d`"]),
        ("see `a b c d`.", ["see", "`a b c d`."]),
        ("see `a b c d e f`", ["see `a b c", "d e f`"]),
        ("日本 日本 日本", ["日本 日本", "日本"]),
        ("", [""]),
    ],
)
def test_a_line_is_wrapped_between_words_and_commands_stay_whole_where_they_fit(text, lines):
    assert [each.rstrip() for each in drawn(tables.copyable(text), width=11, force_terminal=True).splitlines()] == lines
