"""What a scan shows: on a terminal of 80 columns, as Markdown for an issue, and with names of outsiders."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from ghapp.installations.scope import Scope, ScopeKind
from ghapp.scan.documents import scan_document
from ghapp.scan.findings import Coverage, Findings, NotSeen, Reading
from ghapp.scan.texts import LONGEST_ISSUE, markdown_text, terminal_text
from ghapp.versions.lifetime import EndDates
from ghapp.workflow_jobs.runner_groups import RunnerGroup, RunnerGroups
from tests.rules.builders import NOW
from tests.rules.scan.builders import ACME, looks, missing, offline, queued, reading, runner
from tests.support.nasty_names import NASTY, markdown_faults, not_seen

SET_UP = "ghapp up"


def everything(count=1):
    """An organization in which all that a scan can find is wrong, `count` times."""
    before = [offline(each) for each in range(1, count + 1)]
    before += [runner(1000 + each) for each in range(count)]
    before += [runner(2000 + each, busy=True, version="2.300.0", group_id=2) for each in range(count)]
    after = [each for each in before if each.id != 1000] + [runner(5000, custom_labels=("unused",), labels=("unused",))]
    return Reading(
        ACME,
        looks=looks(before, after),
        answers=missing(1000),
        jobs=[
            queued(each, labels=(f"nope{each}",), html_url=f"https://github.com/acme/api/{each}")
            for each in range(count)
        ],
        groups=RunnerGroups(NOW, (RunnerGroup(2, "gpus", "selected", repositories=("acme/web",)),)),
        dates={"2.300.0": EndDates(NOW, NOW - 86_400, is_known=True)},
        coverage=Coverage(4, 1240, count, 2 * count),
        not_seen=[NotSeen("the runner groups of acme", "GitHub answers 403", "with the scope admin:org")],
        now=NOW,
        calls=33,
    )


def printed(readings, width=80, *, terminal=True):
    found = [Findings(each) for each in readings]
    document, wells = scan_document(found, sum(each.calls for each in readings)), [each.well for each in found]
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system=None, markup=False, highlight=False)
    console.print(terminal_text(document, wells, SET_UP, NOW), crop=False)
    return out.getvalue(), markdown_text(document, wells, SET_UP, NOW)


def test_it_says_all_that_is_wrong_and_what_to_do():
    shown, text = printed([everything()], 200)
    for line in (
        "acme: 1 runner of linux-4vcpu has version 2.300.0, which gets no jobs since",
        "acme: 1 runner of linux-4vcpu is missing from the second list",
        "acme: 1 of 2 runners of linux-4vcpu is offline",
        "since when they are offline is not known: GitHub does not report it",
        "between the lists: 1 missing from the second list, 1 registered",
        "1 job waits 1 h: no runner has the label nope0 (NoRunnerWithLabels)",
        "labels of waiting jobs that no runner has: nope0 (1 job)",
        "labels of runners that no job asked for, of those that were read: unused (1 runner)",
        "runner group gpus: 1 repository only",
        "jobs were read of 1 of 2 unfinished runs in 4 of 1,240 repositories, those that were pushed to last",
        "not seen: the runner groups of acme: GitHub answers 403; it takes a token with the scope admin:org",
        "33 calls to GitHub.",
    ):
        assert line in shown, line
        if not line.startswith("acme: "):
            plain = text.replace("`", "")
            assert line.partition(": ")[0] in plain, line
    assert shown.index("2.300.0") < shown.index("missing from") < shown.index("is offline")


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("count", [0, 1, 40])
def test_no_line_is_wider_than_the_terminal(width, count):
    shown, _ = printed([everything(count), reading(scope=Scope(ScopeKind.REPOSITORY, "acme/api"))], width)
    wide = [line for line in shown.splitlines() if cell_len(line.rstrip()) > width]
    assert [line for line in wide if "http" not in line] == []


def test_long_lists_are_cut_and_counted():
    shown, text = printed([everything(40)])
    assert "and 25 more offline runners; --json has all" in shown
    assert "and 25 more jobs; --json has all" in shown
    assert "… and 25 more" in text


def test_markdown_of_many_scopes_fits_into_an_issue():
    _, text = printed([everything(40)] * 60)
    assert len(text) <= LONGEST_ISSUE
    assert "more scopes, which do not fit here" in text


def test_names_of_outsiders_are_text():
    names = [name for name in NASTY if name.strip()]
    fleet = [
        offline(each, labels=(name, "x"), custom_labels=(name, "x"))._replace(name=name)
        for each, name in enumerate(names, 1)
    ]
    jobs = [queued(each, labels=(name,), name=name, workflow=name) for each, name in enumerate(names, 1)]
    groups = RunnerGroups(NOW, tuple(RunnerGroup(each, name, "private") for each, name in enumerate(names)))
    shown, text = printed([reading(fleet, jobs=jobs, groups=groups)])
    assert not_seen(shown) == {}
    assert not_seen(text) == {}
    assert markdown_faults(text, ours="https://github.com/") == []


def test_nothing_wrong_is_only_claimed_of_what_was_seen():
    whole, _ = printed([reading([runner()])])
    part, _ = printed([reading([runner()], not_seen=[NotSeen("the repositories", "GitHub answers 404")])])
    assert whole.startswith("acme: nothing is wrong. The only runner is healthy.")
    assert part.startswith("acme: nothing is wrong in what was seen.")


def test_the_counts_of_a_pool_add_up_and_say_what_its_runners_do():
    fleet = [
        runner(1),
        runner(2, busy=True),
        offline(3),
        offline(4, ephemeral=True),
        runner(5),
        runner(6, ephemeral=True, busy=True),
    ]
    found = Findings(reading(fleet, [each for each in fleet if each.id not in (5, 6)], jobs=[queued()]))
    (pool,) = scan_document([found], 0)["scopes"][0]["pools"]
    assert pool == {
        "pool": "linux-4vcpu",
        "runners": 5,
        "busy": 1,
        "idle": 1,
        "starting": 1,
        "offline": 1,
        "missing": 1,
        "waiting": 1,
    }
