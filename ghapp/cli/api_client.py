"""What commands read and change, through the API: in this process, or of the server at `GHAPP_URL`.

`ghapp.cli.api_connection` connects them; a command does not know to which of the two.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, cast
from urllib.parse import quote, unquote, urlsplit

import httpx

from ghapp.addresses import NO_SUCH_ADDRESS
from ghapp.cli.context import (
    UnknownOrgError,
    UnknownPoolError,
    UnknownRunnerError,
    UnknownWorkflowJobError,
    no_such_org,
)
from ghapp.deaths.cause import Cause
from ghapp.errors import ConfigurationError, GhappError, ServerUnavailableError
from ghapp.gate.active_shard import Role
from ghapp.gate.judgement import Gate, GateRequest
from ghapp.gate.next_steps import NextStep
from ghapp.gate.shard_checks import Check
from ghapp.gate.texts import no_shards
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.installations.scope import ScopeKind, kind_of
from ghapp.installations.scope_paths import address_in, path_segment
from ghapp.leaks.documents import leaks_of_name
from ghapp.remediation.fuse import resume_command
from ghapp.report.documents import HealthDocument
from ghapp.report.overview import (
    HeadlineDocument,
    HeldDocument,
    PhantomDocument,
    PoolQueueDocument,
    phantoms_of_runner,
)
from ghapp.runners.verdict import Reason, State
from ghapp.untrusted_text import shell_command
from ghapp.wording import SHORTEST_PART, meant, nearest
from ghapp.workflow_jobs.documents import JOB_STATES
from ghapp.workflow_jobs.job import ANY_ORIGIN, EVERY_JOB, JobOrigin, JobSearch, PullReference
from ghapp.workflow_jobs.labels import edit_distance
from ghapp.workflow_jobs.reason import UNSERVED
from ghapp.workflow_jobs.texts import KNOWN_JOBS

QueryActive = Callable[[str, str], Awaitable[None]]
"""Called with the names of an org and of its pool."""

RUNNERS_ALIKE = 0.85
"""Runners of one pool differ in a few letters at the end of long names: less similar ones are others, not misspelt."""

PAGE = 1000
ALL = {"all": "true"}
"""Of a list of runners: also those that are over."""

NO_ROUTE = ("Not Found", NO_SUCH_ADDRESS)
"""The details of a 404 for a path that a server does not have: of any server's, and of ours."""

SWEEP_POLL_SECONDS = 1.0
NOT_YET = "not swept within {:.0f} s; see `ghapp doctor`"
NO_OUTCOME = "a sweep is due; its outcome is not recorded, because too many sweeps were asked for within the hour"

PAUSE_RESULTS = {"paused": "paused", "already-paused": "already paused"}
"""What a request for a pause did; each other result changed the pause that was running."""

_ID = r"([1-9][0-9]{0,17})"
_JOB = re.compile(rf"{_ID}|https?://\S*/(?:runs/[0-9]+/job|actions/jobs)/{_ID}(?:[/?#]\S*)?", re.ASCII)
_REPOSITORY = re.compile(r"https?://[^/\s]+/(?:api/v3/)?(?:repos/)?([^/\s]+/[^/\s]+)/actions/", re.ASCII)
_PAGE = re.compile(rf"https?://[^/\s]+/(?:\S+/)?orgs/([^/\s]+)/jobs/{_ID}(?:[/?#]\S*)?", re.ASCII)
_DEATH_PAGE = re.compile(r"https?://[^/\s]+/(?:\S+/)?orgs/([^/\s]+)/deaths/([^/?#\s]+)(?:[/?#]\S*)?", re.ASCII)
_CHECK_RUN = re.compile(
    rf"https?://[^/\s]+/(?:api/v3/)?(?:repos/)?([^/\s]+/[^/\s]+)/(?:check-)?runs/{_ID}(?:[/?#]\S*)?", re.ASCII
)
"""The check run of a job has the job's id."""
_RUN = re.compile(rf"https?://\S*/actions/runs/{_ID}(?:[/?#]\S*)?", re.ASCII)


