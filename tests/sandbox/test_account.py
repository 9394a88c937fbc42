"""The ledger's statement about a client, on which stories rely."""

from __future__ import annotations

import threading

from tests.sandbox.test_incidents import replace

RUNNERS = "/orgs/acme/actions/runners"


def test_an_unnoticed_loss_is_listed_until_the_client_acts(sandbox, acme):
    first, second, third = sandbox.control.lose("acme", count=3)
    assert sandbox.control.account()["unnoticed"] == [f"acme/{runner}" for runner in (first, second, third)]
    acme.delete(f"{RUNNERS}/{first}")
    replace(sandbox, second)
    assert sandbox.control.account()["unnoticed"] == [f"acme/{third}"]
    sandbox.control.restore("acme", ids=[third])
    assert sandbox.control.account()["unnoticed"] == []


def test_seconds_from_a_loss_to_its_replace_event_are_shown(sandbox):
    (lost,) = sandbox.control.lose("acme", count=1)
    assert sandbox.control.account()["losses"][0]["seconds_to_replace"] is None
    sandbox.control.step(seconds=17)
    replace(sandbox, lost)
    assert sandbox.control.account()["losses"][0]["seconds_to_replace"] == 17


def test_replacing_a_runner_whose_registration_exists_is_wrong_whether_it_works_or_not(sandbox):
    working, dead = list(sandbox.fleet.roster.registered)[:2]
    (lost,) = sandbox.control.lose("acme", count=1, pool="gpu")
    sandbox.control.take_offline("acme", ids=[dead], alive=False)
    for number, runner in enumerate((working, dead, lost)):
        replace(sandbox, runner, f"msg_{number}")
    account = sandbox.control.account()
    assert [wrong["runner_id"] for wrong in account["wrongful_replacements"]] == [working, dead]
    assert [wrong["runner_id"] for wrong in account["wrongful_removals"]] == [working]


def test_a_registration_that_came_back_makes_its_replacement_wrong(sandbox):
    (lost,) = sandbox.control.lose("acme", count=1, seconds=10)
    sandbox.control.step(seconds=10)
    replace(sandbox, lost)
    assert [wrong["runner_id"] for wrong in sandbox.control.account()["wrongful_replacements"]] == [lost]


def test_a_removal_is_wrongful_whatever_the_answers_showed(sandbox, acme):
    victim = next(iter(sandbox.fleet.roster.registered))
    sandbox.control.empty_list("acme")
    sandbox.control.misreport("acme", status="offline")
    assert acme.delete(f"{RUNNERS}/{victim}").status_code == 204
    assert [wrong["runner_id"] for wrong in sandbox.control.account()["wrongful_removals"]] == [victim]


def test_two_replacements_of_one_runner_are_doubled_although_its_organization_was_renamed_between_them(sandbox):
    (lost,) = sandbox.control.lose("acme", count=1)
    replace(sandbox, lost, "msg_1")
    sandbox.control.rename("acme", "acme-two")
    replace(sandbox, lost, "msg_2")
    assert sandbox.control.account()["replacements"]["doubled"] == {f"acme/{lost}": 2}


def test_the_pressure_is_points_in_any_minute_and_calls_at_the_same_time(sandbox, acme):
    for _ in range(3):
        acme.get(RUNNERS)
    acme.delete(f"{RUNNERS}/1")
    sandbox.control.step(seconds=60)
    acme.get(RUNNERS)
    assert sandbox.control.account()["pressure"] == {"acme": {"most_in_flight": 1, "most_points_a_minute": 8}}
    sandbox.control.fault("acme", hang=0.3)
    threads = [threading.Thread(target=acme.get, args=(RUNNERS,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sandbox.control.account()["pressure"]["acme"]["most_in_flight"] == 4
