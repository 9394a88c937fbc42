"""Faults of calls: their kinds, their scope, and their end."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

import httpx
import pytest

from tests.sandbox.clients import installation_client, mint

RUNNERS = "/orgs/acme/actions/runners"
ELSEWHERE = "/orgs/globex/actions/runners"
SECONDS = 30


@pytest.fixture
def globex(sandbox):
    with installation_client(sandbox, "globex") as client:
        yield client


def test_a_share_of_the_calls_fails_and_the_same_ones_for_the_same_seed(sandbox, acme, globex):
    def statuses():
        return [acme.get(RUNNERS).status_code for _ in range(40)]

    sandbox.control.fault("acme", status=503, share=0.5, seconds=SECONDS)
    seen = statuses()
    assert set(seen) == {200, 503}
    assert 8 <= seen.count(503) <= 32
    assert globex.get(ELSEWHERE).status_code == 200
    sandbox.control.step(seconds=SECONDS)
    assert set(statuses()) == {200}


def test_a_connection_is_reset_before_there_is_an_answer(sandbox, acme, globex):
    sandbox.control.fault("acme", reset=True, seconds=SECONDS)
    with pytest.raises(httpx.ReadError):
        acme.get(RUNNERS)
    assert globex.get(ELSEWHERE).status_code == 200
    sandbox.control.step(seconds=SECONDS)
    assert acme.get(RUNNERS).status_code == 200
    calls = sandbox.control.account()["by_org"]
    assert (calls["acme"]["unanswered"], calls["globex"]["unanswered"]) == (1, 0)


def test_a_body_ends_before_its_length_although_what_was_asked_is_done(sandbox, acme, globex):
    sandbox.control.fault("acme", cut_short=True, seconds=SECONDS)
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
        acme.get(RUNNERS)
    victim = next(iter(sandbox.fleet.roster.registered))
    assert acme.delete(f"{RUNNERS}/{victim}").status_code == 204, "there is no body to cut"
    assert victim not in sandbox.fleet.roster.registered
    assert globex.get(ELSEWHERE).status_code == 200
    sandbox.control.no_faults()
    assert acme.get(RUNNERS).json()["total_count"] == 24


@pytest.mark.parametrize("status", [200, 502])
def test_html_comes_instead_of_json(sandbox, acme, globex, status):
    sandbox.control.fault("acme", status=status, seconds=SECONDS, html=True)
    answer = acme.get(RUNNERS)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.text.startswith("<!DOCTYPE html>")
    assert globex.get(ELSEWHERE).json()["total_count"] == 3
    sandbox.control.step(seconds=SECONDS)
    assert acme.get(RUNNERS).json()["total_count"] == 25


def test_an_answer_comes_later_than_its_caller_waits(sandbox, acme, globex):
    sandbox.control.fault("acme", hang=60, seconds=SECONDS)
    with pytest.raises(httpx.ReadTimeout):
        acme.get(RUNNERS, timeout=0.1)
    assert globex.get(ELSEWHERE, timeout=5).status_code == 200
    sandbox.control.step(seconds=SECONDS)
    assert acme.get(RUNNERS, timeout=5).status_code == 200


def test_only_the_paths_that_match_fail(sandbox, acme):
    sandbox.control.fault("acme", status=502, match=r"/runners/\d+$")
    assert acme.get(RUNNERS).status_code == 200
    assert acme.get(f"{RUNNERS}/1001").status_code == 502


def test_calls_that_name_no_organization_fail_with_that_of_their_token(sandbox, acme, globex):
    sandbox.control.fault("acme", status=502)
    assert acme.get("/rate_limit").status_code == 502
    assert globex.get("/rate_limit").status_code == 200


@pytest.mark.parametrize("status", [403, 429])
def test_a_secondary_limit_has_a_retry_after_and_lasts_as_long(sandbox, acme, globex, status):
    sandbox.control.secondary_limit("acme", status=status, retry_after=SECONDS)
    answer = acme.get(RUNNERS)
    assert (answer.status_code, answer.headers["retry-after"]) == (status, str(SECONDS))
    assert "secondary rate limit" in answer.json()["message"]
    assert globex.get(ELSEWHERE).status_code == 200
    assert mint(sandbox).startswith("ghs_"), "the App's own calls are not affected"
    sandbox.control.step(seconds=SECONDS)
    assert acme.get(RUNNERS).status_code == 200


@pytest.mark.parametrize("stated", ["", "60.5", "-1", "soon", "99999999999", "30, 60"])
def test_a_secondary_limit_states_its_time_as_it_is_given(sandbox, acme, stated):
    sandbox.control.secondary_limit("acme", retry_after=SECONDS, stated=stated)
    assert acme.get(RUNNERS).headers["retry-after"] == stated


@pytest.mark.parametrize("ahead", [0.0, 90.0])
def test_a_secondary_limit_may_state_its_end_as_a_date_by_githubs_clock(sandbox, acme, ahead):
    sandbox.control.skew_clock(ahead=ahead)
    sandbox.control.secondary_limit("acme", retry_after=SECONDS, stated="{date}")
    end = parsedate_to_datetime(acme.get(RUNNERS).headers["retry-after"]).timestamp()
    assert end == int(sandbox.world.now() + ahead + SECONDS)


@pytest.mark.parametrize("status", [403, 429])
def test_an_exhausted_limit_has_nothing_left_until_its_reset(sandbox, acme, globex, status):
    sandbox.control.exhaust_limit("acme", status=status, seconds=SECONDS)
    answer = acme.get(RUNNERS)
    assert answer.status_code == status
    assert answer.headers["x-ratelimit-remaining"] == "0"
    assert int(answer.headers["x-ratelimit-reset"]) == int(sandbox.world.now() + SECONDS)
    assert "retry-after" not in answer.headers
    assert globex.get(ELSEWHERE).status_code == 200
    sandbox.control.step(seconds=SECONDS)
    assert acme.get(RUNNERS).headers["x-ratelimit-remaining"] == "4999"


def test_an_exhausted_limit_may_be_lifted_before_its_reset(sandbox, acme):
    sandbox.control.exhaust_limit("acme", status=429, seconds=SECONDS)
    sandbox.control.no_faults()
    assert acme.get(RUNNERS).headers["x-ratelimit-remaining"] == "4999"
    sandbox.control.limits(org="acme", remaining=0)
    assert acme.get(RUNNERS).status_code == 403


def test_an_address_that_is_not_on_the_allow_list_is_403_with_that_reason(sandbox, acme, globex):
    sandbox.control.block_address("acme", seconds=SECONDS)
    answer = acme.get(RUNNERS)
    assert (answer.status_code, "IP allow list" in answer.json()["message"]) == (403, True)
    assert globex.get(ELSEWHERE).status_code == 200
    sandbox.control.step(seconds=SECONDS)
    assert acme.get(RUNNERS).status_code == 200


def test_failures_add_up_and_the_first_reported_comes_first(sandbox, acme):
    sandbox.control.fault("acme", status=200, html=True, match="/runners$")
    sandbox.control.fault("acme", status=502)
    assert acme.get(RUNNERS).text.startswith("<!DOCTYPE html>")
    assert acme.get(f"{RUNNERS}/1001").status_code == 502
    sandbox.control.no_faults()
    sandbox.control.fault("acme", cut_short=True)
    sandbox.control.unlist("acme", share=1)
    with pytest.raises(httpx.RemoteProtocolError):
        acme.get(RUNNERS)
