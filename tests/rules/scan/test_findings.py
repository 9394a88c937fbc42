"""What is wrong in a scope: the App's headlines and reasons, as far as two lists support them."""

from __future__ import annotations

import pytest

from ghapp.report.headline import HeadlineKind, Severity
from ghapp.runners.verdict import Reason
from ghapp.scan.findings import Findings, NotSeen, Reading, UnservedLabel, UnusedLabel, has_problems
from ghapp.scan.looks import Look
from ghapp.versions.lifetime import EndDates, VersionState
from ghapp.workflow_jobs.reason import QueueReason
from ghapp.workflow_jobs.runner_groups import RunnerGroup, RunnerGroups
from tests.rules.builders import NOW
from tests.rules.scan.builders import ACME, API, CORP, look, missing, offline, queued, reading, runner

DAY = 86_400.0


def findings(*args, **changes):
    return Findings(reading(*args, **changes))


def kinds(found):
    return [each.kind for each in found.headlines]


def reasons(found):
    return [None if each.why is None else each.why.reason for each in found.waiting]


def test_a_fleet_that_works_has_no_headline():
    found = findings([runner(1), runner(2, busy=True)], jobs=[])
    assert (found.headlines, found.well, has_problems([found])) == ([], "All 2 runners are healthy.", False)


def test_an_organization_without_runners_is_not_wrong():
    assert (findings().headlines, findings().well) == ([], "No runner is registered.")


def test_offline_runners_are_the_app_s_headline_without_the_app_s_commands():
    found = findings([offline(1), runner(2)])
    (headline,) = found.headlines
    assert (headline.kind, headline.pool, headline.affected) == (HeadlineKind.OFFLINE, "linux-4vcpu", 1)
    assert (headline.command, headline.page) == ("", "")
    assert has_problems([findings(), found])


@pytest.mark.parametrize(("ephemeral", "headlines"), [(False, [HeadlineKind.SUSPECT]), (True, []), (None, [])], ids=str)
def test_a_persistent_runner_that_vanished_is_wrong_and_an_ephemeral_one_may_have_run_a_job(ephemeral, headlines):
    gone = runner(1, ephemeral=ephemeral)
    assert kinds(findings([gone, runner(2)], [runner(2)], answers=missing())) == headlines


@pytest.mark.parametrize(
    ("waited", "headlines"), [(299, []), (300, [HeadlineKind.UNSERVED])], ids=["a controller may start one", "long"]
)
def test_a_job_whose_label_no_runner_has_is_wrong_once_it_has_waited(waited, headlines):
    found = findings([runner()], jobs=[queued(labels=("linux-4vcpv",), queued_at=NOW - waited)])
    assert (kinds(found), reasons(found)) == (headlines, [QueueReason.NO_RUNNER_WITH_LABELS])
    assert found.unserved_labels == [UnservedLabel("linux-4vcpv", 1, "linux-4vcpu")]


@pytest.mark.parametrize(("waited", "headlines"), [(1799, []), (1800, [HeadlineKind.SLOW])])
def test_a_job_may_wait_for_busy_runners_for_half_an_hour(waited, headlines):
    found = findings([runner(busy=True)], jobs=[queued(queued_at=NOW - waited)])
    assert (kinds(found), reasons(found)) == (headlines, [QueueReason.ALL_BUSY])


def test_a_job_that_waits_beside_a_runner_that_both_lists_show_idle_is_not_assigned():
    found = findings([runner()], jobs=[queued()])
    assert reasons(found) == [QueueReason.NOT_ASSIGNED]
    assert findings([runner()], jobs=[queued(queued_at=NOW - 1799)]).headlines == []
    assert [(each.kind, each.severity) for each in found.headlines] == [(HeadlineKind.SLOW, Severity.ATTENTION)]


def test_a_runner_that_has_just_become_idle_is_about_to_take_the_job():
    assert reasons(findings([runner(busy=True)], [runner()], jobs=[queued()])) == [None]


def test_labels_are_compared_without_case():
    assert reasons(findings([runner()], jobs=[queued(labels=("SELF-HOSTED", "Linux-4VCPU"))])) == [
        QueueReason.NOT_ASSIGNED
    ]


def test_a_group_that_excludes_the_repository_is_named():
    groups = RunnerGroups(NOW, (RunnerGroup(3, "restricted", "selected", repositories=("acme/web",)),))
    found = findings([runner(group_id=3)], jobs=[queued()], groups=groups)
    assert reasons(found) == [QueueReason.GROUP_EXCLUDES_REPOSITORY]
    assert [each.name for each in found.restricted_groups] == ["restricted"]


def test_a_public_repository_is_excluded_by_a_group_of_private_ones():
    groups = RunnerGroups(NOW, (RunnerGroup(1, "Default", "all", allows_public=False),))
    shown = {"jobs": [queued()], "groups": groups}
    assert reasons(findings([runner(group_id=1)], private={"acme/api": False}, **shown)) == [
        QueueReason.GROUP_EXCLUDES_REPOSITORY
    ]
    assert reasons(findings([runner(group_id=1)], private={"acme/api": True}, **shown)) == [QueueReason.NOT_ASSIGNED]


def test_a_group_without_runners_excludes_none():
    groups = RunnerGroups(NOW, (RunnerGroup(9, "empty", "selected", repositories=()),))
    assert findings([runner(group_id=1)], groups=groups).restricted_groups == []


def test_jobs_of_hosted_runners_are_none_of_ours():
    assert findings([runner()], jobs=[queued(labels=("ubuntu-latest",))]).waiting == []


def test_a_repository_s_job_may_run_on_its_organization_s_runners():
    of_the_organization = look(runner(7, busy=True), at=NOW)
    found = findings([], scope=API, jobs=[queued()], others=[of_the_organization])
    assert reasons(found) == [QueueReason.ALL_BUSY]


