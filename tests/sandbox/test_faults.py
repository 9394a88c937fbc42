from __future__ import annotations

import time

import httpx
import pytest

from tests.sandbox.clients import mint

RUNNERS = "/orgs/acme/actions/runners"


def test_a_status_is_answered_instead_with_the_given_body_and_headers(sandbox, acme):
    sandbox.control.fault(match="/runners$", status=502, body="<h1>no</h1>", headers={"x-why": "because"})
    answer = acme.get(RUNNERS)
    assert (answer.status_code, answer.text, answer.headers["x-why"]) == (502, "<h1>no</h1>", "because")
    assert acme.get(f"{RUNNERS}/1001").status_code == 200


def test_an_error_without_a_body_has_githubs_shape(sandbox, acme):
    sandbox.control.fault(match="/runners", status=503)
    assert acme.get(RUNNERS).json()["message"] == "Service Unavailable"


def test_a_fault_ends_with_its_time_and_its_number(sandbox, acme):
    sandbox.control.fault(match="/runners", status=500, times=1)
    assert [acme.get(RUNNERS).status_code for _ in range(2)] == [500, 200]
    sandbox.control.fault(match="/runners", status=500, seconds=10)
    assert acme.get(RUNNERS).status_code == 500
    sandbox.control.step(seconds=10)
    assert acme.get(RUNNERS).status_code == 200
    sandbox.control.fault(match="/runners", status=500)
    sandbox.control.no_faults()
    assert acme.get(RUNNERS).status_code == 200


def test_a_fault_affects_one_org_and_one_method_also_below_api_v3_and_by_id(sandbox, acme):
    sandbox.control.fault(match="^/org", org="globex", status=500)
    assert acme.get(RUNNERS).status_code == 200
    sandbox.control.fault(match="^/org", org="acme", method="GET", status=500)
    for base in ("", "/api/v3"):
        assert acme.get(f"{base}{RUNNERS}").status_code == 500
        assert acme.get(f"{base}/organizations/5001/actions/runners").status_code == 500
    assert acme.delete(f"{RUNNERS}/1001").status_code == 204


def test_a_token_may_be_refused_to_one_org(sandbox):
    sandbox.control.fault(match="access_tokens$", org="acme", status=500)
    with pytest.raises(httpx.HTTPStatusError, match="500"):
        mint(sandbox)
    assert mint(sandbox, "globex").startswith("ghs_")


def test_a_reset_breaks_the_connection(sandbox, acme):
    sandbox.control.fault(match="/runners", reset=True)
    with pytest.raises(httpx.TransportError):
        acme.get(RUNNERS)
    assert sandbox.control.account()["calls"]["GET /orgs/{org}/actions/runners"]["unanswered"] == 1


def test_a_hang_outlasts_the_callers_patience_and_the_sandbox_still_stops_at_once(sandbox, acme):
    sandbox.control.fault(match="/runners", hang=60)
    with pytest.raises(httpx.ReadTimeout):
        acme.get(RUNNERS, timeout=0.1)
    started = time.perf_counter()
    sandbox.stop()
    assert time.perf_counter() - started < 1


def test_faulted_calls_do_not_count_against_the_limit(sandbox, acme):
    sandbox.control.fault(match="/runners", status=500, times=3)
    for _ in range(3):
        acme.get(RUNNERS)
    assert acme.get(RUNNERS).headers["x-ratelimit-used"] == "1"


def test_latency_is_added_to_every_call(sandbox, acme):
    sandbox.control.latency(seconds=0.1)
    started = time.perf_counter()
    acme.get(RUNNERS)
    assert time.perf_counter() - started >= 0.1
