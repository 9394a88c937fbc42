from __future__ import annotations

import hashlib
import hmac
import time

import pytest

from ghapp.sandbox import OrgConfig, Pace, SandboxConfig, SandboxServer
from ghapp.sandbox.people import author_of
from tests.sandbox.clients import logged
from tests.sandbox.conftest import SMALL
from tests.sandbox.receivers import Receiver

LABELS = ["self-hosted", "linux-4vcpu"]


def test_a_delivery_is_signed_over_its_raw_body(sandbox, receiver):
    sandbox.control.head("acme", repository="api")
    (got,) = receiver.wait(1)
    expected = hmac.new(sandbox.app.hook.secret.encode(), got.body, hashlib.sha256).hexdigest()
    assert got.headers["x-hub-signature-256"] == f"sha256={expected}"
    assert got.headers["x-github-hook-installation-target-type"] == "integration"
    assert got.headers["x-github-hook-installation-target-id"] == str(sandbox.app.id)
    assert got.headers["user-agent"].startswith("GitHub-Hookshot/")


def test_a_job_is_delivered_when_it_is_queued_started_and_completed(sandbox, receiver):
    (job_id,) = sandbox.control.queue("acme", labels=LABELS)
    sandbox.control.step(seconds=120)
    payloads = {got.payload["action"]: got.payload for got in receiver.wait(3)}
    assert payloads.keys() == {"queued", "in_progress", "completed"}
    assert {payload["workflow_job"]["id"] for payload in payloads.values()} == {job_id}
    queued, done = payloads["queued"], payloads["completed"]["workflow_job"]
    assert queued["workflow_job"]["runner_id"] is None
    assert queued["installation"]["id"] == sandbox.installation_id()
    assert (queued["organization"]["login"], queued["repository"]["name"]) == ("acme", "api")
    run = sandbox.world.orgs["acme"].repositories["api"].runs[0]
    assert (done["head_branch"], run.branch) == (run.branch, run.job.branch)
    assert {payload["sender"]["login"] for payload in payloads.values()} == {author_of("api", run.id).login}
    assert done["runner_name"].startswith("linux-4vcpu-")
    assert done["conclusion"] in {"success", "failure"}
    assert [step["status"] for step in done["steps"]] == ["completed", "completed"]


def test_a_lost_job_fails_with_a_step_that_never_ended_and_an_annotation(sandbox, receiver, acme):
    (job_id,) = sandbox.control.queue("acme", labels=LABELS)
    receiver.wait(2)
    sandbox.control.finish("acme", job_id=job_id, lost=True)
    job = receiver.wait(3)[2].payload["workflow_job"]
    assert (job["conclusion"], job["steps"][-1]["status"]) == ("failure", "in_progress")
    (note,) = acme.get(f"/repos/acme/api/check-runs/{job_id}/annotations").json()
    assert "lost communication" in note["message"]


def test_without_a_webhook_url_nothing_is_sent(sandbox, app):
    sandbox.control.queue("acme", labels=LABELS)
    deliveries = sandbox.control.account()["deliveries"]
    assert (deliveries["sent"], deliveries["failed"], deliveries["waiting"]) == (0, 0, 0)
    assert app.get("/app/hook/deliveries").json() == []


def test_the_app_may_send_its_deliveries_elsewhere_itself(sandbox, app):
    with Receiver() as hook:
        assert app.patch("/app/hook/config", json={"url": hook.url, "secret": "new"}).json()["url"] == hook.url
        sandbox.control.head("acme", repository="web")
        (got,) = hook.wait(1)
    expected = hmac.new(b"new", got.body, hashlib.sha256).hexdigest()
    assert got.headers["x-hub-signature-256"] == f"sha256={expected}"


def test_a_failed_delivery_stays_failed_until_it_is_asked_for_again_under_its_guid(sandbox, receiver, app):
    receiver.status = 503
    sandbox.control.head("acme", repository="api")
    receiver.wait(1)
    (failed,) = logged(app, 1, status="failure")
    assert (failed["status_code"], failed["redelivery"]) == (503, False)
    receiver.status = 202
    assert app.post(f"/app/hook/deliveries/{failed['id']}/attempts").status_code == 202
    again = receiver.wait(2)[1]
    assert again.headers["x-github-delivery"] == failed["guid"]
    newest, oldest = logged(app, 2)
    assert oldest == failed
    assert (newest["guid"], newest["status"], newest["redelivery"]) == (failed["guid"], "OK", True)
    assert sandbox.control.account()["deliveries"]["by_event"] == {"check_suite": {"sent": 1, "failed": 1}}


