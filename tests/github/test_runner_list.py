"""Listing all runners: the cost in API calls, and when the list is complete."""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import dataclass, field

import msgspec
import pytest

from ghapp.decoding import LeftOutRows
from ghapp.errors import GitHubUnavailableError, StoreUnavailableError
from ghapp.github.ports import Listing
from ghapp.github.runner_list import get_each, list_runners
from ghapp.installations.store import EtagPages
from ghapp.runners.verdict import Reason
from tests.rules.builders import NOW


@dataclass
class Tenant:
    """A fake GitHub that lists `count` runners in pages, and records the requests."""

    count: int
    token: str = "token"
    key: int = 7
    name: str = "acme"
    totals: dict[int, int] = field(default_factory=dict)
    """`total_count` by page, where it differs from `count`."""
    asked: list[tuple[int, str | None]] = field(default_factory=list)
    failing: set[int] = field(default_factory=set)
    versions: dict[int, int] = field(default_factory=dict)
    in_flight: int = 0
    most_in_flight: int = 0
    overlap: int = 0
    """From the second page on, runners are shifted back by so many places."""
    odd: dict[int, dict[str, object]] = field(default_factory=dict)
    """By runner, the fields of its row that are not as the API describes."""
    left_out: LeftOutRows = field(default_factory=LeftOutRows)

    async def list_runners(self, page, etag):
        self.asked.append((page, etag))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0.001)
        self.in_flight -= 1
        if page in self.failing:
            raise GitHubUnavailableError(f"page {page}")
        current = f"{self.token}-{page}-{self.versions.get(page, 0)}"
        if etag == current:
            return Listing(None, etag)
        first = (page - 1) * 100 + 1 - (self.overlap if page > 1 else 0)
        ids = range(first, min(page * 100 - (self.overlap if page > 1 else 0), self.count) + 1)
        body = {
            "total_count": self.totals.get(page, self.count),
            "runners": [runner(each) | self.odd.get(each, {}) for each in ids],
        }
        return Listing(msgspec.json.encode(body), current)

    async def settle(self):
        """Waits until the token is trusted; this one always is."""

    async def runner(self, runner_id):
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0.001)
        self.in_flight -= 1
        if runner_id in self.failing:
            raise GitHubUnavailableError("no answer")


def runner(runner_id):
    return {"id": runner_id, "name": f"r{runner_id}", "os": "linux", "status": "online", "busy": False, "labels": []}


@pytest.fixture
def pages(redis):
    return EtagPages(redis)


@pytest.mark.parametrize(
    ("count", "calls"), [(0, 1), (1, 1), (99, 1), (100, 1), (101, 2), (200, 2), (201, 3), (1000, 10)]
)
async def test_a_list_costs_one_call_for_100_runners_and_unchanged_pages_are_free(pages, count, calls):
    installation_client = Tenant(count)
    first = await list_runners(installation_client, pages, 10)
    second = await list_runners(installation_client, pages, 10)
    assert (first.calls, first.billable, second.calls, second.billable) == (calls, calls, calls, 0)
    assert len(installation_client.asked) == calls * 2
    assert len(first.runner_list.runners) == len(second.runner_list.runners) == count
    assert first.runner_list.flaw is second.runner_list.flaw is None


async def test_only_changed_pages_cost_a_call(pages):
    installation_client = Tenant(300)
    await list_runners(installation_client, pages, 10)
    installation_client.versions[2] = 1
    assert (await list_runners(installation_client, pages, 10)).billable == 1


async def test_a_page_whose_stored_body_is_corrupt_is_fetched_again(pages):
    installation_client = Tenant(300)
    await list_runners(installation_client, pages, 10)
    (stored,) = (page for number, page in (await pages.of(7, "token")).items() if number == 2)
    await pages.keep(7, "token", {2: stored._replace(deflated=b"no zlib")}, 3)
    again = await list_runners(installation_client, pages, 10)
    assert (len(again.runner_list.runners), again.runner_list.flaw, again.billable) == (300, None, 1)
    assert [asked for asked in installation_client.asked if asked[0] == 2] == [(2, None), (2, stored.etag), (2, None)]
    assert (await pages.of(7, "token"))[2] == stored


async def test_a_new_token_pays_for_every_page_once(pages):
    installation_client = Tenant(300)
    await list_runners(installation_client, pages, 10)
    installation_client.token = "another"
    assert (await list_runners(installation_client, pages, 10)).billable == 3
    assert all(etag is None for _, etag in installation_client.asked[3:])


async def test_pages_after_the_last_are_deleted(pages):
    installation_client = Tenant(300)
    await list_runners(installation_client, pages, 10)
    installation_client.count = 100
    installation_client.versions = {1: 1}
    await list_runners(installation_client, pages, 10)
    assert set(await pages.of(7, "token")) == {1}


