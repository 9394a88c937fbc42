"""Rows of other versions, and rows that no version wrote."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from ghapp.deaths.store import Deaths, identity
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.leaks.store import Tick
from ghapp.notifications.event_store import Events
from ghapp.pods.pod_claim import PodClaim
from ghapp.remediation.fuse import Fuse, FuseLimits, FuseReason, Position
from ghapp.remediation.store import UNREADABLE_FUSE, UNREADABLE_OF_REAPER, UNREADABLE_PAUSE, Fuses
from ghapp.runners.delivery_lag import DeliveryArrivals, DeliveryLog
from ghapp.runners.evidence import Evidence, Survey
from ghapp.runners.remains import Remains, RemainsKind
from ghapp.runners.store import ABANDONED_SECONDS, Runners
from ghapp.store import keys, quarantine
from ghapp.store.codec import CODECS, Codec, UnreadableError
from ghapp.store.connect import connect
from ghapp.store.github_tokens import SharedToken
from ghapp.store.metric_counters import MetricCounters
from ghapp.store.quarantine import Quarantine
from ghapp.store.tokens import Token
from ghapp.workflow_jobs.job import Job
from tests.store.rows import next_version, samples
from tests.store.rows.samples import NOW, ORG, POD_NAME, POOL

RELEASES = sorted(Path(samples.__file__).parent.glob("*.json"))
ONE, TWO = Evidence(1, "linux-1", NOW, registered=True), Evidence(2, "linux-2", NOW, registered=True)
REMAINS, END_DATED = Evidence._fields.index("remains"), Evidence._fields.index("job_end_dated")
GARBAGE = [b"", b"\xc1", b"\x00garbage", b"\xa1\xff", msgspec.msgpack.encode(["of", {"another": "shape"}]), b"\xd9"]
TOTAL = 'ghapp_unreadable_records_total{kind="%s"}'


async def load(redis, stored):
    for key, (kind, value) in stored.items():
        match kind:
            case "string":
                await redis.set(key, bytes.fromhex(value))
            case "hash":
                await redis.hset(key, mapping={field: bytes.fromhex(row) for field, row in value.items()})
            case "zset":
                await redis.zadd(key, value)
            case "list":
                await redis.rpush(key, *map(bytes.fromhex, value))
            case "set":
                await redis.sadd(key, *value)
            case "stream":
                for entry in value:
                    await redis.xadd(key, {name: bytes.fromhex(part) for name, part in entry.items()})


def holds(read, written):
    """Whether all written fields are read back; fields that were appended since may follow."""
    if isinstance(written, list):
        return len(read) >= len(written) and all(map(holds, read, written))
    if isinstance(written, dict):
        return all(name in read and holds(read[name], each) for name, each in written.items())
    return read == written


def codecs(*but):
    """The kinds of records, without the entries of the quarantine, which are not records of the fleet."""
    return set(CODECS) - {"unreadable-record", *but}


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.stem)
async def test_every_row_that_a_release_wrote_is_read(redis, release):
    rows = json.loads(release.read_text())
    await load(redis, rows["keys"])
    read = msgspec.to_builtins(await samples.read(redis))
    for kind, written in rows["records"].items():
        assert holds(read[kind], written), kind
    assert await Quarantine(redis).all() == []


async def test_every_kind_of_record_has_a_sample(redis):
    assert codecs() == set(await samples.write(redis)) - {"delivery"}


async def test_rows_of_the_next_version_are_read_without_the_appended_fields_at_any_depth(redis):
    with next_version.writing():
        written = await samples.write(redis)
    row = await redis.hget(keys.runners(ORG), str(samples.EVIDENCE.id))
    assert len(msgspec.msgpack.decode(row)) > len(Evidence._fields), "the next version appended nothing"
    assert await samples.read(redis) == written
    assert await Quarantine(redis).all() == []


async def test_a_row_of_the_next_version_is_folded_and_written_back_in_our_format(redis):
    runners = Runners(redis)
    with next_version.writing():
        await runners.revise(ORG, {1: lambda _: ONE})
    known = await runners.all(ORG)
    assert known == {1: ONE}
    online = ONE._replace(online=True)
    assert await runners.revise(ORG, {1: lambda app: app._replace(online=True)}, known) == {1: online}
    assert msgspec.msgpack.decode(await redis.hget(keys.runners(ORG), "1"), type=Evidence) == online


async def test_a_fuse_of_the_next_version_can_be_changed(redis):
    before, after = Fuse(Position.PROVING, NOW, 3, 3), Fuse(Position.STOPPED, NOW, 3, 3)
    with next_version.writing():
        assert await Fuses(redis).save(ORG, POOL, None, before)
    assert await Fuses(redis).save(ORG, POOL, before, after)
    assert await Fuses(redis).all(ORG) == {POOL: after}


@pytest.mark.parametrize(
    ("kind", "row", "read"),
    [
        ("fuse", {"position": "half-open", "batch": 3}, Fuse(Position.STOPPED, batch=3)),
        ("fuse", {"position": "proving", "reason": "Novel"}, Fuse(Position.PROVING, reason=FuseReason.NONE)),
        ("runner", [1, "linux-1", NOW, *ONE[3:REMAINS], ["molten", 1.0, 2.0], *ONE[REMAINS + 1 :]], ONE),
        ("job", [1, "waiting", [], "acme/api", NOW], Job(1, "queued", (), "acme/api", NOW)),
        (
            "token",
            {
                "id": "1",
                "name": "a",
                "orgs": ["acme"],
                "scopes": ["read", "root"],
                "created_at": NOW,
                "expires_at": NOW + 60,
            },
            Token("1", "a", ("acme",), ("read",), NOW, NOW + 60),
        ),
    ],
    ids=["fuse: stopped", "reason: none", "remains: unknown", "job: waiting", "scope: grants nothing"],
)
def test_an_unknown_enumeration_member_is_read_as_the_safe_member(kind, row, read):
    assert CODECS[kind].decode(msgspec.msgpack.encode(row)) == read


@pytest.mark.parametrize(
    ("record", "row"),
    [
        (Evidence(1, "linux-1", NOW), [1, "linux-1", int(NOW)]),
        (Evidence(1, "linux-1", NOW + 0.5), [1, "linux-1", NOW + 0.5]),
        (Evidence(1, "linux-1", 2.0**32 - 1), [1, "linux-1", 2**32 - 1]),
        (Evidence(1, "linux-1", 2.0**32), [1, "linux-1", 2.0**32]),
        (Evidence(1, "linux-1", -1.0), [1, "linux-1", -1.0]),
        (Evidence(1, "linux-1", NOW, os="linux"), [1, "linux-1", int(NOW), [], [], "linux"]),
        (ONE._replace(job_end_dated=False), [1, "linux-1", int(NOW), *ONE[3:END_DATED], False]),
    ],
    ids=["whole", "half", "below", "large", "negative", "a field before others", "a default of true"],
)
def test_a_row_ends_with_its_last_field_that_has_not_its_default_and_any_version_reads_it(record, row):
    written = CODECS["runner"].encode(record)
    assert written == msgspec.msgpack.encode(row)
    assert msgspec.msgpack.decode(written, type=Evidence) == record, "as the previous version decodes it"


def test_known_members_within_a_longer_row_stay():
    remains = Remains(RemainsKind.ENDED, 1.0, 2.0)
    row = next_version.encode(CODECS["runner"], ONE._replace(remains=remains))
    assert CODECS["runner"].decode(row).remains == remains


def test_an_enumeration_without_a_safe_member_gets_no_codec():
    with pytest.raises(LookupError, match="Position"):
        Codec("fuse", Fuse)


@pytest.mark.parametrize("row", GARBAGE)
def test_bytes_of_another_kind_are_not_a_runner(row):
    with pytest.raises(UnreadableError):
        CODECS["runner"].decode(row)


def test_a_row_with_a_field_of_another_type_is_not_a_runner():
    with pytest.raises(UnreadableError):
        CODECS["runner"].decode(msgspec.msgpack.encode([*ONE[:11], "yesterday"]))


@pytest.mark.parametrize("row", GARBAGE)
async def test_no_read_fails_on_unreadable_records_and_protections_stay_active(redis, row):
    await samples.write(redis)
    await samples.spoil(redis, row)
    with pytest.raises(AssertionError, match="was not read"):
        await samples.read(redis)
    read = await samples.read(redis, samples.mint)
    del read["delivery"]
    assert read.pop("installation-token") == SharedToken(samples.TEXT, NOW), "a new token was issued"
    assert read.pop("fuse") == UNREADABLE_FUSE
    assert UNREADABLE_FUSE.position is Position.STOPPED
    assert read.pop("reaper-fuse") == UNREADABLE_OF_REAPER
    assert UNREADABLE_OF_REAPER.position is Position.STOPPED
    assert read.pop("pause") == UNREADABLE_PAUSE
    assert read.pop("pod-claim") == PodClaim(POD_NAME, POD_NAME, None, NOW + 60)
    assert read.pop("survey") == Survey()
    assert read.pop("reaper-tick") == Tick()
    assert (read.pop("deploys"), read.pop("scale-sets")) == ((), ())
    assert (read.pop("delivery-arrivals"), read.pop("delivery-log")) == (DeliveryArrivals(), DeliveryLog())
    assert set(read.values()) == {None}
    aside = {each.kind for each in await Quarantine(redis).all()}
    sealed = ("installation-token", "session", "sign-in")
    empty = () if row else ("settled",)  # an empty one is no record: a sweep is judging
    assert aside == codecs(*sealed, *empty), (
        "encrypted records are never quarantined: they could be decrypted from there"
    )
    counted = await MetricCounters(redis).all()
    assert all(counted[TOTAL % kind] == 1 for kind in aside)


async def three_of_which_two_is_unreadable(redis):
    runners = Runners(redis, lambda: NOW)
    three = Evidence(3, "linux-3", NOW)
    await runners.revise(ORG, {1: lambda _: ONE, 2: lambda _: TWO, 3: lambda _: three})
    await redis.hset(keys.runners(ORG), "2", b"garbage")
    return runners, {1: ONE, 3: three}


async def test_an_unreadable_runner_affects_no_other_runner(redis):
    runners, others = await three_of_which_two_is_unreadable(redis)
    assert await runners.all(ORG) == others
    assert await runners.some(ORG, [1, 2, 3]) == others
    (aside,) = await Quarantine(redis).unresolved()
    assert (aside.kind, aside.key, aside.field, aside.row) == ("runner", keys.runners(ORG), "2", b"garbage")


async def test_a_revision_treats_an_unreadable_record_as_missing_and_rewrites_it(redis):
    runners, others = await three_of_which_two_is_unreadable(redis)
    seen = []

    def fold(evidence):
        seen.append(evidence)
        return TWO

    assert await runners.revise(ORG, {2: fold}, await runners.all(ORG)) == {2: TWO}
    assert set(seen) == {None}
    assert await runners.all(ORG) == {**others, 2: TWO}
    assert await Quarantine(redis).unresolved() == [], "a rewritten record is not reported"
    assert len(await Quarantine(redis).all()) == 1, "the unreadable bytes are kept for a while"


async def test_concurrent_rewrites_lose_no_change(redis, redis_url):
    runners, _ = await three_of_which_two_is_unreadable(redis)
    other = connect(redis_url)

    def counted(evidence):
        return (evidence or TWO)._replace(job_id=((evidence and evidence.job_id) or 0) + 1)

    await asyncio.gather(*(each.revise(ORG, {2: counted}) for each in (runners, Runners(other)) for _ in range(5)))
    await other.aclose()
    assert (await runners.all(ORG))[2].job_id == 10


async def test_an_unreadable_record_is_counted_once_for_any_number_of_reads(redis):
    runners, _ = await three_of_which_two_is_unreadable(redis)
    for _ in range(3):
        await runners.all(ORG)
    assert (await MetricCounters(redis).all())[TOTAL % "runner"] == 1
    await redis.hset(keys.runners(ORG), "2", b"other garbage")
    await runners.all(ORG)
    assert (await MetricCounters(redis).all())[TOTAL % "runner"] == 2


@pytest.mark.parametrize(("seconds", "left"), [(ABANDONED_SECONDS, b"garbage"), (ABANDONED_SECONDS + 1, None)])
async def test_an_unreadable_record_that_is_not_rewritten_for_a_day_is_deleted(redis, seconds, left):
    runners, others = await three_of_which_two_is_unreadable(redis)
    await runners.all(ORG)
    later = Runners(redis, lambda: NOW + seconds)
    assert await later.all(ORG) == others
    assert await redis.hget(keys.runners(ORG), "2") == left


async def test_the_quarantine_is_bounded_in_number_length_and_time(redis, monkeypatch):
    monkeypatch.setattr(quarantine, "MOST", 2)
    monkeypatch.setattr(quarantine, "MOST_BYTES", 4)
    place = Quarantine(redis, lambda: NOW)
    await place.set_aside("runner", "key", {str(number): b"garbage" for number in range(5)})
    assert [each.row for each in await place.all()] == [b"garb", b"garb"]
    assert (await MetricCounters(redis).all())[TOTAL % "runner"] == 2
    assert 0 < await redis.ttl(keys.QUARANTINE) <= quarantine.KEPT_SECONDS


async def test_a_read_does_not_fail_if_the_quarantine_is_not_writable(redis):
    runners, others = await three_of_which_two_is_unreadable(redis)
    await redis.set(keys.QUARANTINE, "of another type")
    assert await runners.some(ORG, [1, 2, 3]) == others


async def test_an_unreadable_fuse_and_an_unreadable_pause_can_be_resumed(redis):
    fuses = Fuses(redis)
    await redis.hset(keys.fuses(ORG), POOL, b"garbage")
    await redis.hset(keys.pauses(ORG), POOL, b"garbage")
    done = await fuses.resume(Installation(ORG, "acme", 1), POOL, "ann", NOW, FuseLimits())
    assert set(done.ended) == set(done.proving) == {POOL}
    assert (await fuses.all(ORG))[POOL].position is Position.PROVING
    assert await fuses.pauses(ORG) == {}


async def test_an_unreadable_installation_stays_until_discovery_lists_all(redis):
    installations = Installations(redis)
    await redis.hset(keys.INSTALLATIONS, "8", b"garbage")
    one, eight = Installation(ORG, "acme", 1), Installation(8, "other", 2)
    await installations.put(one)
    assert await installations.all() == [one]
    assert await redis.hexists(keys.INSTALLATIONS, "8")
    await installations.replace_all([one, eight])
    assert await installations.all() == [one, eight]


async def test_an_unreadable_event_leaves_the_outbox(redis):
    events = Events(redis)
    await redis.hset(keys.OUTBOX, "e", b"garbage")
    assert await events.outgoing("e") is None
    assert await events.unsent() == []


async def test_an_unreadable_death_is_rewritten_by_later_findings(redis):
    death = samples.filled(samples.Death)._replace(at=NOW)
    deaths = Deaths(redis, lambda: NOW)
    await deaths.record(ORG, death)
    await redis.hset(keys.deaths(ORG), identity(death), b"text\0garbage")
    assert await deaths.recent(ORG, 0, 10) == []
    assert await deaths.enrich(ORG, death)
    assert await deaths.recent(ORG, 0, 10) == [death]
