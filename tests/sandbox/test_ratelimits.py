from __future__ import annotations

from ghapp.sandbox.ratelimits import APP_LIMIT
from tests.sandbox.clients import app_client, installation_client

RUNNERS = "/orgs/acme/actions/runners"


def test_each_call_costs_one_and_answers_say_what_is_left(sandbox, acme):
    sandbox.control.limits(org="acme", limit=100)
    headers = [acme.get(RUNNERS).headers for _ in range(2)]
    assert [h["x-ratelimit-remaining"] for h in headers] == ["99", "98"]
    assert headers[1]["x-ratelimit-used"] == "2"
    assert headers[1]["x-ratelimit-limit"] == "100"
    assert headers[1]["x-ratelimit-resource"] == "core"
    assert int(headers[1]["x-ratelimit-reset"]) == int(sandbox.world.now()) + 3600


def test_over_the_limit_everything_is_403_until_the_reset(sandbox, acme):
    sandbox.control.limits(org="acme", remaining=1)
    assert acme.get(RUNNERS).status_code == 200
    answer = acme.get(RUNNERS)
    assert answer.status_code == 403
    assert answer.headers["x-ratelimit-remaining"] == "0"
    assert "rate limit exceeded" in answer.json()["message"]
    sandbox.control.step(seconds=3600)
    with installation_client(sandbox) as fresh:
        assert fresh.get(RUNNERS).status_code == 200


def test_installations_do_not_share_a_limit(sandbox):
    sandbox.control.limits(org="acme", remaining=0)
    with installation_client(sandbox, "globex") as globex:
        assert globex.get("/orgs/globex/actions/runners").status_code == 200


def test_asking_for_the_limit_is_free(sandbox, acme):
    sandbox.control.limits(org="acme", remaining=0)
    answer = acme.get("/rate_limit")
    assert answer.status_code == 200
    assert answer.json()["rate"]["remaining"] == 0


def test_tokens_of_one_installation_share_its_limit(sandbox, acme):
    acme.get(RUNNERS)
    with installation_client(sandbox) as other:
        assert other.get(RUNNERS).headers["x-ratelimit-used"] == "2"


def test_calls_as_the_app_have_a_limit_of_their_own(sandbox, acme):
    sandbox.control.limits(org="acme", remaining=0)
    with app_client(sandbox) as app:
        answer = app.get("/app/installations")
        assert (answer.status_code, answer.headers["x-ratelimit-limit"]) == (200, str(APP_LIMIT))
        meter = sandbox.world.limits.meter_of_app(sandbox.app.id, sandbox.world.now())
        meter.used = APP_LIMIT
        answer = app.get("/app/installations")
        assert (answer.status_code, answer.headers["x-ratelimit-remaining"]) == (403, "0")
        assert "rate limit exceeded for App" in answer.json()["message"]
    assert acme.get("/rate_limit").status_code == 200
