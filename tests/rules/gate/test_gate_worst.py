"""The two worst answers: a gate that passes wrongly, and one that tears down the shard that users use.

The conditions are computed here a second time, from the inputs and without the gate's own code.
"""

from __future__ import annotations

from hypothesis import event, given, settings
from hypothesis import strategies as st

from ghapp.deaths.cause import Cause
from ghapp.gate.active_shard import ActiveShardAnswer, Deploy, Role
from ghapp.gate.judgement import STOP, ActiveShardSources, GateRequest
from ghapp.gate.next_steps import StepLevel
from ghapp.gate.shard_status import HARMLESS
from ghapp.gate.terraform_log import TerraformRun
from ghapp.workflow_jobs.job import Job
from tests.rules.builders import LONG_AGO, NOW, lost, online, present, survey
from tests.rules.gate.builders import death, gate, on, steps

EXAMPLES = 300
COLOURS = st.sampled_from(["pink", "purple", "green"])
AGO = st.sampled_from([0.0, 1.0, 59.0, 299.0, 301.0, 599.0, 600.0, 601.0, 3600.0, 90_000.0, -60.0, -9999.0])
KINDS = st.sampled_from(
    [
        *(online(), online(version="2.336.0")) * 6,  # otherwise the gate would never pass
        *(online(), online(busy=True), online(ephemeral=True), online(version="2.336.0")),
        *(online(retired_at=NOW), online(registered=False), online(listed=False, observed_at=NOW - 301)),
        *(present(), present(busy=True), present(offline_since=NOW - 1), present(first_seen=NOW - 5, was_online=False)),
        *(lost(), lost(confirmed_at=None), lost(removed_at=NOW)),
    ]
)


@st.composite
def a_runner(draw, number):
    seen = on(draw(COLOURS), draw(KINDS), number)._replace(id=number + 1)
    if not draw(st.booleans()):
        return seen
    started = NOW - draw(AGO)
    ended = draw(st.sampled_from([None, started + 30]))
    return seen._replace(job_id=300 + number, job_started_at=started, job_ended_at=ended)


@st.composite
def a_job(draw, number):
    status, ago = draw(st.sampled_from(["queued", "running"])), draw(AGO)
    labels = ("linux-4vcpu", *draw(st.sampled_from([(), ("shard:pink",), ("shard:purple",)])))
    who = draw(st.integers(1, 6)) if status == "running" else None
    return Job(300 + number, status, labels, "acme/api", NOW - ago, who, "", None if who is None else NOW - ago)


FLEETS = st.integers(0, 6).flatmap(lambda size: st.tuples(*(a_runner(number) for number in range(size))))
JOBS = st.integers(0, 3).flatmap(lambda size: st.tuples(*(a_job(number) for number in range(size))))
DEPLOYS = st.lists(
    st.builds(
        lambda shard, role, at, reported, first: Deploy(shard, role, NOW - at, NOW - reported, "v1", "", first),
        COLOURS,
        st.sampled_from([Role.ACTIVE, Role.INACTIVE]),
        AGO,
        AGO,
        st.sampled_from([0.0, LONG_AGO, NOW - 5, NOW, NOW + 60]),
    ),
    max_size=3,
).map(lambda each: tuple({deploy.shard: deploy for deploy in each}.values()))
ANSWERS = st.none() | st.builds(
    lambda shard, ago: ActiveShardAnswer(shard, "" if shard else "what it said is not the name of a shard", NOW - ago),
    st.sampled_from(["", "pink", "PINK", "Purple", "None", "green"]),
    st.sampled_from([0.0, 299.0, 301.0, -9999.0]),
)
SOURCES = st.builds(ActiveShardSources, DEPLOYS, st.sampled_from(["", "active_command", "active_url"]), ANSWERS)
AGREED = st.just(
    ActiveShardSources(
        (Deploy("purple", Role.ACTIVE, LONG_AGO, NOW), Deploy("pink", Role.INACTIVE, NOW - 60, NOW - 60, "v1"))
    )
)
PROVISIONS = st.sampled_from(
    [None, TerraformRun(), TerraformRun(0, 0, 0), TerraformRun(1, 0, 4), TerraformRun(errors=("x",))]
)
QUESTIONS = st.builds(
    GateRequest,
    st.sampled_from(["pink", "Purple", "green", "none"]),
    st.integers(1, 4),
    st.sampled_from([None, "2.336.0"]),
    st.booleans(),
    PROVISIONS,
)
SURVEYS = st.sampled_from(
    [
        *[survey()] * 6,
        survey(swept_at=NOW - 5),
        survey(swept_at=NOW - 300),
        survey(swept_at=NOW - 301),
        survey(swept_at=None),
        survey(swept_at=NOW + 9999),
        survey(failing_since=NOW, failure="GitHubUnavailable"),
    ]
)
DEATHS = st.none() | st.lists(st.builds(death, st.integers(0, 6), st.sampled_from(Cause)), max_size=6)


