"""The explanation of a reason: since when it holds, jobs ahead, the typical wait, and next steps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.settings import PoolSettings
from ghapp.versions.advice import VersionStep
from ghapp.wording import duration, time_of
from ghapp.workflow_jobs.explanation import BY_ADMIN, BY_OWNER, BY_TEAM, explain, usual_wait
from ghapp.workflow_jobs.job import QUEUED_TOO_LONG_SECONDS
from ghapp.workflow_jobs.labels import LONGEST_LABEL, edit_distance, nearest_label
from ghapp.workflow_jobs.reason import QueueReason
from ghapp.workflow_jobs.runner_groups import RunnerGroup, RunnerGroups
from tests.rules.builders import NOW
from tests.rules.installations.test_pool_matching import Rule
from tests.rules.workflow_jobs.builders import LABELS, POOL, busy, job, looping, missing, offline, queue, runner
from tests.rules.workflow_jobs.test_reason import PAUSED


def explained(runners, jobs=(), **inputs):
    waiting = inputs.pop("waiting", job())
    return explain(queue([waiting, *jobs], runners, **inputs), waiting)


def test_a_job_without_a_reason_is_not_explained():
    assert explained([runner()], waiting=job(status="running")) is None


@pytest.mark.parametrize(
    ("labels", "text", "steps"),
    [
        (
            ("self-hosted", "linux-4vpcu"),
            "no runner has the label linux-4vpcu; the nearest label to linux-4vpcu is linux-4vcpu",
            [
                "change linux-4vpcu to linux-4vcpu in runs-on",
                "if the spelling is right, register a runner with the label linux-4vpcu",
            ],
        ),
        (("mainframe",), "no runner has the label mainframe", ["register a runner with the label mainframe"]),
        (
            ("a-a", "b-b"),
            "no runner has the labels a-a, b-b",
            ["register a runner with the labels a-a, b-b"],
        ),
        (
            (POOL, "big"),
            "no runner with the label big is registered; pool big is configured for these labels",
            ["start runners of big"],
        ),
        (
            (POOL, "arm"),
            "no runner has all of these labels: linux-4vcpu, arm",
            ["request fewer labels in runs-on"],
        ),
    ],
    ids=["misspelt", "unknown", "several unknown", "a pool without runners", "on different runners"],
)
def test_missing_labels_are_named_with_the_nearest_that_exists(labels, text, steps):
    runners = [runner(), runner(pool="arm", labels=("self-hosted", "arm"))]
    found = explained(runners, waiting=job(labels=labels), rules=[Rule("big", ("big",)), Rule(POOL, (POOL,))])
    assert found.reason is QueueReason.NO_RUNNER_WITH_LABELS
    assert (found.text, [each.step for each in found.next]) == (text, steps)
    assert (found.since, found.ahead, found.typical_wait_seconds) == (NOW - 3600, None, None)
    assert found.fails_at == NOW - 3600 + QUEUED_TOO_LONG_SECONDS


def test_labels_of_different_pools_are_of_no_pool():
    rules = [Rule("one", ("big", "fast")), Rule("other", ("small", "fast"))]
    found = explained([runner()], waiting=job(labels=("big", "small")), rules=rules)
    assert found.text == (
        "no runner with the labels big, small is registered; no pool has all of these labels: big, small"
    )
    assert [each.step for each in found.next] == ["request labels of one pool in runs-on"]


FOR_ONE_RUN = "check what starts a runner for each run"


@pytest.mark.parametrize(
    ("labels", "steps"),
    [
        (("run-id=11812345678",), [FOR_ONE_RUN]),
        (("runs-on=11812345678", "gpu-h100"), ["register a runner with the label gpu-h100"]),
        (("codebuild-acme-4711-1",), [FOR_ONE_RUN]),
        (("run-id-471",), ["register a runner with the label run-id-471"]),
        (("linux-4712",), ["register a runner with the label linux-4712"]),
    ],
    ids=["of RunsOn", "beside another label", "of CodeBuild on a server", "a number that is not the run's", "another"],
)
def test_a_label_of_one_run_is_no_advice_and_gets_none(labels, steps):
    others = [busy(labels=("run-id=11812345679", "codebuild-acme-4712-1"))]
    found = explained(others, waiting=job(labels=labels, run_id=4711))
    assert [each.step for each in found.next] == steps
    assert "nearest" not in found.text


def test_one_label_with_commas_is_quoted_and_named_as_one():
    found = explained([busy()], waiting=job(labels=("self-hosted,linux,x64",)))
    assert found.text == 'no runner has the label "self-hosted,linux,x64"'
    assert found.next[0] == ("write a list of labels in runs-on", '"self-hosted,linux,x64" is one label', "")


RUN = "https://github.com/acme/api/actions/runs/41"


@pytest.mark.parametrize("labels", [("linux-4vpcu",), (POOL, "arm"), ("a,b",), ("small", "arm")])
def test_a_step_in_the_workflow_file_has_its_commit_and_githubs_page_of_it(labels):
    """No delivery has the path of the file; GitHub shows the file of a run."""
    runners = [runner(), runner(pool="arm", labels=("self-hosted", "arm"))]
    waiting, rules = (
        job(labels=labels, head_sha="abcdef01234", html_url=f"{RUN}/job/7"),
        [Rule("small", ("small", "fast"))],
    )
    step = explained(runners, waiting=waiting, rules=rules).next[0]
    assert step.step.endswith("in runs-on")
    assert step.why.endswith("; see the workflow file of acme/api at abcdef0")
    assert step.url == f"{RUN}/workflow"
    bare = explained(runners, waiting=waiting._replace(head_sha="", html_url=""), rules=rules).next[0]
    assert (bare.step, bare.url, "workflow file" in bare.why) == (step.step, "", False)


def test_a_job_that_a_runner_can_take_has_no_time_at_which_github_fails_it():
    assert explained([busy()]).fails_at is None


def test_idle_runners_may_wait_for_what_the_workflow_itself_holds():
    assert explained([runner()]).next[0].step == "check concurrency and max-parallel of its workflow"


def test_many_and_long_labels_are_shortened():
    found = explained([], waiting=job(labels=("x" * 999, *(f"label-{each}" for each in range(20)))))
    assert "…" in found.text
    assert "and 11 more" in found.text
    assert len(found.text) < 400


def test_older_jobs_of_the_pool_are_ahead():
    others = [
        job(2, queued_at=NOW - 3601),
        job(0, queued_at=NOW - 3600),
        job(3, queued_at=NOW - 3600),
        job(4, queued_at=NOW - 9000, labels=("gpu",)),
        job(5, queued_at=NOW - 9000, status="running", started_at=NOW - 8000),
    ]
    assert explained([busy()], others).ahead == 2


def test_the_typical_wait_is_the_median_of_the_jobs_that_started_within_the_hour():
    def started(number, waited, at=NOW - 60.0, status="over"):
        return job(number, status=status, started_at=at, queued_at=at - waited)

    waits = [started(10, 30), started(11, 90), started(12, 9999, NOW - 3601)]
    running = [started(13, 600, NOW - 3600, "running")]
    found = explained([busy(), busy()], running, ended=waits)
    assert found.typical_wait_seconds == 90
    assert found.text == "all 2 online runners of linux-4vcpu are busy"
    assert explained([busy()]).typical_wait_seconds is None


def test_the_typical_wait_is_that_of_the_queue_as_it_is_now():
    """A quiet hour before does not make a queue of minutes look short."""
    quiet = [job(10 + each, status="over", started_at=NOW - 900, queued_at=NOW - 900) for each in range(60)]
    busy_now = [job(100 + each, status="over", started_at=NOW - each, queued_at=NOW - each - 40) for each in range(20)]
    assert explained([busy()], ended=[*quiet, *busy_now]).typical_wait_seconds == 40
    idle_before = explained([busy()], ended=[*quiet, *busy_now[:9]])
    assert idle_before.typical_wait_seconds == 0
    assert [usual_wait(each) for each in (0.0, 0.9, 40.0)] == ["", "", "median wait 40 s (the jobs that started last)"]


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ([], "no older job waits for linux-4vcpu"),
        ([job(2, queued_at=NOW - 60)], "no older job waits for linux-4vcpu"),
        (
            [job(2, queued_at=NOW - 9000), job(3, queued_at=NOW - 8000)],
            f"the oldest job that waits for linux-4vcpu was queued at {time_of(NOW - 9000, NOW)}",
        ),
        ([job(2, queued_at=NOW - 9000, labels=("gpu",))], "no older job waits for linux-4vcpu"),
    ],
    ids=["alone", "first", "third", "another pool"],
)
def test_who_waits_for_busy_runners_sees_since_when_the_oldest_job_waits(others, why):
    assert explained([busy()], others).next[0] == ("wait", why, "")


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ([("shard:purple",)] * 2, "all 2 online runners of shard purple of linux-4vcpu are busy"),
        ([("shard:purple",)], "the only online runner of shard purple of linux-4vcpu is busy"),
        ([("shard:purple",), ("shard:pink",)], "all 2 online runners of linux-4vcpu are busy"),
        ([("shard:purple",), ()], "all 2 online runners of linux-4vcpu are busy"),
    ],
    ids=["one shard", "its only runner", "two shards", "not all of a shard"],
)
def test_of_a_pool_with_shards_the_busy_one_is_named(labels, text):
    """Runners of its other shards may be idle: they do not have the job's labels."""
    rules = [PoolSettings("acme", POOL, (POOL,), shard_label="shard")]
    others = [runner(labels=("linux", "shard:pink"))]
    found = explained([*(busy(labels=(*LABELS, *each)) for each in labels), *others], rules=rules)
    assert found.text == text