def host_of(url: str) -> str:
    """Returns the host of a URL, with its port; empty for another text."""
    return urlsplit(url).netloc.lower() if "://" in url else ""


class JobReference(NamedTuple):
    """What a person names: a job, or all jobs of a run.

    Attributes:
        repository: that of a URL; empty without one.
        scope: that of the address of one of our pages, or of our API; empty without one.
        is_number: True for a run that may as well be a job: no URL says which.
        is_check_run: True for a check run: that of a job has the job's id; one of ours is about other jobs.
        host: that of a URL of GitHub; empty without one.
        dead_runner: the name of a runner, for the page of its death: it leads to the job that it ran; else empty.
    """

    job_id: int | None = None
    run_id: int | None = None
    repository: str = ""
    scope: str = ""
    is_number: bool = False
    is_check_run: bool = False
    host: str = ""
    dead_runner: str = ""

    @classmethod
    def parse(cls, text: str) -> JobReference | None:
        """Parses the id of a job, or the URL of a job, of a check run or of a run; None for anything else.

        The URL may be of a page or of the API, of GitHub's or of ours.
        """
        found = _REPOSITORY.match(text)
        repository, host = ("", "") if found is None else (found[1], host_of(text))
        if found := _JOB.fullmatch(text):
            return cls(job_id=int(found[1] or found[2]), repository=repository, host=host)
        if found := _RUN.fullmatch(text):
            return cls(run_id=int(found[1]), repository=repository, host=host)
        if found := _PAGE.fullmatch(text):
            return cls(job_id=int(found[2]), scope=address_in(unquote(found[1])))
        if found := _DEATH_PAGE.fullmatch(text):
            return cls(scope=address_in(unquote(found[1])), dead_runner=unquote(found[2]))
        if found := _CHECK_RUN.fullmatch(text):
            return cls(job_id=int(found[2]), repository=found[1], is_check_run=True, host=host_of(text))
        return None

    def __str__(self) -> str:
        kind = "job or run" if self.is_number else "job" if self.run_id is None else "run"
        kind = "check run" if self.is_check_run else kind
        return f"{kind} {self.job_id if self.run_id is None else self.run_id}"


class FleetDocuments(NamedTuple):
    """What is wrong, the worst of each organization first, and what to know beside it (`notes`, by organization).

    Then runners, phantoms, what holds replacements, and jobs by pool.
    """

    headlines: list[HeadlineDocument]
    notes: dict[str, list[str]]
    runners: list[HealthDocument]
    phantoms: list[PhantomDocument]
    held: list[HeldDocument]
    pools: list[PoolQueueDocument]


class RemoteSweep(NamedTuple):
    """A sweep by the server: what it found and cost, or why it failed."""

    org: str
    outcome: str
    failed: bool


class NoSuchObjectError(UnknownOrgError):
    """404: the server does not know the org, the pool, the shard, or the object of the request."""


