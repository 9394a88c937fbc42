"""Is it alive, is it ready, and its numbers: for orchestrators and Prometheus. No tokens."""

from __future__ import annotations

from collections import Counter

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.errors import StoreUnavailableError
from ghapp.health.cadence import Allowance, left
from ghapp.health.cluster.misfit import Kind
from ghapp.health.document import Document, timestamp
from ghapp.health.evidence import Survey
from ghapp.health.installation import Installation
from ghapp.settings import Settings
from ghapp.store.budget import Budget
from ghapp.store.clusterside import ClusterSides
from ghapp.store.connect import understood
from ghapp.store.counters import Counters
from ghapp.store.inbox import Inbox
from ghapp.store.installations import Installations
from ghapp.store.pods import Pods
from ghapp.store.schedule import Schedule
from ghapp.web.health import Clock
from ghapp.web.metrics import TYPE, Sample, exposition
from ghapp.web.reads import Org, Reads


class Status:
    """The endpoints."""

    def __init__(self, settings: Settings, redis: Redis, reads: Reads, clock: Clock) -> None:
        self._settings, self._reads, self._clock = settings, reads, clock
        self._installations, self._inbox = Installations(redis), Inbox(redis)
        self._budget, self._counters, self._schedule = Budget(redis), Counters(redis), Schedule(redis)
        self._pods, self._cluster_sides = Pods(redis), ClusterSides(redis)

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/livez", self._livez, methods=["GET"]),
            Route("/readyz", self._readyz, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
        ]

    async def _livez(self, _: Request) -> Response:
        return _json({"alive": True})

    async def _readyz(self, _: Request) -> Response:
        """Redis is all that this role needs; how it stands with each installation is told, and stops nobody."""
        try:
            installations = await self._installations.all()
            rows = [await self._standing(each) for each in installations]
        except (RedisError, OSError, StoreUnavailableError):
            return _json({"ready": False, "redis": "away", "installations": []}, 503)
        return _json({"ready": True, "redis": "ok", "installations": rows})

    async def _standing(self, installation: Installation) -> Document:
        now = self._clock()
        allowance = await self._budget.left(installation.id, now)
        due = await self._schedule.next(installation.id)
        of = await self._reads.org(installation.org)
        survey = Survey() if of is None else of.survey
        return {
            "org": installation.org,
            "lacks": lacking(installation),
            "calls_left": self._left(installation, allowance),
            "next_sweep_at": None if due is None else timestamp(due),
            "failing_since": None if survey.failing_since is None else timestamp(survey.failing_since),
            "failure": survey.failure or None,
        }

    def _left(self, installation: Installation, allowance: Allowance) -> int:
        return left(allowance, self._settings.of(installation.org).budget)

    async def _metrics(self, _: Request) -> Response:
        async with understood():
            samples = [
                Sample("ghapp_inbox_lag", {}, await self._inbox.lag()),
                Sample("ghapp_dead_letters", {}, await self._inbox.dead_letters()),
                *await self._of_views(),
            ]
            for installation in await self._installations.all():
                samples += await self._of_org(installation)
            return Response(exposition(samples, await self._counters.all()), media_type=TYPE)

    async def _of_views(self) -> list[Sample]:
        """How old each namespace's view is; one that was never seen has no age."""
        name, seen = "ghapp_watch_view_age_seconds", self._pods.seen_at
        ages = {each: at for each in self._settings.namespaces if (at := await seen(each)) is not None}
        now = self._clock()
        return [Sample(name, {"namespace": each}, max(0.0, now - at)) for each, at in ages.items()]

    async def _phantoms(self, installation: Installation) -> list[Sample]:
        """By kind, zeros too, so that a kind that goes is seen to go. None where nobody looks at a cluster."""
        side = await self._cluster_sides.of(installation.id)
        if side is None:
            return []
        counts = Counter(each.kind for each in side.phantoms)
        return [Sample("ghapp_phantoms", {"org": installation.org, "kind": kind}, counts[kind]) for kind in Kind]

    async def _of_org(self, installation: Installation) -> list[Sample]:
        now, org = self._clock(), {"org": installation.org}
        allowance = await self._budget.left(installation.id, now)
        samples = [
            Sample("ghapp_budget_limit_calls", org, allowance.limit),
            Sample("ghapp_budget_used_calls", org, allowance.used),
            Sample("ghapp_budget_left_calls", org, self._left(installation, allowance)),
        ]
        if (due := await self._schedule.next(installation.id)) is not None:
            samples.append(Sample("ghapp_next_sweep_timestamp_seconds", org, due))
        samples += await self._phantoms(installation)
        if (of := await self._reads.org(installation.org)) is None:
            return samples
        known = (await self._reads.runners(of)).values()
        counts = Counter((self._reads.pool(of, each), self._reads.verdict(of, each, now).state.value) for each in known)
        samples += [
            Sample("ghapp_runners", {**org, "pool": pool, "state": state}, count)
            for (pool, state), count in sorted(counts.items())
        ]
        return samples + standing(of)


def lacking(installation: Installation) -> list[str]:
    """What an organization has to do for its App to work, as `name: level`, or that it is suspended."""
    return [*installation.missing(), *(["suspended"] if installation.suspended else [])]


def standing(of: Org) -> list[Sample]:
    """An org's fuses, pauses, and how its last looks went."""
    org, survey = {"org": of.installation.org}, of.survey
    samples = [
        Sample("ghapp_fuse", {**org, "pool": pool, "position": fuse.position.value}, 1)
        for pool, fuse in sorted(of.fuses.items())
    ]
    samples += [Sample("ghapp_paused", {**org, "pool": pool}, 1) for pool in sorted(of.pauses)]
    if survey.swept_at is not None:
        samples.append(Sample("ghapp_last_sweep_timestamp_seconds", org, survey.swept_at))
        samples.append(Sample("ghapp_last_sweep_runners", org, survey.total))
    if survey.failing_since is not None:
        failing = {**org, "reason": survey.failure}
        samples.append(Sample("ghapp_sweeps_failing_since_timestamp_seconds", failing, survey.failing_since))
    return samples


def _json(document: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(document), status, media_type="application/json")
