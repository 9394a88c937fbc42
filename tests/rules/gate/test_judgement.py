"""Whether a shard may take over."""

from __future__ import annotations

import pytest

from ghapp.deaths.cause import Cause
from ghapp.gate.active_shard import Role
from ghapp.gate.judgement import ActiveShardSources, GateRequest, failing_text, shard_roles
from ghapp.gate.shard_status import LOOP_SECONDS, ShardInputs
from ghapp.report.documents import gate_document
from ghapp.runners.next_attempt import BLINDNESS
from ghapp.runners.observations import OVERTAKING_SECONDS
from ghapp.wording import clock_time
from ghapp.workflow_jobs.job import Job
from tests.rules.builders import MICROSECOND, NOW, lost, online, present, survey
from tests.rules.gate.builders import (
    DEPLOYED_AT,
    PURPLE_IS_ACTIVE,
    RULE,
    at_work,
    check,
    death,
    deploy,
    done,
    gate,
    on,
    pink,
    steps,
    waits,
)


def test_a_clean_rollout_passes_and_has_a_next_step():
    answer = gate([*pink(3), *at_work()], GateRequest("Pink", min_online=3))
    assert answer.passed
    assert gate_document(answer) == {
        "pool": "linux",
        "shard": "Pink",
        "passed": True,
        "role": "inactive",
        "checks": [
            {
                "name": "users",
                "passed": True,
                "text": "the active shard purple has taken 14 jobs in the last 10 minutes; no outage",
            },
            {"name": "github", "passed": True, "text": "the last complete list is 0 s old"},
            {
                "name": "role",
                "passed": True,
                "text": "inactive: GitHub assigned 14 jobs to purple lately; "
                "the last deploy says that purple is active and pink is inactive",
            },
            {"name": "since-deploy", "passed": True, "text": "the runners have been listed since the deploy of v42"},
            {"name": "online", "passed": True, "text": "3 runners of pink online, 3 needed"},
            {"name": "one-shard", "passed": True, "text": "purple has taken 14 jobs in the last 10 minutes"},
            {
                "name": "running-jobs",
                "passed": True,
                "text": "purple, which is active, runs 14 jobs: 101, 102, 103, 104, 105 and 9 more",
            },
        ],
        "next": [
            {
                "step": "make pink active in place of purple",
                "why": "it passes. Run the gate again once it is active: then it lists what is left to clean up",
            }
        ],
        "check_url": None,
    }


@pytest.mark.parametrize(
    ("runners", "sources", "roles"),
    [
        ([*pink(1), *at_work()], PURPLE_IS_ACTIVE, {"pink": Role.INACTIVE, "purple": Role.ACTIVE}),
        ([*pink(1), *at_work()], ActiveShardSources(), {"pink": Role.INACTIVE, "purple": Role.ACTIVE}),
        ([*at_work("pink"), *at_work()], ActiveShardSources(), {"pink": Role.UNKNOWN, "purple": Role.UNKNOWN}),
        (at_work("pink"), PURPLE_IS_ACTIVE, {"pink": Role.UNKNOWN}),
        ([], PURPLE_IS_ACTIVE, {}),
    ],
    ids=["deploys and jobs", "jobs alone", "both take jobs", "the sources disagree", "no runner"],
)
def test_the_role_of_each_shard_is_that_of_its_gate(runners, sources, roles):
    assert shard_roles(ShardInputs(RULE, [RULE], runners, survey()), sources, NOW) == roles


@pytest.mark.parametrize(
    ("least", "text"), [(3, ""), (4, "3 runners of pink online, 4 needed")], ids=["it passes", "too few are online"]
)
def test_the_first_check_that_fails_says_why(least, text):
    known = ShardInputs(RULE, [RULE], [*pink(3), *at_work()], survey())
    assert failing_text(GateRequest("pink", least), known, PURPLE_IS_ACTIVE, NOW) == text


