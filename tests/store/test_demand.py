"""Jobs are stored while they are queued or running, and for 30 days after."""

import pytest

from ghapp.gate.shard_status import TakenJob
from ghapp.store import keys
from ghapp.workflow_jobs import store
from ghapp.workflow_jobs.job import HOSTED_GROUP, Job, JobSearch, PullReference
from ghapp.workflow_jobs.reason import WaitReason
from ghapp.workflow_jobs.store import DeliveredStatus, Demand

NOW = 1_790_000_000.0


def job(status):
    return Job(42, status, ("linux",), "acme/api", NOW, runner_id=1, runner_name="linux-1")


@pytest.mark.parametrize("statuses", [["queued"], ["queued", "running"], ["running"], ["running", "over"], ["over"]])
async def test_a_job_is_found_by_its_id_as_last_reported(redis, statuses):
    demand = Demand(redis)
    for status in statuses:
        await demand.record(7, [job(status)])
    assert await demand.one(7, 42) == job(statuses[-1])
    assert [await demand.one(7, 43), await demand.one(8, 42)] == [None, None]


async def test_a_completed_job_is_kept_and_cannot_become_queued_again(redis):
    demand = Demand(redis)
    await demand.record(7, [job("running"), job("over"), job("running")])
    assert await demand.all(7) == []
    assert await demand.one(7, 42) == job("over")
    assert await redis.ttl(f"{keys.over(7)}:42") == 3600, "an end without a date is not listed"


async def test_every_started_job_is_counted_for_an_hour(redis):
    demand = Demand(redis)
    took = [Job(each, "running", (), "acme/api", 0.0, 5, "a", 1000.0 + each) for each in range(3)]
    await demand.record(7, took)
    await demand.record(7, [each._replace(status="over", started_at=None) for each in took])
    await demand.record(7, took)  # delivered again
    assert await demand.taken(7, 1001.0) == [TakenJob(1, 5, 1001.0), TakenJob(2, 5, 1002.0)]
    await demand.record(7, [Job(9, "running", (), "acme/api", 0.0, 5, "a", 1001.0 + 3600)])
    assert [each.job_id for each in await demand.taken(7, 0.0)] == [2, 9]


async def test_a_job_without_a_runner_is_not_counted_as_started(redis):
    await Demand(redis).record(7, [Job(1, "queued", (), "acme/api", 1000.0)])
    assert await Demand(redis).taken(7, 0.0) == []


def ended(job_id, at, **changes):
    return Job(job_id, "over", ("linux",), "acme/api", NOW, ended_at=at, conclusion="success")._replace(**changes)


async def test_jobs_that_ended_are_listed_latest_first_each_once(redis):
    demand = Demand(redis)
    first, second = ended(1, NOW + 10), ended(2, NOW + 20)
    await demand.record(7, [first, second])
    await demand.record(7, [first])  # delivered again
    assert await demand.over(7) == [second, first]
    assert await demand.over(8) == []


async def test_jobs_that_ended_more_than_an_hour_before_the_latest_are_not_listed(redis):
    demand = Demand(redis)
    await demand.record(7, [ended(1, NOW), ended(2, NOW + 0.5)])
    await demand.record(7, [ended(3, NOW + 0.5 + 3600)])
    assert [each.id for each in await demand.over(7)] == [3, 2]
    assert await redis.ttl(keys.ended(7)) == 30 * DAY
    assert await demand.one(7, 1) == ended(1, NOW), "the job is still found by its id"


async def test_the_latest_of_many_ended_jobs_are_listed(redis, monkeypatch):
    monkeypatch.setattr(store, "MOST_OVER", 2)
    demand = Demand(redis)
    await demand.record(7, [ended(each, NOW + each) for each in (1, 2, 3)])
    assert [each.id for each in await demand.over(7)] == [3, 2]
    assert await demand.one(7, 1) == ended(1, NOW + 1), "the job is still found by its id"


DAY = 86_400
OURS = {"runner_id": 3, "runner_name": "Linux-3", "head_sha": "abcdef0" + "1" * 33, "run_id": 41}