@pytest.mark.parametrize(
    ("inputs", "step", "why"),
    [
        (
            {"pauses": PAUSED},
            "ghapp resume acme --pool linux-4vcpu",
            "1 runner of linux-4vcpu is lost: remediation is paused by mona: maintenance",
        ),
        (
            {"fuses": {POOL: Fuse(Position.STOPPED, NOW, reason=FuseReason.BATCH_NEVER_ONLINE)}},
            "ghapp doctor; then ghapp resume acme --pool linux-4vcpu",
            "1 runner of linux-4vcpu is lost: the fuse is stopped: no runner came online after the last batch, beyond the pool's own newcomers",
        ),
        (
            {"pauses": {"*": PAUSED[POOL]}},
            "ghapp resume acme",
            "1 runner of linux-4vcpu is lost: remediation is paused by mona: maintenance",
        ),
        (
            {"fuses": {"*": Fuse(Position.STOPPED, NOW, reason=FuseReason.BATCH_NEVER_ONLINE)}},
            "ghapp doctor; then ghapp resume acme",
            "1 runner of linux-4vcpu is lost: the fuse of all pools is stopped: no runner came online after the last batch, beyond the pool's own newcomers",
        ),
        (
            {"mode": "dry-run"},
            'replace them, or set mode = "act"',
            "1 runner of linux-4vcpu is lost: nothing is replaced: remediation is in dry-run",
        ),
        (
            {"rules": (SimpleNamespace(name="gpu", labels=("gpu",), shard_label=None),)},
            "add a [[pools]] table for linux-4vcpu",
            "1 runner of linux-4vcpu is lost: its pool is not configured, and no replacer is known for it",
        ),
    ],
    ids=["a pause", "a stopped fuse", "of all pools", "stopped for all pools", "dry-run", "no pool"],
)
@pytest.mark.parametrize("others", [[], [busy()]], ids=["all lost", "others busy"])
def test_the_obstacle_to_replacements_is_a_next_step(inputs, step, why, others):
    """A developer reads it, too, so it names who can take the step."""
    assert (step, f"{why}; {BY_ADMIN}", "") in explained([missing(), *others], **inputs).next


