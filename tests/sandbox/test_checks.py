from __future__ import annotations

import pytest

CHECK_RUNS = "/repos/acme/.github/check-runs"
ACTION = {"label": "Sweep now", "description": "Look at all runners", "identifier": "sweep"}


@pytest.fixture
def head(acme):
    return acme.get("/repos/acme/.github/actions/runs?branch=main").json()["workflow_runs"][0]["head_sha"]


@pytest.fixture
def posted(acme, head):
    output = {"title": "all well", "summary": "300 online"}
    body = {"name": "Runner health", "head_sha": head, "conclusion": "success", "output": output, "actions": [ACTION]}
    return acme.post(CHECK_RUNS, json=body).raise_for_status().json()


def test_a_conclusion_completes_a_check_run(acme, posted, head):
    assert (posted["status"], posted["conclusion"], posted["head_sha"]) == ("completed", "success", head)
    assert posted["completed_at"] is not None
    assert acme.get(f"{CHECK_RUNS}/{posted['id']}").json() == posted


def test_an_update_changes_what_it_names_and_leaves_the_rest(acme, posted):
    changed = acme.patch(f"{CHECK_RUNS}/{posted['id']}", json={"conclusion": "neutral"}).json()
    assert changed == posted | {"conclusion": "neutral", "completed_at": changed["completed_at"]}


def test_check_runs_are_listed_by_commit_and_by_branch(sandbox, acme, posted, head):
    assert acme.get(f"/repos/acme/.github/commits/{head}/check-runs").json()["check_runs"] == [posted]
    assert acme.get("/repos/acme/.github/commits/main/check-runs?check_name=Other").json()["total_count"] == 0
    sandbox.control.head("acme", repository=".github")
    assert acme.get("/repos/acme/.github/commits/main/check-runs").json()["total_count"] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"output": {"title": "t", "summary": "s" * 65_536}},
        {"output": {"title": "t", "summary": "s", "text": "t" * 65_536}},
        {"actions": [ACTION] * 4},
        {"actions": [ACTION | {"label": "twenty-one characters"}]},
        {"actions": [ACTION | {"identifier": "i" * 21}]},
        {"status": "completed"},
        {"conclusion": "splendid"},
    ],
    ids=["summary", "text", "four buttons", "long label", "long identifier", "no conclusion", "unknown conclusion"],
)
def test_what_github_refuses_is_422(acme, posted, change):
    assert acme.patch(f"{CHECK_RUNS}/{posted['id']}", json=change).status_code == 422


def test_a_pressed_button_is_delivered_to_its_app(sandbox, receiver, posted):
    sandbox.control.click("acme", check_run_id=posted["id"], identifier="sweep")
    got = next(got for got in receiver.wait(2) if got.payload["action"] != "created")
    assert (got.event, got.payload["action"]) == ("check_run", "requested_action")
    assert got.payload["requested_action"] == {"identifier": "sweep"}
    assert got.payload["check_run"]["id"] == posted["id"]


def test_a_rerequested_check_run_is_delivered_to_its_app(sandbox, receiver, posted):
    sandbox.control.click("acme", check_run_id=posted["id"])
    assert {got.payload["action"] for got in receiver.wait(2)} == {"created", "rerequested"}


def test_a_push_moves_the_head_and_asks_for_checks(sandbox, receiver, acme, head):
    moved = sandbox.control.head("acme", repository=".github")
    suite = receiver.wait(1)[0].payload["check_suite"]
    assert moved != head
    assert (suite["head_sha"], suite["before"], suite["head_branch"]) == (moved, head, "main")
    runs = acme.get("/repos/acme/.github/actions/runs?branch=main").json()["workflow_runs"]
    assert [run["head_sha"] for run in runs] == [moved, head]


def test_without_the_permission_no_check_can_be_posted(sandbox, acme, head):
    sandbox.control.permissions("acme", permissions={"checks": "read"})
    answer = acme.post(CHECK_RUNS, json={"name": "Runner health", "head_sha": head})
    assert answer.status_code == 403
    assert answer.headers["x-accepted-github-permissions"] == "checks=write"
