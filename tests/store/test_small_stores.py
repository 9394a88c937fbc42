"""Pages, fuses, schedule, budget, installations and counters."""

import asyncio

import msgspec
import pytest

from ghapp.decoding import LeftOut, LeftOutRows
from ghapp.deliveries.metrics import INBOX_LAG
from ghapp.errors import ConfigurationError, StoreUnavailableError
from ghapp.installations.etag_page import EtagPage
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.installations.store import EtagPages, Installations
from ghapp.metric import Counter, Histogram
from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.remediation.pause import Pause
from ghapp.remediation.store import Fuses
from ghapp.store import keys
from ghapp.store.connect import _sentinel, connect
from ghapp.store.left_out import KEPT_SECONDS, LastLeftOut, LeftOutRecords
from ghapp.store.metric_counters import MOST_SHARDS, OTHER_SHARD, MetricCounters
from ghapp.store.schedule import Schedule

MOST = 100
ORG = 7
NOW = 1_790_000_000.25


def pages(*numbers):
    return {number: EtagPage.of(f'W/"{number}"', b'{"runners": []}' * number) for number in numbers}


async def test_pages_are_read_back_unchanged(redis):
    await EtagPages(redis).keep(ORG, "token", pages(1, 2), last=2)
    assert await EtagPages(redis).of(ORG, "token") == pages(1, 2)
    assert await EtagPages(redis).of(ORG + 1, "token") == {}


def test_the_body_of_a_page_is_returned_as_it_was_sent_and_of_a_corrupt_one_nothing():
    assert EtagPage.of("etag", b"body").body() == b"body"
    assert EtagPage("etag", b"no zlib").body() is None


async def test_pages_of_another_token_are_not_returned(redis):
    await EtagPages(redis).keep(ORG, "token", pages(1, 2), last=2)
    assert await EtagPages(redis).of(ORG, "next token") == {}
    await EtagPages(redis).keep(ORG, "next token", pages(1), last=2)
    assert await EtagPages(redis).of(ORG, "next token") == pages(1)


async def test_unchanged_pages_stay_and_pages_after_the_last_are_deleted(redis):
    await EtagPages(redis).keep(ORG, "token", pages(1, 2, 3, 10), last=10)
    await EtagPages(redis).keep(ORG, "token", {1: EtagPage.of("new", b"1")}, last=2)
    assert await EtagPages(redis).of(ORG, "token") == {1: EtagPage.of("new", b"1"), **pages(2)}
    assert await redis.hlen(keys.pages(ORG)) == 2


async def test_unchanged_pages_expire(redis):
    await EtagPages(redis).keep(ORG, "token", pages(1, 2), last=2)
    await EtagPages(redis).keep(ORG, "token", {}, last=1)
    assert await EtagPages(redis).of(ORG, "token") == pages(1)


PROVING = Fuse(Position.PROVING, since=NOW, batch=3, allowed=3, reason=FuseReason.MASS_LOSS)
STOPPED = Fuse(Position.STOPPED, since=NOW, batch=3, allowed=3, reason=FuseReason.BATCH_NEVER_ONLINE)


async def test_a_fuse_change_is_saved_if_the_fuse_is_unchanged_since_the_read(redis):
    fuses = Fuses(redis)
    assert await fuses.save(ORG, "linux", None, PROVING) is True
    assert await fuses.save(ORG, "linux", PROVING, STOPPED) is True
    assert await fuses.all(ORG) == {"linux": STOPPED}


@pytest.mark.parametrize("before", [None, Fuse(), STOPPED])
async def test_a_fuse_change_is_rejected_if_the_fuse_changed_since_the_read(redis, before):
    fuses = Fuses(redis)
    await fuses.save(ORG, "linux", None, PROVING)
    assert await fuses.save(ORG, "linux", before, Fuse()) is False
    assert await fuses.all(ORG) == {"linux": PROVING}


async def test_one_of_two_concurrent_fuse_changes_is_saved(redis):
    fuses = Fuses(redis)
    for _ in range(20):
        await redis.delete(keys.fuses(ORG))
        held = await asyncio.gather(*(Fuses(redis).save(ORG, "linux", None, each) for each in (PROVING, STOPPED)))
        assert sorted(held) == [False, True]
        assert await fuses.all(ORG) == {"linux": PROVING if held[0] else STOPPED}


