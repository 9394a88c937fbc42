"""The gate of a blue/green pool: whether a shard may take over, and what deploys report about their shards.

The answer of the pool's own command or URL is read from the store: this process runs no commands. The gate uses no
cached data: all its inputs are read from Redis, and while Redis is unavailable there is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Literal, TypedDict

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ghapp.gate.active_shard import Deploy, Role
from ghapp.gate.deploy_results import DeployReport, reported
from ghapp.gate.gate_checks import commit_of
from ghapp.gate.judgement import LONGEST_CHANGE, Gate, GateRequest, judge_gate
from ghapp.gate.shard_checks import unknown_shard
from ghapp.gate.shard_status import has_shards, is_shard
from ghapp.gate.terraform_log import LONGEST_ERROR, TerraformRun
from ghapp.gate.texts import no_shards
from ghapp.loading.views import load_shard_inputs, load_sources
from ghapp.queue.jobs import Enqueue, JobName, gates_key
from ghapp.report.documents import CheckDocument, StepDocument, Timestamp, gate_document, timestamp
from ghapp.settings import PoolSettings, Settings
from ghapp.store.audit import Trail
from ghapp.store.stores import Stores
from ghapp.web.api.record_change import ApiAudit
from ghapp.web.authentication import Authenticator
from ghapp.web.fleet_view import FleetReader, OrgState
from ghapp.web.gates import load_check_runs
from ghapp.web.operation import COUNT, TEXT, Answer, Clock, Handler, Operation, Parameter, problems
from ghapp.web.problems import problem
from ghapp.web.request_body import parse_json, read_body

LARGEST_BYTES = 16 * 1024
MOST_DIGITS = 7
MOST_DEATHS = 500
AHEAD_SECONDS = 300.0
"""Maximum lead of a deployer's clock over ours."""

TAKES = (
    '{"role": "active" or "inactive", "deployed_at": "2026-11-20T12:00:00Z", "ref": "v42", "provision": "2,0,1", '
    '"provision_error": "…"}, all but the role optional'
)
PROVISION = r"[0-9]{1,9},[0-9]{1,9},[0-9]{1,9}(,[0-9]{1,9})?"
"""The numbers of resources that a completed Terraform run added, changed and destroyed, and of those that earlier runs
destroyed and none added again.
"""

NOT_A_SHARD = "the name of a shard has letters and digits, . _ : - between them, and at most 100 characters"
PARAMETERS = {"min_online", "canary", "version", "expect_new", "failures", "provision", "provision_error", "changed"}
FLAGS = {"": False, "false": False, "0": False, "true": True, "1": True}


class GateAnswerCheck(CheckDocument):
    """One check of the gate; `decides` is false if it is only shown."""

    decides: bool


class GateAnswer(TypedDict):
    """Whether a shard may take over, judged by the list of runners of `observed_at` (null without one).

    `check_url`: the page of the check run "Runner gate" of the shard's last deploy; null without one.
    """

    pool: str
    shard: str
    passed: bool
    role: Role
    checks: list[GateAnswerCheck]
    next: list[StepDocument]
    check_url: str | None
    observed_at: Timestamp | None


def gate_answer(gate: Gate) -> GateAnswer:
    """Returns the gate's document, with what a client needs that waits until the gate has passed for long enough."""
    document = gate_document(gate)
    return {
        "pool": document["pool"],
        "shard": document["shard"],
        "passed": document["passed"],
        "role": document["role"],
        "checks": [
            {"name": each.name, "passed": each.passed, "text": each.text, "decides": each.decides}
            for each in gate.checks
        ],
        "next": document["next"],
        "check_url": document["check_url"],
        "observed_at": None if gate.observed_at is None else timestamp(gate.observed_at),
    }


def _provision(counts: str | None, error: str | None) -> TerraformRun | None:
    """Returns the Terraform run that the parameters describe; raises HTTPException if they are invalid."""
    if counts is not None and not re.fullmatch(PROVISION, counts, re.ASCII):
        raise HTTPException(400, "provision takes the numbers of resources added, changed and destroyed, like 2,0,1")
    if error is not None and not 0 < len(error) <= LONGEST_ERROR:
        raise HTTPException(400, f"provision_error takes a text of at most {LONGEST_ERROR} characters")
    if counts is None:
        return TerraformRun(errors=(error,)) if error is not None else None
    added, changed, destroyed, *before = map(int, counts.split(","))
    return TerraformRun(added, changed, destroyed, () if error is None else (error,), sum(before))


