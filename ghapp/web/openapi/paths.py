"""The paths of the API, by subject."""

from __future__ import annotations

from ghapp.gate.judgement import LONGEST_CHANGE
from ghapp.gate.terraform_log import LONGEST_ERROR
from ghapp.report.documents import DeathDocument, HealthDocument
from ghapp.report.history import HistoryDocument
from ghapp.report.jobs import JOB_STATES, JobDocument
from ghapp.report.overview import OverviewDocument
from ghapp.runners.verdict import State
from ghapp.web.api.claims import ClaimBody
from ghapp.web.api.deaths import CAUSES, CURSOR, DeathsPage
from ghapp.web.api.demand import DemandDocument
from ghapp.web.api.doctor import DoctorDocument
from ghapp.web.api.gate import PROVISION, DeployBody, GateAnswer
from ghapp.web.api.health import Batch, BatchResult, RunnersPage
from ghapp.web.api.jobs import JobsPage
from ghapp.web.api.overview import DeadDeliveries, OrgsDocument
from ghapp.web.api.remediation import PauseBody, ResumeBody, ResumeResult, SweepOutcome, SweepRequested
from ghapp.web.api.status import LiveDocument, ReadyDocument
from ghapp.web.openapi.operations import (
    NONEMPTY,
    RUNNER_ID,
    TEXT,
    answer,
    call,
    empty,
    header,
    problems,
    query,
    unguarded,
)
from ghapp.web.openapi.schemas import Schema, ref
from ghapp.workflow_jobs.job import SHORTEST_SHA

RUNNERS = "/v1/orgs/{org}/runners"
ID, NAME = "runner_id", "name"

PULL = "^([A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}#[1-9][0-9]{0,9})?$"
"""A pull request, or nothing."""


def paths() -> Schema:
    """Returns all paths, in reading order."""
    return _runners() | _jobs() | _orgs() | _history() | _remediation() | _shards() | _service()


