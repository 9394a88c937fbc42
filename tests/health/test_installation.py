"""By which name an installation goes here, whatever GitHub calls it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.health.installation import MOST_NAMES, Installation, known_as, named_by, stale_name

ACME = Installation(7, "acme", 70)


def says(*names):
    """What the configuration says of each is as much."""
    return dict.fromkeys(names, 1)


def after(*logins, named=(), known=(), first=ACME):
    """An installation after GitHub called it each of these in turn."""
    record = known_as(first, [*known], says(*named))
    for login in logins:
        result = Installation(first.id, login, first.account_id)
        record = known_as(result, [record, *known], says(*named))
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
def test_it_goes_by_the_latest_of_its_names_that_the_configuration_bears(logins, named, org):
    record = after(*logins, named=named)
    assert (record.org, record.called) == (org, logins[-1])


def test_who_was_never_renamed_is_recorded_as_github_says():
    assert known_as(ACME, [], {}) == known_as(ACME, [ACME], says("acme")) == ACME


def test_what_was_recorded_is_what_it_was_when_it_is_recorded_again():
    record = after("acme-two", named={"acme"})
    assert known_as(replace(record, suspended=True), [record], says("acme")) == replace(record, suspended=True)


def test_the_name_follows_a_configuration_that_follows():
    record = after("acme-two", named={"acme"})
    assert named_by(record, says("acme-two")).org == "acme-two"
    assert named_by(named_by(record, says("acme-two")), says("acme")) == record


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
    ids=["pools moved", "tables moved", "a table forgotten", "a table left", "pools left", "both are there twice"],
)
def test_a_configuration_that_follows_in_part_leaves_the_tables_that_it_forgot(named, org):
    assert named_by(after("acme-two", named={"acme"}), named).org == org


def test_who_takes_a_name_that_became_free_gets_nothing_that_is_its_former_owners():
    owner = after("acme-two", named={"acme"})
    taker = known_as(Installation(9, "Acme", 90), [owner], says("acme"))
    assert (taker.org, taker.called, taker.answers_to("acme")) == ("Acme.9", "Acme", False)
    again = known_as(Installation(9, "Acme", 90), [taker, owner], says("acme"))
    assert again == taker
    assert known_as(Installation(9, "Acme", 90), [taker], says("acme")) == taker, "nor when the owner is gone"


def test_who_is_renamed_to_a_name_that_became_free_stays_what_it_was():
    owner = after("acme-two", named={"acme"})
    taker = after("acme", named={"acme"}, known=[owner], first=Installation(9, "globex", 90))
    assert (taker.org, taker.called, taker.own) == ("globex", "acme", ("globex",))


def test_who_takes_a_name_before_we_heard_that_it_is_free_gets_nothing_either():
    assert known_as(Installation(9, "acme", 90), [ACME], says("acme")).org == "acme.9"


def test_an_app_that_is_installed_again_is_known_by_the_account():
    record = after("acme-two", named={"acme"})
    anew = known_as(Installation(8, "acme-two", 70), [record], says("acme"))
    assert (anew.id, anew.org, anew.called) == (8, "acme", "acme-two")


def test_of_many_names_the_earliest_are_forgotten_but_those_that_the_configuration_bears():
    logins = [f"acme-{each}" for each in range(MOST_NAMES + 3)]
    assert after(*logins).own == tuple(reversed(logins[-MOST_NAMES:]))
    record = after(*logins, named={"acme"})
    assert (record.org, len(record.own)) == ("acme", MOST_NAMES + 1)


LOGINS = ["acme", "Acme", "globex", "initech", "umbrella"]
NEWS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(LOGINS)), max_size=30)


@given(NEWS, st.sets(st.sampled_from(LOGINS).map(str.lower)))
def test_no_two_ever_share_a_name_and_none_is_without(news, named):
    known = {}
    for each, login in news:
        known[each] = known_as(Installation(each, login, each * 10), [*known.values()], says(*named))
        owned = [name.lower() for record in known.values() for name in record.own]
        assert len(owned) == len(set(owned))
        assert known[each].called == login
        assert all(record.org in record.own for record in known.values())


@given(NEWS, st.sampled_from(LOGINS).map(str.lower))
def test_the_installation_that_had_the_configured_name_first_keeps_it(news, name):
    known, first = {}, None
    for each, login in news:
        known[each] = known_as(Installation(each, login, each * 10), [*known.values()], says(name))
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
        (known_as(Installation(9, "acme", 90), [ACME], {}), {"acme"}, ("its name here is acme.9", "use acme.9")),
    ],
    ids=["not followed", "names both", "a name that was another's"],
)
def test_what_to_change_in_the_configuration_is_logged(record, named, words):
    found = stale_name(record, named)
    assert all(word in f"{found.said} {found.fix}" for word in words)


@pytest.mark.parametrize(
    ("record", "named"),
    [(ACME, {"acme"}), (ACME, set()), (after("acme-two"), set()), (after("acme-two"), {"acme-two"})],
    ids=["never renamed", "not configured", "renamed and not configured", "followed"],
)
def test_where_nothing_must_change_nothing_is_logged(record, named):
    assert stale_name(named_by(record, says(*named)), named) is None


@pytest.mark.parametrize(
    ("repository", "there"),
    [("acme/.github", "acme-two/.github"), ("ACME-two/x", "acme-two/x"), ("globex/x", "globex/x")],
)
def test_a_repository_is_called_as_github_calls_it(repository, there):
    assert after("acme-two", named={"acme"}).at_github(repository) == there
