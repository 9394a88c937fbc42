"""Each kind of key is declared with a bound in number and in time, and its store keeps both."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import time
from contextlib import suppress

import pytest

from ghapp.deaths import store as deaths
from ghapp.deaths.cause import Cause
from ghapp.deaths.post_mortem_store import PostMortems, Reruns
from ghapp.deaths.store import Death, Deaths
from ghapp.deliveries import log_store as delivery_status
from ghapp.deliveries import store as inbox
from ghapp.deliveries.log_store import DeliveryStatus
from ghapp.deliveries.redelivery import LastRequest
from ghapp.deliveries.store import Entry, Inbox
from ghapp.errors import BudgetSpentError, PodClaimsFullError
from ghapp.incidents.incident import LossIncident
from ghapp.incidents.store import HistoryStore, Incidents, SettledSweeps
from ghapp.installations import store as installations
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import CallLimits
from ghapp.installations.store import Installations, UninstalledData
from ghapp.leaks import store as leaks
from ghapp.leaks.orphan import Orphan
from ghapp.leaks.store import Leaks
from ghapp.notifications import event_store as events
from ghapp.notifications import store as notifications
from ghapp.notifications.event_store import Events
from ghapp.notifications.store import Notifications, PendingNotification
from ghapp.pods import claim_store as pod_claims
from ghapp.pods import end_store as own_deletions
from ghapp.pods import end_store as pod_ends
from ghapp.pods.claim_store import PodClaims
from ghapp.pods.end_store import OwnDeletions, PodEnd, PodEnds
from ghapp.redis_clock import SharedClock
from ghapp.remediation.store import Fuses
from ghapp.report import store as check_creations
from ghapp.report.check_run_state import Head, Posted, PostFailure
from ghapp.report.store import CheckCreations, Reports
from ghapp.runners import store as runners
from ghapp.runners.store import Runners
from ghapp.store import audit, keys, presses, quarantine, sessions
from ghapp.store.audit import AuditEntry, AuditLog
from ghapp.store.budget import BucketSize, Budget, SharedRateLimits
from ghapp.store.github_tokens import EnterpriseTokens
from ghapp.store.heartbeats import Heartbeats
from ghapp.store.key_kinds import KINDS, KeyKind
from ghapp.store.locks import Locks
from ghapp.store.metric_counters import MetricCounters
from ghapp.store.presses import SWEEP_TOPIC, Presses
from ghapp.store.quarantine import Quarantine
from ghapp.store.sessions import Sessions, SignInAttempt
from ghapp.workflow_jobs import store as demand
from ghapp.workflow_jobs.job import PullReference
from ghapp.workflow_jobs.reason import WaitReason
from ghapp.workflow_jobs.store import DeliveredStatus, Demand, QueueChecks
from tests.store import keys_page, test_garbage
from tests.store.rows import samples
from tests.store.rows.samples import NAMESPACE, NOW, ORG, POOL, filled

FILLED_ELSEWHERE = {
    keys.QUEUE_JOBS: "by the queue: tests/queue",
    keys.PROBE: "by the doctor",
    keys.INBOX_ASKED: "expires in half a second: test_inbox.py",
}


def test_the_page_is_made_from_the_declarations():
    assert keys_page.PAGE.read_text() == keys_page.page(), "run `python -m tests.store.keys_page --write`"


def test_each_key_is_declared_once():
    tree = ast.parse(inspect.getsource(keys))
    functions = [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]
    singles = [each for name, each in vars(keys).items() if name.isupper() and str(each).startswith("ghapp:")]
    assert len(KINDS) == len(functions) + len(singles)
    assert set(singles) == {each.pattern for each in KINDS if each.pattern in singles}
    assert len({each.pattern for each in KINDS}) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.pattern)
def test_each_kind_has_a_bound_in_number_and_in_time_and_users(kind):
    assert kind.bound.most is not None or kind.bound.number
    assert kind.bound.seconds is not None or kind.bound.time
    assert kind.holds
    assert kind.written_by
    assert kind.read_by


def expression(kind: KeyKind) -> re.Pattern[str]:
    """What the keys of a kind look like."""
    text = re.sub(r"\[(.*?)\]", r"(?:\1)?", kind.pattern)
    text = text.replace("{installation}", r"\d+").replace("{part}", "[0-9a-f]+")
    text = re.sub(r"\{(\w+)\}", "[^:]+", text)
    suffix = ":.+" if kind.holds.startswith("Prefix of keys") else ""
    return re.compile(text + suffix)


def kind_of(key: str) -> KeyKind:
    (found,) = (kind for kind in KINDS if expression(kind).fullmatch(key))
    return found


class FastClock(SharedClock):
    """Of a machine that is a minute ahead."""

    ahead = property(lambda _: 60.0)


async def write_the_rest(redis):
    await of_own_deletions(redis, 1)
    """What `test_garbage.write` does not write."""
    await of_presses(redis, 1)
    uninstalled, inbox_store = UninstalledData(redis), Inbox(redis)
    await redis.delete(keys.INBOX_ASKED)
    await redis.set(keys.survey(99), b"")
    enterprise_tokens = EnterpriseTokens(redis, ["ghp_one"])
    await enterprise_tokens.token(ORG)
    await enterprise_tokens.forget(ORG)
    await uninstalled.removed([99], time.time())
    await uninstalled.expire(time.time())
    await inbox_store.save_request(LastRequest(NOW, "0-1"))
    await inbox_store.failed(Entry(b"0-2", "guid-8", "ping", b""), "no effect", NOW)
    await inbox_store.done([Entry(b"0-1", "guid-9", "ping", b"")], NOW)
    await inbox_store.mark_ended(ORG, [1], NOW)
    await Demand(redis).note_reasons(ORG, {1: WaitReason("AllBusy")}, {1})
    await Demand(redis).note_pull(ORG, PullReference("acme/api", 7), "f" * 40, NOW)
    await Demand(redis).note_check_run(ORG, 9, [1, 2])
    await Budget(redis).share_with_others(ORG, ORG, 60.0, NOW)
    await DeliveryStatus(redis).mark_missing(["guid"], NOW)
    await DeliveryStatus(redis).expect(ORG, NOW)
    await PostMortems(redis).back_off_log_store()
    await PostMortems(redis).mark_published(ORG, "kind")
    await MetricCounters(redis).shard_label(ORG, POOL, "pink")
    over = filled(samples.Job)._replace(id=99, status="over", ended_at=NOW, runner_group="", waiting=False)
    await Demand(redis).record(ORG, [over])
    await Demand(redis).approvals(ORG, [DeliveredStatus(1, "waiting", False)], NOW)
    for each in range(check_creations.A_MINUTE + 1):
        await CheckCreations(redis).take(ORG, str(each), 1.0, NOW)
    await Budget(redis, lambda: NOW).enter(ORG + 1, CallLimits(points_a_minute=5, turn="1"), 5)
    with pytest.raises(BudgetSpentError):
        await Budget(redis, lambda: NOW).enter(ORG + 1, CallLimits(points_a_minute=5, turn="2"), 5)
    await SharedRateLimits(redis).grant_look(ORG, BucketSize(2, 60), NOW)
    await Locks(redis)._take(keys.lock("kind", "subject"), "token", 0.0)
    await Heartbeats(redis).measure_clock(FastClock(), "web")
    await Reruns(redis).grant_unasked(ORG, "acme/api", 3, NOW)
    await QueueChecks(redis).may_post(ORG, NOW)
    await QueueChecks(redis).remember_quiet(ORG, "acme/api", quiet=True)
    many = {each: replace_name(each) for each in range(1000, 1000 + 2 * runners.MOST_NAMES)}
    await Runners(redis).revise(ORG, {each: lambda _, record=record: record for each, record in many.items()})
    await Runners(redis).changes(ORG)
    await SettledSweeps(redis).begin(ORG)
    await Fuses(redis).family_planned(ORG, NOW)
    await Quarantine(redis).set_aside("runner", keys.runners(ORG), {"1": b"garbage"})
    await of_deaths(redis, 1)


def replace_name(runner_id):
    return samples.EVIDENCE._replace(id=runner_id, name=f"runner-{runner_id}")


async def test_each_kind_has_its_type_and_its_time_and_no_key_is_of_no_kind(redis):
    await test_garbage.write(redis)
    await write_the_rest(redis)
    seen = set()
    for key in [each.decode() for each in await redis.keys()]:
        kind, ttl = kind_of(key), await redis.ttl(key)
        seen.add(kind.pattern)
        assert (await redis.type(key)).decode() == kind.type, key
        if kind.bound.seconds is not None:
            assert 0 < ttl <= kind.bound.seconds, key
    assert {each.pattern for each in KINDS} - seen == set(FILLED_ELSEWHERE)


async def of_audit(redis, count):
    for _ in range(count):
        await AuditLog(redis).record(ORG, filled(AuditEntry))


async def of_presses(redis, count):
    for _ in range(count):
        await Presses(redis).begin(ORG, SWEEP_TOPIC, filled(AuditEntry))
    await Presses(redis).conclude(ORG, SWEEP_TOPIC, lambda _: "done")


async def of_own_deletions(redis, count):
    for each in range(count):
        await OwnDeletions(redis).record(ORG, f"uid-{each}", NOW + each)


async def of_name_owners(redis, count):
    for each in range(count):
        await Installations(redis).put(Installation(each + 1, f"org-{each}", each + 1))


async def of_claims(redis, count):
    for each in range(count):
        with suppress(PodClaimsFullError):
            await PodClaims(redis, lambda: NOW).claim(ORG, f"pod-{each}", "", None, NOW + 60)


async def of_deaths(redis, count):
    for each in range(count):
        death = filled(Death)._replace(id=f"death-{each}", at=NOW + each, runner_name=f"runner-{each}")
        await Deaths(redis, lambda: NOW + count).record(ORG, death._replace(cause=Cause.CLEAN_EXIT))


async def of_creations(redis, count):
    for each in range(count):
        await CheckCreations(redis).take(ORG, str(each), 1.0, NOW + 60 * each)


async def of_pulls(redis, count):
    for each in range(count):
        await Demand(redis).note_pull(ORG, PullReference("acme/api", 7), f"{each:040x}", NOW + each)


async def of_demand(redis, count):
    done = filled(samples.Job)._replace(status="over", runner_group="", waiting=False)
    for each in range(count):
        job = done._replace(id=each, started_at=NOW + each, ended_at=NOW + each)
        await Demand(redis).record(ORG, [job])


async def of_missing(redis, count):
    for each in range(count):
        await DeliveryStatus(redis).mark_missing([str(each)], NOW + each)


async def of_inbox(redis, count):
    store = Inbox(redis)
    kept = [store.keep(str(each), "ping", b"{}") for each in range(count)]
    await asyncio.gather(*kept, return_exceptions=True)


async def of_dead_letters(redis, count):
    for each in range(count):
        for _ in range(inbox.MOST_TRIES):
            await Inbox(redis).failed(Entry(f"{each + 1}-0".encode(), str(each), "ping", b""), "no effect", NOW)


async def of_redeliveries(redis, count):
    await Inbox(redis).plan_redeliveries(range(count))


async def of_events(redis, count):
    for each in range(count):
        await Events(redis).append(ORG, {"id": str(each), "type": "died"}, POOL)


async def of_orphans(redis, count):
    for each in range(count):
        await Leaks(redis).begin(ORG, replace_uid(each))


async def of_reaped(redis, count):
    for each in range(count):
        await Leaks(redis).reaped(ORG, replace_uid(each), NOW + each)


def replace_uid(number):
    return filled(Orphan)._replace(uid=str(number))


async def of_shards(redis, count):
    for each in range(count):
        await MetricCounters(redis).shard_label(ORG, POOL, str(each))


async def of_pod_ends(redis, count):
    for _ in range(count):
        async with redis.pipeline() as pipe:
            PodEnds(redis).add(pipe, NAMESPACE, [filled(PodEnd)])
            await pipe.execute()


async def of_quarantine(redis, count):
    for each in range(count):
        await Quarantine(redis).set_aside("runner", keys.runners(ORG), {str(each): b"garbage"})


async def of_names(redis, count):
    folds = {each: lambda _, each=each: replace_name(each) for each in range(count)}
    await Runners(redis).revise(ORG, folds)


async def of_changes(redis, count):
    await Runners(redis).changes(ORG)
    for each in range(count):
        await Runners(redis).revise(ORG, {each: lambda _, each=each: replace_name(each)})


async def of_sign_ins(redis, count):
    for each in range(count):
        await Sessions(redis, samples.PRIVATE_KEY).begin(str(each), filled(SignInAttempt))


async def of_incidents(redis, count):
    ended = {str(each): filled(LossIncident)._replace(id=str(each), ended=NOW + each) for each in range(count)}
    await Incidents(redis).revise(ORG, lambda _: ended, NOW)


async def of_notifications(redis, count):
    pending = [filled(PendingNotification)] * count
    await Notifications(redis).record(ORG, {}, pending)
    await Notifications(redis).pending()


async def of_flights(redis, count):
    for _ in range(count):
        with suppress(BudgetSpentError):
            await Budget(redis, lambda: NOW).enter(ORG, CallLimits(patience_seconds=0.0), 1)


async def of_budget(redis, count):
    for each in range(count):
        now = NOW + each
        store = Budget(redis, lambda now=now: now)
        await store.leave(ORG, await store.enter(ORG, CallLimits(), 1), test_garbage.HEADERS)
    await store.hold(ORG, 1.0)


async def of_counts(redis, count):
    await redis.hset(keys.history_counts(ORG), mapping={f"0|lost|{each}": 1 for each in range(20_000)})
    for each in range(count):
        await Deaths(redis, lambda: NOW).record(ORG, filled(Death)._replace(id=str(each), at=NOW, pool=f"pool-{each}"))


async def of_pools(redis, count):
    gauges = {f"pool-{each}": samples.GAUGES for each in range(count)}
    await HistoryStore(redis).record(ORG, samples.HISTORY_SAMPLE._replace(gauges=gauges, counts={}), NOW)


async def of_report(redis, count):
    for _ in range(count):
        await Reports(redis).posted(ORG, filled(Posted))
        await Reports(redis).record_head(ORG, filled(Head))
        await Reports(redis).put_off(ORG, filled(PostFailure))


async def of_steps(redis, count):
    for each in range(count):
        at = NOW - NOW % 86_400 + 300 * each
        await HistoryStore(redis).record(ORG, samples.HISTORY_SAMPLE._replace(at=at), at)


STREAM_NODE = 100
"""Entries that Redis may keep beyond an approximate bound."""

FILLS = [
    (keys.audit(ORG), of_audit, 8, (audit, "MOST", 5)),
    (keys.presses(ORG), of_presses, 8, (presses, "MOST", 4)),
    (keys.own_deletions(ORG), of_own_deletions, 8, (own_deletions, "MOST_DELETIONS", 5)),
    (keys.NAME_OWNERS, of_name_owners, 8, (installations, "MOST_OWNERS", 5)),
    (keys.pod_claims(ORG), of_claims, 8, (pod_claims, "MOST", 5)),
    (keys.pod_claim_expiries(ORG), of_claims, 8, (pod_claims, "MOST", 5)),
    (keys.deaths(ORG), of_deaths, 8, (deaths, "MOST", 5)),
    (keys.death_times(ORG), of_deaths, 8, (deaths, "MOST", 5)),
    (keys.death_names(ORG), of_deaths, 8, (deaths, "MOST", 5)),
    (keys.death_clean(ORG), of_deaths, 8, (deaths, "MOST", 5)),
    (keys.deaths_unpublished(ORG), of_deaths, 8, (deaths, "MOST", 5)),
    (keys.creations(ORG), of_creations, 8, (check_creations, "AN_HOUR", 5)),
    (keys.taken(ORG), of_demand, 8, (demand, "MOST_TAKEN", 5)),
    (keys.ended(ORG), of_demand, 8, (demand, "MOST_ENDED", 5)),
    (keys.pull(ORG, "acme/api", 7), of_pulls, 8, (demand, "MOST_COMMITS", 5)),
    (keys.REDELIVERED, of_missing, 8, (delivery_status, "MOST_REDELIVERED", 5)),
    (keys.INBOX, of_inbox, 2 * inbox.MOST_AT_ONCE, (inbox, "MOST_WAITING", inbox.MOST_AT_ONCE)),
    (keys.DEAD_LETTERS, of_dead_letters, 8, (inbox, "MOST_DEAD", 5)),
    (keys.REDELIVERIES, of_redeliveries, 1_008, None),
    (keys.events(ORG), of_events, 5 + 2 * STREAM_NODE, (events, "MOST", 5)),
    (keys.event_ids(ORG, "died"), of_events, 8, (events, "MOST_IDS", 5)),
    (keys.outbox_news(ORG, POOL), of_events, 8, (events, "MOST_NEWS", 5)),
    (keys.OUTBOX_ADDED, of_events, 8, (events, "MOST_ADDED", 5)),
    (keys.orphans(ORG), of_orphans, 8, (leaks, "MOST_BEGUN", 5)),
    (keys.reaped(ORG), of_reaped, 8, (leaks, "MOST_REAPED", 5)),
    (keys.metric_shards(ORG, POOL), of_shards, 25, None),
    (keys.pod_ends(NAMESPACE), of_pod_ends, 5 + 2 * STREAM_NODE, (pod_ends, "MOST", 5)),
    (keys.QUARANTINE, of_quarantine, 8, (quarantine, "MOST", 5)),
    (keys.names(ORG), of_names, 200, None),
    (keys.runner_changes(ORG), of_changes, 620, None),
    (keys.SIGN_INS, of_sign_ins, 8, (sessions, "MOST_ATTEMPTS", 5)),
    (keys.incidents(ORG), of_incidents, 510, None),
    (keys.NOTIFICATIONS, of_notifications, 8, (notifications, "MOST_PENDING", 5)),
    (keys.flights(ORG), of_flights, 85, None),
    (keys.budget(ORG), of_budget, 130, None),
    (keys.history_counts(ORG), of_counts, 8, None),
    (keys.history_pools(ORG), of_pools, 120, None),
    (keys.history_steps(ORG, 300, int(NOW) // 86_400, POOL), of_steps, 300, None),
    (keys.report(ORG), of_report, 2, None),
]
"""Of each kind with a maximum: what fills it through its store, how often, and a smaller bound where that is a number
that the store reads when it writes."""

BOUNDED_ELSEWHERE = {
    keys.queue_checks(ORG): "by its only writer: tests/stories/workflow_jobs/test_queue.py",
    keys.seen("", 1, 0, 0): "tests/store/test_seen_deliveries.py",
}
SIZE = {"hash": "hlen", "zset": "zcard", "list": "llen", "stream": "xlen", "set": "scard"}


@pytest.mark.parametrize(("key", "fill", "count", "smaller"), FILLS, ids=[row[0] for row in FILLS])
async def test_no_kind_grows_beyond_its_bound(redis, monkeypatch, key, fill, count, smaller):
    kind = kind_of(key)
    most = kind.bound.most
    if smaller is not None:
        module, name, few = smaller
        assert getattr(module, name) == most
        monkeypatch.setattr(module, name, few)
        most = few
    await fill(redis, count)
    size = await getattr(redis, SIZE[kind.type])(key)
    assert most <= size <= most + (STREAM_NODE if "some more" in kind.bound.number else 0)
    if kind.bound.seconds is not None:
        assert 0 < await redis.ttl(key) <= kind.bound.seconds


def test_each_maximum_is_tried():
    tried = {kind_of(key).pattern for key in (*(row[0] for row in FILLS), *BOUNDED_ELSEWHERE)}
    assert {each.pattern for each in KINDS if (each.bound.most or 1) > 1} == tried


async def test_the_largest_kind_at_its_full_size(redis):
    await of_inbox(redis, inbox.MOST_WAITING + 1_000)
    assert await redis.xlen(keys.INBOX) == inbox.MOST_WAITING == kind_of(keys.INBOX).bound.most
    assert 0 < await redis.ttl(keys.INBOX) <= inbox.KEPT_SECONDS
