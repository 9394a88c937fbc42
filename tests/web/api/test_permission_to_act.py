"""`alive` and `replace`: whether a runner may be taken away for the answer, now.

A probe's kubelet kills a container for a 410, and a controller that polls acts by name for `replace`.
"""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from ghapp.errors import StoreUnavailableError
from ghapp.pods.claim_store import PodClaims
from ghapp.queue.jobs import JobName
from ghapp.remediation.fuse import Fuse, Position
from ghapp.remediation.pause import Pause
from ghapp.remediation.steps import LOOK_LASTS_SECONDS, TERMINATION_SECONDS
from ghapp.remediation.store import Fuses
from ghapp.runners import api as health
from ghapp.runners import observations
from ghapp.runners.absence import survey_after_failure
from ghapp.runners.evidence import Survey
from ghapp.runners.store import Runners
from ghapp.runners.verdict import Reason
from ghapp.store.budget import SharedRateLimits
from tests.web.conftest import INSTALLATION, NOW, healthy

LOST, NAME, POOL = 3, "c", "linux-4vcpu"


async def change(redis, fold):
    await Runners(redis).revise(INSTALLATION, {LOST: fold})


async def answers(http):
    """What `alive` answers, and whether any document that a controller can read permits a replacement."""
    ids = {"ids": [LOST], "names": [NAME]}
    rows = [
        (await http.get(f"/v1/orgs/acme/runners/{LOST}/health")).json(),
        (await http.get("/v1/orgs/acme/runners/health", params={"name": NAME})).json(),
        *(await http.post("/v1/orgs/acme/runners/health", json=ids)).json()["runners"],
        *(await http.get("/v1/orgs/acme/runners")).json()["runners"],
    ]
    alive = (await http.get(f"/v1/orgs/acme/runners/{NAME}/alive")).status_code
    return alive, {row["replace"] for row in rows if row["runner_id"] == LOST}


@pytest.fixture
async def granted(redis, away):
    """The loss is confirmed, and its replacement granted."""
    await change(redis, partial(observations.granted, at=NOW, event_id="event"))


async def test_a_granted_loss_may_be_acted_on(http, granted):
    assert await answers(http) == (410, {True})


@pytest.mark.parametrize("mode", ["dry-run", "off"])
async def test_not_in_a_mode_that_does_not_act(http, granted):
    assert await answers(http) == (200, {False})


@pytest.mark.parametrize("pool", [POOL, "*"])
async def test_not_during_a_pause(http, redis, granted, pool):
    await Fuses(redis).pause(INSTALLATION, pool, Pause("ada", "maintenance", NOW))
    assert await answers(http) == (200, {False})


@pytest.mark.parametrize(
    ("pool", "position", "expected"),
    [
        (POOL, Position.STOPPED, (200, {False})),
        ("*", Position.STOPPED, (200, {False})),
        (POOL, Position.PROVING, (410, {True})),
    ],
)
async def test_not_with_a_stopped_fuse(http, redis, granted, pool, position, expected):
    await Fuses(redis).save(INSTALLATION, pool, None, Fuse(position, since=NOW - 60, batch=3, allowed=3))
    assert await answers(http) == expected


async def test_not_while_its_controller_claims_that_the_pod_is_busy(http, redis, granted):
    await PodClaims(redis, lambda: NOW).claim(INSTALLATION, NAME, NAME, None, NOW + 60)
    assert await answers(http) == (200, {False})


async def test_not_while_a_job_is_known_to_run(http, redis, granted):
    await change(redis, lambda known: known._replace(removed_at=NOW, job_id=9, job_started_at=NOW, job_ended_at=None))
    assert await answers(http) == (200, {False})


@pytest.mark.parametrize(("seconds", "expected"), [(300.0, (410, {True})), (300.1, (200, {False}))])
async def test_not_by_an_observation_that_is_stale(http, redis, granted, times, seconds, expected):
    await Runners(redis).save_survey(INSTALLATION, Survey(NOW, 2))
    times[0] = NOW + seconds
    assert await answers(http) == expected


