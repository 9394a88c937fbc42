"""Which repositories of an installation are scopes, and what the scope of a repository or an enterprise is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.installations.installation import Installation, enterprise_scope, repository_scope
from ghapp.installations.repositories import (
    ASKED_SECONDS,
    MOST_ASKED,
    SEARCH_SECONDS,
    Repositories,
    ScopedRepository,
    asked,
    is_list_due,
    is_of_account,
    listed,
    looked_up,
    rules_of,
    to_ask,
    to_list_again,
    to_look_up,
)
from ghapp.installations.scope import ListedRepository, ScopeKind, ScopeRule
from ghapp.runners.absence import is_sane
from ghapp.runners.next_attempt import BLINDNESS, blindness_of, why_not_swept
from ghapp.runners.verdict import Reason

NOW = 1_900_000_000.0
ACME = Installation(70_001, "acme", 5_001, {"organization_self_hosted_runners": "write", "administration": "write"})
RENAMED = Installation(70_001, "acme", 5_001, ACME.permissions, login="acme-two", names=("acme-two", "acme"))
API = repository_scope(ACME, 800_001, "api", "acme/api")
ALL = ScopeRule(repositories="acme/*")


def test_a_repository_s_scope_is_named_below_its_installation_and_uses_its_token():
    assert (API.id, API.account_id, API.org, API.called, API.own) == (
        -800_001,
        -800_001,
        "acme/api",
        "acme/api",
        ("acme/api",),
    )
    assert (API.kind, API.caller, API.scope.api_path) == (ScopeKind.REPOSITORY, ACME.id, "/repos/acme/api")
    renamed = repository_scope(RENAMED, 800_001, "api", "acme-two/api-two")
    assert (renamed.id, renamed.org, renamed.called) == (API.id, "acme/api", "acme-two/api-two")
    assert renamed.scope.api_path == "/repos/acme-two/api-two"
    assert renamed.api_path == API.api_path == "/repositories/800001", "its name may be another's by now"
    assert ACME.api_path == "/orgs/acme"
    assert all(renamed.answers_to(name) for name in ("ACME/api", "acme-two/api-two"))
    assert not renamed.answers_to("acme")


def test_a_repository_of_an_account_that_took_a_login_does_not_answer_to_the_first_one_s_repository():
    """Tokens, pools and pages of `acme/api` stay those of the account that had the login first."""
    stranger = Installation(70_009, "acme.70009", 5_009, login="acme", names=("acme.70009",))
    theirs = repository_scope(stranger, 900_001, "api", "acme/api")
    assert (theirs.org, theirs.called, theirs.own) == ("acme.70009/api", "acme/api", ("acme.70009/api",))
    assert theirs.at_github("acme/api") == "acme/api"


@pytest.mark.parametrize(
    ("scope", "named", "found"),
    [
        (ACME, "acme/web", "acme/web"),
        (RENAMED, "acme/web", "acme-two/web"),
        (API, "acme/web", "acme/web"),
        (repository_scope(RENAMED, 1, "api", "acme-two/new"), "acme/api", "acme-two/new"),
        (repository_scope(RENAMED, 1, "api", "acme-two/new"), "Acme/web", "acme-two/web"),
        (repository_scope(RENAMED, 1, "api", "acme-two/new"), "other/web", "other/web"),
        (enterprise_scope("corp"), "acme/web", "acme/web"),
    ],
)
def test_a_repository_is_found_under_its_owner_s_present_login(scope, named, found):
    assert scope.at_github(named) == found


@pytest.mark.parametrize(
    ("level", "reads", "removes", "why"),
    [
        (None, False, False, Reason.PERMISSION_MISSING),
        ("read", True, False, None),
        ("write", True, True, None),
        ("admin", True, True, None),
    ],
)
def test_a_repository_s_runners_take_another_permission_than_an_organization_s(level, reads, removes, why):
    parent = Installation(
        1, "acme", 2, {"administration": level} if level else {"organization_self_hosted_runners": "write"}
    )
    scope = repository_scope(parent, 3, "api", "acme/api")
    assert (scope.may_read_runners(), scope.may_remove_runners(), why_not_swept(scope)) == (reads, removes, why)
    assert scope.missing() == ([] if reads else ["administration: read"])


def test_an_enterprise_s_token_has_the_rights_and_a_person_s_account_has_no_runners():
    corp = enterprise_scope("corp")
    assert (corp.may_remove_runners(), why_not_swept(corp), corp.missing(), corp.caller) == (True, None, [], corp.id)
    assert corp.scope.api_path == "/enterprises/corp/actions/runners".removesuffix("/actions/runners")
    person = Installation(1, "mona", 2, {"checks": "write", "actions": "read", "metadata": "read"}, is_personal=True)
    assert (why_not_swept(person), person.missing()) == (Reason.PERSONAL_ACCOUNT, [])


@pytest.mark.parametrize(
    ("now", "sane"),
    [
        (API, True),
        (repository_scope(ACME, 800_002, "api", "acme/api"), False),
        (repository_scope(ACME, 800_001, "api", "acme/api-two"), False),
        (repository_scope(Installation(70_001, "acme", 5_001, {}), 800_001, "api", "acme/api"), False),
        (
            repository_scope(
                Installation(1, "acme", 5_001, ACME.permissions, suspended=True), 800_001, "api", "acme/api"
            ),
            False,
        ),
    ],
    ids=["unchanged", "another repository of that name", "renamed", "without the permission", "suspended"],
)
def test_a_404_of_a_repository_is_believed_only_while_it_is_the_same_one(now, sane):
    assert is_sane(API, now) is sane


MISSING = Reason.PERMISSION_MISSING
PERMISSIONS = {
    "acme": "organization_self_hosted_runners: write",
    "acme/api": "administration: read",
    "enterprises/corp": "manage_runners:enterprise",
}
"""What is missing, with its level, by the scope."""


@pytest.mark.parametrize("org", PERMISSIONS)
def test_each_reason_has_words_for_each_kind_of_scope(org):
    for reason in [*BLINDNESS, "Unheard"]:
        assert all(blindness_of(reason, org))
    named = {
        each: permission for each, permission in PERMISSIONS.items() if permission in blindness_of(MISSING, org).fix
    }
    assert list(named) == [org]
    assert "manage_runners:enterprise" in blindness_of(Reason.UNAUTHORIZED, "enterprises/corp").fix


def test_rules_are_of_the_installation_by_any_of_its_names():
    rules = (ALL, ScopeRule(repository="acme-two/api"), ScopeRule(repository="other/api"), ScopeRule(enterprise="acme"))
    assert rules_of(RENAMED, rules) == [*rules[:2]]
    assert rules_of(ACME, rules) == [ALL]


@pytest.mark.parametrize(
    ("repository", "is_its"),
    [
        (ListedRepository("ACME/api"), True),
        (ListedRepository("other/api"), False),
        (ListedRepository("acme/api", archived=True), False),
    ],
    ids=["its own", "transferred", "archived"],
)
def test_a_transferred_and_an_archived_repository_are_no_scopes(repository, is_its):
    assert is_of_account(ACME, repository) is is_its


def test_a_list_keeps_when_repositories_were_asked_and_forgets_those_that_are_not_taken():
    before = Repositories(NOW - 3600, (ScopedRepository(1, "old-name", NOW - 60), ScopedRepository(2, "deleted", NOW)))
    found = [
        ListedRepository("acme/service-b", id=3),
        ListedRepository("acme/service-a", id=1),
        ListedRepository("acme/service-c", archived=True, id=4),
        ListedRepository("acme/web", id=5),
    ]
    rules = [ScopeRule(repositories="acme/service-*")]
    after = listed(before, found, 4, rules, NOW)
    known = (ScopedRepository(1, "service-a", NOW - 60), ScopedRepository(3, "service-b"))
    assert after == Repositories(NOW, known, ("acme/service-*",))


def test_a_list_that_is_not_complete_removes_no_repository_but_archived_ones():
    before = Repositories(NOW - 3600, tuple(ScopedRepository(each, f"r{each}") for each in (1, 2, 3)))
    found = [ListedRepository("acme/new-name", id=1), ListedRepository("acme/r2", archived=True, id=2)]
    assert [each.name for each in listed(before, found, 3, [ALL], NOW).known] == ["new-name", "r3"]
    assert [each.name for each in listed(before, found, 2, [ALL], NOW).known] == ["new-name"]


def test_no_two_repositories_have_one_name_though_a_list_is_not_complete():
    before = Repositories(NOW - 3600, (ScopedRepository(1, "api"), ScopedRepository(2, "web")))
    after = listed(before, [ListedRepository("acme/api", id=3)], 3, [ALL], NOW)
    assert [(each.id, each.name) for each in after.known] == [(2, "web"), (3, "api")]


@pytest.mark.parametrize(
    ("age", "patterns", "is_due"),
    [
        (ASKED_SECONDS - 0.001, ["acme/*"], False),
        (ASKED_SECONDS, ["acme/*"], True),
        (1.0, ["acme/*", "acme/a*"], True),
        (1.0, ["acme/a*"], True),
        (0.0, ["acme/*"], False),
        (-1.0, ["acme/*"], True),
    ],
)
def test_repositories_are_listed_each_hour_and_when_the_patterns_change(age, patterns, is_due):
    rules = [ScopeRule(repositories=each) for each in patterns]
    assert is_list_due(Repositories(NOW - age, (), ("acme/*",)), rules, NOW) is is_due


@pytest.mark.parametrize(("age", "is_due"), [(ASKED_SECONDS - 0.001, False), (ASKED_SECONDS, True), (-1.0, True)])
def test_a_repository_is_asked_once_an_hour_and_not_while_it_is_swept(age, is_due):
    repositories = Repositories(NOW, (ScopedRepository(1, "api", NOW - age),))
    assert bool(to_ask(repositories, [], NOW)) is is_due
    assert to_ask(repositories, [1], NOW) == []


def test_searches_that_follow_each_other_ask_no_more_repositories_than_one():
    repositories = Repositories(NOW, tuple(ScopedRepository(each, f"r{each}") for each in range(1, 1000)))
    first = to_ask(repositories, [], NOW)
    repositories = asked(repositories, {each.id for each in first[1:]}, NOW)
    assert [each.id for each in to_ask(repositories, [], NOW + SEARCH_SECONDS - 1)] == [first[0].id]
    assert len(to_ask(repositories, [], NOW + SEARCH_SECONDS)) == MOST_ASKED


@pytest.mark.parametrize(
    ("number", "age", "scopes", "is_due"),
    [
        (7, ASKED_SECONDS - 0.001, [7], False),
        (7, ASKED_SECONDS, [7], True),
        (7, -1.0, [7], True),
        (7, 1.0, [], True),
        (0, SEARCH_SECONDS - 0.001, [], False),
        (0, SEARCH_SECONDS, [], True),
    ],
    ids=["lately", "an hour ago", "in the future", "it is no scope", "there was none", "perhaps there is one now"],
)
def test_a_name_is_looked_up_once_an_hour_and_more_often_while_there_is_no_such_repository(number, age, scopes, is_due):
    before = Repositories(named=(ScopedRepository(number, "acme/api", NOW - age), ScopedRepository(8, "acme/old", NOW)))
    due = to_look_up(before, ["acme/api", "acme/new"], scopes, NOW)
    assert due == (["acme/api", "acme/new"] if is_due else ["acme/new"])
    after = looked_up(before, ["acme/api", "acme/new"], {"acme/new": 9}, NOW)
    assert after.named == (before.named[0], ScopedRepository(9, "acme/new", NOW))
    assert to_look_up(to_list_again(after), ["acme/api", "acme/new"], [7, 9], NOW) == ["acme/api", "acme/new"]


@given(st.sets(st.integers(1, 10_000), min_size=1, max_size=300), st.integers(0, 40))
def test_all_repositories_have_their_turn(numbers, spread):
    repositories = Repositories(
        NOW, tuple(ScopedRepository(each, f"r{each}", float(each % (spread + 1))) for each in numbers)
    )
    seen, now = set(), NOW
    while due := to_ask(repositories, [], now):
        assert len(due) <= MOST_ASKED
        assert seen.isdisjoint(each.id for each in due)
        seen |= {each.id for each in due}
        repositories = asked(repositories, {each.id for each in due}, now)
        now += SEARCH_SECONDS
    assert seen == numbers


@pytest.mark.parametrize(
    ("org", "has_settings"),
    [("acme", True), ("acme/api", True), ("enterprises/acme", False), ("acme\n", False), ("a b", False)],
)
def test_only_what_can_be_a_login_has_a_page_of_settings_at_github(org, has_settings):
    assert Installation(1, org, 1).has_settings is has_settings
