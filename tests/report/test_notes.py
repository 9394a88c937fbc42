"""What is shown below the headlines, and needs no action."""

import pytest

from ghapp.deaths.cause import Cause
from ghapp.deaths.patterns import DeathSummary, RecentDeaths
from ghapp.report.fleet import by_pool
from ghapp.report.headlines import headlines
from ghapp.report.notes import notes
from ghapp.runners.evidence import Evidence
from ghapp.runners.verdict import Limits
from ghapp.wording import duration, time_of
from tests.report.fleets import fleet_of
from tests.rules.builders import NOW, lost, online, survey, suspect

DEATH = DeathSummary("linux-1", NOW - 70, Cause.HOST_OOM, "OOMKilled")
LIMITS = Limits(confirm_seconds=30.0)


def found(*runners, **changes):
    fleet = fleet_of(*runners, limits=LIMITS, **changes)
    pools = by_pool(fleet, NOW)
    return notes(fleet, pools, headlines(fleet, pools, NOW), NOW)


@pytest.mark.parametrize(
    ("deaths", "expected"),
    [
        (None, []),
        (
            RecentDeaths(1, DEATH),
            ["1 runner died within an hour: linux-1, host-oom, 1 min 10 s ago (`ghapp deaths`)."],
        ),
        (
            RecentDeaths(3, DEATH),
            ["3 runners died within an hour; the last one: linux-1, host-oom, 1 min 10 s ago (`ghapp deaths`)."],
        ),
    ],
    ids=["no death", "one", "several"],
)
def test_the_last_death_of_an_hour_is_named_with_its_age_and_cause(deaths, expected):
    assert found(online(1), recent_deaths=deaths) == expected


@pytest.mark.parametrize(("age", "is_shown"), [(60, False), (76, True)], ids=["as usual", "late"])
def test_while_a_newer_list_should_be_there_its_time_and_age_are_shown(age, is_shown):
    text = f"Runners are shown as of {time_of(NOW - age, NOW)}, {duration(age)} ago."
    assert found(online(1), survey=survey(swept_at=NOW - age)) == [text] * is_shown


def test_a_runner_that_deliveries_alone_have_shown_is_named_once_a_list_should_show_it():
    taken = Evidence(id=5, name="vm-5", first_seen=NOW - 90, job_id=7, job_started_at=NOW - 90)
    text = (
        f"1 runner took a job at {time_of(NOW - 90, NOW)} or later, and no list has shown it: vm-5. "
        "If GitHub ends the job, `ghapp deaths` says why."
    )
    assert found(online(4), taken, online(6)) == [text]
    assert found(online(4), online(6)) == []


def missing(number, seconds, **changes):
    times = dict.fromkeys(("absent_since", "first_404_at"), NOW - seconds)
    return suspect(number, custom_labels=("gpu",), **times, **changes)


LOSS = lost(9, custom_labels=("linux",))


@pytest.mark.parametrize(
    ("runners", "expected"),
    [
        ([missing(1, 10)], []),
        ([LOSS], []),
        (
            [LOSS, missing(1, 10)],
            ["1 runner left GitHub's list and is being checked: whether it is lost is known within 30 s."],
        ),
        (
            [LOSS, missing(1, 10), missing(2, 60)],
            ["2 runners left GitHub's list and are being checked: whether they are lost is known within 30 s."],
        ),
        ([LOSS, missing(1, 61)], []),
        ([LOSS, missing(1, 10, job_id=7, job_started_at=NOW - 60)], []),
        ([LOSS, *(missing(each, 10) for each in range(1, 9))], []),
    ],
    ids=[
        "all else is well",
        "no suspect",
        "one",
        "until twice a confirmation",
        "held up",
        "a job may run",
        "a headline has them",
    ],
)
def test_suspects_of_one_confirmation_are_counted_unless_a_headline_has_them(runners, expected):
    assert found(*runners) == expected