class ApiClient:
    """What commands read and change. `org` is a name of an org; None where all orgs are meant.

    Every method raises `GhappError`: `UnknownOrgError` if the App is not installed there.

    Attributes:
        page_url: the address of the page; None if it is not known.
    """

    def __init__(
        self, client: httpx.AsyncClient, page_url: str | None, query_active: QueryActive | None = None
    ) -> None:
        """`query_active` queries a pool's source of the active shard before its gate is judged; None: workers do."""
        self._client, self.page_url, self.query_active = client, page_url, query_active

    async def fleet(self, org: str | None) -> FleetDocuments:
        """Returns the runners, and what is known beside them."""
        found = FleetDocuments([], {}, [], [], [], [])
        for name in await self._orgs(org):
            overview = await self._get(f"/v1/orgs/{path_segment(name)}/overview")
            found.runners.extend(
                [each async for each in self._pages(f"/v1/orgs/{path_segment(name)}/runners", "runners", ALL)]
            )
            found.phantoms.extend(overview["phantoms"])
            found.held.extend(overview["held"])
            found.pools.extend(overview["pools"])
            found.headlines.extend(overview["headlines"])
            found.notes[overview["org"]] = overview["notes"]
        found.runners.sort(key=lambda each: (each["org"], each["pool"] or "", each["name"] or ""))
        return found

    async def orgs(self) -> list[str]:
        """Returns the organizations that the token may read."""
        return await self._orgs(None)

    async def pools(self, org: str | None) -> set[str]:
        """Returns the names of the pools."""
        overviews = [await self._get(f"/v1/orgs/{path_segment(name)}/overview") for name in await self._orgs(org)]
        return {pool for overview in overviews for pool in overview["pool_names"]}

    async def runner_names(self, org: str | None) -> list[str]:
        """Returns the names of the runners as last known."""
        paths = [f"/v1/orgs/{path_segment(name)}/runners" for name in await self._orgs(org)]
        return [each["name"] for path in paths async for each in self._pages(path, "runners", ALL)]

    async def runner(self, org: str, name_or_id: str) -> dict[str, Any]:
        """Returns the health document of a runner with `death`, `phantoms` and `leaks`: its pod, if that leaked.

        With `may_be_phantom`: it is offline, and the last check of the cluster found no working pod of it.
        """
        (found_org,) = await self._orgs(org)
        base = f"/v1/orgs/{path_segment(found_org)}"
        overview = await self._get(f"{base}/overview")
        document = await self._get(f"{base}/runners/health", {"name": name_or_id})
        if document["reason"] == Reason.NEVER_OBSERVED and name_or_id.isdecimal() and int(name_or_id):
            document = await self._get(f"{base}/runners/{int(name_or_id)}/health")
        is_known = document["reason"] != Reason.NEVER_OBSERVED
        name = document["name"] if is_known else name_or_id
        phantoms, leaks = phantoms_of_runner(overview["phantoms"], name), leaks_of_name(overview["leaks"], name)
        try:
            runner_id = {"runner_id": document["runner_id"]} if is_known else {}
            death = await self._get(f"{base}/deaths/{_part(name)}", runner_id)
        except NoSuchObjectError:
            if not is_known and not phantoms and not leaks:
                raise await self._no_such_runner(org, f"{org} {name_or_id}", name_or_id) from None
            death = None
        if not is_known:
            document = {**document, "name": name, "runner_id": None if death is None else death["runner_id"]}
        may_be_phantom = document["state"] == State.OFFLINE and not phantoms and name in overview["possible_phantoms"]
        more = {"death": death, "phantoms": phantoms, "may_be_phantom": may_be_phantom, "leaks": leaks}
        return {**document, **more}

    async def require_runner(self, org: str | None, name: str) -> None:
        """Raises UnknownRunnerError if a name is of no runner that is listed, took a job, or died."""
        listed = [each.lower() for each in await self.runner_names(org)]
        if name.lower() in listed or await self.jobs(org, None, None, JobSearch(name), None):
            return
        for each in await self._orgs(org):
            with suppress(NoSuchObjectError):
                await self._get(f"/v1/orgs/{path_segment(each)}/deaths/{_part(name)}")
                return
        raise await self._no_such_runner(org, f"--runner {name}", name)

    async def other_repositories(self, org: str | None, pull: PullReference) -> str:
        """Returns which repositories have jobs that wait, run or ended within the hour, and which one was meant.

        Empty if the pull request's repository is one of them, or if there are none. That it is none of them does not
        show that it is unknown: it may have been quiet for an hour.
        """
        jobs = [job for state in (None, "over") for job in await self.jobs(org, state, None, EVERY_JOB, None)]
        known = {each["repository"].lower(): each["repository"] for each in jobs}
        if not known or pull.repository.lower() in known:
            return ""
        return meant(pull.repository, known.values(), "repositories with jobs of the last hour are")

    async def _no_such_runner(self, org: str | None, subject: str, name_or_id: str) -> UnknownRunnerError:
        see = f"see `{shell_command('ghapp', 'runners', *([] if org is None else ['--org', org]))}`"
        near = None if name_or_id.isdecimal() else _nearest_runner(name_or_id, await self.runner_names(org))
        suggestion = "" if near is None else f"did you mean {near}? "
        return UnknownRunnerError(f"{subject}: unknown runner; {suggestion}{see}")

    async def jobs(
        self,
        org: str | None,
        state: str | None,
        pool: str | None,
        search: JobSearch,
        pull: PullReference | None,
        origin: JobOrigin = ANY_ORIGIN,
    ) -> list[Any]:
        """Returns jobs, each with its `org`; ended ones only if something else than a pool is asked for."""
        is_all = search == EVERY_JOB and pull is None and origin == ANY_ORIGIN
        every: tuple[str, ...] = ("queued", "running") if is_all else JOB_STATES
        states = {"unserved": ("queued",), "failed": ("over",), None: every}.get(state, (str(state),))
        given = {"pool": pool or "", "runner": search.runner, "sha": search.sha, **origin._asdict()}
        given |= {} if pull is None else {"pull": f"{pull.repository}#{pull.number}"}
        chosen = {name: value for name, value in given.items() if value}
        found = [
            {"org": name, **job}
            for name in await self._orgs(org)
            for each in states
            async for job in self._pages(f"/v1/orgs/{path_segment(name)}/jobs", "jobs", {"state": each, **chosen})
        ]
        selected = {"unserved": _is_unserved, "failed": _has_failed}.get(state or "", lambda _: True)
        return [each for each in found if selected(each)]

    async def jobs_referred_to(self, reference: JobReference, org: str | None) -> list[Any]:
        """Returns the document of a job, or of each known job of a run, each with its `org`.

        Args:
            reference: has a repository if `org` is None. A number alone that is of no known job is of a run.
            org: the scope; None: each scope that may have run the jobs, and of those the one that did.
        """
        await self.require_github(reference.host)
        if reference.dead_runner:
            return await self.jobs_referred_to(JobReference(await self._job_of_death(reference)), org)
        scopes = await (self._scopes_of(reference.repository) if org is None else self._orgs(org))
        by_id = defaultdict[int, list[Any]](list)
        for name in scopes:
            for job in await self._jobs_in(name, reference):
                by_id[job["job_id"]].append({"org": name, **job})
        if not by_id and reference.run_id is None and not reference.repository:
            return await self.jobs_referred_to(JobReference(run_id=reference.job_id, is_number=True), org)
        if not by_id:
            see = shell_command("ghapp", "jobs", "--org", scopes[0])
            near = await self._nearest_job(scopes, reference.run_id) if reference.is_number else ""
            raise UnknownWorkflowJobError(
                f"{', '.join(scopes)} {reference}: not known{near}; {KNOWN_JOBS}; see `{see}`"
            )
        return [max(each, key=_is_answered_there) for each in by_id.values()]

    async def _job_of_death(self, reference: JobReference) -> int:
        """Returns the id of the job that the runner of a death's page ran when it died, the latest one of its name."""
        scope, runner = reference.scope, reference.dead_runner
        death = await self._get(f"/v1/orgs/{path_segment(scope)}/deaths/{_part(runner)}")
        if death["job"] is None:
            see = shell_command("ghapp", "explain", scope, runner)
            raise UnknownWorkflowJobError(f"{scope} {runner}: no job is known that it ran when it died; see `{see}`")
        return int(death["job"]["id"])

    async def _nearest_job(self, scopes: Iterable[str], number: int | None) -> str:
        """Returns the one known job whose id differs in one digit, as the middle of a sentence; empty if several do.

        An organization may have hundreds of thousands of jobs; one page of each is asked for.
        """
        pages = [await self._get(f"/v1/orgs/{path_segment(org)}/jobs", {"limit": PAGE}) for org in scopes]
        known = [each["job_id"] for page in pages for each in page["jobs"]]
        ids = {each for each in known if edit_distance(str(each), str(number), 1) == 1}
        return f" (did you mean {ids.pop()}?)" if len(ids) == 1 else ""

    async def require_github(self, host: str) -> None:
        """Raises UnknownWorkflowJobError if a host (empty: none) is not that of the server's GitHub, or of its API."""
        if not host:
            return
        known = host_of((await self._get("/v1/orgs"))["github_url"])
        if host not in (known, f"www.{known}", f"api.{known}"):
            raise UnknownWorkflowJobError(f"the URL is of {host}, and the GitHub of this server is {known}")

    async def _jobs_in(self, org: str, reference: JobReference) -> list[Any]:
        path = f"/v1/orgs/{path_segment(org)}/jobs"
        if reference.job_id is None:
            return [each async for each in self._pages(path, "jobs", {"run_id": reference.run_id})]
        try:
            return [await self._get(f"{path}/{reference.job_id}")]
        except NoSuchObjectError:
            if not reference.is_check_run:
                return []
        return [each async for each in self._pages(path, "jobs", {"check_run": reference.job_id})]

    async def _scopes_of(self, repository: str) -> list[str]:
        """Returns the scopes whose runners may take a repository's jobs, as far as the token may read them.

        Raises:
            GhappError: it may read none; as of `_orgs` for the owner.
        """
        known = await self._orgs(None)
        others = [each for each in known if each.lower() == repository.lower()]
        others += [each for each in known if kind_of(each) is ScopeKind.ENTERPRISE]
        try:
            return [*await self._orgs(repository.partition("/")[0]), *others]
        except (UnknownOrgError, ConfigurationError):
            if not others:
                raise
            return others

    async def deaths(self, org: str | None, pool: str | None, cause: str | None, limit: int) -> list[Any]:
        """Returns the latest deaths, each with its `org`."""
        chosen = {name: value for name, value in (("pool", pool), ("cause", cause)) if value is not None}
        found: list[Any] = []
        for name in await self._orgs(org):
            mine: list[Any] = []
            async for each in self._pages(f"/v1/orgs/{path_segment(name)}/deaths", "deaths", chosen):
                if cause is not None or each["cause"] != Cause.CLEAN_EXIT:
                    mine.append({"org": name, **each})
                if len(mine) == limit:
                    break
            found += mine
        found.sort(key=lambda each: datetime.fromisoformat(each["at"]), reverse=True)
        return found[:limit]

    async def incidents(self, org: str | None, limit: int, *, is_open: bool) -> list[Any]:
        """Returns the incidents, each with its `org`: open ones, the latest begin first, then the latest end."""
        chosen = {"limit": min(limit, PAGE), "open": str(is_open).lower()}
        paths = [f"/v1/orgs/{path_segment(name)}/incidents" for name in await self._orgs(org)]
        documents = [await self._get(path, chosen) for path in paths]
        found = [{"org": document["org"], **each} for document in documents for each in document["incidents"]]
        found.sort(
            key=lambda each: (each["ended"] is None, datetime.fromisoformat(each["ended"] or each["began"])),
            reverse=True,
        )
        return found[:limit]

    async def changes(self, org: str | None, limit: int) -> list[Any]:
        """Returns the latest entries of the audit logs, each with its `org`, the latest first."""
        paths = [f"/v1/orgs/{path_segment(name)}/audit" for name in await self._orgs(org)]
        documents = [await self._get(path, {"limit": min(limit, PAGE)}) for path in paths]
        found = [{"org": document["org"], **each} for document in documents for each in document["entries"]]
        found.sort(key=lambda each: datetime.fromisoformat(each["at"]), reverse=True)
        return found[:limit]

    async def versions(self, org: str | None) -> list[Any]:
        """Returns the versions of the runner that run, each with its `org`."""
        found = [await self._get(f"/v1/orgs/{path_segment(name)}/versions") for name in await self._orgs(org)]
        return [{"org": document["org"], **each} for document in found for each in document["versions"]]

    async def dead_letters(self) -> list[dict[str, Any]]:
        """Returns the deliveries that were given up, oldest first."""
        return list((await self._get("/v1/deliveries/dead"))["deliveries"])

    async def findings(self) -> list[dict[str, Any]]:
        """Returns the doctor's findings about the server."""
        return list((await self._get("/v1/doctor"))["findings"])

    async def sweep(self, org: str | None, seconds: float) -> list[RemoteSweep]:
        """Asks for a sweep of each organization, and waits for the outcomes for at most `seconds` in all."""
        answers = [
            _json(await self._send("POST", f"/v1/orgs/{path_segment(name)}/sweep")) for name in await self._orgs(org)
        ]
        waiting = {each["org"]: each["sweep_id"] for each in answers}
        found = {name: RemoteSweep(name, NOT_YET.format(seconds), failed=True) for name in waiting}
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while waiting:
                    for name, sweep_id in [*waiting.items()]:
                        if (swept := await self._swept(name, sweep_id)) is not None:
                            found[name] = swept
                            del waiting[name]
                    await asyncio.sleep(SWEEP_POLL_SECONDS)
        return [*found.values()]

    async def _swept(self, org: str, sweep_id: str) -> RemoteSweep | None:
        """Returns the outcome of a sweep; None while it is not over."""
        try:
            answer = await self._get(f"/v1/orgs/{path_segment(org)}/sweeps/{_part(sweep_id)}")
        except NoSuchObjectError:
            return RemoteSweep(org, NO_OUTCOME, failed=True)
        return None if answer["outcome"] is None else RemoteSweep(org, answer["outcome"], answer["failed"])

    async def pause(self, org: str, pool: str | None, why: str | None, seconds: float | None) -> list[str]:
        """Pauses remediation, for a number of seconds or until a person resumes, or changes the pause that is running.

        Returns:
            Lines with the pause that is in effect.
        """
        (name,) = await self._orgs(org)
        pool = None if pool == ALL_POOLS else pool
        body = {"pool": pool, "why": why, "for_seconds": seconds}
        answer = await self._send("POST", f"/v1/orgs/{path_segment(name)}/pause", body=body)
        subject, end = _subject(name, pool), f"`{resume_command(name, pool)}` ends it"
        if answer.status_code == httpx.codes.CONFLICT:
            return [f"{subject}: {_detail(answer)}", end]
        document = _json(answer)
        done = f"{PAUSE_RESULTS.get(document['result'], 'pause changed')}: {subject}, {document['pause']['text']}"
        effect = "it requests nothing while the pause holds"
        paused = [each for each in await self._held(name) if pool in (None, each["pool"])]
        before = [f"before: {document['before']['text']}"] if document.get("before") else []
        return [done, *before, end, *_proving(name, paused, pool, effect)]

    async def resume(self, org: str, pool: str | None) -> list[str]:
        """Clears pauses and restarts stopped fuses; returns lines with the result and what is still in effect.

        The overview may be a second old, as another web replica has it: what this request ended is left out of it.
        """
        (name,) = await self._orgs(org)
        done = _json(await self._send("POST", f"/v1/orgs/{path_segment(name)}/resume", body={"pool": pool}))
        output = [
            f"resumed: {_subject(name, None if each['pool'] == ALL_POOLS else each['pool'])}, paused {each['text']}"
            for each in done["pauses"]
        ]
        output += [f"fuse restarted, now proving: {_fuse(name, each)}" for each in done["proving"]]
        output += [f"reaper restarted, now proving: {_fuse(name, each)}" for each in done["reaping"]]
        held = await self._held(name)
        ended = {"pause": done["ended"], "fuse stopped": done["proving"]}
        for each in held:
            if each["pool"] is not None or ALL_POOLS in ended.get(each["kind"], [ALL_POOLS]):
                continue
            end = resume_command(name, None if each["kind"] == "pause" else ALL_POOLS)
            output.append(f"still in effect: {each['kind']}, {name}, {each['text']}; `{end}`")
        others = [each for each in held if (each["pool"] or ALL_POOLS) not in done["proving"]]
        effect = f"it goes on, or stops, by itself: see `{shell_command('ghapp', 'runners', '--org', name)}`"
        return [*(output or ["nothing was paused or stopped"]), *_proving(name, others, pool, effect)]

    async def _held(self, org: str) -> list[Mapping[str, Any]]:
        """Returns the pauses, and the fuses that are not closed."""
        held: list[Mapping[str, Any]] = (await self._get(f"/v1/orgs/{path_segment(org)}/overview"))["held"]
        return held

    async def gate(self, org: str, pool: str) -> PoolGate:
        """Returns the gate of a pool that has shards."""
        (name,) = await self._orgs(org)
        overview = await self._get(f"/v1/orgs/{path_segment(name)}/overview")
        pools = {each["pool"]: each for each in overview["shard_pools"]}
        if pool not in pools:
            raise UnknownPoolError(no_shards(name, pool, overview["pool_names"], pools))
        found = pools[pool]
        return PoolGate(self, name, pool, found["min_online"], found["settle_seconds"], overview["sweep_seconds"])

    async def _orgs(self, org: str | None) -> list[str]:
        """Returns the org by its current name, or all that the token may read."""
        known: list[str] = (await self._get("/v1/orgs"))["orgs"]
        if org is None:
            return known
        for each in known:
            if each.lower() == org.lower():
                return [each]
        try:
            return [(await self._get(f"/v1/orgs/{path_segment(org)}/overview"))["org"]]  # by a former name
        except NoSuchObjectError:
            raise UnknownOrgError(no_such_org(org, known)) from None
        except ConfigurationError as error:
            if nearest(org, known) is None:
                raise
            raise ConfigurationError(f"{org}: {meant(org, known, 'the token reads')}") from error

    async def _pages(self, path: str, key: str, chosen: dict[str, Any] | None = None) -> AsyncIterator[Any]:
        """Yields the items of all pages of a list."""
        cursor: dict[str, str] = {}
        while True:
            page = await self._get(path, {**(chosen or {}), "limit": PAGE, **cursor})
            for each in page[key]:
                yield each
            if page["next_cursor"] is None:
                return
            cursor = {"cursor": page["next_cursor"]}

    async def _get(self, path: str, parameters: dict[str, Any] | None = None) -> Any:
        return _json(await self._send("GET", path, parameters))

    async def _send(
        self, method: str, path: str, parameters: dict[str, Any] | None = None, body: dict[str, Any] | None = None
    ) -> httpx.Response:
        """Returns the answer if it is 2xx or 409.

        Raises:
            ServerUnavailableError: no answer, or 5xx.
            ConfigurationError: the token or a value is rejected, or the address is another server's.
            NoSuchObjectError: 404.
        """
        url = str(self._client.base_url).rstrip("/")
        try:
            answer = await self._client.request(method, path, params=parameters, json=body)
        except httpx.TransportError as error:
            why = _why_no_answer(error)
            raise ServerUnavailableError(f"{url}: {why}; check GHAPP_URL") from None
        if answer.is_success or answer.status_code == httpx.codes.CONFLICT:
            return answer
        raise _error(answer, f"{url} answered {answer.status_code}: {_detail(answer)}")


