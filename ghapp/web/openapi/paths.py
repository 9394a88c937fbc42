"""Every path of the API, surface by surface."""

from __future__ import annotations

from ghapp.web.openapi.operations import answer, call, empty, header, problems, query, unguarded
from ghapp.web.openapi.schemas import (
    BUSY,
    COUNT,
    NONEMPTY,
    POOL,
    RUNNER_ID,
    TEXT,
    TOLD,
    Schema,
    array_of,
    nullable,
    object_of,
    ref,
    takes,
)

RUNNERS = "/v1/orgs/{org}/runners"
ID, NAME = "runner_id", "name"


def paths() -> Schema:
    """All of them, in the order in which people read."""
    return _runners() | _orgs() | _shards() | _service()


def _runners() -> Schema:
    """Health, the fleet, and what controllers say of single runners."""
    health, one = ref("Health"), answer("The health document.", ref("Health"))
    page_of = object_of(runners=array_of(health), total=COUNT, healed=COUNT, next_cursor=nullable({"type": "string"}))
    at_once = {"maxItems": 1000}
    batch = takes(ids=array_of(RUNNER_ID) | at_once, names=array_of(NONEMPTY) | at_once)
    filters = [
        query("state", ref("State")),
        query("pool", {"type": "string"}),
        query("healed", {"type": "boolean"}),
        query("limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
        query("cursor", {"type": "string", "pattern": "^[0-9]{1,18}$"}),
        header("If-None-Match"),
    ]
    unchanged = {"304": {"description": "Nothing but their age has changed."}}
    probe = {
        "200": {"description": "Alive, or not known."},
        "410": {"description": "Invalidated, and being replaced: end the pod."},
    }
    return {
        f"{RUNNERS}/{{{ID}}}/health": {"get": call("One runner. Never seen is `unknown`, not 404.", "read", one, [ID])},
        f"{RUNNERS}/health": {
            "get": call("One runner, by name.", "read", one, [], [query("name", NONEMPTY, required=True)]),
            "post": call(
                "Up to 1,000 runners, in the order asked, ids first.",
                "read",
                answer("The documents.", object_of(runners=array_of(health))) | problems(413),
                body=batch,
            ),
        },
        RUNNERS: {
            "get": call(
                "The fleet, by id, in pages. `total` is how many match, `healed` how many of those are invalidated and "
                "have their replacement accepted; with `healed=false` these are left out.",
                "read",
                answer("A page.", page_of) | unchanged,
                [],
                filters,
            )
        },
        f"{RUNNERS}/{{{ID}}}": {
            "delete": call("Say that this runner was removed on purpose.", "claim", empty(204, "It is retired."), [ID])
        },
        f"{RUNNERS}/{{{ID}}}/replaced": {
            "post": call("Say that its replacement is on its way.", "claim", empty(204, "Recorded."), [ID])
        },
        f"{RUNNERS}/{{{ID}}}/check": {
            "post": call("Look now, within the budget.", "read", empty(202, "Asked for.") | problems(404), [ID])
        },
        f"{RUNNERS}/{{{NAME}}}/alive": {
            "get": call("For a livenessProbe. Fails open.", None, probe, [NAME]),
        },
    }


def _orgs() -> Schema:
    """What happens in an org, and what is said of its pods and pools."""
    stream = {"200": {"description": "CloudEvents.", "content": {"text/event-stream": {}}}} | problems(404)
    return {
        "/v1/orgs/{org}/events": {
            "get": call("What happens, as server-sent CloudEvents.", "read", stream, [], [header("Last-Event-ID")])
        },
        "/v1/orgs/{org}/demand": {
            "get": call(
                "Jobs by pool, and those nobody can take.",
                "read",
                answer("The demand.", ref("Demand")) | problems(404),
            )
        },
        "/v1/orgs/{org}/claims/{pod}": {
            "put": call(
                "Say that this pod is busy, for so many seconds: its runner is not replaced, and it is not reaped. "
                "`runner_name`, when it is not the pod's, and `job_id` may be left out.",
                "claim",
                empty(204, "It is claimed; asked again, the last word holds.") | problems(404, 413, 507),
                ["pod"],
                body=BUSY,
            ),
            "delete": call(
                "Give it back.", "claim", empty(204, "It is not claimed, nor perhaps was.") | problems(404), ["pod"]
            ),
        },
        "/v1/orgs/{org}/deaths/{runner_name}": {
            "get": call(
                "How a runner of that name ended last, in the last 30 days.",
                "read",
                answer("The post-mortem.", ref("Death"))
                | problems(404, because="Nobody of that name has died, or the App is not installed there."),
                ["runner_name"],
            )
        },
        "/v1/orgs/{org}/pause": {
            "post": call(
                "Stop remediation, of a pool or of the whole org.",
                "admin",
                empty(204, "Nothing more is done there.")
                | problems(404, 413)
                | problems(409, because="It is paused already, by whom and why `detail` says; that pause holds."),
                body=takes("why", pool=nullable(POOL), why={"type": "string", "minLength": 1, "maxLength": 500}),
            )
        },
        "/v1/orgs/{org}/resume": {
            "post": call(
                "Let it go on: pauses end, stopped fuses prove anew.",
                "admin",
                answer("What ended, and which pools prove.", object_of(ended=array_of(TEXT), proving=array_of(TEXT)))
                | problems(404, 413),
                body=takes(pool=nullable(POOL)),
            )
        },
    }


def _shards() -> Schema:
    """The gate."""
    return {
        "/v1/orgs/{org}/pools/{pool}/shards/{shard}/gate": {
            "get": call(
                "May this shard take over. It is one look; `ghapp gate` also waits.",
                "read",
                answer("Whether it passes, and what to do next.", ref("Gate")) | problems(404),
                ["pool", "shard"],
                [
                    query("min_online", {"type": "integer", "minimum": 1, "maximum": 9_999_999}),
                    query("canary", {"type": "boolean", "default": False}),
                    query("version", TEXT),
                    query("expect_new", {"type": "boolean", "default": False}),
                    query("failures", {"type": "integer", "minimum": 1, "maximum": 9_999_999}),
                ],
            )
        },
        "/v1/orgs/{org}/pools/{pool}/shards/{shard}": {
            "put": call(
                "Say what a deploy made of this shard. What is left out stays as it was told last; another `ref` is a "
                "deploy of now. Where the pool names a `deploy_repository` and `ref` is a commit, the check run "
                '"Runner gate" follows on that commit until the shard passes.',
                "claim",
                empty(204, "Recorded; the last word holds.") | problems(404, 413),
                ["pool", "shard"],
                body=TOLD,
            )
        },
    }


def _service() -> Schema:
    """What needs no token."""
    return {
        "/webhook": {"post": _webhook()},
        "/livez": {"get": unguarded("Is the process alive.", answer("Yes.", {"type": "object"}))},
        "/readyz": {
            "get": unguarded("Is what it needs there.", answer("Yes.", ref("Ready")) | answer("No.", ref("Ready"), 503))
        },
        "/metrics": {
            "get": unguarded(
                "For Prometheus.", {"200": {"description": "Metrics.", "content": {"text/plain": {}}}} | problems(503)
            )
        },
    }


def _webhook() -> Schema:
    headers = ["X-GitHub-Event", "X-GitHub-Delivery", "X-Hub-Signature-256"]
    payload = {"schema": {"type": "object"}}
    return unguarded("GitHub's deliveries.", empty(202, "It is durable.") | problems(400, 401, 413, 503)) | {
        "parameters": [header(name, required=True) for name in headers],
        "requestBody": {"content": {"application/json": payload, "application/x-www-form-urlencoded": payload}},
    }