@pytest.mark.parametrize(("least", "passed"), [(1, True), (3, True), (4, False)])
def test_the_gate_requires_the_given_number_of_online_runners(least, passed):
    assert gate([*pink(3), *at_work()], GateRequest("pink", least)).passed is passed


@pytest.mark.parametrize(
    ("runner", "good"),
    [
        (online(), True),
        (online(busy=True), True),
        (online(ephemeral=True), True),
        (online(registered=False), False),
        (present(offline_since=NOW - 3600), False),
        (present(offline_since=NOW - 1), False),
        (present(busy=True, offline_since=NOW - 1), False),
        (lost(), False),
        (lost(confirmed_at=None), False),
        (online(retired_at=NOW), False),
        (online(ephemeral=True, job_id=1, job_ended_at=NOW - 1), False),
        (online(listed=False, observed_at=NOW - 301), False),
        (online(custom_labels=("gpu",), labels=("gpu", "shard:pink")), False),
    ],
    ids=[
        "online",
        "busy",
        "ephemeral",
        "known by deliveries alone",
        "offline",
        "offline for a moment",
        "listed busy and offline",
        "invalidated",
        "suspect",
        "removed by its controller",
        "its only job is over",
        "not seen for too long",
        "in another pool",
    ],
)
def test_a_runner_counts_if_it_is_registered_online_and_can_take_a_job(runner, good):
    of_pink = runner if "gpu" in runner.labels else on("pink", runner)
    answer = gate([of_pink, *at_work()])
    assert check(answer, "online").passed is good
    assert answer.passed is good


@pytest.mark.parametrize(
    ("versions", "passed", "text"),
    [
        (("2.336.0", "2.336.0"), True, "2 of 2 online have version 2.336.0, 2 needed"),
        (("2.336.0", "2.335.1"), False, "1 of 2 online have version 2.336.0, 2 needed; others: 2.335.1"),
        ((None, "2.336.0"), False, "1 of 2 online have version 2.336.0, 2 needed; others: unknown"),
        (("2.336.0", "2.336.0", "2.335.1"), True, "2 of 3 online"),
    ],
    ids=["all", "one is older", "one is unknown", "enough"],
)
def test_the_required_number_of_runners_must_have_the_expected_version(versions, passed, text):
    runners = [on("pink", online(version=version), number) for number, version in enumerate(versions)]
    answer = gate([*runners, *at_work()], GateRequest("pink", 2, version="2.336.0"))
    assert check(answer, "version").text.startswith(text)
    assert answer.passed is passed


@pytest.mark.parametrize(
    ("deaths", "online_now", "passed"),
    [
        (None, 3, True),
        ([death(n) for n in range(2)], 3, True),
        ([death(n) for n in range(3)], 3, False),
        ([death(n, Cause.CLEAN_EXIT) for n in range(9)], 3, True),
        ([death(n, Cause.TERMINATED) for n in range(9)], 3, True),
        ([death(n, at=NOW - LOOP_SECONDS) for n in range(3)], 3, False),
        ([death(n, at=NOW - LOOP_SECONDS - MICROSECOND) for n in range(3)], 3, True),
        ([death(n, name="purple") for n in range(3)], 3, True),
        ([death(n) for n in range(100, 103)], 3, False),
        ([death(n) for n in range(3)], 31, True),
        ([death(n) for n in range(4)], 31, False),
    ],
    ids=[
        "no cluster",
        "two",
        "three",
        "clean exits",
        "terminated",
        "just recent",
        "just over",
        "of the other shard",
        "of runners never listed",
        "few of many",
        "a tenth of many",
    ],
)
def test_a_shard_whose_runners_die_in_a_loop_fails(deaths, online_now, passed):
    answer = gate([*pink(online_now), *at_work()], deaths=deaths)
    assert answer.passed is passed
    assert any(each.name == "deaths" for each in answer.checks) is (deaths is not None)


