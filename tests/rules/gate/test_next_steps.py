"""The report of a failing shard: whether users are affected, and the next steps, cheapest and safest first."""

from __future__ import annotations

import pytest

from ghapp.gate import next_steps
from ghapp.gate.active_shard import ActiveShardAnswer, Role, ShardRole
from ghapp.gate.judgement import NOT_SHOWN, ActiveShardSources, GateRequest
from ghapp.gate.shard_status import WAITING_SECONDS, ShardStatus
from ghapp.gate.terraform_log import TerraformRun
from ghapp.wording import clock_time
from tests.rules.builders import MICROSECOND, NOW, lost, online, present
from tests.rules.gate.builders import DESTROYS, at_work, check, deploy, failed, gate, on, pink, steps, waits, why


def test_a_failing_inactive_shard_is_reported_as_no_outage_with_the_steps():
    answer = gate([on("pink", present()), *at_work()])
    assert not answer.passed
    assert answer.checks[0][:2] == ("users", True)
    assert answer.checks[0].text == "the active shard purple has taken 14 jobs in the last 10 minutes; no outage"
    assert check(answer, "online").text == "0 of 1 runner of pink online, 1 needed; unhealthy: pink-1"
    assert steps(answer) == [
        "check the agents of pink: pink-1",
        "provision pink again",
        "shut down pink and start it again",
        "delete unhealthy runners: pink-1",
        "taint the resources of pink and provision it again",
        "break glass",
    ]
    assert all("Warning: " in each.why for each in answer.next)


UNREPORTED = ActiveShardSources((deploy("purple", "active"),))


@pytest.mark.parametrize("provision", [None, TerraformRun(0, 0, 0)], ids=["no log", "provisioning changed nothing"])
@pytest.mark.parametrize("failures", [1, 3])
@pytest.mark.parametrize("canary", [False, True])
def test_no_step_destroys_anything_without_a_reported_deploy(provision, failures, canary):
    question = GateRequest("pink", provision=provision, failures=failures, canary=canary)
    answer = gate([on("pink", present()), *at_work()], question, UNREPORTED)
    assert not answer.passed
    assert not {each.level for each in answer.next} & DESTROYS
    assert steps(answer).count("report the deploy of pink") == 1


def test_provisioning_that_changed_nothing_is_not_repeated():
    answer = gate([on("pink", present()), *at_work()], GateRequest("pink", provision=TerraformRun(0, 0, 0)))
    assert "provision pink again" not in steps(answer)
    assert why(answer, "shut down pink and start it again").startswith(
        "provisioning again does not help unless something was changed since, which `--changed` names: its log says 0 ad"
    )


def test_provisioning_is_repeated_once_something_was_changed_since():
    question = GateRequest("pink", provision=TerraformRun(0, 0, 0), changed="raised the quota")
    answer = gate([on("pink", present()), *at_work()], question)
    assert why(answer, "provision pink again").startswith("changed since the failure: raised the quota; it adds what")
    assert not any("does not help" in each.why for each in answer.next)


def test_what_was_changed_since_is_named_with_the_provisioning_error():
    run = TerraformRun(errors=("no quota",))
    answer = gate(at_work(), GateRequest("pink", provision=run, changed="raised the quota"))
    assert why(answer, "fix the provisioning error").endswith("fails the same way. Changed since: raised the quota")


def test_the_risks_of_an_agent_started_by_hand_are_named_on_an_inactive_shard_alone():
    risk = (
        "An agent that is started on it by hand takes users' jobs beside purple, and stopping pink later kills the job"
    )
    answer = gate([on("pink", present()), *at_work()])
    warned = [each.step for each in answer.next if risk in each.why]
    assert warned == ["check the agents of pink: pink-1", "break glass"]
    assert not any("by hand takes" in each.why for each in gate([on("purple", present())], GateRequest("purple")).next)