@pytest.mark.parametrize(
    ("installation_client", "flaw"),
    [
        (Tenant(250), None),
        (Tenant(250, totals={1: 251, 2: 251, 3: 251}), Reason.LIST_INCOMPLETE),
        (Tenant(250, totals={1: 249, 2: 249, 3: 249}), Reason.LIST_INCOMPLETE),
        (Tenant(250, totals={3: 251}), Reason.LIST_INCOMPLETE),
        (Tenant(250, overlap=1), Reason.LIST_INCOMPLETE),
        (Tenant(0), None),
        (Tenant(0, totals={1: 1}), Reason.LIST_INCOMPLETE),
    ],
    ids=["complete", "one is missing", "one too many", "pages disagree", "one twice", "no runner", "no runner of one"],
)
async def test_a_list_is_complete_only_if_its_counts_agree(pages, installation_client, flaw):
    assert (await list_runners(installation_client, pages, 10)).runner_list.flaw == flaw


async def test_a_row_that_cannot_be_read_is_of_a_registered_runner(pages):
    listed = (await list_runners(Tenant(250, odd={7: {"status": "asleep"}, 8: {"os": None}}), pages, 10)).runner_list
    assert (listed.flaw, listed.unreadable, len(listed.runners)) == (None, {7}, 249)
    assert listed.runners[8] == listed.runners[9]._replace(id=8, name=listed.runners[8].name, os="")


async def test_a_row_without_a_readable_id_makes_the_list_incomplete(pages):
    tenant = Tenant(250, odd={7: {"id": None}})
    listed = (await list_runners(tenant, pages, 10)).runner_list
    assert (listed.flaw, listed.unreadable, len(listed.runners)) == (Reason.LIST_INCOMPLETE, frozenset(), 249)
    ((count, odd),) = tenant.left_out.take().values()
    assert (count, odd.kind, odd.field) == (1, "runner", "runners[6].id")


async def test_a_failed_page_stops_the_list_and_fetched_pages_are_stored(pages):
    installation_client = Tenant(1000, failing={2})
    with pytest.raises(GitHubUnavailableError, match="page 2"):
        await list_runners(installation_client, pages, 3)
    assert [page for page, _ in installation_client.asked] == [1, 2, 3, 4]
    assert set(await pages.of(7, "token")) == {1, 3, 4}


async def test_a_failed_first_page_stops_the_list_and_keeps_the_stored_pages(pages):
    installation_client = Tenant(300)
    await list_runners(installation_client, pages, 10)
    installation_client.failing = {1}
    with pytest.raises(GitHubUnavailableError, match="page 1"):
        await list_runners(installation_client, pages, 10)
    installation_client.failing = set()
    assert (await list_runners(installation_client, pages, 10)).billable == 0


async def test_an_unchanged_page_keeps_its_stored_total_count(pages):
    installation_client = Tenant(300)
    await list_runners(installation_client, pages, 10)
    installation_client.count, installation_client.versions = 299, {1: 1, 3: 1}
    assert (await list_runners(installation_client, pages, 10)).runner_list.flaw is Reason.LIST_INCOMPLETE, (
        "page 2 still counts 300"
    )
    installation_client.versions[2] = 1
    assert (await list_runners(installation_client, pages, 10)).runner_list.flaw is None


async def test_the_list_is_returned_without_its_cost(pages):
    look = (await list_runners(Tenant(2, totals={1: 3}), pages, 10)).runner_list
    assert (set(look.runners), look.total, look.flaw) == ({1, 2}, 3, Reason.LIST_INCOMPLETE)


@pytest.mark.parametrize("concurrency", [1, 3, 10])
async def test_concurrent_requests_are_limited(pages, concurrency):
    installation_client = Tenant(2000)
    await list_runners(installation_client, pages, concurrency)
    assert installation_client.most_in_flight == concurrency
    installation_client.most_in_flight = 0
    await get_each(installation_client, range(1, 40), concurrency, lambda: NOW)
    assert installation_client.most_in_flight == concurrency


async def test_an_implausible_total_count_is_an_error(pages):
    assert (await list_runners(Tenant(100, totals={1: 100_000}), pages, 100)).calls == 1000
    installation_client = Tenant(100, token="another", totals={1: 100_001})
    with pytest.raises(GitHubUnavailableError, match="not to be believed"):
        await list_runners(installation_client, pages, 100)
    assert installation_client.asked == [(1, None)]


async def test_progress_is_reported_after_each_page(pages):
    found = []
    await list_runners(Tenant(250), pages, 10, lambda done, of: found.append((done, of)))
    assert found == [(1, 3), (2, 3), (3, 3)]


async def test_failed_requests_are_omitted_and_each_answer_has_its_own_time():
    clock = iter((NOW, NOW + 60)).__next__
    assert await get_each(Tenant(0, failing={2}), [1, 2, 3], 1, clock) == {1: (None, NOW), 3: (None, NOW + 60)}


@pytest.mark.parametrize("lost_at", [1, 2, 9])
async def test_redis_that_is_lost_in_the_midst_of_a_list_is_one_error(pages, lost_at):
    """Each call takes its place in the budget, which is in Redis."""
    tenant, answered = Tenant(2_000), Tenant.list_runners

    async def list_page(page, etag):
        if page >= lost_at:
            raise StoreUnavailableError("Redis does not answer")
        return await answered(tenant, page, etag)

    tenant.list_runners = list_page
    with pytest.raises(StoreUnavailableError) as raised:
        await list_runners(tenant, pages, 10)
    assert len(traceback.format_exception(raised.value)) < 20