def test_the_next_step_after_a_death_loop_is_to_find_the_cause():
    answer = gate([*pink(3), *at_work()], deaths=[death(1), death(2), death(3, Cause.CRASH)])
    assert steps(answer)[0] == "find out why runners of pink die: `ghapp explain`"
    assert answer.next[0].why.startswith("2 host-oom, 1 crash; Give it more memory. Until that")


YOUNG = on("pink", online(first_seen=DEPLOYED_AT), 31)
OLD = on("pink", online(first_seen=DEPLOYED_AT - 900), 32)


def ended(runner, started_at=DEPLOYED_AT, conclusion="success"):
    over = Job(900, "over", ("linux",), "acme/api", NOW - 600, runner_id=runner.id, started_at=started_at)
    return over._replace(conclusion=conclusion, ended_at=NOW - 60)


@pytest.mark.parametrize(
    ("runners", "jobs", "passed"),
    [
        ([OLD], [ended(OLD)], True),
        ([OLD], [ended(OLD, DEPLOYED_AT - MICROSECOND)], False),
        ([OLD], [ended(OLD, None)], False),
        ([OLD], [ended(OLD, conclusion="failure")], False),
        ([OLD], [ended(OLD, conclusion="cancelled")], False),
        ([OLD], [], False),
        ([OLD, YOUNG], [ended(OLD)], False),
        ([OLD, YOUNG], [ended(OLD), ended(YOUNG)], True),
        ([on("pink", lost(ephemeral=True, first_seen=DEPLOYED_AT), 31)], [ended(YOUNG)], True),
        ([YOUNG._replace(labels=(), custom_labels=())], [ended(YOUNG)], False),
        ([on("pink", lost(first_seen=DEPLOYED_AT), 31)], [ended(YOUNG)], False),
        ([OLD._replace(ephemeral=True)], [ended(OLD)], False),
        ([YOUNG._replace(ephemeral=True)], [ended(YOUNG)], True),
    ],
    ids=[
        "since the deploy",
        "started before the deploy",
        "start unknown",
        "failed, as when its runner was lost",
        "cancelled",
        "no job",
        "on a runner from before a deploy that brought new ones",
        "on a new runner",
        "of a deleted ephemeral runner",
        "on another pool's runner",
        "of a runner that was lost since",
        "on an ephemeral runner from before the deploy, while the new ones start",
        "on a new ephemeral runner",
    ],
)
def test_a_canary_is_a_job_taken_since_the_deploy_and_completed_with_success(runners, jobs, passed):
    answer = gate([*pink(2), *runners, *at_work(first=50)], GateRequest("pink", canary=True), ended=jobs)
    assert check(answer, "canary").passed is passed


def test_an_ephemeral_runner_at_work_can_take_no_other_job():
    busy = [each._replace(ephemeral=True, busy=True) for each in pink(3)]
    assert check(gate([*busy, *at_work()]), "online").text == (
        "0 of 3 runners of pink online, 1 needed; 3 online and at their only job"
    )
    free = [each._replace(ephemeral=True) for each in pink(3)]
    assert check(gate([*free, *at_work()]), "online").passed


def test_runners_that_come_are_counted_apart_from_those_that_other_pages_call_healthy():
    starting = on("pink", present(first_seen=NOW - 5, was_online=False, offline_since=NOW - 5), 7)
    moments_ago = on("pink", present(offline_since=NOW - 10), 8)
    answer = gate([*pink(1), starting, moments_ago, *at_work()], GateRequest("pink", 3))
    assert check(answer, "online").text == (
        "1 of 3 runners of pink online, 3 needed; starting: pink-7; "
        "offline for less than 300 s, which other pages still count as healthy: pink-8"
    )
    assert steps(answer)[0] == f"wait until {clock_time(NOW - 10 + 300)} for pink-7, pink-8 of pink"