@pytest.mark.parametrize(
    ("run", "passed", "text"),
    [
        (TerraformRun(2, 1, 0), True, "the last run added 2, changed 1 and destroyed 0 resources"),
        (
            TerraformRun(1, 0, 3),
            False,
            "the last run added 1, changed 0 and destroyed 3 resources; 2 resources more destroyed than added",
        ),
        (
            TerraformRun(4, 0, 0, (), 4),
            True,
            "the last run added 4, changed 0 and destroyed 0 resources; before it 4 resources had been destroyed, 4 of them added again",
        ),
        (
            TerraformRun(1, 0, 0, (), 4),
            False,
            "before it 4 resources had been destroyed, 1 of them added again; 3 resources more destroyed than added",
        ),
        (TerraformRun(errors=("no quota",)), False, "the last run ended with: no quota"),
    ],
)
def test_what_provisioning_added_and_changed_is_shown_beside_what_was_destroyed(run, passed, text):
    found = check(gate([*pink(3), *at_work()], GateRequest("pink", provision=run)), "provision")
    assert (found.passed, found.decides) == (passed, False)
    assert found.text.endswith(text)


def test_the_error_of_provisioning_is_not_shown_to_who_may_not_read_logs():
    question = GateRequest("pink", provision=TerraformRun(errors=("arn:aws:iam::123456789012",)))
    answer = gate([*at_work()], question, shows_logs=False)
    assert check(answer, "provision").text == f"the last run ended with: {NOT_SHOWN}"
    assert not any("arn:aws" in text for each in answer.next for text in each[:2])
    assert steps(answer)[0] == "fix the provisioning error"


def test_a_log_without_a_run_shows_nothing():
    answer = gate([*pink(3), *at_work()], GateRequest("pink", provision=TerraformRun()))
    assert "provision" not in {each.name for each in answer.checks}


def test_failed_provisioning_is_fixed_first():
    answer = gate(at_work(), GateRequest("pink", provision=TerraformRun(errors=("no quota",))))
    assert steps(answer)[:2] == ["fix the provisioning error", "provision pink again"]
    assert "it ended with: no quota." in answer.next[0].why


def test_starting_runners_are_waited_for_first():
    young = on("pink", present(first_seen=NOW - 10, was_online=False))
    wait = f"wait until {clock_time(NOW - 10 + 120)} for pink-1 of pink"
    assert steps(gate([young, *at_work()]))[:2] == [wait, "provision pink again"]


def test_the_answer_for_a_misspelt_shard_names_the_known_shards():
    answer = gate([*pink(1), *at_work()], GateRequest("pinc"))
    assert check(answer, "online").text.endswith("no runner of that shard is known, only of pink, purple")


def test_an_online_shard_without_a_canary_gets_one_before_anything_is_changed():
    answer = gate([*pink(3), *at_work()], GateRequest("pink", canary=True))
    assert failed(answer) == {"canary"}
    text = "no job was taken on pink since the deploy of v42 and completed with success within the last hour"
    assert check(answer, "canary").text == text
    assert steps(answer)[0] == "send a canary job to pink"


def test_the_active_shard_is_not_changed_below_break_glass():
    answer = gate([on("purple", present()), *pink(3)], GateRequest("purple"))
    assert answer.role is Role.ACTIVE
    assert steps(answer) == [
        "raise the alarm",
        "run the gate for pink",
        "check the agents of purple: purple-1",
        "break glass",
    ]


def test_two_failing_shards_are_an_outage_solved_by_the_inactive_shard():
    answer = gate([on("pink", present()), on("purple", present())])
    assert answer.checks[0][:3] == ("users", False, "the active shard purple has no runner online: an outage")
    assert steps(answer)[:3] == ["raise the alarm", "check the agents of pink: pink-1", "provision pink again"]


def test_in_an_outage_the_last_usable_runners_are_not_cleaned_up():
    answer = gate([*pink(1), on("purple", present())], GateRequest("pink", min_online=2, failures=3))
    assert "clean up pink and provision it again" not in steps(answer)


def test_a_healthy_shard_may_take_over_because_of_an_outage():
    answer = gate([*pink(3), on("purple", present())])
    assert answer.passed
    assert check(answer, "users").passed is False


IDLE, BUSY = on("purple", online()), on("purple", online(busy=True, job_id=1, job_started_at=NOW - 3600))