def _why_no_answer(error: httpx.TransportError) -> str:
    """Returns why a request has no answer, in words; the libraries name sockets and lines of OpenSSL."""
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    text = str(error)
    if "WRONG_VERSION_NUMBER" in text:
        return "it does not speak TLS; with http:// it may"
    if text == "All connection attempts failed":
        return "nothing listens there, or the connection is refused"
    return text or "no connection"


def _error(answer: httpx.Response, message: str) -> GhappError:
    """Returns the error that an answer stands for."""
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return ConfigurationError(f"GHAPP_TOKEN: {message}")
    if answer.status_code == httpx.codes.NOT_FOUND and _detail(answer) in NO_ROUTE:
        return ConfigurationError(f"{message}: {answer.request.url.path}; check GHAPP_URL, or upgrade the server")
    if answer.has_redirect_location:
        where = answer.headers["Location"]
        to = f", to {where}" if "://" in where else ""
        return ConfigurationError(f"{message}{to}; GHAPP_URL is the address of the server, without the path of a page")
    if answer.status_code == httpx.codes.NOT_FOUND:
        return NoSuchObjectError(_detail(answer))
    if answer.status_code in (httpx.codes.BAD_REQUEST, httpx.codes.REQUEST_ENTITY_TOO_LARGE):
        return ConfigurationError(_detail(answer))
    return (
        ServerUnavailableError(message) if answer.is_server_error else ConfigurationError(f"{message}; check GHAPP_URL")
    )


