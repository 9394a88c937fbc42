"""What readers are told, and controllers tell: from memory, at most a second old, with Redis behind it.

While Redis is away they are told what was last known, and how old it is.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from cachetools import LRUCache, TTLCache
from redis.asyncio import Redis

from ghapp.health.installation import Installation
from ghapp.health.job import Job
from ghapp.health.pods.pod import EphemeralRunner, is_fresh
from ghapp.health.pods.pod_claim import Claimed, by_name, claim_on
from ghapp.health.pool_matching import pool_of
from ghapp.health.remediation.fuse import Fuse, fuse_of
from ghapp.health.runner.evidence import Evidence, Survey
from ghapp.health.runner.verdict import State, Verdict, judge
from ghapp.report.documents import Document, PoolBrakes, health_document, is_healed, never_seen
from ghapp.settings import Settings
from ghapp.store.connect import PipeliningRedis, redis_errors
from ghapp.store.demand import Demand
from ghapp.store.fuses import WHOLE_ORG, Fuses, Pause
from ghapp.store.installations import Installations
from ghapp.store.pod_claims import PodClaims
from ghapp.store.pods import NamespaceView, Pods
from ghapp.store.runners import Runners
from ghapp.web.cache import FRESH_SECONDS, Cache

MOST_FRESH = 20_000
MOST_KNOWN = 50_000
MOST_ORGS = 1_000
MOST_FILTERS = 100
MOST_TOLD = 2_000
"""Documents take a kilobyte each."""

TOLD_SECONDS = 0.1
"""A document says its age in tenths of a second: until the next one, whoever asks is told the same."""


@dataclass(frozen=True, slots=True)
class OrgState:
    """What holds for all runners of an org."""

    installation: Installation
    survey: Survey
    fuses: Mapping[str, Fuse] = field(default_factory=dict)
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    claimed: Claimed = field(default_factory=dict)
    """Some may have run out since they were read: `claim_on` says."""


class ServedDocument(NamedTuple):
    """A document, what it was made of, and when (epoch seconds)."""

    of: OrgState
    evidence: Evidence
    at: float
    document: Document


class FleetPage(NamedTuple):
    """Some documents of a fleet, how many there are in all, and the runner id after which to go on.

    `healed` is how many of all are invalidated and have their replacement accepted.
    """

    documents: list[Document]
    total: int
    following: int | None
    healed: int = 0


class FleetSelection(NamedTuple):
    """The ids of a fleet that match a filter, in order; how many are healed; and from what they were chosen."""

    of: OrgState
    fleet: dict[int, Evidence]
    ids: list[int]
    healed: int


class FleetReader:
    """Health documents, and what else is known of an org."""

    def __init__(self, settings: Settings, redis: Redis) -> None:
        self._settings, redis = settings, PipeliningRedis(redis)
        self._installations = Installations(redis, settings.named)
        self._runners, self._fuses = Runners(redis), Fuses(redis)
        self._demand, self._pods, self._pod_claims = Demand(redis), Pods(redis), PodClaims(redis)
        self._named: Cache[None, dict[str, Installation]] = Cache(1, 1)
        self._orgs: Cache[str, OrgState] = Cache(MOST_ORGS, MOST_ORGS)
        self._one: Cache[tuple[int, int], Evidence] = Cache(MOST_FRESH, MOST_KNOWN)
        self._ids: Cache[tuple[int, str], int] = Cache(MOST_FRESH, MOST_KNOWN)
        self._fleets: Cache[int, dict[int, Evidence]] = Cache(MOST_ORGS, MOST_ORGS)
        self._jobs: Cache[int, list[Job]] = Cache(MOST_ORGS, MOST_ORGS)
        self._views: Cache[str, NamespaceView] = Cache(MOST_ORGS, MOST_ORGS)
        self._told: LRUCache[tuple[int, int], ServedDocument] = LRUCache(MOST_TOLD)
        self._chosen: TTLCache[tuple[int, str | None, str | None, bool | None], FleetSelection] = TTLCache(
            MOST_FILTERS, FRESH_SECONDS
        )

    async def by_id(self, org: str, runner_id: int, now: float) -> Document:
        """The document of one runner; `unknown` when nobody told us of it, or of its org."""
        of = await self.org(org)
        evidence = None if of is None else await self._evidence(of.installation.id, runner_id)
        return never_seen(org, runner_id, None) if of is None or evidence is None else self._document(of, evidence, now)

    async def by_name(self, org: str, name: str, now: float) -> Document:
        """The same, by name: the latest registration that bears it."""
        of = await self.org(org)
        if of is None:
            return never_seen(org, None, name)
        runner_id = (await self._ids_of(of.installation.id, [name]))[name]
        return never_seen(org, None, name) if runner_id is None else await self.by_id(org, runner_id, now)

    async def many(self, org: str, ids: Sequence[int], names: Sequence[str], now: float) -> list[Document]:
        """The same for many at once, ids first: one round trip for all, and one more where there are names."""
        of = await self.org(org)
        if of is None:
            return [never_seen(org, each, None) for each in ids] + [never_seen(org, None, each) for each in names]
        installation = of.installation.id
        named = await self._ids_of(installation, names) if names else {}
        wanted = [*ids, *(each for each in named.values() if each is not None)]

        async def load(missing: list[tuple[int, int]]) -> dict[tuple[int, int], Evidence]:
            found = await self._runners.some(installation, [runner_id for _, runner_id in missing])
            return {(installation, runner_id): evidence for runner_id, evidence in found.items()}

        known = await self._one.read_many([(installation, runner_id) for runner_id in wanted], load)

        def document(runner_id: int | None, name: str | None) -> Document:
            evidence = None if runner_id is None else known[installation, runner_id]
            return never_seen(org, runner_id, name) if evidence is None else self._document(of, evidence, now)

        return [document(each, None) for each in ids] + [document(named[each], each) for each in names]

    async def _ids_of(self, installation: int, names: Sequence[str]) -> dict[str, int | None]:
        async def load(missing: list[tuple[int, str]]) -> dict[tuple[int, str], int]:
            found = await self._runners.ids_of(installation, [name for _, name in missing])
            return {(installation, name): runner_id for name, runner_id in found.items()}

        known = await self._ids.read_many([(installation, name) for name in names], load)
        return {name: known[installation, name] for name in names}

    async def fleet(
        self,
        org: str,
        state: str | None,
        pool: str | None,
        after: int,
        limit: int,
        now: float,
        *,
        healed: bool | None = None,
    ) -> FleetPage:
        """The runners of an org in that state and pool, healed or not (None: any), by id, those behind `after`."""
        of = await self.org(org)
        if of is None:
            return FleetPage([], 0, None)
        chosen = await self._choose(of, state, pool, healed, now)
        start = bisect_right(chosen.ids, after)
        page = chosen.ids[start : start + limit]
        documents = [self._document(of, chosen.fleet[runner_id], now) for runner_id in page]
        following = page[-1] if len(chosen.ids) > start + limit else None
        return FleetPage(documents, len(chosen.ids), following, chosen.healed)

    async def _choose(
        self, of: OrgState, state: str | None, pool: str | None, healed: bool | None, now: float
    ) -> FleetSelection:
        """Judged once a second at most, however many pages are asked for."""
        key, known = (of.installation.id, state, pool, healed), await self.runners(of)
        chosen = self._chosen.get(key)
        if chosen is not None and chosen.of is of and chosen.fleet is known:
            return chosen
        ids, count = [], 0
        for runner_id in sorted(known):
            evidence = known[runner_id]
            if pool is not None and self.pool(of, evidence) != pool:
                continue
            may_have_healed = evidence.replaced_at is not None
            if state is None and healed is None and not may_have_healed:
                ids.append(runner_id)
                continue
            verdict = self.verdict(of, evidence, now)
            has_healed = is_healed(evidence, verdict)
            if state in (None, verdict.state) and healed in (None, has_healed):
                ids.append(runner_id)
                count += has_healed
        self._chosen[key] = chosen = FleetSelection(of, known, ids, count)
        return chosen

    async def should_terminate(self, org: str, name: str, now: float) -> bool:
        """Whether the runner of that name is invalidated, is being replaced, and no claim says that its pod is busy.

        Whom fuse, pause, dry-run or a ceiling hold back is not to be ended by its own probe either: in a false mass
        loss all of them would be.
        """
        document = await self.by_name(org, name, now)
        of = await self.org(org)
        if of is None or document["state"] != State.INVALIDATED:
            return False
        evidence = await self._evidence(of.installation.id, document["runner_id"])
        is_granted = evidence is not None and evidence.granted_at is not None
        return is_granted and claim_on(of.claimed, name, now) is None

    async def record(self, org: str, runner_id: int, fold: Callable[[Evidence], Evidence]) -> None:
        """What a controller tells of a runner; readers here see it at once. Nobody knows it: nothing to record."""
        of = await self.org(org)
        if of is None:
            return
        installation = of.installation.id
        async with redis_errors():
            await self._runners.revise(installation, {runner_id: lambda known: None if known is None else fold(known)})
        self._one.forget((installation, runner_id))
        self._fleets.forget(installation)

    def forget(self, org: str) -> None:
        """Something of an org was written: readers here see it at once."""
        self._orgs.forget(org.lower())

    async def org(self, org: str) -> OrgState | None:
        """An org by any of its names, whatever its case; None where the App is not installed."""

        async def load() -> OrgState | None:
            installation = (await self._named.read(None, self._by_name) or {}).get(org.lower())
            if installation is None:
                return None
            survey, fuses, pauses, claims = await asyncio.gather(
                self._runners.survey(installation.id),
                self._fuses.all(installation.id),
                self._fuses.pauses(installation.id),
                self._pod_claims.kept(installation.id),
            )
            return OrgState(installation, survey, fuses, pauses, by_name(claims))

        return await self._orgs.read(org.lower(), load)

    async def _by_name(self) -> dict[str, Installation]:
        """Every installation by each of its names, in lower case: read once for all orgs that are asked for."""
        found: dict[str, Installation] = {}
        for installation in await self._installations.all():
            for name in installation.own:
                found.setdefault(name.lower(), installation)
        return found

    async def knows(self, of: OrgState, runner_id: int) -> bool:
        """Whether anybody told us of that runner."""
        return await self._evidence(of.installation.id, runner_id) is not None

    async def runners(self, of: OrgState) -> dict[int, Evidence]:
        """Every known runner of an org, by id."""
        installation = of.installation.id
        return await self._fleets.read(installation, lambda: self._runners.all(installation)) or {}

    async def jobs(self, of: OrgState) -> list[Job]:
        """Every job of an org that is not over."""
        installation = of.installation.id
        return await self._jobs.read(installation, lambda: self._demand.all(installation)) or []

    async def objects(self, of: OrgState, now: float) -> dict[str, list[EphemeralRunner]]:
        """ARC's objects by namespace, of the namespaces of an org's pools that the watch sees just now."""
        rules = self._settings.pools_of(of.installation.org)
        found = {}
        for namespace in sorted({rule.namespace for rule in rules if rule.namespace}):
            view = await self._views.read(namespace, partial(self._pods.all, namespace))
            if view is not None and is_fresh(view.seen_at, now):
                found[namespace] = list(view.objects.values())
        return found

    async def pools(self, of: OrgState) -> set[str]:
        """The pools of an org: the configured, those of its runners, and those that have a fuse or a pause."""
        configured = {rule.name for rule in self._settings.pools_of(of.installation.org)}
        known = {self.pool(of, evidence) for evidence in (await self.runners(of)).values()}
        return (configured | known | of.fuses.keys() | of.pauses.keys()) - {WHOLE_ORG}

    def pool(self, of: OrgState, evidence: Evidence) -> str:
        """The pool that a runner belongs to."""
        return pool_of(evidence.labels, evidence.custom_labels, self._settings.pools_of(of.installation.org))

    def verdict(self, of: OrgState, evidence: Evidence, now: float) -> Verdict:
        """What is true of a runner."""
        return judge(evidence, of.survey, now, self._settings.of(of.installation.org).evidence)

    async def _evidence(self, installation: int, runner_id: int) -> Evidence | None:
        async def load() -> Evidence | None:
            return (await self._runners.some(installation, [runner_id])).get(runner_id)

        return await self._one.read((installation, runner_id), load)

    def _document(self, of: OrgState, evidence: Evidence, now: float) -> Document:
        key = of.installation.id, evidence.id
        told = self._told.get(key)
        if told is not None and told.of is of and told.evidence is evidence and 0 <= now - told.at < TOLD_SECONDS:
            return told.document
        document = self._written(of, evidence, now)
        self._told[key] = ServedDocument(of, evidence, now, document)
        return document

    def _written(self, of: OrgState, evidence: Evidence, now: float) -> Document:
        org, pool = of.installation.org, self.pool(of, evidence)
        standing = PoolBrakes(fuse_of(of.fuses, pool).position, WHOLE_ORG in of.pauses or pool in of.pauses)
        verdict = self.verdict(of, evidence, now)
        rules, claim = self._settings.pools_of(org), claim_on(of.claimed, evidence.name, now)
        return health_document(org, evidence, verdict, of.survey, standing, rules, now, claim)
