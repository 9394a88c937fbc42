"""Losses and replacements, from the control API to the ledger."""

from __future__ import annotations

import httpx
import pytest

from tests.sandbox.cloudevents import send

RUNNERS = "/orgs/acme/actions/runners"


def runner_of(sandbox, runner_id):
    return sandbox.fleet.roster.find(runner_id)


def replace(sandbox, runner_id, webhook_id="msg_1", **change):
    runner = runner_of(sandbox, runner_id)
    name, pool = (runner.name, runner.pool) if runner else ("unknown", "linux-4vcpu")
    data = {"org": "acme", "runner_id": runner_id, "name": name, "pool": pool}
    return send(sandbox, data, webhook_id=webhook_id, **change)


def test_a_lost_runner_is_404_and_off_the_list_while_its_process_lives(sandbox, acme):
    (lost,) = sandbox.control.lose("acme", count=1, pool="gpu")
    assert acme.get(f"{RUNNERS}/{lost}").status_code == 404
    assert acme.get(RUNNERS).json()["total_count"] == 24
    assert runner_of(sandbox, lost).alive
    assert runner_of(sandbox, lost).pool == "gpu"


def test_restored_registrations_keep_their_ids(sandbox, acme):
    lost = sandbox.control.lose("acme", count=3)
    assert sorted(sandbox.control.restore("acme")) == sorted(lost)
    assert {acme.get(f"{RUNNERS}/{runner}").json()["status"] for runner in lost} == {"online"}
    assert all(loss["restored_at"] is not None for loss in sandbox.control.account()["losses"])


def test_the_account_follows_a_loss_from_end_to_end(sandbox, acme):
    sandbox.control.step(seconds=10)
    (lost,) = sandbox.control.lose("acme", count=1, pool="linux-4vcpu")
    lost_at = sandbox.world.now()
    sandbox.control.step(seconds=5)
    assert acme.delete(f"{RUNNERS}/{lost}").status_code == 404
    sandbox.control.step(seconds=1)
    assert replace(sandbox, lost).status_code == 202
    assert not runner_of(sandbox, lost).alive
    sandbox.control.step(seconds=20)
    (loss,) = sandbox.control.account()["losses"]
    assert (loss["runner_id"], loss["lost_at"]) == (lost, lost_at)
    assert loss["delete_asked_at"] == lost_at + 5
    assert loss["replace_event_at"] == lost_at + 6
    assert lost_at + 6 < loss["replacement_online_at"] <= lost_at + 26
    fresh = acme.get(f"{RUNNERS}/{loss['replacement_id']}").json()
    assert (fresh["status"], fresh["name"].rpartition("-")[0]) == ("online", "linux-4vcpu")
    assert sandbox.control.account()["wrongful_removals"] == []


def test_deleting_a_working_runner_is_recorded_in_the_ledger(sandbox, acme):
    victim = next(iter(sandbox.fleet.roster.registered))
    acme.delete(f"{RUNNERS}/{victim}")
    (wrong,) = sandbox.control.account()["wrongful_removals"]
    assert (wrong["org"], wrong["runner_id"], wrong["by"]) == ("acme", victim, "delete")


def test_replacing_a_working_runner_is_recorded_in_the_ledger(sandbox, acme):
    victim = next(iter(sandbox.fleet.roster.registered))
    replace(sandbox, victim)
    (wrong,) = sandbox.control.account()["wrongful_removals"]
    assert (wrong["runner_id"], wrong["by"]) == (victim, "replace")
    assert acme.get(f"{RUNNERS}/{victim}").json()["status"] == "offline"


@pytest.mark.parametrize(("alive", "wrongs"), [(True, 1), (False, 0)], ids=["its process lives", "its process is dead"])
def test_deleting_an_offline_runner_is_wrong_only_when(sandbox, acme, alive, wrongs):
    (offline,) = sandbox.control.take_offline("acme", count=1, alive=alive)
    assert acme.get(f"{RUNNERS}/{offline}").json()["status"] == "offline"
    assert acme.delete(f"{RUNNERS}/{offline}").status_code == 204
    assert len(sandbox.control.account()["wrongful_removals"]) == wrongs


def test_a_refused_delete_is_no_wrongful_removal(sandbox, acme):
    (busy,) = sandbox.control.busy("acme", count=1)
    assert acme.delete(f"{RUNNERS}/{busy}").status_code == 422
    assert sandbox.control.account()["wrongful_removals"] == []


def test_a_runner_brought_online_takes_work_again(sandbox):
    offline = sandbox.control.take_offline("acme", count=5, pool="gpu")
    (job,) = sandbox.control.queue("acme", labels=["gpu"])
    assert sandbox.fleet.jobs[job].status == "queued"
    assert set(sandbox.control.bring_online("acme")) == set(offline)
    assert sandbox.fleet.jobs[job].runner_id in offline


def test_a_new_runner_is_offline_first(sandbox, acme):
    (fresh,) = sandbox.control.register("acme", pool="gpu")
    assert acme.get(f"{RUNNERS}/{fresh}").json()["status"] == "offline"
    sandbox.control.step(seconds=3)
    assert acme.get(f"{RUNNERS}/{fresh}").json()["status"] == "online"