@pytest.mark.parametrize(
    ("runners", "inputs", "since"),
    [
        ([runner()], {}, NOW - 3540),
        ([missing(), missing(away_since=NOW - 20)], {}, NOW - 20),
        ([offline(away_since=NOW - 9000)], {}, NOW - 3600),
        ([offline(away_since=None)], {}, NOW - 3600),
        ([missing()], {"pauses": PAUSED}, NOW - 120),
        ([missing()], {"fuses": {POOL: Fuse(Position.STOPPED, NOW - 900, stopped_at=NOW - 50)}}, NOW - 50),
        ([busy()], {}, NOW - 3600),
    ],
    ids=[
        "not assigned",
        "lost",
        "offline before it was queued",
        "offline, not known since when",
        "paused",
        "fuse",
        "busy",
    ],
)
def test_a_reason_holds_since_its_begin_and_not_before_the_job_was_queued(runners, inputs, since):
    assert explained(runners, **inputs).since == since


@pytest.mark.parametrize(
    ("group", "private", "step"),
    [
        (RunnerGroup(3, "gpu", "selected", repositories=()), True, "allow acme/api in the runner group gpu"),
        (RunnerGroup(3, "gpu", allows_public=False), False, "allow public repositories in the runner group gpu"),
    ],
)
def test_a_group_that_excludes_a_repository_is_named(group, private, step):
    found = explained([runner(group_id=3)], waiting=job(private=private), groups=RunnerGroups(NOW, (group,)))
    assert [each.step for each in found.next] == [step]
    assert found.next[0].why.endswith(BY_OWNER)
    assert "gpu" in found.text


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [("", "", 0), ("gpu", "gpu", 0), ("gpu", "cpu", 1), ("vpcu", "vcpu", 1), ("ab", "abcd", 2), ("abc", "xyz", 3)],
)
def test_the_edit_distance_counts_changes_and_swaps(one, other, distance):
    assert edit_distance(one, other, 3) == edit_distance(other, one, 3) == distance


@given(st.text("abc", max_size=8), st.text("abc", max_size=8), st.integers(0, 8))
def test_a_distance_above_the_bound_is_one_above_it(one, other, most):
    exact = edit_distance(one, other, 20)
    assert edit_distance(one, other, most) == min(exact, most + 1)
    assert edit_distance(other, one, most) == min(exact, most + 1)