def _runners() -> Schema:
    """Health of runners, the fleet, and reports of controllers about runners."""
    one = answer("The health document.", HealthDocument)
    filters = [
        query("state", ref(State)),
        query("pool", TEXT),
        query("healed", {"type": "boolean"}),
        query("limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
        query("cursor", {"type": "string", "pattern": "^[0-9]{1,18}$"}),
        header("If-None-Match"),
    ]
    unchanged = {"304": {"description": "Only ages have changed."}}
    probe = {
        "200": {"description": "Alive, or unknown."},
        "410": {"description": "Invalidated, and being replaced: stop the pod."},
    }
    return {
        f"{RUNNERS}/{{{ID}}}/health": {
            "get": call("One runner. Unknown runners are `unknown`, not 404.", "read", one, [ID])
        },
        f"{RUNNERS}/health": {
            "get": call("One runner, by name.", "read", one, [], [query("name", NONEMPTY, required=True)]),
            "post": call(
                "Up to 1,000 runners, in the order asked, ids first.",
                "read",
                answer("The documents.", BatchResult) | problems(413),
                body=Batch,
            ),
        },
        RUNNERS: {
            "get": call(
                "The fleet, by id, in pages. `total` counts the matches, `healed` those invalidated whose "
                "replacement was accepted; `healed=false` leaves these out.",
                "read",
                answer("A page.", RunnersPage) | unchanged,
                [],
                filters,
            )
        },
        f"{RUNNERS}/{{{ID}}}": {
            "delete": call(
                "Report that this runner was removed on purpose.", "claim", empty(204, "It is retired."), [ID]
            )
        },
        f"{RUNNERS}/{{{ID}}}/replaced": {
            "post": call("Report that its replacement was requested.", "claim", empty(204, "Recorded."), [ID])
        },
        f"{RUNNERS}/{{{ID}}}/check": {
            "post": call("Check it now, within the budget.", "read", empty(202, "Queued.") | problems(404, 429), [ID])
        },
        f"{RUNNERS}/{{{NAME}}}/alive": {
            "get": call("For a livenessProbe. Fails open.", None, probe, [NAME]),
        },
    }


def _jobs() -> Schema:
    """Workflow jobs."""
    filters = [
        query("state", {"type": "string", "enum": list(JOB_STATES)}),
        query("pool", TEXT),
        query("runner", TEXT),
        query("sha", {"type": "string", "pattern": f"^([0-9a-fA-F]{{{SHORTEST_SHA},64}})?$"}),
        query("run_id", RUNNER_ID),
        query("pull", {"type": "string", "pattern": PULL}),
        query("limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
        query("cursor", {"type": "string", "pattern": "^[0-9]{1,18}$"}),
        header("If-None-Match"),
    ]
    return {
        "/v1/orgs/{org}/jobs": {
            "get": call(
                "Jobs, by id, in pages: queued, running, and those that ended within the last hour (the latest 5,000); "
                "with `runner`, `sha` (a commit, or its first digits), `run_id` or `pull` (`OWNER/REPOSITORY#NUMBER`) "
                "those of the last 30 days. "
                "`why` is the reason why a queued job waits; null in its first minute while a runner is idle.",
                "read",
                answer("A page.", JobsPage) | problems(404) | {"304": {"description": "Nothing has changed."}},
                [],
                filters,
            )
        },
        "/v1/orgs/{org}/jobs/{job_id}": {
            "get": call(
                "One job and its story: queued, running, or over for less than 30 days.",
                "read",
                answer("The job.", JobDocument)
                | problems(404, because="No delivery reported the job, or the App is not installed there."),
                ["job_id"],
            )
        },
    }


def _orgs() -> Schema:
    """Events of an org, its demand, pod claims and deaths."""
    stream = {"200": {"description": "CloudEvents.", "content": {"text/event-stream": {}}}} | problems(404, 429)
    return {
        "/v1/orgs/{org}/events": {
            "get": call("Events as server-sent CloudEvents.", "read", stream, [], [header("Last-Event-ID")])
        },
        "/v1/orgs": {
            "get": {
                "summary": "The organizations where the App is installed and that the token may read.",
                "responses": answer("Their names.", OrgsDocument) | problems(401, 503),
                "security": [{"bearer": []}],
            }
        },
        "/v1/orgs/{org}/overview": {
            "get": call(
                "An organization without its runners: pauses and fuses, queues of the pools, phantoms, namespaces "
                "that are not being watched, and the pools with shards.",
                "read",
                answer("The overview.", OverviewDocument) | problems(404),
            )
        },
        "/v1/deliveries/dead": {
            "get": {
                "summary": "Deliveries that were given up. They may be of any organization, so the token needs the "
                "scope `admin` for each organization where the App is installed.",
                "responses": answer("The deliveries.", DeadDeliveries) | problems(401, 403, 503),
                "security": [{"bearer": []}],
            }
        },
        "/v1/doctor": {
            "get": {
                "summary": "The checks of `ghapp doctor`, as the web role of this server makes them. They may concern "
                "any organization, so the token needs the scope `admin` for each where the App is installed.",
                "responses": answer("The findings.", DoctorDocument) | problems(401, 403, 503),
                "security": [{"bearer": []}],
            }
        },
        "/v1/orgs/{org}/demand": {
            "get": call(
                "Jobs by pool, and jobs that no runner can take.",
                "read",
                answer("The demand.", DemandDocument) | problems(404),
            )
        },
        "/v1/orgs/{org}/claims/{pod}": {
            "put": call(
                "Claim a pod as busy for `ttl_seconds`: its runner is not replaced, and the pod is not reaped. "
                "`runner_name` (default: the pod's name) and `job_id` are optional.",
                "claim",
                empty(204, "The pod is claimed; a new claim replaces an earlier one.") | problems(404, 413, 507),
                ["pod"],
                body=ClaimBody,
            ),
            "delete": call(
                "Release a claim.",
                "claim",
                empty(204, "The pod is not claimed, or never was.") | problems(404),
                ["pod"],
            ),
        },
        "/v1/orgs/{org}/deaths": {
            "get": call(
                "Deaths of runners of the last 30 days, newest first, in pages.",
                "read",
                answer("A page.", DeathsPage) | problems(404),
                [],
                [
                    query("pool", TEXT),
                    query("cause", {"type": "string", "enum": list(CAUSES)}),
                    query("limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
                    query("cursor", {"type": "string", "pattern": f"^{CURSOR}$"}),
                ],
            )
        },
        "/v1/orgs/{org}/deaths/{runner_name}": {
            "get": call(
                "The latest death of a runner of that name, in the last 30 days; with `runner_id` only if that runner "
                "died, and not an earlier one of the same name.",
                "read",
                answer("The post-mortem.", DeathDocument)
                | problems(404, because="No such death was recorded, or the App is not installed there."),
                ["runner_name"],
                [query("runner_id", RUNNER_ID)],
            )
        },
    }


def _history() -> Schema:
    """Rollups."""
    moment = {"type": "string", "format": "date-time"}
    return {
        "/v1/orgs/{org}/history": {
            "get": call(
                "Rollups of a pool, or of all: for each step runners by state, busy runners, queued jobs, runners lost "
                "and healed with the sum of the seconds it took, jobs taken with the sum of the seconds that they "
                "waited, deaths by cause, and calls spent (of all pools only). The last day by default. Steps of 300 s "
                "are kept for a week, of 3600 s for 90 days; the default is 300 s up to two days. A span is cut to "
                "what is kept and to its latest 2,304 steps. A step that no complete sweep covers is null.",
                "read",
                answer("The columns, one value for each step from `begin` to before `end`.", HistoryDocument)
                | problems(404, because="The App is not installed there, or no such pool has a history.")
                | {"304": {"description": "Nothing has changed."}},
                [],
                [
                    query("pool", TEXT),
                    query("from", moment),
                    query("to", moment),
                    query("step", {"type": "integer", "enum": [300, 3600]}),
                    header("If-None-Match"),
                ],
            )
        }
    }


def _remediation() -> Schema:
    """Pause and resume."""
    return {
        "/v1/orgs/{org}/pause": {
            "post": call(
                "Stop remediation, of a pool or of the whole org, or put off the end of a pause that is running.",
                "admin",
                empty(204, "Remediation is paused there.")
                | problems(404, 413)
                | problems(409, because="Already paused, by whom and why is in `detail`; that pause stays in effect."),
                body=PauseBody,
            )
        },
        "/v1/orgs/{org}/resume": {
            "post": call(
                "Clear pauses and restart stopped fuses, which then prove that replacements work.",
                "admin",
                answer("The pauses cleared, and the pools now proving.", ResumeResult) | problems(404, 413),
                body=ResumeBody,
            )
        },
        "/v1/orgs/{org}/sweep": {
            "post": call(
                "Sweep now: a worker lists the runners, judges them, and acts as the mode says, within the budget.",
                "admin",
                answer("A sweep is due.", SweepRequested, 202) | problems(404, 413),
            )
        },
        "/v1/orgs/{org}/sweeps/{sweep_id}": {
            "get": call(
                "What a sweep that was asked for within the hour found and cost.",
                "read",
                answer("Its outcome; null while it is not over.", SweepOutcome) | problems(404),
                ["sweep_id"],
            )
        },
    }


def _shards() -> Schema:
    """The gate."""
    return {
        "/v1/orgs/{org}/pools/{pool}/shards/{shard}/gate": {
            "get": call(
                "Whether this shard may take over, judged once; `ghapp gate` can also wait. `provision` has the "
                "numbers of resources that the preceding Terraform run added, changed and destroyed, and of those that "
                "earlier runs destroyed and none added again; `provision_error` its first error; `changed` what was "
                "changed since the failure; `failures` how often in a row it failed, where no deploy is reported.",
                "read",
                answer("Whether it passes, and the next steps.", GateAnswer) | problems(404),
                ["pool", "shard"],
                [
                    query("min_online", {"type": "integer", "minimum": 1, "maximum": 9_999_999}),
                    query("canary", {"type": "boolean", "default": False}),
                    query("version", TEXT),
                    query("expect_new", {"type": "boolean", "default": False}),
                    query("failures", {"type": "integer", "minimum": 1, "maximum": 9_999_999}),
                    query("provision", {"type": "string", "pattern": f"^{PROVISION}$"}),
                    query("provision_error", {"type": "string", "minLength": 1, "maxLength": LONGEST_ERROR}),
                    query("changed", {"type": "string", "minLength": 1, "maxLength": LONGEST_CHANGE}),
                ],
            )
        },
        "/v1/orgs/{org}/pools/{pool}/shards/{shard}": {
            "put": call(
                "Report a deploy to this shard. Missing fields keep their value; another `ref` is a new deploy, dated "
                "now. Where the pool names a `deploy_repository` and `ref` is a commit, the check run "
                '"Runner gate" is updated on that commit until the shard passes.',
                "claim",
                empty(204, "Recorded; a new report replaces an earlier one.") | problems(404, 413),
                ["pool", "shard"],
                body=DeployBody,
            )
        },
    }


def _service() -> Schema:
    """Endpoints that need no token."""
    return {
        "/webhook": {"post": _webhook()},
        "/livez": {"get": unguarded("Whether the process is alive.", answer("It is.", LiveDocument))},
        "/readyz": {
            "get": unguarded(
                "Whether its dependencies answer.",
                answer("They do.", ReadyDocument) | answer("They do not.", ReadyDocument, 503),
            )
        },
        "/metrics": {
            "get": unguarded(
                "Metrics for Prometheus, as text or, where `Accept` asks for it, in OpenMetrics' format.",
                {"200": {"description": "Metrics.", "content": {"text/plain": {}, "application/openmetrics-text": {}}}}
                | problems(503),
            )
        },
    }


def _webhook() -> Schema:
    headers = ["X-GitHub-Event", "X-GitHub-Delivery", "X-Hub-Signature-256"]
    payload = {"schema": {"type": "object"}}
    return unguarded("GitHub's deliveries.", empty(202, "The delivery is stored.") | problems(400, 401, 413, 503)) | {
        "parameters": [header(name, required=True) for name in headers],
        "requestBody": {"content": {"application/json": payload, "application/x-www-form-urlencoded": payload}},
    }
