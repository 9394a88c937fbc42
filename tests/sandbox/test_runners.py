from __future__ import annotations

import re

import pytest

from tests.sandbox.clients import installation_client

RUNNERS = "/orgs/acme/actions/runners"


def links(answer):
    return {name: url for url, name in re.findall(r'<([^>]+)>; rel="(\w+)"', answer.headers.get("link", ""))}


@pytest.mark.parametrize("prefix", ["", "/api/v3"])
def test_the_links_of_pages_lead_by_id_through_the_whole_list(sandbox, acme, prefix):
    seen, url = [], f"{sandbox.url}{prefix}{RUNNERS}?per_page=10"
    while url:
        answer = acme.get(url)
        seen += [runner["id"] for runner in answer.json()["runners"]]
        url = links(answer).get("next")
        assert url is None or url.startswith(
            f"{sandbox.url}{prefix}/organizations/5001/actions/runners?per_page=10&page="
        )
    assert seen == sorted(sandbox.fleet.roster.registered)
    assert answer.json()["total_count"] == 25
    assert links(answer).keys() == {"prev", "first"}


def test_a_page_holds_30_by_default_and_100_at_most(sandbox, acme):
    sandbox.control.register("acme", pool="linux-4vcpu", count=100)
    assert len(acme.get(RUNNERS).json()["runners"]) == 30
    assert len(acme.get(f"{RUNNERS}?per_page=500").json()["runners"]) == 100
    assert len(acme.get(f"{RUNNERS}?per_page=100&page=2").json()["runners"]) == 25
    assert acme.get(f"{RUNNERS}?page=99").json() == {"total_count": 125, "runners": []}


def test_a_list_that_fits_on_one_page_has_no_links(acme):
    assert "link" not in acme.get(f"{RUNNERS}?per_page=100").headers


def test_a_name_finds_its_runner_alone(sandbox, acme):
    wanted = next(iter(sandbox.fleet.roster.registered.values()))
    answer = acme.get(RUNNERS, params={"name": wanted.name}).json()
    assert answer["total_count"] == 1
    assert answer["runners"][0]["id"] == wanted.id
    assert acme.get(RUNNERS, params={"name": "unknown"}).json() == {"total_count": 0, "runners": []}


def test_an_unchanged_page_is_304_and_costs_nothing(acme):
    first = acme.get(RUNNERS)
    again = acme.get(RUNNERS, headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""
    assert again.headers["x-ratelimit-remaining"] == first.headers["x-ratelimit-remaining"]


def test_a_page_changes_its_etag_with_what_it_shows_and_no_other(sandbox, acme):
    first, last = (acme.get(f"{RUNNERS}?per_page=5&page={page}").headers["etag"] for page in (1, 5))
    assert first != last
    sandbox.control.busy("acme", ids=[max(sandbox.fleet.roster.registered)])
    assert acme.get(f"{RUNNERS}?per_page=5&page=1", headers={"if-none-match": first}).status_code == 304
    assert acme.get(f"{RUNNERS}?per_page=5&page=5", headers={"if-none-match": last}).status_code == 200


def test_another_token_has_other_etags(sandbox, acme):
    etag = acme.get(RUNNERS).headers["etag"]
    with installation_client(sandbox) as other:
        assert other.get(RUNNERS, headers={"if-none-match": etag}).status_code == 200


def test_a_delete_is_204_and_then_404(sandbox, acme):
    runner = f"{RUNNERS}/{next(iter(sandbox.fleet.roster.registered))}"
    assert acme.delete(runner).status_code == 204
    assert acme.get(runner).status_code == 404
    assert acme.delete(runner).status_code == 404


def test_a_busy_runner_is_not_deleted(sandbox, acme):
    (busy,) = sandbox.control.busy("acme", count=1)
    name = sandbox.fleet.roster.registered[busy].name
    answer = acme.delete(f"{RUNNERS}/{busy}")
    assert answer.status_code == 422
    assert answer.json()["message"] == f"Runner {name} is currently running a job and cannot be deleted."
    assert acme.get(f"{RUNNERS}/{busy}").json()["busy"] is True


def test_an_id_that_is_no_number_is_404(acme):
    assert acme.get(f"{RUNNERS}/linux-4vcpu").status_code == 404


def test_a_jit_registration_is_listed_offline_until_its_process_starts(acme):
    body = {"name": "fresh", "runner_group_id": 1, "labels": ["gpu"]}
    made = acme.post(f"{RUNNERS}/generate-jitconfig", json=body)
    assert made.status_code == 201
    (listed,) = acme.get(RUNNERS, params={"name": "fresh"}).json()["runners"]
    assert listed == made.json()["runner"]
    assert listed["status"] == "offline"
    assert acme.post(f"{RUNNERS}/generate-jitconfig", json=body).status_code == 409


def test_labels_of_github_are_marked_as_such(acme):
    labels = {label["name"]: label["type"] for label in acme.get(RUNNERS).json()["runners"][0]["labels"]}
    assert labels == {"self-hosted": "read-only", "linux": "read-only", "x64": "read-only", "linux-4vcpu": "custom"}


GROUPS = "/orgs/acme/actions/runner-groups"


def test_a_restricted_runner_group_takes_jobs_of_its_repositories_alone(sandbox, acme):
    control, jobs = sandbox.control, sandbox.fleet.jobs
    control.restrict_group("acme", repositories=["web"])
    (group,) = acme.get(GROUPS).json()["runner_groups"]
    listed = acme.get(f"{GROUPS}/1/repositories").json()
    assert (group["visibility"], [each["name"] for each in listed["repositories"]]) == ("selected", ["web"])
    (excluded,) = control.queue("acme", labels=["linux-4vcpu"], repository="api")
    (admitted,) = control.queue("acme", labels=["linux-4vcpu"], repository="web")
    assert (jobs[excluded].status, jobs[admitted].status) == ("queued", "in_progress")
    control.restrict_group("acme")
    assert jobs[excluded].status == "in_progress"
    assert acme.get(GROUPS).json()["runner_groups"][0]["visibility"] == "all"


def test_a_repository_has_the_topics_that_it_was_given(sandbox, acme):
    assert acme.get("/repos/acme/api").json()["topics"] == []
    sandbox.control.topics("acme", repository="api", topics=["ghapp-quiet"])
    assert acme.get("/repos/acme/api").json()["topics"] == ["ghapp-quiet"]