def test_a_receiver_that_is_not_there_is_logged_as_502(sandbox, app):
    sandbox.control.webhook(url="http://127.0.0.1:1/unreachable")
    sandbox.control.head("acme", repository="api")
    (failed,) = logged(app, 1)
    assert (failed["status_code"], failed["status"]) == (502, "failed to connect to host")


def test_the_log_is_read_backwards_by_cursor(sandbox, receiver, app):
    for _ in range(5):
        sandbox.control.head("acme", repository="api")
    receiver.wait(5)
    whole = [delivery["id"] for delivery in logged(app, 5)]
    seen, url = [], f"{sandbox.url}/app/hook/deliveries?per_page=2"
    while url:
        answer = app.get(url)
        seen += [delivery["id"] for delivery in answer.json()]
        url = answer.links.get("next", {}).get("url")
    assert seen == whole
    assert len(set(whole)) == 5
    assert app.get("/app/hook/deliveries?cursor=v").status_code == 400


def test_a_logged_delivery_shows_what_was_sent_and_answered(sandbox, receiver, app):
    sandbox.control.head("acme", repository="api")
    receiver.wait(1)
    (item,) = logged(app, 1)
    delivery = app.get(f"/app/hook/deliveries/{item['id']}").json()
    assert delivery["request"]["payload"]["action"] == "requested"
    assert delivery["request"]["headers"]["X-GitHub-Event"] == "check_suite"
    assert delivery["url"] == receiver.url


@pytest.mark.parametrize(
    ("control", "arguments", "event", "action"),
    [
        ("suspend", {}, "installation", "suspend"),
        ("uninstall", {}, "installation", "deleted"),
        ("permissions", {"permissions": {"metadata": "read"}}, "installation", "new_permissions_accepted"),
        ("select", {"repositories": ["api"]}, "installation_repositories", "removed"),
    ],
)
def test_actions_of_admins_are_delivered(sandbox, receiver, control, arguments, event, action):
    installation = sandbox.installation_id()
    getattr(sandbox.control, control)("acme", **arguments)
    (got,) = receiver.wait(1)
    assert (got.event, got.payload["action"]) == (event, action)
    assert got.payload["installation"]["id"] == installation
    assert got.payload["installation"]["account"]["login"] == "acme"


def test_a_suspended_installation_gets_no_deliveries_of_jobs(sandbox, receiver):
    sandbox.control.suspend("acme")
    sandbox.control.queue("acme", labels=LABELS)
    sandbox.control.unsuspend("acme")
    assert {got.payload["action"] for got in receiver.wait(2)} == {"suspend", "unsuspend"}
    deliveries = sandbox.control.account()["deliveries"]
    assert deliveries["waiting"] + deliveries["sent"] == 2


def test_an_installation_without_actions_gets_no_deliveries_of_jobs(sandbox, receiver):
    sandbox.control.permissions("acme", permissions={"checks": "write"})
    sandbox.control.queue("acme", labels=LABELS)
    sandbox.control.head("acme", repository="api")
    assert {got.event for got in receiver.wait(2)} == {"installation", "check_suite"}


def test_any_payload_can_be_delivered(sandbox, receiver):
    (guid,) = sandbox.control.deliver("acme", event="star", payload={"action": "created", "n": 1})
    (got,) = receiver.wait(1)
    assert (got.event, got.payload) == ("star", {"action": "created", "n": 1})
    assert got.headers["x-github-delivery"] == guid


def test_a_slow_receiver_does_not_hold_up_the_fleet():
    config = SandboxConfig(orgs=(OrgConfig(pools=SMALL),), pace=Pace(job=(0.2, 0.3), speed=1.0))
    with Receiver() as hook, SandboxServer(config) as sandbox:
        hook.accepts.clear()
        try:
            sandbox.control.webhook(url=hook.url)
            deadline = time.time() + 5
            while not any(job.status == "completed" for job in list(sandbox.fleet.jobs.values())):
                assert time.time() < deadline
                time.sleep(0.02)
        finally:
            hook.accepts.set()
        sandbox.control.quiet()
        while sandbox.control.account()["deliveries"]["waiting"]:
            assert time.time() < deadline
            time.sleep(0.02)