@pytest.mark.parametrize(
    ("search", "ids"),
    [
        (JobSearch(runner="linux-3"), [3, 1]),
        (JobSearch(runner="linux-30"), []),
        (JobSearch(sha="abcdef0"), [3, 1]),
        (JobSearch(sha="ABCDEF01"), [3, 1]),
        (JobSearch(sha="abcdef2"), []),
        (JobSearch(run_id=41), [1]),
        (JobSearch(run_id=41 + store.BUCKETS), [3]),
        (JobSearch("linux-3", "abcdef0", 41), [1]),
        (JobSearch(), []),
    ],
)
async def test_an_ended_job_is_found_by_its_runner_its_commit_and_its_run(redis, search, ids):
    demand = Demand(redis)
    others = [ended(2, NOW), ended(4, NOW, runner_group=HOSTED_GROUP, **OURS)]
    same_bucket = ended(3, NOW + 20 * DAY, **{**OURS, "run_id": 41 + store.BUCKETS})
    await demand.record(7, [ended(1, NOW, **OURS), *others, same_bucket])
    await demand.record(7, [ended(1, NOW, **OURS)])  # delivered again
    assert [each.id for each in await demand.find_ended(7, search)] == ids
    assert await demand.find_ended(8, search) == []
    assert await demand.find_ended(7) == []


async def test_several_searches_find_what_matches_one_of_them(redis):
    demand = Demand(redis)
    await demand.record(7, [ended(1, NOW, **OURS), ended(2, NOW, run_id=42), ended(3, NOW, run_id=43)])
    found = await demand.find_ended(7, JobSearch(run_id=42), JobSearch(run_id=41, sha=OURS["head_sha"]))
    assert sorted(each.id for each in found) == [1, 2]


async def test_jobs_are_read_by_their_ids_whether_they_are_over_or_not(redis):
    demand = Demand(redis)
    await demand.record(7, [ended(1, NOW, **OURS), Job(2, "queued", (), "acme/api", NOW)])
    assert {each: found.status for each, found in (await demand.some(7, [1, 2, 3])).items()} == {1: "over", 2: "queued"}
    assert await demand.some(7, []) == {}


async def test_jobs_are_found_by_the_pull_request_whose_head_their_commit_was(redis):
    demand, pull = Demand(redis), PullReference("acme/api", 7)
    other = ended(2, NOW, head_sha="b" * 40)
    await demand.record(7, [ended(1, NOW, **OURS), other, ended(3, NOW, **{**OURS, "repository": "acme/web"})])
    assert await demand.find_ended(7, await demand.of_pull(7, pull, JobSearch())) == []
    for commit in ("c" * 40, OURS["head_sha"], OURS["head_sha"]):
        await demand.note_pull(7, PullReference("Acme/API", 7), commit, NOW)
    search = await demand.of_pull(7, pull, JobSearch())
    assert [each.id for each in await demand.find_ended(7, search)] == [1]
    assert await demand.find_ended(7, search._replace(runner="another")) == []
    for number in range(store.MOST_COMMITS):
        await demand.note_pull(7, pull, f"{number:040x}", NOW + 1 + number)
    assert len((await demand.of_pull(7, pull, JobSearch())).commits) == store.MOST_COMMITS


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("acme/api#7", PullReference("acme/api", 7)),
        ("https://github.com/acme/api/pull/7", PullReference("acme/api", 7)),
        ("https://ghe.example.com/acme/api/pull/7/files?w=1", PullReference("acme/api", 7)),
        ("#7", None),
        ("acme/api#0", None),
        ("acme/api#7x", None),
        ("acme/api", None),
        ("", None),
    ],
)
def test_a_pull_request_is_named_by_its_number_or_its_url(text, reference):
    assert PullReference.parse(text) == reference


