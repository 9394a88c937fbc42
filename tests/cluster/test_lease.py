"""Who leads: never two at once, and never nobody for longer than a lease."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from itertools import pairwise

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from ghapp.cluster.api import Cluster
from ghapp.cluster.lease import LEASE_SECONDS, RENEW_WITHIN_SECONDS, Leadership
from ghapp.errors import ClusterForbiddenError, ClusterUnavailableError, ResourceMissingError
from tests.cluster.shapes import CREATED, CREATED_AT, status

PATH = "/apis/coordination.k8s.io/v1/namespaces/ghapp/leases"


class LeaseServer:
    """One lease, with the API server's optimistic concurrency; and ways to fail."""

    def __init__(self) -> None:
        self.lease, self.version, self.refusal = None, 0, None
        self.loses_answers = False
        self.before_write = lambda: None

    def client(self) -> Cluster:
        transport = httpx2.MockTransport(self.answer)
        return Cluster(httpx2.AsyncClient(base_url="http://cluster", transport=transport), "ghapp")

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        if self.refusal is not None:
            return self.refusal
        if request.method == "GET":
            assert request.url.path == f"{PATH}/watch"
            absent = status(404, "NotFound", name="watch", kind="leases")
            return httpx2.Response(200, json=self.lease) if self.lease else httpx2.Response(404, json=absent)
        self.before_write()
        told = json.loads(request.content)
        if request.method == "POST":
            assert request.url.path == PATH
            if self.lease:
                return httpx2.Response(409, json=status(409, "AlreadyExists"))
            told["metadata"] |= {"uid": "1", "creationTimestamp": CREATED}
        elif told["metadata"]["resourceVersion"] != str(self.version):
            return httpx2.Response(409, json=status(409, "Conflict"))
        self.version += 1
        told["metadata"]["resourceVersion"] = str(self.version)
        self.lease = told
        if self.loses_answers:
            raise httpx2.ReadError("lost")
        return httpx2.Response(200, json=told)

    @property
    def spec(self):
        return self.lease["spec"]


class Clock:
    """Monotonic seconds; the time of day is another, and jumps."""

    def __init__(self) -> None:
        self.now, self.of_day = 1000.0, CREATED_AT

    def candidate(self, server: LeaseServer, identity: str) -> Leadership:
        return Leadership(server.client(), "watch", identity, clock=lambda: self.of_day, monotonic=lambda: self.now)


@pytest.fixture
def server():
    return LeaseServer()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def blue(server, clock):
    return clock.candidate(server, "blue")


@pytest.fixture
def pink(server, clock):
    return clock.candidate(server, "pink")


async def test_the_first_makes_the_lease(server, blue):
    assert (await blue.turn(), blue.is_ours, blue.holder) == (True, True, "blue")
    assert server.spec == {
        "holderIdentity": "blue",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-20T12:00:00.000000Z",
        "renewTime": "2026-11-20T12:00:00.000000Z",
        "leaseTransitions": 0,
    }


async def test_a_renewal_changes_when_it_was_renewed_and_nothing_else(server, clock, blue):
    await blue.turn()
    server.lease["metadata"]["labels"] = {"team": "ci"}
    server.lease["spec"]["strategy"] = "OldestEmulationVersion"
    before = json.loads(json.dumps(server.lease))
    clock.of_day += 2.5
    assert await blue.turn() is True
    before["spec"]["renewTime"] = "2026-11-20T12:00:02.500000Z"
    before["metadata"]["resourceVersion"] = "2"
    assert server.lease == before


async def test_a_second_one_sees_who_leads(blue, pink):
    await blue.turn()
    assert (await pink.turn(), pink.is_ours, pink.holder) == (False, False, "blue")


async def test_a_dead_one_s_lease_is_taken_when_nothing_new_was_seen_for_its_time(server, clock, blue, pink):
    await blue.turn()
    await pink.turn()
    clock.now += LEASE_SECONDS - 1e-6
    assert await pink.turn() is False
    clock.now += 1e-6
    clock.of_day += 3600
    assert await pink.turn() is True
    assert (server.spec["holderIdentity"], server.spec["leaseTransitions"]) == ("pink", 1)
    assert server.spec["acquireTime"] == server.spec["renewTime"] == "2026-11-20T13:00:00.000000Z"


async def test_whoever_comes_late_waits_the_whole_time_however_old_the_lease_looks(server, clock, blue, pink):
    await blue.turn()
    server.lease["spec"]["renewTime"] = "2020-01-01T00:00:00.000000Z"
    clock.now += 3600
    assert await pink.turn() is False


