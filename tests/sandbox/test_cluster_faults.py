from __future__ import annotations

import httpx
import pytest

from tests.sandbox.apiservers import PODS, RUNNERS, Api, names, pod, status


@pytest.fixture
def api():
    with Api.served() as api:
        yield api


@pytest.mark.parametrize(
    ("code", "reason"),
    [(401, "Unauthorized"), (403, "Forbidden"), (500, "InternalError"), (503, "ServiceUnavailable"), (504, "Timeout")],
)
def test_requests_fail_with_a_status_and_have_no_effect(api, code, reason):
    with api.control.fails(code):
        assert status(api.post(PODS, json=pod()))[:2] == (code, reason)
    assert names(api.get(PODS)) == []


def test_too_many_requests_is_plain_text(api):
    with api.control.fails(429, retry_after=7):
        answer = api.get(PODS)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert answer.headers["content-type"].startswith("text/plain")


def test_a_page_of_html_may_stand_before_it(api):
    with api.control.answers_html(502):
        answer = api.get(PODS)
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (502, "text/html")


@pytest.mark.parametrize(
    ("meant", "affected"),
    [
        ({}, ["list", "get", "delete", "runners", "version"]),
        ({"verbs": ("list",)}, ["list", "runners"]),
        ({"resources": ("pods",)}, ["list", "get", "delete"]),
        ({"resources": ("pods",), "verbs": ("get", "delete")}, ["get", "delete"]),
        ({"names": ("a",)}, ["get", "delete"]),
        ({"users": ("somebody",)}, []),
        ({"times": 2}, ["list", "get"]),
        ({"times": 0}, []),
    ],
    ids=str,
)
def test_a_fault_affects_what_it_matches(api, meant, affected):
    requests = {
        "list": ("GET", PODS),
        "get": ("GET", f"{PODS}/a"),
        "delete": ("DELETE", f"{PODS}/a"),
        "runners": ("GET", RUNNERS),
        "version": ("GET", "/version"),
    }
    trouble = api.control.fails(500, **meant)
    assert [name for name, asked in requests.items() if api.request(*asked).status_code == 500] == affected
    assert trouble.affected == len(affected)


def test_a_window_closes_by_the_cluster_s_clock(api):
    api.control.fails(500, seconds=60)
    api.clock.now += 59
    assert api.get(PODS).status_code == 500
    api.clock.now += 1
    assert api.get(PODS).status_code == 200


def test_of_two_troubles_the_first_goes_first(api):
    with api.control.fails(500, times=1), api.control.fails(503):
        assert [api.get(PODS).status_code for _ in range(2)] == [500, 503]
    assert api.get(PODS).status_code == 200


def test_a_reset_has_no_effect(api):
    with api.control.resets(), pytest.raises(httpx.TransportError):
        api.post(PODS, json=pod())
    assert names(api.get(PODS)) == []


def test_an_answer_can_be_lost_after_its_effect(api):
    with api.control.loses_answers(), pytest.raises(httpx.TransportError):
        api.post(PODS, json=pod())
    assert names(api.get(PODS)) == ["made"]


def test_an_answer_can_be_cut_short(api):
    api.control.pod("runners", "a")
    with api.control.cuts_short(), pytest.raises(httpx.RemoteProtocolError):
        api.get(PODS)


def test_a_request_can_hang(api):
    with api.control.hangs(times=1), pytest.raises(httpx.ReadTimeout):
        api.get(PODS, timeout=0.05)
    assert api.get(PODS).status_code == 200


def test_each_request_can_be_delayed(api):
    api.control.delay(30)
    with pytest.raises(httpx.ReadTimeout):
        api.get(PODS, timeout=0.05)
    api.control.all_is_well()
    assert api.get(PODS).status_code == 200


def test_all_is_well_ends_everything(api):
    trouble = api.control.fails(500)
    api.control.cut_watches_after(1)
    version = api.control.version()
    api.control.forget_versions(by_http=True)
    api.control.all_is_well()
    assert api.get(PODS).status_code == 200
    assert trouble.affected == 0
    assert api.get(PODS, params={"watch": "true", "resourceVersion": version}).status_code == 200
    with api.watching(PODS, api.version()) as watch:
        for name in "ab":
            api.control.pod("runners", name)
        assert watch.brief() == [("ADDED", "a"), ("ADDED", "b")]


def test_a_failed_call_is_recorded_with_its_code_and_a_reset_one_without(api):
    with api.control.fails(500):
        api.get(PODS)
    with api.control.resets(), pytest.raises(httpx.TransportError):
        api.get(PODS)
    assert [call.code for call in api.control.calls()] == [500, 0]


def test_a_watch_can_be_refused_and_a_list_not(api):
    with api.control.fails(403, verbs=("watch",)):
        assert api.get(PODS).status_code == 200
        assert status(api.get(PODS, params={"watch": "true"}))[:2] == (403, "Forbidden")
