"""What the doctor says of `[[scopes]]`: what finds nothing, what is not granted, and the words for the owner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ghapp.doctor.finding import FindingStatus
from ghapp.installations.doctor import of_installation, of_scopes, of_sweeps, of_unknown_orgs
from ghapp.installations.installation import Installation, repository_scope
from ghapp.installations.scope import ScopeRule
from ghapp.runners.evidence import Survey
from ghapp.runners.next_attempt import NextAttempt
from ghapp.settings import PoolSettings, Settings

WEB = "https://github.com"
ACME = Installation(7, "acme", 2, {"administration": "write"})
UNPERMITTED = replace(ACME, permissions={})
API = repository_scope(ACME, 3, "api", "acme/api")


def settings(*scopes, tokens=()):
    return replace(Settings.read({}), scopes=scopes, enterprise_tokens=tokens)


@pytest.mark.parametrize(
    ("rule", "known", "text"),
    [
        (ScopeRule(repository="acme/api"), [ACME, API], ""),
        (ScopeRule(repository="acme/api"), [ACME], "acme/api: the App sees no such repository, or it is archived"),
        (ScopeRule(repository="acme/api"), [], "acme/api: the App is not installed on acme"),
        (ScopeRule(repositories="acme/*"), [ACME], ""),
        (ScopeRule(repositories="acme/*"), [UNPERMITTED], "acme/*: administration: read is not granted"),
        (ScopeRule(enterprise="corp"), [], "GHAPP_ENTERPRISE_TOKEN is not set here"),
    ],
)
def test_a_row_that_finds_nothing_is_reported_with_why(rule, known, text):
    found = of_scopes(settings(rule), known)
    assert [each.text.startswith(text) for each in found] == ([True] if text else [])


@pytest.mark.parametrize(
    ("org", "rules", "status", "fix"),
    [
        ("acme/api", (), FindingStatus.WRONG, 'add [[scopes]] repository = "acme/api", or fix the name'),
        (
            "acme/api",
            (ScopeRule(repository="acme/web"),),
            FindingStatus.WRONG,
            'add [[scopes]] repository = "acme/api"',
        ),
        ("Acme/API", (ScopeRule(repositories="acme/a*"),), FindingStatus.OK, ""),
        ("acme/api", (ScopeRule(repositories="other/*"),), FindingStatus.WRONG, "add [[scopes]]"),
        ("acme/api", (ScopeRule(repository="acme/api"),), FindingStatus.OK, ""),
        ("enterprises/corp", (ScopeRule(enterprise="corp"),), FindingStatus.OK, ""),
        ("enterprises/corp", (), FindingStatus.WRONG, 'add [[scopes]] enterprise = "corp", or fix the name'),
    ],
)
def test_a_pool_of_a_scope_that_is_not_there_is_wrong_unless_a_rule_may_find_it(org, rules, status, fix):
    known = replace(settings(*rules), pools=(PoolSettings(org, "own", ("own",)),))
    (found,) = of_unknown_orgs(known, ["acme"])
    assert (found.status, found.org) == (status, org)
    assert fix in (found.fix or "")


def test_each_row_has_a_finding_of_its_own():
    rules = [ScopeRule(repository=f"acme/{name}") for name in ("api", "web")]
    found = of_scopes(settings(*rules), [ACME])
    assert [(each.name, each.org) for each in found] == [("scope acme/api", "acme"), ("scope acme/web", "acme")]


def test_an_enterprise_with_a_token_is_right():
    assert of_scopes(settings(ScopeRule(enterprise="corp"), tokens=("ghp_secret",)), []) == []


def test_an_enterprise_that_is_swept_is_right_where_the_token_is_not():
    assert of_scopes(settings(ScopeRule(enterprise="corp")), [], {"enterprises/corp"}) == []


@pytest.mark.parametrize(
    ("level", "status", "words"),
    [
        (None, FindingStatus.WRONG, "Repository: Administration in the App's settings to read, or to read and write"),
        ("read", FindingStatus.WARNING, "Repository: Administration in the App's settings to read and write"),
        ("write", FindingStatus.OK, ""),
    ],
)
def test_a_repository_s_permission_has_the_words_for_the_owner(level, status, words):
    permissions = {} if level is None else {"administration": level}
    scope = repository_scope(replace(ACME, permissions=permissions), 3, "api", "acme/api")
    (found,) = of_installation(scope, WEB, has_pool=True)
    assert (found.status, found.org) == (status, "acme/api")
    assert words in (found.fix or "")
    assert ("organizations/acme/settings/installations/7" in (found.fix or "")) is bool(words)


def test_a_person_s_account_is_named_as_one_and_is_nothing_wrong():
    person = Installation(7, "mona", 2, is_personal=True)
    attempt = NextAttempt("PersonalAccount")
    found = [*of_installation(person, WEB, has_pool=False), *of_sweeps("mona", Survey(), 60.0, 0.0, attempt)]
    assert [each.status for each in found] == [FindingStatus.OK] * 2
    assert "person's account" in found[0].text