class DeployBody(msgspec.Struct, forbid_unknown_fields=True):
    """A deploy's report. Missing fields keep their value; a first deploy, or one of another ref, dates from now.

    `provision` has the numbers of resources that Terraform added, changed and destroyed, like `2,0,1`, and
    `provision_error` its first error; empty texts count as missing.
    """

    role: Literal["active", "inactive"]
    deployed_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    ref: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    provision: Annotated[str, msgspec.Meta(pattern=f"^({PROVISION})?$")] | None = None
    provision_error: Annotated[str, msgspec.Meta(max_length=LONGEST_ERROR)] | None = None


SHARD = "/v1/orgs/{org}/pools/{pool}/shards/{shard}"

GET_GATE = Operation(
    "GET",
    f"{SHARD}/gate",
    "Whether this shard may take over, judged once; `ghapp gate` can also wait. `provision` has the numbers of "
    "resources that the preceding Terraform run added, changed and destroyed, and of those that earlier runs destroyed "
    "and none added again; `provision_error` its first error; `changed` what was changed since the failure; `failures` "
    "how often in a row it failed, where no deploy is reported.",
    {200: Answer("Whether it passes, and the next steps.", GateAnswer), **problems(404)},
    "read",
    parameters=[
        Parameter("min_online", COUNT),
        Parameter("canary", {"type": "boolean", "default": False}),
        Parameter("version", TEXT),
        Parameter("expect_new", {"type": "boolean", "default": False}),
        Parameter("failures", COUNT),
        Parameter("provision", {"type": "string", "pattern": f"^{PROVISION}$"}),
        Parameter("provision_error", {"type": "string", "minLength": 1, "maxLength": LONGEST_ERROR}),
        Parameter("changed", {"type": "string", "minLength": 1, "maxLength": LONGEST_CHANGE}),
    ],
)
REPORT_DEPLOY = Operation(
    "PUT",
    SHARD,
    "Report a deploy to this shard. Missing fields keep their value; another `ref` is a new deploy, dated now. Where "
    'the pool names a `deploy_repository` and `ref` is a commit, the check run "Runner gate" is updated on that commit '
    "until the shard passes.",
    {204: Answer("Recorded; a new report replaces an earlier one."), **problems(404, 413)},
    "claim",
    body=DeployBody,
)
OPERATIONS = (GET_GATE, REPORT_DEPLOY)


