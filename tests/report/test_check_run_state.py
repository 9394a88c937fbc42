"""The commit of a report, and whether the report must be posted."""

from types import SimpleNamespace

import pytest

from ghapp.report.check_run import PRESS
from ghapp.report.check_run_state import (
    HOUR,
    MOST_AN_HOUR,
    REFRESH_SECONDS,
    CheckRunState,
    CheckRunStep,
    Head,
    Posted,
    PostFailure,
    changes_after,
    newer,
    next_of,
    repository_of,
)
from tests.rules.builders import MICROSECOND, NOW

HERE = "acme/.github"
HEAD = Head(HERE, "main", "aaa", at=NOW - 500, confirmed_at=NOW)
OLD_HEAD = HEAD._replace(confirmed_at=NOW - 300 - MICROSECOND)
POSTED = Posted(HERE, "aaa", 7, "digest")
REPORT = SimpleNamespace(digest="digest", urgent=(("slow", "urgent"),), is_incident=False)


@pytest.mark.parametrize(
    ("state", "step"),
    [
        (CheckRunState(), CheckRunStep.FIND_HEAD),
        (CheckRunState(head=HEAD), CheckRunStep.CREATE),
        (CheckRunState(head=OLD_HEAD), CheckRunStep.FIND_HEAD),
        (CheckRunState(POSTED), CheckRunStep.FIND_HEAD),
        (CheckRunState(POSTED, HEAD), CheckRunStep.NOTHING),
        (CheckRunState(POSTED, OLD_HEAD), CheckRunStep.NOTHING),
        (CheckRunState(POSTED._replace(digest="other"), HEAD), CheckRunStep.UPDATE),
        (CheckRunState(POSTED._replace(digest="other"), HEAD._replace(confirmed_at=NOW - 300)), CheckRunStep.UPDATE),
        (CheckRunState(POSTED._replace(digest=""), HEAD), CheckRunStep.UPDATE),
        (CheckRunState(POSTED._replace(digest="other"), OLD_HEAD), CheckRunStep.FIND_HEAD),
        (CheckRunState(POSTED._replace(sha="bbb"), HEAD), CheckRunStep.CREATE),
        (CheckRunState(POSTED._replace(sha="bbb", digest="other"), HEAD), CheckRunStep.CREATE),
        (CheckRunState(None, HEAD, PostFailure(HERE, "refused", NOW + MICROSECOND)), CheckRunStep.NOTHING),
        (CheckRunState(None, HEAD, PostFailure(HERE, "refused", NOW)), CheckRunStep.CREATE),
    ],
)
def test_the_next_step_follows_from_the_state_of_the_check_run(state, step):
    assert next_of(state, REPORT, NOW) is step


ANOTHER = (("slow", "another"),)
CHANGED = POSTED._replace(digest="other", urgent=REPORT.urgent)


@pytest.mark.parametrize(
    ("posted", "step"),
    [
        (CHANGED._replace(at=NOW - REFRESH_SECONDS + MICROSECOND), CheckRunStep.NOTHING),
        (CHANGED._replace(at=NOW - REFRESH_SECONDS), CheckRunStep.UPDATE),
        (CHANGED._replace(at=NOW + 1), CheckRunStep.UPDATE),
        (CHANGED._replace(at=NOW, urgent=ANOTHER), CheckRunStep.UPDATE),
        (CHANGED._replace(at=NOW, digest=""), CheckRunStep.UPDATE),
        (CHANGED._replace(at=NOW, sha="bbb"), CheckRunStep.CREATE),
    ],
    ids=[
        "recently",
        "five minutes ago",
        "by a clock that jumped",
        "an urgent change",
        "requested",
        "on another commit",
    ],
)
def test_a_change_that_is_not_urgent_is_posted_every_five_minutes(posted, step):
    assert next_of(CheckRunState(posted, HEAD), REPORT, NOW) is step


OFTEN = POSTED._replace(
    digest="other",
    urgent=ANOTHER,
    at=NOW - 5,
    is_incident=False,
    changes=tuple((NOW - HOUR + MICROSECOND + number, "slow") for number in range(MOST_AN_HOUR)),
)


@pytest.mark.parametrize(
    ("posted", "is_incident", "step"),
    [
        (OFTEN, False, CheckRunStep.NOTHING),
        (OFTEN, True, CheckRunStep.UPDATE),
        (OFTEN._replace(is_incident=True), False, CheckRunStep.UPDATE),
        (OFTEN._replace(changes=OFTEN.changes[1:]), False, CheckRunStep.UPDATE),
        (OFTEN._replace(changes=((NOW - HOUR, "slow"), *OFTEN.changes[1:])), False, CheckRunStep.UPDATE),
        (OFTEN._replace(changes=((NOW + 1, "slow"), *OFTEN.changes[1:])), False, CheckRunStep.UPDATE),
        (OFTEN._replace(changes=((NOW - 5, "offline"), *OFTEN.changes[1:])), False, CheckRunStep.UPDATE),
        (
            OFTEN._replace(
                urgent=(*REPORT.urgent, ("paused", "since")),
            ),
            False,
            CheckRunStep.UPDATE,
        ),
        (
            OFTEN._replace(
                urgent=(*ANOTHER, ("paused", "since")),
            ),
            False,
            CheckRunStep.UPDATE,
        ),
        (OFTEN._replace(at=NOW - REFRESH_SECONDS), False, CheckRunStep.UPDATE),
    ],
    ids=[
        *("too often", "an incident begins", "an incident is over", "five times", "an hour ago"),
        *("by a clock that jumped", "of another kind", "a pause has ended", "a pause has ended beside it"),
        "with the next numbers",
    ],
)
def test_without_an_incident_six_changes_of_a_kind_are_posted_at_once_in_an_hour(posted, is_incident, step):
    report = SimpleNamespace(**{**vars(REPORT), "is_incident": is_incident})
    assert next_of(CheckRunState(posted, HEAD), report, NOW) is step