def _detail(answer: httpx.Response) -> str:
    """Returns the `detail` of a problem document; the reason phrase of any other answer."""
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return answer.reason_phrase
    return str(detail)


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        raise ConfigurationError(f"{answer.request.url}: the answer is not JSON; check GHAPP_URL") from None


def _subject(org: str, pool: str | None) -> str:
    return org if pool is None else f"{org}, pool {pool}"


def _proving(org: str, held: Iterable[Mapping[str, Any]], pool: str | None, effect: str) -> Iterator[str]:
    """Returns the fuses in force for a pool, or for any, that neither wait for a person nor can be hurried."""
    for each in held:
        if each["kind"] == "fuse proving" and (pool in (None, ALL_POOLS) or each["pool"] in (None, pool)):
            subject = _fuse(org, each["pool"] or ALL_POOLS)
            yield f"fuse proving: {subject}, {each['text']}; {effect}"


def _fuse(org: str, pool: str) -> str:
    return f"{org}, all pools" if pool == ALL_POOLS else _subject(org, pool)


def _is_answered_there(job: Any) -> tuple[bool, bool]:
    """Sort key of the documents of one job in several scopes: the scope whose runner took it, else its organization."""
    is_taken, kind = job["runner"] is not None, kind_of(job["org"])
    return is_taken, (kind is ScopeKind.ORGANIZATION) is not is_taken


