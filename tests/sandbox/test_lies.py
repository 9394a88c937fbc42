"""False answers: their contents, their callers, and that they end."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

import httpx
import pytest

from tests.sandbox.clients import app_client, app_jwt, installation_client, logged, mint

RUNNERS = "/orgs/acme/actions/runners"
SECONDS = 30


@pytest.fixture
def globex(sandbox):
    with installation_client(sandbox, "globex") as client:
        yield client


def listed(client, size=100, org="acme"):
    """Every runner listed, page after page, and what each page gave as the total."""
    ids, totals, number = [], [], 1
    while True:
        query = {"per_page": size, "page": number}
        answer = client.get(f"/orgs/{org}/actions/runners", params=query)
        document = answer.json()
        totals.append(document["total_count"])
        ids += [runner["id"] for runner in document["runners"]]
        if "next" not in answer.links:
            return ids, totals
        number += 1


def everyone(sandbox, org="acme"):
    return sorted(sandbox.world.orgs[org].fleet.roster.registered)


def test_a_list_leaves_out_runners_that_get_finds_and_its_total_agrees_with_it(sandbox, acme, globex):
    hidden = everyone(sandbox)[3:6]
    assert sandbox.control.unlist("acme", ids=hidden, seconds=SECONDS) == hidden
    ids, totals = listed(acme, size=10)
    assert ids == [i for i in everyone(sandbox) if i not in hidden]
    assert totals == [22, 22, 22]
    assert acme.get(f"{RUNNERS}/{hidden[0]}").json()["status"] == "online"
    assert len(listed(globex, org="globex")[0]) == 3
    sandbox.control.step(seconds=SECONDS)
    assert listed(acme) == (everyone(sandbox), [25])


def test_a_total_may_count_the_runners_that_the_list_leaves_out(sandbox, acme):
    sandbox.control.unlist("acme", ids=everyone(sandbox)[:2], counted=True)
    ids, totals = listed(acme)
    assert (len(ids), totals) == (23, [25])


def test_a_share_is_left_out_and_it_is_the_same_runners_on_every_page_and_every_time(sandbox, acme):
    hidden = sandbox.control.unlist("acme", share=0.4)
    assert 0 < len(hidden) < 25
    shown = [i for i in everyone(sandbox) if i not in hidden]
    assert listed(acme, size=4)[0] == shown
    assert listed(acme)[0] == shown


def test_runners_may_be_hidden_from_get_and_delete_as_well_and_are_there_all_the_same(sandbox, acme):
    (hidden,) = sandbox.control.unlist("acme", ids=everyone(sandbox)[:1], everywhere=True)
    assert acme.get(f"{RUNNERS}/{hidden}").status_code == 404
    assert acme.delete(f"{RUNNERS}/{hidden}").status_code == 404
    assert sandbox.fleet.roster.registered[hidden].alive
    assert sandbox.control.account()["wrongful_removals"] == []
    sandbox.control.no_faults()
    assert acme.get(f"{RUNNERS}/{hidden}").json()["status"] == "online"


def test_an_empty_list_has_a_total_of_0_and_get_finds_everyone(sandbox, acme, globex):
    sandbox.control.empty_list("acme", seconds=SECONDS)
    assert acme.get(RUNNERS).json() == {"total_count": 0, "runners": []}
    assert acme.get(f"{RUNNERS}/{everyone(sandbox)[0]}").status_code == 200
    assert listed(globex, org="globex")[1] == [3]
    sandbox.control.step(seconds=SECONDS)
    assert listed(acme)[1] == [25]


@pytest.mark.parametrize(("by", "total"), [(7, 32), (-7, 18), (-100, 0)])
def test_a_total_is_off_while_the_list_is_complete(sandbox, acme, globex, by, total):
    sandbox.control.miscount("acme", by=by, seconds=SECONDS)
    assert listed(acme) == (everyone(sandbox), [total])
    assert listed(globex, org="globex")[1] == [3]
    sandbox.control.step(seconds=SECONDS)
    assert listed(acme)[1] == [25]


def test_pages_slip_when_runners_on_them_end_and_the_living_fall_between_them(sandbox, acme):
    before = everyone(sandbox)
    sandbox.control.slip_pages("acme", after_page=1, vanish=3)
    ids, totals = listed(acme, size=10)
    assert totals == [25, 22, 22]
    assert before[10:13] == [i for i in everyone(sandbox) if i not in ids], "alive, and on no page"
    assert len(ids) == totals[-1], "and the last total agrees with what was listed"
    assert listed(acme, size=10) == (everyone(sandbox), [22, 22, 22]), "once"


def test_pages_slip_when_runners_appear_on_them_and_some_are_listed_twice(sandbox, acme):
    before = everyone(sandbox)
    sandbox.control.slip_pages("acme", after_page=2, appear=2)
    ids, totals = listed(acme, size=10)
    assert totals == [25, 25, 27]
    assert ids == before[:20] + before[18:]
    new = [i for i in everyone(sandbox) if i not in before]
    assert listed(acme)[0] == new + before, "the newcomers are first"


def test_pages_may_slip_every_time(sandbox, acme):
    sandbox.control.slip_pages("acme", vanish=1, times=None, seconds=SECONDS)
    assert [listed(acme)[1] for _ in range(3)] == [[25], [24], [23]]
    sandbox.control.step(seconds=SECONDS)
    assert [listed(acme)[1] for _ in range(2)] == [[22], [22]]


def test_busy_runners_do_not_vanish_from_slipping_pages(sandbox, acme):
    first, second, *_ = everyone(sandbox)
    sandbox.control.busy("acme", ids=[first])
    sandbox.control.slip_pages("acme", vanish=1)
    listed(acme)
    assert first in everyone(sandbox)
    assert second not in everyone(sandbox)


def test_a_stale_list_shows_the_fleet_as_it_was_and_get_as_it_is(sandbox, acme, globex):
    before = everyone(sandbox)
    sandbox.control.stale_lists("acme", age=50, seconds=200)
    lost = sandbox.control.lose("acme", count=2)
    (fresh,) = sandbox.control.register("acme", pool="gpu")
    sandbox.control.lose("globex", count=1)
    sandbox.control.step(seconds=49)
    assert listed(acme) == (before, [25])
    assert acme.get(f"{RUNNERS}/{lost[0]}").status_code == 404
    assert acme.get(f"{RUNNERS}/{fresh}").status_code == 200
    assert listed(globex, org="globex")[1] == [2]
    sandbox.control.step(seconds=1)
    assert listed(acme) == (everyone(sandbox), [24])
    sandbox.control.lose("acme", count=4)
    assert listed(acme)[1] == [24]
    sandbox.control.no_faults()
    assert listed(acme)[1] == [20]


def test_a_stale_list_shows_what_was_busy_then(sandbox, acme):
    sandbox.control.stale_lists("acme", age=50)
    (busy,) = sandbox.control.busy("acme", count=1)

    def shown():
        return next(
            runner["busy"] for runner in acme.get(f"{RUNNERS}?per_page=100").json()["runners"] if runner["id"] == busy
        )

    assert not shown()
    sandbox.control.step(seconds=50)
    assert shown()


def test_a_deleted_runner_is_still_found_for_some_seconds_but_not_listed(sandbox, acme, globex):
    sandbox.control.linger("acme", lag=5)
    victim, other = everyone(sandbox)[:2]
    shown = acme.get(f"{RUNNERS}/{victim}").json()
    sandbox.control.step(seconds=100)
    assert acme.delete(f"{RUNNERS}/{victim}").status_code == 204
    assert acme.get(f"{RUNNERS}/{victim}").json() == shown
    assert victim not in listed(acme)[0]
    assert acme.delete(f"{RUNNERS}/{victim}").status_code == 404
    sandbox.control.step(seconds=4.9)
    assert acme.get(f"{RUNNERS}/{victim}").status_code == 200
    sandbox.control.step(seconds=0.1)
    assert acme.get(f"{RUNNERS}/{victim}").status_code == 404
    (lost,) = sandbox.control.lose("globex", count=1)
    assert globex.get(f"/orgs/globex/actions/runners/{lost}").status_code == 404
    sandbox.control.no_faults()
    acme.delete(f"{RUNNERS}/{other}")
    assert acme.get(f"{RUNNERS}/{other}").status_code == 404


def test_a_runner_at_work_is_shown_as_not_busy_and_a_delete_then_takes_it_away_with_its_job(sandbox, acme):
    (job,) = sandbox.control.queue("acme", labels=["gpu"])
    at_work = sandbox.fleet.jobs[job].runner_id
    sandbox.control.misreport("acme", ids=[at_work], busy=False, seconds=SECONDS)
    runners = {runner["id"]: runner for runner in acme.get(f"{RUNNERS}?per_page=100").json()["runners"]}
    assert runners[at_work] == acme.get(f"{RUNNERS}/{at_work}").json()
    assert not runners[at_work]["busy"]
    assert acme.delete(f"{RUNNERS}/{at_work}").status_code == 204
    assert sandbox.fleet.jobs[job].conclusion == "failure"
    (wrong,) = sandbox.control.account()["wrongful_removals"]
    assert wrong["runner_id"] == at_work


def test_a_runner_is_shown_offline_while_it_executes_until_that_is_over(sandbox, acme, globex):
    sandbox.control.misreport("acme", status="offline", seconds=SECONDS)
    statuses = {runner["status"] for runner in acme.get(RUNNERS).json()["runners"]}
    assert statuses == {"offline"}
    assert {r["status"] for r in globex.get("/orgs/globex/actions/runners").json()["runners"]} == {"online"}
    sandbox.control.step(seconds=SECONDS)
    assert {runner["status"] for runner in acme.get(RUNNERS).json()["runners"]} == {"online"}


def test_a_registration_vanishes_and_comes_back_under_its_id(sandbox, acme):
    (lost,) = sandbox.control.lose("acme", count=1, seconds=SECONDS)
    sandbox.control.step(seconds=SECONDS - 1)
    assert acme.get(f"{RUNNERS}/{lost}").status_code == 404
    sandbox.control.step(seconds=1)
    assert acme.get(f"{RUNNERS}/{lost}").json()["status"] == "online"
    (loss,) = sandbox.control.account()["losses"]
    assert loss["restored_at"] == loss["lost_at"] + SECONDS
    assert sandbox.control.account()["unnoticed"] == []


def test_a_registration_does_not_come_back_when_its_runner_was_torn_down_meanwhile(sandbox, acme):
    (lost,) = sandbox.control.lose("acme", count=1, seconds=SECONDS)
    runner = sandbox.fleet.roster.find(lost)
    sandbox.control.in_world(lambda: sandbox.fleet.tear_down(runner, sandbox.world.now()))
    sandbox.control.step(seconds=SECONDS)
    assert acme.get(f"{RUNNERS}/{lost}").status_code == 404


@pytest.mark.parametrize("status", [403, 404])
def test_a_permission_that_is_withheld_is_403_or_404_on_every_runner_call_and_nothing_else(
    sandbox, acme, globex, status
):
    sandbox.control.withhold_permission("acme", status=status, seconds=SECONDS)
    runner = f"{RUNNERS}/{everyone(sandbox)[0]}"
    answers = [
        acme.get(RUNNERS),
        acme.get(runner),
        acme.delete(runner),
        acme.get("/organizations/5001/actions/runners"),
    ]
    assert {answer.status_code for answer in answers} == {status}
    if status == 403:
        assert answers[0].json()["message"] == "Resource not accessible by integration"
        assert answers[0].headers["x-accepted-github-permissions"] == "organization_self_hosted_runners=read"
        assert answers[2].headers["x-accepted-github-permissions"] == "organization_self_hosted_runners=write"
    else:
        assert answers[0].json()["message"] == "Not Found"
    assert acme.get("/repos/acme/api/actions/runs").status_code == 200
    assert globex.get("/orgs/globex/actions/runners").status_code == 200
    sandbox.control.step(seconds=SECONDS)
    assert acme.get(RUNNERS).status_code == 200


@pytest.mark.parametrize("admitted", [True, False])
def test_an_installation_admits_that_a_permission_is_withheld_or_does_not(sandbox, app, admitted):
    sandbox.control.withhold_permission("acme", admitted=admitted)
    installation = f"/app/installations/{sandbox.installation_id()}"
    minted = app.post(f"{installation}/access_tokens")
    for document in (minted.json(), app.get(installation).json()):
        assert ("organization_self_hosted_runners" in document["permissions"]) is not admitted
    other = app.get(f"/app/installations/{sandbox.installation_id('globex')}").json()
    assert "organization_self_hosted_runners" in other["permissions"]


def test_a_fresh_token_is_401_and_then_404_before_it_is_good(sandbox, acme, globex):
    sandbox.control.step(seconds=5)
    sandbox.control.doubt_new_tokens("acme", refused=2, hidden=3)
    statuses = []
    with installation_client(sandbox) as fresh, installation_client(sandbox, "globex") as elsewhere:
        for seconds in (0, 1.9, 0.1, 2.9, 0.1):
            sandbox.control.step(seconds=seconds)
            statuses.append(fresh.get(RUNNERS).status_code)
            assert acme.get(RUNNERS).status_code == 200, "an older token is good"
            assert elsewhere.get("/orgs/globex/actions/runners").status_code == 200
    assert statuses == [401, 401, 404, 404, 200]


def test_a_renamed_organization_is_404_under_its_old_name_and_the_same_under_its_ids(sandbox, acme, app):
    installation = sandbox.installation_id("acme")
    sandbox.control.rename("acme", "acme-two", seconds=SECONDS)
    for path in (RUNNERS, f"{RUNNERS}/{everyone(sandbox, 'acme-two')[0]}", "/repos/acme/api"):
        assert acme.get(path).status_code == 404
        assert acme.get(path.replace("acme", "acme-two")).status_code == 200
    assert app.get("/orgs/acme/installation").status_code == 404
    assert app.get("/orgs/acme-two/installation").json()["id"] == installation
    assert acme.get("/organizations/5001/actions/runners").json()["total_count"] == 25
    shown = app.get(f"/app/installations/{installation}").json()
    assert (shown["account"]["login"], shown["account"]["id"]) == ("acme-two", 5001)
    assert mint(sandbox, "acme").startswith("ghs_"), "controls still accept the old name"
    sandbox.control.step(seconds=SECONDS)
    assert acme.get(RUNNERS).status_code == 200
    assert acme.get("/orgs/acme-two/actions/runners").status_code == 404


def test_a_renamed_organization_is_called_so_in_deliveries(sandbox, receiver):
    sandbox.control.queue("acme", labels=["unknown"])
    sandbox.control.rename("acme", "acme-two")
    sandbox.control.queue("acme-two", labels=["unknown"])
    payloads = [got.payload for got in receiver.wait(2)]
    assert {p["organization"]["login"] for p in payloads} == {"acme", "acme-two"}
    assert {p["repository"]["full_name"] for p in payloads} == {"acme/api", "acme-two/api"}
    assert len({p["installation"]["id"] for p in payloads}) == 1


def test_an_organization_cannot_take_the_name_of_another(sandbox):
    with pytest.raises(ValueError, match="Globex"):
        sandbox.control.rename("acme", "Globex")
    sandbox.control.rename("globex", "initech", seconds=SECONDS)
    with pytest.raises(ValueError, match="globex"):
        sandbox.control.rename("acme", "globex")


def test_a_suspension_may_end_by_itself(sandbox, app, acme, receiver):
    path = f"/app/installations/{sandbox.installation_id()}/access_tokens"
    sandbox.control.suspend("acme", seconds=SECONDS)
    assert (app.post(path).status_code, acme.get(RUNNERS).status_code) == (403, 403)
    sandbox.control.step(seconds=SECONDS)
    assert (app.post(path).status_code, acme.get(RUNNERS).status_code) == (201, 200)
    assert {got.payload["action"] for got in receiver.wait(2)} == {"suspend", "unsuspend"}


def test_a_removed_app_may_be_installed_again_with_another_id(sandbox, app):
    former = sandbox.installation_id()
    sandbox.control.uninstall("acme", seconds=SECONDS)
    assert app.post(f"/app/installations/{former}/access_tokens").status_code == 404
    sandbox.control.no_faults()
    assert sandbox.installation_id() != former
    assert app.post(f"/app/installations/{former}/access_tokens").status_code == 404
    assert mint(sandbox).startswith("ghs_")


@pytest.mark.parametrize("ahead", [90, -90])
def test_a_clock_that_is_wrong_is_wrong_in_everything_that_github_states(sandbox, acme, ahead):
    sandbox.control.skew_clock(ahead=ahead, seconds=SECONDS)
    now = sandbox.world.now() + ahead

    def minted():
        with app_client(sandbox, app_jwt(sandbox, iat=int(time.time()) - 200, exp=int(time.time()) + 300)) as app:
            return app.post(f"/app/installations/{sandbox.installation_id()}/access_tokens")

    answer = acme.get(RUNNERS)
    assert parsedate_to_datetime(answer.headers["date"]).timestamp() == int(now)
    assert int(answer.headers["x-ratelimit-reset"]) == int(int(sandbox.world.now()) + 3600 + ahead)
    assert acme.get("/rate_limit").json()["rate"]["reset"] == int(answer.headers["x-ratelimit-reset"])
    expiry = time.strptime(minted().json()["expires_at"], "%Y-%m-%dT%H:%M:%SZ")
    assert abs(time.mktime(expiry) - time.timezone - (now + 3600)) <= 1
    (job,) = sandbox.control.queue("acme", labels=["gpu"])
    started = acme.get(f"/repos/acme/api/actions/jobs/{job}").json()["started_at"]
    assert abs(time.mktime(time.strptime(started, "%Y-%m-%dT%H:%M:%SZ")) - time.timezone - now) <= 1
    sandbox.control.step(seconds=SECONDS)
    assert parsedate_to_datetime(acme.get(RUNNERS).headers["date"]).timestamp() == int(sandbox.world.now())


@pytest.mark.parametrize(
    ("ahead", "claims", "text"),
    [
        (90, {"iat": -120, "exp": 80}, "exp"),
        (-90, {"iat": -60, "exp": 500}, "iat"),
        (-90, {"iat": -100, "exp": 540}, "far"),
    ],
    ids=[
        "expired for a clock that is ahead",
        "in the future for one that is behind",
        "too far off for one that is behind",
    ],
)
def test_a_jwt_is_judged_by_a_clock_that_is_wrong(sandbox, ahead, claims, text):
    stated = {name: int(time.time()) + value for name, value in claims.items()}
    with app_client(sandbox, app_jwt(sandbox, **stated)) as app:
        assert app.get("/app").status_code == 200
        sandbox.control.skew_clock(ahead=ahead)
        answer = app.get("/app")
        assert (answer.status_code, text in answer.json()["message"]) == (401, True)
        sandbox.control.no_faults()
        assert app.get("/app").status_code == 200


def test_deliveries_are_logged_by_a_clock_that_is_wrong(sandbox, app, receiver):
    sandbox.control.skew_clock(ahead=90)
    sandbox.control.queue("acme", labels=["unknown"])
    receiver.wait(1)
    at = time.strptime(logged(app, 1)[0]["delivered_at"], "%Y-%m-%dT%H:%M:%SZ")
    assert abs(time.mktime(at) - time.timezone - (sandbox.world.now() + 90)) <= 1


def test_lies_add_up(sandbox, acme):
    ids = everyone(sandbox)
    sandbox.control.stale_lists("acme", age=50)
    sandbox.control.lose("acme", ids=ids[:1])
    sandbox.control.unlist("acme", ids=ids[1:2])
    sandbox.control.misreport("acme", ids=ids[2:3], status="offline")
    sandbox.control.miscount("acme", by=3)
    document = acme.get(f"{RUNNERS}?per_page=100").json()
    shown = {runner["id"]: runner["status"] for runner in document["runners"]}
    assert document["total_count"] == 27
    assert sorted(shown) == ids[:1] + ids[2:]
    assert [runner for runner, status in shown.items() if status == "offline"] == ids[2:3]


def test_no_faults_ends_every_false_answer_at_once(sandbox, acme):
    sandbox.control.unlist("acme", share=0.5)
    sandbox.control.withhold_permission("acme", seconds=1000)
    sandbox.control.lose("acme", count=3, seconds=1000)
    sandbox.control.rename("acme", "acme-two", seconds=1000)
    sandbox.control.no_faults()
    assert listed(acme) == (everyone(sandbox), [25])


def test_a_fault_for_all_orgs_affects_all_and_works_over_http_too(sandbox, acme, globex):
    httpx.post(f"{sandbox.url}/_sandbox/empty-list", json={"seconds": SECONDS}).raise_for_status()
    assert (listed(acme)[1], listed(globex, org="globex")[1]) == ([0], [0])
    httpx.delete(f"{sandbox.url}/_sandbox/faults").raise_for_status()
    httpx.post(f"{sandbox.url}/_sandbox/orgs/globex/empty-list").raise_for_status()
    assert (listed(acme)[1], listed(globex, org="globex")[1]) == ([25], [0])
    described = httpx.get(f"{sandbox.url}/_sandbox/controls").json()
    assert "org" in described["empty-list"]["takes"]
    assert all(control["does"] for control in described.values())