def test_one_event_sent_twice_replaces_once(sandbox, acme):
    (lost,) = sandbox.control.lose("acme", count=1)
    assert [replace(sandbox, lost).status_code for _ in range(2)] == [202, 202]
    sandbox.control.step(seconds=60)
    assert acme.get(RUNNERS).json()["total_count"] == 25
    assert sandbox.control.account()["replacements"] == {"asked": 1, "repeated": 1, "rejected": 0, "doubled": {}}


def test_two_events_for_one_runner_are_doubled(sandbox):
    (lost,) = sandbox.control.lose("acme", count=1)
    for webhook_id in ("msg_1", "msg_2"):
        replace(sandbox, lost, webhook_id)
    assert sandbox.control.account()["replacements"]["doubled"] == {f"acme/{lost}": 2}


@pytest.mark.parametrize(
    ("change", "status"),
    [({"secret": "whsec_d3Jvbmc="}, 401), ({"age": 3600}, 401), ({"data": {"org": "acme"}}, 400)],
    ids=["another secret", "an old time stamp", "no runner"],
)
def test_an_event_that_is_not_right_changes_nothing(sandbox, change, status):
    (lost,) = sandbox.control.lose("acme", count=1)
    data = {"org": "acme", "runner_id": lost, "name": "n", "pool": "gpu"}
    assert send(sandbox, **({"data": data, "webhook_id": "msg_1"} | change)).status_code == status
    assert runner_of(sandbox, lost).alive
    assert sandbox.control.controller_events() == []
    assert sandbox.control.account()["replacements"]["rejected"] == 1


def test_a_controller_that_fails_for_a_while_takes_the_same_event_later(sandbox):
    (lost,) = sandbox.control.lose("acme", count=1)
    sandbox.control.fail_controller(status=500, seconds=30)
    assert replace(sandbox, lost).status_code == 500
    sandbox.control.step(seconds=30)
    assert replace(sandbox, lost).status_code == 202
    assert [event["data"]["runner_id"] for event in sandbox.control.controller_events()] == [lost]


def test_a_barren_controller_accepts_and_no_runner_comes(sandbox, acme):
    (lost,) = sandbox.control.lose("acme", count=1)
    sandbox.control.barren_controller()
    assert replace(sandbox, lost).status_code == 202
    sandbox.control.step(seconds=600)
    assert acme.get(RUNNERS).json()["total_count"] == 24
    (loss,) = sandbox.control.account()["losses"]
    assert loss["replace_event_at"] is not None
    assert loss["replacement_online_at"] is None


def test_other_events_are_kept_and_do_nothing(sandbox):
    assert send(sandbox, {"fuse": "stopped"}, webhook_id="m", kind="ghapp.fuse.stopped.v1").status_code == 202
    (event,) = sandbox.control.controller_events()
    assert event["type"] == "ghapp.fuse.stopped.v1"


def test_the_account_counts_calls_by_template_and_by_org(sandbox, acme):
    etag = acme.get(RUNNERS).headers["etag"]
    acme.get(RUNNERS, headers={"if-none-match": etag})
    acme.get(f"{RUNNERS}/1")
    acme.get("/installation/repositories")
    account = sandbox.control.account()
    listed = {"total": 2, "counted": 1, "not_modified": 1, "refused": 0, "unanswered": 0}
    assert account["calls"]["GET /orgs/{org}/actions/runners"] == listed
    assert account["calls"]["GET /orgs/{org}/actions/runners/{runner_id}"]["refused"] == 1
    assert account["by_org"]["acme"]["counted"] == 3
    sandbox.control.reset_account()
    assert sandbox.control.account()["calls"] == {}


def test_every_control_can_be_called_over_http(sandbox):
    control = f"{sandbox.url}/_sandbox"
    lost = httpx.post(f"{control}/orgs/acme/lose", json={"count": 2}).json()
    assert httpx.post(f"{control}/orgs/acme/restore", json={"ids": lost}).json() == lost
    assert httpx.post(f"{control}/step", json={"seconds": 1}).status_code == 200
    account = httpx.get(f"{control}/account").json()
    assert [loss["runner_id"] for loss in account["losses"]] == lost
    assert httpx.post(f"{control}/account/reset").json() is None
    assert httpx.get(control).json()["app_id"] == sandbox.app.id


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("orgs/unknown/lose", {"count": 1}, 404),
        ("orgs/acme/lose", {"ids": [1]}, 404),
        ("orgs/acme/lose", {"how_many": 1}, 422),
        ("orgs/acme/register", {"pool": "windows"}, 404),
        ("faults", {"match": "("}, 422),
        ("faults", {"match": "x"}, 422),
    ],
)
def test_an_invalid_control_call_is_refused_with_a_reason(sandbox, path, body, status):
    answer = httpx.post(f"{sandbox.url}/_sandbox/{path}", json=body)
    assert answer.status_code == status
    assert answer.json()["error"]
