"""The versions of the runner in the check run "Runner health"."""

from __future__ import annotations

from ghapp.report.check_run import Conclusion
from ghapp.report.fleet_report import report_on
from ghapp.versions.lifetime import DAY, EndDates
from ghapp.versions.texts import ROOM, versions_text
from tests.report.fleets import fleet_of
from tests.rules.builders import NOW, online

ENDED = {"2.335.1": EndDates(NOW, NOW - DAY, True, NOW + DAY)}


def test_versions_that_end_have_a_row_and_what_to_do():
    fleet = fleet_of(online(1, version="2.335.1"), online(2, version="2.337.0"), end_dates=ENDED)
    text = versions_text(fleet, NOW)
    assert "| `2.335.1` | ended | 1 | `linux-4vcpu` | 2026-09-20 | 2026-09-22 |" in text
    assert "- `2.335.1`: on each machine of linux-4vcpu: stop the service" in text
    assert "2.337.0" not in text
    report = report_on(fleet, NOW)
    assert text in report.text
    assert report.conclusion is Conclusion.ACTION_REQUIRED


def test_without_an_end_there_is_no_section():
    assert versions_text(fleet_of(online(1, version="2.335.1")), NOW) == ""
    current = {"2.335.1": EndDates(NOW, is_known=True)}
    assert versions_text(fleet_of(online(1, version="2.335.1"), end_dates=current), NOW) == ""


def test_many_versions_in_many_pools_keep_within_their_room():
    versions = [f"2.{number}.0" for number in range(150)]
    runners = [
        online(number, version=version, custom_labels=(f"p{number}|" + "x" * 150,))
        for number, version in enumerate(versions, 1)
    ]
    text = versions_text(
        fleet_of(*runners, end_dates={each: EndDates(NOW, NOW, is_known=True) for each in versions}), NOW
    )
    assert len(text) <= ROOM + 2
    assert "more versions, which do not fit here" in text
    assert "more steps, which do not fit here" in text
