"""Reads health documents and org state from memory, at most a second old, and records what controllers report.

During a Redis outage readers get the last known values, with their age.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from cachetools import TTLCache
from starlette.exceptions import HTTPException

from ghapp.deaths.job_death import runner_after
from ghapp.deaths.job_outcome import NOTHING_KNOWN, JobOutcome, LaterAttempt
from ghapp.errors import StoreUnavailableError
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.installations.scope import absence
from ghapp.loading.job_outcomes import load_job_outcomes, load_later_attempts
from ghapp.loading.views import load_org_view, load_shared_runners
from ghapp.pods.pod import EphemeralRunner, is_fresh
from ghapp.pods.store import NamespaceView
from ghapp.remediation.status import is_healed, is_past, may_be_past
from ghapp.remediation.steps import has_looked
from ghapp.report.documents import never_seen
from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Evidence, Fold, Survey
from ghapp.runners.verdict import State
from ghapp.settings import Settings
from ghapp.store.stores import Stores
from ghapp.web.cache import FRESH_SECONDS, Cache
from ghapp.web.encoded_documents import EncodedDocument, EncodedDocuments, encoded
from ghapp.web.fleet_copy import NO_RUNNERS, Fleet, FleetCopies
from ghapp.workflow_jobs.job import EVERY_JOB, Job, JobSearch, PullReference
from ghapp.workflow_jobs.job_queue import NOTHING_SHARED, JobQueue, SharedRunners
from ghapp.workflow_jobs.runner_groups import RunnerGroups

MOST_ORGS = 1_000
MOST_FILTERS = 100

LOAD_SECONDS = 10.0
"""Time limit of the first read of an installation's runners; 100,000 take some two seconds."""


class OrgState(NamedTuple):
    """An installation and what holds for all of its runners; the same object as before if nothing changed.

    `unswept` is the view without its survey, the same object as before if only the survey changed.
    """

    installation: Installation
    view: OrgView
    unswept: OrgView

    @classmethod
    def after(cls, known: OrgState | None, installation: Installation, view: OrgView) -> OrgState:
        """Returns the state of an org that was read again, with the objects of the known state that still hold."""
        unswept = replace(view, survey=Survey())
        if known is not None and known.unswept == unswept:
            unswept = known.unswept
        found = cls(installation, replace(unswept, survey=view.survey), unswept)
        return known if known is not None and known == found else found


class FleetPage(NamedTuple):
    """One page of documents, the total, and the runner id after which the next page starts.

    `healed` counts the lost runners whose replacement runner is online, `retired` those that left, of all that match
    the filter, also where they are not listed.
    """

    documents: list[EncodedDocument]
    total: int
    following: int | None
    healed: int = 0
    retired: int = 0


class FleetSelection(NamedTuple):
    """The sorted ids of the listed runners, the numbers of healed and retired ones, and the data that was filtered."""

    org_state: OrgState
    fleet: Mapping[int, Evidence]
    ids: list[int]
    healed: int
    retired: int


class ReadAgain(NamedTuple):
    """Records that were read again; None: deleted since. `view`: what holds for them, if it is not what was known."""

    records: Mapping[int, Evidence | None]
    view: OrgView | None = None


NOTHING_READ = ReadAgain({})


class Termination(NamedTuple):
    """Whether a runner's process may end itself.

    Attributes:
        may_end: True if it may, now.
        installation: of the runner that may end once GitHub was asked again; 0 for a runner that may not.
        runner_id: of that runner.
    """

    may_end: bool = False
    installation: int = 0
    runner_id: int = 0


