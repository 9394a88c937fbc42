"""In which scope's list the runner of a pod or of ARC's object is, by ARC's labels."""

from __future__ import annotations

import pytest

from ghapp.pods.pod import is_in, registered_at

ORGANIZATION, REPOSITORY = {"actions.github.com/organization": "acme"}, {"actions.github.com/repository": "API"}
ENTERPRISE = {"actions.github.com/enterprise": "acme-corp"}
SCOPES = ("acme", "acme/api", "enterprises/acme-corp")


@pytest.mark.parametrize(
    ("labels", "scopes"),
    [
        ({}, SCOPES),
        (ORGANIZATION, ("acme",)),
        (ORGANIZATION | REPOSITORY, ("acme/api",)),
        (ENTERPRISE, ("enterprises/acme-corp",)),
        (REPOSITORY, ()),
        ({"actions.github.com/organization": "umbrella"}, ()),
    ],
    ids=["no labels", "an organization", "a repository", "an enterprise", "a repository of nobody", "another one"],
)
def test_labels_name_one_scope(labels, scopes):
    assert tuple(each for each in SCOPES if is_in(each, registered_at(labels))) == scopes


def test_each_part_may_be_cut():
    owner, name = "o" * 39, "n" * 100
    labels = {"actions.github.com/organization": owner, "actions.github.com/repository": name[:63]}
    assert is_in(f"{owner}/{name}", registered_at(labels))