class GateEndpoints:
    """The endpoints."""

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        reader: FleetReader,
        authenticator: Authenticator,
        enqueue: Enqueue,
        clock: Clock,
    ) -> None:
        self._settings, self._reader, self._authenticator = settings, reader, authenticator
        self._enqueue, self._clock = enqueue, clock
        self._stores, self._shards = stores, stores.shards
        self._audit = ApiAudit(stores.audit, authenticator, clock)

    def handlers(self) -> Mapping[Operation, Handler]:
        """Returns both handlers."""
        return {GET_GATE: self._judge, REPORT_DEPLOY: self._record_deploy}

    async def _judge(self, request: Request) -> Response:
        """Answers whether this shard may take over."""
        org, shard, now = request.path_params["org"], request.path_params["shard"], self._clock()
        org_state = await self._reader.installed(org)
        pool = await self._pool(org_state, request.path_params["pool"])
        if not is_shard(shard):
            return problem(400, NOT_A_SHARD)
        query = request.query_params
        if set(query) - PARAMETERS or len(query.multi_items()) > len(query):
            return problem(400, f"the gate takes {', '.join(sorted(PARAMETERS))}, each once; it ignores no parameter")
        if query.get("version") == "":
            return problem(400, "version takes a version, like 2.336.0; leave it out for any version")
        least, canary = query.get("min_online", str(pool.min_online)), query.get("canary", "").lower()
        if not _is_count(least):
            return problem(400, f"min_online takes a whole number of 1 or more, of {MOST_DIGITS} digits at most")
        new, failures = query.get("expect_new", "false").lower(), query.get("failures", "1")
        if canary not in FLAGS or new not in FLAGS:
            return problem(400, f"{'expect_new' if canary in FLAGS else 'canary'} takes true or false")
        if not _is_count(failures):
            return problem(400, f"failures takes a whole number of 1 or more, of {MOST_DIGITS} digits at most")
        provision, change = _provision(query.get("provision"), query.get("provision_error")), query.get("changed", "")
        if len(change) > LONGEST_CHANGE or ("changed" in query and not change.strip()):
            return problem(400, f"changed takes what was changed, in {LONGEST_CHANGE} characters at most")
        gate_request = GateRequest(
            shard, int(least), query.get("version"), FLAGS[canary], provision, FLAGS[new], int(failures), change
        )
        known = await load_shard_inputs(self._stores, org_state.installation, self._settings, pool, now)
        sources = await load_sources(self._stores, org_state.installation, pool)
        if not gate_request.expect_new and (why := unknown_shard(shard, known, sources.deploys, sources.answer)):
            return problem(404, why.replace("--expect-new", "expect_new=true"))
        plain = GateRequest(shard, pool.min_online)
        await self._shards.record_result(org_state.installation.id, plain, known, sources, now)
        gate = judge_gate(gate_request, known, sources, now)
        check_runs = await load_check_runs(
            self._stores, org_state.installation, self._settings.web_url, pool, sources.deploys
        )
        if (check_run := check_runs.get(shard.lower())) is not None:
            gate = replace(gate, check_url=check_run.url)
        return Response(msgspec.json.encode(gate_answer(gate)), media_type="application/json")

    async def _record_deploy(self, request: Request) -> Response:
        """Records a deploy's report about its shard."""
        org, shard, now = request.path_params["org"], request.path_params["shard"].lower(), self._clock()
        report = parse_json(DeployBody, await read_body(request, LARGEST_BYTES), TAKES)
        org_state = await self._reader.installed(org)
        pool = await self._pool(org_state, request.path_params["pool"])
        if not is_shard(shard):
            return problem(400, NOT_A_SHARD)
        at = None if report.deployed_at is None else report.deployed_at.timestamp()
        if at is not None and not 0 < at <= now + AHEAD_SECONDS:
            when = "in the future" if at > 0 else "before 1970"
            return problem(400, f"deployed_at is {when}; it takes the time when the shard was deployed")
        by = await self._authenticator.who(request)
        installation, former = (
            org_state.installation.id,
            await self._shards.deploys(org_state.installation.id, pool.name),
        )
        provision = _provision(report.provision or None, report.provision_error or None)
        deploy = DeployReport(shard, Role(report.role), at, report.ref, by, provision)
        subject = f"{pool.name}/{shard} as {deploy.role}"
        async with self._audit.change(request, installation, "deploy", subject, trail=Trail.CONTROLLERS) as outcome:
            recorded = await self._shards.record(installation, pool.name, lambda last: reported(last, deploy, now))
            outcome.has_effect = not any(_is_same(each, recorded) for each in former)
        if pool.deploy_repository and commit_of(recorded.ref):  # if this job is lost, the clock enqueues another
            await self._enqueue(JobName.GATE, installation, key=gates_key(installation), retry=False)
        return Response(status_code=204)

    async def _pool(self, org_state: OrgState, name: str) -> PoolSettings:
        """Returns a configured pool with shards; raises HTTPException for other pools, whose shards are unknown."""
        org = org_state.installation.org
        known = {pool.name: pool for pool in self._settings.pools_of(org) if has_shards(pool)}
        if name in known:
            return known[name]
        raise HTTPException(404, no_shards(org, name, await self._reader.pools(org_state), known))


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS and int(text) >= 1


def _is_same(one: Deploy, other: Deploy) -> bool:
    """True if a report repeats another one."""
    return (one.shard, one.role, one.deployed_at, one.ref) == (other.shard, other.role, other.deployed_at, other.ref)