async def test_the_reason_for_which_a_job_waited_is_known_after_it_was_taken(redis):
    demand = Demand(redis)
    waits = Job(1, "queued", ("linux",), "acme/api", NOW)
    await demand.record(7, [waits])
    await demand.note_reasons(7, {1: WaitReason("RunnersOffline"), 2: WaitReason("AllBusy")}, {1, 2})
    await demand.note_reasons(7, {1: WaitReason("AllBusy")}, {1})
    runs = waits._replace(status="running", runner_id=3, runner_name="linux-3", started_at=NOW + 600)
    await demand.record(7, [runs])
    assert (await demand.one(7, 1)).waited_for == "AllBusy"
    over = runs._replace(status="over", ended_at=NOW + 900)
    for _ in range(2):
        await demand.record(7, [over])
        assert (await demand.one(7, 1)).waited_for == "AllBusy"
    await demand.record(7, [runs._replace(id=2)])
    assert (await demand.one(7, 2)).waited_for == "", "it was dropped with the look at the queue that lacked it"
    await demand.note_reasons(7, {}, set())
    assert await redis.exists(keys.waits(7)) == 0


async def test_the_reason_for_which_a_job_waited_is_known_after_it_ended_without_a_runner(redis):
    demand = Demand(redis)
    waits = Job(1, "queued", ("gpu",), "acme/api", NOW)
    await demand.record(7, [waits])
    lacking = ("gpu", "two\nlines", "l" * 1000, *map(str, range(100)))
    await demand.note_reasons(7, {1: WaitReason("NoRunnerWithLabels", lacking)}, {1})
    await demand.record(7, [waits])
    assert (await demand.one(7, 1)).waited_for == "", "it waits, and may wait for something else"
    await demand.record(7, [waits._replace(status="over", ended_at=NOW + 900, conclusion="cancelled")])
    await demand.note_reasons(7, {}, set())
    ended_without = await demand.one(7, 1)
    assert ended_without.waited_for == "NoRunnerWithLabels"
    assert ended_without.lacked_labels[:2] == ("gpu", "two lines")
    assert (len(ended_without.lacked_labels), len(ended_without.lacked_labels[2])) == (store.MOST_LABELS, 256)


async def test_after_30_days_nothing_is_left_of_a_job(redis):
    demand = Demand(redis)
    await demand.record(7, [ended(1, NOW, **OURS)], now=NOW)
    kept = await redis.dbsize()
    await demand.record(7, [ended(2, NOW + 30 * DAY, **OURS)], now=NOW + 30 * DAY)
    assert await demand.one(7, 1) == ended(1, NOW, **OURS)
    await demand.record(7, [ended(3, NOW + 30 * DAY + 1, **OURS)], now=NOW + 30 * DAY + 1)
    assert await demand.one(7, 1) is None
    assert [each.id for each in await demand.find_ended(7, JobSearch(run_id=41))] == [3, 2]
    assert await redis.dbsize() == kept + 1


async def test_of_too_many_ended_jobs_the_latest_are_kept(redis, monkeypatch):
    monkeypatch.setattr(store, "MOST_ENDED", 2)
    demand = Demand(redis)
    await demand.record(7, [ended(each, NOW + each, **OURS) for each in (1, 2, 3)], now=NOW + 9)
    assert [await demand.one(7, 1), (await demand.one(7, 2)).id] == [None, 2]
    assert [each.id for each in await demand.find_ended(7, JobSearch(runner="Linux-3"))] == [3, 2]
    assert await redis.zcard(keys.ended(7)) == 2


async def test_an_end_that_is_dated_in_the_future_pushes_no_other_out(redis):
    demand = Demand(redis)
    await demand.record(7, [ended(1, NOW, **OURS)], now=NOW)
    await demand.record(7, [ended(2, NOW + 3650 * DAY, **OURS)], now=NOW + 1)
    assert [each.id for each in await demand.over(7)] == [2, 1]