async def test_every_renewal_that_is_seen_starts_the_time_anew(clock, blue, pink):
    await blue.turn()
    for _ in range(20):
        clock.now += 9
        clock.of_day -= 3600  # a clock that runs backwards still says something new
        assert await pink.turn() is False
        await blue.turn()
        assert await pink.turn() is False


async def test_a_leader_that_cannot_renew_has_stopped_before_another_may_begin(server, clock, blue, pink):
    await blue.turn()
    server.refusal = httpx2.Response(503)
    clock.now += RENEW_WITHIN_SECONDS - 1e-6
    with pytest.raises(ClusterUnavailableError):
        await blue.turn()
    assert blue.is_ours is True
    clock.now += 1e-6
    assert blue.is_ours is False
    server.refusal = None
    assert await pink.turn() is False


async def test_one_that_has_stopped_may_lead_again_while_nobody_else_does(clock, blue):
    await blue.turn()
    clock.now += 3600
    assert blue.is_ours is False
    assert await blue.turn() is True


async def test_one_that_was_overtaken_knows_at_once(clock, blue, pink):
    await blue.turn()
    await pink.turn()
    clock.now += LEASE_SECONDS
    await pink.turn()
    assert (await blue.turn(), blue.holder) == (False, "pink")


async def test_one_whose_lease_was_given_to_another_by_hand_stops_before_its_time(server, blue):
    await blue.turn()
    server.lease["spec"]["holderIdentity"] = "pink"
    assert (await blue.turn(), blue.is_ours, blue.holder) == (False, False, "pink")


async def test_of_two_that_take_it_at_once_one_gets_it(server, clock, blue, pink):
    await blue.turn()
    await pink.turn()
    green = clock.candidate(server, "green")
    await green.turn()
    clock.now += LEASE_SECONDS
    assert sorted([await pink.turn(), await green.turn()]) == [False, True]


async def test_whoever_read_before_another_wrote_does_not_get_it(server, clock, blue, pink):
    def overtake():
        server.before_write = lambda: None
        server.version += 1
        server.lease["metadata"]["resourceVersion"] = str(server.version)

    await blue.turn()
    await pink.turn()
    clock.now += LEASE_SECONDS
    server.before_write = overtake
    assert (await pink.turn(), server.spec["holderIdentity"]) == (False, "blue")


async def test_of_two_that_make_it_at_once_one_gets_it(server, blue, pink):
    def overtake():
        server.before_write = lambda: None
        server.lease = {
            "metadata": {
                "name": "watch",
                "namespace": "ghapp",
                "uid": "1",
                "resourceVersion": "0",
                "creationTimestamp": CREATED,
            },
            "spec": {"holderIdentity": "pink", "leaseDurationSeconds": 15},
        }

    server.before_write = overtake
    assert await blue.turn() is False
    assert (await blue.turn(), blue.holder) == (False, "pink")


async def test_a_renewal_counts_from_before_it_was_sent(server, clock, blue):
    def take_long():
        clock.now += RENEW_WITHIN_SECONDS

    server.before_write = take_long
    assert (await blue.turn(), server.spec["holderIdentity"]) == (False, "blue")


async def test_a_lease_taken_by_an_answer_that_was_lost_is_found_to_be_ours(server, blue):
    server.loses_answers = True
    with pytest.raises(ClusterUnavailableError):
        await blue.turn()
    assert blue.is_ours is False
    server.loses_answers = False
    assert await blue.turn() is True


@pytest.mark.parametrize(
    ("spec", "wait"),
    [
        pytest.param({"leaseDurationSeconds": 40}, 40, id="longer"),
        pytest.param({"leaseDurationSeconds": 10**9}, 300, id="absurd"),
        pytest.param({"leaseDurationSeconds": None}, 15, id="unsaid"),
        pytest.param({"leaseDurationSeconds": -1}, 1, id="negative"),
    ],
)
async def test_another_s_lease_lasts_as_long_as_it_says_within_reason(server, clock, blue, pink, spec, wait):
    await blue.turn()
    server.lease["spec"] |= spec
    await pink.turn()
    clock.now += wait - 1e-6
    assert await pink.turn() is False
    clock.now += 1e-6
    assert await pink.turn() is True


@pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": ""}], ids=["no-spec", "empty", "nobody"])
async def test_an_empty_lease_is_free(server, blue, spec):
    await blue.turn()
    server.lease["spec"] = spec
    assert await blue.turn() is True
    assert (server.spec["holderIdentity"], server.spec["leaseTransitions"]) == ("blue", 1)


async def test_after_a_release_another_leads_at_once(server, blue, pink):
    await blue.turn()
    await pink.turn()
    await blue.release()
    assert (blue.is_ours, server.spec["holderIdentity"], server.spec["leaseDurationSeconds"]) == (False, "", 1)
    assert await pink.turn() is True
    assert (server.spec["leaseDurationSeconds"], server.spec["leaseTransitions"]) == (15, 1)


async def test_nobody_releases_another_s_lease(server, clock, blue, pink):
    await blue.turn()
    await pink.turn()
    await pink.release()
    clock.now += LEASE_SECONDS
    await pink.turn()
    await blue.release()
    assert (server.spec["holderIdentity"], pink.is_ours, blue.is_ours) == ("pink", True, False)


async def test_a_release_that_fails_is_no_error_and_we_lead_no_more(server, blue):
    await blue.turn()
    server.refusal = httpx2.Response(503)
    await blue.release()
    assert blue.is_ours is False


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        pytest.param(httpx2.Response(403), ClusterForbiddenError, id="rbac"),
        pytest.param(
            httpx2.Response(404, json=status(404, "NotFound", name="ghapp", kind="namespaces")),
            ResourceMissingError,
            id="no-namespace",
        ),
    ],
)
async def test_what_is_missing_is_named(server, blue, refusal, error):
    server.refusal = refusal
    with pytest.raises(error):
        await blue.turn()


async def until(holds):
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - what is waited for is a property, and no event
            await asyncio.sleep(0)


async def test_a_renewal_says_something_new_though_the_clock_stands_still_or_goes_back(server, clock, blue):
    told = []
    for back in (0, 0, 3600, -3600, 0):
        clock.of_day -= back
        await blue.turn()
        told.append(server.spec["renewTime"])
    assert len(set(told)) == 5


async def test_while_it_stands_it_leads_and_then_releases(server, blue):
    async with blue.standing():
        await until(lambda: blue.is_ours)
        assert server.spec["holderIdentity"] == "blue"
    assert server.spec["holderIdentity"] == ""


NAMES = ("blue", "pink", "green")
STEPS = st.tuples(st.sampled_from([*NAMES, "cut", "heal", "lose", "release"]), st.floats(0, 20))


@given(st.lists(STEPS, max_size=60))
def test_never_two_at_once_whatever_fails_and_however_long_it_takes(steps):
    """Each candidate has a clock of its own, which began elsewhere; only time that passes is the same for all."""

    async def play():
        server, clocks = LeaseServer(), {name: Clock() for name in NAMES}
        for number, name in enumerate(NAMES):
            clocks[name].now = 1e6 * number
            clocks[name].of_day = CREATED_AT - 1e6 * number
        candidates = {name: clocks[name].candidate(server, name) for name in NAMES}
        for step, seconds in steps:
            for clock in clocks.values():
                clock.now += seconds
            server.loses_answers = step == "lose" or (server.loses_answers and step != "heal")
            if step in ("cut", "heal"):
                server.refusal = httpx2.Response(503) if step == "cut" else None
            elif step == "release":
                for each in candidates.values():
                    await each.release()
            elif step in NAMES:
                with suppress(ClusterUnavailableError):
                    await candidates[step].turn()
            assert sum(each.is_ours for each in candidates.values()) <= 1

    asyncio.run(play())


def test_a_leader_stops_well_before_its_lease_is_over():
    assert all(less < more for less, more in pairwise([2.0, RENEW_WITHIN_SECONDS, LEASE_SECONDS]))


@pytest.mark.parametrize(("lasting", "is_logged"), [(15.0, False), (0.0, True)], ids=["for a moment", "for long"])
async def test_a_refusal_by_an_api_server_that_has_just_started_is_waited_out(
    server, blue, monkeypatch, lasting, is_logged
):
    monkeypatch.setattr("ghapp.cluster.forbidden_grace.LASTING_SECONDS", lasting)
    monkeypatch.setattr("ghapp.cluster.lease.TURN_SECONDS", 0.001)
    server.refusal = httpx2.Response(403)
    with capture_logs() as logs:
        async with blue.standing():
            await asyncio.sleep(0.05)
            server.refusal = None
            await until(lambda: blue.is_ours)
    assert ("lease renewal failed" in [each["event"] for each in logs]) is is_logged
