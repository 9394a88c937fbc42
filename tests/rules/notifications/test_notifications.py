"""When people are notified: once when a condition opens, once when it closes, and never in a storm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.gate.gate_checks import GateCheck, ended_undecided
from ghapp.gate.gate_states import gate_states
from ghapp.notifications.conditions import (
    BLIND_SECONDS,
    HOUR,
    MOST_AN_HOUR,
    MOST_ENDING,
    MOST_LABELS,
    MOST_UNSERVED,
    SETTLE_SECONDS,
    Change,
    Condition,
    Topic,
    blind_conditions,
    fuse_conditions,
    gate_conditions,
    moot_conditions,
    observe,
    undecided_gates,
    unserved_conditions,
    unserved_subject,
    version_conditions,
)
from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.versions.counts import PoolVersion
from ghapp.versions.lifetime import DAY, EndDates, VersionLimits, judge_versions
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.runner_groups import RunnerGroup, RunnerGroups
from tests.rules.builders import MICROSECOND, NOW, survey
from tests.rules.gate.builders import Rule
from tests.rules.workflow_jobs.builders import POOL, missing, queue
from tests.rules.workflow_jobs.builders import job as a_job

TRIPPED = Condition(Topic.FUSE, "linux", "proving", NOW, 40, "MassLoss")
STOPPED = TRIPPED._replace(level="stopped", affected=37, detail="BatchNeverOnline")


class People:
    """The recipients of notifications, and the record of what they got."""

    def __init__(self):
        self.known, self.got = {}, []

    def observe(self, *conditions, at=NOW, unknown=(), topics=tuple(Topic), moot=()):
        records, changes = observe(self.known, conditions, at, unknown, topics, moot)
        self.known = {k: v for k, v in {**self.known, **records}.items() if v is not None}
        self.got += changes
        return [(each.before, each.level) for each in changes]


@pytest.fixture
def people():
    return People()


def test_a_condition_that_holds_is_notified_once(people):
    assert people.observe(TRIPPED) == [("", "proving")]
    assert people.observe(TRIPPED, at=NOW + 15) == people.observe(TRIPPED, at=NOW + 9000) == []


def test_another_level_is_another_notification_of_the_same_condition(people):
    people.observe(TRIPPED)
    assert people.observe(STOPPED, at=NOW + 600) == [("proving", "stopped")]
    assert people.got[-1] == Change(Topic.FUSE, "linux", "stopped", "proving", NOW, NOW + 600, 37, "BatchNeverOnline")


@pytest.mark.parametrize(("for_seconds", "sent"), [(SETTLE_SECONDS, 1), (SETTLE_SECONDS - MICROSECOND, 0)])
def test_the_end_of_a_condition_is_notified_once_it_lasts(people, for_seconds, sent):
    people.observe(TRIPPED)
    people.observe(at=NOW + 600)
    assert len(people.observe(at=NOW + 600 + for_seconds)) == sent
    if sent:
        assert people.got[-1] == Change(Topic.FUSE, "linux", "", "proving", NOW, NOW + 600, 40, "MassLoss")


def test_a_condition_that_flaps_is_one_condition(people):
    people.observe(TRIPPED)
    for at in range(30, 3000, 30):
        assert people.observe(*([TRIPPED] if at % 60 else []), at=NOW + at) == []


def test_a_condition_is_notified_a_limited_number_of_times_per_hour_and_then_its_state(people):
    levels = ["proving", "stopped"] * MOST_AN_HOUR
    sent = [people.observe(TRIPPED._replace(level=level), at=NOW + n) for n, level in enumerate(levels)]
    assert [len(each) for each in sent] == [1] * MOST_AN_HOUR + [0] * MOST_AN_HOUR
    other = TRIPPED._replace(subject="gpu")
    assert people.observe(other, STOPPED._replace(level="proving"), at=NOW + 60) == [("", "proving")]
    assert people.observe(other, TRIPPED, at=NOW + HOUR - MICROSECOND) == []
    assert people.observe(other, TRIPPED, at=NOW + HOUR) == [("stopped", "proving")]


def test_a_condition_that_opened_and_closed_beyond_the_limit_is_not_notified_later(people):
    for n in range(MOST_AN_HOUR):
        people.observe(TRIPPED._replace(level=str(n)), at=NOW + n)
    people.observe(at=NOW + 100)
    people.observe(TRIPPED._replace(level=str(MOST_AN_HOUR - 1)), at=NOW + 200)
    assert people.observe(TRIPPED._replace(level=str(MOST_AN_HOUR - 1)), at=NOW + 2 * HOUR) == []


def test_an_unknown_condition_neither_opens_nor_closes(people):
    unserved = Condition(Topic.UNSERVED, "", "open", NOW, 2)
    assert people.observe(unserved, unknown=[Topic.UNSERVED]) == []
    people.observe(unserved)
    for at in (100, 1000):
        assert people.observe(at=NOW + at, unknown=[Topic.UNSERVED]) == []
    assert people.known[unserved.key].level == "open"


def test_a_record_is_kept_for_the_limit_of_an_hour_and_then_deleted(people):
    people.observe(TRIPPED)
    people.observe(at=NOW + 10)
    people.observe(at=NOW + 100)
    people.observe(at=NOW + 100 + HOUR - MICROSECOND)
    assert list(people.known) == [TRIPPED.key]
    people.observe(at=NOW + 100 + HOUR)
    assert people.known == {}


def test_an_end_dated_in_the_future_restarts_its_settling_time(people):
    people.observe(TRIPPED)
    people.observe(at=NOW + 10_000)
    assert people.observe(at=NOW + 60) == people.observe(at=NOW + 60 + SETTLE_SECONDS - 1) == []
    assert people.observe(at=NOW + 60 + SETTLE_SECONDS) == [("proving", "")]


levels = st.sampled_from(["", "proving", "stopped"])


@given(st.lists(st.tuples(st.integers(1, 400), levels), max_size=60))
def test_after_any_steps_the_last_notification_has_the_final_state_within_the_limit(steps):
    people, at = People(), NOW
    for seconds, level in steps:
        at += seconds
        people.observe(*([TRIPPED._replace(level=level)] if level else []), at=at)
    last = steps[-1][1] if steps else ""
    for _ in range(3):  # the state stays for hours
        at += 2 * HOUR
        people.observe(*([TRIPPED._replace(level=last)] if last else []), at=at)
    assert (people.got[-1].level if people.got else "") == last
    assert [each.before for each in people.got] == ["", *(each.level for each in people.got)][: len(people.got)]


def test_a_fuse_that_is_not_closed_is_a_condition():
    fuses = {
        "linux": Fuse(Position.PROVING, since=NOW, reason=FuseReason.MASS_LOSS),
        "*": Fuse(Position.STOPPED, since=NOW, reason=FuseReason.BATCH_NEVER_ONLINE),
        "gpu": Fuse(closed_at=NOW, reason=FuseReason.HEALED),
    }
    assert fuse_conditions(fuses, {"linux": 40}) == [
        TRIPPED,
        Condition(Topic.FUSE, "*", "stopped", NOW, 0, "BatchNeverOnline"),
    ]


@pytest.mark.parametrize(("age", "count"), [(BLIND_SECONDS, 0), (BLIND_SECONDS + MICROSECOND, 1)])
def test_without_a_complete_list_for_five_minutes_an_installation_is_blind(age, count):
    last = survey(swept_at=NOW - age, failing_since=NOW - 60, failure="RateLimited")
    found = blind_conditions(last, "", NOW)
    assert found == [Condition(Topic.BLIND, "", "open", NOW - age, 0, "RateLimited")] * count


def test_an_installation_that_never_had_a_complete_list_is_blind_since_its_first_sweep_failed():
    never = survey(swept_at=None, failing_since=NOW - 301, failure="Unauthorized")
    assert [each.since for each in blind_conditions(never, "", NOW)] == [NOW - 301]
    assert blind_conditions(survey(swept_at=None), "", NOW) == []


def test_the_reason_is_that_of_the_failing_sweeps():
    (found,) = blind_conditions(survey(swept_at=NOW - 301), "SweepOverdue", NOW)
    assert found.detail == "SweepOverdue"


def test_a_topic_that_is_switched_off_is_silent_and_begins_again_when_it_is_switched_on(people):
    people.observe(STOPPED)
    for at in (60, 7200):
        assert people.observe(STOPPED, at=NOW + at, topics=[Topic.GATE]) == []
    assert people.known == {}
    assert people.observe(STOPPED, at=NOW + 7260) == [("", "stopped")]


def waiting(count, *labels, first=0):
    return [Job(first + n, "queued", labels, "acme/api", NOW - 600 + first + n) for n in range(count)]


def test_jobs_that_no_runner_can_take_are_a_condition_for_each_pool_that_names_their_labels():
    jobs = [job for size in range(7) for job in waiting(3, "gpu", f"size-{size}", first=3 * size)]
    found, other = unserved_conditions(
        [*(("gpu", job) for job in jobs), *(("typo", job) for job in waiting(1, "typo"))]
    )
    assert found._replace(detail="") == Condition(Topic.UNSERVED, "gpu", "open", NOW - 600, 21)
    assert found.detail == "; ".join(f"gpu, size-{n}" for n in range(MOST_LABELS)) + "; …"
    assert (other.subject, other.affected, other.detail) == ("typo", 1, "typo")
    assert unserved_conditions([]) == []


def subjects(*jobs, **inputs):
    at = queue(jobs, [missing()], rules=[Rule(name=POOL, labels=(POOL,))], **inputs)
    return [unserved_subject(at, job, reason) for job, reason in at.unserved()]


def test_a_job_with_a_label_of_no_runner_waits_for_its_labels_and_not_for_the_pool_that_they_match():
    plain, typo = a_job(1), a_job(2, labels=("self-hosted", POOL, "gpux"))
    assert subjects(plain, typo, a_job(3, labels=("self-hosted",))) == [POOL, f"gpux+{POOL}", POOL]
    assert subjects(a_job(4, labels=("typo",))) == ["typo"]
    unlabelled = queue([a_job(5, labels=("self-hosted",))], [])
    assert [unserved_subject(unlabelled, job, reason) for job, reason in unlabelled.unserved()] == ["default"]


def test_a_job_that_the_runner_groups_exclude_does_not_hide_the_pools_other_jobs():
    groups = RunnerGroups(NOW, (RunnerGroup(3, "prod", "selected", repositories=("acme/web",)),))
    at = queue([a_job(1), a_job(2, repository="acme/web")], [missing(group_id=3)], groups=groups)
    assert [unserved_subject(at, *each) for each in at.unserved()] == [f"{POOL} in acme/api", POOL]


def test_a_configured_pool_has_its_own_condition_however_many_label_sets_wait_longer(people):
    runs = [(f"run-{n}", job) for n in range(500) for job in waiting(1, f"run-{n}", first=n)]
    people.observe(*unserved_conditions(runs, [POOL]))
    dead = [(POOL, job) for job in waiting(300, POOL, first=1000)]
    assert people.observe(*unserved_conditions([*runs, *dead], [POOL]), at=NOW + 60) == [("", "open")]
    assert (people.got[-1].subject, people.got[-1].affected) == (POOL, 300)


def test_a_pool_that_dies_after_a_misspelt_label_is_news(people):
    typo = [("typo", job) for job in waiting(1, "typo")]
    assert people.observe(*unserved_conditions(typo)) == [("", "open")]
    dead = [("linux", job) for job in waiting(300, "linux")]
    assert people.observe(*unserved_conditions([*typo, *dead]), at=NOW + 60) == [("", "open")]
    assert (people.got[-1].subject, people.got[-1].affected) == ("linux", 300)


def test_any_number_of_labels_makes_a_limited_number_of_conditions():
    found = unserved_conditions((f"run-id={n}", job) for n in range(500) for job in waiting(1, f"run-id={n}", first=n))
    assert len(found) == MOST_UNSERVED + 1
    assert (found[-1].subject, found[-1].affected) == ("", 500 - MOST_UNSERVED)


def test_a_fuse_that_moved_with_its_renamed_pool_is_not_reported_as_closed(people):
    def seen(fuses, at):
        return people.observe(*fuse_conditions(fuses, {}), at=NOW + at, moot=moot_conditions(people.known, fuses, {}))

    stopped = Fuse(Position.STOPPED, since=NOW, reason=FuseReason.BATCH_NEVER_ONLINE)
    assert seen({"old": stopped}, 0) == [("", "stopped")]
    renamed = {"old": Fuse(closed_at=NOW, reason=FuseReason.POOL_CHANGED), "new": stopped}
    assert seen(renamed, 60) == [("", "stopped")]
    assert [seen(renamed, at) for at in (120, 200)] == [[], []]
    healed = renamed | {"new": Fuse(closed_at=NOW + 300, reason=FuseReason.HEALED)}
    assert [seen(healed, at) for at in (300, 400)] == [[], [("stopped", "")]]
    assert [each.subject for each in people.got] == ["old", "new", "new"]


def test_a_failed_gate_whose_record_expired_is_not_reported_as_over(people):
    people.observe(*gate_conditions(gates(pink=FAILED_GATE)))
    for at in (60, 200):
        assert people.observe(at=NOW + at, moot=moot_conditions(people.known, {}, {})) == []
    assert people.known == {}


FAILED_GATE = GateCheck("sha", NOW, "acme/infra", NOW, failed_at=NOW + 900, over=True)
BEGUN_GATE = GateCheck("next", NOW + 1000, "acme/infra", NOW + 1000)


def gates(**gate_checks):
    return gate_states({}, {f"linux/{shard}": each for shard, each in gate_checks.items()}, NOW)


def test_a_gate_check_that_failed_is_a_condition():
    assert gate_conditions(gates(pink=FAILED_GATE, blue=BEGUN_GATE)) == [
        Condition(Topic.GATE, "linux/pink", "open", NOW + 900, 0, "sha")
    ]


def test_a_gate_that_failed_no_longer_fails_when_the_next_deploy_has_passed_and_not_when_it_begins(people):
    def seen(check, at):
        known = gates(pink=check)
        return people.observe(*gate_conditions(known), at=NOW + at, unknown=undecided_gates(known))

    assert seen(FAILED_GATE, 900) == [("", "open")]
    unseen = BEGUN_GATE._replace(over=True)
    for at in (1000, 1100, 4000):
        assert seen(BEGUN_GATE, at) == seen(unseen, at) == []
    superseded = ended_undecided(BEGUN_GATE._replace(since=NOW + 3900, until=NOW + 3950))
    for at in (3950, 4100):
        assert seen(superseded, at) == []
    passed = BEGUN_GATE._replace(over=True, since=NOW + 4100)
    assert seen(passed, 4200) == []
    assert seen(passed, 4200 + SETTLE_SECONDS) == [("open", "")]


def test_each_version_that_ends_is_a_condition_with_its_urgency_as_its_level():
    counts = [PoolVersion("linux", f"2.{number}.0", 5, online=3) for number in (1, 2)]
    dates = {"2.1.0": EndDates(NOW, NOW - DAY, is_known=True), "2.2.0": EndDates(NOW, NOW + 8 * DAY, is_known=True)}
    statuses = judge_versions(counts, dates, VersionLimits(), NOW)
    assert version_conditions(statuses, NOW) == [
        Condition(Topic.VERSION, "2.1.0", "action", NOW - 15 * DAY, 3, "2026-09-20"),
        Condition(Topic.VERSION, "2.2.0", "notice", NOW - 6 * DAY, 3, "2026-09-29"),
    ]
    by_minimum = judge_versions(counts[:1], {}, VersionLimits("2.2.0"), NOW)
    assert version_conditions(by_minimum, NOW) == [Condition(Topic.VERSION, "2.1.0", "action", NOW, 3)]


def test_many_versions_that_end_are_no_storm():
    counts = [PoolVersion("linux", f"2.{number}.0", 1, online=1) for number in range(50)]
    statuses = judge_versions(counts, {}, VersionLimits("3.0"), NOW)
    assert [each.subject for each in version_conditions(statuses, NOW)] == [
        f"2.{each}.0" for each in range(MOST_ENDING)
    ]