def test_without_them_nothing_is_claimed_about_a_label_that_they_may_have():
    found = findings([], scope=API, jobs=[queued()], are_others_seen=False)
    assert ([each.is_unknown for each in found.waiting], found.headlines) == ([True], [])
    assert found.unserved_labels == []


def test_what_the_repository_s_own_runners_can_take_needs_no_others():
    found = findings([offline()], scope=API, jobs=[queued()], are_others_seen=False)
    assert reasons(found) == [QueueReason.RUNNERS_OFFLINE]


def test_a_repository_s_runners_are_in_no_group_of_its_organization():
    groups = RunnerGroups(NOW, (RunnerGroup(1, "Default", "selected", repositories=()),))
    found = findings([runner(group_id=1)], scope=API, jobs=[queued()], groups=groups)
    assert (reasons(found), found.restricted_groups) == ([QueueReason.NOT_ASSIGNED], [])
    of_the_organization = look(runner(7, group_id=1), at=NOW)
    found = findings([], scope=API, jobs=[queued()], groups=groups, others=[of_the_organization])
    assert [each.name for each in found.restricted_groups] == ["Default"]
    assert reasons(found) == [QueueReason.GROUP_EXCLUDES_REPOSITORY], "its organization's runners are"


def test_runners_that_cannot_be_read_are_the_first_headline_and_no_job_has_a_reason():
    unread = NotSeen("the runners of acme", "GitHub answers 403", "with the scope admin:org")
    found = Findings(Reading(ACME, jobs=[queued()], not_seen=[unread], now=NOW))
    (headline,) = found.headlines
    assert (headline.kind, headline.severity) == (HeadlineKind.BLIND, Severity.CRITICAL)
    assert headline.step == "use a token with the scope admin:org"
    assert [each.is_unknown for each in found.waiting] == [True]
    assert (found.runners, found.pools, found.versions, found.unused_labels, found.well) == ([], [], [], None, "")


def test_a_list_that_does_not_add_up_is_wrong():
    incomplete = look(runner(), at=NOW, total=300, flaw=Reason.LIST_INCOMPLETE)
    found = Findings(Reading(ACME, looks=[look(runner()), incomplete], now=NOW))
    assert [(each.kind, each.severity) for each in found.headlines] == [(HeadlineKind.BLIND, Severity.ATTENTION)]


def test_labels_that_no_job_asked_for_are_those_of_idle_runners_alone():
    fleet = [
        runner(1, custom_labels=("gpu", "run-12345678901"), labels=("self-hosted", "gpu", "run-12345678901")),
        runner(2, custom_labels=("old",), labels=("self-hosted", "old")),
        runner(3, custom_labels=("old",), labels=("self-hosted", "old")),
        runner(4, busy=True, custom_labels=("used",), labels=("self-hosted", "used")),
    ]
    jobs = [queued(labels=("self-hosted", "GPU"))]
    assert findings(fleet, jobs=jobs).unused_labels == [UnusedLabel("old", 2)]
    assert findings(fleet, [fleet[0]._replace(busy=True)], jobs=jobs).unused_labels == [UnusedLabel("old", 2)]
    before = runner(1, custom_labels=("former",), labels=("former",))
    again = runner(9, custom_labels=("gpu",), labels=("gpu",))._replace(name=before.name)
    assert findings([before], [again], jobs=jobs).unused_labels == [], "the machine has registered again"
    assert findings(fleet, jobs=[]).unused_labels is None, "no job was read"
    assert findings(fleet, jobs=None).unused_labels is None


@pytest.mark.parametrize(
    ("ends_in", "state", "severity"),
    [
        (-DAY, VersionState.ENDED, Severity.CRITICAL),
        (6 * DAY, VersionState.ENDING, Severity.ATTENTION),
        (13 * DAY, VersionState.ENDING, Severity.BUSY),
        (15 * DAY, VersionState.CURRENT, None),
    ],
)
def test_a_version_that_gets_no_jobs_is_wrong_a_week_before_it_ends(ends_in, state, severity):
    dates = {"2.328.0": EndDates(NOW, NOW + ends_in, is_known=True)}
    found = findings([runner(version="2.328.0")], dates=dates)
    assert [each.state for each in found.versions] == [state]
    assert [each.severity for each in found.headlines] == ([] if severity is None else [severity])
    assert has_problems([found]) == (severity in (Severity.CRITICAL, Severity.ATTENTION))


def test_without_dates_and_without_versions_nothing_is_claimed():
    assert findings([runner(version=None)]).headlines == []
    assert findings([runner(version="2.300.0")]).headlines == []


def test_the_worst_comes_first():
    dates = {"2.300.0": EndDates(NOW, NOW - DAY, is_known=True)}
    found = findings([offline(1), runner(2, version="2.300.0")], dates=dates, jobs=[queued(labels=("nope",))])
    assert [each.severity for each in found.headlines] == [Severity.CRITICAL, Severity.ATTENTION, Severity.ATTENTION]


def test_an_enterprise_has_runners_and_no_jobs():
    found = findings([runner()], scope=CORP)
    assert (found.headlines, found.waiting, found.unserved_labels) == ([], [], [])


def test_ten_thousand_runners_and_a_hundred_jobs_are_judged_once():
    fleet = [runner(each, busy=each % 2 == 0) for each in range(1, 10_001)]
    jobs = [queued(each, labels=("linux-4vcpu", f"y{each}")) for each in range(100)]
    found = Findings(Reading(ACME, looks=[look(*fleet), Look(look(*fleet).runner_list, NOW)], jobs=jobs, now=NOW))
    assert [each.affected for each in found.headlines] == [100]