@pytest.mark.parametrize(
    ("label", "known", "nearest"),
    [
        ("GPU-large", {"gpu-larg"}, "gpu-larg"),
        ("gpu", {"cpu", "gpus"}, "cpu"),
        ("gpu", {"tpus"}, None),
        ("linux", set(), None),
        ("abcdef", {"abcdxy"}, "abcdxy"),
        ("abcdef", {"abcxyz"}, None),
        ("y" * LONGEST_LABEL + "tail", {"y" * LONGEST_LABEL}, "y" * LONGEST_LABEL),
    ],
    ids=["case", "the first of equals", "two of three differ", "none known", "a third differs", "a half", "cut"],
)
def test_the_nearest_label_differs_in_at_most_a_third(label, known, nearest):
    assert nearest_label(label, known) == nearest


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (0.4, "0 s"),
        (59, "59 s"),
        (106.2, "1 min 46 s"),
        (119.9, "1 min 59 s"),
        (119.9999999, "2 min"),
        (899, "14 min 59 s"),
        (901, "15 min"),
        (7199, "1 h 59 min"),
        (7200, "2 h"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (200_000, "2 d 7 h"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("runners", "text"),
    [
        ([missing()], "1 runner of linux-4vcpu is lost"),
        ([missing(), missing(replaced_at=NOW)], "2 runners of linux-4vcpu are lost"),
        (
            [missing(replaced_at=NOW)],
            "the replacement of 1 lost runner of linux-4vcpu was accepted, and no successor is online",
        ),
        ([missing(is_confirmed=False)], "1 runner of linux-4vcpu is missing from GitHub's list, and being checked"),
    ],
    ids=["waiting", "one of two requested", "all requested", "a suspect"],
)
def test_a_job_waits_for_as_many_lost_runners_as_the_headline_counts(runners, text):
    assert explained(runners).text == text


def test_a_pool_without_a_runner_lacks_none_of_githubs_own_labels():
    rules = (SimpleNamespace(name=POOL, labels=(POOL,), shard_label=None),)
    assert explained([], rules=rules).text.startswith(
        "no runner with the labels self-hosted, linux-4vcpu is registered; pool linux-4vcpu is configured"
    )


@pytest.mark.parametrize(
    ("runners", "text"),
    [
        (
            [runner(too_old="2.335.1")],
            "the only runner of linux-4vcpu online has version 2.335.1, and GitHub gives that no jobs any more",
        ),
        (
            [runner(too_old="2.335.1"), busy(too_old="2.99.0")],
            "all 2 runners of linux-4vcpu online have version 2.335.1, 2.99.0, and GitHub gives that no jobs any more",
        ),
        (
            [looping()],
            "runners of linux-4vcpu have version 2.335.1, end without a job and are started again, and GitHub gives that no jobs any more",
        ),
    ],
)
def test_runners_that_are_too_old_are_named_with_their_versions_and_what_to_do(runners, text):
    found = explained(runners, version_steps=lambda pool: [VersionStep(f"update {pool}", "it gets jobs")])
    assert found.text == text
    assert [each.step for each in found.next] == [f"update {POOL}", "ghapp versions --org acme"]


def test_without_known_steps_the_versions_are_still_shown():
    assert [each.step for each in explained([looping()]).next] == ["ghapp versions --org acme"]


@pytest.mark.parametrize(
    ("waiting", "runners", "text"),
    [
        (
            job(),
            [busy()],
            "the only online runner of linux-4vcpu is busy, as of the last list, 14:13:20 UTC; no later list could be read",
        ),
        (
            job(labels=("gpu",)),
            [],
            "no runner has the label gpu, as of the last list, 14:13:20 UTC; no later list could be read",
        ),
        (job(labels=("ubuntu-latest",)), [], "the job requests a GitHub-hosted runner (ubuntu-latest)"),
        (
            job(labels=()),
            [],
            "the job names a runner group and no labels, and GitHub does not report the group of a queued job",
        ),
    ],
    ids=["busy", "no runner", "hosted", "a group"],
)
def test_while_runners_cannot_be_listed_what_is_known_of_them_has_the_time_of_the_last_list(waiting, runners, text):
    assert explain(queue([waiting], runners, listed_at=NOW), waiting).text == text


@pytest.mark.parametrize(
    ("runners", "labels"),
    [
        ([runner()], ("gpu",)),
        ([runner()], ("run-id=11812345678",)),
        ([runner()], ("big",)),
        ([offline()], (POOL,)),
        ([busy()], (POOL,)),
    ],
    ids=["an unknown label", "a label of one run", "a pool without runners", "offline", "busy"],
)
def test_a_step_that_the_developer_of_a_job_cannot_take_names_who_can(runners, labels):
    rules = [Rule("big", ("big",)), Rule(POOL, (POOL,))]
    *_, last = explained(runners, waiting=job(labels=labels), rules=rules).next
    assert last.why.endswith(BY_TEAM) or "its platform team can" in last.why