async def test_an_ended_jobs_record_has_a_bound(redis):
    demand = Demand(redis)
    long = ended(1, NOW, labels=("x" * 5000,) * 5000, name="y" * 5000, workflow="z" * 5000)._replace(
        head_branch="b" * 5000, actor="a" * 5000
    )
    await demand.record(7, [long], now=NOW)
    assert len(await redis.get(f"{keys.over(7)}:1")) < 8_000
    assert (await demand.one(7, 1)).name == "y" * store.LONGEST_TEXT


@pytest.mark.parametrize("unlisted", [ended(1, NOW, runner_group=HOSTED_GROUP), ended(1, None)])
async def test_a_hosted_job_and_one_without_an_end_are_not_listed(redis, unlisted):
    await Demand(redis).record(7, [unlisted])
    assert await Demand(redis).over(7) == []
    assert await Demand(redis).one(7, 1) == unlisted


WAITING = Job(42, "queued", ("linux",), "acme/api", NOW, waiting=True)


@pytest.mark.parametrize(
    ("delivered", "known"),
    [
        ([WAITING], WAITING),
        ([WAITING, job("queued")], job("queued")),
        ([job("queued"), WAITING], job("queued")),
        ([WAITING, job("running")], job("running")),
        ([job("running"), job("queued"), WAITING], job("running")),
        ([job("over"), WAITING], None),
    ],
    ids=[
        "waiting",
        "approved",
        "approved, waiting delivered late",
        "approved and started",
        "both delivered late",
        "completed",
    ],
)
async def test_a_job_that_waits_for_an_approval_is_queued_when_it_was_approved(redis, delivered, known):
    demand = Demand(redis)
    for each in delivered:
        await demand.record(7, [each])
    assert await demand.all(7) == ([] if known is None else [known])


async def test_an_unreadable_row_is_not_overwritten(redis):
    await redis.hset(keys.jobs(7), "42", b"\xc1")
    await Demand(redis).record(7, [job("queued")])
    assert await redis.hget(keys.jobs(7), "42") == b"\xc1"


async def test_a_job_is_approved_when_it_is_first_reported_not_to_wait_any_more(redis):
    demand = Demand(redis)
    assert await demand.approvals(
        7, [DeliveredStatus(1, "waiting", True), DeliveredStatus(2, "queued", False)], NOW
    ) == {1: None}
    assert await demand.approvals(7, [DeliveredStatus(1, "waiting", False)], NOW + 1) == {1: None}
    assert await demand.approvals(
        7, [DeliveredStatus(1, "queued", True), DeliveredStatus(2, "in_progress", False)], NOW + 90_000
    ) == {1: NOW + 90_000}
    for status in ("queued", "in_progress", "completed", "waiting"):  # a repeated or late delivery changes nothing
        assert await demand.approvals(7, [DeliveredStatus(1, status, False)], NOW + 90_001) == {1: NOW + 90_000}
    assert await redis.ttl(f"{keys.approval(7)}:1") == store.OVER_SECONDS
    assert await demand.approvals(8, [DeliveredStatus(1, "queued", False)], NOW) == {}
    assert await demand.approvals(7, [], NOW) == {}


async def test_a_job_that_deploys_is_known_as_such_whichever_delivery_shows_it(redis):
    demand = Demand(redis)
    assert await demand.approvals(7, [DeliveredStatus(1, "queued", True)], NOW) == {1: 0.0}
    assert await demand.approvals(7, [DeliveredStatus(1, "in_progress", False)], NOW + 5) == {1: 0.0}
    assert await demand.approvals(
        7, [DeliveredStatus(1, "completed", False), DeliveredStatus(2, "completed", False)], NOW + 9
    ) == {1: 0.0}
    assert 0 < await redis.ttl(f"{keys.approval(7)}:1") <= 3600


async def test_a_wait_for_an_approval_that_is_delivered_late_is_one(redis):
    demand = Demand(redis)
    assert await demand.approvals(
        7, [DeliveredStatus(1, "queued", True), DeliveredStatus(1, "waiting", True)], NOW
    ) == {1: None}
    assert await demand.approvals(7, [DeliveredStatus(1, "in_progress", True)], NOW + 5) == {1: NOW + 5}