class FleetReader:
    """Reads health documents and the state of orgs."""

    def __init__(self, settings: Settings, stores: Stores) -> None:
        self._settings, self._stores = settings, stores
        self._installations = stores.installations
        self._runners, self._demand, self._pods = stores.runners, stores.demand, stores.pods
        self._copies, self._documents = FleetCopies(stores.runners), EncodedDocuments()
        self._named: Cache[None, dict[str, Installation]] = Cache(1, 1)
        self._orgs: Cache[str, OrgState] = Cache(MOST_ORGS, MOST_ORGS)
        self._fleets: Cache[int, Fleet] = Cache(MOST_ORGS, MOST_ORGS, LOAD_SECONDS)
        self._jobs: Cache[int, list[Job]] = Cache(MOST_ORGS, MOST_ORGS)
        self._ended: Cache[int, list[Job]] = Cache(MOST_ORGS, MOST_ORGS)
        self._runner_groups, self._groups = stores.runner_groups, Cache[int, RunnerGroups](MOST_ORGS, MOST_ORGS)
        self._shared: Cache[int, SharedRunners] = Cache(MOST_ORGS, MOST_ORGS)
        self._queues: TTLCache[tuple[int, bool], tuple[tuple[object, ...], JobQueue]] = TTLCache(
            MOST_FILTERS, FRESH_SECONDS
        )
        self._views: Cache[str, NamespaceView] = Cache(MOST_ORGS, MOST_ORGS)
        self._chosen: TTLCache[tuple[int, str | None, str | None, bool | None, bool], FleetSelection] = TTLCache(
            MOST_FILTERS, FRESH_SECONDS
        )

    def in_memory(self, org: str, runner_id: int, now: float) -> EncodedDocument | None:
        """Returns the document of a known runner if nothing has to be read from Redis for it; else None."""
        org_state = self._orgs.fresh(org.lower())
        fleet = None if org_state is None else self._fleets.fresh(org_state.installation.id)
        evidence = None if fleet is None else fleet.runners.get(runner_id)
        if org_state is None or evidence is None or _may_be_acted_on(evidence):
            return None  # its record is read again
        return self._document(org_state.view, org_state, evidence, now)

    async def by_id(self, org: str, runner_id: int, now: float) -> EncodedDocument:
        """Returns the document of one runner; its state is `unknown` if the runner or its org is unknown."""
        return (await self.many(org, [runner_id], [], now))[0]

    async def by_name(self, org: str, name: str, now: float) -> EncodedDocument:
        """Returns the document of the latest registration of that name."""
        return (await self.many(org, [], [name], now))[0]

    async def many(self, org: str, ids: Sequence[int], names: Sequence[str], now: float) -> list[EncodedDocument]:
        """Returns many documents, ids first."""
        org_state = await self.org(org)
        fleet = NO_RUNNERS if org_state is None else await self._fleet(org_state)
        wanted = {*ids, *filter(None, map(fleet.ids.get, names))}
        again = NOTHING_READ if org_state is None else await self._read_again(org_state, fleet.runners, wanted)

        def document(runner_id: int | None, name: str | None) -> EncodedDocument:
            evidence = None if runner_id is None else again.records.get(runner_id, fleet.runners.get(runner_id))
            if org_state is None or evidence is None:
                return encoded(never_seen(org, runner_id if name is None else None, name))
            return self._document(again.view or org_state.view, org_state, evidence, now)

        return [document(each, None) for each in ids] + [document(fleet.ids.get(each), each) for each in names]

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
        with_past: bool = False,
    ) -> FleetPage:
        """Returns a page of an org's runners by state, pool and `healed` (None: any), by id, from after `after`.

        Without a state and `healed` those that are past are listed only `with_past`.
        """
        org_state = await self.org(org)
        if org_state is None:
            return FleetPage([], 0, None)
        with_past = with_past or state is not None or healed is not None
        chosen = await self._choose(org_state, state, pool, healed, now, with_past=with_past)
        start = bisect_right(chosen.ids, after)
        page = chosen.ids[start : start + limit]
        again = await self._read_again(org_state, chosen.fleet, page)
        records = {each: again.records.get(each) or chosen.fleet[each] for each in page}
        view = again.view or org_state.view
        documents = [self._document(view, org_state, records[each], now) for each in page]
        following = page[-1] if len(chosen.ids) > start + limit else None
        return FleetPage(documents, len(chosen.ids), following, chosen.healed, chosen.retired)

    async def _choose(
        self,
        org_state: OrgState,
        state: str | None,
        pool: str | None,
        healed: bool | None,
        now: float,
        *,
        with_past: bool,
    ) -> FleetSelection:
        """Returns the runners that match; computed at most once a second per filter, for all pages."""
        key, known = (org_state.installation.id, state, pool, healed, with_past), await self.runners(org_state)
        chosen = self._chosen.get(key)
        if chosen is not None and chosen.org_state is org_state and chosen.fleet is known:
            return chosen
        ids, healed_count, retired_count = [], 0, 0
        for runner_id in sorted(known):
            evidence = known[runner_id]
            if not evidence.registered:  # deliveries named it: it may be GitHub's, or of another scope
                continue
            if pool is not None and org_state.view.pool(evidence) != pool:
                continue
            if state is None and healed is None and not may_be_past(evidence):
                ids.append(runner_id)
                continue
            verdict = org_state.view.verdict(evidence, now)
            has_healed = is_healed(evidence, verdict)
            if state in (None, verdict.state) and healed in (None, has_healed):
                healed_count += has_healed
                retired_count += verdict.state is State.RETIRED
                if with_past or not is_past(evidence, verdict, now):
                    ids.append(runner_id)
        self._chosen[key] = chosen = FleetSelection(org_state, known, ids, healed_count, retired_count)
        return chosen

    async def termination(self, org: str, name: str, now: float) -> Termination:
        """Returns whether the process of the named runner may end itself; see `remediation.steps.may_terminate`.

        A runner held back by the fuse, a pause, dry-run or a limit may not: in a false mass loss, liveness probes would
        otherwise kill the whole fleet. Nor may any runner while Redis does not answer, or while sweeps fail. Its
        machine may have registered again since the last list, so that GitHub must have been asked a moment ago.
        """
        org_state = await self.org(org)
        if org_state is None:
            return Termination()
        fleet = await self._fleet(org_state)
        runner_id = fleet.ids.get(name, 0)
        again = await self._read_again(org_state, fleet.runners, [runner_id])
        evidence = again.records.get(runner_id)
        if evidence is None or not (again.view or org_state.view).may_terminate(evidence, now):
            return Termination()
        return Termination(has_looked(evidence, now), org_state.installation.id, runner_id)

    async def record(self, installation: int, runner_id: int, fold: Fold) -> None:
        """Records what a controller reports about a runner, and invalidates the cache."""
        await self._runners.revise(installation, {runner_id: fold})
        self._fleets.forget(installation)

    def forget(self, org: str) -> None:
        """Invalidates the cached state of an org, after a write."""
        self._orgs.forget(org.lower())

    async def installed(self, org: str) -> OrgState:
        """Returns an org as `org` does, for clients with a token for it; others must not learn which orgs exist.

        Raises:
            HTTPException: 404, the App is not installed there.
        """
        if (org_state := await self.org(org)) is None:
            raise HTTPException(404, f"{org}: {absence(org)}, or ghapp has not discovered it yet")
        return org_state

    async def org(self, org: str) -> OrgState | None:
        """Returns an org by any of its names, case-insensitively; None if the App is not installed there.

        Of other names nothing is kept: anyone may send them, long ones too.
        """
        name = org.lower()
        if name not in (await self._named.read(None, self._by_name) or {}):
            return None

        async def load() -> OrgState | None:
            installation = (await self._named.read(None, self._by_name) or {}).get(name)
            if installation is None:
                return None
            view = await load_org_view(self._stores, installation, self._settings)
            return OrgState.after(self._orgs.last(name), installation, view)

        return await self._orgs.read(name, load)

    async def _by_name(self) -> dict[str, Installation]:
        """Returns every installation by each of its names, in lower case; one cached read serves all orgs."""
        found: dict[str, Installation] = {}
        for installation in await self._installations.all():
            for name in installation.own:
                found.setdefault(name.lower(), installation)
        return found

    async def knows(self, org_state: OrgState, runner_id: int) -> bool:
        """True if there is a record of that runner."""
        return runner_id in (await self._fleet(org_state)).runners

    async def runners(self, org_state: OrgState) -> Mapping[int, Evidence]:
        """Returns all known runners of an org, by id; the same object as before if no record changed."""
        return (await self._fleet(org_state)).runners

    async def job_queue(self, org_state: OrgState, now: float, *, with_ended: bool = True) -> JobQueue:
        """Returns the jobs of an org; at most a second old.

        With those that ended within the last hour, which only typical waits and lists of jobs need.
        """
        installation, runners = org_state.installation.id, await self.runners(org_state)
        jobs = await self._jobs.read(installation, lambda: self._demand.all(installation))
        ended = await self._ended.read(installation, lambda: self._demand.over(installation)) if with_ended else None
        groups = await self._groups.read(installation, lambda: self._runner_groups.of(installation))
        shared = await self._shared.read(
            installation,
            lambda: load_shared_runners(self._stores, org_state.installation, self._settings, now),
        )
        data = (org_state, runners, jobs, ended, groups, shared)
        known = self._queues.get((installation, with_ended))
        is_current = known is not None and all(map(operator.is_, known[0], data))
        if known is not None and is_current and 0 <= now - known[1].now < FRESH_SECONDS:
            return known[1]
        queue = org_state.view.job_queue(
            runners.values(), jobs or [], now, ended=ended or [], groups=groups, shared=shared or NOTHING_SHARED
        )
        self._queues[installation, with_ended] = (data, queue)
        return queue

    async def job(self, org_state: OrgState, job_id: int) -> Job | None:
        """Returns a job that is queued, running, or over for less than 30 days.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        return await self._demand.one(org_state.installation.id, job_id)

    async def search_of_pull(self, org_state: OrgState, pull: PullReference, search: JobSearch) -> JobSearch:
        """Returns a search for jobs of a pull request's commits alone."""
        return await self._demand.of_pull(org_state.installation.id, pull, search)

    async def jobs_of_check_run(self, org_state: OrgState, check_run: int) -> list[Job]:
        """Returns the jobs that a check run of ghapp is about."""
        return await self._demand.of_check_run(org_state.installation.id, check_run)

    async def find_jobs(self, org_state: OrgState, queue: JobQueue, search: JobSearch) -> list[Job] | None:
        """Returns the jobs of the last 30 days that match; None if nothing is searched for.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        if search == EVERY_JOB:
            return None
        ended = await self._demand.find_ended(org_state.installation.id, search)
        return [*ended, *filter(search.matches, queue.inputs.jobs)]

    async def job_outcomes(self, org_state: OrgState, jobs: Sequence[Job], queue: JobQueue) -> Mapping[int, JobOutcome]:
        """Returns what is known of jobs beside their deliveries, by id.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        known, view = (*queue.inputs.jobs, *queue.inputs.ended), org_state.view
        rules = self._settings.pools_of(org_state.installation.org)
        outcomes = dict(await load_job_outcomes(self._stores, org_state.installation, jobs, known, rules))
        runners = await self.runners(org_state)
        for job in jobs:
            outcome, evidence = outcomes.get(job.id, NOTHING_KNOWN), runners.get(job.runner_id or 0)
            after = runner_after(job, evidence, view.survey, view.rules, exited=outcome.exited)
            if outcome.death is None and after is not None:
                outcomes[job.id] = outcome._replace(runner_after=after)
        return outcomes

    async def later_attempts(
        self, org_state: OrgState, jobs: Sequence[Job], queue: JobQueue
    ) -> Mapping[int, LaterAttempt]:
        """Returns the latest attempts of jobs that failed and were run again, by id; errors as of `job_outcomes`."""
        known = (*queue.inputs.jobs, *queue.inputs.ended)
        return await load_later_attempts(self._stores, org_state.installation, jobs, known, queue.now)

    async def objects(self, org_state: OrgState, now: float) -> dict[str, list[EphemeralRunner]]:
        """Returns EphemeralRunners by namespace, for the org's namespaces with a fresh watch snapshot."""
        rules = self._settings.pools_of(org_state.installation.org)
        found = {}
        for namespace in sorted({rule.namespace for rule in rules if rule.namespace}):
            view = await self._views.read(namespace, partial(self._pods.all, namespace))
            if view is not None and is_fresh(view.seen_at, now):
                found[namespace] = list(view.objects.values())
        return found

    async def pools(self, org_state: OrgState) -> set[str]:
        """Returns an org's pools: configured pools, those of its runners, and those with a fuse or a pause."""
        return org_state.view.pools((await self.runners(org_state)).values()) - {ALL_POOLS}

    async def _read_again(self, org_state: OrgState, runners: Mapping[int, Evidence], ids: Iterable[int]) -> ReadAgain:
        """Returns the records, as Redis has them now, of those of the runners that may be acted on.

        A controller or a probe takes a runner away for such an answer, and the copy may be older than its return.
        During an outage the last known state is returned, with a view that permits nothing.
        """
        lost = [each for each in ids if each in runners and _may_be_acted_on(runners[each])]
        if not lost:
            return NOTHING_READ
        try:
            found = await self._runners.some(org_state.installation.id, lost)
        except StoreUnavailableError:
            known = {each: runners[each] for each in lost}
            return ReadAgain(known, replace(org_state.view, is_current=False))
        return ReadAgain({each: found.get(each) for each in lost})

    def _document(self, view: OrgView, org_state: OrgState, evidence: Evidence, now: float) -> EncodedDocument:
        unswept = org_state.unswept if view is org_state.view else view
        return self._documents.of(org_state.installation.id, view, unswept, evidence, now)

    async def _fleet(self, org_state: OrgState) -> Fleet:
        installation = org_state.installation.id
        return await self._fleets.read(installation, lambda: self._copies.current(installation)) or NO_RUNNERS


def _may_be_acted_on(evidence: Evidence) -> bool:
    """True if a controller or a probe may take the runner away for an answer about it."""
    return evidence.confirmed_at is not None or evidence.granted_at is not None
