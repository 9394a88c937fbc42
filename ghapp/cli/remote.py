"""The commands' reads and changes over HTTP, at `GHAPP_URL` with `GHAPP_TOKEN`; needs no Redis and no configuration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlsplit

import httpx

from ghapp.addresses import is_loopback
from ghapp.cli.backend import FleetDocuments, JobReference, ShardGate
from ghapp.cli.context import UnknownOrgError, no_such_org
from ghapp.cli.fleet_queries import unknown_runner
from ghapp.cli.gate_query import no_such_pool
from ghapp.cli.job_queries import unknown_job
from ghapp.cli.remediation_commands import pause_words
from ghapp.deaths.cause import Cause
from ghapp.errors import ConfigurationError, GhappError, ServerUnavailableError
from ghapp.gate.active_shard import Role
from ghapp.gate.judgement import Gate, GateRequest
from ghapp.gate.next_steps import NextStep
from ghapp.gate.shard_checks import Check
from ghapp.nearest_name import meant
from ghapp.report.jobs import JOB_STATES
from ghapp.report.overview import phantoms_of_runner
from ghapp.runners.verdict import Reason
from ghapp.tls import trusted
from ghapp.workflow_jobs.job import EVERY_JOB, JobSearch, PullReference
from ghapp.workflow_jobs.reason import UNSERVED

TIMEOUT_SECONDS = 30.0
PAGE = 1000
NO_ROUTE = "Not Found"
"""The detail of a 404 for a path that the server does not have; those of its own endpoints are sentences."""


SWEEP_POLL_SECONDS = 1.0
NOT_YET = "not swept within {:.0f} s; see `ghapp doctor`"
NO_OUTCOME = "a sweep is due; its outcome is not recorded, because too many sweeps were asked for within the hour"


class RemoteSweep(NamedTuple):
    """A sweep by the server: what it found and cost, or why it failed."""

    org: str
    outcome: str
    failed: bool


class RemoteNotFoundError(UnknownOrgError):
    """404: the server does not know the org, the pool, the shard, or the object of the request."""


@asynccontextmanager
async def connected(url: str, token: str | None) -> AsyncIterator[RemoteBackend]:
    """Yields the API at `url`.

    Raises:
        ConfigurationError: without a token, or if the token would cross a network unencrypted.
    """
    parts = urlsplit(url)
    if token is None:
        raise ConfigurationError("GHAPP_TOKEN: not set, though GHAPP_URL is; create one with `ghapp token create`")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigurationError("GHAPP_TOKEN: is not a token of `ghapp token create`")
    if parts.username is not None:  # httpx would send these in place of the token
        raise ConfigurationError("GHAPP_URL: must not contain a user or password; the token is in GHAPP_TOKEN")
    is_local = is_loopback(parts.hostname or "")
    if parts.scheme != "https" and not is_local:
        raise ConfigurationError("GHAPP_URL: http:// would send GHAPP_TOKEN unencrypted to another host; use https://")
    async with httpx.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
        timeout=TIMEOUT_SECONDS,
        verify=trusted(),
        trust_env=not is_local,  # a proxy must not see the token of a plain request
    ) as client:
        yield RemoteBackend(client, url)


class RemoteBackend:
    """Asks the API; see `ghapp.cli.backend.Backend`."""

    def __init__(self, client: httpx.AsyncClient, url: str) -> None:
        self._client = client
        self.page_url: str | None = url

    async def fleet(self, org: str | None) -> FleetDocuments:
        """Returns the runners, and what is known beside them."""
        found = FleetDocuments([], [], [], [], [])
        for name in await self._orgs(org):
            overview = await self._get(f"/v1/orgs/{_part(name)}/overview")
            found.runners.extend([each async for each in self._pages(f"/v1/orgs/{_part(name)}/runners", "runners")])
            found.phantoms.extend(overview["phantoms"])
            found.held.extend(overview["held"])
            found.pools.extend(overview["pools"])
            found.headlines.extend(overview["headlines"])
        found.runners.sort(key=lambda each: (each["org"], each["pool"] or "", each["name"] or ""))
        return found

    async def orgs(self) -> list[str]:
        """Returns the organizations that the token may read."""
        return await self._orgs(None)

    async def pools(self, org: str | None) -> set[str]:
        """Returns the names of the pools."""
        overviews = [await self._get(f"/v1/orgs/{_part(name)}/overview") for name in await self._orgs(org)]
        return {pool for overview in overviews for pool in overview["pool_names"]}

    async def runner_names(self, org: str | None) -> list[str]:
        """Returns the names of the runners as last known."""
        paths = [f"/v1/orgs/{_part(name)}/runners" for name in await self._orgs(org)]
        return [each["name"] for path in paths async for each in self._pages(path, "runners")]

    async def runner(self, org: str, name_or_id: str) -> dict[str, Any]:
        """Returns the health document of a runner with `death` and `phantoms`."""
        base = f"/v1/orgs/{_part(org)}"
        overview = await self._get(f"{base}/overview")  # 404 for an unknown org
        document = await self._get(f"{base}/runners/health", {"name": name_or_id})
        if document["reason"] == Reason.NEVER_OBSERVED and name_or_id.isdecimal() and int(name_or_id):
            document = await self._get(f"{base}/runners/{int(name_or_id)}/health")
        is_known = document["reason"] != Reason.NEVER_OBSERVED
        name = document["name"] if is_known else name_or_id
        phantoms = phantoms_of_runner(overview["phantoms"], name)
        try:
            runner_id = {"runner_id": document["runner_id"]} if is_known else {}
            death = await self._get(f"{base}/deaths/{_part(name)}", runner_id)
        except RemoteNotFoundError:
            if not is_known and not phantoms:
                raise GhappError(unknown_runner(org, name_or_id)) from None
            death = None
        if not is_known:
            document = {**document, "name": name, "runner_id": None if death is None else death["runner_id"]}
        return {**document, "death": death, "phantoms": phantoms}

    async def jobs(
        self, org: str | None, state: str | None, pool: str | None, search: JobSearch, pull: PullReference | None
    ) -> list[Any]:
        """Returns jobs, each with its `org`."""
        every: tuple[str, ...] = ("queued", "running") if search == EVERY_JOB and pull is None else JOB_STATES
        states = {"unserved": ("queued",), None: every}.get(state, (str(state),))
        given = {"pool": pool or "", "runner": search.runner, "sha": search.sha}
        given |= {} if pull is None else {"pull": f"{pull.repository}#{pull.number}"}
        chosen = {name: value for name, value in given.items() if value}
        found = [
            {"org": name, **job}
            for name in await self._orgs(org)
            for each in states
            async for job in self._pages(f"/v1/orgs/{_part(name)}/jobs", "jobs", {"state": each, **chosen})
        ]
        return [each for each in found if state != "unserved" or _is_unserved(each)]

    async def jobs_referred_to(self, org: str, reference: JobReference) -> list[Any]:
        """Returns the document of a job, or of each known job of a run."""
        path = f"/v1/orgs/{_part(org)}/jobs"
        (name,) = await self._orgs(org)
        if reference.job_id is None:
            found = [each async for each in self._pages(path, "jobs", {"run_id": reference.run_id})]
        else:
            await self._get(path, {"limit": 1})  # 404 for an unknown org
            try:
                found = [await self._get(f"{path}/{reference.job_id}")]
            except RemoteNotFoundError:
                found = []
        if not found:
            raise GhappError(unknown_job(org, reference))
        return [{"org": name, **each} for each in found]

    async def deaths(self, org: str | None, pool: str | None, cause: str | None, limit: int) -> list[Any]:
        """Returns the latest deaths, each with its `org`."""
        chosen = {name: value for name, value in (("pool", pool), ("cause", cause)) if value is not None}
        found: list[Any] = []
        for name in await self._orgs(org):
            mine: list[Any] = []
            async for each in self._pages(f"/v1/orgs/{_part(name)}/deaths", "deaths", chosen):
                if cause is not None or each["cause"] != Cause.CLEAN_EXIT:
                    mine.append({"org": name, **each})
                if len(mine) == limit:
                    break
            found += mine
        found.sort(key=lambda each: datetime.fromisoformat(each["at"]), reverse=True)
        return found[:limit]

    async def dead_letters(self) -> list[dict[str, Any]]:
        """Returns the deliveries that were given up, oldest first."""
        return list((await self._get("/v1/deliveries/dead"))["deliveries"])

    async def findings(self) -> list[dict[str, Any]]:
        """Returns the doctor's findings about the server."""
        return list((await self._get("/v1/doctor"))["findings"])

    async def sweep(self, org: str | None, seconds: float) -> list[RemoteSweep]:
        """Asks for a sweep of each organization, and waits for the outcomes for at most `seconds` in all."""
        answers = [_json(await self._send("POST", f"/v1/orgs/{_part(name)}/sweep")) for name in await self._orgs(org)]
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
            answer = await self._get(f"/v1/orgs/{_part(org)}/sweeps/{_part(sweep_id)}")
        except RemoteNotFoundError:
            return RemoteSweep(org, NO_OUTCOME, failed=True)
        return None if answer["outcome"] is None else RemoteSweep(org, answer["outcome"], answer["failed"])

    async def pause(self, org: str, pool: str | None, why: str | None, seconds: float | None) -> list[str]:
        """Pauses remediation; the token's name is recorded."""
        answer = await self._send(
            "POST", f"/v1/orgs/{_part(org)}/pause", body={"pool": pool, "why": why, "for_seconds": seconds}
        )
        subject, end = pause_words(org, pool)
        if answer.status_code == httpx.codes.CONFLICT:
            return [f"{subject}: {_detail(answer)}", f"{end} ends it"]
        return [f"paused: {subject}, {f'until {end}' if seconds is None else f'for {seconds:.0f} s or until {end}'}"]

    async def resume(self, org: str, pool: str | None) -> list[str]:
        """Clears pauses and restarts stopped fuses."""
        base = f"/v1/orgs/{_part(org)}"
        answer = await self._send("POST", f"{base}/resume", body={"pool": pool})
        done = _json(answer)
        held = (await self._get(f"{base}/overview"))["held"]
        output = [f"resumed: {pause_words(org, each)[0]}" for each in done["ended"]]
        output += [f"fuse restarted, now proving: {pause_words(org, each)[0]}" for each in done["proving"]]
        output += [f"still in effect: {each['kind']}, {org}, {each['text']}" for each in held if each["pool"] is None]
        return output or ["nothing was paused or stopped"]

    async def gate(self, org: str, pool: str) -> ShardGate:
        """Returns the gate of a pool that has shards."""
        overview = await self._get(f"/v1/orgs/{_part(org)}/overview")
        pools = {each["pool"]: each for each in overview["shard_pools"]}
        if pool not in pools:
            raise ConfigurationError(no_such_pool(org, pool, pools))
        found = pools[pool]
        return RemoteGate(self, org, pool, found["min_online"], found["settle_seconds"], overview["sweep_seconds"])

    async def _orgs(self, org: str | None) -> list[str]:
        """Returns the org by its current name, or all that the token may read."""
        known: list[str] = (await self._get("/v1/orgs"))["orgs"]
        if org is None:
            return known
        for each in known:
            if each.lower() == org.lower():
                return [each]
        try:
            return [(await self._get(f"/v1/orgs/{_part(org)}/overview"))["org"]]  # by a former name
        except RemoteNotFoundError:
            raise UnknownOrgError(no_such_org(org, known)) from None
        except ConfigurationError as error:
            raise ConfigurationError(f"{error}; {meant(org, known, 'it reads')}") from None

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
            ConfigurationError: the token or a value is rejected.
            RemoteNotFoundError: 404.
            GhappError: anything else.
        """
        url = self.page_url
        try:
            answer = await self._client.request(method, path, params=parameters, json=body)
        except httpx.TransportError as error:
            why = "no answer in time" if isinstance(error, httpx.TimeoutException) else str(error) or "no connection"
            raise ServerUnavailableError(f"{url}: {why}; check GHAPP_URL") from None
        if answer.is_success or answer.status_code == httpx.codes.CONFLICT:
            return answer
        raise _error(answer, f"{url} answered {answer.status_code}: {_detail(answer)}")


def _error(answer: httpx.Response, message: str) -> GhappError:
    """Returns the error that an answer stands for."""
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return ConfigurationError(f"GHAPP_TOKEN: {message}")
    if answer.status_code == httpx.codes.NOT_FOUND and _detail(answer) == NO_ROUTE:
        return GhappError(f"{message}: {answer.request.url.path}; check GHAPP_URL, or upgrade the server")
    if answer.status_code == httpx.codes.NOT_FOUND:
        return RemoteNotFoundError(_detail(answer))
    if answer.status_code in (httpx.codes.BAD_REQUEST, httpx.codes.REQUEST_ENTITY_TOO_LARGE):
        return ConfigurationError(_detail(answer))
    return ServerUnavailableError(message) if answer.is_server_error else GhappError(f"{message}; check GHAPP_URL")


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
        raise GhappError(f"{answer.request.url}: the answer is not JSON; check GHAPP_URL") from None


def _part(name: str) -> str:
    return quote(name, safe="")


def _is_unserved(job: dict[str, Any]) -> bool:
    return job["why"] is not None and job["why"]["reason"] in UNSERVED


@dataclass(slots=True)
class RemoteGate:
    """The gate of one pool's shards; see `ghapp.cli.backend.ShardGate`."""

    backend: RemoteBackend
    org: str
    pool: str
    min_online: int
    settle_seconds: float | None
    sweep_seconds: float

    async def judge(self, request: GateRequest) -> Gate:
        """Returns the gate's result as of now."""
        path = f"/v1/orgs/{_part(self.org)}/pools/{_part(self.pool)}/shards/{_part(request.shard)}/gate"
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
        found = await self.backend._get(path, parameters)  # noqa: SLF001 - one adapter in two classes
        observed = found["observed_at"]
        return Gate(
            found["pool"],
            found["shard"],
            cast("Role", found["role"]),
            tuple(Check(each["name"], each["passed"], each["text"], each["decides"]) for each in found["checks"]),
            tuple(NextStep(each["step"], each["why"]) for each in found["next"]),
            None if observed is None else datetime.fromisoformat(observed).timestamp(),
        )