@pytest.mark.parametrize(
    ("runners", "jobs", "passed", "text"),
    [
        ([IDLE], [], True, "purple has 1 runner online, and no job waits; no outage"),
        ([IDLE], [waits(1, WAITING_SECONDS - MICROSECOND)], True, "no job waits; no outage"),
        (
            [IDLE],
            [waits(1, WAITING_SECONDS)],
            False,
            "purple has 1 idle runner online and takes no jobs; 1 waiting job",
        ),
        ([IDLE], [waits(1, 600), waits(2, 90)], False, "2 waiting jobs, the oldest for 10 minutes: users are affected"),
        ([IDLE], [waits(1, 600, ("gpu",))], True, "no job waits"),
        ([BUSY], [waits(1, 600)], True, "purple has 1 runner online, all busy; 1 waiting job"),
        ([BUSY], [waits(1, 86_401)], True, "no job waits"),
        (
            [],
            [waits(1, 600)],
            False,
            "the oldest for 10 minutes: an outage, or the name is wrong",
        ),
        (
            [on("purple", present())],
            [waits(1, 600)],
            False,
            "purple has no runner online; 1 waiting job, the oldest for 10 minutes: an outage",
        ),
        ([IDLE], [waits(1, 600, ("linux-4vcpu", "shard:pink"))], True, "no job waits; no outage"),
        ([IDLE], [waits(1, 600, ("linux-4vcpu", "Shard:PURPLE"))], False, "users are affected"),
        ([IDLE, *at_work(count=1, ago=500, first=2)], [waits(1, 499)], False, "takes no jobs; 1 waiting job"),
        ([IDLE, *at_work(count=1, ago=500, first=2)], [waits(1, 500)], True, "has taken 1 job in the last 10 minutes"),
        ([*at_work(count=1, ago=500, first=2)], [waits(1, 499)], True, "has taken 1 job in the last 10 minutes"),
        (
            [on("purple", present(job_id=1, job_started_at=NOW - 90, job_ended_at=NOW - 9), 2)],
            [],
            False,
            "purple has no runner online; it took 1 job in the last 10 minutes: an outage",
        ),
    ],
    ids=[
        "idle",
        "a job not yet waiting",
        "a waiting job",
        "two waiting jobs",
        "a job of another pool",
        "all busy",
        "a job that must be over",
        "none known",
        "none online",
        "a canary for the other shard waits",
        "a job for this shard waits",
        "took a job before another began to wait",
        "took a job since",
        "took a job, and is busy",
        "died just now",
    ],
)
def test_users_are_affected_if_the_active_shard_does_not_take_waiting_jobs(runners, jobs, passed, text):
    # GitHub names no active shard: the dead runner took purple's last job, and a deploy was reported as active
    answer = gate([*pink(1), *runners], jobs=jobs)
    assert text in answer.checks[0].text
    assert answer.checks[0].passed is passed


def test_runners_offline_for_a_moment_are_waited_for_first():
    answer = gate([on("pink", present(offline_since=NOW - 1)), *at_work()])
    assert steps(answer)[0] == f"wait until {clock_time(NOW - 1 + 300)} for pink-1 of pink"


@pytest.mark.parametrize(
    ("runner", "named"),
    [
        (present(), True),
        (lost(), True),
        (lost(confirmed_at=None), True),
        (lost(removed_at=NOW), False),
        (present(job_id=5, job_started_at=NOW - 7200), False),
        (present(offline_since=NOW - 1), False),
        (lost(retired_at=NOW), False),
    ],
    ids=["offline", "lost", "suspect", "removed already", "offline, with a job", "offline for a moment", "retired"],
)
def test_only_unused_objects_are_deleted(runner, named):
    answer = gate([on("pink", runner), *at_work()])
    assert ("delete unhealthy runners: pink-1" in steps(answer)) is named


def test_no_shard_is_cleaned_up_while_no_source_names_the_active_one():
    answer = gate([*pink(3), on("purple", online())], sources=ActiveShardSources((deploy("pink", "inactive"),)))
    assert answer.passed
    assert steps(answer) == ["make pink active"]


@pytest.mark.parametrize(("days", "running"), [(5, True), (6, False)])
def test_a_job_older_than_the_longest_job_does_not_count_as_running(days, running):
    old = on("pink", online(job_id=5, job_started_at=NOW - days * 86_400))
    assert check(gate([old, *at_work()]), "running-jobs").passed is not running


CLEAN_UP = "clean up pink and provision it again"


@pytest.mark.parametrize(("role", "cleaned"), [(Role.INACTIVE, True), (Role.UNKNOWN, False)])
def test_a_shard_is_cleaned_up_only_if_it_is_known_to_be_inactive(role, cleaned):
    ruling = ShardRole(role, "purple", disagree=False, text="")
    known = {"purple": ShardStatus("purple")}
    trouble = next_steps.GateFailure(
        "pink", ruling, {"online"}, known, next_steps.UserImpact(hurt=False, text=""), NOW, failures=3
    )
    assert (CLEAN_UP in [each.step for each in next_steps.next_steps(trouble)]) is cleaned


