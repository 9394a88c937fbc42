"""Faults of deliveries: their kinds, their scope, their entries in the log, and their end."""

from __future__ import annotations

import pytest

from tests.sandbox.clients import logged
from tests.sandbox.receivers import Receiver

SECONDS = 30
THREE_DAYS = 3 * 86_400


def send(sandbox, *numbers, org="acme", event="star"):
    return [
        guid for n in numbers for guid in sandbox.control.deliver(org, event=event, payload={"action": "a", "n": n})
    ]


def numbers(received):
    return [got.payload["n"] for got in received]


def deliveries(sandbox):
    return sandbox.control.account()["deliveries"]


def test_a_lost_delivery_never_arrives_and_is_not_in_the_log(sandbox, receiver, app):
    sandbox.control.lose_deliveries("acme", seconds=SECONDS)
    send(sandbox, 1)
    send(sandbox, 2, org="globex")
    sandbox.control.step(seconds=SECONDS)
    send(sandbox, 3)
    assert sorted(numbers(receiver.wait(2))) == [2, 3]
    assert len(logged(app, 2)) == 2
    assert (deliveries(sandbox)["dropped"], deliveries(sandbox)["undelivered"]) == (1, [])


def test_a_delivery_may_be_lost_while_the_log_has_it_as_ok(sandbox, receiver, app):
    sandbox.control.lose_deliveries("acme", logged=True, seconds=SECONDS)
    (lost,) = send(sandbox, 1)
    (entry,) = logged(app, 1)
    assert (entry["guid"], entry["status"], entry["status_code"]) == (lost, "OK", 200)
    sandbox.control.step(seconds=SECONDS)
    send(sandbox, 2)
    assert numbers(receiver.wait(1)) == [2]


def test_a_receiver_that_is_not_reached_gets_it_when_it_is_asked_for_again_under_the_same_guid(sandbox, receiver, app):
    sandbox.control.fail_deliveries("acme", seconds=SECONDS)
    guids = send(sandbox, 1, 2)
    send(sandbox, 3, org="globex")
    assert numbers(receiver.wait(1)) == [3]
    failed = logged(app, 2, status="failure")
    assert {entry["guid"] for entry in failed} == set(guids)
    assert {(entry["status_code"], entry["status"]) for entry in failed} == {(502, "failed to connect to host")}
    assert sorted(deliveries(sandbox)["undelivered"]) == sorted(guids)
    app.post(f"/app/hook/deliveries/{failed[0]['id']}/attempts")
    assert len(logged(app, 3, status="failure")) == 3, "it is still not reached"
    sandbox.control.step(seconds=SECONDS)
    for entry in failed:
        assert app.post(f"/app/hook/deliveries/{entry['id']}/attempts").status_code == 202
    assert sorted(numbers(receiver.wait(3))) == [1, 2, 3]
    assert len([entry for entry in logged(app, 6) if entry["redelivery"]]) == 3
    assert deliveries(sandbox)["undelivered"] == []


def test_a_delivery_may_fail_in_the_log_although_it_has_arrived(sandbox, receiver, app):
    sandbox.control.fail_deliveries("acme", status_code=504, status="timed out", arrive=True, seconds=SECONDS)
    send(sandbox, 1)
    assert numbers(receiver.wait(1)) == [1]
    (entry,) = logged(app, 1)
    assert (entry["status"], entry["status_code"]) == ("timed out", 504)
    sandbox.control.step(seconds=SECONDS)
    send(sandbox, 2)
    receiver.wait(2)
    assert logged(app, 2)[0]["status"] == "OK"


def test_only_these_events_fail(sandbox, receiver, app):
    sandbox.control.fail_deliveries("acme", events=["fork"])
    send(sandbox, 1, event="fork")
    send(sandbox, 2)
    assert numbers(receiver.wait(1)) == [2]
    assert {entry["event"]: entry["status_code"] for entry in logged(app, 2)} == {"fork": 502, "star": 202}


def test_a_share_fails(sandbox, receiver, app):
    sandbox.control.fail_deliveries("acme", share=0.5)
    send(sandbox, *range(40))
    failed = [entry for entry in logged(app, 40, per_page="100") if entry["status"] != "OK"]
    assert 8 <= len(failed) <= 32
    assert len(receiver.wait(40 - len(failed))) == 40 - len(failed)


