"""Addresses of scopes: an organization, a repository, an enterprise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.installations.scope import Scope, ScopeKind, kind_of, reading_order, runners_settings

ORGANIZATION, REPOSITORY, ENTERPRISE = ScopeKind


@pytest.mark.parametrize(
    ("text", "scope", "path"),
    [
        ("acme", (ORGANIZATION, "acme"), "/orgs/acme"),
        ("acme/", (ORGANIZATION, "acme"), "/orgs/acme"),
        ("octo_acme", (ORGANIZATION, "octo_acme"), "/orgs/octo_acme"),
        ("acme/api", (REPOSITORY, "acme/api"), "/repos/acme/api"),
        ("acme/.github", (REPOSITORY, "acme/.github"), "/repos/acme/.github"),
        ("acme/api.git", (REPOSITORY, "acme/api"), "/repos/acme/api"),
        ("enterprises/acme-corp", (ENTERPRISE, "acme-corp"), "/enterprises/acme-corp"),
        ("Enterprises/acme-corp", (ENTERPRISE, "acme-corp"), "/enterprises/acme-corp"),
        ("https://github.com/acme", (ORGANIZATION, "acme"), "/orgs/acme"),
        ("https://github.com/acme/", (ORGANIZATION, "acme"), "/orgs/acme"),
        ("https://github.com/orgs/acme/repositories?q=a", (ORGANIZATION, "acme"), "/orgs/acme"),
        ("https://github.com/organizations/acme/settings/actions", (ORGANIZATION, "acme"), "/orgs/acme"),
        ("https://ghes.example.com/acme/api/actions/runs/1#x", (REPOSITORY, "acme/api"), "/repos/acme/api"),
        ("https://github.com/acme/api.git", (REPOSITORY, "acme/api"), "/repos/acme/api"),
        ("https://github.com/enterprises/acme-corp/people", (ENTERPRISE, "acme-corp"), "/enterprises/acme-corp"),
    ],
)
def test_an_address_or_a_url_is_a_scope(text, scope, path):
    found = Scope.parse(text)
    assert found == scope
    assert found.api_path == path


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        " ",
        "/acme/api/x",
        "enterprises",
        "enterprises/",
        "enterprises/a b",
        "acme/..",
        "acme/.",
        "../acme",
        "acme/api/runs",
        "acme?x=1",
        "acme/a%2Fb",
        "äcme",
        "-acme",
        "ac\nme",
        "https://github.com",
        "https://github.com/",
        "https://github.com/orgs/",
        "https:///acme",
    ],
)
def test_anything_else_is_none(text):
    assert Scope.parse(text) is None


@given(st.text(max_size=80))
def test_no_text_leads_out_of_the_paths_of_a_scope(text):
    found = Scope.parse(text)
    if found is not None:
        assert found.api_path.count("/") == 2 + (found.kind is REPOSITORY)
        assert not set("?#%\\ \n") & set(found.api_path)
        assert ".." not in found.api_path.split("/")
        assert Scope.parse(found.address) == found


@pytest.mark.parametrize(
    ("address", "kind", "runners_page"),
    [
        ("acme", ORGANIZATION, "organizations/acme/settings/actions/runners"),
        ("acme.17", ORGANIZATION, "organizations/acme.17/settings/actions/runners"),
        ("acme/enterprises", REPOSITORY, "acme/enterprises/settings/actions/runners"),
        ("enterprises/acme-corp", ENTERPRISE, "enterprises/acme-corp/settings/actions/runners"),
    ],
)
def test_an_address_has_its_kind_and_the_page_of_its_runners_at_github(address, kind, runners_page):
    assert (kind_of(address), runners_settings(address)) == (kind, runners_page)


def test_addresses_are_read_organizations_first_each_with_its_repositories():
    ordered = ["acme", "Acme/.github", "acme/api", "acme-two", "globex", "umbrella/api", "enterprises/acme-corp"]
    assert sorted(sorted(ordered), key=reading_order) == ordered
