"""Reads what the pages show. The only module of the pages that knows the stores of the fleet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from cachetools import LRUCache

from ghapp.deaths.death import Death, with_delivered_job
from ghapp.deaths.job_outcome import NOTHING_KNOWN, JobOutcome, job_of_death, next_steps
from ghapp.deaths.job_story import attempts_story
from ghapp.deaths.page_views import DeathLine, RerunKnown, death_line, with_latest
from ghapp.deaths.rerun import RerunRules
from ghapp.deaths.store import identity
from ghapp.deliveries.store import DeadLetter
from ghapp.incidents.fold import IncidentsById
from ghapp.incidents.history import HOUR_SECONDS, HistoryStep, step_of
from ghapp.incidents.incident import LossIncident
from ghapp.incidents.interruptions import Interruption, interruptions_of
from ghapp.incidents.page_views import open_incidents
from ghapp.incidents.texts import incidents_now
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Allowance
from ghapp.installations.pool_matching import ALL_POOLS, OTHER_POOL, rule_named
from ghapp.installations.scope import reading_order
from ghapp.leaks.documents import LeakedPod
from ghapp.leaks.page_views import LeaksView, leaks_view
from ghapp.leaks.reaper_status import DAY_SECONDS
from ghapp.loading.views import FleetFacts, fleet_view, load_fleet_facts, load_leaked_pods, pause_changes, reaper_terms
from ghapp.notifications.event_ids import death_id
from ghapp.pods.page_views import ClusterView, PhantomLine, cluster_view, phantoms_named, possible_phantom_text
from ghapp.queue.jobs import Load
from ghapp.remediation.pause import Pause, PauseOutcome
from ghapp.remediation.store import Resumption
from ghapp.report.fleet import FleetView
from ghapp.runners.evidence import Evidence
from ghapp.runners.page_views import RunnerLine, lines
from ghapp.settings import Settings
from ghapp.store import keys
from ghapp.store.audit import MOST as MOST_ENTRIES
from ghapp.store.audit import AuditEntry, ChangeOutcome, Channel, Trail
from ghapp.store.presses import Press
from ghapp.store.stores import Stores
from ghapp.web.cache import Cache
from ghapp.web.fleet_view import MOST_ORGS, FleetReader, OrgState
from ghapp.web.gates import LoadedGates, PoolGates, load_gates
from ghapp.web.operation import Clock
from ghapp.web.pages.audit_entries import LATEST
from ghapp.web.pages.views.charts import ChartView, Sparkline
from ghapp.web.pages.views.history import SPARK_STEPS, ChartSpan, pool_sparkline, wait_chart
from ghapp.web.pages.views.overview import OverviewPage, overview
from ghapp.web.prepared import Prepared
from ghapp.workflow_jobs.job import EVERY_JOB, Job, PullReference
from ghapp.workflow_jobs.job_queue import JobQueue
from ghapp.workflow_jobs.page_views import JobSurvey, ListedJobs, job_board, searches_of

MOST_DEATHS = 2_000
"""Deaths of the last 30 days that the pages know, the latest; clean exits are not among them."""

DEATHS_SECONDS = 30 * 86_400.0

FINAL_SECONDS = 3600.0
"""A death older than this is complete, and is not read again."""

ReadLoad = Callable[[], Awaitable[Load]]
"""Reads the queues without blocking the event loop."""


class RolesState(NamedTuple):
    """The state of the processes and the inbox. `watches` is None without a cluster."""

    load: Load
    clocks: int
    watches: int | None
    lag: int
    dead: int


class FleetInputs(NamedTuple):
    """What the state of an organization is made from."""

    org_state: OrgState
    runners: Mapping[int, Evidence]
    queue: JobQueue
    facts: FleetFacts

    def fleet(self, settings: Settings, now: float) -> FleetView:
        """Returns the state as of `now` (epoch seconds)."""
        installation, view = self.org_state.installation, self.org_state.view
        return fleet_view(installation, settings, view, self.runners.values(), self.queue, self.facts, now)


class PageData:
    """Everything that pages read, and the few writes of their buttons."""

    def __init__(
        self, settings: Settings, stores: Stores, reader: FleetReader, read_load: ReadLoad, clock: Clock
    ) -> None:
        self._settings, self._reader, self._read_load, self._clock = settings, reader, read_load, clock
        self._installations, self._schedule = stores.installations, stores.schedule
        self._deaths, self._demand, self._budget = stores.deaths, stores.demand, stores.budget
        self._inbox, self._heartbeats = stores.inbox, stores.heartbeats
        self._history = stores.history
        self._fuses, self._audit, self._runners = stores.fuses, stores.audit, stores.runners
        self._clusters: Cache[int, ClusterView] = Cache(MOST_ORGS, MOST_ORGS)
        self._facts: Cache[int, FleetFacts] = Cache(MOST_ORGS, MOST_ORGS)
        self._leaks: Cache[int, list[LeakedPod]] = Cache(MOST_ORGS, MOST_ORGS)
        self._incidents = stores.incidents
        self._lines: Prepared[list[RunnerLine]] = Prepared()
        self._overviews: Prepared[OverviewPage] = Prepared()
        self._sparklines: Prepared[dict[str, Sparkline]] = Prepared()
        self._known_incidents: Prepared[IncidentsById] = Prepared()
        self._stores = stores
        self._gate_inputs: Prepared[LoadedGates] = Prepared()
        self._gates: Prepared[list[PoolGates]] = Prepared()
        self._boards: Prepared[JobSurvey] = Prepared()
        self._death_lines: Prepared[list[DeathLine]] = Prepared()
        self._death_lines_by_id: LRUCache[int, dict[bytes, DeathLine]] = LRUCache(MOST_ORGS)
        self._reruns = stores.reruns

    async def installations(self) -> list[Installation]:
        """Returns all installations by name: an organization's repositories follow it, enterprises are the last."""
        return sorted(await self._installations.all(), key=lambda each: reading_order(each.org))

    async def org(self, org: str) -> OrgState | None:
        """Returns an organization by any of its names; None if the App is not installed there."""
        return await self._reader.org(org)

    async def fleet(self, org_state: OrgState) -> FleetView:
        """Returns the state of an organization; at most a second old."""
        return (await self._inputs(org_state)).fleet(self._settings, self._clock())

    async def _inputs(self, org_state: OrgState) -> FleetInputs:
        installation = org_state.installation

        async def load() -> FleetFacts:
            return await load_fleet_facts(self._stores, installation, self._settings, self._clock())

        runners, facts = await asyncio.gather(self._reader.runners(org_state), self._facts.read(installation.id, load))
        queue = await self._reader.job_queue(org_state, self._clock(), with_ended=False)
        return FleetInputs(org_state, runners, queue, facts or FleetFacts())

    async def overview(self, org_state: OrgState) -> OverviewPage:
        """Returns the overview."""
        inputs, incidents = await asyncio.gather(self._inputs(org_state), self.incidents(org_state))

        async def prepare() -> OverviewPage:
            now = self._clock()
            return overview(inputs.fleet(self._settings, now), now, open_incidents(incidents))

        key, made_of = org_state.installation.id, (org_state, inputs.runners, inputs.facts, incidents)
        return await self._overviews.read(key, prepare, *made_of)

    async def cluster(self, installation: int) -> ClusterView | None:
        """Returns the cluster side, at most a second old; None if no cluster was checked within ten minutes."""

        async def load() -> ClusterView | None:
            now = self._clock()
            summary = await self._stores.cluster_summaries.of(installation)
            reaped = await self._stores.leaks.reaped_since(installation, now - DAY_SECONDS)
            return None if summary is None else cluster_view(summary, reaped, now)

        return await self._clusters.read(installation, load)

    async def leaks(self, org_state: OrgState) -> LeaksView:
        """Returns the leaked pods by name, at most a second old."""

        async def load() -> list[LeakedPod]:
            terms = reaper_terms(org_state.view, self._settings)
            return await load_leaked_pods(self._stores, org_state.installation, terms, self._clock())

        return leaks_view(await self._leaks.read(org_state.installation.id, load) or [], self._clock())

    async def phantoms(self, org_state: OrgState, names: Iterable[str]) -> dict[str, tuple[PhantomLine, ...]]:
        """Returns the phantoms of runners by their names, as of the last check of the cluster; only names with any."""
        summary = await self._stores.cluster_summaries.of(org_state.installation.id)
        return {} if summary is None else phantoms_named(names, summary, self._clock())

    async def possible_phantom(self, org_state: OrgState, name: str, state: str) -> str:
        """Returns that a runner of that state may be a phantom; empty if not."""
        summary = await self._stores.cluster_summaries.of(org_state.installation.id)
        return "" if summary is None else possible_phantom_text(name, state, summary)

    async def incidents(self, org_state: OrgState) -> IncidentsById:
        """Returns the incidents of the last month: the recorded ones, with what evidence and fuses show since."""
        installation, view = org_state.installation.id, org_state.view
        # Runners first: one whose loss is over is marked after its incident has it, and shows no loss then.
        runners = await self._reader.runners(org_state)

        async def load() -> IncidentsById:
            recorded = await self._incidents.all(installation)
            return incidents_now(recorded, view, runners, self._clock())

        return await self._known_incidents.read(installation, load, org_state, runners)

    async def interruptions(self, org_state: OrgState, incident: LossIncident) -> list[Interruption]:
        """Returns what held up the replacements of an incident from outside."""
        entries = await self.audited(org_state.installation.id, MOST_ENTRIES)
        view = org_state.view
        return interruptions_of(incident, pause_changes(entries), view.pauses, view.survey, self._clock())

    async def gates(self, org_state: OrgState, reads: Callable[[str], bool]) -> list[PoolGates]:
        """Returns the gates of all blue/green pools, with the names of the repositories that a visitor reads.

        They are judged once for all visitors who read the same repositories of the present jobs.
        """
        installation = org_state.installation

        async def load() -> LoadedGates:
            return await load_gates(self._stores, installation, self._settings, self._clock())

        loaded = await self._gate_inputs.read(installation.id, load)
        named = frozenset(filter(reads, loaded.repositories))

        async def judge() -> list[PoolGates]:
            return loaded.judge(named)

        return await self._gates.read((installation.id, named), judge, loaded)

    async def names(self, org_state: OrgState) -> dict[int, str]:
        """Returns the names of all runners that have a page, by id."""
        return {runner_id: each.name for runner_id, each in (await self._reader.runners(org_state)).items()}

    async def lines(self, org_state: OrgState) -> list[RunnerLine]:
        """Returns a line for each runner."""
        runners = await self._reader.runners(org_state)

        async def prepare() -> list[RunnerLine]:
            return lines(org_state.view, runners.values(), self._clock())

        return await self._lines.read(org_state.installation.id, prepare, org_state, runners)

    async def history_pools(self, org_state: OrgState) -> list[str]:
        """Returns the pools with a history, and the present ones, by name."""
        return sorted({*await self._history.pools(org_state.installation.id), *await self._reader.pools(org_state)})

    async def history(self, org_state: OrgState, pool: str, span: ChartSpan) -> dict[int, HistoryStep]:
        """Returns the stored steps of a span, by their begin; of an empty pool those of all."""
        now, installation = self._clock(), org_state.installation.id
        return await self._history.steps(installation, pool or ALL_POOLS, span.begin(now), span.end(now), span.width)

    async def wait_chart(self, org_state: OrgState, span: ChartSpan) -> ChartView:
        """Returns the waits of jobs by pool, for a page that shows jobs."""
        now, installation = self._clock(), org_state.installation.id
        pools = [*await self._history.pools(installation), OTHER_POOL]
        begin, end = span.begin(now), span.end(now)
        return wait_chart(await self._history.steps_of_pools(installation, pools, begin, end, span.width), span, now)

    async def sparklines(self, org_state: OrgState, page: OverviewPage) -> dict[str, Sparkline]:
        """Returns a line of the last 24 hours for each pool of the overview."""
        now = self._clock()

        async def prepare() -> dict[str, Sparkline]:
            begin, pools = (
                step_of(now, HOUR_SECONDS) - (SPARK_STEPS - 1) * HOUR_SECONDS,
                [each.name for each in page.pools],
            )
            found = await self._history.steps_of_pools(org_state.installation.id, pools, begin, now, HOUR_SECONDS)
            return {pool: pool_sparkline(steps, now) for pool, steps in found.items()}

        return await self._sparklines.read(org_state.installation.id, prepare, page)

    async def runners(self, org_state: OrgState) -> Mapping[int, Evidence]:
        """Returns all known runners, by id."""
        return await self._reader.runners(org_state)

    async def runner(self, org_state: OrgState, runner_id: int) -> Evidence | None:
        """Returns the evidence of one runner; None if it is unknown."""
        return (await self._runners.some(org_state.installation.id, [runner_id])).get(runner_id)

    async def others(self, org_state: OrgState, evidence: Evidence) -> list[Evidence]:
        """Returns the evidence of all runners if one of them may be the successor of this one; else nothing."""
        if evidence.replaced_at is None and evidence.reregistered_as is None:
            return []
        return [*(await self._reader.runners(org_state)).values()]

    async def pools(self, org_state: OrgState) -> list[str]:
        """Returns the names of an organization's pools."""
        return sorted(await self._reader.pools(org_state))

    async def job(self, org_state: OrgState, job_id: int | None) -> Job | None:
        """Returns the record of a job; None if it is unknown, or over for more than 30 days."""
        return None if job_id is None else await self._demand.one(org_state.installation.id, job_id)

    async def death(self, org_state: OrgState, runner_name: str) -> Death | None:
        """Returns the latest death of a runner of that name."""
        return await self._with_job(org_state, await self._deaths.of(org_state.installation.id, runner_name))

    async def death_by_id(self, org_state: OrgState, runner_name: str, identifier: str) -> Death | None:
        """Returns an earlier death of a runner of that name; None if there is none of that identity."""
        found = await self._deaths.one(org_state.installation.id, identifier)
        is_its = found is not None and found.runner_name == runner_name
        return await self._with_job(org_state, found if is_its else None)

    async def _with_job(self, org_state: OrgState, death: Death | None) -> Death | None:
        """Returns the death with its job as it is known now."""
        if death is None or death.job is None:
            return death
        return with_delivered_job(death, await self.job(org_state, death.job.id))

    async def deaths(self, org_state: OrgState) -> list[DeathLine]:
        """Returns a line for each death of the last 30 days without clean exits, latest first."""
        installation = org_state.installation.id

        async def load() -> list[DeathLine]:
            now = self._clock()
            ids = await self._deaths.unclean_ids(installation, now - DEATHS_SECONDS, MOST_DEATHS)
            known = self._death_lines_by_id.get(installation, {})
            final = {each: line for each, line in known.items() if line.summary.at <= now - FINAL_SECONDS}
            read = {each: final[each] for each in ids if each in final}
            async for each, death in self._deaths.each_of(installation, [each for each in ids if each not in final]):
                read[each] = death_line(death, identity(death))
            self._death_lines_by_id[installation] = read
            return with_latest(read[each] for each in ids if each in read)

        return await self._death_lines.read(installation, load)

    async def board(self, org_state: OrgState) -> JobSurvey:
        """Returns all known jobs of an organization, and why each queued one waits."""

        async def load() -> JobSurvey:
            return job_board(await self._reader.job_queue(org_state, self._clock()))

        return await self._boards.read(org_state.installation.id, load)

    async def find_jobs(self, org_state: OrgState, queue: JobQueue, text: str) -> list[Job]:
        """Returns the jobs of the last 30 days of the runner, commit or pull request that a text names."""
        searches = [*searches_of(text)]
        if (pull := PullReference.parse(text)) is not None:
            searches.append(await self._reader.search_of_pull(org_state, pull, EVERY_JOB))
        return [job for each in searches for job in await self._reader.find_jobs(org_state, queue, each) or ()]

    async def listed_jobs(self, org_state: OrgState, ids: Collection[int]) -> ListedJobs:
        """Returns the jobs of a list, and the latest attempts of those that were run again."""
        jobs = await self._demand.some(org_state.installation.id, ids)
        queue = (await self.board(org_state)).queue if jobs else None
        later = {} if queue is None else await self._reader.later_attempts(org_state, [*jobs.values()], queue)
        return ListedJobs(jobs, later)

    async def job_outcome(self, org_state: OrgState, job: Job, queue: JobQueue) -> JobOutcome:
        """Returns what is known of a job beside its deliveries."""
        return (await self._reader.job_outcomes(org_state, [job], queue)).get(job.id, NOTHING_KNOWN)

    async def rerun(self, org_state: OrgState, death: Death) -> RerunKnown:
        """Returns what is known of the re-run of a dead runner's job."""
        installation = org_state.installation
        rule = rule_named(death.pool, self._settings.pools_of(installation.org))
        known = RerunKnown(RerunRules() if rule is None else rule.rerun, installation.may("actions", "write"))
        if death.job is None:
            return known
        rerun, note, job, posted = await asyncio.gather(
            self._reruns.of(installation.id, death.job.id),
            self._reruns.noted(installation.id, death.job.id),
            self._demand.one(installation.id, death.job.id),
            self._stores.post_mortems.posted(death_id(installation, death)),
        )
        now, outcome = self._clock(), NOTHING_KNOWN
        if job is None:
            job = job_of_death(death)
        else:
            outcome = await self.job_outcome(org_state, job, (await self.board(org_state)).queue)
        button = None if posted is None else posted.button_at(job.html_url)
        outcome = outcome._replace(death=death, rerun=rerun, note=note, button=button)
        later, steps = attempts_story(job, outcome, now), next_steps(job, outcome, now)
        return known._replace(rerun=rerun, note=note, attempt=job.attempt, later=later, steps=steps)

    async def allowance(self, org_state: OrgState) -> Allowance:
        """Returns the organization's hourly limit."""
        return await self._budget.left(org_state.installation.caller, self._clock())

    async def roles(self) -> RolesState:
        """Returns the state of the processes and the inbox."""
        now, has_cluster = self._clock(), bool(self._settings.cluster and self._settings.namespaces)
        load, clocks, watches, lag, dead = await asyncio.gather(
            self._read_load(),
            self._heartbeats.alive("clock", now),
            self._heartbeats.alive("watch", now),
            self._inbox.lag(),
            self._inbox.dead_letters(),
        )
        return RolesState(load, len(clocks), len(watches) if has_cluster else None, lag, dead)

    async def letters(self) -> list[DeadLetter]:
        """Returns the deliveries that were given up, oldest first."""
        return await self._inbox.dead()

    async def replay(self, letter: DeadLetter) -> bool:
        """Moves a delivery back to the inbox; returns False if another process did."""
        return await self._inbox.replay(letter)

    async def pause(self, org_state: OrgState, pool: str, asked: Pause) -> PauseOutcome:
        """Pauses a pool, or with an empty name the organization, or changes its pause."""
        done = await self._fuses.pause(org_state.installation.id, pool or ALL_POOLS, asked)
        self._forget(org_state)
        return done

    async def resume(self, org_state: OrgState, pool: str, by: str) -> Resumption:
        """Resumes a pool, or with an empty name the organization and all its pools."""
        installation, limits = org_state.installation, self._settings.of(org_state.installation.org).fuse
        done = await self._fuses.resume(installation, pool or None, by, self._clock(), limits)
        self._forget(org_state)
        return done

    async def sweep_now(self, org_state: OrgState) -> None:
        """Makes a sweep of the organization due."""
        await self._schedule.due_by(org_state.installation.id, self._clock())

    async def audited(self, installation: int | None, most: int, trail: Trail = Trail.CHANGES) -> list[AuditEntry]:
        """Returns the latest entries of an organization's audit log; None: of what concerns all organizations."""
        return await self._audit.latest(keys.ALL_ORGS if installation is None else installation, most, trail)

    async def last_change_by(self, org_state: OrgState, who: str) -> AuditEntry | None:
        """Returns the last change by a button of this visitor, also one without effect; None if it is not recent."""
        installation = org_state.installation.id
        trails = [await self.audited(installation, LATEST, each) for each in (Trail.CHANGES, Trail.ATTEMPTS)]
        found = [each for trail in trails for each in trail if (each.channel, each.who) == (Channel.PAGE, who)]
        return max(found, key=lambda each: each.at, default=None)

    async def begin_press(self, org_state: OrgState, topic: str, entry: AuditEntry) -> str:
        """Records a press whose work a worker does, before the work is enqueued; returns its id."""
        return await self._stores.presses.begin(org_state.installation.id, topic, entry)

    async def follow_change(self, org_state: OrgState, topic: str, entry: AuditEntry) -> str:
        """Has the outcome of work be added to a change that was recorded; returns the id of the press."""
        return await self._stores.presses.follow(org_state.installation.id, topic, entry)

    async def begin_or_join_press(self, org_state: OrgState, topic: str, entry: AuditEntry) -> tuple[str, str]:
        """Records a press, as `begin_press`, or joins one that waits; returns the press' id, and who began it."""
        return await self._stores.presses.begin_or_join(org_state.installation.id, topic, entry)

    async def press(self, org_state: OrgState, press_id: str) -> Press | None:
        """Returns a press of the last hours."""
        return await self._stores.presses.get(org_state.installation.id, press_id)

    def change(self, installation: int | None, entry: AuditEntry) -> AbstractAsyncContextManager[ChangeOutcome]:
        """Records a change, as `AuditLog.change`; None: it concerns all organizations."""
        return self._audit.change(keys.ALL_ORGS if installation is None else installation, entry)

    def _forget(self, org_state: OrgState) -> None:
        for name in org_state.installation.own:
            self._reader.forget(name)
