"""docs/glossary.md explains every code that people can meet, and no other."""

from __future__ import annotations

import re
from enum import Enum

import pytest

from ghapp.deaths.cause import Cause, OwnReason
from ghapp.deaths.rerun import RerunRefusal, RerunState
from ghapp.deaths.runner_log import RunnerError
from ghapp.gate.active_shard import Role
from ghapp.incidents.incident import LossEnd
from ghapp.leaks.leak_fuse import StopReason
from ghapp.leaks.tick import Guard
from ghapp.pods.blockers import Blocker
from ghapp.pods.phantom_kinds import PhantomKind, PhantomReason
from ghapp.remediation.fuse import FuseReason, Position
from ghapp.remediation.plan import Deferral
from ghapp.remediation.status import ReplacementBlocker, ReplacementStage
from ghapp.report.headline import HeadlineKind
from ghapp.runners.next_attempt import NOT_SCHEDULED, OVERDUE
from ghapp.runners.verdict import Reason, State
from ghapp.scan.looks import ListDifference
from ghapp.workflow_jobs.reason import QueueReason
from tests.manifests.rendered import ROOT

PAGE = (ROOT / "docs" / "glossary.md").read_text()
SECTIONS = {
    "States": [State],
    "Fuse": [Position, FuseReason],
    "Headlines": [HeadlineKind],
    "Replacement": [ReplacementStage, ReplacementBlocker],
    "Incidents": [LossEnd],
    "Deferrals": [Deferral],
    "Blockers": [Blocker],
    "Deaths": [Cause, OwnReason, RunnerError],
    "Re-runs": [RerunState, RerunRefusal],
    "Phantoms": [PhantomKind, PhantomReason],
    "Guards of the reaper": [Guard],
    "Stops of the reaper": [StopReason],
    "Queued jobs": [QueueReason],
    "Differences between two lists": [ListDifference],
}


def codes(section):
    """The first column of a section's tables."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def values(*enumerations: type[Enum]):
    return [each.value for enumeration in enumerations for each in enumeration if each.value]


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_explains_each_code_once_and_no_other(section):
    assert sorted(codes(section)) == sorted(values(*SECTIONS[section]))


def test_headlines_are_explained_in_the_order_of_their_urgency():
    assert codes("Headlines") == [*HeadlineKind]


def test_reasons_are_explained_in_one_of_two_sections():
    explained = codes("Reasons of a state") + codes("What prevents sweeps")
    assert sorted(explained) == sorted([*values(Reason), NOT_SCHEDULED, OVERDUE])


def test_the_gates_roles_and_checks_are_explained():
    checks = set(codes("Gate")) - set(values(Role))
    assert set(values(Role)) <= set(codes("Gate"))
    assert checks == {
        "users", "github", "since-deploy", "role", "online", "version", "deaths", "canary", "provision", "one-shard",
        "running-jobs", "settled",
    }  # fmt: skip


def test_every_entry_says_something():
    rows = re.findall(r"^\| `[^`]+` \| (.*) \|$", PAGE, re.MULTILINE)
    assert len(rows) > 100
    assert min(map(len, rows)) > 15


def test_links_within_the_page_lead_to_a_section():
    anchors = {
        re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")
        for heading in re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) <= anchors