def test_changes_without_an_incident_are_counted_by_kind_for_an_hour():
    incident = SimpleNamespace(**{**vars(REPORT), "is_incident": True})
    known = POSTED._replace(changes=((NOW - HOUR, "slow"), (NOW - 9, "slow"), (NOW - 9, "offline")))
    assert changes_after(None, REPORT, NOW) == ()
    assert changes_after(known, REPORT, NOW) == ((NOW - 9, "slow"), (NOW, "slow"), (NOW - 9, "offline"))
    assert changes_after(POSTED._replace(urgent=REPORT.urgent), REPORT, NOW) == ()
    assert changes_after(POSTED, incident, NOW) == ()


QUIET = POSTED._replace(digest="other", urgent=REPORT.urgent, at=NOW - REFRESH_SECONDS + MICROSECOND, is_incident=False)
"""A check run whose next refresh is almost due, and which differs from the report in nothing urgent."""

SHOWN = QUIET._replace(urgent=(*REPORT.urgent, (PRESS, "mona")))


@pytest.mark.parametrize(
    ("posted", "pressed", "step"),
    [
        (QUIET, "mona", CheckRunStep.UPDATE),
        (OFTEN._replace(urgent=REPORT.urgent), "mona", CheckRunStep.UPDATE),
        (OFTEN, "mona", CheckRunStep.UPDATE),
        (OFTEN._replace(urgent=SHOWN.urgent), "lisa", CheckRunStep.UPDATE),
        (SHOWN, "mona", CheckRunStep.NOTHING),
        (SHOWN, None, CheckRunStep.NOTHING),
        (SHOWN._replace(is_incident=True), None, CheckRunStep.NOTHING),
        (SHOWN._replace(at=NOW - REFRESH_SECONDS), None, CheckRunStep.UPDATE),
        (SHOWN._replace(urgent=(*ANOTHER, (PRESS, "mona"))), None, CheckRunStep.UPDATE),
        (OFTEN._replace(urgent=(*ANOTHER, (PRESS, "mona"))), None, CheckRunStep.NOTHING),
    ],
    ids=[
        *("an outcome appears", "after six other changes", "with a seventh change", "another outcome"),
        *("it is shown", "it vanishes", "it vanishes in an incident", "it vanishes with the next numbers"),
        *("it vanishes with an urgent change", "it vanishes with a seventh change"),
    ],
)
def test_the_outcome_of_a_button_is_posted_at_once_and_vanishes_with_the_next_post(posted, pressed, step):
    urgent = REPORT.urgent if pressed is None else (*REPORT.urgent, (PRESS, pressed))
    report = SimpleNamespace(**{**vars(REPORT), "urgent": urgent})
    assert next_of(CheckRunState(posted, HEAD), report, NOW) is step


def test_presses_do_not_count_to_the_six_changes_of_a_busy_hour():
    pressed = SimpleNamespace(urgent=((PRESS, "mona"),), is_incident=False)
    assert changes_after(POSTED, pressed, NOW) == ()
    assert changes_after(POSTED._replace(urgent=pressed.urgent), REPORT, NOW) == ((NOW, "slow"),)


def test_the_record_keeps_six_changes_of_a_kind():
    posted = POSTED
    for number in range(20):
        report = SimpleNamespace(urgent=(("slow", f"{number}"),), is_incident=False)
        posted = posted._replace(urgent=report.urgent, changes=changes_after(posted, report, NOW + number))
    assert [at for at, _ in posted.changes] == [NOW + number for number in range(14, 20)]


def test_the_state_of_one_repository_does_not_apply_to_another():
    known = CheckRunState(POSTED, HEAD, PostFailure(HERE, "refused", NOW))
    assert known.at(HERE) == known
    assert known.at("acme/fleet") == CheckRunState()


LATER = HEAD._replace(sha="bbb", at=HEAD.at + 1, confirmed_at=NOW + 1)
EARLIER = HEAD._replace(sha="000", at=HEAD.at - MICROSECOND, confirmed_at=NOW + 1)


@pytest.mark.parametrize(
    ("known", "reported", "head"),
    [
        (None, EARLIER, EARLIER),
        (HEAD, LATER, LATER),
        (HEAD, HEAD._replace(confirmed_at=NOW + 1), HEAD._replace(confirmed_at=NOW + 1)),
        (HEAD, EARLIER, HEAD._replace(confirmed_at=NOW + 1)),
        (LATER, HEAD, LATER),
        (HEAD, EARLIER._replace(branch="trunk"), EARLIER._replace(branch="trunk")),
        (HEAD, EARLIER._replace(repository="acme/fleet"), EARLIER._replace(repository="acme/fleet")),
    ],
)
def test_the_newest_head_is_kept_after_late_reports(known, reported, head):
    assert newer(known, reported) == head


@pytest.mark.parametrize(
    ("configured", "repository"),
    [
        (None, None),
        ("acme/.github", "acme/.github"),
        ("ACME/.github", "ACME/.github"),
        ("globex/.github", None),
        ("acme", None),
        ("acme/", None),
    ],
)
def test_an_org_reports_only_to_its_own_repository(configured, repository):
    assert repository_of(configured, "Acme") == repository


def test_an_enterprise_is_reported_in_a_repository_of_any_organization():
    assert repository_of("acme/fleet", "enterprises/corp") == "acme/fleet"
    assert repository_of(None, "enterprises/corp") is None