def shard_of(runner):
    return runner.labels[1].removeprefix("shard:")


def jobs_of(fleet, jobs, shard, since):
    """The ids of the jobs that the shard took since `since`."""
    mine = {each.id for each in fleet if shard_of(each) == shard}
    started = {job.id: job.started_at for job in jobs if job.status == "running" and job.runner_id in mine}
    started |= {each.job_id: each.job_started_at for each in fleet if shard_of(each) == shard and each.job_id}
    started |= {job.id: job.started_at for job in jobs if job.status == "running" and job.runner_id in mine}
    return {job for job, at in started.items() if since <= at <= NOW + 120}


def since(sources):
    reported = [each.reported_at for each in sources.deploys if each.role is Role.ACTIVE]
    return max(NOW - 600, reported[-1]) if reported and reported[-1] <= NOW else NOW - 600


def claims(fleet, jobs, sources):
    """The active shard by each source; by GitHub from all assigned jobs, canaries or not."""
    text = set()
    if sources.configured and sources.answer and sources.answer.shard and abs(NOW - sources.answer.at) <= 300:
        text.add(sources.answer.shard.lower())
    text |= set([each.shard for each in sources.deploys if each.role is Role.ACTIVE][-1:])
    at_work = {shard for shard in ("pink", "purple", "green") if jobs_of(fleet, jobs, shard, since(sources))}
    return text, at_work if len(at_work) == 1 else set()


def good(fleet, shard, version):
    return [
        each
        for each in fleet
        if shard_of(each) == shard
        and each.online
        and each.registered
        and each.retired_at is None
        and each.listed
        and each.confirmed_at is None
        and not (each.ephemeral and each.job_ended_at)
        and version in (None, each.version)
    ]


@settings(max_examples=EXAMPLES)
@given(FLEETS, JOBS, QUESTIONS, SOURCES, SURVEYS, DEATHS)
def test_a_shard_named_active_by_any_source_is_never_torn_down(fleet, jobs, question, sources, seen, deaths):
    answer = gate(fleet, question, sources, survey=seen, deaths=deaths, jobs=jobs)
    reported, github = claims(fleet, jobs, sources)
    denied = {each.shard for each in sources.deploys if each.role is Role.INACTIVE}
    own = question.shard.lower()
    if len(reported) > 1 or reported & denied or (not question.canary and len(reported | github) > 1):
        assert (answer.passed, answer.role, steps(answer)) == (False, Role.UNKNOWN, [STOP])
    for step in answer.next:
        if not step.changes or step.level is StepLevel.BREAK_GLASS:
            continue
        assert seen.failing_since is None
        assert step.changes not in reported
        assert step.changes not in github or (question.canary and step.changes == own)
        if step.level is StepLevel.CLEAN_UP and not answer.passed:
            event("cleans up")
            assert step.changes == own
            assert step.changes not in github
            assert not jobs_of(fleet, jobs, own, since(sources)), "a shard that takes jobs is not torn down"
            seen_of = {shard_of(each) for each in fleet} | {each.runner_name.split("-")[0] for each in deaths or ()}
            assert answer.active in seen_of, "somebody is known to be, or to have died, on the active one"
        if step.level is StepLevel.CLEAN_UP and answer.passed:
            event("tidies")
            assert answer.active
            assert step.changes not in (own, answer.active)


@settings(max_examples=EXAMPLES)
@given(FLEETS, JOBS, QUESTIONS, SOURCES | AGREED, SURVEYS, DEATHS)
def test_a_passing_gate_meets_every_condition(fleet, jobs, question, sources, seen, deaths):
    fleet = [*fleet, on("pink", online(version="2.336.0"), 7), on("green", online(), 8)._replace(id=8)]
    answer = gate(fleet, question, sources, survey=seen, deaths=deaths, jobs=jobs)
    if not answer.passed:
        assert answer.next
        return
    event("passes")
    own = question.shard.lower()
    deploy = next((each for each in sources.deploys if each.shard == own), None)
    reported, github = claims(fleet, jobs, sources)
    assert seen.failing_since is None
    assert NOW - 300 <= seen.swept_at <= NOW + 120
    assert deploy is None or deploy.first_reported_at <= seen.swept_at
    assert answer.role is not Role.UNKNOWN
    assert len(reported) <= 1
    assert question.canary or len(reported | github) <= 1
    assert len(good(fleet, own, None)) >= question.min_online
    assert len(good(fleet, own, question.version)) >= question.min_online
    if deaths is not None:
        mine = [each for each in deaths if own == "pink" and each.cause not in HARMLESS]
        assert len(mine) < 3
    if question.canary:
        ended = [each for each in fleet if shard_of(each) == own and each.job_ended_at is not None]
        assert any(each.job_started_at >= deploy.deployed_at for each in ended)
