"""To which scope a delivered job belongs, and where the job is recorded of its runner."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.runners.evidence import Evidence
from ghapp.workflow_jobs.job_scopes import DeliveredJob, KnownScope, needs_labels, scope_of_job, scopes_of_runner

ORG, REPOSITORY, CORP = 7, -3, -(1 << 52)
API, WEB = 3, 4
JOB = DeliveredJob(1, API, ("self-hosted", "Own"), 51, "own-a")
WAITING = JOB._replace(runner_id=0, runner_name="")
OWN, SHARED = frozenset({"self-hosted", "linux", "own"}), frozenset({"self-hosted", "linux", "shared"})


def runner(name="own-a", *, listed=True):
    return {51: Evidence(id=51, name=name, first_seen=0.0, registered=listed)}


def repository(**known):
    return KnownScope(REPOSITORY, API, **{"label_sets": [OWN], **known})


def corp(**known):
    return KnownScope(CORP, **{"label_sets": [SHARED], **known})


def org(**known):
    return KnownScope(ORG, **known)


def places(job, **known):
    known = {"repository": repository(), "corp": corp(), "org": org(), **known}
    others = [known["repository"], known["corp"]]
    return scope_of_job(job, others, known["org"]), scopes_of_runner(job, others, known["org"])


@pytest.mark.parametrize(
    ("known", "place", "recorded"),
    [
        ({}, REPOSITORY, [REPOSITORY, ORG]),
        ({"repository": repository(runners=runner())}, REPOSITORY, [REPOSITORY]),
        ({"org": org(runners=runner())}, ORG, [ORG]),
        ({"corp": corp(runners=runner())}, CORP, [CORP]),
        ({"org": org(runners=runner("of-the-organization"))}, REPOSITORY, [REPOSITORY]),
        ({"repository": repository(runners=runner("another"))}, REPOSITORY, [ORG]),
        ({"org": org(runners=runner(), jobs=[1]), "repository": repository(jobs=[1])}, ORG, [ORG]),
        (
            {"repository": repository(runners=runner(listed=False)), "org": org(runners=runner())},
            ORG,
            [REPOSITORY, ORG],
        ),
        ({"repository": repository(label_sets=[SHARED])}, ORG, [ORG]),
        ({"repository": repository(label_sets=[SHARED], jobs=[1])}, REPOSITORY, [ORG]),
        ({"corp": corp(label_sets=[OWN]), "repository": repository(label_sets=[])}, ORG, [CORP, ORG]),
    ],
    ids=[
        "its runner is new: where its labels fit, and recorded where it may be",
        "its runner is the repository's",
        "its runner is the organization's, though its labels fit the repository",
        "its runner is the enterprise's",
        "the organization has another runner of that id",
        "the repository has another runner of that id",
        "its runner decides over who knew the job",
        "a list decides over a delivery",
        "its labels fit nowhere",
        "the scope that knows the job keeps it",
        "an enterprise gets only what its own runners took",
    ],
)
def test_where_a_running_job_belongs(known, place, recorded):
    assert places(JOB, **known) == (place, recorded)


def test_a_queued_job_waits_in_the_repository_whose_runners_or_pools_fit_and_else_in_the_organization():
    assert places(WAITING) == (REPOSITORY, [])
    assert places(WAITING._replace(labels=("self-hosted", "shared"))) == (ORG, [])
    assert places(WAITING._replace(labels=())) == (ORG, [])
    assert places(WAITING._replace(labels=("self-hosted", "shared")), corp=corp(jobs=[1])) == (CORP, [])


@pytest.mark.parametrize(
    ("unknown", "of_repository", "of_corp"),
    [
        ([], False, False),
        ([JOB], True, True),
        ([WAITING], True, False),
        ([JOB._replace(repository=WEB)], False, True),
    ],
    ids=["every runner is known", "a new runner", "a job that waits", "a new runner of another repository's job"],
)
def test_labels_are_read_where_they_decide(unknown, of_repository, of_corp):
    assert (needs_labels(repository(), unknown), needs_labels(corp(), unknown)) == (of_repository, of_corp)


def test_a_job_of_another_repository_has_nothing_to_do_with_it():
    assert places(JOB._replace(repository=WEB), repository=repository(runners=runner())) == (ORG, [ORG])


@given(
    st.sampled_from([JOB, WAITING, JOB._replace(repository=WEB), JOB._replace(labels=())]),
    st.lists(st.sampled_from([{}, runner(), runner("x"), runner(listed=False)]), min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=2, max_size=2),
)
def test_each_job_is_in_one_scope_and_its_runner_in_none_that_knows_another_by_its_id(job, runners, knows):
    scopes = [
        repository(runners=runners[0], jobs=[1] if knows[0] else []),
        corp(runners=runners[1], jobs=[1] if knows[1] else []),
    ]
    organization = org(runners=runners[2])
    assert scope_of_job(job, scopes, organization) in {REPOSITORY, CORP, ORG}
    recorded = scopes_of_runner(job, scopes, organization)
    for each in (*scopes, organization):
        if each.id in recorded and job.runner_id in each.runners:
            assert each.runners[job.runner_id].name == job.runner_name
    assert job.runner_id == 0 or recorded or runners[2].get(51, Evidence(51, "", 0.0)).name == "x"