@pytest.mark.parametrize(("seconds", "alive"), [(TERMINATION_SECONDS, 410), (TERMINATION_SECONDS + 0.1, 200)])
async def test_a_process_is_not_ended_long_after_the_grant(http, redis, granted, times, seconds, alive):
    times[0] = NOW + seconds
    await Runners(redis).save_survey(INSTALLATION, Survey(times[0], 2))
    assert (await answers(http))[0] == alive


@pytest.mark.parametrize("removed", [False, True], ids=["granted", "removed"])
async def test_not_when_its_machine_is_registered_again_under_its_name(http, redis, granted, removed):
    if removed:
        await change(redis, partial(observations.removed, at=NOW))
    await Runners(redis).revise(INSTALLATION, {4: lambda _: healthy(4, NAME)})
    await change(redis, partial(observations.reregistered, as_id=4))
    assert await answers(http) == (200, {False})


@pytest.mark.parametrize("removed", [False, True], ids=["granted", "removed"])
async def test_not_when_its_controller_removed_it_on_purpose(http, redis, granted, removed):
    if removed:
        await change(redis, partial(observations.removed, at=NOW))
    await change(redis, partial(observations.retired_by_controller, at=NOW))
    assert await answers(http) == (200, {False})


async def test_once_the_replacement_was_accepted_the_process_may_end_and_nothing_else_is_asked_for(
    http, redis, granted
):
    await change(redis, partial(observations.removed, at=NOW))
    await change(redis, partial(observations.replaced, at=NOW))
    assert await answers(http) == (410, {False})


async def test_not_while_redis_does_not_answer(http, granted, monkeypatch):
    before = await answers(http)

    async def unavailable(*_):
        raise StoreUnavailableError("away")

    with monkeypatch.context() as outage:
        outage.setattr(Runners, "some", unavailable)
        assert (before, await answers(http)) == ((410, {True}), (200, {False}))
    assert await answers(http) == before


async def test_alive_has_github_asked_for_the_runner_and_its_name_before_a_process_ends(http, granted, asked, times):
    """Its machine may have registered again under its name since the last list."""
    times[0] = NOW + 60
    assert (await answers(http))[0] == 410
    assert asked == [(JobName.REMEDIATE, (INSTALLATION, LOST), f"remediate-{INSTALLATION}-{LOST}")]
    times[0] = NOW + 60 + LOOK_LASTS_SECONDS
    assert (await answers(http))[0] == 410
    assert len(asked) == 1, "the answer is of a moment ago"


async def test_a_process_lives_while_github_gives_no_answer(http, granted, worker, monkeypatch):
    monkeypatch.setattr(health, "LOOK_SECONDS", 0.3)
    worker.answers = False
    assert (await answers(http))[0] == 200


async def test_a_process_lives_when_its_machine_is_registered_again_since_the_last_list(
    http, redis, granted, worker, monkeypatch
):
    monkeypatch.setattr(type(worker), "__call__", lambda _self, evidence, _at: observations.reregistered(evidence, 4))
    assert (await answers(http))[0] == 200


async def test_not_while_sweeps_fail(http, redis, granted, times):
    """Its machine may have registered again since the last list, which is fresh enough for the state."""
    assert (await answers(http))[1] == {True}, "also of documents that are encoded already"
    survey = await Runners(redis).survey(INSTALLATION)
    await Runners(redis).save_survey(INSTALLATION, survey_after_failure(survey, Reason.GITHUB_UNAVAILABLE, NOW))
    await asyncio.sleep(1.1)  # cached values expire after one second
    assert await answers(http) == (200, {False})
    await Runners(redis).save_survey(INSTALLATION, Survey(NOW + 3, survey.total))
    await asyncio.sleep(1.1)
    times[0] = NOW + 4
    assert await answers(http) == (410, {True})


async def test_a_flood_without_a_token_costs_a_bounded_number_of_looks_whatever_the_number_of_processes(
    http, redis, times, asked, worker
):
    worker.answers = False
    await change(redis, partial(observations.granted, at=NOW, event_id="event"))
    limits = SharedRateLimits(redis)
    while await limits.grant_look(INSTALLATION, health.LOOKS, NOW):  # another process has spent them
        pass
    assert (await http.get(f"/v1/orgs/acme/runners/{NAME}/alive")).status_code == 200
    assert asked == []