async def test_a_fuse_stored_before_fields_were_added_can_change(redis):
    await redis.hset(keys.fuses(ORG), "linux", msgspec.msgpack.encode({"position": "proving", "since": NOW}))
    fuses = Fuses(redis)
    before = (await fuses.all(ORG))["linux"]
    assert before == Fuse(Position.PROVING, since=NOW)
    assert await fuses.save(ORG, "linux", before, STOPPED) is True
    assert await fuses.all(ORG) == {"linux": STOPPED}


async def test_a_pause_is_stored_with_its_reason_until_it_is_cleared(redis):
    fuses, pause = Fuses(redis), Pause("octocat", "maintenance", NOW)
    await fuses.pause(ORG, ALL_POOLS, pause)
    assert await fuses.pauses(ORG) == {ALL_POOLS: pause}
    assert [await fuses.unpause(ORG, ALL_POOLS) for _ in range(2)] == [True, False]
    assert await fuses.pauses(ORG) == {}


async def test_a_due_sweep_is_taken_by_one_job(redis):
    for installation in range(50):
        await Schedule(redis).add(installation, NOW)
    taken = await asyncio.gather(*(Schedule(redis).take_due(NOW, 120.5, 5) for _ in range(10)))
    assert {len(share) for share in taken} == {5}
    assert sorted(each for share in taken for each in share) == list(range(50))
    assert await redis.zscore(keys.DUE, "7") == NOW + 120.5


@pytest.mark.parametrize(
    ("at", "due"),
    [(NOW + 0.001, False), (NOW, True), (NOW - 1, True), (NOW + 7199, False), (NOW + 7200, True)],
    ids=["in a moment", "now", "a second ago", "within the limit", "too far ahead"],
)
async def test_a_sweep_that_can_be_taken_is_due(redis, at, due):
    await Schedule(redis).add(ORG, at)
    assert await Schedule(redis).is_any_due(NOW) is due


@pytest.mark.parametrize(("now", "due"), [(NOW - 0.001, []), (NOW, [ORG]), (NOW + 1, [ORG])])
async def test_a_sweep_is_due_at_its_time_and_not_before(redis, now, due):
    await Schedule(redis).add(ORG, NOW)
    assert [*await Schedule(redis).take_due(now, 120, MOST)] == due


async def test_a_taken_sweep_is_due_again_after_its_timeout(redis):
    schedule = Schedule(redis)
    await schedule.add(ORG, NOW)
    taken = [await schedule.take_due(at, 120, MOST) for at in (NOW, NOW + 119.999, NOW + 120.5)]
    assert taken == [{ORG: NOW}, {}, {ORG: NOW + 120}], "each with the time since when it was due"


@pytest.mark.parametrize(
    ("date", "until", "due_at"),
    [
        (NOW + 60, NOW + 12, NOW + 60),
        (NOW + 60, NOW + 61, NOW + 61),
        (NOW + 12, NOW + 61, NOW + 60),
        (NOW + 72, NOW + 84, NOW + 60),
    ],
    ids=["never brought forward", "put off", "it has set a later date", "it has set an earlier date"],
)
async def test_a_sweep_is_put_off_from_the_date_it_was_given_and_from_no_other(redis, date, until, due_at):
    schedule = Schedule(redis)
    await schedule.add(ORG, NOW + 60)
    await schedule.put_off({ORG: date, ORG + 1: date}, until)
    assert await schedule.all() == {ORG: due_at}


async def test_a_taken_sweep_is_put_off_from_its_timeout(redis):
    schedule, now = Schedule(redis), NOW + 0.123456
    await schedule.add(ORG, NOW)
    assert [*await schedule.take_due(now, 12.0, MOST)] == [ORG]
    await schedule.put_off({ORG: now + 12.0}, now + 18.0)
    assert await schedule.next(ORG) == pytest.approx(now + 18.0, abs=0.0001)


