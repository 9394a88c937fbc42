"""One record of each kind with every field filled, written and read by the public methods of the stores."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from ghapp.deaths.cluster_summary import ClusterSummary
from ghapp.deaths.death import Death
from ghapp.deaths.post_mortem_store import ClusterSummaries, PostedMortem, PostMortems, Reruns
from ghapp.deaths.rerun import Rerun, RerunNote
from ghapp.deaths.store import Deaths
from ghapp.decoding import LeftOut, LeftOutRows
from ghapp.deliveries.log_store import DeliveryStatus
from ghapp.deliveries.store import Inbox
from ghapp.gate.active_shard import ActiveShardAnswer, Deploy
from ghapp.gate.gate_checks import GateCheck
from ghapp.gate.store import GateChecks, Shards
from ghapp.github import deliveries
from ghapp.github.deliveries import Delivery
from ghapp.incidents.history import HistorySample, HistoryStep, at_least, sampled, step_of
from ghapp.incidents.incident import LossIncident
from ghapp.incidents.settled import Settled
from ghapp.incidents.store import HistoryStore, Incidents, SettledSweeps
from ghapp.installations.etag_page import EtagPage
from ghapp.installations.installation import Installation
from ghapp.installations.repositories import Repositories
from ghapp.installations.store import (
    EtagPages,
    Installations,
    InstallationState,
    InstallationStates,
    ScopedRepositories,
)
from ghapp.leaks.leak_fuse import LeakFuse
from ghapp.leaks.orphan import Orphan
from ghapp.leaks.store import Leaks, Tick
from ghapp.notifications.conditions import Notified
from ghapp.notifications.event_store import Events
from ghapp.notifications.store import Notifications, PendingNotification
from ghapp.pods.claim_store import PodClaims
from ghapp.pods.end_store import PodEnd, PodEnds
from ghapp.pods.pod import EphemeralRunner, Pod
from ghapp.pods.pod_claim import PodClaim
from ghapp.pods.scale_sets import ScaleSet
from ghapp.pods.store import PodChange, Pods, ScaleSets
from ghapp.remediation.fuse import Fuse, Position
from ghapp.remediation.pause import Pause
from ghapp.remediation.store import Fuses
from ghapp.report.check_run_state import Head, Posted, PostFailure
from ghapp.report.store import Reports
from ghapp.runners.delivery_lag import DeliveryArrivals, DeliveryLog
from ghapp.runners.evidence import Evidence, Survey
from ghapp.runners.store import Runners
from ghapp.store import keys
from ghapp.store.audit import AuditEntry, AuditLog
from ghapp.store.github_tokens import SharedTokens
from ghapp.store.left_out import LastLeftOut, LeftOutRecords
from ghapp.store.presses import Press, Presses
from ghapp.store.sessions import Session, Sessions, SignInAttempt, digest_of
from ghapp.store.tokens import Tokens, digest
from ghapp.versions.lifetime import EndDates
from ghapp.versions.store import RunnerVersions
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.queue_check import QueueCheck
from ghapp.workflow_jobs.runner_groups import RunnerGroups
from ghapp.workflow_jobs.store import Demand, QueueChecks, RunnerGroupStore
from tests.support.snapshots import record_snapshot

ORG = 7
NOW = 1_790_000_000.0
NUMBER, SECONDS, TEXT = 7, NOW + 0.25, "text"
POOL, POD_NAME, NAMESPACE, EVENT, DEATH, JOB = "linux", "pod-1", "runners", "event-1", "death-1", 7
PRIVATE_KEY = "any text: the key that seals is derived from it"


def filled(kind: Any) -> Any:
    """A value of a type, with every field filled, at every depth."""
    if kind in (int, float, str, bytes, bool):
        return {int: NUMBER, float: SECONDS, str: TEXT, bytes: b"bytes", bool: True}[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return args[0]
    if origin is UnionType or type(kind).__name__ == "_UnionGenericAlias":
        if msgspec.UnsetType in args:
            return msgspec.UNSET  # a part of a payload that is not stored
        return filled(next(each for each in args if each is not NoneType))
    if origin is tuple:
        return (filled(args[0]),) if args[-1] is Ellipsis else tuple(map(filled, args))
    if origin is frozenset:
        return frozenset({filled(args[0])})
    if origin is not None:  # a mapping
        return {filled(args[0]): filled(args[1])}
    if issubclass(kind, Enum):
        return list(kind)[-1]
    if kind is datetime:
        return datetime.fromtimestamp(NOW, UTC)
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else getattr(kind, "_fields", hints)
    return kind(**{name: filled(hints[name]) for name in names})


PAUSE = Pause(TEXT, TEXT, SECONDS, until=4_000_000_000.0)
"""Its end is in the future of any machine."""


class _Minted:
    secret, expires_at = TEXT, NOW + 3600


async def mint() -> _Minted:
    return _Minted()


async def _never() -> _Minted:
    raise AssertionError("the stored token was not read")


EVIDENCE = filled(Evidence)
REAPER_FUSE = replace(filled(LeakFuse), position=Position.STOPPED)
GAUGES, HISTORY_COUNTS = {"healthy": 3, "busy": 1}, {"lost": 2, "death:crash": 1}
HISTORY_SAMPLE = HistorySample(NOW, {POOL: GAUGES}, {(POOL, step_of(NOW)): HISTORY_COUNTS})
HISTORY_STEP: HistoryStep = at_least(sampled(GAUGES, NOW), HISTORY_COUNTS)


async def _write_fuses(fuses: Fuses) -> None:
    await fuses.save(ORG, POOL, None, filled(Fuse))
    await fuses.save_of_reaper(ORG, POOL, None, REAPER_FUSE)
    await fuses.pause(ORG, POOL, PAUSE)


async def write(redis: Any) -> dict[str, Any]:
    """Writes one record of each kind; returns the written records by the names of their codecs."""
    pod, runner = filled(Pod)._replace(name=POD_NAME), filled(EphemeralRunner)._replace(name=POD_NAME)
    death, orphan, job = filled(Death)._replace(at=NOW), filled(Orphan), filled(Job)._replace(id=JOB)
    first_name = Installation(ORG, "acme", 9, {"checks": "write"}, suspended=True)
    await Installations(redis).put(first_name)
    installation = await Installations(redis).put(replace(first_name, org="acme-inc"))
    state = InstallationState(first_name, NOW)
    await InstallationStates(redis).remember(state)
    await Runners(redis).revise(ORG, {EVIDENCE.id: lambda _: EVIDENCE})
    await Runners(redis).save_survey(ORG, filled(Survey))
    await _write_fuses(Fuses(redis))
    await Events(redis).append(ORG, {"id": EVENT, "type": "ghapp.runner.replace.v1"}, POOL)
    await Demand(redis).record(ORG, [job._replace(status="running")])
    await GateChecks(redis).keep(ORG, POOL, filled(GateCheck))
    await ClusterSummaries(redis).keep(ORG, filled(ClusterSummary))
    await Deaths(redis, lambda: NOW).record(ORG, death)
    await Leaks(redis).remember(ORG, filled(Tick))
    await Leaks(redis).begin(ORG, orphan)
    await EtagPages(redis).keep(ORG, TEXT, {1: EtagPage.of("etag", b"body")}, 1)
    await PodClaims(redis, lambda: NOW).claim(ORG, POD_NAME, "runner-1", JOB, NOW + 60)
    claim = PodClaim(POD_NAME, "runner-1", JOB, NOW + 60, NOW)
    await _write_cluster(redis, pod, runner)
    await PostMortems(redis).post(DEATH, filled(PostedMortem))
    rerun, rerun_note = filled(Rerun)._replace(job_id=JOB), filled(RerunNote)
    await Reruns(redis).keep(ORG, rerun)
    await Reruns(redis).note(ORG, JOB, rerun_note)
    await Reports(redis).posted(ORG, filled(Posted))
    await Reports(redis).record_head(ORG, filled(Head))
    await Reports(redis).put_off(ORG, filled(PostFailure))
    await QueueChecks(redis).keep(ORG, POOL, filled(QueueCheck))
    await Presses(redis).put(ORG, TEXT, filled(Press))
    await _write_groups_and_versions(redis)
    deploy = await Shards(redis).record(ORG, POOL, lambda _: filled(Deploy))
    await Shards(redis).answered(ORG, POOL, filled(ActiveShardAnswer))
    secret, token = await Tokens(redis).create("token", ("acme",), ("read", "claim"), NOW, 60)
    await redis.hset(keys.TOKENS, digest(TEXT).hex(), await redis.hget(keys.TOKENS, digest(secret).hex()))
    await redis.hdel(keys.TOKENS, digest(secret).hex())
    delivery = await _write_deliveries(redis)
    shared = await SharedTokens(redis, PRIVATE_KEY).token(ORG, mint, NOW)
    await Notifications(redis).record(ORG, {POOL: filled(Notified)}, [filled(PendingNotification)])
    sessions, session = Sessions(redis, PRIVATE_KEY), filled(Session)._replace(expires_at=NOW + 60)
    await redis.set(keys.session(digest_of(TEXT)), b"of a cookie that is not random")
    await sessions.update(TEXT, session, NOW)
    await sessions.begin(TEXT, filled(SignInAttempt))
    await AuditLog(redis).record(ORG, filled(AuditEntry))
    await _write_left_out(redis)
    await Incidents(redis).revise(ORG, lambda _: {TEXT: filled(LossIncident)}, NOW)
    await HistoryStore(redis).record(ORG, HISTORY_SAMPLE, NOW)
    await SettledSweeps(redis).begin(ORG)
    await SettledSweeps(redis).keep(ORG, filled(Settled))
    return {
        "installation": installation,
        "installation-state": state,
        "runner": EVIDENCE,
        "survey": filled(Survey),
        "settled": filled(Settled),
        "fuse": filled(Fuse),
        "reaper-fuse": REAPER_FUSE,
        "pause": PAUSE,
        "outgoing-event": (ORG, POOL),
        "job": job._replace(status="running"),
        "gate-check": filled(GateCheck),
        "cluster-summary": filled(ClusterSummary),
        "death": death,
        "reaper-tick": filled(Tick),
        "orphan": orphan,
        "page": ("etag", b"body"),
        "pod-claim": claim,
        "pod": pod,
        "pod-end": filled(PodEnd),
        "ephemeralrunner": runner,
        "post-mortem": filled(PostedMortem),
        "rerun": rerun,
        "rerun-note": rerun_note,
        "posted-report": filled(Posted),
        "report-head": filled(Head),
        "report-setback": filled(PostFailure),
        "queue-check": filled(QueueCheck),
        "repositories": filled(Repositories),
        "runner-groups": filled(RunnerGroups),
        "runner-version": filled(EndDates),
        "deploys": (deploy,),
        "scale-sets": (filled(ScaleSet),),
        "active-shard": filled(ActiveShardAnswer),
        "token": token,
        "installation-token": shared,
        "session": session,
        "sign-in": filled(SignInAttempt),
        "audit-entry": filled(AuditEntry),
        "press": filled(Press),
        "left-out": LastLeftOut("runner", TEXT, TEXT, NOW, is_row=True),
        "incident": filled(LossIncident),
        "delivery": delivery,
        "delivery-arrivals": filled(DeliveryArrivals),
        "delivery-log": filled(DeliveryLog),
        "history-step": HISTORY_STEP,
        "notified": filled(Notified),
        "pending-notification": filled(PendingNotification),
    }


async def _write_cluster(redis: Any, pod: Pod, runner: EphemeralRunner) -> None:
    await record_snapshot(Pods(redis), NAMESPACE, [pod], [runner], NOW)
    await Pods(redis).record(NAMESPACE, [PodChange(pod, end=filled(PodEnd))])
    await ScaleSets(redis).put(NAMESPACE, (filled(ScaleSet),))


async def _write_groups_and_versions(redis: Any) -> None:
    await ScopedRepositories(redis).put(ORG, filled(Repositories))
    await RunnerGroupStore(redis).keep(ORG, filled(RunnerGroups))
    await RunnerVersions(redis).put(ORG, {TEXT: filled(EndDates)})


async def _write_left_out(redis: Any) -> None:
    left_out = LeftOutRows()
    left_out.add([LeftOut("runner", TEXT, TEXT, is_row=True)])
    await LeftOutRecords(redis).record(left_out, NOW)


async def _write_deliveries(redis: Any) -> Delivery:
    delivery = filled(Delivery)
    await Inbox(redis).keep("guid-1", "workflow_job", deliveries.encode(delivery))
    await DeliveryStatus(redis).save_arrivals({ORG: filled(DeliveryArrivals)})
    await DeliveryStatus(redis).save_log(filled(DeliveryLog))
    return delivery


async def read(redis: Any, mint: Any = _never) -> dict[str, Any]:
    """Reads the same records; None for each kind without a readable record. `mint` is called if no token is stored."""
    view = await Pods(redis).all(NAMESPACE)
    end = _first(await PodEnds(redis).unrecorded(NAMESPACE, None, 10))
    outgoing = await Events(redis).outgoing(EVENT)
    page = _first((await EtagPages(redis).of(ORG, TEXT)).values())
    standing = await Reports(redis).check_run_state(ORG)
    claims, deaths = PodClaims(redis, lambda: NOW), Deaths(redis, lambda: NOW)
    return {
        "installation": _first(await Installations(redis).all()),
        "repositories": await ScopedRepositories(redis).get(ORG),
        "installation-state": await InstallationStates(redis).last(ORG),
        "runner": _first((await Runners(redis).all(ORG)).values()),
        "survey": await Runners(redis).survey(ORG),
        "settled": await SettledSweeps(redis).of(ORG),
        "fuse": _first((await Fuses(redis).all(ORG)).values()),
        "reaper-fuse": _first((await Fuses(redis).of_reaper(ORG)).values()),
        "pause": _first((await Fuses(redis).pauses(ORG)).values()),
        "outgoing-event": None if outgoing is None else outgoing[:2],
        "job": _first(await Demand(redis).all(ORG)),
        "gate-check": _first((await GateChecks(redis).list(ORG)).values()),
        "cluster-summary": await ClusterSummaries(redis).of(ORG),
        "death": _first(await deaths.recent(ORG, 0, 10)),
        "reaper-tick": await Leaks(redis).last(ORG),
        "orphan": _first(await Leaks(redis).unfinished(ORG)),
        "page": None if page is None else (page.etag, page.body()),
        "pod-claim": _first(await claims.all(ORG, NOW)),
        "pod": None if view is None else _first(view.pods.values()),
        "pod-end": None if end is None else end.end,
        "ephemeralrunner": None if view is None else _first(view.objects.values()),
        "post-mortem": await PostMortems(redis).posted(DEATH),
        "rerun": await Reruns(redis).of(ORG, JOB),
        "rerun-note": await Reruns(redis).noted(ORG, JOB),
        "posted-report": standing.posted,
        "report-head": standing.head,
        "report-setback": standing.setback,
        "queue-check": _first((await QueueChecks(redis).all(ORG)).values()),
        "runner-groups": await RunnerGroupStore(redis).of(ORG),
        "runner-version": (await RunnerVersions(redis).all(ORG)).get(TEXT),
        "deploys": await Shards(redis).deploys(ORG, POOL),
        "scale-sets": await ScaleSets(redis).get(NAMESPACE),
        "active-shard": await Shards(redis).answer(ORG, POOL),
        "token": await Tokens(redis).find(digest(TEXT)),
        "delivery": deliveries.decode((await Inbox(redis).take(1))[0].facts),
        "delivery-arrivals": (await DeliveryStatus(redis).arrivals([ORG]))[ORG],
        "delivery-log": await DeliveryStatus(redis).log(),
        "installation-token": await SharedTokens(redis, PRIVATE_KEY).token(ORG, mint, NOW),
        "history-step": _first((await HistoryStore(redis).steps(ORG, POOL, NOW - 300, NOW + 300, 300)).values()),
        "notified": _first((await Notifications(redis).notified(ORG)).values()),
        "pending-notification": _first((await Notifications(redis).pending()).values()),
        "session": await Sessions(redis, PRIVATE_KEY).find(TEXT, NOW),
        "sign-in": await Sessions(redis, PRIVATE_KEY).take(TEXT),
        "audit-entry": _first(await AuditLog(redis).latest(ORG, 10)),
        "press": await Presses(redis).get(ORG, TEXT),
        "left-out": _first(await LeftOutRecords(redis).last()),
        "incident": _first((await Incidents(redis).all(ORG)).values()),
    }


def _first(records: Any) -> Any:
    return next(iter(records), None)


async def spoil(redis: Any, row: bytes) -> None:
    """Replaces every record by `row`. Values that are not records (numbers, names, times) stay."""
    untouched = (
        b":names",
        b":budget",
        b"ghapp:counters",
        b"ghapp:lock:",
        b"ghapp:seen:",
        b"ghapp:inbox",
    )
    for key in await redis.keys("ghapp:*"):
        if any(each in key for each in untouched):
            continue
        match await redis.type(key):
            case b"string":
                await redis.set(key, row, keepttl=True)
            case b"list":
                await redis.lset(key, 0, row)
            case b"stream":
                await redis.delete(key)
                await redis.xadd(key, {"end": row})
            case b"hash":
                for field in await redis.hkeys(key):
                    if not key.startswith(b"ghapp:pods:") or field[1:2] == b"/":
                        await redis.hset(key, field, row)
