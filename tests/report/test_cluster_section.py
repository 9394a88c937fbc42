"""The section of the check run about the cluster."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ghapp.deaths.cause import Cause, OwnReason, advice_for
from ghapp.deaths.cluster_summary import MOST_DEATHS, DeathSummary, StaleNamespace
from ghapp.deaths.death import DeadJob, Death
from ghapp.deaths.patterns import death_summary
from ghapp.leaks.reaper_status import ReaperStatus
from ghapp.pods.degraded_sources import DegradedSource
from ghapp.pods.phantom_kinds import ADVICE, Phantom, PhantomKind, PhantomReason
from ghapp.pods.texts import LEAKS_HEADING, rough
from ghapp.remediation.pause import Pause
from ghapp.report.check_run import LONGEST, Conclusion
from ghapp.report.fleet_report import report_on
from ghapp.report.markdown import code
from ghapp.runners.deletion_progress import Deletion
from ghapp.wording import time_of
from tests.report.test_fleet_report import fleet, many
from tests.rules.builders import NOW, online, present
from tests.rules.builders import lost as a_lost_runner

KIND_OF = {
    PhantomReason.POD_NEVER_MADE: PhantomKind.OBJECT_WITHOUT_POD,
    PhantomReason.POD_LOST: PhantomKind.OBJECT_WITHOUT_POD,
    PhantomReason.OBJECT_GONE: PhantomKind.POD_WITHOUT_OBJECT,
    PhantomReason.FAILED_COUNTS_AS_CAPACITY: PhantomKind.FAILED_OBJECT,
    PhantomReason.NOT_REGISTERED: PhantomKind.POD_UNKNOWN_TO_GITHUB,
    PhantomReason.HANGS_AFTER_JOB: PhantomKind.POD_UNKNOWN_TO_GITHUB,
    PhantomReason.MACHINE_GONE: PhantomKind.RUNNER_WITHOUT_POD,
    PhantomReason.MACHINE_GONE_AT_WORK: PhantomKind.RUNNER_WITHOUT_POD,
    PhantomReason.INIT_FAILED: PhantomKind.POD_NOT_STARTED,
    PhantomReason.POD_REJECTED: PhantomKind.POD_NOT_STARTED,
    PhantomReason.IMAGE_NOT_PULLED: PhantomKind.POD_NOT_STARTED,
    PhantomReason.UNSCHEDULABLE: PhantomKind.POD_NOT_STARTED,
    PhantomReason.CONTAINER_NOT_CREATED: PhantomKind.POD_NOT_STARTED,
    PhantomReason.DEMAND_INFLATED: PhantomKind.DEMAND_INFLATED,
}


def phantom(name="linux-1", reason=PhantomReason.POD_LOST, namespace="runners"):
    return Phantom(KIND_OF[reason], name, reason, ADVICE[reason], "linux-4vcpu", namespace=namespace)


def passing(name="linux-1", cause=Cause.HOST_OOM, reason="OOMKilled"):
    return DeathSummary(name, NOW, cause, reason)


def text(**changes):
    return report_on(fleet(**changes), NOW).text


def test_phantoms_are_counted_and_named_with_advice():
    found = [phantom("b"), phantom("a"), phantom("c", PhantomReason.MACHINE_GONE, namespace="")]
    assert text(phantoms=found).splitlines() == [
        "No runner is offline or invalidated.",
        "",
        "### Phantoms: counted as runners, but unable to run jobs",
        "",
        "| Kind | Reason | Count | Names | Replacement | What to do |",
        "| --- | --- | ---: | --- | --- | --- |",
        (
            f"| object-without-pod | PodLost | 2 | `runners/a`, `runners/b` | none | {ADVICE[PhantomReason.POD_LOST]} "
            "`kubectl -n runners delete ephemeralrunner a` |"
        ),
        f"| runner-without-pod | MachineGone | 1 | `c` | none | {ADVICE[PhantomReason.MACHINE_GONE]} |",
    ]


def test_the_clusters_own_words_stand_beside_the_reason_as_code():
    found = [phantom("b", PhantomReason.IMAGE_NOT_PULLED), phantom("a", PhantomReason.IMAGE_NOT_PULLED)]
    found[0] = found[0]._replace(detail="acme/runner:nope: not found | @acme")
    assert f"| pod-not-started | ImageNotPulled: {code(found[0].detail)} | 2 |" in text(phantoms=found)


@pytest.mark.parametrize(
    ("evidence", "mode", "expected"),
    [
        ({}, "act", "waiting"),
        ({"granted_at": NOW}, "act", "granted"),
        ({"granted_at": NOW, "replaced_at": NOW}, "act", "requested"),
        ({"granted_at": NOW, "replaced_at": NOW, "successor": 9}, "act", "healed"),
        ({"deletion": Deletion(waits_for="NoPod", waiting_since=NOW)}, "act", "waiting (cluster)"),
        ({"confirmed_at": None}, "act", "suspect"),
        ({}, "dry-run", "waiting (dry-run)"),
    ],
)
@pytest.mark.parametrize("reason", [PhantomReason.POD_LOST, PhantomReason.HANGS_AFTER_JOB])
def test_the_remediation_of_an_object_without_a_pod_and_of_a_zombie_is_shown(reason, evidence, mode, expected):
    result = text(runners=[a_lost_runner(**evidence)], mode=mode, phantoms=[phantom(reason=reason)])
    (row,) = [line for line in result.splitlines() if ADVICE[reason] in line]
    assert row.split(" | ")[4] == expected


def test_several_phantoms_are_counted_by_the_progress_of_their_remediation():
    runners = [a_lost_runner(), a_lost_runner(2, granted_at=NOW), a_lost_runner(3)]
    result = text(runners=runners, phantoms=[phantom(f"linux-{number}") for number in (1, 2, 3, 4)])
    assert "| 1 granted, 1 none, 2 waiting |" in result


NEVER_RUNNERS = "never a runner's, so kept: another program seems to use `owner_label` of `[leaks]`."


@pytest.mark.parametrize(
    ("leaks", "expected"),
    [
        (ReaperStatus(reaped=1), "1 pod was reaped in the last 24 hours."),
        (ReaperStatus(reaped=9), "9 pods were reaped in the last 24 hours."),
        (ReaperStatus(reaped=10), "At least 10 pods were reaped in the last 24 hours."),
        (ReaperStatus(deferred=1), "1 pod is deferred: `[leaks] per_tick` limits deletions per minute."),
        (ReaperStatus(deferred=35), "At least 20 pods are deferred: `[leaks] per_tick` limits deletions per minute."),
        (ReaperStatus(would_reap=1), "1 pod is kept, because `[leaks]` is in dry-run."),
        (ReaperStatus(would_reap=4), "4 pods are kept, because `[leaks]` is in dry-run."),
        (ReaperStatus(never_runners=1), f"1 pod has the owner label and was {NEVER_RUNNERS}"),
        (ReaperStatus(never_runners=4), f"4 pods have the owner label and were {NEVER_RUNNERS}"),
        (
            ReaperStatus(
                held=2, examples={"MassLeak": (("runners/a", NOW),), "FuseNotClosed": (("runners/b", NOW - 9),)}
            ),
            (
                "2 pods are leaks and are kept by the fuse: so many at once may be a mistake. "
                f"The oldest: `runners/b`, created at {time_of(NOW - 9, NOW)}."
            ),
        ),
        (
            ReaperStatus(kept={"Unnamed": 1}, examples={"Unnamed": (("runners/a", NOW),)}),
            (
                "1 pod runs without a claim and is kept: GitHub never listed a runner of that name, so it may work under another. "
                f"The oldest: `runners/a`, created at {time_of(NOW, NOW)}."
            ),
        ),
        (
            ReaperStatus(kept={"NeverStarted": 2}),
            "2 pods have not started: they wait for a node, a volume or an image.",
        ),
        (
            ReaperStatus(kept={"BusyWhenLastSeen": 1}),
            "1 pod is kept: its runner was busy when last listed, and the end of the job is unknown.",
        ),
        (
            ReaperStatus(kept={"SessionAfterJob": 1}),
            "1 pod is kept: its runner's only job is over, and GitHub lists the runner online or busy.",
        ),
        (
            ReaperStatus(stops={"linux": ("RunnerReturned", "runners/a")}),
            (
                "The reaper is stopped in `linux`: `RunnerReturned` (`runners/a` was in use when it was deleted). "
                "Find out why, then `ghapp resume`."
            ),
        ),
        (
            ReaperStatus(stops={"*": ("Unreadable", "")}),
            "The reaper is stopped: `Unreadable`. Find out why, then `ghapp resume`.",
        ),
        (
            ReaperStatus(held_up_since=NOW),
            f"Since {time_of(NOW, NOW)} no pod could be reaped: for the cause run `ghapp doctor`.",
        ),
    ],
    ids=[
        "one reaped",
        "nine reaped",
        "ten reaped",
        "one deferred",
        "many deferred",
        "one kept by dry-run",
        "four kept by dry-run",
        "one never a runner",
        "four",
        "held by the fuse",
        "unnamed",
        "never started",
        "busy when last seen",
        "online after its job",
        "a stopped pool",
        "a stopped organization",
        "held up",
    ],
)
def test_each_number_of_leaks_is_described_in_one_sentence(leaks, expected):
    assert text(leaks=leaks).splitlines()[2:] == [LEAKS_HEADING, "", f"- {expected}"]


def test_pods_that_a_pause_keeps_are_not_reported_as_kept_by_dry_run():
    pause = Pause("mona", "network maintenance", NOW - 60)
    assert "- 4 pods are kept, because remediation is paused." in text(
        leaks=ReaperStatus(would_reap=4), pauses={"*": pause}
    )


def test_only_numbers_of_leaks_above_zero_are_shown():
    assert len(text(leaks=ReaperStatus(3, 2, 1, NOW)).splitlines()) == 4 + 4
    assert "Leaks" not in text(leaks=ReaperStatus())


@given(st.integers(10, 10**9))
def test_a_rounded_count_of_leaks_is_a_lower_bound_that_changes_rarely(count):
    expected = int(rough(count).removeprefix("At least ").replace(",", ""))
    assert expected <= count < 2.5 * expected
    assert rough(expected) == rough(count)


def test_of_many_equal_phantoms_the_first_are_named_and_the_others_counted():
    expected = text(phantoms=[phantom(f"r{number:02}") for number in range(13)])
    assert "| 13 | `runners/r00`," in expected
    assert "`runners/r09`, and 3 more |" in expected
    assert "r10" not in expected


def test_deaths_are_counted_by_cause_with_the_most_frequent_first():
    deaths = [passing("a", Cause.VANISHED, "PodGone"), passing("b"), passing("c"), passing("b")]
    assert text(deaths=deaths).splitlines()[2:] == [
        "### Deaths of the last 24 hours",
        "",
        "| Cause | Count | Latest | What to do |",
        "| --- | ---: | --- | --- |",
        f"| `host-oom` | 3 | `b`, `c` | {advice_for(Cause.HOST_OOM)} |",
        f"| `vanished` | 1 | `a` | {advice_for(Cause.VANISHED)} |",
    ]


def test_each_death_has_its_own_advice_and_those_with_one_share_a_row():
    drained = "EvictionByEvictionAPI"
    had_job = Death(
        "a", "a", "n", NOW, 143, 15, drained, Cause.TERMINATED, advice_for(Cause.TERMINATED, drained), job=DeadJob(7)
    )
    low = "The node was low on resource: memory."
    evicted = had_job._replace(
        runner_name="c", reason="Evicted", advice=advice_for(Cause.TERMINATED, "Evicted", low), job=None
    )
    deaths = [had_job, had_job._replace(runner_name="b", job=None), evicted, evicted._replace(runner_name="d")]
    rows = text(deaths=list(map(death_summary, deaths))).splitlines()[6:]
    assert sorted(rows) == sorted(
        [
            f"| `terminated` | 2 | `c`, `d` | {evicted.advice_now} |",
            f"| `terminated` | 1 | `a` | {had_job.advice_now} |",
            f"| `terminated` | 1 | `b` | {deaths[1].advice_now} |",
        ]
    )
    assert rows[0].startswith("| `terminated` | 2 |")


def test_incompletely_counted_deaths_are_reported_as_such():
    almost = [passing(str(number)) for number in range(MOST_DEATHS - 1)]
    assert "The last 1,000 of them." not in text(deaths=almost)
    assert "The last 1,000 of them." in text(deaths=[*almost, passing()])


@pytest.mark.parametrize(
    ("seen_at", "expected"),
    [(NOW - 700, f"last read at {time_of(NOW - 700, NOW)}"), (None, "never read")],
    ids=["old", "never"],
)
def test_an_unseen_namespace_is_shown_with_a_time_instead_of_an_age(seen_at, expected):
    line = (
        f"- Namespace `runners` of the cluster was {expected}: check that `ghapp watch` runs, and run `ghapp doctor`."
    )
    reports = [report_on(fleet(unseen=[StaleNamespace("runners", seen_at)]), NOW + age) for age in (0, 59)]
    assert line in reports[0].text.splitlines()
    assert reports[0].digest == reports[1].digest


def test_a_degraded_source_is_named_with_its_escaped_reason():
    degraded = DegradedSource("ephemeralrunners in runners", "install its CRD | **now**")
    assert f"- Not seen: ephemeralrunners in runners. {code(degraded.why)}" in text(degraded_sources=[degraded])


def test_the_text_does_not_depend_on_the_order_of_phantoms():
    found = [phantom("a"), phantom("b"), phantom("c", PhantomReason.NOT_REGISTERED)]
    assert text(phantoms=found) == text(phantoms=found[::-1])


@pytest.mark.parametrize(("count", "title"), [(1, "1 phantom"), (2, "2 phantoms")])
def test_phantoms_require_action(count, title):
    report = report_on(fleet(online(), phantoms=[phantom(str(number)) for number in range(count)]), NOW)
    assert (report.title.removesuffix(report.title_as_of), report.conclusion) == (title, Conclusion.ACTION_REQUIRED)


def test_deaths_do_not_change_the_conclusion():
    report = report_on(fleet(online(), deaths=[passing()]), NOW)
    assert (report.title, report.conclusion) == ("1 runner healthy", Conclusion.SUCCESS)


@pytest.mark.parametrize(
    "not_seen",
    [
        {"unseen": [StaleNamespace("runners", None)]},
        {"degraded_sources": [DegradedSource("pods in runners", "RBAC lacks watch on pods")]},
    ],
    ids=["an old view", "a part of a source"],
)
def test_what_is_not_seen_requires_action(not_seen):
    assert report_on(fleet(online(), **not_seen), NOW).conclusion is Conclusion.ACTION_REQUIRED


@pytest.mark.parametrize(
    "advice", [*ADVICE.values(), *(advice_for(cause) for cause in Cause), *map(advice_for, Cause, OwnReason)]
)
def test_advice_fits_into_its_table_cell(advice):
    assert not re.search(r"[|\n\r]", advice)


def test_every_reason_has_a_row():
    expected = text(phantoms=[phantom(reason=reason) for reason in PhantomReason])
    assert [reason for reason in PhantomReason if f"| {reason} | 1 |" in expected] == list(PhantomReason)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 60), st.integers(0, 400))
def test_no_text_exceeds_githubs_limits_for_any_foreign_text(phantoms, runners):
    evil = "|`<@é\n" * 20
    expected = fleet(
        *many(runners, lambda number: present(number, name=evil, custom_labels=(f"pool-{number}",))),
        phantoms=[phantom(f"{number}{evil}", reason, evil) for number in range(phantoms) for reason in PhantomReason],
        deaths=[passing(f"{number}{evil}", cause, evil) for number in range(phantoms) for cause in Cause],
        unseen=[StaleNamespace(f"{number}{evil}", None) for number in range(phantoms)],
    )
    report = report_on(expected, NOW)
    assert len(report.text) <= LONGEST
    result = len(re.findall(r"settings/actions/runners/\d+", report.text))
    left_out = re.search(r"and (\d+) more rows of runners", report.text)
    assert result + (int(left_out.group(1)) if left_out else 0) == runners