def test_no_deploy_is_spoken_of_that_was_not_reported():
    answer = gate([*pink(1), *at_work()], GateRequest("purple"), ActiveShardSources())
    texts = [each.text for each in answer.checks] + [each.why for each in answer.next]
    assert answer.passed
    assert not [text for text in texts if "last deploy" in text or "was deployed" in text]
    assert "no deploy was reported that would name it" in check(answer, "role").text


@pytest.mark.parametrize(
    ("reason", "cause", "is_loop"),
    [
        ("Evicted", Cause.TERMINATED, True),
        ("StorageLimitExceeded", Cause.TERMINATED, True),
        ("PreemptionByScheduler", Cause.TERMINATED, True),
        ("EvictionByEvictionAPI", Cause.TERMINATED, False),
        ("Error", Cause.TERMINATED, False),
        ("CompletedSilently", Cause.CLEAN_EXIT, True),
        ("Completed", Cause.CLEAN_EXIT, False),
    ],
)
def test_a_loop_of_evictions_or_of_silent_ends_is_a_loop(reason, cause, is_loop):
    several = [death(each, cause)._replace(reason=reason) for each in (1, 2, 3)]
    assert check(gate([*pink(3), *at_work()], deaths=several), "deaths").passed is not is_loop


def test_silent_ends_of_runners_that_had_jobs_or_where_no_jobs_are_known_are_no_loop():
    silent = [death(each, Cause.CLEAN_EXIT)._replace(reason="CompletedSilently") for each in (1, 2, 3)]
    worked = [each._replace(job_id=each.id) for each in pink(3)]
    assert check(gate([*worked, *at_work()], deaths=silent), "deaths").passed
    unknown = [each._replace(job_id=None, job_started_at=None) for each in (*pink(3), *at_work())]
    assert check(gate(unknown, deaths=silent), "deaths").passed


@pytest.mark.parametrize(("ends", "is_loop"), [(3, False), (4, True)])
def test_the_last_job_of_a_runner_explains_one_silent_end_of_its_registration(ends, is_loop):
    worked = on("pink", online(job_id=9, job_started_at=NOW - 90_000, job_ended_at=NOW - 89_000), 1)
    silent = [death(1, Cause.CLEAN_EXIT, NOW - 500 + 40 * each) for each in range(ends)]
    deaths = [each._replace(reason="CompletedSilently") for each in reversed(silent)]
    assert check(gate([worked, *pink(5)[2:], *at_work()], deaths=deaths), "deaths").passed is not is_loop


@pytest.mark.parametrize(
    ("runner_id", "first_seen", "is_pinks"),
    [(1, NOW - 50, True), (2, NOW - 50, False), (None, NOW - 50, True), (None, NOW - 900, False), (3, NOW - 50, False)],
    ids=["pink's", "purple's", "before purple's was seen", "the latest of the name", "neither"],
)
def test_a_death_counts_for_the_shard_of_its_own_runner_not_for_another_of_its_name(runner_id, first_seen, is_pinks):
    first = on("pink", online())._replace(name="vm-1", id=1)
    second = on("purple", online(first_seen=first_seen))._replace(name="vm-1", id=2)
    deaths = [death(1, at=NOW - 60 - each)._replace(runner_name="vm-1", runner_id=runner_id) for each in range(3)]
    answer = gate([first, second, *pink(5)[2:], *at_work(first=50)], deaths=deaths)
    assert check(answer, "deaths").passed is not is_pinks


def test_a_job_that_waits_for_an_approval_affects_no_user():
    waiting = waits(1, 3600)._replace(waiting=True)
    assert "waiting job" not in gate([*pink(3)], jobs=[waiting]).checks[0].text
    assert "1 waiting job" in gate([*pink(3)], jobs=[waits(1, 3600)]).checks[0].text


def test_a_job_that_waits_for_a_runner_group_is_not_known_to_wait_for_the_pool():
    assert "waiting job" not in gate([*pink(3)], jobs=[waits(1, 3600, labels=())]).checks[0].text


