"""Pages of the simulated GitHub: each link in its documents leads to one that people can read."""

from __future__ import annotations

import re

import httpx
import pytest

BROWSER = {"accept": "text/html,*/*"}


def links(page):
    return re.findall(r'href="(/[^"]*)"', page.text)


def test_from_the_root_each_link_leads_to_a_page(sandbox):
    sandbox.control.queue("acme", labels=["linux-4vcpu"], count=1)
    waiting, seen = ["/"], set()
    while waiting and len(seen) < 60:
        path = waiting.pop(0)
        page = httpx.get(f"{sandbox.url}{path}", headers=BROWSER)
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8"), path
        seen.add(path)
        waiting += [each for each in links(page) if each not in seen and each not in waiting]
    for pattern in (r"/acme", r"/acme/\S+/actions/runs/\d+/job/\d+", r"/organizations/acme/.*/runners/\d+"):
        assert any(re.fullmatch(pattern, each) for each in seen), pattern


def test_the_page_of_a_job_and_of_its_run_are_at_their_html_url(acme, sandbox):
    (job_id,) = sandbox.control.queue("acme", labels=["linux-4vcpu"], count=1)
    repository = next(
        each for each in sandbox.world.orgs["acme"].repositories.values() if any(run.job for run in each.runs)
    )
    job = acme.get(f"/repos/{repository.full_name}/actions/jobs/{job_id}").raise_for_status().json()
    run = acme.get(f"/repos/{repository.full_name}/actions/runs/{job['run_id']}").raise_for_status().json()
    for document in (job, run):
        page = httpx.get(document["html_url"], headers=BROWSER)
        assert page.status_code == 200
        assert "linux-4vcpu" in page.text


def test_a_job_that_was_run_again_keeps_its_page(sandbox):
    (job_id,) = sandbox.control.queue("acme", labels=["linux-4vcpu"], count=1)
    fleet = sandbox.world.orgs["acme"].fleet
    job = fleet.jobs[job_id]
    run = next(each for each in job.repository.runs if each.id == job.run_id)
    run.job = fleet.rerun(job, sandbox.world.now())
    assert run.job.id != job_id
    for each in (job, run.job):
        path = f"/{each.repository.full_name}/actions/runs/{each.run_id}/job/{each.id}"
        page = httpx.get(f"{sandbox.url}{path}", headers=BROWSER)
        assert (page.status_code, f"Job {each.id}" in page.text) == (200, True)


@pytest.mark.parametrize("path", ["/nobody", "/acme/nothing", "/acme/api/actions/runs/1/job/1"])
def test_what_is_not_there_is_a_page_for_browsers_that_leads_on(sandbox, path):
    page = httpx.get(f"{sandbox.url}{path}", headers=BROWSER)
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert links(page) != []


def test_what_is_not_there_is_json_for_programs(sandbox):
    answer = httpx.get(f"{sandbox.url}/acme/nothing/at/all")
    assert (answer.status_code, answer.json()["message"]) == (404, "Not Found")
