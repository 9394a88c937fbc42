"""What a token needs for what was refused."""

from __future__ import annotations

import pytest

from ghapp.scan.needs import RUNNERS, Right, has_scope, needed
from tests.rules.scan.builders import ACME, API, CORP

ACCEPTED = "organization_self_hosted_runners=read"


@pytest.mark.parametrize(
    ("right", "scope", "scopes", "accepted", "words"),
    [
        (Right.ORGANIZATION_RUNNERS, ACME, {"repo"}, "", "with the scope admin:org"),
        (Right.ORGANIZATION_RUNNERS, ACME, set(), ACCEPTED, "with the scope admin:org"),
        (Right.ORGANIZATION_RUNNERS, ACME, {"admin:org"}, "", "of an owner of acme"),
        (
            Right.ORGANIZATION_RUNNERS,
            ACME,
            None,
            ACCEPTED,
            "with the permission organization_self_hosted_runners: read",
        ),
        (
            Right.ORGANIZATION_RUNNERS,
            ACME,
            None,
            "",
            "with the permission Self-hosted runners: read, or a classic one with the scope admin:org",
        ),
        (Right.REPOSITORY_RUNNERS, API, {"repo"}, "", "of an admin of acme/api"),
        (Right.REPOSITORY_RUNNERS, API, {"gist"}, "", "with the scope repo"),
        (Right.ENTERPRISE_RUNNERS, CORP, {"repo"}, "", "with the scope manage_runners:enterprise"),
        (Right.ENTERPRISE_RUNNERS, CORP, {"admin:enterprise"}, "", "of an owner of acme-corp"),
        (
            Right.ENTERPRISE_RUNNERS,
            CORP,
            None,
            "",
            "with the scope manage_runners:enterprise (a classic one: GitHub shows this to no other token)",
        ),
        (Right.JOBS, API, {"repo"}, "", "of a person who may read acme/api"),
    ],
)
def test_what_is_missing_is_named(right, scope, scopes, accepted, words):
    assert needed(right, scope, scopes, accepted) == words


def test_each_kind_of_scope_has_a_right_of_its_own():
    assert {RUNNERS[each.kind] for each in (ACME, API, CORP)} == {
        Right.ORGANIZATION_RUNNERS,
        Right.REPOSITORY_RUNNERS,
        Right.ENTERPRISE_RUNNERS,
    }


def test_a_token_of_another_kind_has_no_scope():
    assert not any(has_scope(None, right) for right in Right)