@pytest.mark.parametrize(("asked", "due"), [(-5.0, -5.0), (5.0, 0.0)], ids=["earlier", "overdue"])
async def test_a_sweep_that_is_asked_for_is_due_at_the_latest_then(redis, asked, due):
    schedule = Schedule(redis)
    await schedule.due_by(ORG, NOW)
    assert await schedule.next(ORG) is None, "an installation that was removed is not swept"
    await schedule.add(ORG, NOW)
    await schedule.due_by(ORG, NOW + asked)
    assert await schedule.next(ORG) == NOW + due


@pytest.mark.parametrize(("ahead", "due"), [(7200.0, [ORG]), (7199.0, [])], ids=["too far ahead", "within the limit"])
async def test_a_due_time_written_by_a_jumped_clock_is_due_now(redis, ahead, due):
    schedule = Schedule(redis)
    await schedule.add(ORG, NOW + ahead)
    assert [*await schedule.take_due(NOW, 120, MOST)] == due


async def test_adding_an_installation_again_keeps_its_due_time_and_removal_deletes_it(redis):
    schedule = Schedule(redis)
    await schedule.add(ORG, NOW + 60)
    await schedule.add(ORG, NOW)
    assert [*await schedule.take_due(NOW + 59, 120, MOST)] == []
    await schedule.remove(ORG)
    assert [*await schedule.take_due(NOW + 9999, 120, MOST)] == []
    await schedule.due_at(ORG, NOW)
    assert [*await schedule.take_due(NOW + 9999, 120, MOST)] == [], "a sweep in progress does not schedule it again"


ACME = Installation(7, "Acme", 70, {"checks": "write"}, suspended=True)
OTHER = Installation(10, "other", 100)


async def test_installations_are_found_by_id_and_by_login(redis):
    installations = Installations(redis)
    for each in (OTHER, ACME):
        await installations.put(each)
    assert await installations.all() == [ACME, OTHER]
    assert (await installations.one(7), await installations.one(8)) == (ACME, None)
    assert (await installations.of("aCME"), await installations.of("acm")) == (ACME, None)


async def test_a_complete_list_of_installations_drops_the_others(redis):
    installations = Installations(redis)
    await installations.put(ACME)
    await installations.replace_all([OTHER])
    assert await installations.all() == [OTHER]
    await installations.remove(10)
    assert await installations.all() == []
    await installations.put(ACME)
    await installations.replace_all([])
    assert await installations.all() == []


LOST, SWEPT = Counter("lost", "", ("org", "pool"), ("shard",)), Counter("swept", "")
WAITED = Histogram("waited", "", (), ("pool",), buckets=(5.0, 60.0))


async def test_counters_add_up_over_processes_for_any_order_of_labels(redis):
    await MetricCounters(redis).add(LOST, pool="a", org='"b"\\\n')
    await MetricCounters(redis).add(LOST, 2.5, org='"b"\\\n', pool="a")
    await MetricCounters(redis).add(SWEPT)
    assert await redis.hgetall(keys.COUNTERS) == {b'lost{org="\\"b\\"\\\\\\n",pool="a"}': b"3.5", b"swept": b"1"}


async def test_a_histogram_has_cumulative_buckets_a_sum_and_a_count(redis):
    counters = MetricCounters(redis)
    await counters.observe(WAITED, [5.0, 5.5, 60.5], pool="a")
    await counters.observe(WAITED, [1.0], pool="a")
    await counters.observe(WAITED, [], pool="b")
    assert await counters.all() == {
        'waited_bucket{le="5",pool="a"}': 2,
        'waited_bucket{le="60",pool="a"}': 3,
        'waited_bucket{le="+Inf",pool="a"}': 4,
        'waited_sum{pool="a"}': 72,
        'waited_count{pool="a"}': 4,
    }


async def test_an_unreadable_bucket_is_restarted(redis):
    await redis.hset(keys.COUNTERS, 'waited_bucket{le="5"}', b"garbage")
    await MetricCounters(redis).observe(WAITED, [1.0])
    found = await MetricCounters(redis).all()
    assert (found['waited_bucket{le="5"}'], found["waited_count"]) == (1, 1)


