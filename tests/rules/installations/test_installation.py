"""The name of an installation in ghapp, which may differ from its current login at GitHub."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.installations.installation import MOST_NAMES, Installation, known_as, named_by, stale_name

ACME = Installation(7, "acme", 70)


def configured(*names):
    """A configuration that has one setting for each of these names."""
    return dict.fromkeys(names, 1)


def after(*logins, named=(), known=(), first=ACME):
    """An installation renamed at GitHub to each of these logins in turn."""
    record = known_as(first, [*known], configured(*named), {})
    for login in logins:
        result = Installation(first.id, login, first.account_id)
        record = known_as(result, [record, *known], configured(*named), {})
    return record


@pytest.mark.parametrize(
    ("logins", "named", "org"),
    [
        (["acme-two"], ["acme"], "acme"),
        (["acme-two"], ["acme-two"], "acme-two"),
        (["acme-two"], ["acme", "acme-two"], "acme-two"),
        (["acme-two"], [], "acme-two"),
        (["acme-two"], ["globex"], "acme-two"),
        (["acme-two", "acme-three"], ["acme"], "acme"),
        (["acme-two", "acme-three"], ["acme-two"], "acme-two"),
        (["acme-two", "acme-three"], ["acme", "acme-two"], "acme-two"),
        (["acme-two", "acme"], ["acme", "acme-two"], "acme"),
        (["acme-two", "acme"], ["acme-two"], "acme-two"),
        (["ACME"], ["acme"], "ACME"),
    ],
    ids=str,
)
def test_an_installation_has_the_latest_of_its_logins_that_is_configured(logins, named, org):
    record = after(*logins, named=named)
    assert (record.org, record.called) == (org, logins[-1])


def test_an_installation_never_renamed_has_its_login():
    assert known_as(ACME, [], {}, {}) == known_as(ACME, [ACME], configured("acme"), {}) == ACME


def test_recording_an_installation_again_changes_no_name():
    record = after("acme-two", named={"acme"})
    assert known_as(replace(record, suspended=True), [record], configured("acme"), {}) == replace(
        record, suspended=True
    )


def test_the_name_changes_with_the_configuration():
    record = after("acme-two", named={"acme"})
    assert named_by(record, configured("acme-two")).org == "acme-two"
    assert named_by(named_by(record, configured("acme-two")), configured("acme")) == record


@pytest.mark.parametrize(
    ("named", "org"),
    [
        ({"acme": 3, "acme-two": 1}, "acme"),
        ({"acme": 3, "acme-two": 2}, "acme"),
        ({"acme": 2, "acme-two": 1}, "acme"),
        ({"acme": 2, "acme-two": 3}, "acme-two"),
        ({"acme": 1, "acme-two": 2}, "acme-two"),
        ({"acme": 3, "acme-two": 3}, "acme-two"),
    ],
    ids=[
        "one of four tables renamed",
        "two of five tables renamed",
        "one of three tables renamed",
        "three of five tables renamed",
        "two of three tables renamed",
        "both complete",
    ],
)
def test_a_partly_renamed_configuration_is_decided_by_its_number_of_tables(named, org):
    assert named_by(after("acme-two", named={"acme"}), named).org == org


def test_an_installation_that_takes_a_free_login_gets_no_data_of_the_former_owner():
    owner = after("acme-two", named={"acme"})
    taker = known_as(Installation(9, "Acme", 90), [owner], configured("acme"), {})
    assert (taker.org, taker.called, taker.answers_to("acme")) == ("Acme.9", "Acme", False)
    again = known_as(Installation(9, "Acme", 90), [taker, owner], configured("acme"), {})
    assert again == taker
    assert known_as(Installation(9, "Acme", 90), [taker], configured("acme"), {}) == taker, (
        "also after the former owner was removed"
    )


def test_an_installation_renamed_to_a_free_login_keeps_its_name():
    owner = after("acme-two", named={"acme"})
    taker = after("acme", named={"acme"}, known=[owner], first=Installation(9, "globex", 90))
    assert (taker.org, taker.called, taker.own) == ("globex", "acme", ("globex",))


def test_an_installation_that_takes_a_login_not_yet_known_as_free_gets_its_own_name():
    assert known_as(Installation(9, "acme", 90), [ACME], configured("acme"), {}).org == "acme.9"


def test_a_reinstalled_app_is_recognized_by_its_account():
    record = after("acme-two", named={"acme"})
    reinstalled = known_as(Installation(8, "acme-two", 70), [record], configured("acme"), {})
    assert (reinstalled.id, reinstalled.org, reinstalled.called) == (8, "acme", "acme-two")


def test_the_oldest_of_many_names_are_dropped_except_configured_ones():
    logins = [f"acme-{each}" for each in range(MOST_NAMES + 3)]
    assert after(*logins).own == tuple(reversed(logins[-MOST_NAMES:]))
    record = after(*logins, named={"acme"})
    assert (record.org, len(record.own)) == ("acme", MOST_NAMES + 1)


LOGINS = ["acme", "Acme", "globex", "initech", "umbrella"]
NEWS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(LOGINS)), max_size=30)


@given(NEWS, st.sets(st.sampled_from(LOGINS).map(str.lower)))
def test_every_installation_has_its_own_name(news, named):
    known = {}
    for each, login in news:
        known[each] = known_as(Installation(each, login, each * 10), [*known.values()], configured(*named), {})
        owned = [name.lower() for record in known.values() for name in record.own]
        assert len(owned) == len(set(owned))
        assert known[each].called == login
        assert all(record.org in record.own for record in known.values())


@given(NEWS, st.sampled_from(LOGINS).map(str.lower))
def test_the_installation_that_had_the_configured_name_first_keeps_it(news, name):
    known, first = {}, None
    for each, login in news:
        known[each] = known_as(Installation(each, login, each * 10), [*known.values()], configured(name), {})
        first = first or next((owner for owner, record in known.items() if record.answers_to(name)), None)
        assert [owner for owner, record in known.items() if record.org.lower() == name] == [first] * (first is not None)


@pytest.mark.parametrize(
    ("record", "named", "words"),
    [
        (after("acme-two", named={"acme"}), {"acme"}, ("acme-two", "[orgs.acme]", 'org = "acme"')),
        (
            after("acme-two", named={"acme", "acme-two"}),
            {"acme", "acme-two"},
            ("both acme-two and acme", "remove acme"),
        ),
        (known_as(Installation(9, "acme", 90), [ACME], {}, {}), {"acme"}, ("its name here is acme.9", "use acme.9")),
    ],
    ids=["the old login", "both logins", "a login that belonged to another"],
)
def test_what_to_change_in_the_configuration_is_logged(record, named, words):
    found = stale_name(record, named)
    assert all(word in f"{found.text} {found.fix}" for word in words)


@pytest.mark.parametrize(
    ("record", "named"),
    [(ACME, {"acme"}), (ACME, set()), (after("acme-two"), set()), (after("acme-two"), {"acme-two"})],
    ids=["never renamed", "not configured", "renamed and not configured", "the new login"],
)
def test_nothing_is_logged_if_the_configuration_needs_no_change(record, named):
    assert stale_name(named_by(record, configured(*named)), named) is None


@pytest.mark.parametrize(
    ("repository", "there"),
    [("acme/.github", "acme-two/.github"), ("ACME-two/x", "acme-two/x"), ("globex/x", "globex/x")],
)
def test_a_repository_is_queried_under_its_current_login(repository, there):
    assert after("acme-two", named={"acme"}).at_github(repository) == there