def _part(name: str) -> str:
    return quote(name, safe="")


def _has_failed(job: Mapping[str, Any]) -> bool:
    return job["death"] is not None or job["conclusion"] not in (None, "success", "skipped", "neutral")


def _nearest_runner(name: str, known: Collection[str]) -> str | None:
    """Returns the only runner of whose name another one is a part, else the most similar one; None without either."""
    having = {each for each in known if len(name) >= SHORTEST_PART and name.lower() in each.lower()}
    return having.pop() if len(having) == 1 else nearest(name, known, RUNNERS_ALIKE)


def _is_unserved(job: dict[str, Any]) -> bool:
    return job["why"] is not None and job["why"]["reason"] in UNSERVED


@dataclass(slots=True)
class PoolGate:
    """The gate of one pool's shards.

    Attributes:
        client: asks for its result.
        org: of the pool.
        pool: its name.
        min_online: runners that must be online, unless the command gives a number.
        settle_seconds: how long it must keep passing, unless the command gives a time; None: a single pass is enough.
        sweep_seconds: time between two lists of runners.
    """

    client: ApiClient
    org: str
    pool: str
    min_online: int
    settle_seconds: float | None
    sweep_seconds: float

    async def judge(self, request: GateRequest) -> Gate:
        """Returns the gate's result as of now; may be called repeatedly."""
        path = f"/v1/orgs/{path_segment(self.org)}/pools/{_part(self.pool)}/shards/{_part(request.shard)}/gate"
        parameters: dict[str, Any] = {"min_online": request.min_online, "failures": request.failures}
        parameters |= {"canary": str(request.canary).lower(), "expect_new": str(request.expect_new).lower()}
        if request.version is not None:
            parameters["version"] = request.version
        if request.changed:
            parameters["changed"] = request.changed
        if (run := request.provision) is not None:
            counts = f"{run.added},{run.changed},{run.destroyed},{run.destroyed_before}"
            parameters |= {} if run.added is None else {"provision": counts}
            parameters |= {"provision_error": run.errors[0]} if run.errors else {}
        if self.client.query_active is not None:
            await self.client.query_active(self.org, self.pool)
        try:
            found = await self.client._get(path, parameters)  # noqa: SLF001 - one adapter in two classes
        except NoSuchObjectError as error:
            raise ConfigurationError(str(error).replace("expect_new=true", "--expect-new")) from None
        observed = found["observed_at"]
        return Gate(
            found["pool"],
            found["shard"],
            cast("Role", found["role"]),
            tuple(Check(each["name"], each["passed"], each["text"], each["decides"]) for each in found["checks"]),
            tuple(NextStep(each["step"], each["why"]) for each in found["next"]),
            None if observed is None else datetime.fromisoformat(observed).timestamp(),
            check_url=found["check_url"],
        )
