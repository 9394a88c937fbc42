"""The documents of the API as JSON Schema."""

from __future__ import annotations

from typing import Any

from ghapp.health.deaths.cause import Cause
from ghapp.health.queue.reason import QueueReason

Schema = dict[str, Any]


def ref(name: str) -> Schema:
    """Returns a reference to one of `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def array_of(items: Schema) -> Schema:
    """Returns an array."""
    return {"type": "array", "items": items}


def object_of(**properties: Schema) -> Schema:
    """Returns an object with these properties."""
    return {"type": "object", "properties": properties}


def nullable(schema: Schema) -> Schema:
    """Returns the schema, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def takes(*required: str, **properties: Schema) -> Schema:
    """Returns a request body with these properties only, of which `required` are mandatory."""
    return object_of(**properties) | {"required": list(required), "additionalProperties": False}


def _complete(schema: Schema) -> Schema:
    """Makes all properties mandatory, and forbids others."""
    return schema | {"required": list(schema["properties"]), "additionalProperties": False}


TEXT: Schema = {"type": "string"}
NONEMPTY: Schema = {"type": "string", "minLength": 1}
MOST_ID = 10**18 - 1
RUNNER_ID: Schema = {"type": "integer", "minimum": 1, "maximum": MOST_ID}
POOL: Schema = {"type": "string", "minLength": 1, "maxLength": 200}
POD: Schema = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", "maxLength": 253}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
TIME: Schema = {"type": "string", "format": "date-time"}

QUEUE_REASON: Schema = {"type": "string", "enum": [each.value for each in QueueReason]}

EVIDENCE = _complete(
    object_of(at=TIME, source={"type": "string", "enum": ["list", "get", "delivery", "pod", "claim"]}, said=TEXT)
)
POOL_DEMAND = _complete(
    object_of(pool=TEXT, queued=COUNT, running=COUNT, online=COUNT, idle=COUNT, assigned=nullable(COUNT))
)
UNSERVED = _complete(
    object_of(
        job_id={"type": "integer"},
        repository=TEXT,
        labels=array_of(TEXT),
        queued_at=TIME,
        reason=QUEUE_REASON,
    )
)

CLAIM: Schema = takes(
    "ttl_seconds",
    ttl_seconds={"type": "number", "minimum": 1, "maximum": 86_400},
    runner_name=nullable({"type": "string", "maxLength": 253, "pattern": "^[^\\x00-\\x1f\\x7f]+$"}),
    job_id=nullable({"type": "integer", "minimum": 1, "maximum": MOST_ID}),
)
DEAD_JOB = _complete(
    object_of(
        id={"type": "integer"}, repository=TEXT, name=TEXT, head_sha=TEXT, conclusion=nullable(TEXT), html_url=TEXT
    )
)

CHECK = _complete(object_of(name=TEXT, passed=FLAG, said=TEXT))
STEP = _complete(object_of(step=TEXT, why=TEXT))
JOB_STATE: Schema = {"type": "string", "enum": ["queued", "running", "over"]}
WHY = _complete(
    object_of(
        reason=QUEUE_REASON,
        said=TEXT,
        since=TIME,
        ahead=nullable(COUNT),
        typical_wait_seconds=nullable({"type": "number", "minimum": 0}),
        next=array_of(STEP),
    )
)
DEPLOY: Schema = takes(
    "role",
    role={"type": "string", "enum": ["active", "inactive"]},
    deployed_at=nullable(TIME),
    ref=nullable({"type": "string", "maxLength": 200}),
)

INSTALLATION = _complete(
    object_of(
        org=TEXT,
        lacks=array_of(TEXT),
        calls_left=COUNT,
        next_sweep_at=nullable(TIME),
        prevented_by=nullable(TEXT),
        failing_since=nullable(TIME),
        failure=nullable(TEXT),
    )
)

SCHEMAS: Schema = {
    "Health": _complete(
        object_of(
            org=TEXT,
            runner_id=nullable({"type": "integer"}),
            name=nullable(TEXT),
            pool=nullable(TEXT),
            shard=nullable(TEXT),
            state=ref("State"),
            reason=ref("Reason"),
            since=nullable(TIME),
            replace=FLAG,
            healed=FLAG,
            observed_at=nullable(TIME),
            age_seconds=nullable({"type": "number", "minimum": 0}),
            stale=FLAG,
            fuse={"type": "string", "enum": ["closed", "proving", "stopped"]},
            paused=FLAG,
            evidence=array_of(EVIDENCE),
        )
    ),
    "Demand": _complete(
        object_of(org=TEXT, observed_at=nullable(TIME), pools=array_of(POOL_DEMAND), unserved=array_of(UNSERVED))
    ),
    "Job": _complete(
        object_of(
            job_id={"type": "integer"},
            run_id=nullable({"type": "integer"}),
            attempt={"type": "integer"},
            repository=TEXT,
            workflow=TEXT,
            name=TEXT,
            head_sha=TEXT,
            html_url=TEXT,
            labels=array_of(TEXT),
            pool=TEXT,
            state=JOB_STATE,
            queued_at=TIME,
            started_at=nullable(TIME),
            ended_at=nullable(TIME),
            conclusion=nullable(TEXT),
            runner=nullable(TEXT),
            why=nullable(WHY),
        )
    ),
    "Death": _complete(
        object_of(
            runner_name=TEXT,
            pod=TEXT,
            node=TEXT,
            at=TIME,
            exit_code=nullable({"type": "integer"}),
            signal=nullable({"type": "integer"}),
            reason=TEXT,
            cause={"type": "string", "enum": [each.value for each in Cause]},
            advice=TEXT,
            job=nullable(DEAD_JOB),
            runner_log=array_of(TEXT),
            host_log=array_of(TEXT),
        )
    ),
    "Gate": _complete(
        object_of(
            pool=TEXT,
            shard=TEXT,
            passed=FLAG,
            role={"type": "string", "enum": ["active", "inactive", "unknown"]},
            checks=array_of(CHECK),
            next=array_of(STEP),
        )
    ),
    "Ready": _complete(
        object_of(
            ready=FLAG,
            redis={"type": "string", "enum": ["ok", "away"]},
            installations=array_of(INSTALLATION),
        )
    ),
    "Problem": _complete(object_of(type=TEXT, title=TEXT, status={"type": "integer"}, detail=TEXT)),
}