def test_without_a_deploy_there_is_no_canary_and_the_next_step_is_to_report_it():
    answer = gate(
        [*pink(3), *at_work()], GateRequest("pink", canary=True), ActiveShardSources((deploy("purple", "active"),))
    )
    assert check(answer, "canary").text == "no deploy of pink was reported"
    assert steps(answer)[0] == "report the deploy of pink"


def test_a_canary_on_a_quiet_fleet_does_not_make_its_shard_active():
    runners = [done("pink", 1, NOW - 90, NOW - 60), *pink(1), on("purple", online())]
    jobs = [ended(runners[0], NOW - 90)]
    assert gate(runners, GateRequest("pink", canary=True), ended=jobs).passed
    assert gate(runners).role is Role.UNKNOWN, "GitHub assigns jobs to pink, and the deploy names purple"


@pytest.mark.parametrize(
    ("first_reported_at", "passed"),
    [(0.0, True), (NOW - 5, True), (NOW - 5 + MICROSECOND, False), (NOW + 9999, False)],
    ids=["by an older release", "just before the list", "just after the list's start", "by a clock that jumped"],
)
def test_a_list_from_before_the_deploy_does_not_pass_the_gate(first_reported_at, passed):
    sources = ActiveShardSources(
        (deploy("purple", "active"), deploy("pink", "inactive", first_reported_at=first_reported_at))
    )
    answer = gate([*pink(3), *at_work()], sources=sources, survey=survey(swept_at=NOW - 5))
    assert answer.passed is passed
    if not passed:
        assert check(answer, "since-deploy").text == "the runners have not been listed since the deploy of pink"
        assert steps(answer) == ["wait for the next list of runners, then run the gate again"]
        assert [each.changes for each in answer.next] == [""]
        assert "no outage" in answer.checks[0].text, "the other shards are described sufficiently"


def test_the_deploy_of_another_shard_delays_nothing():
    sources = ActiveShardSources((deploy("purple", "active", first_reported_at=NOW + 1), deploy("pink", "inactive")))
    assert gate([*pink(3), *at_work()], sources=sources).passed


# GitHub does not answer.


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (survey(failing_since=NOW - 1, failure="GitHubUnavailable"), "GitHubUnavailable"),
        (survey(failing_since=NOW - 1, failure="RateLimited"), "RateLimited"),
        (survey(swept_at=NOW - 300 - MICROSECOND), "ObservationStale"),
        (survey(swept_at=None), "ObservationStale"),
        (survey(swept_at=NOW + OVERTAKING_SECONDS + 1), "ObservationStale"),
    ],
    ids=["unavailable", "rate limited", "stale", "never swept", "from a clock that jumped"],
)
def test_while_github_does_not_answer_the_gate_fails_and_no_step_changes_anything(seen, reason):
    answer = gate([*pink(3), *at_work()], survey=seen)
    assert not answer.passed
    assert check(answer, "github").text.startswith(f"{reason}: ")
    assert steps(answer) == ["wait until GitHub answers, then run the gate again"]
    assert [each.changes for each in answer.next] == [""]
    assert answer.checks[0].text.startswith(f"the impact on users is unknown: {reason}")


@pytest.mark.parametrize("failure", ["PermissionMissing", "InstallationSuspended"])
def test_where_only_an_owner_can_help_the_gate_does_not_advise_to_wait(failure):
    answer = gate([*pink(3), *at_work()], survey=survey(failing_since=NOW - 1, failure=failure))
    assert not answer.passed
    assert steps(answer) == [
        "have an owner of the organization let ghapp read the runners again, then run the gate again"
    ]
    assert BLINDNESS[failure].fix in answer.next[0].why
    assert [each.changes for each in answer.next] == [""]


def test_a_list_is_fresh_until_stale_seconds():
    assert gate([*pink(3), *at_work()], survey=survey(swept_at=NOW - 300)).passed