def test_a_shard_without_runners_is_not_cleaned_up():
    sources = ActiveShardSources(
        (), "active_command", ActiveShardAnswer("None", "", NOW)
    )  # `aws --output text` prints this for no value
    answer = gate([on("pink", present()), *at_work("purple", 2, ago=3600)], GateRequest("pink", failures=3), sources)
    assert (answer.role, answer.active) == (Role.INACTIVE, "none")
    assert CLEAN_UP not in steps(answer)
    assert "no runner of the active shard none is known, only of pink, purple" in answer.checks[0].text


@pytest.mark.parametrize(("ago", "cleaned"), [(600.0, False), (600.0 + MICROSECOND, True)])
def test_a_shard_that_takes_jobs_is_not_torn_down_in_any_role(ago, cleaned):
    """GitHub assigns jobs to both shards and so names none; the source that names purple may be wrong."""
    for canary in (False, True):
        runners = [*at_work("pink", 1, ago=ago), *at_work("purple", 3)]
        answer = gate(runners, GateRequest("pink", min_online=9, canary=canary, failures=3))
        assert (CLEAN_UP in steps(answer)) is cleaned
        assert ("find out why pink takes jobs" in steps(answer)) is not cleaned


def test_the_shard_in_use_is_not_torn_down_because_of_a_canary():
    wrong = ActiveShardSources((), "active_url", ActiveShardAnswer("pink", "", NOW))
    answer = gate([*pink(1), *at_work("purple", 6)], GateRequest("purple", 9, canary=True), wrong)
    assert (answer.role, steps(answer)) == (Role.UNKNOWN, ["stop"]), "too many jobs to be canaries"
    answer = gate([*pink(1), *at_work("purple", 5)], GateRequest("purple", 9, canary=True), wrong)
    assert answer.role is Role.INACTIVE
    assert not any("clean up" in step or "machines" in step for step in steps(answer))


def test_in_an_outage_the_last_machines_in_use_are_not_replaced():
    futile = GateRequest("pink", min_online=2, provision=TerraformRun(0, 0, 0), failures=3)
    assert "delete unhealthy runners: the machines of pink" in steps(gate([*pink(1), *at_work()], futile))
    assert steps(gate([*pink(1), on("purple", present())], futile)) == ["raise the alarm", "break glass"]
    at_the_last = on("pink", present(job_id=9, job_started_at=NOW - 3600))  # no runner is online, and one has a job
    assert CLEAN_UP not in steps(gate([at_the_last, on("purple", present())], futile))


def test_a_terraform_run_that_destroyed_something_is_reported_with_the_step_to_repeat_it():
    answer = gate(at_work(), GateRequest("pink", provision=TerraformRun(0, 0, 4)))
    assert why(answer, "provision pink again").endswith(
        "do not apply it; according to its log, the last run destroyed 4"
    )


def test_a_drained_shard_that_takes_jobs_is_reported():
    sources = ActiveShardSources((), "active_url", ActiveShardAnswer("pink", "", NOW))
    answer = gate([*at_work("pink", 1), *at_work("purple", 6)], sources=sources)
    assert steps(answer) == ["drain purple, then stop it"]
    assert "It took 6 jobs lately: first make sure that it gets no more." in answer.next[0].why


@pytest.mark.parametrize(
    ("server", "org", "shard", "address"),
    [
        ("http://g.example/", "acme", "pink", '"http://g.example/v1/orgs/acme/pools/a%2Fb/shards/pink"'),
        ("", "acme/api", "$x", '"$GHAPP_URL/v1/orgs/acme~api/pools/a%2Fb/shards/%24x"'),
        ("", "acme", "", '"$GHAPP_URL/v1/orgs/acme/pools/a%2Fb/shards/$SHARD"'),
    ],
)
def test_the_command_that_reports_a_deploy_has_the_address_of_the_server_and_of_its_scope(server, org, shard, address):
    command, token = next_steps.report_command(server, org, "a/b", shard, Role.INACTIVE).split("`, with the token of `")
    assert command.endswith(f""" -d '{{"role": "inactive"}}' {address}""")
    assert token.startswith(f"GHAPP_TOKEN=$(ghapp token create --org {org} --scope claim)")