def test_a_delivery_comes_twice_under_one_guid(sandbox, receiver, app):
    sandbox.control.repeat_deliveries("acme", copies=2, seconds=SECONDS)
    (guid,) = send(sandbox, 1)
    assert {got.headers["x-github-delivery"] for got in receiver.wait(2)} == {guid}
    assert len({entry["id"] for entry in logged(app, 2)}) == 2
    sandbox.control.step(seconds=SECONDS)
    send(sandbox, 2)
    send(sandbox, 3, org="globex")
    assert sorted(numbers(receiver.wait(4))) == [1, 1, 2, 3]


def test_a_delivery_comes_late(sandbox, receiver, app):
    sandbox.control.delay_deliveries("acme", by=10, seconds=SECONDS)
    send(sandbox, 1)
    send(sandbox, 2, org="globex")
    assert numbers(receiver.wait(1)) == [2]
    assert len(logged(app, 1)) == 1
    assert deliveries(sandbox)["waiting"] == 1
    sandbox.control.step(seconds=9)
    send(sandbox, 3, org="globex")
    assert numbers(receiver.wait(2)) == [2, 3]
    sandbox.control.step(seconds=1)
    assert numbers(receiver.wait(3)) == [2, 3, 1]
    sandbox.control.step(seconds=SECONDS)
    send(sandbox, 4)
    assert numbers(receiver.wait(4)) == [2, 3, 1, 4]


def test_delayed_deliveries_are_sent_at_once_when_the_fault_ends(sandbox, receiver):
    sandbox.control.delay_deliveries("acme", by=1000)
    send(sandbox, 1)
    sandbox.control.no_faults()
    assert numbers(receiver.wait(1)) == [1]


def test_deliveries_come_in_another_order_than_they_happened(sandbox, receiver):
    sandbox.control.reorder_deliveries("acme", batch=3, seconds=SECONDS)
    send(sandbox, 1, 2)
    send(sandbox, 9, org="globex")
    assert numbers(receiver.wait(1)) == [9]
    send(sandbox, 3)
    assert numbers(receiver.wait(4)) == [9, 3, 2, 1]
    send(sandbox, 4, 5)
    sandbox.control.step(seconds=SECONDS)
    assert numbers(receiver.wait(6)) == [9, 3, 2, 1, 5, 4], (
        "deliveries held for reordering are sent when the fault ends"
    )


def test_faults_of_deliveries_add_up(sandbox, receiver):
    sandbox.control.repeat_deliveries("acme", copies=2)
    sandbox.control.reorder_deliveries("acme", batch=4)
    send(sandbox, 1, 2)
    assert numbers(receiver.wait(4)) == [2, 2, 1, 1]


def test_the_log_forgets_a_delivery_after_three_days_and_it_can_be_asked_for_no_more(sandbox, receiver, app):
    receiver.status = 500
    send(sandbox, 1)
    (entry,) = logged(app, 1)
    sandbox.control.step(seconds=THREE_DAYS)
    assert len(app.get("/app/hook/deliveries").json()) == 1
    sandbox.control.step(seconds=1)
    assert app.get("/app/hook/deliveries").json() == []
    assert app.post(f"/app/hook/deliveries/{entry['id']}/attempts").status_code == 404


def test_a_hook_may_want_its_payloads_as_a_form_signed_as_such(sandbox, app):
    import hashlib
    import hmac
    from urllib.parse import parse_qs

    with Receiver() as hook:
        app.patch("/app/hook/config", json={"url": hook.url, "secret": "s", "content_type": "form"})
        send(sandbox, 1)
        (got,) = hook.wait(1)
    assert got.headers["content-type"] == "application/x-www-form-urlencoded"
    assert '"n":1' in parse_qs(got.body.decode())["payload"][0]
    assert got.headers["x-hub-signature-256"] == "sha256=" + hmac.new(b"s", got.body, hashlib.sha256).hexdigest()


@pytest.mark.parametrize("copies", [1, 3])
def test_attempts_that_wait_are_counted(sandbox, copies):
    with Receiver() as hook:
        sandbox.control.webhook(url=hook.url)
        sandbox.control.repeat_deliveries("acme", copies=copies)
        sandbox.control.reorder_deliveries("acme", batch=100)
        send(sandbox, 1)
        assert deliveries(sandbox)["waiting"] == copies