async def test_each_of_the_first_shards_of_a_pool_has_a_counter_and_the_others_share_one(redis):
    counters = MetricCounters(redis)
    names = [f"s{number}" for number in range(MOST_SHARDS + 2)]
    for _ in range(2):
        found = [await counters.shard_label(ORG, "linux", name) for name in names]
        assert found == [*names[:MOST_SHARDS], OTHER_SHARD, OTHER_SHARD]
    assert await counters.shard_label(ORG, "gpu", names[-1]) == names[-1]


async def test_an_unavailable_redis_raises_our_own_error(tmp_path):
    with pytest.raises(StoreUnavailableError, match="GHAPP_REDIS_URL"):
        await connect(f"unix://{tmp_path}/unknown.sock").ping()


def test_a_sentinel_url_names_hosts_service_and_database():
    assert _sentinel("redis+sentinel://me:secret@one:1,two/main/3") == (
        [("one", 1), ("two", 26379)],
        "main",
        3,
        {"username": "me", "password": "secret"},
    )


@pytest.mark.parametrize(
    "url",
    ["redis+sentinel://one", "redis+sentinel:///main", "redis+sentinel://one:x/main", "redis+sentinel://one/main/x"],
)
def test_an_invalid_sentinel_url_is_refused(url):
    with pytest.raises(ConfigurationError, match="GHAPP_REDIS_URL"):
        connect(url)


async def test_a_batch_of_counters_is_added_together_and_an_unreadable_counter_is_reset(redis):
    counters = MetricCounters(redis)
    await counters.add(LOST, org="acme", pool="a")
    await redis.hset(keys.COUNTERS, "swept", b"garbage")
    batch = counters.batch()
    batch.add(LOST, org="acme", pool="a")
    batch.add(LOST, 2, org="acme", pool="a")
    batch.add(SWEPT, 3)
    assert (await redis.hgetall(keys.COUNTERS))[b'lost{org="acme",pool="a"}'] == b"1"
    await batch.send()
    counted = await counters.all()
    assert counted['lost{org="acme",pool="a"}'] == 4
    assert counted["swept"] == 3


@pytest.mark.parametrize(
    "labels", [{}, {"org": "a"}, {"org": "a", "pool": "b", "state": "c"}, {"org": "a", "shard": "s"}]
)
async def test_a_series_with_other_labels_than_its_metric_has_is_refused(redis, labels):
    with pytest.raises(ValueError, match="lost has the labels"):
        await MetricCounters(redis).add(LOST, **labels)
    with pytest.raises(ValueError, match="waited has the labels"):
        MetricCounters(redis).batch().observe(WAITED, [1.0], org="a")
    with pytest.raises(ValueError, match="inbox_lag has the labels"):
        INBOX_LAG.sample(1, org="a")
    assert await redis.keys() == []


async def test_a_series_may_have_an_optional_label(redis):
    await MetricCounters(redis).add(LOST, org="a", pool="b", shard="c")
    assert await redis.hgetall(keys.COUNTERS) == {b'lost{org="a",pool="b",shard="c"}': b"1"}


async def test_what_was_left_out_is_counted_and_the_last_of_each_kind_is_kept(redis):
    store, rows = LeftOutRecords(redis), LeftOutRows()
    await store.record(rows, NOW)
    assert await redis.keys() == []
    rows.add(
        [LeftOut("runner", "runners[0].os", "odd"), LeftOut("runner", "runners[1].id", "odd", is_row=True, row={})]
    )
    await store.record(rows, NOW)
    rows.add([LeftOut("pod", "items[0]", "odd", is_row=True, row=[])])
    await store.record(rows, NOW + 1)
    assert await store.last() == [
        LastLeftOut("pod", "items[0]", "odd", NOW + 1, is_row=True),
        LastLeftOut("runner", "runners[1].id", "odd", NOW, is_row=True),
    ]
    counted = await MetricCounters(redis).all()
    assert counted == {'ghapp_rows_left_out_total{kind="pod"}': 1, 'ghapp_rows_left_out_total{kind="runner"}': 2}
    assert 0 < await redis.ttl(keys.LEFT_OUT) <= KEPT_SECONDS
